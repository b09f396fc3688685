/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rival of lib/hv/vmtable: the kernel's table under one pthread mutex.
 * Nothing protects the wake that follows.
 */

#include <pthread.h>

struct guard {
    pthread_mutex_t lock;
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
    (void)pthread_mutex_lock(&g->lock);
}

static void
guard_read_end(struct guard *g)
{
    (void)pthread_mutex_unlock(&g->lock);
}

static void
guard_wait(const struct guard *g)
{
    (void)g; /* no reader is left */
}

#include "rivals/vmtable/guarded.h"

VMTABLE_RIVAL(vmtable_mutex_hash);
