/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VMTABLE_H
#define AE_HV_VMTABLE_H

/*
 * From a GA tag to the vCPU to wake: one table per host. This is the contract;
 * the library's own table is vmtable_impl.h and vmtable.c, and a rival is two
 * files of these names in a folder that comes first in the include path.
 *
 * Set-up: ae_vmid_get(), ae_tag_pack(), ae_vmtable_publish(), all before an
 * IRTE holds the tag. Tear-down: no IRTE holds the tag any more,
 * ae_vmtable_remove() for one vCPU or many, ae_vmtable_synchronize(), free
 * them; ae_vmid_put() after the last one.
 *
 * A notifier, for each batch of its GA log:
 *
 *     ae_drain_begin(drain);
 *     for each tag:
 *         vcpu = ae_vmtable_find(table, tag);
 *         if (vcpu != NULL) wake it, which must only signal
 *     ae_drain_end(drain);
 */

#include <avicemu/vm.h>

#include "hv/vmtag.h"

/*
 * What may overlap: y always, l one after the other (by a lock of the table's)
 *
 *                find  begin, end  publish  remove  synchronize  drain_*
 *   find          y        y          y        y          y         y
 *   begin, end             1          y        y          y         2
 *   publish                           l        3          l         l
 *   remove                                     3          l         l
 *   synchronize                                           l         l
 *   drain_*                                                         l
 *
 *   1 of different drains   2 not of the same drain
 *   3 l, but one call at a time about the same tag
 */
struct ae_vmtable;
struct ae_drain; /* a reader: one per IOMMU */

/* allocator: must outlive the table. 0, -ENOMEM. */
int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout);
/* Every tag has been removed and no drain is in a batch. A zeroed table is
 * fine. */
void
ae_vmtable_fini(struct ae_vmtable *t);

/* From now on the tag finds the vCPU. 0, -EEXIST, -ENOMEM. Takes the lock. */
int
ae_vmtable_publish(struct ae_vmtable *t, uint32_t tag,
                   struct avicemu_vcpu *vcpu);
/* From now on nobody finds the tag; who found it before may still wake. An
 * unknown tag is fine. Takes the lock; never waits for a batch. */
void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag);
/* Whoever found a tag that was removed before this call has ended his batch.
 * Takes the lock, and waits, without it, for batches that are under way: never
 * from inside one. */
void
ae_vmtable_synchronize(struct ae_vmtable *t);

/* A reader for one notifier. 0, -ENOMEM. Takes the lock. */
int
ae_drain_create(struct ae_vmtable *t, struct ae_drain **ret);
/* Not in a batch. drain: may be NULL. Takes the lock. */
void
ae_drain_destroy(struct ae_vmtable *t, struct ae_drain *drain);

/* A batch. One thread at a time per drain. */
void
ae_drain_begin(struct ae_drain *d);
void
ae_drain_end(struct ae_drain *d);

/*
 * The vCPU with this tag, or NULL. Between ae_drain_begin() and ae_drain_end(),
 * and good until the latter.
 */
static inline struct avicemu_vcpu *
ae_vmtable_find(const struct ae_vmtable *t, uint32_t tag);

/* Of whoever comes first in the include path. */
#include <vmtable_impl.h>

#endif
