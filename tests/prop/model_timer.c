/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The timer of the model. Its input clock has an edge at every whole multiple
 * of its period on the host's clock, and targets are edges. Rates are chosen
 * so that such a period is a whole number of ticks and a tick a whole number
 * of TSC cycles. A count and a deadline are over when all of it has passed.
 */

#include "model_lapic.h"

enum model_timer_mode
model_timer_mode(const struct model_vcpu *v)
{
    return (enum model_timer_mode)(model_get(v, M_LVTT) >> 17 & 3);
}

/* Ticks of the host's clock from edge to edge. */
static uint64_t
edge(const struct model_vcpu *v)
{
    const struct avicemu_lapic_config *c = &v->vm->config.lapic;

    return c->now_hz / c->bus_hz;
}

static uint64_t
edges_now(const struct model_vcpu *v)
{
    return v->vm->now / edge(v);
}

/* Edges per count. */
static uint64_t
unit(const struct model_vcpu *v)
{
    uint32_t tdcr = model_get(v, M_TDCR);
    uint32_t n = (tdcr & 3) | (tdcr >> 1 & 4);

    return 1ull << ((n + 1) & 7);
}

static uint64_t
tsc_per_tick(const struct model_vcpu *v)
{
    const struct avicemu_lapic_config *c = &v->vm->config.lapic;

    return c->tsc_hz / c->now_hz;
}

static uint64_t
tsc_now(const struct model_vcpu *v)
{
    return v->vm->now * tsc_per_tick(v) + v->tsc_offset;
}

static uint64_t
divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b ? 1 : 0);
}

static uint64_t
saturating_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void
model_timer_stop(struct model_vcpu *v)
{
    v->running = false;
    v->target = 0;
    v->deadline = 0;
    v->waiting = 0;
    v->backlog = 0;
}

static void
start(struct model_vcpu *v, uint64_t count)
{
    v->running = count != 0;
    v->target = saturating_add(edges_now(v), count * unit(v));
    v->backlog = 0;
}

static void
fire(struct model_vcpu *v)
{
    enum avicemu_drop why;

    if (!(model_get(v, M_LVTT) & M_LVT_MASK)) {
        (void)model_accept(v, (uint8_t)model_get(v, M_LVTT), false, &why);
        model_sync_errors(v);
    }
}

/* Ticks of a periodic timer that are over but not taken, and the next one. */
static uint64_t
overdue(const struct model_vcpu *v, uint64_t *ret_target)
{
    const struct avicemu_lapic_config *c = &v->vm->config.lapic;
    uint64_t period = model_get(v, M_TMICT) * unit(v);
    uint64_t ticks;

    *ret_target = v->target;
    if (edges_now(v) < v->target) {
        return 0;
    }
    ticks = 1 + (edges_now(v) - v->target) / period;
    *ret_target = c->missed_ticks == AVICEMU_MISSED_DELAY
                      ? edges_now(v) + period
                      : v->target + ticks * period;
    return ticks;
}

static void
account_periodic(struct model_vcpu *v)
{
    const struct avicemu_lapic_config *c = &v->vm->config.lapic;
    uint64_t ticks = overdue(v, &v->target);

    if (c->missed_ticks == AVICEMU_MISSED_BURST) {
        uint64_t behind = v->backlog + ticks - 1;

        v->backlog = behind > c->max_burst ? c->max_burst : (uint32_t)behind;
    }
    if (model_get(v, M_LVTT) & M_LVT_MASK) {
        v->backlog = 0;
    }
    fire(v);
}

/* Take the ticks that have elapsed until now. */
void
model_timer_account(struct model_vcpu *v)
{
    if (model_mode(v) == AVICEMU_APIC_DISABLED) {
        return;
    }
    switch (model_timer_mode(v)) {
    case M_DEADLINE:
        if (v->deadline != 0 && tsc_now(v) >= v->deadline) {
            v->deadline = 0;
            fire(v);
        }
        break;
    case M_PERIODIC:
        if (v->running && edges_now(v) >= v->target) {
            account_periodic(v);
        }
        break;
    case M_ONE_SHOT:
    case M_RESERVED:
        if (v->running && edges_now(v) >= v->target) {
            v->running = false;
            fire(v);
        }
        break;
    }
}

