/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge line: up to two that keep entries of their own in one line, against up
 * to two that look them up. Words of two entries are never found together, and
 * what was invalidated is not found by who looks afterwards.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hw/intcache.h"
#include "race.h"

#define ROUNDS 4000u
#define TRIES  500u
#define LOOKS  64u /* between two looks whether the keepers still are at it */

/* One line, so every entry drives the other one out. */
static struct ae_intcache cache;
static struct ae_intcache_line line;
/* Keepers that are done; all. */
static _Atomic uint32_t nr_done;

/* What an entry says: three words that belong together. */
static void
entry_of(uint16_t device_id, uint64_t n, uint64_t words[AE_INTCACHE_WORDS])
{
    for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
        words[i] = (uint64_t)device_id << 48 | n << 8 | i;
    }
}

/* In the race's r: each party has one of its own. */
enum found {
    FOUND_STALE, /* of keeper i at + i: what it had invalidated */
    FOUND_MIXED = FOUND_STALE + 2,
    FOUND_SOME = FOUND_MIXED + 2,
};

static void
prepare(struct race *r)
{
    for (unsigned i = 0; i < FOUND_SOME + 2; i++) {
        r->r[i] = 0;
    }
    ae_store_seqcst_u32(&nr_done, 0);
    ae_intcache_drop_all(&cache);
}

/* The only one who keeps entries of device i + 1. */
static void
keeper(struct race *r, unsigned i)
{
    uint16_t device_id = (uint16_t)(i + 1);

    for (uint64_t n = 0; n < TRIES; n++) {
        uint64_t words[AE_INTCACHE_WORDS];
        uint64_t since = ae_intcache_since(&cache, device_id);

        entry_of(device_id, n, words);
        ae_intcache_keep(&cache, since, device_id, 0, words);
        if (n % 8 == 7) {
            ae_intcache_drop(&cache, device_id);
            r->r[FOUND_STALE + i] +=
                ae_intcache_find(&cache, device_id, 0, words);
        }
    }
    (void)ae_fetch_add_seqcst_u32(&nr_done, 1);
}

static void
keeper_1(struct race *r)
{
    keeper(r, 0);
}

static void
keeper_2(struct race *r)
{
    keeper(r, 1);
}

static void
look(struct race *r, unsigned i)
{
    uint16_t device_id = (uint16_t)(i + 1);
    uint64_t words[AE_INTCACHE_WORDS], want[AE_INTCACHE_WORDS];

    if (!ae_intcache_find(&cache, device_id, 0, words)) {
        return;
    }
    r->r[FOUND_SOME + i]++;
    entry_of(device_id, words[0] >> 8 & 0xffffffffffull, want);
    for (unsigned w = 0; w < AE_INTCACHE_WORDS; w++) {
        r->r[FOUND_MIXED + i] += words[w] != want[w];
    }
}

/* From entry to entry, for as long as somebody keeps, and once afterwards:
 * threads that share a processor would else run one after the other. */
static void
finder(struct race *r, unsigned first, unsigned last)
{
    uint32_t nr_keepers = r->nr_threads == 2 ? 1 : 2;
    bool is_over;

    do {
        is_over = ae_load_seqcst_u32(&nr_done) == nr_keepers;
        for (unsigned n = 0; n < LOOKS; n++) {
            for (unsigned i = first; i <= last; i++) {
                look(r, i);
            }
        }
        (void)sched_yield();
    } while (!is_over);
}

static void
finder_1(struct race *r)
{
    finder(r, 0, 0);
}

static void
finder_2(struct race *r)
{
    finder(r, 1, 1);
}

/* One of both is there when the keepers are done. */
static void
finder_both(struct race *r)
{
    finder(r, 0, 1);
}

enum outcome {
    NOT_FOUND,
    FOUND,
    STALE,
    MIXED,
};

static unsigned
judge(struct race *r)
{
    if (r->r[FOUND_MIXED] + r->r[FOUND_MIXED + 1] != 0) {
        return MIXED;
    }
    if (r->r[FOUND_STALE] + r->r[FOUND_STALE + 1] != 0) {
        return STALE;
    }
    return r->r[FOUND_SOME] + r->r[FOUND_SOME + 1] != 0 ? FOUND : NOT_FOUND;
}

static void
run(struct race *r, const char *name)
{
    const char *const outcomes[] = { "not found", "found", "stale", "mixed" };

    memcpy(r->outcomes, outcomes, sizeof(outcomes));
    r->rounds = ROUNDS;
    r->prepare = prepare;
    r->judge = judge;
    ae_intcache_init(&cache, &line, 1);
    race_run(r, name);
    assert_int_equal(r->done, r->rounds);
    assert_int_equal(r->histogram[MIXED], 0);
    assert_int_equal(r->histogram[STALE], 0);
    assert_int_not_equal(r->histogram[FOUND], 0);
}

static void
test_two(void **state)
{
    static struct race r = { .nr_threads = 2, .party = { keeper_1, finder_1 } };

    (void)state;
    run(&r, "line, one each");
}

static void
test_three(void **state)
{
    static struct race r = { .nr_threads = 3,
                             .party = { keeper_1, keeper_2, finder_both } };

    (void)state;
    run(&r, "line, two keep");
}

static void
test_four(void **state)
{
    static struct race r = {
        .nr_threads = 4, .party = { keeper_1, keeper_2, finder_1, finder_2 }
    };

    (void)state;
    run(&r, "line, two each");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_four),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
