/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guest virtual APIC mode and the GA log, through registers and memory: words
 * bit by bit, what each run state does, overflow and recovery, signals, steps.
 * [IOMMU 2.2.5 interrupt remapping tables], [IOMMU 2.7 GA log]
 */

#include <errno.h>
#include <string.h>

#include "iommu_rig.h"

static uint64_t
status(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_STATUS);
}

static uint64_t
ga_tail(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_GA_TAIL);
}

/* vector: the words of a guest-mode entry, its bit, its log entry. */
static void
test_words(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_irte(rig, 0x123, 0x0000300700008585, rig_address(RIG_A) | 0x41);
    msi = rig_msi(rig, RIG_FEE, 0x123);
    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.posted, AVICEMU_POST_NEW);
    /* IRR of 41h: offset 220h, bit 1. */
    assert_int_equal(rig->ram[RIG_A * RIG_PAGE + 0x220], 2);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300003007);
    /* XT: the destination's high byte lies in the high half. */
    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    rig_irte(rig, 1, 0x00003007000001c1,
             rig_address(RIG_A) | 0x41 | 0x0000000000000000ull);
    assert_int_equal(rig_msi(rig, RIG_FEE, 1).nr_doorbells, 1);
    assert_int_equal(rig->bells[1].rung, 1);
    rig_irte(rig, 1, 0x00003007000085c1,
             0x0100000000000000 | rig_address(RIG_A) | 0x41);
    rig->bells[0x85].rung = 0;
    assert_int_equal(rig_msi(rig, RIG_FEE, 1).nr_doorbells, 1);
    assert_int_equal(rig->bells[0x85].rung, 0); /* core 1000085h has no word */
    /* Byte offset of entry 123h. */
    assert_int_equal((char *)rig_word(rig, RIG_TABLE, 0x246) -
                         (char *)rig_word(rig, RIG_TABLE, 0),
                     0x1230);
}

/* vectors 1 to 3, and the log's own copy of the tail. */
static void
test_run_states(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 1, 1);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.nr_doorbells, 1);
    assert_int_equal(msi.nr_logged, 0);
    assert_int_equal(rig->bells[0x85].rung, 1);
    rig_guest(rig, 5, RIG_A, 0, 0);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.posted, AVICEMU_POST_MERGED);
    assert_int_equal(msi.nr_doorbells + msi.nr_logged, 0);
    assert_int_equal(status(rig) & AVICEMU_STATUS_GA_INT, 0);
    rig_guest(rig, 5, RIG_A, 0, 1);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.signals, AVICEMU_SIGNAL_GA);
    assert_int_equal(ga_tail(rig), 8);
    assert_int_not_equal(status(rig) & AVICEMU_STATUS_GA_INT, 0);
    /* While the bit is set, no second interrupt. */
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.signals, 0);
    assert_int_equal(ga_tail(rig), 16);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0x100), 16);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).signals, AVICEMU_SIGNAL_GA);
}

/* vectors 4 and 5; traps 4 and 5; and the recovery of 4.5. */
static void
test_overflow(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < 511; i++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 0);
    }
    assert_int_equal(ga_tail(rig), 0xff8);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
    memset(rig->ram + RIG_A * RIG_PAGE, 0, RIG_PAGE);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.nr_overflows, 1);
    assert_int_equal(msi.signals, 0); /* no interrupt of its own */
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(ga_tail(rig), 0xff8);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_OVERFLOW);
    /* Neither head, nor clearing the bit, nor enabling alone restarts it. */
    rig_write(rig, AVICEMU_IOMMU_GA_HEAD, 0x800);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.nr_logged + msi.nr_overflows, 0);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_OVERFLOW);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_OVERFLOW);
    assert_int_equal(status(rig) & 0x700, 0);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_LOG_RUN);
    assert_int_equal(ga_tail(rig), 0xff8);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    assert_int_equal(ga_tail(rig), 0);
}

/* The log is off: dropped without an overflow. */
static void
test_log_off(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_guest(rig, 5, RIG_A, 0, 1);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.nr_logged + msi.nr_overflows, 0);
    assert_int_equal(status(rig) & 0x700, 0);
}

/* An enable that rises with the bit set signals. */
static void
test_enable_rises(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    rig_disable(rig, AVICEMU_CONTROL_GA_INT_EN);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).signals, 0);
    rig_enable(rig, AVICEMU_CONTROL_GA_INT_EN);
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_GA);
    /* And of the event log. */
    rig->signals = 0;
    rig_disable(rig, AVICEMU_CONTROL_EVENT_INT_EN);
    assert_int_equal(rig_msi(rig, RIG_FEE, 9).fault, 2);
    assert_int_equal(rig->signals, 0);
    rig_enable(rig, AVICEMU_CONTROL_EVENT_INT_EN);
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_EVENT);
}

