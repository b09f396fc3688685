/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What AVIC does with each of the 256 registers, read and written: the table
 * typed from the manual, in 16 variants (xAVIC or x2AVIC; extended LVTs
 * accelerated or not; 540h-FFFh allowed or not; a local APIC with the extended
 * space or not), asked by the query, then done for real: an access that is
 * allowed hits the page, a trap lands in the page before the exit, a fault and
 * a #GP leave the page alone.
 *
 * And the reserved bits that are #GP in x2AVIC, each alone.
 *
 * [APM2 15.29.3.1 Table 15-22], [APM2 15.29.8.1], [APM2 15.29.9.2],
 * [APM2 15.29.10], [APM2 16.11 Table 16-6]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core_rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* What the table says. */
enum word {
    ALLOW,
    ACCEL,
    TRAP,
    FAULT,
    GP,
    LVTR, /* ext LVT, read: allow with EDX[27], else fault */
    LVTW, /* ext LVT, write: trap with EDX[27], else fault */
    HIGH, /* 540h and up: allow if the core is one of those, else fault */
};

/* ext: the x2APIC MSR exists only in an APIC with the extended space. value:
 * one that has no reserved bit in x2APIC. */
struct want {
    const char *name;
    uint32_t first, last;
    uint8_t xread, xwrite, x2read, x2write;
    uint8_t ext;
    uint32_t value;
};

/* clang-format off */
static const struct want wants[] = {
/*  name                 first  last    xAVIC: read, write   x2AVIC: read, write  ext value */
  { "000-010",           0x000, 0x010,  ALLOW, ALLOW,        GP,    GP,           0,  0x12345678 },
  { "ID",                0x020, 0x020,  ALLOW, TRAP,         ALLOW, GP,           0,  0x05000000 },
  { "version",           0x030, 0x030,  ALLOW, FAULT,        ALLOW, GP,           0,  0x80050010 },
  { "040-070",           0x040, 0x070,  ALLOW, ALLOW,        GP,    GP,           0,  0x12345678 },
  { "TPR",               0x080, 0x080,  ALLOW, ACCEL,        ALLOW, ACCEL,        0,  0x00000035 },
  { "APR",               0x090, 0x090,  FAULT, FAULT,        FAULT, GP,           0,  0x00000035 },
  { "PPR",               0x0a0, 0x0a0,  ALLOW, FAULT,        ALLOW, GP,           0,  0x00000035 },
  { "EOI",               0x0b0, 0x0b0,  ALLOW, ACCEL,        GP,    ACCEL,        0,  0x00000000 },
  { "remote read",       0x0c0, 0x0c0,  ALLOW, TRAP,         GP,    GP,           0,  0x12345678 },
  { "LDR",               0x0d0, 0x0d0,  ALLOW, TRAP,         ALLOW, GP,           0,  0x02000000 },
  { "DFR",               0x0e0, 0x0e0,  ALLOW, TRAP,         GP,    GP,           0,  0x0fffffff },
  { "SVR",               0x0f0, 0x0f0,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x000003fe },
  { "ISR",               0x100, 0x170,  ALLOW, FAULT,        ALLOW, GP,           0,  0x12340000 },
  { "TMR",               0x180, 0x1f0,  ALLOW, FAULT,        ALLOW, GP,           0,  0x12340000 },
  { "IRR",               0x200, 0x270,  ALLOW, FAULT,        ALLOW, GP,           0,  0x12340000 },
  { "ESR",               0x280, 0x280,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x00000000 },
  { "290-2E0",           0x290, 0x2e0,  ALLOW, ALLOW,        GP,    GP,           0,  0x12345678 },
  { "CMCI LVT",          0x2f0, 0x2f0,  ALLOW, ALLOW,        GP,    GP,           0,  0x000100f2 },
  { "ICR low",           0x300, 0x300,  ALLOW, ACCEL,        ALLOW, ACCEL,        0,  0x00000041 },
  { "ICR high",          0x310, 0x310,  ALLOW, ALLOW,        GP,    GP,           0,  0x03000000 },
  { "LVT timer",         0x320, 0x320,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x000200ec },
  { "LVT thermal",       0x330, 0x330,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x000100fa },
  { "LVT performance",   0x340, 0x340,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x00000400 },
  { "LVT LINT0",         0x350, 0x350,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x00008700 },
  { "LVT LINT1",         0x360, 0x360,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x00000400 },
  { "LVT error",         0x370, 0x370,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x000100fe },
  { "timer initial",     0x380, 0x380,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0xfedcba98 },
  { "timer current",     0x390, 0x390,  FAULT, FAULT,        FAULT, GP,           0,  0x12345678 },
  { "3A0-3D0",           0x3a0, 0x3d0,  ALLOW, ALLOW,        GP,    GP,           0,  0x12345678 },
  { "timer divide",      0x3e0, 0x3e0,  ALLOW, TRAP,         ALLOW, TRAP,         0,  0x0000000b },
  { "self IPI",          0x3f0, 0x3f0,  ALLOW, ALLOW,        GP,    ACCEL,        0,  0x00000041 },
  { "EAFR",              0x400, 0x400,  FAULT, FAULT,        FAULT, GP,           1,  0x00040007 },
  { "EACR, SEOI",        0x410, 0x420,  FAULT, FAULT,        FAULT, FAULT,        1,  0x00000003 },
  { "430-470",           0x430, 0x470,  ALLOW, ALLOW,        GP,    GP,           0,  0x12345678 },
  { "IER",               0x480, 0x4f0,  FAULT, FAULT,        FAULT, FAULT,        1,  0xffff0000 },
  { "ext LVT",           0x500, 0x530,  LVTR,  LVTW,         LVTR,  LVTW,         1,  0x000100f9 },
  { "540-FF0",           0x540, 0xff0,  HIGH,  HIGH,         GP,    GP,           0,  0x12345678 },
};
/* clang-format on */

