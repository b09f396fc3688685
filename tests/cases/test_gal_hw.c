/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind GAL as far as the hardware alone shows them; the driver is the
 * test. With the hypervisor: test_gal.c. Not here:
 *
 *   GAL-06    notifiers that end: the hypervisor's tests
 *   GAL-09    a hypervisor's: no hardware of ours keeps bits aside
 *   GAL-12    what keeps an entry posted is software; here what happens else
 *
 * [IOMMU 2.2.5 interrupt remapping tables], [IOMMU 2.7 GA log],
 * [IOMMU 3.4 MMIO registers]
 */

#include <pthread.h>
#include <string.h>

#include "iommu_rig.h"

#define ROUNDS   100000u
#define PATIENCE 100000000u
#define SLOTS    512u
#define LOW_A    0x00003007000085c1ull /* runs on core 85h */
#define LOW_B    0x00004008000042c1ull

static uint64_t
status(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_STATUS);
}

static void
invalidate(struct rig *rig)
{
    rig_command(rig, 0x5000000000000000 | RIG_DEVICE, 0);
    rig_wait(rig, 0, 1);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0), 1);
    *rig_word(rig, RIG_WORDS, 0) = 0;
}

static int
strict_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
}

/* ---- GAL-01 ------------------------------------------------------------- */

/* Head up to tail. How many there were. */
static unsigned
drain(struct rig *rig)
{
    uint64_t head = rig_read(rig, AVICEMU_IOMMU_GA_HEAD);
    uint64_t tail = rig_read(rig, AVICEMU_IOMMU_GA_TAIL);
    unsigned nr = 0;

    for (; head != tail; nr++) {
        assert_int_equal(*rig_word(rig, RIG_GA_LOG, (unsigned)head / 8) >> 60,
                         1);
        head = (head + 8) % (SLOTS * 8);
        rig_write(rig, AVICEMU_IOMMU_GA_HEAD, head);
    }
    return nr;
}

/* One interrupt to each of SLOTS vCPUs that block: two pages, 256 vectors. */
static void
storm(struct rig *rig)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        enum rig_page page = i < 256 ? RIG_A : RIG_B;

        rig_irte(rig, i, (uint64_t)i << 32 | 0x8585,
                 rig_address(page) | (i & 0xff));
        assert_int_equal(rig_msi(rig, RIG_FEE, i).outcome, AVICEMU_HW_POSTED);
    }
}

static void
gal_01(void **state)
{
    struct rig *rig = *state;

    storm(rig);
    assert_int_equal(status(rig) & 0x700,
                     AVICEMU_STATUS_GA_OVERFLOW | AVICEMU_STATUS_GA_INT);
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_GA); /* of the first entry */
    /* The handler: bits first, then the entries, then the status once more. */
    rig_write(rig, AVICEMU_IOMMU_STATUS,
              AVICEMU_STATUS_GA_OVERFLOW | AVICEMU_STATUS_GA_INT);
    assert_int_equal(drain(rig), SLOTS - 1);
    assert_int_equal(status(rig) & 0x700, 0);
    /* A driver that leaves it there hears nothing any more. */
    rig->signals = 0;
    assert_int_equal(rig_msi(rig, RIG_FEE, 7).nr_logged, 0);
    assert_int_equal(rig->signals, 0);
    /* Restart: Run is 0; both off, overflow cleared, both on. */
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN | AVICEMU_CONTROL_GA_INT_EN);
    rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_OVERFLOW);
    rig_enable(rig, AVICEMU_CONTROL_GA_INT_EN | AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_LOG_RUN);
    assert_int_equal(rig_msi(rig, RIG_FEE, 7).signals, AVICEMU_SIGNAL_GA);
    assert_int_equal(drain(rig), 1);
    /* What was lost is a wake-up, no interrupt: a scan of the pages finds all,
     * the last one, too. */
    for (unsigned i = 0; i < SLOTS; i++) {
        assert_int_equal(
            rig_irr(rig, i < 256 ? RIG_A : RIG_B, (uint8_t)(i & 0xff)), 1);
    }
}

