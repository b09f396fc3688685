/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The VM table: GA tag -> vCPU, for the notifiers of a host's IOMMUs.
 *
 * An IOMMU that posts to a vCPU which does not run writes a GA-log entry with
 * the 32-bit tag of the IRTE; a notifier, one per IOMMU and all at the same
 * time, wakes the vCPU that the tag names. [KVM GATag layout]
 *
 * The table is a radix tree over all 32 bits of a tag, so an entry means one
 * tag for ever, and no layout, id or generation is compared in a look-up:
 *
 *   31        19 18         8 7     0
 *   | root: 13 | middle: 11 | leaf: 8 |   8-byte entries: 64, 16 and 2 KiB
 *
 * Where nothing is, entries lead to a middle node and a leaf that are always
 * there and empty: a look-up has no branch.
 *
 * Root and middle stay in the cache, so a look-up among a million has the one
 * miss that a plain array has, and takes 1.6 to 2 times its time. Leaves of 64
 * entries take 1.6 times as much, of 512 or 4096 somewhat less, for more memory
 * where ids lie apart. (Slots of tag and pointer, to be compared, would take
 * twice the memory per entry.)
 *
 * Nodes are type-stable: one that the next ae_vmtable_synchronize() finds empty
 * leaves the tree, and serves again elsewhere; memory goes back only with the
 * table. So with ids that go round,
 *
 *   leaves <= most leaves that were in use at a time, middle nodes likewise
 *   in use: leaves with a vCPU, or emptied since the last synchronize;
 *           middle nodes with a leaf (2048 ids of 24/8)
 *
 * Protection. No reader registers, and a look-up costs nothing but its loads:
 * a batch of look-ups and of the wakes that follow them is bracketed by its
 * drain's seq, odd inside. What is unpublished (an entry, an empty node) is
 * given up when each drain has been seen even, or elsewhere than before: it has
 * ended its batch, and its next one sees nothing of it. So a generation, which
 * guards the content of a slot that may be reused under a reader, is not
 * needed: no entry or node is reused before every reader of it is done. (The
 * kernel's RCU form ends its section before the wake, and frees without a grace
 * period: both a use after free, G1 and G2 of the fact sheet.)
 *
 * Drains are a list that only grows; one that is given back is taken again
 * with its seq as it is. One that registers while another thread removes is
 * either seen on the list, or begins after the lock was released by which the
 * entry was cleared.
 *
 * Removal and waiting are two calls. To remove costs the lock and a store,
 * however many read; and who takes a VM down waits once, not for each vCPU.
 *
 * Invariants, when quiet
 *   node.nr = entries of it that lead elsewhere than into emptiness > 0, but
 *             for the root, for leaves on the list of emptied ones, and for the
 *             two nodes of nothing
 *   seq is even for every drain
 *
 * Edges
 *   drain A ae_drain_begin()     seq odd       -> entries read  seq_cst
 *         B ae_vmtable_remove(), ae_vmtable_synchronize()
 *                                entry cleared -> seq read      seq_cst
 *         and A ae_drain_end(): last wake, then seq even (release); B's read
 *         of it, then the free.
 *   vcpu  A ae_vmtable_publish() what is pointed at -> pointer  release
 *         B ae_vmtable_find()    pointer -> what it points at   seq_cst
 *         and of the list of drains: A ae_drain_create(), B drains_wait()
 *
 * May overlap: see vmtable.h.
 *
 * Progress: find, begin, end: wait-free. publish, remove, drains: the lock,
 * never held for a wait. synchronize: also waits for at most one batch of each
 * drain.
 */

#include "hv/vmtable.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* ---- nodes -------------------------------------------------------------- */

#define ROOT_ENTRIES (1u << AE_VMT_ROOT_BITS)
#define MID_ENTRIES  (1u << AE_VMT_MID_BITS)
#define LEAF_ENTRIES (1u << AE_VMT_LEAF_BITS)

/* Where a tag is, and what there is of the way: NULL where it ends. */
struct path {
    struct ae_vmt_node *mid;
    struct ae_vmt_node *leaf;
    _Atomic uint64_t *in_root, *in_mid, *in_leaf; /* the entries */
};

static size_t
node_bytes(uint32_t entries)
{
    return sizeof(struct ae_vmt_node) + entries * sizeof(uint64_t);
}

