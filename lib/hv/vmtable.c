/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The VM table: GA tag -> vCPU, for the notifiers of a host's IOMMUs.
 *
 * An IOMMU that posts to a vCPU which does not run writes a GA-log entry with
 * the 32-bit tag of the IRTE; a notifier, one per IOMMU and all at the same
 * time, wakes the vCPU that the tag names. Hardware does not look into a tag;
 * the layouts are KVM's. [KVM GATag layout], [KVM VM id allocation]
 *
 * The table is a radix tree over all 32 bits of a tag, so an entry means one
 * tag for ever, and no layout, id or generation is compared in a look-up:
 *
 *   31        19 18         8 7     0
 *   | root: 13 | middle: 11 | leaf: 8 |   8-byte entries: 64, 16 and 2 KiB
 *
 * Root and middle stay in the cache, so a look-up among a million has the one
 * miss that a plain array has. Measured against that array at a million: leaves
 * of 64 entries 2.6 times its time, of 512 2.0, of 256 1.7 to 2.3. (Slots of
 * tag and pointer, to be compared, would take twice the memory per entry.)
 *
 * Nodes are type-stable: an empty one leaves the tree, and serves again
 * elsewhere; memory goes back only with the table. So with ids that go round,
 *
 *   leaves <= most leaves that were in use at a time, middle nodes likewise
 *   in use: leaves with a vCPU; middle nodes with a leaf (2048 ids of 24/8)
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
 * Invariants, when quiet
 *   node.nr = entries of it that are not 0 > 0, but for the root
 *   ids.nr = bits set, without that of id 0, which is always set
 *   seq is even for every drain
 *
 * Edges
 *   drain A ae_drain_begin()     seq odd       -> entries read  seq_cst
 *         B ae_vmtable_remove()  entry cleared -> seq read      seq_cst
 *         and A ae_drain_end(): last wake, then seq even (release); B's read
 *         of it, then the free.
 *   vcpu  A ae_vmtable_publish() what is pointed at -> pointer  release
 *         B ae_vmtable_find()    pointer -> what it points at   seq_cst
 *         and of the list of drains: A ae_drain_create(), B drains_wait()
 *
 * May overlap: y always, l one after the other (by the lock)
 *
 *                find  begin, end  publish  remove  vmid_*  drain_*
 *   find          y        y          y        y      y        y
 *   begin, end             1          y        y      y        2
 *   publish                           l        3      l        l
 *   remove                                     3      l        l
 *   vmid_*, drain_create, drain_destroy               l        l
 *
 *   1 of different drains   2 not of the same drain
 *   3 l, but one call at a time about the same tag
 *
 * Progress: find, begin, end: wait-free. publish, ids, drains: the lock, never
 * held for a wait. remove: also waits for at most one batch of each drain.
 */

#include "hv/vmtable.h"

#include <errno.h>

#include "base/alloc.h"

/* ---- tags --------------------------------------------------------------- */

static uint32_t
index_bits(enum ae_tag_layout layout)
{
    static const uint8_t bits[] = {
        [AE_TAG_24_8] = 8,
        [AE_TAG_23_9] = 9,
        [AE_TAG_20_12] = 12,
    };

    return bits[layout];
}

uint32_t
ae_tag_max_vcpus(enum ae_tag_layout layout)
{
    return 1u << index_bits(layout);
}

static uint32_t
max_id(enum ae_tag_layout layout)
{
    return UINT32_MAX >> index_bits(layout);
}

int
ae_tag_pack(enum ae_tag_layout layout, uint32_t vm_id, uint32_t vcpu_idx,
            uint32_t *ret)
{
    uint32_t bits = index_bits(layout);

    if (vm_id == 0 || vm_id > max_id(layout) || vcpu_idx >> bits != 0) {
        return -EINVAL;
    }
    *ret = vm_id << bits | vcpu_idx;
    return 0;
}

void
ae_tag_unpack(enum ae_tag_layout layout, uint32_t tag, uint32_t *ret_vm_id,
              uint32_t *ret_vcpu_idx)
{
    uint32_t bits = index_bits(layout);

    *ret_vm_id = tag >> bits;
    *ret_vcpu_idx = tag & ((1u << bits) - 1);
}

/* ---- VM ids ------------------------------------------------------------- */

#define CHUNK_SHIFT 15u /* ids of a chunk: 4 KiB of bits */
#define CHUNK_IDS   (1u << CHUNK_SHIFT)
#define CHUNK_WORDS (CHUNK_IDS / 64)
#define WORD_FULL   UINT64_MAX

static uint32_t
nr_chunks(const struct ae_vmtable *t)
{
    return max_id(t->layout) / CHUNK_IDS + 1;
}

/* The word with this id's bit; NULL: its chunk has no memory. */
static uint64_t *
id_word(const struct ae_vmids *ids, uint32_t id)
{
    uint64_t *chunk = ids->chunks[id >> CHUNK_SHIFT];

    return chunk == NULL ? NULL : &chunk[id % CHUNK_IDS / 64];
}

/* The next free id after last. One is: so it ends within a lap and a word. */
static uint32_t
id_next(const struct ae_vmids *ids, uint32_t max)
{
    uint32_t id = ids->last;

    for (;;) {
        id = (id + 1) & max;
        const uint64_t *word = id_word(ids, id);

        if (word == NULL) {
            return id != 0 ? id : 1;
        }
        if (id % 64 == 0 && *word == WORD_FULL) {
            id += 63;
        } else if (id != 0 && (*word >> id % 64 & 1) == 0) {
            return id;
        }
    }
}

