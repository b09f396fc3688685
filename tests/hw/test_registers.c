/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every register of the table, in every model: three personalities, two sets
 * of features, two modes. The list of rows comes from the library's table;
 * what each must do was typed from the manuals, below, so a row that is new
 * in the library fails until somebody says here what it should do.
 *
 *   access     absent, read-only, write-only or both, and what a refused
 *              access does: #GP, ESR bit 7, nothing
 *   bits       all ones, then each bit alone: what sticks, what faults
 *   lifetimes  value after RESET, after INIT and after another RESET
 *
 * [APM2 16.3.2 Table 16-2], [APM2 16.11 Table 16-6], [APM2 Figs 16-2 to
 * 16-36], [SDM3 10 Tables 10-1, 10-6], [KVM lapic.c]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/hw/lapic.h>

#include "base/regs.h"

/* Access by personality: AMD, Intel, KVM. */
enum access {
    NO,
    RO,
    WO,
    RW
};

enum on_init {
    RST, /* as after RESET */
    KEEP,
    ID,  /* id << 24, or the whole id */
    LDR, /* 0, or derived from the id */
    VER,
};

#define X2    AVICEMU_LAPIC_X2APIC
#define TSCD  AVICEMU_LAPIC_TSC_DEADLINE
#define CMCI  AVICEMU_LAPIC_CMCI
#define EXT   AVICEMU_LAPIC_EXT_SPACE
#define DEOI  AVICEMU_LAPIC_DIRECTED_EOI
#define ALL64 0xffffffffffffffffull
#define HI32  0xffffffff00000000ull

struct want {
    const char *name;
    uint32_t offset, slots;
    uint32_t need; /* feature without which it is absent */
    uint8_t xapic[3], x2apic[3];
    uint32_t sticks[3];
    uint64_t faults[3]; /* x2APIC */
    uint32_t opt, opt_need;
    uint32_t ones; /* bits that always read 1 */
    uint32_t reset;
    uint8_t init;
};

