/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rival of lib/hv/vmtable: the kernel's table after, read under RCU, with a
 * section per look-up, as there: nothing protects the wake that follows. The
 * writer waits for a grace period before the free; the kernel's does not.
 */

#include <pthread.h>

#include "base/rcu.h"

struct guard {
    pthread_mutex_t lock; /* of the writers */
};

static void
guard_init(struct guard *g)
{
    (void)pthread_mutex_init(&g->lock, NULL);
}

static void
guard_fini(struct guard *g)
{
    (void)pthread_mutex_destroy(&g->lock);
}

static void
guard_write(struct guard *g)
{
    (void)pthread_mutex_lock(&g->lock);
}

static void
guard_write_end(struct guard *g)
{
    (void)pthread_mutex_unlock(&g->lock);
}

static void
guard_read(struct guard *g)
{
    (void)g;
    ae_rcu_enter();
}

static void
guard_read_end(struct guard *g)
{
    (void)g;
    ae_rcu_leave();
}

static void
guard_wait(struct guard *g)
{
    (void)g;
    ae_rcu_synchronize();
}

#include "rivals/vmtable/guarded.h"

VMTABLE_RIVAL(vmtable_rcu_hash);
