/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_LAPIC_H
#define AE_HW_LAPIC_H

/*
 * The register file of one local APIC. See lapic.c.
 */

#include <avicemu/lapic.h>

#include "base/atomic.h"
#include "base/regs.h"
#include "hw/model.h"
#include "hw/timer.h"
#include "hw/vapic.h"

/* How the destination of a message is written. */
enum ae_dest_format {
    AE_FORMAT_XAPIC,  /* IPI with 8 bits */
    AE_FORMAT_X2APIC, /* IPI with 32 bits */
    AE_FORMAT_MSI,    /* from a device */
};

/* An interrupt message, on its way to one or more APICs. */
struct ae_message {
    uint32_t dest;
    uint8_t vector;
    uint8_t mode;      /* enum avicemu_delivery */
    uint8_t shorthand; /* enum ae_shorthand */
    uint8_t format;    /* enum ae_dest_format */
    bool logical;
    bool level;
    bool arbitrate; /* one of the matching APICs, by lowest priority */
};

/* Events that bypass IRR and go to the core; the caller makes them pending. */
#define AE_EVENT_NMI    (1u << 0)
#define AE_EVENT_SMI    (1u << 1)
#define AE_EVENT_INIT   (1u << 2)
#define AE_EVENT_EXTINT (1u << 3)
#define AE_EVENT_ERROR  (1u << 4) /* the owner must look at the ESR */

/* What the caller must do after an access: decided here, done there. */
#define AE_DID_IPI    (1u << 0) /* send fx->ipi */
#define AE_DID_EOI    (1u << 1) /* broadcast the EOI of fx->eoi_vector */
#define AE_DID_IDENT  (1u << 2) /* identity changed: update the map */
#define AE_DID_BASE   (1u << 3) /* APIC_BASE changed: tell the VMM */
#define AE_DID_RETIRE (1u << 4) /* an EOI retired a vector */
#define AE_DID_SEND   (1u << 5) /* an ICR or SELF IPI write, sent or not */
#define AE_DID_CLEAR  (1u << 6) /* fx->cleared holds lost IRR bits */

#define AE_MAX_LOCAL 6u

struct ae_lapic_effects {
    uint32_t what;   /* AE_DID_* */
    uint32_t events; /* AE_EVENT_* raised by LVT entries */
    uint32_t drop;   /* why an ICR write sent nothing: enum avicemu_drop + 1 */
    uint32_t nr_errors;
    uint32_t ticks; /* timer expiries accounted, also masked ones */
    uint8_t eoi_vector;
    uint8_t nr_local;
    struct ae_message ipi;
    struct {
        uint8_t vector;
        uint8_t result; /* enum avicemu_post, NEW or MERGED */
    } local[AE_MAX_LOCAL];
    uint32_t cleared[AE_VECTOR_WORDS];
};

/*
 * Identity: all that a sender must know about a receiver, in one word, so
 * that matching never sees half a change.
 *
 *   0 EN  1 EXTD  2 software-enabled  3..4 DFR model
 *   15:8 xAPIC id  23:16 xAPIC LDR  24 SVR focus checking off
 *   63:32 x2APIC id (in xAPIC mode: the initial id)
 */
#define AE_IDENT_EN        (1u << 0)
#define AE_IDENT_EXTD      (1u << 1)
#define AE_IDENT_SOFT      (1u << 2)
#define AE_IDENT_FLAT      (1u << 3)
#define AE_IDENT_CLUSTER   (1u << 4)
#define AE_IDENT_FOCUS_OFF (1u << 24)

/* When the highest bit of IRR is not the answer; both are rare, so that enter
 * asks once. */
#define AE_IRR_IER  1u /* some IER bit is 0 */
#define AE_IRR_VOID 2u /* empty, whatever it holds: see registers_reset() */

struct ae_lapic {
    /* Owner's. */
    uint8_t irr_special; /* AE_IRR_* */
    bool by_hardware;    /* AVIC is active: see ae_lapic_by_hardware() */
    bool error_armed;    /* error_per_arming: may raise LVT error */
    uint32_t error_seen; /* accumulator bits that were raised already */
    uint32_t x2_id;
    uint64_t base;             /* APIC_BASE */
    uint64_t waiting_deadline; /* host set it before the LVT mode */
    bool imported;             /* a page was imported and no guest ran since */
    uint32_t imported_id, imported_ldr; /* its words, raw */
    struct ae_timer timer;

    /* What senders read, in one line that is hardly ever written: the identity
     * is the owner's, the rest constant after init. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t ident;
    const struct ae_lapic_model *model;
    void *page; /* 4096 bytes, 64-byte aligned; the caller's */
    uint32_t initial_id;
    bool bsp;

    /* Written by any thread. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t error_hidden; /* accumulator */
    _Atomic uint32_t lint_lines; /* bit 0 LINT0, bit 1 LINT1 */
};

