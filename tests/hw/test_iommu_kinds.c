/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every kind of interrupt against every pass bit and destination mode; fixed
 * and arbitrated ones against IntCtl; the index from data[10:8], address bit 2
 * and the mode: products, each element a row. [IOMMU 2.2.2 device table],
 * [IOMMU 2.2.5 interrupt remapping tables], [IOMMU 2.5 event log]
 */

#include <stdio.h>

#include "iommu_rig.h"

#define HT       0xfdf8000000ull
#define FD       0xfffffffdf8000000ull
#define IG       (1ull << 5)
#define INIT     (1ull << 56)
#define EXTINT   (1ull << 57)
#define NMI      (1ull << 58)
#define LINT0    (1ull << 62)
#define LINT1    (1ull << 63)
#define PASSES   (INIT | EXTINT | NMI | LINT0 | LINT1)
#define CTL(n)   ((uint64_t)(n) << 60)
#define NAME     80
#define IS_FAULT 0x20080055u /* dword 1: I; the device's domain */

struct row {
    char name[NAME];
    uint64_t address; /* of the message */
    uint32_t data;
    uint64_t clear, set; /* of DTE word 2 */
    uint64_t control;    /* enabled in addition */
    enum avicemu_hw_outcome outcome;
    uint32_t event; /* dword 1; 0: none */
    uint64_t event_address;
    int index; /* POSTED: of its entry */
};

/* Entry i has tag i and blocks: the GA log tells which one was taken. */
static void
fill_table(struct rig *rig)
{
    for (unsigned i = 0; i < 2048; i++) {
        rig_irte(rig, i, (uint64_t)i << 32 | 0x8585, rig_address(RIG_A) | 0x41);
    }
}

static void
row_run(const struct row *row, uint64_t more, uint32_t event)
{
    void *opened = NULL;
    uint64_t low, high = 0;

    assert_int_equal(rig_setup(&opened), 0);
    struct rig *rig = opened;

    fill_table(rig);
    rig_enable(rig, row->control);
    rig_dte(rig, (rig_dte_remap(11) & ~row->clear) | row->set | more);
    struct avicemu_hw_msi msi = rig_msi(rig, row->address, row->data);

    assert_int_equal(msi.outcome, row->outcome);
    low = rig_event(rig, &high);
    assert_int_equal(low >> 32, event);
    if (event != 0) {
        assert_int_equal(low & UINT32_MAX, RIG_DEVICE);
        assert_int_equal(high, row->event_address);
    }
    assert_int_equal(rig_irr(rig, RIG_A, 0x41),
                     row->outcome == AVICEMU_HW_POSTED);
    if (row->outcome == AVICEMU_HW_POSTED) {
        assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0) & UINT32_MAX,
                         row->index);
    }
    (void)rig_teardown(&opened);
}

/* As it is; and IG keeps faults out of the log, but no other event. */
static void
row_test(void **state)
{
    const struct row *row = *state;

    row_run(row, 0, row->event);
    row_run(row, IG, row->event == IS_FAULT ? 0 : row->event);
}

/* ---- kinds that are not mapped ------------------------------------------ */

struct kind {
    const char *name;
    uint64_t address;
    uint32_t data;
    uint64_t pass; /* its bit; 0: none lets it pass */
    int is_filter; /* passes without a bit: SMI */
    int one_mode;  /* its address says all: no logical one */
};

static const struct kind kinds[] = {
    { "MSI SMI", RIG_FEE, 0x209, 0, 1, 0 },
    { "MSI mode 3", RIG_FEE, 0x309, 0, 0, 0 },
    { "MSI NMI", RIG_FEE, 0x409, NMI, 0, 0 },
    { "MSI INIT", RIG_FEE, 0x509, INIT, 0, 0 },
    { "MSI mode 6", RIG_FEE, 0x609, 0, 0, 0 },
    { "MSI ExtINT", RIG_FEE, 0x709, EXTINT, 0, 0 },
    { "HT SMI", HT | 0x90008, 0, 0, 1, 0 },
    { "HT NMI", HT | 0x9000c, 0, NMI, 0, 0 },
    { "HT INIT", HT | 0x90010, 0, INIT, 0, 0 },
    { "HT start-up", HT | 0x90014, 0, 0, 0, 0 },
    { "HT ExtINT", HT | 0x90018, 0, EXTINT, 0, 0 },
    { "HT type 7", HT | 0x9001c, 0, 0, 0, 0 },
    { "LINT0", HT | 0xff98, 0, LINT0, 0, 1 },
    { "LINT1", HT | 0xff8c, 0, LINT1, 0, 1 },
};

static const struct {
    const char *name;
    uint64_t bits;
} passes[] = {
    { "no pass bit", 0 },        { "INITPass", INIT },   { "EIntPass", EXTINT },
    { "NMIPass", NMI },          { "Lint0Pass", LINT0 }, { "Lint1Pass", LINT1 },
    { "all pass bits", PASSES },
};

