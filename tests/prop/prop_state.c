/* SPDX-License-Identifier: BSD-2-Clause */

/* Saving, loading, resets, and calls in the wrong phase. */

#include <errno.h>
#include <string.h>

#include "prop.h"

static void
reset(struct prop_run *run, unsigned i)
{
    prop_outside(run, i);
    model_reset(&run->model.vcpus[i]);
    prop_same(run, "avicemu_vcpu_reset", i,
              (uint64_t)avicemu_vcpu_reset(run->vcpus[i]), 0);
    run->flags_known[i] = false;
}

static void
save(struct prop_run *run, unsigned i, struct prop_saved *slot)
{
    prop_outside(run, i);
    slot->valid = true;
    slot->vcpu = i;
    slot->model = run->model.vcpus[i];
    slot->now = run->model.now;
    prop_same(run, "avicemu_vcpu_snapshot", i,
              (uint64_t)avicemu_vcpu_snapshot(run->vcpus[i], slot->bytes,
                                              sizeof(slot->bytes), &slot->len),
              0);
}

static void
restore(struct prop_run *run, const struct prop_saved *slot)
{
    unsigned i = slot->vcpu;
    struct model_vcpu *m = &run->model.vcpus[i];

    prop_outside(run, i);
    model_restore(m, &slot->model, slot->now);
    prop_same(
        run, "avicemu_vcpu_restore", i,
        (uint64_t)avicemu_vcpu_restore(run->vcpus[i], slot->bytes, slot->len),
        0);
    run->flags_known[i] = false;
}

/* Every vCPU into a new VM of the same configuration. */
static void
migrate(struct prop_run *run)
{
    static struct prop_saved all[MODEL_MAX_VCPUS];

    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        save(run, i, &all[i]);
    }
    prop_destroy_vm(run);
    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        run->fake.vcpus[i].last_deadline = UINT64_MAX;
        memset(&run->model.vcpus[i].counts, 0,
               sizeof(run->model.vcpus[i].counts));
    }
    if (!prop_create_vm(run)) {
        return;
    }
    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        uint64_t offset = run->model.vcpus[i].tsc_offset;

        prop_same(run, "set TSC offset", i,
                  (uint64_t)avicemu_vcpu_set_tsc_offset(run->vcpus[i], offset),
                  0);
        run->model.vcpus[i].apic_base = model_fresh_base(&run->model.vcpus[i]);
        restore(run, &all[i]);
    }
}

/* ---- the KVM format ----------------------------------------------------- */

struct kvm_state {
    struct avicemu_kvm_lapic page;
    uint64_t base, deadline, offset;
    uint32_t flags;
    bool has_deadline;
};

static void
load_piece(struct prop_run *run, unsigned i, const struct kvm_state *s,
           unsigned piece)
{
    struct avicemu_vcpu *v = run->vcpus[i];

    switch (piece) {
    case 0:
        prop_same(run, "import", i,
                  (uint64_t)avicemu_vcpu_import_kvm(v, s->flags, &s->page), 0);
        break;
    case 1:
        prop_same(run, "set APIC_BASE", i,
                  (uint64_t)avicemu_vcpu_set_apic_base(v, s->base), 0);
        break;
    case 2:
        if (s->has_deadline) {
            prop_same(run, "set TSC_DEADLINE", i,
                      (uint64_t)avicemu_vcpu_set_tsc_deadline(v, s->deadline),
                      0);
        }
        break;
    default:
        prop_same(run, "set TSC offset", i,
                  (uint64_t)avicemu_vcpu_set_tsc_offset(v, s->offset), 0);
        break;
    }
}

static void
load_model(struct prop_run *run, unsigned i, const struct kvm_state *s)
{
    struct model_vcpu *m = &run->model.vcpus[i];

    m->tsc_offset = s->offset;
    (void)model_host_apic_base(m, s->base);
    model_import(m, &s->page);
    if (s->has_deadline) {
        model_host_deadline(m, s->deadline);
    }
}

/* In any order of the four pieces; order is 0..23. */
static void
load_library(struct prop_run *run, unsigned i, const struct kvm_state *s,
             unsigned order)
{
    unsigned left[4] = { 0, 1, 2, 3 };

    for (unsigned n = 4; n > 0; n--) {
        unsigned at = order % n;

        order /= n;
        load_piece(run, i, s, left[at]);
        left[at] = left[n - 1];
    }
}

