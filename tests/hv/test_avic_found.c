/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hostile reading of AVIC found once, each as the script that showed it.
 *
 * [APM2 15.29.8], [APM2 15.29.9.2], [APM2 16.12], [KVM] inhibit reasons
 */

#include <errno.h>
#include <stdlib.h>

#include "rig.h"

#define EXIT   AVICEMU_ACCESS_EXIT
#define INJECT AVICEMU_DO_INJECT
#define WORD   .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 16

static void
inhibit(struct rig *rig, int on)
{
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, on),
                     0);
}

static int
recheck(struct rig *rig, uint32_t i, enum avicemu_recheck when)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };

    return avicemu_vcpu_recheck(rig->v[i], when, &cpu, &rig->todo);
}

/* ---- an IRR that is empty by definition, and hardware ------------------- */

/* Reset while inhibited, posted by hardware, AVIC active at the entry. */
static void
test_void_at_entry(void **state)
{
    struct rig *rig = *state;

    inhibit(rig, 1);
    (void)rig_run(rig, 0, 0);
    assert_int_equal(avicemu_vcpu_reset(rig->v[0]), 0);
    inhibit(rig, 0);
    icr_send(rig->v[1], 0, ICR_FIXED | 0x41);
    assert_int_equal(rig_take(rig, 0), 0x41);
    assert_int_equal(scan(rig->v[0]), -1);
}

/* The boot CPU takes an INIT in the guest, and runs on. */
static void
test_void_init(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(avicemu_post_mode(rig->v[0], AVICEMU_DELIVERY_INIT, 0),
                     NEW);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_ack(rig->v[0], AVICEMU_DO_INIT, 0), 0);
    icr_send(rig->v[1], 0, ICR_FIXED | 0x41);
    assert_int_equal(recheck(rig, 0, AVICEMU_RECHECK_DOORBELL), 0);
    assert_int_equal(rig->todo.what, INJECT);
    assert_int_equal(avicemu_vcpu_ack(rig->v[0], INJECT, 0x41), 0);
    icr_send(rig->v[1], 0, ICR_FIXED | 0x31);
    rig_exit(rig, 0, IF);
    reg_w(rig->v[0], R_SVR, 0x1ff);
    assert_int_equal(vec_bit(rig->v[0], R_IRR, 0x31), 1);
}

/* What is pending is seen pending: registers, view, snapshot. */
static void
test_void_seen(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu_view view = { .size = sizeof(view) };
    uint8_t buf[AVICEMU_SNAPSHOT_BYTES];
    size_t len;

    assert_int_equal(avicemu_vcpu_reset(rig->v[0]), 0);
    icr_send(rig->v[1], 0, ICR_FIXED | 0x41);
    assert_int_equal(vec_bit(rig->v[0], R_IRR, 0x41), 1);
    assert_int_equal(avicemu_vcpu_view(rig->v[0], &view), 0);
    assert_int_equal(view.pending, 0x41);
    assert_int_equal(avicemu_vcpu_snapshot(rig->v[0], buf, sizeof(buf), &len),
                     0);
    assert_int_equal(avicemu_vcpu_restore(rig->v[0], buf, len), 0);
    assert_int_equal(rig_take(rig, 0), 0x41);
}

/* ---- whose is the id ---------------------------------------------------- */

/* Two vCPUs swap their ids and go to x2APIC mode with them. */
static void
test_swapped_ids(void **state)
{
    struct rig *rig = *state;

    reg_w(rig->v[1], R_ID, 2u << 24);
    reg_w(rig->v[2], R_ID, 1u << 24);
    for (uint32_t i = 0; i < 3; i++) {
        to_x2apic(rig->v[i]);
        (void)rig_run(rig, i, 0);
    }
    assert_int_equal(avicemu_vm_inhibits(rig->vm),
                     1u << AVICEMU_INHIBIT_APIC_ID_MODIFIED);
    icr_send(rig->v[0], 2, ICR_FIXED | 0x41);
    assert_int_equal(vec_bit(rig->v[1], R_IRR, 0x41), 1);
    assert_int_equal(vec_bit(rig->v[2], R_IRR, 0x41), 0);
}

/* A sender that does not enter follows all the same. */
static void
test_outside_follows(void **state)
{
    struct rig *rig = *state;
    uint64_t dropped = rig_stats(rig->v[0]).ipi_dropped;

    reg_w(rig->v[1], R_ID, 7u << 24);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x41);
    assert_int_equal(vec_bit(rig->v[1], R_IRR, 0x41), 0);
    assert_int_equal(rig_stats(rig->v[0]).ipi_dropped, dropped + 1);
}

/* Hardware asks nobody whether he is enabled, so his entry has to say it. */
static void
test_disabled(void **state)
{
    struct rig *rig = *state;

    hw_disable(rig->v[1]);
    assert_int_equal(rig_physical(rig->v[0], 1) & AVICEMU_PHYSICAL_VALID, 0);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x41);
    icr_send(rig->v[0], 0, ICR_OTHERS | 0x42);
    hw_enable(rig->v[1]);
    reg_w(rig->v[1], R_SVR, 0x1ff);
    assert_int_equal(scan(rig->v[1]), -1);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x43);
    assert_int_equal(rig_take(rig, 1), 0x43);
}

/*
 * Modes that are mixed, while only one of them has logical ids, do not inhibit
 * [KVM]: hardware reads a broadcast by its sender's mode, and never looks at
 * the receiver's; a software sender does.
 */
