/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC timer as a function of time: divider, modes, clocks, catching up.
 * [APM2 16.4.1 APIC timer], [APM2 Table 16-3], [SDM3 10.5.4]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdio.h>

#include <cmocka.h>

#include "hw/timer.h"

#define GHZ   1000000000ull
#define NEVER UINT64_MAX

static const struct ae_timer_clock ghz = { .now_hz = GHZ,
                                           .bus_hz = GHZ,
                                           .tsc_hz = GHZ };

static struct ae_timer
timer_make(enum ae_timer_mode mode)
{
    struct ae_timer t = { .backlog = 0 };

    ae_timer_reset(&t);
    (void)ae_timer_set_mode(&ghz, &t, mode);
    ae_timer_set_divide(&ghz, &t, 0, 0xb);
    return t;
}

static void
test_divide(void **state)
{
    /* Bit 2 is reserved and does not count. */
    static const uint32_t divisors[16] = { 2,  4,  8,   16, 2,  4,  8,   16,
                                           32, 64, 128, 1,  32, 64, 128, 1 };

    (void)state;
    for (uint32_t tdcr = 0; tdcr < 16; tdcr++) {
        struct ae_timer t = timer_make(AE_TIMER_ONE_SHOT);

        ae_timer_set_divide(&ghz, &t, 0, tdcr);
        assert_true(ae_timer_set_initial(&ghz, &t, 0, 1000));
        assert_int_equal(t.deadline, 1000 * divisors[tdcr]);
        assert_int_equal(ae_timer_current(&ghz, &t, divisors[tdcr] - 1), 1000);
        assert_int_equal(ae_timer_current(&ghz, &t, divisors[tdcr]), 999);
    }
}

/* One row: rates and a count, and when it is over. */
struct rate_row {
    const char *name;
    uint64_t now_hz, bus_hz, start;
    uint32_t tdcr, count;
    uint64_t deadline;
};

static struct rate_row rate_rows[] = {
    { "rate: 1 GHz bus, nanoseconds", GHZ, GHZ, 0, 0xb, 1000, 1000 },
    { "rate: 100 MHz bus, nanoseconds", GHZ, GHZ / 10, 0, 0xb, 1000, 10000 },
    { "rate: 24 MHz crystal, divided by 16", GHZ, 24000000, 0, 0x3, 24, 16000 },
    { "rate: bus faster than the clock", 1000, GHZ, 0, 0xb, 1, 1 },
    { "rate: a third of a tick is rounded up", 3, 1, 0, 0xb, 1, 3 },
    { "rate: ratio 3:7", 3, 7, 0, 0xb, 7, 3 },
    { "rate: ratio 7:3", 7, 3, 0, 0xb, 3, 7 },
    { "rate: all ones by 128 at 1 GHz", GHZ, GHZ, 0, 0xa, 0xffffffff,
      549755813760ull },
    { "rate: the slowest bus", GHZ, 1, 0, 0xb, 5, 5 * GHZ },
    { "rate: the fastest of both", 1ull << 40, 1ull << 40, 0, 0xb, 9, 9 },
    { "rate: a late start", GHZ, GHZ, 1ull << 62, 0xb, 100,
      (1ull << 62) + 100 },
};

static void
test_rate(void **state)
{
    const struct rate_row *row = *state;
    struct ae_timer_clock c = { .now_hz = row->now_hz,
                                .bus_hz = row->bus_hz,
                                .tsc_hz = row->now_hz };
    struct ae_timer t = { .backlog = 0 };

    ae_timer_reset(&t);
    ae_timer_set_divide(&c, &t, row->start, row->tdcr);
    assert_true(ae_timer_set_initial(&c, &t, row->start, row->count));
    assert_int_equal(t.deadline, row->deadline);
    assert_int_equal(ae_timer_expire(&c, &t, row->deadline - 1), 0);
    assert_int_equal(ae_timer_expire(&c, &t, row->deadline), 1);
    assert_int_equal(t.deadline, NEVER);
    assert_int_equal(ae_timer_current(&c, &t, row->deadline), 0);
    assert_int_equal(ae_timer_expire(&c, &t, NEVER - 1), 0);
}