/* ---- life (owner) ------------------------------------------------------- */
void
ae_lapic_init(struct ae_lapic *l, const struct ae_lapic_model *model,
              void *page, uint32_t initial_id, bool bsp);
void
ae_lapic_reset(struct ae_lapic *l, struct ae_lapic_effects *fx);
void
ae_lapic_init_signal(struct ae_lapic *l, struct ae_lapic_effects *fx);

/* ---- guest accesses (owner): lapic_access.c ----------------------------- */

/* Does an access to this slot depend on the time? Else now may be 0. */
bool
ae_lapic_needs_time(const struct ae_lapic_model *m, uint32_t slot);

/* xAPIC page; offset + len <= 4096. The caller checked the mode. */
void
ae_lapic_mmio_read(struct ae_lapic *l, uint32_t offset, uint32_t len,
                   uint64_t now, uint8_t *data, struct ae_lapic_effects *fx);
void
ae_lapic_mmio_write(struct ae_lapic *l, uint32_t offset, uint32_t value,
                    uint64_t now, struct ae_lapic_effects *fx);

/* x2APIC MSRs by slot (msr - 800h). GP or DONE. */
enum avicemu_access
ae_lapic_msr_read(struct ae_lapic *l, uint32_t slot, uint64_t now,
                  uint64_t *ret, struct ae_lapic_effects *fx);
enum avicemu_access
ae_lapic_msr_write(struct ae_lapic *l, uint32_t slot, uint64_t now,
                   uint64_t value, struct ae_lapic_effects *fx);

/* Write of APIC_BASE; the host's skips the transition rules and resets
 * nothing. */
enum ae_base_access {
    AE_BASE_GUEST,
    AE_BASE_HOST
};
enum avicemu_access
ae_lapic_base_write(struct ae_lapic *l, uint64_t value, enum ae_base_access who,
                    uint64_t now, struct ae_lapic_effects *fx);

/* A register's value without side effects; TMCCT as of now. Owner. */
uint32_t
ae_lapic_peek(const struct ae_lapic *l, uint32_t slot, uint64_t now);

/* The arbitration priority, for an arbiter. Any thread. */
uint32_t
ae_lapic_apr(const struct ae_lapic *l);

/* TPR[7:0] := value, PPR follows. */
void
ae_lapic_set_tpr(struct ae_lapic *l, uint32_t value);

/* ---- interrupts --------------------------------------------------------- */

/* Offer a fixed interrupt. Any thread. *why: enum avicemu_drop if DROPPED;
 * then an illegal vector has set its error bit, and *error says whether the
 * owner must raise LVT error for it. */
enum avicemu_post
ae_lapic_accept(struct ae_lapic *l, uint8_t vector,
                enum avicemu_trigger trigger, enum avicemu_drop *why,
                bool *error);

/* Deliver an LVT entry at its offset. Any thread. *events: AE_EVENT_*. */
enum avicemu_post
ae_lapic_local(struct ae_lapic *l, uint32_t offset, uint32_t *events);

/* Drive pin 0 or 1. Any thread, one per pin. */
enum avicemu_post
ae_lapic_lint(struct ae_lapic *l, unsigned pin, bool high, uint32_t *events);

/* Highest vector in IRR that IER lets through, -1: none. Owner. */
int
ae_lapic_requested(const struct ae_lapic *l);

/* Is this requested vector (or -1) deliverable? It, or -1. Owner. */
int
ae_lapic_deliverable(const struct ae_lapic *l, int requested);

/* Highest deliverable vector, -1: none. Owner. */
int
ae_lapic_pending(const struct ae_lapic *l);

/* Is an ExtINT line active and open? Owner. */
bool
ae_lapic_extint(struct ae_lapic *l);
/* Would a PIC's INTR be taken here? [KVM] accept rule. */
bool
ae_lapic_accepts_pic(struct ae_lapic *l);

/* INTA for a given vector: IRR -> ISR; false if its IRR bit is clear. Makes
 * up for a missed tick of the timer. Owner. */
bool
ae_lapic_ack(struct ae_lapic *l, uint8_t vector, struct ae_lapic_effects *fx);

/* INTA as the bus sees it: the highest deliverable vector, or the spurious
 * vector with ISR untouched. Owner. */
uint8_t
ae_lapic_inta(struct ae_lapic *l, struct ae_lapic_effects *fx);

/* Account timer expiries up to now. Owner. */
void
ae_lapic_timer_sync(struct ae_lapic *l, uint64_t now,
                    struct ae_lapic_effects *fx);

/* Raise LVT error for what others accumulated. Owner. */
void
ae_lapic_error_sync(struct ae_lapic *l, struct ae_lapic_effects *fx);

