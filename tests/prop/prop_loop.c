/* SPDX-License-Identifier: BSD-2-Clause */

/* The vCPU loop, in lockstep. */

#include "prop.h"

#define VECTORED \
    ((uint32_t)AVICEMU_DO_INJECT | AVICEMU_DO_EXTINT | AVICEMU_DO_SIPI)
#define ACKED (VECTORED | AVICEMU_DO_NMI | AVICEMU_DO_SMI | AVICEMU_DO_INIT)

static uint64_t
not_past(const struct prop_run *run, uint64_t deadline)
{
    return deadline < run->model.now ? run->model.now : deadline;
}

void
prop_enter(struct prop_run *run, unsigned i, uint32_t flags)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = flags };
    struct avicemu_todo l = { .size = sizeof(l) };
    struct avicemu_todo m = { .size = sizeof(m) };

    run->expired[i] = false;
    (void)model_enter(&run->model.vcpus[i], flags, &m);
    prop_same(run, "avicemu_vcpu_enter", i,
              (uint64_t)avicemu_vcpu_enter(run->vcpus[i], &cpu, &l), 0);
    prop_same(run, "todo.what", i, l.what, m.what);
    if (m.what & VECTORED) {
        prop_same(run, "todo.vector", i, l.vector, m.vector);
    }
    prop_same(run, "todo.cr8", i, l.cr8, m.cr8);
    prop_same(run, "todo.tpr_threshold", i, l.tpr_threshold, m.tpr_threshold);
    prop_same(run, "todo.deadline", i, not_past(run, l.deadline),
              not_past(run, m.deadline));
    prop_same(run, "deadline told by ops->arm", i,
              not_past(run, run->fake.vcpus[i].last_deadline),
              not_past(run, m.deadline));
    run->todo[i] = m;
    run->unacked[i] = (m.what & ACKED) != 0;
    run->kicks[i] = run->fake.vcpus[i].kicks;
}

void
prop_ack(struct prop_run *run, unsigned i)
{
    enum avicemu_do what = (enum avicemu_do)(run->todo[i].what & ACKED);
    uint8_t vector = run->todo[i].vector;
    struct model_vcpu *m = &run->model.vcpus[i];
    int wanted;

    if (!run->unacked[i] ||
        (what == AVICEMU_DO_SIPI && m->sipi && m->sipi_vector != vector)) {
        return;
    }
    run->unacked[i] = false;
    wanted = model_ack(m, what, vector);
    prop_same(run, "avicemu_vcpu_ack fails", i,
              avicemu_vcpu_ack(run->vcpus[i], what, vector) != 0, wanted != 0);
}

void
prop_exit(struct prop_run *run, unsigned i, uint32_t flags, uint64_t cr8)
{
    struct model_vcpu *m = &run->model.vcpus[i];
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = flags };

    cpu.cr8 = cr8 < 16 ? (uint32_t)cr8 : model_get(m, M_TPR) >> 4;
    prop_compare_vcpu(run, i, false); /* the kicks */
    run->kicks[i] = run->fake.vcpus[i].kicks;
    (void)model_exit(m, flags, cpu.cr8);
    prop_same(run, "avicemu_vcpu_exit", i,
              (uint64_t)avicemu_vcpu_exit(run->vcpus[i], &cpu), 0);
    run->flags_known[i] = true;
    run->unacked[i] = false;
}

static void
unblock(struct prop_run *run, unsigned i)
{
    prop_compare_vcpu(run, i, false); /* the wakes */
    run->wakes[i] = run->fake.vcpus[i].wakes;
    run->model.vcpus[i].phase = M_OUTSIDE;
    prop_same(run, "avicemu_vcpu_block_end", i,
              (uint64_t)avicemu_vcpu_block_end(run->vcpus[i]), 0);
}

/* Owner's calls other than ack need the vCPU outside the guest. */
void
prop_outside(struct prop_run *run, unsigned i)
{
    switch (run->model.vcpus[i].phase) {
    case M_ENTERED:
        prop_exit(run, i, AVICEMU_CPU_IF, 255);
        break;
    case M_BLOCKED:
        unblock(run, i);
        break;
    case M_OUTSIDE:
        break;
    }
}

