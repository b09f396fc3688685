/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Halting: the sleeper's side of the wake edge, and the rules of what ends a
 * halt.
 *
 *   INIT                 always
 *   SIPI                 while the CPU waits for one; nothing else does then
 *   NMI, SMI             unless blocked, whatever IF is
 *   fixed, ExtINT        if IF was 1 at HLT and the priority allows it
 *
 * The run state carries the same rules as a threshold, so that a poster wakes
 * only a sleeper that will find a reason [cases WAK-06]: 2 * PPR class + 1, or
 * ExtINT's level with IF = 0, or SMI's in wait-for-SIPI.
 *
 * Edge wake: see deliver.c. Owner's calls. Progress: wait-free.
 */

#include "hv/halt.h"

#include <errno.h>

#include "hv/active.h"

static unsigned
threshold(struct avicemu_vcpu *vcpu, uint32_t events)
{
    if ((events & AE_EV_WFS) != 0) {
        return AE_LEVEL_SMI;
    }
    if ((vcpu->cpu_flags & AVICEMU_CPU_IF) == 0) {
        return AE_LEVEL_EXTINT;
    }
    return 2 * ae_vector_class(ae_vapic_read(vcpu->lapic.page, LAPIC_PPR)) + 1;
}

static bool
interrupt_waits(struct avicemu_vcpu *vcpu, uint32_t events)
{
    if ((vcpu->cpu_flags & AVICEMU_CPU_IF) == 0) {
        return false;
    }
    return ae_active_pending(vcpu) >= 0 || vcpu->extint_latched ||
           (vcpu->vm->ops.inta != NULL &&
            ((events & AE_EV_EXTINT) != 0 || ae_lapic_extint(&vcpu->lapic)));
}

bool
ae_halt_runnable(struct avicemu_vcpu *vcpu)
{
    /* ORD wake.B: the state, then events and IRR. Partner: wake.A in
     * hv/deliver.c. If weaker: see there. Test: race_wake. */
    uint32_t events = ae_load_seqcst_u32(&vcpu->events);
    uint32_t flags = vcpu->cpu_flags;

    if ((events & (AE_EV_EXPIRED | AE_EV_ERROR)) != 0) {
        return true;
    }
    if ((flags & AVICEMU_CPU_GIF_CLEAR) != 0) {
        return (events & AE_EV_WFS) == 0 && !vcpu->halted;
    }
    if ((events & AE_EV_INIT) != 0 && (flags & AVICEMU_CPU_SMI_BLOCKED) == 0) {
        return true;
    }
    if ((events & AE_EV_WFS) != 0) {
        return (events & (AE_EV_SIPI | AE_EV_INIT)) == AE_EV_SIPI;
    }
    if (!vcpu->halted) {
        return true;
    }
    if ((events & AE_EV_NMI_MASK) != 0 &&
        (flags & AVICEMU_CPU_NMI_BLOCKED) == 0) {
        return true;
    }
    if ((events & AE_EV_SMI) != 0 && (flags & AVICEMU_CPU_SMI_BLOCKED) == 0) {
        return true;
    }
    return interrupt_waits(vcpu, events);
}

enum avicemu_sleep
ae_halt_begin(struct avicemu_vcpu *vcpu)
{
    /* ORD none: the owner's own word, but for KICKED. */
    if (ae_where_of(ae_load_relaxed_u32(&vcpu->state)) != AE_OUTSIDE) {
        return AVICEMU_SLEEP_NO;
    }
    /* ORD none: WFS changes by the owner only. */
    uint32_t events = ae_load_relaxed_u32(&vcpu->events);
    uint32_t state = AE_BLOCKED | threshold(vcpu, events)
                                      << AE_STATE_LEVEL_SHIFT;

    if (vcpu->vm->tables != NULL) {
        ae_posting_follow(vcpu, AE_POSTING_BLOCKED);
        ae_tables_stopped(vcpu);
    }
    /*
     * ORD wake.B: state := blocked, then events and IRR. Partner: wake.A in
     * hv/deliver.c. If weaker: the poster reads "outside" and calls nobody
     * while we read an empty IRR: a vCPU asleep on a pending vector.
     * Test: race_wake.
     */
    ae_store_seqcst_u32(&vcpu->state, state);
    AE_STEP(wake_b);
    if (ae_halt_runnable(vcpu)) {
        (void)ae_halt_end(vcpu);
        return AVICEMU_SLEEP_NO;
    }
    vcpu->stats.blocks++;
    return AVICEMU_SLEEP_YES;
}

int
ae_halt_end(struct avicemu_vcpu *vcpu)
{
    /* ORD none: the owner's own word, but for KICKED. */
    if (ae_where_of(ae_load_relaxed_u32(&vcpu->state)) != AE_BLOCKED) {
        return -EBUSY;
    }
    /* ORD none: a late poster that still reads "blocked" calls once too often,
     * which is harmless; the next enter or block has its own store and scans.
     */
    ae_store_relaxed_u32(&vcpu->state, AE_OUTSIDE);
    if (vcpu->vm->tables != NULL) {
        ae_tables_resumed(vcpu);
        ae_posting_follow(vcpu, AE_POSTING_OUTSIDE);
    }
    return 0;
}
