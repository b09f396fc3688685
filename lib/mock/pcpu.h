/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_PCPU_H
#define AE_MOCK_PCPU_H

/*
 * Physical CPUs: tokens. A vCPU's thread runs guest code only while it holds
 * one; fewer tokens than vCPUs is overcommit, and a vCPU that has no token is
 * runnable, but not running.
 *
 * A token carries a doorbell word that the runner looks at between two steps;
 * ops->kick sets it. It belongs to the token, not to the vCPU, so a late ring
 * costs whoever runs there now one exit, and nothing is lost: the vCPU that it
 * was meant for has entered since, and looked.
 *
 * Waiters queue first come, first served, and a release hands the token over:
 * a mutex and a condition variable for each, for threads that meet at a FIFO
 * spinlock while they are oversubscribed wait for a time slice each.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct am_pcpu {
    _Alignas(
        64) _Atomic uint32_t doorbell; /* set by any, taken by the holder */
    uint32_t apic_id;
    struct am_pcpu *next_free;
};

/* A thread's place in the queue. */
struct am_pcpu_waiter {
    pthread_cond_t cond;
    struct am_pcpu *granted;
    struct am_pcpu_waiter *next;
};

struct am_pcpu_pool {
    pthread_mutex_t lock;
    struct am_pcpu *pcpus;
    uint32_t nr_pcpus;
    bool closed;
    struct am_pcpu *free;
    struct am_pcpu_waiter *first, **last;
    _Atomic uint32_t nr_waiters; /* read without the lock, at a slice's end */
};

/* False: no memory. */
bool
am_pcpu_pool_init(struct am_pcpu_pool *pool, uint32_t nr_pcpus);
void
am_pcpu_pool_fini(struct am_pcpu_pool *pool);

/* Wait for a token; NULL: the pool is closed. */
struct am_pcpu *
am_pcpu_acquire(struct am_pcpu_pool *pool, struct am_pcpu_waiter *waiter);
void
am_pcpu_release(struct am_pcpu_pool *pool, struct am_pcpu *pcpu);

/* Does anybody wait for a token? */
bool
am_pcpu_wanted(struct am_pcpu_pool *pool);

/* From now on nobody gets a token; those that wait return. */
void
am_pcpu_close(struct am_pcpu_pool *pool);

#endif
