/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of the APIC timer.
 *
 * Nobody promises when a guest runs, so nothing here asks for a latency. Time
 * is compared as intervals: a reading lies between the TSC before and after
 * it, and an interrupt may come late, never early. What the calibration
 * cannot know is allowed for by TOLERANCE.
 */
#include "apic.h"

#define VECTOR_TIMER 0xa1
#define VECTOR_OTHER 0xb2
#define TDCR_BY_1    0x0bu
#define TOLERANCE(x) ((x) / 16) /* 6 % */

/* A current count, and the TSC on both sides of its reading. */
struct reading {
    uint64_t before, after;
    uint32_t count;
};

uint32_t bus_khz;
/* TSC ticks for 256 counts at divide-by-1: a ratio of 64:1 is 16384. */
static uint32_t tsc_per_256;

static struct reading
timer_reading(void)
{
    struct reading r;

    r.before = rdtsc();
    r.count = apic_read(REG_TMCCT);
    r.after = rdtsc();
    return r;
}

static void
timer_start(uint32_t lvt, uint32_t count)
{
    apic_write(REG_TDCR, TDCR_BY_1);
    apic_write(REG_LVT_TIMER, lvt);
    apic_write(REG_TMICT, count);
}

static void
timer_stop(void)
{
    apic_write(REG_LVT_TIMER, LVT_MASKED);
    apic_write(REG_TMICT, 0);
}

/* TMCCT, and again if it was caught at 0 between two periods. */
static uint32_t
count_running(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < 3 && count == 0; i++) {
        count = apic_read(REG_TMCCT);
    }
    return count;
}

uint32_t
timer_count(uint32_t ms)
{
    return (uint32_t)((ms_to_tsc(ms) << 8) / tsc_per_256);
}

/* The narrowest of several: a CPU may be away in the middle of a reading. */
static struct reading
narrow_reading(void)
{
    struct reading best = timer_reading();

    for (uint32_t i = 0; i < 10; i++) {
        struct reading r = timer_reading();

        if (r.after - r.before < best.after - best.before) {
            best = r;
        }
    }
    return best;
}

void
timer_calibrate(void)
{
    struct reading first, second;
    uint64_t tsc;

    timer_start(LVT_MASKED, 0xffffffffu);
    first = narrow_reading();
    delay_tsc(ms_to_tsc(20));
    second = narrow_reading();
    timer_stop();
    /* From middle to middle: half an exit off at either end. */
    tsc = (second.before + second.after - first.before - first.after) / 2;
    if (first.count > second.count) {
        tsc_per_256 = (uint32_t)((tsc << 8) / (first.count - second.count));
    }
    if (tsc_per_256 == 0) {
        tsc_per_256 = 256; /* the first timer test will say what is wrong */
    }
    print("guest: APIC timer counts once in %u/256 TSC ticks\n", tsc_per_256);
}

static void
expect_not_before(const char *what, uint64_t got, uint64_t low)
{
    expect_between(what, got, low - TOLERANCE(low), ~0ull);
}

static void
test_bus_clock(void)
{
    uint64_t want = ((uint64_t)tsc_khz << 8) / (bus_khz ? bus_khz : 1);

    expect_between("the timer counts", tsc_per_256, 1, 1u << 24);
    if (bus_khz != 0) {
        expect_between("TSC ticks for 256 counts", tsc_per_256,
                       want - TOLERANCE(want), want + TOLERANCE(want));
    }
}

static void
test_one_shot(void)
{
    struct cpu *cpu = this_cpu();
    uint32_t count = timer_count(5);
    uint64_t start = rdtsc();

    timer_start(VECTOR_TIMER, count);
    expect_between("TMCCT counts down", apic_read(REG_TMCCT), 0, count);
    irq_on();
    expect("fires", wait_for(&cpu->count[VECTOR_TIMER], 1), 1);
    expect_not_before("not early", cpu->when[0] - start, ms_to_tsc(5));
    expect("TMCCT after expiry", apic_read(REG_TMCCT), 0);
    expect("TMICT kept", apic_read(REG_TMICT), count);
    delay_tsc(ms_to_tsc(12));
    irq_off();
    expect("once", cpu->count[VECTOR_TIMER], 1);
    expect("TMCCT stays 0", apic_read(REG_TMCCT), 0);
}