#define NR_KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define NR_PASSES (sizeof(passes) / sizeof(passes[0]))

static uint64_t
logical_bit(const struct kind *k)
{
    return (k->address & HT) == HT ? 1u << 6 : 1u << 2;
}

/* As hardware reports it: in HyperTransport's form. */
static uint64_t
address_of(uint64_t address, uint32_t data)
{
    if ((address & HT) == HT) {
        return FD | (address & 0xffffff);
    }
    return FD | (uint64_t)(data & 0xff) << 16 | (address >> 12 & 0xff) << 8 |
           (address & 4) << 4 | (data >> 8 & 7) << 2;
}

static size_t
kind_rows(struct row *rows)
{
    size_t nr = 0;

    for (size_t i = 0; i < NR_KINDS * NR_PASSES * 2; i++) {
        const struct kind *k = &kinds[i / 2 / NR_PASSES];
        uint64_t bits = passes[i / 2 % NR_PASSES].bits;
        int logical = (int)(i % 2);
        int passed = (k->is_filter || (k->pass & bits) != 0) && !logical;

        if (logical && k->one_mode) {
            continue;
        }
        struct row *row = &rows[nr++];

        *row = (struct row){
            .address = k->address | (logical ? logical_bit(k) : 0),
            .data = k->data,
            .set = bits,
            .outcome = passed ? AVICEMU_HW_FORWARDED : AVICEMU_HW_ABORTED,
            .event = passed ? 0 : IS_FAULT,
        };
        row->event_address = address_of(row->address, row->data);
        (void)snprintf(row->name, NAME, "%s, %s, %s: %s", k->name,
                       logical ? "logical" : "physical",
                       passes[i / 2 % NR_PASSES].name,
                       passed ? "forwarded" : "blocked");
    }
    return nr;
}

/* ---- mapped ones: IntCtl ------------------------------------------------ */

static size_t
control_rows(struct row *rows)
{
    static const struct {
        enum avicemu_hw_outcome outcome;
        uint32_t event;
        const char *name;
    } ways[4] = {
        { AVICEMU_HW_ABORTED, 0x8a000000, "INVALID_DEVICE_REQUEST" },
        { AVICEMU_HW_FORWARDED, 0, "forwarded" },
        { AVICEMU_HW_POSTED, 0, "posted" },
        { AVICEMU_HW_ABORTED, 0x10080000, "ILLEGAL_DEV_TABLE_ENTRY" },
    };
    size_t nr = 0;

    for (unsigned i = 0; i < 32; i++) {
        unsigned ctl = i / 8, ht = i / 4 % 2, arbitrated = i / 2 % 2;
        unsigned logical = i % 2;
        struct row *row = &rows[nr++];

        *row = (struct row){
            .address = ht ? HT | 0x370000 | arbitrated << 2 | logical << 6
                          : RIG_FEE | logical << 2,
            .data = ht ? 0 : 0x37 | arbitrated << 8,
            .clear = CTL(3),
            /* Pass bits are not theirs. */
            .set = CTL(ctl) | PASSES,
            .outcome = ways[ctl].outcome,
            .event = ways[ctl].event,
            .index = (int)(0x37 | arbitrated << 8),
        };
        row->event_address = address_of(row->address, row->data);
        (void)snprintf(row->name, NAME, "%s %s, %s, IntCtl %u: %s",
                       ht ? "HT" : "MSI", arbitrated ? "arbitrated" : "fixed",
                       logical ? "logical" : "physical", ctl, ways[ctl].name);
    }
    return nr;
}

/* ---- mapped ones: the index --------------------------------------------- */

static size_t
index_rows(struct row *rows)
{
    size_t nr = 0;

    for (unsigned i = 0; i < 32; i++) {
        unsigned mode = i / 4, dm = i / 2 % 2, is_2k = i % 2;
        int mapped = mode < 2 || (is_2k && dm);
        /* SMI has no bit of its own; in physical mode it passes. */
        int passed = mode == 2 && !dm;
        struct row *row = &rows[nr++];

        *row = (struct row){
            .address = RIG_FEE | dm << 2,
            .data = mode << 8 | 0x5a,
            .control = is_2k ? AVICEMU_CONTROL_2K : 0,
            .outcome = mapped   ? AVICEMU_HW_POSTED
                       : passed ? AVICEMU_HW_FORWARDED
                                : AVICEMU_HW_ABORTED,
            .event = mapped || passed ? 0 : IS_FAULT,
            .index = (int)(mode << 8 | 0x5a),
        };
        row->event_address = address_of(row->address, row->data);
        (void)snprintf(row->name, NAME, "%s mode, DM %u, data %x5ah: %s",
                       is_2k ? "2K" : "512", dm, mode,
                       mapped ? "an index" : "no index");
    }
    return nr;
}

