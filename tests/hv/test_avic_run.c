/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delivery to vCPUs with AVIC: who is rung, kicked or woken, what a runner
 * finds between two instructions, and what entry asks for.
 *
 * [APM2 15.29.6.1 IPI delivery], [APM2 15.29.8], [APM2 15.29.8.2 doorbell],
 * [KVM avic_ring_doorbell]
 */

#include <errno.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

#define BELL   AVICEMU_RECHECK_DOORBELL
#define ALWAYS AVICEMU_RECHECK_ALWAYS
#define WORD   .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 16
#define INJECT AVICEMU_DO_INJECT

/* As rig_enter(): the result; rig->todo holds what. */
static int
recheck(struct rig *rig, uint32_t i, enum avicemu_recheck when, uint32_t flags)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = flags };

    memset(&rig->todo, 0x5a, sizeof(rig->todo));
    rig->todo.size = sizeof(rig->todo);
    return avicemu_vcpu_recheck(rig->v[i], when, &cpu, &rig->todo);
}

/* The runner looks at its doorbell, and takes this vector. */
static void
expect_rung(struct rig *rig, uint32_t i, uint8_t vector)
{
    assert_int_equal(recheck(rig, i, BELL, IF), 0);
    assert_int_equal(rig->todo.what, INJECT);
    assert_int_equal(rig->todo.vector, vector);
    assert_int_equal(avicemu_vcpu_ack(rig->v[i], INJECT, vector), 0);
    assert_int_equal(recheck(rig, i, BELL, IF), -EAGAIN);
    assert_int_equal(rig->todo.what, 0x5a5a5a5a);
}

/* ---- doorbells that are words ------------------------------------------- */

static void
test_word(void **state)
{
    struct rig *rig = *state;
    struct avicemu_posted posted;

    assert_int_equal(rig_enter(rig, 1, IF), 0);
    assert_int_equal(recheck(rig, 1, BELL, IF), -EAGAIN);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    expect_rung(rig, 1, 0x41);
    assert_int_equal(avicemu_msi(rig->vm, 0xfee00000 | 1 << 12, 0x51, &posted),
                     0);
    assert_int_equal(posted.nr_new, 1);
    expect_rung(rig, 1, 0x51);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    assert_int_equal(rig_stats(rig->v[0]).doorbells, 1);
    expect_rung(rig, 1, 0x61);
    assert_int_equal(avicemu_post(rig->v[1], 0x71, LEVEL), NEW);
    expect_rung(rig, 1, 0x71);
    assert_int_equal(rig->fake[1].kicks, 0);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig->fake[1].wakes, 0);
}

/* What a doorbell does not say still kicks, once. */
static void
test_word_kicks(void **state)
{
    static const enum avicemu_delivery modes[] = {
        AVICEMU_DELIVERY_NMI,
        AVICEMU_DELIVERY_SMI,
        AVICEMU_DELIVERY_INIT,
        AVICEMU_DELIVERY_EXTINT,
    };
    struct rig *rig = *state;

    for (size_t n = 0; n < NR(modes); n++) {
        uint64_t kicks = rig->fake[1].kicks;
        uint8_t vector = (uint8_t)(0x41 + 2 * n);

        (void)rig_enter(rig, 1, IF);
        assert_int_equal(avicemu_post(rig->v[1], vector, EDGE), NEW);
        assert_int_equal(rig->fake[1].kicks, kicks);
        assert_int_equal(avicemu_post_mode(rig->v[1], modes[n], 0), NEW);
        assert_int_equal(rig->fake[1].kicks, kicks + 1);
        assert_int_equal(avicemu_vcpu_expire(rig->v[1]), 0);
        assert_int_equal(rig->fake[1].kicks, kicks + 1);
        assert_int_equal(recheck(rig, 1, BELL, 0), 0); /* of the vector */
        assert_int_equal(recheck(rig, 1, BELL, 0), -EAGAIN);
        vector++;
        assert_int_equal(avicemu_post(rig->v[1], vector, EDGE), NEW);
        assert_int_equal(recheck(rig, 1, BELL, 0), 0); /* kicked, and rung */
        rig_exit(rig, 1, IF);
    }
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_expire(rig->v[0]), 0);
    assert_int_equal(rig->fake[0].kicks, 1);
    rig_exit(rig, 0, IF);
}

