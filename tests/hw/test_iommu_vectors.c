/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbered vectors: what the hardware does with an interrupt to a vCPU in each
 * state, and with its log. And traps: what drivers and models got wrong.
 * [IOMMU 2.2.5 interrupt remapping tables], [IOMMU 2.7 GA log]
 */

#include <string.h>

#include "iommu_rig.h"

static uint64_t
status(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_STATUS);
}

static uint64_t
last_event(struct rig *rig)
{
    uint64_t high = 0;

    return rig_event(rig, &high);
}

static uint64_t
log_word(struct rig *rig, unsigned i)
{
    return *rig_word(rig, RIG_GA_LOG, i);
}

static int
strict_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
}

/* ---- behaviour ---------------------------------------------------------- */

static void
vector_1(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 1);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig->bells[0x85].rung, 1);
    assert_int_equal(msi.nr_logged, 0);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0);
}

static void
vector_2(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 0);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig->bells[0x85].rung, 0);
    assert_int_equal(msi.nr_doorbells + msi.nr_logged + msi.nr_overflows, 0);
    assert_int_equal(msi.signals, 0);
}

static void
vector_3(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).signals, AVICEMU_SIGNAL_GA);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
    assert_int_equal(status(rig) & AVICEMU_STATUS_GA_INT,
                     AVICEMU_STATUS_GA_INT);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).signals, 0);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 16);
}

/* 511 entries, and GAInt cleared. */
static void
fill_log(struct rig *rig)
{
    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < 511; i++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    }
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
    memset(rig_word(rig, RIG_A, 0), 0, RIG_PAGE);
    rig->signals = 0;
}

/* Also trap 4: no interrupt tells of it. */
static void
vector_4(void **state)
{
    struct rig *rig = *state;

    fill_log(rig);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 1);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_OVERFLOW);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0xff8);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig->signals, 0);
    /* Nor of what is dropped after it, which is no second overflow. */
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_OVERFLOW);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 0);
    assert_int_equal(status(rig) & 0x700, 0);
    assert_int_equal(rig->signals, 0);
}

/* What does not restart it, in whatever order; and what does. */
static void
vector_5(void **state)
{
    static const struct {
        int clears, toggles, moves; /* what software does of the three */
    } tries[] = { { 0, 0, 1 }, { 0, 1, 1 }, { 1, 0, 1 }, { 1, 1, 0 } };

    for (unsigned i = 0; i < 4; i++) {
        void *opened = NULL;

        assert_int_equal(rig_setup(&opened), 0);
        struct rig *rig = opened;

        fill_log(rig);
        (void)rig_msi(rig, RIG_FEE, 5);
        if (tries[i].moves) {
            rig_write(rig, AVICEMU_IOMMU_GA_HEAD, 0xff8);
        }
        if (tries[i].toggles) {
            rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
        }
        if (tries[i].clears) {
            rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_OVERFLOW);
        }
        rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
        struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

        assert_int_equal(msi.nr_logged, 0);
        /* Restarted but not drained, it overflows at once. */
        assert_int_equal(msi.nr_overflows, i == 3);
        (void)rig_teardown(&opened);
    }
    (void)state;
}

/* Also trap 10. The strict cache shows what an invalidation is needed for. */
static void
vector_7(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x0000300700008585, rig_address(RIG_A) | 0x42);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(msi.nr_doorbells, 0);
    assert_int_equal(msi.nr_logged, 1);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 0);
    rig_command(rig, 0x5000000000000123, 0);
    rig_wait(rig, 0, 1);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0), 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 1);
}

static void
vector_8(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, 2, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_ABORTED);
    rig_irte(rig, 5, 0, 0);
    rig_dte(rig, rig_dte_remap(9) | 0x20);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_ABORTED);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL), 0);
    assert_int_equal(status(rig) & AVICEMU_STATUS_EVENT_LOG_INT, 0);
    assert_int_equal(rig->signals, 0);
}

static void
vector_9(void **state)
{
    struct rig *rig = *state;

    rig_dte(rig, rig_dte_remap(11));
    rig_guest(rig, 0x400, RIG_A, 1, 0);
    rig_guest(rig, 0, RIG_B, 1, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x400).outcome, AVICEMU_HW_ABORTED);
    rig_dte(rig, rig_dte_remap(11) | 1ull << 58);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 0x400);

    assert_int_equal(msi.outcome, AVICEMU_HW_FORWARDED);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_NMI);
    rig_enable(rig, AVICEMU_CONTROL_2K);
    assert_int_equal(rig_msi(rig, RIG_FEE | 4, 0x400).outcome,
                     AVICEMU_HW_POSTED);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig_irr(rig, RIG_B, 0x41), 0);
}

/* ---- traps -------------------------------------------------------------- */

/* The same low bits in both modes: 6 DM or IsRun, 2 IntType or GALogIntr, 5
 * RqEoi or GAPPIDis, which is reserved without its feature. */
