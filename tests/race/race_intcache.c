/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge line: two that keep entries of their own in one line, against two that
 * look them up. Words of two entries are never found together, and what was
 * invalidated is not found by who looks afterwards.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "hw/intcache.h"
#include "race.h"

#define ROUNDS 20000u
#define TRIES  20u

/* One line, so every entry drives the other one out. */
static struct ae_intcache cache;
static struct ae_intcache_line line;

/* What an entry says: three words that belong together. */
static void
entry_of(uint16_t device_id, uint64_t n, uint64_t words[AE_INTCACHE_WORDS])
{
    for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
        words[i] = (uint64_t)device_id << 48 | n << 8 | i;
    }
}

static void
prepare(struct race *r)
{
    r->r[0] = 0; /* mixed */
    r->r[1] = 0; /* found */
    r->r[2] = 0;
    r->r[3] = 0;
    ae_intcache_drop_all(&cache);
}

static void
keeper(uint16_t device_id)
{
    for (uint64_t n = 0; n < TRIES; n++) {
        uint64_t words[AE_INTCACHE_WORDS];
        uint64_t since = ae_intcache_since(&cache, device_id);

        entry_of(device_id, n, words);
        ae_intcache_keep(&cache, since, device_id, 0, words);
        if (n % 8 == 7) {
            ae_intcache_drop(&cache, device_id);
        }
    }
}

static void
keeper_1(struct race *r)
{
    (void)r;
    keeper(1);
}

static void
keeper_2(struct race *r)
{
    (void)r;
    keeper(2);
}

static void
finder(struct race *r, uint16_t device_id, unsigned mixed, unsigned found)
{
    for (unsigned n = 0; n < TRIES; n++) {
        uint64_t words[AE_INTCACHE_WORDS], want[AE_INTCACHE_WORDS];

        if (!ae_intcache_find(&cache, device_id, 0, words)) {
            continue;
        }
        r->r[found]++;
        entry_of(device_id, words[0] >> 8 & 0xffffffffffull, want);
        for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
            r->r[mixed] += words[i] != want[i];
        }
    }
}

static void
finder_1(struct race *r)
{
    finder(r, 1, 0, 1);
}

static void
finder_2(struct race *r)
{
    finder(r, 2, 2, 3);
}

enum outcome {
    NOT_FOUND,
    FOUND,
    MIXED,
};

static unsigned
judge(struct race *r)
{
    if (r->r[0] + r->r[2] != 0) {
        return MIXED;
    }
    return r->r[1] + r->r[3] != 0 ? FOUND : NOT_FOUND;
}

static void
test_line(void **state)
{
    static struct race r = {
        .nr_threads = 4,
        .rounds = ROUNDS,
        .prepare = prepare,
        .party = { keeper_1, keeper_2, finder_1, finder_2 },
        .judge = judge,
        .outcomes = { "not found", "found", "mixed" },
    };

    (void)state;
    ae_intcache_init(&cache, &line, 1);
    race_run(&r, "line");
    assert_int_equal(r.histogram[MIXED], 0);
    assert_int_equal(r.histogram[FOUND] + r.histogram[NOT_FOUND], r.done);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_line) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
