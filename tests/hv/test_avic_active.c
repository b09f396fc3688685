/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AVIC of a vCPU goes on and off: fields of the VMCB, its entry in the physical
 * table, MSR intercepts, and the inhibits that decide.
 *
 * [APM2 15.11 MSR intercepts], [APM2 15.15.3 clean bits], [APM2 15.29.4 set-up
 * of AVIC], [APM2 15.29.4.3], [APM2 15.29.5 tables], [APM2 15.29.10 x2AVIC],
 * [KVM avic_activate_vmcb, avic_deactivate_vmcb, inhibit bits]
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

#define X1     AVICEMU_HOST_AVIC
#define X2     (AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC)
#define X2_EXT (X2 | AVICEMU_HOST_X2AVIC_EXT)

#define V    AVICEMU_PHYSICAL_VALID
#define IR   AVICEMU_PHYSICAL_RUNNING
#define PAGE AVICEMU_PHYSICAL_PAGE

#define HYPERV AVICEMU_INHIBIT_HYPERV

/* An entry and an exit: the vCPU follows what was asked of it. */
static void
follow(struct rig *rig, uint32_t i)
{
    (void)rig_enter(rig, i, 0);
    rig_exit(rig, i, 0);
}

static void
inhibit(struct rig *rig, enum avicemu_inhibit reason, int on)
{
    assert_int_equal(avicemu_vm_inhibit(rig->vm, reason, on), 0);
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        follow(rig, i);
    }
}

/* ---- the VMCB ----------------------------------------------------------- */

struct flip_row {
    const char *name;
    uint32_t avic, max_apic_id;
    int x2apic;
    enum avicemu_avic_state state;
    uint64_t enables;   /* 60h, bits 31:30 */
    uint32_t max_index; /* F8h, bits 11:0 */
};

#define ON1 (1ull << 31)
#define ON2 (3ull << 30)

/* clang-format off */
static struct flip_row flip_rows[] = {
    { "VMCB: xAVIC",                              X2_EXT, 0,     0, AVICEMU_AVIC_XAVIC,  ON1, 0x0fe },
    { "VMCB: xAVIC, ids to 9",                    X2_EXT, 9,     0, AVICEMU_AVIC_XAVIC,  ON1, 9 },
    { "VMCB: xAVIC, ids beyond the mode's",       X2_EXT, 1000,  0, AVICEMU_AVIC_XAVIC,  ON1, 0x0fe },
    { "VMCB: xAVIC on silicon without x2AVIC",    X1,     0,     0, AVICEMU_AVIC_XAVIC,  ON1, 0x0fe },
    { "VMCB: x2AVIC, 512 ids",                    X2,     0,     1, AVICEMU_AVIC_X2AVIC, ON2, 0x1ff },
    { "VMCB: x2AVIC, ids beyond the silicon's",   X2,     0xfff, 1, AVICEMU_AVIC_X2AVIC, ON2, 0x1ff },
    { "VMCB: x2AVIC, 4096 ids",                   X2_EXT, 0,     1, AVICEMU_AVIC_X2AVIC, ON2, 0xfff },
    { "VMCB: x2AVIC, ids to 600",                 X2_EXT, 600,   1, AVICEMU_AVIC_X2AVIC, ON2, 600 },
    { "VMCB: hybrid, x2APIC without x2AVIC",      X1,     0,     1, AVICEMU_AVIC_HYBRID, ON1, 0x0fe },
};
/* clang-format on */

