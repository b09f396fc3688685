/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: the engine's holder goes to
 * the ring without saying so.
 */
#ifndef NO_BUSY_H
#define NO_BUSY_H

#include "base/atomic.h"

/* From RUN_ON to RUN_ON with RUN_BUSY: as if it were done. */
static inline bool
no_busy_cas(_Atomic uint32_t *p, uint32_t *expected, uint32_t desired)
{
    return *expected == 1 && desired == 3
               ? ae_load_seqcst_u32(p) == 1
               : ae_cas_seqcst_u32(p, expected, desired);
}

#define ae_cas_seqcst_u32 no_busy_cas

#endif