static struct ae_vmt_node *
node_take_locked(struct ae_vmtable *t, struct ae_vmt_node **list,
                 uint32_t entries)
{
    struct ae_vmt_node *node = *list;

    if (node == NULL) {
        return ae_alloc(t->allocator, AE_CACHE_LINE, node_bytes(entries));
    }
    *list = node->next;
    return node;
}

static void
node_push(struct ae_vmt_node **list, struct ae_vmt_node *node)
{
    node->next = *list;
    *list = node;
}

static void
nodes_free(struct ae_vmtable *t, struct ae_vmt_node *list, uint32_t entries)
{
    while (list != NULL) {
        struct ae_vmt_node *next = list->next;

        ae_free(t->allocator, list, node_bytes(entries));
        list = next;
    }
}

static uint64_t
entry_locked(const _Atomic uint64_t *entry)
{
    /* ORD none: only writers, under the lock, change it. */
    return ae_load_relaxed_u64(entry);
}

/* NULL: the node of nothing. */
static struct ae_vmt_node *
child_locked(const _Atomic uint64_t *entry, const struct ae_vmt_node *nothing)
{
    struct ae_vmt_node *node = (void *)(uintptr_t)entry_locked(entry);

    return node == nothing ? NULL : node;
}

static void
leaf_set(struct path *p, struct ae_vmt_node *leaf, uint32_t tag)
{
    p->leaf = leaf;
    p->in_leaf = leaf == NULL ? NULL : &leaf->at[tag & (LEAF_ENTRIES - 1)];
}

static void
mid_set(const struct ae_vmtable *t, struct path *p, struct ae_vmt_node *mid,
        uint32_t tag)
{
    p->mid = mid;
    p->in_mid = mid == NULL
                    ? NULL
                    : &mid->at[tag >> AE_VMT_LEAF_BITS & (MID_ENTRIES - 1)];
    leaf_set(p, mid == NULL ? NULL : child_locked(p->in_mid, t->no_leaf), tag);
}

static struct path
path_locked(const struct ae_vmtable *t, uint32_t tag)
{
    struct path p = {
        .in_root = &t->root->at[tag >> (AE_VMT_MID_BITS + AE_VMT_LEAF_BITS)],
    };

    mid_set(t, &p, child_locked(p.in_root, t->no_mid), tag);
    return p;
}

/* Those that come back are as they were: of nothing. */
static struct ae_vmt_node *
mid_take_locked(struct ae_vmtable *t)
{
    bool is_new = t->free_mids == NULL;
    struct ae_vmt_node *mid = node_take_locked(t, &t->free_mids, MID_ENTRIES);

    if (is_new && mid != NULL) {
        memcpy(mid->at, t->no_mid->at, MID_ENTRIES * sizeof(uint64_t));
    }
    return mid;
}

/* The missing nodes, not in the tree yet. */
static int
path_complete_locked(struct ae_vmtable *t, struct path *p, uint32_t tag)
{
    if (p->mid == NULL) {
        mid_set(t, p, mid_take_locked(t), tag);
    }
    if (p->mid != NULL && p->leaf == NULL) {
        leaf_set(p, node_take_locked(t, &t->free_leaves, LEAF_ENTRIES), tag);
    }
    if (p->leaf != NULL) {
        return 0;
    }
    if (p->mid != NULL && p->mid->nr == 0) {
        node_push(&t->free_mids, p->mid);
    }
    return -ENOMEM;
}

/* ---- life --------------------------------------------------------------- */

/* NULL, too, where there is no child. */
static struct ae_vmt_node *
node_full_of(const struct avicemu_allocator *a, uint32_t entries,
             const struct ae_vmt_node *child)
{
    struct ae_vmt_node *node =
        child == NULL ? NULL : ae_alloc(a, AE_CACHE_LINE, node_bytes(entries));

    for (uint32_t i = 0; node != NULL && i < entries; i++) {
        /* ORD none: nobody else has it yet. */
        ae_store_relaxed_u64(&node->at[i], (uintptr_t)child);
    }
    return node;
}

int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout)
{
    (void)layout; /* all 32 bits are the key */
    *t = (struct ae_vmtable){ .allocator = allocator };
    ae_lock_init(&t->lock);
    t->no_leaf = ae_alloc(allocator, AE_CACHE_LINE, node_bytes(LEAF_ENTRIES));
    t->no_mid = node_full_of(allocator, MID_ENTRIES, t->no_leaf);
    t->root = node_full_of(allocator, ROOT_ENTRIES, t->no_mid);
    if (t->root == NULL) {
        ae_vmtable_fini(t);
        return -ENOMEM;
    }
    return 0;
}

