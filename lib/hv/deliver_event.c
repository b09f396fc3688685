/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The event word: NMI, SMI, INIT, SIPI and ExtINT, which bypass the IRR, and
 * what another one of them makes of those that are not taken yet.
 *
 *   NMI     two deep: one in service, one latched
 *   INIT    kills a SIPI that was not taken
 *   SIPI    only of who waits for one, or is about to; the first one wins, or
 *           the last, as the personality has it
 *
 * Edges wake and kick, see deliver.c: the exchange is their side A. Any thread,
 * lock-free.
 */

#include "hv/deliver.h"

static enum avicemu_post
sipi_next(const struct avicemu_vcpu *vcpu, uint8_t vector, uint32_t old,
          uint32_t *next)
{
    bool again = (old & AE_EV_SIPI) != 0;

    if ((old & (AE_EV_WFS | AE_EV_INIT)) == 0) {
        return AVICEMU_POST_DROPPED;
    }
    if (!again || vcpu->vm->model.traits->last_sipi_wins) {
        *next = (old & ~AE_EV_SIPI_VECTOR) | AE_EV_SIPI |
                (uint32_t)vector << AE_EV_SIPI_SHIFT;
    }
    return again ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

/* What the event word becomes when an event of this mode arrives. */
static enum avicemu_post
event_next(const struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
           uint8_t vector, uint32_t old, uint32_t *next)
{
    uint32_t bit;

    *next = old;
    if (mode == AVICEMU_DELIVERY_SIPI) {
        return sipi_next(vcpu, vector, old, next);
    }
    if (mode == AVICEMU_DELIVERY_NMI) {
        /* One can be in service while another is latched: two deep. */
        if ((old & AE_EV_NMI_MASK) == 2) {
            return AVICEMU_POST_MERGED;
        }
        *next = old + 1;
        return AVICEMU_POST_NEW;
    }
    if (mode == AVICEMU_DELIVERY_INIT) {
        /* It kills a SIPI that was not taken yet. */
        bit = AE_EV_INIT;
        *next = old & ~(AE_EV_SIPI | AE_EV_SIPI_VECTOR);
    } else if (mode == AVICEMU_DELIVERY_SMI) {
        bit = AE_EV_SMI;
    } else if (mode == AVICEMU_DELIVERY_EXTINT) {
        bit = AE_EV_EXTINT;
    } else {
        return AVICEMU_POST_DROPPED;
    }
    *next |= bit;
    return (old & bit) != 0 ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

enum avicemu_post
ae_event_put(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
             uint8_t vector, enum avicemu_drop *why)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&vcpu->events);
    uint32_t next;
    enum avicemu_post result;

    do {
        result = event_next(vcpu, mode, vector, old, &next);
        if (result == AVICEMU_POST_DROPPED) {
            *why = mode == AVICEMU_DELIVERY_SIPI ? AVICEMU_DROP_NOT_WAITING
                                                 : AVICEMU_DROP_MODE;
            return result;
        }
        /* ORD wake.A, kick.A: see call_claim() in
         * hv/deliver.c. Written back also when it
         * merges, so that the poster's writes are seen by who takes it. */
    } while (!ae_cas_seqcst_u32(&vcpu->events, &old, next));
    AE_STEP(event_a);
    return result;
}
