/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's own snapshot of a vCPU.
 *
 * Records (base/frame.h): MODEL personality, features, initial id, BSP · BASE
 * APIC_BASE, x2APIC id, TSC_DEADLINE, a deadline that waits · REGS the words
 * of the page up to 530h · TIMER running, remaining bus ticks, backlog · CORE
 * events, halted, latched ExtINT · ERROR accumulator, raised, armed · LINT
 * lines. Time is stored as what remains, the TSC offset not at all: it is the
 * host's.
 *
 * Loading checks everything first and then changes; any bytes are safe. What
 * was pending before a load is lost and counted as cleared, what the snapshot
 * brings counts as local, so the books close over a load.
 */

#include "hv/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/frame.h"

enum tag {
    TAG_MODEL = 1,
    TAG_BASE,
    TAG_REGS,
    TAG_TIMER,
    TAG_CORE,
    TAG_ERROR,
    TAG_LINT
};

#define NR_SAVED_REGS (0x540u / 16)

/* A snapshot, decoded. */
struct image {
    uint64_t base, tsc_deadline, waiting_deadline, remaining;
    uint32_t x2_id;
    uint32_t regs[NR_SAVED_REGS];
    uint32_t running, backlog;
    uint32_t events, halted, latched, extint_vector;
    uint32_t hidden, seen, armed;
    uint32_t lines;
};

/* ---- registers ---------------------------------------------------------- */

/* The bits of a register that can be other than fixed; *fixed: the others. */
static uint32_t
register_bits(const struct ae_lapic *l, uint32_t slot, uint32_t *fixed)
{
    const struct ae_lapic_rule *rule = &l->model->rules[slot];

    *fixed = 0;
    if (rule->handler == AE_REG_DFR) {
        *fixed = 0x0fffffffu;
        return 0xf0000000u;
    }
    if (rule->handler == AE_REG_ESR) {
        return 0xff;
    }
    return rule->sticks | rule->reset |
           (rule->handler == AE_REG_LVT_LINT ? AE_MASK(LVT_RIR) : 0);
}

/* Recomputed at load, or any value at all? */
static bool
register_is_free(uint32_t slot)
{
    uint32_t offset = slot << 4;

    return offset == LAPIC_ID || offset == LAPIC_VERSION ||
           offset == LAPIC_PPR || offset == LAPIC_LDR ||
           offset == LAPIC_ICR_HIGH ||
           (offset >= LAPIC_ISR && offset < LAPIC_ESR);
}

/* Could the register ever hold this value? */
static bool
register_possible(const struct ae_lapic *l, uint32_t slot, uint32_t value)
{
    uint32_t fixed;
    uint32_t bits = register_bits(l, slot, &fixed);

    return register_is_free(slot) || (value & ~bits) == fixed;
}

/* As the register file has it: under AVIC, guests write some words of the page
 * as they like. */
static uint32_t
register_value(const struct ae_lapic *l, uint32_t slot)
{
    uint32_t value = ae_lapic_word(l, slot);
    uint32_t fixed;
    uint32_t bits = register_bits(l, slot, &fixed);

    return register_is_free(slot) ? value : (value & bits) | fixed;
}

/* ---- save --------------------------------------------------------------- */

static void
save_model(const struct avicemu_vcpu *vcpu, struct ae_frame_writer *w)
{
    const struct ae_lapic *l = &vcpu->lapic;

    ae_frame_record(w, TAG_MODEL, 16);
    ae_frame_u32(w, (uint32_t)l->model->personality);
    ae_frame_u32(w, l->model->features);
    ae_frame_u32(w, l->initial_id);
    ae_frame_u32(w, l->bsp);
}

static void
save_lapic(struct avicemu_vcpu *vcpu, struct ae_frame_writer *w)
{
    struct ae_lapic *l = &vcpu->lapic;

    ae_frame_record(w, TAG_BASE, 28);
    ae_frame_u64(w, l->base);
    ae_frame_u32(w, l->x2_id);
    ae_frame_u64(w, l->timer.tsc_deadline);
    ae_frame_u64(w, l->waiting_deadline);
    ae_frame_record(w, TAG_REGS, 4 * NR_SAVED_REGS);
    for (uint32_t slot = 0; slot < NR_SAVED_REGS; slot++) {
        ae_frame_u32(w, register_value(l, slot));
    }
    ae_frame_record(w, TAG_TIMER, 16);
    ae_frame_u32(w, l->timer.running);
    ae_frame_u64(
        w, ae_timer_remaining(&l->model->clock, &l->timer, ae_vcpu_now(vcpu)));
    ae_frame_u32(w, l->timer.backlog);
}