static int
vmid_get_locked(struct ae_vmtable *t, uint32_t *ret)
{
    struct ae_vmids *ids = &t->ids;
    uint32_t max = max_id(t->layout);

    if (ids->nr == max) {
        return -EBUSY;
    }
    uint32_t id = id_next(ids, max);
    uint64_t **chunk = &ids->chunks[id >> CHUNK_SHIFT];

    if (*chunk == NULL) {
        *chunk = ae_alloc(t->allocator, AE_CACHE_LINE, CHUNK_WORDS * 8);
        if (*chunk == NULL) {
            return -ENOMEM;
        }
        (*chunk)[0] |= id < CHUNK_IDS; /* no VM has id 0 */
    }
    *id_word(ids, id) |= 1ull << id % 64;
    ids->nr++;
    ids->last = id;
    *ret = id;
    return 0;
}

int
ae_vmid_get(struct ae_vmtable *t, uint32_t *ret)
{
    ae_lock(&t->lock);
    int r = vmid_get_locked(t, ret);

    ae_unlock(&t->lock);
    return r;
}

void
ae_vmid_put(struct ae_vmtable *t, uint32_t id)
{
    ae_lock(&t->lock);
    uint64_t *word = id_word(&t->ids, id);

    assert(id != 0 && word != NULL && (*word >> id % 64 & 1) != 0);
    *word &= ~(1ull << id % 64);
    t->ids.nr--;
    ae_unlock(&t->lock);
}

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
    if (node != NULL) {
        node->next = *list;
        *list = node;
    }
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

static struct ae_vmt_node *
child_locked(const _Atomic uint64_t *entry)
{
    return (struct ae_vmt_node *)(uintptr_t)entry_locked(entry);
}

static void
leaf_set(struct path *p, struct ae_vmt_node *leaf, uint32_t tag)
{
    p->leaf = leaf;
    p->in_leaf = leaf == NULL ? NULL : &leaf->at[tag & (LEAF_ENTRIES - 1)];
}

static void
mid_set(struct path *p, struct ae_vmt_node *mid, uint32_t tag)
{
    p->mid = mid;
    p->in_mid = mid == NULL
                    ? NULL
                    : &mid->at[tag >> AE_VMT_LEAF_BITS & (MID_ENTRIES - 1)];
    leaf_set(p, mid == NULL ? NULL : child_locked(p->in_mid), tag);
}

static struct path
path_locked(const struct ae_vmtable *t, uint32_t tag)
{
    struct path p = {
        .in_root = &t->root->at[tag >> (AE_VMT_MID_BITS + AE_VMT_LEAF_BITS)],
    };

    mid_set(&p, child_locked(p.in_root), tag);
    return p;
}

/* The missing nodes, not in the tree yet. */
static int
path_complete_locked(struct ae_vmtable *t, struct path *p, uint32_t tag)
{
    if (p->mid == NULL) {
        mid_set(p, node_take_locked(t, &t->free_mids, MID_ENTRIES), tag);
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

int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout)
{
    *t = (struct ae_vmtable){ .allocator = allocator, .layout = layout };
    t->root = ae_alloc(allocator, AE_CACHE_LINE, node_bytes(ROOT_ENTRIES));
    t->ids.chunks = ae_alloc(allocator, AE_CACHE_LINE,
                             nr_chunks(t) * sizeof(t->ids.chunks[0]));
    ae_lock_init(&t->lock);
    if (t->root == NULL || t->ids.chunks == NULL) {
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
    assert(t->root == NULL || t->root->nr == 0);
    nodes_free(t, t->free_mids, MID_ENTRIES);
    nodes_free(t, t->free_leaves, LEAF_ENTRIES);
    ae_free(t->allocator, t->root, node_bytes(ROOT_ENTRIES));
    for (uint32_t i = 0; t->ids.chunks != NULL && i < nr_chunks(t); i++) {
        ae_free(t->allocator, t->ids.chunks[i], CHUNK_WORDS * 8);
    }
    ae_free(t->allocator, t->ids.chunks,
            nr_chunks(t) * sizeof(t->ids.chunks[0]));
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
    if (p.leaf->nr++ == 0) {
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

/* Nodes that left the tree, which drains may still read. NULL: none. */
struct gone {
    struct ae_vmt_node *mid, *leaf;
};

static struct gone
unpublish_locked(struct ae_vmtable *t, uint32_t tag)
{
    struct path p = path_locked(t, tag);
    struct gone gone = { .mid = NULL };

    if (p.leaf == NULL || entry_locked(p.in_leaf) == 0) {
        return gone;
    }
    /* ORD drain.B: the entry cleared, then the seqs. Partner: drain.A in
     * ae_drain_begin(). If weaker: see ae_vmt_entry(). Test: race_drain. */
    ae_store_seqcst_u64(p.in_leaf, 0);
    if (--p.leaf->nr == 0) {
        ae_store_seqcst_u64(p.in_mid, 0);
        gone.leaf = p.leaf;
        if (--p.mid->nr == 0) {
            ae_store_seqcst_u64(p.in_root, 0);
            t->root->nr--;
            gone.mid = p.mid;
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

void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag)
{
    ae_lock(&t->lock);
    struct gone gone = unpublish_locked(t, tag);

    ae_unlock(&t->lock);
    AE_STEP(drain_b);
    drains_wait(t);
    if (gone.leaf != NULL) {
        ae_lock(&t->lock);
        node_push(&t->free_leaves, gone.leaf);
        node_push(&t->free_mids, gone.mid);
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
