/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Row by row: the bit-exact words, the behaviours and the traps that are known
 * of guest virtual APIC mode and the GA log. [IOMMU 2.2.5 interrupt remapping
 * tables], [IOMMU 2.4 commands], [IOMMU 2.7 GA log]
 */

#include "hv/vmtag.h"
#include "hw/iommu.h"
#include "iommu_rig.h"

/* ---- words --------------------------------------------------------------- */

#define ROOT 0x12345678000ull

static struct ae_irte
guest(uint32_t dest, bool run, bool log)
{
    return (struct ae_irte){ .guest_mode = true,
                             .vector = 0x41,
                             .ga_tag = 0x3007,
                             .root = ROOT,
                             .dest = dest,
                             .is_run = run,
                             .ga_log_intr = log };
}

static void
assert_words(const struct ae_irte *e, uint64_t low, uint64_t high)
{
    const struct ae_u128 words = ae_irte_encode(e);

    assert_int_equal(words.low, low);
    assert_int_equal(words.high, high);
}

static void
vector_tags(void **state)
{
    static const struct {
        enum ae_tag_layout layout;
        uint32_t tag;
    } rows[] = { { AE_TAG_20_12, 0x3007 },
                 { AE_TAG_23_9, 0x607 },
                 { AE_TAG_24_8, 0x307 } };

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint32_t tag = 0;

        assert_int_equal(ae_tag_pack(rows[i].layout, 3, 7, &tag), 0);
        assert_int_equal(tag, rows[i].tag);
        /* All ones in both parts are all ones. */
        assert_int_equal(
            ae_tag_pack(rows[i].layout,
                        UINT32_MAX / ae_tag_max_vcpus(rows[i].layout),
                        ae_tag_max_vcpus(rows[i].layout) - 1, &tag),
            0);
        assert_int_equal(tag, UINT32_MAX);
    }
}

static void
vector_guest_entries(void **state)
{
    struct ae_irte running = guest(0x85, true, false);
    struct ae_irte blocked = guest(0x85, false, true);
    struct ae_irte preempted = guest(0x85, false, false);
    struct ae_irte xt = guest(0x01000085, true, false);

    (void)state;
    assert_words(&running, 0x00003007000085c1, 0x0000012345678041);
    assert_words(&blocked, 0x0000300700008585, 0x0000012345678041);
    assert_words(&preempted, 0x0000300700008581, 0x0000012345678041);
    assert_words(&xt, 0x00003007000085c1, 0x0100012345678041);
}

static void
vector_remapped_entries(void **state)
{
    const struct ae_irte fixed = { .vector = 0x41, .dest = 0x85 };
    const struct ae_irte arbitrated = {
        .vector = 0x41, .dest = 0x01000085, .arbitrated = true, .logical = true
    };
    struct ae_irte e;

    (void)state;
    assert_words(&fixed, 0x8501, 0x41);
    assert_words(&arbitrated, 0x8545, 0x0100000000000041);
    assert_int_equal(ae_irte_decode(0, (struct ae_u128){ 0x00418501, 0 }, &e),
                     AE_IRTE_GOOD);
    assert_int_equal(e.vector, 0x41);
    assert_int_equal(e.dest, 0x85);
}

static void
vector_registers(void **state)
{
    struct rig *rig = *state;

    /* DTE words, ring bases, command and event words are what the rig writes,
     * and the other tests of this suite read. */
    assert_int_equal(rig_dte_remap(9) & ~0x000ffffffffff000ull,
                     0x2000000000000013);
    assert_int_equal(rig_dte_remap(11) & ~0x000ffffffffff000ull,
                     0x2000000000000017);
    rig_disable(rig, AVICEMU_CONTROL_GA_LOG_EN | AVICEMU_CONTROL_CMD_BUF_EN);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, 0x0800000023456000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_BASE), 0x0800000023456000);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE, 0x0900000023450000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_COMMAND_BASE),
                     0x0900000023450000);
    rig_write(rig, AVICEMU_IOMMU_XT_GA, 0x0100003100000500);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_XT_GA), 0x0100003100000500);
    rig_write(rig, AVICEMU_IOMMU_CONTROL, 0x32020000);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_CONTROL), 0x32020000);
}

static void
vector_commands(void **state)
{
    struct rig *rig = *state;

    rig_command(rig, 0x5000000000000123, 0);
    rig_command(rig, 0x2000000000000123, 0);
    rig_command(rig, 0x1000000133440001, 0x77); /* to no memory */
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_COMMAND_HEAD), 48);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL), 0);
}

