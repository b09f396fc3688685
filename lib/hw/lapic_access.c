/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guest accesses to the local APIC: which registers exist in which mode, what
 * sticks, what faults, and what a write sets off. All of it is driven by the
 * rules that model.c resolved from the register table; only the handlers below
 * have code of their own.
 *
 * xAPIC [APM2 16.3.2]: a 4-byte write at a 16-byte aligned offset. An absent
 * register sets ESR bit 7; reserved bits are dropped, nothing faults.
 * x2APIC [APM2 16.11]: absent registers, writes to read-only ones, reads of
 * write-only ones and reserved bits are #GP(0), with nothing changed.
 *
 * Owner's calls only. Progress: wait-free.
 */

#include <string.h>

#include "hw/lapic.h"

/* ---- interprocessor interrupts ------------------------------------------ */

static void
ipi_drop(struct ae_lapic_effects *fx, enum avicemu_drop why)
{
    fx->drop = (uint32_t)why + 1;
}

/* An IPI with a vector below 16 leaves the sender with an error only. */
static void
ipi_illegal(struct ae_lapic *l, bool self, struct ae_lapic_effects *fx)
{
    uint32_t bits = LAPIC_ESR_SEND_ILLEGAL;

    if (self && ae_lapic_soft_enabled(l)) {
        /* Source and target at once. [SDM3 10.5.3] */
        bits |= LAPIC_ESR_RECEIVE_ILLEGAL;
    }
    ae_lapic_error(l, bits, fx);
    ipi_drop(fx, AVICEMU_DROP_ILLEGAL);
}

/* Is this combination sent at all? [APM2 Table 16-4], [SDM3 Tables 10-3, 4] */
static bool
ipi_mode_ok(const struct ae_lapic *l, const struct ae_message *m)
{
    if (m->mode == AVICEMU_DELIVERY_LOWEST) {
        if (m->shorthand == AE_DSH_SELF || m->shorthand == AE_DSH_OTHERS ||
            !l->model->traits->lowest_flat_only) {
            return true;
        }
        /* [APM2 16.6.1]: not with physical or cluster destinations;
         * [APM2 Table 16-4]: not to all. */
        return m->shorthand == AE_DSH_NONE && m->logical &&
               m->format == AE_FORMAT_XAPIC &&
               AE_GET(ae_vapic_read(l->page, LAPIC_DFR), DFR_MODEL) == 0xf;
    }
    if (m->mode == AVICEMU_DELIVERY_EXTINT) {
        return l->model->traits->extint_ipi && m->format == AE_FORMAT_XAPIC;
    }
    return m->mode != AVICEMU_DELIVERY_REMOTE_READ;
}

static void
ipi_send(struct ae_lapic *l, const struct ae_message *m, bool deassert,
         struct ae_lapic_effects *fx)
{
    bool vectored =
        m->mode == AVICEMU_DELIVERY_FIXED || m->mode == AVICEMU_DELIVERY_LOWEST;
    bool level_matters = m->mode == AVICEMU_DELIVERY_INIT ||
                         (vectored && l->model->traits->ipi_level);

    fx->what |= AE_DID_SEND;
    if (vectored && m->vector < AE_FIRST_LEGAL_VECTOR) {
        ipi_illegal(l, m->shorthand == AE_DSH_SELF, fx);
    } else if (m->level && deassert && level_matters) {
        ipi_drop(fx, AVICEMU_DROP_DEASSERT);
    } else if (!ipi_mode_ok(l, m)) {
        ipi_drop(fx, AVICEMU_DROP_MODE);
    } else {
        fx->what |= AE_DID_IPI;
        fx->ipi = *m;
        fx->ipi.level = m->level && vectored && l->model->traits->ipi_level;
    }
}

static void
icr_write(struct ae_lapic *l, uint32_t low, struct ae_lapic_effects *fx)
{
    uint32_t high = ae_vapic_read(l->page, LAPIC_ICR_HIGH);
    bool x2 = ae_lapic_x2(l);
    struct ae_message m = {
        .dest = x2 ? high : AE_GET(high, ICR_HIGH_XAPIC_DEST),
        .vector = (uint8_t)AE_GET(low, ICR_VECTOR),
        .mode = (uint8_t)AE_GET(low, ICR_MT),
        .shorthand = (uint8_t)AE_GET(low, ICR_DSH),
        .format = x2 ? AE_FORMAT_X2APIC : AE_FORMAT_XAPIC,
        .logical = (low & AE_MASK(ICR_LOGICAL)) != 0,
        .level = (low & AE_MASK(ICR_LEVEL)) != 0,
        .arbitrate = AE_GET(low, ICR_MT) == AVICEMU_DELIVERY_LOWEST,
    };

    /* Delivery is at once, so DS always reads idle. [APM2 16.5] */
    ae_vapic_write(l->page, LAPIC_ICR_LOW, low & ~AE_MASK(ICR_DS));
    ipi_send(l, &m, (low & AE_MASK(ICR_ASSERT)) == 0, fx);
}