static void
expect_pointers(struct avicemu_vcpu *v)
{
    uint64_t page = rig_vmcb(v, 0x0e0);
    uint32_t tpr;

    assert_int_equal(rig_vmcb(v, 0x098), 0xfee00000); /* V_APIC_BAR */
    assert_int_equal(page & 0xfff, 0);
    assert_int_equal(rig_physical(v, 0) & PAGE, page);
    assert_int_equal(rig_vmcb(v, 0x0f0) & 0xfff, 0);
    assert_int_not_equal(rig_vmcb(v, 0x0f0), 0);
    assert_int_equal(rig_vmcb(v, 0x090) & 1, 1); /* nested paging */
    reg_w(v, R_TPR, 0x35);
    memcpy(&tpr, (const unsigned char *)(uintptr_t)page + 0x80, sizeof(tpr));
    assert_int_equal(tpr, 0x35);
    reg_w(v, R_TPR, 0);
}

static void
expect_on(struct rig *rig, const struct flip_row *row)
{
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(rig_avic(rig, 0), row->state);
    assert_int_equal(rig_vmcb(v, 0x060) & ON2, row->enables);
    assert_int_equal(rig_vmcb(v, 0x0f8) & 0xfff, row->max_index);
    assert_int_equal(rig_vmcb(v, 0x000) >> 24 & 1, 0);        /* CR8 write */
    assert_int_equal(rig_vmcb(v, 0x008) >> (32 + 28) & 1, 1); /* MSRs */
    assert_int_equal(rig_vmcb(v, 0x0c0) & 0x808, 0x800);      /* latched */
    assert_int_equal(rig_vmcb(v, 0x058) >> 32 & 0xff, 0);     /* flushed once */
}

static void
expect_off(struct rig *rig)
{
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
    assert_int_equal(rig_vmcb(v, 0x060) & ON2, 0);
    assert_int_equal(rig_vmcb(v, 0x0f8) & 0xfff, 0);
    assert_int_equal(rig_vmcb(v, 0x000) >> 24 & 1, 1);
    for (uint32_t msr = 0x800; msr <= 0x8ff; msr++) {
        assert_int_equal(avicemu_vcpu_msr_passes(v, msr, 0), 0);
        assert_int_equal(avicemu_vcpu_msr_passes(v, msr, 1), 0);
    }
}

static void
test_flip(void **state)
{
    const struct flip_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){
        .avic = row->avic, .max_apic_id = row->max_apic_id });
    uint64_t flips;

    if (row->x2apic) {
        to_x2apic(rig->v[0]);
        follow(rig, 0);
    }
    expect_on(rig, row);
    expect_pointers(rig->v[0]);
    flips = rig_stats(rig->v[0]).avic_flips;
    inhibit(rig, HYPERV, 1);
    expect_off(rig);
    inhibit(rig, HYPERV, 0);
    expect_on(rig, row);
    expect_pointers(rig->v[0]);
    assert_int_equal(rig_stats(rig->v[0]).avic_flips, flips + 2);
    /* Off by the guest's own APIC_BASE, too; the mode comes back as xAPIC. */
    hw_disable(rig->v[0]);
    follow(rig, 0);
    expect_off(rig);
    hw_enable(rig->v[0]);
    reg_w(rig->v[0], R_SVR, 0x1ff);
    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
    rig_close(rig);
}

/* V_TPR is the page's, in either direction, at each entry. [APM2 16.6.4] */
static void
test_v_tpr(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x2f);
    follow(rig, 0);
    assert_int_equal(rig_vmcb(v, 0x060) & 0xf, 2);
    assert_int_equal(reg_r(v, R_TPR), 0x2f); /* the class did not change */
    assert_int_equal(avicemu_cr8_write(v, 5), DONE);
    follow(rig, 0);
    assert_int_equal(rig_vmcb(v, 0x060) & 0xf, 5);
    assert_int_equal(reg_r(v, R_TPR), 0x50);
    (void)rig_enter(rig, 0, 0);
    assert_int_equal(avicemu_cr8_write(v, 3), DONE); /* no exit */
    assert_int_equal(rig_vmcb(v, 0x060) & 0xf, 3);
    assert_int_equal(avicemu_cr8_read(v), 3);
    rig_exit(rig, 0, 0);
    assert_int_equal(reg_peek(v, R_PPR), 0x30);
}

