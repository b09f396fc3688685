/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC page as hardware alone: where a vector lives, and the priority
 * rules. [APM2 16.6.3 IRR and ISR], [APM2 16.6.4 priorities],
 * [APM2 15.29.5 backing page]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <string.h>

#include <cmocka.h>

#include <avicemu/hw/lapic.h>

#include "hw/vapic.h"

#define EDGE  AVICEMU_TRIGGER_EDGE
#define LEVEL AVICEMU_TRIGGER_LEVEL

static _Alignas(4096) uint32_t page[1024];

static int
page_clear(void **state)
{
    (void)state;
    memset(page, 0, sizeof(page));
    return 0;
}

/* The word at a byte offset. */
static uint32_t
word(uint32_t offset)
{
    return page[offset / 4];
}

static void
test_positions(void **state)
{
    static const struct {
        uint8_t vector;
        uint32_t irr, isr, bit;
    } rows[] = {
        { 0x10, 0x200, 0x100, 16 }, { 0x1f, 0x200, 0x100, 31 },
        { 0x20, 0x210, 0x110, 0 },  { 0x31, 0x210, 0x110, 17 },
        { 0x5f, 0x220, 0x120, 31 }, { 0x80, 0x240, 0x140, 0 },
        { 0xdf, 0x260, 0x160, 31 }, { 0xff, 0x270, 0x170, 31 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(page, 0, sizeof(page));
        assert_int_equal(avicemu_hw_page_post(page, rows[i].vector, LEVEL),
                         AVICEMU_POST_NEW);
        assert_int_equal(word(rows[i].irr), 1u << rows[i].bit);
        assert_int_equal(word(rows[i].irr - 0x80), 1u << rows[i].bit);
        assert_int_equal(avicemu_hw_page_ack(page, rows[i].vector), 0);
        assert_int_equal(word(rows[i].irr), 0);
        assert_int_equal(word(rows[i].isr), 1u << rows[i].bit);
    }
}

static void
test_every_vector(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        uint8_t vector = (uint8_t)v;
        enum avicemu_trigger trigger = v % 2 ? EDGE : LEVEL;

        if (v < 16) {
            assert_int_equal(avicemu_hw_page_post(page, vector, trigger),
                             AVICEMU_POST_DROPPED);
            assert_int_equal(avicemu_hw_page_pending(page), -1);
            continue;
        }
        assert_int_equal(avicemu_hw_page_post(page, vector, trigger),
                         AVICEMU_POST_NEW);
        assert_int_equal(avicemu_hw_page_post(page, vector, trigger),
                         AVICEMU_POST_MERGED);
        assert_int_equal(avicemu_hw_page_pending(page), v);
        assert_int_equal(ae_vapic_test(page, LAPIC_TMR, vector), v % 2 == 0);
        assert_int_equal(avicemu_hw_page_ack(page, vector), 0);
        assert_int_equal(avicemu_hw_page_ack(page, vector), -2 /* ENOENT */);
        assert_int_equal(avicemu_hw_page_pending(page), -1);
        assert_int_equal(avicemu_hw_page_eoi(page), v);
        assert_int_equal(avicemu_hw_page_eoi(page), -1);
    }
}

