/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_ACTIVE_H
#define AE_HV_ACTIVE_H

/*
 * Is AVIC active on a vCPU, and where does the vCPU run? See active.c.
 */

#include "hv/deliver.h"
#include "hv/posting.h"
#include "hv/tables.h"

/* ---- life (owner): VMs with tables only --------------------------------- */

/* Fill the VMCB of a new vCPU. */
void
ae_active_init(struct avicemu_vcpu *vcpu);

/* ---- flips -------------------------------------------------------------- */

/* Recompute whether AVIC is active, and act on it. Owner, outside. */
void
ae_active_update(struct avicemu_vcpu *vcpu);

/* The entry rule: is AVIC as the inhibit word and the mode have it? Owner. */
static inline bool
ae_active_follows(const struct avicemu_vcpu *vcpu)
{
    const struct ae_tables *t = vcpu->vm->tables;

    /* ORD inhibit.B: the state, then the word. Partner: inhibit.A in
     * ae_tables_inhibit(). If weaker: see there. Test: race_inhibit. */
    return t == NULL ||
           vcpu->avic.active == (ae_load_seqcst_u32(&t->inhibits) == 0 &&
                                 ae_lapic_enabled(&vcpu->lapic));
}

/* The silicon's VMRUN: latch what changed, keep V_TPR in step. Owner. */
void
ae_active_vmrun_all(struct avicemu_vcpu *vcpu);
static inline void
ae_active_vmrun(struct avicemu_vcpu *vcpu)
{
    if (AE_UNLIKELY(vcpu->avic.v_tpr != ae_vector_class(ae_vapic_read(
                                            vcpu->lapic.page, LAPIC_TPR)))) {
        ae_active_vmrun_all(vcpu);
    }
}

/* Change reasons; if AVIC goes on or off, tell all vCPUs. Any thread. */
void
ae_active_inhibit(struct avicemu_vm *vm, uint32_t mask, uint32_t value);

/* All vCPUs in the guest must come out and look at the inhibit word. Calls
 * kick. Any thread. */
void
ae_active_request(struct avicemu_vm *vm);

/* ---- where it runs (owner) ---------------------------------------------- */
void
ae_active_load(struct avicemu_vcpu *vcpu, uint32_t pcpu);
void
ae_active_put(struct avicemu_vcpu *vcpu);

/* It enters: devices reach it by a doorbell, or by the log. */
static inline void
ae_active_reach(struct avicemu_vcpu *vcpu)
{
    const struct ae_vcpu_avic *v = &vcpu->avic;

    if (AE_UNLIKELY(!v->loaded || (v->words && v->word == NULL))) {
        ae_posting_follow(vcpu, AE_POSTING_ENTERED);
    }
}

/* Does hardware deliver later vectors by itself, without an exit? */
static inline bool
ae_active_by_word(const struct avicemu_vcpu *vcpu)
{
    return vcpu->avic.active && vcpu->avic.words;
}

/* The state word of a vCPU in the guest. */
static inline uint32_t
ae_active_in_guest(const struct avicemu_vcpu *vcpu)
{
    const struct ae_vcpu_avic *v = &vcpu->avic;

    return AE_IN_GUEST | (v->active && v->loaded && v->words && v->word != NULL
                              ? AE_STATE_BELL
                              : 0);
}

/* Highest vector that asks for delivery, and the one that gets through: -1.
 * With AVIC hardware decides, by the page alone. Owner. */
static inline int
ae_active_requested(const struct avicemu_vcpu *vcpu)
{
    if (AE_LIKELY(ae_vapic_empty(vcpu->lapic.page, LAPIC_IRR))) {
        return -1;
    }
    return AE_UNLIKELY(vcpu->avic.active) ? ae_avic_requested(vcpu->lapic.page)
                                          : ae_lapic_requested(&vcpu->lapic);
}

static inline int
ae_active_deliverable(const struct avicemu_vcpu *vcpu, int requested)
{
    if (requested < 0) {
        return -1;
    }
    return AE_UNLIKELY(vcpu->avic.active)
               ? ae_avic_deliverable(vcpu->lapic.page, requested)
               : ae_lapic_deliverable(&vcpu->lapic, requested);
}

static inline int
ae_active_pending(const struct avicemu_vcpu *vcpu)
{
    return ae_active_deliverable(vcpu, ae_active_requested(vcpu));
}

#endif
