/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits for what: COMPLETION_WAITs for interrupts under way, commands for
 * a COMPLETION_WAIT, a log's restart for entries in flight. Interrupts are held
 * at a step and let go in any order. [IOMMU 2.4 commands], [IOMMU 2.2.5
 * caching], [IOMMU 2.7 GA log]
 */

#include <stdlib.h>
#include <string.h>

#include "iommu_rig.h"

#define OP(n)      ((uint64_t)(n) << 60)
#define OTHER      0x0042u /* a device of another group in the caches */
#define GROUP_TWIN (RIG_DEVICE - 0x100u)
#define LAST_PAGE  ((enum rig_page)(RIG_NR_PAGES - 1))

static int
strict_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
}

static uint64_t
word(struct rig *rig, unsigned i)
{
    return *rig_word(rig, RIG_WORDS, i);
}

static uint64_t
status(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_STATUS);
}

static uint64_t
head(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_COMMAND_HEAD);
}

/* An interrupt of the device by entry i, held behind this step. */
static void
hold(struct rig *rig, struct avicemu_hw_msi *msi, unsigned i,
     enum avicemu_hw_event at)
{
    *msi = (struct avicemu_hw_msi){ .size = sizeof(*msi) };
    assert_int_equal(
        avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, RIG_FEE, i, msi), 0);
    while (msi->event != at) {
        assert_int_not_equal(avicemu_hw_iommu_msi_step(msi),
                             AVICEMU_HW_FINISHED);
    }
}

static void
let_go(struct avicemu_hw_msi *msi)
{
    while (avicemu_hw_iommu_msi_step(msi) != AVICEMU_HW_FINISHED) {
    }
}

/* ---- waits and interrupts ----------------------------------------------- */

/* Each waits for what began before it, and no more: A, wait 0, B, wait 1. */
static void
test_interleaved(void **state)
{
    for (int b_first = 0; b_first < 2; b_first++) {
        struct rig *rig = *state;
        struct avicemu_hw_msi a, b;
        uint64_t n = (uint64_t)b_first + 1;

        rig_guest(rig, 5, RIG_A, 1, 0);
        hold(rig, &a, 5, AVICEMU_HW_BEGUN);
        rig_wait(rig, 0, n);
        hold(rig, &b, 5, AVICEMU_HW_IRR);
        rig_wait(rig, 1, n);
        assert_int_equal(word(rig, 0), n - 1);
        if (b_first) {
            let_go(&b);
            /* Wait 1 stands behind wait 0. */
            assert_int_equal(word(rig, 0), n - 1);
            assert_int_equal(word(rig, 1), n - 1);
            let_go(&a);
            assert_int_equal(word(rig, 0), n);
        } else {
            let_go(&a);
            assert_int_equal(word(rig, 0), n);
            assert_int_equal(word(rig, 1), n - 1);
            let_go(&b);
        }
        assert_int_equal(word(rig, 1), n);
    }
}

/* Many held, let go in an order of their own: done with the last. */
static void
test_last_of_many(void **state)
{
    static const unsigned order[8] = { 3, 0, 7, 1, 6, 2, 5, 4 };
    struct rig *rig = *state;
    struct avicemu_hw_msi msis[8];

    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < 8; i++) {
        hold(rig, &msis[i], 5, i % 2 ? AVICEMU_HW_LOGGED : AVICEMU_HW_FETCHED);
    }
    rig_wait(rig, 0, 1);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(word(rig, 0), 0);
        let_go(&msis[order[i]]);
    }
    assert_int_equal(word(rig, 0), 1);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 64);
}

/* In the order of the ring, into one word, by one call. */
static void
test_in_order(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    hold(rig, &msi, 5, AVICEMU_HW_RANG);
    for (unsigned i = 1; i <= 5; i++) {
        rig_wait(rig, 0, i);
        rig_wait(rig, i, i);
    }
    assert_int_equal(head(rig), 16); /* the first one is being carried out */
    let_go(&msi);
    assert_int_equal(word(rig, 0), 5);
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(word(rig, i), i);
    }
    assert_int_equal(head(rig), 160);
}

/* Who ends the last interrupt gets the signal of the wait, of the fault of a
 * command behind it, too. */