struct row {
    const struct want *want;
    enum rig_mode mode;
    uint32_t features, lapic_features;
    char title[96];
};

static enum avicemu_avic_access
expected(const struct row *row, int write)
{
    const struct want *w = row->want;
    uint8_t word = write ? w->xwrite : w->xread;

    if (row->mode == X2AVIC) {
        word = write ? w->x2write : w->x2read;
        if (w->ext && !(row->lapic_features & AVICEMU_LAPIC_EXT_SPACE)) {
            word = GP;
        }
    }
    switch ((enum word)word) {
    case LVTR:
        return row->features & AVICEMU_CORE_EXT_LVT ? AVICEMU_AVIC_ALLOW
                                                    : AVICEMU_AVIC_FAULT;
    case LVTW:
        return row->features & AVICEMU_CORE_EXT_LVT ? AVICEMU_AVIC_TRAP
                                                    : AVICEMU_AVIC_FAULT;
    case HIGH:
        return row->features & AVICEMU_CORE_HIGH_ALLOWED ? AVICEMU_AVIC_ALLOW
                                                         : AVICEMU_AVIC_FAULT;
    case ALLOW:
        return AVICEMU_AVIC_ALLOW;
    case ACCEL:
        return AVICEMU_AVIC_ACCEL;
    case TRAP:
        return AVICEMU_AVIC_TRAP;
    case FAULT:
        return AVICEMU_AVIC_FAULT;
    case GP:
    default:
        return AVICEMU_AVIC_GP;
    }
}

/* ---- the query ---------------------------------------------------------- */

static void
test_query(void **state)
{
    const struct row *row = *state;
    struct avicemu_core_config config = {
        .size = sizeof(config),
        .features = row->features,
        .lapic = { .features = row->lapic_features },
    };

    for (uint32_t at = row->want->first; at <= row->want->last; at += 16) {
        for (int write = 0; write < 2; write++) {
            enum avicemu_avic_access got = (enum avicemu_avic_access)99;

            assert_int_equal(avicemu_hw_avic_filter(
                                 &config, row->mode == X2AVIC, at, write, &got),
                             0);
            if (got != expected(row, write)) {
                fail_msg("%03x %s: %d, wanted %d", at, write ? "write" : "read",
                         (int)got, (int)expected(row, write));
            }
        }
    }
}

