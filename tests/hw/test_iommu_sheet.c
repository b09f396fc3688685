/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bit-exact words that a hypervisor writes: tags in each layout, entries of
 * both forms. What hardware makes of them: test_iommu_words.c. [IOMMU 2.2.5
 * interrupt remapping tables]
 */

#include "hv/vmtag.h"
#include "hw/iommu.h"
#include "iommu_rig.h"

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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_tags),
        cmocka_unit_test(vector_guest_entries),
        cmocka_unit_test(vector_remapped_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