/* Without a core, or one without a doorbell, it takes a kick. */
static void
test_word_no_bell(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    assert_int_equal(avicemu_post(rig->v[1], 0x42, EDGE), NEW);
    assert_int_equal(rig->fake[1].kicks, 1);
    assert_int_equal(recheck(rig, 1, ALWAYS, IF), 0);
    assert_int_equal(rig->todo.vector, 0x42);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    (void)rig_enter(rig, 1, IF);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51); /* exit 401h id 1 */
    assert_int_equal(rig->fake[1].kicks, 2);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
}

static void
test_word_far_core(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(avicemu_vcpu_load(rig->v[1], 16), 0); /* of 0..15 */
    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
    (void)rig_enter(rig, 1, IF);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51);
    assert_int_equal(rig->fake[1].kicks, 2);
    rig_exit(rig, 1, IF);
    rig_drain(rig);
}

/* WAK-04: the entry and the doorbell are those of the core where it is now. */
static void
test_word_migrates(void **state)
{
    struct rig *rig = *state;

    for (uint32_t pcpu = 5; pcpu < 9; pcpu++) {
        if (pcpu % 2 == 0) {
            assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
        }
        assert_int_equal(avicemu_vcpu_load(rig->v[1], pcpu), 0);
        (void)rig_enter(rig, 1, IF);
        assert_int_equal(rig_physical(rig->v[1], 1) & 0xfff, pcpu);
        assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
        expect_rung(rig, 1, 0x41);
        icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
        expect_rung(rig, 1, 0x61);
        eoi(rig->v[1]);
        eoi(rig->v[1]);
        rig_exit(rig, 1, IF);
    }
    assert_int_equal(rig->fake[1].kicks, 0);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 0);
}

/* A ring for one who has left is a look in vain for his successor. */
static void
test_word_wrong_core(void **state)
{
    struct rig *rig = *state;

    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    rig_exit(rig, 1, IF);
    assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    assert_int_equal(avicemu_vcpu_load(rig->v[0], 1), 0);
    (void)rig_enter(rig, 0, IF);
    if (recheck(rig, 0, BELL, IF) == 0) {
        assert_int_equal(rig->todo.what, 0);
    }
    rig_exit(rig, 0, IF);
    assert_int_equal(rig_take(rig, 1), 0x41);
}

/* The host knows where it runs, though the table does not say. */
static void
test_word_no_ipiv(void **state)
{
    struct rig *rig = *state;

    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    expect_rung(rig, 1, 0x41);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 1);
    assert_int_equal(rig_stats(rig->v[0]).doorbells, 0);
    expect_rung(rig, 1, 0x61);
    assert_int_equal(rig->fake[1].kicks, 0);
    rig_exit(rig, 1, IF);
}

/* ---- doorbells that are kicks ------------------------------------------- */

static void
test_kick(void **state)
{
    struct rig *rig = *state;

    (void)rig_enter(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    assert_int_equal(avicemu_post(rig->v[1], 0x51, EDGE), NEW);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig_take(rig, 1), 0x61);
    (void)rig_enter(rig, 1, 0);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x71);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 0);
    assert_int_equal(rig_stats(rig->v[0]).doorbells, 2);
    assert_int_equal(rig->fake[1].kicks, 2);
    rig_exit(rig, 1, 0);
    /* Loaded but outside: no call, and the next entry looks. */
    icr_send(rig->v[0], 1, ICR_FIXED | 0x81);
    assert_int_equal(rig->fake[1].kicks, 2);
    assert_int_equal(rig_take(rig, 1), 0x81);
}