/* ---- the deed ----------------------------------------------------------- */

/* A page with something in each register that nothing else depends on. */
static void
page_fill(struct rig *r, uint32_t value)
{
    for (uint32_t at = 0; at < 4096; at += 16) {
        rig_put(r, 0, at, value ^ at >> 4);
    }
    for (uint32_t at = 0x080; at <= 0x270; at += 16) {
        rig_put(r, 0, at, 0);
    }
    rig_put(r, 0, 0x0e0, 0xffffffff);
    rig_put(r, 0, 0x300, 0);
    rig_put(r, 0, 0x310, 0);
}

static void
assert_untouched(struct rig *r, const unsigned char *before)
{
    assert_memory_equal(before, r->ram + RIG_VAPIC * 4096, 4096);
}

static void
assert_noaccel(struct rig *r, uint32_t at, int write)
{
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 0);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x402);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO1),
                     (uint64_t)write << 32 | at);
    /* [7:0] undefined, the rest reserved. */
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO2) >> 8, 0);
}

static void
read_one(struct rig *r, const struct row *row, uint32_t at)
{
    enum avicemu_core_result got;
    unsigned char before[4096];

    page_fill(r, 0x80000000);
    (void)rig_run(r, 0);
    rig_put(r, 0, at, row->want->value);
    memcpy(before, r->ram + RIG_VAPIC * 4096, sizeof(before));
    got = rig_reg(r, 0, 0, at, 0);
    switch (expected(row, 0)) {
    case AVICEMU_AVIC_ALLOW:
    case AVICEMU_AVIC_ACCEL:
        assert_int_equal(got, AVICEMU_CORE_DONE);
        assert_int_equal(r->a.value, row->want->value);
        assert_int_equal(r->a.vector, -1);
        break;
    case AVICEMU_AVIC_GP:
        assert_int_equal(got, AVICEMU_CORE_GP);
        assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
        break;
    case AVICEMU_AVIC_TRAP:
    case AVICEMU_AVIC_FAULT:
    default:
        assert_int_equal(got, AVICEMU_CORE_EXIT);
        assert_noaccel(r, at, 0);
        break;
    }
    rig_stop(r, 0);
    assert_untouched(r, before);
}

/* The registers with a side effect have tests of their own, but none exits
 * here: nothing is in service, and the IPI goes to nobody but oneself. */
static void
write_one(struct rig *r, const struct row *row, uint32_t at)
{
    enum avicemu_core_result got;
    unsigned char before[4096];

    page_fill(r, 0x80000000);
    rig_entry(r, 0, AVICEMU_PHYSICAL_VALID | AVICEMU_PHYSICAL_RUNNING, 0);
    (void)rig_run(r, 0);
    memcpy(before, r->ram + RIG_VAPIC * 4096, sizeof(before));
    got = rig_reg(r, 0, 1, at, row->want->value);
    switch (expected(row, 1)) {
    case AVICEMU_AVIC_ALLOW:
        assert_int_equal(got, AVICEMU_CORE_DONE);
        memcpy(before + at, &row->want->value, 4);
        assert_untouched(r, before);
        break;
    case AVICEMU_AVIC_ACCEL:
        assert_int_equal(got, AVICEMU_CORE_DONE);
        assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
        break;
    case AVICEMU_AVIC_TRAP:
        assert_int_equal(got, AVICEMU_CORE_EXIT);
        assert_noaccel(r, at, 1);
        memcpy(before + at, &row->want->value, 4);
        assert_untouched(r, before);
        break;
    case AVICEMU_AVIC_GP:
        assert_int_equal(got, AVICEMU_CORE_GP);
        assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
        assert_untouched(r, before);
        break;
    case AVICEMU_AVIC_FAULT:
    default:
        assert_int_equal(got, AVICEMU_CORE_EXIT);
        assert_noaccel(r, at, 1);
        assert_untouched(r, before);
        break;
    }
    rig_stop(r, 0);
}