void
model_timer_resume(struct model_vcpu *v, uint64_t count)
{
    start(v, count);
    v->running = true;
}

void
model_timer_write_count(struct model_vcpu *v, uint32_t count)
{
    if (model_timer_mode(v) == M_DEADLINE) {
        return;
    }
    model_set(v, M_TMICT, count);
    start(v, count);
}

/* The count goes on from where it is, at the new rate. */
void
model_timer_write_divide(struct model_vcpu *v, uint32_t value)
{
    uint64_t left, old;

    model_timer_account(v);
    old = unit(v);
    left = v->running ? v->target - edges_now(v) : 0;
    model_set(v, M_TDCR, value & 0xb);
    if (v->running) {
        left = unit(v) >= old ? left * (unit(v) / old)
                              : divide_up(left, old / unit(v));
        v->target = saturating_add(edges_now(v), left);
    }
}

void
model_timer_write_lvt(struct model_vcpu *v, uint32_t value)
{
    enum model_timer_mode was, is;

    model_timer_account(v);
    was = model_timer_mode(v);
    model_set(v, M_LVTT, value);
    is = model_timer_mode(v);
    if (is != M_PERIODIC || (value & M_LVT_MASK)) {
        v->backlog = 0;
    }
    if ((was == M_DEADLINE) == (is == M_DEADLINE)) {
        return;
    }
    v->running = false;
    model_set(v, M_TMICT, 0);
    v->deadline = 0;
    if (is == M_DEADLINE) {
        v->deadline = v->waiting;
        v->waiting = 0;
    }
}

void
model_timer_write_deadline(struct model_vcpu *v, uint64_t value)
{
    if (model_mode(v) != AVICEMU_APIC_DISABLED &&
        model_timer_mode(v) == M_DEADLINE) {
        v->deadline = value;
        model_timer_account(v); /* a time in the past fires at once */
    }
}

uint64_t
model_timer_read_deadline(struct model_vcpu *v)
{
    if (model_mode(v) == AVICEMU_APIC_DISABLED ||
        model_timer_mode(v) != M_DEADLINE) {
        return 0;
    }
    model_timer_account(v);
    return v->deadline;
}

/* What TMCCT reads now, without taking ticks. */
uint32_t
model_timer_count(const struct model_vcpu *v)
{
    uint64_t target = v->target;

    if (model_timer_mode(v) == M_DEADLINE || !v->running ||
        model_mode(v) == AVICEMU_APIC_DISABLED) {
        return 0;
    }
    if (model_timer_mode(v) == M_PERIODIC) {
        (void)overdue(v, &target);
    }
    if (target <= edges_now(v)) {
        return 0;
    }
    return (uint32_t)divide_up(target - edges_now(v), unit(v));
}

/* When to look again, in ticks of now. */
uint64_t
model_timer_deadline(const struct model_vcpu *v)
{
    uint64_t tsc = tsc_now(v);

    if (model_mode(v) == AVICEMU_APIC_DISABLED) {
        return MODEL_NEVER;
    }
    if (model_timer_mode(v) != M_DEADLINE) {
        return v->running ? v->target * edge(v) : MODEL_NEVER;
    }
    if (v->deadline == 0) {
        return MODEL_NEVER;
    }
    if (v->deadline <= tsc) {
        return v->vm->now;
    }
    return saturating_add(v->vm->now,
                          divide_up(v->deadline - tsc, tsc_per_tick(v)));
}

/* BURST: one of the missed ticks per ack of the timer's vector. */
void
model_timer_acked(struct model_vcpu *v, uint8_t vector)
{
    if (v->backlog != 0 && vector == (uint8_t)model_get(v, M_LVTT) &&
        model_timer_mode(v) == M_PERIODIC) {
        v->backlog--;
        fire(v);
    }
}
