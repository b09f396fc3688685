/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge expire: a deadline that the host tells against the owner that looks. One
 * tick is taken, never none and never two.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
due(struct race *r)
{
    race_write(r, 0, 0x320, VECTOR);
    race_write(r, 0, 0x3e0, 0xb);
    race_write(r, 0, 0x380, 500);
    r->vmm.now += 500;
}

static void
look(struct race *r)
{
    r->r[0] = race_drain(r, 0);
}

static void
tell(struct race *r)
{
    (void)avicemu_vcpu_expire(r->vcpu[0]);
}

static unsigned
judge(struct race *r)
{
    uint64_t late = race_drain(r, 0);

    if (r->r[0] + late != 1) {
        return 2;
    }
    return r->r[0] == 1 ? 0 : 1;
}

static void
test_expire(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 100000,
        .prepare = due,
        .party = { look, tell, tell },
        .judge = judge,
        .outcomes = { "taken", "later", "lost or doubled" },
        .nr_vcpus = 1,
    };
    race_run(&r, "expire");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
