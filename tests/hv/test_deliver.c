/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an offered interrupt to a pending bit: counts and reasons, MSI decode,
 * the event queue, and who is called how often.
 * [APM2 16.5 interrupt messages], [SDM3 10.11 message signalled], [KVM 9.7]
 */

#include <errno.h>

#include "rig.h"

/* ---- MSI: three vCPUs, ids 0 1 2, LDR 1 2 4; V2 is software-disabled ---- */

#define MSI(dest)    (0xfee00000ull | (uint64_t)(dest) << 12)
#define MSI_LOGICAL  4u
#define MSI_REDIRECT 8u
#define MSI_ASSERT   0x4000u
#define MSI_LEVEL    0x8000u

#define WHY(reason) (1u << AVICEMU_DROP_##reason)

struct msi_row {
    const char *name;
    uint64_t address;
    uint32_t data;
    struct avicemu_posted want;
    uint32_t targets; /* of vector 51h */
};

/* clang-format off */
static struct msi_row msi_rows[] = {
    { "MSI: fixed to an id",                    MSI(1),                  0x51,   { 1, 0, 0, 0 }, 2 },
    { "MSI: fixed to nobody",                   MSI(9),                  0x51,   { 0, 0, 1, WHY(NO_TARGET) }, 0 },
    { "MSI: fixed to a disabled APIC",          MSI(2),                  0x51,   { 0, 0, 1, WHY(DISABLED) }, 0 },
    { "MSI: fixed to all",                      MSI(0xff),               0x51,   { 2, 0, 1, WHY(DISABLED) }, 3 },
    { "MSI: logical, two bits",                 MSI(3) | MSI_LOGICAL,    0x51,   { 2, 0, 0, 0 }, 3 },
    { "MSI: logical, one good, one disabled",   MSI(6) | MSI_LOGICAL,    0x51,   { 1, 0, 1, WHY(DISABLED) }, 2 },
    { "MSI: logical, no common bit",            MSI(8) | MSI_LOGICAL,    0x51,   { 0, 0, 1, WHY(NO_TARGET) }, 0 },
    { "MSI: logical 0",                         MSI(0) | MSI_LOGICAL,    0x51,   { 0, 0, 1, WHY(NO_TARGET) }, 0 },
    { "MSI: vector 15",                         MSI(1),                  0x0f,   { 0, 0, 1, WHY(ILLEGAL) }, 0 },
    { "MSI: vector 16",                         MSI(1),                  0x10,   { 1, 0, 0, 0 }, 0 },
    { "MSI: level, asserted",                   MSI(1),                  0xc051, { 1, 0, 0, 0 }, 2 },
    { "MSI: level, de-asserted",                MSI(1),                  0x8051, { 0, 0, 1, WHY(DEASSERT) }, 0 },
    { "MSI: edge, the assert bit is ignored",   MSI(1),                  0x4051, { 1, 0, 0, 0 }, 2 },
    { "MSI: lowest priority, two candidates",   MSI(3) | MSI_LOGICAL,    0x151,  { 1, 0, 0, 0 }, 2 },
    { "MSI: lowest priority, all disabled",     MSI(4) | MSI_LOGICAL,    0x151,  { 0, 0, 1, WHY(DISABLED) }, 0 },
    { "MSI: redirection hint, logical",         MSI(3) | MSI_LOGICAL | MSI_REDIRECT, 0x51, { 1, 0, 0, 0 }, 2 },
    { "MSI: redirection hint, physical",        MSI(1) | MSI_REDIRECT,   0x51,   { 1, 0, 0, 0 }, 2 },
    { "MSI: NMI",                               MSI(1),                  0x400,  { 1, 0, 0, 0 }, 0 },
    { "MSI: NMI to a software-disabled APIC",   MSI(2),                  0x400,  { 1, 0, 0, 0 }, 0 },
    { "MSI: SMI to all",                        MSI(0xff),               0x200,  { 3, 0, 0, 0 }, 0 },
    { "MSI: remote read",                       MSI(1),                  0x300,  { 0, 0, 1, WHY(MODE) }, 0 },
    { "MSI: INIT, level, de-asserted",          MSI(1),                  0x8500, { 0, 0, 1, WHY(DEASSERT) }, 0 },
    { "MSI: SIPI is no device's",               MSI(1),                  0x610,  { 0, 0, 1, WHY(MODE) }, 0 },
    { "MSI: ExtINT",                            MSI(1),                  0x700,  { 1, 0, 0, 0 }, 0 },
    { "MSI: ExtINT to a software-disabled one", MSI(2),                  0x700,  { 0, 0, 1, WHY(DISABLED) }, 0 },
    { "MSI: an address below the window",       0xfed01000,              0x51,   { 0, 0, 1, WHY(ADDRESS) }, 0 },
    { "MSI: an address above the window",       0xfef01000,              0x51,   { 0, 0, 1, WHY(ADDRESS) }, 0 },
    { "MSI: address 0",                         0,                       0x51,   { 0, 0, 1, WHY(ADDRESS) }, 0 },
    { "MSI: bit 32 of the address",             MSI(1) | 1ull << 32,     0x51,   { 0, 0, 1, WHY(ADDRESS) }, 0 },
    { "MSI: bit 39 of the address",             MSI(1) | 1ull << 39,     0x51,   { 0, 0, 1, WHY(ADDRESS) }, 0 },
    { "MSI: a 32-bit id that nobody has",       MSI(1) | 1ull << 40,     0x51,   { 0, 0, 1, WHY(NO_TARGET) }, 0 },
    { "MSI: data above bit 15 is ignored",      MSI(1),                  0xffff0051, { 1, 0, 0, 0 }, 2 },
};
/* clang-format on */