/* Blocked: IsRunning is 0, so a post and an IPI wake, once. */
static void
test_blocked(void **state)
{
    struct rig *rig = *state;

    for (unsigned by_ipi = 0; by_ipi < 2; by_ipi++) {
        uint64_t wakes = rig->fake[1].wakes;

        assert_int_equal(rig_run(rig, 1, IF), 0);
        assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
        assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]),
                         AVICEMU_SLEEP_YES);
        assert_int_equal(avicemu_vcpu_runnable(rig->v[1]), 0);
        for (unsigned n = 0; n < 2; n++) {
            if (by_ipi) {
                icr_send(rig->v[0], 1, ICR_FIXED | (0x41 + n));
            } else {
                assert_int_equal(
                    avicemu_post(rig->v[1], (uint8_t)(0x41 + n), EDGE), NEW);
            }
        }
        assert_int_equal(rig->fake[1].wakes, wakes + 1);
        assert_int_equal(avicemu_vcpu_runnable(rig->v[1]), 1);
        assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
        rig_drain(rig);
    }
    assert_int_equal(rig->fake[1].kicks, 0);
}

/* ---- recheck ------------------------------------------------------------ */

struct recheck_row {
    const char *name;
    uint32_t flags, tpr, what;
};

static struct recheck_row recheck_rows[] = {
    { "recheck: IF = 1", IF, 0, INJECT },
    { "recheck: IF = 0", 0, 0, 0 },
    { "recheck: interrupt shadow", IF | AVICEMU_CPU_SHADOW, 0, 0 },
    { "recheck: GIF = 0", IF | AVICEMU_CPU_GIF_CLEAR, 0, 0 },
    { "recheck: an event waits", IF | AVICEMU_CPU_BUSY, 0, 0 },
    { "recheck: an NMI is in service", IF | AVICEMU_CPU_NMI_BLOCKED, 0,
      INJECT },
    { "recheck: TPR of its class", IF, 0x4f, 0 },
    { "recheck: TPR of the class below", IF, 0x3f, INJECT },
};

/* What enter does not ask a window for, recheck delivers once it is open. */
static void
test_recheck(void **state)
{
    const struct recheck_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){ .avic = RIG_X2AVIC, WORD });
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, row->tpr);
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(rig_enter(rig, 0, row->flags), row->what);
    assert_int_equal(rig->todo.tpr_threshold, 0);
    assert_int_equal(recheck(rig, 0, ALWAYS, row->flags), 0);
    assert_int_equal(rig->todo.what, row->what);
    assert_int_equal(rig->todo.vector, row->what != 0 ? 0x41 : 0);
    assert_int_equal(rig->todo.cr8, row->tpr >> 4);
    assert_int_equal(rig->todo.tpr_threshold, 0);
    assert_int_equal(rig->todo.deadline, UINT64_MAX);
    /* Not acked: still there. */
    assert_int_equal(avicemu_cr8_write(v, 0), DONE);
    assert_int_equal(recheck(rig, 0, ALWAYS, IF), 0);
    assert_int_equal(rig->todo.what, INJECT);
    assert_int_equal(avicemu_vcpu_ack(v, INJECT, 0x41), 0);
    assert_int_equal(recheck(rig, 0, ALWAYS, IF), 0);
    assert_int_equal(rig->todo.what, 0);
    rig_exit(rig, 0, IF);
    rig_close(rig);
}

static void
test_recheck_errors(void **state)
{
    struct rig *rig = *state;
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(recheck(rig, 0, ALWAYS, IF), -EBUSY);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_recheck(NULL, ALWAYS, &cpu, &todo), -EINVAL);
    assert_int_equal(avicemu_vcpu_recheck(v, ALWAYS, NULL, &todo), -EINVAL);
    assert_int_equal(avicemu_vcpu_recheck(v, ALWAYS, &cpu, NULL), -EINVAL);
    cpu.size--;
    assert_int_equal(avicemu_vcpu_recheck(v, ALWAYS, &cpu, &todo), -EINVAL);
    cpu.size++;
    todo.size--;
    assert_int_equal(avicemu_vcpu_recheck(v, ALWAYS, &cpu, &todo), -EINVAL);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 1), 0);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(recheck(rig, 0, ALWAYS, IF), -EOPNOTSUPP);
    assert_int_equal(rig->todo.what, 0x5a5a5a5a);
    rig_exit(rig, 0, IF);
}