static void
test_event_overflow(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < 511; i++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 9).fault, 2);
    }
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_EVENT_LOG_INT);
    rig->signals = 0;
    assert_int_equal(rig_msi(rig, RIG_FEE, 9).fault, 2);
    /* Unlike the GA log's, it is signalled. */
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_EVENT);
    assert_int_equal(status(rig) & 0xf, AVICEMU_STATUS_EVENT_OVERFLOW |
                                            AVICEMU_STATUS_EVENT_LOG_INT);
    rig_disable(rig, AVICEMU_CONTROL_EVENT_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_EVENT_OVERFLOW);
    rig_write(rig, AVICEMU_IOMMU_EVENT_HEAD,
              rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL));
    rig_enable(rig, AVICEMU_CONTROL_EVENT_LOG_EN);
    assert_int_equal(rig_msi(rig, RIG_FEE, 9).fault, 2);
    assert_int_equal(status(rig) & 0xf, AVICEMU_STATUS_EVENT_LOG_RUN |
                                            AVICEMU_STATUS_EVENT_LOG_INT);
}

/* How the signals are sent. */
static void
test_signals(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_message m;

    assert_int_equal(avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_GA, &m),
                     -EAGAIN);
    rig_enable(rig, AVICEMU_CONTROL_INT_CAP_XT_EN);
    assert_int_equal(avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_GA, &m),
                     -EAGAIN);
    rig_write(rig, AVICEMU_IOMMU_XT_GA, 0x0100003100000500);
    assert_int_equal(avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_GA, &m),
                     0);
    assert_int_equal(m.vector, 0x31);
    assert_int_equal(m.dest, 0x01000005);
    assert_int_equal(m.mode, AVICEMU_DELIVERY_FIXED);
    assert_int_equal(m.logical, 0);
    /* MSI: enabled, two messages; the GA log has the second one. */
    rig_disable(rig, AVICEMU_CONTROL_INT_CAP_XT_EN);
    rig_write(rig, 0x158, 0xfee0700000110000);
    rig_write(rig, 0x160, 0x0000004000000000);
    assert_int_equal(
        avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_EVENT, &m), 0);
    assert_int_equal(m.vector, 0x40);
    assert_int_equal(m.dest, 7);
    (void)avicemu_hw_iommu_signal(rig->iommu, AVICEMU_SIGNAL_GA, &m);
    assert_int_equal(m.vector, 0x41);
    assert_int_equal(avicemu_hw_iommu_signal(rig->iommu, 3, &m), -EINVAL);
}

/* One step for each access that another agent can see, in this order. */
static void
test_steps(void **state)
{
    static const enum avicemu_hw_event blocked[] = {
        AVICEMU_HW_BEGUN,    AVICEMU_HW_DTE,      AVICEMU_HW_FETCHED,
        AVICEMU_HW_IRR,      AVICEMU_HW_REREAD,   AVICEMU_HW_RESERVED,
        AVICEMU_HW_LOGGED,   AVICEMU_HW_TAIL,     AVICEMU_HW_STATUS,
        AVICEMU_HW_FINISHED, AVICEMU_HW_FINISHED,
    };
    static const enum avicemu_hw_event running[] = {
        AVICEMU_HW_BEGUN,  AVICEMU_HW_DTE,  AVICEMU_HW_FETCHED,  AVICEMU_HW_IRR,
        AVICEMU_HW_REREAD, AVICEMU_HW_RANG, AVICEMU_HW_FINISHED,
    };
    static const enum avicemu_hw_event fault[] = {
        AVICEMU_HW_BEGUN, AVICEMU_HW_DTE,      AVICEMU_HW_FETCHED,
        AVICEMU_HW_EVENT, AVICEMU_HW_FINISHED,
    };
    static const struct {
        const enum avicemu_hw_event *events;
        unsigned nr, index;
    } rows[] = { { blocked, 11, 5 }, { running, 7, 6 }, { fault, 5, 7 } };
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    rig_guest(rig, 6, RIG_B, 1, 0);
    for (unsigned r = 0; r < 3; r++) {
        struct avicemu_hw_msi msi = { .size = sizeof(msi) };

        assert_int_equal(avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE,
                                                    RIG_FEE, rows[r].index,
                                                    &msi),
                         0);
        for (unsigned i = 0; i < rows[r].nr; i++) {
            assert_int_equal(avicemu_hw_iommu_msi_step(&msi),
                             rows[r].events[i]);
            if (msi.event == AVICEMU_HW_IRR) {
                assert_int_equal(msi.posted, AVICEMU_POST_NEW);
            } else if (msi.event == AVICEMU_HW_RANG) {
                assert_int_equal(msi.dest, 0x85);
            } else if (msi.event == AVICEMU_HW_LOGGED) {
                assert_int_equal(msi.ga_tag, 0x3007);
                assert_int_equal(ga_tail(rig), 0);
            } else if (msi.event == AVICEMU_HW_TAIL) {
                assert_int_equal(ga_tail(rig), 8);
                assert_int_equal(status(rig) & AVICEMU_STATUS_GA_INT, 0);
            }
        }
    }
}