/* clang-format off */
static const struct want wants[] = {
/*  name           off    n  need  xAPIC           x2APIC          sticks AMD, Intel, KVM                    x2APIC #GP AMD, Intel, KVM                                              opt      with  ones        reset       INIT */
  { "ID",          0x020, 1, 0,    { RW, RW, RW }, { RO, RO, RO }, { 0xff000000, 0,          0xff000000 }, { 0 },                                                                  0,       0,    0,          0,          ID },
  { "VERSION",     0x030, 1, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          VER },
  { "TPR",         0x080, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0xff,       0xff,       0xff },       { ~0xffull, ~0xffull, HI32 },                                           0,       0,    0,          0,          RST },
  { "APR",         0x090, 1, 0,    { RO, RO, RO }, { RO, NO, NO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "PPR",         0x0a0, 1, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "EOI",         0x0b0, 1, 0,    { WO, WO, WO }, { WO, WO, WO }, { 0 },                                  { ALL64, ALL64, HI32 },                                                 0,       0,    0,          0,          RST },
  { "RRR",         0x0c0, 1, 0,    { RO, RO, RO }, { NO, NO, NO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "LDR",         0x0d0, 1, 0,    { RW, RW, RW }, { RO, RO, RO }, { 0xff000000, 0xff000000, 0xff000000 }, { 0 },                                                                  0,       0,    0,          0,          LDR },
  { "DFR",         0x0e0, 1, 0,    { RW, RW, RW }, { NO, NO, NO }, { 0xf0000000, 0xf0000000, 0xf0000000 }, { 0 },                                                                  0,       0,    0x0fffffff, 0xffffffff, RST },
  { "SVR",         0x0f0, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x3ff,      0x3ff,      0x3ff },      { ~0x3ffull, ~0x3ffull, HI32 },                                         0x1000,  DEOI, 0,          0xff,       RST },
  { "ISR",         0x100, 8, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "TMR",         0x180, 8, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "IRR",         0x200, 8, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "ESR",         0x280, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0 },                                  { ALL64, ALL64, ALL64 },                                                0,       0,    0,          0,          RST },
  { "LVT_CMCI",    0x2f0, 1, CMCI, { NO, RW, RW }, { NO, RW, RW }, { 0,          0x107ff,    0x117ff },    { 0, ~0x117ffull, HI32 },                                               0,       0,    0,          0x10000,    RST },
  { "ICR_LOW",     0x300, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0xccfff,    0xccfff,    0xffffefff }, { 0xfff33000, 0xfff32000, 0xfff32000 },                                 0,       0,    0,          0,          RST },
  { "ICR_HIGH",    0x310, 1, 0,    { RW, RW, RW }, { NO, NO, NO }, { 0xff000000, 0xff000000, 0xff000000 }, { 0 },                                                                  0,       0,    0,          0,          RST },
  { "LVT_TIMER",   0x320, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x300ff,    0x300ff,    0x310ff },    { ~0x310ffull, ~0x310ffull, HI32 },                                     0x40000, TSCD, 0,          0x10000,    RST },
  { "LVT_THERMAL", 0x330, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x107ff,    0x107ff,    0x117ff },    { ~0x117ffull, ~0x117ffull, HI32 },                                     0,       0,    0,          0x10000,    RST },
  { "LVT_PERF",    0x340, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x107ff,    0x107ff,    0x117ff },    { ~0x117ffull, ~0x117ffull, HI32 },                                     0,       0,    0,          0x10000,    RST },
  { "LVT_LINT0",   0x350, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x187ff,    0x1a7ff,    0x1f7ff },    { ~0x1d7ffull, ~0x1f7ffull, HI32 },                                     0,       0,    0,          0x10000,    RST },
  { "LVT_LINT1",   0x360, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x187ff,    0x1a7ff,    0x1f7ff },    { ~0x1d7ffull, ~0x1f7ffull, HI32 },                                     0,       0,    0,          0x10000,    RST },
  { "LVT_ERROR",   0x370, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0x107ff,    0x100ff,    0x110ff },    { ~0x117ffull, ~0x110ffull, HI32 },                                     0,       0,    0,          0x10000,    RST },
  { "TMICT",       0x380, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0xffffffff, 0xffffffff, 0xffffffff }, { HI32, HI32, HI32 },                                                   0,       0,    0,          0,          RST },
  { "TMCCT",       0x390, 1, 0,    { RO, RO, RO }, { RO, RO, RO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0,          RST },
  { "TDCR",        0x3e0, 1, 0,    { RW, RW, RW }, { RW, RW, RW }, { 0xb,        0xb,        0xb },        { ~0xbull, ~0xbull, HI32 },                                             0,       0,    0,          0,          RST },
  { "SELF_IPI",    0x3f0, 1, 0,    { NO, NO, NO }, { WO, WO, WO }, { 0 },                                  { ~0xffull, ~0xffull, ~0xffull },                                       0,       0,    0,          0,          RST },
  { "EAFR",        0x400, 1, EXT,  { RO, NO, NO }, { RO, NO, NO }, { 0 },                                  { 0 },                                                                  0,       0,    0,          0x00040007, RST },
  { "EACR",        0x410, 1, EXT,  { RW, NO, NO }, { RW, NO, NO }, { 0x7 },                                { ~0x7ull },                                                            0,       0,    0,          0,          RST },
  { "SEOI",        0x420, 1, EXT,  { RW, NO, NO }, { RW, NO, NO }, { 0xff },                               { ~0xffull },                                                           0,       0,    0,          0,          RST },
  { "IER0",        0x480, 1, EXT,  { RW, NO, NO }, { RW, NO, NO }, { 0xffff0000 },                         { HI32 | 0xffff },                                                      0,       0,    0,          0xffffffff, RST },
  { "IER",         0x490, 7, EXT,  { RW, NO, NO }, { RW, NO, NO }, { 0xffffffff },                         { HI32 },                                                               0,       0,    0,          0xffffffff, RST },
  { "LVT_EXT",     0x500, 4, EXT,  { RW, NO, NO }, { RW, NO, NO }, { 0x107ff },                            { ~0x117ffull },                                                        0,       0,    0,          0x10000,    RST },
};
/* clang-format on */

/* One test: a row of the library's table, in one model and mode. */
struct row {
    const char *name;
    uint32_t offset, slots;
    const struct want *want; /* NULL: nobody said what it should do */
    uint32_t personality, features;
    int x2;
    char title[96];
};

static const char *const personality_names[] = { "AMD", "Intel", "KVM" };

#define TEST_ID 0x25u

/* ---- the register file under test --------------------------------------- */

struct bench {
    void *memory, *page;
    struct avicemu_hw_lapic *l;
    const struct row *row;
};

static enum avicemu_access
msr_write(struct bench *b, uint32_t msr, uint64_t value)
{
    struct avicemu_hw_outcome out = { .size = sizeof(out) };

    return avicemu_hw_lapic_wrmsr(b->l, msr, 0, value, &out);
}