/* EOI, TPR and CR8 in the guest open the way for what waits. */
static void
test_recheck_opens(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    (void)rig_enter(rig, 0, IF);
    (void)avicemu_post(v, 0x61, EDGE);
    expect_rung(rig, 0, 0x61);
    (void)avicemu_post(v, 0x51, EDGE);
    assert_int_equal(recheck(rig, 0, BELL, IF), 0);
    assert_int_equal(rig->todo.what, 0); /* 61h is in service */
    assert_int_equal(reg_try(v, R_EOI, 0), DONE);
    assert_int_equal(recheck(rig, 0, ALWAYS, IF), 0);
    assert_int_equal(rig->todo.vector, 0x51);
    assert_int_equal(avicemu_vcpu_ack(v, INJECT, 0x51), 0);
    assert_int_equal(reg_try(v, R_EOI, 0), DONE);
    assert_int_equal(reg_try(v, R_TPR, 0x70), DONE);
    (void)avicemu_post(v, 0x62, EDGE);
    assert_int_equal(recheck(rig, 0, BELL, IF), 0);
    assert_int_equal(rig->todo.what, 0);
    assert_int_equal(rig->todo.cr8, 7);
    assert_int_equal(reg_try(v, R_TPR, 0x5f), DONE);
    assert_int_equal(recheck(rig, 0, ALWAYS, IF), 0);
    assert_int_equal(rig->todo.vector, 0x62);
    rig_exit(rig, 0, IF);
    assert_int_equal(reg_r(v, R_TPR), 0x5f);
    assert_int_equal(rig->fake[0].kicks, 0);
}

/* ---- self IPIs ---------------------------------------------------------- */

/* Between enter and exit, what becomes pending rings or kicks; the vCPU's own
 * self IPI as well. [APM2 15.29.8.2] */
static void
self_ipi(struct rig *rig, uint32_t kicks)
{
    struct avicemu_vcpu *v = rig->v[0];

    (void)rig_enter(rig, 0, IF);
    assert_int_equal(reg_try(v, R_ICR, ICR_SELF | 0x51), DONE);
    assert_int_equal(rig->fake[0].kicks, kicks);
    if (kicks == 0) {
        expect_rung(rig, 0, 0x51);
    }
    rig_exit(rig, 0, IF);
}

static void
test_self_word(void **state)
{
    self_ipi(*state, 0);
}

static void
test_self_kick(void **state)
{
    self_ipi(*state, 1);
}

/* ---- windows ------------------------------------------------------------ */

/* A host whose doorbells are kicks cannot evaluate in the guest: it needs the
 * window and the threshold, AVIC or not. */
static void
test_windows(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(rig_run(rig, 0, 0), AVICEMU_DO_WINDOW);
    reg_w(v, R_TPR, 0x50);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig->todo.tpr_threshold, 4);
}

/* An ExtINT, which AVIC cannot deliver, keeps its window. */
static void
test_window_extint(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(avicemu_post_mode(rig->v[0], AVICEMU_DELIVERY_EXTINT, 0),
                     NEW);
    assert_int_equal(avicemu_post(rig->v[0], 0x41, EDGE), NEW);
    assert_int_equal(rig_run(rig, 0, 0), AVICEMU_DO_WINDOW);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    assert_int_equal(rig_take(rig, 0), 0x41);
}

/* ---- who is software-disabled ------------------------------------------- */

/* Hardware asks no receiver: the IPI's bit is set and delivered. A device's
 * interrupt is refused, as without AVIC. */
static void
test_disabled(void **state)
{
    struct rig *rig = *state;

    reg_w(rig->v[1], R_SVR, 0xff);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), DROPPED);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 2);
    assert_int_equal(rig_stats(rig->v[0]).ipi_new, 1);
    assert_int_equal(rig_take(rig, 1), 0x51);
    eoi(rig->v[1]);
    /* Asleep it is woken, too. */
    (void)rig_run(rig, 1, IF);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    assert_int_equal(rig->fake[1].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    assert_int_equal(rig_take(rig, 1), 0x61);
}