static void
trap_1(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_irte(rig, 5, 0x8565, 0x41);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, AVICEMU_HW_REMAPPED);
    assert_int_equal(msi.message.logical, 1);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_LOWEST);
    rig_irte(rig, 5, 0x85e5, rig_address(RIG_A) | 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
    assert_int_equal(last_event(rig) >> 48, 0x2098);
    rig_irte(rig, 5, 0x85c5, rig_address(RIG_A) | 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_doorbells, 1);
    /* The tag and the page that were not zeroed fault in remapped mode. */
    rig_irte(rig, 5, 0x0000300700008501, 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
    rig_irte(rig, 5, 0x8501, rig_address(RIG_A) | 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
}

/* Length 8: 512 entries of the GA log, 256 of the event log. */
static void
trap_2(void **state)
{
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_EVENT_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_EVENT_BASE,
              8ull << 56 | rig_address(RIG_EVENTS));
    rig_enable(rig, AVICEMU_CONTROL_EVENT_LOG_EN);
    for (unsigned i = 0; i < 255; i++) {
        (void)rig_msi(rig, RIG_FEE, 9);
    }
    assert_int_equal(status(rig) & AVICEMU_STATUS_EVENT_OVERFLOW, 0);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL), 0xff0);
    (void)rig_msi(rig, RIG_FEE, 9);
    assert_int_equal(status(rig) & AVICEMU_STATUS_EVENT_OVERFLOW, 1);
    fill_log(rig);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0xff8);
}

/* 00E8h is where a copy of the tail goes; 2048h is the tail. */
static void
trap_3(void **state)
{
    struct rig *rig = *state;

    *rig_word(rig, RIG_WORDS, 0x100) = UINT64_MAX;
    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0x100), 8);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
    /* With the log's own address in it, the copy lies over slot 0. */
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_GA_TAIL_WORD, rig_address(RIG_GA_LOG));
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(log_word(rig, 0), 16);
    assert_int_equal(log_word(rig, 1), 0x1000012300003007);
    /* 0: there is none. */
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_GA_TAIL_WORD, 0);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(log_word(rig, 0), 16);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 24);
}

/* A log entry has no vector. */
static void
trap_6(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x0000300700008585, rig_address(RIG_A) | 0x42);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(log_word(rig, 0), log_word(rig, 1));
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 1);
}

/* A table of 2048 entries, of which 512 are reached without 2K mode. */
static void
trap_12(void **state)
{
    struct rig *rig = *state;

    rig_dte(rig, rig_dte_remap(11));
    for (unsigned i = 0; i < 2048; i++) {
        rig_guest(rig, i, RIG_A, 0, 0);
        assert_int_equal(rig_msi(rig, RIG_FEE, i).outcome == AVICEMU_HW_POSTED,
                         i < 512);
    }
}

/* XTEn needs GAEn. */
static void
trap_13(void **state)
{
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_GA_EN);
    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    *rig_word(rig, RIG_TABLE, 0) = 0x00418501;
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 0);

    assert_int_equal(msi.outcome, AVICEMU_HW_REMAPPED);
    assert_int_equal(msi.message.dest, 0x85);
}

/* The address is HyperTransport's, with the sign; the flags say I alone. */
static void
trap_14(void **state)
{
    static const uint8_t indexes[] = { 0, 3, 5, 0x14 };
    struct rig *rig = *state;

    for (unsigned i = 0; i < 4; i++) {
        uint64_t high = 0;

        (void)rig_msi(rig, RIG_FEE, indexes[i]);
        assert_int_equal(rig_event(rig, &high) >> 48 & 0xfff, 8);
        assert_int_equal(high, 0xfffffffdf8000000 + indexes[i] * 0x10000ull);
    }
}

/* A doorbell for a core that is not there is no fault. */
static void
trap_15(void **state)
{
    struct rig *rig = *state;

    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    rig_irte(rig, 5, 0x00003007ffffffc1,
             0xff00000000000041 | rig_address(RIG_A));
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.nr_doorbells, 1);
    assert_int_equal(msi.nr_logged, 0);
}

/* What is no interrupt of its kind, but legal: vectors 0 to 15. */
static void
low_vectors(void **state)
{
    struct rig *rig = *state;

    for (uint8_t vector = 0; vector < 16; vector++) {
        rig_irte(rig, 5, 0x00003007000085c1, rig_address(RIG_A) | vector);
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
        assert_int_equal(rig_irr(rig, RIG_A, vector), 1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_ROW("vector 1: it runs: a doorbell", vector_1, rig_setup),
        RIG_ROW("vector 2: preempted: the bit alone", vector_2, rig_setup),
        RIG_ROW("vector 3: it blocks: an entry, one interrupt", vector_3,
                rig_setup),
        RIG_ROW("vector 4, trap 4: the log overflows", vector_4, rig_setup),
        { "vector 5: what does not restart it", vector_5, NULL, NULL, NULL },
        RIG_ROW("vector 7, trap 10: what is cached", vector_7, strict_setup),
        RIG_ROW("vector 8: dropped without an event", vector_8, rig_setup),
        RIG_ROW("vector 9: data 400h", vector_9, rig_setup),
        RIG_ROW("trap 1: bits of both modes", trap_1, rig_setup),
        RIG_ROW("trap 2: length 8", trap_2, rig_setup),
        RIG_ROW("trap 3: 00E8h is an address", trap_3, rig_setup),
        RIG_ROW("trap 6: no vector in the log", trap_6, rig_setup),
        RIG_ROW("trap 12: 512 of 2048", trap_12, rig_setup),
        RIG_ROW("trap 13: XTEn needs GAEn", trap_13, rig_setup),
        RIG_ROW("trap 14: where a fault is said to be", trap_14, rig_setup),
        RIG_ROW("trap 7, 15: the entry says it runs, nobody hears", trap_15,
                rig_setup),
        RIG_ROW("vectors 0 to 15 are posted as given", low_vectors, rig_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
