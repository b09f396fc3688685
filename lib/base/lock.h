/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_LOCK_H
#define AE_BASE_LOCK_H

/*
 * The one kind of lock: a mutex for set-up paths and for guest writes that
 * change the APIC map. No delivery path takes it. A seam: the only include of
 * pthread.h in the library proper.
 */

#include <pthread.h>
#include <sched.h>

#include "base/step.h"

struct ae_lock {
    pthread_mutex_t mutex;
};

static inline void
ae_lock_init(struct ae_lock *l)
{
    (void)pthread_mutex_init(&l->mutex, NULL);
}

static inline void
ae_lock_fini(struct ae_lock *l)
{
    (void)pthread_mutex_destroy(&l->mutex);
}

#ifdef AE_STEP_BUILD
static inline bool
ae_lock_is_free(void *mutex)
{
    if (pthread_mutex_trylock(mutex) != 0) {
        return false;
    }
    (void)pthread_mutex_unlock(mutex);
    return true;
}
#endif

static inline void
ae_lock(struct ae_lock *l)
{
#ifdef AE_STEP_BUILD
    ae_step_lock(&l->mutex, ae_lock_is_free);
#endif
    (void)pthread_mutex_lock(&l->mutex);
    AE_STEP(locked);
}

static inline void
ae_unlock(struct ae_lock *l)
{
#ifdef AE_STEP_BUILD
    ae_step_unlock(&l->mutex);
#endif
    (void)pthread_mutex_unlock(&l->mutex);
    AE_STEP(unlocked);
}

/* Let another thread run, in a wait that is not a lock's. */
static inline void
ae_relax(void)
{
#ifdef AE_STEP_BUILD
    ae_step_relax("relax");
#else
    (void)sched_yield();
#endif
}

#endif
