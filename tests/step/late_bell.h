/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hv/entry.c to weaken it: the runner looks whether the
 * doorbell word is set, scans IRR, and only then takes the word, as if a ring
 * that comes in between were told by the scan.
 */
#ifndef LATE_BELL_H
#define LATE_BELL_H

#include "hv/active.h"

static _Atomic uint32_t *late_bell;

static inline bool
late_rung(const struct ae_bells *bells, uint32_t host_apic_id)
{
    late_bell = (_Atomic uint32_t *)&bells->at[host_apic_id].rung;
    return ae_load_relaxed_u32(late_bell) != 0;
}

static inline int
late_pending(void *page)
{
    int vector = ae_avic_pending(page);

    if (late_bell != NULL) {
        (void)ae_exchange_seqcst_u32(late_bell, 0);
        late_bell = NULL;
    }
    return vector;
}

#define ae_bells_rung   late_rung
#define ae_avic_pending late_pending

#endif
