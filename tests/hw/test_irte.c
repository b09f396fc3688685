/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interrupt remapping entries: formats, faults, changes in place.
 * [IOMMU 2.2.5 interrupt remapping tables], [SDM3 10.1.1 guaranteed atomic
 * operations]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <string.h>

#include <cmocka.h>

#include "hw/irte.h"

#define GA    AE_IRTE_GA
#define GUEST (AE_IRTE_GA | AE_IRTE_GUEST)
#define XT    (AE_IRTE_GA | AE_IRTE_GUEST | AE_IRTE_XT)

#define PAGE_A 0x12345678000ull

/* ---- worked values ------------------------------------------------------ */

struct value_row {
    const char *name;
    uint32_t flags;
    struct ae_u128 entry;
    struct ae_irte want;
};

#define GUEST_ENTRY(...)                                                      \
    {                                                                         \
        .guest_mode = true, .vector = 0x41, .ga_tag = 0x3007, .root = PAGE_A, \
        __VA_ARGS__                                                           \
    }

static struct value_row value_rows[] = {
    { "value: guest, running",
      GUEST,
      { 0x00003007000085c1, 0x0000012345678041 },
      GUEST_ENTRY(.dest = 0x85, .is_run = true) },
    { "value: guest, blocked",
      GUEST,
      { 0x0000300700008585, 0x0000012345678041 },
      GUEST_ENTRY(.dest = 0x85, .ga_log_intr = true) },
    { "value: guest, preempted",
      GUEST,
      { 0x0000300700008581, 0x0000012345678041 },
      GUEST_ENTRY(.dest = 0x85) },
    { "value: guest, running, a 32-bit destination",
      XT,
      { 0x00003007000085c1, 0x0100012345678041 },
      GUEST_ENTRY(.dest = 0x01000085, .is_run = true) },
    { "value: guest, GAPPIDis and SupIOPF",
      GUEST | AE_IRTE_GAPPI_DIS,
      { 0x00003007000085a3, 0x0000012345678041 },
      GUEST_ENTRY(.dest = 0x85, .sup_iopf = true, .gappi_dis = true) },
    { "value: guest, every wide field full",
      XT,
      { 0xffffffffffffff81, 0xff0ffffffffff0ff },
      { .guest_mode = true,
        .vector = 0xff,
        .dest = 0xffffffff,
        .ga_tag = 0xffffffff,
        .root = 0xffffffffff000 } },
    { "value: remapped, fixed, physical",
      GA,
      { 0x8501, 0x41 },
      { .dest = 0x85, .vector = 0x41 } },
    { "value: remapped, arbitrated, logical, a 32-bit destination",
      XT,
      { 0x8545, 0x0100000000000041 },
      { .dest = 0x01000085,
        .vector = 0x41,
        .arbitrated = true,
        .logical = true } },
    { "value: remapped, RqEoi and SupIOPF",
      GA,
      { 0x8523, 0x41 },
      { .dest = 0x85, .vector = 0x41, .sup_iopf = true, .rq_eoi = true } },
};

static void
assert_entry(const struct ae_irte *got, const struct ae_irte *want)
{
    assert_int_equal(got->sup_iopf, want->sup_iopf);
    assert_int_equal(got->guest_mode, want->guest_mode);
    assert_int_equal(got->vector, want->vector);
    assert_int_equal(got->dest, want->dest);
    assert_int_equal(got->arbitrated, want->arbitrated);
    assert_int_equal(got->rq_eoi, want->rq_eoi);
    assert_int_equal(got->logical, want->logical);
    assert_int_equal(got->is_run, want->is_run);
    assert_int_equal(got->ga_log_intr, want->ga_log_intr);
    assert_int_equal(got->gappi_dis, want->gappi_dis);
    assert_int_equal(got->ga_tag, want->ga_tag);
    assert_int_equal(got->root, want->root);
}

/* Both ways. */
static void
test_value(void **state)
{
    const struct value_row *row = *state;
    struct ae_irte got;

    assert_int_equal(ae_irte_decode(row->flags, row->entry, &got),
                     AE_IRTE_GOOD);
    assert_entry(&got, &row->want);
    struct ae_u128 back = ae_irte_encode(&row->want);

    assert_int_equal(back.low, row->entry.low);
    assert_int_equal(back.high, row->entry.high);
}

/* ---- bits --------------------------------------------------------------- */

