/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The APIC timer: one-shot, periodic and TSC-deadline. It models the counter
 * and its divider [APM2 16.4.1 APIC timer], [SDM3 10.5.4]; the LVT entry (mask
 * and vector) is the register file's (lapic.c), and waiting for a deadline is
 * the VMM's.
 *
 * State. The count is not stored but derived from the bus tick at which it
 * reaches 0, so that reading it, changing the divider and catching up are all
 * arithmetic:
 *
 *   stopped --TMICT != 0--> running --expiry, one-shot--> stopped
 *                            |  ^
 *                            +--+ expiry, periodic: expiry += k * period
 *
 *   current = min(TMICT, ceil((expiry - now) / divisor))   while running
 *   deadline = least now whose bus tick (or TSC) reaches expiry
 *
 * Clocks: now counts at now_hz, the counter's input at bus_hz, the TSC at
 * tsc_hz plus an offset. The bus clock runs freely, as hardware's does: a write
 * between two of its ticks counts from the earlier one. Absolute times are
 * converted, with 128-bit products, so periods do not drift.
 *
 * Choices: a mode-changing write disarms only if it enters or leaves deadline
 * mode (one-shot <-> periodic keep counting; [SDM3 10.5.4.1] can be read both
 * ways, kvm-unit-tests and Linux KVM want this). The reserved mode 11b stops
 * the count. min_period is a host's policy [KVM min_timer_period_us].
 *
 * All calls are the owner's. Progress: wait-free, O(1) whatever the stall.
 */

#include "hw/timer.h"

static uint64_t
bus_ticks(const struct ae_timer_clock *c, uint64_t now)
{
    return ae_scale_floor(now, c->bus_hz, c->now_hz);
}

static uint64_t
guest_tsc(const struct ae_timer_clock *c, const struct ae_timer *t,
          uint64_t now)
{
    return ae_scale_floor(now, c->tsc_hz, c->now_hz) + t->tsc_offset;
}

static uint64_t
period_bus(const struct ae_timer_clock *c, const struct ae_timer *t)
{
    uint64_t period = (uint64_t)t->initial << t->shift;

    if (t->mode == AE_TIMER_PERIODIC && period < c->min_period_bus) {
        return c->min_period_bus;
    }
    return period;
}

/* Derive the deadline from a running count. */
static void
deadline_from_count(const struct ae_timer_clock *c, struct ae_timer *t)
{
    t->deadline = AE_NEVER;
    if (t->running) {
        t->deadline = ae_scale_ceil(t->expiry_bus, c->now_hz, c->bus_hz);
    }
}

/* Derive the deadline from TSC_DEADLINE: a past value is due now. */
static void
deadline_from_tsc(const struct ae_timer_clock *c, struct ae_timer *t,
                  uint64_t now)
{
    uint64_t tsc = guest_tsc(c, t, now);

    if (t->tsc_deadline == 0) {
        t->deadline = AE_NEVER;
    } else if (t->tsc_deadline <= tsc) {
        t->deadline = now;
    } else {
        uint64_t host = ae_scale_floor(now, c->tsc_hz, c->now_hz);

        t->deadline =
            ae_scale_ceil(ae_add_saturated(host, t->tsc_deadline - tsc),
                          c->now_hz, c->tsc_hz);
    }
}

/* Run from now on, for this many bus ticks. */
static void
count_start(const struct ae_timer_clock *c, struct ae_timer *t, uint64_t now,
            uint64_t bus)
{
    t->running = true;
    t->expiry_bus = ae_add_saturated(bus_ticks(c, now), bus);
    deadline_from_count(c, t);
}

static void
count_stop(struct ae_timer *t)
{
    t->running = false;
    t->backlog = 0;
    t->deadline = AE_NEVER;
}

void
ae_timer_stop(struct ae_timer *t)
{
    count_stop(t);
    t->tsc_deadline = 0;
}

void
ae_timer_pause(struct ae_timer *t)
{
    t->deadline = AE_NEVER;
}

void
ae_timer_rearm(const struct ae_timer_clock *c, struct ae_timer *t, uint64_t now)
{
    if (t->mode == AE_TIMER_DEADLINE) {
        deadline_from_tsc(c, t, now);
    } else {
        deadline_from_count(c, t);
    }
}

void
ae_timer_reset(struct ae_timer *t)
{
    uint64_t offset = t->tsc_offset;

    /* TDCR 0 divides by 2. */
    *t = (struct ae_timer){ .shift = 1, .tsc_offset = offset };
    count_stop(t);
}

bool
ae_timer_set_initial(const struct ae_timer_clock *c, struct ae_timer *t,
                     uint64_t now, uint32_t value)
{
    if (t->mode == AE_TIMER_DEADLINE) {
        return false;
    }
    t->initial = value;
    count_stop(t);
    if (value != 0 && t->mode != AE_TIMER_RESERVED) {
        count_start(c, t, now, period_bus(c, t));
    }
    return true;
}

