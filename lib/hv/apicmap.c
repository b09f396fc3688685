/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC map: from a destination to candidates, without a lock.
 *
 * It only ever says who *may* match. The receiver's own identity word decides
 * (hw/dest.c), so nothing in here can make an interrupt reach the wrong vCPU,
 * and the map needs no copy per change: it is written in place, each slot one
 * atomic word, under a version.
 *
 *   vcpus[]     dense array by vcpu_idx, for broadcasts and odd cases
 *   hash[]      initial id -> index; open addressing, never more than half
 *               full. Changes at create and destroy only. x2APIC ids and
 *               logical ids are initial ids, so guests cannot shape it
 *   xapic_phys  8-bit id -> index
 *   flat,       xAPIC logical id bit -> index, if all are in that model
 *   cluster
 *   flags       which shortcuts are valid
 *
 * A slot that has to name two vCPUs says MANY, and the sender looks at all. So
 * it does if a candidate does not match (the slot is older than the identity),
 * or if flags and hints changed while it looked (version). So a sender sees
 * each change either before or after, never half of it: who matches before and
 * after is always found. [KVM 9.7 rules] give the same results.
 *
 * Edges
 *   vcpu   A ae_apicmap_add()   vCPU's fields -> its pointer    release
 *          B ae_apicmap_at()    pointer -> fields               acquire
 *   ident  A ae_lapic_publish() identity -> hint (update)       seq_cst
 *          B ae_apicmap_find()  hint -> identity                seq_cst
 *   Lifetime: readers are inside a read-side section; remove waits for them.
 *
 * Writers hold the lock: create, destroy, and a vCPU whose identity changed.
 * Update is O(vCPUs). find is wait-free, at most 17 probes of the hash, each
 * bounded by its longest run.
 */

#include "hv/apicmap.h"

#include <errno.h>

#include "base/rcu.h"
#include "hv/tables.h"

#define AE_MAP_HAS_XAPIC  1u  /* an enabled vCPU in xAPIC mode */
#define AE_MAP_HAS_X2APIC 2u  /* ... in x2APIC mode */
#define AE_MAP_ODD_ID     4u  /* an x2APIC id is not the initial one */
#define AE_MAP_HIGH_ID    8u  /* ids above 20 bits share logical ids */
#define AE_MAP_FLAT_OK    16u /* every xAPIC vCPU is in flat model */
#define AE_MAP_CLUSTER_OK 32u /* ... in cluster model */

/* Hash entries: id in 63:32, index + 1 in 31:0; 0 is empty for ever so far,
 * index 0 with an id is a tombstone. */
#define HASH_TOMBSTONE 0x100000000ull

static uint32_t
hash_start(const struct ae_apicmap *map, uint32_t id)
{
    /* Multiplicative: neighbours spread, and so do multiples of 16. */
    return (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 40) & map->hash_mask;
}

/* The slot of id, or the first that is free for it (remove: -1 if absent). */
static int64_t
hash_slot(const struct ae_apicmap *map, uint32_t id, bool insert)
{
    uint32_t at = hash_start(map, id);
    int64_t free_at = -1;

    for (uint32_t i = 0; i <= map->hash_mask; i++) {
        uint32_t slot = (at + i) & map->hash_mask;
        /* ORD vcpu.B: the entry, then the pointer. As ae_apicmap_at(). */
        uint64_t e = ae_load_acquire_u64(&map->hash[slot]);

        if (e != 0 && e != HASH_TOMBSTONE && (uint32_t)(e >> 32) == id) {
            return (int64_t)slot;
        }
        if ((e == 0 || e == HASH_TOMBSTONE) && free_at < 0) {
            free_at = (int64_t)slot;
        }
        if (e == 0) {
            break;
        }
    }
    return insert ? free_at : -1;
}

