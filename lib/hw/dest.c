/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destination matching and lowest-priority arbitration.
 *
 * Matching is the receiver's: each applies its own mode to the value
 * [APM2 16.6.1, 16.14], [SDM3 10.6.2, 10.12.10].
 *
 *   xAPIC  physical  FFh, or ID[31:24]; also a value above FFh that is the
 *                    full initial id (so that a hot-added CPU with a big id
 *                    can be started [KVM]; no value is ever cut to 8 bits)
 *          flat      FFh, or dest & LDR
 *          cluster   FFh, or dest[7:4] = LDR[7:4] and dest[3:0] & LDR[3:0];
 *                    cluster 15 is reserved: nobody but broadcasts
 *          other DFR nobody ([KVM]; undefined in the manuals)
 *   x2APIC physical  FFFFFFFFh, or the id: FFh is id 255 there
 *          logical   FFFFFFFFh, or same cluster and a common bit
 *
 * Arbitration reads TPR, ISR and IRR of running CPUs: a moment's view, as a
 * bus arbitration is. All functions are pure but for that; any thread.
 */

#include "hw/dest.h"

void
ae_message_decode(uint64_t address, uint32_t data, struct ae_message *ret)
{
    bool logical = (address & AE_MASK64(MSI_ADDRESS_DM)) != 0;
    uint32_t mode = AE_GET(data, MSI_DATA_MODE);
    bool hint = (address & AE_MASK64(MSI_ADDRESS_REDIRECT)) != 0;

    *ret = (struct ae_message){
        .dest = AE_GET(address, MSI_ADDRESS_DEST) |
                AE_GET(address, MSI_ADDRESS_DEST_HIGH) << 8,
        .vector = (uint8_t)AE_GET(data, MSI_DATA_VECTOR),
        .mode = (uint8_t)mode,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_MSI,
        .logical = logical,
        .level = (data & AE_MASK64(MSI_DATA_LEVEL)) != 0,
        .arbitrate = mode == AVICEMU_DELIVERY_LOWEST ||
                     (mode == AVICEMU_DELIVERY_FIXED && logical && hint),
    };
}

static bool
match_xapic_logical(uint64_t ident, uint32_t dest)
{
    uint32_t ldr = (uint32_t)(ident >> 16) & 0xffu;

    /* Whatever the DFR: hardware looks at the destination first. */
    if (dest == AE_XAPIC_BROADCAST) {
        return true;
    }
    if ((ident & AE_IDENT_FLAT) != 0) {
        return (dest & ldr) != 0;
    }
    return (ident & AE_IDENT_CLUSTER) != 0 && dest <= 0xffu &&
           dest >> 4 == ldr >> 4 && dest >> 4 != 15 && (dest & ldr & 0xfu) != 0;
}

static bool
match_x2apic_logical(uint32_t id, uint32_t dest)
{
    uint32_t ldr = ae_x2apic_ldr(id);

    return dest == AE_X2APIC_BROADCAST ||
           (dest >> 16 == ldr >> 16 && (dest & ldr & 0xffffu) != 0);
}

bool
ae_dest_match(const struct ae_lapic_model *model, uint64_t ident,
              const struct ae_message *m)
{
    uint32_t id = (uint32_t)(ident >> 32);

    if ((ident & AE_IDENT_EN) == 0) {
        return false;
    }
    if ((ident & AE_IDENT_EXTD) != 0) {
        if (m->format == AE_FORMAT_MSI && m->dest == AE_XAPIC_BROADCAST &&
            model->traits->msi_ff_broadcast) {
            return true;
        }
        return m->logical ? match_x2apic_logical(id, m->dest)
                          : m->dest == AE_X2APIC_BROADCAST || m->dest == id;
    }
    if (m->logical) {
        return match_xapic_logical(ident, m->dest);
    }
    return m->dest == AE_XAPIC_BROADCAST ||
           m->dest == ((uint32_t)(ident >> 8) & 0xffu) ||
           (m->dest > 0xffu && m->dest == id);
}

/* Smaller is better: the focus CPU, then the lowest APR, then the higher id. */
static uint64_t
key_amd(struct ae_lapic *l, uint64_t ident, uint8_t vector)
{
    uint32_t id = (uint32_t)(ident >> 32);
    uint32_t apr = ae_lapic_apr(l);
    bool focus = (ident & AE_IDENT_FOCUS_OFF) == 0 &&
                 (ae_vapic_test(l->page, LAPIC_IRR, vector) ||
                  ae_vapic_test(l->page, LAPIC_ISR, vector));

    if ((ident & AE_IDENT_EXTD) == 0) {
        id = (uint32_t)(ident >> 8) & 0xffu;
    }
    return (uint64_t)(focus ? 0 : 1) << 40 | (uint64_t)apr << 32 |
           (AE_X2APIC_BROADCAST - id);
}

void
ae_arbiter_begin(struct ae_arbiter *a, const struct ae_lapic_model *model,
                 uint8_t vector)
{
    *a = (struct ae_arbiter){
        .rule = model->traits->lowest,
        .vector = vector,
        .pick = UINT32_MAX,
        .best = UINT64_MAX,
    };
}

void
ae_arbiter_offer(struct ae_arbiter *a, struct ae_lapic *l, void *cookie)
{
    /* ORD none: a moment's view; acceptance checks again. */
    uint64_t ident = ae_load_relaxed_u64(&l->ident);
    uint64_t key = UINT64_MAX;

    if ((ident & AE_IDENT_SOFT) == 0) {
        return;
    }
    switch (a->rule) {
    case AE_LOWEST_AMD:
        key = key_amd(l, ident, a->vector);
        break;
    case AE_LOWEST_INTEL:
        key = ae_vapic_read(l->page, LAPIC_TPR);
        break;
    case AE_LOWEST_HASH:
        /* The last one up to pick: somebody may have left since the count. */
        key = a->nr_candidates <= a->pick ? a->pick - a->nr_candidates
                                          : UINT64_MAX;
        break;
    }
    a->nr_candidates++;
    if (key < a->best) {
        a->best = key;
        a->winner = cookie;
    }
}

bool
ae_arbiter_again(struct ae_arbiter *a)
{
    if (a->rule != AE_LOWEST_HASH || a->nr_candidates == 0 ||
        a->pick != UINT32_MAX) {
        return false;
    }
    a->pick = a->vector % a->nr_candidates;
    a->nr_candidates = 0;
    return true;
}
