/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run loop: what to inject before the guest runs, and what an injection
 * that succeeded changes.
 *
 *   OUTSIDE --enter--> IN_GUEST --exit--> OUTSIDE --block_begin--> BLOCKED
 *                                            ^------block_end--------'
 *
 * Order of events [APM2 8.5 priorities]: INIT, SIPI for a CPU that waits for
 * one, SMI, NMI, ExtINT, fixed. A CPU that waits for a SIPI takes nothing
 * else. What cannot be taken now asks for a window.
 *
 * Pending and ack are two steps: enter changes nothing that a failed injection
 * could lose. An ExtINT's INTA cycle at the PIC cannot be undone, so its
 * vector is latched until its ack.
 *
 * Edge kick: see deliver.c. Owner's calls. Progress: wait-free.
 */

#include <errno.h>

#include "hv/active.h"
#include "hv/vcpu.h"

/* What the core can take now, and what waits. */
struct choice {
    uint32_t events;
    uint32_t flags; /* AVICEMU_CPU_* */
    int vector;     /* highest deliverable, -1 */
    bool extint;
    bool hardware; /* AVIC delivers vectors later on, without an exit */
};

static bool
extint_waits(struct avicemu_vcpu *vcpu, uint32_t events)
{
    return vcpu->extint_latched ||
           (vcpu->vm->ops.inta != NULL &&
            ((events & AE_EV_EXTINT) != 0 || ae_lapic_extint(&vcpu->lapic)));
}

/* INTA cycle at the VMM's PIC, once per ExtINT. */
static uint8_t
extint_vector(struct avicemu_vcpu *vcpu)
{
    if (!vcpu->extint_latched) {
        /* ORD none: another request that comes now is another INTA; the
         * exchange only takes the one that was seen. Test: race_expire. */
        (void)ae_fetch_and_seqcst_u32(&vcpu->events, ~AE_EV_EXTINT);
        ae_callback_enter();
        vcpu->extint_vector = vcpu->vm->ops.inta(vcpu->opaque, vcpu);
        ae_callback_leave();
        vcpu->extint_latched = true;
    }
    return vcpu->extint_vector;
}

static bool
core_takes(const struct choice *c, uint32_t blocked)
{
    return (c->flags & (AVICEMU_CPU_BUSY | AVICEMU_CPU_GIF_CLEAR | blocked)) ==
           0;
}

static bool
core_takes_irq(const struct choice *c)
{
    return (c->flags & AVICEMU_CPU_IF) != 0 &&
           core_takes(c, AVICEMU_CPU_SHADOW);
}

/* NMI, SMI, interrupts: the one event, and the windows. */
static void
choose_running(struct avicemu_vcpu *vcpu, const struct choice *c,
               struct avicemu_todo *todo)
{
    uint32_t nmis = c->events & AE_EV_NMI_MASK;
    bool vector = c->vector >= 0;
    bool extint = c->extint;
    uint32_t what = 0;

    if ((c->events & AE_EV_SMI) != 0 &&
        core_takes(c, AVICEMU_CPU_SMI_BLOCKED)) {
        what = AVICEMU_DO_SMI;
    } else if (nmis != 0 &&
               core_takes(c, AVICEMU_CPU_NMI_BLOCKED | AVICEMU_CPU_SHADOW)) {
        what = AVICEMU_DO_NMI;
        nmis--;
    } else if (c->extint && core_takes_irq(c)) {
        what = AVICEMU_DO_EXTINT;
        todo->vector = extint_vector(vcpu);
        extint = false;
    } else if (c->vector >= 0 && core_takes_irq(c)) {
        what = AVICEMU_DO_INJECT;
        todo->vector = (uint8_t)c->vector;
        vector = false; /* the next one waits for an EOI or a lower TPR */
    }
    what |= extint || (vector && !c->hardware) ? AVICEMU_DO_WINDOW : 0;
    what |= nmis != 0 ? AVICEMU_DO_NMI_WINDOW : 0;
    todo->what = what;
}

/* Is there a reason to run, in what was read at entry? What comes later kicks;
 * an interrupt shadow is over when the CPU is halted. */
