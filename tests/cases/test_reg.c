/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind REG: what the registers of a local APIC must do, each a fault
 * that was met in public. Not here:
 *
 *   REG-03, 06, 08, 11, 16, 19   no such cases
 */

#include "rig.h"

/* [APM2 16.4.6], [SDM3 10.5.3] */
static void
reg_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_ICR, ICR_SELF | ICR_FIXED | 0x05);
    assert_int_equal(reg_r(v, R_ESR), 0);
    reg_w(v, R_ESR, 0xffffffff);
    assert_int_equal(reg_r(v, R_ESR), ESR_SEND_ILLEGAL | ESR_RECEIVE_ILLEGAL);
    reg_w(v, R_ESR, 0);
    assert_int_equal(reg_r(v, R_ESR), 0);
    assert_int_equal(reg_r(v, R_IRR), 0);
    to_x2apic(v);
    assert_int_equal(reg_try(v, R_ESR, 1), GP);
}

static void
reg_02(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_ERROR, 0x00000005);
    reg_w(v, R_ICR, ICR_SELF | ICR_FIXED | 0x03);
    assert_int_equal(scan(v), -1);
    assert_int_equal(reg_r(v, R_IRR), 0);
    reg_w(v, R_ESR, 0);
    assert_int_equal(reg_r(v, R_ESR), ESR_SEND_ILLEGAL | ESR_RECEIVE_ILLEGAL);
    assert_int_equal(rig_stats(v).esr, 2); /* each bit once */
    assert_int_equal(rig_run(rig, 0, IF), 0);
}

/* V1 back in reset values, but for what INIT keeps. [SDM3 10.4.7] */
static void
expect_init(struct avicemu_vcpu *v)
{
    static const struct {
        uint32_t offset, value;
    } images[] = {
        { R_TPR, 0 },          { R_SVR, 0xff },      { R_ESR, 0 },
        { R_LVTT, 0x10000 },   { R_LINT0, 0x10000 }, { R_LINT1, 0x10000 },
        { R_ERROR, 0x10000 },  { R_PERF, 0x10000 },  { R_THERMAL, 0x10000 },
        { R_DFR, 0xffffffff }, { R_TMICT, 0 },       { R_TMCCT, 0 },
        { R_TDCR, 0 },         { R_ICR, 0 },         { R_PPR, 0 },
        { R_IRR + 0x20, 0 },   { R_ISR + 0x20, 0 },  { R_TMR + 0x20, 0 },
    };

    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        assert_int_equal(reg_peek(v, images[i].offset), images[i].value);
    }
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
}

static void
reg_04(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v1 = rig->v[1];

    to_x2apic(rig->v[0]);
    to_x2apic(v1);
    assert_int_equal(avicemu_post(v1, 0x41, LEVEL), NEW);
    assert_int_equal(rig_take(rig, 1), 0x41);
    assert_int_equal(avicemu_post(v1, 0x42, LEVEL), NEW);
    reg_w(v1, R_TPR, 0x30);
    reg_w(v1, R_LVTT, LVT_PERIODIC | 0xec);
    reg_w(v1, R_TMICT, 1000);
    icr_send(rig->v[0], 0x11, ICR_INIT | ICR_ASSERT);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);

    assert_int_equal(msr_r(v1, MSR_APIC_BASE), BASE_PAGE | BASE_EN | BASE_EXTD);
    assert_int_equal(reg_r(v1, R_ID), 0x11);
    assert_int_equal(reg_r(v1, R_LDR), 0x00010002);
    expect_init(v1);

    assert_int_equal(avicemu_vcpu_reset(v1), 0);
    assert_int_equal(msr_r(v1, MSR_APIC_BASE), BASE_PAGE | BASE_EN);
    assert_int_equal(reg_r(v1, R_ID), 0x11u << 24);
    assert_int_equal(reg_r(v1, R_LDR), 0);
    expect_init(v1);
}

