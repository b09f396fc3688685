/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words bit by bit, as drivers write and read them; none of them is put
 * together from fields here. [IOMMU 2.2.5 interrupt remapping tables],
 * [IOMMU 2.4 commands], [IOMMU 2.5 event log], [IOMMU 2.7 GA log]
 */

#include <stdlib.h>
#include <string.h>

#include "iommu_rig.h"

#define GUEST_PAGE 0x0000012345678000ull
#define GA_BUFFER  0x23456000ull
#define COMMANDS   0x23450000ull
#define WAIT_PAGE  0x133440000ull

/* More memory, zeroed. */
static void *
map(struct rig *rig, uint64_t base, size_t bytes)
{
    void *memory = aligned_alloc(RIG_PAGE, bytes);

    assert_non_null(memory);
    memset(memory, 0, bytes);
    assert_int_equal(avicemu_hw_memory_add(rig->memory, base, bytes, memory),
                     0);
    return memory;
}

static void
unmap(struct rig *rig, uint64_t base, void *memory)
{
    assert_int_equal(avicemu_hw_memory_remove(rig->memory, base), 0);
    free(memory);
}

static uint64_t
last_event(struct rig *rig)
{
    uint64_t high = 0;

    return rig_event(rig, &high);
}

static int
strict_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
}

static void
word_guest(void **state)
{
    static const struct {
        uint64_t low, high;
        unsigned doorbells, logged;
        int xt;
    } rows[] = {
        { 0x00003007000085c1, 0x0000012345678041, 1, 0, 0 }, /* runs */
        { 0x0000300700008585, 0x0000012345678041, 0, 1, 0 }, /* blocks */
        { 0x0000300700008581, 0x0000012345678041, 0, 0, 0 }, /* preempted */
        { 0x00003007000085c1, 0x0100012345678041, 1, 0, 1 }, /* 1000085h */
    };
    struct rig *rig = *state;
    unsigned char *page = map(rig, GUEST_PAGE, RIG_PAGE);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].xt) {
            rig_enable(rig, AVICEMU_CONTROL_XT_EN);
        }
        rig_irte(rig, 5, rows[i].low, rows[i].high);
        memset(page, 0, RIG_PAGE);
        struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

        assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
        assert_int_equal(msi.nr_doorbells, rows[i].doorbells);
        assert_int_equal(msi.nr_logged, rows[i].logged);
        /* Vector 41h: byte 220h, bit 1; nothing else in the page. */
        assert_int_equal(page[0x220], 2);
        page[0x220] = 0;
        for (unsigned n = 0; n < RIG_PAGE; n++) {
            assert_int_equal(page[n], 0);
        }
    }
    assert_int_equal(rig->bells[0x85].rung, 1); /* not for 1000085h */
    unmap(rig, GUEST_PAGE, page);
}

static void
word_tags(void **state)
{
    static const uint32_t tags[] = { 0x00003007, 0x00000607, 0x00000307,
                                     0xffffffff, 0 };
    struct rig *rig = *state;

    for (unsigned i = 0; i < 5; i++) {
        rig_irte(rig, 5, (uint64_t)tags[i] << 32 | 0x8585,
                 rig_address(RIG_A) | 0x41);
        (void)rig_msi(rig, RIG_FEE, 5);
        assert_int_equal(*rig_word(rig, RIG_GA_LOG, i),
                         0x1000012300000000 | tags[i]);
    }
}

static void
word_remapped(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_irte(rig, 5, 0x0000000000008501, 0x0000000000000041);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, AVICEMU_HW_REMAPPED);
    assert_int_equal(msi.message.dest, 0x85);
    assert_int_equal(msi.message.vector, 0x41);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_FIXED);
    assert_int_equal(msi.message.logical, 0);
    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    rig_irte(rig, 5, 0x0000000000008545, 0x0100000000000041);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.message.dest, 0x01000085);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_LOWEST);
    assert_int_equal(msi.message.logical, 1);
    /* RqEoi is no level. */
    rig_irte(rig, 5, 0x0000000000008521, 0x0000000000000041);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).message.level, 0);
    rig_disable(rig, AVICEMU_CONTROL_GA_EN);
    *rig_word(rig, RIG_TABLE, 0) = 0x00418501;
    msi = rig_msi(rig, RIG_FEE, 0);
    assert_int_equal(msi.message.dest, 0x85);
    assert_int_equal(msi.message.vector, 0x41);
}