/* Missed ticks: a policy, a stall, and what is left of it. */
struct miss_row {
    const char *name;
    enum avicemu_missed_ticks policy;
    uint64_t now;      /* period 1000, armed at 0 */
    uint64_t ticks;    /* expiries accounted */
    uint64_t deadline; /* then */
    uint32_t backlog;
};

static struct miss_row miss_rows[] = {
    { "missed ticks: skip: in time", AVICEMU_MISSED_SKIP, 1000, 1, 2000, 0 },
    { "missed ticks: skip: a bit late keeps the grid", AVICEMU_MISSED_SKIP,
      1300, 1, 2000, 0 },
    { "missed ticks: skip: five missed", AVICEMU_MISSED_SKIP, 6500, 6, 7000,
      0 },
    { "missed ticks: skip: a billion missed", AVICEMU_MISSED_SKIP, 1000 * GHZ,
      GHZ, 1000 * GHZ + 1000, 0 },
    { "missed ticks: delay: a period from now", AVICEMU_MISSED_DELAY, 1300, 1,
      2300, 0 },
    { "missed ticks: delay: five missed", AVICEMU_MISSED_DELAY, 6500, 6, 7500,
      0 },
    { "missed ticks: burst: in time owes nothing", AVICEMU_MISSED_BURST, 1000,
      1, 2000, 0 },
    { "missed ticks: burst: owes what was missed", AVICEMU_MISSED_BURST, 4500,
      4, 5000, 3 },
    { "missed ticks: burst: owes max_burst at most", AVICEMU_MISSED_BURST,
      1000 * GHZ, GHZ, 1000 * GHZ + 1000, 8 },
};

static void
test_missed(void **state)
{
    const struct miss_row *row = *state;
    struct ae_timer_clock c = ghz;
    struct ae_timer t = timer_make(AE_TIMER_PERIODIC);

    c.missed_ticks = row->policy;
    c.max_burst = 8;
    assert_true(ae_timer_set_initial(&c, &t, 0, 1000));
    assert_int_equal(ae_timer_expire(&c, &t, row->now), row->ticks);
    assert_int_equal(t.deadline, row->deadline);
    assert_int_equal(t.backlog, row->backlog);
    assert_int_equal(ae_timer_expire(&c, &t, row->now), 0);
}

static void
test_periods_do_not_drift(void **state)
{
    /* A period of 1/3 tick of now, ten thousand of them. */
    struct ae_timer_clock c = { .now_hz = 1000, .bus_hz = 3000, .tsc_hz = 1 };
    struct ae_timer t = { .backlog = 0 };
    uint64_t ticks = 0;

    (void)state;
    ae_timer_reset(&t);
    (void)ae_timer_set_mode(&c, &t, AE_TIMER_PERIODIC);
    ae_timer_set_divide(&c, &t, 0, 0xb);
    assert_true(ae_timer_set_initial(&c, &t, 0, 7));
    for (uint64_t now = 0; now <= 70000; now++) {
        ticks += ae_timer_expire(&c, &t, now);
    }
    assert_int_equal(ticks, 30000);
}

static void
test_min_period(void **state)
{
    struct ae_timer_clock c = ghz;
    struct ae_timer t = timer_make(AE_TIMER_PERIODIC);

    (void)state;
    c.min_period_bus = 500;
    assert_true(ae_timer_set_initial(&c, &t, 0, 3));
    assert_int_equal(t.deadline, 500);
    assert_int_equal(ae_timer_current(&c, &t, 1), 3); /* never above TMICT */
    assert_int_equal(ae_timer_expire(&c, &t, 500), 1);
    assert_int_equal(t.deadline, 1000);
    assert_true(ae_timer_set_initial(&c, &t, 1000, 501));
    assert_int_equal(t.deadline, 1501);
    assert_true(ae_timer_set_initial(&c, &t, 2000, 499));
    assert_int_equal(ae_timer_current(&c, &t, 2000), 499);
}

