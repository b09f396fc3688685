/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device's interrupt, by what its vCPU does: the table of run states, who is
 * rung, logged, woken or kicked. [KVM posted IRTE lists], [KVM GA log
 * notifier], [KVM AMD IOMMU bring-up]
 */

#include <errno.h>

#include "post_rig.h"

#define WORD   .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 16
#define VECTOR 0x51u

/* What one interrupt does now. */
static void
expect(struct avicemu_iommu *iommu, uint32_t bells, uint32_t logged)
{
    struct avicemu_iommu_posted p = post_raise(iommu, 0);

    assert_int_equal(p.way, AVICEMU_WAY_POSTED);
    assert_int_equal(p.posted.nr_new + p.posted.nr_merged, 1);
    assert_int_equal(p.nr_doorbells, bells);
    assert_int_equal(p.nr_logged, logged);
}

static int
notify(struct avicemu_iommu *iommu)
{
    return avicemu_iommu_notify(iommu);
}

/* Back from the guest, which did HLT. */
static void
halt(struct rig *rig)
{
    (void)rig_enter(rig, 1, IF);
    rig_exit(rig, 1, IF);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
}

/* load, put, block, unblock: IsRun and GALogIntr in each state. */
static void
test_states(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR),
                     0);
    expect(iommu, 1, 0); /* loaded */
    assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    expect(iommu, 0, 0); /* put: GALogIntr is 0 for the preempted */
    assert_int_equal(avicemu_vcpu_load(rig->v[1], 3), 0);
    expect(iommu, 1, 0); /* on another core */
    assert_int_equal(rig->ga_interrupts, 0);
    rig_drain(rig);
    halt(rig);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    expect(iommu, 0, 1); /* blocked: logged, one interrupt */
    assert_int_equal(rig->ga_interrupts, 1);
    expect(iommu, 0, 1);
    assert_int_equal(rig->ga_interrupts, 1);
    assert_int_equal(rig->fake[1].wakes, 0);
    assert_int_equal(notify(iommu), 2);
    assert_int_equal(rig->fake[1].wakes, 1); /* exactly one */
    assert_int_equal(notify(iommu), 0);
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    expect(iommu, 1, 0); /* unblocked: as loaded */
    assert_int_equal(rig_take(rig, 1), VECTOR);
    eoi(rig->v[1]);
    post_close(iommu);
}

/* put or load while it blocks: the entry stays. */
static void
test_preempted_while_blocked(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    halt(rig);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    (void)avicemu_vcpu_put(rig->v[1]);
    expect(iommu, 0, 1);
    (void)avicemu_vcpu_load(rig->v[1], 5);
    expect(iommu, 0, 1);
    (void)avicemu_vcpu_put(rig->v[1]);
    (void)avicemu_vcpu_block_end(rig->v[1]);
    expect(iommu, 0, 0);
    rig_drain(rig);
    post_close(iommu);
}

/* It blocks with something pending, or is posted to just before: no sleep. */
static void
test_block_sees_bit(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    halt(rig);
    expect(iommu, 1, 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_NO);
    rig_drain(rig);
    post_close(iommu);
}

/* In the guest: the word is rung; without a core's word, the log tells. */
static void
test_in_guest(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    (void)rig_enter(rig, 1, IF);
    expect(iommu, 1, 0);
    rig->todo.size = sizeof(rig->todo);
    assert_int_equal(avicemu_vcpu_recheck(rig->v[1], AVICEMU_RECHECK_DOORBELL,
                                          &cpu, &rig->todo),
                     0);
    assert_int_equal(rig->todo.vector, VECTOR);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    /* Not loaded: it enters all the same. */
    (void)avicemu_vcpu_put(rig->v[1]);
    (void)rig_enter(rig, 1, IF);
    expect(iommu, 0, 1);
    assert_int_equal(notify(iommu), 1);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    /* On a core beyond the words. */
    (void)avicemu_vcpu_load(rig->v[1], 100);
    (void)rig_enter(rig, 1, IF);
    expect(iommu, 0, 1);
    assert_int_equal(notify(iommu), 1);
    assert_int_equal(rig->fake[1].kicks, 2);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    post_close(iommu);
}

/* Doorbells that are kicks: once per entry, outside none. */
static void
test_kicks(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    (void)post_raise(iommu, 0);
    assert_int_equal(rig->fake[1].kicks, 0);
    rig_drain(rig);
    (void)rig_enter(rig, 1, IF);
    (void)post_raise(iommu, 0);
    (void)post_raise(iommu, 0);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig->ga_interrupts, 0);
    rig_drain(rig);
    post_close(iommu);
}

