/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind AVT: AVIC's tables and its incomplete IPIs. Not here:
 *
 *   AVT-02        needs the GA log
 *   AVT-03, 06    no such cases
 *   AVT-07        all interleavings: the step and race tests
 *
 * [APM2 15.29.5 tables], [APM2 15.29.6.1 IPI delivery], [APM2 15.29.9.1],
 * [KVM avic_handle_ldr_update, avic_handle_dfr_update], [KVM 9.7 APIC map]
 */

#include <errno.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

#define EXIT AVICEMU_ACCESS_EXIT

static void
expect_exit(struct avicemu_vcpu *v, uint64_t code, uint64_t info1,
            uint64_t info2)
{
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITCODE), code);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO1), info1);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO2), info2);
}

static void
leave(struct rig *rig, uint32_t i)
{
    rig_exit(rig, i, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(rig->v[i], NULL), DONE);
}

static void
all_x2apic(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        to_x2apic(rig->v[i]);
    }
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        (void)rig_enter(rig, i, 0);
        rig_exit(rig, i, 0);
        assert_int_equal(rig_avic(rig, i), AVICEMU_AVIC_X2AVIC);
    }
}

/* ---- AVT-01 ------------------------------------------------------------- */

/* One good target, one that is not there: nothing is set before the exit, the
 * good one gets it by software. */
static void
avt_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_LDR, 0x01000000);
    reg_w(rig->v[1], R_LDR, 0x02000000);
    (void)rig_enter(rig, 0, IF);
    reg_w(v, R_ICR2, 0x06000000);
    assert_int_equal(reg_try(v, R_ICR, ICR_LOGICAL | 0x51), EXIT);
    expect_exit(v, 0x401, 0x0600000000000851, 0x0000000200000002);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0);
    leave(rig, 0);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0x2);
    assert_int_equal(rig_stats(v).ipi_software, 1);
    assert_int_equal(rig_stats(v).ipi_sent, 1);
    assert_int_equal(reg_r(v, R_ICR), ICR_LOGICAL | 0x51);
}

static void
avt_01_x2apic(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    all_x2apic(rig);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(
        avicemu_msr_write(v, 0x830, 0x600000000 | ICR_LOGICAL | 0x51), EXIT);
    expect_exit(v, 0x401, 0x0000000600000851, 0x0000000200000002);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0);
    leave(rig, 0);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0x2);
    assert_int_equal(msr_r(v, 0x830), 0x600000000 | ICR_LOGICAL | 0x51);
}

/* ---- AVT-04 ------------------------------------------------------------- */

static void
avt_04(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    (void)rig_enter(rig, 1, IF);
    (void)rig_enter(rig, 0, IF);
    reg_w(v, R_ICR2, 0x01000000);
    assert_int_equal(reg_try(v, R_ICR, ICR_FIXED | 0x08), EXIT);
    expect_exit(v, 0x401, 0x0100000000000008, 0x0000000400000000);
    leave(rig, 0);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig->fake[1].kicks, 0);
    assert_int_equal(reg_peek(rig->v[1], R_IRR), 0);
    assert_int_equal(rig_stats(v).ipi_dropped, 1);
    reg_w(v, R_ESR, 0);
    assert_int_equal(reg_r(v, R_ESR), ESR_SEND_ILLEGAL);
    reg_w(rig->v[1], R_ESR, 0);
    assert_int_equal(reg_r(rig->v[1], R_ESR), 0);
}

/* ---- AVT-05 ------------------------------------------------------------- */

static uint32_t
page_word(const struct avicemu_kvm_lapic *page, uint32_t offset)
{
    return (uint32_t)page->regs[offset] | (uint32_t)page->regs[offset + 1] << 8;
}

