/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local APIC's register file: life, modes, identity, timer, acknowledge
 * and EOI. Local interrupts and errors are in lapic_local.c, guest accesses in
 * lapic_access.c, destination matching in dest.c. It calls nobody: what must
 * happen outside is returned in struct ae_lapic_effects.
 *
 * Models [APM2 16 APIC], [SDM3 10 APIC] and the deviations of Linux KVM; which
 * of them is data (model.c). Left out: delivery status (messages arrive at
 * once, DS reads 0), remote read (absent on modern parts), checksum errors.
 *
 * Modes, APIC_BASE (EN, EXTD) [APM2 16.9 Table 16-5]:
 *
 *      D (0,0) <----> X (1,0) ----> X2 (1,1)      X2 -> X, D -> X2: #GP
 *         ^---------------------------'           (0,1): #GP from anywhere
 *
 * Edges
 *   ident A ae_lapic_publish()  identity -> the map's hints       seq_cst
 *         B hv/apicmap.c        hint -> identity                  seq_cst
 *   post  B ae_lapic_clear()    takes IRR bits as ae_vapic_ack() does
 *
 * Everything here is the owner's. Progress: wait-free.
 */

#include "hw/lapic.h"

#include "base/step.h"

/* ---- identity ----------------------------------------------------------- */

void
ae_lapic_publish(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    uint32_t svr = ae_vapic_read(l->page, LAPIC_SVR);
    uint32_t model = AE_GET(ae_vapic_read(l->page, LAPIC_DFR), DFR_MODEL);
    uint64_t ident = 0;

    ident |= ae_lapic_enabled(l) ? AE_IDENT_EN : 0;
    ident |= ae_lapic_x2(l) ? AE_IDENT_EXTD : 0;
    ident |= (svr & AE_MASK(SVR_ENABLE)) != 0 ? AE_IDENT_SOFT : 0;
    ident |= (svr & AE_MASK(SVR_FOCUS_OFF)) != 0 ? AE_IDENT_FOCUS_OFF : 0;
    ident |= model == 0xf ? AE_IDENT_FLAT : 0;
    ident |= model == 0 ? AE_IDENT_CLUSTER : 0;
    if (!ae_lapic_x2(l)) {
        ident |= AE_GET(ae_vapic_read(l->page, LAPIC_ID), ID_XAPIC) << 8;
        ident |= AE_GET(ae_vapic_read(l->page, LAPIC_LDR), LDR_XAPIC) << 16;
    }
    ident |= (uint64_t)(ae_lapic_x2(l) ? l->x2_id : l->initial_id) << 32;
    if ((ident & AE_IDENT_SOFT) != 0 && ae_lapic_irr_void(l)) {
        /* What late posters left in an IRR that was empty by definition; what
         * comes from here on is a post after the enable. */
        ae_lapic_clear(l, fx);
        l->irr_special &= (uint8_t)~AE_IRR_VOID;
    }
    /* ORD none: senders want an identity that was true at some time; hv's map
     * update orders it for those that look the vCPU up. */
    if (ident != ae_load_relaxed_u64(&l->ident)) {
        /*
         * ORD ident.A: identity, then the map's slots. Partner: ident.B in
         * hv/apicmap.c, which reads a slot, then the identity. If weaker: an
         * IPI finds the new slot and refuses it for the old identity.
         * Test: race_ident.
         */
        ae_store_seqcst_u64(&l->ident, ident);
        AE_STEP(ident_a);
        fx->what |= AE_DID_IDENT;
    }
}

void
ae_lapic_derive(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    ae_vapic_write(l->page, LAPIC_VERSION, l->model->version);
    if (ae_lapic_x2(l)) {
        ae_vapic_write(l->page, LAPIC_ID, l->x2_id);
        ae_vapic_write(l->page, LAPIC_LDR, ae_x2apic_ldr(l->x2_id));
    }
    (void)ae_vapic_update_ppr(l->page);
    l->irr_special &= (uint8_t)~AE_IRR_IER;
    if (ae_lapic_has(l->model, AVICEMU_LAPIC_EXT_SPACE)) {
        for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
            uint32_t ier = ae_vapic_read(l->page, LAPIC_IER0 + (i << 4));

            if ((ier | (i == 0 ? 0xffffu : 0)) != 0xffffffffu) {
                l->irr_special |= AE_IRR_IER;
            }
        }
    }
    ae_lapic_publish(l, fx);
}

/* ---- life --------------------------------------------------------------- */

