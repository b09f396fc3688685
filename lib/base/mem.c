/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory map: regions of system physical addresses, sorted, without
 * overlap, published as one immutable table. A change builds the next table in
 * the spare one, publishes it, waits until nobody reads the old one, and keeps
 * that as the spare. So what was added can be removed without memory.
 *
 * Invariants: base[i] + bytes[i] <= base[i + 1]; no region wraps; the spare has
 * room for one region less than are there.
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
    bool own; /* the library's */
};

struct ae_mem_table {
    uint32_t nr;
    uint32_t room;
    struct region regions[];
};

static size_t
table_bytes(uint32_t room)
{
    return sizeof(struct ae_mem_table) + room * sizeof(struct region);
}

static void
table_free(struct ae_mem *mem, struct ae_mem_table *t)
{
    if (t != NULL) {
        ae_free(mem->allocator, t, table_bytes(t->room));
    }
}

/* A table that nobody reads, with room for nr regions; NULL: no memory, which
 * cannot happen to one region less. */
static struct ae_mem_table *
table_take_locked(struct ae_mem *mem, uint32_t nr)
{
    struct ae_mem_table *t = mem->spare;

    if (t == NULL || t->room < nr) {
        uint32_t room = 2 * nr;

        t = ae_alloc(mem->allocator, AE_CACHE_LINE, table_bytes(room));
        if (t == NULL) {
            return NULL;
        }
        t->room = room;
        table_free(mem, mem->spare);
    }
    mem->spare = NULL;
    return t;
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
    table_free(mem, mem->spare);
    mem->spare = old;
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
    mem->spare = NULL;
    ae_lock_init(&mem->lock);
    /* ORD none: nobody reads it yet. */
    ae_store_relaxed_ptr(&mem->table, NULL);
}

void
ae_mem_fini(struct ae_mem *mem)
{
    table_free(mem, table_get(mem));
    table_free(mem, mem->spare);
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
    struct ae_mem_table *t = table_take_locked(mem, nr + 1);

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

static int
region_add(struct ae_mem *mem, const struct region *r)
{
    if (r->bytes == 0 ||
        ((r->base | r->bytes | (uintptr_t)r->hva) & (AE_PAGE - 1)) != 0 ||
        r->bytes - 1 > UINT64_MAX - r->base) {
        return -EINVAL;
    }
    ae_lock(&mem->lock);
    int result = add_locked(mem, r);

    ae_unlock(&mem->lock);
    return result;
}

int
ae_mem_add(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva)
{
    struct region r = { .base = base, .bytes = bytes, .hva = hva };

    return region_add(mem, &r);
}

int
ae_mem_add_own(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva)
{
    struct region r = { .base = base, .bytes = bytes, .hva = hva, .own = true };

    return region_add(mem, &r);
}

static int
remove_locked(struct ae_mem *mem, uint64_t base, bool own)
{
    const struct ae_mem_table *old = table_get(mem);
    uint32_t at = old != NULL ? table_seek(old, base) : 0;

    if (old == NULL || at == old->nr || old->regions[at].base != base ||
        old->regions[at].own != own) {
        return -ENOENT;
    }
    if (old->nr == 1) {
        table_publish(mem, NULL);
        return 0;
    }
    struct ae_mem_table *t = table_take_locked(mem, old->nr - 1);

    assert(t != NULL); /* the spare has room */
    t->nr = old->nr - 1;
    memcpy(t->regions, old->regions, at * sizeof(t->regions[0]));
    memcpy(t->regions + at, old->regions + at + 1,
           (old->nr - at - 1) * sizeof(t->regions[0]));
    table_publish(mem, t);
    return 0;
}

static int
region_remove(struct ae_mem *mem, uint64_t base, bool own)
{
    ae_lock(&mem->lock);
    int result = remove_locked(mem, base, own);

    ae_unlock(&mem->lock);
    return result;
}

int
ae_mem_remove(struct ae_mem *mem, uint64_t base)
{
    return region_remove(mem, base, false);
}

int
ae_mem_remove_own(struct ae_mem *mem, uint64_t base)
{
    return region_remove(mem, base, true);
}

/* The bytes at address in this region, or NULL. */
static void *
region_at(const struct region *r, uint64_t address, uint64_t bytes)
{
    uint64_t offset = address - r->base;

    return offset < r->bytes && bytes <= r->bytes - offset ? r->hva + offset
                                                           : NULL;
}

void *
ae_mem_find(const struct ae_mem *mem, uint64_t address, uint64_t bytes)
{
    uint32_t near = UINT32_MAX;

    return ae_mem_find_near(mem, address, bytes, &near);
}

void *
ae_mem_find_near(const struct ae_mem *mem, uint64_t address, uint64_t bytes,
                 uint32_t *near)
{
    const struct ae_mem_table *t = table_get(mem);
    uint32_t at = *near;
    void *memory;

    if (t == NULL || bytes == 0) {
        return NULL;
    }
    if (AE_LIKELY(at < t->nr)) {
        memory = region_at(&t->regions[at], address, bytes);
        if (AE_LIKELY(memory != NULL)) {
            return memory;
        }
    }
    at = table_seek(t, address);
    if (at == t->nr) {
        return NULL;
    }
    *near = at;
    return region_at(&t->regions[at], address, bytes);
}
