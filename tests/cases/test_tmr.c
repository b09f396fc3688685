/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind TMR: the APIC timer. Not here:
 *
 *   TMR-03, 07, 10, 12, 14   no such cases
 *   TMR-13                   HPET, which the library does not have
 *
 * The clock counts nanoseconds, the bus clock is 1 GHz unless a row says
 * otherwise, so with TDCR = "by 1" a count is a nanosecond.
 */

#include "rig.h"

#define VECTOR 0xec

/* [APM2 16.4.1], [SDM3 10.5.4], [APM2 Table 16-3] */
static void
timer_start(struct avicemu_vcpu *v, uint32_t mode, uint32_t tdcr,
            uint32_t count)
{
    reg_w(v, R_LVTT, mode | VECTOR);
    reg_w(v, R_TDCR, tdcr);
    reg_w(v, R_TMICT, count);
}

/* The tick was taken and its EOI done: did it come? */
static int
tick_came(struct rig *rig)
{
    int vector = rig_take(rig, 0);

    if (vector == VECTOR) {
        eoi(rig->v[0]);
    }
    return vector == VECTOR;
}

static void
tmr_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    timer_start(v, 0, TDCR_BY_1, 1000000);
    rig_time(rig, 500000);
    assert_int_equal(reg_r(v, R_TMCCT), 500000);
    reg_w(v, R_TDCR, TDCR_BY_16);
    assert_int_equal(reg_r(v, R_TMCCT), 500000);
    rig_time(rig, 16 * 100000);
    assert_int_equal(reg_r(v, R_TMCCT), 400000);
    rig_time(rig, 16 * 400000 - 1);
    assert_false(tick_came(rig));
    rig_time(rig, 1);
    assert_true(tick_came(rig));
}

static void
tmr_02(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    timer_start(v, 0, TDCR_BY_1, 1000);
    rig_time(rig, 500);
    reg_w(v, R_LVTT, LVT_PERIODIC | VECTOR);
    assert_int_equal(reg_r(v, R_TMCCT), 500);
    rig_time(rig, 500);
    assert_true(tick_came(rig));
    rig_time(rig, 1000);
    assert_true(tick_came(rig)); /* reloaded */
    rig_time(rig, 500);
    reg_w(v, R_LVTT, VECTOR); /* back to one-shot while it counts */
    rig_time(rig, 500);
    assert_true(tick_came(rig));
    rig_time(rig, 100000);
    assert_false(tick_came(rig));
    assert_int_equal(reg_r(v, R_TMCCT), 0);
    reg_w(v, R_LVTT, LVT_PERIODIC | VECTOR); /* stopped stays stopped */
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    rig_time(rig, 100000);
    assert_int_equal(reg_r(v, R_TMCCT), 0);
    assert_false(tick_came(rig));
}

static void
tmr_04(void **state)
{
    /* Elapsed quarters of a period; what one-shot, periodic then read. */
    static const struct {
        uint64_t quarters;
        uint32_t one_shot, periodic;
    } rows[] = {
        { 0, 4000, 4000 }, { 1, 3000, 3000 }, { 4, 0, 4000 },
        { 5, 0, 3000 },    { 30, 0, 2000 },
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (unsigned periodic = 0; periodic < 2; periodic++) {
        uint64_t start = rig->vmm.now;

        timer_start(v, periodic ? LVT_PERIODIC : 0, TDCR_BY_1, 4000);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            rig_time(rig, start + rows[i].quarters * 1000 - rig->vmm.now);
            assert_int_equal(reg_r(v, R_TMCCT),
                             periodic ? rows[i].periodic : rows[i].one_shot);
        }
    }
    reg_w(v, R_LVTT, LVT_DEADLINE | VECTOR);
    assert_int_equal(reg_r(v, R_TMICT), 0);
    reg_w(v, R_TMICT, 4000);
    assert_int_equal(reg_r(v, R_TMICT), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(reg_r(v, R_TMCCT), 0);
        rig_time(rig, 1000);
    }
}

static void
tmr_05(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t arms;

    timer_start(v, LVT_PERIODIC, TDCR_BY_1, 1);
    arms = rig->fake[0].arms;
    rig_time(rig, 1000000000);
    assert_int_equal(rig_enter(rig, 0, 0), AVICEMU_DO_WINDOW);
    rig_exit(rig, 0, 0);
    assert_true(avicemu_vcpu_deadline(v) > rig->vmm.now);
    assert_true(rig->fake[0].arms - arms <= 2);
    assert_int_equal(rig_stats(v).timer_ticks, 1000000000);
    assert_int_equal(rig_stats(v).local_new, 1);
    assert_int_equal(rig_take(rig, 0), VECTOR);
}