struct avicemu_vcpu *
ae_apicmap_by_id(const struct ae_apicmap *map, uint32_t id)
{
    int64_t slot = hash_slot(map, id, false);

    if (slot < 0) {
        return NULL;
    }
    /* ORD vcpu.B: as ae_apicmap_at(); the entry may have gone meanwhile. */
    uint64_t e = ae_load_acquire_u64(&map->hash[slot]);
    uint32_t idx = (uint32_t)e;

    return idx == 0 || e == HASH_TOMBSTONE ? NULL : ae_apicmap_at(map, idx - 1);
}

int
ae_apicmap_init(struct ae_apicmap *map, const struct avicemu_allocator *a,
                uint32_t max_vcpus)
{
    uint32_t size = 4;

    while (size < 2 * max_vcpus) {
        size *= 2;
    }
    map->max_vcpus = max_vcpus;
    map->hash_mask = size - 1;
    map->vcpus = ae_alloc(a, AE_CACHE_LINE, max_vcpus * sizeof(*map->vcpus));
    map->hash = ae_alloc(a, AE_CACHE_LINE, size * sizeof(*map->hash));
    if (map->books) {
        map->leaving =
            ae_alloc(a, AE_CACHE_LINE, max_vcpus * sizeof(*map->leaving));
    }
    if (map->vcpus == NULL || map->hash == NULL ||
        (map->books && map->leaving == NULL)) {
        ae_free(a, map->leaving, max_vcpus * sizeof(*map->leaving));
        ae_free(a, map->vcpus, max_vcpus * sizeof(*map->vcpus));
        ae_free(a, map->hash, size * sizeof(*map->hash));
        return -ENOMEM;
    }
    ae_lock_init(&map->lock);
    return 0;
}

void
ae_apicmap_fini(struct ae_apicmap *map, const struct avicemu_allocator *a)
{
    ae_lock_fini(&map->lock);
    ae_free(a, map->leaving, map->max_vcpus * sizeof(*map->leaving));
    ae_free(a, map->vcpus, map->max_vcpus * sizeof(*map->vcpus));
    ae_free(a, map->hash, (map->hash_mask + 1ull) * sizeof(*map->hash));
}

/* ---- hints -------------------------------------------------------------- */

struct hints {
    uint32_t flags;
    uint32_t inhibits; /* bits of AE_INHIBIT_MAP */
    /* Of those that are software-enabled and have a logical id. */
    uint32_t models;    /* 1 flat, 2 cluster, 4 x2APIC */
    uint32_t seen_flat; /* bits of logical ids */
    uint64_t seen_cluster;
    bool high_x2; /* an x2APIC id that xAPIC broadcasts do not reach */
    uint32_t phys[256];
    uint32_t flat[8];
    uint32_t cluster[AE_MAP_CLUSTERS * 4];
};

static void
hint_add(uint32_t *slot, uint32_t idx)
{
    *slot = *slot == AE_MAP_NONE ? idx + 1 : AE_MAP_MANY;
}

/* A logical id must be one bit, and nobody else's. */
static void
hint_logical(struct hints *h, bool flat, uint32_t ldr)
{
    uint32_t bits = flat ? ldr : ldr & 0xfu;
    uint64_t at = (uint64_t)bits << (ldr >> 4) * 4;

    if (bits == 0) {
        return;
    }
    h->models |= flat ? 1u : 2u;
    if (!ae_single_bit32(bits) ||
        (flat ? h->seen_flat & bits : h->seen_cluster & at) != 0) {
        h->inhibits |= 1u << AVICEMU_INHIBIT_LOGICAL_ID_ALIASED;
    }
    h->seen_flat |= flat ? bits : 0;
    h->seen_cluster |= flat ? 0 : at;
}

