/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hand-stepped: the worst moments of the hard edges, one by one, in words. The
 * explorer tries all moments; these tests say what happens at one.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/step.h>

#include "fake_vmm.h"

#define VECTOR 0x41

struct scene {
    struct fake_vmm vmm;
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu[2];
    struct avicemu_step *step;
    unsigned a, b;
    enum avicemu_sleep sleep;
    struct avicemu_todo todo;
    int destroyed;
    uint32_t word[2];
};

static int
setup(void **state)
{
    static struct scene s;
    struct avicemu_vm_config config = {
        .size = sizeof(config),
        .max_vcpus = 4,
    };
    const uint32_t svr = 0x1ff;

    memset(&s, 0, sizeof(s));
    s.destroyed = 1;
    fake_vmm_init(&s.vmm);
    fake_vmm_config(&s.vmm, &config);
    assert_int_equal(avicemu_host_create(NULL, &s.host), 0);
    assert_int_equal(avicemu_vm_create(s.host, &config, &s.vm), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            avicemu_vcpu_create(s.vm, i, &s.vmm.vcpus[i], &s.vcpu[i]), 0);
        (void)avicemu_mmio_write(s.vcpu[i], 0xfee000f0u, 4, &svr);
    }
    assert_int_equal(avicemu_step_create(0, &s.step), 0);
    *state = &s;
    return 0;
}

static int
teardown(void **state)
{
    struct scene *s = *state;

    avicemu_step_destroy(s->step);
    for (uint32_t i = 0; i < 2; i++) {
        const struct avicemu_cpu cpu = { .size = sizeof(cpu) };

        if (s->vcpu[i] != NULL) {
            (void)avicemu_vcpu_block_end(s->vcpu[i]);
            (void)avicemu_vcpu_exit(s->vcpu[i], &cpu);
            assert_int_equal(avicemu_vcpu_destroy(s->vcpu[i]), 0);
        }
    }
    assert_int_equal(avicemu_vm_destroy(s->vm), 0);
    assert_int_equal(avicemu_host_destroy(s->host), 0);
    return 0;
}

static void
cast(struct scene *s, avicemu_step_fn a, avicemu_step_fn b)
{
    assert_int_equal(avicemu_step_party(s->step, "A", a, s, &s->a), 0);
    assert_int_equal(avicemu_step_party(s->step, "B", b, s, &s->b), 0);
}

/* ---- parties ------------------------------------------------------------ */

static void
post(void *arg)
{
    struct scene *s = arg;

    (void)avicemu_post(s->vcpu[0], VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
block(void *arg)
{
    struct scene *s = arg;

    s->sleep = avicemu_vcpu_block_begin(s->vcpu[0]);
}

static void
enter(void *arg)
{
    struct scene *s = arg;
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };

    s->todo.size = sizeof(s->todo);
    (void)avicemu_vcpu_enter(s->vcpu[0], &cpu, &s->todo);
}

static void
send(void *arg)
{
    struct scene *s = arg;

    (void)avicemu_msi(s->vm, 0xfee00000u, VECTOR, NULL);
}

static void
destroy(void *arg)
{
    struct scene *s = arg;

    s->destroyed = avicemu_vcpu_destroy(s->vcpu[0]);
    s->vcpu[0] = NULL;
}

static void
halt_now(struct scene *s)
{
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };

    enter(s);
    (void)avicemu_vcpu_exit(s->vcpu[0], &cpu);
    assert_int_equal(avicemu_vcpu_set_halted(s->vcpu[0]), 0);
}

/* ---- tests -------------------------------------------------------------- */

static void
test_wake_early(void **state)
{
    struct scene *s = *state;

    halt_now(s);
    cast(s, post, block);
    /* The bit is set, the state not read yet; the sleeper looks and stays. */
    assert_int_equal(avicemu_step_run(s->step, s->a, "post_a"),
                     AVICEMU_STEP_AT);
    assert_string_equal(avicemu_step_where(s->step, s->a), "post_a");
    assert_int_equal(avicemu_step_run(s->step, s->b, "none"),
                     AVICEMU_STEP_DONE);
    assert_int_equal(s->sleep, AVICEMU_SLEEP_NO);
    assert_int_equal(avicemu_step_finish(s->step), 0);
    assert_int_equal(s->vmm.vcpus[0].wakes, 0);
}

