/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The register file as hardware alone: access sizes, APIC_BASE, acknowledge
 * and EOI, local interrupts, errors, the outcome of commands.
 * [APM2 16 APIC], [SDM3 10 APIC]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/hw/lapic.h>

#include "face.h"
#include "hw/lapic.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define EXT   AVICEMU_LAPIC_EXT_SPACE
#define EDGE  AVICEMU_TRIGGER_EDGE
#define LEVEL AVICEMU_TRIGGER_LEVEL
#define GP    AVICEMU_ACCESS_GP

static enum avicemu_access
base(struct bench *b, uint64_t value)
{
    return avicemu_hw_lapic_wrmsr(b->l, 0x1b, 0, value, &b->out);
}

/* ---- access sizes: [APM2 16.3.2], a defined result for each ------------- */

static int
slot_exists(uint32_t slot)
{
    struct avicemu_lapic_config config = { .features = X2 | EXT };
    struct avicemu_hw_reg reg = { .size = sizeof(reg) };

    return avicemu_hw_reg(&config, slot * 16, &reg) == 0 &&
           reg.xapic != AVICEMU_HW_NONE;
}

/* What the page reads, byte by byte: bytes 0..3 of each slot are registers,
 * all others read 0. */
static void
image_make(struct bench *b, uint8_t *image)
{
    memset(image, 0, 4096);
    for (uint32_t slot = 0; slot < 256; slot++) {
        uint32_t value = r(b, slot * 16);

        for (unsigned i = 0; i < 4; i++) {
            image[slot * 16 + i] = (uint8_t)(value >> (8 * i));
        }
    }
    (void)esr(b);
    (void)esr(b);
}

static void
fill(struct bench *b)
{
    w(b, LAPIC_SVR, 0x3ff);
    w(b, LAPIC_TPR, 0x21);
    w(b, LAPIC_LDR, 0x81000000);
    w(b, LAPIC_LVT_LINT0, 0x87a3);
    w(b, LAPIC_LVT_ERROR, 0x17fe);
    w(b, LAPIC_ICR_HIGH, 0xfe000000);
    w(b, LAPIC_EACR, 1);
    w(b, LAPIC_IER, 0x12345678);
    assert_int_equal(avicemu_hw_lapic_post(b->l, 0x93, LEVEL),
                     AVICEMU_POST_NEW);
}

static void
test_read_sizes(void **state)
{
    struct bench *b = *state;
    static uint8_t image[4096];
    uint8_t data[16];

    fill(b);
    image_make(b, image);
    for (uint32_t offset = 0; offset < 4096; offset++) {
        for (unsigned len = 1; len <= 16; len++) {
            uint32_t absent = 0;

            memset(data, 0xa5, sizeof(data));
            if (offset + len > 4096) {
                assert_int_equal(
                    avicemu_hw_lapic_read(b->l, offset, len, 0, data, &b->out),
                    AVICEMU_ACCESS_UNCLAIMED);
                assert_int_equal(data[0], 0xa5);
                continue;
            }
            assert_int_equal(
                avicemu_hw_lapic_read(b->l, offset, len, 0, data, &b->out),
                DONE);
            assert_memory_equal(data, image + offset, len);
            for (uint32_t at = offset; at < offset + len; at++) {
                absent |= (at & 15) < 4 && !slot_exists(at / 16);
            }
            assert_int_equal(esr(b), absent ? 0x80 : 0);
            (void)esr(b);
        }
    }
}

static void
test_write_sizes(void **state)
{
    struct bench *b = *state;
    static uint8_t before[4096], after[4096];
    uint8_t data[16];

    fill(b);
    memset(data, 0xff, sizeof(data));
    memcpy(before, b->page, sizeof(before));
    for (uint32_t offset = 0; offset < 4096; offset++) {
        for (unsigned len = 0; len <= 16; len++) {
            int inside = len > 0 && offset + len <= 4096;

            if (len == 4 && offset % 16 == 0) {
                continue; /* a register write: test_registers */
            }
            assert_int_equal(
                avicemu_hw_lapic_write(b->l, offset, len, 0, data, &b->out),
                inside ? DONE : AVICEMU_ACCESS_UNCLAIMED);
            assert_int_equal(b->out.what, 0);
        }
    }
    memcpy(after, b->page, sizeof(after));
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(esr(b), 0);
}