static void
test_msi(void **state)
{
    const struct msi_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){ .nr_vcpus = 3 });
    struct avicemu_posted got, again;

    for (uint32_t i = 0; i < 3; i++) {
        reg_w(rig->v[i], R_LDR, 1u << (24 + i));
    }
    reg_w(rig->v[2], R_SVR, 0xff);
    assert_int_equal(avicemu_msi(rig->vm, row->address, row->data, &got), 0);
    assert_int_equal(got.nr_new, row->want.nr_new);
    assert_int_equal(got.nr_merged, row->want.nr_merged);
    assert_int_equal(got.nr_dropped, row->want.nr_dropped);
    assert_int_equal(got.why, row->want.why);
    assert_int_equal(rig_irr_mask(rig, 0x51), row->targets);
    /* The same once more: what was new merges (two NMIs fit). */
    assert_int_equal(avicemu_msi(rig->vm, row->address, row->data, &again), 0);
    assert_int_equal(again.nr_dropped, got.nr_dropped);
    assert_int_equal(again.nr_new + again.nr_merged, got.nr_new);
    if ((row->data & 0x700) != 0x400) {
        assert_int_equal(again.nr_merged, got.nr_new);
    }
    rig_close(rig);
}

/* 32-bit destinations in an MSI. [KVM api.rst] */
static void
test_msi_extended(void **state)
{
    struct rig *rig = *state;
    struct avicemu_posted got;

    assert_int_equal(
        avicemu_msi(rig->vm, MSI(0x23) | 0x123ull >> 8 << 40, 0x51, &got), 0);
    assert_int_equal(got.nr_new, 1);
    assert_int_equal(rig_irr_mask(rig, 0x51), 2);
    to_x2apic(rig->v[1]);
    assert_int_equal(
        avicemu_msi(rig->vm, MSI(0x23) | 0x123ull >> 8 << 40, 0x52, &got), 0);
    assert_int_equal(rig_irr_mask(rig, 0x52), 2);
    assert_int_equal(avicemu_msi(rig->vm, MSI(0x23), 0x53, &got), 0);
    assert_int_equal(got.why, WHY(NO_TARGET));
}

/* ---- posts to one vCPU -------------------------------------------------- */

static void
test_post(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (unsigned n = 0; n < 256; n++) {
        uint8_t vector = (uint8_t)n;

        assert_int_equal(avicemu_post(v, vector, EDGE), n < 16 ? DROPPED : NEW);
        assert_int_equal(avicemu_post(v, vector, EDGE),
                         n < 16 ? DROPPED : MERGED);
    }
    for (int n = 255; n >= 16; n--) {
        assert_int_equal(rig_take(rig, 0), n);
        eoi(v);
    }
    assert_int_equal(rig_take(rig, 0), -1);
    reg_w(v, R_SVR, 0xff);
    assert_int_equal(avicemu_post(v, 0x51, EDGE), DROPPED);
    assert_int_equal(avicemu_post(NULL, 0x51, EDGE), DROPPED);
}

