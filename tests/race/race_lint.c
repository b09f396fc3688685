/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edges lint and rir: a level on a pin against the unmasking of its entry, and
 * against the EOI of its vector. A line that is high and open is served.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define VECTOR 0x41

#define LVT_LINT0 0x350
#define LEVEL     0x8000u
#define MASKED    0x10000u

static void
masked_low(struct race *r)
{
    (void)avicemu_vcpu_lint(r->vcpu[0], 0, 0);
    (void)race_drain(r, 0);
    race_write(r, 0, LVT_LINT0, MASKED | LEVEL | VECTOR);
}

static void
in_service(struct race *r)
{
    uint8_t vector;

    masked_low(r);
    race_write(r, 0, LVT_LINT0, LEVEL | VECTOR);
    (void)avicemu_vcpu_lint(r->vcpu[0], 0, 1);
    (void)race_take(r, 0, &vector);
}

static void
unmask(struct race *r)
{
    race_write(r, 0, LVT_LINT0, LEVEL | VECTOR);
}

static void
eoi(struct race *r)
{
    race_write(r, 0, 0xb0, 0);
}

static void
raise_line(struct race *r)
{
    (void)avicemu_vcpu_lint(r->vcpu[0], 0, 1);
}

static void
pulse(struct race *r)
{
    (void)avicemu_vcpu_lint(r->vcpu[0], 0, 0);
    (void)avicemu_vcpu_lint(r->vcpu[0], 0, 1);
}

static unsigned
judge(struct race *r)
{
    return race_bit(r, 0, 0x200, VECTOR)   ? 0
           : race_bit(r, 0, 0x100, VECTOR) ? 1
                                           : 2;
}

static void
lint_with(void (*prepare)(struct race *), void (*owner)(struct race *),
          void (*driver)(struct race *), const char *name)
{
    static struct race r;

    r = (struct race){
        .nr_threads = 2,
        .rounds = 100000,
        .prepare = prepare,
        .party = { owner, driver },
        .judge = judge,
        .outcomes = { "waits", "in service", "lost" },
        .nr_vcpus = 1,
    };
    race_run(&r, name);
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2], 0);
}

static void
test_unmask(void **state)
{
    (void)state;
    lint_with(masked_low, unmask, raise_line, "a level against its unmasking");
}

static void
test_eoi(void **state)
{
    (void)state;
    lint_with(in_service, eoi, pulse, "a level against its EOI");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmask),
        cmocka_unit_test(test_eoi),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
