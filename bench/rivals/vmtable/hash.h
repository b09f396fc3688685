/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_HASH_H
#define RIVAL_VMTABLE_HASH_H

/*
 * The kernel's VM table, without its protection: 256 buckets of VMs by id, each
 * with its vCPUs by index. Layout 24/8. The rivals, a folder each, add a lock
 * or RCU, and export this face with their name.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "rivals/vmtable/keys.h"

#define HASH_BUCKETS 256u

struct hash_vm {
    _Atomic(struct hash_vm *) next;
    uint32_t id;
    uint32_t nr;
    void *vcpus[];
};

struct hash {
    _Atomic(struct hash_vm *) buckets[HASH_BUCKETS];
};

struct vmtable_rival {
    void *(*create)(void);
    void (*destroy)(void *table);
    /* A VM with nr vCPUs, keys_who() each. */
    bool (*insert)(void *table, uint32_t id, uint32_t nr);
    void (*remove)(void *table, uint32_t id);
    /* n look-ups; how many found whom they should. */
    uint64_t (*find)(void *table, struct keys *keys, uint64_t n);
};

static inline _Atomic(struct hash_vm *) *
hash_bucket(struct hash *h, uint32_t id)
{
    return &h->buckets[id * 0x61c88647u >> 24];
}

static inline void *
hash_find(struct hash *h, uint32_t tag)
{
    struct hash_vm *vm =
        atomic_load_explicit(hash_bucket(h, tag >> 8), memory_order_acquire);

    while (vm != NULL && vm->id != tag >> 8) {
        vm = atomic_load_explicit(&vm->next, memory_order_acquire);
    }
    return vm != NULL && (tag & 0xffu) < vm->nr ? vm->vcpus[tag & 0xffu] : NULL;
}

static inline struct hash_vm *
hash_vm_new(uint32_t id, uint32_t nr)
{
    struct hash_vm *vm = calloc(1, sizeof(*vm) + nr * sizeof(vm->vcpus[0]));

    if (vm != NULL) {
        vm->id = id;
        vm->nr = nr;
        for (uint32_t i = 0; i < nr; i++) {
            vm->vcpus[i] = keys_who(id << 8 | i);
        }
    }
    return vm;
}

static inline void
hash_insert(struct hash *h, struct hash_vm *vm)
{
    _Atomic(struct hash_vm *) *at = hash_bucket(h, vm->id);

    atomic_store_explicit(&vm->next, atomic_load(at), memory_order_relaxed);
    atomic_store_explicit(at, vm, memory_order_release);
}

/* Out of its chain; the caller frees it. */
static inline struct hash_vm *
hash_remove(struct hash *h, uint32_t id)
{
    _Atomic(struct hash_vm *) *at = hash_bucket(h, id);
    struct hash_vm *vm = atomic_load(at);

    while (vm != NULL && vm->id != id) {
        at = &vm->next;
        vm = atomic_load(at);
    }
    if (vm != NULL) {
        atomic_store_explicit(at, atomic_load(&vm->next), memory_order_release);
    }
    return vm;
}

static inline void
hash_clear(struct hash *h)
{
    for (uint32_t i = 0; i < HASH_BUCKETS; i++) {
        struct hash_vm *vm = atomic_load(&h->buckets[i]);

        while (vm != NULL) {
            struct hash_vm *next = atomic_load(&vm->next);

            free(vm);
            vm = next;
        }
    }
}

#endif
