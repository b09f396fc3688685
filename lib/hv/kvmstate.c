/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State in KVM's format [KVM api.rst KVM_GET_LAPIC, KVM_SET_LAPIC]: a 1 KiB
 * page, APIC_BASE and TSC_DEADLINE, settable in any order.
 *
 * Order does not matter because each piece only stores and then everything
 * derived is derived again: mode-dependent ids from APIC_BASE and the initial
 * id; the deadline waits until the LVT is in deadline mode; the TSC offset
 * moves an armed deadline. A count (TMICT, TMCCT) is restarted by the page.
 *
 * Unlike KVM, which takes the page raw, register bits that the model does not
 * have are dropped, and so are IRR and ISR bits below vector 16.
 */

#include <errno.h>
#include <string.h>

#include "hv/snapshot.h"

#define KVM_PAGE_BYTES 1024u

static uint32_t
page_get(const struct avicemu_kvm_lapic *page, uint32_t offset)
{
    const uint8_t *p = page->regs + offset;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void
page_put(struct avicemu_kvm_lapic *page, uint32_t offset, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        page->regs[offset + i] = (uint8_t)(value >> (8 * i));
    }
}

void
ae_kvm_export(struct avicemu_vcpu *vcpu, uint32_t flags,
              struct avicemu_kvm_lapic *ret)
{
    struct ae_lapic *l = &vcpu->lapic;
    uint64_t now = ae_vcpu_now(vcpu);

    memset(ret, 0, sizeof(*ret));
    for (uint32_t offset = 0; offset < KVM_PAGE_BYTES; offset += 16) {
        page_put(ret, offset, ae_lapic_peek(l, offset >> 4, now));
    }
    if (ae_lapic_x2(l) && (flags & AVICEMU_KVM_32BIT_IDS) == 0) {
        page_put(ret, LAPIC_ID, l->x2_id << ID_XAPIC_LOW);
    }
}

/* Bits of a register that an import may set. */
static uint32_t
import_mask(const struct ae_lapic *l, uint32_t offset)
{
    const struct ae_lapic_rule *rule = &l->model->rules[offset >> 4];

    if (offset == LAPIC_IRR || offset == LAPIC_ISR || offset == LAPIC_TMR) {
        return 0xffff0000u;
    }
    if (offset > LAPIC_ISR && offset < LAPIC_ESR) {
        return 0xffffffffu;
    }
    if (rule->handler == AE_REG_ID) {
        return AE_MASK(ID_XAPIC); /* read-only for a guest, not for a host */
    }
    if (rule->handler == AE_REG_LDR) {
        return ae_lapic_ldr_mask(l);
    }
    if (rule->handler == AE_REG_ESR) {
        return 0xff;
    }
    return rule->handler == AE_REG_LVT_LINT ? rule->sticks | AE_MASK(LVT_RIR)
                                            : rule->sticks;
}

static void
import_registers(struct ae_lapic *l, const struct avicemu_kvm_lapic *page)
{
    for (uint32_t offset = 0; offset < KVM_PAGE_BYTES; offset += 16) {
        uint32_t value = page_get(page, offset) & import_mask(l, offset);

        if (l->model->rules[offset >> 4].xapic == AE_REG_NONE ||
            (offset >= LAPIC_ISR && offset < LAPIC_ESR)) {
            continue;
        }
        if (offset == LAPIC_DFR) {
            value |= 0x0fffffffu;
        }
        if (offset == LAPIC_ICR_HIGH) {
            /* Raw: APIC_BASE may come later and say x2APIC. */
            value = page_get(page, offset);
        }
        ae_vapic_write(l->page, offset, value);
    }
    l->imported = true;
    l->imported_id = page_get(page, LAPIC_ID);
    l->imported_ldr = page_get(page, LAPIC_LDR);
}

static void
import_vectors(const struct ae_lapic *l, const struct avicemu_kvm_lapic *page,
               struct ae_lapic_vectors *v)
{
    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        uint32_t offset = i << 4;

        v->isr[i] = page_get(page, LAPIC_ISR + offset) &
                    import_mask(l, LAPIC_ISR + offset);
        v->tmr[i] = page_get(page, LAPIC_TMR + offset) &
                    import_mask(l, LAPIC_TMR + offset);
        v->irr[i] = page_get(page, LAPIC_IRR + offset) &
                    import_mask(l, LAPIC_IRR + offset);
    }
}

