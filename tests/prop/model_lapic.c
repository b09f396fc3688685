/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The register file of the model: reset values, which registers exist, what
 * they read, priorities, and the two copies of the error status.
 */

#include "model_lapic.h"

#include <string.h>

bool
model_is(const struct model_vcpu *v, enum avicemu_personality who)
{
    return v->vm->config.lapic.personality == who;
}

bool
model_feature(const struct model_vcpu *v, uint32_t feature)
{
    return (v->vm->config.lapic.features & feature) != 0;
}

bool
model_bsp(const struct model_vcpu *v)
{
    return v->initial_id == v->vm->config.bsp_apic_id;
}

enum avicemu_apic_mode
model_mode(const struct model_vcpu *v)
{
    if (!(v->apic_base & M_BASE_EN)) {
        return AVICEMU_APIC_DISABLED;
    }
    return v->apic_base & M_BASE_EXTD ? AVICEMU_APIC_X2APIC
                                      : AVICEMU_APIC_XAPIC;
}

uint32_t
model_get(const struct model_vcpu *v, uint32_t offset)
{
    return v->reg[offset >> 4];
}

void
model_set(struct model_vcpu *v, uint32_t offset, uint32_t value)
{
    v->reg[offset >> 4] = value;
}

bool
model_software_enabled(const struct model_vcpu *v)
{
    return (v->apic_base & M_BASE_EN) != 0 &&
           (model_get(v, M_SVR) & M_SVR_ENABLE) != 0;
}

void
model_vm_init(struct model_vm *vm, const struct model_config *config)
{
    memset(vm, 0, sizeof(*vm));
    vm->config = *config;
}

struct model_vcpu *
model_vcpu_add(struct model_vm *vm, uint32_t apic_id)
{
    struct model_vcpu *v = &vm->vcpus[vm->nr_vcpus];

    memset(v, 0, sizeof(*v));
    v->vm = vm;
    v->index = vm->nr_vcpus++;
    v->initial_id = apic_id;
    model_reset(v);
    return v;
}

/* All registers to their reset values but APIC_BASE, ids and x2APIC LDR. */
void
model_registers_reset(struct model_vcpu *v)
{
    uint32_t id = model_get(v, M_ID);
    uint32_t ldr = model_get(v, M_LDR);

    memset(v->reg, 0, sizeof(v->reg));
    memset(v->irr, 0, sizeof(v->irr));
    memset(v->isr, 0, sizeof(v->isr));
    memset(v->tmr, 0, sizeof(v->tmr));
    model_set(v, M_ID, id);
    if (model_mode(v) == AVICEMU_APIC_X2APIC) {
        model_set(v, M_LDR, ldr);
    }
    model_set(v, M_DFR, 0xffffffff);
    model_set(v, M_SVR, 0xff);
    for (uint32_t lvt = M_LVTT; lvt <= M_LVTERR; lvt += 0x10) {
        model_set(v, lvt, M_LVT_MASK);
    }
    model_set(v, M_CMCI, M_LVT_MASK);
    if (model_feature(v, AVICEMU_LAPIC_LINT0_OPEN) && model_bsp(v)) {
        model_set(v, M_LINT0, 0x700);
    }
    for (uint32_t i = 0; i < 8; i++) {
        model_set(v, M_IER + 0x10 * i, 0xffffffff);
    }
    for (uint32_t i = 0; i < 4; i++) {
        model_set(v, M_EXT_LVT + 0x10 * i, M_LVT_MASK);
    }
    v->esr_acc = 0;
    v->esr_fresh = 0;
    v->esr_spent = false;
    model_timer_stop(v);
}

static void
events_reset(struct model_vcpu *v)
{
    v->nr_nmi = 0;
    v->smi = false;
    v->init = false;
    v->extint = false;
    v->extint_latched = false;
    v->halted = false;
}

uint64_t
model_fresh_base(const struct model_vcpu *v)
{
    return 0xfee00000 | (model_bsp(v) ? M_BASE_BSP : 0) |
           (model_feature(v, AVICEMU_LAPIC_RESET_OFF) ? 0 : M_BASE_EN);
}

