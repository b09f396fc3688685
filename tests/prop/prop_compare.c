/* SPDX-License-Identifier: BSD-2-Clause */

/* Everything that can be seen of a vCPU, library against model. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "prop.h"

/* The first difference is the one that counts. */
void
prop_fail(struct prop_run *run, const char *format, ...)
{
    va_list args;

    if (run->failed) {
        return;
    }
    run->failed = true;
    va_start(args, format);
    vsnprintf(run->message, sizeof(run->message), format, args);
    va_end(args);
}

void
prop_same(struct prop_run *run, const char *what, unsigned vcpu,
          uint64_t library, uint64_t model)
{
    if (library != model) {
        prop_fail(run, "vcpu %u %s: library %" PRIx64 ", model %" PRIx64, vcpu,
                  what, library, model);
    }
}

void
prop_same_posted(struct prop_run *run, const struct avicemu_posted *l,
                 const struct avicemu_posted *m)
{
    if (l->nr_new != m->nr_new || l->nr_merged != m->nr_merged ||
        l->nr_dropped != m->nr_dropped || l->why != m->why) {
        prop_fail(run,
                  "posted: library new %u merged %u dropped %u why %x, "
                  "model %u %u %u %x",
                  l->nr_new, l->nr_merged, l->nr_dropped, l->why, m->nr_new,
                  m->nr_merged, m->nr_dropped, m->why);
    }
}

static void
compare_registers(struct prop_run *run, unsigned i, bool absent_too)
{
    const struct model_vcpu *m = &run->model.vcpus[i];

    for (uint32_t offset = 0; offset < 0x1000; offset += 0x10) {
        uint32_t value = 0;
        uint32_t wanted = 0;
        bool has = model_peek(m, offset, &wanted);
        int rc;

        if (!has && !absent_too) {
            continue;
        }
        rc = avicemu_vcpu_peek(run->vcpus[i], offset, &value);
        if ((rc == 0) != has) {
            prop_fail(run, "vcpu %u peek %03x: library %d, model has it: %d", i,
                      offset, rc, has);
        } else if (has && value != wanted) {
            prop_fail(run, "vcpu %u register %03x: library %08x, model %08x", i,
                      offset, value, wanted);
        }
    }
}

static uint64_t
not_past(const struct prop_run *run, uint64_t deadline)
{
    return deadline < run->model.now ? run->model.now : deadline;
}

static void
compare_view(struct prop_run *run, unsigned i)
{
    const struct model_vcpu *m = &run->model.vcpus[i];
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    prop_same(run, "view", i, (uint64_t)avicemu_vcpu_view(run->vcpus[i], &view),
              0);
    prop_same(run, "mode", i, view.mode, model_mode(m));
    prop_same(run, "APIC_BASE", i, view.apic_base, m->apic_base);
    prop_same(run, "pending", i, (uint64_t)view.pending,
              (uint64_t)model_deliverable(m));
    prop_same(run, "PPR", i, view.ppr, model_ppr(m));
    prop_same(run, "TPR", i, view.tpr, model_get(m, M_TPR));
    prop_same(run, "NMIs", i, view.nr_nmi, m->nr_nmi);
    prop_same(run, "accepts PIC", i, view.accepts_pic, model_accepts_pic(m));
    prop_same(run, "waits for SIPI", i, view.wait_for_sipi, m->wait_for_sipi);
    prop_same(run, "halted", i, view.halted, m->halted);
    prop_same(run, "view's deadline", i, not_past(run, view.deadline),
              not_past(run, model_timer_deadline(m)));
    prop_same(run, "deadline", i,
              not_past(run, avicemu_vcpu_deadline(run->vcpus[i])),
              not_past(run, model_timer_deadline(m)));
}

