/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One interrupt and its remapping entry, step by step: the bit, the second
 * read, whom to tell, and every fault. [IOMMU 2.2.5 interrupt remapping tables]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <string.h>

#include <cmocka.h>

#include "base/rcu.h"
#include "hw/irte.h"

#define GA    AE_IRTE_GA
#define GUEST (AE_IRTE_GA | AE_IRTE_GUEST)
#define XT    (AE_IRTE_GA | AE_IRTE_GUEST | AE_IRTE_XT)

#define TABLE  0x10000u
#define PAGE_A 0x12345678000ull
#define PAGE_B 0x200000u

static struct ae_mem mem;
static AE_ALIGNED(4096) unsigned char table[4096], page_a[4096], page_b[4096];
static struct ae_remapper remapper = { .mem = &mem,
                                       .address_reserved = 0xfff0000000000000 };

static int
machine_make(void **state)
{
    (void)state;
    memset(table, 0, sizeof(table));
    memset(page_a, 0, sizeof(page_a));
    memset(page_b, 0, sizeof(page_b));
    remapper.way = ae_load16_choose();
    ae_mem_init(&mem, &ae_default_allocator);
    return ae_mem_add(&mem, TABLE, 4096, table) +
           ae_mem_add(&mem, PAGE_A, 4096, page_a) +
           ae_mem_add(&mem, PAGE_B, 4096, page_b);
}

static int
machine_drop(void **state)
{
    (void)state;
    ae_mem_fini(&mem);
    return 0;
}

static struct ae_atomic16 *
slot_at(unsigned index)
{
    return (struct ae_atomic16 *)(void *)(table + index * 16);
}

static enum ae_remap_event
step(struct ae_remap *r)
{
    ae_rcu_enter();
    enum ae_remap_event event = ae_remap_step(r);

    ae_rcu_leave();
    return event;
}

static void
finish(struct ae_remap *r)
{
    for (unsigned i = 0; i < 3 && step(r) != AE_REMAP_FINISHED; i++) {
    }
    assert_int_equal(step(r), AE_REMAP_FINISHED);
    assert_int_equal(step(r), AE_REMAP_FINISHED);
}

static struct ae_irte
guest(bool run, bool log)
{
    return (struct ae_irte){
        .guest_mode = true,
        .vector = 0x41,
        .dest = 0x85,
        .ga_tag = 0x3007,
        .root = PAGE_A,
        .is_run = run,
        .ga_log_intr = log,
    };
}

/* Through an entry that changes to `then` between the bit and the re-read. */
static struct ae_remap
through(uint32_t flags, struct ae_u128 first, const struct ae_u128 *then,
        const struct ae_u128 *cached)
{
    struct ae_remap r = { .near_table = 0 };

    (void)ae_irte_replace(slot_at(5), first);
    ae_remap_begin(&r, &remapper, flags, TABLE + 5 * 16, cached);
    assert_int_equal(step(&r), AE_REMAP_FETCHED);
    assert_int_equal(page_a[0x220] & 2, 0);
    assert_int_equal(step(&r), AE_REMAP_IRR);
    if (then != NULL) {
        (void)ae_irte_replace(slot_at(5), *then);
    }
    assert_int_equal(step(&r), AE_REMAP_REREAD);
    assert_int_equal(step(&r), AE_REMAP_FINISHED);
    assert_int_equal(r.outcome, AE_REMAP_POSTED);
    return r;
}

static void
assert_notice(const struct ae_remap *r, unsigned n, enum ae_notice_kind kind,
              uint32_t dest, uint32_t ga_tag)
{
    assert_true(n < r->nr_notices);
    assert_int_equal(r->notices[n].kind, kind);
    assert_int_equal(r->notices[n].dest, dest);
    assert_int_equal(r->notices[n].ga_tag, ga_tag);
}

