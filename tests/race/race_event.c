/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * INIT and SIPI words against the AP that takes them: an INIT and a SIPI right
 * behind it are both taken, in this order, once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
look(struct race *r)
{
    r->r[0] = r->r[1] = 0;
    for (int i = 0; i < 3; i++) {
        uint8_t vector;
        uint32_t what = race_take(r, 1, &vector);

        r->r[0] += what == AVICEMU_DO_INIT;
        r->r[1] += what == AVICEMU_DO_SIPI && vector == 0x12;
    }
}

static void
start(struct race *r)
{
    (void)avicemu_post_mode(r->vcpu[1], AVICEMU_DELIVERY_INIT, 0);
    (void)avicemu_post_mode(r->vcpu[1], AVICEMU_DELIVERY_SIPI, 0x12);
}

static unsigned
judge(struct race *r)
{
    uint64_t early = r->r[0] + r->r[1];
    uint64_t inits = r->r[0];
    uint64_t sipis = r->r[1];

    look(r);
    if (inits + r->r[0] != 1 || sipis + r->r[1] != 1) {
        return 3;
    }
    return early == 2 ? 0 : early == 1 ? 1 : 2;
}

static void
test_event(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 100000,
        .party = { look, start },
        .judge = judge,
        .outcomes = { "both", "INIT first", "later", "lost or doubled" },
        .nr_vcpus = 2,
    };
    race_run(&r, "INIT and SIPI");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[3], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
