/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edges pin and vcpu: messages to a vCPU against its destruction. A message
 * arrives or finds nobody; no callback runs when destroy has returned (the
 * address sanitizer watches the memory).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
come(struct race *r)
{
    uint8_t vector;

    (void)avicemu_vcpu_create(r->vm, 1, &r->vmm.vcpus[1], &r->vcpu[1]);
    (void)race_enable(r, 1);
    (void)race_take(r, 1, &vector);
    (void)avicemu_vcpu_set_halted(r->vcpu[1]);
}

static void
go(struct race *r)
{
    (void)avicemu_vcpu_block_begin(r->vcpu[1]);
    (void)avicemu_vcpu_block_end(r->vcpu[1]);
    r->r[0] = (uint64_t)-avicemu_vcpu_destroy(r->vcpu[1]);
    r->vcpu[1] = NULL;
    r->r[3] = r->vmm.vcpus[1].wakes;
}

static void
send_one(struct race *r)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(r->vm, 0xfee01000u, VECTOR, &posted);
    r->r[1] = posted.nr_new;
    r->r[2] = posted.nr_dropped;
}

static void
send_all(struct race *r)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(r->vm, 0xfeeff000u, VECTOR, &posted);
    /* Those that stay have it in any case. */
    r->r[1] = posted.nr_new == 3;
    r->r[2] = posted.nr_new == 2;
}

static unsigned
judge(struct race *r)
{
    if (r->r[0] != 0 || r->r[1] + r->r[2] != 1) {
        return 2;
    }
    (void)race_drain(r, 0);
    if (r->vcpu[2] != NULL) {
        (void)race_drain(r, 2);
    }
    if (r->r[3] != r->vmm.vcpus[1].wakes) {
        return 3;
    }
    return r->r[1] == 1 ? 0 : 1;
}

/* vCPU 2 is there from the beginning. */
static void
come_beside(struct race *r)
{
    if (r->vcpu[2] == NULL) {
        (void)avicemu_vcpu_create(r->vm, 2, &r->vmm.vcpus[2], &r->vcpu[2]);
        (void)race_enable(r, 2);
    }
    come(r);
}

static void
destroy_with(void (*prepare)(struct race *), void (*sender)(struct race *),
             const char *name)
{
    static struct race r;

    r = (struct race){
        .nr_threads = 2,
        .rounds = 20000,
        .prepare = prepare,
        .party = { go, sender },
        .judge = judge,
        .outcomes = { "arrived", "nobody", "wrong count", "late callback" },
        .nr_vcpus = 1,
    };
    race_run(&r, name);
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
    assert_int_equal(r.histogram[3], 0);
}

static void
test_one(void **state)
{
    (void)state;
    destroy_with(come, send_one, "destroy against a message");
}

static void
test_all(void **state)
{
    (void)state;
    destroy_with(come_beside, send_all, "destroy against a broadcast");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
