/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC map under a mutex. See map.h.
 */

#include "rivals/map/mutex/map.h"

#include <pthread.h>
#include <stdlib.h>

#define BROADCAST_8  0xffu
#define BROADCAST_32 0xffffffffu
#define NONE         0u
#define MANY         UINT32_MAX
#define CLUSTERS     15u

struct member {
    void *who;
    uint32_t id;
    uint8_t ldr;
    bool x2apic;
    bool flat;
};

struct map_mutex {
    pthread_mutex_t mutex; /* protects everything below */
    uint32_t max;
    uint32_t nr;
    uint32_t hash_mask;
    uint32_t nr_x2apic;
    uint32_t nr_cluster; /* of those in xAPIC mode; the others are flat */
    struct member *members;
    uint64_t *hash; /* id in 63:32, index + 1; 0: empty */
    /* Index + 1, NONE or MANY. */
    uint32_t xapic[256];
    uint32_t flat[8];
    uint32_t cluster[CLUSTERS * 4];
};

struct map_mutex *
map_mutex_create(uint32_t max)
{
    struct map_mutex *map = calloc(1, sizeof(*map));
    uint32_t size = 4;

    while (size < 2 * max) {
        size *= 2;
    }
    if (map == NULL) {
        return NULL;
    }
    map->max = max;
    map->hash_mask = size - 1;
    map->members = calloc(max, sizeof(map->members[0]));
    map->hash = calloc(size, sizeof(map->hash[0]));
    if (map->members == NULL || map->hash == NULL ||
        pthread_mutex_init(&map->mutex, NULL) != 0) {
        free(map->members);
        free(map->hash);
        free(map);
        return NULL;
    }
    return map;
}

void
map_mutex_destroy(struct map_mutex *map)
{
    if (map == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&map->mutex);
    free(map->members);
    free(map->hash);
    free(map);
}

void
map_mutex_lock(struct map_mutex *map)
{
    (void)pthread_mutex_lock(&map->mutex);
}

void
map_mutex_unlock(struct map_mutex *map)
{
    (void)pthread_mutex_unlock(&map->mutex);
}

static uint32_t
hash_start(const struct map_mutex *map, uint32_t id)
{
    return (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 40) & map->hash_mask;
}

static const struct member *
by_id(const struct map_mutex *map, uint32_t id)
{
    for (uint32_t slot = hash_start(map, id); map->hash[slot] != 0;
         slot = (slot + 1) & map->hash_mask) {
        if ((uint32_t)(map->hash[slot] >> 32) == id) {
            return &map->members[(uint32_t)map->hash[slot] - 1];
        }
    }
    return NULL;
}

/* ---- changes ------------------------------------------------------------ */

static void
hint_add(uint32_t *hint, uint32_t index)
{
    *hint = *hint == NONE ? index + 1 : MANY;
}

static void
hints_rebuild(struct map_mutex *map)
{
    for (unsigned i = 0; i < 8; i++) {
        map->flat[i] = NONE;
    }
    for (unsigned i = 0; i < CLUSTERS * 4; i++) {
        map->cluster[i] = NONE;
    }
    map->nr_cluster = 0;
    for (uint32_t index = 0; index < map->nr; index++) {
        const struct member *m = &map->members[index];

        map->nr_cluster += !m->x2apic && !m->flat;
        for (unsigned bit = 0; bit < 8; bit++) {
            if (m->x2apic || (m->ldr & 1u << bit) == 0) {
                continue;
            }
            if (m->flat) {
                hint_add(&map->flat[bit], index);
            } else if (bit < 4 && m->ldr >> 4 < CLUSTERS) {
                hint_add(&map->cluster[(m->ldr >> 4) * 4u + bit], index);
            }
        }
    }
}

