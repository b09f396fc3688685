/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The explorer itself, against litmus tests whose outcomes on x86 are known:
 * it must find each outcome that the x86-TSO machine allows, and no other.
 * The four-access pair that the library's "wake" edge stands on comes as a
 * mutation test: seq_cst loses no wake-up, any weaker store loses one.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/step.h>

#include "base/atomic.h"

/* Two variables and what each party read; all start as 0. */
struct litmus {
    _Atomic uint32_t x, y;
    uint32_t r[4];
    uint32_t seen; /* bit for each outcome, see outcome() */
};

static int
litmus_setup(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_seqcst_u32(&t->x, 0);
    ae_store_seqcst_u32(&t->y, 0);
    memset(t->r, 0, sizeof(t->r));
    return 0;
}

/* Outcome number: r[0] is bit 0, r[1] bit 1, ... */
static int
litmus_check(void *opaque)
{
    struct litmus *t = opaque;

    t->seen |= 1u << (t->r[0] | t->r[1] << 1 | t->r[2] << 2 | t->r[3] << 3);
    return 0;
}

/* ---- parties ------------------------------------------------------------ */

static void
sb_weak_0(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_release_u32(&t->x, 1);
    t->r[0] = ae_load_acquire_u32(&t->y);
}

static void
sb_weak_1(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_release_u32(&t->y, 1);
    t->r[1] = ae_load_acquire_u32(&t->x);
}

static void
sb_strong_0(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_seqcst_u32(&t->x, 1);
    t->r[0] = ae_load_seqcst_u32(&t->y);
}

static void
sb_strong_1(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_seqcst_u32(&t->y, 1);
    t->r[1] = ae_load_seqcst_u32(&t->x);
}

/* As a user writes it, with a full barrier. */
static void
sb_fence_0(void *opaque)
{
    struct litmus *t = opaque;

    avicemu_step_store(&t->x, 4, 1);
    avicemu_step_fence();
    t->r[0] = (uint32_t)avicemu_step_load(&t->y, 4);
}

static void
mp_0(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_relaxed_u32(&t->x, 1);
    ae_store_relaxed_u32(&t->y, 1);
}

static void
mp_1(void *opaque)
{
    struct litmus *t = opaque;

    t->r[0] = ae_load_relaxed_u32(&t->y);
    t->r[1] = ae_load_relaxed_u32(&t->x);
}

static void
lb_0(void *opaque)
{
    struct litmus *t = opaque;

    t->r[0] = ae_load_relaxed_u32(&t->x);
    ae_store_relaxed_u32(&t->y, 1);
}

static void
lb_1(void *opaque)
{
    struct litmus *t = opaque;

    t->r[1] = ae_load_relaxed_u32(&t->y);
    ae_store_relaxed_u32(&t->x, 1);
}

/* Own stores are seen early: each reads its own 1, then the other's 0. */
static void
forward_0(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_relaxed_u32(&t->x, 1);
    t->r[0] = ae_load_relaxed_u32(&t->x);
    t->r[1] = ae_load_relaxed_u32(&t->y);
}

static void
forward_1(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_relaxed_u32(&t->y, 1);
    t->r[2] = ae_load_relaxed_u32(&t->y);
    t->r[3] = ae_load_relaxed_u32(&t->x);
}

static void
write_x(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_relaxed_u32(&t->x, 1);
}

static void
write_y(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_relaxed_u32(&t->y, 1);
}

static void
read_xy(void *opaque)
{
    struct litmus *t = opaque;

    t->r[0] = ae_load_relaxed_u32(&t->x);
    t->r[1] = ae_load_relaxed_u32(&t->y);
}

static void
read_yx(void *opaque)
{
    struct litmus *t = opaque;

    t->r[2] = ae_load_relaxed_u32(&t->y);
    t->r[3] = ae_load_relaxed_u32(&t->x);
}

static void
add_x(void *opaque)
{
    struct litmus *t = opaque;

    (void)ae_fetch_add_seqcst_u32(&t->x, 1);
}

/* The mistake: a counter that is read, then written. */
static void
add_x_torn(void *opaque)
{
    struct litmus *t = opaque;

    ae_store_seqcst_u32(&t->x, ae_load_seqcst_u32(&t->x) + 1);
}

static int
check_sum_is_three(void *opaque)
{
    struct litmus *t = opaque;

    return ae_load_seqcst_u32(&t->x) != 3;
}

/* ---- the table ---------------------------------------------------------- */

/* Every outcome of n bits but these. */
#define OUT(n) (1u << (n))

struct row {
    const char *name;
    uint32_t flags;
    uint32_t nr_parties;
    avicemu_step_fn fns[4];
    uint32_t want; /* allowed outcomes, each must be found */
};

