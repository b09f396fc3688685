/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_msi.c to weaken it: GAInt is set before the tail is
 * moved over the entry, not after.
 */
#ifndef EARLY_STATUS_H
#define EARLY_STATUS_H

#include <stddef.h>

#include "hw/iommu.h"

static _Thread_local uint32_t early_signals;

static inline bool
early_publish(struct ae_galog *log, uint32_t position)
{
    struct ae_iommu *iommu =
        (struct ae_iommu *)(void *)((char *)(void *)log -
                                    offsetof(struct ae_iommu, ga));

    early_signals = 0;
    ae_iommu_raise(iommu, AE_MASK64(STATUS_GA_INT), &early_signals);
    return ae_galog_publish(log, position);
}

static inline void
early_raise(struct ae_iommu *iommu, uint64_t bit, uint32_t *signals)
{
    (void)iommu;
    (void)bit;
    *signals |= early_signals;
}

#define ae_galog_publish early_publish
#define ae_iommu_raise   early_raise

#endif
