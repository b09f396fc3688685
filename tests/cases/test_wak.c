/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind WAK: who is woken, and that nobody sleeps on an interrupt.
 * Not here:
 *
 *   WAK-02, 10        no such mechanism: one level, no adaptive polling
 *   WAK-03, 05, 07, 09   no such cases
 *   WAK-04            in tests/hv/test_avic_run.c
 */

#include <pthread.h>
#include <sched.h>

#include "rig.h"

#define ROUNDS   100000
#define PATIENCE 200000000u

/* ---- WAK-01 ------------------------------------------------------------- */

struct sleeper {
    struct avicemu_vcpu *v;
    _Atomic uint32_t taken;
    _Atomic int lost;
};

static void *
wake_poster(void *opaque)
{
    struct sleeper *s = opaque;

    for (uint32_t round = 0; round < ROUNDS && !s->lost; round++) {
        while (s->taken != round && !s->lost) {
            sched_yield();
        }
        (void)avicemu_post(s->v, (uint8_t)(0x40 + round % 0x80), EDGE);
    }
    return NULL;
}

/* Sleep as a host does: until a wake comes. A wake that never comes though
 * the vCPU is runnable is a lost one. */
static int
sleep_until_woken(struct rig *rig, uint64_t wakes)
{
    for (uint32_t spins = 0; rig->fake[0].wakes == wakes; spins++) {
        if (spins > PATIENCE / 20 && avicemu_vcpu_runnable(rig->v[0])) {
            return 0;
        }
        if (spins > PATIENCE) {
            return 0;
        }
        sched_yield();
    }
    return 1;
}

static void
wak_01(void **state)
{
    struct rig *rig = *state;
    struct sleeper s = { .v = rig->v[0], .taken = 0 };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wake_poster, &s), 0);
    while (s.taken < ROUNDS && !s.lost) {
        uint64_t wakes = rig->fake[0].wakes;

        if (rig_take(rig, 0) >= 0) {
            eoi(s.v);
            s.taken++;
            continue;
        }
        (void)avicemu_vcpu_set_halted(s.v);
        if (avicemu_vcpu_block_begin(s.v) == AVICEMU_SLEEP_YES) {
            s.lost = !sleep_until_woken(rig, wakes);
            (void)avicemu_vcpu_block_end(s.v);
        }
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(s.lost, 0);
    assert_int_equal(rig_stats(s.v).injected, ROUNDS);
}

/* ---- WAK-06 ------------------------------------------------------------- */

static void
sleep_with_if(struct rig *rig)
{
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[0]), 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[0]), AVICEMU_SLEEP_YES);
}

static void
wak_06(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_LINT0, ICR_EXTINT);
    sleep_with_if(rig);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), NEW);
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    (void)avicemu_vcpu_lint(v, 0, 0);

    reg_w(v, R_LINT0, LVT_MASKED | ICR_EXTINT);
    sleep_with_if(rig);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), DROPPED);
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_runnable(v), 0);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_SLEEP);
    (void)avicemu_vcpu_lint(v, 0, 0);
}

/* Blocked by IF or by the priority: no wake, and none owed. */
static void
wak_06_blocked(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x50);
    sleep_with_if(rig);
    assert_int_equal(avicemu_post(v, 0x5f, EDGE), NEW);
    assert_int_equal(rig->fake[0].wakes, 0);
    assert_int_equal(avicemu_post(v, 0x60, EDGE), NEW);
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    assert_int_equal(rig_take(rig, 0), 0x60);
    eoi(v);
    reg_w(v, R_LINT0, ICR_EXTINT);
    assert_int_equal(rig_run(rig, 0, 0), 0);
    assert_int_equal(avicemu_vcpu_set_halted(v), 0);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
    (void)avicemu_vcpu_lint(v, 0, 1); /* IF = 0 */
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    (void)avicemu_vcpu_lint(v, 0, 0);
}

/* ---- WAK-08, WAK-11 ----------------------------------------------------- */

static void
wak_08(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    /* "Look" without anything to see, before, in and after a sleep. */
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(avicemu_vcpu_set_halted(v), 0);
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_SLEEP);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_SLEEP);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(rig_take(rig, 0), 0x41);
}

static void
wak_11(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    icr_send(v, 0, ICR_SELF | ICR_FIXED | 0x60);
    assert_int_equal(rig_take(rig, 0), 0x60);
    eoi(v);
    reg_w(v, R_LVTT, 0x70);
    reg_w(v, R_TMICT, 1000);
    rig_time(rig, 10000);
    icr_send(v, 0, ICR_SELF | ICR_FIXED | 0x60); /* and the timer expires */
    assert_int_equal(rig_take(rig, 0), 0x70);
    eoi(v);
    assert_int_equal(rig_take(rig, 0), 0x60);
    assert_int_equal(rig->fake[0].wakes + rig->fake[0].kicks, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("WAK-01 no wake is missed", wak_01, .nr_vcpus = 1),
        RIG_EACH("WAK-06 the PIC wakes, a masked PIC does not", wak_06,
                 .nr_vcpus = 1),
        RIG_EACH("WAK-06 what is blocked wakes nobody", wak_06_blocked,
                 .nr_vcpus = 1),
        RIG_EACH("WAK-08 a flag without an interrupt is harmless", wak_08,
                 .nr_vcpus = 1),
        RIG_EACH("WAK-11 events to oneself need no wake", wak_11,
                 .nr_vcpus = 1),
        RIG_TEST("WAK-01 no wake is missed (AVIC)", wak_01, .nr_vcpus = 1,
                 .avic = RIG_X2AVIC),
        RIG_EACH_AVIC("WAK-06 the PIC wakes, a masked PIC does not", wak_06,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("WAK-06 what is blocked wakes nobody", wak_06_blocked,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("WAK-08 a flag without an interrupt is harmless", wak_08,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("WAK-11 events to oneself need no wake", wak_11,
                      .nr_vcpus = 1),
    };

    return cmocka_run_group_tests_name("cases WAK", tests, NULL, NULL) != 0;
}