/* Behaviour vectors 1 to 3: IsRun, GALogIntr and what comes of them. */
static void
test_decision(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct ae_irte e = guest((i & 1) != 0, (i & 2) != 0);
        struct ae_remap r;

        memset(page_a, 0, sizeof(page_a));
        r = through(GUEST, ae_irte_encode(&e), NULL, NULL);
        assert_int_equal(r.posted, AVICEMU_POST_NEW);
        /* Vector 41h is bit 1 of the byte at 220h, and nothing else is. */
        assert_int_equal(page_a[0x220], 2);
        page_a[0x220] = 0;
        for (unsigned at = 0; at < sizeof(page_a); at++) {
            assert_int_equal(page_a[at], 0);
        }
        if (e.is_run) {
            assert_int_equal(r.nr_notices, 1);
            assert_notice(&r, 0, AE_NOTICE_DOORBELL, 0x85, 0);
        } else if (e.ga_log_intr) {
            assert_int_equal(r.nr_notices, 1);
            assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3007);
        } else {
            assert_int_equal(r.nr_notices, 0);
        }
    }
}

/* A bit that is set already is notified again. TMR keeps its level. */
static void
test_merged(void **state)
{
    struct ae_irte e = guest(true, false);
    struct ae_remap r = { .near_table = 0 };

    (void)state;
    page_a[0x220] = 2;
    page_a[0x1a0] = 2;
    (void)ae_irte_replace(slot_at(5), ae_irte_encode(&e));
    ae_remap_begin(&r, &remapper, GUEST, TABLE + 5 * 16, NULL);
    finish(&r);
    assert_int_equal(r.posted, AVICEMU_POST_MERGED);
    assert_notice(&r, 0, AE_NOTICE_DOORBELL, 0x85, 0);
    assert_int_equal(page_a[0x1a0], 2);
}

static void
test_every_vector(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        struct ae_irte e = guest(false, false);
        struct ae_remap r = { .near_table = 0 };

        e.vector = (uint8_t)v;
        memset(page_a, 0, sizeof(page_a));
        (void)ae_irte_replace(slot_at(255), ae_irte_encode(&e));
        ae_remap_begin(&r, &remapper, GUEST, TABLE + 255 * 16, NULL);
        finish(&r);
        assert_int_equal(r.outcome, AE_REMAP_POSTED);
        assert_int_equal(page_a[0x200 + v / 32 * 16 + v % 32 / 8],
                         1 << (v & 7));
    }
}

/* The bit is set by the first read, the decision is the second one's. */
static void
test_reread(void **state)
{
    struct ae_irte e = guest(true, false);
    struct ae_u128 running = ae_irte_encode(&e);
    struct ae_u128 then;
    struct ae_remap r;

    (void)state;
    /* It blocked in between. */
    e = guest(false, true);
    then = ae_irte_encode(&e);
    r = through(GUEST, running, &then, NULL);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3007);

    /* It moved, with 32 bits: both halves count. */
    memset(page_a, 0, sizeof(page_a));
    e = guest(true, false);
    e.dest = 0x7f000086;
    then = ae_irte_encode(&e);
    r = through(XT, running, &then, NULL);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_DOORBELL, 0x7f000086, 0);
}

/* Another tag or mode: the first one is told, too. */
static void
test_reread_other(void **state)
{
    struct ae_irte run = guest(true, false);
    struct ae_irte off = guest(false, false);
    struct ae_irte other = { .guest_mode = true,
                             .vector = 0x42,
                             .dest = 0x99,
                             .ga_tag = 0x5001,
                             .root = PAGE_B,
                             .is_run = true };
    struct ae_irte remapped = { .dest = 7, .vector = 0x55 };
    struct ae_u128 first = ae_irte_encode(&run);
    struct ae_u128 then = ae_irte_encode(&other);
    struct ae_remap r = through(GUEST, first, &then, NULL);

    (void)state;
    assert_int_equal(r.nr_notices, 3);
    assert_notice(&r, 0, AE_NOTICE_DOORBELL, 0x85, 0);
    assert_notice(&r, 1, AE_NOTICE_LOG, 0, 0x3007);
    assert_notice(&r, 2, AE_NOTICE_DOORBELL, 0x99, 0);
    assert_int_equal(page_b[0x220], 0);

    memset(page_a, 0, sizeof(page_a));
    first = ae_irte_encode(&off);
    then = ae_irte_encode(&remapped);
    r = through(GUEST, first, &then, NULL);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3007);

    memset(page_a, 0, sizeof(page_a));
    then = (struct ae_u128){ first.low & ~1ull, first.high };
    r = through(GUEST, first, &then, NULL);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3007);
}