/* ---- traps --------------------------------------------------------------- */

/* 1: bits 2, 5 and 6 mean other things in the two forms. */
static void
trap_mode_bits(void **state)
{
    struct ae_irte e;

    (void)state;
    (void)ae_irte_decode(AE_IRTE_GA | AE_IRTE_GUEST,
                         (struct ae_u128){ 0x8545, 0x41 }, &e);
    assert_true(e.arbitrated && e.logical && !e.guest_mode);
    (void)ae_irte_decode(AE_IRTE_GA | AE_IRTE_GUEST,
                         (struct ae_u128){ 0x85c5, 0x41 }, &e);
    assert_true(e.ga_log_intr && e.is_run && !e.arbitrated && !e.logical);
}

/* 2: length code 8. */
static void
trap_length_code(void **state)
{
    (void)state;
    assert_int_equal(ae_galog_entries(8ull << 56, 8), 512);
    assert_int_equal(ae_galog_entries(8ull << 56, 16), 256);
    assert_int_equal(ae_galog_entries(15ull << 56, 8), 65536);
}

/* 3: 00E8h is where a copy of the tail goes, 2048h the tail. */
static void
trap_tail_word(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 0, 1);
    *rig_word(rig, RIG_GA_LOG, 1) = 0x1234;
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(*rig_word(rig, RIG_WORDS, 0x100), 8);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 1), 0x1234);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 8);
}

/* 6: an entry has no vector; IRR has it. */
static void
trap_no_vector(void **state)
{
    struct rig *rig = *state;

    rig_irte(rig, 5, 0x0000300700008585, rig_address(RIG_A) | 0xe1);
    (void)rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(*rig_word(rig, RIG_GA_LOG, 0), 0x1000012300003007);
    assert_int_equal(rig_irr(rig, RIG_A, 0xe1), 1);
}

/* 7, 15: the IOMMU reads IsRun of its entry alone; a doorbell is a word, and
 * nobody is there to hear it. */
static void
trap_is_run(void **state)
{
    struct rig *rig = *state;

    rig_guest(rig, 5, RIG_A, 1, 1);
    assert_int_equal(rig_msi(rig, RIG_FEE, 5).nr_logged, 0);
    assert_int_equal(rig->bells[0x85].rung, 1);
}

/* 10, 12, 13: what needs an invalidation is in test_iommu_command; 9 index bits
 * without 2K mode; XTEn needs GAEn. */
static void
trap_index_and_xt(void **state)
{
    struct rig *rig = *state;

    rig_dte(rig, rig_dte_remap(11));
    rig_guest(rig, 0x1ff, RIG_A, 1, 0);
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x1ff).outcome, AVICEMU_HW_POSTED);
    assert_int_equal(rig_msi(rig, RIG_FEE, 0x5ff).outcome, AVICEMU_HW_ABORTED);
    rig_disable(rig, AVICEMU_CONTROL_GA_EN);
    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    rig_irte(rig, 0, 0x00418501, UINT64_MAX);
    assert_int_equal(rig_msi(rig, RIG_FEE, 0).message.dest, 0x85);
}

/* 14: the fault's address is HyperTransport's, sign-extended; flags 0008h. */
static void
trap_fault_address(void **state)
{
    struct rig *rig = *state;
    uint64_t high = 0;

    (void)rig_msi(rig, RIG_FEE, 0x14);
    assert_int_equal(rig_event(rig, &high) >> 48 & 0xfff, 0x008);
    assert_int_equal(high, 0xfffffffdf8140000);
}

int
main(void)
{
#define T(name_, fn)                                             \
    {                                                            \
        .name = name_, .test_func = fn, .setup_func = rig_setup, \
        .teardown_func = rig_teardown                            \
    }
    const struct CMUnitTest tests[] = {
        T("vector: GA tags of three layouts", vector_tags),
        T("vector: guest-mode entries", vector_guest_entries),
        T("vector: remapped and 32-bit entries", vector_remapped_entries),
        T("vector: DTE words and registers", vector_registers),
        T("vector: commands", vector_commands),
        T("trap 1: bits of two forms", trap_mode_bits),
        T("trap 2: length code 8 is 512 entries", trap_length_code),
        T("trap 3: the tail word", trap_tail_word),
        T("trap 6: the log has no vector", trap_no_vector),
        T("trap 7, 15: IsRun is the entry's, a doorbell is lost", trap_is_run),
        T("trap 12, 13: 9 index bits, XTEn needs GAEn", trap_index_and_xt),
        T("trap 14: the address of a fault", trap_fault_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
