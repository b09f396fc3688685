/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge ident: messages against a map that changes (cases SEC-02). Who keeps his
 * id is reached whatever the others do, and so is who changes his mode but not
 * his id.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

#define MSR_APIC_BASE 0x1bu

/* Through all three modes and back to xAPIC. */
static void
modes(struct race *r)
{
    static const uint64_t bases[] = { 0xfee00c00u, 0xfee00000u, 0xfee00800u };

    for (unsigned i = 0; i < 3; i++) {
        (void)avicemu_msr_write(r->vcpu[1], MSR_APIC_BASE, bases[i]);
    }
}

static void
ids(struct race *r)
{
    race_write(r, 2, 0xd0, 0x02000000);
    race_write(r, 2, 0x20, 0x09000000);
    race_write(r, 2, 0x20, 0x02000000);
    race_write(r, 2, 0xd0, 0x04000000);
}

static void
send_0(struct race *r)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(r->vm, 0xfee00000u, VECTOR, &posted);
    r->r[0] = posted.nr_new;
    (void)avicemu_msi(r->vm, 0xfeeff000u, VECTOR + 1, &posted);
}

static unsigned
judge_0(struct race *r)
{
    int reached = r->r[0] == 1 && race_bit(r, 0, 0x200, VECTOR) &&
                  race_bit(r, 0, 0x200, VECTOR + 1);

    for (unsigned i = 0; i < 3; i++) {
        if (i == 1) {
            race_write(r, i, 0xf0, 0x1ff);
        }
        (void)race_drain(r, i);
    }
    return reached ? 0 : 1;
}

static void
test_bystander(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 20000,
        .party = { send_0, modes, ids },
        .judge = judge_0,
        .outcomes = { "reached", "missed" },
        .nr_vcpus = 3,
    };
    race_run(&r, "a bystander while modes and ids change");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[1], 0);
}

static void
xapic_1(struct race *r)
{
    (void)avicemu_msr_write(r->vcpu[1], MSR_APIC_BASE, 0xfee00000u);
    (void)avicemu_msr_write(r->vcpu[1], MSR_APIC_BASE, 0xfee00800u);
    race_write(r, 1, 0xf0, 0x1ff);
    (void)race_drain(r, 1);
}

static void
x2apic_1(struct race *r)
{
    (void)avicemu_msr_write(r->vcpu[1], MSR_APIC_BASE, 0xfee00c00u);
}

static void
send_1(struct race *r)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(r->vm, 0xfee01000u, VECTOR, &posted);
    r->r[0] = posted.nr_new;
}

static unsigned
judge_1(struct race *r)
{
    return r->r[0] == 1 && race_bit(r, 1, 0x200, VECTOR) ? 0 : 1;
}

static void
test_mode(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 50000,
        .prepare = xapic_1,
        .party = { x2apic_1, send_1 },
        .judge = judge_1,
        .outcomes = { "reached", "missed" },
        .nr_vcpus = 2,
    };
    race_run(&r, "who changes his mode");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[1], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bystander),
        cmocka_unit_test(test_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
