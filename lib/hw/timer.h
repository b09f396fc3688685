/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_TIMER_H
#define AE_HW_TIMER_H

/*
 * The APIC timer as a function of a given time. See timer.c.
 */

#include <avicemu/lapic.h>

#include "base/regs.h"
#include "base/scale.h"

/* Rates and policies; the same for all timers of a VM. */
struct ae_timer_clock {
    uint64_t now_hz, bus_hz, tsc_hz;
    uint64_t min_period_bus; /* shortest period in bus ticks */
    enum avicemu_missed_ticks missed_ticks;
    uint32_t max_burst;
};

/* Owner: the vCPU's thread. Nobody else reads it. */
struct ae_timer {
    enum ae_timer_mode mode;
    uint32_t shift;        /* log2 of the divisor, 0..7 */
    uint32_t initial;      /* TMICT */
    bool running;          /* a count is under way (one-shot, periodic) */
    uint64_t expiry_bus;   /* bus tick at which it reaches 0 */
    uint64_t tsc_offset;   /* guest TSC - host TSC, modulo 2^64 */
    uint64_t tsc_deadline; /* 0: disarmed */
    uint32_t backlog;      /* BURST: ticks to be made up for */
    uint64_t deadline;     /* in now ticks; AE_NEVER: none. Derived */
};

void
ae_timer_reset(struct ae_timer *t);

/* The APIC is off: no deadline, but the count goes on. */
void
ae_timer_pause(struct ae_timer *t);

/* It is on again: what is due, or will be, has a deadline. */
void
ae_timer_rearm(const struct ae_timer_clock *c, struct ae_timer *t,
               uint64_t now);

/* No count and no deadline; TMICT, mode and divider stay. */
void
ae_timer_stop(struct ae_timer *t);

/* TMICT := value at time now: start, restart or (0) stop. Dropped in deadline
 * mode; false then. */
bool
ae_timer_set_initial(const struct ae_timer_clock *c, struct ae_timer *t,
                     uint64_t now, uint32_t value);

/* TDCR := value: the remaining count stays, its rate changes. */
void
ae_timer_set_divide(const struct ae_timer_clock *c, struct ae_timer *t,
                    uint64_t now, uint32_t tdcr);

/* LVT timer mode := mode. Crossing into or out of deadline mode disarms and
 * clears TMICT; true then. */
bool
ae_timer_set_mode(const struct ae_timer_clock *c, struct ae_timer *t,
                  enum ae_timer_mode mode);

/* TSC_DEADLINE := value; 0 disarms. Dropped outside deadline mode. */
void
ae_timer_set_deadline(const struct ae_timer_clock *c, struct ae_timer *t,
                      uint64_t now, uint64_t value);

/* The guest TSC's offset changed: an armed deadline moves. */
void
ae_timer_set_tsc_offset(const struct ae_timer_clock *c, struct ae_timer *t,
                        uint64_t now, uint64_t offset);

/* TMCCT at time now. */
uint32_t
ae_timer_current(const struct ae_timer_clock *c, const struct ae_timer *t,
                 uint64_t now);

/* Continue a saved count: remaining bus ticks; TMICT and mode are set. */
void
ae_timer_resume(const struct ae_timer_clock *c, struct ae_timer *t,
                uint64_t now, uint64_t remaining_bus);

/* Bus ticks until expiry; 0 if not running or overdue. */
uint64_t
ae_timer_remaining(const struct ae_timer_clock *c, const struct ae_timer *t,
                   uint64_t now);

/*
 * Account for all expiries up to now. Returns how many there were, in O(1);
 * the next deadline is then in the future, or there is none.
 */
uint64_t
ae_timer_expire(const struct ae_timer_clock *c, struct ae_timer *t,
                uint64_t now);

#endif