/* ---- MSR intercepts ----------------------------------------------------- */

struct msr_row {
    const char *name;
    uint32_t avic, features;
    int x2apic, inhibited;
    int passes; /* what x2AVIC passes; else nothing */
};

static struct msr_row msr_rows[] = {
    { "MSRs: xAPIC intercepts all 256, whatever the silicon", X2_EXT, 0, 0, 0,
      0 },
    { "MSRs: x2AVIC passes what hardware may do", X2, 0, 1, 0, 1 },
    { "MSRs: x2AVIC with CMCI", X2, AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_CMCI,
      1, 0, 1 },
    { "MSRs: x2AVIC inhibited intercepts all 256", X2, 0, 1, 1, 0 },
    { "MSRs: hybrid intercepts all 256", X1, 0, 1, 0, 0 },
};

/* [KVM] since it leaves APR and TMCCT alone. */
static int
msr_passes(const struct msr_row *row, uint32_t msr, int write)
{
    if (!row->passes) {
        return 0;
    }
    if (write) {
        return msr == 0x808 || msr == 0x80b || msr == 0x830 || msr == 0x83f;
    }
    if (msr == 0x82f) {
        return (row->features & AVICEMU_LAPIC_CMCI) != 0;
    }
    return msr == 0x802 || msr == 0x803 || msr == 0x808 || msr == 0x80a ||
           msr == 0x80d || msr == 0x80f || (msr >= 0x810 && msr <= 0x828) ||
           msr == 0x830 || (msr >= 0x832 && msr <= 0x838) || msr == 0x83e;
}

/* By the map in memory: 2 bits per MSR, intercepted if set. */
static int
map_passes(struct avicemu_vcpu *v, uint32_t msr, int write)
{
    const unsigned char *map =
        (const unsigned char *)(uintptr_t)(rig_vmcb(v, 0x048) & ~0xfffull);

    return (map[msr / 4] >> (2 * (msr % 4) + (unsigned)write) & 1) == 0;
}

static void
test_msrs(void **state)
{
    const struct msr_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){
        P(KVM, .features = row->features), .avic = row->avic });
    struct avicemu_vcpu *v = rig->v[0];

    if (row->x2apic) {
        to_x2apic(v);
    }
    inhibit(rig, HYPERV, row->inhibited);
    for (uint32_t msr = 0x800; msr <= 0x8ff; msr++) {
        for (int write = 0; write < 2; write++) {
            if (avicemu_vcpu_msr_passes(v, msr, write) !=
                    msr_passes(row, msr, write) ||
                map_passes(v, msr, write) != msr_passes(row, msr, write)) {
                fail_msg("MSR %xh, %s", msr, write ? "write" : "read");
            }
        }
    }
    assert_int_equal(avicemu_vcpu_msr_passes(v, MSR_APIC_BASE, 1), 0);
    assert_int_equal(avicemu_vcpu_msr_passes(v, MSR_TSC_DEADLINE, 1), 0);
    assert_int_equal(avicemu_vcpu_msr_passes(v, 0xc001011b, 1), 0);
    rig_close(rig);
}

/* ---- the physical table ------------------------------------------------- */

static void
expect_entry(struct rig *rig, uint32_t i, uint64_t bits)
{
    uint32_t id = avicemu_vcpu_apic_id(rig->v[i]);
    uint64_t entry = rig_physical(rig->v[0], id);

    assert_int_equal(entry, bits | rig_vmcb(rig->v[i], 0x0e0));
}

/* Deep asleep: halted with IF = 1, nothing pending. */
static void
block(struct rig *rig, uint32_t i)
{
    (void)rig_run(rig, i, IF);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[i]), 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[i]), AVICEMU_SLEEP_YES);
}

