/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VCPU_H
#define AE_HV_VCPU_H

/*
 * A vCPU's life, its loop and its guest's accesses. See vcpu.c, entry.c.
 */

#include "hv/halt.h"

/* ---- life: vcpu.c ------------------------------------------------------- */
int
ae_vcpu_create(struct avicemu_vm *vm, uint32_t apic_id, void *opaque,
               struct avicemu_vcpu **ret);
int
ae_vcpu_destroy(struct avicemu_vcpu *vcpu);
int
ae_vcpu_reset(struct avicemu_vcpu *vcpu);
uint64_t
ae_vcpu_bytes(const struct avicemu_vm *vm);

/* Events that INIT, reset or a load takes away, for the books. */
void
ae_vcpu_book_lost(struct avicemu_vcpu *vcpu, uint32_t events);

/* Carry out what an access of the owner decided. */
void
ae_vcpu_apply(struct avicemu_vcpu *vcpu, struct ae_lapic_effects *fx);

/* Tell the host the next deadline if it changed, or if told to. */
enum ae_arm {
    AE_ARM_CHANGED,
    AE_ARM_ALWAYS
};
void
ae_vcpu_arm(struct avicemu_vcpu *vcpu, enum ae_arm when);

/* Take the owner's events: due timers, errors that others caused. */
void
ae_vcpu_take_events(struct avicemu_vcpu *vcpu);
static inline void
ae_vcpu_look(struct avicemu_vcpu *vcpu)
{
    /* ORD expire.B: in enter, the state, then the event. Partner: expire.A in
     * ae_deliver_owner(). If weaker: it sees us outside, we see no event, and
     * a due timer waits for the next exit. Test: race_expire. */
    if (AE_UNLIKELY((ae_load_seqcst_u32(&vcpu->events) &
                     (AE_EV_EXPIRED | AE_EV_ERROR)) != 0)) {
        ae_vcpu_take_events(vcpu);
    }
}

uint64_t
ae_vcpu_now(const struct avicemu_vcpu *vcpu);

/* ---- guest accesses, without AVIC: vcpu.c ------------------------------- */

/* The EOI of most interrupts; false: go the long way. */
static inline bool
ae_vcpu_eoi_short(struct avicemu_vcpu *vcpu)
{
    bool retired;

    if (!ae_lapic_eoi_short(&vcpu->lapic, &retired)) {
        return false;
    }
    vcpu->stats.eoi += retired;
    return true;
}

/* Is the whole access inside the page of an APIC in xAPIC mode? */
bool
ae_vcpu_claims(const struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len);
bool
ae_vcpu_claims_msr(uint32_t msr);
enum avicemu_access
ae_vcpu_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                  void *data);
enum avicemu_access
ae_vcpu_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                   const void *data);
enum avicemu_access
ae_vcpu_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret);
enum avicemu_access
ae_vcpu_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value);

/* ---- the loop: entry.c -------------------------------------------------- */
int
ae_vcpu_enter(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu,
              struct avicemu_todo *todo);
int
ae_vcpu_ack(struct avicemu_vcpu *vcpu, enum avicemu_do what, uint8_t vector);
/* What AVIC delivers in the guest: see avicemu_vcpu_recheck(). */
int
ae_vcpu_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
                const struct avicemu_cpu *cpu, struct avicemu_todo *todo);
/*
 * The short answer of a recheck: in the guest, AVIC active, the doorbell a
 * word, and it was not rung. ORD none: the owner's own word, but for KICKED;
 * and a ring that is not seen yet is there at the next look.
 */
static inline bool
ae_vcpu_unrung(const struct avicemu_vcpu *vcpu)
{
    const uint32_t mask = AE_STATE_WHERE | AE_STATE_BELL;

    return (ae_load_relaxed_u32(&vcpu->state) & mask) ==
               (AE_IN_GUEST | AE_STATE_BELL) &&
           ae_load_relaxed_u32(vcpu->avic.word) == 0;
}
int
ae_vcpu_exit(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu);

/* Between enter and exit? ORD none: the owner's own word, but for KICKED. */
static inline bool
ae_vcpu_in_guest(const struct avicemu_vcpu *vcpu)
{
    return ae_where_of(ae_load_relaxed_u32(&vcpu->state)) == AE_IN_GUEST;
}

/* Outside guest and block? ORD none: the owner's own word, but for KICKED. */
static inline bool
ae_vcpu_outside(const struct avicemu_vcpu *vcpu)
{
    return ae_where_of(ae_load_relaxed_u32(&vcpu->state)) == AE_OUTSIDE;
}

/* The same, and no access has left an exit that nobody handled yet? */
static inline bool
ae_vcpu_at_rest(const struct avicemu_vcpu *vcpu)
{
    return ae_vcpu_outside(vcpu) && vcpu->avic.exit.kind == AE_EXIT_NONE;
}

#endif