static void
test_periodic(void)
{
    struct cpu *cpu = this_cpu();
    uint32_t count = timer_count(3), ticks;
    uint64_t start = rdtsc();

    timer_start(LVT_PERIODIC | VECTOR_TIMER, count);
    irq_on();
    expect("ticks", wait_for(&cpu->count[VECTOR_TIMER], 4), 1);
    expect_not_before("not early", cpu->when[3] - start, 4 * ms_to_tsc(3));
    expect_between("TMCCT in a period", count_running(), 1, count);
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | LVT_MASKED | VECTOR_TIMER);
    irq_off();
    irq_window();
    ticks = cpu->count[VECTOR_TIMER];
    delay_tsc(ms_to_tsc(7));
    irq_window();
    expect("masked: no tick", cpu->count[VECTOR_TIMER], ticks);
    expect_between("masked: counts on", count_running(), 1, count);
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | VECTOR_TIMER);
    irq_on();
    expect("unmasked: ticks", wait_for(&cpu->count[VECTOR_TIMER], ticks + 2),
           1);
    irq_off();
    apic_write(REG_TMICT, 0);
    irq_window();
    ticks = cpu->count[VECTOR_TIMER];
    expect("TMICT 0 stops", apic_read(REG_TMCCT), 0);
    delay_tsc(ms_to_tsc(7));
    irq_window();
    expect("stopped", cpu->count[VECTOR_TIMER], ticks);
}

/* Ticks that find their IRR bit set are one interrupt [APM2 16.6.3]. */
static void
test_missed_ticks(void)
{
    struct cpu *cpu = this_cpu();

    timer_start(LVT_PERIODIC | VECTOR_TIMER, timer_count(2));
    delay_tsc(ms_to_tsc(9));
    expect("pends", apic_bit(REG_IRR, VECTOR_TIMER), 1);
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | LVT_MASKED | VECTOR_TIMER);
    irq_window();
    expect("as one", cpu->count[VECTOR_TIMER], 1);
}

static void
test_masked(void)
{
    struct cpu *cpu = this_cpu();

    timer_start(LVT_MASKED | VECTOR_TIMER, timer_count(2));
    delay_tsc(ms_to_tsc(4));
    expect("TMCCT reached 0", apic_read(REG_TMCCT), 0);
    expect("no request", apic_bit(REG_IRR, VECTOR_TIMER), 0);
    apic_write(REG_LVT_TIMER, VECTOR_TIMER);
    irq_on();
    delay_tsc(ms_to_tsc(4));
    irq_off();
    expect("none afterwards", cpu->count[VECTOR_TIMER], 0);
}

static void
test_restart(void)
{
    struct cpu *cpu = this_cpu();
    uint64_t start;

    timer_start(VECTOR_TIMER, timer_count(20));
    delay_tsc(ms_to_tsc(2));
    start = rdtsc();
    apic_write(REG_TMICT, timer_count(25));
    if (apic_bit(REG_IRR, VECTOR_TIMER)) {
        return; /* we lost the CPU between the two starts: proves nothing */
    }
    irq_on();
    expect("fires", wait_for(&cpu->count[VECTOR_TIMER], 1), 1);
    irq_off();
    expect_not_before("from the second start", cpu->when[0] - start,
                      ms_to_tsc(25));
    expect("once", cpu->count[VECTOR_TIMER], 1);
}

/* The vector is the LVT's at expiry, not at the start. */
static void
test_vector_change(void)
{
    struct cpu *cpu = this_cpu();

    timer_start(VECTOR_TIMER, timer_count(20));
    apic_write(REG_LVT_TIMER, VECTOR_OTHER);
    irq_on();
    expect(
        "fires",
        wait_for(&cpu->count[VECTOR_OTHER], cpu->count[VECTOR_TIMER] ? 0 : 1),
        1);
    irq_off();
}

/* All eight divisors, against the TSC [APM2 16.4.1, timer divide]. */
static void
test_divide(void)
{
    static const uint8_t codes[] = { 0x0b, 0x0, 0x1, 0x2, 0x3, 0x8, 0x9, 0xa };

    for (uint32_t i = 0; i < 8; i++) {
        struct reading first, second;
        uint64_t low, high, counted;

        apic_write(REG_LVT_TIMER, LVT_MASKED);
        apic_write(REG_TDCR, codes[i]);
        apic_write(REG_TMICT, 0xffffffffu);
        first = timer_reading();
        delay_tsc(ms_to_tsc(4));
        second = timer_reading();
        counted = (uint64_t)(first.count - second.count) << i;
        low = ((second.before - first.after) << 8) / tsc_per_256;
        high = ((second.after - first.before) << 8) / tsc_per_256;
        expect_between("bus clocks by divisor", counted,
                       low - TOLERANCE(low) - (1u << i),
                       high + TOLERANCE(high) + (1u << i));
    }
    apic_write(REG_TMICT, 0);
}

