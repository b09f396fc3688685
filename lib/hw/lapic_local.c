/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interrupts that arise at the APIC itself: acceptance of fixed vectors, LVT
 * entries, the LINT pins with remote IRR, and the error status.
 * [APM2 16.4 local interrupts, 16.4.6 errors], [SDM3 10.5]
 *
 * Error status: errors accumulate in error_hidden, from any thread; an ESR
 * write (lapic_access.c) moves them to the visible ESR. The owner raises LVT
 * error for them, so that only he delivers on his own behalf.
 *
 * LINT: a fixed level is accepted once; remote IRR then holds further ones
 * off until the EOI of its vector, whatever TMR says of it by then, or until
 * the entry gets another vector. ExtINT is a level that enter looks at.
 *
 * Edges
 *   lint  A ae_lapic_lint()         line := level -> LVT read     seq_cst
 *         B ae_lapic_lint_recheck() LVT := value  -> line read    seq_cst
 *   rir   A lint_evaluate()         remote IRR -> IRR bit         seq_cst
 *         B ae_lapic_lint_eoi()     ISR -> remote IRR             seq_cst
 *   error A error_set()             accumulator -> error event    seq_cst
 *         B ae_lapic_error_sync()   event taken -> accumulator    seq_cst
 *
 * May overlap: accept, local, lint with everything; the rest is the owner's.
 * Progress: wait-free; lint tries again where the entry was rewritten.
 */

#include "base/step.h"
#include "hw/lapic.h"

/* ---- errors ------------------------------------------------------------- */

static void
local_note(struct ae_lapic_effects *fx, uint8_t vector,
           enum avicemu_post result)
{
    if (result == AVICEMU_POST_DROPPED || fx->nr_local == AE_MAX_LOCAL) {
        return;
    }
    fx->local[fx->nr_local].vector = vector;
    fx->local[fx->nr_local].result = (uint8_t)result;
    fx->nr_local++;
}

/* What an LVT entry raised while the owner is at it: an error at once. */
static void
owner_events(struct ae_lapic *l, uint32_t events, struct ae_lapic_effects *fx)
{
    fx->events |= events & ~AE_EVENT_ERROR;
    if ((events & AE_EVENT_ERROR) != 0) {
        ae_lapic_error_sync(l, fx);
    }
}

/* Deliver an LVT entry on the owner's behalf, for the books. */
void
ae_lapic_local_own(struct ae_lapic *l, uint32_t offset,
                   struct ae_lapic_effects *fx)
{
    uint8_t vector =
        (uint8_t)AE_GET(ae_vapic_read(l->page, offset), LVT_VECTOR);
    uint32_t events = 0;
    enum avicemu_post result = ae_lapic_local(l, offset, &events);

    owner_events(l, events, fx);
    if (events == 0) {
        local_note(fx, vector, result);
    }
}

/* Set accumulator bits; true if one of them is new. Any thread. */
static bool
error_set(struct ae_lapic *l, uint32_t bits)
{
    if (!l->model->traits->errors) {
        return false;
    }
    /*
     * ORD error.A: the accumulator, then the error event. Partner: error.B in
     * ae_lapic_error_sync(). If weaker: the owner takes the event, sees an
     * empty accumulator, and LVT error is never raised. Test: race_error.
     */
    uint32_t old = ae_fetch_or_seqcst_u32(&l->error_hidden, bits);

    AE_STEP(error_a);
    return (bits & ~old) != 0;
}

void
ae_lapic_error_sync(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    /*
     * ORD error.B: the event, then the accumulator. Partner: error.A in
     * error_set(). If weaker: see there. Test: race_error.
     */
    uint32_t hidden = ae_load_seqcst_u32(&l->error_hidden);

    AE_STEP(error_b);
    uint32_t fresh = hidden & ~l->error_seen;
    uint32_t lvt = ae_vapic_read(l->page, LAPIC_LVT_ERROR);

    if (fresh == 0) {
        return;
    }
    l->error_seen |= fresh;
    fx->nr_errors += (uint32_t)__builtin_popcount(fresh);
    if (l->model->traits->error_per_arming && !l->error_armed) {
        return;
    }
    if ((lvt & AE_MASK(LVT_MASK)) != 0) {
        return;
    }
    l->error_armed = false;
    if (AE_GET(lvt, LVT_MT) == AVICEMU_DELIVERY_FIXED &&
        AE_GET(lvt, LVT_VECTOR) < AE_FIRST_LEGAL_VECTOR) {
        /* The error interrupt is itself illegal: note it, raise nothing, so
         * that there is no loop. */
        if (error_set(l, LAPIC_ESR_RECEIVE_ILLEGAL)) {
            l->error_seen |= LAPIC_ESR_RECEIVE_ILLEGAL;
            fx->nr_errors++;
        }
        return;
    }
    ae_lapic_local_own(l, LAPIC_LVT_ERROR, fx);
}