/* AVIC off and on, in each state; counts go on. */
static void
test_flips(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_iommu_posted p;

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ, 1);
    (void)rig_enter(rig, 1, IF); /* it follows here */
    p = post_raise(iommu, 0);
    assert_int_equal(p.way, AVICEMU_WAY_INJECTED);
    assert_int_equal(p.posted.nr_new, 1);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig_take(rig, 1), VECTOR);
    eoi(rig->v[1]);
    /* Blocked without AVIC. */
    (void)avicemu_vcpu_set_halted(rig->v[1]);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    (void)post_raise(iommu, 0);
    assert_int_equal(rig->fake[1].wakes, 1);
    (void)avicemu_vcpu_block_end(rig->v[1]);
    assert_int_equal(rig_take(rig, 1), VECTOR);
    eoi(rig->v[1]);
    /* A route made meanwhile is on the list, too. */
    (void)avicemu_iommu_route(iommu, DEVICE, 1, rig->v[1], VECTOR + 1);
    (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ, 0);
    (void)rig_enter(rig, 1, IF);
    for (uint32_t i = 0; i < 2; i++) {
        p = post_raise(iommu, i);
        assert_int_equal(p.way, AVICEMU_WAY_POSTED);
        assert_int_equal(p.nr_doorbells, 1);
    }
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    post_close(iommu);
}

/* A VM without AVIC is injected into. */
static void
test_without_avic(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_vm_config config = { .size = sizeof(config) };
    struct fake_vmm vmm;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu;
    struct avicemu_iommu_posted p;

    fake_vmm_init(&vmm);
    fake_vmm_config(&vmm, &config);
    assert_int_equal(avicemu_vm_create(rig->host, &config, &vm), 0);
    assert_int_equal(avicemu_vcpu_create(vm, 0, &vmm.vcpus[0], &vcpu), 0);
    reg_w(vcpu, R_SVR, 0x1ff);
    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, 0, vcpu, VECTOR), 0);
    p = post_raise(iommu, 0);
    assert_int_equal(p.way, AVICEMU_WAY_INJECTED);
    assert_true(vec_bit(vcpu, R_IRR, VECTOR));
    /* Destroyed while it is the target: the host's from then on. */
    assert_int_equal(avicemu_vcpu_destroy(vcpu), 0);
    p = post_raise(iommu, 0);
    assert_int_equal(p.way, AVICEMU_WAY_HOST);
    assert_int_equal(p.posted.nr_dropped, 1);
    assert_int_equal(rig->host_interrupts, 1);
    assert_int_equal(rig->host_index, DEVICE << 16);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    post_close(iommu);
}

/* A new target: nothing goes to the old one, what is there stays. */
static void
test_retarget(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    expect(iommu, 1, 0);
    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[2], VECTOR + 16);
    expect(iommu, 1, 0);
    assert_true(vec_bit(rig->v[1], R_IRR, VECTOR));
    assert_false(vec_bit(rig->v[1], R_IRR, VECTOR + 16));
    assert_true(vec_bit(rig->v[2], R_IRR, VECTOR + 16));
    /* The old one's moves leave the entry alone. */
    (void)avicemu_vcpu_put(rig->v[1]);
    expect(iommu, 1, 0);
    (void)avicemu_vcpu_put(rig->v[2]);
    expect(iommu, 0, 0);
    /* Un-posted, and again. */
    (void)avicemu_iommu_route(iommu, DEVICE, 0, NULL, 0);
    assert_int_equal(post_raise(iommu, 0).way, AVICEMU_WAY_HOST);
    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    expect(iommu, 0, 0);
    rig_drain(rig);
    post_close(iommu);
}

/* A log that overflows: every vCPU with a bit is woken by the recovery. */
static void
test_overflow(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_iommu_stats stats = { .size = sizeof(stats) };
    uint32_t overflows = 0;

    for (uint32_t i = 0; i < 3; i++) {
        (void)avicemu_iommu_route(iommu, DEVICE, i, rig->v[i], VECTOR);
        (void)rig_enter(rig, i, IF);
        rig_exit(rig, i, IF);
        (void)avicemu_vcpu_set_halted(rig->v[i]);
        assert_int_equal(avicemu_vcpu_block_begin(rig->v[i]),
                         AVICEMU_SLEEP_YES);
    }
    for (uint32_t n = 0; n < 511; n++) {
        overflows += post_raise(iommu, 0).nr_overflows;
    }
    assert_int_equal(overflows, 0);
    assert_int_equal(post_raise(iommu, 1).nr_overflows, 1);
    assert_int_equal(post_raise(iommu, 2).nr_overflows, 0); /* it is off */
    assert_int_equal(rig->ga_interrupts, 1);
    assert_int_equal(notify(iommu), 511);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rig->fake[i].wakes, 1);
        (void)avicemu_vcpu_block_end(rig->v[i]);
    }
    (void)avicemu_iommu_stats(iommu, &stats);
    assert_int_equal(stats.entries, 511);
    assert_int_equal(stats.overflows, 1);
    assert_int_equal(stats.scanned, 3);
    assert_int_equal(stats.unknown, 0);
    assert_int_equal(stats.wakes, 3);
    /* It logs again. */
    (void)avicemu_vcpu_set_halted(rig->v[0]);
    rig_drain(rig);
    post_close(iommu);
}

