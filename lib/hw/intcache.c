/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an IOMMU remembers of its tables until software says INVALIDATE. It
 * serves to expose a driver that forgets to: an entry here outlives any change
 * in memory, for as long as nothing needs its line. [IOMMU 2.2.5 caching]
 *
 *   line = hash of (DeviceID, index): direct-mapped; a later entry drives an
 *          earlier one out
 *   seq, key, since, words: read and written as one, by a sequence that is odd
 *          while somebody writes. Who finds it odd does not wait: no hit, or
 *          nothing kept
 *
 * An invalidation walks nothing: it counts, and a line counts for nothing once
 * the counters of its device, or of all, are not those of the time when it was
 * read. Taken before the read of memory, so that an entry that was read before
 * an invalidation and kept after it is no hit either. Devices share a counter
 * by DeviceID mod 256, so invalidating one may forget another's: caches may.
 *
 * Edges
 *   line  A ae_intcache_keep()  words -> seq even      release
 *         B ae_intcache_find()  words -> seq again     acquire on each word
 *   drop  A ae_intcache_drop()  counter, then (in iommu_command.c) the epoch
 *         B ae_intcache_since() (in iommu_msi.c the epoch), then the counter
 *
 * May overlap: everything with everything. Wait-free. Counters wrap at 2^32
 * invalidations of what nobody looked up in between.
 */

#include "hw/intcache.h"

#include "base/step.h"

void
ae_intcache_init(struct ae_intcache *c, struct ae_intcache_line *lines,
                 uint32_t nr)
{
    c->lines = lines;
    c->mask = nr - 1;
    /* ORD none: nobody else has it yet. */
    ae_store_relaxed_u32(&c->of_all, 0);
    for (uint32_t i = 0; i < AE_INTCACHE_GROUPS; i++) {
        /* ORD none: likewise. */
        ae_store_relaxed_u32(&c->of_device[i], 0);
    }
}

static struct ae_intcache_line *
line_of(const struct ae_intcache *c, uint64_t key)
{
    /* Fibonacci hashing: the high bits of the product are well mixed. */
    return &c->lines[(key * 0x9e3779b97f4a7c15u) >> 40 & c->mask];
}

static uint64_t
key_of(uint16_t device_id, uint32_t index)
{
    return (uint64_t)device_id << 32 | index;
}

uint64_t
ae_intcache_since(const struct ae_intcache *c, uint16_t device_id)
{
    if (c->lines == NULL) {
        return 0;
    }
    /* ORD drop.B: the epoch that this interrupt is counted in, then how often
     * was invalidated. Partner: drop.A in ae_intcache_drop(). If weaker: an
     * interrupt of the new epoch, for which nobody waits, goes by a forgotten
     * entry. Test: step/iommu. */
    uint64_t of_all = ae_load_seqcst_u32(&c->of_all);

    AE_STEP(drop_b);
    /* ORD drop.B: likewise. */
    return of_all << 32 |
           ae_load_seqcst_u32(&c->of_device[device_id % AE_INTCACHE_GROUPS]);
}

bool
ae_intcache_find(const struct ae_intcache *c, uint16_t device_id,
                 uint32_t index, uint64_t words[AE_INTCACHE_WORDS])
{
    uint64_t key = key_of(device_id, index);

    if (c->lines == NULL) {
        return false;
    }
    struct ae_intcache_line *line = line_of(c, key);
    /* ORD line.B: seq, the words, seq again. Partner: line.A in
     * ae_intcache_keep(). If weaker: words of two entries. Test:
     * race_intcache. */
    uint32_t seq = ae_load_acquire_u32(&line->seq);
    /* ORD line.B: likewise. */
    bool ours =
        ae_load_acquire_u64(&line->key) == key &&
        ae_load_acquire_u64(&line->since) == ae_intcache_since(c, device_id);

    for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
        /* ORD line.B: likewise. */
        words[i] = ae_load_acquire_u64(&line->words[i]);
    }
    AE_STEP(line_b);
    /* ORD line.B: likewise. An even number that is 0 has nothing yet. */
    return ours && seq != 0 && (seq & 1u) == 0 &&
           ae_load_acquire_u32(&line->seq) == seq;
}

void
ae_intcache_keep(struct ae_intcache *c, uint64_t since, uint16_t device_id,
                 uint32_t index, const uint64_t words[AE_INTCACHE_WORDS])
{
    uint64_t key = key_of(device_id, index);

    if (c->lines == NULL) {
        return;
    }
    struct ae_intcache_line *line = line_of(c, key);
    /* ORD none: the first guess of the exchange below. */
    uint32_t seq = ae_load_relaxed_u32(&line->seq);

    /* ORD line.A: seq odd, then the words; the words, then seq even. Partner:
     * line.B in ae_intcache_find(). If weaker: see there. Test:
     * race_intcache. */
    if ((seq & 1u) != 0 || !ae_cas_seqcst_u32(&line->seq, &seq, seq + 1)) {
        return;
    }
    /* ORD line.A: likewise. */
    ae_store_release_u64(&line->key, key);
    ae_store_release_u64(&line->since, since);
    for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
        /* ORD line.A: likewise. */
        ae_store_release_u64(&line->words[i], words[i]);
    }
    AE_STEP(line_a);
    /* ORD line.A: likewise. Never 0 again. */
    ae_store_release_u32(&line->seq, seq + 2 != 0 ? seq + 2 : 2);
}

void
ae_intcache_drop(struct ae_intcache *c, uint16_t device_id)
{
    /* ORD drop.A: the invalidation, then (at a COMPLETION_WAIT) the epoch.
     * Partner: drop.B in ae_intcache_since(). If weaker: see there. Test:
     * step/iommu. */
    (void)ae_fetch_add_seqcst_u32(&c->of_device[device_id % AE_INTCACHE_GROUPS],
                                  1);
    AE_STEP(drop_a);
}

void
ae_intcache_drop_all(struct ae_intcache *c)
{
    /* ORD drop.A: as ae_intcache_drop(). */
    (void)ae_fetch_add_seqcst_u32(&c->of_all, 1);
}