void
ae_lapic_error(struct ae_lapic *l, uint32_t bits, struct ae_lapic_effects *fx)
{
    if (error_set(l, bits)) {
        ae_lapic_error_sync(l, fx);
    }
}

/* ---- local interrupts --------------------------------------------------- */

enum avicemu_post
ae_lapic_accept(struct ae_lapic *l, uint8_t vector,
                enum avicemu_trigger trigger, enum avicemu_drop *why,
                bool *error)
{
    const uint64_t need = AE_IDENT_EN | AE_IDENT_SOFT;

    *error = false;
    /* ORD none: a post that races with a disable comes before or after it. */
    if (AE_UNLIKELY((ae_load_relaxed_u64(&l->ident) & need) != need)) {
        *why = AVICEMU_DROP_DISABLED;
        return AVICEMU_POST_DROPPED;
    }
    if (AE_UNLIKELY(vector < AE_FIRST_LEGAL_VECTOR)) {
        /* Every emulator but KVM reports it; KVM would set an IRR bit that
         * can never be delivered: here it is dropped like the others'. */
        *error =
            error_set(l, LAPIC_ESR_RECEIVE_ILLEGAL) &&
            (ae_vapic_read(l->page, LAPIC_LVT_ERROR) & AE_MASK(LVT_MASK)) == 0;
        *why = AVICEMU_DROP_ILLEGAL;
        return AVICEMU_POST_DROPPED;
    }
    return ae_vapic_post(l->page, vector, trigger);
}

static enum avicemu_post
lvt_fixed(struct ae_lapic *l, uint32_t lvt, enum avicemu_trigger trigger,
          uint32_t *events)
{
    enum avicemu_drop why;
    bool error;
    enum avicemu_post result = ae_lapic_accept(
        l, (uint8_t)AE_GET(lvt, LVT_VECTOR), trigger, &why, &error);

    *events |= error ? AE_EVENT_ERROR : 0;
    return result;
}

/* An edge on an LVT entry that is not masked. */
static enum avicemu_post
lvt_edge(struct ae_lapic *l, uint32_t lvt, uint32_t *events)
{
    switch (AE_GET(lvt, LVT_MT)) {
    case AVICEMU_DELIVERY_FIXED:
        return lvt_fixed(l, lvt, AVICEMU_TRIGGER_EDGE, events);
    case AVICEMU_DELIVERY_NMI:
        *events |= AE_EVENT_NMI;
        return AVICEMU_POST_NEW;
    case AVICEMU_DELIVERY_SMI:
        *events |= AE_EVENT_SMI;
        return AVICEMU_POST_NEW;
    case AVICEMU_DELIVERY_INIT:
        *events |= AE_EVENT_INIT;
        return AVICEMU_POST_NEW;
    case AVICEMU_DELIVERY_EXTINT:
        *events |= AE_EVENT_EXTINT;
        return AVICEMU_POST_NEW;
    default:
        return AVICEMU_POST_DROPPED;
    }
}

/* Delivery modes that an LVT entry has, as a set of bits. The timer and Intel's
 * error entry have no such field. [APM2 16.4], [SDM3 10.5.1] */
static uint32_t
lvt_modes(uint32_t offset)
{
    const uint32_t all = ae_bit32(AVICEMU_DELIVERY_FIXED) |
                         ae_bit32(AVICEMU_DELIVERY_SMI) |
                         ae_bit32(AVICEMU_DELIVERY_NMI);

    if (offset == LAPIC_LVT_LINT0 || offset == LAPIC_LVT_LINT1) {
        return all | ae_bit32(AVICEMU_DELIVERY_INIT) |
               ae_bit32(AVICEMU_DELIVERY_EXTINT);
    }
    return offset >= LAPIC_LVT_EXT ? all | ae_bit32(AVICEMU_DELIVERY_EXTINT)
                                   : all;
}