void
ae_vmtable_fini(struct ae_vmtable *t)
{
    if (t->allocator == NULL) {
        return;
    }
    ae_vmtable_synchronize(t); /* emptied leaves */
    assert(t->root == NULL || t->root->nr == 0);
    nodes_free(t, t->free_mids, MID_ENTRIES);
    nodes_free(t, t->free_leaves, LEAF_ENTRIES);
    ae_free(t->allocator, t->root, node_bytes(ROOT_ENTRIES));
    ae_free(t->allocator, t->no_mid, node_bytes(MID_ENTRIES));
    ae_free(t->allocator, t->no_leaf, node_bytes(LEAF_ENTRIES));
    /* ORD none: nobody else is there. */
    struct ae_drain *d = ae_load_relaxed_ptr(&t->drains);

    while (d != NULL) {
        struct ae_drain *next = d->next;

        ae_free(t->allocator, d, sizeof(*d));
        d = next;
    }
    ae_lock_fini(&t->lock);
    *t = (struct ae_vmtable){ .allocator = NULL };
}

/* ---- changes ------------------------------------------------------------ */

static int
publish_locked(struct ae_vmtable *t, uint32_t tag, struct avicemu_vcpu *vcpu)
{
    struct path p = path_locked(t, tag);
    int r = path_complete_locked(t, &p, tag);

    if (r != 0) {
        return r;
    }
    if (entry_locked(p.in_leaf) != 0) {
        return -EEXIST;
    }
    /* ORD vcpu.A: what is pointed at, then the pointer, from below. Partner:
     * vcpu.B in ae_vmtable_find(). If weaker: a half-made vCPU, or what a node
     * held elsewhere. Test: race_drain. */
    ae_store_release_u64(p.in_leaf, (uintptr_t)vcpu);
    AE_STEP(vcpu_a);
    if (p.leaf->nr++ == 0 && !p.leaf->is_emptied) { /* else it is there */
        ae_store_release_u64(p.in_mid, (uintptr_t)p.leaf);
        if (p.mid->nr++ == 0) {
            ae_store_release_u64(p.in_root, (uintptr_t)p.mid);
            t->root->nr++;
        }
    }
    return 0;
}

int
ae_vmtable_publish(struct ae_vmtable *t, uint32_t tag,
                   struct avicemu_vcpu *vcpu)
{
    ae_lock(&t->lock);
    int r = publish_locked(t, tag, vcpu);

    ae_unlock(&t->lock);
    return r;
}

void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag)
{
    ae_lock(&t->lock);
    struct path p = path_locked(t, tag);

    if (p.leaf != NULL && entry_locked(p.in_leaf) != 0) {
        /* ORD drain.B: the entry cleared, then the seqs. Partner: drain.A in
         * ae_drain_begin(). If weaker: see ae_vmt_entry(). Test: race_drain. */
        ae_store_seqcst_u64(p.in_leaf, 0);
        if (--p.leaf->nr == 0 && !p.leaf->is_emptied) {
            p.leaf->is_emptied = true;
            p.leaf->tag = tag;
            node_push(&t->emptied, p.leaf);
        }
    }
    ae_unlock(&t->lock);
    AE_STEP(drain_b);
}

/* ---- waiting ------------------------------------------------------------ */

/* Nodes that left the tree, which drains may still read. */
struct gone {
    struct ae_vmt_node *mids, *leaves;
};

/* The emptied leaves that are still empty, and middle nodes without others. */
static struct gone
emptied_unlink_locked(struct ae_vmtable *t)
{
    struct gone gone = { .mids = NULL };
    struct ae_vmt_node *leaf;

    while ((leaf = t->emptied) != NULL) {
        t->emptied = leaf->next;
        leaf->is_emptied = false;
        if (leaf->nr != 0) {
            continue;
        }
        struct path p = path_locked(t, leaf->tag);

        assert(p.leaf == leaf);
        /* ORD drain.B: as in ae_vmtable_remove(). */
        ae_store_seqcst_u64(p.in_mid, (uintptr_t)t->no_leaf);
        node_push(&gone.leaves, leaf);
        if (--p.mid->nr == 0) {
            ae_store_seqcst_u64(p.in_root, (uintptr_t)t->no_mid);
            t->root->nr--;
            node_push(&gone.mids, p.mid);
        }
    }
    return gone;
}