static void
test_post_mode(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[1];

    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_FIXED, 0x51), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_LOWEST, 0x51),
                     MERGED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_REMOTE_READ, 0),
                     DROPPED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SMI, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SMI, 0), MERGED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0), MERGED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1), DROPPED);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0), MERGED);
}

/* Sources with an LVT entry, by feature and mask. */
static void
test_local_sources(void **state)
{
    static const struct {
        enum avicemu_lvt source;
        uint32_t offset;
        int there[3]; /* AMD with extended space, Intel, KVM with CMCI */
    } rows[] = {
        { AVICEMU_LVT_CMCI, R_CMCI, { 0, 1, 1 } },
        { AVICEMU_LVT_THERMAL, R_THERMAL, { 1, 1, 1 } },
        { AVICEMU_LVT_PERF, R_PERF, { 1, 1, 1 } },
        { AVICEMU_LVT_EXT0, R_EXT0, { 1, 0, 0 } },
        { AVICEMU_LVT_EXT3, R_EXT0 + 0x30, { 1, 0, 0 } },
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint32_t number = reg_r(v, R_VERSION) & 0xff;
    unsigned p = number == 0x10 ? 0 : number == 0x15 ? 1 : 2;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int there = rows[i].there[p];

        assert_int_equal(avicemu_vcpu_local(v, rows[i].source), DROPPED);
        reg_w(v, rows[i].offset, 0x51);
        (void)rig_enter(rig, 0, 0);
        assert_int_equal(avicemu_vcpu_local(v, rows[i].source),
                         there ? NEW : DROPPED);
        assert_int_equal(vec_bit(v, R_IRR, 0x51), there);
        assert_int_equal(rig->fake[0].kicks, there);
        rig->fake[0].kicks = 0;
        rig_exit(rig, 0, 0);
        reg_w(v, rows[i].offset, 0x51); /* Intel's perf masked itself */
        assert_int_equal(avicemu_vcpu_local(v, rows[i].source),
                         there ? MERGED : DROPPED);
        reg_w(v, rows[i].offset, LVT_MASKED | 0x51);
        assert_int_equal(avicemu_vcpu_local(v, rows[i].source), DROPPED);
        rig_drain(rig);
    }
    reg_w(v, R_THERMAL, ICR_NMI);
    assert_int_equal(avicemu_vcpu_local(v, AVICEMU_LVT_THERMAL), NEW);
    assert_int_equal(rig_run(rig, 0, 0), AVICEMU_DO_NMI);
}

/* One in service, one latched: two deep, more merge. */
static void
test_nmi(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), MERGED);
    assert_int_equal(rig_view(v).nr_nmi, 2);
    assert_int_equal(rig_run(rig, 0, 0),
                     AVICEMU_DO_NMI | AVICEMU_DO_NMI_WINDOW);
    assert_int_equal(rig_run(rig, 0, AVICEMU_CPU_NMI_BLOCKED),
                     AVICEMU_DO_NMI_WINDOW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), MERGED);
    assert_int_equal(rig_run(rig, 0, 0),
                     AVICEMU_DO_NMI | AVICEMU_DO_NMI_WINDOW);
    assert_int_equal(rig_run(rig, 0, 0), AVICEMU_DO_NMI);
    assert_int_equal(rig_run(rig, 0, 0), 0);
    assert_int_equal(rig_stats(v).nmi, 3);
}

/* ---- INIT and SIPI ------------------------------------------------------ */

static void
post_sipi(struct rig *rig, uint8_t vector, enum avicemu_post want)
{
    assert_int_equal(
        avicemu_post_mode(rig->v[1], AVICEMU_DELIVERY_SIPI, vector), want);
}

static void
post_init(struct rig *rig, enum avicemu_post want)
{
    assert_int_equal(avicemu_post_mode(rig->v[1], AVICEMU_DELIVERY_INIT, 0),
                     want);
}

static void
test_init_sipi(void **state)
{
    struct rig *rig = *state;

    post_init(rig, NEW);
    post_sipi(rig, 0x21, NEW); /* right behind it: kept */
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x21);
    assert_int_equal(rig_run(rig, 1, 0), 0);

    post_init(rig, NEW);
    post_sipi(rig, 0x31, NEW);
    post_init(rig, MERGED); /* kills the SIPI that was not taken */
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SLEEP);
    post_sipi(rig, 0x32, NEW);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x32);
}

