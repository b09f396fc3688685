/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The vCPU loop of the model: what an entry asks for, what an ack changes,
 * when a halted CPU goes on.
 */

#include "model_lapic.h"

static bool
pin_is_extint(const struct model_vcpu *v, unsigned pin)
{
    uint32_t lvt = model_get(v, M_LINT0 + 0x10 * pin);

    if (model_mode(v) == AVICEMU_APIC_DISABLED) {
        return pin == 0;
    }
    return !(lvt & M_LVT_MASK) && (lvt & 0x700) == 0x700;
}

bool
model_accepts_pic(const struct model_vcpu *v)
{
    return pin_is_extint(v, 0);
}

bool
model_extint_pending(const struct model_vcpu *v)
{
    if (!v->vm->config.has_inta) {
        return false;
    }
    return v->extint_latched || v->extint ||
           (v->pin[0] && pin_is_extint(v, 0)) ||
           (v->pin[1] && pin_is_extint(v, 1));
}

uint8_t
model_inta_vector(uint64_t n)
{
    return (uint8_t)(0x20 + n * 37 % 0xd0);
}

static void
latch_extint(struct model_vcpu *v)
{
    if (!v->extint_latched) {
        v->extint_latched = true;
        v->extint_vector = model_inta_vector(v->calls.intas++);
        v->extint = false;
    }
}

static bool
blocked(uint32_t flags)
{
    return (flags & (AVICEMU_CPU_GIF_CLEAR | AVICEMU_CPU_BUSY)) != 0;
}

static bool
interrupts_open(uint32_t flags)
{
    return !blocked(flags) && (flags & AVICEMU_CPU_IF) &&
           !(flags & AVICEMU_CPU_SHADOW);
}

static bool
nmi_open(uint32_t flags)
{
    return !blocked(flags) &&
           !(flags & (AVICEMU_CPU_NMI_BLOCKED | AVICEMU_CPU_SHADOW));
}

/* The one thing to do now, by priority; 0: nothing. */
static uint32_t
choose(struct model_vcpu *v, uint32_t flags, uint8_t *vector)
{
    if (v->init && !blocked(flags) && !(flags & AVICEMU_CPU_SMI_BLOCKED)) {
        return AVICEMU_DO_INIT;
    }
    if (v->wait_for_sipi) {
        *vector = v->sipi_vector;
        return v->sipi && !v->init && !blocked(flags) ? AVICEMU_DO_SIPI : 0;
    }
    if (v->smi && !blocked(flags) && !(flags & AVICEMU_CPU_SMI_BLOCKED)) {
        return AVICEMU_DO_SMI;
    }
    if (v->nr_nmi && nmi_open(flags)) {
        return AVICEMU_DO_NMI;
    }
    if (!interrupts_open(flags)) {
        return 0;
    }
    if (model_extint_pending(v)) {
        latch_extint(v);
        *vector = v->extint_vector;
        return AVICEMU_DO_EXTINT;
    }
    if (model_deliverable(v) >= 0) {
        *vector = (uint8_t)model_deliverable(v);
        return AVICEMU_DO_INJECT;
    }
    return 0;
}

/* What stays pending behind the choice asks for a window. */
static uint32_t
windows(const struct model_vcpu *v, uint32_t chosen)
{
    bool interrupt = (model_extint_pending(v) && chosen != AVICEMU_DO_EXTINT) ||
                     (model_deliverable(v) >= 0 && chosen != AVICEMU_DO_INJECT);
    unsigned nmis = v->nr_nmi - (chosen == AVICEMU_DO_NMI ? 1 : 0);
    uint32_t what = 0;

    if (v->wait_for_sipi || chosen == AVICEMU_DO_INIT ||
        chosen == AVICEMU_DO_SLEEP) {
        return 0;
    }
    if (interrupt) {
        what |= AVICEMU_DO_WINDOW;
    }
    if (nmis) {
        what |= AVICEMU_DO_NMI_WINDOW;
    }
    return what;
}

static uint8_t
threshold(const struct model_vcpu *v)
{
    int top = model_top_irr(v);
    uint32_t tpr = model_get(v, M_TPR) >> 4;

    if (model_mode(v) == AVICEMU_APIC_DISABLED || top < 0 ||
        (uint32_t)top >> 4 > tpr ||
        (model_top(v->isr) >= 0 && top >> 4 <= model_top(v->isr) >> 4)) {
        return 0;
    }
    return (uint8_t)(top >> 4);
}