/* GAIntEn 0: the same, and nobody is told. */
static void
gal_01_quiet(void **state)
{
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_GA_INT_EN);
    storm(rig);
    assert_int_equal(rig->signals, 0);
    assert_int_equal(status(rig) & 0x700,
                     AVICEMU_STATUS_GA_OVERFLOW | AVICEMU_STATUS_GA_INT);
}

/* ---- GAL-03 ------------------------------------------------------------- */

/* Into guest mode and back, RemapEn kept; and lost, as drivers did. */
static void
gal_03(void **state)
{
    static const uint64_t host = 0x8501;
    struct rig *rig = *state;
    uint64_t high = 0;

    for (uint64_t remap_en = 2; remap_en-- > 0;) {
        rig_irte(rig, 5, host, 0x41);
        invalidate(rig);
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_REMAPPED);
        rig_irte(rig, 5, (LOW_A & ~1ull) | remap_en, rig_address(RIG_A) | 0x31);
        invalidate(rig);
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome,
                         remap_en ? AVICEMU_HW_POSTED : AVICEMU_HW_ABORTED);
        rig_irte(rig, 5, (host & ~1ull) | remap_en, 0x41);
        invalidate(rig);
        assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome,
                         remap_en ? AVICEMU_HW_REMAPPED : AVICEMU_HW_ABORTED);
    }
    /* The line in the kernel's log: flags 0008h, address ..fdf8050000h. */
    assert_int_equal(rig_event(rig, &high) >> 48 & 0xfff, 8);
    assert_int_equal(high, 0xfffffffdf8050000);
}

/* ---- GAL-04 ------------------------------------------------------------- */

struct entry {
    uint64_t low, high;
};

/* Sixteen bytes at once, as drivers do. Nobody else writes it. */
static void
entry_exchange(struct entry *entry, uint64_t low, uint64_t high)
{
    uint64_t was_low = entry->low, was_high = entry->high;

    __asm__ volatile("lock cmpxchg16b %0"
                     : "+m"(*entry), "+a"(was_low), "+d"(was_high)
                     : "b"(low), "c"(high)
                     : "memory", "cc");
}

struct switcher {
    struct rig *rig;
    _Atomic int stop;
};

static void *
switch_entries(void *opaque)
{
    struct switcher *s = opaque;
    struct entry *entry = (void *)rig_word(s->rig, RIG_TABLE, 10);

    while (!s->stop) {
        entry_exchange(entry, LOW_B, rig_address(RIG_B) | 0x42);
        entry_exchange(entry, LOW_A, rig_address(RIG_A) | 0x41);
    }
    return NULL;
}

static void
gal_04(void **state)
{
    struct rig *rig = *state;
    struct switcher s = { .rig = rig };
    pthread_t thread;

    rig_irte(rig, 5, LOW_A, rig_address(RIG_A) | 0x41);
    assert_int_equal(pthread_create(&thread, NULL, switch_entries, &s), 0);
    /* Until both have been met, if that takes longer. */
    for (unsigned i = 0;
         i < ROUNDS || (i < PATIENCE && !(rig_irr(rig, RIG_A, 0x41) &&
                                          rig_irr(rig, RIG_B, 0x42)));
         i++) {
        (void)rig_msi(rig, RIG_FEE, 5);
    }
    s.stop = 1;
    (void)pthread_join(thread, NULL);
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig_irr(rig, RIG_B, 0x42), 1);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42), 0);
    assert_int_equal(rig_irr(rig, RIG_B, 0x41), 0);
    assert_int_equal(status(rig) & AVICEMU_STATUS_EVENT_LOG_INT, 0);
}

/* Written half by half it is seen so: the hardware does not mend it. */
static void
gal_04_halves(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, LOW_A, rig_address(RIG_A) | 0x41);
    *rig_word(rig, RIG_TABLE, 11) = rig_address(RIG_B) | 0x42;
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_irr(rig, RIG_B, 0x42), 1);
    assert_int_equal(rig->bells[0x85].rung, 1); /* the core of the other one */
    *rig_word(rig, RIG_TABLE, 10) = 0x4201;     /* remapped, with a page */
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
}