static bool
halt_over(const struct choice *c)
{
    if ((c->flags & AVICEMU_CPU_GIF_CLEAR) != 0) {
        return false;
    }
    return ((c->events & AE_EV_NMI_MASK) != 0 &&
            (c->flags & AVICEMU_CPU_NMI_BLOCKED) == 0) ||
           ((c->events & AE_EV_SMI) != 0 &&
            (c->flags & AVICEMU_CPU_SMI_BLOCKED) == 0) ||
           ((c->flags & AVICEMU_CPU_IF) != 0 && (c->vector >= 0 || c->extint));
}

static void
choose(struct avicemu_vcpu *vcpu, const struct choice *c,
       struct avicemu_todo *todo)
{
    const uint32_t takes =
        AVICEMU_DO_INJECT | AVICEMU_DO_EXTINT | AVICEMU_DO_NMI | AVICEMU_DO_SMI;

    todo->what = 0;
    todo->vector = 0;
    if ((c->events & AE_EV_INIT) != 0 &&
        core_takes(c, AVICEMU_CPU_SMI_BLOCKED)) {
        todo->what = AVICEMU_DO_INIT;
        return;
    }
    if ((c->events & AE_EV_WFS) != 0) {
        /* An INIT that is held back comes before the SIPI behind it. */
        bool sipi = (c->events & (AE_EV_SIPI | AE_EV_INIT)) == AE_EV_SIPI &&
                    core_takes(c, 0);

        todo->what = sipi ? AVICEMU_DO_SIPI : AVICEMU_DO_SLEEP;
        todo->vector = sipi ? (uint8_t)(c->events >> AE_EV_SIPI_SHIFT) : 0;
        return;
    }
    choose_running(vcpu, c, todo);
    if (vcpu->halted && (todo->what & takes) == 0 &&
        (c->flags & AVICEMU_CPU_BUSY) == 0 && !halt_over(c)) {
        todo->what = AVICEMU_DO_SLEEP;
    }
}

/* CR8 below which something pending, held back by the TPR alone, could be
 * taken; 0: nothing is. */
static uint8_t
tpr_threshold(struct avicemu_vcpu *vcpu, int irr)
{
    void *page = vcpu->lapic.page;
    int isr;

    if (irr < 0) {
        return 0;
    }
    isr = ae_vapic_highest(page, LAPIC_ISR);
    unsigned irr_class = ae_vector_class((unsigned)irr);
    unsigned isr_class = isr < 0 ? 0 : ae_vector_class((unsigned)isr);
    unsigned tpr_class = ae_vector_class(ae_vapic_read(page, LAPIC_TPR));

    return ae_lapic_enabled(&vcpu->lapic) && irr_class > isr_class &&
                   irr_class <= tpr_class
               ? (uint8_t)irr_class
               : 0;
}

/* The state word again, of a vCPU that took up a flip: a call that somebody
 * claimed stays claimed. */
static void
state_again(struct avicemu_vcpu *vcpu)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->state);
    uint32_t next;

    do {
        next = ae_active_in_guest(vcpu) | (old & AE_STATE_KICKED);
        /* ORD kick.B, inhibit.B: as state_enter(). */
    } while (!ae_cas_seqcst_u32(&vcpu->state, &old, next));
}

/* From here on posters call, or ring. The events that they and we see. */
static uint32_t
state_enter(struct avicemu_vcpu *vcpu)
{
    if (vcpu->avic.active) {
        ae_active_vmrun(vcpu);
        ae_active_reach(vcpu);
    }
    /*
     * ORD kick.B, inhibit.B: state := in guest, then events, IRR and (in
     * ae_active_follows()) the inhibit word. Partner: kick.A in hv/deliver.c,
     * inhibit.A in ae_tables_inhibit(). If weaker: the other side reads
     * "outside" and does not kick, we read what was before, and the guest runs
     * on beside a pending vector, or with AVIC although it is inhibited.
     * Test: race_kick, race_inhibit.
     */
    ae_store_seqcst_u32(&vcpu->state, ae_active_in_guest(vcpu));
    AE_STEP(kick_b);
    while (AE_UNLIKELY(!ae_active_follows(vcpu))) {
        ae_active_update(vcpu);
        state_again(vcpu);
    }
    ae_vcpu_look(vcpu);
    /* ORD kick.B: as above. */
    return ae_load_seqcst_u32(&vcpu->events);
}