static void
avt_05(void **state)
{
    struct rig *rig = *state;
    struct rig *other =
        rig_open(&(struct rig_setup){ .lapic.personality = KVM });
    struct avicemu_kvm_lapic page;

    all_x2apic(rig);
    msr_w(rig->v[0], 0x830, 5ull << 32 | 0x51); /* nobody's id: software */
    assert_int_equal(reg_peek(rig->v[0], R_ICR), 0x51);
    assert_int_equal(reg_peek(rig->v[0], R_ICR2), 5);
    msr_w(rig->v[0], 0x830, 1ull << 32 | 0x51); /* by hardware */
    assert_int_equal(reg_peek(rig->v[0], R_ICR), 0x51);
    assert_int_equal(reg_peek(rig->v[0], R_ICR2), 1);
    assert_int_equal(msr_r(rig->v[0], 0x830), 1ull << 32 | 0x51);
    assert_int_equal(avicemu_vcpu_export_kvm(rig->v[0], 0, &page), 0);
    assert_int_equal(page_word(&page, 0x300), 0x51);
    assert_int_equal(page_word(&page, 0x310), 1);
    to_x2apic(other->v[0]);
    assert_int_equal(avicemu_vcpu_import_kvm(other->v[0], 0, &page), 0);
    assert_int_equal(msr_r(other->v[0], 0x830), 1ull << 32 | 0x51);
    rig_close(other);
}

/* ---- AVT-07 ------------------------------------------------------------- */

static void
halted(struct rig *rig, uint32_t i)
{
    (void)rig_run(rig, i, IF);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[i]), 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[i]), AVICEMU_SLEEP_YES);
}

/* IsRunning is never set: a broadcast exits, skips ids without an entry, and
 * wakes everybody. */
static void
avt_07(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (uint32_t i = 1; i < 4; i++) {
        halted(rig, i);
    }
    icr_send(v, 0, ICR_OTHERS | 0x51);
    expect_exit(v, 0x401, 0xc0051, 0x0000000100000002);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0xe);
    assert_int_equal(rig_stats(v).ipi_wakes, 3);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(rig->fake[i].wakes, 1);
        assert_int_equal(avicemu_vcpu_block_end(rig->v[i]), 0);
        assert_int_equal(rig_take(rig, i), 0x51);
    }
}

/* ---- AVT-08 ------------------------------------------------------------- */

#define ALIASED  (1u << AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED)
#define MODIFIED (1u << AVICEMU_INHIBIT_APIC_ID_MODIFIED)
#define LOGICAL  (1u << AVICEMU_INHIBIT_LOGICAL_ID_ALIASED)
#define MOVED    (1u << AVICEMU_INHIBIT_APIC_BASE_MODIFIED)
#define TOO_BIG  (1u << AVICEMU_INHIBIT_PHYSICAL_ID_TOO_BIG)

#define CLUSTER 0x0fffffffu
#define FLAT    0xffffffffu
#define ID(x)   ((uint32_t)(x) << 24)

/* V0 has id 0, V1 has id 6. */
struct map_row {
    const char *name;
    struct {
        uint32_t i, reg, value;
    } w[6];
    uint32_t inhibits;
    int any_entries; /* 1: the table is not looked at */
    struct {
        int index, id; /* expected entries; ends with index -1 */
    } e[2];
};

#define NONE      \
    {             \
        {         \
            -1, 0 \
        }         \
    }
#define END   \
    {         \
        -1, 0 \
    }

