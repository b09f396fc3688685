/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic accesses of the step build, with x86-TSO store buffers: the abstract
 * machine of Sewell et al., "x86-TSO" (CACM 2010). Each party has a queue of
 * stores; a load looks there first, newest store first; a locked operation
 * goes ahead only when the queue is empty; the scheduler moves the oldest
 * store of a queue to memory when it likes.
 *
 * A load that overlaps a queued store of another size or address waits for
 * the queue, as processors do.
 *
 * Threads that are no parties access memory directly, seq_cst.
 */

#include "base/atomic_step.h"

#include "base/atomic16.h"
#include "base/step_run.h"

/* ---- memory ------------------------------------------------------------- */

static uint64_t
raw_load(const volatile void *p, unsigned bytes)
{
    if (bytes == 4) {
        return __atomic_load_n((const volatile uint32_t *)p, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n((const volatile uint64_t *)p, __ATOMIC_SEQ_CST);
}

static void
raw_store(volatile void *p, unsigned bytes, uint64_t value)
{
    if (bytes == 4) {
        __atomic_store_n((volatile uint32_t *)p, (uint32_t)value,
                         __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((volatile uint64_t *)p, value, __ATOMIC_SEQ_CST);
    }
}

static bool
raw_cas(volatile void *p, unsigned bytes, uint64_t *expected, uint64_t desired)
{
    if (bytes == 4) {
        uint32_t e = (uint32_t)*expected;
        bool done = __atomic_compare_exchange_n(
            (volatile uint32_t *)p, &e, (uint32_t)desired, false,
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

        *expected = e;
        return done;
    }
    return __atomic_compare_exchange_n((volatile uint64_t *)p, expected,
                                       desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* ---- store buffers ------------------------------------------------------ */

void
ae_step_drain_one(struct ae_step_party *p)
{
    const struct ae_step_store s = p->stores[0];

    p->nr_stores--;
    for (uint32_t i = 0; i < p->nr_stores; i++) {
        p->stores[i] = p->stores[i + 1];
    }
    raw_store(s.address, s.bytes, s.value);
}

void
ae_step_drain_all(struct ae_step_party *p)
{
    while (p->nr_stores != 0) {
        ae_step_drain_one(p);
    }
}

enum forward {
    FORWARD_NONE,
    FORWARD_VALUE,
    FORWARD_STALL, /* overlaps, but is not the same */
};

static enum forward
forward(const struct ae_step_party *me, const volatile void *p, unsigned bytes,
        uint64_t *value)
{
    uintptr_t at = (uintptr_t)p;

    for (uint32_t i = me->nr_stores; i-- > 0;) {
        const struct ae_step_store *s = &me->stores[i];
        uintptr_t there = (uintptr_t)s->address;

        if (there == at && s->bytes == bytes) {
            *value = s->value;
            return FORWARD_VALUE;
        }
        if (there < at + bytes && at < there + s->bytes) {
            return FORWARD_STALL;
        }
    }
    return FORWARD_NONE;
}

/* ---- polling ------------------------------------------------------------ */

static void
watch(struct ae_step_party *me, const volatile void *p, unsigned bytes,
      uint64_t value)
{
    /* The oldest go: a loop's own loads come last. */
    struct ae_step_store *slot = &me->watched[me->nr_watched % AE_STEP_WATCHED];

    slot->address = (volatile void *)(uintptr_t)p;
    slot->bytes = bytes;
    slot->value = value;
    me->nr_watched++;
}

bool
ae_step_watch_changed(const struct ae_step_party *p)
{
    /* More than are kept: look again, which then watches the loop's only. */
    if (p->nr_watched == 0 || p->nr_watched > AE_STEP_WATCHED) {
        return true;
    }
    for (uint32_t i = 0; i < p->nr_watched; i++) {
        const struct ae_step_store *w = &p->watched[i];

        if (raw_load(w->address, w->bytes) != w->value) {
            return true;
        }
    }
    return false;
}

/* ---- accesses ----------------------------------------------------------- */

/* Before an access that others see. drained: only with its own stores
 * visible. */
static void
access_begin(struct ae_step_party *me, const char *what, const volatile void *p,
             unsigned bytes, bool drained)
{
    const struct ae_step_op op = {
        .what = what,
        .address = p,
        .bytes = bytes,
        .effect = drained ? AE_STEP_WRITE : AE_STEP_READ,
        .drained = drained,
    };

    if (me->run->accesses) {
        ae_step_point(me, &op);
    } else if (drained) {
        ae_step_drain_all(me);
    }
}

uint64_t
ae_step_load(const volatile void *p, unsigned bytes)
{
    struct ae_step_party *me = ae_step_self();
    uint64_t value;

    if (me == NULL) {
        return raw_load(p, bytes);
    }
    /* A place to switch also where it will be forwarded: whether the store is
     * still in the buffer then is the scheduler's choice. */
    access_begin(me, "load", p, bytes,
                 forward(me, p, bytes, &value) == FORWARD_STALL);
    if (forward(me, p, bytes, &value) == FORWARD_VALUE) {
        return value;
    }
    value = raw_load(p, bytes);
    watch(me, p, bytes, value);
    return value;
}

void
ae_step_store(volatile void *p, unsigned bytes, uint64_t value,
              enum ae_step_store_kind kind)
{
    struct ae_step_party *me = ae_step_self();

    if (me == NULL) {
        raw_store(p, bytes, value);
        return;
    }
    if (kind == AE_STEP_LOCKED || (me->run->flags & AVICEMU_STEP_TSO) == 0) {
        access_begin(me, "store", p, bytes, true);
        raw_store(p, bytes, value);
        return;
    }
    if (me->nr_stores == AE_STEP_BUFFER) {
        ae_step_drain_one(me);
    }
    me->stores[me->nr_stores++] = (struct ae_step_store){
        .address = p,
        .bytes = bytes,
        .step = me->run->steps,
        .value = value,
    };
}

static uint64_t
rmw_result(enum ae_step_rmw_kind kind, uint64_t old, uint64_t operand)
{
    switch (kind) {
    case AE_STEP_OR:
        return old | operand;
    case AE_STEP_AND:
        return old & operand;
    case AE_STEP_ADD:
        return old + operand;
    case AE_STEP_EXCHANGE:
    default:
        return operand;
    }
}

uint64_t
ae_step_rmw(volatile void *p, unsigned bytes, enum ae_step_rmw_kind kind,
            uint64_t operand)
{
    static const char *const names[] = { "exchange", "or", "and", "add" };
    struct ae_step_party *me = ae_step_self();

    if (me != NULL) {
        access_begin(me, names[kind], p, bytes, true);
    }
    uint64_t old = raw_load(p, bytes);

    while (!raw_cas(p, bytes, &old, rmw_result(kind, old, operand))) {
        /* A thread that is no party came between. */
    }
    return old;
}

bool
ae_step_cas(volatile void *p, unsigned bytes, uint64_t *expected,
            uint64_t desired)
{
    struct ae_step_party *me = ae_step_self();

    if (me != NULL) {
        access_begin(me, "cas", p, bytes, true);
    }
    return raw_cas(p, bytes, expected, desired);
}

/* ---- sixteen bytes ------------------------------------------------------ */

struct ae_u128
ae_step_load16(const struct ae_atomic16 *p)
{
    struct ae_step_party *me = ae_step_self();
    uint64_t unused;

    if (me == NULL) {
        return ae_raw_load16(AE_LOAD16_LOCKED, p);
    }
    /* No store is that wide: one of a half is never forwarded. */
    access_begin(me, "load16", p, 16,
                 forward(me, p, 16, &unused) == FORWARD_STALL);
    struct ae_u128 value = ae_raw_load16(AE_LOAD16_LOCKED, p);

    watch(me, &p->low, 8, value.low);
    watch(me, &p->high, 8, value.high);
    return value;
}

bool
ae_step_cas16(struct ae_atomic16 *p, struct ae_u128 *expected,
              struct ae_u128 desired)
{
    struct ae_step_party *me = ae_step_self();

    if (me != NULL) {
        access_begin(me, "cas16", p, 16, true);
    }
    return ae_cmpxchg16b(p, expected, desired);
}

/* ---- for users' own protocols ------------------------------------------- */

uint64_t
avicemu_step_load(const void *p, unsigned bytes)
{
    return ae_step_load(p, bytes);
}

void
avicemu_step_store(void *p, unsigned bytes, uint64_t value)
{
    ae_step_store(p, bytes, value, AE_STEP_BUFFERED);
}

void
avicemu_step_fence(void)
{
    static char nowhere;
    struct ae_step_party *me = ae_step_self();

    if (me == NULL) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return;
    }
    const struct ae_step_op op = {
        .what = "fence",
        .address = &nowhere,
        .effect = AE_STEP_LOCAL,
        .drained = true,
    };

    if (me->run->accesses) {
        ae_step_point(me, &op);
    } else {
        ae_step_drain_all(me);
    }
}
