/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC register page: interrupt request, in-service and trigger-mode maps
 * and the processor priority. It models the storage and the priority logic of
 * [APM2 16.6.3 IRR and ISR, 16.6.4 priorities]; it knows no modes, no LVT and
 * no delivery. The layout is the xAPIC page in every mode, so that an AVIC
 * backing page [APM2 15.29.5] is the same memory.
 *
 *   080 TPR   0A0 PPR   100-170 ISR   180-1F0 TMR   200-270 IRR   480-4F0 IER
 *   Vector v is bit v & 31 of the word at base + 16 * (v >> 5).
 *
 * Writers: IRR and TMR by everybody, by locked operations only. All other
 * words by the vCPU's owner (LINT words also by the pin's driver: lapic.c).
 *
 * Invariants, when quiet
 *   PPR = f(TPR, highest ISR)                       (owner's updates keep it)
 *   no bit below 16 in IRR, ISR
 *
 * Edges
 *   post  A ae_vapic_post()  device's writes -> IRR bit set       seq_cst
 *         B ae_vapic_ack()   IRR bit cleared -> handler's reads   seq_cst
 *   tmr   A ae_vapic_post()  TMR bit -> IRR bit                   seq_cst
 *         B ae_vapic_ack()   IRR bit -> TMR bit (read at EOI)     seq_cst
 *   The IRR bit is also side A of "wake" and "kick" (hv/vcpu.c).
 *
 * May overlap: post with everything. ack, retire, update_ppr are the owner's.
 * Progress: wait-free; post is one locked operation where TMR agrees.
 */

#include "hw/vapic.h"

#include "base/step.h"

/*
 * Bring TMR[vector] to the trigger mode. Usually it is there: one load.
 * Two posters that disagree about the trigger of one vector leave one of both
 * values, as two messages on a bus would.
 */
static void
tmr_set(void *page, uint8_t vector, enum avicemu_trigger trigger)
{
    _Atomic uint32_t *tmr =
        ae_vapic_word(page, LAPIC_TMR + ae_vector_offset(vector));
    uint32_t bit = ae_vector_bit(vector);
    bool level = trigger == AVICEMU_TRIGGER_LEVEL;

    /* ORD none: only decides whether the store below is needed. */
    if (((ae_load_relaxed_u32(tmr) & bit) != 0) == level) {
        return;
    }
    /*
     * ORD tmr.A: TMR, then the IRR bit. Partner: tmr.B in ae_vapic_ack().
     * If weaker: the vCPU takes and retires the vector with the old trigger
     * mode, and a level-triggered line never gets its EOI. Test: race_tmr.
     */
    if (level) {
        (void)ae_fetch_or_seqcst_u32(tmr, bit);
    } else {
        (void)ae_fetch_and_seqcst_u32(tmr, ~bit);
    }
    AE_STEP(tmr_a);
}

enum avicemu_post
ae_vapic_post(void *page, uint8_t vector, enum avicemu_trigger trigger)
{
    tmr_set(page, vector, trigger);
    /*
     * ORD post.A: everything before, then the IRR bit. Partner: post.B in
     * ae_vapic_ack(). If weaker: the handler reads a completion entry that
     * is not written yet. Test: race_post. A bit that is set already is set
     * again: a plain test could pass the poster's own earlier stores.
     */
    bool was = ae_test_and_set_seqcst_u32(
        ae_vapic_word(page, LAPIC_IRR + ae_vector_offset(vector)), vector);

    AE_STEP(post_a);
    if (trigger == AVICEMU_TRIGGER_LEVEL) {
        /* A reset may have emptied TMR between the two: then its EOI would not
         * be broadcast. */
        tmr_set(page, vector, trigger);
    }
    return was ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

int
ae_vapic_highest(void *page, uint32_t base)
{
    for (int i = AE_VECTOR_WORDS - 1; i >= 0; i--) {
        /* ORD none: a scan decides what to look at; side B of the edges is
         * the locked operation on the bit, or the caller's state exchange. */
        uint32_t word =
            ae_load_relaxed_u32(ae_vapic_word(page, base + ((uint32_t)i << 4)));

        if (word != 0) {
            return i * 32 + ae_highest_bit32(word);
        }
    }
    return -1;
}

int
ae_vapic_highest_enabled(void *page)
{
    for (int i = AE_VECTOR_WORDS - 1; i >= 0; i--) {
        uint32_t word = ae_vapic_read(page, LAPIC_IRR + ((uint32_t)i << 4)) &
                        ae_vapic_read(page, LAPIC_IER0 + ((uint32_t)i << 4));

        if (word != 0) {
            return i * 32 + ae_highest_bit32(word);
        }
    }
    return -1;
}

uint32_t
ae_vapic_ppr(uint32_t tpr, int in_service)
{
    uint32_t isrv = in_service < 0 ? 0 : (uint32_t)in_service;

    /* [APM2 16.6.4]: the task priority wins a tie, with its sub-class. */
    return ae_vector_class(tpr) >= ae_vector_class(isrv) ? tpr : isrv & 0xf0u;
}

uint32_t
ae_vapic_update_ppr(void *page)
{
    uint32_t ppr = ae_vapic_ppr(ae_vapic_read(page, LAPIC_TPR),
                                ae_vapic_highest(page, LAPIC_ISR));

    ae_vapic_write(page, LAPIC_PPR, ppr);
    return ppr;
}

bool
ae_vapic_ack(void *page, uint8_t vector)
{
    uint32_t offset = ae_vector_offset(vector);

    /*
     * ORD post.B, tmr.B: the IRR bit, then TMR and the handler's reads.
     * Partner: post.A, tmr.A in ae_vapic_post(). If weaker: see there.
     * Test: race_post, race_tmr.
     */
    if (!ae_test_and_clear_seqcst_u32(ae_vapic_word(page, LAPIC_IRR + offset),
                                      vector)) {
        return false;
    }
    AE_STEP(post_b);
    ae_vapic_write(page, LAPIC_ISR + offset,
                   ae_vapic_read(page, LAPIC_ISR + offset) |
                       ae_vector_bit(vector));
    (void)ae_vapic_update_ppr(page);
    return true;
}

void
ae_vapic_retire_highest(void *page, uint8_t vector)
{
    uint32_t offset = LAPIC_ISR + ae_vector_offset(vector);
    uint32_t word = ae_vapic_read(page, offset) & ~ae_vector_bit(vector);
    int next = -1;

    ae_vapic_write(page, offset, word);
    while (word == 0 && offset > LAPIC_ISR) {
        offset -= 16;
        word = ae_vapic_read(page, offset);
    }
    if (word != 0) {
        next = (int)((offset - LAPIC_ISR) * 2) + ae_highest_bit32(word);
    }
    ae_vapic_write(page, LAPIC_PPR,
                   ae_vapic_ppr(ae_vapic_read(page, LAPIC_TPR), next));
}

void
ae_vapic_retire(void *page, uint8_t vector)
{
    uint32_t offset = LAPIC_ISR + ae_vector_offset(vector);

    ae_vapic_write(page, offset,
                   ae_vapic_read(page, offset) & ~ae_vector_bit(vector));
    (void)ae_vapic_update_ppr(page);
}