bool
ae_snapshot_save(struct avicemu_vcpu *vcpu, void *buf, size_t bytes,
                 size_t *ret_len)
{
    struct ae_lapic *l = &vcpu->lapic;
    struct ae_frame_writer w;

    ae_frame_begin(&w, buf, bytes);
    save_model(vcpu, &w);
    save_lapic(vcpu, &w);
    ae_frame_record(&w, TAG_CORE, 16);
    /* ORD none: what others add while we save is theirs to add again. */
    ae_frame_u32(&w, ae_load_relaxed_u32(&vcpu->events) & AE_EV_SAVED);
    ae_frame_u32(&w, vcpu->halted);
    ae_frame_u32(&w, vcpu->extint_latched);
    ae_frame_u32(&w, vcpu->extint_vector);
    ae_frame_record(&w, TAG_ERROR, 12);
    /* ORD none: as above. */
    ae_frame_u32(&w, ae_load_relaxed_u32(&l->error_hidden));
    ae_frame_u32(&w, l->error_seen);
    ae_frame_u32(&w, l->error_armed);
    ae_frame_record(&w, TAG_LINT, 4);
    /* ORD none: as above. */
    ae_frame_u32(&w, ae_load_relaxed_u32(&l->lint_lines));
    return ae_frame_end(&w, ret_len);
}

/* ---- load: decode and check --------------------------------------------- */

static bool
decode_model(const struct avicemu_vcpu *vcpu, const void *buf, size_t len)
{
    const struct ae_lapic *l = &vcpu->lapic;
    struct ae_frame_reader r;

    return ae_frame_find(buf, len, TAG_MODEL, &r) &&
           ae_frame_get_u32(&r) == (uint32_t)l->model->personality &&
           ae_frame_get_u32(&r) == l->model->features &&
           ae_frame_get_u32(&r) == l->initial_id &&
           ae_frame_get_u32(&r) == l->bsp && !r.bad;
}

static bool
decode_lapic(const void *buf, size_t len, struct image *im)
{
    struct ae_frame_reader base;
    struct ae_frame_reader regs;
    struct ae_frame_reader timer;

    if (!ae_frame_find(buf, len, TAG_BASE, &base) ||
        !ae_frame_find(buf, len, TAG_REGS, &regs) ||
        !ae_frame_find(buf, len, TAG_TIMER, &timer)) {
        return false;
    }
    im->base = ae_frame_get_u64(&base);
    im->x2_id = ae_frame_get_u32(&base);
    im->tsc_deadline = ae_frame_get_u64(&base);
    im->waiting_deadline = ae_frame_get_u64(&base);
    for (uint32_t slot = 0; slot < NR_SAVED_REGS; slot++) {
        im->regs[slot] = ae_frame_get_u32(&regs);
    }
    im->running = ae_frame_get_u32(&timer);
    im->remaining = ae_frame_get_u64(&timer);
    im->backlog = ae_frame_get_u32(&timer);
    return !base.bad && !regs.bad && !timer.bad;
}

static bool
decode_rest(const void *buf, size_t len, struct image *im)
{
    struct ae_frame_reader core;
    struct ae_frame_reader error;
    struct ae_frame_reader lint;

    if (!ae_frame_find(buf, len, TAG_CORE, &core) ||
        !ae_frame_find(buf, len, TAG_ERROR, &error) ||
        !ae_frame_find(buf, len, TAG_LINT, &lint)) {
        return false;
    }
    im->events = ae_frame_get_u32(&core);
    im->halted = ae_frame_get_u32(&core);
    im->latched = ae_frame_get_u32(&core);
    im->extint_vector = ae_frame_get_u32(&core);
    im->hidden = ae_frame_get_u32(&error);
    im->seen = ae_frame_get_u32(&error);
    im->armed = ae_frame_get_u32(&error);
    im->lines = ae_frame_get_u32(&lint);
    return !core.bad && !error.bad && !lint.bad;
}

static bool
registers_possible(const struct ae_lapic *l, const struct image *im)
{
    bool x2 = (im->base & AE_MASK(APIC_BASE_EXTD)) != 0;

    for (uint32_t slot = 0; slot < NR_SAVED_REGS; slot++) {
        if (!register_possible(l, slot, im->regs[slot])) {
            return false;
        }
    }
    return ((im->regs[LAPIC_IRR >> 4] | im->regs[LAPIC_ISR >> 4]) & 0xffffu) ==
               0 &&
           (x2 || ((im->regs[LAPIC_ID >> 4] & ~AE_MASK(ID_XAPIC)) |
                   (im->regs[LAPIC_LDR >> 4] & ~ae_lapic_ldr_mask(l))) == 0);
}

static bool
image_possible(const struct ae_lapic *l, const struct image *im)
{
    bool en = (im->base & AE_MASK(APIC_BASE_EN)) != 0;
    bool x2 = (im->base & AE_MASK(APIC_BASE_EXTD)) != 0;

    return (im->base & l->model->base_reserved) == 0 && (en || !x2) &&
           (im->x2_id == l->initial_id || im->x2_id <= 0xffu) &&
           im->running <= 1 && im->halted <= 1 && im->latched <= 1 &&
           im->armed <= 1 && im->extint_vector <= 0xff && im->lines <= 3 &&
           (im->hidden & ~0xffu) == 0 && (im->seen & ~im->hidden) == 0 &&
           (im->events & ~AE_EV_SAVED) == 0 &&
           (im->events & AE_EV_NMI_MASK) <= 2 &&
           im->backlog <= l->model->clock.max_burst &&
           registers_possible(l, im);
}

