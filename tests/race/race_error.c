/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge error: a sender's error against an error of the owner's own. The LVT
 * error entry is raised for it, at the latest when the owner looks again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
armed(struct race *r)
{
    race_write(r, 0, 0x370, VECTOR);
    race_write(r, 0, 0x280, 0);
    race_write(r, 0, 0x280, 0);
}

static void
own(struct race *r)
{
    (void)race_read(r, 0, 0x40);
    r->r[0] = race_drain(r, 0);
}

static void
look(struct race *r)
{
    r->r[0] = race_drain(r, 0);
}

static void
post_illegal(struct race *r)
{
    (void)avicemu_post(r->vcpu[0], 5, AVICEMU_TRIGGER_EDGE);
}

static unsigned
judge(struct race *r)
{
    uint64_t late = race_drain(r, 0);

    race_write(r, 0, 0x280, 0);
    if (r->r[0] + late == 0 || (race_read(r, 0, 0x280) & 0x40) == 0) {
        return 2;
    }
    return r->r[0] != 0 ? 0 : 1;
}

static void
error_with(void (*owner)(struct race *), const char *name)
{
    static struct race r;

    r = (struct race){
        .nr_threads = 2,
        .rounds = 100000,
        .prepare = armed,
        .party = { owner, post_illegal },
        .judge = judge,
        .outcomes = { "raised", "later", "lost" },
        .nr_vcpus = 1,
    };
    race_run(&r, name);
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
}

static void
test_look(void **state)
{
    (void)state;
    error_with(look, "error against a look");
}

static void
test_own(void **state)
{
    (void)state;
    error_with(own, "error against an own one");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