/* What every todo says. */
static void
todo_common(const struct avicemu_vcpu *vcpu, struct avicemu_todo *todo)
{
    todo->cr8 =
        (uint8_t)ae_vector_class(ae_vapic_read(vcpu->lapic.page, LAPIC_TPR));
    todo->deadline = vcpu->lapic.timer.deadline;
}

static void
todo_fill(struct avicemu_vcpu *vcpu, struct choice *c,
          struct avicemu_todo *todo)
{
    int requested = ae_active_requested(vcpu);

    c->hardware = ae_active_by_word(vcpu);
    c->vector = ae_active_deliverable(vcpu, requested);
    c->extint = extint_waits(vcpu, c->events);
    choose(vcpu, c, todo);
    todo->tpr_threshold = c->hardware ? 0 : tpr_threshold(vcpu, requested);
    todo_common(vcpu, todo);
}

/* Nothing waits and nothing is to be chosen from, as at most entries. */
static inline bool
is_quiet(const struct avicemu_vcpu *vcpu, uint32_t events)
{
    return events == 0 && !vcpu->halted && !vcpu->extint_latched &&
           vcpu->vm->ops.inta == NULL &&
           ae_vapic_empty(vcpu->lapic.page, LAPIC_IRR);
}

static AE_NOINLINE void
enter_choose(struct avicemu_vcpu *vcpu, uint32_t events,
             struct avicemu_todo *todo)
{
    struct choice c = { .flags = vcpu->cpu_flags, .events = events };

    todo_fill(vcpu, &c, todo);
    if ((todo->what & AVICEMU_DO_SLEEP) == 0) {
        vcpu->halted = false;
    }
}

int
ae_vcpu_enter(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu,
              struct avicemu_todo *todo)
{
    if (!ae_vcpu_at_rest(vcpu)) {
        return -EBUSY;
    }
    uint32_t events = state_enter(vcpu);

    /* Behind the barrier, which would wait for these stores. */
    vcpu->cpu_flags = cpu->flags;
    vcpu->lapic.imported = false;
    vcpu->lapic.waiting_deadline = 0; /* the host is done loading */
    vcpu->stats.entries++;
    if (AE_LIKELY(is_quiet(vcpu, events))) {
        todo->what = 0;
        todo->vector = 0;
        todo->tpr_threshold = 0;
        todo_common(vcpu, todo);
    } else {
        enter_choose(vcpu, events, todo);
    }
    return 0;
}

int
ae_vcpu_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
                const struct avicemu_cpu *cpu, struct avicemu_todo *todo)
{
    const struct ae_vcpu_avic *v = &vcpu->avic;
    struct choice c = { .flags = cpu->flags };

    if (!ae_vcpu_in_guest(vcpu)) {
        return -EBUSY;
    }
    if (!v->active) {
        return -EOPNOTSUPP;
    }
    /* ORD none: the owner's own store. */
    if (!(v->loaded && ae_bells_rung(&v->core.hw->bells,
                                     ae_load_relaxed_u32(&vcpu->pcpu))) &&
        when == AVICEMU_RECHECK_DOORBELL) {
        return -EAGAIN;
    }
    vcpu->cpu_flags = cpu->flags;
    c.vector = ae_avic_pending(vcpu->lapic.page);
    todo->what = 0;
    todo->vector = 0;
    if (c.vector >= 0 && core_takes_irq(&c)) {
        todo->what = AVICEMU_DO_INJECT;
        todo->vector = (uint8_t)c.vector;
    }
    todo->tpr_threshold = 0;
    todo_common(vcpu, todo);
    return 0;
}

int
ae_vcpu_exit(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu)
{
    if (!ae_vcpu_in_guest(vcpu)) {
        return -EBUSY;
    }
    /* ORD none: a late poster that still reads "in guest" kicks once too often;
     * the next enter or block has its own store and scans. */
    ae_store_relaxed_u32(&vcpu->state, AE_OUTSIDE);
    vcpu->cpu_flags = cpu->flags;
    if (cpu->cr8 !=
        ae_vector_class(ae_vapic_read(vcpu->lapic.page, LAPIC_TPR))) {
        ae_lapic_set_tpr(&vcpu->lapic, cpu->cr8 << 4);
    }
    return 0;
}

/* ---- acknowledge -------------------------------------------------------- */