/* What AVIC cannot represent [KVM 9.7 rules 2, 3]. */
static void
hint_inhibits(struct hints *h, uint64_t ident, uint32_t initial_id)
{
    uint32_t ldr = (uint32_t)(ident >> 16) & 0xffu;
    uint32_t id8 = (uint32_t)(ident >> 8) & 0xffu;

    if ((ident & AE_IDENT_EXTD) != 0) {
        h->models |= (ident & AE_IDENT_SOFT) != 0 ? 4u : 0;
        h->high_x2 |= initial_id >= AE_XAPIC_BROADCAST;
        if ((ident >> 32) != initial_id) {
            h->inhibits |= 1u << AVICEMU_INHIBIT_APIC_ID_MODIFIED;
        }
        return;
    }
    if (id8 != (initial_id & 0xffu)) {
        h->inhibits |= 1u << AVICEMU_INHIBIT_APIC_ID_MODIFIED;
    }
    if (h->phys[id8] == AE_MAP_MANY || initial_id >= AE_XAPIC_BROADCAST) {
        /* Two have it, or an xAPIC broadcast's walk ends before its entry. */
        h->inhibits |= 1u << AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED;
    }
    if ((ident & AE_IDENT_SOFT) != 0) {
        hint_logical(h, (ident & AE_IDENT_FLAT) != 0, ldr);
    }
}

static void
hint_xapic(struct hints *h, uint64_t ident, uint32_t idx)
{
    uint32_t ldr = (uint32_t)(ident >> 16) & 0xffu;

    h->flags |= AE_MAP_HAS_XAPIC;
    hint_add(&h->phys[(ident >> 8) & 0xffu], idx);
    if ((ident & AE_IDENT_FLAT) == 0) {
        h->flags &= ~AE_MAP_FLAT_OK;
    }
    if ((ident & AE_IDENT_CLUSTER) == 0) {
        h->flags &= ~AE_MAP_CLUSTER_OK;
    }
    for (unsigned bit = 0; bit < 8; bit++) {
        if ((ldr & ae_bit32(bit)) == 0) {
            continue;
        }
        hint_add(&h->flat[bit], idx);
        if (!ae_single_bit32(ldr)) {
            /* Found once for each of its bits: not by shortcut. */
            h->flat[bit] = AE_MAP_MANY;
        }
    }
    for (unsigned bit = 0; bit < 4; bit++) {
        if ((ldr & ae_bit32(bit)) != 0 && ldr >> 4 < AE_MAP_CLUSTERS) {
            uint32_t *slot = &h->cluster[(ldr >> 4) * 4 + bit];

            hint_add(slot, idx);
            if (!ae_single_bit32(ldr & 0xfu)) {
                *slot = AE_MAP_MANY;
            }
        }
    }
}

static void
hint_one(struct hints *h, const struct avicemu_vcpu *vcpu)
{
    /* ORD ident.B: seq_cst for the writer's view, too: the last of two
     * updates under the lock sees both identities. Partner: ident.A.
     * Test: race_ident. */
    uint64_t ident = ae_load_seqcst_u64(&vcpu->lapic.ident);
    uint32_t id = (uint32_t)(ident >> 32);

    if ((ident & AE_IDENT_EN) == 0) {
        return;
    }
    if (id >> 20 != 0) {
        h->flags |= AE_MAP_HIGH_ID;
    }
    if ((ident & AE_IDENT_EXTD) != 0) {
        h->flags |= AE_MAP_HAS_X2APIC;
        h->flags |= id != vcpu->lapic.initial_id ? AE_MAP_ODD_ID : 0;
    } else {
        hint_xapic(h, ident, vcpu->vcpu_idx);
    }
    hint_inhibits(h, ident, vcpu->lapic.initial_id);
}

/* Bits of the logical id that hardware would find, by the model of all. */
static uint32_t
logical_bits(const struct hints *h, const uint32_t **bits)
{
    *bits = (h->flags & AE_MAP_FLAT_OK) != 0 ? h->flat : h->cluster;
    if ((h->flags & AE_MAP_FLAT_OK) != 0) {
        return AE_LOGICAL_FLAT;
    }
    return (h->flags & AE_MAP_CLUSTER_OK) != 0 ? AE_LOGICAL_CLUSTER : 0;
}