static void
round_trip(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    struct model_vcpu *m = &run->model.vcpus[i];
    struct avicemu_kvm_lapic wanted;
    struct kvm_state s = { .flags = op->a & 1 ? AVICEMU_KVM_32BIT_IDS : 0 };

    prop_outside(run, i);
    if (m->x2_id != m->initial_id) {
        return; /* an id that the KVM format cannot carry */
    }
    model_export(m, s.flags, &wanted);
    prop_same(
        run, "export", i,
        (uint64_t)avicemu_vcpu_export_kvm(run->vcpus[i], s.flags, &s.page), 0);
    for (unsigned n = 0; n < sizeof(wanted.regs); n++) {
        if (wanted.regs[n] != s.page.regs[n]) {
            prop_fail(run,
                      "vcpu %u exported byte %03x: library %02x, model %02x", i,
                      n, s.page.regs[n], wanted.regs[n]);
        }
    }
    s.base = m->apic_base;
    s.offset = m->tsc_offset;
    s.has_deadline = model_feature(m, AVICEMU_LAPIC_TSC_DEADLINE);
    s.deadline = m->deadline ? m->deadline : m->waiting;
    if (op->b) {
        reset(run, i);
    }
    load_library(run, i, &s, op->c);
    load_model(run, i, &s);
    run->flags_known[i] = false;
}

static void
host_deadline(struct prop_run *run, unsigned i, uint64_t value)
{
    struct model_vcpu *m = &run->model.vcpus[i];
    bool has = model_feature(m, AVICEMU_LAPIC_TSC_DEADLINE);

    prop_outside(run, i);
    if (has) {
        model_host_deadline(m, value);
    }
    prop_same(run, "set TSC_DEADLINE", i,
              (uint64_t)avicemu_vcpu_set_tsc_deadline(run->vcpus[i], value),
              (uint64_t)(has ? 0 : -EOPNOTSUPP));
}

/* ---- misuse ------------------------------------------------------------- */

static void
misuse_entered(struct prop_run *run, unsigned i, uint32_t which)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    struct avicemu_vcpu *v = run->vcpus[i];
    uint8_t bytes[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
    int rc;

    switch (which % 6) {
    case 0:
        rc = avicemu_vcpu_enter(v, &cpu, &todo);
        break;
    case 1:
        rc = avicemu_vcpu_reset(v);
        break;
    case 2:
        rc = avicemu_vcpu_set_halted(v);
        break;
    case 3:
        rc = avicemu_vcpu_snapshot(v, bytes, sizeof(bytes), &len);
        break;
    case 4:
        rc = avicemu_vcpu_set_tsc_offset(v, 0);
        break;
    default:
        rc = avicemu_vcpu_destroy(v);
        break;
    }
    prop_same(run, "a call between enter and exit", i, (uint64_t)rc,
              (uint64_t)-EBUSY);
}

static void
misuse_outside(struct prop_run *run, unsigned i, uint32_t which)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .cr8 = 3 };
    struct avicemu_vcpu *v = run->vcpus[i];
    static const uint8_t junk[64] = { 1, 2, 3 };
    int rc, wanted;

    switch (which % 4) {
    case 0:
        rc = avicemu_vcpu_exit(v, &cpu);
        wanted = -EBUSY;
        break;
    case 1:
        rc = avicemu_vcpu_block_end(v);
        wanted = -EBUSY;
        break;
    case 2:
        rc = avicemu_vcpu_restore(v, junk, sizeof(junk));
        wanted = -EPROTO;
        break;
    default:
        rc = avicemu_vcpu_ack(v, AVICEMU_DO_WINDOW, 0);
        wanted = -EINVAL;
        break;
    }
    prop_same(run, "a call in the wrong phase", i, (uint64_t)rc,
              (uint64_t)wanted);
}

void
prop_state_op(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    switch ((uint32_t)op->kind) {
    case PROP_RESET:
        reset(run, i);
        break;
    case PROP_SAVE:
        save(run, i, &run->saved[op->a & 1]);
        break;
    case PROP_RESTORE:
        if (run->saved[op->a & 1].valid) {
            restore(run, &run->saved[op->a & 1]);
        }
        break;
    case PROP_MIGRATE:
        migrate(run);
        break;
    case PROP_KVM:
        round_trip(run, op, i);
        break;
    case PROP_DEADLINE_HOST:
        host_deadline(run, i, op->b);
        break;
    case PROP_TSC_OFFSET:
        prop_outside(run, i);
        run->model.vcpus[i].tsc_offset = op->b;
        prop_same(run, "set TSC offset", i,
                  (uint64_t)avicemu_vcpu_set_tsc_offset(run->vcpus[i], op->b),
                  0);
        break;
    default:
        if (run->model.vcpus[i].phase == M_ENTERED) {
            misuse_entered(run, i, op->a);
        } else if (run->model.vcpus[i].phase == M_OUTSIDE) {
            misuse_outside(run, i, op->a);
        }
        break;
    }
}
