/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The explorer's reduction leaves out schedules, and must leave out no
 * outcome: random programs of a few accesses are explored with it and without
 * it, and must end in the same states. NR_PROGRAMS may be set for a long run.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/step.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/rcu.h"

#ifndef NR_PROGRAMS
#define NR_PROGRAMS 20u
#endif

enum instruction {
    LOAD_X,
    LOAD_Y,
    STORE_X,
    STORE_Y,
    LOCKED_X,
    ADD_Y,
    SWAP_X,
    WAIT_X,
    LOCK_SECTION,
    READ_SECTION,
    GRACE_PERIOD,
    NR_INSTRUCTIONS,
};

#define PROGRAM_PARTIES 3u
#define PROGRAM_LENGTH  3u
#define NR_OUTCOMES     4096u

struct program {
    struct ae_lock lock;
    _Atomic uint32_t x, y;
    unsigned length;
    enum instruction code[PROGRAM_PARTIES][PROGRAM_LENGTH];
    uint32_t read[PROGRAM_PARTIES];
    unsigned nr_seen;
    uint64_t seen[NR_OUTCOMES];
};

static uint32_t
lock_section(struct program *p)
{
    ae_lock(&p->lock);
    uint32_t x = ae_load_relaxed_u32(&p->x);

    ae_store_relaxed_u32(&p->x, x + 1);
    ae_unlock(&p->lock);
    return x;
}

static uint32_t
read_section(struct program *p)
{
    ae_rcu_enter();
    uint32_t x = ae_load_relaxed_u32(&p->x);
    uint32_t y = ae_load_relaxed_u32(&p->y);

    ae_rcu_leave();
    return x * 3 + y;
}

static uint32_t
execute(struct program *p, enum instruction i, uint32_t value)
{
    switch (i) {
    case LOAD_X:
        return ae_load_relaxed_u32(&p->x);
    case LOAD_Y:
        return ae_load_seqcst_u32(&p->y);
    case STORE_X:
        ae_store_relaxed_u32(&p->x, value);
        return 0;
    case STORE_Y:
        ae_store_release_u32(&p->y, value);
        return 0;
    case LOCKED_X:
        ae_store_seqcst_u32(&p->x, value);
        return 0;
    case ADD_Y:
        return ae_fetch_add_seqcst_u32(&p->y, 1);
    case SWAP_X:
        (void)ae_cas_seqcst_u32(&p->x, &value, 9);
        return value;
    case WAIT_X:
        /* Until it is not 0; the last one to finish sets it in any case. */
        while (ae_load_acquire_u32(&p->x) == 0) {
            avicemu_step_relax("x");
        }
        return 1;
    case LOCK_SECTION:
        return lock_section(p);
    case READ_SECTION:
        return read_section(p);
    case GRACE_PERIOD:
        ae_rcu_synchronize();
        return 0;
    case NR_INSTRUCTIONS:
    default:
        return 0;
    }
}

static void
program_party(struct program *p, unsigned who)
{
    uint32_t read = 0;

    for (unsigned i = 0; i < p->length; i++) {
        read = read * 11 + execute(p, p->code[who][i], who * 3 + i + 1);
    }
    p->read[who] = read;
    if (who == 0) {
        ae_store_release_u32(&p->x, 10);
    }
}

static void
program_0(void *opaque)
{
    program_party(opaque, 0);
}

static void
program_1(void *opaque)
{
    program_party(opaque, 1);
}

static void
program_2(void *opaque)
{
    program_party(opaque, 2);
}

static int
program_setup(void *opaque)
{
    struct program *p = opaque;

    ae_store_seqcst_u32(&p->x, 0);
    ae_store_seqcst_u32(&p->y, 0);
    memset(p->read, 0, sizeof(p->read));
    return 0;
}

/* Collect the outcomes. */
static int
program_check(void *opaque)
{
    struct program *p = opaque;
    uint64_t outcome =
        ae_load_seqcst_u32(&p->x) * 16u + ae_load_seqcst_u32(&p->y);

    for (unsigned i = 0; i < PROGRAM_PARTIES; i++) {
        outcome = outcome * 2000 + p->read[i];
    }
    for (unsigned i = 0; i < p->nr_seen; i++) {
        if (p->seen[i] == outcome) {
            return 0;
        }
    }
    if (p->nr_seen == NR_OUTCOMES) {
        return 1;
    }
    p->seen[p->nr_seen++] = outcome;
    return 0;
}

/* Explore; how many schedules that took. 0: too many; STUCK: a deadlock. */
#define STUCK UINT64_MAX

static uint64_t
program_explore(struct program *p, uint32_t nr, uint32_t preemptions)
{
    struct avicemu_step_test test = {
        .size = sizeof(test),
        .opaque = p,
        .nr_parties = nr,
        .names = { "A", "B", "C" },
        .fns = { program_0, program_1, program_2 },
        .setup = program_setup,
        .check = program_check,
    };
    const struct avicemu_step_limits limits = {
        .size = sizeof(limits),
        .flags = AVICEMU_STEP_TSO,
        .max_schedules = 8000,
        .max_preemptions = preemptions,
    };
    struct avicemu_step_found found = { .size = sizeof(found) };

    p->nr_seen = 0;
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    /* Party 0 that waits for its own last store waits for ever. */
    if (found.outcome == AVICEMU_STEP_DEADLOCK) {
        return STUCK;
    }
    assert_int_equal(found.outcome, AVICEMU_STEP_OK);
    return found.complete ? found.schedules + found.pruned : 0;
}

static void
test_random_programs(void **state)
{
    static struct program reduced, full;
    uint64_t random = 88172645463325252u;
    uint64_t few = 0;
    uint64_t many = 0;
    unsigned compared = 0;

    (void)state;
    ae_lock_init(&reduced.lock);
    ae_lock_init(&full.lock);
    for (unsigned n = 0; n < NR_PROGRAMS; n++) {
        uint32_t nr = n % 2 == 0 ? 2 : 3;

        reduced.length = nr == 2 ? 3 : 2;
        for (unsigned i = 0; i < PROGRAM_PARTIES * PROGRAM_LENGTH; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            reduced.code[i / PROGRAM_LENGTH][i % PROGRAM_LENGTH] =
                (enum instruction)(random >> 20) % NR_INSTRUCTIONS;
        }
        memcpy(full.code, reduced.code, sizeof(full.code));
        full.length = reduced.length;
        uint64_t a = program_explore(&reduced, nr, 0);
        uint64_t b = program_explore(&full, nr, 1000);

        if (a == 0 || b == 0) {
            continue;
        }
        assert_int_equal(a == STUCK, b == STUCK);
        if (a == STUCK) {
            continue;
        }
        compared++;
        few += a;
        many += b;
        assert_int_equal(reduced.nr_seen, full.nr_seen);
    }
    printf("%u programs: %llu schedules with reduction, %llu without\n",
           compared, (unsigned long long)few, (unsigned long long)many);
    assert_true(compared > NR_PROGRAMS / 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