static void
test_deed(void **state)
{
    const struct row *row = *state;
    struct rig r;

    rig_open(&r, row->mode, AVICEMU_CORE_X2AVIC | row->features,
             row->lapic_features, 9);
    for (uint32_t at = row->want->first; at <= row->want->last; at += 16) {
        read_one(&r, row, at);
        write_one(&r, row, at);
    }
    rig_close(&r);
}

/* ---- arguments ---------------------------------------------------------- */

static void
test_arguments(void **state)
{
    struct avicemu_core_config config = { .size = sizeof(config) };
    enum avicemu_avic_access got = AVICEMU_AVIC_TRAP;

    (void)state;
    assert_int_equal(avicemu_hw_avic_filter(&config, 0, 0x084, 0, &got),
                     -EINVAL);
    assert_int_equal(avicemu_hw_avic_filter(&config, 0, 0x1000, 0, &got),
                     -EINVAL);
    assert_int_equal(avicemu_hw_avic_filter(&config, 1, 0x1000, 0, &got),
                     -EINVAL);
    assert_int_equal(avicemu_hw_avic_filter(&config, 0, 0xfffffff0, 0, &got),
                     -EINVAL);
    assert_int_equal(avicemu_hw_avic_filter(&config, 0, 0x080, 0, NULL),
                     -EINVAL);
    assert_int_equal(got, AVICEMU_AVIC_TRAP);
}

static void
test_no_config(void **state)
{
    struct avicemu_core_config config = { .size = sizeof(config) };

    (void)state;
    for (uint32_t n = 0; n < 256 * 4; n++) {
        enum avicemu_avic_access a = AVICEMU_AVIC_TRAP, b = AVICEMU_AVIC_TRAP;

        assert_int_equal(
            avicemu_hw_avic_filter(&config, n & 1, n / 4 * 16, n >> 1 & 1, &a),
            0);
        assert_int_equal(
            avicemu_hw_avic_filter(NULL, n & 1, n / 4 * 16, n >> 1 & 1, &b), 0);
        assert_int_equal(a, b);
    }
}

/* ---- reserved bits in x2AVIC -------------------------------------------- */

#define HI32 0xffffffff00000000ull

static struct gp_row {
    const char *name;
    uint32_t msr;
    uint64_t reserved; /* each of these alone is #GP */
    uint64_t legal;    /* with this it is none */
} gp_rows[] = {
    { "gp: TPR 63:8", 0x808, ~0xffull, 0xff },
    { "gp: EOI, any bit", 0x80b, ~0ull, 0 },
    { "gp: SVR 63:10", 0x80f, ~0x3ffull, 0x3ff },
    { "gp: ESR, any bit", 0x828, ~0ull, 0 },
    { "gp: ICR 31:20, 17:16, 13, 12", 0x830, 0xfff33000, 0xcc741 },
    { "gp: LVT timer 63:18, 15:13, 11:8", 0x832, ~0x310ffull, 0x300ff },
    { "gp: LVT thermal 63:17, 15:13, 11", 0x833, ~0x117ffull, 0x107ff },
    { "gp: LVT performance 63:17, 15:13, 11", 0x834, ~0x117ffull, 0x107ff },
    { "gp: LVT LINT0 63:17, 13, 11", 0x835, ~0x1d7ffull, 0x187ff },
    { "gp: LVT LINT1 63:17, 13, 11", 0x836, ~0x1d7ffull, 0x187ff },
    { "gp: LVT error 63:17, 15:13, 11", 0x837, ~0x117ffull, 0x107ff },
    { "gp: timer initial 63:32", 0x838, HI32, 0xffffffff },
    { "gp: timer divide 63:4, 2", 0x83e, ~0xbull, 0xb },
    { "gp: self IPI 63:8", 0x83f, ~0xffull, 0xff },
    { "gp: EACR 63:3", 0x841, ~0x7ull, 0x7 },
    { "gp: SEOI 63:8", 0x842, ~0xffull, 0xff },
    { "gp: IER 0 63:32, 15:0", 0x848, HI32 | 0xffff, 0xffff0000 },
    { "gp: IER 7 63:32", 0x84f, HI32, 0xffffffff },
    { "gp: ext LVT 63:17, 15:13, 11", 0x850, ~0x117ffull, 0x107ff },
};