static void
test_entry(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v;

    assert_int_equal(
        avicemu_vcpu_create(rig->vm, 0x25, &rig->fake[1], &rig->v[1]), 0);
    v = rig->v[1];
    rig->nr_vcpus++;
    expect_entry(rig, 1, V); /* a broadcast needs it from the beginning */
    assert_int_equal(avicemu_vcpu_load(v, 0xabc), 0);
    expect_entry(rig, 1, V | 0xabc); /* AVIC is not on yet */
    (void)avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1);
    (void)rig_run(rig, 1, 0);
    expect_entry(rig, 1, V | IR | 0xabc);
    assert_int_equal(avicemu_vcpu_put(v), 0);
    expect_entry(rig, 1, V | 0xabc); /* the host id is kept */
    assert_int_equal(avicemu_vcpu_load(v, 0xfff), 0);
    expect_entry(rig, 1, V | IR | 0xfff);
    assert_int_equal(avicemu_vcpu_load(v, 0x1000), -EINVAL);
    expect_entry(rig, 1, V | IR | 0xfff);
    assert_int_equal(avicemu_vcpu_load(NULL, 0), -EINVAL);
    assert_int_equal(avicemu_vcpu_put(NULL), -EINVAL);
    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_vcpu_load(v, 1), -EBUSY);
    assert_int_equal(avicemu_vcpu_put(v), -EBUSY);
    expect_entry(rig, 1, V | IR | 0xfff);
    rig_exit(rig, 1, IF);
    inhibit(rig, HYPERV, 1);
    expect_entry(rig, 1, V | 0xfff);
    inhibit(rig, HYPERV, 0);
    expect_entry(rig, 1, V | IR | 0xfff);
    assert_int_equal(avicemu_vcpu_destroy(v), 0);
    rig->nr_vcpus--;
    assert_int_equal(rig_physical(rig->v[0], 0x25), 0);
    assert_int_equal(rig_add(rig, 0x25), 1);
    expect_entry(rig, 1, V);
}

static void
test_entry_blocked(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    block(rig, 0);
    assert_int_equal(rig_physical(v, 0) & (V | IR), V);
    assert_int_equal(avicemu_vcpu_load(v, 9), 0); /* noted only */
    assert_int_equal(rig_physical(v, 0) & (V | IR), V);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    expect_entry(rig, 0, V | IR | 9);
    block(rig, 0);
    assert_int_equal(avicemu_vcpu_put(v), 0);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    expect_entry(rig, 0, V | 9);
    assert_int_equal(avicemu_vcpu_load(v, 3), 0);
    /* A block that ends before it begins. */
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(avicemu_vcpu_set_halted(v), 0);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_NO);
    expect_entry(rig, 0, V | IR | 3);
}

/* IPI virtualisation off: nobody is seen running, but the own page is one's
 * own. [KVM enable_ipiv] */
static void
test_no_ipiv(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    expect_entry(rig, 0, V | 0);
    expect_entry(rig, 1, V | 1);
    icr_send(v, 0, ICR_SELF | 0x51);
    assert_int_equal(rig_stats(v).avic_incomplete, 0);
    assert_int_equal(rig_irr_mask(rig, 0x51), 1);

    block(rig, 1);
    icr_send(v, 1, ICR_FIXED | 0x61);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITCODE), 0x401);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO2), 0x100000001);
    assert_int_equal(rig->fake[1].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    assert_int_equal(rig_take(rig, 1), 0x61);

    (void)rig_enter(rig, 1, IF);
    expect_entry(rig, 1, V | 1);
    icr_send(v, 1, ICR_FIXED | 0x71);
    icr_send(v, 1, ICR_FIXED | 0x81);
    assert_int_equal(rig_stats(v).avic_incomplete, 3);
    assert_int_equal(rig_stats(v).doorbells, 0);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig_take(rig, 1), 0x81);
}

/* ---- inhibits of the VMM's ---------------------------------------------- */

