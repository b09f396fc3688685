/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two tables that turn a destination into a backing page and a core.
 * [APM2 15.29.5 Figs 15-19 to 15-21, Tables 15-23, 15-24]
 *
 *   physical   entry id, 8 bytes at 8 * id   63 V  62 IsRunning
 *                                            51:12 backing page  11:0 host id
 *              one page, or with x2AVIC_EXT one per 512 ids, one after another
 *   logical    4 bytes at 4 * index          31 V  7:0 guest id
 *              flat     index = bit number of the 8-bit id        8 entries
 *              cluster  index = 4 * cluster + bit number of 3:0  60 entries
 *
 * There is no GALogIntr and no tag in these tables: those are the IRTE's.
 * Reserved bits "should be zero" and are not looked at.
 *
 * The tables lie in memory that a hypervisor writes at any time: a reader
 * takes an entry as one word, once, and works on the copy.
 *
 * All calls are pure, or look an address up: wait-free, may overlap.
 */

#include "hw/idtable.h"

#include <avicemu/hw/core.h>

static_assert(AVICEMU_PHYSICAL_VALID == AE_MASK64(PHYSICAL_V), "bit 63");
static_assert(AVICEMU_PHYSICAL_RUNNING == AE_MASK64(PHYSICAL_RUNNING),
              "bit 62");
static_assert(AVICEMU_PHYSICAL_PAGE == AE_MASK64(PHYSICAL_PAGE), "bits 51:12");
static_assert(AVICEMU_PHYSICAL_HOST_ID == AE_MASK64(PHYSICAL_HOST_ID),
              "bits 11:0");
static_assert(AVICEMU_LOGICAL_VALID == AE_MASK64(LOGICAL_V), "bit 31");
static_assert(AVICEMU_LOGICAL_ID == AE_MASK64(LOGICAL_ID), "bits 7:0");

/* DFR[31:28]; other values are undefined. [APM2 15.29.5 logical table] */
#define DFR_FLAT     0xfu
#define DFR_CLUSTER  0x0u
#define NR_CLUSTERS  15u /* the sixteenth is reserved */
#define CLUSTER_BITS 4u

uint64_t
ae_physical_entry(uint64_t page_hpa, uint32_t host_apic_id, bool running)
{
    uint64_t entry = AE_MASK64(PHYSICAL_V);

    entry |= page_hpa & AE_MASK64(PHYSICAL_PAGE);
    entry |= host_apic_id & AE_MASK64(PHYSICAL_HOST_ID);
    return running ? entry | AE_MASK64(PHYSICAL_RUNNING) : entry;
}

int
ae_logical_index(uint32_t dfr, uint32_t ldr8)
{
    uint32_t model = AE_GET(dfr, DFR_MODEL);
    uint32_t cluster = ldr8 >> CLUSTER_BITS & 0xfu;
    uint32_t member = ldr8 & 0xfu;

    if (model == DFR_FLAT && ae_single_bit32(ldr8 & 0xffu)) {
        return (int)ae_lowest_bit32(ldr8);
    }
    if (model == DFR_CLUSTER && cluster < NR_CLUSTERS &&
        ae_single_bit32(member)) {
        return (int)(cluster * CLUSTER_BITS + ae_lowest_bit32(member));
    }
    return -1;
}

_Atomic uint64_t *
ae_physical_slot(const struct ae_mem *mem, uint64_t table, uint32_t index,
                 uint32_t *near)
{
    return ae_mem_find_near(mem, table + (uint64_t)index * 8u, 8, near);
}

_Atomic uint32_t *
ae_logical_slot(const struct ae_mem *mem, uint64_t table, uint32_t index,
                uint32_t *near)
{
    return ae_mem_find_near(mem, table + (uint64_t)index * 4u, 4, near);
}
