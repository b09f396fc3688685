/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The token pool; see pcpu.h. Everything but the doorbells and the count of
 * waiters is under the lock.
 */

#include "pcpu.h"

#include <stdlib.h>

bool
am_pcpu_pool_init(struct am_pcpu_pool *pool, uint32_t nr_pcpus)
{
    *pool = (struct am_pcpu_pool){ .nr_pcpus = nr_pcpus };
    pool->pcpus = aligned_alloc(_Alignof(struct am_pcpu),
                                nr_pcpus * sizeof(*pool->pcpus));
    if (pool->pcpus == NULL) {
        return false;
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    pool->last = &pool->first;
    for (uint32_t i = nr_pcpus; i-- > 0;) {
        pool->pcpus[i] = (struct am_pcpu){ .apic_id = i };
        pool->pcpus[i].next_free = pool->free;
        pool->free = &pool->pcpus[i];
    }
    return true;
}

void
am_pcpu_pool_fini(struct am_pcpu_pool *pool)
{
    if (pool->pcpus != NULL) {
        (void)pthread_mutex_destroy(&pool->lock);
        free(pool->pcpus);
        pool->pcpus = NULL;
    }
}

static void
waiter_append(struct am_pcpu_pool *pool, struct am_pcpu_waiter *waiter)
{
    waiter->granted = NULL;
    waiter->next = NULL;
    *pool->last = waiter;
    pool->last = &waiter->next;
    (void)atomic_fetch_add_explicit(&pool->nr_waiters, 1, memory_order_relaxed);
}

static struct am_pcpu_waiter *
waiter_first(struct am_pcpu_pool *pool)
{
    struct am_pcpu_waiter *waiter = pool->first;

    if (waiter != NULL) {
        pool->first = waiter->next;
        if (pool->first == NULL) {
            pool->last = &pool->first;
        }
        (void)atomic_fetch_sub_explicit(&pool->nr_waiters, 1,
                                        memory_order_relaxed);
    }
    return waiter;
}

struct am_pcpu *
am_pcpu_acquire(struct am_pcpu_pool *pool, struct am_pcpu_waiter *waiter)
{
    struct am_pcpu *pcpu = NULL;

    (void)pthread_mutex_lock(&pool->lock);
    if (!pool->closed && pool->free != NULL) {
        pcpu = pool->free;
        pool->free = pcpu->next_free;
    } else if (!pool->closed) {
        waiter_append(pool, waiter);
        while (waiter->granted == NULL && !pool->closed) {
            (void)pthread_cond_wait(&waiter->cond, &pool->lock);
        }
        pcpu = waiter->granted;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return pcpu;
}

void
am_pcpu_release(struct am_pcpu_pool *pool, struct am_pcpu *pcpu)
{
    struct am_pcpu_waiter *waiter;

    (void)pthread_mutex_lock(&pool->lock);
    waiter = pool->closed ? NULL : waiter_first(pool);
    if (waiter != NULL) {
        waiter->granted = pcpu;
        (void)pthread_cond_signal(&waiter->cond);
    } else {
        pcpu->next_free = pool->free;
        pool->free = pcpu;
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

bool
am_pcpu_wanted(struct am_pcpu_pool *pool)
{
    /* Order is of no matter: a waiter that is seen late waits a step more. */
    return atomic_load_explicit(&pool->nr_waiters, memory_order_relaxed) != 0;
}

void
am_pcpu_close(struct am_pcpu_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    for (struct am_pcpu_waiter *w = pool->first; w != NULL; w = w->next) {
        (void)pthread_cond_signal(&w->cond);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}