/* Does anything that is pending end a halt? */
static bool
halt_ends(const struct model_vcpu *v, uint32_t flags)
{
    if (flags & AVICEMU_CPU_GIF_CLEAR) {
        return false;
    }
    if ((v->init || v->smi) && !(flags & AVICEMU_CPU_SMI_BLOCKED)) {
        return true;
    }
    if (v->nr_nmi && !(flags & AVICEMU_CPU_NMI_BLOCKED)) {
        return true;
    }
    return (flags & AVICEMU_CPU_IF) &&
           (model_extint_pending(v) || model_deliverable(v) >= 0);
}

int
model_enter(struct model_vcpu *v, uint32_t flags, struct avicemu_todo *ret)
{
    uint32_t what;

    if (v->phase != M_OUTSIDE) {
        return -1;
    }
    v->waiting = 0;
    model_look(v);
    ret->vector = 0;
    what = choose(v, flags, &ret->vector);
    if (what == 0) {
        ret->vector = 0;
        if (v->wait_for_sipi || (v->halted && !halt_ends(v, flags) &&
                                 !(flags & AVICEMU_CPU_BUSY))) {
            what = AVICEMU_DO_SLEEP;
        }
    }
    if (what != AVICEMU_DO_SLEEP) {
        v->halted = false;
    }
    ret->what = what | windows(v, what);
    ret->cr8 = (uint8_t)(model_get(v, M_TPR) >> 4);
    ret->tpr_threshold = threshold(v);
    ret->deadline = model_timer_deadline(v);
    v->phase = M_ENTERED;
    v->counts.entries++;
    v->calls.may_kick = false;
    v->calls.must_kick = false;
    return 0;
}

int
model_ack(struct model_vcpu *v, enum avicemu_do what, uint8_t vector)
{
    switch ((uint32_t)what) {
    case AVICEMU_DO_INJECT:
        v->irr[vector] = 0;
        v->isr[vector] = 1;
        v->counts.injected++;
        model_timer_acked(v, vector);
        break;
    case AVICEMU_DO_EXTINT:
        v->extint_latched = false;
        v->counts.extint++;
        break;
    case AVICEMU_DO_NMI:
        v->nr_nmi--;
        v->counts.nmi++;
        break;
    case AVICEMU_DO_SMI:
        v->smi = false;
        v->counts.smi++;
        break;
    case AVICEMU_DO_INIT:
        model_init(v);
        v->counts.init++;
        break;
    case AVICEMU_DO_SIPI:
        if (!v->sipi) {
            return -1; /* an INIT came in between */
        }
        v->sipi = false;
        v->wait_for_sipi = false;
        v->counts.sipi++;
        break;
    default:
        return -1;
    }
    v->halted = false;
    return 0;
}

int
model_exit(struct model_vcpu *v, uint32_t flags, uint32_t cr8)
{
    if (v->phase != M_ENTERED) {
        return -1;
    }
    v->phase = M_OUTSIDE;
    v->flags = flags;
    if (cr8 != model_get(v, M_TPR) >> 4) {
        model_set(v, M_TPR, cr8 << 4);
    }
    return 0;
}

bool
model_runnable(const struct model_vcpu *v)
{
    struct model_vcpu later = *v; /* what it would find: ticks included */

    later.phase = M_OUTSIDE;
    model_look(&later);
    if (later.wait_for_sipi) {
        return !(v->flags & AVICEMU_CPU_GIF_CLEAR) &&
               (later.init ? !(v->flags & AVICEMU_CPU_SMI_BLOCKED)
                           : later.sipi);
    }
    return !later.halted || halt_ends(&later, later.flags);
}

enum avicemu_sleep
model_block_begin(struct model_vcpu *v)
{
    model_look(v);
    if (v->phase != M_OUTSIDE || model_runnable(v)) {
        return AVICEMU_SLEEP_NO;
    }
    v->phase = M_BLOCKED;
    v->counts.blocks++;
    v->calls.may_wake = false;
    v->calls.must_wake = false;
    return AVICEMU_SLEEP_YES;
}

/* Somebody told the library that the deadline may have passed. */
void
model_expire(struct model_vcpu *v)
{
    v->expired = true;
    if (model_timer_deadline(v) > v->vm->now) {
        v->calls.may_kick = v->calls.may_kick || v->phase == M_ENTERED;
        v->calls.may_wake = v->calls.may_wake || v->phase == M_BLOCKED;
        return;
    }
    if (v->phase == M_ENTERED) {
        struct model_vcpu later = *v;
        int before = model_deliverable(v);

        later.phase = M_OUTSIDE;
        model_timer_account(&later);
        v->calls.may_kick = true;
        v->calls.must_kick |= model_deliverable(&later) != before;
    } else if (v->phase == M_BLOCKED) {
        v->calls.may_wake = true;
        v->calls.must_wake |= model_runnable(v);
    }
}
