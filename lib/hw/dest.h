/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_DEST_H
#define AE_HW_DEST_H

/*
 * Does a message concern an APIC, and which of several takes it? See dest.c.
 */

#include "hw/lapic.h"

/* What a device's MSI asks for; its address is one, see AE_MSI_WINDOW. The
 * redirection hint arbitrates a logical message. [APM2 16.5] */
void
ae_message_decode(uint64_t address, uint32_t data, struct ae_message *ret);

/* MSI_ADDRESS_WINDOW of an interrupt. */
#define AE_MSI_WINDOW 0xfeeu

/* Does the receiver with this identity match the destination? Shorthands are
 * not looked at. A hardware-disabled APIC matches nothing. */
bool
ae_dest_match(const struct ae_lapic_model *model, uint64_t ident,
              const struct ae_message *m);

/*
 * Lowest-priority arbitration, one candidate after another, in the order of
 * their creation. Two passes for the hashing rule: count, then pick.
 */
struct ae_arbiter {
    enum ae_lowest_rule rule;
    uint8_t vector;
    uint32_t nr_candidates;
    uint32_t pick; /* AE_LOWEST_HASH: index of the winner */
    uint64_t best; /* key of the best so far; smaller wins */
    void *winner;  /* cookie of the best so far */
};

void
ae_arbiter_begin(struct ae_arbiter *a, const struct ae_lapic_model *model,
                 uint8_t vector);
void
ae_arbiter_offer(struct ae_arbiter *a, struct ae_lapic *l, void *cookie);
/* AE_LOWEST_HASH: all candidates were counted; offer them again. */
bool
ae_arbiter_again(struct ae_arbiter *a);

#endif