static void
test_signals(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_enable(rig, AVICEMU_CONTROL_COM_WAIT_INT_EN);
    rig_guest(rig, 5, RIG_A, 1, 0);
    hold(rig, &msi, 5, AVICEMU_HW_REREAD);
    rig_command(rig, OP(1) | 2, 0);
    assert_int_equal(rig->signals, 0);
    assert_int_equal(status(rig) & AVICEMU_STATUS_COM_WAIT_INT, 0);
    let_go(&msi);
    assert_int_equal(msi.signals, AVICEMU_SIGNAL_EVENT);
    assert_int_not_equal(status(rig) & AVICEMU_STATUS_COM_WAIT_INT, 0);

    hold(rig, &msi, 5, AVICEMU_HW_REREAD);
    rig_wait(rig, 0, 1);
    rig_command(rig, OP(15), 0);
    assert_int_not_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
    let_go(&msi);
    assert_int_equal(msi.signals, AVICEMU_SIGNAL_EVENT);
    assert_int_equal(word(rig, 0), 1);
    assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
    assert_int_equal(status(rig) & AVICEMU_STATUS_EVENT_LOG_INT,
                     AVICEMU_STATUS_EVENT_LOG_INT);
}

/* Interrupts that reach no page are under way just so: a fault until it is
 * logged, one that is only passed on. */
static void
test_no_page(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    hold(rig, &msi, 9, AVICEMU_HW_FETCHED);
    rig_wait(rig, 0, 1);
    assert_int_equal(avicemu_hw_iommu_msi_step(&msi), AVICEMU_HW_EVENT);
    assert_int_equal(word(rig, 0), 0);
    let_go(&msi);
    assert_int_equal(word(rig, 0), 1);
    rig_disable(rig, AVICEMU_CONTROL_IOMMU_EN);
    hold(rig, &msi, 9, AVICEMU_HW_DTE);
    assert_int_equal(msi.outcome, AVICEMU_HW_FORWARDED);
    rig_wait(rig, 0, 2);
    assert_int_equal(word(rig, 0), 1);
    let_go(&msi);
    assert_int_equal(word(rig, 0), 2);
    /* What is no interrupt waits for nothing. */
    assert_int_equal(
        avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, 0x1000, 0, &msi), 0);
    rig_wait(rig, 0, 3);
    assert_int_equal(word(rig, 0), 3);
}

/* Stopped, set to 0 and started while one waits: it is done once, when it may
 * be, and what is new stands behind it. */
static void
test_restart_while_waiting(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    hold(rig, &msi, 5, AVICEMU_HW_FETCHED);
    rig_wait(rig, 0, 1);
    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE,
              rig_address(RIG_COMMANDS) | 9ull << 56);
    assert_int_equal(head(rig), 0);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_COMMAND_TAIL), 0);
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_wait(rig, 1, 2);
    assert_int_equal(head(rig), 0);
    let_go(&msi);
    assert_int_equal(word(rig, 0), 1);
    assert_int_equal(word(rig, 1), 2);
    *rig_word(rig, RIG_WORDS, 0) = 0;
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(word(rig, 0), 0);
}

/* ---- the ring ----------------------------------------------------------- */

/* All that fits by one write of the tail, across the end of the ring, also as
 * the buffer is enabled. */
static void
test_full_ring(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < 512; i++) {
        *rig_word(rig, RIG_COMMANDS, 2 * i) =
            OP(1) | (rig_address(RIG_WORDS) + i % 8 * 8) | 1;
        *rig_word(rig, RIG_COMMANDS, 2 * i + 1) = i + 1;
    }
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0x1ff0);
    assert_int_equal(head(rig), 0x1ff0);
    assert_int_equal(word(rig, 6), 511);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0x1fe0);
    assert_int_equal(head(rig), 0x1fe0);
    assert_int_equal(word(rig, 7), 504); /* then round: 512, 8, ... 504 */
    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0x100);
    assert_int_equal(head(rig), 0x1fe0);
    assert_int_equal(word(rig, 7), 504);
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    assert_int_equal(head(rig), 0x100);
    assert_int_equal(word(rig, 7), 16);
}

/* The ring goes on beyond memory: the command there, and not before. */
static void
test_end_of_memory(void **state)
{
    struct rig *rig = *state;
    uint64_t high = 0;

    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE,
              rig_address(LAST_PAGE) | 9ull << 56);
    for (unsigned i = 0; i < 256; i++) {
        *rig_word(rig, LAST_PAGE, 2 * i) = OP(2) | i;
        *rig_word(rig, LAST_PAGE, 2 * i + 1) = 0;
    }
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0x1010);
    assert_int_equal(head(rig), 0x1000);
    assert_int_equal(rig_event(rig, &high), 0x6200000000000000);
    assert_int_equal(high, rig_address(LAST_PAGE) + 0x1000);
    assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
    /* CmdBufEn still reads 1, and writing it so again is no restart. */
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
}