void
ae_timer_set_divide(const struct ae_timer_clock *c, struct ae_timer *t,
                    uint64_t now, uint32_t tdcr)
{
    /* [APM2 Table 16-3]: bits 3, 1, 0 make n; divisor = 2^((n + 1) mod 8). */
    uint32_t n = (tdcr & 3u) | (tdcr & 8u) >> 1;
    uint32_t shift = (n + 1) & 7u;

    if (t->running) {
        /* The fraction of a count that has passed is kept as well. */
        count_start(c, t, now,
                    ae_scale_ceil(ae_timer_remaining(c, t, now),
                                  (uint64_t)1 << shift,
                                  (uint64_t)1 << t->shift));
    }
    t->shift = shift;
}

bool
ae_timer_set_mode(const struct ae_timer_clock *c, struct ae_timer *t,
                  enum ae_timer_mode mode)
{
    bool crosses =
        (t->mode == AE_TIMER_DEADLINE) != (mode == AE_TIMER_DEADLINE);

    t->mode = mode;
    if (crosses || mode == AE_TIMER_RESERVED) {
        count_stop(t);
    } else if (mode != AE_TIMER_DEADLINE) {
        deadline_from_count(c, t);
    }
    if (crosses) {
        t->initial = 0;
        t->tsc_deadline = 0;
    }
    return crosses;
}

void
ae_timer_set_deadline(const struct ae_timer_clock *c, struct ae_timer *t,
                      uint64_t now, uint64_t value)
{
    if (t->mode == AE_TIMER_DEADLINE) {
        t->tsc_deadline = value;
        deadline_from_tsc(c, t, now);
    }
}

void
ae_timer_set_tsc_offset(const struct ae_timer_clock *c, struct ae_timer *t,
                        uint64_t now, uint64_t offset)
{
    t->tsc_offset = offset;
    if (t->mode == AE_TIMER_DEADLINE) {
        deadline_from_tsc(c, t, now);
    }
}

uint64_t
ae_timer_remaining(const struct ae_timer_clock *c, const struct ae_timer *t,
                   uint64_t now)
{
    uint64_t bus = bus_ticks(c, now);

    return t->running && t->expiry_bus > bus ? t->expiry_bus - bus : 0;
}

uint32_t
ae_timer_current(const struct ae_timer_clock *c, const struct ae_timer *t,
                 uint64_t now)
{
    uint64_t left = ae_timer_remaining(c, t, now);
    /* Rounded up without overflow: left may be near 2^64. */
    uint64_t count = left == 0 ? 0 : ((left - 1) >> t->shift) + 1;

    return count > t->initial ? t->initial : (uint32_t)count;
}

void
ae_timer_resume(const struct ae_timer_clock *c, struct ae_timer *t,
                uint64_t now, uint64_t remaining_bus)
{
    if (t->mode == AE_TIMER_DEADLINE) {
        deadline_from_tsc(c, t, now);
        return;
    }
    count_stop(t);
    if (t->initial != 0 && t->mode != AE_TIMER_RESERVED) {
        count_start(c, t, now, remaining_bus);
    }
}

/* A periodic count that is overdue at bus tick bus: how often did it expire,
 * and when does it next? */
static uint64_t
periodic_expire(const struct ae_timer_clock *c, struct ae_timer *t,
                uint64_t bus)
{
    uint64_t period = period_bus(c, t);
    uint64_t ticks = (bus - t->expiry_bus) / period + 1;

    if (c->missed_ticks == AVICEMU_MISSED_DELAY) {
        t->expiry_bus = ae_add_saturated(bus, period);
    } else {
        /* On the old grid: cannot wrap, for it is at most bus + period. */
        t->expiry_bus =
            ae_add_saturated(bus - (bus - t->expiry_bus) % period, period);
    }
    if (c->missed_ticks == AVICEMU_MISSED_BURST) {
        uint64_t missed = ae_add_saturated(t->backlog, ticks - 1);

        t->backlog = missed > c->max_burst ? c->max_burst : (uint32_t)missed;
    }
    return ticks;
}

uint64_t
ae_timer_expire(const struct ae_timer_clock *c, struct ae_timer *t,
                uint64_t now)
{
    uint64_t ticks = 1;

    if (t->deadline == AE_NEVER || now < t->deadline) {
        return 0;
    }
    if (t->mode == AE_TIMER_DEADLINE) {
        /* [SDM3 10.5.4.1]: the MSR clears when it fires. */
        t->tsc_deadline = 0;
        t->deadline = AE_NEVER;
    } else if (t->mode == AE_TIMER_PERIODIC && t->initial != 0) {
        ticks = periodic_expire(c, t, bus_ticks(c, now));
        deadline_from_count(c, t);
    } else {
        count_stop(t);
    }
    return ticks;
}
