/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge mem: walks of the memory map against its changes. A walk finds a region
 * whole or not at all, and when remove has returned nobody reads the memory
 * behind it: it is poisoned at once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rcu.h"
#include "race.h"

#define GOOD 0x5au
#define DEAD 0xeeu
#define BASE 0x100000u

static struct ae_mem map;
static unsigned char *page;

/* What the map frees is spoilt first. */
static void *
spoil_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
spoil_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    memset(memory, DEAD, bytes);
    free(memory);
}

static const struct avicemu_allocator spoiler = {
    .alloc = spoil_alloc,
    .free = spoil_free,
};

static void
change(struct race *r)
{
    r->r[0] = 0;
    for (unsigned i = 0; i < 4; i++) {
        memset(page, GOOD, AE_PAGE);
        r->r[0] += ae_mem_add(&map, BASE, AE_PAGE, page) != 0;
        r->r[0] += ae_mem_remove(&map, BASE) != 0;
        memset(page, DEAD, AE_PAGE);
    }
}

static void
walk(struct race *r, unsigned slot)
{
    uint64_t found = 0;
    uint64_t bad = 0;

    for (unsigned i = 0; i < 64; i++) {
        ae_rcu_enter();
        const unsigned char *p = ae_mem_find(&map, BASE + i * 64, 64);

        if (p != NULL) {
            found++;
            bad += p[0] != GOOD || p[63] != GOOD || p != page + i * 64;
        }
        /* The neighbours are always there. */
        bad += ae_mem_find(&map, BASE - 64, 64) == NULL;
        bad += ae_mem_find(&map, BASE + AE_PAGE, 64) == NULL;
        ae_rcu_leave();
    }
    r->r[slot] = found;
    r->r[slot + 1] = bad;
}

static void
walk_1(struct race *r)
{
    walk(r, 2);
}

static void
walk_2(struct race *r)
{
    walk(r, 4);
}

static unsigned
judge(struct race *r)
{
    if (r->r[0] != 0 || r->r[3] != 0 || r->r[5] != 0) {
        return 2;
    }
    return r->r[2] + r->r[4] != 0 ? 0 : 1;
}

static void
test_mem(void **state)
{
    static struct race r;
    unsigned char *rest = aligned_alloc(AE_PAGE, 2 * AE_PAGE);

    (void)state;
    page = aligned_alloc(AE_PAGE, AE_PAGE);
    assert_non_null(page);
    assert_non_null(rest);
    ae_mem_init(&map, &spoiler);
    assert_int_equal(ae_mem_add(&map, BASE - AE_PAGE, AE_PAGE, rest), 0);
    assert_int_equal(ae_mem_add(&map, BASE + AE_PAGE, AE_PAGE, rest + AE_PAGE),
                     0);
    r = (struct race){
        .nr_threads = 3,
        .rounds = 5000,
        .party = { change, walk_1, walk_2 },
        .judge = judge,
        .outcomes = { "found", "not found", "wrong" },
    };
    race_run(&r, "memory map");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
    ae_mem_fini(&map);
    free(page);
    free(rest);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
