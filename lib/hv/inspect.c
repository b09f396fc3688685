/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking at a vCPU: view, dump, books. All calls are the owner's, without
 * side effects.
 */

#include "hv/inspect.h"

#include "hv/active.h"

void
ae_inspect_view(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_view *ret)
{
    struct ae_lapic *l = &vcpu->lapic;
    /* ORD none: a moment's view. */
    uint32_t events = ae_load_relaxed_u32(&vcpu->events);

    ret->mode = ae_lapic_mode(l);
    ret->apic_base = l->base;
    ret->pending = ae_active_pending(vcpu);
    ret->ppr = ae_vapic_read(l->page, LAPIC_PPR);
    ret->tpr = ae_vapic_read(l->page, LAPIC_TPR);
    ret->nr_nmi = events & AE_EV_NMI_MASK;
    ret->accepts_pic = ae_lapic_accepts_pic(l);
    ret->wait_for_sipi = (events & AE_EV_WFS) != 0;
    ret->halted = vcpu->halted;
    ret->deadline = l->timer.deadline;
}

static void
dump_register(const struct ae_lapic *l, uint32_t slot, uint64_t now,
              struct ae_text *t)
{
    const struct ae_reg_desc *d = ae_reg_find(slot << 4);
    const struct ae_lapic_rule *rule = &l->model->rules[slot];
    uint8_t access = ae_lapic_x2(l) ? rule->x2apic : rule->xapic;
    uint32_t index = d == NULL ? 0 : slot - d->offset / 16u;

    if (d == NULL || access == AE_REG_NONE || access == AE_REG_WO) {
        return;
    }
    if (d->nr_slots > 1) {
        ae_text_add(t, "%03x %s%u = %08x\n", slot << 4, d->name, index,
                    ae_lapic_peek(l, slot, now));
    } else {
        ae_text_add(t, "%03x %s = %08x\n", slot << 4, d->name,
                    ae_lapic_peek(l, slot, now));
    }
}

void
ae_inspect_dump(struct avicemu_vcpu *vcpu, struct ae_text *t)
{
    static const char *const modes[] = { "disabled", "xAPIC", "x2APIC" };
    const struct ae_lapic *l = &vcpu->lapic;
    uint64_t now = ae_vcpu_now(vcpu);
    /* ORD none: a moment's view. */
    uint32_t events = ae_load_relaxed_u32(&vcpu->events);
    uint32_t state = ae_load_relaxed_u32(&vcpu->state);

    ae_text_add(t, "vcpu %u id %xh %s %s base %llx state %x events %x\n",
                vcpu->vcpu_idx, l->initial_id, l->model->traits->name,
                modes[ae_lapic_mode(l)], (unsigned long long)l->base, state,
                events);
    for (uint32_t slot = 0; slot < AE_MAX_SLOTS; slot++) {
        dump_register(l, slot, now, t);
    }
}

void
ae_inspect_books(struct avicemu_vcpu *vcpu, uint8_t vector,
                 struct avicemu_vcpu_books *ret)
{
    const struct ae_books *b = vcpu->books;

    ret->acked = b->acked[vector];
    ret->cleared = b->cleared[vector];
    /* Also of a void IRR: a post that is cleared only by the enable. */
    ret->pending = ae_vapic_test(vcpu->lapic.page, LAPIC_IRR, vector);
    ret->local_new = b->local_new[vector];
    ret->local_merged = b->local_merged[vector];
    ret->ipi_new = b->ipi_new[vector];
    ret->ipi_merged = b->ipi_merged[vector];
    ret->ipi_dropped = b->ipi_dropped[vector];
}

uint64_t
ae_inspect_ipi_new_to(const struct avicemu_vcpu *sender,
                      const struct avicemu_vcpu *target)
{
    /* ORD none: a moment's view. */
    if (sender == NULL) {
        return ae_load_relaxed_u64(&target->books->ipi_new_from_gone);
    }
    /* ORD none: as above. */
    return ae_load_relaxed_u64(
        target == NULL ? &sender->books->ipi_new_to_gone
                       : &sender->books->ipi_new_to[target->vcpu_idx]);
}