/* The tables and the inhibit word follow the identities. true: AVIC flipped. */
static bool
tables_update_locked(const struct ae_apicmap *map, struct hints *h)
{
    uint32_t ids[AE_LOGICAL_CLUSTER];
    const uint32_t *bits;
    uint32_t nr;

    if (map->tables == NULL) {
        return false;
    }
    nr = logical_bits(h, &bits);
    for (uint32_t i = 0; i < nr; i++) {
        bool one = bits[i] != AE_MAP_NONE && bits[i] != AE_MAP_MANY;

        ids[i] =
            one ? ae_apicmap_at(map, bits[i] - 1)->lapic.initial_id + 1 : 0;
    }
    /* Hardware reads the table by its sender's DFR, so all must have one, also
     * those that nobody sends to. */
    if ((!ae_single_bit32(h->models) && h->models != 0) || nr == 0) {
        h->inhibits |= 1u << AVICEMU_INHIBIT_LOGICAL_ID_ALIASED;
    }
    if (h->high_x2 && (h->flags & AE_MAP_HAS_XAPIC) != 0) {
        h->inhibits |= 1u << AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED;
    }
    ae_tables_logical(map->tables, ids, nr);
    return ae_tables_inhibit(map->tables, AE_INHIBIT_MAP, h->inhibits);
}

static void
hints_store(_Atomic uint32_t *to, const uint32_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        /* ORD none: only writers, under the lock, read it here. */
        if (ae_load_relaxed_u32(&to[i]) != from[i]) {
            /* ORD ident.A: identity, then the hint. Partner: ident.B in
             * ae_apicmap_find(). If weaker: see hw/lapic.c.
             * Test: race_ident. */
            ae_store_seqcst_u32(&to[i], from[i]);
        }
    }
}

static bool
hints_update_locked(struct ae_apicmap *map)
{
    struct hints h = { .flags = AE_MAP_FLAT_OK | AE_MAP_CLUSTER_OK };
    uint32_t nr = ae_apicmap_nr_slots(map);

    for (uint32_t idx = 0; idx < nr; idx++) {
        const struct avicemu_vcpu *vcpu = ae_apicmap_at(map, idx);

        if (vcpu != NULL) {
            hint_one(&h, vcpu);
        }
    }
    /*
     * ORD map.A: version odd, then the hints, then version even. Partner: map.B
     * in ae_apicmap_find(). If weaker: a sender sees old flags and new hints,
     * finds nobody under an id that its owner had all the time, and the
     * message is lost. Test: race_ident.
     */
    (void)ae_fetch_add_seqcst_u32(&map->version, 1);
    AE_STEP(map_a);
    hints_store(map->xapic_phys, h.phys, 256);
    hints_store(map->flat, h.flat, 8);
    hints_store(map->cluster, h.cluster, AE_MAP_CLUSTERS * 4);
    hints_store(&map->flags, &h.flags, 1);
    AE_STEP(ident_a2);
    /* ORD map.A: as above. */
    (void)ae_fetch_add_seqcst_u32(&map->version, 1);
    return tables_update_locked(map, &h);
}

bool
ae_apicmap_update(struct ae_apicmap *map)
{
    ae_lock(&map->lock);
    bool flipped = hints_update_locked(map);

    ae_unlock(&map->lock);
    return flipped;
}

/* ---- membership --------------------------------------------------------- */

static uint32_t
free_index_locked(const struct ae_apicmap *map)
{
    uint32_t idx = 0;

    while (idx < map->max_vcpus && ae_apicmap_holder_locked(map, idx) != NULL) {
        idx++;
    }
    return idx;
}

static int
add_locked(struct ae_apicmap *map, struct avicemu_vcpu *vcpu, bool *flipped)
{
    uint32_t id = vcpu->lapic.initial_id;
    uint32_t nr = ae_apicmap_nr_slots(map);
    /* Without holes the next index is known; else the lowest hole. ORD none:
     * only writers, under the lock, change it. */
    uint32_t idx =
        ae_load_relaxed_u32(&map->nr_vcpus) == nr ? nr : free_index_locked(map);

    if (hash_slot(map, id, false) >= 0) {
        return -EEXIST;
    }
    if (idx >= map->max_vcpus) {
        return -EBUSY;
    }
    vcpu->vcpu_idx = idx;
    /*
     * ORD vcpu.A: all fields, then pointer and hash entry. Partner: vcpu.B in
     * ae_apicmap_at(), hash_slot(). If weaker: a sender sees a half-made
     * vCPU. Test: race_vcpu.
     */
    ae_store_release_ptr(&map->vcpus[idx], vcpu);
    ae_store_release_u64(&map->hash[hash_slot(map, id, true)],
                         (uint64_t)id << 32 | (idx + 1));
    if (idx >= nr) {
        ae_store_release_u32(&map->nr_slots, idx + 1);
    }
    AE_STEP(vcpu_a);
    /* ORD none: a count for the owner of the VM. */
    (void)ae_fetch_add_relaxed_u32(&map->nr_vcpus, 1);
    *flipped = hints_update_locked(map);
    return 0;
}

