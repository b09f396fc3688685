/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small vocabulary: bit fields and vector maps, clock scaling, bounded text,
 * and each atomic operation.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/scale.h"
#include "base/text.h"
static void
test_bits(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        assert_int_equal(ae_vector_offset((uint8_t)v), v / 32 * 16);
        assert_int_equal(ae_vector_bit((uint8_t)v), 1u << v % 32);
        assert_int_equal(ae_vector_class(v), v / 16);
    }
    assert_int_equal(ae_field_get(0xabcd, 15, 12), 0xa);
    assert_int_equal(ae_field_get(0xabcd, 7, 7), 1);
    assert_true(ae_field_get(UINT64_MAX, 63, 0) == UINT64_MAX);
    assert_true(ae_field_get(UINT64_MAX, 63, 63) == 1);
    for (unsigned n = 0; n < 32; n++) {
        assert_int_equal(ae_highest_bit32(1u << n), n);
        assert_int_equal(ae_lowest_bit32(1u << n | 1u << 31), n);
        assert_true(ae_single_bit32(1u << n));
    }
    assert_false(ae_single_bit32(0));
    assert_false(ae_single_bit32(3));
}

/* The least time whose floor is not below the ticks. */
static void
scale_case(uint64_t ticks, uint64_t to, uint64_t from)
{
    uint64_t t = ae_scale_ceil(ticks, to, from);

    if (t == AE_NEVER) {
        return;
    }
    assert_true(ae_scale_floor(t, from, to) >= ticks);
    assert_true(t == 0 || ae_scale_floor(t - 1, from, to) < ticks);
}

static void
test_scale(void **state)
{
    static const uint64_t rates[] = { 1,         3,          32768,
                                      1193182,   1000000000, 2899999999,
                                      1ull << 40 };
    static const uint64_t ticks[] = { 0,          1,          2,         999,
                                      0xffffffff, 1ull << 45, UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < AE_ARRAY_SIZE(rates); i++) {
        for (size_t k = 0; k < AE_ARRAY_SIZE(rates); k++) {
            for (size_t n = 0; n < AE_ARRAY_SIZE(ticks); n++) {
                scale_case(ticks[n], rates[i], rates[k]);
            }
        }
    }
    assert_true(ae_scale_floor(10, 3, 4) == 7);
    assert_true(ae_scale_ceil(10, 3, 4) == 8);
    assert_true(ae_scale_floor(UINT64_MAX, 1, 1) == UINT64_MAX);
    assert_true(ae_scale_floor(UINT64_MAX, 2, 1) == AE_NEVER);
    assert_true(ae_scale_ceil(UINT64_MAX, 2, 1) == AE_NEVER);
    assert_true(ae_scale_floor(UINT64_MAX, 1, 2) == UINT64_MAX / 2);
    assert_true(ae_add_saturated(UINT64_MAX - 1, 1) == AE_NEVER);
    assert_true(ae_add_saturated(UINT64_MAX, 1) == AE_NEVER);
    assert_true(ae_add_saturated(1, 2) == 3);
}

static void
test_text(void **state)
{
    char buf[8];

    (void)state;
    for (size_t len = 0; len <= sizeof(buf); len++) {
        memset(buf, '#', sizeof(buf));
        struct ae_text t = ae_text_begin(buf, len);

        ae_text_add(&t, "%s", "abc");
        ae_text_add(&t, "%d", 4567);
        assert_int_equal(t.used, 7);
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(buf[i], i + 1 == len ? 0 : "abc4567"[i]);
        }
        for (size_t i = len; i < sizeof(buf); i++) {
            assert_int_equal(buf[i], '#');
        }
    }
    struct ae_text none = ae_text_begin(NULL, 100);

    ae_text_add(&none, "abc");
    assert_int_equal(none.used, 3);
}

static void
test_atomic_u32(void **state)
{
    _Atomic uint32_t x = 5;
    uint32_t e = 4;

    (void)state;
    assert_int_equal(ae_exchange_seqcst_u32(&x, 6), 5);
    assert_int_equal(ae_fetch_or_seqcst_u32(&x, 8), 6);
    assert_int_equal(ae_fetch_and_seqcst_u32(&x, 12), 14);
    assert_int_equal(ae_fetch_add_relaxed_u32(&x, UINT32_MAX), 12);
    assert_int_equal(ae_fetch_add_seqcst_u32(&x, 1), 11);
    assert_false(ae_cas_seqcst_u32(&x, &e, 1));
    assert_int_equal(e, 12);
    assert_true(ae_cas_seqcst_u32(&x, &e, 1));
    assert_int_equal(ae_load_seqcst_u32(&x), 1);
    ae_store_seqcst_u32(&x, 2);
    assert_int_equal(ae_load_acquire_u32(&x), 2);
    ae_store_release_u32(&x, 3);
    assert_int_equal(ae_load_relaxed_u32(&x), 3);
    ae_store_relaxed_u32(&x, 0);
    for (unsigned n = 0; n < 64; n++) {
        assert_false(ae_test_and_set_seqcst_u32(&x, n));
        assert_true(ae_test_and_set_seqcst_u32(&x, n));
        assert_int_equal(x, 1u << n % 32);
        assert_true(ae_test_and_clear_seqcst_u32(&x, n));
        assert_false(ae_test_and_clear_seqcst_u32(&x, n));
    }
}

static void
test_atomic_u64(void **state)
{
    const uint64_t high = 1ull << 40;
    _Atomic uint64_t x = high;
    uint64_t e = 4;

    (void)state;
    assert_true(ae_exchange_seqcst_u64(&x, high + 6) == high);
    assert_true(ae_fetch_or_seqcst_u64(&x, 8) == high + 6);
    assert_true(ae_fetch_and_seqcst_u64(&x, high | 12) == high + 14);
    assert_true(ae_fetch_add_relaxed_u64(&x, UINT64_MAX) == high + 12);
    assert_true(ae_fetch_add_seqcst_u64(&x, 1) == high + 11);
    assert_false(ae_cas_seqcst_u64(&x, &e, 1));
    assert_true(e == high + 12);
    assert_true(ae_cas_seqcst_u64(&x, &e, high));
    assert_true(ae_load_seqcst_u64(&x) == high);
    ae_store_seqcst_u64(&x, high + 2);
    assert_true(ae_load_acquire_u64(&x) == high + 2);
    ae_store_release_u64(&x, high + 3);
    assert_true(ae_load_relaxed_u64(&x) == high + 3);
    ae_store_relaxed_u64(&x, 4);
    assert_true(ae_load_relaxed_u64(&x) == 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),       cmocka_unit_test(test_scale),
        cmocka_unit_test(test_text),       cmocka_unit_test(test_atomic_u32),
        cmocka_unit_test(test_atomic_u64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