/* The table, or the page, leaves the memory map on the way. */
static void
test_memory_goes(void **state)
{
    struct ae_irte e = guest(false, false);
    struct ae_remap r = { .near_table = 0 };

    (void)state;
    (void)ae_irte_replace(slot_at(5), ae_irte_encode(&e));
    ae_remap_begin(&r, &remapper, GUEST, TABLE + 80, NULL);
    assert_int_equal(step(&r), AE_REMAP_FETCHED);
    assert_int_equal(step(&r), AE_REMAP_IRR);
    assert_int_equal(ae_mem_remove(&mem, TABLE), 0);
    finish(&r);
    assert_int_equal(r.outcome, AE_REMAP_POSTED);
    assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3007);

    ae_remap_begin(&r, &remapper, GUEST, TABLE + 80, NULL);
    finish(&r);
    assert_int_equal(r.outcome, AE_REMAP_NO_TABLE);

    assert_int_equal(ae_mem_add(&mem, TABLE, 4096, table), 0);
    ae_remap_begin(&r, &remapper, GUEST, TABLE + 80, NULL);
    assert_int_equal(step(&r), AE_REMAP_FETCHED);
    assert_int_equal(ae_mem_remove(&mem, PAGE_A), 0);
    finish(&r);
    assert_int_equal(r.outcome, AE_REMAP_BAD_PAGE);
    assert_int_equal(r.nr_notices, 0);
}

static void
test_faults(void **state)
{
    static const struct {
        uint32_t flags;
        struct ae_u128 entry;
        uint64_t address;
        enum ae_remap_outcome want;
    } rows[] = {
        { GUEST, { 0, 0xff }, TABLE, AE_REMAP_NOT_PRESENT },
        { 0, { 0xfffffffe, 0 }, TABLE, AE_REMAP_NOT_PRESENT },
        { 0, { 0x80418501, 0 }, TABLE, AE_REMAP_BAD_ENTRY },
        { GA,
          { 0x0000300700008581, PAGE_A | 0x41 },
          TABLE,
          AE_REMAP_BAD_ENTRY },
        { GUEST, { 0x0000300700008581, 0x300041 }, TABLE, AE_REMAP_BAD_PAGE },
        { GUEST, { 0x81, 0xffffffff00041 }, TABLE, AE_REMAP_BAD_PAGE },
        { GUEST, { 1, 0x41 }, TABLE + 4096, AE_REMAP_NO_TABLE },
        { GUEST, { 1, 0x41 }, ~(uint64_t)15, AE_REMAP_NO_TABLE },
        { 0, { 1, 0x41 }, ~(uint64_t)3, AE_REMAP_NO_TABLE },
        { GA, { 0x8501, 0x41 }, TABLE, AE_REMAP_MESSAGE },
        { 0, { 0x418501, 0 }, TABLE, AE_REMAP_MESSAGE },
    };
    struct ae_remap r = { .near_table = 0 };

    (void)state;
    remapper.address_reserved = 0xffff000000000000;
    for (size_t i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        (void)ae_irte_replace(slot_at(0), rows[i].entry);
        ae_remap_begin(&r, &remapper, rows[i].flags, rows[i].address, NULL);
        finish(&r);
        assert_int_equal(r.outcome, rows[i].want);
        assert_int_equal(r.nr_notices, 0);
        if (r.outcome == AE_REMAP_MESSAGE) {
            assert_int_equal(r.message.vector, 0x41);
            assert_int_equal(r.message.dest, 0x85);
        }
    }
    remapper.address_reserved = 0xfff0000000000000;
}

