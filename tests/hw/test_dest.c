/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destination matching and lowest-priority arbitration.
 * [APM2 16.6.1], [APM2 16.14], [SDM3 10.6.2], [SDM3 10.12.10]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hw/dest.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

static void
model_make(struct ae_lapic_model *m, enum avicemu_personality p)
{
    struct avicemu_lapic_config config = { .personality = p };
    uint64_t value;

    assert_null(ae_lapic_model_init(m, &config, &value));
}

static void
test_x2apic_ldr(void **state)
{
    static const struct {
        uint32_t id, ldr;
    } rows[] = {
        { 0x0, 0x00000001 },      { 0xf, 0x00008000 },
        { 0x10, 0x00010001 },     { 0x25, 0x00020020 },
        { 0xff, 0x000f8000 },     { 0x1ff, 0x001f8000 },
        { 0xfff, 0x00ff8000 },    { 0x12345, 0x12340020 },
        { 0x100000, 0x00000001 },
    };

    (void)state;
    for (size_t i = 0; i < NR(rows); i++) {
        assert_int_equal(ae_x2apic_ldr(rows[i].id), rows[i].ldr);
    }
}

enum {
    OFF,
    FLAT,
    CLUST,
    ODD,
    X2
}; /* receiver's mode */
enum {
    XA,
    X2F,
    MSI
}; /* how the destination is written */

struct match_row {
    const char *name;
    uint8_t mode;
    uint32_t id;
    uint8_t ldr;
    uint8_t format;
    bool logical;
    uint32_t dest;
    bool match[3]; /* AMD, Intel, KVM */
};

#define ALL3             \
    {                    \
        true, true, true \
    }
#define NONE3               \
    {                       \
        false, false, false \
    }
#define KVM3               \
    {                      \
        false, false, true \
    }

/* clang-format off */
static struct match_row match_rows[] = {
    { "physical: the id",                              FLAT,  3,     0,    XA,  false, 3,          ALL3 },
    { "physical: another id",                          FLAT,  3,     0,    XA,  false, 2,          NONE3 },
    { "physical: FFh is everybody",                    FLAT,  3,     0,    XA,  false, 0xff,       ALL3 },
    { "physical: a disabled APIC is not there",        OFF,   3,     0,    XA,  false, 3,          NONE3 },
    { "physical: nor for a broadcast",                 OFF,   3,     0,    XA,  false, 0xff,       NONE3 },
    { "physical: xAPIC id is the low 8 bits",          FLAT,  0x123, 0,    XA,  false, 0x23,       ALL3 },
    { "physical: the whole id of an xAPIC receiver",   FLAT,  0x123, 0,    X2F, false, 0x123,      ALL3 },
    { "physical: no value is cut to 8 bits",           FLAT,  0x23,  0,    X2F, false, 0x123,      NONE3 },
    { "flat: a common bit",                            FLAT,  0,     0x06, XA,  true,  0x04,       ALL3 },
    { "flat: none",                                    FLAT,  0,     0x06, XA,  true,  0x09,       NONE3 },
    { "flat: destination 0 is nobody",                 FLAT,  0,     0xff, XA,  true,  0x00,       NONE3 },
    { "flat: FFh is everybody, LDR 0 too",             FLAT,  0,     0x00, XA,  true,  0xff,       ALL3 },
    { "cluster: same cluster, common bit",             CLUST, 0,     0x24, XA,  true,  0x2c,       ALL3 },
    { "cluster: same cluster, no common bit",          CLUST, 0,     0x24, XA,  true,  0x2b,       NONE3 },
    { "cluster: another cluster",                      CLUST, 0,     0x24, XA,  true,  0x34,       NONE3 },
    { "cluster: 15 is reserved",                       CLUST, 0,     0xf1, XA,  true,  0xf1,       NONE3 },
    { "cluster: FFh is everybody",                     CLUST, 0,     0x24, XA,  true,  0xff,       ALL3 },
    { "an undefined model matches nobody",             ODD,   0,     0x24, XA,  true,  0x24,       NONE3 },
    { "an undefined model has its physical id",        ODD,   7,     0x24, XA,  false, 7,          ALL3 },
    { "x2APIC physical: the id",                       X2,    0x123, 0,    X2F, false, 0x123,      ALL3 },
    { "x2APIC physical: FFh is id 255",                X2,    0x12,  0,    X2F, false, 0xff,       NONE3 },
    { "x2APIC physical: id 255",                       X2,    0xff,  0,    X2F, false, 0xff,       ALL3 },
    { "x2APIC physical: FFFFFFFFh is everybody",       X2,    0x12,  0,    X2F, false, 0xffffffff, ALL3 },
    { "x2APIC logical: FFFFFFFFh is everybody",        X2,    0x12,  0,    X2F, true,  0xffffffff, ALL3 },
    { "x2APIC logical: id 20h in 00020021h",           X2,    0x20,  0,    X2F, true,  0x00020021, ALL3 },
    { "x2APIC logical: id 25h in 00020021h",           X2,    0x25,  0,    X2F, true,  0x00020021, ALL3 },
    { "x2APIC logical: id 24h in 00020021h",           X2,    0x24,  0,    X2F, true,  0x00020021, NONE3 },
    { "x2APIC logical: id 25h in 00020020h",           X2,    0x25,  0,    X2F, true,  0x00020020, ALL3 },
    { "x2APIC logical: FFh is members 0..7 of cluster 0", X2, 0x7,   0,    X2F, true,  0xff,       ALL3 },
    { "x2APIC logical: and not member 8",              X2,    0x8,   0,    X2F, true,  0xff,       NONE3 },
    { "x2APIC logical: another cluster",               X2,    0x25,  0,    X2F, true,  0x00030020, NONE3 },
    { "x2APIC logical: 0 is nobody",                   X2,    0x0,   0,    X2F, true,  0,          NONE3 },
    { "x2APIC receiver, xAPIC FFh by IPI: id 255",     X2,    0x5,   0,    XA,  false, 0xff,       NONE3 },
    { "x2APIC receiver, MSI to FFh",                   X2,    0x5,   0,    MSI, false, 0xff,       KVM3 },
    { "xAPIC receiver, MSI to FFh",                    FLAT,  0x5,   0,    MSI, false, 0xff,       ALL3 },
    { "x2APIC id that differs above bit 19 shares its logical id", X2, 0x100000, 0, X2F, true, 1, ALL3 },
};
/* clang-format on */

