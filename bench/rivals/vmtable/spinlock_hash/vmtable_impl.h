/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_IMPL_H
#define RIVAL_VMTABLE_IMPL_H

/*
 * A rival of lib/hv/vmtable: the kernel's table before: one spinlock.
 */

#include <pthread.h>

struct guard {
    pthread_spinlock_t lock;
};

static inline void
guard_init(struct guard *g)
{
    (void)pthread_spin_init(&g->lock, PTHREAD_PROCESS_PRIVATE);
}

static inline void
guard_fini(struct guard *g)
{
    (void)pthread_spin_destroy(&g->lock);
}

static inline void
guard_write(struct guard *g)
{
    (void)pthread_spin_lock(&g->lock);
}

static inline void
guard_write_end(struct guard *g)
{
    (void)pthread_spin_unlock(&g->lock);
}

static inline void
guard_read(struct guard *g)
{
    (void)pthread_spin_lock(&g->lock);
}

static inline void
guard_read_end(struct guard *g)
{
    (void)pthread_spin_unlock(&g->lock);
}

static inline void
guard_wait(const struct guard *g)
{
    (void)g; /* no reader is left */
}

#include "rivals/vmtable/hash.h"

#endif