static void
test_reasons(void **state)
{
    static const int kept[AVICEMU_NR_INHIBIT] = {
        [AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED] = 1,
        [AVICEMU_INHIBIT_APIC_ID_MODIFIED] = 1,
        [AVICEMU_INHIBIT_APIC_BASE_MODIFIED] = 1,
        [AVICEMU_INHIBIT_LOGICAL_ID_ALIASED] = 1,
        [AVICEMU_INHIBIT_PHYSICAL_ID_TOO_BIG] = 1,
    };
    struct rig *rig = *state;

    for (unsigned n = 0; n < AVICEMU_NR_INHIBIT; n++) {
        enum avicemu_inhibit reason = (enum avicemu_inhibit)n;
        int r = avicemu_vm_inhibit(rig->vm, reason, 1);

        assert_int_equal(r, kept[n] ? -EINVAL : 0);
        assert_int_equal(avicemu_vm_inhibits(rig->vm), kept[n] ? 0 : 1u << n);
        assert_int_equal(avicemu_vm_inhibit(rig->vm, reason, 0), r);
        assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    }
    assert_int_equal(avicemu_vm_inhibit(
                         rig->vm, (enum avicemu_inhibit)AVICEMU_NR_INHIBIT, 1),
                     -EINVAL);
    assert_int_equal(avicemu_vm_inhibit(NULL, HYPERV, 1), -EINVAL);
    assert_int_equal(avicemu_vm_inhibits(NULL), 0);
}

/* In the guest: kicked once. Asleep: left alone. Outside: not called. */
static void
test_inhibit_calls(void **state)
{
    struct rig *rig = *state;

    (void)rig_enter(rig, 0, IF);
    block(rig, 1);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, HYPERV, 1), 0);
    assert_int_equal(rig->fake[0].kicks, 1);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC); /* not yet */
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_PIT_REINJ, 1),
                     0);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, HYPERV, 0), 0);
    assert_int_equal(rig->fake[0].kicks, 1);
    rig_exit(rig, 0, IF);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_PIT_REINJ, 0),
                     0);
    assert_int_equal(rig->fake[0].kicks, 2);
    rig_exit(rig, 0, IF);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
    rig_exit(rig, 0, IF);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(rig->fake[i].wakes, 0);
        assert_int_equal(rig->fake[i].kicks, 0);
    }
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
}

/* A request is not lost to what empties the event word: reset, restore, INIT
 * behind an entry. */
enum loser {
    BY_RESET,
    BY_RESTORE,
    BY_INIT,
};

static void
request_lost(struct rig *rig, enum loser by)
{
    uint8_t buf[AVICEMU_SNAPSHOT_BYTES];
    size_t len;

    assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_XAVIC);
    assert_int_equal(avicemu_vcpu_snapshot(rig->v[1], buf, sizeof(buf), &len),
                     0);
    if (by == BY_INIT) {
        (void)avicemu_post_mode(rig->v[1], AVICEMU_DELIVERY_INIT, 0);
        assert_int_equal(rig_enter(rig, 1, 0), AVICEMU_DO_INIT);
    }
    assert_int_equal(avicemu_vm_inhibit(rig->vm, HYPERV, 1), 0);
    if (by == BY_RESET) {
        assert_int_equal(avicemu_vcpu_reset(rig->v[1]), 0);
    } else if (by == BY_RESTORE) {
        assert_int_equal(avicemu_vcpu_restore(rig->v[1], buf, len), 0);
    } else {
        assert_int_equal(avicemu_vcpu_ack(rig->v[1], AVICEMU_DO_INIT, 0), 0);
        rig_exit(rig, 1, 0);
    }
    follow(rig, 1);
    assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_OFF);
}

static void
test_request_reset(void **state)
{
    request_lost(*state, BY_RESET);
}

static void
test_request_restore(void **state)
{
    request_lost(*state, BY_RESTORE);
}

static void
test_request_init(void **state)
{
    request_lost(*state, BY_INIT);
}