/* What a cache keeps may be old, what it does not keep never is. */
static void
test_cached(void **state)
{
    struct ae_irte e = guest(true, false);
    struct ae_u128 old = ae_irte_encode(&e);
    struct ae_u128 now;
    struct ae_remap r;

    (void)state;
    /* Vector is kept; IsRun, Destination, GATag, GALogIntr are not. */
    e = guest(false, true);
    e.vector = 0x42;
    e.ga_tag = 0x3008;
    now = ae_irte_encode(&e);
    r = through(GUEST, now, NULL, &old);
    assert_int_equal(page_a[0x220], 2);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_LOG, 0, 0x3008);

    /* Another page: the bit goes to the old one, and both tags are told. */
    memset(page_a, 0, sizeof(page_a));
    e.root = PAGE_B;
    now = ae_irte_encode(&e);
    r = through(GUEST, now, NULL, &old);
    assert_int_equal(page_a[0x220], 2);
    assert_int_equal(r.nr_notices, 3);
    assert_notice(&r, 1, AE_NOTICE_LOG, 0, 0x3007);
    assert_notice(&r, 2, AE_NOTICE_LOG, 0, 0x3008);

    /* Remapped and kept: memory is not looked at. */
    old = (struct ae_u128){ 0x8501, 0x41 };
    ae_remap_begin(&r, &remapper, GUEST, TABLE + 80, &old);
    finish(&r);
    assert_int_equal(r.outcome, AE_REMAP_MESSAGE);
    old = (struct ae_u128){ 0x418501, 0 };
    ae_remap_begin(&r, &remapper, 0, TABLE + 80, &old);
    finish(&r);
    assert_int_equal(r.outcome, AE_REMAP_MESSAGE);
    assert_int_equal(r.message.vector, 0x41);
}

static void
test_gappi(void **state)
{
    const uint32_t flags = GUEST | AE_IRTE_GAPPI | AE_IRTE_GAPPI_DIS;
    struct ae_irte e = guest(false, true);
    struct ae_remap r = through(flags, ae_irte_encode(&e), NULL, NULL);

    (void)state;
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_PHYSICAL, 0x85, 0);
    assert_int_equal(r.notices[0].vector, 0x07);
    memset(page_a, 0, sizeof(page_a));
    e.gappi_dis = true;
    r = through(flags, ae_irte_encode(&e), NULL, NULL);
    assert_int_equal(r.nr_notices, 0);
    memset(page_a, 0, sizeof(page_a));
    e.is_run = true;
    r = through(flags, ae_irte_encode(&e), NULL, NULL);
    assert_int_equal(r.nr_notices, 1);
    assert_notice(&r, 0, AE_NOTICE_DOORBELL, 0x85, 0);
}

/* Anything in the table, under any control bits: three steps, an outcome. */
static void
test_any_entry(void **state)
{
    uint64_t seed = 0x9e3779b97f4a7c15;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        struct ae_remap r = { .near_table = i, .near_page = i };
        struct ae_u128 e;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        e.low = seed ^ seed >> 29;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        e.high = seed ^ seed >> 31;
        if ((i & 1) != 0) { /* often good */
            e.low = (e.low & ~0x18ull) | 1;
            e.high &= 0xff000000000000ff;
            e.high |= (i & 2) != 0 ? PAGE_A : PAGE_B;
        }
        (void)ae_irte_replace(slot_at(9), e);
        ae_remap_begin(&r, &remapper, (uint32_t)(seed >> 40) & 31,
                       TABLE + 9 * 16, NULL);
        finish(&r);
        assert_true(r.nr_notices <= 1);
    }
}

#define ON_MACHINE(name, fn)                       \
    {                                              \
        name, fn, machine_make, machine_drop, NULL \
    }

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        ON_MACHINE("IsRun, GALogIntr: doorbell, log, nothing", test_decision),
        ON_MACHINE("a bit that is set is notified again", test_merged),
        ON_MACHINE("every vector has its bit", test_every_vector),
        ON_MACHINE("the second read decides", test_reread),
        ON_MACHINE("another tag or mode: both are told", test_reread_other),
        ON_MACHINE("memory that goes on the way", test_memory_goes),
        ON_MACHINE("each fault has its outcome", test_faults),
        ON_MACHINE("a cache keeps what it may", test_cached),
        ON_MACHINE("GAPPI: a physical interrupt", test_gappi),
        ON_MACHINE("any entry: three steps, an outcome", test_any_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