int
ae_apicmap_add(struct ae_apicmap *map, struct avicemu_vcpu *vcpu, bool *flipped)
{
    ae_lock(&map->lock);
    int r = add_locked(map, vcpu, flipped);

    ae_unlock(&map->lock);
    return r;
}

/*
 * Where a run of entries ends in tombstones, they are the end: nothing that is
 * looked for stands behind them. So runs stay as short as the table is empty.
 */
static void
tombstones_clear_locked(struct ae_apicmap *map, uint32_t slot)
{
    /* ORD none: only writers, under the lock, change it. */
    if (ae_load_relaxed_u64(&map->hash[(slot + 1) & map->hash_mask]) != 0) {
        return;
    }
    while (ae_load_relaxed_u64(&map->hash[slot]) == HASH_TOMBSTONE) {
        /* ORD none: to a reader both mean that this slot has no id. */
        ae_store_relaxed_u64(&map->hash[slot], 0);
        slot = (slot - 1) & map->hash_mask;
    }
}

bool
ae_apicmap_remove(struct ae_apicmap *map, struct avicemu_vcpu *vcpu)
{
    ae_lock(&map->lock);
    int64_t slot = hash_slot(map, vcpu->lapic.initial_id, false);

    /* ORD vcpu.A: out of the map, then the grace period. Partner: the read
     * sections of hv/deliver.c. If weaker: use after free. Test: race_pin.
     */
    ae_store_release_ptr(&map->vcpus[vcpu->vcpu_idx], NULL);
    ae_store_release_u64(&map->hash[slot], HASH_TOMBSTONE);
    tombstones_clear_locked(map, (uint32_t)slot);
    if (map->leaving != NULL) {
        map->leaving[vcpu->vcpu_idx] = vcpu;
    }
    /* ORD none: a count for the owner of the VM. */
    (void)ae_fetch_add_relaxed_u32(&map->nr_vcpus, UINT32_MAX);
    bool flipped = hints_update_locked(map);

    ae_unlock(&map->lock);
    ae_rcu_synchronize();
    return flipped;
}

void
ae_apicmap_index_free_locked(struct ae_apicmap *map, uint32_t idx)
{
    map->leaving[idx] = NULL;
}

/* ---- look-up ------------------------------------------------------------ */

/* Add the candidate of a hint. false: the hint cannot say who. */
static bool
found_hint(const struct ae_apicmap *map, const _Atomic uint32_t *hint,
           struct avicemu_vcpu **found, int *nr)
{
    /* ORD ident.B: the hint, then the candidate's identity (the caller's
     * match). Partner: ident.A. If weaker: see hw/lapic.c. Test: race_ident.
     */
    uint32_t value = ae_load_seqcst_u32(hint);
    struct avicemu_vcpu *vcpu;

    if (value == AE_MAP_NONE) {
        return true;
    }
    if (value == AE_MAP_MANY) {
        return false;
    }
    vcpu = ae_apicmap_at(map, value - 1);
    if (vcpu == NULL) {
        return false;
    }
    for (int i = 0; i < *nr; i++) {
        if (found[i] == vcpu) {
            return true;
        }
    }
    found[(*nr)++] = vcpu;
    return true;
}

static int
find_physical(const struct ae_apicmap *map, uint32_t flags, uint32_t dest,
              struct avicemu_vcpu **found)
{
    int nr = 0;

