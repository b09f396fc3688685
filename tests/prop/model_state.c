/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Saving and loading in the model. A snapshot is a copy of the struct; the
 * KVM page is written and read byte by byte as the sheet's section 9.8 says.
 */

#include <string.h>

#include "model_lapic.h"

/*
 * Load a copy that was taken when the clock read saved_now: what remained of a
 * count then remains now; a TSC deadline stays what it is.
 */
void
model_restore(struct model_vcpu *v, const struct model_vcpu *saved,
              uint64_t saved_now)
{
    const struct avicemu_lapic_config *c = &v->vm->config.lapic;
    struct model_vcpu was = *v;

    *v = *saved;
    v->vm = was.vm;
    v->calls = was.calls;
    v->counts = was.counts;
    model_tell_base(v, was.apic_base);
    v->phase = M_OUTSIDE;
    v->expired = false;
    v->tsc_offset = was.tsc_offset; /* the host's setting */
    if (v->running) {
        uint64_t edge = c->now_hz / c->bus_hz;
        uint64_t left =
            v->target > saved_now / edge ? v->target - saved_now / edge : 0;

        v->target = v->vm->now / edge + left;
    }
}

static void
put(struct avicemu_kvm_lapic *page, uint32_t offset, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        page->regs[offset + i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t
get(const struct avicemu_kvm_lapic *page, uint32_t offset)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < 4; i++) {
        value |= (uint32_t)page->regs[offset + i] << 8 * i;
    }
    return value;
}

void
model_export(struct model_vcpu *v, uint32_t flags,
             struct avicemu_kvm_lapic *page)
{
    memset(page, 0, sizeof(*page));
    for (uint32_t offset = 0; offset < 0x400; offset += 0x10) {
        uint32_t value;

        if (offset != M_SELF_IPI && model_peek(v, offset, &value)) {
            put(page, offset, value);
        }
    }
    if (model_mode(v) == AVICEMU_APIC_X2APIC &&
        !(flags & AVICEMU_KVM_32BIT_IDS)) {
        put(page, M_ID, v->x2_id << 24);
    }
}

static void
load_vectors(uint8_t *vectors, const struct avicemu_kvm_lapic *page,
             uint32_t base)
{
    for (uint32_t i = 16; i < 256; i++) {
        vectors[i] = get(page, base + 0x10 * (i >> 5)) >> (i & 31) & 1;
    }
}

/* A count that is over restarts, or as one-shot ends at once [KVM]. */
static void
load_count(struct model_vcpu *v, uint32_t count)
{
    uint32_t initial = model_get(v, M_TMICT);

    if (initial == 0 || model_timer_mode(v) == M_DEADLINE) {
        return;
    }
    if (count > initial || (count == 0 && model_timer_mode(v) == M_PERIODIC)) {
        count = initial;
    }
    model_timer_resume(v, count);
}

/* Onto a vCPU whose APIC_BASE is set already. */
void
model_import(struct model_vcpu *v, const struct avicemu_kvm_lapic *page)
{
    static const uint32_t plain[] = {
        M_TPR,     M_DFR,  M_SVR,   M_ESR,   M_ICR,    M_ICR2,  M_LVTT,
        M_THERMAL, M_PERF, M_LINT0, M_LINT1, M_LVTERR, M_TMICT, M_TDCR,
    };
    uint64_t deadline = v->deadline ? v->deadline : v->waiting;
    uint32_t errors;

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        model_set(v, plain[i], get(page, plain[i]));
    }
    if (model_feature(v, AVICEMU_LAPIC_CMCI)) {
        model_set(v, M_CMCI, get(page, M_CMCI));
    }
    if (model_mode(v) != AVICEMU_APIC_X2APIC) {
        model_set(v, M_ID, get(page, M_ID));
        model_set(v, M_LDR, get(page, M_LDR));
    }
    load_vectors(v->isr, page, M_ISR);
    load_vectors(v->tmr, page, M_TMR);
    load_vectors(v->irr, page, M_IRR);
    model_timer_stop(v);
    model_host_deadline(v, deadline);
    load_count(v, get(page, M_TMCCT));
    errors = v->esr_acc;
    model_lint_evaluate(v, 0);
    model_lint_evaluate(v, 1);
    if (v->esr_acc != errors) {
        model_sync_errors(v); /* an error of the owner's own */
    }
}

void
model_host_deadline(struct model_vcpu *v, uint64_t value)
{
    if (model_timer_mode(v) == M_DEADLINE) {
        v->deadline = value;
        v->waiting = 0;
    } else {
        v->waiting = value;
    }
}