enum avicemu_post
ae_lapic_local(struct ae_lapic *l, uint32_t offset, uint32_t *events)
{
    const struct ae_lapic_rule *rule = &l->model->rules[offset >> 4];
    uint32_t lvt = ae_vapic_read(l->page, offset);

    /* ORD none: a source that races with a disable comes before or after. */
    if (rule->xapic == AE_REG_NONE || (lvt & AE_MASK(LVT_MASK)) != 0 ||
        (ae_load_relaxed_u64(&l->ident) & AE_IDENT_EN) == 0) {
        return AVICEMU_POST_DROPPED;
    }
    if ((lvt_modes(offset) & ae_bit32(AE_GET(lvt, LVT_MT))) == 0) {
        return AVICEMU_POST_DROPPED;
    }
    enum avicemu_post result = lvt_edge(l, lvt, events);

    if (offset == LAPIC_LVT_PERF && l->model->traits->perf_masks &&
        result != AVICEMU_POST_DROPPED) {
        /* [SDM3 10.5.1]. ORD none: one bit, its own locked operation. */
        (void)ae_fetch_or_seqcst_u32(ae_vapic_word(l->page, offset),
                                     AE_MASK(LVT_MASK));
    }
    return result;
}

/* ---- LINT pins ---------------------------------------------------------- */

static uint32_t
lint_offset(unsigned pin)
{
    return pin == 0 ? LAPIC_LVT_LINT0 : LAPIC_LVT_LINT1;
}

static bool
lint_is_level(const struct ae_lapic *l, unsigned pin, uint32_t lvt)
{
    return (lvt & AE_MASK(LVT_LEVEL)) != 0 &&
           AE_GET(lvt, LVT_MT) == AVICEMU_DELIVERY_FIXED &&
           (pin == 0 || l->model->traits->lint1_level);
}

/* The level is in service from here on (remote IRR): accept it. */
static enum avicemu_post
lint_level(struct ae_lapic *l, unsigned pin, uint32_t lvt, uint32_t *events)
{
    enum avicemu_post result = lvt_fixed(l, lvt, AVICEMU_TRIGGER_LEVEL, events);

    if (result == AVICEMU_POST_DROPPED) {
        /* ORD none: nobody was told about it. */
        (void)ae_test_and_clear_seqcst_u32(
            ae_vapic_word(l->page, lint_offset(pin)), LVT_RIR_LOW);
    }
    return result;
}

/*
 * An acceptance that was refused, and then took remote IRR back: was the APIC
 * enabled in between? Then its owner's recheck may have met that remote IRR,
 * and nobody serves the level.
 */
static bool
lint_again(const struct ae_lapic *l, uint32_t lvt)
{
    const uint64_t need = AE_IDENT_EN | AE_IDENT_SOFT;

    /* ORD rir.A: remote IRR cleared, then the identity. Partner: rir.B, the
     * owner's enable and the LVT write after it. If weaker: it meets remote
     * IRR, we meet a disabled APIC. Test: race_lint. */
    return AE_GET(lvt, LVT_VECTOR) >= AE_FIRST_LEGAL_VECTOR &&
           (ae_load_seqcst_u64(&l->ident) & need) == need;
}

static enum avicemu_post
lint_evaluate(struct ae_lapic *l, unsigned pin, bool rising, uint32_t *events)
{
    _Atomic uint32_t *word = ae_vapic_word(l->page, lint_offset(pin));
    /* ORD lint.A: the line, then LVT. Partner: lint.B in
     * ae_lapic_lint_recheck(). If weaker: the pin's driver sees the entry
     * masked, the owner who unmasks it sees the line low, and a level is
     * never served. Test: race_lint. */
    uint32_t lvt = ae_load_seqcst_u32(word);

    do {
        if ((lvt & AE_MASK(LVT_MASK)) != 0) {
            return AVICEMU_POST_DROPPED;
        }
        if (!lint_is_level(l, pin, lvt)) {
            return rising ? lvt_edge(l, lvt, events) : AVICEMU_POST_DROPPED;
        }
        if (!l->model->traits->remote_irr) {
            return rising ? lvt_fixed(l, lvt, AVICEMU_TRIGGER_LEVEL, events)
                          : AVICEMU_POST_DROPPED;
        }
        if ((lvt & AE_MASK(LVT_RIR)) != 0) {
            return AVICEMU_POST_DROPPED; /* in service already */
        }
        /*
         * ORD rir.A: remote IRR, then the IRR bit. Partner: rir.B in
         * ae_lapic_lint_eoi(), which clears it after ISR. If weaker: two
         * acceptances of one level. Test: race_lint. An exchange of the entry
         * that was read: set in one with another vector, remote IRR would
         * wait for the EOI of a vector that is not delivered.
         */
    } while (!ae_cas_seqcst_u32(word, &lvt, lvt | AE_MASK(LVT_RIR)));
    AE_STEP(rir_a);
    enum avicemu_post result = lint_level(l, pin, lvt, events);

    return result == AVICEMU_POST_DROPPED && lint_again(l, lvt)
               ? lint_evaluate(l, pin, false, events)
               : result;
}

