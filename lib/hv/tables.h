/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_TABLES_H
#define AE_HV_TABLES_H

/*
 * What a VM with AVIC shares: APIC id tables, MSR permission maps, memory for
 * backing pages, the inhibit word. See tables.c.
 */

#include "hv/object.h"
#include "hw/avic.h"

#define AE_MSRPM_BYTES 8192u
#define AE_SLAB_PAGES  32u
#define AE_SLABS       129u /* 4096 vCPUs, and those that are going */

/* The reasons that the APIC map computes. */
#define AE_INHIBIT_MAP                           \
    (1u << AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED | \
     1u << AVICEMU_INHIBIT_APIC_ID_MODIFIED |    \
     1u << AVICEMU_INHIBIT_LOGICAL_ID_ALIASED)

struct ae_tables {
    /* Constant after creation. */
    struct ae_avic_hw hw;
    struct avicemu_host *host;
    unsigned char *memory; /* one region: physical, logical, MSR maps */
    uint64_t bytes;
    _Atomic uint64_t *physical;
    _Atomic uint32_t *logical;
    unsigned char *msrpm_all; /* every x2APIC MSR is intercepted */
    unsigned char *msrpm_x2;  /* x2AVIC: what hardware may do passes */
    uint32_t nr_physical;     /* entries */
    uint32_t max_apic_id;     /* of the VM's config */
    bool ipiv;                /* IsRunning is told to other cores */
    bool words;               /* doorbells are words, not kicks */

    struct ae_lock lock; /* serialises users of the slabs */
    struct {
        /* Written under the lock, once; read by senders. NULL: none yet. */
        _Atomic(unsigned char *) pages;
        uint32_t used; /* bit per page; under the lock */
        struct avicemu_vcpu *owners[AE_SLAB_PAGES]; /* of pages in use */
    } slabs[AE_SLABS];

    /* Read at every flip, written rarely. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t inhibits;
    /* Hybrid AVIC: the APIC page is unmapped, for the life of the VM. */
    _Atomic uint32_t page_gone;
};

/* 0, -EINVAL (nothing but maxphyaddr), -ENOMEM, -EEXIST (an address is mapped
 * by the VMM). vm's model and host are set. */
int
ae_tables_create(struct avicemu_vm *vm, const struct avicemu_vm_config *config,
                 struct ae_tables **ret);
/* NULL is fine. */
void
ae_tables_destroy(struct ae_tables *t);

/* A zeroed backing page, in the memory map. NULL: no memory. */
void *
ae_tables_page_get(struct ae_tables *t, struct avicemu_vcpu *owner);
/* Behind the owner's grace period. NULL is fine. */
void
ae_tables_page_put(struct ae_tables *t, void *page);
/* Whose is the page that the tables named? In a read-side section. NULL: not
 * one of ours. */
struct avicemu_vcpu *
ae_tables_owner(const struct ae_tables *t, uint64_t page_hpa);

/* Has this initial id an entry? Else the vCPU inhibits AVIC. */
static inline bool
ae_tables_fits(const struct ae_tables *t, uint32_t apic_id)
{
    return apic_id < t->nr_physical && apic_id <= t->max_apic_id;
}

/* The vCPU's entry: valid, and whether and where it runs. Owner. */
void
ae_tables_publish(struct avicemu_vcpu *vcpu);
void
ae_tables_unpublish(struct avicemu_vcpu *vcpu);
/* IsRunning := 0 before the caller looks at IRR. Owner. */
void
ae_tables_stopped(struct avicemu_vcpu *vcpu);
/* The wait is over: IsRunning as before. Owner. */
void
ae_tables_resumed(struct avicemu_vcpu *vcpu);

/* Who has each bit of the logical ids: vcpu's initial id + 1, 0: nobody or
 * several. nr 8 (flat), 60 (cluster), 0: no entry is valid. Under the map's
 * lock. */
void
ae_tables_logical(struct ae_tables *t, const uint32_t *ids, uint32_t nr);

/* Change the inhibit word: bits in mask become those of value. true: it became
 * zero or ceased to be. Any thread. */
bool
ae_tables_inhibit(struct ae_tables *t, uint32_t mask, uint32_t value);

/* Is the MSR's access without intercept in this permission map? */
bool
ae_msrpm_passes(const unsigned char *map, uint32_t msr, bool write);

static inline uint64_t
ae_hpa(const void *page)
{
    return (uint64_t)(uintptr_t)page;
}

#endif