bool
map_mutex_add(struct map_mutex *map, uint32_t id, bool x2apic, void *who)
{
    map_mutex_lock(map);
    bool fits = map->nr < map->max;

    if (fits) {
        uint32_t index = map->nr++;
        uint32_t slot = hash_start(map, id);

        map->members[index] = (struct member){
            .who = who, .id = id, .x2apic = x2apic, .flat = true
        };
        while (map->hash[slot] != 0) {
            slot = (slot + 1) & map->hash_mask;
        }
        map->hash[slot] = (uint64_t)id << 32 | (index + 1);
        map->nr_x2apic += x2apic;
        if (!x2apic) {
            hint_add(&map->xapic[id & 0xffu], index);
        }
    }
    map_mutex_unlock(map);
    return fits;
}

void
map_mutex_set_logical(struct map_mutex *map, uint32_t id, uint8_t ldr,
                      bool flat)
{
    map_mutex_lock(map);
    for (uint32_t index = 0; index < map->nr; index++) {
        if (map->members[index].id == id) {
            map->members[index].ldr = ldr;
            map->members[index].flat = flat;
        }
    }
    hints_rebuild(map);
    map_mutex_unlock(map);
}

/* ---- look-up ------------------------------------------------------------ */

static void
found_add(void *who, void **found, int *nr)
{
    for (int i = 0; i < *nr; i++) {
        if (found[i] == who) {
            return;
        }
    }
    found[(*nr)++] = who;
}

/* false: the hint cannot say who. */
static bool
found_hint(const struct map_mutex *map, uint32_t hint, void **found, int *nr)
{
    if (hint != NONE && hint != MANY) {
        found_add(map->members[hint - 1].who, found, nr);
    }
    return hint != MANY;
}

static int
find_physical(const struct map_mutex *map, uint32_t dest, void **found)
{
    int nr = 0;

    if (map->nr_x2apic != 0 || dest > BROADCAST_8) {
        const struct member *m = by_id(map, dest);

        if (m != NULL) {
            found_add(m->who, found, &nr);
        }
    }
    if (map->nr_x2apic != map->nr && dest < BROADCAST_8 &&
        !found_hint(map, map->xapic[dest], found, &nr)) {
        return -1;
    }
    return nr;
}

static int
find_x2apic_logical(const struct map_mutex *map, uint32_t dest, void **found)
{
    int nr = 0;

    for (uint32_t bits = dest & 0xffffu; bits != 0; bits &= bits - 1) {
        const struct member *m =
            by_id(map, (dest >> 16) << 4 | (uint32_t)__builtin_ctz(bits));

        if (m != NULL) {
            found_add(m->who, found, &nr);
        }
    }
    return nr;
}

static int
find_xapic_logical(const struct map_mutex *map, uint32_t dest, void **found)
{
    const uint32_t *hints = map->flat;
    uint32_t bits = dest & 0xffu;
    int nr = 0;

    if (map->nr_cluster != 0) {
        if (map->nr_cluster != map->nr) {
            return -1;
        }
        if (bits >> 4 >= CLUSTERS) {
            return 0;
        }
        hints = &map->cluster[(bits >> 4) * 4];
        bits &= 0xfu;
    }
    for (; bits != 0; bits &= bits - 1) {
        if (!found_hint(map, hints[__builtin_ctz(bits)], found, &nr)) {
            return -1;
        }
    }
    return nr;
}

int
map_mutex_find(const struct map_mutex *map, const struct map_mutex_dest *dest,
               void *found[MAP_MUTEX_MAX_FOUND])
{
    if (dest->dest == BROADCAST_32 ||
        (dest->dest == BROADCAST_8 && map->nr_x2apic != map->nr)) {
        return -1;
    }
    if (!dest->logical) {
        return find_physical(map, dest->dest, found);
    }
    if (map->nr_x2apic == map->nr) {
        return find_x2apic_logical(map, dest->dest, found);
    }
    return map->nr_x2apic == 0 ? find_xapic_logical(map, dest->dest, found)
                               : -1;
}

uint32_t
map_mutex_nr(const struct map_mutex *map)
{
    return map->nr;
}

void *
map_mutex_at(const struct map_mutex *map, uint32_t index)
{
    return map->members[index].who;
}