/* [APM2 16.14], [SDM3 10.12.10] */
static void
reg_05(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    int amd = (reg_r(v, R_VERSION) & 0xff) == 0x10;

    to_x2apic(v);
    assert_int_equal(msr_r(v, 0x80d), 0x00020020);
    assert_int_equal(avicemu_msr_write(v, 0x80d, 0x00020020), GP);
    hw_disable(v);
    hw_enable(v);
    /* AMD carries a rewritten 8-bit id over; Intel's cannot be rewritten,
     * KVM goes back to the vCPU's. [APM2 16.12] */
    reg_w(v, R_ID, 0x33u << 24);
    to_x2apic(v);
    assert_int_equal(msr_r(v, 0x802), amd ? 0x33 : 0x25);
    assert_int_equal(msr_r(v, 0x80d), amd ? 0x00030008 : 0x00020020);
}

static void
icr_bits(struct rig *rig, uint32_t must_be_zero)
{
    struct avicemu_vcpu *v = rig->v[0];

    to_x2apic(v);
    for (unsigned bit = 0; bit < 32; bit++) {
        uint32_t value = ICR_SELF | ICR_FIXED | 0x51 | 1u << bit;
        uint64_t sent = rig_stats(v).ipi_sent;
        int faults = (must_be_zero >> bit & 1) != 0;

        assert_int_equal(reg_try(v, R_ICR, value), faults ? GP : DONE);
        assert_int_equal(rig_stats(v).ipi_sent, sent + (faults ? 0 : 1));
        if (faults) {
            assert_int_equal(vec_bit(v, R_IRR, 0x51), 0);
        }
        assert_int_equal(avicemu_vcpu_reset(v), 0);
        reg_w(v, R_SVR, 0x1ff);
        to_x2apic(v);
    }
    reg_w(v, R_ICR, ICR_SELF | ICR_FIXED | 0x51);
    assert_int_equal(rig_take(rig, 0), 0x51);
}

static void
reg_07_amd(void **state)
{
    icr_bits(*state, 0xfff33000);
}

static void
reg_07_others(void **state)
{
    icr_bits(*state, 0xfff32000);
}

/* [APM2 16.15] */
static void
reg_09(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    icr_send(v, 9, ICR_FIXED | ICR_BUSY | 0x50);
    assert_int_equal(reg_r(v, R_ICR), ICR_FIXED | 0x50);
    assert_int_equal(reg_r(v, R_ICR2), 9u << 24);
    to_x2apic(v);
    msr_w(v, 0x830, 9ull << 32 | ICR_FIXED | 0x51);
    msr_w(v, 0x83f, 0x60);
    assert_int_equal(msr_r(v, 0x830), 9ull << 32 | ICR_FIXED | 0x51);
    assert_int_equal(rig_take(rig, 0), 0x60);
}

/* [APM2 16.11] */
static void
reg_10(void **state)
{
    static const uint32_t msrs[] = { 0x808, 0x80f, 0x832, 0x838,
                                     0x83e, 0x80b, 0x828 };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    to_x2apic(v);
    for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        assert_int_equal(avicemu_msr_write(v, msrs[i], 1ull << 40), GP);
    }
    msr_w(v, 0x830, 1ull << 40 | ICR_FIXED | 0x51);
    assert_int_equal(msr_r(v, 0x830), 1ull << 40 | ICR_FIXED | 0x51);
}

static void
eoi_value(struct rig *rig, enum avicemu_access nonzero)
{
    struct avicemu_vcpu *v = rig->v[0];

    to_x2apic(v);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(rig_take(rig, 0), 0x41);
    assert_int_equal(avicemu_msr_write(v, 0x80b, 1), nonzero);
    assert_int_equal(vec_bit(v, R_ISR, 0x41), nonzero == GP);
    msr_w(v, 0x80b, 0);
    assert_int_equal(vec_bit(v, R_ISR, 0x41), 0);
    msr_w(v, 0x80b, 0); /* nothing in service: harmless */
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(avicemu_post(v, 0x42, EDGE), NEW);
    assert_int_equal(rig_take(rig, 0), 0x42);
    reg_w(v, R_EOI, 0xdead);
    assert_int_equal(vec_bit(v, R_ISR, 0x42), 0);
}

static void
reg_12(void **state)
{
    eoi_value(*state, GP);
}

static void
reg_12_kvm(void **state)
{
    eoi_value(*state, DONE); /* [KVM] takes any 32 bits */
}

