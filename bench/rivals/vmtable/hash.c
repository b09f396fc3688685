/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's VM table; see hash.h. A VM is there while it has a vCPU.
 */

#include <errno.h>

#include "base/alloc.h"
#include "hv/vmtable.h"

static size_t
vm_bytes(const struct ae_vmtable *t)
{
    return sizeof(struct hash_vm) +
           ((size_t)1 << t->index_bits) * sizeof(struct avicemu_vcpu *);
}

int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout)
{
    uint32_t max = ae_tag_max_vcpus(layout);

    *t = (struct ae_vmtable){ .allocator = allocator };
    while (1u << t->index_bits < max) {
        t->index_bits++;
    }
    guard_init(&t->guard);
    return 0;
}

void
ae_vmtable_fini(struct ae_vmtable *t)
{
    if (t->allocator == NULL) {
        return;
    }
    ae_vmtable_synchronize(t);
    guard_fini(&t->guard);
    t->allocator = NULL;
}

/* Under the lock. */
static struct hash_vm *
vm_insert(struct ae_vmtable *t, uint32_t id)
{
    struct hash_vm *vm = ae_alloc(t->allocator, AE_CACHE_LINE, vm_bytes(t));
    _Atomic(struct hash_vm *) *at = &t->buckets[hash_bucket(id)];

    if (vm != NULL) {
        vm->id = id;
        atomic_store_explicit(&vm->next, atomic_load(at), memory_order_relaxed);
        atomic_store_explicit(at, vm, memory_order_release);
    }
    return vm;
}

/* Out of its chain, whose other readers go on. Under the lock. */
static void
vm_unlink(struct ae_vmtable *t, const struct hash_vm *vm)
{
    _Atomic(struct hash_vm *) *at = &t->buckets[hash_bucket(vm->id)];

    while (atomic_load(at) != vm) {
        at = &atomic_load(at)->next;
    }
    atomic_store_explicit(at, atomic_load(&vm->next), memory_order_release);
}

int
ae_vmtable_publish(struct ae_vmtable *t, uint32_t tag,
                   struct avicemu_vcpu *vcpu)
{
    uint32_t id = tag >> t->index_bits;
    uint32_t index = tag & ((1u << t->index_bits) - 1);
    int r = 0;

    guard_write(&t->guard);
    struct hash_vm *vm = hash_vm(t, id);

    vm = vm != NULL ? vm : vm_insert(t, id);
    if (vm == NULL) {
        r = -ENOMEM;
    } else if (atomic_load(&vm->vcpus[index]) != NULL) {
        r = -EEXIST;
    } else {
        atomic_store_explicit(&vm->vcpus[index], vcpu, memory_order_release);
        vm->nr_vcpus++;
    }
    guard_write_end(&t->guard);
    return r;
}

void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag)
{
    uint32_t index = tag & ((1u << t->index_bits) - 1);

    guard_write(&t->guard);
    struct hash_vm *vm = hash_vm(t, tag >> t->index_bits);
    bool was = vm != NULL && atomic_load(&vm->vcpus[index]) != NULL;
    bool is_last = was && --vm->nr_vcpus == 0;

    if (was) {
        atomic_store(&vm->vcpus[index], NULL);
    }
    if (is_last) {
        vm_unlink(t, vm);
        vm->gone = t->gone;
        t->gone = vm;
    }
    guard_write_end(&t->guard);
}

void
ae_vmtable_synchronize(struct ae_vmtable *t)
{
    guard_write(&t->guard);
    struct hash_vm *vm = t->gone;

    t->gone = NULL;
    guard_write_end(&t->guard);
    guard_wait(&t->guard);
    while (vm != NULL) {
        struct hash_vm *next = vm->gone;

        ae_free(t->allocator, vm, vm_bytes(t));
        vm = next;
    }
}

int
ae_drain_create(struct ae_vmtable *t, struct ae_drain **ret)
{
    struct ae_drain *d = ae_alloc(t->allocator, AE_CACHE_LINE, sizeof(*d));

    if (d == NULL) {
        return -ENOMEM;
    }
    d->allocator = t->allocator;
    *ret = d;
    return 0;
}

void
ae_drain_destroy(struct ae_vmtable *t, struct ae_drain *d)
{
    ae_free(t->allocator, d, sizeof(*d));
}

void
ae_drain_begin(struct ae_drain *d)
{
    (void)d;
}

void
ae_drain_end(struct ae_drain *d)
{
    (void)d;
}