static void
self_ipi_write(struct ae_lapic *l, uint8_t vector, struct ae_lapic_effects *fx)
{
    /* [APM2 16.15]: as ICR with shorthand self, but ICR keeps its value. */
    struct ae_message m = {
        .vector = vector,
        .mode = AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_SELF,
        .format = AE_FORMAT_X2APIC,
    };

    ipi_send(l, &m, false, fx);
}

/* ---- handlers of writes ------------------------------------------------- */

static void
svr_write(struct ae_lapic *l, uint32_t value, struct ae_lapic_effects *fx)
{
    static const uint16_t lvts[] = {
        LAPIC_LVT_CMCI,       LAPIC_LVT_TIMER,      LAPIC_LVT_THERMAL,
        LAPIC_LVT_PERF,       LAPIC_LVT_LINT0,      LAPIC_LVT_LINT1,
        LAPIC_LVT_ERROR,      LAPIC_LVT_EXT,        LAPIC_LVT_EXT + 0x10,
        LAPIC_LVT_EXT + 0x20, LAPIC_LVT_EXT + 0x30,
    };

    ae_vapic_write(l->page, LAPIC_SVR, value);
    if ((value & AE_MASK(SVR_ENABLE)) == 0) {
        /* [APM2 16.3.1]: all mask bits become 1, and stay until rewritten. Then
         * nobody waits for the timer's missed ticks. */
        l->timer.backlog = 0;
        for (unsigned i = 0; i < AE_ARRAY_SIZE(lvts); i++) {
            if (l->model->rules[lvts[i] >> 4].xapic != AE_REG_NONE) {
                /* ORD none: against a LINT acceptance: before or after. */
                (void)ae_fetch_or_seqcst_u32(ae_vapic_word(l->page, lvts[i]),
                                             AE_MASK(LVT_MASK));
            }
        }
    }
    ae_lapic_publish(l, fx);
}

static uint32_t
lvt_value(const struct ae_lapic *l, uint32_t value)
{
    /* [APM2 16.3.1]: masked while software-disabled, whatever is written. */
    return ae_lapic_soft_enabled(l) ? value : value | AE_MASK(LVT_MASK);
}

/* [SDM3 10.5.2]: an illegal vector may be flagged when it is written. */
static void
lvt_check(struct ae_lapic *l, uint32_t value, bool fixed,
          struct ae_lapic_effects *fx)
{
    if (l->model->traits->lvt_write_flags && fixed &&
        AE_GET(value, LVT_VECTOR) < AE_FIRST_LEGAL_VECTOR) {
        ae_lapic_error(l, LAPIC_ESR_RECEIVE_ILLEGAL, fx);
    }
}

static void
lvt_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
          struct ae_lapic_effects *fx)
{
    if (offset == LAPIC_LVT_ERROR) {
        /* Errors from while it was masked raise nothing later. ORD none: one
         * that comes now comes before or after the write. */
        l->error_seen |= ae_load_relaxed_u32(&l->error_hidden);
    }
    ae_vapic_write(l->page, offset, lvt_value(l, value));
    lvt_check(l, value, AE_GET(value, LVT_MT) == AVICEMU_DELIVERY_FIXED, fx);
}

static void
lvt_timer_write(struct ae_lapic *l, uint32_t value, uint64_t now,
                struct ae_lapic_effects *fx)
{
    ae_lapic_timer_sync(l, now, fx);
    ae_vapic_write(l->page, LAPIC_LVT_TIMER, lvt_value(l, value));
    if (ae_timer_set_mode(&l->model->clock, &l->timer,
                          (enum ae_timer_mode)AE_GET(value, LVT_TIMER_MODE))) {
        ae_vapic_write(l->page, LAPIC_TMICT, 0);
    }
    if (l->timer.mode != AE_TIMER_PERIODIC ||
        (value & AE_MASK(LVT_MASK)) != 0) {
        l->timer.backlog = 0; /* nobody waits for missed ticks any more */
    }
    if (l->timer.mode == AE_TIMER_DEADLINE && l->waiting_deadline != 0) {
        /* The host loaded TSC_DEADLINE first: now it counts. */
        ae_timer_set_deadline(&l->model->clock, &l->timer, now,
                              l->waiting_deadline);
        l->waiting_deadline = 0;
    }
    lvt_check(l, value, true, fx);
}