static void
mixed_broadcast(uint32_t avic, int reaches)
{
    struct rig *rig =
        rig_open(&(struct rig_setup){ .avic = avic, .nr_vcpus = 2 });

    to_x2apic(rig->v[1]);
    (void)rig_run(rig, 1, 0);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    icr_send(rig->v[0], 0xff, ICR_FIXED | 0x41);
    assert_int_equal(vec_bit(rig->v[1], R_IRR, 0x41), reaches);
    icr_send(rig->v[1], 0xffffffff, ICR_FIXED | 0x43);
    assert_int_equal(vec_bit(rig->v[0], R_IRR, 0x43), reaches);
    while (rig_take(rig, 0) > 0) {
        eoi(rig->v[0]);
    }
    while (rig_take(rig, 1) > 0) {
        eoi(rig->v[1]);
    }
    rig_close(rig);
}

static void
test_mixed_modes(void **state)
{
    (void)state;
    mixed_broadcast(RIG_X2AVIC, 1);
    mixed_broadcast(0, 0);
}

/* ---- exits that nobody handled yet -------------------------------------- */

static void
test_exit_waits(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };
    uint8_t buf[AVICEMU_SNAPSHOT_BYTES];
    size_t len;

    (void)rig_run(rig, 1, IF);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    (void)rig_enter(rig, 0, IF);
    reg_w(v, R_ICR2, 1u << 24);
    assert_int_equal(reg_try(v, R_ICR, ICR_FIXED | 0x41), EXIT);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &rig->todo), -EBUSY);
    assert_int_equal(avicemu_vcpu_reset(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_snapshot(v, buf, sizeof(buf), &len), -EBUSY);
    assert_int_equal(avicemu_vcpu_restore(v, buf, sizeof(buf)), -EBUSY);
    assert_int_equal(avicemu_vcpu_destroy(v), -EBUSY);
    assert_int_equal(rig->fake[1].wakes, 0);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
    assert_int_equal(rig->fake[1].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
}

/* ---- who looks again ---------------------------------------------------- */

/* On a host whose doorbells are kicks, what an access lets through kicks. */
static void
test_kick_after_eoi(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    (void)avicemu_post(v, 0x51, EDGE);
    assert_int_equal(rig_take(rig, 0), 0x51);
    (void)avicemu_post(v, 0x41, EDGE);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(rig->todo.what & INJECT, 0);
    reg_w(v, R_EOI, 0);
    assert_int_equal(rig->fake[0].kicks, 1);
    rig_exit(rig, 0, IF);
    assert_int_equal(rig_take(rig, 0), 0x41);
}

static void
test_kick_after_tpr(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x80);
    (void)avicemu_post(v, 0x41, EDGE);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_cr8_write(v, 5), DONE);
    assert_int_equal(rig->fake[0].kicks, 0);
    assert_int_equal(avicemu_cr8_write(v, 3), DONE);
    assert_int_equal(rig->fake[0].kicks, 1);
    rig_exit(rig, 0, IF);
}

/* ---- errors ------------------------------------------------------------- */

/* A VM that is full says so, whatever memory there is. */
static void
test_full(void **state)
{
    struct rig *rig = rig_open(&(struct rig_setup){ .avic = RIG_X2AVIC });
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .flags = AVICEMU_VM_AVIC,
                                        .max_vcpus = 4096 };
    struct avicemu_vcpu **v = calloc(4096, sizeof(struct avicemu_vcpu *));
    struct avicemu_vcpu *more = NULL;
    struct avicemu_vm *vm;

    (void)state;
    assert_non_null(v);
    fake_vmm_config(&rig->vmm, &config);
    assert_int_equal(avicemu_vm_create(rig->host, &config, &vm), 0);
    for (uint32_t i = 0; i < 4096; i++) {
        assert_int_equal(avicemu_vcpu_create(vm, i, &rig->vmm.vcpus[0], &v[i]),
                         0);
    }
    assert_int_equal(avicemu_vcpu_create(vm, 9, NULL, &more), -EEXIST);
    assert_int_equal(avicemu_vcpu_create(vm, 5000, NULL, &more), -EBUSY);
    assert_null(more);
    for (uint32_t i = 0; i < 4096; i++) {
        assert_int_equal(avicemu_vcpu_destroy(v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    free(v);
    rig_close(rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("a reset IRR, AVIC at the entry", test_void_at_entry,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("INIT of a running boot CPU, then IPIs", test_void_init,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("posted behind a reset: seen, saved, taken", test_void_seen,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("swapped ids carried into x2APIC inhibit", test_swapped_ids,
                 .avic = RIG_X2AVIC, .nr_vcpus = 3),
        RIG_TEST("a sender outside follows the inhibit word",
                 test_outside_follows, .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("an APIC that is off gets nothing (AMD)", test_disabled,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("an APIC that is off gets nothing (KVM)", test_disabled,
                 P(KVM), .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("an exit that waits holds everything up", test_exit_waits,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("an EOI that lets a vector through kicks", test_kick_after_eoi,
                 .avic = RIG_X2AVIC),
        RIG_TEST("a CR8 that lets a vector through kicks", test_kick_after_tpr,
                 .avic = RIG_X2AVIC),
        cmocka_unit_test(test_mixed_modes),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests_name("AVIC, found once", tests, NULL, NULL);
}