/* Ticks that are made up for come one per acknowledge, max_burst at most. */
static void
tmr_05_burst(void **state)
{
    struct rig *rig = *state;
    unsigned ticks = 0;

    timer_start(rig->v[0], LVT_PERIODIC, TDCR_BY_1, 1000000);
    rig_time(rig, 1000 * 1000000ull);
    while (tick_came(rig)) {
        ticks++;
    }
    assert_int_equal(ticks, 1 + 16);
    rig_time(rig, 3 * 1000000);
    reg_w(rig->v[0], R_LVTT, LVT_MASKED | LVT_PERIODIC | VECTOR);
    reg_w(rig->v[0], R_LVTT, LVT_PERIODIC | VECTOR);
    while (tick_came(rig)) {
        ticks++;
    }
    assert_int_equal(ticks, 1 + 16 + 1); /* nobody waits for masked ticks */
}

static void
tmr_06(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic page;

    /* A period of far less than one tick of the clock. */
    timer_start(v, LVT_PERIODIC, TDCR_BY_1, 1);
    assert_true(reg_r(v, R_TMCCT) <= 1);
    rig_time(rig, 1000);
    assert_true(reg_r(v, R_TMCCT) <= 1);
    assert_true(tick_came(rig));
    assert_true(avicemu_vcpu_deadline(v) > rig->vmm.now);

    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &page), 0);
    page.regs[R_TMICT] = 0;
    page.regs[R_TMCCT + 2] = 1;
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &page), 0);
    assert_int_equal(reg_r(v, R_TMCCT), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
}

/* A host's shortest period. [KVM min_timer_period_us] */
static void
tmr_06_min(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    timer_start(v, LVT_PERIODIC, TDCR_BY_1, 1);
    assert_int_equal(avicemu_vcpu_deadline(v), 200000);
    rig_time(rig, 199999);
    assert_false(tick_came(rig));
    rig_time(rig, 1);
    assert_true(tick_came(rig));
    assert_int_equal(avicemu_vcpu_deadline(v), 400000);
    timer_start(v, 0, TDCR_BY_1, 1); /* one-shot: no limit */
    assert_int_equal(avicemu_vcpu_deadline(v), 200001);
}

/* [SDM3 10.5.4.1] */
static void
tmr_08(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    hw_disable(v);
    msr_w(v, MSR_TSC_DEADLINE, 1000);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    hw_enable(v);
    reg_w(v, R_SVR, 0x1ff);
    reg_w(v, R_LVTT, VECTOR);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 0);
    msr_w(v, MSR_TSC_DEADLINE, 1000);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 0);
    reg_w(v, R_LVTT, LVT_DEADLINE | VECTOR);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    msr_w(v, MSR_TSC_DEADLINE, 1000);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 1000);
    reg_w(v, R_LVTT, VECTOR);
    reg_w(v, R_LVTT, LVT_DEADLINE | VECTOR);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 0);
    rig_time(rig, 2000);
    assert_false(tick_came(rig));
    msr_w(v, MSR_TSC_DEADLINE, 1000); /* past: at once */
    assert_int_equal(vec_bit(v, R_IRR, VECTOR), 1);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 0);
}

/* Time has passed and nobody looked; then the guest takes the timer back. */
static void
tmr_09(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t saved[AVICEMU_SNAPSHOT_BYTES];
    size_t len;

    assert_int_equal(avicemu_vcpu_snapshot(v, saved, sizeof(saved), &len), 0);
    timer_start(v, 0, TDCR_BY_1, 1000);
    rig->vmm.now += 1000;
    reg_w(v, R_TMICT, 0);
    assert_int_equal(avicemu_vcpu_expire(v), 0); /* the host comes late */
    assert_false(tick_came(rig));

    reg_w(v, R_LVTT, LVT_DEADLINE | VECTOR);
    msr_w(v, MSR_TSC_DEADLINE, 2000);
    rig->vmm.now = 2000;
    msr_w(v, MSR_TSC_DEADLINE, 9000);
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_false(tick_came(rig));
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 9000);

    rig->vmm.now = 9000;
    assert_int_equal(avicemu_vcpu_restore(v, saved, len), 0);
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_false(tick_came(rig));
}

/* What is in IRR stays, and nothing comes after it. */
static void
tmr_09_accepted(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    timer_start(v, LVT_PERIODIC, TDCR_BY_1, 1000);
    rig_time(rig, 1000);
    assert_int_equal(rig_run(rig, 0, 0), AVICEMU_DO_WINDOW);
    assert_int_equal(vec_bit(v, R_IRR, VECTOR), 1);
    reg_w(v, R_TMICT, 0);
    assert_int_equal(vec_bit(v, R_IRR, VECTOR), 1);
    assert_true(tick_came(rig));
    rig->vmm.now += 100000;
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_false(tick_came(rig));
}

