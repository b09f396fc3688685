/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_RCU_H
#define AE_BASE_RCU_H

/*
 * Read-side sections: what a delivery found stays alive until it is done.
 *
 * The only include of liburcu in lib/. Flavour: bp, the one of Debian's 0.13
 * that asks no registration of a VMM's threads. Forbidden here: call_rcu,
 * defer_rcu and auto-resizing hash tables, which start threads. A writer
 * blocks in ae_rcu_synchronize(): on create, destroy and unmap, never on a
 * vCPU's path or a delivery.
 *
 * The thread sanitizer does not see the grace period, for it lies in liburcu,
 * which is not instrumented: the seam tells it. Every read-side exit releases
 * and every synchronize acquires one token per process; the token is only an
 * address that is never read or written.
 */

#include <urcu/urcu-bp.h>

/* The same two functions inline; the header allows it to callers of any
 * licence. An out-of-line pair costs ten times as much. */
#include <urcu/static/urcu-bp.h>

#include "base/compiler.h"
#include "base/step.h"

/* Inline, liburcu's code would look racy to the thread sanitizer, and its
 * reader records, which 0.13 lays out with less than the alignment that their
 * type declares, would be reported by the undefined-behaviour one. */
#if AE_SANITIZED
#define AE_URCU(call) urcu_bp_##call
#else
#define AE_URCU(call) _urcu_bp_##call
#endif

#if AE_TSAN
void
__tsan_acquire(void *addr);
void
__tsan_release(void *addr);
extern char ae_rcu_token;
#define AE_RCU_RELEASE() __tsan_release(&ae_rcu_token)
#define AE_RCU_ACQUIRE() __tsan_acquire(&ae_rcu_token)
#else
#define AE_RCU_RELEASE() ((void)0)
#define AE_RCU_ACQUIRE() ((void)0)
#endif

static inline void
ae_rcu_enter(void)
{
#ifdef AE_STEP_BUILD
    /* Sections of parties are counted, not locked: a grace period must be
     * able to say that it waits. */
    if (ae_step_rcu_enter()) {
        AE_STEP(rcu_enter);
        return;
    }
#endif
    AE_URCU(read_lock)();
}

static inline void
ae_rcu_leave(void)
{
#ifdef AE_STEP_BUILD
    AE_STEP(rcu_leave);
    if (ae_step_rcu_leave()) {
        return;
    }
#endif
    AE_RCU_RELEASE();
    AE_URCU(read_unlock)();
}

/* Wait until every section that was open at the call has ended. */
void
ae_rcu_synchronize(void);

/* Allocate what liburcu needs for the calling thread, now. */
void
ae_rcu_attach(void);

#endif