static void
lvt_lint_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
               struct ae_lapic_effects *fx)
{
    _Atomic uint32_t *word = ae_vapic_word(l->page, offset);
    uint32_t keep = l->model->traits->remote_irr ? AE_MASK(LVT_RIR) : 0;
    uint32_t old = ae_vapic_read(l->page, offset);
    bool level = (value & AE_MASK(LVT_LEVEL)) != 0 &&
                 AE_GET(value, LVT_MT) == AVICEMU_DELIVERY_FIXED;

    if (!level || AE_GET(old, LVT_VECTOR) != AE_GET(value, LVT_VECTOR)) {
        /* An edge has no remote IRR; and the EOI of the old vector is not this
         * entry's any more. A line that is high is offered again below. */
        keep = 0;
    }
    value = lvt_value(l, value);
    /*
     * ORD lint.B: LVT, then the line (ae_lapic_lint_recheck). Partner: lint.A
     * in ae_lapic_lint(). If weaker: a level that rose while the entry was
     * masked is never served. Test: race_lint. Exchange, for the pin's driver
     * may set remote IRR meanwhile.
     */
    while (!ae_cas_seqcst_u32(word, &old, (value & ~keep) | (old & keep))) {
    }
    ae_lapic_lint_recheck(l, offset == LAPIC_LVT_LINT0 ? 0 : 1, fx);
    lvt_check(l, value, AE_GET(value, LVT_MT) == AVICEMU_DELIVERY_FIXED, fx);
}

static void
esr_write(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    if (!l->model->traits->errors) {
        return;
    }
    /* What others added, and was not looked at, is raised before it goes. */
    ae_lapic_error_sync(l, fx);
    /* ORD error.B: one bit set from now on is a new error. Partner: error.A.
     * If weaker: a bit is neither in the old nor in the new accumulator.
     * Test: race_error. */
    ae_vapic_write(l->page, LAPIC_ESR,
                   ae_exchange_seqcst_u32(&l->error_hidden, 0));
    l->error_seen = 0;
    l->error_armed = true;
}

static void
eoi_write(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    int vector = ae_vapic_highest(l->page, LAPIC_ISR);

    if (vector >= 0) {
        ae_lapic_eoi(l, (uint8_t)vector, fx);
    }
}

/* [APM2 16.7]: with SN set, retire this vector; not in service: nothing. */
static void
seoi_write(struct ae_lapic *l, uint32_t value, struct ae_lapic_effects *fx)
{
    uint8_t vector = (uint8_t)value;

    ae_vapic_write(l->page, LAPIC_SEOI, value);
    if ((ae_vapic_read(l->page, LAPIC_EACR) & AE_MASK(EACR_SN)) != 0 &&
        ae_vapic_test(l->page, LAPIC_ISR, vector)) {
        ae_lapic_eoi(l, vector, fx);
    }
}

static void
ier_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
          struct ae_lapic_effects *fx)
{
    /* [APM2 16.7]: writable while EACR.IERN is 1. */
    if ((ae_vapic_read(l->page, LAPIC_EACR) & AE_MASK(EACR_IERN)) != 0) {
        ae_vapic_write(l->page, offset, value);
        ae_lapic_derive(l, fx);
    }
}

static void
tmict_write(struct ae_lapic *l, uint32_t value, uint64_t now)
{
    if (ae_timer_set_initial(&l->model->clock, &l->timer, now, value)) {
        ae_vapic_write(l->page, LAPIC_TMICT, value);
    }
}

static void
tdcr_write(struct ae_lapic *l, uint32_t value, uint64_t now,
           struct ae_lapic_effects *fx)
{
    ae_lapic_timer_sync(l, now, fx);
    ae_vapic_write(l->page, LAPIC_TDCR, value);
    ae_timer_set_divide(&l->model->clock, &l->timer, now, value);
}