static void
test_ppr(void **state)
{
    static const struct {
        uint32_t tpr;
        int isr;
        uint32_t ppr;
    } rows[] = {
        { 0x35, 0x41, 0x40 }, { 0x45, 0x41, 0x45 }, { 0x20, 0x2f, 0x20 },
        { 0x00, -1, 0x00 },   { 0x0f, -1, 0x0f },   { 0xff, 0xfe, 0xff },
        { 0xf0, 0xff, 0xf0 }, { 0x00, 0x1f, 0x10 }, { 0xef, 0xf1, 0xf0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(avicemu_hw_ppr(rows[i].tpr, rows[i].isr), rows[i].ppr);
    }
    /* And all of them, by the rule in words. */
    for (uint32_t tpr = 0; tpr < 256; tpr++) {
        for (int isr = 16; isr < 256; isr++) {
            uint32_t want =
                tpr / 16 >= (uint32_t)isr / 16 ? tpr : (uint32_t)isr / 16 * 16;

            assert_int_equal(avicemu_hw_ppr(tpr, isr), want);
        }
    }
}

static void
test_pending(void **state)
{
    static const struct {
        uint32_t tpr;
        uint8_t irr, isr; /* 0: none */
        int pending;
    } rows[] = {
        { 0x20, 0x2f, 0, -1 },      { 0x20, 0x30, 0, 0x30 },
        { 0x00, 0x41, 0x41, -1 },   { 0x00, 0x4f, 0x41, -1 },
        { 0x00, 0x50, 0x4f, 0x50 }, { 0xff, 0xff, 0, -1 },
        { 0xef, 0xf0, 0, 0xf0 },    { 0x0f, 0x10, 0, 0x10 },
        { 0x80, 0x7f, 0, -1 },      { 0x70, 0x80, 0, 0x80 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(page, 0, sizeof(page));
        page[0x80 / 4] = rows[i].tpr;
        if (rows[i].isr != 0) {
            (void)avicemu_hw_page_post(page, rows[i].isr, EDGE);
            assert_int_equal(avicemu_hw_page_ack(page, rows[i].isr), 0);
        }
        (void)avicemu_hw_page_post(page, rows[i].irr, EDGE);
        assert_int_equal(avicemu_hw_page_pending(page), rows[i].pending);
    }
}

/* Handlers nest by class, EOIs retire them from the top. */
static void
test_nesting(void **state)
{
    static const uint8_t up[] = { 0x21, 0x35, 0x4f, 0x50, 0xa0, 0xff };
    size_t n = sizeof(up);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(avicemu_hw_page_post(page, up[i], EDGE),
                         AVICEMU_POST_NEW);
        assert_int_equal(avicemu_hw_page_pending(page), up[i]);
        assert_int_equal(avicemu_hw_page_ack(page, up[i]), 0);
        assert_int_equal(word(0x0a0), up[i] & 0xf0);
    }
    assert_int_equal(avicemu_hw_page_post(page, 0x4f, EDGE),
                     AVICEMU_POST_NEW); /* one in service, one pending */
    for (size_t i = n; i-- > 0;) {
        assert_int_equal(avicemu_hw_page_pending(page), -1);
        assert_int_equal(avicemu_hw_page_eoi(page), up[i]);
        if (up[i] == 0x4f) {
            break;
        }
    }
    assert_int_equal(avicemu_hw_page_pending(page), 0x4f);
}

/* TMR follows the last acceptance; EOI leaves it. */
static void
test_trigger(void **state)
{
    (void)state;
    (void)avicemu_hw_page_post(page, 0x61, LEVEL);
    assert_int_equal(ae_vapic_test(page, LAPIC_TMR, 0x61), 1);
    assert_int_equal(avicemu_hw_page_ack(page, 0x61), 0);
    assert_int_equal(avicemu_hw_page_eoi(page), 0x61);
    assert_int_equal(ae_vapic_test(page, LAPIC_TMR, 0x61), 1);
    (void)avicemu_hw_page_post(page, 0x61, EDGE);
    assert_int_equal(ae_vapic_test(page, LAPIC_TMR, 0x61), 0);
}

/* IER gates the choice, not the acceptance. [APM2 16.7] */
static void
test_enabled(void **state)
{
    (void)state;
    memset(page + 0x480 / 4, 0xff, 0x80);
    (void)avicemu_hw_page_post(page, 0x61, EDGE);
    (void)avicemu_hw_page_post(page, 0x91, EDGE);
    assert_int_equal(ae_vapic_highest_enabled(page), 0x91);
    page[(0x480 + 0x40) / 4] &= ~(1u << (0x91 & 31));
    assert_int_equal(ae_vapic_highest_enabled(page), 0x61);
    assert_int_equal(ae_vapic_highest(page, LAPIC_IRR), 0x91);
    page[(0x480 + 0x30) / 4] = 0;
    assert_int_equal(ae_vapic_highest_enabled(page), -1);
}

#define PAGE_TEST(name_, fn_)                                         \
    {                                                                 \
        .name = (name_), .test_func = (fn_), .setup_func = page_clear \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PAGE_TEST("a vector's words and bit in IRR, TMR and ISR",
                  test_positions),
        PAGE_TEST("every vector is posted, acked and retired once",
                  test_every_vector),
        PAGE_TEST("PPR is TPR, or the class in service if that is higher",
                  test_ppr),
        PAGE_TEST("only a class above PPR is deliverable", test_pending),
        PAGE_TEST("handlers nest by class and retire from the top",
                  test_nesting),
        PAGE_TEST("TMR follows the last acceptance", test_trigger),
        PAGE_TEST("IER gates the choice of the highest vector", test_enabled),
    };

    return cmocka_run_group_tests_name("vapic", tests, NULL, NULL) != 0;
}
