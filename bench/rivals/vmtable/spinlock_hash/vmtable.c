/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rival of lib/hv/vmtable: the kernel's table before, under one spinlock.
 * Nothing protects the wake that follows.
 */

#include <pthread.h>

struct guard {
    pthread_spinlock_t lock;
};

static void
guard_init(struct guard *g)
{
    (void)pthread_spin_init(&g->lock, PTHREAD_PROCESS_PRIVATE);
}

static void
guard_fini(struct guard *g)
{
    (void)pthread_spin_destroy(&g->lock);
}

static void
guard_write(struct guard *g)
{
    (void)pthread_spin_lock(&g->lock);
}

static void
guard_write_end(struct guard *g)
{
    (void)pthread_spin_unlock(&g->lock);
}

static void
guard_read(struct guard *g)
{
    (void)pthread_spin_lock(&g->lock);
}

static void
guard_read_end(struct guard *g)
{
    (void)pthread_spin_unlock(&g->lock);
}

static void
guard_wait(const struct guard *g)
{
    (void)g; /* no reader is left */
}

#include "rivals/vmtable/guarded.h"

VMTABLE_RIVAL(vmtable_spinlock_hash);
