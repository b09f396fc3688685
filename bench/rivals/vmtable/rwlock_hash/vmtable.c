/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rival of lib/hv/vmtable: the kernel's table under one pthread rwlock.
 * Nothing protects the wake that follows.
 */

#include <pthread.h>

#include "rivals/vmtable/hash.h"

struct table {
    struct hash hash;
    _Alignas(64) pthread_rwlock_t lock;
};

static void *
create(void)
{
    struct table *t = aligned_alloc(64, (sizeof(*t) + 63) / 64 * 64);

    if (t != NULL) {
        *t = (struct table){ .hash = { .buckets = { NULL } } };
        (void)pthread_rwlock_init(&t->lock, NULL);
    }
    return t;
}

static void
destroy(void *table)
{
    struct table *t = table;

    hash_clear(&t->hash);
    (void)pthread_rwlock_destroy(&t->lock);
    free(t);
}

static bool
insert(void *table, uint32_t id, uint32_t nr)
{
    struct table *t = table;
    struct hash_vm *vm = hash_vm_new(id, nr);

    if (vm == NULL) {
        return false;
    }
    (void)pthread_rwlock_wrlock(&t->lock);
    hash_insert(&t->hash, vm);
    (void)pthread_rwlock_unlock(&t->lock);
    return true;
}

static void
vm_remove(void *table, uint32_t id)
{
    struct table *t = table;

    (void)pthread_rwlock_wrlock(&t->lock);
    struct hash_vm *vm = hash_remove(&t->hash, id);

    (void)pthread_rwlock_unlock(&t->lock);
    free(vm);
}

static uint64_t
find(void *table, struct keys *keys, uint64_t n)
{
    struct table *t = table;
    struct keys k = *keys;
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t tag = keys_next(&k);

        (void)pthread_rwlock_rdlock(&t->lock);
        const void *who = hash_find(&t->hash, tag);

        (void)pthread_rwlock_unlock(&t->lock);
        found += who == keys_who(tag);
    }
    *keys = k;
    return found;
}

extern const struct vmtable_rival vmtable_rwlock_hash;
const struct vmtable_rival vmtable_rwlock_hash = {
    create, destroy, insert, vm_remove, find,
};