/* Two SIPIs before the start: the first wins; with KVM the last. */
static void
test_two_sipis(void **state)
{
    struct rig *rig = *state;
    int last = (reg_r(rig->v[0], R_VERSION) & 0xff) == 0x14;

    post_init(rig, NEW);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    post_sipi(rig, 0x41, NEW);
    post_sipi(rig, 0x42, MERGED);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, last ? 0x42 : 0x41);
    post_sipi(rig, 0x43, DROPPED);
}

/* Waiting for a SIPI nothing else is taken, nor lost; an INIT clears NMIs. */
static void
test_wait_for_sipi(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[1];

    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    post_init(rig, NEW);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_view(v).nr_nmi, 0);
    assert_int_equal(rig_stats(v).nmi_cleared, 1);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SMI, 0), NEW);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_SLEEP);
    post_sipi(rig, 0x10, NEW);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig_run(rig, 1, 0),
                     AVICEMU_DO_SMI | AVICEMU_DO_NMI_WINDOW);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_NMI);
}

/* The BSP starts at the reset vector, without a SIPI. */
static void
test_bsp_init(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0), NEW);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1), NEW);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_view(v).wait_for_sipi, 0);
    assert_int_equal(rig_run(rig, 0, 0), 0);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1), DROPPED);
}

/* ---- calls -------------------------------------------------------------- */

static void
test_kick_once(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    (void)avicemu_post(v, 0x41, EDGE); /* outside: nobody is called */
    assert_int_equal(rig->fake[0].kicks, 0);
    for (uint64_t entry = 1; entry <= 3; entry++) {
        (void)rig_enter(rig, 0, 0);
        (void)avicemu_post(v, 0x41, EDGE); /* merged: nothing new */
        assert_int_equal(rig->fake[0].kicks, entry - 1);
        (void)avicemu_post(v, (uint8_t)(0x50 + entry), EDGE);
        assert_int_equal(rig->fake[0].kicks, entry);
        assert_ptr_equal(rig->fake[0].vcpu, v);
        (void)avicemu_post(v, (uint8_t)(0x60 + entry), EDGE);
        (void)avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0);
        (void)avicemu_vcpu_expire(v);
        (void)avicemu_msi(rig->vm, MSI(0), 0x70u + (uint32_t)entry, NULL);
        assert_int_equal(rig->fake[0].kicks, entry);
        rig_exit(rig, 0, 0);
    }
    assert_int_equal(rig->fake[0].wakes, 0);
}

static void
test_wake_once(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[1];

    for (uint64_t block = 1; block <= 3; block++) {
        assert_int_equal(rig_run(rig, 1, IF), 0);
        assert_int_equal(avicemu_vcpu_set_halted(v), 0);
        assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
        (void)avicemu_msi(rig->vm, MSI(1), 0x51, NULL);
        assert_int_equal(rig->fake[1].wakes, block);
        assert_ptr_equal(rig->fake[1].vcpu, v);
        (void)avicemu_post(v, 0x61, EDGE);
        (void)avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0);
        (void)avicemu_vcpu_expire(v);
        assert_int_equal(rig->fake[1].wakes, block);
        assert_int_equal(avicemu_vcpu_block_end(v), 0);
        (void)avicemu_post(v, 0x71, EDGE); /* outside again */
        assert_int_equal(rig->fake[1].wakes, block);
        assert_int_equal(rig_run(rig, 1, IF),
                         AVICEMU_DO_NMI | AVICEMU_DO_WINDOW);
        rig_drain(rig);
    }
    assert_int_equal(rig->fake[1].kicks, 0);
    assert_int_equal(rig->fake[0].wakes + rig->fake[0].kicks, 0);
}

/* A multicast calls each target in the guest, once. */
static void
test_multicast_calls(void **state)
{
    struct rig *rig = *state;

    for (uint32_t i = 0; i < 4; i++) {
        if (i != 2) {
            (void)rig_enter(rig, i, IF);
        }
    }
    (void)avicemu_msi(rig->vm, MSI(0xff), 0x51, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rig->fake[i].kicks, i != 2);
        if (i != 2) {
            assert_ptr_equal(rig->fake[i].vcpu, rig->v[i]);
            rig_exit(rig, i, IF);
        }
        assert_int_equal(rig_take(rig, i), 0x51);
    }
}