static enum avicemu_access
reg_write(struct bench *b, uint32_t offset, uint64_t value)
{
    struct avicemu_hw_outcome out = { .size = sizeof(out) };
    uint32_t low = (uint32_t)value;

    if (b->row->x2) {
        return msr_write(b, 0x800 + offset / 16, value);
    }
    return avicemu_hw_lapic_write(b->l, offset, 4, 0, &low, &out);
}

static enum avicemu_access
reg_read(struct bench *b, uint32_t offset, uint64_t *ret)
{
    struct avicemu_hw_outcome out = { .size = sizeof(out) };
    uint32_t low = 0;
    enum avicemu_access access;

    if (b->row->x2) {
        return avicemu_hw_lapic_rdmsr(b->l, 0x800 + offset / 16, 0, ret, &out);
    }
    access = avicemu_hw_lapic_read(b->l, offset, 4, 0, &low, &out);
    *ret = low;
    return access;
}

static uint64_t
value_of(struct bench *b, uint32_t offset)
{
    uint64_t value = ALL64;

    assert_int_equal(reg_read(b, offset, &value), AVICEMU_ACCESS_DONE);
    return value;
}

static void
enter_mode(struct bench *b)
{
    if (b->row->x2) {
        assert_int_equal(msr_write(b, 0x1b, 0xfee00c00), AVICEMU_ACCESS_DONE);
    }
}

static void
bench_open(struct bench *b, const struct row *row)
{
    struct avicemu_lapic_config config = {
        .personality = (enum avicemu_personality)row->personality,
        .features = row->features,
    };
    size_t bytes = (avicemu_hw_lapic_bytes() + 63) / 64 * 64;

    b->row = row;
    b->memory = aligned_alloc(AVICEMU_HW_LAPIC_ALIGN, bytes);
    b->page = aligned_alloc(4096, 4096);
    assert_non_null(b->memory);
    assert_non_null(b->page);
    assert_int_equal(
        avicemu_hw_lapic_init(b->memory, b->page, &config, TEST_ID, 0, &b->l),
        0);
    enter_mode(b);
}

static void
bench_close(struct bench *b)
{
    free(b->memory);
    free(b->page);
}

/* What the other registers must say for this one's bits to stick. */
static void
prepare(struct bench *b)
{
    assert_int_equal(reg_write(b, 0x0f0, 0x1ff), AVICEMU_ACCESS_DONE);
    if (b->row->features & EXT) {
        assert_int_equal(reg_write(b, 0x410, 1), AVICEMU_ACCESS_DONE);
    }
}

/* ---- what is wanted ----------------------------------------------------- */

static enum access
want_access(const struct row *row)
{
    const struct want *w = row->want;

    if (w->need != 0 && (row->features & w->need) == 0) {
        return NO;
    }
    return (enum access)(row->x2 ? w->x2apic : w->xapic)[row->personality];
}

static int
has_opt(const struct row *row)
{
    return (row->features & row->want->opt_need) != 0;
}

static uint64_t
want_sticks(const struct row *row)
{
    uint64_t sticks = row->want->sticks[row->personality];

    if (row->want->offset == 0x300 && row->x2) {
        sticks |= HI32; /* the destination */
    }
    return sticks | (has_opt(row) ? row->want->opt : 0);
}

static uint64_t
want_faults(const struct row *row)
{
    uint64_t faults = row->x2 ? row->want->faults[row->personality] : 0;

    return faults & ~(uint64_t)(has_opt(row) ? row->want->opt : 0);
}

static uint32_t
want_version(const struct row *row)
{
    static const uint32_t number[] = { 0x10, 0x15, 0x14 };
    uint32_t lvts = (row->features & CMCI) ? 7 : 6;

    return number[row->personality] | (lvts - 1) << 16 |
           ((row->features & DEOI) ? 1u << 24 : 0) |
           ((row->features & EXT) ? 1u << 31 : 0);
}

static uint32_t
want_reset(const struct row *row)
{
    switch ((enum on_init)row->want->init) {
    case ID:
        return row->x2 ? TEST_ID : TEST_ID << 24;
    case LDR:
        return row->x2 ? 2u << 16 | 1u << 5 : 0;
    case VER:
        return want_version(row);
    case RST:
    case KEEP:
    default:
        return row->want->reset;
    }
}

