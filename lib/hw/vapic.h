/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_VAPIC_H
#define AE_HW_VAPIC_H

/*
 * The 4 KiB APIC page. See vapic.c for the byte map and the edges.
 */

#include <avicemu/lapic.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/regs.h"

/* The 32-bit word at a byte offset (multiple of 4) of a page. */
static inline _Atomic uint32_t *
ae_vapic_word(void *page, uint32_t offset)
{
    return (_Atomic uint32_t *)(void *)((unsigned char *)page + offset);
}

/*
 * Plain access to a register. ORD none: the owner re-reads its own stores;
 * other threads want some value that was once there (a mask bit, a TPR).
 */
static inline uint32_t
ae_vapic_read(void *page, uint32_t offset)
{
    return ae_load_relaxed_u32(ae_vapic_word(page, offset));
}

static inline void
ae_vapic_write(void *page, uint32_t offset, uint32_t value)
{
    ae_store_relaxed_u32(ae_vapic_word(page, offset), value);
}

/* Is the vector's bit set in the map that begins at base? */
static inline bool
ae_vapic_test(void *page, uint32_t base, uint8_t vector)
{
    return (ae_vapic_read(page, base + ae_vector_offset(vector)) &
            ae_vector_bit(vector)) != 0;
}

/* Accept a vector >= 16 into TMR and IRR. NEW or MERGED. Any thread. */
enum avicemu_post
ae_vapic_post(void *page, uint8_t vector, enum avicemu_trigger trigger);

/*
 * Is no bit set in the map at base? For maps that usually are empty: one
 * branch. ORD none: as ae_vapic_highest(), side B of the edges is the caller's
 * state exchange.
 */
static inline bool
ae_vapic_empty(void *page, uint32_t base)
{
    uint32_t any = 0;

#pragma GCC unroll 8
    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        any |= ae_vapic_read(page, base + (i << 4));
    }
    return any == 0;
}

/* Highest vector in the map at base (LAPIC_ISR, LAPIC_IRR); -1: none. */
int
ae_vapic_highest(void *page, uint32_t base);

/* Highest vector of IRR whose IER bit is set, -1: none. ier: 8 words. */
int
ae_vapic_highest_enabled(void *page);

/* Processor priority from a TPR and the highest vector in service (or -1). */
uint32_t
ae_vapic_ppr(uint32_t tpr, int in_service);

/* Recompute PPR from TPR and ISR, store it in the page, return it. Owner. */
uint32_t
ae_vapic_update_ppr(void *page);

/* Move the vector from IRR to ISR. false: its IRR bit was not set. Owner. */
bool
ae_vapic_ack(void *page, uint8_t vector);

/* As ae_vapic_retire(), for the highest vector in service: what is next is
 * not looked for above it. Owner. */
void
ae_vapic_retire_highest(void *page, uint8_t vector);

/* Clear the vector's ISR bit and update PPR. Owner. */
void
ae_vapic_retire(void *page, uint8_t vector);

#endif