static void
test_divide_while_running(void **state)
{
    struct ae_timer t = timer_make(AE_TIMER_ONE_SHOT);

    (void)state;
    assert_true(ae_timer_set_initial(&ghz, &t, 0, 1000));
    ae_timer_set_divide(&ghz, &t, 400, 0x3);
    assert_int_equal(ae_timer_current(&ghz, &t, 400), 600);
    assert_int_equal(t.deadline, 400 + 600 * 16);
    ae_timer_set_divide(&ghz, &t, 400 + 160, 0xb);
    assert_int_equal(ae_timer_current(&ghz, &t, 560), 590);
    assert_int_equal(t.deadline, 560 + 590);
}

static void
test_modes(void **state)
{
    struct ae_timer t = timer_make(AE_TIMER_ONE_SHOT);

    (void)state;
    assert_true(ae_timer_set_initial(&ghz, &t, 0, 1000));
    assert_false(ae_timer_set_mode(&ghz, &t, AE_TIMER_PERIODIC));
    assert_int_equal(t.deadline, 1000); /* one-shot <-> periodic count on */
    assert_int_equal(ae_timer_expire(&ghz, &t, 1000), 1);
    assert_int_equal(t.deadline, 2000);
    assert_true(ae_timer_set_mode(&ghz, &t, AE_TIMER_DEADLINE));
    assert_int_equal(t.deadline, NEVER);
    assert_int_equal(t.initial, 0);
    assert_false(ae_timer_set_initial(&ghz, &t, 2000, 5)); /* dropped */
    assert_int_equal(t.initial, 0);
    ae_timer_set_deadline(&ghz, &t, 2000, 3000);
    assert_int_equal(t.deadline, 3000);
    assert_true(ae_timer_set_mode(&ghz, &t, AE_TIMER_ONE_SHOT));
    assert_int_equal(t.deadline, NEVER);
    assert_int_equal(t.tsc_deadline, 0);
    ae_timer_set_deadline(&ghz, &t, 2000, 3000); /* dropped */
    assert_int_equal(t.tsc_deadline, 0);
    assert_true(ae_timer_set_initial(&ghz, &t, 2000, 5));
    assert_false(ae_timer_set_mode(&ghz, &t, AE_TIMER_RESERVED));
    assert_int_equal(t.deadline, NEVER);
}

/* [SDM3 10.5.4.1] */
static void
test_tsc_deadline(void **state)
{
    struct ae_timer_clock c = { .now_hz = GHZ,
                                .bus_hz = GHZ,
                                .tsc_hz = 3 * GHZ };
    struct ae_timer t = timer_make(AE_TIMER_DEADLINE);

    (void)state;
    ae_timer_set_deadline(&c, &t, 100, 3001);
    assert_int_equal(t.deadline, 1001); /* 1000.33 rounded up */
    ae_timer_set_tsc_offset(&c, &t, 100, 300);
    assert_int_equal(t.deadline, 901); /* TSC = 3 now + 300 */
    assert_int_equal(ae_timer_expire(&c, &t, 900), 0);
    assert_int_equal(t.tsc_deadline, 3001);
    assert_int_equal(ae_timer_expire(&c, &t, 901), 1);
    assert_int_equal(t.tsc_deadline, 0); /* clears when it fires */
    assert_int_equal(t.deadline, NEVER);
    ae_timer_set_deadline(&c, &t, 2000, 1); /* past: at once */
    assert_int_equal(t.deadline, 2000);
    assert_int_equal(ae_timer_expire(&c, &t, 2000), 1);
    ae_timer_set_deadline(&c, &t, 2000, 9000);
    ae_timer_set_deadline(&c, &t, 2000, 0); /* disarms */
    assert_int_equal(t.deadline, NEVER);
    ae_timer_set_deadline(&c, &t, 2000, UINT64_MAX);
    assert_true(t.deadline > 1ull << 60);
    /* A guest TSC behind the host's: the offset wraps. */
    ae_timer_set_tsc_offset(&c, &t, 2000, (uint64_t)-6000);
    ae_timer_set_deadline(&c, &t, 2000, 300);
    assert_int_equal(t.deadline, 2100);
}

