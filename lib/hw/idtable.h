/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_IDTABLE_H
#define AE_HW_IDTABLE_H

/*
 * The physical and logical APIC id tables that AVIC walks. See idtable.c.
 */

#include "base/atomic.h"
#include "base/mem.h"
#include "base/regs.h"

#define AE_LOGICAL_FLAT         8u
#define AE_LOGICAL_CLUSTER      60u
#define AE_MAX_INDEX_XAVIC      255u /* FFh is never a destination */
#define AE_MAX_INDEX_X2AVIC     511u
#define AE_MAX_INDEX_X2AVIC_EXT 4095u

/* An entry with V = 1. */
uint64_t
ae_physical_entry(uint64_t page_hpa, uint32_t host_apic_id, bool running);

/* Pages of a physical table: 512 entries each. */
static inline uint32_t
ae_physical_pages(uint32_t max_index)
{
    return 1u + AE_GET(max_index, MAX_INDEX_PAGE);
}

/* Index of one logical id bit (cluster in 7:4) under a DFR value, -1: none. */
int
ae_logical_index(uint32_t dfr, uint32_t ldr8);

/* An entry's place, or NULL where there is no memory. In a read-side section,
 * valid until its end. near: see ae_mem_find_near(). */
_Atomic uint64_t *
ae_physical_slot(const struct ae_mem *mem, uint64_t table, uint32_t index,
                 uint32_t *near);
_Atomic uint32_t *
ae_logical_slot(const struct ae_mem *mem, uint64_t table, uint32_t index,
                uint32_t *near);

#endif
