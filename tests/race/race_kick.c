/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge kick: a post against a vCPU that enters the guest. Either the entry sees
 * the bit, or the poster sees the guest and kicks it.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
quiet(struct race *r)
{
    r->vmm.vcpus[0].kicks = 0;
}

static void
enter(struct race *r)
{
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    (void)avicemu_vcpu_enter(r->vcpu[0], &cpu, &todo);
    r->r[0] = todo.what & AVICEMU_DO_INJECT;
}

static void
post(struct race *r)
{
    (void)avicemu_post(r->vcpu[0], VECTOR, AVICEMU_TRIGGER_EDGE);
}

static unsigned
judge(struct race *r)
{
    const struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    uint64_t kicks = r->vmm.vcpus[0].kicks;
    unsigned outcome = kicks != 0 ? 2 : 3;

    if (r->r[0] != 0) {
        outcome = kicks != 0 ? 1 : 0;
    }
    (void)avicemu_vcpu_exit(r->vcpu[0], &cpu);
    (void)race_drain(r, 0);
    return kicks > 1 ? 4 : outcome;
}

static void
test_kick(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 100000,
        .prepare = quiet,
        .party = { enter, post, post },
        .judge = judge,
        .outcomes = { "injected", "injected and called", "kicked", "lost",
                      "twice" },
        .nr_vcpus = 1,
    };
    race_run(&r, "kick");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[3], 0);
    assert_int_equal(r.histogram[4], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