/* Nor whether the APIC is on: the bit goes when it is switched on, and the
 * books close (at the rig's end). */
static void
test_off(void **state)
{
    struct rig *rig = *state;

    hw_disable(rig->v[1]);
    (void)rig_run(rig, 1, IF);
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), DROPPED);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 1);
    assert_int_equal(rig_take(rig, 1), -1);
    rig_check(rig);
    hw_enable(rig->v[1]);
    reg_w(rig->v[1], R_SVR, 0x1ff);
    (void)rig_take(rig, 1);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    assert_int_equal(rig_take(rig, 1), 0x61);
}

/* IER is no part of it either. */
static void
test_ier(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_EACR, 1); /* IER enable */
    reg_w(v, R_IER + 0x20, ~(1u << 0x11));
    assert_int_equal(avicemu_post(v, 0x51, EDGE), NEW);
    assert_int_equal(rig_take(rig, 0), 0x51);
    eoi(v);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 1), 0);
    assert_int_equal(avicemu_post(v, 0x51, EDGE), NEW);
    assert_int_equal(rig_take(rig, 0), -1);
}

/* ---- hybrid ------------------------------------------------------------- */

/* Posts ring; the guest's own IPIs exit as MSR writes, and ring as well. */
static void
test_hybrid(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (uint32_t i = 0; i < 2; i++) {
        to_x2apic(rig->v[i]);
        (void)rig_enter(rig, i, IF);
        assert_int_equal(rig_avic(rig, i), AVICEMU_AVIC_HYBRID);
    }
    assert_int_equal(avicemu_post(rig->v[1], 0x41, EDGE), NEW);
    expect_rung(rig, 1, 0x41);
    assert_int_equal(avicemu_msr_write(v, 0x830, 1ull << 32 | 0x61),
                     AVICEMU_ACCESS_EXIT);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITCODE), AVICEMU_EXIT_MSR);
    assert_int_equal(rig_irr_mask(rig, 0x61), 0);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
    expect_rung(rig, 1, 0x61);
    assert_int_equal(rig->fake[1].kicks, 0);
    assert_int_equal(rig_stats(v).doorbells, 0);
    rig_exit(rig, 1, IF);
}

/* ---- across a flip ------------------------------------------------------ */

/* What is pending when AVIC goes is injected, and what is in service ends. */
static void
test_flip_pending(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (int on = 1; on >= 0; on--) {
        (void)rig_enter(rig, 0, IF);
        (void)avicemu_post(v, 0x51, EDGE);
        (void)avicemu_vcpu_recheck(
            v, ALWAYS,
            &(struct avicemu_cpu){ .size = sizeof(struct avicemu_cpu),
                                   .flags = IF },
            &rig->todo);
        assert_int_equal(avicemu_vcpu_ack(v, INJECT, 0x51), 0);
        (void)avicemu_post(v, 0x41, EDGE);
        (void)avicemu_post(v, 0x61, EDGE);
        rig_exit(rig, 0, IF);
        assert_int_equal(
            avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, on), 0);
        assert_int_equal(rig_take(rig, 0), 0x61);
        assert_int_equal(rig_avic(rig, 0) == AVICEMU_AVIC_OFF, on);
        assert_int_equal(reg_r(v, R_PPR), 0x60);
        eoi(v);
        assert_int_equal(rig_take(rig, 0), -1);
        assert_int_equal(reg_r(v, R_PPR), 0x50);
        eoi(v);
        assert_int_equal(rig_take(rig, 0), 0x41);
        eoi(v);
        assert_int_equal(rig_stats(v).eoi, on ? 3 : 6);
    }
}