static void
tmr_11(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    timer_start(v, 0, 0xa, 0xffffffff); /* by 128 */
    assert_int_equal(avicemu_vcpu_deadline(v), 549755813760ull);
    rig_time(rig, 549755813759ull);
    assert_false(tick_came(rig));
    assert_int_equal(reg_r(v, R_TMCCT), 1);
    rig_time(rig, 1);
    assert_true(tick_came(rig));
    rig_time(rig, 1ull << 62);
    assert_false(tick_came(rig));
    assert_int_equal(rig_stats(v).timer_ticks, 1);
}

/* Where the snapshot has a register: its REGS record has tag 3. */
static uint8_t *
saved_reg(uint8_t *saved, size_t len, uint32_t offset)
{
    size_t at = 16;

    while (at + 8 < len && saved[at] != 3) {
        at += 8 + ((size_t)saved[at + 4] | (size_t)saved[at + 5] << 8);
    }
    assert_true(at + 8 + offset / 4 < len);
    return saved + at + 8 + offset / 4;
}

static void
tmr_15(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t saved[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
    int r;

    timer_start(v, LVT_PERIODIC, TDCR_BY_1, 0x1000);
    assert_int_equal(avicemu_vcpu_snapshot(v, saved, sizeof(saved), &len), 0);
    reg_w(v, R_TMICT, 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);

    /* A target, but no initial count: refused, or repaired. */
    assert_int_equal(saved_reg(saved, len, R_TMICT)[1], 0x10);
    saved_reg(saved, len, R_TMICT)[1] = 0;
    r = avicemu_vcpu_restore(v, saved, len);
    assert_true(r == 0 || r == -71 /* EPROTO */);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    assert_int_equal(reg_r(v, R_TMCCT), 0);
    rig_time(rig, 1000000);
    assert_false(tick_came(rig));

    assert_int_equal(avicemu_vcpu_snapshot(v, saved, sizeof(saved), &len), 0);
    assert_int_equal(avicemu_vcpu_restore(v, saved, len), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
}

#define TSCD AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_EACH("TMR-01 a new divider counts at once", tmr_01, .nr_vcpus = 1),
        RIG_EACH("TMR-02 one-shot and periodic switch while counting", tmr_02,
                 .nr_vcpus = 1),
        RIG_TEST("TMR-04 TMCCT in each mode (AMD)", tmr_04,
                 P(AMD, .features = TSCD)),
        RIG_TEST("TMR-04 TMCCT in each mode (Intel)", tmr_04,
                 P(INTEL, .features = TSCD)),
        RIG_TEST("TMR-04 TMCCT in each mode (KVM)", tmr_04,
                 P(KVM, .features = TSCD)),
        RIG_TEST("TMR-05 a backlog is one vector (skip)", tmr_05,
                 P(AMD, .missed_ticks = AVICEMU_MISSED_SKIP)),
        RIG_TEST("TMR-05 a backlog is one vector (delay)", tmr_05,
                 P(AMD, .missed_ticks = AVICEMU_MISSED_DELAY)),
        RIG_TEST("TMR-05 a backlog is one vector at a time (burst)", tmr_05,
                 P(AMD, .missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 16)),
        RIG_TEST("TMR-05 a burst is bounded", tmr_05_burst,
                 P(AMD, .missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 16)),
        RIG_TEST("TMR-06 periods of zero ticks do not divide by zero", tmr_06,
                 P(AMD, .now_hz = 1000, .bus_hz = 1ull << 40)),
        RIG_TEST("TMR-06 a shortest period is enforced", tmr_06_min,
                 P(KVM, .min_period = 200000)),
        RIG_TEST("TMR-08 TSC_DEADLINE while disabled, in other modes (Intel)",
                 tmr_08, P(INTEL, .features = TSCD)),
        RIG_TEST("TMR-08 TSC_DEADLINE while disabled, in other modes (KVM)",
                 tmr_08, P(KVM, .features = TSCD)),
        RIG_TEST("TMR-09 an expiry that nobody saw goes with its timer", tmr_09,
                 P(INTEL, .features = TSCD)),
        RIG_TEST("TMR-09 an expiry in IRR stays", tmr_09_accepted, P(AMD)),
        RIG_TEST("TMR-11 long counts are not cut to 32 bits", tmr_11, P(AMD)),
        RIG_TEST("TMR-15 a saved target without an initial count", tmr_15,
                 P(AMD)),
        RIG_EACH_AVIC("TMR-01 a new divider counts at once", tmr_01,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("TMR-02 one-shot and periodic switch while counting",
                      tmr_02, .nr_vcpus = 1),
    };

    return cmocka_run_group_tests_name("cases TMR", tests, NULL, NULL) != 0;
}
