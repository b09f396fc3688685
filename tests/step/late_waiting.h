/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: COMPLETION_WAIT says that it
 * waits only after it has read the count.
 */
#ifndef LATE_WAITING_H
#define LATE_WAITING_H

#include <stddef.h>

#include "hw/iommu.h"

/* The epoch is the only word that is read relaxed there. */
static _Thread_local const _Atomic uint32_t *late_epoch;
static _Thread_local _Atomic uint32_t *late_word;

static inline uint32_t
late_load_relaxed(const _Atomic uint32_t *p)
{
    late_epoch = p;
    return ae_load_relaxed_u32(p);
}

static inline struct ae_iommu *
late_iommu(void)
{
    return (
        struct ae_iommu *)(uintptr_t)((const char *)(const void *)late_epoch -
                                      offsetof(struct ae_iommu, epoch));
}

static inline void
late_store(_Atomic uint32_t *p, uint32_t value)
{
    if (late_epoch != NULL && p == &late_iommu()->waiting) {
        late_word = value != 0 ? p : NULL;
    }
    if (p != late_word) {
        ae_store_seqcst_u32(p, value);
    }
}

static inline uint32_t
late_load(const _Atomic uint32_t *p)
{
    if (p == late_word) {
        return 1;
    }
    uint32_t value = ae_load_seqcst_u32(p);

    if (late_word != NULL && (p == &late_iommu()->under_way[0] ||
                              p == &late_iommu()->under_way[1])) {
        ae_store_seqcst_u32(late_word, 1);
        late_word = NULL;
    }
    return value;
}

#define ae_load_relaxed_u32 late_load_relaxed
#define ae_store_seqcst_u32 late_store
#define ae_load_seqcst_u32  late_load

#endif