/* Take bits off the event word; false if they are not all there. */
static bool
event_take(struct avicemu_vcpu *vcpu, uint32_t bits)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->events);

    do {
        if ((old & bits) != bits) {
            return false;
        }
        /* ORD kick.B: the event, then what its poster wrote before. Partner:
         * kick.A. If weaker: a SIPI's start code is not seen yet.
         * Test: race_kick. */
    } while (!ae_cas_seqcst_u32(&vcpu->events, &old, old & ~bits));
    return true;
}

static int
ack_inject(struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct ae_lapic_effects fx = { .what = 0 };

    if (!ae_lapic_ack(&vcpu->lapic, vector, &fx)) {
        return -ENOENT;
    }
    vcpu->stats.injected++;
    if (vcpu->books != NULL) {
        vcpu->books->acked[vector]++;
    }
    if (fx.nr_local != 0 || fx.events != 0) {
        ae_vcpu_apply(vcpu, &fx);
    }
    return 0;
}

static int
ack_extint(struct avicemu_vcpu *vcpu, uint8_t vector)
{
    if (!vcpu->extint_latched || vcpu->extint_vector != vector) {
        return -ENOENT;
    }
    vcpu->extint_latched = false;
    vcpu->stats.extint++;
    return 0;
}

static int
ack_nmi(struct avicemu_vcpu *vcpu)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->events);

    do {
        if ((old & AE_EV_NMI_MASK) == 0) {
            return -ENOENT;
        }
        /* ORD kick.B: as event_take(). */
    } while (!ae_cas_seqcst_u32(&vcpu->events, &old, old - 1));
    vcpu->stats.nmi++;
    return 0;
}

static int
ack_init(struct avicemu_vcpu *vcpu)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint32_t wait = vcpu->lapic.bsp ? 0 : AE_EV_WFS;
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->events);
    uint32_t next;

    do {
        if ((old & AE_EV_INIT) == 0) {
            return -ENOENT;
        }
        /* A SIPI right behind the INIT stays; the BSP has no use for it. */
        next = (old & (AE_EV_SIPI | AE_EV_SIPI_VECTOR | AE_EV_EXPIRED)) | wait;
        next = wait != 0 ? next : next & AE_EV_EXPIRED;
        /* ORD kick.B: as event_take(). */
    } while (!ae_cas_seqcst_u32(&vcpu->events, &old, next));
    /* This INIT is taken, and a SIPI that stays is not lost. */
    ae_vcpu_book_lost(vcpu, old & ~(AE_EV_INIT | (next & AE_EV_SIPI)));
    vcpu->stats.init++;
    vcpu->extint_latched = false;
    vcpu->halted = false;
    ae_lapic_init_signal(&vcpu->lapic, &fx);
    ae_vcpu_apply(vcpu, &fx);
    return 0;
}

static int
ack_sipi(struct avicemu_vcpu *vcpu, uint8_t vector)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->events);
    const uint32_t need = AE_EV_SIPI | AE_EV_WFS;

    do {
        if ((old & need) != need ||
            (uint8_t)(old >> AE_EV_SIPI_SHIFT) != vector) {
            return -ENOENT;
        }
        /* ORD kick.B: as event_take(). */
    } while (!ae_cas_seqcst_u32(&vcpu->events, &old,
                                old & ~(need | AE_EV_SIPI_VECTOR)));
    vcpu->stats.sipi++;
    return 0;
}

int
ae_vcpu_ack(struct avicemu_vcpu *vcpu, enum avicemu_do what, uint8_t vector)
{
    switch (what) {
    case AVICEMU_DO_INJECT:
        return ack_inject(vcpu, vector);
    case AVICEMU_DO_EXTINT:
        return ack_extint(vcpu, vector);
    case AVICEMU_DO_NMI:
        return ack_nmi(vcpu);
    case AVICEMU_DO_SMI:
        if (!event_take(vcpu, AE_EV_SMI)) {
            return -ENOENT;
        }
        vcpu->stats.smi++;
        return 0;
    case AVICEMU_DO_INIT:
        return ack_init(vcpu);
    case AVICEMU_DO_SIPI:
        return ack_sipi(vcpu, vector);
    case AVICEMU_DO_WINDOW:
    case AVICEMU_DO_NMI_WINDOW:
    case AVICEMU_DO_SLEEP:
    default:
        return -EINVAL;
    }
}