static void
test_reserved(void **state)
{
    const struct gp_row *row = *state;
    unsigned char before[4096];
    struct rig r;

    rig_open(&r, X2AVIC, AVICEMU_CORE_X2AVIC | AVICEMU_CORE_EXT_LVT,
             AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_EXT_SPACE, 0x1ff);
    page_fill(&r, 0x80000000);
    (void)rig_run(&r, 0);
    memcpy(before, r.ram + RIG_VAPIC * 4096, sizeof(before));
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = 1ull << bit;

        if (row->reserved & value) {
            assert_int_equal(
                rig_access(&r, 0, AVICEMU_CORE_MSR, 1, row->msr, value),
                AVICEMU_CORE_GP);
            assert_int_equal(avicemu_core_in_guest(r.core[0]), 1);
            assert_untouched(&r, before);
        }
    }
    assert_int_not_equal(
        rig_access(&r, 0, AVICEMU_CORE_MSR, 1, row->msr, row->legal),
        AVICEMU_CORE_GP);
    rig_close(&r);
}

static void
test_intercept_before_gp(void **state)
{
    const struct gp_row *row = *state;
    struct rig r;

    rig_open(&r, X2AVIC, AVICEMU_CORE_X2AVIC | AVICEMU_CORE_EXT_LVT,
             AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_EXT_SPACE, 0x1ff);
    rig_msrpm(&r, row->msr, 1, 1);
    (void)rig_run(&r, 0);
    assert_int_equal(rig_access(&r, 0, AVICEMU_CORE_MSR, 1, row->msr, ~0ull),
                     AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(&r, 0, AVICEMU_VMCB_EXITCODE), AVICEMU_EXIT_MSR);
    rig_close(&r);
}

/* ---- the list ----------------------------------------------------------- */

#define NR_VARIANTS 16
#define NR_DEEDS    2

static struct row rows[NR(wants) * NR_VARIANTS];
static struct CMUnitTest
    tests[NR(wants) * NR_VARIANTS * NR_DEEDS + 2 * NR(gp_rows) + 2];

static void
row_make(struct row *row, const struct want *want, unsigned variant)
{
    row->want = want;
    row->mode = variant & 1 ? X2AVIC : XAVIC;
    row->features = (variant & 2 ? AVICEMU_CORE_EXT_LVT : 0) |
                    (variant & 4 ? AVICEMU_CORE_HIGH_ALLOWED : 0);
    row->lapic_features =
        AVICEMU_LAPIC_X2APIC | (variant & 8 ? AVICEMU_LAPIC_EXT_SPACE : 0);
    (void)snprintf(
        row->title, sizeof(row->title), "%s: %s%s%s%s", want->name,
        variant & 1 ? "x2AVIC" : "xAVIC", variant & 2 ? ", ext LVT" : "",
        variant & 4 ? ", high allowed" : "", variant & 8 ? ", ext space" : "");
}

static void
list(size_t *at, const char *name, CMUnitTestFunction fn, void *initial)
{
    tests[(*at)++] = (struct CMUnitTest){ .name = name,
                                          .test_func = fn,
                                          .initial_state = initial };
}

int
main(void)
{
    size_t at = 0;

    for (size_t i = 0; i < NR(wants) * NR_VARIANTS; i++) {
        row_make(&rows[i], &wants[i / NR_VARIANTS], i % NR_VARIANTS);
        list(&at, rows[i].title, test_query, &rows[i]);
        list(&at, rows[i].title, test_deed, &rows[i]);
    }
    for (size_t i = 0; i < NR(gp_rows); i++) {
        list(&at, gp_rows[i].name, test_reserved, &gp_rows[i]);
        list(&at, "an MSR intercept comes before #GP", test_intercept_before_gp,
             &gp_rows[i]);
    }
    list(&at, "arguments of the filter query are checked", test_arguments,
         NULL);
    list(&at, "no configuration is a core without any feature", test_no_config,
         NULL);
    return _cmocka_run_group_tests("avic_filter", tests, at, NULL, NULL) != 0;
}
