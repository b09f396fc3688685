/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_INTCACHE_H
#define AE_HW_INTCACHE_H

/*
 * A cache of the IOMMU: device table entries, or entries of interrupt tables.
 * See intcache.c.
 */

#include "base/atomic.h"

#define AE_INTCACHE_WORDS  3u
#define AE_INTCACHE_GROUPS 256u

/* One cached entry; all writers, one after the other. */
struct ae_intcache_line {
    _Atomic uint32_t seq; /* odd: is being written */
    _Atomic uint64_t key;
    _Atomic uint64_t since; /* invalidations when it was read from memory */
    _Atomic uint64_t words[AE_INTCACHE_WORDS];
};

struct ae_intcache {
    /* Constant after init. */
    uint32_t mask;                  /* lines - 1 */
    struct ae_intcache_line *lines; /* NULL: nothing is ever kept */
    /* Invalidations so far: of everything, and by device. Software's side. */
    _Atomic uint32_t of_all;
    _Atomic uint32_t of_device[AE_INTCACHE_GROUPS];
};

/* lines: nr zeroed ones, a power of two, the caller's; NULL: no cache. */
void
ae_intcache_init(struct ae_intcache *c, struct ae_intcache_line *lines,
                 uint32_t nr);

/* How often the device's entries have been invalidated: before memory is read
 * for ae_intcache_keep(). */
uint64_t
ae_intcache_since(const struct ae_intcache *c, uint16_t device_id);
/* Is the entry here, and not invalidated? Then into words. */
bool
ae_intcache_find(const struct ae_intcache *c, uint16_t device_id,
                 uint32_t index, uint64_t words[AE_INTCACHE_WORDS]);
/* Keep what was read from memory. A line that is being written stays. */
void
ae_intcache_keep(struct ae_intcache *c, uint64_t since, uint16_t device_id,
                 uint32_t index, const uint64_t words[AE_INTCACHE_WORDS]);

/* Forget the device's entries, and those of who shares its group; or all. */
void
ae_intcache_drop(struct ae_intcache *c, uint16_t device_id);
void
ae_intcache_drop_all(struct ae_intcache *c);

#endif
