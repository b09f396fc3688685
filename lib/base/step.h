/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_STEP_H
#define AE_BASE_STEP_H

/*
 * Named stops. AE_STEP(label) stands at every memory-ordering label: nothing
 * in the product, a place to park a thread in the variant libavicemu-step
 * (<avicemu/step.h>). Locks and read-side sections are stops there, too, and
 * so is each access through atomic.h: see atomic_step.h.
 */

#ifdef AE_STEP_BUILD
#include "base/compiler.h"

void
ae_step_stop(const char *label);
/* A wait that another party must end by changing what was polled. */
void
ae_step_relax(const char *label);
/* Before a lock is taken: returns when the calling party may have it. Others
 * ask is_free, which has no effect. */
void
ae_step_lock(void *lock, bool (*is_free)(void *lock));
/* Before a lock is released. */
void
ae_step_unlock(void *lock);
/* Before memory is given back. */
void
ae_step_free(void *memory, size_t bytes);
/* Read-side sections of parties. false: the caller is no party. */
bool
ae_step_rcu_enter(void);
bool
ae_step_rcu_leave(void);
bool
ae_step_rcu_inside(void);
/* Wait for the sections of the other parties. */
void
ae_step_rcu_synchronize(void);
#define AE_STEP(label) ae_step_stop(#label)
#else
#define AE_STEP(label) ((void)0)
#endif

#endif