/* ---- the three tests of a row ------------------------------------------- */

/* ESR as latched now; KVM records no errors. */
static void
expect_esr(struct bench *b, uint32_t want)
{
    if (b->row->personality == AVICEMU_PERSONALITY_KVM) {
        want = 0;
    }
    assert_int_equal(reg_write(b, 0x280, 0), AVICEMU_ACCESS_DONE);
    assert_int_equal(value_of(b, 0x280), want);
}

static void
check_absent(struct bench *b, uint32_t offset)
{
    uint64_t value = 0;

    if (b->row->x2) {
        assert_int_equal(reg_read(b, offset, &value), AVICEMU_ACCESS_GP);
        assert_int_equal(reg_write(b, offset, 0), AVICEMU_ACCESS_GP);
        assert_int_equal(reg_write(b, offset, 0x10), AVICEMU_ACCESS_GP);
        expect_esr(b, 0); /* never bit 7 in x2APIC mode */
        return;
    }
    assert_int_equal(value_of(b, offset), 0);
    expect_esr(b, 0x80); /* [APM2 16.4.6] */
    assert_int_equal(reg_write(b, offset, 0x10), AVICEMU_ACCESS_DONE);
    expect_esr(b, 0x80);
    assert_int_equal(value_of(b, offset), 0);
    expect_esr(b, 0x80);
}

static void
check_access(struct bench *b, uint32_t offset)
{
    enum access access = want_access(b->row);
    int x2 = b->row->x2;
    uint64_t value = 0;
    uint64_t before;

    if (access == NO) {
        check_absent(b, offset);
        return;
    }
    if (access == WO) {
        assert_int_equal(reg_read(b, offset, &value),
                         x2 ? AVICEMU_ACCESS_GP : AVICEMU_ACCESS_DONE);
        assert_int_equal(value, 0);
        assert_int_equal(reg_write(b, offset, 0), AVICEMU_ACCESS_DONE);
        return;
    }
    before = value_of(b, offset);
    if (access == RO) {
        assert_int_equal(reg_write(b, offset, 0xffffffff),
                         x2 ? AVICEMU_ACCESS_GP : AVICEMU_ACCESS_DONE);
        assert_int_equal(reg_write(b, offset, 0),
                         x2 ? AVICEMU_ACCESS_GP : AVICEMU_ACCESS_DONE);
        assert_int_equal(value_of(b, offset), before);
    } else {
        assert_int_equal(reg_write(b, offset, 0), AVICEMU_ACCESS_DONE);
    }
    if (offset != 0x280) {
        uint64_t esr = value_of(b, 0x280);

        /* No defined register raises "illegal register address". */
        assert_int_equal(esr & 0x80, 0);
    }
}

static void
test_access(void **state)
{
    const struct row *row = *state;

    assert_non_null(row->want);
    assert_int_equal(row->offset, row->want->offset);
    assert_int_equal(row->slots, row->want->slots);
    for (uint32_t i = 0; i < row->slots; i++) {
        struct bench b;

        bench_open(&b, row);
        check_access(&b, row->offset + 16 * i);
        bench_close(&b);
    }
}

/* One write; either it faults and changes nothing, or its bits stick. */
static void
check_write(struct bench *b, uint32_t offset, uint64_t value)
{
    int readable = want_access(b->row) != WO;
    uint64_t before = readable ? value_of(b, offset) : 0;
    enum avicemu_access access = reg_write(b, offset, value);

    if ((value & want_faults(b->row)) != 0) {
        assert_int_equal(access, AVICEMU_ACCESS_GP);
        assert_true(!readable || value_of(b, offset) == before);
        return;
    }
    assert_int_equal(access, AVICEMU_ACCESS_DONE);
    if (readable && offset == 0x020 && want_sticks(b->row) == 0) {
        assert_int_equal(value_of(b, offset), before); /* Intel's id */
    } else if (readable) {
        assert_int_equal(value_of(b, offset),
                         (value & want_sticks(b->row)) | b->row->want->ones);
    }
}

static void
test_bits(void **state)
{
    const struct row *row = *state;
    unsigned width = 32;

    assert_non_null(row->want);
    if (want_access(row) != RW && want_access(row) != WO) {
        return; /* its access test says all */
    }
    width = row->x2 ? 64 : 32;
    for (uint32_t i = 0; i < row->slots; i++) {
        uint32_t offset = row->offset + 16 * i;
        struct bench b;

        bench_open(&b, row);
        prepare(&b);
        check_write(&b, offset, 0);
        check_write(&b, offset, row->x2 ? ALL64 : 0xffffffff);
        check_write(&b, offset, want_sticks(row) & ~want_faults(row));
        for (unsigned bit = 0; bit < width; bit++) {
            check_write(&b, offset, 0);
            check_write(&b, offset, 1ull << bit);
        }
        bench_close(&b);
    }
}