/* ---- APIC_BASE: [APM2 16.9 Table 16-5] ---------------------------------- */

static void
test_base(void **state)
{
    /* D, X, X2, invalid: EN and EXTD; legal[from][to]. */
    static const uint64_t bits[] = { 0x000, 0x800, 0xc00, 0x400 };
    static const int legal[3][4] = {
        { 1, 1, 0, 0 },
        { 1, 1, 1, 0 },
        { 1, 0, 1, 0 },
    };
    const uint64_t page = 0xfee00100; /* BSP */
    struct bench *b = *state;

    for (unsigned from = 0; from < 3; from++) {
        for (unsigned to = 0; to < 4; to++) {
            uint64_t now = 0;

            avicemu_hw_lapic_signal_reset(b->l);
            if (from != 1) {
                assert_int_equal(base(b, page | bits[from]), DONE);
            }
            assert_int_equal(base(b, page | bits[to]),
                             legal[from][to] ? DONE : GP);
            assert_int_equal(
                avicemu_hw_lapic_rdmsr(b->l, 0x1b, 0, &now, &b->out), DONE);
            assert_int_equal(now, page | bits[legal[from][to] ? to : from]);
        }
    }
}

static void
test_base_bsp(void **state)
{
    struct bench *b = *state;
    uint64_t now = 0;
    int stores = (r(b, LAPIC_VERSION) & 0xff) == 0x14; /* KVM */

    assert_int_equal(base(b, 0xfee00800), DONE);
    assert_int_equal(avicemu_hw_lapic_rdmsr(b->l, 0x1b, 0, &now, &b->out),
                     DONE);
    assert_int_equal(now, stores ? 0xfee00800 : 0xfee00900);
}

/* Not in x2APIC mode: every x2APIC MSR is #GP, and the page is not ours. */
static void
test_wrong_mode(void **state)
{
    struct bench *b = *state;
    uint64_t value;
    uint32_t data = 0;

    for (unsigned off = 0; off < 2; off++) {
        for (uint32_t msr = 0x800; msr < 0x900; msr++) {
            assert_int_equal(
                avicemu_hw_lapic_rdmsr(b->l, msr, 0, &value, &b->out), GP);
            assert_int_equal(avicemu_hw_lapic_wrmsr(b->l, msr, 0, 0, &b->out),
                             GP);
        }
        assert_int_equal(base(b, 0xfee00100), DONE);
    }
    assert_int_equal(avicemu_hw_lapic_read(b->l, 0x30, 4, 0, &data, &b->out),
                     AVICEMU_ACCESS_UNCLAIMED);
    assert_int_equal(base(b, 0xfee00900), DONE);
    assert_int_equal(base(b, 0xfee00d00), DONE);
    assert_int_equal(avicemu_hw_lapic_write(b->l, 0x80, 4, 0, &data, &b->out),
                     AVICEMU_ACCESS_UNCLAIMED);
    assert_int_equal(avicemu_hw_lapic_rdmsr(b->l, 0x7ff, 0, &value, &b->out),
                     AVICEMU_ACCESS_UNCLAIMED);
    assert_int_equal(avicemu_hw_lapic_rdmsr(b->l, 0x900, 0, &value, &b->out),
                     AVICEMU_ACCESS_UNCLAIMED);
}

static void
test_no_x2apic(void **state)
{
    struct bench *b = *state;

    assert_int_equal(base(b, 0xfee00d00), GP);
    assert_int_equal(r(b, LAPIC_SVR), 0xff);
}

static void
test_reset_off(void **state)
{
    struct bench *b = *state;
    uint32_t data;

    /* [APM2 16.10]: RESET leaves it disabled. */
    assert_int_equal(avicemu_hw_lapic_read(b->l, 0x30, 4, 0, &data, &b->out),
                     AVICEMU_ACCESS_UNCLAIMED);
    assert_int_equal(base(b, 0xfee00900), DONE);
    assert_int_equal(r(b, LAPIC_SVR), 0xff);
}

static void
test_lint0_open(void **state)
{
    struct bench *b = *state;

    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0x700); /* [KVM], BSP */
    avicemu_hw_lapic_signal_init(b->l);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0x700);
    assert_int_equal(r(b, LAPIC_LVT_LINT1), 0x10000);
}