/* IRR := irr, word by word; what was pending goes to fx->cleared. */
static void
irr_replace(struct ae_lapic *l, const uint32_t irr[AE_VECTOR_WORDS],
            struct ae_lapic_effects *fx)
{
    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        /* ORD post.B: a poster's bit is either taken here, and counted, or
         * stays for later. Partner: post.A. If weaker: counted twice or not
         * at all. Test: race_post. */
        uint32_t lost = ae_exchange_seqcst_u32(
            ae_vapic_word(l->page, LAPIC_IRR + (i << 4)), irr[i]);

        fx->cleared[i] |= lost;
        if (lost != 0) {
            fx->what |= AE_DID_CLEAR;
        }
    }
}

void
ae_lapic_clear(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    static const uint32_t none[AE_VECTOR_WORDS];

    /* TMR first: who posts a level into the emptied IRR looks at TMR again. */
    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        ae_vapic_write(l->page, LAPIC_ISR + (i << 4), 0);
        ae_vapic_write(l->page, LAPIC_TMR + (i << 4), 0);
    }
    irr_replace(l, none, fx);
}

void
ae_lapic_load_vectors(struct ae_lapic *l, const struct ae_lapic_vectors *v,
                      struct ae_lapic_effects *fx)
{
    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        ae_vapic_write(l->page, LAPIC_ISR + (i << 4), v->isr[i]);
        ae_vapic_write(l->page, LAPIC_TMR + (i << 4), v->tmr[i]);
    }
    irr_replace(l, v->irr, fx);
    l->irr_special &= (uint8_t)~AE_IRR_VOID;
}

/*
 * All registers to their reset values, but those that INIT keeps.
 *
 * Posters find it disabled from here on; but one that has read the identity
 * before may set its IRR bit any time later. So IRR is void: empty by
 * definition, for the owner and for whom he shows it to, until the enable
 * (ae_lapic_publish) empties it once more, or a load replaces it. What is found
 * then was posted before the reset and lost to it, and is counted so. A bit
 * that is set later still cannot be told from, and counts as, a post after the
 * enable.
 */
static void
registers_reset(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    /* ORD ident.A: from here on posters find it disabled, before IRR is
     * emptied; ae_lapic_derive() publishes the rest. Partner: ident.B. If
     * weaker: more of them post into the emptied IRR. Test: race_ident. */
    ae_store_seqcst_u64(&l->ident, ae_load_relaxed_u64(&l->ident) &
                                       ~(uint64_t)AE_IDENT_SOFT);
    ae_lapic_clear(l, fx);
    l->irr_special |= l->by_hardware ? 0 : AE_IRR_VOID;
    for (uint32_t slot = 0; slot < AE_MAX_SLOTS; slot++) {
        const struct ae_lapic_rule *r = &l->model->rules[slot];
        uint32_t offset = slot << 4;

        if (r->keep_on_init || (offset >= LAPIC_ISR && offset < LAPIC_ESR)) {
            continue;
        }
        ae_vapic_write(l->page, offset, r->reset);
    }
    if (l->bsp && ae_lapic_has(l->model, AVICEMU_LAPIC_LINT0_OPEN)) {
        /* [KVM] KVM_X86_QUIRK_LINT0_REENABLED: ExtINT, unmasked. */
        ae_vapic_write(l->page, LAPIC_LVT_LINT0, 0x700);
    }
    ae_timer_reset(&l->timer);
    l->waiting_deadline = 0;
    l->imported = false;
    l->error_armed = true;
    l->error_seen = 0;
    /* ORD none: errors that others add now are errors after the reset. */
    ae_store_relaxed_u32(&l->error_hidden, 0);
}

void
ae_lapic_init(struct ae_lapic *l, const struct ae_lapic_model *model,
              void *page, uint32_t initial_id, bool bsp)
{
    struct ae_lapic_effects fx = { .what = 0 };

    *l = (struct ae_lapic){
        .model = model,
        .page = page,
        .initial_id = initial_id,
        .bsp = bsp,
    };
    ae_lapic_reset(l, &fx);
}

void
ae_lapic_reset(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    uint64_t base = AE_APIC_DEFAULT_BASE;

    /* [SDM3 10.4.3] and every emulator reset to enabled; [APM2 16.10] to
     * disabled: a feature bit chooses. */
    if (!ae_lapic_has(l->model, AVICEMU_LAPIC_RESET_OFF)) {
        base |= AE_MASK(APIC_BASE_EN);
    }
    if (l->bsp) {
        base |= AE_MASK(APIC_BASE_BSP);
    }
    l->base = base;
    l->x2_id = l->initial_id;
    registers_reset(l, fx);
    ae_vapic_write(l->page, LAPIC_ID, l->initial_id << ID_XAPIC_LOW);
    ae_lapic_derive(l, fx);
}

