/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind GAL: GA log, remapping entries, posted interrupts. GAL-04 (a
 * torn entry) is race_irte and step/irte; GAL-12 (a host that moves its own
 * interrupt) has no host affinity here: an entry changes by its route alone.
 */

#include <errno.h>

#include "../hv/post_rig.h"

#define VECTOR 0x51u
#define WORD   .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 16

static void
blocked(struct rig *rig, uint32_t i)
{
    (void)rig_enter(rig, i, IF);
    rig_exit(rig, i, IF);
    (void)avicemu_vcpu_set_halted(rig->v[i]);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[i]), AVICEMU_SLEEP_YES);
}

/* N + 1 interrupts into a log of N places: recovered, nobody sleeps on. */
static void
gal_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    uint32_t overflows = 0;

    for (uint32_t i = 0; i < 2; i++) {
        (void)avicemu_iommu_route(iommu, DEVICE, i, rig->v[i], VECTOR);
        blocked(rig, i);
    }
    for (uint32_t n = 0; n < 512; n++) {
        overflows += post_raise(iommu, n < 511 ? 0 : 1).nr_overflows;
    }
    assert_int_equal(overflows, 1);
    assert_int_equal(rig->ga_interrupts, 1);
    assert_int_equal(avicemu_iommu_notify(iommu), 511);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(rig->fake[i].wakes, 1);
        assert_true(vec_bit(rig->v[i], R_IRR, VECTOR));
        (void)avicemu_vcpu_block_end(rig->v[i]);
    }
    /* It logs again. */
    rig_drain(rig);
    blocked(rig, 1);
    assert_int_equal(post_raise(iommu, 1).nr_logged, 1);
    (void)avicemu_vcpu_block_end(rig->v[1]);
    rig_drain(rig);
    post_close(iommu);
}

/* Guest mode on, off, on: RemapEn is kept, no interrupt is aborted. */
static void
gal_03(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[0], VECTOR);
    for (int n = 0; n < 6; n++) {
        (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ, n % 2);
        (void)rig_enter(rig, 0, 0);
        rig_exit(rig, 0, 0);
        assert_int_equal(post_raise(iommu, 0).way,
                         n % 2 ? AVICEMU_WAY_INJECTED : AVICEMU_WAY_POSTED);
    }
    assert_int_equal(rig->event_interrupts, 0);
    rig_drain(rig);
    post_close(iommu);
}

/* Three lives of an IOMMU while another thread's notify finds nothing wrong:
 * buffers are its own, and go with it. */
static void
gal_06(void **state)
{
    struct rig *rig = *state;

    for (int n = 0; n < 3; n++) {
        struct avicemu_iommu *iommu = post_open(rig, 0);

        (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[0], VECTOR);
        blocked(rig, 0);
        assert_int_equal(post_raise(iommu, 0).nr_logged, 1);
        assert_int_equal(avicemu_iommu_notify(iommu), 1);
        (void)avicemu_vcpu_block_end(rig->v[0]);
        rig_drain(rig);
        post_close(iommu);
    }
    assert_int_equal(rig->fake[0].wakes, 3);
}

/* Delivery modes 0..7 by a route: fixed and single lowest are posted. */
static void
gal_08(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_irqfd *fd = NULL;
    int token;

    assert_int_equal(avicemu_irqfd_create(rig->vm, 5, &token, &fd), 0);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 0, &token), 0);
    for (uint32_t mode = 0; mode < 8; mode++) {
        const struct avicemu_msi_route route = { 5, mode << 8 | VECTOR,
                                                 0xfee00000 };

        assert_int_equal(avicemu_vm_set_routes(rig->vm, &route, 1), 0);
        assert_int_equal(post_raise(iommu, 0).way,
                         mode < 2 ? AVICEMU_WAY_POSTED : AVICEMU_WAY_INJECTED);
        assert_int_equal(vec_bit(rig->v[0], R_IRR, VECTOR), mode < 2);
        rig_drain(rig);
    }
    assert_int_equal(avicemu_irqfd_destroy(fd), 0);
    assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 0), 0);
    post_close(iommu);
}

/* Posted, then saved without a run; the copy has it. And an inhibit sees it. */
static void
gal_09(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    static unsigned char buffer[65536];
    size_t bytes = 0;

    (void)avicemu_iommu_route(iommu, DEVICE, 0, rig->v[1], VECTOR);
    (void)avicemu_vcpu_put(rig->v[1]);
    (void)post_raise(iommu, 0);
    assert_int_equal(
        avicemu_vcpu_snapshot(rig->v[1], buffer, sizeof(buffer), &bytes), 0);
    rig_drain(rig);
    assert_false(vec_bit(rig->v[1], R_IRR, VECTOR));
    assert_int_equal(avicemu_vcpu_restore(rig->v[1], buffer, bytes), 0);
    assert_true(vec_bit(rig->v[1], R_IRR, VECTOR));
    (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ, 1);
    (void)avicemu_vcpu_load(rig->v[1], 1);
    assert_int_equal(rig_take(rig, 1), VECTOR);
    eoi(rig->v[1]);
    (void)avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_BLOCKIRQ, 0);
    post_close(iommu);
}

#define TWO .nr_vcpus = 2, .avic = RIG_X2AVIC

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("GAL-01 GA-log overflow", gal_01, TWO, WORD),
        RIG_TEST("GAL-03 IRTE enable bit lost", gal_03, TWO, WORD),
        RIG_TEST("GAL-06 log buffers re-made", gal_06, TWO, WORD),
        RIG_TEST("GAL-08 delivery modes that cannot be posted", gal_08, TWO,
                 WORD),
        RIG_TEST("GAL-09 posted bits lost at save or entry", gal_09, TWO, WORD),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