static void
identity_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
               struct ae_lapic_effects *fx)
{
    ae_vapic_write(l->page, offset, value);
    ae_lapic_publish(l, fx);
}

/*
 * A write that is legal in this mode: value holds only bits that stick.
 * Dispatch over the handlers of the register table.
 */
static void /* table-driven */
register_write(struct ae_lapic *l, uint32_t slot, uint32_t value, uint64_t now,
               struct ae_lapic_effects *fx)
{
    uint32_t offset = slot << 4;

    switch ((enum ae_reg_handler)l->model->rules[slot].handler) {
    case AE_REG_PLAIN:
        ae_vapic_write(l->page, offset, value);
        break;
    case AE_REG_ID:
        /* On Intel nothing sticks: the id is read-only. */
        if (l->model->rules[slot].sticks != 0) {
            identity_write(l, offset, value, fx);
        }
        break;
    case AE_REG_LDR:
        identity_write(l, offset, value, fx);
        break;
    case AE_REG_DFR:
        identity_write(l, offset, value | 0x0fffffffu, fx);
        break;
    case AE_REG_TPR:
        ae_lapic_set_tpr(l, value);
        break;
    case AE_REG_EOI:
        eoi_write(l, fx);
        break;
    case AE_REG_SVR:
        ae_lapic_timer_sync(l, now, fx);
        svr_write(l, value, fx);
        break;
    case AE_REG_ESR:
        esr_write(l, fx);
        break;
    case AE_REG_LVT:
        lvt_write(l, offset, value, fx);
        break;
    case AE_REG_LVT_TIMER:
        lvt_timer_write(l, value, now, fx);
        break;
    case AE_REG_LVT_LINT:
        lvt_lint_write(l, offset, value, fx);
        break;
    case AE_REG_ICR_LOW:
        icr_write(l, value, fx);
        break;
    case AE_REG_TMICT:
        tmict_write(l, value, now);
        break;
    case AE_REG_TDCR:
        tdcr_write(l, value, now, fx);
        break;
    case AE_REG_SELF_IPI:
        self_ipi_write(l, (uint8_t)value, fx);
        break;
    case AE_REG_SEOI:
        seoi_write(l, value, fx);
        break;
    case AE_REG_IER:
        ier_write(l, offset, value, fx);
        break;
    case AE_REG_APR:
    case AE_REG_PPR:
    case AE_REG_TMCCT:
        break; /* read-only in every mode */
    }
}

/* ---- reads -------------------------------------------------------------- */

/* Of an IRR whose highest vector is irr, -1: none. */
static uint32_t
apr_of(const struct ae_lapic *l, int irr)
{
    uint32_t tpr = ae_vapic_read(l->page, LAPIC_TPR);
    int isr = ae_vapic_highest(l->page, LAPIC_ISR);
    uint32_t irrv = irr < 0 ? 0 : (uint32_t)irr;
    uint32_t isrv = isr < 0 ? 0 : (uint32_t)isr;
    uint32_t t = ae_vector_class(tpr);
    uint32_t r = ae_vector_class(irrv);
    uint32_t s = ae_vector_class(isrv);

    switch (l->model->traits->apr) {
    case AE_APR_AMD: {
        /* [APM2 16.6.2]: the highest class; TPR's sub-class if it is TPR's. */
        uint32_t top = r > s ? r : s;

        return t >= top ? tpr : top << 4;
    }
    case AE_APR_INTEL:
        /* [SDM3 10.6.2.4], its AND included. */
        if (t >= r && t > s) {
            return tpr;
        }
        return ((t & s) > r ? (t & s) : r) << 4;
    case AE_APR_NONE:
    default:
        return 0;
    }
}

uint32_t
ae_lapic_apr(const struct ae_lapic *l)
{
    return apr_of(l, ae_vapic_highest(l->page, LAPIC_IRR));
}

/* What a guest would read, whose read first accounts the ticks that are due. */
static uint32_t
tmcct_read(const struct ae_lapic *l, uint64_t now)
{
    struct ae_timer t = l->timer;

    if (!ae_lapic_enabled(l)) {
        return 0;
    }
    (void)ae_timer_expire(&l->model->clock, &t, now);
    return ae_timer_current(&l->model->clock, &t, now);
}