/* V1 has no AVIC any more and V0 still has: his IPIs exit, and kick. */
static void
test_flip_half(void **state)
{
    struct rig *rig = *state;

    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 1), 0);
    (void)rig_enter(rig, 1, IF);
    assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_OFF);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
    reg_w(rig->v[0], R_ICR2, 0x01000000);
    assert_int_equal(reg_try(rig->v[0], R_ICR, ICR_FIXED | 0x51),
                     AVICEMU_ACCESS_EXIT);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(rig->v[0], NULL), DONE);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 1);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
    assert_int_equal(rig_take(rig, 1), 0x51);
    /* And back: V1 first. */
    (void)rig_run(rig, 0, IF);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 0), 0);
    eoi(rig->v[1]);
    (void)rig_enter(rig, 1, IF);
    assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_XAVIC);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_OFF);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x61);
    expect_rung(rig, 1, 0x61);
    assert_int_equal(rig->fake[1].kicks, 1);
    rig_exit(rig, 1, IF);
}

#define AVIC .avic = RIG_X2AVIC

static int
run_rechecks(void)
{
    struct CMUnitTest tests[NR(recheck_rows)];

    for (size_t i = 0; i < NR(recheck_rows); i++) {
        tests[i] = (struct CMUnitTest){ .name = recheck_rows[i].name,
                                        .test_func = test_recheck,
                                        .initial_state = &recheck_rows[i] };
    }
    return cmocka_run_group_tests_name("AVIC recheck", tests, NULL, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("word: a vector rings, and kicks nobody", test_word, AVIC,
                 .nr_vcpus = 2, WORD),
        RIG_TEST("word: NMI, SMI, INIT, ExtINT and timers kick",
                 test_word_kicks, AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("word: on no core, a vector kicks", test_word_no_bell, AVIC,
                 .nr_vcpus = 2, WORD),
        RIG_TEST("word: on a core without a doorbell, a vector kicks",
                 test_word_far_core, AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("word: WAK-04 the doorbell of where it is now",
                 test_word_migrates, AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("word: a ring for one who has left", test_word_wrong_core,
                 AVIC, .nr_vcpus = 2, WORD),
        RIG_TEST("word: IPI virtualisation off", test_word_no_ipiv, AVIC,
                 .nr_vcpus = 2, WORD, .flags = AVICEMU_VM_NO_IPIV),
        RIG_TEST("kick: once per entry, by posts and IPIs", test_kick, AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("blocked: woken once (kick)", test_blocked, AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("blocked: woken once (word)", test_blocked, AVIC,
                 .nr_vcpus = 2, WORD),
        RIG_TEST("recheck: what it refuses", test_recheck_errors, AVIC, WORD),
        RIG_TEST("recheck: EOI, TPR and CR8 open the way", test_recheck_opens,
                 AVIC, WORD),
        RIG_TEST("a self IPI rings the own doorbell", test_self_word, AVIC,
                 WORD),
        RIG_TEST("a self IPI on no core kicks", test_self_kick, AVIC, WORD,
                 .unloaded = 1),
        RIG_TEST("a self IPI kicks where doorbells are kicks", test_self_kick,
                 AVIC),
        RIG_TEST("windows where doorbells are kicks", test_windows, AVIC),
        RIG_TEST("an ExtINT asks for its window", test_window_extint, AVIC,
                 WORD),
        RIG_TEST("a software-disabled target gets its IPI", test_disabled, AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("an IPI to an APIC that is off", test_off, AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("IER takes no part", test_ier, AVIC,
                 .lapic.features =
                     AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_EXT_SPACE),
        RIG_TEST("hybrid: posts ring, IPIs exit", test_hybrid,
                 .avic = RIG_HYBRID, .nr_vcpus = 2, WORD),
        RIG_TEST("half of the vCPUs have followed a flip", test_flip_half, AVIC,
                 .nr_vcpus = 2, WORD),
        RIG_TEST("pending and in service across a flip", test_flip_pending,
                 AVIC, WORD),
    };
    int failed =
        cmocka_run_group_tests_name("AVIC delivery", tests, NULL, NULL);

    return failed + run_rechecks() != 0;
}