/* ---- acknowledge and EOI ------------------------------------------------ */

/* [APM2 16.4.7]: TPR raised between request and acknowledge. */
static void
test_spurious(void **state)
{
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ef);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xef);
    assert_int_equal(avicemu_hw_lapic_post(b->l, 0x41, EDGE), AVICEMU_POST_NEW);
    w(b, LAPIC_TPR, 0x40);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xef);
    assert_int_equal(r(b, LAPIC_ISR + 0x70), 0); /* ISR is not set */
    assert_int_equal(r(b, LAPIC_PPR), 0x40);
    w(b, LAPIC_TPR, 0x3f);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    assert_int_equal(r(b, LAPIC_ISR + 0x20), 1u << 1);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xef);
}

static void
test_eoi(void **state)
{
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ff);
    (void)avicemu_hw_lapic_post(b->l, 0x41, LEVEL);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    (void)avicemu_hw_lapic_post(b->l, 0x51, EDGE);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x51);
    w(b, LAPIC_EOI, 0x41); /* the value does not choose */
    assert_int_equal(b->out.what, 0);
    assert_int_equal(r(b, LAPIC_PPR), 0x40);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(b->out.what, AVICEMU_HW_EOI);
    assert_int_equal(b->out.vector, 0x41);
    w(b, LAPIC_EOI, 0); /* nothing in service */
    assert_int_equal(b->out.what, 0);
    assert_int_equal(r(b, LAPIC_PPR), 0);
}

/* [APM2 16.7] */
static void
test_seoi(void **state)
{
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ff);
    (void)avicemu_hw_lapic_post(b->l, 0x41, LEVEL);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    (void)avicemu_hw_lapic_post(b->l, 0x51, EDGE);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x51);
    w(b, LAPIC_SEOI, 0x41); /* not enabled: no effect */
    assert_int_equal(b->out.what, 0);
    w(b, LAPIC_EACR, 2);
    w(b, LAPIC_SEOI, 0x42); /* not in service */
    assert_int_equal(b->out.what, 0);
    w(b, LAPIC_SEOI, 0x41); /* not the highest */
    assert_int_equal(b->out.what, AVICEMU_HW_EOI);
    assert_int_equal(b->out.vector, 0x41);
    assert_int_equal(r(b, LAPIC_PPR), 0x50);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(r(b, LAPIC_PPR), 0);
}

static void
test_ier(void **state)
{
    struct bench *b = *state;
    uint32_t ier4 = LAPIC_IER0 + 0x20; /* vectors 40h..5Fh */

    w(b, LAPIC_SVR, 0x1ff);
    w(b, ier4, 0); /* IERN is 0: dropped */
    assert_int_equal(r(b, ier4), 0xffffffff);
    w(b, LAPIC_EACR, 1);
    w(b, ier4, ~(1u << 0x11));
    (void)avicemu_hw_lapic_post(b->l, 0x51, EDGE);
    assert_int_equal(r(b, LAPIC_IRR + 0x20), 1u << 0x11); /* accepted */
    (void)avicemu_hw_lapic_post(b->l, 0x41, EDGE);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    w(b, ier4, 0xffffffff);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x51);
}

/* APR: [APM2 16.6.2], [SDM3 10.6.2.4]; KVM's reads 0. */
static void
test_apr(void **state)
{
    static const struct {
        uint32_t tpr;
        uint8_t isr, irr; /* 0: none */
        uint32_t amd, intel;
    } rows[] = {
        { 0x35, 0, 0, 0x35, 0x35 },       { 0x35, 0, 0x41, 0x40, 0x40 },
        { 0x45, 0, 0x41, 0x45, 0x45 },    { 0x35, 0x41, 0, 0x40, 0x00 },
        { 0x35, 0x71, 0x21, 0x70, 0x30 }, { 0x55, 0x61, 0x91, 0x90, 0x90 },
    };
    struct bench *b = *state;
    uint32_t number = r(b, LAPIC_VERSION) & 0xff;

    for (size_t i = 0; i < NR(rows); i++) {
        uint32_t want = number == 0x10   ? rows[i].amd
                        : number == 0x15 ? rows[i].intel
                                         : 0;

        avicemu_hw_lapic_signal_init(b->l);
        w(b, LAPIC_SVR, 0x1ff);
        if (rows[i].isr != 0) {
            (void)avicemu_hw_lapic_post(b->l, rows[i].isr, EDGE);
            assert_int_equal(avicemu_hw_lapic_inta(b->l), rows[i].isr);
        }
        w(b, LAPIC_TPR, rows[i].tpr);
        if (rows[i].irr != 0) {
            (void)avicemu_hw_lapic_post(b->l, rows[i].irr, EDGE);
        }
        assert_int_equal(r(b, LAPIC_APR), want);
    }
}