/* What each single bit does to an entry that is good without it. */
static void
bits_check(uint32_t flags, struct ae_u128 good, unsigned bits,
           struct ae_u128 bad)
{
    struct ae_irte ret;

    assert_int_equal(ae_irte_decode(flags, good, &ret), AE_IRTE_GOOD);
    for (unsigned n = 0; n < bits; n++) {
        struct ae_u128 e = good;
        uint64_t bit = (uint64_t)1 << (n & 63);
        uint64_t is_bad = (n < 64 ? bad.low : bad.high) & bit;

        *(n < 64 ? &e.low : &e.high) ^= bit;
        enum ae_irte_fault want = n == 0        ? AE_IRTE_NOT_PRESENT
                                  : is_bad != 0 ? AE_IRTE_RESERVED
                                                : AE_IRTE_GOOD;
        enum ae_irte_fault got = ae_irte_decode(flags, e, &ret);

        if (got != want) {
            fail_msg("bit %u: %d, not %d", n, got, want);
        }
        assert_int_equal(ret.sup_iopf, n == 1);
    }
}

static void
test_reserved(void **state)
{
    (void)state;
    /* IntType 2, 4 and bits 7, 31:24 of 32 bits. */
    bits_check(0, (struct ae_u128){ 1, 0 }, 32,
               (struct ae_u128){ 0xff000098, 0 });
    /* The same with what lies above, which is not the entry's. */
    bits_check(0, (struct ae_u128){ 0xffffffff00000001, ~0ull }, 32,
               (struct ae_u128){ 0xff000098, 0 });
    bits_check(GA, (struct ae_u128){ 1, 0x41 }, 128,
               (struct ae_u128){ 0xffffffffffff0098, 0xffffffffffffff00 });
    /* Bit 7 alone is now a guest-mode entry of page 0. */
    bits_check(GUEST, (struct ae_u128){ 1, 0x41 }, 128,
               (struct ae_u128){ 0xffffffffffff0018, 0xffffffffffffff00 });
    bits_check(XT, (struct ae_u128){ 1, 0x41 }, 128,
               (struct ae_u128){ 0xffffffff00000018, 0x00ffffffffffff00 });
    /* Guest mode; without bit 7 the tag and the page are reserved. */
    bits_check(GUEST, (struct ae_u128){ 0x0000300700008581, PAGE_A | 0x41 },
               128, (struct ae_u128){ 0xffff00b8, 0xfff0000000000f00 });
    bits_check(XT | AE_IRTE_GAPPI_DIS,
               (struct ae_u128){ 0x0000300700008581, PAGE_A | 0x41 }, 128,
               (struct ae_u128){ 0x00000098, 0x00f0000000000f00 });
}

static void
test_not_present(void **state)
{
    struct ae_irte ret;

    (void)state;
    /* What drivers leave in a free entry: reserved bits do not count. */
    assert_int_equal(ae_irte_decode(0, (struct ae_u128){ 0xfffffffe, 0 }, &ret),
                     AE_IRTE_NOT_PRESENT);
    assert_true(ret.sup_iopf);
    assert_int_equal(ae_irte_decode(XT, (struct ae_u128){ 0, 0xff }, &ret),
                     AE_IRTE_NOT_PRESENT);
    assert_false(ret.sup_iopf);
    assert_int_equal(ae_irte_decode(XT, (struct ae_u128){ ~1ull, ~0ull }, &ret),
                     AE_IRTE_NOT_PRESENT);
}

static void
test_message(void **state)
{
    struct ae_irte e;
    struct ae_message m;

    (void)state;
    assert_int_equal(ae_irte_decode(0, (struct ae_u128){ 0x00418501, 0 }, &e),
                     AE_IRTE_GOOD);
    m = ae_irte_message(0, &e);
    assert_int_equal(m.dest, 0x85);
    assert_int_equal(m.vector, 0x41);
    assert_int_equal(m.mode, AVICEMU_DELIVERY_FIXED);
    assert_int_equal(m.format, AE_FORMAT_MSI);
    assert_false(m.logical || m.level || m.arbitrate);
    assert_int_equal(m.shorthand, AE_DSH_NONE);

    assert_int_equal(
        ae_irte_decode(XT, (struct ae_u128){ 0x8545, 0x0100000000000041 }, &e),
        AE_IRTE_GOOD);
    m = ae_irte_message(XT, &e);
    assert_int_equal(m.dest, 0x01000085);
    assert_int_equal(m.mode, AVICEMU_DELIVERY_LOWEST);
    assert_int_equal(m.format, AE_FORMAT_X2APIC);
    assert_true(m.logical && m.arbitrate);
    assert_int_equal(ae_irte_bytes(0), 4);
    assert_int_equal(ae_irte_bytes(XT), 16);
}