/* DTE qword 2: the table at 1_4000_0000h, of 512 and of 2048 entries. */
static void
word_dte(void **state)
{
    struct rig *rig = *state;

    rig_dte(rig, 0x2000000140000013);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
    *rig_word(rig, RIG_DTES, 10) = 0x8501;
    *rig_word(rig, RIG_DTES, 11) = 0x41;
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_REMAPPED);
    /* Entry 123h: 1230h bytes on. */
    *rig_word(rig, RIG_DTES, 0x1230 / 8) = 0x8501;
    *rig_word(rig, RIG_DTES, 0x1230 / 8 + 1) = 0x41;
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x123).outcome, AVICEMU_HW_REMAPPED);
    rig_dte(rig, 0x2000000140000017);
    rig_enable(rig, AVICEMU_CONTROL_2K);
    *rig_word(rig, RIG_DTES, 0x7ff * 2) = 0x8501;
    *rig_word(rig, RIG_DTES, 0x7ff * 2 + 1) = 0x41;
    assert_int_equal(rig_msi(rig, RIG_FEE | 4, 0x7ff).outcome,
                     AVICEMU_HW_REMAPPED);
}

/* The GA log at 2345_6000h. */
static void
word_ga_base(void **state)
{
    struct rig *rig = *state;
    uint64_t *log = map(rig, GA_BUFFER, RIG_PAGE);

    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, 0x0800000023456000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_BASE), 0x0800000023456000);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(log[0], 0x1000012300003007);
    for (unsigned i = 1; i < 511; i++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    }
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 1);
    unmap(rig, GA_BUFFER, log);
}

/* Commands as dwords, at 2345_0000h, and the word at 1_3344_0000h. */
static void
word_commands(void **state)
{
    static const uint32_t ring[] = {
        0x00000123, 0x50000000, 0,          0,          /* op 5 */
        0x00000123, 0x20000000, 0,          0,          /* op 2 */
        0x33440001, 0x10000001, 0x89abcdef, 0x01234567, /* op 1 */
    };
    struct rig *rig = *state;
    uint32_t *commands = map(rig, COMMANDS, 2 * RIG_PAGE);
    uint64_t *word = map(rig, WAIT_PAGE, RIG_PAGE);

    rig_guest(rig, 5, RIG_A, 1, 0);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_dte(rig, rig_dte_remap(2));
    rig_irte(rig, 5, 0, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE, 0x0900000023450000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_COMMAND_BASE),
                     0x0900000023450000);
    memcpy(commands, ring, sizeof(ring));
    rig_enable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 16);
    /* The entry is read from memory now, the DTE still from the cache. */
    rig_dte(rig, rig_dte_remap(9));
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
    rig_dte(rig, rig_dte_remap(2) - (2ull << 60));
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 32);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 8);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 48);
    assert_int_equal(word[0], 0x0123456789abcdef);
    /* 512 entries: at the last one the head goes back to 0. */
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 48 + 8192);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_COMMAND_TAIL), 48);
    unmap(rig, COMMANDS, commands);
    unmap(rig, WAIT_PAGE, word);
}

static void
word_events(void **state)
{
    struct rig *rig = *state;

    *rig_word(rig, RIG_DTES, RIG_DEVICE * 4 + 1) = 0; /* domain 0 */
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(last_event(rig), 0x2008000000000123);
    rig_irte(rig, 5, 0x8501, 0x141);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(last_event(rig), 0x2098000000000123);
    rig_dte(rig, 0x3000000140000013);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(last_event(rig), 0x1008000000000123);
    rig_dte(rig, 0x2030000140000013);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(last_event(rig), 0x1088000000000123);
}

/* The control word of posting, and an XT register. */
static void
word_registers(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_message m;

    rig_write(rig, AVICEMU_IOMMU_CONTROL, 0x32020000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_CONTROL), 0x32020000);
    assert_int_equal(AVICEMU_CONTROL_GA_EN | AVICEMU_CONTROL_GAM_EN |
                         AVICEMU_CONTROL_GA_LOG_EN | AVICEMU_CONTROL_GA_INT_EN,
                     0x32020000);
    rig_write(rig, AVICEMU_IOMMU_XT_GA, 0x0100003100000500);
    rig_enable(rig, AVICEMU_CONTROL_INT_CAP_XT_EN);
    assert_int_equal(avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_GA, &m),
                     0);
    assert_int_equal(m.dest, 0x01000005);
    assert_int_equal(m.vector, 0x31);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_ROW("words of guest-mode entries", word_guest, rig_setup),
        RIG_ROW("words of log entries and tags", word_tags, rig_setup),
        RIG_ROW("words of remapped entries", word_remapped, rig_setup),
        RIG_ROW("words of the DTE, offsets of entries", word_dte, rig_setup),
        RIG_ROW("word of the GA log base", word_ga_base, rig_setup),
        RIG_ROW("words of commands", word_commands, strict_setup),
        RIG_ROW("words of events", word_events, rig_setup),
        RIG_ROW("words of control and XT registers", word_registers, rig_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
