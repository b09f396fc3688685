/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command buffer and the caches that it empties. [IOMMU 2.4 commands],
 * [IOMMU 2.2.5 caching]
 */

#include "iommu_rig.h"

#define OP(n) ((uint64_t)(n) << 60)

static int
cached_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
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

/* The device's interrupt, as far as this step. */
static struct avicemu_hw_msi
stalled(struct rig *rig, enum avicemu_hw_event at)
{
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    assert_int_equal(
        avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, RIG_FEE, 5, &msi),
        0);
    while (msi.event != at) {
        assert_int_not_equal(avicemu_hw_iommu_msi_step(&msi),
                             AVICEMU_HW_FINISHED);
    }
    return msi;
}

static void
finish(struct avicemu_hw_msi *msi)
{
    while (avicemu_hw_iommu_msi_step(msi) != AVICEMU_HW_FINISHED) {
    }
}

static void
test_wait(void **state)
{
    struct rig *rig = *state;

    rig_wait(rig, 0, 0x1122334455667788);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0), 0x1122334455667788);
    assert_int_equal(head(rig), 16);
    assert_int_equal(status(rig) & AVICEMU_STATUS_COM_WAIT_INT, 0);
    /* i: the bit is set whatever the enable says; the signal asks it. */
    rig_command(rig, OP(1) | 2, 0);
    assert_int_not_equal(status(rig) & AVICEMU_STATUS_COM_WAIT_INT, 0);
    assert_int_equal(rig->signals, 0);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_COM_WAIT_INT);
    rig_enable(rig, AVICEMU_CONTROL_COM_WAIT_INT_EN);
    rig_command(rig, OP(1) | 2, 0);
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_EVENT);
    /* A store to no memory: the command is done all the same. */
    rig_command(rig, OP(1) | 0x700000000000 | 1, 5);
    assert_int_equal(head(rig), 64);
}

/* Each illegal one: an event, and the buffer stops at it. */
static void
test_illegal(void **state)
{
    static const uint64_t bad[][2] = {
        { 0, 0 },
        { OP(9), 0 },
        { OP(10), 0 },
        { OP(15), 0 },
        { OP(1) | 1ull << 52, 0 },
        { OP(2) | 1ull << 16, 0 },
        { OP(2), 1 },
        { OP(5) | 1ull << 32, 0 },
        { OP(5), 1ull << 63 },
        { OP(8) | 1, 0 },
    };
    struct rig *rig = *state;

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t high = 0;

        rig_command(rig, OP(2) | RIG_DEVICE, 0);
        rig_command(rig, bad[i][0], bad[i][1]);
        assert_int_equal(rig_event(rig, &high), 0x5000000000000000);
        assert_int_equal(high, rig_address(RIG_COMMANDS) + 16);
        assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
        assert_int_equal(head(rig), 16);
        /* Nothing more is fetched until the restart. */
        rig_wait(rig, 0, i + 1);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 0), 0);
        rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
        rig_write(rig, AVICEMU_IOMMU_COMMAND_HEAD, 0);
        rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0);
        rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
        assert_int_not_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
    }
}

/* Those of the DMA side are taken. */
static void
test_others(void **state)
{
    struct rig *rig = *state;

    rig_command(rig, OP(3) | 0xffff00000fffff, UINT64_MAX);
    rig_command(rig, OP(4) | 0x123, 5);
    rig_command(rig, OP(6), 5);
    rig_command(rig, OP(7), 5);
    rig_command(rig, OP(8), 0);
    assert_int_equal(head(rig), 80);
    assert_int_not_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
}

static int
bare_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_BARE);
}

static void
test_without_ia(void **state)
{
    struct rig *rig = *state;
    uint64_t high;

    rig_command(rig, OP(8), 0);
    assert_int_equal(rig_event(rig, &high) >> 60, 5);
}

static void
test_fetch_error(void **state)
{
    struct rig *rig = *state;
    uint64_t high = 0;

    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE, 0x700000000000 | 9ull << 56);
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 16);
    assert_int_equal(rig_event(rig, &high), 0x6200000000000000);
    assert_int_equal(high, 0x700000000000);
    assert_int_equal(status(rig) & AVICEMU_STATUS_CMD_BUF_RUN, 0);
}