/* Between the two reads: the bit where it was to go, both told. */
static void
gal_04_between(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    rig_irte(rig, 5, LOW_A, rig_address(RIG_A) | 0x41);
    (void)avicemu_hw_iommu_msi_begin(rig->iommu, RIG_DEVICE, RIG_FEE, 5, &msi);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_FETCHED) {
    }
    rig_irte(rig, 5, LOW_B, rig_address(RIG_B) | 0x42);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_FINISHED) {
    }
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), 1);
    assert_int_equal(rig_irr(rig, RIG_A, 0x42) + rig_irr(rig, RIG_B, 0x41) +
                         rig_irr(rig, RIG_B, 0x42),
                     0);
    assert_int_equal(rig->bells[0x85].rung, 1);
    assert_int_equal(rig->bells[0x42].rung, 1);
}

/* ---- GAL-06 ------------------------------------------------------------- */

/* Off and on three times, in the same buffer: nothing is left of before. */
static void
gal_06(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3 + round; i++) {
            (void)rig_msi(rig, RIG_FEE, 5);
        }
        assert_int_equal(drain(rig), 3 + round);
        rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN | AVICEMU_CONTROL_GA_INT_EN);
        assert_int_equal(status(rig) & AVICEMU_STATUS_GA_LOG_RUN, 0);
        rig_write(rig, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
        rig_write(rig, AVICEMU_IOMMU_GA_BASE,
                  rig_address(RIG_GA_LOG) | 8ull << 56);
        rig_write(rig, AVICEMU_IOMMU_GA_HEAD, 0);
        rig_write(rig, AVICEMU_IOMMU_GA_TAIL, 0);
        memset(rig_word(rig, RIG_GA_LOG, 0), 0, RIG_PAGE);
        rig_enable(rig, AVICEMU_CONTROL_GA_INT_EN | AVICEMU_CONTROL_GA_LOG_EN);
        assert_int_equal(status(rig) & 0x700, AVICEMU_STATUS_GA_LOG_RUN);
    }
    rig->signals = 0;
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300003007);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 1), 0);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
    assert_int_equal(rig->signals, AVICEMU_SIGNAL_GA);
}

/* Head and tail that were left as they were: it goes on there, not at 0. */
static void
gal_06_goes_on(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    rig_enable(rig, AVICEMU_CONTROL_GA_LOG_EN);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 16);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_HEAD), 0);
}

/* ---- GAL-08 ------------------------------------------------------------- */

/* Delivery modes 0 to 7 at an entry in guest mode: 0 and 1 are posted. */
static void
gal_08(void **state)
{
    struct rig *rig = *state;

    rig_dte(rig, rig_dte_remap(11) | 7ull << 56); /* NMI, INIT, ExtINT pass */
    for (uint32_t mode = 0; mode < 8; mode++) {
        for (unsigned i = 0; i < 2048; i++) {
            rig_guest(rig, i, RIG_A, 1, 0);
        }
        memset(rig_word(rig, RIG_A, 0), 0, RIG_PAGE);
        struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, mode << 8 | 0x41);
        int posted = mode < 2;

        assert_int_equal(msi.outcome == AVICEMU_HW_POSTED, posted);
        assert_int_equal(rig_irr(rig, RIG_A, 0x41), posted);
        assert_int_equal(msi.nr_doorbells, posted);
        if (msi.outcome == AVICEMU_HW_FORWARDED) {
            assert_int_equal(msi.message.mode, mode);
        }
    }
}

/* ---- GAL-11 ------------------------------------------------------------- */

/* An event is sixteen bytes: its word first, the address second. */
static void
gal_11_event(void **state)
{
    struct rig *rig = *state;

    (void)rig_msi(rig, RIG_FEE, 5);
    (void)rig_msi(rig, RIG_FEE, 6);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL), 32);
    assert_int_equal(*rig_word(rig, RIG_EVENTS, 0), 0x2008005500000123);
    assert_int_equal(*rig_word(rig, RIG_EVENTS, 1), 0xfffffffdf8050000);
    assert_int_equal(*rig_word(rig, RIG_EVENTS, 2), 0x2008005500000123);
    assert_int_equal(*rig_word(rig, RIG_EVENTS, 3), 0xfffffffdf8060000);
}