/* The strict cache changes nothing that the guest can see. */
static void
test_cached(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu =
        post_open(rig, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);

    for (unsigned n = 0; n < 50; n++) {
        struct avicemu_vcpu *to = rig->v[n % 3];
        uint8_t vector = (uint8_t)(VECTOR + n);

        (void)avicemu_iommu_route(iommu, DEVICE, 0, to, vector);
        (void)post_raise(iommu, 0);
        assert_true(vec_bit(to, R_IRR, vector));
        if (n % 5 == 0) {
            (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ,
                                     n % 2 == 0);
            for (uint32_t i = 0; i < 3; i++) {
                (void)rig_enter(rig, i, 0);
                rig_exit(rig, i, 0);
            }
        }
    }
    rig_drain(rig);
    post_close(iommu);
}

/* Two IOMMUs for one vCPU; each has a log of its own. */
static void
test_several(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *one = post_open(rig, 0), *two = post_open(rig, 0);

    (void)avicemu_iommu_route(one, DEVICE, 0, rig->v[1], VECTOR);
    (void)avicemu_iommu_route(two, DEVICE, 0, rig->v[1], VECTOR + 1);
    halt(rig);
    (void)avicemu_vcpu_block_begin(rig->v[1]);
    expect(one, 0, 1);
    expect(two, 0, 1);
    assert_int_equal(rig->ga_interrupts, 2);
    assert_int_equal(notify(two), 1);
    assert_int_equal(notify(one), 1);
    assert_int_equal(rig->fake[1].wakes, 1);
    (void)avicemu_vcpu_block_end(rig->v[1]);
    rig_drain(rig);
    post_close(one);
    post_close(two);
}

/* Destroyed while posted to, blocked: the log's entry finds nobody. */
static void
test_destroy(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_iommu_stats stats = { .size = sizeof(stats) };
    uint32_t last = rig->nr_vcpus - 1;

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[last], VECTOR);
    (void)rig_enter(rig, last, IF);
    rig_exit(rig, last, IF);
    (void)avicemu_vcpu_set_halted(rig->v[last]);
    (void)avicemu_vcpu_block_begin(rig->v[last]);
    expect(iommu, 0, 1);
    (void)avicemu_vcpu_block_end(rig->v[last]);
    rig_drain(rig);
    assert_int_equal(avicemu_vcpu_destroy(rig->v[last]), 0);
    rig->nr_vcpus--;
    assert_int_equal(notify(iommu), 1);
    (void)avicemu_iommu_stats(iommu, &stats);
    assert_int_equal(stats.unknown, 1);
    assert_int_equal(post_raise(iommu, 0).way, AVICEMU_WAY_HOST);
    post_close(iommu);
}

#define THREE .nr_vcpus = 3, .avic = RIG_X2AVIC

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("load, put, block, unblock", test_states, THREE, WORD),
        RIG_TEST("preempted or loaded while blocked: nothing changes",
                 test_preempted_while_blocked, THREE, WORD),
        RIG_TEST("the block check comes last", test_block_sees_bit, THREE,
                 WORD),
        RIG_TEST("in the guest: rung, or told by the log", test_in_guest, THREE,
                 WORD),
        RIG_TEST("doorbells that are kicks", test_kicks, THREE),
        RIG_TEST("AVIC off and on moves every entry", test_flips, THREE, WORD),
        RIG_TEST("without AVIC software injects", test_without_avic, THREE,
                 WORD),
        RIG_TEST("a new target", test_retarget, THREE, WORD),
        RIG_TEST("a new target, kicks", test_cached, THREE),
        RIG_TEST("overflow: restart, then scan", test_overflow, THREE, WORD),
        RIG_TEST("the strict cache", test_cached, THREE, WORD),
        RIG_TEST("several IOMMUs", test_several, THREE, WORD),
        RIG_TEST("destroyed while posted to", test_destroy, THREE, WORD),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