static void
reg_13(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    int directed = (reg_r(v, R_VERSION) >> 24 & 1) != 0;

    to_x2apic(v);
    msr_w(v, 0x80f, 0x3ff);
    assert_int_equal(msr_r(v, 0x80f), 0x3ff);
    assert_int_equal(avicemu_msr_write(v, 0x80f, 0x13ff), directed ? DONE : GP);
    assert_int_equal(msr_r(v, 0x80f), directed ? 0x13ff : 0x3ff);
    assert_int_equal(avicemu_msr_write(v, 0x80f, 0x43ff), GP);
    assert_int_equal(msr_r(v, 0x80f), directed ? 0x13ff : 0x3ff);
}

static void
reg_13_kvm(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    /* [KVM] drops reserved bits below 32 without a fault. */
    to_x2apic(v);
    msr_w(v, 0x80f, 0x13ff);
    assert_int_equal(msr_r(v, 0x80f), 0x3ff);
    msr_w(v, 0x80f, 0x43ff);
    assert_int_equal(msr_r(v, 0x80f), 0x3ff);
}

/* [APM2 16.10] */
static void
reg_14(void **state)
{
    static const struct {
        uint32_t offset, value;
    } images[] = {
        { R_DFR, 0xffffffff }, { R_LVTT, 0x10000 },  { R_THERMAL, 0x10000 },
        { R_PERF, 0x10000 },   { R_LINT0, 0x10000 }, { R_LINT1, 0x10000 },
        { R_ERROR, 0x10000 },  { R_SVR, 0xff },      { R_TPR, 0 },
        { R_LDR, 0 },          { R_ICR, 0 },         { R_ICR2, 0 },
        { R_TMICT, 0 },        { R_TMCCT, 0 },       { R_TDCR, 0 },
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_vcpu_reset(v), 0);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        assert_int_equal(reg_r(v, images[i].offset), images[i].value);
    }
    reg_w(v, R_DFR, 0);
    assert_int_equal(reg_r(v, R_DFR), 0x0fffffff);
}

/* [APM2 16.6.4] */
static void
reg_15(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x2f);
    assert_int_equal(avicemu_post(v, 0x25, EDGE), NEW);
    assert_int_equal(avicemu_post(v, 0x2f, EDGE), NEW);
    assert_int_equal(scan(v), -1);
    assert_int_equal(avicemu_post(v, 0x30, EDGE), NEW);
    assert_int_equal(reg_r(v, R_PPR), 0x2f);
    assert_int_equal(scan(v), 0x30);
    assert_int_equal(rig_take(rig, 0), 0x30);
    assert_int_equal(reg_r(v, R_PPR), 0x30);
    assert_int_equal(avicemu_post(v, 0x38, EDGE), NEW);
    assert_int_equal(scan(v), -1);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(scan(v), 0x41);
    reg_w(v, R_TPR, 0xff);
    assert_int_equal(reg_r(v, R_PPR), 0xff);
    assert_int_equal(avicemu_post(v, 0xfe, EDGE), NEW);
    assert_int_equal(scan(v), -1);
}

static void
reg_17(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x4f);
    assert_int_equal(avicemu_cr8_read(v), 4);
    assert_int_equal(avicemu_cr8_write(v, 3), DONE);
    assert_int_equal(reg_r(v, R_TPR), 0x30);
    assert_int_equal(avicemu_post(v, 0x35, EDGE), NEW);
    assert_int_equal(scan(v), -1);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(scan(v), 0x41);
    assert_int_equal(avicemu_cr8_write(v, 16), GP);
    assert_int_equal(avicemu_cr8_read(v), 3);
}

