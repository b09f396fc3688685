/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge tmr: the trigger mode of a post against the EOI of the vector. A level-
 * triggered vector that was taken tells the IOAPIC its EOI.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

/* The vector's last use was edge-triggered. */
static void
edge_before(struct race *r)
{
    (void)avicemu_post(r->vcpu[0], VECTOR, AVICEMU_TRIGGER_EDGE);
    (void)race_drain(r, 0);
    r->vmm.vcpus[0].eois = 0;
}

static void
take(struct race *r)
{
    r->r[0] = race_drain(r, 0);
}

static void
post(struct race *r)
{
    (void)avicemu_post(r->vcpu[0], VECTOR, AVICEMU_TRIGGER_LEVEL);
}

static unsigned
judge(struct race *r)
{
    uint64_t early = r->vmm.vcpus[0].eois;
    uint64_t late = race_drain(r, 0);

    if (early != r->r[0] || early + late != 1 || r->vmm.vcpus[0].eois != 1) {
        return 2;
    }
    return r->r[0] == 1 ? 0 : 1;
}

static void
test_tmr(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 200000,
        .prepare = edge_before,
        .party = { take, post },
        .judge = judge,
        .outcomes = { "taken", "later", "not told" },
        .nr_vcpus = 1,
    };
    race_run(&r, "tmr");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tmr),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
