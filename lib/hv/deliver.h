/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_DELIVER_H
#define AE_HV_DELIVER_H

/*
 * Making something pending at a vCPU, and telling whoever must know.
 * See deliver.c.
 */

#include "hv/apicmap.h"

/* Who must be called after something became pending. */
enum ae_call {
    AE_CALL_NONE,
    AE_CALL_KICK,
    AE_CALL_WAKE,
    AE_CALL_RING, /* a doorbell word: no callback */
};

/* ---- one vCPU; any thread; the caller keeps it alive and then calls ----- */

/* A fixed vector into the IRR. *why: enum avicemu_drop if DROPPED. */
enum avicemu_post
ae_deliver_vector(struct avicemu_vcpu *vcpu, uint8_t vector,
                  enum avicemu_trigger trigger, enum avicemu_drop *why,
                  enum ae_call *call);

/* NMI, SMI, INIT, SIPI, EXTINT by message: refused by an APIC that is off. */
enum avicemu_post
ae_deliver_mode(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
                uint8_t vector, enum avicemu_drop *why, enum ae_call *call);

/* An event into the event word; call nobody. (deliver_event.c) */
enum avicemu_post
ae_event_put(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
             uint8_t vector, enum avicemu_drop *why);

/* Set AE_EV_EXPIRED or AE_EV_ERROR: the owner must look. */
enum ae_call
ae_deliver_owner(struct avicemu_vcpu *vcpu, uint32_t event);

/* A vector was put into the IRR by an LVT entry: call whoever must know. */
void
ae_deliver_local_call(struct avicemu_vcpu *vcpu);

/* The AE_EVENT_* that an LVT entry raised. Local sources latch an ExtINT;
 * LINT pins are levels, which enter looks at. What became of the last one. */
enum ae_source {
    AE_SOURCE_LOCAL, /* somebody else raised it */
    AE_SOURCE_LINT,
    AE_SOURCE_OWNER, /* the owner did, and will look: nobody is called */
};
enum avicemu_post
ae_deliver_lvt_events(struct avicemu_vcpu *vcpu, uint32_t events,
                      enum ae_source source);

/* Hardware has posted into the vCPU's IRR, and may have called nobody: make the
 * call that is due for what stands there. The caller keeps it alive. false:
 * none was. Any thread. */
bool
ae_deliver_pending(struct avicemu_vcpu *vcpu);

/* Do the call. Nothing of the library is held. */
void
ae_call(struct avicemu_vcpu *vcpu, enum ae_call call);

/* ---- calls to several, from a read-side section ------------------------- */

#define AE_CALLS_BATCH 32u

/* vCPUs that are to be called once the section is left; pinned until then. */
struct ae_calls {
    unsigned nr;
    unsigned nr_due; /* calls that were due, all batches */
    struct {
        struct avicemu_vcpu *vcpu;
        unsigned level;
    } at[AE_CALLS_BATCH];
};

static inline void
ae_calls_begin(struct ae_calls *calls)
{
    calls->nr = 0;
    calls->nr_due = 0;
}

/* Something of this level became pending at the vCPU. In a section, which is
 * left for the calls, and entered again, when the batch is full. */
void
ae_calls_add(struct ae_calls *calls, struct avicemu_vcpu *vcpu, unsigned level);
/* The same for what stands in its IRR. */
void
ae_calls_pending(struct ae_calls *calls, struct avicemu_vcpu *vcpu);
/* Make the calls that are left. Outside the section. */
void
ae_calls_end(struct ae_calls *calls);

/* Something of this level became pending at all vCPUs. Outside a section.
 * Returns how many calls were due. */
unsigned
ae_calls_all(struct avicemu_vm *vm, unsigned level);

/* ---- messages ----------------------------------------------------------- */

/*
 * Send a message to all that it concerns. sender: NULL for a device.
 * Callbacks happen inside, with nothing held. Adds to *posted.
 */
void
ae_deliver_message(struct avicemu_vm *vm, struct avicemu_vcpu *sender,
                   const struct ae_message *m, struct avicemu_posted *posted);

/* The same in a section of the caller's, who makes the calls that are due. */
void
ae_deliver_message_in(struct avicemu_vm *vm, struct avicemu_vcpu *sender,
                      const struct ae_message *m, struct ae_calls *calls,
                      struct avicemu_posted *posted);
/* An edge-triggered vector, at a vCPU that was found in the section. */
void
ae_deliver_found(struct avicemu_vcpu *vcpu, uint8_t vector,
                 struct ae_calls *calls, struct avicemu_posted *posted);

/* The sender's books about a vector that became pending at target. In the
 * section that found the target. */
void
ae_deliver_book(struct avicemu_vcpu *sender, const struct avicemu_vcpu *target,
                uint8_t vector, enum avicemu_post result);

/* Is the calling thread inside one of the VMM's callbacks? */
bool
ae_in_callback(void);
/* Around every callback. */
void
ae_callback_enter(void);
void
ae_callback_leave(void);

static inline enum ae_where
ae_where_of(uint32_t state)
{
    return (enum ae_where)(state & AE_STATE_WHERE);
}

#endif
