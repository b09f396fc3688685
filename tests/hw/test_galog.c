/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IOMMU's logs: entry format, length codes, wrap, overflow, restart, and
 * what software may write when. [IOMMU 2.7 GA log]
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
#include "hw/galog.h"

#define RING      0x23456000ull
#define RING_MAX  (512u * 1024)
#define WORD_PAGE 0x7000u

static struct ae_mem mem;
static AE_ALIGNED(4096) unsigned char ring[RING_MAX];
static AE_ALIGNED(4096) unsigned char word_page[4096];
static _Atomic uint32_t marks[AE_GALOG_MAX_SLOTS];
static struct ae_galog galog;

static uint64_t
base_of(uint64_t length)
{
    return RING | length << 56;
}

static void
make(uint32_t entry_bytes, uint64_t length)
{
    memset(ring, 0, sizeof(ring));
    memset(word_page, 0, sizeof(word_page));
    ae_galog_init(&galog, &mem, entry_bytes, marks);
    assert_true(ae_galog_set_base(&galog, base_of(length)));
    assert_true(ae_galog_set_tail_word(&galog, WORD_PAGE + 8));
}

static int
machine_make(void **state)
{
    (void)state;
    ae_mem_init(&mem, &ae_default_allocator);
    return ae_mem_add(&mem, RING, RING_MAX, ring) +
           ae_mem_add(&mem, WORD_PAGE, 4096, word_page);
}

static int
machine_drop(void **state)
{
    (void)state;
    ae_mem_fini(&mem);
    return 0;
}

static uint64_t
word_at(const void *memory, uint64_t index)
{
    uint64_t word;

    memcpy(&word, (const unsigned char *)memory + index * 8, 8);
    return word;
}

static enum ae_galog_slot
append(uint64_t low, uint64_t high)
{
    bool visible = false;

    ae_rcu_enter();
    enum ae_galog_slot slot =
        ae_galog_append(&galog, (struct ae_u128){ low, high }, &visible);

    ae_rcu_leave();
    assert_int_equal(visible, slot == AE_GALOG_RESERVED);
    return slot;
}

/* ---- formats ------------------------------------------------------------ */

static void
test_entry(void **state)
{
    (void)state;
    assert_int_equal(ae_ga_entry(0x3007, 0x0123).low, 0x1000012300003007);
    assert_int_equal(ae_ga_entry(0xffffffff, 0xffff).low, 0x1000ffffffffffff);
    assert_int_equal(ae_ga_entry(0, 0).low, 0x1000000000000000);
    assert_int_equal(ae_ga_entry(0x3007, 0x0123).high, 0);
}

static void
test_lengths(void **state)
{
    (void)state;
    for (uint64_t length = 0; length < 16; length++) {
        uint64_t counts = length < 8 ? 8 : length;

        assert_int_equal(ae_galog_entries(length << 56, 8), 2u << counts);
        assert_int_equal(ae_galog_entries(length << 56, 16), 1u << counts);
    }
    assert_int_equal(ae_galog_entries(0x0800000023456000, 8), 512);
    assert_int_equal(ae_galog_entries(0x0f00000000000000, 8),
                     AE_GALOG_MAX_SLOTS);
    assert_int_equal(ae_galog_entries(0x0f00000000000000, 16),
                     AE_EVENT_MAX_SLOTS);
}

/* What registers keep of what is written. */
static void
test_registers(void **state)
{
    (void)state;
    ae_galog_init(&galog, &mem, 8, marks);
    assert_int_equal(ae_galog_base(&galog), 0x0800000000000000);
    assert_int_equal(ae_galog_head(&galog), 0);
    assert_int_equal(ae_galog_tail(&galog), 0);
    assert_int_equal(ae_galog_tail_word(&galog), 0);
    assert_false(ae_galog_running(&galog));
    assert_false(ae_galog_overflowed(&galog));

    assert_true(ae_galog_set_base(&galog, ~0ull));
    assert_int_equal(ae_galog_base(&galog), 0x0f0ffffffffff000);
    assert_true(ae_galog_set_tail_word(&galog, ~0ull));
    assert_int_equal(ae_galog_tail_word(&galog), 0x000ffffffffffff8);
    assert_true(ae_galog_set_tail(&galog, ~0u));
    assert_int_equal(ae_galog_tail(&galog), RING_MAX - 8);
    ae_galog_set_head(&galog, ~0u);
    assert_int_equal(ae_galog_head(&galog), RING_MAX - 8);
    /* A base resets both. */
    assert_true(ae_galog_set_base(&galog, base_of(8)));
    assert_int_equal(ae_galog_head(&galog), 0);
    assert_int_equal(ae_galog_tail(&galog), 0);
}