static void
run_once(struct prop_run *run, unsigned i, bool ack_late)
{
    prop_outside(run, i);
    prop_enter(run, i, AVICEMU_CPU_IF);
    if (ack_late) {
        bool unacked = run->unacked[i];

        prop_exit(run, i, AVICEMU_CPU_IF, 255);
        run->unacked[i] = unacked;
        prop_ack(run, i);
        return;
    }
    prop_ack(run, i);
    prop_exit(run, i, AVICEMU_CPU_IF, 255);
}

static void
set_halted(struct prop_run *run, unsigned i)
{
    run->model.vcpus[i].halted = true;
    prop_same(run, "avicemu_vcpu_set_halted", i,
              (uint64_t)avicemu_vcpu_set_halted(run->vcpus[i]), 0);
}

static void
block(struct prop_run *run, unsigned i)
{
    enum avicemu_sleep wanted;

    prop_outside(run, i);
    if (!run->flags_known[i]) {
        return;
    }
    run->wakes[i] = run->fake.vcpus[i].wakes;
    run->expired[i] = false;
    wanted = model_block_begin(&run->model.vcpus[i]);
    prop_same(run, "avicemu_vcpu_block_begin", i,
              avicemu_vcpu_block_begin(run->vcpus[i]), wanted);
}

/* Bring a vCPU back to life, whatever happened to it. */
static void
revive(struct prop_run *run, unsigned i)
{
    struct model_vcpu *m = &run->model.vcpus[i];

    prop_outside(run, i);
    if (model_mode(m) == AVICEMU_APIC_DISABLED) {
        uint64_t base = m->apic_base | M_BASE_EN;

        prop_same(run, "enabling APIC_BASE", i,
                  avicemu_msr_write(run->vcpus[i], 0x1b, base),
                  model_msr_write(m, 0x1b, base));
    }
    if (!model_software_enabled(m)) {
        prop_reg_write(run, i, M_SVR, 0x1ff);
    }
    run_once(run, i, false);
    if (m->wait_for_sipi) {
        prop_same(run, "SIPI", i,
                  avicemu_post_mode(run->vcpus[i], AVICEMU_DELIVERY_SIPI, 0x9a),
                  model_post_mode(m, AVICEMU_DELIVERY_SIPI, 0x9a));
        run_once(run, i, false);
    }
}

void
prop_loop_op(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    struct model_vcpu *m = &run->model.vcpus[i];

    switch ((uint32_t)op->kind) {
    case PROP_EXPIRE:
        if (op->b && model_timer_deadline(m) <= 1ull << 60 &&
            model_timer_deadline(m) > run->model.now) {
            run->model.now = model_timer_deadline(m);
            run->fake.now = run->model.now;
        }
        model_expire(m);
        run->expired[i] = true;
        prop_same(run, "avicemu_vcpu_expire", i,
                  (uint64_t)avicemu_vcpu_expire(run->vcpus[i]), 0);
        break;
    case PROP_ENTER:
        prop_outside(run, i);
        prop_enter(run, i, op->a);
        if (op->c) {
            prop_ack(run, i);
        }
        break;
    case PROP_ACK:
        prop_ack(run, i);
        break;
    case PROP_EXIT:
        if (m->phase == M_ENTERED) {
            prop_exit(run, i, op->a, op->b);
        }
        break;
    case PROP_RUN:
        run_once(run, i, op->b != 0);
        break;
    case PROP_HALT:
        prop_outside(run, i);
        if (!m->wait_for_sipi) {
            set_halted(run, i);
        }
        break;
    case PROP_BLOCK:
        prop_outside(run, i);
        if (op->b && !m->wait_for_sipi) {
            set_halted(run, i);
        }
        block(run, i);
        break;
    case PROP_UNBLOCK:
        if (m->phase == M_BLOCKED) {
            unblock(run, i);
        }
        break;
    default:
        revive(run, i);
        break;
    }
}