/* All of FEEx_xxxxh is interrupt space, and not a byte more. */
static void
gal_11_window(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 0);
    for (uint64_t a = 0xfee00000; a < 0xfef00000; a += 0x4004) {
        assert_int_equal(rig_msi(rig, a, 5).outcome, AVICEMU_HW_POSTED);
    }
    assert_int_equal(rig_msi(rig, 0xfee00004, 5).outcome, AVICEMU_HW_POSTED);
    assert_int_equal(rig_msi(rig, 0xfeefffff, 5).outcome, AVICEMU_HW_POSTED);
    assert_int_equal(rig_msi(rig, 0xfedfffff, 5).outcome,
                     AVICEMU_HW_NO_REQUEST);
    assert_int_equal(rig_msi(rig, 0xfef00000, 5).outcome,
                     AVICEMU_HW_NO_REQUEST);
    assert_int_equal(rig_msi(rig, 0xfdf7ffffff, 5).outcome,
                     AVICEMU_HW_NO_REQUEST);
    assert_int_equal(rig_msi(rig, 0xfdf9000000, 5).outcome,
                     AVICEMU_HW_NO_REQUEST);
}

static int
without_xt_setup(void **state)
{
    return rig_open(state, AVICEMU_IOMMU_DEFAULT & ~AVICEMU_IOMMU_XT);
}

/* XTEn without XTSup stays 0, and the destination has 8 bits. */
static void
gal_11_xt(void **state)
{
    struct rig *rig = *state;

    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    assert_int_equal(
        rig_read(rig, AVICEMU_IOMMU_CONTROL) & AVICEMU_CONTROL_XT_EN, 0);
    rig_irte(rig, 5, 0x8501, 0x41);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).message.dest, 0x85);
    rig_irte(rig, 5, 0x8501, 0x0100000000000041);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).fault, 2);
}

/* ---- GAL-12 ------------------------------------------------------------- */

/* A host's new affinity, put into the posted entry as if it were remapped,
 * sends the guest's interrupt to the host; put back, and said so, all is well.
 * Its destination alone, which is what a move is, leaves it posted. */
static void
gal_12(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, LOW_A, rig_address(RIG_A) | 0x41);
    (void)rig_msi(rig, RIG_FEE, 5);
    rig_irte(rig, 5, (LOW_A & ~0xff00ull) | 0x4200, rig_address(RIG_A) | 0x41);
    struct avicemu_hw_msi msi = rig_msi(rig, RIG_FEE, 5);

    assert_int_equal(msi.outcome, AVICEMU_HW_POSTED);
    assert_int_equal(rig->bells[0x42].rung, 1);
    rig_irte(rig, 5, 0x4201, 0x71);
    invalidate(rig);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, AVICEMU_HW_REMAPPED);
    assert_int_equal(msi.message.vector, 0x71);
    rig_irte(rig, 5, LOW_A, rig_address(RIG_A) | 0x41);
    invalidate(rig);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).outcome, AVICEMU_HW_POSTED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_ROW("GAL-01 after an overflow the log runs again", gal_01,
                rig_setup),
        RIG_ROW("GAL-01 no interrupt without its enable", gal_01_quiet,
                rig_setup),
        RIG_ROW("GAL-03 RemapEn over both changes of mode", gal_03,
                strict_setup),
        RIG_ROW("GAL-04 no mixture of two entries lands", gal_04, rig_setup),
        RIG_ROW("GAL-04 a mixture that is written is one", gal_04_halves,
                rig_setup),
        RIG_ROW("GAL-04 changed between both reads", gal_04_between, rig_setup),
        RIG_ROW("GAL-06 off and on in the same buffer", gal_06, rig_setup),
        RIG_ROW("GAL-06 pointers are kept over off and on", gal_06_goes_on,
                rig_setup),
        RIG_ROW("GAL-08 only fixed and arbitrated are posted", gal_08,
                rig_setup),
        RIG_ROW("GAL-11 an event has sixteen bytes", gal_11_event, rig_setup),
        RIG_ROW("GAL-11 the window of interrupts", gal_11_window, rig_setup),
        RIG_ROW("GAL-11 XTEn needs XTSup", gal_11_xt, without_xt_setup),
        RIG_ROW("GAL-12 a posted entry that is clobbered", gal_12,
                strict_setup),
    };

    return cmocka_run_group_tests_name("cases GAL, hardware", tests, NULL,
                                       NULL) != 0;
}