uint32_t
ae_lapic_peek(const struct ae_lapic *l, uint32_t slot, uint64_t now)
{
    uint8_t handler = l->model->rules[slot].handler;

    if (handler == AE_REG_APR) {
        return ae_lapic_irr_void(l) ? apr_of(l, -1) : ae_lapic_apr(l);
    }
    return handler == AE_REG_TMCCT ? tmcct_read(l, now)
                                   : ae_lapic_word(l, slot);
}

static uint32_t
register_read(struct ae_lapic *l, uint32_t slot, uint64_t now,
              struct ae_lapic_effects *fx)
{
    if (l->model->rules[slot].handler == AE_REG_TMCCT) {
        ae_lapic_timer_sync(l, now, fx);
    }
    return ae_lapic_peek(l, slot, now);
}

bool
ae_lapic_needs_time(const struct ae_lapic_model *m, uint32_t slot)
{
    uint8_t handler = m->rules[slot].handler;

    return handler == AE_REG_SVR || handler == AE_REG_LVT_TIMER ||
           handler == AE_REG_TMICT || handler == AE_REG_TMCCT ||
           handler == AE_REG_TDCR;
}

/* ---- xAPIC page --------------------------------------------------------- */

static void
mmio_absent(struct ae_lapic *l, struct ae_lapic_effects *fx)
{
    /* [APM2 16.4.6]: illegal register address. */
    ae_lapic_error(l, LAPIC_ESR_ILLEGAL_REGISTER, fx);
}

void
ae_lapic_mmio_read(struct ae_lapic *l, uint32_t offset, uint32_t len,
                   uint64_t now, uint8_t *data, struct ae_lapic_effects *fx)
{
    uint32_t end = offset + len;

    memset(data, 0, len);
    for (uint32_t slot = offset >> 4; slot << 4 < end; slot++) {
        uint32_t first = slot << 4 > offset ? slot << 4 : offset;
        uint8_t access = l->model->rules[slot].xapic;
        uint32_t value = 0;

        if ((first & 15u) > 3) {
            continue; /* only bytes 4..15 of the slot: undefined, read 0 */
        }
        if (access == AE_REG_NONE) {
            mmio_absent(l, fx);
        } else if (access != AE_REG_WO) {
            value = register_read(l, slot, now, fx);
        }
        for (uint32_t at = first; at < end && at < (slot << 4) + 4; at++) {
            data[at - offset] = (uint8_t)(value >> (8 * (at & 15u)));
        }
    }
}

void
ae_lapic_mmio_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
                    uint64_t now, struct ae_lapic_effects *fx)
{
    const struct ae_lapic_rule *rule = &l->model->rules[offset >> 4];

    switch ((enum ae_reg_access)rule->xapic) {
    case AE_REG_NONE:
        mmio_absent(l, fx);
        break;
    case AE_REG_RO:
        break;
    case AE_REG_WO:
    case AE_REG_RW:
        register_write(l, offset >> 4, value & rule->sticks, now, fx);
        break;
    }
}

/* ---- x2APIC MSRs -------------------------------------------------------- */

enum avicemu_access
ae_lapic_msr_read(struct ae_lapic *l, uint32_t slot, uint64_t now,
                  uint64_t *ret, struct ae_lapic_effects *fx)
{
    uint8_t access = l->model->rules[slot].x2apic;

    if (access != AE_REG_RO && access != AE_REG_RW) {
        return AVICEMU_ACCESS_GP;
    }
    *ret = register_read(l, slot, now, fx);
    if (slot == LAPIC_ICR_LOW >> 4) {
        *ret |= (uint64_t)ae_vapic_read(l->page, LAPIC_ICR_HIGH) << 32;
    }
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
ae_lapic_msr_write(struct ae_lapic *l, uint32_t slot, uint64_t now,
                   uint64_t value, struct ae_lapic_effects *fx)
{
    const struct ae_lapic_rule *rule = &l->model->rules[slot];
    bool writable = rule->x2apic == AE_REG_WO || rule->x2apic == AE_REG_RW;

    if (!writable || (value & rule->reserved) != 0) {
        return AVICEMU_ACCESS_GP;
    }
    if (slot == LAPIC_ICR_LOW >> 4) {
        ae_vapic_write(l->page, LAPIC_ICR_HIGH, (uint32_t)(value >> 32));
    }
    /* SELF IPI has no bits that stick: its vector is the command. */
    uint32_t keep = rule->handler == AE_REG_SELF_IPI ? 0xffu : rule->sticks;

    register_write(l, slot, (uint32_t)value & keep, now, fx);
    return AVICEMU_ACCESS_DONE;
}
