/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_GUARDED_H
#define RIVAL_VMTABLE_GUARDED_H

/*
 * The kernel's table behind a guard. The rivals differ in nothing else, so
 * each defines before it includes this file
 *
 *   struct guard, guard_init(), guard_fini()
 *   guard_write(), guard_write_end()   around a change
 *   guard_read(), guard_read_end()     around one look-up
 *   guard_wait()                       between a removal and its free
 *
 * and after it exports itself by VMTABLE_RIVAL(name).
 */

#include "rivals/vmtable/hash.h"

struct vmtable {
    struct hash hash;
    _Alignas(64) struct guard guard;
};

static void *
vmtable_create(void)
{
    struct vmtable *t = aligned_alloc(64, (sizeof(*t) + 63) / 64 * 64);

    if (t != NULL) {
        *t = (struct vmtable){ .hash = { .buckets = { NULL } } };
        guard_init(&t->guard);
    }
    return t;
}

static void
vmtable_destroy(void *table)
{
    struct vmtable *t = table;

    hash_clear(&t->hash);
    guard_fini(&t->guard);
    free(t);
}

static bool
vmtable_insert(void *table, uint32_t id, uint32_t nr)
{
    struct vmtable *t = table;
    struct hash_vm *vm = hash_vm_new(id, nr);

    if (vm == NULL) {
        return false;
    }
    guard_write(&t->guard);
    hash_insert(&t->hash, vm);
    guard_write_end(&t->guard);
    return true;
}

static void
vmtable_remove(void *table, uint32_t id)
{
    struct vmtable *t = table;

    guard_write(&t->guard);
    struct hash_vm *vm = hash_remove(&t->hash, id);

    guard_write_end(&t->guard);
    guard_wait(&t->guard);
    free(vm);
}

static uint64_t
vmtable_find(void *table, struct keys *keys, uint64_t n)
{
    struct vmtable *t = table;
    struct keys k = *keys;
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t tag = keys_next(&k);

        guard_read(&t->guard);
        const void *who = hash_find(&t->hash, tag);

        guard_read_end(&t->guard);
        found += who == keys_who(tag);
    }
    *keys = k;
    return found;
}

#define VMTABLE_RIVAL(name)                              \
    extern const struct vmtable_rival name;              \
    const struct vmtable_rival name = {                  \
        vmtable_create, vmtable_destroy, vmtable_insert, \
        vmtable_remove, vmtable_find,                    \
    }

#endif