/* [APM2 Fig 16-31] */
static void
reg_18(void **state)
{
    const uint64_t old = BASE_PAGE | BASE_EN | BASE_BSP;
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint32_t data;

    assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, old | 1ull << 41), GP);
    assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, old | 1ull << 40), GP);
    assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, old | 1u << 9), GP);
    for (unsigned bit = 0; bit < 8; bit++) {
        assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, old | 1u << bit),
                         GP);
    }
    assert_int_equal(msr_r(v, MSR_APIC_BASE), old);
    assert_int_equal(rig->fake[0].bases, 0);
    msr_w(v, MSR_APIC_BASE, old + 0x10000);
    assert_int_equal(rig->fake[0].bases, 1);
    assert_int_equal(rig->fake[0].last_base, old + 0x10000);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + R_SVR, 4, &data),
                     UNCLAIM);
    assert_int_equal(
        avicemu_mmio_read(v, BASE_PAGE + 0x10000 + R_SVR, 4, &data), DONE);
    assert_int_equal(data, 0x1ff);
}

static void
reg_18_fixed(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t old = msr_r(v, MSR_APIC_BASE);

    assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, old + 0x10000), GP);
    assert_int_equal(msr_r(v, MSR_APIC_BASE), old);
    to_x2apic(v); /* all but a move is allowed */
}

/* A disabled APIC: [SDM3 10.4.3], [APM2 16.3.1] */
static void
reg_20(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint32_t data;

    reg_w(v, R_LVTT, LVT_PERIODIC | 0xec);
    reg_w(v, R_TMICT, 1000);
    hw_disable(v);
    assert_int_equal(rig->fake[0].last_base & BASE_EN, 0);
    assert_int_equal(rig_view(v).mode, AVICEMU_APIC_DISABLED);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), NEW);
    assert_int_equal(rig_view(v).accepts_pic, 1);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    assert_int_equal(rig->todo.vector, 0x20);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 0), DROPPED);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + R_SVR, 4, &data),
                     UNCLAIM);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    rig_time(rig, 1000000);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig_stats(v).timer_ticks, 0);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), DROPPED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), DROPPED);
    hw_enable(v);
    assert_int_equal(rig_view(v).mode, AVICEMU_APIC_XAPIC);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
}

static void
reg_20_reset(void **state)
{
    struct rig *rig = *state;

    reg_20(state);
    expect_init(rig->v[0]);
}

static void
reg_21(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    icr_send(v, 1, ICR_FIXED | ICR_ASSERT | 0x51);
    assert_int_equal(reg_r(v, R_ICR2), 1u << 24);
    assert_int_equal(reg_r(v, R_ICR), ICR_FIXED | ICR_ASSERT | 0x51);
    assert_int_equal(rig_stats(v).ipi_sent, 1);
    to_x2apic(v);
    assert_int_equal((uint32_t)msr_r(v, 0x830), ICR_FIXED | ICR_ASSERT | 0x51);
    assert_int_equal(rig_stats(v).ipi_sent, 1); /* a switch sends nothing */
    msr_w(v, 0x830, 1ull << 32 | ICR_FIXED | 0x52);
    assert_int_equal(msr_r(v, 0x830), 1ull << 32 | ICR_FIXED | 0x52);
    assert_int_equal(rig_stats(v).ipi_sent, 2);
    assert_int_equal(rig_take(rig, 1), 0x52);
    eoi(rig->v[1]);
    assert_int_equal(rig_take(rig, 1), 0x51);
    eoi(rig->v[1]);
    msr_w(v, 0x830, 1ull << 32 | ICR_FIXED | 0x52); /* unchanged: sent again */
    assert_int_equal(rig_stats(v).ipi_sent, 3);
    assert_int_equal(rig_take(rig, 1), 0x52);
}

#define DEOI AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_DIRECTED_EOI