static const struct row rows[] = {
    { "SB with release stores: both may read 0",
      AVICEMU_STEP_TSO,
      2,
      { sb_weak_0, sb_weak_1 },
      OUT(0) | OUT(1) | OUT(2) | OUT(3) },
    { "SB with release stores, one memory order: not both 0",
      0,
      2,
      { sb_weak_0, sb_weak_1 },
      OUT(1) | OUT(2) | OUT(3) },
    { "SB with seq_cst: not both 0",
      AVICEMU_STEP_TSO,
      2,
      { sb_strong_0, sb_strong_1 },
      OUT(1) | OUT(2) | OUT(3) },
    { "SB with one side seq_cst: both may read 0",
      AVICEMU_STEP_TSO,
      2,
      { sb_strong_0, sb_weak_1 },
      OUT(0) | OUT(1) | OUT(2) | OUT(3) },
    { "SB with a user's barrier: not both 0",
      AVICEMU_STEP_TSO,
      2,
      { sb_fence_0, sb_strong_1 },
      OUT(1) | OUT(2) | OUT(3) },
    { "MP: who sees the flag sees the data",
      AVICEMU_STEP_TSO,
      2,
      { mp_0, mp_1 },
      OUT(0) | OUT(2) | OUT(3) },
    { "LB: not both 1",
      AVICEMU_STEP_TSO,
      2,
      { lb_0, lb_1 },
      OUT(0) | OUT(1) | OUT(2) },
    { "forwarding: own store early, the other's late",
      AVICEMU_STEP_TSO,
      2,
      { forward_0, forward_1 },
      OUT(5) | OUT(7) | OUT(13) | OUT(15) },
    { "IRIW: readers agree on the order of two writes",
      AVICEMU_STEP_TSO,
      4,
      { write_x, write_y, read_xy, read_yx },
      0xffffu & ~OUT(5) },
};

static const char *const names[] = { "A", "B", "C", "D" };

static struct avicemu_step_test
test_of(struct litmus *t, const avicemu_step_fn *fns, uint32_t nr)
{
    struct avicemu_step_test test = {
        .size = sizeof(test),
        .opaque = t,
        .nr_parties = nr,
        .setup = litmus_setup,
        .check = litmus_check,
    };

    for (uint32_t i = 0; i < nr; i++) {
        test.names[i] = names[i];
        test.fns[i] = fns[i];
    }
    return test;
}

static void
test_row(void **state)
{
    const struct row *row = *state;
    struct litmus t = { .seen = 0 };
    struct avicemu_step_test test = test_of(&t, row->fns, row->nr_parties);
    struct avicemu_step_limits limits = {
        .size = sizeof(limits),
        .flags = row->flags,
    };
    struct avicemu_step_found found = { .size = sizeof(found) };

    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    printf("%s: %llu schedules, %llu pruned\n", row->name,
           (unsigned long long)found.schedules,
           (unsigned long long)found.pruned);
    assert_int_equal(found.outcome, AVICEMU_STEP_OK);
    assert_int_equal(found.complete, 1);
    assert_int_equal(t.seen, row->want);
    /* The same outcomes without reduction: a limit switches it off. */
    limits.max_preemptions = 100;
    uint64_t reduced = found.schedules + found.pruned;

    t.seen = 0;
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    assert_int_equal(found.complete, 1);
    assert_int_equal(t.seen, row->want);
    assert_true(reduced <= found.schedules);
}

/* ---- more than outcomes ------------------------------------------------- */

static void
test_torn_counter(void **state)
{
    static const avicemu_step_fn right[] = { add_x, add_x, add_x };
    static const avicemu_step_fn wrong[] = { add_x, add_x_torn, add_x };
    struct litmus t = { .seen = 0 };
    struct avicemu_step_test test = test_of(&t, right, 3);
    struct avicemu_step_found found = { .size = sizeof(found) };

    (void)state;
    test.check = check_sum_is_three;
    assert_int_equal(avicemu_step_explore(&test, NULL, &found), 0);
    assert_int_equal(found.outcome, AVICEMU_STEP_OK);
    assert_int_equal(found.schedules, 6); /* orders of three */

    test = test_of(&t, wrong, 3);
    test.check = check_sum_is_three;
    assert_int_equal(avicemu_step_explore(&test, NULL, &found), 0);
    assert_int_equal(found.outcome, AVICEMU_STEP_FAILED);
    printf("torn counter: %s\n", found.schedule);

    /* What was found can be had again. */
    struct avicemu_step_found again = { .size = sizeof(again) };

    assert_int_equal(
        avicemu_step_replay(&test, found.schedule, AVICEMU_STEP_TSO, &again),
        0);
    assert_int_equal(again.outcome, AVICEMU_STEP_FAILED);
    assert_string_equal(again.schedule, found.schedule);
    assert_int_equal(
        avicemu_step_replay(&test, "A:add B:drain", AVICEMU_STEP_TSO, &again),
        -EINVAL);
    assert_int_equal(avicemu_step_replay(&test, "E:add", 0, &again), -EINVAL);
}