/* arm: when the deadline changes, and only then. */
static void
test_arm(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct fake_vcpu *fake = &rig->fake[0];

    assert_int_equal(fake->arms, 0);
    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_LVTT, 0x41);
    reg_w(v, R_TMICT, 1000);
    assert_int_equal(fake->arms, 1);
    assert_int_equal(fake->last_deadline, 1000);
    assert_int_equal(avicemu_vcpu_deadline(v), 1000);
    reg_w(v, R_TMICT, 1000); /* no time has passed: the same deadline */
    reg_w(v, R_TPR, 0x20);
    assert_int_equal(fake->arms, 1);
    /* Too early: armed anew at the next look. */
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    (void)rig_run(rig, 0, IF);
    assert_int_equal(fake->arms, 2);
    assert_int_equal(fake->last_deadline, 1000);
    reg_w(v, R_TMICT, 0);
    assert_int_equal(fake->arms, 3);
    assert_int_equal(fake->last_deadline, UINT64_MAX);
}

/* Books of a sender close with those of its targets. */
static void
test_books(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu_books b = { .size = sizeof(b) };
    uint64_t n = 0;

    icr_send(rig->v[0], 0, ICR_OTHERS | ICR_FIXED | 0x51);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51);
    assert_int_equal(avicemu_vcpu_books(rig->v[0], 0x51, &b), 0);
    assert_int_equal(b.ipi_new, 3);
    assert_int_equal(b.ipi_merged, 1);
    assert_int_equal(avicemu_vcpu_ipi_new_to(rig->v[0], rig->v[1], &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(rig_take(rig, 1), 0x51);
    assert_int_equal(avicemu_vcpu_books(rig->v[1], 0x51, &b), 0);
    assert_int_equal(b.acked, 1);
    assert_int_equal(b.pending, 0);
    assert_int_equal(avicemu_vcpu_books(rig->v[2], 0x51, &b), 0);
    assert_int_equal(b.pending, 1);
    assert_int_equal(avicemu_vcpu_reset(rig->v[2]), 0);
    assert_int_equal(avicemu_vcpu_books(rig->v[2], 0x51, &b), 0);
    assert_int_equal(b.cleared, 1);
    assert_int_equal(b.pending, 0);
}

static uint64_t
new_to(struct avicemu_vcpu *sender, struct avicemu_vcpu *target)
{
    uint64_t n = UINT64_MAX;

    assert_int_equal(avicemu_vcpu_ipi_new_to(sender, target, &n), 0);
    return n;
}

/* What vCPU i got from all, there and gone, is what it took and has. */
static void
books_close(struct rig *rig, uint32_t i)
{
    struct avicemu_vcpu_books b = { .size = sizeof(b) };
    uint64_t sent = new_to(NULL, rig->v[i]);
    uint64_t had = 0;

    for (uint32_t s = 0; s < rig->nr_vcpus; s++) {
        sent += new_to(rig->v[s], rig->v[i]);
    }
    for (unsigned x = 0; x < 256; x++) {
        assert_int_equal(avicemu_vcpu_books(rig->v[i], (uint8_t)x, &b), 0);
        had += b.acked + b.cleared + b.pending;
    }
    assert_int_equal(sent, had);
    rig_check(rig);
}

/* vCPU i goes, and another comes, with its index. */
static void
replace(struct rig *rig, uint32_t i, uint32_t apic_id)
{
    assert_int_equal(avicemu_vcpu_destroy(rig->v[i]), 0);
    rig_check(rig);
    assert_int_equal(
        avicemu_vcpu_create(rig->vm, apic_id, &rig->fake[i], &rig->v[i]), 0);
    reg_w(rig->v[i], R_SVR, 0x1ff);
}

/* An index that is used again brings no old IPIs, to it or from it, and those
 * of who had it stay in the books of the others. */
static void
test_books_of_gone(void **state)
{
    struct rig *rig = *state;

    for (uint32_t round = 1; round < 4; round++) {
        icr_send(rig->v[0], round == 1 ? 1 : 0x20, ICR_FIXED | 0x51);
        icr_send(rig->v[0], round == 1 ? 1 : 0x20, ICR_FIXED | 0x52);
        icr_send(rig->v[1], 0, ICR_FIXED | (0x60 + round));
        icr_send(rig->v[1], 2, ICR_FIXED | (0x70 + round));
        reg_w(rig->v[1], R_ICR, ICR_SELF | ICR_FIXED | 0x53);
        icr_send(rig->v[2], round == 1 ? 1 : 0x20, ICR_FIXED | 0x54);
        assert_int_equal(new_to(rig->v[0], rig->v[1]), 2);
        assert_int_equal(new_to(rig->v[1], rig->v[1]), 1);
        assert_int_equal(rig_take(rig, 2), 0x70 + round);
        eoi(rig->v[2]);
        for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
            books_close(rig, i);
        }
        replace(rig, 1, 0x20);
        assert_int_equal(new_to(NULL, rig->v[0]), round);
        assert_int_equal(new_to(NULL, rig->v[2]), round);
        assert_int_equal(new_to(rig->v[0], NULL), 2 * round);
        assert_int_equal(new_to(rig->v[2], NULL), round);
        for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
            assert_int_equal(new_to(rig->v[1], rig->v[i]), 0);
            assert_int_equal(new_to(rig->v[i], rig->v[1]), 0);
            books_close(rig, i);
        }
        assert_int_equal(new_to(NULL, rig->v[1]), 0);
        assert_int_equal(new_to(rig->v[1], NULL), 0);
    }
    /* Two that sent to each other, one after the other. */
    icr_send(rig->v[1], 2, ICR_FIXED | 0x81);
    icr_send(rig->v[2], 0x20, ICR_FIXED | 0x82);
    replace(rig, 1, 1);
    replace(rig, 2, 2);
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        books_close(rig, i);
    }
}