static int
run_with_avic(void)
{
    const struct CMUnitTest tests[] = {
        RIG_EACH_AVIC("REG-04 INIT is not a power-on reset", reg_04,
                      .nr_vcpus = 2, .nr_ids = 2, .ids = { 0, 0x11 }),
        RIG_EACH_AVIC("REG-05 the x2APIC LDR is derived from the id", reg_05,
                      .nr_ids = 1, .ids = { 0x25 }),
        RIG_TEST("REG-07 x2APIC ICR reserved bits, 12 among them (AMD, AVIC)",
                 reg_07_amd, P(AMD), .avic = RIG_X2AVIC),
        RIG_TEST("REG-07 x2APIC ICR reserved bits, 12 ignored (KVM, AVIC)",
                 reg_07_others, P(KVM), .avic = RIG_X2AVIC),
        RIG_EACH_AVIC("REG-09 a self IPI leaves the ICR alone", reg_09,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("REG-10 only the x2APIC ICR has a high half", reg_10,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("REG-15 priorities compare by class", reg_15,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("REG-17 CR8 is TPR[7:4]", reg_17, .nr_vcpus = 1),
        RIG_EACH_AVIC("REG-21 the ICR reads back and sends once", reg_21,
                      .nr_vcpus = 2),
    };

    return cmocka_run_group_tests_name("cases REG, AVIC", tests, NULL, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("REG-01 ESR is not plain storage (AMD)", reg_01, P(AMD)),
        RIG_TEST("REG-01 ESR is not plain storage (Intel)", reg_01, P(INTEL)),
        RIG_TEST("REG-02 an illegal LVT error vector does not recurse (AMD)",
                 reg_02, P(AMD)),
        RIG_TEST("REG-02 an illegal LVT error vector does not recurse (Intel)",
                 reg_02, P(INTEL)),
        RIG_EACH("REG-04 INIT is not a power-on reset", reg_04, .nr_vcpus = 2,
                 .nr_ids = 2, .ids = { 0, 0x11 }),
        RIG_EACH("REG-05 the x2APIC LDR is derived from the id", reg_05,
                 .nr_ids = 1, .ids = { 0x25 }),
        RIG_TEST("REG-07 x2APIC ICR reserved bits, 12 among them (AMD)",
                 reg_07_amd, P(AMD)),
        RIG_TEST("REG-07 x2APIC ICR reserved bits, 12 ignored (Intel)",
                 reg_07_others, P(INTEL)),
        RIG_TEST("REG-07 x2APIC ICR reserved bits, 12 ignored (KVM)",
                 reg_07_others, P(KVM)),
        RIG_EACH("REG-09 a self IPI leaves the ICR alone", reg_09,
                 .nr_vcpus = 1),
        RIG_EACH("REG-10 only the x2APIC ICR has a high half", reg_10,
                 .nr_vcpus = 1),
        RIG_TEST("REG-12 x2APIC EOI takes 0 only (AMD)", reg_12, P(AMD)),
        RIG_TEST("REG-12 x2APIC EOI takes 0 only (Intel)", reg_12, P(INTEL)),
        RIG_TEST("REG-12 x2APIC EOI takes any value (KVM)", reg_12_kvm, P(KVM)),
        RIG_TEST("REG-13 SVR bits in x2APIC mode (AMD)", reg_13, P(AMD)),
        RIG_TEST("REG-13 SVR bits in x2APIC mode (Intel)", reg_13, P(INTEL)),
        RIG_TEST("REG-13 SVR bits in x2APIC mode (Intel, directed EOI)", reg_13,
                 P(INTEL, .features = DEOI)),
        RIG_TEST("REG-13 SVR bits in x2APIC mode (KVM)", reg_13_kvm, P(KVM)),
        RIG_EACH("REG-14 DFR and LVT reset images", reg_14, .nr_vcpus = 1),
        RIG_EACH("REG-15 priorities compare by class", reg_15, .nr_vcpus = 1),
        RIG_EACH("REG-17 CR8 is TPR[7:4]", reg_17, .nr_vcpus = 1),
        RIG_TEST("REG-18 APIC_BASE reserved bits and relocation", reg_18,
                 P(AMD, .maxphyaddr = 40)),
        RIG_TEST("REG-18 a policy that refuses moves says #GP", reg_18_fixed,
                 P(AMD, .features =
                            AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_FIXED_BASE)),
        RIG_TEST("REG-20 a globally disabled APIC (AMD)", reg_20_reset, P(AMD)),
        RIG_TEST("REG-20 a globally disabled APIC (Intel)", reg_20_reset,
                 P(INTEL)),
        RIG_TEST("REG-20 a globally disabled APIC (KVM)", reg_20, P(KVM)),
        RIG_EACH("REG-21 the ICR reads back and sends once", reg_21,
                 .nr_vcpus = 2),
    };

    int failed = cmocka_run_group_tests_name("cases REG", tests, NULL, NULL);

    return failed + run_with_avic() != 0;
}
