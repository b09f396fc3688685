/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_KEYS_H
#define RIVAL_VMTABLE_KEYS_H

/*
 * The keys that all designs of the VM table look up: random live tags of layout
 * 24/8, VM ids from 1, each VM with as many vCPUs.
 */

#include <stdint.h>

struct keys {
    uint64_t random;
    uint32_t nr; /* live entries */
    uint32_t per_vm_shift;
};

static inline uint32_t
keys_tag(const struct keys *k, uint32_t i)
{
    return ((i >> k->per_vm_shift) + 1) << 8 |
           (i & ((1u << k->per_vm_shift) - 1));
}

static inline uint32_t
keys_next(struct keys *k)
{
    k->random = k->random * 6364136223846793005u + 1442695040888963407u;
    return keys_tag(k, (uint32_t)((k->random >> 32) * k->nr >> 32));
}

/* Whom a tag means: an address that nobody looks at. */
static inline void *
keys_who(uint32_t tag)
{
    return (void *)(((uintptr_t)tag + 1) << 6);
}

#endif
