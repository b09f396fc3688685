/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_msi.c to weaken it: an entry is kept as if it had
 * been read after all invalidations until now.
 */
#ifndef LATE_SINCE_H
#define LATE_SINCE_H

#include "hw/intcache.h"

static inline void
late_keep(struct ae_intcache *c, uint64_t since, uint16_t device_id,
          uint32_t index, const uint64_t words[AE_INTCACHE_WORDS])
{
    (void)since;
    ae_intcache_keep(c, ae_intcache_since(c, device_id), device_id, index,
                     words);
}

#define ae_intcache_keep(c, since, device_id, index, words) \
    late_keep(c, since, device_id, index, words)

#endif