static void
test_wrap(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < 1500; i++) {
        rig_wait(rig, 0, i);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 0), i);
    }
    assert_int_equal(head(rig), 1500 % 512 * 16);
}

/* It waits for what began before it, at every step; not for what comes after.
 */
static void
test_under_way(void **state)
{
    static const enum avicemu_hw_event at[] = {
        AVICEMU_HW_BEGUN,  AVICEMU_HW_DTE,    AVICEMU_HW_FETCHED,
        AVICEMU_HW_IRR,    AVICEMU_HW_REREAD, AVICEMU_HW_RESERVED,
        AVICEMU_HW_LOGGED, AVICEMU_HW_TAIL,   AVICEMU_HW_STATUS,
    };
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        struct avicemu_hw_msi msi;

        rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
        msi = stalled(rig, at[i]);
        rig_wait(rig, 0, i + 1);
        rig_wait(rig, 1, i + 1);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 0), i);
        /* A later one goes its way meanwhile. */
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 0), i);
        finish(&msi);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 0), i + 1);
        assert_int_equal(*rig_word(rig, RIG_WORDS, 1), i + 1);
    }
}

/* The buffer is stopped meanwhile: the wait is done when it may be, commands
 * behind it are not. */
static void
test_stop_waiting(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    msi = stalled(rig, AVICEMU_HW_FETCHED);
    rig_wait(rig, 0, 1);
    rig_wait(rig, 1, 1);
    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    finish(&msi);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0), 1);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 1), 0);
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 1), 1);
}

/* ---- caches: vector 7 --------------------------------------------------- */

static void
test_live_fields(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    /* IsRun, Destination, GALogIntr and GATag are never stale. */
    rig_irte(rig, 5, 0x0000400700004285, rig_address(RIG_A) | 0x41);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.nr_doorbells, 0);
    assert_int_equal(msi.nr_logged, 1);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300004007);
    rig_irte(rig, 5, 0x00004007000042c1, rig_address(RIG_A) | 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_doorbells, 1);
    assert_int_equal(rig->bells[0x42].rung, 1);
}

static void
test_cached_fields(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    /* The vector is, until op 5; op 2 does not do. */
    rig_irte(rig, 5, 0x00003007000085c1, rig_address(RIG_A) | 0x42);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 0);
    rig_command(rig, OP(2) | RIG_DEVICE, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 0);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 1);
    /* RemapEn: the cache has it; the bit goes where it was, and as memory has
     * no tag any more, the first one is logged and rung. */
    rig_irte(rig, 5, 0, 0);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.nr_doorbells, 1);
    assert_int_equal(msi.nr_logged, 1);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
    /* What is not present is not kept. */
    rig_guest(rig, 5, RIG_A, 1, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
}

static void
test_cached_dte(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_dte(rig, 1);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
    rig_command(rig, OP(5) | RIG_DEVICE, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
    rig_command(rig, OP(2) | RIG_DEVICE, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 8);
    /* All at once. */
    rig_dte(rig, rig_dte_remap(9));
    (void)rig_command(rig, OP(8), 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
}

static void
test_cache_off(void **state)
{
    struct rig *rig = *state;

    rig_enable(rig, AVICEMU_CONTROL_IRT_CACHE_DIS);
    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x00003007000085c1, rig_address(RIG_A) | 0x42);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 1);
    rig_irte(rig, 5, 0, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
}

/* Another page by the cached entry: bit and first tag there, then both told. */
static void
test_cached_page(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, 0x0000500900008585, rig_address(RIG_B) | 0x41);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_B, 0x41), 0);
    assert_int_equal(msi.nr_logged, 2);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 1), 0x1000012300003007);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 2), 0x1000012300005009);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_wait, rig_setup),
        RIG_TEST(test_illegal, rig_setup),
        RIG_TEST(test_others, rig_setup),
        RIG_TEST(test_without_ia, bare_setup),
        RIG_TEST(test_fetch_error, rig_setup),
        RIG_TEST(test_wrap, rig_setup),
        RIG_TEST(test_under_way, rig_setup),
        RIG_TEST(test_stop_waiting, rig_setup),
        RIG_TEST(test_live_fields, cached_setup),
        RIG_TEST(test_cached_fields, cached_setup),
        RIG_TEST(test_cached_dte, cached_setup),
        RIG_TEST(test_cache_off, cached_setup),
        RIG_TEST(test_cached_page, cached_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