/* The stores of COMPLETION_WAIT may lie anywhere, also in the ring itself. */
static void
test_store_into_ring(void **state)
{
    struct rig *rig = *state;
    uint64_t high = 0;

    rig_wait(rig, 0, 1);
    /* Over the opcode of the next one, which is then illegal. */
    *rig_word(rig, RIG_COMMANDS, 2) =
        OP(1) | (rig_address(RIG_COMMANDS) + 32) | 1;
    *rig_word(rig, RIG_COMMANDS, 3) = OP(9);
    *rig_word(rig, RIG_COMMANDS, 4) = OP(2);
    *rig_word(rig, RIG_COMMANDS, 5) = 0;
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 48);
    assert_int_equal(rig_event(rig, &high), 0x5000000000000000);
    assert_int_equal(high, rig_address(RIG_COMMANDS) + 32);
}

/* ---- caches ------------------------------------------------------------- */

/* An invalidation behind a wait that is not done has not been carried out. */
static void
test_invalidation_behind_a_wait(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    hold(rig, &msi, 5, AVICEMU_HW_BEGUN);
    rig_wait(rig, 0, 1);
    rig_irte(rig, 5, 0x00003007000085c1, rig_address(RIG_A) | 0x42);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 0);
    let_go(&msi);
    assert_int_equal(word(rig, 0), 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 1);
}

/* Invalidated while an interrupt goes by the old entry: it keeps its page, the
 * wait knows, and it leaves nothing in the cache. */
static void
test_invalidated_under_way(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    hold(rig, &msi, 5, AVICEMU_HW_FETCHED);
    rig_guest(rig, 5, RIG_B, 1, 0);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    rig_wait(rig, 0, 1);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 0);
    assert_int_equal(rig_irr(rig, RIG_B, 0x41), 1);
    assert_int_equal(word(rig, 0), 0);
    let_go(&msi);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(word(rig, 0), 1);
    /* From now on the page may be freed. */
    memset(rig_word(rig, RIG_A, 0), 0, RIG_PAGE);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 0);
}

/* Only the named device is forgotten, but those of one group (DeviceID mod
 * 256) together; op 8 forgets all. */
static void
test_which_device(void **state)
{
    static const struct {
        uint64_t command;
        int fresh; /* afterwards the entry is read from memory */
    } rows[] = {
        { OP(5) | OTHER, 0 },
        { OP(2) | RIG_DEVICE, 0 },
        { OP(5) | GROUP_TWIN, 1 },
        { OP(5) | RIG_DEVICE, 1 },
        { OP(8), 1 },
    };
    struct rig *rig = *state;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig_guest(rig, 5, RIG_A, 1, 0);
        rig_command(rig, OP(8), 0);
        (void)rig_msi(rig, RIG_FEE, 5);
        rig_irte(rig, 5, 0x8501, 0x41);
        rig_command(rig, rows[i].command, 0);
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome,
                         rows[i].fresh ? AVICEMU_HW_REMAPPED
                                       : AVICEMU_HW_POSTED);
    }
}

/* All of a remapped entry is cached: its destination, too. */
static void
test_remapped_is_cached(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, 0x8501, 0x41);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x4201, 0x42);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).message.dest, 0x85);
    rig_guest(rig, 5, RIG_A, 1, 0); /* into guest mode: needs one as well */
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_REMAPPED);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
}

/* IRTCacheDis: nothing is kept, and nothing that was kept before is used. */
static void
test_cache_disabled(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, 0x8501, 0x41);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x4201, 0x42);
    rig_enable(rig, AVICEMU_CONTROL_IRT_CACHE_DIS);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).message.dest, 0x42);
    rig_irte(rig, 5, 0x4301, 0x43);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).message.dest, 0x43);
}

/* ---- the GA log --------------------------------------------------------- */

/* Run stays 1 until nothing is in flight, and so long nothing can be moved. */
static void
test_log_stops(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    hold(rig, &msi, 5, AVICEMU_HW_RESERVED);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_LOG_RUN);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, rig_address(RIG_B) | 8ull << 56);
    rig_write(rig, AVICEMU_IOMMU_GA_TAIL, 0x80);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_BASE),
                     rig_address(RIG_GA_LOG) | 8ull << 56);
    /* Another finds it off. */
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 0);
    let_go(&msi);
    assert_int_equal(msi.nr_logged, 1);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_INT);
}

/* Written in another order than reserved: the tail passes no hole, and one
 * interrupt tells of all. */