/* clang-format off */
static struct map_row map_rows[] = {
    { "AVT-08 an entry names the APIC id, not the vCPU", { { 1, R_LDR, ID(2) } }, 0, 0, { { 1, 6 }, END } },
    { "AVT-08 several bits get no entry",       { { 1, R_LDR, ID(3) } }, LOGICAL, 0, NONE },
    { "AVT-08 several bits and back",           { { 1, R_LDR, ID(3) }, { 1, R_LDR, ID(4) } }, 0, 0, { { 2, 6 }, END } },
    { "AVT-08 zero gets no entry",              { { 1, R_LDR, ID(2) }, { 1, R_LDR, 0 } }, 0, 0, NONE },
    { "AVT-08 a bit that moved leaves nothing", { { 1, R_LDR, ID(2) }, { 1, R_LDR, ID(8) } }, 0, 0, { { 3, 6 }, END } },
    { "AVT-08 two with one bit",                { { 0, R_LDR, ID(1) }, { 1, R_LDR, ID(1) } }, LOGICAL, 0, NONE },
    { "AVT-08 two with one bit and back",       { { 0, R_LDR, ID(1) }, { 1, R_LDR, ID(1) }, { 1, R_LDR, ID(2) } }, 0, 0, { { 0, 0 }, { 1, 6 } } },
    { "AVT-08 cluster 2, bit 2",                { { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER }, { 1, R_LDR, ID(0x24) } }, 0, 0, { { 10, 6 }, END } },
    { "AVT-08 cluster 14, bit 3, the last",     { { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER }, { 1, R_LDR, ID(0xe8) } }, 0, 0, { { 59, 6 }, END } },
    { "AVT-08 cluster 15 gets no entry",        { { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER }, { 1, R_LDR, ID(0xf1) } }, 0, 0, NONE },
    { "AVT-08 a cluster without a member bit",  { { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER }, { 1, R_LDR, ID(0x30) } }, 0, 0, NONE },
    { "AVT-08 several bits of a cluster",       { { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER }, { 1, R_LDR, ID(0x33) } }, LOGICAL, 0, NONE },
    { "AVT-08 flat to cluster drops the flat entry", { { 1, R_LDR, ID(0x20) }, { 0, R_DFR, CLUSTER }, { 1, R_DFR, CLUSTER } }, 0, 0, NONE },
    { "AVT-08 two models with logical ids",     { { 0, R_LDR, ID(1) }, { 1, R_LDR, ID(2) }, { 1, R_DFR, CLUSTER } }, LOGICAL, 1, NONE },
    { "AVT-08 two models and back",             { { 0, R_LDR, ID(1) }, { 1, R_LDR, ID(2) }, { 1, R_DFR, CLUSTER }, { 1, R_DFR, FLAT } }, 0, 0, { { 0, 0 }, { 1, 6 } } },
    { "AVT-08 two models inhibit, also without an id",   { { 0, R_LDR, ID(1) }, { 1, R_DFR, CLUSTER } }, LOGICAL, 1, NONE },
    { "AVT-08 who is software-disabled aliases nobody", { { 0, R_LDR, ID(2) }, { 0, R_SVR, 0xff }, { 1, R_LDR, ID(2) } }, 0, 1, NONE },
    { "AVT-08 several bits while software-disabled", { { 1, R_SVR, 0xff }, { 1, R_LDR, ID(3) } }, 0, 1, NONE },
    { "AVT-08 several bits, then enabled",      { { 1, R_SVR, 0xff }, { 1, R_LDR, ID(3) }, { 1, R_SVR, 0x1ff } }, LOGICAL, 0, NONE },
    { "AVT-08 an id that was modified",         { { 1, R_ID, ID(9) } }, MODIFIED, 1, NONE },
    { "AVT-08 an id that was modified and back", { { 1, R_ID, ID(9) }, { 1, R_ID, ID(6) } }, 0, 0, NONE },
    { "AVT-08 two with one id",                 { { 1, R_ID, ID(0) } }, MODIFIED | ALIASED, 1, NONE },
    { "AVT-08 two with one id and back",        { { 1, R_ID, ID(0) }, { 1, R_ID, ID(6) } }, 0, 0, NONE },
};
/* clang-format on */

static void
expect_logical(struct rig *rig, const struct map_row *row)
{
    for (int index = 0; index < 64; index++) {
        uint32_t want = 0;

        for (size_t n = 0; n < NR(row->e) && row->e[n].index >= 0; n++) {
            if (row->e[n].index == index) {
                want = AVICEMU_LOGICAL_VALID | (uint32_t)row->e[n].id;
            }
        }
        if (rig_logical(rig->v[0], (uint32_t)index) != want) {
            fail_msg("logical entry %d: %xh, not %xh", index,
                     rig_logical(rig->v[0], (uint32_t)index), want);
        }
    }
}

static void
test_map(void **state)
{
    const struct map_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){
        .avic = RIG_X2AVIC, .nr_vcpus = 2, .nr_ids = 2, .ids = { 0, 6 } });

    for (size_t n = 0; n < NR(row->w) && row->w[n].reg != 0; n++) {
        reg_w(rig->v[row->w[n].i], row->w[n].reg, row->w[n].value);
        for (uint32_t i = 0; i < 2; i++) {
            (void)rig_enter(rig, i, 0);
            rig_exit(rig, i, 0);
        }
    }
    assert_int_equal(avicemu_vm_inhibits(rig->vm), row->inhibits);
    assert_int_equal(rig_avic(rig, 0) != AVICEMU_AVIC_OFF, row->inhibits == 0);
    if (!row->any_entries) {
        expect_logical(rig, row);
    }
    rig_close(rig);
}

