/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge post: two posters per vCPU against an owner that scans, for millions of
 * posts. For each vector: posted = taken + merged. Before each post its poster
 * writes a completion entry; the handler that takes the vector last reads the
 * last one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "race.h"

#define POSTERS 2u
#define VECTORS 256u
#define FIRST   16u

/* Posters write theirs, the owner his; the main thread reads at the end. */
struct books {
    uint64_t posts; /* of each poster */
    uint64_t fresh[POSTERS][VECTORS], merged[POSTERS][VECTORS];
    uint64_t dropped[POSTERS];
    uint64_t taken[VECTORS];
    _Atomic uint64_t entry[POSTERS][VECTORS];
    uint64_t written[POSTERS][VECTORS];
    uint64_t seen[POSTERS][VECTORS];
    uint64_t backwards;
    _Atomic uint32_t posting;
};

static struct books books;

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void
post_many(struct race *r, unsigned who)
{
    uint64_t random = 0x9e3779b97f4a7c15u + who;

    for (uint64_t i = 0; i < books.posts; i++) {
        /* Few vectors at a time, so that posts merge. */
        unsigned v =
            FIRST + (unsigned)((next_random(&random) & 7u) + (i >> 8) * 8) %
                        (VECTORS - FIRST);

        books.written[who][v]++;
        atomic_store_explicit(&books.entry[who][v], books.written[who][v],
                              memory_order_relaxed);
        switch (avicemu_post(r->vcpu[0], (uint8_t)v, AVICEMU_TRIGGER_EDGE)) {
        case AVICEMU_POST_NEW:
            books.fresh[who][v]++;
            break;
        case AVICEMU_POST_MERGED:
            books.merged[who][v]++;
            break;
        case AVICEMU_POST_DROPPED:
            books.dropped[who]++;
            break;
        }
    }
    books.posting--;
}

static void
post_0(struct race *r)
{
    post_many(r, 0);
}

static void
post_1(struct race *r)
{
    post_many(r, 1);
}

static int
take_one(struct race *r)
{
    uint8_t v;

    if (race_take(r, 0, &v) != AVICEMU_DO_INJECT) {
        return 0;
    }
    books.taken[v]++;
    for (unsigned p = 0; p < POSTERS; p++) {
        uint64_t seen =
            atomic_load_explicit(&books.entry[p][v], memory_order_relaxed);

        books.backwards += seen < books.seen[p][v];
        books.seen[p][v] = seen;
    }
    race_write(r, 0, 0xb0, 0);
    return 1;
}

static void
scan(struct race *r)
{
    int taken = 1;

    while (books.posting != 0 || taken) {
        taken = take_one(r);
    }
    while (take_one(r)) {
        /* What came last. */
    }
}

static void
test_post(void **state)
{
    static struct race r;
    uint64_t taken = 0;
    uint64_t merged = 0;

    (void)state;
    r = (struct race){
        .nr_threads = 1 + POSTERS,
        .party = { scan, post_0, post_1 },
        .outcomes = { "run" },
        .nr_vcpus = 1,
    };
    books.posts = race_rounds(2000000);
    books.posting = POSTERS;
    r.rounds = 0;
    race_run(&r, "two posters and a scanner");
    for (unsigned v = 0; v < VECTORS; v++) {
        uint64_t fresh = 0;

        for (unsigned p = 0; p < POSTERS; p++) {
            fresh += books.fresh[p][v];
            merged += books.merged[p][v];
            assert_int_equal(books.seen[p][v], books.written[p][v]);
        }
        assert_int_equal(fresh, books.taken[v]);
        taken += books.taken[v];
    }
    printf("posted %llu = taken %llu + merged %llu\n",
           (unsigned long long)(POSTERS * books.posts),
           (unsigned long long)taken, (unsigned long long)merged);
    assert_int_equal(taken + merged, POSTERS * books.posts);
    assert_int_equal(books.dropped[0] + books.dropped[1], 0);
    assert_int_equal(books.backwards, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_post),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
