/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VMTABLE_IMPL_H
#define AE_HV_VMTABLE_IMPL_H

/*
 * State and look-up of the library's VM table. See vmtable.c.
 */

#include "base/atomic.h"
#include "base/lock.h"
#include "base/step.h"

/* Bits of a tag that index the levels of the table, top first. */
#define AE_VMT_ROOT_BITS 13u
#define AE_VMT_MID_BITS  11u
#define AE_VMT_LEAF_BITS 8u

/* A node of the table: addresses of the nodes below, or of vCPUs and 0. */
struct ae_vmt_node {
    /* Under the lock. */
    struct ae_vmt_node *next; /* of a list: out of the table, or emptied */
    uint32_t nr;              /* entries that lead to a vCPU, or did */
    uint32_t tag;             /* an emptied leaf's: one that it had */
    bool is_emptied;          /* a leaf in the table, on the list */
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

struct ae_vmtable {
    /* Constant. */
    const struct avicemu_allocator *allocator;
    struct ae_vmt_node *root;
    /* Below which nobody is: where entries lead that have nothing. */
    struct ae_vmt_node *no_mid, *no_leaf;
    /* Pushed to under the lock, read by ae_vmtable_synchronize() without
     * it. */
    _Atomic(struct ae_drain *) drains;

    /* Serialises writers; under it: the rest. */
    AE_ALIGNED(AE_CACHE_LINE) struct ae_lock lock;
    struct ae_vmt_node *emptied; /* leaves */
    struct ae_vmt_node *free_mids;
    struct ae_vmt_node *free_leaves;
};

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
 * and good until the latter. Three loads and no branch; wait-free.
 */
static inline struct avicemu_vcpu *
ae_vmtable_find(const struct ae_vmtable *t, uint32_t tag)
{
    const uint32_t mid_mask = (1u << AE_VMT_MID_BITS) - 1;
    const uint32_t leaf_mask = (1u << AE_VMT_LEAF_BITS) - 1;
    const struct ae_vmt_node *mid = (const void *)(uintptr_t)ae_vmt_entry(
        t->root, tag >> (AE_VMT_MID_BITS + AE_VMT_LEAF_BITS));

    AE_STEP(drain_a);
    const struct ae_vmt_node *leaf = (const void *)(uintptr_t)ae_vmt_entry(
        mid, tag >> AE_VMT_LEAF_BITS & mid_mask);

    return (struct avicemu_vcpu *)(uintptr_t)ae_vmt_entry(leaf,
                                                          tag & leaf_mask);
}

#endif
