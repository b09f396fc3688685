/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The skeleton's calls; see vmtable_impl.h. What each of them owes its caller
 * stands in lib/hv/vmtable.h.
 */

#include "hv/vmtable.h"

#include <errno.h>

#include "base/alloc.h"

int
ae_vmtable_init(struct ae_vmtable *t, const struct avicemu_allocator *allocator,
                enum ae_tag_layout layout)
{
    (void)layout; /* a design that takes tags apart needs it */
    *t = (struct ae_vmtable){ .allocator = allocator };
    ae_lock_init(&t->lock);
    return 0;
}

void
ae_vmtable_fini(struct ae_vmtable *t)
{
    if (t->allocator != NULL) {
        ae_lock_fini(&t->lock);
        t->allocator = NULL;
    }
}

int
ae_vmtable_publish(struct ae_vmtable *t, uint32_t tag,
                   struct avicemu_vcpu *vcpu)
{
    struct template_entry *e =
        ae_alloc(t->allocator, AE_CACHE_LINE, sizeof(*e));
    int r = -ENOMEM;

    if (e == NULL) {
        return r;
    }
    ae_lock(&t->lock);
    if (ae_vmtable_find(t, tag) != NULL) {
        r = -EEXIST;
    } else {
        *e = (struct template_entry){ t->first, tag, vcpu };
        t->first = e;
        r = 0;
    }
    ae_unlock(&t->lock);
    if (r != 0) {
        ae_free(t->allocator, e, sizeof(*e));
    }
    return r;
}

void
ae_vmtable_remove(struct ae_vmtable *t, uint32_t tag)
{
    struct template_entry **link = &t->first;

    ae_lock(&t->lock);
    while (*link != NULL && (*link)->tag != tag) {
        link = &(*link)->next;
    }
    struct template_entry *gone = *link;

    if (gone != NULL) {
        *link = gone->next;
    }
    ae_unlock(&t->lock);
    ae_free(t->allocator, gone, sizeof(*gone));
}

void
ae_vmtable_synchronize(struct ae_vmtable *t)
{
    (void)t; /* remove() had the lock of every batch */
}

int
ae_drain_create(struct ae_vmtable *t, struct ae_drain **ret)
{
    struct ae_drain *d = ae_alloc(t->allocator, AE_CACHE_LINE, sizeof(*d));

    if (d == NULL) {
        return -ENOMEM;
    }
    d->table = t;
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
    ae_lock(&d->table->lock);
}

void
ae_drain_end(struct ae_drain *d)
{
    ae_unlock(&d->table->lock);
}
