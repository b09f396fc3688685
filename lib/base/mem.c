/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory map: regions of system physical addresses, sorted, without
 * overlap, published as one immutable table. A change builds a new table,
 * publishes it, waits until nobody reads the old one, and frees it.
 *
 * Invariants: base[i] + bytes[i] <= base[i + 1]; no region wraps.
 *
 * Edge
 *   mem   A table_publish()  the new table's content -> its pointer  release
 *         B ae_mem_find()    pointer -> content                      acquire
 *
 * find is wait-free, O(log regions). Writers hold the lock and may wait.
 */

#include "base/mem.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/rcu.h"

struct region {
    uint64_t base, bytes;
    unsigned char *hva;
};

struct ae_mem_table {
    uint32_t nr;
    struct region regions[];
};

static size_t
table_bytes(uint32_t nr)
{
    return sizeof(struct ae_mem_table) + nr * sizeof(struct region);
}

/* ORD mem.B: the pointer, then the regions. Partner: mem.A in table_publish().
 * If weaker: a table of zeros. Test: race_mem. */
static struct ae_mem_table *
table_get(const struct ae_mem *mem)
{
    /* ORD mem.B: as above. */
    struct ae_mem_table *t = ae_load_acquire_ptr(&mem->table);

    AE_STEP(mem_b);
    return t;
}

static void
table_publish(struct ae_mem *mem, struct ae_mem_table *table)
{
    struct ae_mem_table *old = table_get(mem);

    /* ORD mem.A: the regions, then the pointer. Partner: mem.B in
     * table_get(). If weaker: see there. Test: race_mem. */
    ae_store_release_ptr(&mem->table, table);
    AE_STEP(mem_a);
    ae_rcu_synchronize();
    if (old != NULL) {
        ae_free(mem->allocator, old, table_bytes(old->nr));
    }
}

/* Index of the first region that ends above address. */
static uint32_t
table_seek(const struct ae_mem_table *t, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = t->nr;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        /* base + bytes may be 2^64, so compare the last byte. */
        if (t->regions[mid].base + (t->regions[mid].bytes - 1) < address) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

void
ae_mem_init(struct ae_mem *mem, const struct avicemu_allocator *a)
{
    mem->allocator = a;
    ae_lock_init(&mem->lock);
    /* ORD none: nobody reads it yet. */
    ae_store_relaxed_ptr(&mem->table, NULL);
}

void
ae_mem_fini(struct ae_mem *mem)
{
    struct ae_mem_table *t = table_get(mem);

    if (t != NULL) {
        ae_free(mem->allocator, t, table_bytes(t->nr));
    }
    ae_lock_fini(&mem->lock);
}

bool
ae_mem_empty(struct ae_mem *mem)
{
    ae_rcu_enter();
    const struct ae_mem_table *t = table_get(mem);
    bool empty = t == NULL || t->nr == 0;

    ae_rcu_leave();
    return empty;
}

static int
add_locked(struct ae_mem *mem, const struct region *r)
{
    const struct ae_mem_table *old = table_get(mem);
    uint32_t nr = old != NULL ? old->nr : 0;
    uint32_t at = old != NULL ? table_seek(old, r->base) : 0;

    if (at < nr && old->regions[at].base <= r->base + (r->bytes - 1)) {
        return -EEXIST;
    }
    struct ae_mem_table *t =
        ae_alloc(mem->allocator, AE_CACHE_LINE, table_bytes(nr + 1));

    if (t == NULL) {
        return -ENOMEM;
    }
    t->nr = nr + 1;
    t->regions[at] = *r;
    if (nr != 0) {
        memcpy(t->regions, old->regions, at * sizeof(*r));
        memcpy(t->regions + at + 1, old->regions + at, (nr - at) * sizeof(*r));
    }
    table_publish(mem, t);
    return 0;
}

int
ae_mem_add(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva)
{
    struct region r = { .base = base, .bytes = bytes, .hva = hva };

    if (bytes == 0 || ((base | bytes | (uintptr_t)hva) & (AE_PAGE - 1)) != 0 ||
        bytes - 1 > UINT64_MAX - base) {
        return -EINVAL;
    }
    ae_lock(&mem->lock);
    int result = add_locked(mem, &r);

    ae_unlock(&mem->lock);
    return result;
}

static int
remove_locked(struct ae_mem *mem, uint64_t base)
{
    const struct ae_mem_table *old = table_get(mem);
    uint32_t at = old != NULL ? table_seek(old, base) : 0;

    if (old == NULL || at == old->nr || old->regions[at].base != base) {
        return -ENOENT;
    }
    struct ae_mem_table *t =
        ae_alloc(mem->allocator, AE_CACHE_LINE, table_bytes(old->nr - 1));

    if (t == NULL) {
        return -ENOMEM;
    }
    t->nr = old->nr - 1;
    memcpy(t->regions, old->regions, at * sizeof(t->regions[0]));
    memcpy(t->regions + at, old->regions + at + 1,
           (old->nr - at - 1) * sizeof(t->regions[0]));
    table_publish(mem, t);
    return 0;
}

int
ae_mem_remove(struct ae_mem *mem, uint64_t base)
{
    ae_lock(&mem->lock);
    int result = remove_locked(mem, base);

    ae_unlock(&mem->lock);
    return result;
}

void *
ae_mem_find(const struct ae_mem *mem, uint64_t address, uint64_t bytes)
{
    const struct ae_mem_table *t = table_get(mem);

    if (t == NULL || bytes == 0) {
        return NULL;
    }
    uint32_t at = table_seek(t, address);

    if (at == t->nr || t->regions[at].base > address) {
        return NULL;
    }
    uint64_t offset = address - t->regions[at].base;

    return bytes <= t->regions[at].bytes - offset ? t->regions[at].hva + offset
                                                  : NULL;
}