static uint64_t
ident_of(const struct match_row *row)
{
    static const uint32_t modes[] = {
        [OFF] = 0,
        [FLAT] = AE_IDENT_EN | AE_IDENT_FLAT,
        [CLUST] = AE_IDENT_EN | AE_IDENT_CLUSTER,
        [ODD] = AE_IDENT_EN,
        [X2] = AE_IDENT_EN | AE_IDENT_EXTD | AE_IDENT_FLAT,
    };

    return modes[row->mode] | (uint64_t)row->id << 32 | (row->id & 0xffu) << 8 |
           (uint32_t)row->ldr << 16 | AE_IDENT_SOFT;
}

static void
test_match(void **state)
{
    const struct match_row *row = *state;
    struct ae_message m = {
        .dest = row->dest,
        .vector = 0x51,
        .logical = row->logical,
        .format = row->format,
    };

    for (unsigned p = 0; p < AVICEMU_NR_PERSONALITY; p++) {
        struct ae_lapic_model model;

        model_make(&model, (enum avicemu_personality)p);
        assert_int_equal(ae_dest_match(&model, ident_of(row), &m),
                         row->match[p]);
    }
}

/* ---- arbitration -------------------------------------------------------- */

#define CPUS 4

struct cpu {
    struct ae_lapic l;
    _Alignas(4096) uint8_t page[4096];
};

struct arb_row {
    const char *name;
    enum avicemu_personality personality;
    uint8_t vector;
    uint8_t tpr[CPUS];
    uint8_t irr[CPUS];  /* 0: none */
    uint32_t svr[CPUS]; /* 0: 1FFh */
    int winner;         /* -1: none */
};

#define AMD   AVICEMU_PERSONALITY_AMD
#define INTEL AVICEMU_PERSONALITY_INTEL
#define KVM   AVICEMU_PERSONALITY_KVM
#define OFFS                   \
    {                          \
        0xff, 0xff, 0xff, 0xff \
    }

