/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind EOI, as far as the local APIC decides them. Not here:
 *
 *   EOI-03 (the pin's part), 05, 06, 09, 11, 15, 16   need the IOAPIC
 *   EOI-04, 07, 10, 12, 14, 17                        no such cases
 *   EOI-13                                            needs AVIC
 *   EOI-18                                            no paravirtual EOI
 */

#include <pthread.h>
#include <sched.h>

#include "rig.h"

#define VECTOR 0x50
#define ROUNDS 20000

/* [APM2 16.6.3]: level and edge by turns on one vector, from a thread that
 * starts the next round when the EOI of the last one is done. */
struct duel {
    struct avicemu_vcpu *v;
    _Atomic uint32_t done; /* rounds */
};

static void *
duel_poster(void *opaque)
{
    struct duel *duel = opaque;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        while (duel->done != round) {
            sched_yield();
        }
        (void)avicemu_post(duel->v, VECTOR, round % 2 ? EDGE : LEVEL);
    }
    return NULL;
}

/* The poster's kicks and these come from two threads. */
static void
count_eoi(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct fake_vcpu *fake = opaque;

    (void)vcpu;
    (void)vector;
    fake->eois++;
}

static void
eoi_01(void **state)
{
    struct rig *rig = *state;
    struct duel duel = { .v = rig->v[0], .done = 0 };
    pthread_t thread;
    uint32_t wrong = 0;

    assert_int_equal(pthread_create(&thread, NULL, duel_poster, &duel), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t eois = rig->fake[0].eois;

        while (scan(duel.v) < 0) {
            sched_yield();
        }
        wrong += rig_take(rig, 0) != VECTOR;
        eoi(duel.v);
        wrong += rig->fake[0].eois - eois != (round % 2 ? 0 : 1);
        duel.done = round + 1;
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
}

static void
eoi_02(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, VECTOR, LEVEL), NEW);
    assert_int_equal(vec_bit(v, R_TMR, VECTOR), 1);
    assert_int_equal(rig_take(rig, 0), VECTOR);
    eoi(v);
    assert_int_equal(vec_bit(v, R_TMR, VECTOR), 1); /* EOI leaves it */
    assert_int_equal(avicemu_post(v, VECTOR, EDGE), NEW);
    assert_int_equal(vec_bit(v, R_TMR, VECTOR), 0);
    assert_int_equal(rig_take(rig, 0), VECTOR);
    eoi(v);
    assert_int_equal(rig->fake[0].eois, 1);
    assert_int_equal(rig->fake[0].last_eoi, VECTOR);
    assert_int_equal(rig_stats(v).eoi, 2);
    assert_int_equal(rig_stats(v).eoi_broadcast, 1);
}

static void
eoi_03(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, VECTOR, LEVEL), NEW);
    assert_int_equal(rig_take(rig, 0), VECTOR);
    assert_int_equal(rig->fake[0].eois, 0); /* not at the ack */
    eoi(v);
    assert_int_equal(rig->fake[0].eois, 1);
    assert_int_equal(rig->fake[0].last_eoi, VECTOR);
    assert_ptr_equal(rig->fake[0].vcpu, v);
    eoi(v); /* nothing in service: nothing to tell */
    assert_int_equal(rig->fake[0].eois, 1);
}

/* The line is still high: the IOAPIC sends it again, from the callback. */
static void
repost(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct fake_vcpu *fake = opaque;

    fake->eois++;
    (void)avicemu_post(vcpu, vector, LEVEL);
}

static void
eoi_08(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, VECTOR, LEVEL), NEW);
    for (uint64_t i = 1; i <= 10000; i++) {
        assert_int_equal(rig_take(rig, 0), VECTOR);
        assert_int_equal(rig_run(rig, 0, IF), 0); /* the guest runs */
        eoi(v);
        assert_int_equal(rig->fake[0].eois, i);
        assert_int_equal(scan(v), VECTOR);
    }
}

/* Directed EOI. [SDM3 10.8.5] */
static void
eoi_directed(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_SVR, 0x11ff);
    assert_int_equal(avicemu_post(v, VECTOR, LEVEL), NEW);
    assert_int_equal(rig_take(rig, 0), VECTOR);
    eoi(v);
    assert_int_equal(vec_bit(v, R_ISR, VECTOR), 0);
    assert_int_equal(rig->fake[0].eois, 0);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(avicemu_post(v, VECTOR, LEVEL), NEW);
    assert_int_equal(rig_take(rig, 0), VECTOR);
    eoi(v);
    assert_int_equal(rig->fake[0].eois, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("EOI-01 TMR is there before IRR", eoi_01, .eoi = count_eoi),
        RIG_EACH("EOI-02 TMR changes at acceptance, not at EOI", eoi_02,
                 .nr_vcpus = 1),
        RIG_EACH("EOI-03 the EOI of a level is broadcast", eoi_03,
                 .nr_vcpus = 1),
        RIG_EACH("EOI-08 an EOI storm neither recurses nor stops the guest",
                 eoi_08, .eoi = repost),
        RIG_TEST("a directed EOI is not broadcast", eoi_directed,
                 P(INTEL, .features = AVICEMU_LAPIC_X2APIC |
                                      AVICEMU_LAPIC_DIRECTED_EOI)),
        RIG_EACH_AVIC("EOI-02 TMR changes at acceptance, not at EOI", eoi_02,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("EOI-03 the EOI of a level is broadcast", eoi_03,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC(
            "EOI-08 an EOI storm neither recurses nor stops the guest", eoi_08,
            .eoi = repost),
    };

    return cmocka_run_group_tests_name("cases EOI", tests, NULL, NULL) != 0;
}
