/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_ATOMIC_STEP_H
#define AE_BASE_ATOMIC_STEP_H

/*
 * atomic.h in the step build: the same functions, seen by a scheduler that can
 * switch parties at each of them and delays plain stores as an x86 processor
 * does (atomic_step.c). Relaxed, release: a plain store, delayed. seq_cst
 * stores and every read-modify-write: locked. All loads are plain.
 */

#include "base/compiler.h"

enum ae_step_store_kind {
    AE_STEP_BUFFERED,
    AE_STEP_LOCKED,
};

enum ae_step_rmw_kind {
    AE_STEP_EXCHANGE,
    AE_STEP_OR,
    AE_STEP_AND,
    AE_STEP_ADD,
};

/* bytes: 4 or 8. */
uint64_t
ae_step_load(const volatile void *p, unsigned bytes);
void
ae_step_store(volatile void *p, unsigned bytes, uint64_t value,
              enum ae_step_store_kind kind);
/* The old value. */
uint64_t
ae_step_rmw(volatile void *p, unsigned bytes, enum ae_step_rmw_kind kind,
            uint64_t operand);
/* On failure *expected holds what was found. */
bool
ae_step_cas(volatile void *p, unsigned bytes, uint64_t *expected,
            uint64_t desired);

static inline uint32_t
ae_load_relaxed_u32(const _Atomic uint32_t *p)
{
    return (uint32_t)ae_step_load(p, 4);
}

static inline uint32_t
ae_load_acquire_u32(const _Atomic uint32_t *p)
{
    return (uint32_t)ae_step_load(p, 4);
}

static inline uint32_t
ae_load_seqcst_u32(const _Atomic uint32_t *p)
{
    return (uint32_t)ae_step_load(p, 4);
}

static inline void
ae_store_relaxed_u32(_Atomic uint32_t *p, uint32_t value)
{
    ae_step_store(p, 4, value, AE_STEP_BUFFERED);
}

static inline void
ae_store_release_u32(_Atomic uint32_t *p, uint32_t value)
{
    ae_step_store(p, 4, value, AE_STEP_BUFFERED);
}

static inline void
ae_store_seqcst_u32(_Atomic uint32_t *p, uint32_t value)
{
    ae_step_store(p, 4, value, AE_STEP_LOCKED);
}

static inline uint32_t
ae_exchange_seqcst_u32(_Atomic uint32_t *p, uint32_t value)
{
    return (uint32_t)ae_step_rmw(p, 4, AE_STEP_EXCHANGE, value);
}

static inline uint32_t
ae_fetch_or_seqcst_u32(_Atomic uint32_t *p, uint32_t mask)
{
    return (uint32_t)ae_step_rmw(p, 4, AE_STEP_OR, mask);
}

static inline uint32_t
ae_fetch_and_seqcst_u32(_Atomic uint32_t *p, uint32_t mask)
{
    return (uint32_t)ae_step_rmw(p, 4, AE_STEP_AND, mask);
}

static inline uint32_t
ae_fetch_add_relaxed_u32(_Atomic uint32_t *p, uint32_t n)
{
    return (uint32_t)ae_step_rmw(p, 4, AE_STEP_ADD, n);
}

static inline uint32_t
ae_fetch_add_seqcst_u32(_Atomic uint32_t *p, uint32_t n)
{
    return (uint32_t)ae_step_rmw(p, 4, AE_STEP_ADD, n);
}

static inline bool
ae_cas_seqcst_u32(_Atomic uint32_t *p, uint32_t *expected, uint32_t desired)
{
    uint64_t found = *expected;
    bool done = ae_step_cas(p, 4, &found, desired);

    *expected = (uint32_t)found;
    return done;
}

static inline uint64_t
ae_load_relaxed_u64(const _Atomic uint64_t *p)
{
    return ae_step_load(p, 8);
}

static inline uint64_t
ae_load_acquire_u64(const _Atomic uint64_t *p)
{
    return ae_step_load(p, 8);
}

static inline uint64_t
ae_load_seqcst_u64(const _Atomic uint64_t *p)
{
    return ae_step_load(p, 8);
}

static inline void
ae_store_relaxed_u64(_Atomic uint64_t *p, uint64_t value)
{
    ae_step_store(p, 8, value, AE_STEP_BUFFERED);
}

static inline void
ae_store_release_u64(_Atomic uint64_t *p, uint64_t value)
{
    ae_step_store(p, 8, value, AE_STEP_BUFFERED);
}

static inline void
ae_store_seqcst_u64(_Atomic uint64_t *p, uint64_t value)
{
    ae_step_store(p, 8, value, AE_STEP_LOCKED);
}

static inline uint64_t
ae_exchange_seqcst_u64(_Atomic uint64_t *p, uint64_t value)
{
    return ae_step_rmw(p, 8, AE_STEP_EXCHANGE, value);
}

static inline uint64_t
ae_fetch_or_seqcst_u64(_Atomic uint64_t *p, uint64_t mask)
{
    return ae_step_rmw(p, 8, AE_STEP_OR, mask);
}

static inline uint64_t
ae_fetch_and_seqcst_u64(_Atomic uint64_t *p, uint64_t mask)
{
    return ae_step_rmw(p, 8, AE_STEP_AND, mask);
}

static inline uint64_t
ae_fetch_add_relaxed_u64(_Atomic uint64_t *p, uint64_t n)
{
    return ae_step_rmw(p, 8, AE_STEP_ADD, n);
}

static inline uint64_t
ae_fetch_add_seqcst_u64(_Atomic uint64_t *p, uint64_t n)
{
    return ae_step_rmw(p, 8, AE_STEP_ADD, n);
}

static inline bool
ae_cas_seqcst_u64(_Atomic uint64_t *p, uint64_t *expected, uint64_t desired)
{
    return ae_step_cas(p, 8, expected, desired);
}

static inline bool
ae_test_and_set_seqcst_u32(_Atomic uint32_t *p, unsigned n)
{
    uint32_t mask = (uint32_t)1 << (n & 31u);

    return (ae_fetch_or_seqcst_u32(p, mask) & mask) != 0;
}

static inline bool
ae_test_and_clear_seqcst_u32(_Atomic uint32_t *p, unsigned n)
{
    uint32_t mask = (uint32_t)1 << (n & 31u);

    return (ae_fetch_and_seqcst_u32(p, ~mask) & mask) != 0;
}

/* Pointers: the argument is an _Atomic(T *) lvalue. */
#define AE_STEP_LOAD_PTR(p) \
    ((__typeof__(atomic_load(p)))(uintptr_t)ae_step_load((p), sizeof(*(p))))
#define AE_STEP_STORE_PTR(p, v) \
    ae_step_store((p), sizeof(*(p)), (uintptr_t)(v), AE_STEP_BUFFERED)
#define ae_load_relaxed_ptr(p)     AE_STEP_LOAD_PTR(p)
#define ae_load_acquire_ptr(p)     AE_STEP_LOAD_PTR(p)
#define ae_store_relaxed_ptr(p, v) AE_STEP_STORE_PTR(p, v)
#define ae_store_release_ptr(p, v) AE_STEP_STORE_PTR(p, v)

#endif
