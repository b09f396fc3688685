/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge wake: a post against a vCPU that goes to sleep. Either the sleeper sees
 * the bit, or the poster sees the sleeper and wakes it; a sleeper that nobody
 * wakes is lost.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
make_halted(struct race *r)
{
    uint8_t vector;

    (void)race_take(r, 0, &vector); /* block_begin goes by these flags */
    (void)avicemu_vcpu_set_halted(r->vcpu[0]);
}

static void
halted(struct race *r)
{
    make_halted(r);
    r->vmm.vcpus[0].wakes = 0;
}

static void
block(struct race *r)
{
    r->r[0] = avicemu_vcpu_block_begin(r->vcpu[0]);
}

static void
post(struct race *r)
{
    (void)avicemu_post(r->vcpu[0], VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
post_nmi(struct race *r)
{
    (void)avicemu_post_mode(r->vcpu[0], AVICEMU_DELIVERY_NMI, 0);
}

static unsigned
judge(struct race *r)
{
    uint64_t wakes = r->vmm.vcpus[0].wakes;
    unsigned outcome = wakes != 0 ? 2 : 3;

    if (r->r[0] == AVICEMU_SLEEP_NO) {
        outcome = wakes != 0 ? 1 : 0;
    }
    (void)avicemu_vcpu_block_end(r->vcpu[0]);
    (void)race_drain(r, 0);
    return wakes > 1 ? 4 : outcome;
}

static void
wake_by(void (*poster)(struct race *), const char *name)
{
    static struct race r;

    r = (struct race){
        .nr_threads = 2,
        .rounds = 200000,
        .prepare = halted,
        .party = { block, poster },
        .judge = judge,
        .outcomes = { "awake", "awake and called", "woken", "lost", "twice" },
        .nr_vcpus = 1,
    };
    race_run(&r, name);
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[3], 0);
    assert_int_equal(r.histogram[4], 0);
}

static void
test_vector(void **state)
{
    (void)state;
    wake_by(post, "wake by a vector");
}

static void
test_nmi(void **state)
{
    (void)state;
    wake_by(post_nmi, "wake by an NMI");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_nmi),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