void
ae_lapic_init_signal(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    registers_reset(l, fx);
    ae_lapic_derive(l, fx);
}

/* ---- APIC_BASE ---------------------------------------------------------- */

/* Back in xAPIC mode, or enabled: which 8-bit ids? */
static void
id_restart(struct ae_lapic *l, bool was_x2, enum ae_base_access who)
{
    uint32_t id = l->initial_id << ID_XAPIC_LOW;
    /* Leaving x2APIC mode loses all but the id; [KVM] lets LDR stand. */
    bool lost = was_x2 && l->model->traits->disable_resets;
    uint32_t ldr = lost ? 0 : ae_vapic_read(l->page, LAPIC_LDR);

    if (who == AE_BASE_HOST && l->imported) {
        /* The host loads state, its page came first: the order of the two
         * must not matter. */
        id = l->imported_id & AE_MASK(ID_XAPIC);
        ldr = l->imported_ldr & ae_lapic_ldr_mask(l);
    }
    ae_vapic_write(l->page, LAPIC_ID, id);
    ae_vapic_write(l->page, LAPIC_LDR, ldr);
    l->x2_id = l->initial_id;
}

/* Carry the id over a change of mode. */
static void
id_convert(struct ae_lapic *l, bool was_enabled, bool was_x2,
           enum ae_base_access who)
{
    uint32_t id8 = AE_GET(ae_vapic_read(l->page, LAPIC_ID), ID_XAPIC);

    if (!ae_lapic_x2(l)) {
        if ((ae_lapic_enabled(l) && !was_enabled) || was_x2) {
            id_restart(l, was_x2, who);
        }
    } else if (!was_x2) {
        /* Vendors differ where software rewrote the 8-bit id [APM2 16.12]. */
        bool rewritten = was_enabled && id8 != (l->initial_id & 0xffu);

        l->x2_id = rewritten && who == AE_BASE_GUEST &&
                           l->model->traits->id_follows_xapic
                       ? id8
                       : l->initial_id;
        if (who == AE_BASE_GUEST && l->model->traits->disable_resets) {
            /* Of another format from now on; [KVM] lets it stand. */
            ae_vapic_write(l->page, LAPIC_ICR_HIGH, 0);
        }
    }
}

static bool
base_legal(const struct ae_lapic *l, uint64_t value, enum ae_base_access who)
{
    bool en = (value & AE_MASK(APIC_BASE_EN)) != 0;
    bool extd = (value & AE_MASK(APIC_BASE_EXTD)) != 0;

    if ((value & l->model->base_reserved) != 0 || (extd && !en)) {
        return false;
    }
    if (who == AE_BASE_HOST) {
        return true;
    }
    if (ae_lapic_has(l->model, AVICEMU_LAPIC_FIXED_BASE) &&
        (value & ~(uint64_t)0xfff) != ae_lapic_base_page(l)) {
        return false;
    }
    /* X2 -> X and D -> X2 are the two illegal steps. */
    return !(ae_lapic_x2(l) && en && !extd) && !(!ae_lapic_enabled(l) && extd);
}

/* EN 1 -> 0 by the guest: the timer stops in any case; CR8 lives on in TPR. */
static void
disable(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    uint32_t tpr = ae_vapic_read(l->page, LAPIC_TPR);

    if (l->model->traits->disable_resets) {
        registers_reset(l, fx);
        ae_vapic_write(l->page, LAPIC_TPR, tpr);
        return;
    }
    ae_timer_stop(&l->timer);
}

enum avicemu_access
ae_lapic_base_write(struct ae_lapic *l, uint64_t value, enum ae_base_access who,
                    uint64_t now, struct ae_lapic_effects *fx)
{
    bool was_enabled = ae_lapic_enabled(l);
    bool was_x2 = ae_lapic_x2(l);

    if (!base_legal(l, value, who)) {
        return AVICEMU_ACCESS_GP;
    }
    if (who == AE_BASE_GUEST && !l->model->traits->bsp_writable) {
        value &= ~(uint64_t)AE_MASK(APIC_BASE_BSP);
        value |= l->base & AE_MASK(APIC_BASE_BSP);
    }
    if (value == l->base) {
        return AVICEMU_ACCESS_DONE;
    }
    l->base = value;
    if (who == AE_BASE_GUEST) {
        l->imported = false;
        if (was_enabled && !ae_lapic_enabled(l)) {
            disable(l, fx);
        }
    }
    id_convert(l, was_enabled, was_x2, who);
    if (!ae_lapic_enabled(l)) {
        ae_timer_pause(&l->timer);
    } else if (!was_enabled) {
        ae_timer_rearm(&l->model->clock, &l->timer, now);
    }
    ae_lapic_derive(l, fx);
    fx->what |= AE_DID_BASE;
    return AVICEMU_ACCESS_DONE;
}

