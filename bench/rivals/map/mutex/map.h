/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_MAP_MUTEX_H
#define RIVAL_MAP_MUTEX_H

/*
 * A rival of lib/hv/apicmap: the same map under one pthread mutex per VM, as a
 * plain VMM has it. A reader holds the mutex from the look-up until it is done
 * with what it found, for only the mutex keeps that alive.
 *
 * What it does as the library's map does: initial id -> vCPU by an
 * open-addressed hash that is at most half full, 8-bit ids by a table, xAPIC
 * flat and cluster logical ids by tables of bits, x2APIC logical ids as 16
 * initial ids, broadcasts and ambiguous ids by "look at all".
 *
 * What it need not do: identities change under the mutex, too, so a hint is
 * never stale, and nothing that was found has to be matched again.
 */

#include <stdbool.h>
#include <stdint.h>

#define MAP_MUTEX_MAX_FOUND 17u

struct map_mutex;

/* As a message writes it. */
struct map_mutex_dest {
    uint32_t dest;
    bool logical;
};

/* NULL: no memory. max: vCPUs. */
struct map_mutex *
map_mutex_create(uint32_t max);
void
map_mutex_destroy(struct map_mutex *map);

/* Takes the mutex. id is the initial one, and not there yet; who is what find
 * returns. false: full. */
bool
map_mutex_add(struct map_mutex *map, uint32_t id, bool x2apic, void *who);
/* Takes the mutex. xAPIC mode: LDR[31:24], flat or cluster model. */
void
map_mutex_set_logical(struct map_mutex *map, uint32_t id, uint8_t ldr,
                      bool flat);

void
map_mutex_lock(struct map_mutex *map);
void
map_mutex_unlock(struct map_mutex *map);

/* The rest: under the mutex. */

/* Who has this destination, without duplicates. Their number, or -1: look at
 * all of them. */
int
map_mutex_find(const struct map_mutex *map, const struct map_mutex_dest *dest,
               void *found[MAP_MUTEX_MAX_FOUND]);
uint32_t
map_mutex_nr(const struct map_mutex *map);
/* index < nr */
void *
map_mutex_at(const struct map_mutex *map, uint32_t index);

#endif