static void
compare_counts(struct prop_run *run, unsigned i)
{
    const struct model_counts *m = &run->model.vcpus[i].counts;
    struct avicemu_vcpu_stats s = { .size = sizeof(s) };

    prop_same(run, "stats", i, (uint64_t)avicemu_vcpu_stats(run->vcpus[i], &s),
              0);
    prop_same(run, "entries", i, s.entries, m->entries);
    prop_same(run, "injected", i, s.injected, m->injected);
    prop_same(run, "ExtINTs acked", i, s.extint, m->extint);
    prop_same(run, "NMIs acked", i, s.nmi, m->nmi);
    prop_same(run, "SMIs acked", i, s.smi, m->smi);
    prop_same(run, "INITs acked", i, s.init, m->init);
    prop_same(run, "SIPIs acked", i, s.sipi, m->sipi);
    prop_same(run, "EOIs", i, s.eoi, m->eoi);
    prop_same(run, "EOI broadcasts", i, s.eoi_broadcast, m->eoi_broadcast);
    prop_same(run, "IPIs sent", i, s.ipi_sent, m->ipi_sent);
    prop_same(run, "IPIs new", i, s.ipi_new, m->ipi_new);
    prop_same(run, "IPIs merged", i, s.ipi_merged, m->ipi_merged);
    prop_same(run, "IPIs dropped", i, s.ipi_dropped, m->ipi_dropped);
    prop_same(run, "#GPs", i, s.gp, m->gp);
    prop_same(run, "odd writes", i, s.mmio_odd, m->mmio_odd);
    prop_same(run, "blocks", i, s.blocks, m->blocks);
}

static void
compare_calls(struct prop_run *run, unsigned i)
{
    const struct model_vcpu *m = &run->model.vcpus[i];
    const struct fake_vcpu *f = &run->fake.vcpus[i];
    uint64_t kicks = f->kicks - run->kicks[i];
    uint64_t wakes = f->wakes - run->wakes[i];

    prop_same(run, "EOI callbacks", i, f->eois, m->calls.eois);
    prop_same(run, "last EOI", i, f->last_eoi, m->calls.last_eoi);
    prop_same(run, "INTA callbacks", i, f->intas, m->calls.intas);
    prop_same(run, "APIC_BASE callbacks", i, f->bases, m->calls.bases);
    prop_same(run, "last APIC_BASE", i, f->last_base, m->calls.last_base);
    if (kicks > 1 ||
        (kicks == 1 && (m->phase != M_ENTERED || !m->calls.may_kick))) {
        prop_fail(run, "vcpu %u: %" PRIu64 " kicks for nothing", i, kicks);
    }
    if (kicks == 0 && m->phase == M_ENTERED && m->calls.must_kick) {
        prop_fail(run, "vcpu %u: no kick", i);
    }
    if (wakes > 1 ||
        (wakes == 1 && (m->phase != M_BLOCKED || !m->calls.may_wake))) {
        prop_fail(run, "vcpu %u: %" PRIu64 " wakes for nothing", i, wakes);
    }
    if (wakes == 0 && m->phase == M_BLOCKED && m->calls.must_wake) {
        prop_fail(run, "vcpu %u: no wake", i);
    }
}

void
prop_compare_vcpu(struct prop_run *run, unsigned i, bool absent_too)
{
    const struct model_vcpu *m = &run->model.vcpus[i];
    uint64_t deadline = 0;
    uint64_t wanted = model_timer_mode(m) == M_DEADLINE && m->deadline
                          ? m->deadline
                          : m->waiting;

    compare_registers(run, i, absent_too);
    compare_view(run, i);
    compare_counts(run, i);
    compare_calls(run, i);
    prop_same(run, "CR8", i, avicemu_cr8_read(run->vcpus[i]),
              model_get(m, M_TPR) >> 4);
    (void)avicemu_vcpu_get_tsc_deadline(run->vcpus[i], &deadline);
    prop_same(run, "TSC_DEADLINE", i, deadline, wanted);
    if (m->phase != M_ENTERED && run->flags_known[i] && !run->expired[i] &&
        !m->poked) {
        prop_same(run, "runnable", i, avicemu_vcpu_runnable(run->vcpus[i]) != 0,
                  model_runnable(m));
    }
}

/* All vCPUs, and what the library says about itself. */
void
prop_compare(struct prop_run *run)
{
    char text[160];

    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        prop_compare_vcpu(run, i, true);
    }
    if (avicemu_check_invariants(run->vm, text, sizeof(text)) != 0) {
        prop_fail(run, "invariant: %s", text);
    }
}