void
model_tell_base(struct model_vcpu *v, uint64_t old)
{
    if (old != 0 && old != v->apic_base) {
        v->calls.bases++;
        v->calls.last_base = v->apic_base;
    }
}

void
model_reset(struct model_vcpu *v)
{
    uint64_t old = v->apic_base; /* 0: it is being made */

    v->apic_base = model_fresh_base(v);
    model_tell_base(v, old);
    model_registers_reset(v);
    model_set(v, M_ID, v->initial_id << 24);
    v->x2_id = v->initial_id;
    events_reset(v);
    v->expired = false;
    v->poked = false;
    v->sipi = false;
    v->wait_for_sipi = !model_bsp(v);
    v->flags = 0;
}

/* INIT as the core takes it; a SIPI that came behind it stays. */
void
model_init(struct model_vcpu *v)
{
    model_registers_reset(v);
    events_reset(v);
    v->wait_for_sipi = !model_bsp(v);
    if (!v->wait_for_sipi) {
        v->sipi = false;
    }
}

/* ---- priorities --------------------------------------------------------- */

int
model_top(const uint8_t *vectors)
{
    for (int i = 255; i >= 0; i--) {
        if (vectors[i]) {
            return i;
        }
    }
    return -1;
}

/* The highest requested vector whose IER bit lets it through. */
int
model_top_irr(const struct model_vcpu *v)
{
    for (int i = 255; i >= 0; i--) {
        uint32_t word = (uint32_t)i >> 5;

        if (v->irr[i] && (!model_feature(v, AVICEMU_LAPIC_EXT_SPACE) ||
                          model_get(v, M_IER + 0x10 * word) >> (i & 31) & 1)) {
            return i;
        }
    }
    return -1;
}

static uint32_t
class_of(int vector)
{
    return vector < 0 ? 0 : (uint32_t)vector & 0xf0;
}

uint32_t
model_ppr(const struct model_vcpu *v)
{
    uint32_t tpr = model_get(v, M_TPR);
    uint32_t in_service = class_of(model_top(v->isr));

    return (tpr & 0xf0) >= in_service ? tpr : in_service;
}

uint32_t
model_apr_amd(const struct model_vcpu *v)
{
    uint32_t tpr = model_get(v, M_TPR);
    uint32_t apr = tpr & 0xf0;

    if (class_of(model_top(v->isr)) > apr) {
        apr = class_of(model_top(v->isr));
    }
    if (class_of(model_top(v->irr)) > apr) {
        apr = class_of(model_top(v->irr));
    }
    return apr == (tpr & 0xf0) ? tpr : apr;
}

static uint32_t
apr_intel(const struct model_vcpu *v)
{
    uint32_t tpr = model_get(v, M_TPR);
    uint32_t t = tpr & 0xf0;
    uint32_t i = class_of(model_top(v->irr));
    uint32_t s = class_of(model_top(v->isr));

    if (t >= i && t > s) {
        return tpr;
    }
    return (t & s) > i ? t & s : i;
}

int
model_deliverable(const struct model_vcpu *v)
{
    int top = model_top_irr(v);

    if (model_mode(v) == AVICEMU_APIC_DISABLED || top < 0) {
        return -1;
    }
    return class_of(top) > (model_ppr(v) & 0xf0) ? top : -1;
}

/* ---- what registers read ------------------------------------------------ */

static uint32_t
version(const struct model_vcpu *v)
{
    uint32_t value = model_is(v, AVICEMU_PERSONALITY_AMD)     ? 0x10
                     : model_is(v, AVICEMU_PERSONALITY_INTEL) ? 0x15
                                                              : 0x14;

    value |= model_feature(v, AVICEMU_LAPIC_CMCI) ? 6u << 16 : 5u << 16;
    if (model_feature(v, AVICEMU_LAPIC_DIRECTED_EOI)) {
        value |= 1u << 24;
    }
    if (model_feature(v, AVICEMU_LAPIC_EXT_SPACE)) {
        value |= 1u << 31;
    }
    return value;
}

