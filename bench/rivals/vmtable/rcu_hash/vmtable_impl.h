/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_VMTABLE_IMPL_H
#define RIVAL_VMTABLE_IMPL_H

/*
 * A rival of lib/hv/vmtable: the kernel's table after, read under RCU, a
 * section per look-up. The writer waits for a grace period before the free; the
 * kernel's does not.
 */

#include <pthread.h>

#include "base/rcu.h"

struct guard {
    pthread_mutex_t lock; /* of the writers */
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
guard_read(const struct guard *g)
{
    (void)g;
    ae_rcu_enter();
}

static inline void
guard_read_end(const struct guard *g)
{
    (void)g;
    ae_rcu_leave();
}

static inline void
guard_wait(const struct guard *g)
{
    (void)g;
#ifndef RIVAL_NO_GRACE_PERIOD
    ae_rcu_synchronize();
#endif
}

#include "rivals/vmtable/hash.h"

#endif
