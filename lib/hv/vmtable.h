/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VMTABLE_H
#define AE_HV_VMTABLE_H

/*
 * From a GA tag to the vCPU to wake: one table per host. See vmtable.c.
 *
 * Set-up: ae_vmid_get(), ae_tag_pack(), ae_vmtable_publish(), all before an
 * IRTE holds the tag. Tear-down: no IRTE holds the tag any more,
 * ae_vmtable_remove(), free the vCPU; ae_vmid_put() after the last one.
 *
 * A notifier, for each batch of its GA log:
 *
 *     ae_drain_begin(drain);
 *     for each tag:
 *         vcpu = ae_vmtable_find(table, tag);
 *         if (vcpu != NULL) wake it, which must only signal
 *     ae_drain_end(drain);
 */

#include <avicemu/vm.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/step.h"

/* VM id in the high bits of a tag, vCPU index in the low ones: how many each.
 * As KVM had it until 6.2, has it since 6.3, and with 4096 vCPUs. */
enum ae_tag_layout {
    AE_TAG_24_8,
    AE_TAG_23_9,
    AE_TAG_20_12,
};

/* The tag of a vCPU. 0, -EINVAL (does not fit, or VM id 0; *ret untouched). */
int
ae_tag_pack(enum ae_tag_layout layout, uint32_t vm_id, uint32_t vcpu_idx,
            uint32_t *ret);
/* How many vCPUs of a VM have one. */
uint32_t
ae_tag_max_vcpus(enum ae_tag_layout layout);
void
ae_tag_unpack(enum ae_tag_layout layout, uint32_t tag, uint32_t *ret_vm_id,
              uint32_t *ret_vcpu_idx);

/* Bits of a tag that index the levels of the table, top first. */
#define AE_VMT_ROOT_BITS 13u
#define AE_VMT_MID_BITS  11u
#define AE_VMT_LEAF_BITS 8u

/* A node of the table: 0, or addresses of the nodes below, or of vCPUs. */
struct ae_vmt_node {
    /* Under the lock. */
    struct ae_vmt_node *next; /* of a list of nodes out of the table */
    uint32_t nr;              /* entries that are not 0 */
    /* Written under the lock, read by drains. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t at[];
};

/* A reader: one per IOMMU. The table's, which never frees its word before
 * ae_vmtable_fini(). */
struct ae_drain {
    struct ae_drain *next; /* constant */
    bool taken;            /* under the lock */
    /* Odd: a batch is under way. Written by the notifier only. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t seq;
};

/* VM ids that are in use, one bit each; chunks without memory: none. Under the
 * table's lock. */
struct ae_vmids {
    uint64_t **chunks;
    uint32_t last; /* given out last */
    uint32_t nr;   /* in use; 0 is none */
};

struct ae_vmtable {
    /* Constant. */
    const struct avicemu_allocator *allocator;
    enum ae_tag_layout layout;
    struct ae_vmt_node *root;
    /* Pushed to under the lock, read by ae_vmtable_remove() without it. */
    _Atomic(struct ae_drain *) drains;

    /* Serialises writers; under it: the rest. */
    AE_ALIGNED(AE_CACHE_LINE) struct ae_lock lock;
    struct ae_vmids ids;
    struct ae_vmt_node *free_mids;
    struct ae_vmt_node *free_leaves;
};

/* allocator: must outlive the table. 0, -ENOMEM. */
int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout);
/* Every tag has been removed and no drain is in a batch. A zeroed table is
 * fine. */
void
ae_vmtable_fini(struct ae_vmtable *t);

/* A VM id that no other VM has, from 1 on, wrapping. 0, -EBUSY (all are in
 * use), -ENOMEM. Takes the lock. */
int
ae_vmid_get(struct ae_vmtable *t, uint32_t *ret);
/* Of a VM whose tags have all been removed. */
void
ae_vmid_put(struct ae_vmtable *t, uint32_t id);

/* From now on the tag finds the vCPU. 0, -EEXIST, -ENOMEM. Takes the lock. */
int
ae_vmtable_publish(struct ae_vmtable *t, uint32_t tag,
                   struct avicemu_vcpu *vcpu);
/* Nobody finds the tag any more, and whoever found it has ended his batch.
 * Takes the lock, and waits, without it, for batches that are under way: never
 * from inside one. An unknown tag is fine: then it only waits. */
void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag);

/* A reader for one notifier. 0, -ENOMEM. Takes the lock. */
int
ae_drain_create(struct ae_vmtable *t, struct ae_drain **ret);
/* Not in a batch. drain: may be NULL. Takes the lock. */
void
ae_drain_destroy(struct ae_vmtable *t, struct ae_drain *drain);

/* A batch. One thread at a time per drain. */
void
ae_drain_begin(struct ae_drain *d);
void
ae_drain_end(struct ae_drain *d);

static inline uint64_t
ae_vmt_entry(const struct ae_vmt_node *node, uint32_t i)
{
    /*
     * ORD drain.A, vcpu.B: seq odd, then the entry; and the entry, then what
     * it points at. Partners: drain.B in ae_vmtable_remove(), vcpu.A in
     * ae_vmtable_publish(). If weaker: we read what is removed while the
     * remover reads an even seq, and wake freed memory; or half-made memory.
     * Test: race_drain.
     */
    return ae_load_seqcst_u64(&node->at[i]);
}

/*
 * The vCPU with this tag, or NULL. Between ae_drain_begin() and ae_drain_end(),
 * and good until the latter. Three loads; wait-free.
 */
static inline struct avicemu_vcpu *
ae_vmtable_find(const struct ae_vmtable *t, uint32_t tag)
{
    const uint32_t mid_mask = (1u << AE_VMT_MID_BITS) - 1;
    const uint32_t leaf_mask = (1u << AE_VMT_LEAF_BITS) - 1;
    uint64_t entry =
        ae_vmt_entry(t->root, tag >> (AE_VMT_MID_BITS + AE_VMT_LEAF_BITS));

    if (AE_UNLIKELY(entry == 0)) {
        return NULL;
    }
    const struct ae_vmt_node *mid = (const void *)(uintptr_t)entry;

    AE_STEP(drain_a);
    entry = ae_vmt_entry(mid, tag >> AE_VMT_LEAF_BITS & mid_mask);
    if (AE_UNLIKELY(entry == 0)) {
        return NULL;
    }
    const struct ae_vmt_node *leaf = (const void *)(uintptr_t)entry;

    return (struct avicemu_vcpu *)(uintptr_t)ae_vmt_entry(leaf,
                                                          tag & leaf_mask);
}

#endif
