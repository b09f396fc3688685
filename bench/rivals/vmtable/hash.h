/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_HASH_H
#define RIVAL_VMTABLE_HASH_H

/*
 * The kernel's VM table, without its protection: 256 buckets of VMs by id, each
 * with its vCPUs by index. A rival's vmtable_impl.h defines before it includes
 * this file
 *
 *   struct guard, guard_init(), guard_fini()
 *   guard_write(), guard_write_end()   around a change
 *   guard_read(), guard_read_end()     around one look-up
 *   guard_wait()                       between removals and their frees
 *
 * and its vmtable.c is hash.c. As in the kernel nothing protects the wake that
 * follows a look-up: a batch is no section, and nothing waits for it.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "base/step.h"

#define HASH_BUCKETS 256u

struct hash_vm {
    _Atomic(struct hash_vm *) next;
    uint32_t id;
    uint32_t nr_vcpus; /* under the lock */
    struct hash_vm *gone;
    _Atomic(struct avicemu_vcpu *) vcpus[];
};

struct ae_vmtable {
    const struct avicemu_allocator *allocator;
    uint32_t index_bits;
    _Alignas(64) struct guard guard;
    struct hash_vm *gone; /* out of the table, until synchronize; the lock */
    _Atomic(struct hash_vm *) buckets[HASH_BUCKETS];
};

struct ae_drain {
    const struct avicemu_allocator *allocator;
};

/* As the kernel's hash_min() does it. */
static inline uint32_t
hash_bucket(uint32_t id)
{
    return id * 0x61c88647u >> 24;
}

static inline struct hash_vm *
hash_vm(const struct ae_vmtable *t, uint32_t id)
{
    struct hash_vm *vm = atomic_load_explicit(&t->buckets[hash_bucket(id)],
                                              memory_order_acquire);

    while (vm != NULL && vm->id != id) {
        vm = atomic_load_explicit(&vm->next, memory_order_acquire);
    }
    return vm;
}

static inline struct avicemu_vcpu *
ae_vmtable_find(const struct ae_vmtable *t, uint32_t tag)
{
    struct guard *guard = (struct guard *)(uintptr_t)&t->guard;

    guard_read(guard);
    const struct hash_vm *vm = hash_vm(t, tag >> t->index_bits);

    AE_STEP(hash_found);
    struct avicemu_vcpu *vcpu =
        vm == NULL ? NULL
                   : atomic_load_explicit(
                         &vm->vcpus[tag & ((1u << t->index_bits) - 1)],
                         memory_order_acquire);

    guard_read_end(guard);
    return vcpu;
}

#endif