static struct arb_row arb_rows[] = {
    { "AMD: the lowest APR",
      AMD,
      0x51,
      { 0x40, 0x20, 0x30, 0x40 },
      { 0 },
      { 0 },
      1 },
    { "AMD: a tie goes to the highest id",
      AMD,
      0x51,
      { 0, 0, 0, 0 },
      { 0 },
      { 0 },
      3 },
    { "AMD: what is pending counts",
      AMD,
      0x51,
      { 0 },
      { 0, 0x61, 0x71, 0x81 },
      { 0 },
      0 },
    { "AMD: the focus CPU takes it",
      AMD,
      0x51,
      { 0, 0xf0, 0, 0 },
      { 0, 0x51, 0, 0 },
      { 0 },
      1 },
    { "AMD: not with focus checking off",
      AMD,
      0x51,
      { 0, 0xf0, 0, 0 },
      { 0, 0x51, 0, 0 },
      { 0x3ff, 0x3ff, 0x3ff, 0x3ff },
      3 },
    { "AMD: only enabled ones",
      AMD,
      0x51,
      { 0, 0, 0x20, 0x10 },
      { 0 },
      { 0xff, 0xff, 0, 0xff },
      2 },
    { "AMD: nobody", AMD, 0x51, { 0 }, { 0 }, OFFS, -1 },
    { "Intel: the lowest TPR",
      INTEL,
      0x51,
      { 0x40, 0x30, 0x20, 0x40 },
      { 0 },
      { 0 },
      2 },
    { "Intel: a tie goes to the first",
      INTEL,
      0x51,
      { 0x40, 0x20, 0x20, 0x20 },
      { 0 },
      { 0 },
      1 },
    { "Intel: no focus CPU",
      INTEL,
      0x51,
      { 0, 0xf0, 0, 0 },
      { 0, 0x51, 0, 0 },
      { 0 },
      0 },
    { "Intel: nobody", INTEL, 0x51, { 0 }, { 0 }, OFFS, -1 },
    { "KVM: vector modulo candidates",
      KVM,
      0x52,
      { 0xf0, 0, 0xf0, 0 },
      { 0 },
      { 0 },
      2 },
    { "KVM: the next vector, the next CPU", KVM, 0x53, { 0 }, { 0 }, { 0 }, 3 },
    { "KVM: among the enabled ones only",
      KVM,
      0x52,
      { 0 },
      { 0 },
      { 0, 0xff, 0, 0 },
      2 },
    { "KVM: nobody", KVM, 0x51, { 0 }, { 0 }, OFFS, -1 },
};

static void
cpus_make(struct cpu *cpus, const struct ae_lapic_model *model,
          const struct arb_row *row)
{
    for (uint32_t i = 0; i < CPUS; i++) {
        struct ae_lapic_effects fx = { .what = 0 };
        enum avicemu_drop why;
        bool error;

        memset(cpus[i].page, 0, sizeof(cpus[i].page));
        ae_lapic_init(&cpus[i].l, model, cpus[i].page, i, i == 0);
        ae_lapic_mmio_write(&cpus[i].l, LAPIC_SVR, 0x1ff, 0, &fx);
        ae_lapic_set_tpr(&cpus[i].l, row->tpr[i]);
        if (row->irr[i] != 0) {
            assert_int_equal(ae_lapic_accept(&cpus[i].l, row->irr[i],
                                             AVICEMU_TRIGGER_EDGE, &why,
                                             &error),
                             AVICEMU_POST_NEW);
        }
        if (row->svr[i] != 0) {
            ae_lapic_mmio_write(&cpus[i].l, LAPIC_SVR, row->svr[i], 0, &fx);
        }
    }
}

static void
test_arbitrate(void **state)
{
    const struct arb_row *row = *state;
    struct cpu *cpus = aligned_alloc(4096, CPUS * sizeof(*cpus));
    struct ae_lapic_model model;
    struct ae_arbiter a;

    assert_non_null(cpus);
    model_make(&model, row->personality);
    cpus_make(cpus, &model, row);
    ae_arbiter_begin(&a, &model, row->vector);
    do {
        for (uint32_t i = 0; i < CPUS; i++) {
            ae_arbiter_offer(&a, &cpus[i].l, &cpus[i]);
        }
    } while (ae_arbiter_again(&a));
    if (row->winner < 0) {
        assert_null(a.winner);
    } else {
        assert_ptr_equal(a.winner, &cpus[row->winner]);
    }
    free(cpus);
}

int
main(void)
{
    struct CMUnitTest tests[1 + NR(match_rows) + NR(arb_rows)];
    size_t n = 0;

    tests[n++] = (struct CMUnitTest){ .name = "LDR of an x2APIC id",
                                      .test_func = test_x2apic_ldr };
    for (size_t i = 0; i < NR(match_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = match_rows[i].name,
                                          .test_func = test_match,
                                          .initial_state = &match_rows[i] };
    }
    for (size_t i = 0; i < NR(arb_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = arb_rows[i].name,
                                          .test_func = test_arbitrate,
                                          .initial_state = &arb_rows[i] };
    }
    return cmocka_run_group_tests_name("dest", tests, NULL, NULL) != 0;
}
