/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_IMPL_H
#define RIVAL_VMTABLE_IMPL_H

/*
 * A design of the VM table to begin with: copy this folder, build with
 * -Drivals=vmtable/NAME:FOLDER, then avicemu-bench --check vmtable=NAME and
 * avicemu-host --designs NAME,library. The contract is lib/hv/vmtable.h.
 *
 * This one is right and slow: a list under one lock, which a batch holds from
 * its first look-up until after its last wake.
 */

#include "base/lock.h"

struct template_entry {
    struct template_entry *next;
    uint32_t tag;
    struct avicemu_vcpu *vcpu;
};

struct ae_vmtable {
    const struct avicemu_allocator *allocator;
    struct ae_lock lock;
    struct template_entry *first; /* under the lock */
};

struct ae_drain {
    struct ae_vmtable *table;
};

/* Inline, as the library's: in the notifier nothing is called. */
static inline struct avicemu_vcpu *
ae_vmtable_find(const struct ae_vmtable *t, uint32_t tag)
{
    const struct template_entry *e = t->first;

    while (e != NULL && e->tag != tag) {
        e = e->next;
    }
    return e != NULL ? e->vcpu : NULL;
}

#endif