/* Data above [10:0], and address bits but 2, do not count. */
static void
test_other_bits(void **state)
{
    struct rig *rig = *state;

    fill_table(rig);
    for (unsigned bit = 11; bit < 32; bit++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 1u << bit | 0x5a).outcome,
                         AVICEMU_HW_POSTED);
        assert_int_equal(*rig_word(rig, RIG_GA_LOG, bit - 11) & UINT32_MAX,
                         0x5a);
    }
    for (unsigned bit = 0; bit < 20; bit++) {
        assert_int_equal(rig_msi(rig, RIG_FEE | 1u << bit, 0x5b).outcome,
                         AVICEMU_HW_POSTED);
        assert_int_equal(*rig_word(rig, RIG_GA_LOG, 21 + bit) & UINT32_MAX,
                         0x5b);
    }
}

/* 32-bit entries: where they lie, what they say, what is reserved. */
static void
test_32_bits(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;
    uint64_t high = 0;

    rig_disable(rig, AVICEMU_CONTROL_GA_EN);
    rig_dte(rig, rig_dte_remap(9));
    /* Entry 123h lies at 48Ch, so in the upper half of word 145. */
    *rig_word(rig, RIG_TABLE, 0x48c / 8) = 0x0041854500000000;
    msi = rig_msi(rig, RIG_FEE, 0x123);
    assert_int_equal(msi.outcome, AVICEMU_HW_REMAPPED);
    assert_int_equal(msi.message.vector, 0x41);
    assert_int_equal(msi.message.dest, 0x85);
    assert_int_equal(msi.message.logical, 1);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_LOWEST);
    /* Its neighbours are not present, and what software puts there either. */
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x122).fault, 2);
    assert_int_equal(rig_event(rig, &high) >> 32, IS_FAULT);
    *rig_word(rig, RIG_TABLE, 0x48c / 8) = 0xfffffffeull << 32;
    rig_write(rig, AVICEMU_IOMMU_EVENT_HEAD,
              rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL));
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x123).fault, 2);
    assert_int_equal(rig_event(rig, &high), 0); /* SupIOPF */
    /* A reserved bit, a reserved type, each kept quiet by SupIOPF. */
    for (unsigned sup = 0; sup < 2; sup++) {
        static const uint32_t bad[] = { 1u << 24, 1u << 31, 2u << 2,
                                        4u << 2,  7u << 2,  1u << 7 };

        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            *rig_word(rig, RIG_TABLE, 0x48c / 8) =
                (uint64_t)(0x00418501u | bad[i] | sup << 1) << 32;
            rig_write(rig, AVICEMU_IOMMU_EVENT_HEAD,
                      rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL));
            assert_int_equal(rig_msi(rig, RIG_FEE, 0x123).fault, 2);
            assert_int_equal(rig_event(rig, &high) >> 32, sup ? 0 : 0x20980055);
        }
    }
}

/* Faults of the DTE and of hardware are logged, SupIOPF and IG or not. */
static void
test_not_suppressed(void **state)
{
    struct rig *rig = *state;
    uint64_t high = 0;

    rig_irte(rig, 5, 3, 1ull << 8);
    rig_dte(rig, (rig_dte_remap(9) | IG) + (1ull << 40));
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 4);
    assert_int_equal(rig_event(rig, &high) >> 32, 0x42080055);
    assert_int_equal(high, rig_address(RIG_TABLE) + (1ull << 40) + 0x50);
    rig_dte(rig, rig_dte_remap(9) | IG | 1ull << 52);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 1);
    assert_int_equal(rig_event(rig, &high) >> 32, 0x10880000);
    /* The encryption bit of a page is beyond the width: no such memory. */
    rig_dte(rig, rig_dte_remap(9));
    rig_irte(rig, 5, 0x8583, rig_address(RIG_A) | 1ull << 51 | 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 4);
    assert_int_equal(rig_event(rig, &high) >> 32, 0x42080055);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 0);
    /* V 0 with IV 1: forwarded, and none of word 2 counts. */
    *rig_word(rig, RIG_DTES, RIG_DEVICE * 4) = 0;
    rig_dte(rig, UINT64_MAX);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_FORWARDED);
}

int
main(void)
{
    enum {
        MAX = NR_KINDS * NR_PASSES * 2 + 64
    };
    static struct row rows[MAX];
    static struct CMUnitTest tests[MAX];
    const struct CMUnitTest more[] = {
        cmocka_unit_test_setup_teardown(test_other_bits, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_32_bits, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_not_suppressed, rig_setup,
                                        rig_teardown),
    };
    size_t nr = kind_rows(rows);

    nr += control_rows(&rows[nr]);
    nr += index_rows(&rows[nr]);
    for (size_t i = 0; i < nr; i++) {
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = row_test,
            .initial_state = &rows[i],
        };
    }
    int r = _cmocka_run_group_tests("kinds", tests, nr, NULL, NULL);

    return r + cmocka_run_group_tests(more, NULL, NULL);
}
