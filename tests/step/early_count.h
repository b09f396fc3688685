/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: COMPLETION_WAIT reads the
 * count of the older epoch before it turns the epoch, and if that is 0 goes by
 * it.
 */
#ifndef EARLY_COUNT_H
#define EARLY_COUNT_H

#include <stddef.h>

#include "hw/iommu.h"

/* The epoch is the only word that is read relaxed there. */
static _Thread_local const _Atomic uint32_t *early_epoch;
static _Thread_local _Atomic uint32_t *early_word;
static _Thread_local uint32_t early_count;

static inline uint32_t
early_load_relaxed(const _Atomic uint32_t *p)
{
    early_epoch = p;
    return ae_load_relaxed_u32(p);
}

static inline void
early_store(_Atomic uint32_t *p, uint32_t value)
{
    if (p == early_epoch) {
        struct ae_iommu *iommu =
            (struct ae_iommu *)(void *)((char *)(void *)p -
                                        offsetof(struct ae_iommu, epoch));

        early_word = &iommu->under_way[value ^ 1u];
        early_count = ae_load_seqcst_u32(early_word);
    }
    ae_store_seqcst_u32(p, value);
}

/* Once; who comes again reads it as it is. */
static inline uint32_t
early_load(const _Atomic uint32_t *p)
{
    bool is_early = p == early_word && early_count == 0;

    early_word = p == early_word ? NULL : early_word;
    return is_early ? 0 : ae_load_seqcst_u32(p);
}

#define ae_load_relaxed_u32 early_load_relaxed
#define ae_store_seqcst_u32 early_store
#define ae_load_seqcst_u32  early_load

#endif