static void
test_stop(void **state)
{
    struct ae_timer t = timer_make(AE_TIMER_PERIODIC);

    (void)state;
    assert_true(ae_timer_set_initial(&ghz, &t, 0, 1000));
    assert_true(ae_timer_set_initial(&ghz, &t, 300, 0));
    assert_int_equal(t.deadline, NEVER);
    assert_int_equal(ae_timer_current(&ghz, &t, 400), 0);
    assert_true(ae_timer_set_initial(&ghz, &t, 400, 1000)); /* restart */
    assert_true(ae_timer_set_initial(&ghz, &t, 900, 1000));
    assert_int_equal(t.deadline, 1900);
    ae_timer_stop(&t);
    assert_int_equal(t.deadline, NEVER);
    assert_int_equal(t.initial, 1000);
}

static void
test_resume(void **state)
{
    struct ae_timer t = timer_make(AE_TIMER_PERIODIC);

    (void)state;
    t.initial = 1000;
    ae_timer_resume(&ghz, &t, 5000, 250);
    assert_int_equal(t.deadline, 5250);
    assert_int_equal(ae_timer_current(&ghz, &t, 5000), 250);
    assert_int_equal(ae_timer_expire(&ghz, &t, 5250), 1);
    assert_int_equal(t.deadline, 6250);
    t.initial = 0;
    ae_timer_resume(&ghz, &t, 5000, 250); /* a target without a count */
    assert_int_equal(t.deadline, NEVER);
}

/* At the end of time nothing wraps. */
static void
test_saturation(void **state)
{
    struct ae_timer_clock c = { .now_hz = 1,
                                .bus_hz = 1ull << 40,
                                .tsc_hz = 1ull << 40 };
    struct ae_timer t = timer_make(AE_TIMER_PERIODIC);

    (void)state;
    assert_true(ae_timer_set_initial(&c, &t, NEVER - 1, 0xffffffff));
    (void)ae_timer_current(&c, &t, NEVER - 1);
    (void)ae_timer_expire(&c, &t, NEVER - 1);
    (void)ae_timer_set_mode(&c, &t, AE_TIMER_DEADLINE);
    ae_timer_set_deadline(&c, &t, NEVER - 1, NEVER);
    assert_true(t.deadline >= 1);
}

#define NR(a) (sizeof(a) / sizeof((a)[0]))

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        { .name = "TDCR to divisor", .test_func = test_divide },
        { .name = "fractional periods do not drift",
          .test_func = test_periods_do_not_drift },
        { .name = "a host's shortest period [KVM min_timer_period_us]",
          .test_func = test_min_period },
        { .name = "a divider change keeps the remaining count",
          .test_func = test_divide_while_running },
        { .name = "mode switches", .test_func = test_modes },
        { .name = "TSC deadline, rates and offsets",
          .test_func = test_tsc_deadline },
        { .name = "TMICT = 0 stops, another value restarts",
          .test_func = test_stop },
        { .name = "a saved count goes on", .test_func = test_resume },
        { .name = "nothing wraps at the end of time",
          .test_func = test_saturation },
    };
    struct CMUnitTest tests[NR(fixed) + NR(rate_rows) + NR(miss_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(rate_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = rate_rows[i].name,
                                          .test_func = test_rate,
                                          .initial_state = &rate_rows[i] };
    }
    for (size_t i = 0; i < NR(miss_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = miss_rows[i].name,
                                          .test_func = test_missed,
                                          .initial_state = &miss_rows[i] };
    }
    return cmocka_run_group_tests_name("timer", tests, NULL, NULL) != 0;
}