/* ---- the ring ----------------------------------------------------------- */

struct ring_row {
    const char *name;
    uint32_t entry_bytes;
    uint64_t length;
};

#define RING_ROWS(n)                        \
    { "ring: 8 bytes, length " #n, 8, n },  \
    {                                       \
        "ring: 16 bytes, length " #n, 16, n \
    }
static struct ring_row ring_rows[] = {
    RING_ROWS(8),  RING_ROWS(9),  RING_ROWS(10), RING_ROWS(11),
    RING_ROWS(12), RING_ROWS(13), RING_ROWS(14), RING_ROWS(15),
};

static void
assert_filled(const struct ring_row *row, uint32_t slot, uint64_t value)
{
    uint32_t words = row->entry_bytes / 8;

    assert_int_equal(word_at(ring, (uint64_t)slot * words), value);
    if (words == 2) {
        assert_int_equal(word_at(ring, (uint64_t)slot * words + 1), ~value);
    }
}

/* All places but one, exactly; overflow at the next; restart; the wrap. */
static void
test_ring(void **state)
{
    const struct ring_row *row = *state;
    uint32_t bytes = row->entry_bytes;
    uint32_t n = RING_MAX >> (15 - row->length) >> (bytes == 8 ? 3 : 4);

    make(bytes, row->length);
    assert_int_equal(append(1, ~1ull), AE_GALOG_OFF);
    assert_true(ae_galog_start(&galog));
    for (uint32_t i = 0; i + 1 < n; i++) {
        assert_int_equal(append(i + 1, ~(uint64_t)(i + 1)), AE_GALOG_RESERVED);
        assert_int_equal(ae_galog_tail(&galog), (i + 1) * bytes);
        assert_int_equal(word_at(word_page, 1), (i + 1) * bytes);
    }
    assert_true(ae_galog_running(&galog));
    assert_false(ae_galog_overflowed(&galog));
    assert_int_equal(append(~0ull, 0), AE_GALOG_OVERFLOW);
    assert_true(ae_galog_overflowed(&galog));
    assert_false(ae_galog_running(&galog));
    assert_int_equal(ae_galog_tail(&galog), (n - 1) * bytes);
    for (uint32_t i = 0; i + 1 < n; i++) {
        assert_filled(row, i, i + 1);
    }
    assert_int_equal(word_at(ring, (uint64_t)(n - 1) * (bytes / 8)), 0);

    /* Neither head nor the cleared bit alone restarts it. */
    ae_galog_set_head(&galog, (n - 1) * bytes);
    assert_int_equal(append(2, 2), AE_GALOG_OFF);
    assert_false(ae_galog_start(&galog));
    ae_galog_stop(&galog);
    ae_galog_clear_overflow(&galog);
    assert_int_equal(append(2, 2), AE_GALOG_OFF);
    assert_true(ae_galog_start(&galog));
    assert_true(ae_galog_running(&galog));
    /* Where it was: over the end, three laps. */
    for (uint32_t i = 0; i < 3 * n; i++) {
        uint32_t slot = (n - 1 + i) % n;

        assert_int_equal(append(i + 7, ~(uint64_t)(i + 7)), AE_GALOG_RESERVED);
        assert_filled(row, slot, i + 7);
        assert_int_equal(ae_galog_tail(&galog), (slot + 1) % n * bytes);
        ae_galog_set_head(&galog, ae_galog_tail(&galog));
    }
    /* Nothing outside the ring. */
    for (uint64_t i = (uint64_t)n * bytes / 8; i < RING_MAX / 8; i++) {
        assert_int_equal(word_at(ring, i), 0);
    }
    assert_int_equal(word_at(word_page, 0), 0);
    assert_int_equal(word_at(word_page, 2), 0);
}

/* Behaviour vectors 3 and 4, in the sheet's figures. */
static void
test_sheet(void **state)
{
    (void)state;
    make(8, 8);
    assert_true(ae_galog_start(&galog));
    assert_int_equal(append(ae_ga_entry(0x3007, 0x123).low, 0),
                     AE_GALOG_RESERVED);
    assert_int_equal(ae_galog_tail(&galog), 8);
    assert_int_equal(word_at(ring, 0), 0x1000012300003007);
    for (unsigned i = 1; i < 511; i++) {
        assert_int_equal(append(1, 0), AE_GALOG_RESERVED);
    }
    assert_int_equal(append(1, 0), AE_GALOG_OVERFLOW);
    assert_int_equal(ae_galog_tail(&galog), 0xff8);
}

/* ---- while something is in flight --------------------------------------- */

static void
test_in_flight(void **state)
{
    uint32_t first, second;

    (void)state;
    make(8, 8);
    assert_true(ae_galog_start(&galog));
    assert_int_equal(ae_galog_reserve(&galog, &first), AE_GALOG_RESERVED);
    assert_int_equal(ae_galog_reserve(&galog, &second), AE_GALOG_RESERVED);
    ae_rcu_enter();
    /* The second is done before the first: the tail stays. */
    assert_true(ae_galog_write(&galog, second, (struct ae_u128){ 2, 0 }));
    assert_false(ae_galog_publish(&galog, second));
    ae_galog_finish(&galog);
    assert_int_equal(ae_galog_tail(&galog), 0);
    assert_int_equal(word_at(word_page, 1), 0);
    ae_galog_stop(&galog);
    /* Stopped, but it reads as running, and keeps its ring. */
    assert_true(ae_galog_running(&galog));
    assert_false(ae_galog_set_base(&galog, base_of(9)));
    assert_false(ae_galog_set_tail(&galog, 0));
    assert_false(ae_galog_set_tail_word(&galog, 0));
    assert_int_equal(ae_galog_base(&galog), base_of(8));
    assert_int_equal(append(3, 0), AE_GALOG_OFF);
    /* Started again meanwhile, it goes on. */
    assert_true(ae_galog_start(&galog));
    assert_true(ae_galog_start(&galog));
    ae_galog_stop(&galog);
    assert_true(ae_galog_write(&galog, first, (struct ae_u128){ 1, 0 }));
    assert_true(ae_galog_publish(&galog, first));
    assert_true(ae_galog_running(&galog));
    ae_galog_finish(&galog);
    ae_rcu_leave();
    assert_false(ae_galog_running(&galog));
    assert_int_equal(ae_galog_tail(&galog), 16);
    assert_int_equal(word_at(word_page, 1), 16);
    assert_int_equal(word_at(ring, 0), 1);
    assert_int_equal(word_at(ring, 1), 2);
    assert_true(ae_galog_set_base(&galog, base_of(9)));
}

/* As many as the state word counts; then there is no place, but no harm. */
static void
test_many_in_flight(void **state)
{
    uint32_t position;
    unsigned nr = 0;

    (void)state;
    make(8, 15);
    assert_true(ae_galog_start(&galog));
    while (ae_galog_reserve(&galog, &position) == AE_GALOG_RESERVED) {
        nr++;
    }
    assert_int_equal(nr, 65535);
    assert_true(ae_galog_overflowed(&galog));
    assert_true(ae_galog_running(&galog));
    /* Last to first: all become visible at once, at the end. */
    ae_rcu_enter();
    for (unsigned i = nr; i-- > 0;) {
        assert_true(ae_galog_write(&galog, i, (struct ae_u128){ i, 0 }));
        assert_int_equal(ae_galog_publish(&galog, i), i == 0);
        ae_galog_finish(&galog);
    }
    ae_rcu_leave();
    assert_false(ae_galog_running(&galog));
    assert_int_equal(ae_galog_tail(&galog), RING_MAX - 8);
}

/* Entries without places: a head that jumps about hands no slot out twice. */
static void
test_bad_head(void **state)
{
    uint32_t position;
    unsigned nr = 0;
    bool taken[512] = { false };

    (void)state;
    make(8, 8);
    assert_true(ae_galog_start(&galog));
    for (;;) {
        /* Always as if the ring were empty. */
        ae_galog_set_head(&galog, nr * 8);
        if (ae_galog_reserve(&galog, &position) != AE_GALOG_RESERVED) {
            break;
        }
        assert_false(taken[position & 511]);
        taken[position & 511] = true;
        nr++;
    }
    assert_int_equal(nr, 511);
    ae_rcu_enter();
    for (unsigned i = 0; i < nr; i++) {
        assert_true(ae_galog_write(&galog, i, (struct ae_u128){ i, 0 }));
        assert_true(ae_galog_publish(&galog, i));
        ae_galog_finish(&galog);
    }
    ae_rcu_leave();
    assert_false(ae_galog_running(&galog));
}

/* Rings and tail words anywhere: in no memory, over each other. */
static void
test_bad_memory(void **state)
{
    static const uint64_t bases[] = { 0, 0xfffffffffffff000, RING + RING_MAX,
                                      RING + RING_MAX - 4096, WORD_PAGE };

    (void)state;
    for (size_t i = 0; i < AE_ARRAY_SIZE(bases); i++) {
        make(i % 2 == 0 ? 8 : 16, 8);
        assert_true(ae_galog_set_base(&galog, bases[i] | 15ull << 56));
        assert_true(ae_galog_set_tail_word(&galog, bases[i] + 16));
        assert_true(ae_galog_start(&galog));
        for (unsigned n = 0; n < 32767; n++) {
            assert_int_equal(append(1, 1), AE_GALOG_RESERVED);
        }
        assert_int_equal(ae_galog_tail(&galog), 32767u * (i % 2 == 0 ? 8 : 16));
        ae_galog_stop(&galog);
    }
    /* A wild tail and head. */
    make(8, 8);
    assert_true(ae_galog_set_tail(&galog, 0xfffffff7));
    ae_galog_set_head(&galog, 0xfffffff9);
    assert_true(ae_galog_start(&galog));
    assert_int_equal(append(5, 0), AE_GALOG_OVERFLOW);
    assert_int_equal(ae_galog_tail(&galog), 0xff0);
}

#define ON_MACHINE(name, fn)                       \
    {                                              \
        name, fn, machine_make, machine_drop, NULL \
    }

int
main(void)
{
    static const struct CMUnitTest others[] = {
        ON_MACHINE("an entry: tag, device, type", test_entry),
        ON_MACHINE("every length code", test_lengths),
        ON_MACHINE("registers keep their fields", test_registers),
        ON_MACHINE("the sheet's 511 entries", test_sheet),
        ON_MACHINE("in flight: the ring stands still", test_in_flight),
        ON_MACHINE("65535 in flight, published backwards", test_many_in_flight),
        ON_MACHINE("a head that jumps hands no slot out twice", test_bad_head),
        ON_MACHINE("rings and words in no memory", test_bad_memory),
    };
    enum {
        NR_RINGS = sizeof(ring_rows) / sizeof(ring_rows[0]),
        NR_OTHERS = sizeof(others) / sizeof(others[0])
    };
    struct CMUnitTest tests[NR_RINGS + NR_OTHERS];

    memcpy(tests, others, sizeof(others));
    for (size_t i = 0; i < NR_RINGS; i++) {
        tests[NR_OTHERS + i] =
            (struct CMUnitTest){ .name = ring_rows[i].name,
                                 .test_func = test_ring,
                                 .setup_func = machine_make,
                                 .teardown_func = machine_drop,
                                 .initial_state = &ring_rows[i] };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