/* A sleeper that polls, and a waker that looks before it stores: the "wake"
 * edge in its smallest form. x: blocked, y: pending, r[2]: woken. */
static void
poster(avicemu_step_fn store, struct litmus *t)
{
    store(&t->y);
    if (ae_load_seqcst_u32(&t->x) != 0) {
        avicemu_step_store(&t->r[2], 4, 1);
    }
}

static void
sleeper(avicemu_step_fn store, struct litmus *t)
{
    store(&t->x);
    if (ae_load_seqcst_u32(&t->y) != 0) {
        return;
    }
    while (avicemu_step_load(&t->r[2], 4) == 0) {
        avicemu_step_relax("asleep");
    }
}

static void
store_seqcst(void *p)
{
    ae_store_seqcst_u32(p, 1);
}

static void
store_release(void *p)
{
    ae_store_release_u32(p, 1);
}

static void
poster_seqcst(void *opaque)
{
    poster(store_seqcst, opaque);
}

static void
poster_release(void *opaque)
{
    poster(store_release, opaque);
}

static void
sleeper_seqcst(void *opaque)
{
    sleeper(store_seqcst, opaque);
}

static void
sleeper_release(void *opaque)
{
    sleeper(store_release, opaque);
}

static void
test_wake_mutants(void **state)
{
    static const struct {
        avicemu_step_fn poster, sleeper;
        enum avicemu_step_outcome want;
    } mutants[] = {
        { poster_seqcst, sleeper_seqcst, AVICEMU_STEP_OK },
        { poster_release, sleeper_seqcst, AVICEMU_STEP_DEADLOCK },
        { poster_seqcst, sleeper_release, AVICEMU_STEP_DEADLOCK },
        { poster_release, sleeper_release, AVICEMU_STEP_DEADLOCK },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        struct litmus t = { .seen = 0 };
        const avicemu_step_fn fns[] = { mutants[i].poster, mutants[i].sleeper };
        struct avicemu_step_test test = test_of(&t, fns, 2);
        struct avicemu_step_found found = { .size = sizeof(found) };

        assert_int_equal(avicemu_step_explore(&test, NULL, &found), 0);
        assert_int_equal(found.outcome, mutants[i].want);
        printf("wake, mutant %zu: %s\n", i,
               found.outcome == AVICEMU_STEP_OK ? "nothing is lost"
                                                : found.schedule);
        if (found.outcome != AVICEMU_STEP_OK) {
            struct avicemu_step_found again = { .size = sizeof(again) };

            assert_int_equal(avicemu_step_replay(&test, found.schedule,
                                                 AVICEMU_STEP_TSO, &again),
                             0);
            assert_int_equal(again.outcome, mutants[i].want);
        }
    }
}

static void
test_limits(void **state)
{
    static const avicemu_step_fn fns[] = { write_x, write_y, read_xy, read_yx };
    struct litmus t = { .seen = 0 };
    struct avicemu_step_test test = test_of(&t, fns, 4);
    struct avicemu_step_limits limits = {
        .size = sizeof(limits),
        .max_schedules = 5,
    };
    struct avicemu_step_found found = { .size = sizeof(found) };

    (void)state;
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    assert_int_equal(found.outcome, AVICEMU_STEP_OK);
    assert_int_equal(found.complete, 0);
    assert_int_equal(found.schedules + found.pruned, 5);
    limits.max_schedules = 0;
    limits.max_steps = 3;
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    assert_int_equal(found.outcome, AVICEMU_STEP_LIVELOCK);
    limits.flags = 1u << 31;
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), -EINVAL);
    test.nr_parties = 0;
    assert_int_equal(avicemu_step_explore(&test, NULL, &found), -EINVAL);
}

int
main(void)
{
    enum {
        NR_ROWS = sizeof(rows) / sizeof(rows[0])
    };
    struct CMUnitTest tests[NR_ROWS + 3];

    for (size_t i = 0; i < NR_ROWS; i++) {
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = test_row,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    tests[NR_ROWS] = (struct CMUnitTest){
        .name = "a torn counter is found, and its schedule repeats it",
        .test_func = test_torn_counter,
    };
    tests[NR_ROWS + 1] = (struct CMUnitTest){
        .name = "wake: each of the stores must be seq_cst",
        .test_func = test_wake_mutants,
    };
    tests[NR_ROWS + 2] = (struct CMUnitTest){
        .name = "limits are kept, and nonsense is refused",
        .test_func = test_limits,
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