enum avicemu_post
ae_lapic_lint(struct ae_lapic *l, unsigned pin, bool high, uint32_t *events)
{
    bool was;

    if (!high) {
        /* ORD lint.A: as below; a falling line has nothing to deliver. */
        (void)ae_test_and_clear_seqcst_u32(&l->lint_lines, pin);
        return AVICEMU_POST_DROPPED;
    }
    /* ORD lint.A: see lint_evaluate(). Test: race_lint. */
    was = ae_test_and_set_seqcst_u32(&l->lint_lines, pin);
    AE_STEP(lint_a);
    /* ORD none: a pin that races with a disable comes before or after. */
    if ((ae_load_relaxed_u64(&l->ident) & AE_IDENT_EN) == 0) {
        /* The pins are the core's INTR and NMI. [SDM3 10.4.3] */
        if (was) {
            return AVICEMU_POST_DROPPED;
        }
        *events |= pin == 0 ? AE_EVENT_EXTINT : AE_EVENT_NMI;
        return AVICEMU_POST_NEW;
    }
    return lint_evaluate(l, pin, !was, events);
}

void
ae_lapic_lint_recheck(struct ae_lapic *l, unsigned pin,
                      struct ae_lapic_effects *fx)
{
    uint32_t events = 0;
    uint32_t lvt = ae_vapic_read(l->page, lint_offset(pin));

    AE_STEP(lint_b);
    /* ORD lint.B: LVT (stored by the caller with seq_cst), then the line.
     * Partner: lint.A in ae_lapic_lint(). If weaker: see lint_evaluate().
     * Test: race_lint. */
    if ((ae_load_seqcst_u32(&l->lint_lines) & ae_bit32(pin)) == 0 ||
        !ae_lapic_enabled(l) || !lint_is_level(l, pin, lvt)) {
        return;
    }
    enum avicemu_post result = lint_evaluate(l, pin, false, &events);

    owner_events(l, events, fx);
    local_note(fx, (uint8_t)AE_GET(lvt, LVT_VECTOR), result);
}

bool
ae_lapic_extint(struct ae_lapic *l)
{
    /* ORD lint.B: the vCPU's state (hv), then the lines. Partner: lint.A,
     * whose caller then looks at that state. If weaker: INTR rises unseen
     * while the vCPU falls asleep. Test: race_lint. */
    uint32_t lines = ae_load_seqcst_u32(&l->lint_lines);

    if (!ae_lapic_enabled(l)) {
        return (lines & 1u) != 0;
    }
    for (unsigned pin = 0; pin < 2; pin++) {
        uint32_t lvt = ae_vapic_read(l->page, lint_offset(pin));

        if ((lines & ae_bit32(pin)) != 0 && (lvt & AE_MASK(LVT_MASK)) == 0 &&
            AE_GET(lvt, LVT_MT) == AVICEMU_DELIVERY_EXTINT) {
            return true;
        }
    }
    return false;
}

bool
ae_lapic_accepts_pic(struct ae_lapic *l)
{
    uint32_t lvt = ae_vapic_read(l->page, LAPIC_LVT_LINT0);

    return !ae_lapic_enabled(l) ||
           ((lvt & AE_MASK(LVT_MASK)) == 0 &&
            AE_GET(lvt, LVT_MT) == AVICEMU_DELIVERY_EXTINT);
}

/* A LINT level of this vector is no longer in service. */
void
ae_lapic_lint_eoi(struct ae_lapic *l, unsigned pin, uint8_t vector,
                  struct ae_lapic_effects *fx)
{
    _Atomic uint32_t *word = ae_vapic_word(l->page, lint_offset(pin));
    uint32_t lvt = ae_vapic_read(l->page, lint_offset(pin));

    if (!l->model->traits->remote_irr || !lint_is_level(l, pin, lvt) ||
        AE_GET(lvt, LVT_VECTOR) != vector) {
        return;
    }
    /* ORD rir.B: ISR, then remote IRR. Partner: rir.A in lint_evaluate().
     * If weaker: see there. Test: race_lint. */
    (void)ae_test_and_clear_seqcst_u32(word, LVT_RIR_LOW);
    AE_STEP(rir_b);
    ae_lapic_lint_recheck(l, pin, fx);
}