/* A mode switch keeps the count; the next expiry obeys the new mode. */
static void
test_one_shot_to_periodic(void)
{
    struct cpu *cpu = this_cpu();
    uint64_t start = rdtsc();

    timer_start(VECTOR_TIMER, timer_count(8));
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | VECTOR_TIMER);
    if (apic_read(REG_TMCCT) == 0) {
        return; /* we lost the CPU and it expired before the switch */
    }
    irq_on();
    expect("goes on ticking", wait_for(&cpu->count[VECTOR_TIMER], 3), 1);
    irq_off();
    expect_not_before("first tick", cpu->when[0] - start, ms_to_tsc(8));
    expect_not_before("third tick", cpu->when[2] - start, ms_to_tsc(24));
}

static void
test_periodic_to_one_shot(void)
{
    struct cpu *cpu = this_cpu();
    uint64_t end = rdtsc() + ms_to_tsc(500);
    uint32_t ticks;

    timer_start(LVT_PERIODIC | VECTOR_TIMER, timer_count(5));
    irq_on();
    (void)wait_for(&cpu->count[VECTOR_TIMER], 1);
    apic_write(REG_LVT_TIMER, VECTOR_TIMER);
    while (apic_read(REG_TMCCT) != 0 && rdtsc() < end) {
    }
    expect("runs out", apic_read(REG_TMCCT), 0);
    delay_tsc(ms_to_tsc(2)); /* its interrupt may be a little behind */
    ticks = cpu->count[VECTOR_TIMER];
    expect_between("with a tick", ticks, 2, 100);
    delay_tsc(ms_to_tsc(12));
    irq_off();
    expect("and no other", cpu->count[VECTOR_TIMER], ticks);
}

static void
test_expired_to_periodic(void)
{
    struct cpu *cpu = this_cpu();

    timer_start(VECTOR_TIMER, timer_count(2));
    irq_on();
    (void)wait_for(&cpu->count[VECTOR_TIMER], 1);
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | VECTOR_TIMER);
    delay_tsc(ms_to_tsc(6));
    expect("stays expired", cpu->count[VECTOR_TIMER], 1);
    expect("TMCCT", apic_read(REG_TMCCT), 0);
    apic_write(REG_TMICT, timer_count(2));
    expect("TMICT starts it", wait_for(&cpu->count[VECTOR_TIMER], 3), 1);
    irq_off();
}

static void
halt_for_one_shots(void *arg)
{
    struct cpu *cpu = this_cpu();

    (void)arg;
    for (uint32_t i = 1; i <= 5; i++) {
        timer_start(VECTOR_TIMER, timer_count(2));
        irq_halt();
        expect("woken", cpu->count[VECTOR_TIMER], i);
    }
}

/* On another CPU if there is one, so that this one can see it hang. */
static void
test_halt(void)
{
    (void)run_on(cpu_at(nr_cpus > 1), halt_for_one_shots, NULL);
}

static void
halt_for_ticks(void *arg)
{
    struct cpu *cpu = this_cpu();

    (void)arg;
    timer_start(LVT_PERIODIC | VECTOR_TIMER, timer_count(3));
    while (cpu->count[VECTOR_TIMER] < 5) {
        irq_halt();
    }
    timer_stop();
}

static void
test_all_cpus(void)
{
    for (uint32_t i = nr_cpus; i-- > 0;) { /* the boot CPU last: it runs now */
        (void)start_on(cpu_at(i), halt_for_ticks, NULL);
    }
    for (uint32_t i = 1; i < nr_cpus; i++) {
        (void)join(cpu_at(i));
    }
    for (uint32_t i = 0; i < nr_cpus; i++) {
        expect_between("ticks", cpu_at(i)->count[VECTOR_TIMER], 5, 1000);
    }
}

/* ------------------------------------------------------------------ *
 * TSC-deadline mode [SDM3 10.5.4.1]
 * ------------------------------------------------------------------ */

static uint64_t
deadline(void)
{
    uint64_t value = ~0ull;

    expect("6E0h readable", try_rdmsr(MSR_TSC_DEADLINE, &value), 1);
    return value;
}

static void
deadline_set(uint64_t value)
{
    expect("6E0h writable", try_wrmsr(MSR_TSC_DEADLINE, value), 1);
}

