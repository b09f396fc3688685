/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshot frames: what is written is read, in any order; and no bytes that
 * somebody made up lead outside the buffer.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/frame.h"
static size_t
frame_make(uint8_t *buf, size_t bytes)
{
    struct ae_frame_writer w;
    size_t len = 0;

    ae_frame_begin(&w, buf, bytes);
    ae_frame_record(&w, 7, 12);
    ae_frame_u32(&w, 0x11223344);
    ae_frame_u64(&w, 0x5566778899aabbccu);
    ae_frame_record(&w, 9, 0);
    ae_frame_record(&w, 1, 4);
    ae_frame_u32(&w, 5);
    return ae_frame_end(&w, &len) ? len : 0;
}

static void
test_round_trip(void **state)
{
    uint8_t buf[128];
    size_t len = frame_make(buf, sizeof(buf));
    struct ae_frame_reader r;

    (void)state;
    assert_int_equal(len, 16 + 8 + 12 + 8 + 8 + 4);
    assert_memory_equal(buf, "AVICEMU", 8);
    assert_int_equal(buf[12], len);
    assert_int_equal(buf[24], 0x44); /* little-endian on every host */
    assert_true(ae_frame_valid(buf, len));
    assert_true(ae_frame_find(buf, len, 1, &r));
    assert_int_equal(ae_frame_get_u32(&r), 5);
    assert_false(r.bad);
    assert_true(ae_frame_find(buf, len, 7, &r));
    assert_int_equal(ae_frame_get_u32(&r), 0x11223344);
    assert_true(ae_frame_get_u64(&r) == 0x5566778899aabbccu);
    assert_false(r.bad);
    assert_int_equal(ae_frame_get_u32(&r), 0);
    assert_true(r.bad);
    assert_true(ae_frame_find(buf, len, 9, &r));
    assert_true(ae_frame_get_u64(&r) == 0);
    assert_true(r.bad);
    assert_false(ae_frame_find(buf, len, 2, &r));
}

static void
test_too_small(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 56; bytes++) {
        uint8_t *buf = malloc(bytes + 1); /* the sanitizer sees its end */

        assert_int_equal(frame_make(buf, bytes), 0);
        free(buf);
    }
}

/* Cut at each length, and each byte changed: refused, or read within bounds. */
static void
test_damage(void **state)
{
    uint8_t whole[56];
    struct ae_frame_reader r;

    (void)state;
    assert_int_equal(frame_make(whole, sizeof(whole)), sizeof(whole));
    for (size_t len = 0; len < sizeof(whole); len++) {
        uint8_t *cut = malloc(len + 1);

        memcpy(cut, whole, len);
        assert_false(ae_frame_valid(cut, len));
        free(cut);
    }
    for (size_t at = 0; at < sizeof(whole); at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t *buf = malloc(sizeof(whole));

            memcpy(buf, whole, sizeof(whole));
            buf[at] = (uint8_t)value;
            if (ae_frame_valid(buf, sizeof(whole)) &&
                ae_frame_find(buf, sizeof(whole), 7, &r)) {
                assert_true(r.at + r.left <= buf + sizeof(whole));
                while (!r.bad) {
                    (void)ae_frame_get_u32(&r);
                }
            }
            free(buf);
        }
    }
}

static void
test_twice(void **state)
{
    uint8_t buf[64];
    struct ae_frame_writer w;
    size_t len = 0;

    (void)state;
    ae_frame_begin(&w, buf, sizeof(buf));
    ae_frame_record(&w, 7, 0);
    ae_frame_record(&w, 7, 0);
    assert_true(ae_frame_end(&w, &len));
    assert_false(ae_frame_valid(buf, len));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