/* xAPIC and x2APIC with logical ids: inhibited until all are of one mode. */
static void
avt_08_modes(void **state)
{
    struct rig *rig = *state;

    to_x2apic(rig->v[1]);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0); /* V0 has no LDR */
    reg_w(rig->v[0], R_LDR, ID(1));
    assert_int_equal(avicemu_vm_inhibits(rig->vm), LOGICAL);
    hw_disable(rig->v[1]); /* an APIC that is off has no logical id */
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    hw_enable(rig->v[1]);
    to_x2apic(rig->v[1]);
    reg_w(rig->v[1], R_SVR, 0x1ff);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), LOGICAL);
    to_x2apic(rig->v[0]);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
}

static void
avt_08_base(void **state)
{
    struct rig *rig = *state;
    uint64_t base = msr_r(rig->v[0], MSR_APIC_BASE);

    msr_w(rig->v[0], MSR_APIC_BASE, base ^ 0x1000);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), MOVED);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
    msr_w(rig->v[0], MSR_APIC_BASE, base);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), MOVED);
    assert_int_equal(avicemu_vcpu_reset(rig->v[0]), 0);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), MOVED);
}

/* A base that moves while the APIC is off inhibits once it is on. */
static void
avt_08_base_off(void **state)
{
    struct rig *rig = *state;
    uint64_t base = msr_r(rig->v[0], MSR_APIC_BASE);

    hw_disable(rig->v[0]);
    msr_w(rig->v[0], MSR_APIC_BASE, (base ^ 0x1000) & ~(uint64_t)BASE_EN);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    msr_w(rig->v[0], MSR_APIC_BASE, base);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    assert_int_equal(avicemu_vcpu_set_apic_base(rig->v[0], base ^ 0x1000), 0);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), MOVED);
}

struct big_row {
    const char *name;
    uint32_t avic, max_apic_id, fits, too_big;
};

static struct big_row big_rows[] = {
    { "AVT-08 ids of xAVIC end at 254", AVICEMU_HOST_AVIC, 0, 254, 255 },
    { "AVT-08 ids of x2AVIC end at 511",
      AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC, 0, 511, 512 },
    { "AVT-08 ids of x2AVIC_EXT end at 4095", RIG_X2AVIC, 0, 4095, 4096 },
    { "AVT-08 ids end where the VM's config says", RIG_X2AVIC, 9, 9, 10 },
};

/* In x2APIC mode an id above 254 has an entry that a broadcast walks past. */
static void
big_ids_x2apic(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        if (avicemu_vcpu_apic_id(rig->v[rig->nr_vcpus - 1]) > 254 &&
            rig_view(rig->v[i]).mode == AVICEMU_APIC_XAPIC) {
            to_x2apic(rig->v[i]);
        }
    }
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        (void)rig_enter(rig, i, 0);
        rig_exit(rig, i, 0);
    }
}

/* Too big inhibits, and does not fail. [APM2 15.29.4.3], [KVM] */
static void
test_big(void **state)
{
    const struct big_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){
        .avic = row->avic, .max_apic_id = row->max_apic_id });
    uint32_t i = rig_add(rig, row->fits);

    big_ids_x2apic(rig);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    assert_int_equal(rig_physical(rig->v[0], row->fits) >> 62, 3);
    i = rig_add(rig, row->too_big);
    assert_int_equal(avicemu_vm_inhibits(rig->vm) & TOO_BIG, TOO_BIG);
    big_ids_x2apic(rig);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), TOO_BIG);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(rig_avic(rig, n), AVICEMU_AVIC_OFF);
    }
    icr_send(rig->v[0], 0, ICR_ALL | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 7);
    assert_int_equal(avicemu_vcpu_destroy(rig->v[i]), 0);
    rig->nr_vcpus--;
    assert_int_equal(avicemu_vm_inhibits(rig->vm), TOO_BIG);
    rig_close(rig);
}

static void
avt_08_big_failed(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = NULL;

    while (rig->nr_vcpus < FAKE_MAX_VCPUS) {
        (void)rig_add(rig, rig->nr_vcpus);
    }
    assert_int_equal(avicemu_vcpu_create(rig->vm, 5000, NULL, &v), -EBUSY);
    assert_null(v);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
}

/* A broadcast in xAPIC mode reaches whom the 8 bits of an id do not, in either
 * mode of the receiver. */