/* ---- a late post -------------------------------------------------------- */

/* One that had found the APIC enabled, and comes behind INIT: nobody sees it,
 * and it is gone with the enable. One that comes behind that is a new one. */
static void
test_late_post(void **state)
{
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ff);
    avicemu_hw_lapic_signal_init(b->l);
    assert_int_equal(avicemu_hw_page_post(b->page, 0x41, LEVEL),
                     AVICEMU_POST_NEW);
    assert_int_equal(r(b, LAPIC_IRR + 0x20), 0);
    assert_int_equal(r(b, LAPIC_APR), 0);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    assert_int_equal(r(b, LAPIC_ISR + 0x20), 0);
    w(b, LAPIC_SVR, 0xff); /* still disabled */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    w(b, LAPIC_SVR, 0x1ff);
    assert_int_equal(r(b, LAPIC_IRR + 0x20), 0);
    assert_int_equal(r(b, LAPIC_TMR + 0x20), 0);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    assert_int_equal(avicemu_hw_page_post(b->page, 0x41, EDGE),
                     AVICEMU_POST_NEW);
    assert_int_equal(r(b, LAPIC_IRR + 0x20), 2);
    w(b, LAPIC_SVR, 0xff); /* a software disable alone holds what is there */
    w(b, LAPIC_SVR, 0x1ff);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
}

#define CONFIG(p, f)                        \
    &(struct avicemu_lapic_config)          \
    {                                       \
        .personality = (p), .features = (f) \
    }
#define TEST(name_, fn_, p, f)                                          \
    {                                                                   \
        .name = (name_), .test_func = (fn_), .setup_func = bench_setup, \
        .teardown_func = bench_teardown, .initial_state = CONFIG(p, f)  \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("a read of any offset and length", test_read_sizes, AMD, X2 | EXT),
        TEST("a write of any other size or alignment is dropped",
             test_write_sizes, AMD, X2 | EXT),
        TEST("APIC_BASE transitions (AMD)", test_base, AMD, 0),
        TEST("APIC_BASE transitions (Intel)", test_base, INTEL, 0),
        TEST("APIC_BASE transitions (KVM)", test_base, KVM, 0),
        TEST("the BSP bit is read-only (AMD)", test_base_bsp, AMD, 0),
        TEST("the BSP bit is read-only (Intel)", test_base_bsp, INTEL, 0),
        TEST("the BSP bit follows the write (KVM)", test_base_bsp, KVM, 0),
        TEST("the wrong interface for the mode", test_wrong_mode, AMD, 0),
        TEST("without x2APIC, EXTD is reserved", test_no_x2apic, AMD, EXT),
        TEST("RESET to disabled, where asked for", test_reset_off, AMD,
             X2 | AVICEMU_LAPIC_RESET_OFF),
        TEST("LINT0 open after RESET, where asked for", test_lint0_open, KVM,
             X2 | AVICEMU_LAPIC_LINT0_OPEN),
        TEST("the spurious vector", test_spurious, AMD, 0),
        TEST("a post that comes behind INIT (AMD)", test_late_post, AMD, 0),
        TEST("a post that comes behind INIT (Intel)", test_late_post, INTEL, 0),
        TEST("a post that comes behind INIT (KVM)", test_late_post, KVM, 0),
        TEST("EOI retires the highest in service", test_eoi, AMD, 0),
        TEST("SEOI retires the vector that it names", test_seoi, AMD, X2 | EXT),
        TEST("IER holds a vector back", test_ier, AMD, X2 | EXT),
        TEST("arbitration priority (AMD)", test_apr, AMD, 0),
        TEST("arbitration priority (Intel)", test_apr, INTEL, 0),
        TEST("arbitration priority (KVM)", test_apr, KVM, 0),
    };

    return cmocka_run_group_tests_name("lapic", tests, NULL, NULL) != 0;
}