static uint32_t
vector_word(const uint8_t *vectors, uint32_t offset)
{
    uint32_t first = (offset >> 4 & 7) * 32;
    uint32_t word = 0;

    for (uint32_t i = 0; i < 32; i++) {
        word |= (uint32_t)(vectors[first + i] ? 1 : 0) << i;
    }
    return word;
}

/* Is there such a register in one mode or the other? */
static bool
known(const struct model_vcpu *v, uint32_t offset)
{
    if (offset >= M_EAFR) {
        return model_feature(v, AVICEMU_LAPIC_EXT_SPACE) &&
               (offset <= M_SEOI || (offset >= M_IER && offset < M_EXT_LVT) ||
                (offset >= M_EXT_LVT && offset < M_EXT_LVT + 0x40));
    }
    if (offset == M_SELF_IPI) {
        return model_feature(v, AVICEMU_LAPIC_X2APIC);
    }
    if (offset == M_CMCI) {
        return model_feature(v, AVICEMU_LAPIC_CMCI);
    }
    return offset == M_ID || offset == M_VERSION ||
           (offset >= M_TPR && offset <= M_ESR) ||
           (offset >= M_ICR && offset <= M_TMCCT) || offset == M_TDCR;
}

bool
model_peek(const struct model_vcpu *v, uint32_t offset, uint32_t *ret)
{
    if (!known(v, offset)) {
        return false;
    }
    if (offset >= M_ISR && offset < M_ESR) {
        *ret = vector_word(offset < M_TMR   ? v->isr
                           : offset < M_IRR ? v->tmr
                                            : v->irr,
                           offset);
        return true;
    }
    switch (offset) {
    case M_ID:
        *ret = model_mode(v) == AVICEMU_APIC_X2APIC ? v->x2_id
                                                    : model_get(v, M_ID);
        break;
    case M_VERSION:
        *ret = version(v);
        break;
    case M_PPR:
        *ret = model_ppr(v);
        break;
    case M_APR:
        *ret = model_is(v, AVICEMU_PERSONALITY_AMD)     ? model_apr_amd(v)
               : model_is(v, AVICEMU_PERSONALITY_INTEL) ? apr_intel(v)
                                                        : 0;
        break;
    case M_TMCCT:
        *ret = model_timer_count(v);
        break;
    case M_EAFR:
        *ret = 0x00040007;
        break;
    case M_EOI:
    case M_RRR:
    case M_SELF_IPI:
        *ret = 0;
        break;
    default:
        *ret = model_get(v, offset);
        break;
    }
    return true;
}

/* ---- errors ------------------------------------------------------------- */

void
model_error(struct model_vcpu *v, uint32_t bits)
{
    if (model_is(v, AVICEMU_PERSONALITY_KVM)) {
        return;
    }
    if (!v->esr_spent || model_is(v, AVICEMU_PERSONALITY_AMD)) {
        v->esr_fresh |= bits & ~v->esr_acc;
        v->esr_check |= (bits & ~v->esr_acc) != 0;
    }
    v->esr_acc |= bits;
}

/* The owner looks: raise LVT error for what is new. */
void
model_sync_errors(struct model_vcpu *v)
{
    uint32_t lvt = model_get(v, M_LVTERR);
    bool fixed = !model_is(v, AVICEMU_PERSONALITY_AMD) || !(lvt & 0x700);

    if (!v->esr_check || v->esr_fresh == 0) {
        return;
    }
    v->esr_check = false;
    if (lvt & M_LVT_MASK) {
        v->esr_fresh = 0;
        return;
    }
    v->esr_fresh = 0;
    v->esr_spent = true;
    if (fixed && (lvt & 0xff) < 16) {
        v->esr_acc |= M_ESR_RECV_ILLEGAL;
        return;
    }
    (void)model_lvt_deliver(v, M_LVTERR, false);
}

/* What others left for the owner: errors, a deadline told to be over. */
void
model_look(struct model_vcpu *v)
{
    if (v->expired) {
        v->expired = false;
        model_timer_account(v);
    }
    v->poked = false;
    model_sync_errors(v);
}