static void
test_reset_first(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(avicemu_vcpu_reset(rig->v[0]), 0);
    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
}

/* After a RESET that leaves the APIC off, AVIC waits for the guest. */
static void
test_reset_off(void **state)
{
    struct rig *rig = *state;

    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    hw_enable(rig->v[0]);
    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
    assert_int_equal(avicemu_vcpu_reset(rig->v[0]), 0);
    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
}

/* ---- hybrid ------------------------------------------------------------- */

/* One vCPU in x2APIC mode unmaps the page for all, for good. */
static void
test_hybrid(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[1];
    uint64_t intercepted;

    to_x2apic(rig->v[0]);
    follow(rig, 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_HYBRID);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_XAVIC);
    hw_disable(rig->v[0]);
    hw_enable(rig->v[0]);
    follow(rig, 0);
    for (uint32_t i = 0; i < 2; i++) {
        v = rig->v[i];
        (void)rig_enter(rig, i, 0);
        intercepted = rig_stats(v).avic_intercepted;
        assert_int_equal(reg_try(v, R_TPR, 0x20), AVICEMU_ACCESS_EXIT);
        assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITCODE), AVICEMU_EXIT_NPF);
        assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO2), 0xfee00080);
        assert_int_equal(rig_stats(v).avic_intercepted, intercepted + 1);
        rig_exit(rig, i, 0);
        assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
        assert_int_equal(reg_r(v, R_TPR), 0x20);
        reg_w(v, R_TPR, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("V_TPR is the page's at every entry", test_v_tpr, .avic = X2),
        RIG_TEST("the entry: created, loaded, put, inhibited, destroyed",
                 test_entry, .avic = X2, .unloaded = 1),
        RIG_TEST("the entry: blocked, loaded while blocked, unblocked",
                 test_entry_blocked, .avic = X2),
        RIG_TEST("NO_IPIV: nobody is seen running, self IPIs are", test_no_ipiv,
                 .nr_vcpus = 2, .avic = X2, .flags = AVICEMU_VM_NO_IPIV),
        RIG_TEST("erratum 1235: nobody is seen running, self IPIs are",
                 test_no_ipiv, .nr_vcpus = 2,
                 .avic = X2 | AVICEMU_HOST_ERRATUM_1235),
        RIG_TEST("inhibit: what the library keeps is refused", test_reasons,
                 .avic = X2),
        RIG_TEST("inhibit: a guest is kicked once, a sleeper not woken",
                 test_inhibit_calls, .avic = X2, .nr_vcpus = 3),
        RIG_TEST("inhibit: the request survives a reset", test_request_reset,
                 .avic = X2, .nr_vcpus = 2),
        RIG_TEST("inhibit: the request survives a restore",
                 test_request_restore, .avic = X2, .nr_vcpus = 2),
        RIG_TEST("inhibit: the request survives an INIT", test_request_init,
                 .avic = X2, .nr_vcpus = 2),
        RIG_TEST("a vCPU that is reset before it ran gets AVIC",
                 test_reset_first, .avic = X2, .as_created = 1),
        RIG_TEST("AVIC is off while RESET leaves the APIC off", test_reset_off,
                 .avic = X2, .as_created = 1,
                 .lapic.features =
                     AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_RESET_OFF),
        RIG_TEST("hybrid: the page is gone for all, for good", test_hybrid,
                 .avic = X1, .nr_vcpus = 2),
    };
    struct CMUnitTest tests[NR(fixed) + NR(flip_rows) + NR(msr_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(flip_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = flip_rows[i].name,
                                          .test_func = test_flip,
                                          .initial_state = &flip_rows[i] };
    }
    for (size_t i = 0; i < NR(msr_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = msr_rows[i].name,
                                          .test_func = test_msrs,
                                          .initial_state = &msr_rows[i] };
    }
    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    return cmocka_run_group_tests_name("AVIC on and off", tests, NULL, NULL) !=
           0;
}
