/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge vcpu: a message against the vCPU that is being added. It finds a whole
 * vCPU, or nobody.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

static void
add(struct race *r)
{
    r->r[0] =
        (uint64_t)-avicemu_vcpu_create(r->vm, 1, &r->vmm.vcpus[1], &r->vcpu[1]);
}

/* An NMI needs no enabled APIC. */
static void
send_nmi(struct race *r)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(r->vm, 0xfee01000u, 0x400, &posted);
    r->r[1] = posted.nr_new;
    r->r[2] = posted.nr_dropped;
}

static unsigned
judge(struct race *r)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    (void)avicemu_vcpu_view(r->vcpu[1], &view);
    int bad = r->r[0] != 0 || r->r[1] + r->r[2] != 1 || view.nr_nmi != r->r[1];

    bad |= avicemu_vcpu_destroy(r->vcpu[1]) != 0;
    r->vcpu[1] = NULL;
    return bad ? 2 : r->r[1] == 1 ? 0 : 1;
}

static void
test_hotadd(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 20000,
        .party = { add, send_nmi },
        .judge = judge,
        .outcomes = { "found", "nobody", "wrong" },
        .nr_vcpus = 1,
    };
    race_run(&r, "hot-add");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hotadd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