/* Until every batch that may have seen what was unpublished has ended. */
static void
drains_wait(const struct ae_vmtable *t)
{
    /* ORD vcpu.B: the pointer, then the drain. Those that registered before the
     * lock was released are there; others begin after it, and see nothing.
     * Partner: vcpu.A in drain_take_locked(). If weaker: a half-made drain.
     * Test: race_drain. */
    const struct ae_drain *d = ae_load_acquire_ptr(&t->drains);

    for (; d != NULL; d = d->next) {
        /* ORD drain.B: the entry cleared, then the seq; and the batch's end,
         * then the free. Partner: drain.A in ae_drain_begin(), ae_drain_end().
         * If weaker: a batch that has the vCPU is not seen, and wakes freed
         * memory. Test: race_drain. */
        uint64_t seq = ae_load_seqcst_u64(&d->seq);

        while (seq % 2 != 0 && ae_load_seqcst_u64(&d->seq) == seq) {
            ae_relax();
        }
    }
}

static void
nodes_push_locked(struct ae_vmt_node **list, struct ae_vmt_node *nodes)
{
    while (nodes != NULL) {
        struct ae_vmt_node *next = nodes->next;

        node_push(list, nodes);
        nodes = next;
    }
}

void
ae_vmtable_synchronize(struct ae_vmtable *t)
{
    ae_lock(&t->lock);
    struct gone gone = emptied_unlink_locked(t);

    ae_unlock(&t->lock);
    AE_STEP(drain_b);
    drains_wait(t);
    if (gone.leaves != NULL) {
        ae_lock(&t->lock);
        nodes_push_locked(&t->free_leaves, gone.leaves);
        nodes_push_locked(&t->free_mids, gone.mids);
        ae_unlock(&t->lock);
    }
}

/* ---- drains ------------------------------------------------------------- */

static struct ae_drain *
drain_take_locked(struct ae_vmtable *t)
{
    /* ORD none: only writers, under the lock, change it. */
    struct ae_drain *first = ae_load_relaxed_ptr(&t->drains);
    struct ae_drain *d = first;

    while (d != NULL && d->taken) {
        d = d->next;
    }
    if (d == NULL) {
        d = ae_alloc(t->allocator, AE_CACHE_LINE, sizeof(*d));
        if (d == NULL) {
            return NULL;
        }
        d->next = first;
        /* ORD vcpu.A: the drain, then the pointer. Partner: vcpu.B in
         * drains_wait(). If weaker: see there. Test: race_drain. */
        ae_store_release_ptr(&t->drains, d);
    }
    d->taken = true;
    return d;
}

int
ae_drain_create(struct ae_vmtable *t, struct ae_drain **ret)
{
    ae_lock(&t->lock);
    struct ae_drain *d = drain_take_locked(t);

    ae_unlock(&t->lock);
    if (d == NULL) {
        return -ENOMEM;
    }
    *ret = d;
    return 0;
}

void
ae_drain_destroy(struct ae_vmtable *t, struct ae_drain *drain)
{
    if (drain != NULL) {
        ae_lock(&t->lock);
        drain->taken = false;
        ae_unlock(&t->lock);
    }
}

void
ae_drain_begin(struct ae_drain *d)
{
    /* ORD none: its own store. */
    uint64_t seq = ae_load_relaxed_u64(&d->seq);

    assert(seq % 2 == 0);
    /* ORD drain.A: seq odd, then entries. Partner: drain.B in
     * ae_vmtable_remove(). If weaker: see ae_vmt_entry(). Test: race_drain. */
    ae_store_seqcst_u64(&d->seq, seq + 1);
    AE_STEP(drain_a);
}

void
ae_drain_end(struct ae_drain *d)
{
    /* ORD none: its own store. */
    uint64_t seq = ae_load_relaxed_u64(&d->seq);

    assert(seq % 2 != 0);
    AE_STEP(drain_a);
    /* ORD drain.A: the last wake, then seq even. Partner: drain.B in
     * drains_wait(). If weaker: freed while it is woken. Test: race_drain. */
    ae_store_release_u64(&d->seq, seq + 1);
}
