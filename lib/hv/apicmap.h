/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_APICMAP_H
#define AE_HV_APICMAP_H

/*
 * From a destination to the vCPUs that may match it. See apicmap.c.
 */

#include "hv/object.h"

#define AE_MAP_MAX_FOUND 17u

/* 0 or -ENOMEM. */
int
ae_apicmap_init(struct ae_apicmap *map, const struct avicemu_allocator *a,
                uint32_t max_vcpus);
void
ae_apicmap_fini(struct ae_apicmap *map, const struct avicemu_allocator *a);

/* Give the vCPU an index and make it visible. 0, -EEXIST, -EBUSY (full).
 * *flipped := true if its identity turned AVIC on or off: then all vCPUs must
 * be told (ae_active_request). */
int
ae_apicmap_add(struct ae_apicmap *map, struct avicemu_vcpu *vcpu,
               bool *flipped);
/* Take it away and wait until no sender can see it. Where books are kept it
 * holds its index until that is freed, under the lock. true: AVIC flipped. */
bool
ae_apicmap_remove(struct ae_apicmap *map, struct avicemu_vcpu *vcpu);
void
ae_apicmap_index_free_locked(struct ae_apicmap *map, uint32_t idx);
/* An identity changed: recompute the hints. Takes the lock. true: AVIC
 * flipped. */
bool
ae_apicmap_update(struct ae_apicmap *map);

/*
 * Inside a read-side section: the vCPUs that may match, without duplicates.
 * They must still be matched. Returns their number, or -1: look at all of
 * them (ae_apicmap_at).
 */
int
ae_apicmap_find(const struct ae_apicmap *map, const struct ae_message *m,
                struct avicemu_vcpu *found[AE_MAP_MAX_FOUND]);

/* The vCPU with this initial id, or NULL. Inside a section, or the lock. */
struct avicemu_vcpu *
ae_apicmap_by_id(const struct ae_apicmap *map, uint32_t id);

/* ORD none: a count for loops and checks. */
static inline uint32_t
ae_apicmap_nr_slots(const struct ae_apicmap *map)
{
    return ae_load_relaxed_u32(&map->nr_slots);
}

/* The vCPU with this index, or NULL. Inside a read-side section. */
static inline struct avicemu_vcpu *
ae_apicmap_at(const struct ae_apicmap *map, uint32_t idx)
{
    /* ORD vcpu.B: the pointer, then what it points at. Partner: vcpu.A in
     * ae_apicmap_add(). If weaker: a half-made vCPU. Test: race_vcpu. */
    struct avicemu_vcpu *vcpu = ae_load_acquire_ptr(&map->vcpus[idx]);

    AE_STEP(vcpu_b);
    return vcpu;
}

/* Who holds this index, in the map or on its way out; or NULL. Under the lock,
 * which keeps it alive: it frees its index under the lock, too, and first. */
static inline struct avicemu_vcpu *
ae_apicmap_holder_locked(const struct ae_apicmap *map, uint32_t idx)
{
    struct avicemu_vcpu *vcpu = ae_apicmap_at(map, idx);

    return vcpu == NULL && map->leaving != NULL ? map->leaving[idx] : vcpu;
}

#endif