/* The timer of a page: TMCCT is what remains of a count that runs. */
static void
import_timer(struct avicemu_vcpu *vcpu, const struct avicemu_kvm_lapic *page)
{
    struct ae_lapic *l = &vcpu->lapic;
    const struct ae_timer_clock *c = &l->model->clock;
    struct ae_timer *t = &l->timer;
    uint32_t mode =
        AE_GET(ae_vapic_read(l->page, LAPIC_LVT_TIMER), LVT_TIMER_MODE);
    uint64_t deadline =
        t->tsc_deadline != 0 ? t->tsc_deadline : l->waiting_deadline;
    uint64_t now = ae_vcpu_now(vcpu);
    uint64_t count = page_get(page, LAPIC_TMCCT);

    ae_timer_reset(t);
    (void)ae_timer_set_mode(c, t, (enum ae_timer_mode)mode);
    ae_timer_set_divide(c, t, now, ae_vapic_read(l->page, LAPIC_TDCR));
    l->waiting_deadline = 0;
    if (t->mode == AE_TIMER_DEADLINE) {
        ae_vapic_write(l->page, LAPIC_TMICT, 0);
        ae_timer_set_deadline(c, t, now, deadline);
        return;
    }
    l->waiting_deadline = deadline;
    t->initial = ae_vapic_read(l->page, LAPIC_TMICT);
    if (count > t->initial || (count == 0 && t->mode == AE_TIMER_PERIODIC)) {
        count = t->initial;
    }
    ae_timer_resume(c, t, now, count << t->shift);
}

int
ae_kvm_import(struct avicemu_vcpu *vcpu, uint32_t flags,
              const struct avicemu_kvm_lapic *page)
{
    struct ae_lapic *l = &vcpu->lapic;
    struct ae_lapic_vectors vectors;
    struct ae_lapic_effects fx = { .what = 0 };

    if (ae_lapic_x2(l) && (flags & AVICEMU_KVM_32BIT_IDS) != 0 &&
        page_get(page, LAPIC_ID) != l->x2_id) {
        return -EINVAL;
    }
    import_vectors(l, page, &vectors);
    ae_lapic_load_vectors(l, &vectors, &fx);
    import_registers(l, page);
    import_timer(vcpu, page);
    if (!ae_lapic_enabled(l)) {
        ae_timer_pause(&l->timer);
    }
    ae_lapic_derive(l, &fx);
    ae_snapshot_book_irr(vcpu, vectors.irr);
    for (unsigned pin = 0; pin < 2; pin++) {
        /* The pins are not in the page: a level that is high goes on. */
        ae_lapic_lint_recheck(l, pin, &fx);
    }
    ae_vcpu_apply(vcpu, &fx);
    return 0;
}

int
ae_kvm_set_base(struct avicemu_vcpu *vcpu, uint64_t value)
{
    struct ae_lapic_effects fx = { .what = 0 };
    bool was_enabled = ae_lapic_enabled(&vcpu->lapic);

    if (ae_lapic_base_write(&vcpu->lapic, value, AE_BASE_HOST,
                            ae_vcpu_now(vcpu), &fx) != AVICEMU_ACCESS_DONE) {
        return -EINVAL;
    }
    for (unsigned pin = 0; !was_enabled && pin < 2; pin++) {
        /* A level that was high while it was off is offered now. */
        ae_lapic_lint_recheck(&vcpu->lapic, pin, &fx);
    }
    ae_vcpu_apply(vcpu, &fx);
    return 0;
}

void
ae_kvm_set_deadline(struct avicemu_vcpu *vcpu, uint64_t value)
{
    struct ae_lapic *l = &vcpu->lapic;
    struct ae_lapic_effects fx = { .what = 0 };

    if (l->timer.mode == AE_TIMER_DEADLINE) {
        ae_timer_set_deadline(&l->model->clock, &l->timer, ae_vcpu_now(vcpu),
                              value);
        l->waiting_deadline = 0;
    } else {
        l->waiting_deadline = value;
    }
    if (!ae_lapic_enabled(l)) {
        ae_timer_pause(&l->timer);
    }
    ae_vcpu_apply(vcpu, &fx);
}

void
ae_kvm_set_tsc_offset(struct avicemu_vcpu *vcpu, uint64_t offset)
{
    struct ae_lapic *l = &vcpu->lapic;
    struct ae_lapic_effects fx = { .what = 0 };

    ae_timer_set_tsc_offset(&l->model->clock, &l->timer, ae_vcpu_now(vcpu),
                            offset);
    if (!ae_lapic_enabled(l)) {
        ae_timer_pause(&l->timer);
    }
    ae_vcpu_apply(vcpu, &fx);
}
