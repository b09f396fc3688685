/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_ATOMIC_H
#define AE_BASE_ATOMIC_H

/*
 * The only place that names a C11 memory order: it is part of each
 * operation's name, so one grep lists every ordering in the library.
 *
 * Order sits on the operation; there are no fences. A store-then-load-the-
 * other edge takes seqcst on all four accesses. Each ordered access in lib/
 * carries an ORD comment with its label, partner and test.
 *
 * relaxed operations say "ORD none" and why, or go through an accessor whose
 * comment says it once.
 */

#include <stdatomic.h>

#include "base/compiler.h"

#ifdef AE_STEP_BUILD
/* The same functions, as places to switch and with store buffers. */
#include "base/atomic_step.h"
#else

static inline uint32_t
ae_load_relaxed_u32(const _Atomic uint32_t *p)
{
    return atomic_load_explicit(p, memory_order_relaxed);
}

static inline uint32_t
ae_load_acquire_u32(const _Atomic uint32_t *p)
{
    return atomic_load_explicit(p, memory_order_acquire);
}

static inline uint32_t
ae_load_seqcst_u32(const _Atomic uint32_t *p)
{
    return atomic_load_explicit(p, memory_order_seq_cst);
}

static inline void
ae_store_relaxed_u32(_Atomic uint32_t *p, uint32_t value)
{
    atomic_store_explicit(p, value, memory_order_relaxed);
}

static inline void
ae_store_release_u32(_Atomic uint32_t *p, uint32_t value)
{
    atomic_store_explicit(p, value, memory_order_release);
}

static inline void
ae_store_seqcst_u32(_Atomic uint32_t *p, uint32_t value)
{
    atomic_store_explicit(p, value, memory_order_seq_cst);
}

static inline uint32_t
ae_exchange_seqcst_u32(_Atomic uint32_t *p, uint32_t value)
{
    return atomic_exchange_explicit(p, value, memory_order_seq_cst);
}

static inline uint32_t
ae_fetch_or_seqcst_u32(_Atomic uint32_t *p, uint32_t mask)
{
    return atomic_fetch_or_explicit(p, mask, memory_order_seq_cst);
}

static inline uint32_t
ae_fetch_and_seqcst_u32(_Atomic uint32_t *p, uint32_t mask)
{
    return atomic_fetch_and_explicit(p, mask, memory_order_seq_cst);
}

static inline uint32_t
ae_fetch_add_relaxed_u32(_Atomic uint32_t *p, uint32_t n)
{
    return atomic_fetch_add_explicit(p, n, memory_order_relaxed);
}

static inline uint32_t
ae_fetch_add_seqcst_u32(_Atomic uint32_t *p, uint32_t n)
{
    return atomic_fetch_add_explicit(p, n, memory_order_seq_cst);
}

/* On failure *expected holds what was found. */
static inline bool
ae_cas_seqcst_u32(_Atomic uint32_t *p, uint32_t *expected, uint32_t desired)
{
    return atomic_compare_exchange_strong_explicit(
        p, expected, desired, memory_order_seq_cst, memory_order_seq_cst);
}

static inline uint64_t
ae_load_relaxed_u64(const _Atomic uint64_t *p)
{
    return atomic_load_explicit(p, memory_order_relaxed);
}

static inline uint64_t
ae_load_acquire_u64(const _Atomic uint64_t *p)
{
    return atomic_load_explicit(p, memory_order_acquire);
}

static inline uint64_t
ae_load_seqcst_u64(const _Atomic uint64_t *p)
{
    return atomic_load_explicit(p, memory_order_seq_cst);
}

static inline void
ae_store_relaxed_u64(_Atomic uint64_t *p, uint64_t value)
{
    atomic_store_explicit(p, value, memory_order_relaxed);
}

static inline void
ae_store_release_u64(_Atomic uint64_t *p, uint64_t value)
{
    atomic_store_explicit(p, value, memory_order_release);
}

static inline void
ae_store_seqcst_u64(_Atomic uint64_t *p, uint64_t value)
{
    atomic_store_explicit(p, value, memory_order_seq_cst);
}

static inline uint64_t
ae_exchange_seqcst_u64(_Atomic uint64_t *p, uint64_t value)
{
    return atomic_exchange_explicit(p, value, memory_order_seq_cst);
}

static inline uint64_t
ae_fetch_or_seqcst_u64(_Atomic uint64_t *p, uint64_t mask)
{
    return atomic_fetch_or_explicit(p, mask, memory_order_seq_cst);
}

static inline uint64_t
ae_fetch_and_seqcst_u64(_Atomic uint64_t *p, uint64_t mask)
{
    return atomic_fetch_and_explicit(p, mask, memory_order_seq_cst);
}

static inline uint64_t
ae_fetch_add_relaxed_u64(_Atomic uint64_t *p, uint64_t n)
{
    return atomic_fetch_add_explicit(p, n, memory_order_relaxed);
}

static inline uint64_t
ae_fetch_add_seqcst_u64(_Atomic uint64_t *p, uint64_t n)
{
    return atomic_fetch_add_explicit(p, n, memory_order_seq_cst);
}

/* On failure *expected holds what was found. */
static inline bool
ae_cas_seqcst_u64(_Atomic uint64_t *p, uint64_t *expected, uint64_t desired)
{
    return atomic_compare_exchange_strong_explicit(
        p, expected, desired, memory_order_seq_cst, memory_order_seq_cst);
}

/*
 * Set bit n & 31 and return whether it was set before. Written so that gcc
 * makes it one "lock bts": with the old value used in any other shape it
 * becomes a compare-exchange loop, about twice as dear.
 */
static inline bool
ae_test_and_set_seqcst_u32(_Atomic uint32_t *p, unsigned n)
{
    uint32_t mask = (uint32_t)1 << (n & 31u);

    return (atomic_fetch_or_explicit(p, mask, memory_order_seq_cst) & mask) !=
           0;
}

/* As above, clearing: "lock btr". */
static inline bool
ae_test_and_clear_seqcst_u32(_Atomic uint32_t *p, unsigned n)
{
    uint32_t mask = (uint32_t)1 << (n & 31u);

    return (atomic_fetch_and_explicit(p, ~mask, memory_order_seq_cst) & mask) !=
           0;
}

/* Pointers: the argument is an _Atomic(T *) lvalue. */
#define ae_load_relaxed_ptr(p) atomic_load_explicit((p), memory_order_relaxed)
#define ae_load_acquire_ptr(p) atomic_load_explicit((p), memory_order_acquire)
#define ae_store_relaxed_ptr(p, v) \
    atomic_store_explicit((p), (v), memory_order_relaxed)
#define ae_store_release_ptr(p, v) \
    atomic_store_explicit((p), (v), memory_order_release)

#endif /* AE_STEP_BUILD */

#endif