static void
test_hole(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msis[3];

    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < 3; i++) {
        hold(rig, &msis[i], 5, AVICEMU_HW_RESERVED);
    }
    let_go(&msis[2]);
    let_go(&msis[1]);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0);
    assert_int_equal(msis[1].signals | msis[2].signals, 0);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0);
    let_go(&msis[0]);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 24);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0x100), 24);
    assert_int_equal(msis[0].signals, AVICEMU_SIGNAL_GA);
}

/* Off and on with an entry in flight: the log goes on as it was. */
static void
test_log_goes_on(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    hold(rig, &msi, 5, AVICEMU_HW_RESERVED);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0);
    let_go(&msi);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 16);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 1), 0x1000012300003007);
}

/* An overflow with an entry in flight: Run falls with that entry, as the wait
 * for it in the recovery wants. */
static void
test_overflow_in_flight(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    rig_write(rig, AVICEMU_IOMMU_GA_HEAD, 16);
    hold(rig, &msi, 5, AVICEMU_HW_RESERVED);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 1);
    assert_int_equal(status(rig) & 0x700,
                     AVICEMU_STATUS_GA_LOG_RUN | AVICEMU_STATUS_GA_OVERFLOW);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 0);
    let_go(&msi);
    assert_int_equal(status(rig) & 0x700,
                     AVICEMU_STATUS_GA_OVERFLOW | AVICEMU_STATUS_GA_INT);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
}

/* Memory goes between two steps: a fault before the bit, after it a notice for
 * whom the entry named first. */
static void
test_memory_goes(void **state)
{
    static const uint64_t base = 0x200000000;
    struct rig *rig = *state;
    uint64_t *memory = aligned_alloc(RIG_PAGE, RIG_PAGE);
    struct avicemu_hw_msi msi;
    uint64_t high = 0;

    assert_non_null(memory);
    memset(memory, 0, RIG_PAGE);
    /* The page. */
    assert_int_equal(avicemu_hw_memory_add(rig->memory, base, RIG_PAGE, memory),
                     0);
    rig_irte(rig, 5, 0x0000300700008585, base | 0x41);
    hold(rig, &msi, 5, AVICEMU_HW_FETCHED);
    assert_int_equal(avicemu_hw_memory_remove(rig->memory, base), 0);
    let_go(&msi);
    assert_int_equal(msi.fault, 4);
    assert_int_equal(rig_event(rig, &high) >> 48, 0x4208);
    assert_int_equal(high, base);
    /* The table. */
    assert_int_equal(avicemu_hw_memory_add(rig->memory, base, RIG_PAGE, memory),
                     0);
    rig_dte(rig, base | 2ull << 60 | 8 << 1 | 1);
    memory[10] = 0x0000300700008581;
    memory[11] = rig_address(RIG_A) | 0x41;
    hold(rig, &msi, 5, AVICEMU_HW_IRR);
    assert_int_equal(avicemu_hw_memory_remove(rig->memory, base), 0);
    let_go(&msi);
    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.nr_logged, 1);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300003007);
    free(memory);
}

/* The head may be any value: it costs entries, and no more. */
static void
test_wild_head(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    rig_write(rig, AVICEMU_IOMMU_GA_HEAD, 0x10); /* ahead of the tail: one */
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 1);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
    rig_write(rig, AVICEMU_IOMMU_GA_HEAD, UINT64_MAX);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_HEAD), 0xff8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_interleaved, rig_setup),
        RIG_TEST(test_last_of_many, rig_setup),
        RIG_TEST(test_in_order, rig_setup),
        RIG_TEST(test_signals, rig_setup),
        RIG_TEST(test_no_page, rig_setup),
        RIG_TEST(test_restart_while_waiting, rig_setup),
        RIG_TEST(test_full_ring, rig_setup),
        RIG_TEST(test_end_of_memory, rig_setup),
        RIG_TEST(test_store_into_ring, rig_setup),
        RIG_TEST(test_invalidation_behind_a_wait, strict_setup),
        RIG_TEST(test_invalidated_under_way, strict_setup),
        RIG_TEST(test_which_device, strict_setup),
        RIG_TEST(test_remapped_is_cached, strict_setup),
        RIG_TEST(test_cache_disabled, strict_setup),
        RIG_TEST(test_log_stops, rig_setup),
        RIG_TEST(test_hole, rig_setup),
        RIG_TEST(test_log_goes_on, rig_setup),
        RIG_TEST(test_overflow_in_flight, rig_setup),
        RIG_TEST(test_memory_goes, rig_setup),
        RIG_TEST(test_wild_head, rig_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