/* ---- acknowledge and EOI ------------------------------------------------ */

int
ae_lapic_requested(const struct ae_lapic *l)
{
    if (AE_UNLIKELY(l->irr_special != 0)) {
        return ae_lapic_irr_void(l) ? -1 : ae_vapic_highest_enabled(l->page);
    }
    return ae_vapic_highest(l->page, LAPIC_IRR);
}

int
ae_lapic_deliverable(const struct ae_lapic *l, int requested)
{
    if (requested < 0 || !ae_lapic_enabled(l) ||
        ae_vector_class((unsigned)requested) <=
            ae_vector_class(ae_vapic_read(l->page, LAPIC_PPR))) {
        return -1;
    }
    return requested;
}

int
ae_lapic_pending(const struct ae_lapic *l)
{
    return ae_lapic_deliverable(l, ae_lapic_requested(l));
}

bool
ae_lapic_ack(struct ae_lapic *l, uint8_t vector, struct ae_lapic_effects *fx)
{
    if (AE_UNLIKELY(ae_lapic_irr_void(l)) || !ae_vapic_ack(l->page, vector)) {
        return false;
    }
    if (l->timer.backlog != 0 &&
        vector == AE_GET(ae_vapic_read(l->page, LAPIC_LVT_TIMER), LVT_VECTOR)) {
        l->timer.backlog--;
        ae_lapic_local_own(l, LAPIC_LVT_TIMER, fx);
    }
    return true;
}

uint8_t
ae_lapic_inta(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    int vector = ae_lapic_pending(l);

    if (vector < 0 || !ae_lapic_ack(l, (uint8_t)vector, fx)) {
        /* [APM2 16.4.7]: ISR is not set, and there must be no EOI. */
        return (uint8_t)AE_GET(ae_vapic_read(l->page, LAPIC_SVR), SVR_VECTOR);
    }
    return (uint8_t)vector;
}

void
ae_lapic_eoi(struct ae_lapic *l, uint8_t vector, struct ae_lapic_effects *fx)
{
    uint32_t svr = ae_vapic_read(l->page, LAPIC_SVR);
    bool directed = ae_lapic_has(l->model, AVICEMU_LAPIC_DIRECTED_EOI) &&
                    (svr & AE_MASK(SVR_DIRECTED_EOI)) != 0;
    bool level = ae_vapic_test(l->page, LAPIC_TMR, vector);

    ae_vapic_retire(l->page, vector);
    fx->what |= AE_DID_RETIRE;
    fx->eoi_vector = vector;
    if (level && !directed) {
        fx->what |= AE_DID_EOI;
    }
    /* Not only if TMR says level: an edge of the same vector may have cleared
     * it, and the pin would be held off for ever. */
    ae_lapic_lint_eoi(l, 0, vector, fx);
    ae_lapic_lint_eoi(l, 1, vector, fx);
}

bool
ae_lapic_eoi_short(struct ae_lapic *l, bool *retired)
{
    void *page = l->page;
    int vector = ae_vapic_highest(page, LAPIC_ISR);
    uint32_t lints = ae_vapic_read(page, LAPIC_LVT_LINT0) |
                     ae_vapic_read(page, LAPIC_LVT_LINT1);

    *retired = vector >= 0;
    if (vector < 0) {
        return true;
    }
    if (AE_UNLIKELY((lints & AE_MASK(LVT_RIR)) != 0) ||
        ae_vapic_test(page, LAPIC_TMR, (uint8_t)vector)) {
        return false;
    }
    ae_vapic_retire_highest(page, (uint8_t)vector);
    return true;
}

void
ae_lapic_set_tpr(struct ae_lapic *l, uint32_t value)
{
    ae_vapic_write(l->page, LAPIC_TPR, value & 0xffu);
    (void)ae_vapic_update_ppr(l->page);
}

/* ---- timer -------------------------------------------------------------- */

void
ae_lapic_timer_sync(struct ae_lapic *l, uint64_t now,
                    struct ae_lapic_effects *fx)
{
    uint64_t ticks = ae_timer_expire(&l->model->clock, &l->timer, now);

    if (ticks == 0) {
        return;
    }
    if ((ae_vapic_read(l->page, LAPIC_LVT_TIMER) & AE_MASK(LVT_MASK)) != 0) {
        l->timer.backlog = 0; /* nobody misses the ticks of a masked timer */
    }
    fx->ticks = ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
    ae_lapic_local_own(l, LAPIC_LVT_TIMER, fx);
}