static void
test_wake_late(void **state)
{
    struct scene *s = *state;

    halt_now(s);
    cast(s, post, block);
    /* The sleeper has said so, and not looked yet: both see each other. */
    assert_int_equal(avicemu_step_run(s->step, s->b, "wake_b"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_run(s->step, s->a, "claimed"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_run(s->step, s->b, "none"),
                     AVICEMU_STEP_DONE);
    assert_int_equal(s->sleep, AVICEMU_SLEEP_NO);
    assert_int_equal(avicemu_step_finish(s->step), 0);
    /* Once too often, which the sleeper's loop finds out. */
    assert_int_equal(s->vmm.vcpus[0].wakes, 1);
}

static void
test_kick(void **state)
{
    struct scene *s = *state;

    cast(s, post, enter);
    /* In the guest by its own word, before it has looked. */
    assert_int_equal(avicemu_step_run(s->step, s->b, "kick_b"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_finish(s->step), 0);
    assert_int_equal(s->vmm.vcpus[0].kicks, 1);
    assert_int_equal(s->todo.what & AVICEMU_DO_INJECT, AVICEMU_DO_INJECT);
    assert_int_equal(s->todo.vector, VECTOR);
}

static void
test_destroy_waits(void **state)
{
    struct scene *s = *state;

    cast(s, send, destroy);
    /* A message holds the vCPU in its read-side section. */
    assert_int_equal(avicemu_step_run(s->step, s->a, "post_a"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_run(s->step, s->b, "pin_b"),
                     AVICEMU_STEP_BLOCKED);
    assert_string_equal(avicemu_step_where(s->step, s->b), "grace");
    assert_int_equal(s->destroyed, 1);
    /* Still, however often it is asked. */
    assert_int_equal(avicemu_step_run(s->step, s->b, NULL),
                     AVICEMU_STEP_BLOCKED);
    assert_int_equal(avicemu_step_run(s->step, s->a, "none"),
                     AVICEMU_STEP_DONE);
    assert_int_equal(avicemu_step_run(s->step, s->b, "pin_b"), AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_finish(s->step), 0);
    assert_int_equal(s->destroyed, 0);
}

static void
test_lock_blocks(void **state)
{
    struct scene *s = *state;

    cast(s, destroy, destroy);
    assert_int_equal(avicemu_step_run(s->step, s->a, "locked"),
                     AVICEMU_STEP_AT);
    /* The other one destroys its own. */
    s->vcpu[0] = s->vcpu[1];
    assert_int_equal(avicemu_step_run(s->step, s->b, "locked"),
                     AVICEMU_STEP_BLOCKED);
    assert_string_equal(avicemu_step_where(s->step, s->b), "lock");
    /* Its own lock inside that of who routes, which both want. */
    assert_int_equal(avicemu_step_run(s->step, s->a, "unlocked"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_run(s->step, s->a, "unlocked"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_run(s->step, s->b, "locked"),
                     AVICEMU_STEP_AT);
    assert_int_equal(avicemu_step_finish(s->step), 0);
    assert_int_equal(avicemu_vm_nr_vcpus(s->vm), 0);
    s->vcpu[1] = NULL;
}

static void
store_and_stop(void *arg)
{
    struct scene *s = arg;

    avicemu_step_store(&s->word[0], 4, 1);
    avicemu_step_store(&s->word[1], 4, 2);
    avicemu_step_here("stored");
    /* Own stores are seen, made visible or not. */
    avicemu_step_store(&s->word[1], 4, avicemu_step_load(&s->word[1], 4) + 1);
    avicemu_step_fence();
    avicemu_step_here("fenced");
}

static void
poll(void *arg)
{
    struct scene *s = arg;

    while (avicemu_step_load(&s->word[1], 4) != 3) {
        avicemu_step_relax("polling");
    }
}

static void
test_buffered(void **state)
{
    struct scene *s = *state;

    avicemu_step_destroy(s->step);
    assert_int_equal(avicemu_step_create(AVICEMU_STEP_TSO, &s->step), 0);
    cast(s, store_and_stop, poll);
    assert_int_equal(avicemu_step_run(s->step, s->a, "stored"),
                     AVICEMU_STEP_AT);
    assert_int_equal(s->word[0], 0);
    assert_int_equal(avicemu_step_run(s->step, s->b, NULL),
                     AVICEMU_STEP_BLOCKED);
    assert_string_equal(avicemu_step_where(s->step, s->b), "polling");
    assert_int_equal(avicemu_step_drain(s->step, s->a), 1);
    assert_int_equal(s->word[0], 1);
    assert_int_equal(s->word[1], 0);
    assert_int_equal(avicemu_step_run(s->step, s->a, "fenced"),
                     AVICEMU_STEP_AT);
    assert_int_equal(s->word[1], 3);
    assert_int_equal(avicemu_step_drain(s->step, s->a), -ENOENT);
    assert_int_equal(avicemu_step_finish(s->step), 0);
}

static void
test_deadlock(void **state)
{
    struct scene *s = *state;

    cast(s, poll, poll);
    assert_int_equal(avicemu_step_finish(s->step), -EBUSY);
    assert_int_equal(avicemu_step_run(s->step, s->a, NULL),
                     AVICEMU_STEP_BLOCKED);
}

static void
test_misuse(void **state)
{
    struct scene *s = *state;
    struct avicemu_step *none;
    unsigned party;

    assert_int_equal(avicemu_step_create(1u << 31, &none), -EINVAL);
    assert_int_equal(avicemu_step_create(0, NULL), -EINVAL);
    assert_int_equal(avicemu_step_party(s->step, "A B", post, s, &party),
                     -EINVAL);
    for (int i = 0; i < AVICEMU_STEP_MAX_PARTIES; i++) {
        assert_int_equal(avicemu_step_party(s->step, "A", post, s, &party), 0);
    }
    assert_int_equal(avicemu_step_party(s->step, "A", post, s, &party), -EBUSY);
    avicemu_step_destroy(NULL);
    /* In a thread that is no party all calls do what they say. */
    avicemu_step_here("nowhere");
    avicemu_step_store(&s->word[0], 4, 7);
    avicemu_step_fence();
    avicemu_step_relax("nothing");
    assert_int_equal(avicemu_step_load(&s->word[0], 4), 7);
}

int
main(void)
{
#define TEST(name, f)                  \
    {                                  \
        name, f, setup, teardown, NULL \
    }
    const struct CMUnitTest tests[] = {
        TEST("wake: the bit was set before the sleeper looks", test_wake_early),
        TEST("wake: the poster sees who is about to look", test_wake_late),
        TEST("kick: a post between entry and its look", test_kick),
        TEST("destroy waits for a message that holds the vCPU",
             test_destroy_waits),
        TEST("who wants a lock that another holds is blocked",
             test_lock_blocks),
        TEST("stores become visible one by one, and all at a barrier",
             test_buffered),
        TEST("parties that wait for each other are told", test_deadlock),
        TEST("misuse is refused, and no party is no party", test_misuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