/* ---- sixteen bytes ------------------------------------------------------ */

static void
test_load16(void **state)
{
    static struct ae_atomic16 word;
    struct ae_u128 expected = { 0, 0 };
    const struct ae_u128 value = { 0x0123456789abcdef, 0xfedcba9876543210 };

    (void)state;
    assert_true(ae_cas_seqcst_u128(&word, &expected, value));
    /* Both ways of loading, whatever this machine has. */
    assert_true(
        ae_u128_equal(ae_load_seqcst_u128(AE_LOAD16_LOCKED, &word), value));
    assert_true(
        ae_u128_equal(ae_load_seqcst_u128(AE_LOAD16_VECTOR, &word), value));
    assert_true(
        ae_u128_equal(ae_load_seqcst_u128(ae_load16_choose(), &word), value));
    expected.low = value.low;
    assert_false(
        ae_cas_seqcst_u128(&word, &expected, (struct ae_u128){ 1, 1 }));
    assert_true(ae_u128_equal(expected, value));
}

static void
test_update(void **state)
{
    static struct ae_atomic16 slot;
    const struct ae_u128 ones = { ~0ull, ~0ull };
    const struct ae_irte none = { .dest = 0 };
    const struct ae_irte all = { .is_run = true,
                                 .ga_log_intr = true,
                                 .dest = 0xffffffff,
                                 .ga_tag = 0xffffffff };
    static const struct {
        uint32_t which;
        struct ae_u128 bits;
    } rows[] = {
        { AE_IRTE_SET_RUN, { 0x40, 0 } },
        { AE_IRTE_SET_LOG, { 0x04, 0 } },
        { AE_IRTE_SET_DEST, { 0xffffff00, 0xff00000000000000 } },
        { AE_IRTE_SET_TAG, { 0xffffffff00000000, 0 } },
        { 15, { 0xffffffffffffff44, 0xff00000000000000 } },
        { 0, { 0, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        struct ae_u128 got;

        (void)ae_irte_replace(&slot, ones);
        assert_true(ae_irte_update(&slot, rows[i].which, &none));
        got = ae_irte_replace(&slot, (struct ae_u128){ 0x80, 0 });
        assert_int_equal(got.low, ~rows[i].bits.low);
        assert_int_equal(got.high, ~rows[i].bits.high);
        assert_true(ae_irte_update(&slot, rows[i].which, &all));
        got = ae_irte_replace(&slot, (struct ae_u128){ 0x7f, 1 });
        assert_int_equal(got.low, rows[i].bits.low | 0x80);
        assert_int_equal(got.high, rows[i].bits.high);
        /* Not in guest mode. */
        assert_false(ae_irte_update(&slot, rows[i].which, &all));
        got = ae_irte_replace(&slot, ones);
        assert_int_equal(got.low, 0x7f);
        assert_int_equal(got.high, 1);
    }
}

int
main(void)
{
    static const struct CMUnitTest others[] = {
        { "every bit: field or reserved", test_reserved, NULL, NULL, NULL },
        { "RemapEn 0: no other bit counts", test_not_present, NULL, NULL,
          NULL },
        { "the message of a remapped entry", test_message, NULL, NULL, NULL },
        { "16 bytes are loaded either way", test_load16, NULL, NULL, NULL },
        { "an update changes its fields and keeps the rest", test_update, NULL,
          NULL, NULL },
    };
    enum {
        NR_VALUES = sizeof(value_rows) / sizeof(value_rows[0]),
        NR_OTHERS = sizeof(others) / sizeof(others[0])
    };
    struct CMUnitTest tests[NR_VALUES + NR_OTHERS];

    for (size_t i = 0; i < NR_VALUES; i++) {
        tests[i] = (struct CMUnitTest){ .name = value_rows[i].name,
                                        .test_func = test_value,
                                        .initial_state = &value_rows[i] };
    }
    memcpy(tests + NR_VALUES, others, sizeof(others));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
