/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_HW_MEMORY_H
#define AVICEMU_HW_MEMORY_H

/*
 * System physical memory as the hardware face sees it: regions of the caller's
 * memory. A core or an IOMMU looks every pointer of a table up in here, so a
 * wrong one names no wild page. Several cores share one.
 */

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_hw_memory;

/** Create an empty map. @return 0, -EINVAL, -ENOMEM */
AVICEMU_API int
avicemu_hw_memory_create(struct avicemu_hw_memory **ret_memory);

/** Destroy a map; NULL is fine. Nobody may use it any more. */
AVICEMU_API void
avicemu_hw_memory_destroy(struct avicemu_hw_memory *memory);

/**
 * System physical addresses base .. base+bytes-1 are the memory at hva.
 *
 * @param base   multiple of 4096
 * @param bytes  multiple of 4096, not 0; base+bytes must not wrap
 * @param hva    4096-aligned; stays the caller's, valid until removed
 * @return 0, -EINVAL, -EEXIST (overlaps a region), -ENOMEM
 *
 * Threads: any; waits for walks in flight.
 */
AVICEMU_API int
avicemu_hw_memory_add(struct avicemu_hw_memory *memory, uint64_t base,
                      uint64_t bytes, void *hva);

/** Remove the region that begins at base; when it returns no access reaches
 * the memory behind it. @return 0, -ENOENT */
AVICEMU_API int
avicemu_hw_memory_remove(struct avicemu_hw_memory *memory, uint64_t base);

#ifdef __cplusplus
}
#endif

#endif