/* ---- load: change ------------------------------------------------------- */

void
ae_snapshot_book_irr(struct avicemu_vcpu *vcpu,
                     const uint32_t irr[AE_VECTOR_WORDS])
{
    for (uint32_t v = 0; v < AE_NR_VECTORS; v++) {
        if ((irr[v >> 5] & ae_bit32(v)) != 0) {
            vcpu->stats.local_new++;
            if (vcpu->books != NULL) {
                vcpu->books->local_new[v]++;
            }
        }
    }
}

/* Is the slot one of the vector maps? */
static bool
slot_is_vectors(uint32_t slot)
{
    return slot >= LAPIC_ISR >> 4 && slot < LAPIC_ESR >> 4;
}

static void
load_timer(struct avicemu_vcpu *vcpu, const struct image *im)
{
    struct ae_lapic *l = &vcpu->lapic;
    const struct ae_timer_clock *c = &l->model->clock;
    uint64_t now = ae_vcpu_now(vcpu);

    ae_timer_reset(&l->timer);
    (void)ae_timer_set_mode(
        c, &l->timer,
        (enum ae_timer_mode)AE_GET(im->regs[LAPIC_LVT_TIMER >> 4],
                                   LVT_TIMER_MODE));
    ae_timer_set_divide(c, &l->timer, now, im->regs[LAPIC_TDCR >> 4]);
    l->timer.initial = im->regs[LAPIC_TMICT >> 4];
    ae_timer_set_deadline(c, &l->timer, now, im->tsc_deadline);
    if (im->running && l->timer.initial != 0) {
        /* A target without an initial count is repaired away: TMR-15. */
        ae_timer_resume(c, &l->timer, now, im->remaining);
        l->timer.backlog = im->backlog;
    }
    l->waiting_deadline = im->waiting_deadline;
    if (!ae_lapic_enabled(l)) {
        ae_timer_pause(&l->timer);
    }
}

static void
load_image(struct avicemu_vcpu *vcpu, const struct image *im)
{
    struct ae_lapic *l = &vcpu->lapic;
    struct ae_lapic_effects fx = { .what = 0 };

    struct ae_lapic_vectors vectors;
    uint64_t base = l->base;

    memcpy(vectors.isr, &im->regs[LAPIC_ISR >> 4], sizeof(vectors.isr));
    memcpy(vectors.tmr, &im->regs[LAPIC_TMR >> 4], sizeof(vectors.tmr));
    memcpy(vectors.irr, &im->regs[LAPIC_IRR >> 4], sizeof(vectors.irr));
    ae_lapic_load_vectors(l, &vectors, &fx);
    l->imported = false;
    l->base = im->base;
    l->x2_id = im->x2_id;
    for (uint32_t slot = 0; slot < NR_SAVED_REGS; slot++) {
        if (!slot_is_vectors(slot)) {
            ae_vapic_write(l->page, slot << 4, im->regs[slot]);
        }
    }
    load_timer(vcpu, im);
    l->error_seen = im->seen;
    l->error_armed = im->armed != 0;
    /* ORD none: errors and pins of the old state are gone with it. */
    ae_store_relaxed_u32(&l->error_hidden, im->hidden);
    ae_store_relaxed_u32(&l->lint_lines, im->lines);
    /* ORD wake.B: an event is either lost to this load, and counted, or
     * stays. Partner: wake.A. If weaker: neither. Test: race_expire. */
    uint32_t lost = ae_exchange_seqcst_u32(&vcpu->events, im->events);

    ae_vcpu_book_lost(vcpu, lost);
    vcpu->halted = im->halted != 0;
    vcpu->extint_latched = im->latched != 0;
    vcpu->extint_vector = (uint8_t)im->extint_vector;
    ae_lapic_derive(l, &fx);
    ae_snapshot_book_irr(vcpu, vectors.irr);
    fx.what |= base != l->base ? AE_DID_BASE : 0;
    ae_vcpu_apply(vcpu, &fx);
    /* Its deadline is the host's to wait for, whatever it waited for before. */
    ae_vcpu_arm(vcpu, AE_ARM_ALWAYS);
}

int
ae_snapshot_load(struct avicemu_vcpu *vcpu, const void *buf, size_t len)
{
    struct image im = { .base = 0 };

    if (!ae_frame_valid(buf, len) || !decode_model(vcpu, buf, len) ||
        !decode_lapic(buf, len, &im) || !decode_rest(buf, len, &im) ||
        !image_possible(&vcpu->lapic, &im)) {
        return -EPROTO;
    }
    load_image(vcpu, &im);
    return 0;
}