static void
test_books_arguments(void **state)
{
    struct rig *rig = *state;
    uint64_t n;

    assert_int_equal(avicemu_vcpu_ipi_new_to(NULL, NULL, &n), -EINVAL);
    assert_int_equal(avicemu_vcpu_ipi_new_to(rig->v[0], rig->v[1], NULL),
                     -EINVAL);
}

#define NR(a) (sizeof(a) / sizeof((a)[0]))

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("an MSI with a 32-bit destination", test_msi_extended,
                 .nr_vcpus = 2, .nr_ids = 2, .ids = { 0, 0x123 }),
        RIG_EACH("every vector is accepted once and delivered once", test_post,
                 .nr_vcpus = 1),
        RIG_EACH("an offer of each delivery mode", test_post_mode,
                 .nr_vcpus = 2),
        RIG_TEST("local sources (AMD)", test_local_sources,
                 P(AMD, .features = AVICEMU_LAPIC_EXT_SPACE)),
        RIG_TEST("local sources (Intel)", test_local_sources,
                 P(INTEL, .features = AVICEMU_LAPIC_CMCI)),
        RIG_TEST("local sources (KVM)", test_local_sources,
                 P(KVM, .features = AVICEMU_LAPIC_CMCI)),
        RIG_EACH("NMIs are two deep", test_nmi, .nr_vcpus = 1),
        RIG_EACH("INIT and a SIPI behind it are both kept", test_init_sipi,
                 .nr_vcpus = 2),
        RIG_EACH("which of two SIPIs wins", test_two_sipis, .nr_vcpus = 2),
        RIG_EACH("who waits for a SIPI takes nothing else", test_wait_for_sipi,
                 .nr_vcpus = 2),
        RIG_EACH("the BSP needs no SIPI", test_bsp_init, .nr_vcpus = 2),
        RIG_TEST("at most one kick per entry", test_kick_once, .nr_vcpus = 1),
        RIG_TEST("at most one wake per block", test_wake_once, .nr_vcpus = 2),
        RIG_TEST("a multicast calls whom it concerns", test_multicast_calls,
                 .nr_vcpus = 4),
        RIG_TEST("arm is called when the deadline changes", test_arm,
                 .nr_vcpus = 1),
        RIG_TEST("books of IPIs close", test_books, .nr_vcpus = 4),
        RIG_TEST("an index that is used again has new books",
                 test_books_of_gone, .nr_vcpus = 3),
        RIG_TEST("IPIs of nobody to nobody", test_books_arguments,
                 .nr_vcpus = 2),
    };
    struct CMUnitTest tests[NR(fixed) + NR(msi_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(msi_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = msi_rows[i].name,
                                          .test_func = test_msi,
                                          .initial_state = &msi_rows[i] };
    }
    return cmocka_run_group_tests_name("deliver", tests, NULL, NULL) != 0;
}
