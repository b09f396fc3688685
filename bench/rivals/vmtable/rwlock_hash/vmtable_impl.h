/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_IMPL_H
#define RIVAL_VMTABLE_IMPL_H

/*
 * A rival of lib/hv/vmtable: the kernel's table under one pthread rwlock.
 */

#include <pthread.h>

struct guard {
    pthread_rwlock_t lock;
};

static inline void
guard_init(struct guard *g)
{
    (void)pthread_rwlock_init(&g->lock, NULL);
}

static inline void
guard_fini(struct guard *g)
{
    (void)pthread_rwlock_destroy(&g->lock);
}

static inline void
guard_write(struct guard *g)
{
    (void)pthread_rwlock_wrlock(&g->lock);
}

static inline void
guard_write_end(struct guard *g)
{
    (void)pthread_rwlock_unlock(&g->lock);
}

static inline void
guard_read(struct guard *g)
{
    (void)pthread_rwlock_rdlock(&g->lock);
}

static inline void
guard_read_end(struct guard *g)
{
    (void)pthread_rwlock_unlock(&g->lock);
}

static inline void
guard_wait(const struct guard *g)
{
    (void)g; /* no reader is left */
}

#include "rivals/vmtable/hash.h"

#endif