/* ---- between lapic.c, lapic_local.c, lapic_access.c, hv/snapshot.c ------ */
void
ae_lapic_publish(struct ae_lapic *l, struct ae_lapic_effects *fx);
void
ae_lapic_error(struct ae_lapic *l, uint32_t bits, struct ae_lapic_effects *fx);
void
ae_lapic_eoi(struct ae_lapic *l, uint8_t vector, struct ae_lapic_effects *fx);
/* An EOI with nothing to tell: of an edge-triggered vector, while no LINT level
 * is in service; or of nothing. false: go the long way. *retired: a vector.
 * Owner. */
bool
ae_lapic_eoi_short(struct ae_lapic *l, bool *retired);
void
ae_lapic_lint_eoi(struct ae_lapic *l, unsigned pin, uint8_t vector,
                  struct ae_lapic_effects *fx);
/* Deliver an LVT entry for the owner, into his books. */
void
ae_lapic_local_own(struct ae_lapic *l, uint32_t offset,
                   struct ae_lapic_effects *fx);
void
ae_lapic_lint_recheck(struct ae_lapic *l, unsigned pin,
                      struct ae_lapic_effects *fx);
void
ae_lapic_clear(struct ae_lapic *l, struct ae_lapic_effects *fx);

/* The three vector maps from outside, beside posters at work: each bit of IRR
 * that was there is in fx->cleared, each that comes later stays. */
struct ae_lapic_vectors {
    uint32_t isr[AE_VECTOR_WORDS];
    uint32_t tmr[AE_VECTOR_WORDS];
    uint32_t irr[AE_VECTOR_WORDS];
};
void
ae_lapic_load_vectors(struct ae_lapic *l, const struct ae_lapic_vectors *v,
                      struct ae_lapic_effects *fx);
/* Recompute what is derived after registers were written from outside. */
void
ae_lapic_derive(struct ae_lapic *l, struct ae_lapic_effects *fx);

/* Is IRR empty by definition? Owner. */
static inline bool
ae_lapic_irr_void(const struct ae_lapic *l)
{
    return (l->irr_special & AE_IRR_VOID) != 0;
}

/* Hardware posts to this APIC from now on, or does no more (AVIC). It asks no
 * identity, so no reset makes IRR void: a bit that is there is pending. Owner.
 */
static inline void
ae_lapic_by_hardware(struct ae_lapic *l, bool on)
{
    l->by_hardware = on;
    if (on) {
        l->irr_special &= (uint8_t)~AE_IRR_VOID;
    }
}

/* The word of a slot, as it shall be seen: of a void IRR, 0. Owner. */
static inline uint32_t
ae_lapic_word(const struct ae_lapic *l, uint32_t slot)
{
    if (slot >= LAPIC_IRR >> 4 && slot < LAPIC_ESR >> 4 &&
        ae_lapic_irr_void(l)) {
        return 0;
    }
    return ae_vapic_read(l->page, slot << 4);
}

/* Did the access set nothing off? */
static inline bool
ae_lapic_quiet(const struct ae_lapic_effects *fx)
{
    return (fx->what | fx->events | fx->drop | fx->nr_errors | fx->ticks |
            fx->nr_local) == 0;
}

static inline bool
ae_lapic_enabled(const struct ae_lapic *l)
{
    return (l->base & AE_MASK(APIC_BASE_EN)) != 0;
}

static inline bool
ae_lapic_x2(const struct ae_lapic *l)
{
    return (l->base & AE_MASK(APIC_BASE_EXTD)) != 0;
}

static inline bool
ae_lapic_soft_enabled(const struct ae_lapic *l)
{
    return (ae_vapic_read(l->page, LAPIC_SVR) & AE_MASK(SVR_ENABLE)) != 0;
}

static inline enum avicemu_apic_mode
ae_lapic_mode(const struct ae_lapic *l)
{
    if (!ae_lapic_enabled(l)) {
        return AVICEMU_APIC_DISABLED;
    }
    return ae_lapic_x2(l) ? AVICEMU_APIC_X2APIC : AVICEMU_APIC_XAPIC;
}

static inline uint64_t
ae_lapic_base_page(const struct ae_lapic *l)
{
    return l->base & ~(uint64_t)0xfff;
}

/* Bits that LDR can hold in xAPIC mode: [KVM] an x2APIC LDR may still stand. */
static inline uint32_t
ae_lapic_ldr_mask(const struct ae_lapic *l)
{
    return l->model->traits->disable_resets ? AE_MASK(LDR_XAPIC) : 0xffffffffu;
}

/* [APM2 16.14]: (id[19:4] << 16) | (1 << id[3:0]). */
static inline uint32_t
ae_x2apic_ldr(uint32_t id)
{
    return ((id >> 4) & 0xffffu) << 16 | ae_bit32(id & 0xfu);
}

#endif
