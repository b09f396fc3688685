/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_IMPL_H
#define RIVAL_VMTABLE_IMPL_H

/*
 * A rival of lib/hv/vmtable: the kernel's table under one pthread mutex.
 */

#include <pthread.h>

struct guard {
    pthread_mutex_t lock;
};

static inline void
guard_init(struct guard *g)
{
    (void)pthread_mutex_init(&g->lock, NULL);
}

static inline void
guard_fini(struct guard *g)
{
    (void)pthread_mutex_destroy(&g->lock);
}

static inline void
guard_write(struct guard *g)
{
    (void)pthread_mutex_lock(&g->lock);
}

static inline void
guard_write_end(struct guard *g)
{
    (void)pthread_mutex_unlock(&g->lock);
}

static inline void
guard_read(struct guard *g)
{
    (void)pthread_mutex_lock(&g->lock);
}

static inline void
guard_read_end(struct guard *g)
{
    (void)pthread_mutex_unlock(&g->lock);
}

static inline void
guard_wait(const struct guard *g)
{
    (void)g; /* no reader is left */
}

#include "rivals/vmtable/hash.h"

#endif