/* The host programmer's mistakes. */
static void
test_misuse(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    assert_int_equal(avicemu_hw_iommu_msi_step(&msi), AVICEMU_HW_NOTHING);
    assert_int_equal(avicemu_hw_iommu_msi_step(NULL), AVICEMU_HW_NOTHING);
    msi.size--;
    assert_int_equal(avicemu_hw_iommu_msi_step(&msi), AVICEMU_HW_NOTHING);
    assert_int_equal(
        avicemu_hw_iommu_msi_begin(rig->iommu, 0, RIG_FEE, 0, &msi), -EINVAL);
    assert_int_equal(avicemu_hw_iommu_msi(rig->iommu, 0, RIG_FEE, 0, NULL),
                     -EINVAL);
    assert_int_equal(avicemu_hw_iommu_msi(NULL, 0, RIG_FEE, 0, &msi), -EINVAL);
}

/* A new target between the two reads: both tags are told. */
static void
test_retarget(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    rig_guest(rig, 5, RIG_A, 0, 0);
    (void)avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, RIG_FEE, 5, &msi);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_IRR) {
    }
    rig_irte(rig, 5, 0x00005009000042c1, rig_address(RIG_B) | 0x41);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_FINISHED) {
    }
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig_irr(rig, RIG_B, 0x41), 0);
    assert_int_equal(msi.nr_logged, 1); /* forced, of the first */
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300003007);
    assert_int_equal(rig->bells[0x42].rung, 1);
}

static int
gappi_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_GAPPI |
                               AVICEMU_IOMMU_GAPPI_DIS);
}

static void
test_gappi(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    rig_enable(rig, AVICEMU_CONTROL_GAPPI_EN);
    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, RIG_FEE, 5, &msi);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_PHYSICAL) {
    }
    assert_int_equal(msi.message.vector, 0x07); /* GATag[7:0] */
    assert_int_equal(msi.message.dest, 0x85);
    assert_int_equal(avicemu_hw_iommu_msi_step(&msi), AVICEMU_HW_FINISHED);
    assert_int_equal(msi.nr_logged, 0);
    /* GAPPIDis: nothing. */
    rig_irte(rig, 5, 0x00003007000085a5, rig_address(RIG_A) | 0x41);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(msi.nr_logged + msi.nr_doorbells, 0);
}

/* Longer rings: 2^(L + 1) entries. */
static void
test_lengths(void **state)
{
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, rig_address(RIG_GA_LOG) | 9ull << 56);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned i = 0; i < 1023; i++) {
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 1);
    }
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_overflows, 1);
    assert_int_equal(ga_tail(rig), 0x1ff8);
}

/* Rings over each other, over tables, in no memory: dropped or overwritten, and
 * no more. */
static void
test_bad_rings(void **state)
{
    static const uint64_t bases[] = { 0, 0x700000000000, RIG_RAM + 4 * RIG_PAGE,
                                      RIG_RAM + 12 * RIG_PAGE,
                                      RIG_RAM + 14 * RIG_PAGE };
    struct rig *rig = *state;

    for (unsigned i = 0; i < 25; i++) {
        rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN |
                             AVICEMU_CONTROL_EVENT_LOG_EN |
                             AVICEMU_CONTROL_CMD_BUF_EN);
        rig_write(rig, AVICEMU_IOMMU_STATUS, 0x7ff);
        rig_write(rig, AVICEMU_IOMMU_GA_BASE, bases[i % 5] | 15ull << 56);
        rig_write(rig, AVICEMU_IOMMU_EVENT_BASE, bases[i / 5] | 1ull << 56);
        rig_write(rig, AVICEMU_IOMMU_GA_TAIL_WORD, bases[i / 5] + 0xff8);
        rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN |
                            AVICEMU_CONTROL_EVENT_LOG_EN |
                            AVICEMU_CONTROL_CMD_BUF_EN);
        for (unsigned n = 0; n < 64; n++) {
            rig_guest(rig, 5, RIG_A, 0, 1);
            (void)rig_msi(rig, RIG_FEE, n % 8);
        }
        rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, 0x1ff0);
        rig_write(rig, AVICEMU_IOMMU_GA_HEAD, UINT64_MAX);
    }
    assert_int_equal(rig_msi(rig, 0, 0).outcome, AVICEMU_HW_NO_REQUEST);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_words, rig_setup),
        RIG_TEST(test_run_states, rig_setup),
        RIG_TEST(test_overflow, rig_setup),
        RIG_TEST(test_log_off, rig_setup),
        RIG_TEST(test_enable_rises, rig_setup),
        RIG_TEST(test_event_overflow, rig_setup),
        RIG_TEST(test_signals, rig_setup),
        RIG_TEST(test_steps, rig_setup),
        RIG_TEST(test_retarget, rig_setup),
        RIG_TEST(test_gappi, gappi_setup),
        RIG_TEST(test_lengths, rig_setup),
        RIG_TEST(test_bad_rings, rig_setup),
        RIG_TEST(test_misuse, rig_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