static void
avt_08_big_broadcast(void **state)
{
    struct rig *rig = *state;

    for (unsigned x2apic = 0; x2apic < 2; x2apic++) {
        if (x2apic) {
            to_x2apic(rig->v[1]);
        }
        (void)rig_enter(rig, 0, 0);
        rig_exit(rig, 0, 0);
        icr_send(rig->v[0], 0, ICR_OTHERS | 0x51);
        assert_int_equal(rig_irr_mask(rig, 0x51), 2);
        /* FFh is a broadcast to those in xAPIC mode only. */
        icr_send(rig->v[0], 0xff, ICR_FIXED | 0x52);
        assert_int_equal(rig_irr_mask(rig, 0x52), x2apic ? 1 : 3);
        rig_drain(rig);
    }
}

/* ---- AVT-09 ------------------------------------------------------------- */

/* The handler takes the whole register, and runs its side effects once. */
static void
avt_09(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_LVTT, 0x61);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(reg_try(v, R_TMICT, 0x12345678), EXIT);
    expect_exit(v, 0x402, 0x100000380, 0);
    leave(rig, 0);
    assert_int_equal(reg_r(v, R_TMICT), 0x12345678);
    assert_int_equal(rig->fake[0].arms, 1);
    assert_int_equal(avicemu_vcpu_deadline(v), rig->vmm.now + 0x12345678);
    rig_time(rig, 0x12345678);
    assert_int_equal(rig_take(rig, 0), 0x61);
    assert_int_equal(rig_stats(v).timer_ticks, 1);
    eoi(v);
    assert_int_equal(rig_take(rig, 0), -1);
}

/* No id 300: the low half exits, the high half is still there. */
static void
avt_09_icr(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    all_x2apic(rig);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_msr_write(v, 0x830, 0x12c00000030), EXIT);
    expect_exit(v, 0x401, 0x0000012c00000030, 0x000000020000012c);
    leave(rig, 0);
    assert_int_equal(msr_r(v, 0x830), 0x12c00000030);
    assert_int_equal(rig_stats(v).ipi_sent, 1);
    assert_int_equal(rig_stats(v).ipi_dropped, 1);
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("AVT-01 one bad target of two (xAVIC)", avt_01, .nr_vcpus = 2,
                 .avic = RIG_X2AVIC),
        RIG_TEST("AVT-01 one bad target of two (x2AVIC)", avt_01_x2apic,
                 .nr_vcpus = 2, .avic = RIG_X2AVIC),
        RIG_TEST("AVT-04 an illegal vector is the sender's error", avt_04,
                 .nr_vcpus = 2, .avic = RIG_X2AVIC),
        RIG_TEST("AVT-05 the x2APIC ICR is split in the page", avt_05,
                 .nr_vcpus = 2, .avic = RIG_X2AVIC, P(KVM)),
        RIG_TEST("AVT-07 nobody runs: a broadcast wakes all", avt_07,
                 .nr_vcpus = 4, .nr_ids = 4, .ids = { 0, 2, 5, 9 },
                 .avic = RIG_X2AVIC, .flags = AVICEMU_VM_NO_IPIV),
        RIG_TEST("AVT-08 xAPIC beside x2APIC", avt_08_modes, .nr_vcpus = 2,
                 .avic = RIG_X2AVIC),
        RIG_TEST("AVT-08 an APIC page that moved", avt_08_base,
                 .avic = RIG_X2AVIC),
        RIG_TEST("AVT-08 an APIC page that moved while off", avt_08_base_off,
                 .avic = RIG_X2AVIC),
        RIG_TEST("AVT-08 a vCPU that was not made inhibits nothing",
                 avt_08_big_failed, .avic = RIG_X2AVIC),
        RIG_TEST("AVT-08 a broadcast in xAPIC mode to a big id",
                 avt_08_big_broadcast, .nr_vcpus = 2, .nr_ids = 2,
                 .ids = { 0, 300 }, .avic = RIG_X2AVIC),
        RIG_TEST("AVT-09 a trapped TMICT starts one timer", avt_09,
                 .avic = RIG_X2AVIC),
        RIG_TEST("AVT-09 a trapped ICR has 64 bits", avt_09_icr,
                 .avic = RIG_X2AVIC),
    };
    struct CMUnitTest tests[NR(fixed) + NR(map_rows) + NR(big_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(map_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = map_rows[i].name,
                                          .test_func = test_map,
                                          .initial_state = &map_rows[i] };
    }
    for (size_t i = 0; i < NR(big_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = big_rows[i].name,
                                          .test_func = test_big,
                                          .initial_state = &big_rows[i] };
    }
    return cmocka_run_group_tests_name("cases AVT", tests, NULL, NULL) != 0;
}