    if ((flags & AE_MAP_HAS_X2APIC) != 0 || dest > AE_XAPIC_BROADCAST) {
        struct avicemu_vcpu *vcpu = ae_apicmap_by_id(map, dest);

        if (vcpu != NULL) {
            found[nr++] = vcpu;
        }
    }
    if ((flags & AE_MAP_HAS_XAPIC) != 0 && dest < AE_XAPIC_BROADCAST &&
        !found_hint(map, &map->xapic_phys[dest], found, &nr)) {
        return -1;
    }
    return nr;
}

static int
find_x2apic_logical(const struct ae_apicmap *map, uint32_t dest,
                    struct avicemu_vcpu **found)
{
    int nr = 0;

    for (uint32_t bits = dest & 0xffffu; bits != 0; bits &= bits - 1) {
        uint32_t id = (dest >> 16) << 4 | ae_lowest_bit32(bits);
        struct avicemu_vcpu *vcpu = ae_apicmap_by_id(map, id);

        if (vcpu != NULL) {
            found[nr++] = vcpu;
        }
    }
    return nr;
}

static int
find_xapic_logical(const struct ae_apicmap *map, uint32_t flags, uint32_t dest,
                   struct avicemu_vcpu **found)
{
    const _Atomic uint32_t *hints = map->flat;
    uint32_t bits = dest & 0xffu;
    int nr = 0;

    if ((flags & AE_MAP_FLAT_OK) == 0) {
        if ((flags & AE_MAP_CLUSTER_OK) == 0) {
            return -1;
        }
        if (dest >> 4 >= AE_MAP_CLUSTERS) {
            return 0;
        }
        hints = &map->cluster[(dest >> 4) * 4];
        bits = dest & 0xfu;
    }
    for (; bits != 0; bits &= bits - 1) {
        if (!found_hint(map, &hints[ae_lowest_bit32(bits)], found, &nr)) {
            return -1;
        }
    }
    return nr;
}

static int
find_hinted(const struct ae_apicmap *map, const struct ae_message *m,
            struct avicemu_vcpu **found)
{
    /* ORD ident.B: the flags, then hints and identities. Partner: ident.A.
     * If weaker: see hw/lapic.c. Test: race_ident. */
    uint32_t flags = ae_load_seqcst_u32(&map->flags);
    bool x2 = (flags & AE_MAP_HAS_X2APIC) != 0;
    bool x1 = (flags & AE_MAP_HAS_XAPIC) != 0;
    int nr = -1;

    /* FFh is an ordinary id among x2APICs, but for KVM's quirk. */
    bool broadcast =
        m->dest == AE_X2APIC_BROADCAST ||
        (m->dest == AE_XAPIC_BROADCAST &&
         (x1 || (m->format == AE_FORMAT_MSI && map->msi_ff_broadcast)));

    if (m->shorthand != AE_DSH_NONE || broadcast ||
        (flags & AE_MAP_ODD_ID) != 0) {
        return -1;
    }
    if (!m->logical) {
        nr = find_physical(map, flags, m->dest, found);
    } else if (x2 && !x1 && (flags & AE_MAP_HIGH_ID) == 0) {
        nr = find_x2apic_logical(map, m->dest, found);
    } else if (x1 && !x2) {
        nr = find_xapic_logical(map, flags, m->dest, found);
    }
    AE_STEP(ident_b);
    return nr;
}

int
ae_apicmap_find(const struct ae_apicmap *map, const struct ae_message *m,
                struct avicemu_vcpu *found[AE_MAP_MAX_FOUND])
{
    /* ORD map.B: version, then flags and hints, then version again. Partner:
     * map.A in hints_update_locked(). If weaker: see there. Test: race_ident.
     */
    uint32_t version = ae_load_seqcst_u32(&map->version);
    int nr = find_hinted(map, m, found);

    AE_STEP(map_b);
    /* ORD map.B: as above. */
    return (version & 1u) == 0 && version == ae_load_seqcst_u32(&map->version)
               ? nr
               : -1;
}