static void
test_deadline(void)
{
    struct cpu *cpu = this_cpu();
    uint64_t when = rdtsc() + ms_to_tsc(30);

    apic_write(REG_LVT_TIMER, LVT_DEADLINE | VECTOR_TIMER);
    deadline_set(when);
    if (rdtsc() < when) {
        uint64_t value = deadline();

        expect("armed value reads back", value, rdtsc() < when ? when : value);
    }
    apic_write(REG_TMICT, 1000);
    expect("TMCCT reads 0", apic_read(REG_TMCCT), 0);
    irq_on();
    expect("fires", wait_for(&cpu->count[VECTOR_TIMER], 1), 1);
    irq_off();
    expect_between("not early", cpu->when[0], when, ~0ull);
    expect("disarmed by firing", deadline(), 0);
}

static void
test_deadline_past(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_LVT_TIMER, LVT_DEADLINE | VECTOR_TIMER);
    deadline_set(1);
    irq_window();
    expect("a past deadline fires at once", cpu->count[VECTOR_TIMER], 1);
    deadline_set(rdtsc() + ms_to_tsc(20));
    deadline_set(0);
    if (apic_bit(REG_IRR, VECTOR_TIMER)) {
        return; /* we lost the CPU, and it had passed: proves nothing */
    }
    delay_tsc(ms_to_tsc(25));
    irq_window();
    expect("0 disarms", cpu->count[VECTOR_TIMER], 1);
}

static void
test_deadline_masked(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_LVT_TIMER, LVT_DEADLINE | LVT_MASKED | VECTOR_TIMER);
    deadline_set(rdtsc() + ms_to_tsc(1));
    delay_tsc(ms_to_tsc(3));
    irq_window();
    expect("no interrupt", cpu->count[VECTOR_TIMER], 0);
    expect("but disarmed", deadline(), 0);
}

static void
test_deadline_mode_changes(void)
{
    struct cpu *cpu = this_cpu();

    deadline_set(rdtsc() + ms_to_tsc(1));
    expect("dropped in one-shot mode", deadline(), 0);
    apic_write(REG_LVT_TIMER, LVT_DEADLINE | VECTOR_TIMER);
    deadline_set(rdtsc() + ms_to_tsc(20));
    apic_write(REG_LVT_TIMER, VECTOR_TIMER);
    apic_write(REG_LVT_TIMER, LVT_DEADLINE | VECTOR_TIMER);
    expect("leaving disarms", deadline(), 0);
    apic_write(REG_LVT_TIMER, VECTOR_TIMER);
    timer_start(VECTOR_TIMER, timer_count(20));
    apic_write(REG_LVT_TIMER, LVT_DEADLINE | VECTOR_TIMER);
    if (apic_bit(REG_IRR, VECTOR_TIMER)) {
        return; /* as above */
    }
    delay_tsc(ms_to_tsc(25));
    irq_window();
    expect("entering stops the count", cpu->count[VECTOR_TIMER], 0);
}

const struct test timer_tests[] = {
    { "timer: runs at the bus clock", test_bus_clock, 1, 0 },
    { "timer: one-shot fires once", test_one_shot, 1, 0 },
    { "timer: periodic ticks, masks, stops", test_periodic, 1, 0 },
    { "timer: missed ticks are one", test_missed_ticks, 1, 0 },
    { "timer: masked expiry is lost", test_masked, 1, 0 },
    { "timer: TMICT restarts", test_restart, 1, 0 },
    { "timer: vector of the expiry", test_vector_change, 1, 0 },
    { "timer: eight divisors", test_divide, 1, 0 },
    { "timer: one-shot to periodic", test_one_shot_to_periodic, 1, 0 },
    { "timer: periodic to one-shot", test_periodic_to_one_shot, 1, 0 },
    { "timer: expired stays expired", test_expired_to_periodic, 1, 0 },
    { "timer: ends HLT", test_halt, 1, 0 },
    { "timer: all CPUs at once", test_all_cpus, 2, 0 },
    { "deadline: fires and disarms", test_deadline, 1, NEEDS_DEADLINE },
    { "deadline: past, and zero", test_deadline_past, 1, NEEDS_DEADLINE },
    { "deadline: masked", test_deadline_masked, 1, NEEDS_DEADLINE },
    { "deadline: mode changes disarm", test_deadline_mode_changes, 1,
      NEEDS_DEADLINE },
    { NULL, NULL, 0, 0 },
};