static void
check_lifetimes(struct bench *b, uint32_t offset)
{
    const struct row *row = b->row;
    enum access access = want_access(row);
    uint64_t want = want_reset(row);
    uint64_t dirty = want_sticks(row) & ~want_faults(row);

    if (access == NO || access == WO) {
        return;
    }
    assert_int_equal(value_of(b, offset), want);
    if (access == RW) {
        prepare(b);
        assert_int_equal(reg_write(b, offset, dirty), AVICEMU_ACCESS_DONE);
    }
    if (row->want->init == ID) {
        want = value_of(b, offset);
    }
    avicemu_hw_lapic_signal_init(b->l);
    assert_int_equal(value_of(b, offset), want);
    if (access == RW) {
        prepare(b);
        assert_int_equal(reg_write(b, offset, dirty), AVICEMU_ACCESS_DONE);
    }
    avicemu_hw_lapic_signal_reset(b->l);
    enter_mode(b);
    assert_int_equal(value_of(b, offset), want_reset(row));
}

static void
test_lifetimes(void **state)
{
    const struct row *row = *state;

    assert_non_null(row->want);
    for (uint32_t i = 0; i < row->slots; i++) {
        struct bench b;

        bench_open(&b, row);
        check_lifetimes(&b, row->offset + 16 * i);
        bench_close(&b);
    }
}

/* ---- generation --------------------------------------------------------- */

#define LIST_ROW(name_, off_, n_, ...) { #name_, (off_), (n_) },

static const struct {
    const char *name;
    uint32_t offset, slots;
} listed[] = { LAPIC_REGS(LIST_ROW) };

#define NR_LISTED   (sizeof(listed) / sizeof(listed[0]))
#define NR_VARIANTS (3 * 2 * 2) /* personalities, feature sets, modes */
#define NR_ASPECTS  3

static struct row rows[NR_LISTED * NR_VARIANTS * NR_ASPECTS];
static struct CMUnitTest tests[NR_LISTED * NR_VARIANTS * NR_ASPECTS];

static const struct want *
want_find(const char *name)
{
    for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
        if (strcmp(wants[i].name, name) == 0) {
            return &wants[i];
        }
    }
    return NULL;
}

static void
row_make(size_t at, size_t reg, unsigned variant, unsigned aspect)
{
    static const struct {
        const char *name;
        CMUnitTestFunction fn;
    } aspects[NR_ASPECTS] = {
        { "access class and what a refused access does", test_access },
        { "what sticks and what faults, bit by bit", test_bits },
        { "value after RESET and after INIT", test_lifetimes },
    };
    static const uint32_t full[] = { X2 | TSCD | EXT | DEOI,
                                     X2 | TSCD | CMCI | DEOI,
                                     X2 | TSCD | CMCI | DEOI };
    struct row *row = &rows[at];
    int bare = variant / 3 % 2;

    row->name = listed[reg].name;
    row->offset = listed[reg].offset;
    row->slots = listed[reg].slots;
    row->want = want_find(row->name);
    row->personality = variant % 3;
    row->features = bare ? X2 : full[row->personality];
    row->x2 = variant / 6 % 2;
    (void)snprintf(row->title, sizeof(row->title), "%s, %s, %s: %s: %s",
                   personality_names[row->personality],
                   row->x2 ? "x2APIC" : "xAPIC", bare ? "bare" : "all features",
                   row->name, aspects[aspect].name);
    tests[at] = (struct CMUnitTest){
        .name = row->title,
        .test_func = aspects[aspect].fn,
        .initial_state = row,
    };
}

int
main(void)
{
    size_t at = 0;

    for (size_t reg = 0; reg < NR_LISTED; reg++) {
        for (unsigned variant = 0; variant < NR_VARIANTS; variant++) {
            for (unsigned aspect = 0; aspect < NR_ASPECTS; aspect++) {
                row_make(at++, reg, variant, aspect);
            }
        }
    }
    return _cmocka_run_group_tests("registers", tests, at, NULL, NULL) != 0;
}
