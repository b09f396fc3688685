/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_ATOMIC16_H
#define AE_BASE_ATOMIC16_H

/*
 * Sixteen bytes at once: what atomic.h is for words, for an entry of two of
 * them that others change while it is read.
 *
 * Load   one aligned 16-byte vector load where the processor has AVX: Intel
 *        and AMD both guarantee that to be one access. [SDM3 10.1.1 guaranteed
 *        atomic operations] Else a locked cmpxchg16b, which writes what it
 *        found, so the memory must be writable.
 * Change a locked cmpxchg16b.
 *
 * Which load it is, is asked once, at set-up, and kept by the caller. Low half,
 * high half, low half again would be no such load: an entry that changes there
 * and back is seen mixed. libatomic takes a lock that a device does not know.
 *
 * Both are seq_cst: on x86 a load is, since every seq_cst store is locked.
 * A half may be read alone: atomic.h's functions on low or high.
 */

#include <cpuid.h>

#include "base/compiler.h"

#if !defined(__x86_64__)
#error "16-byte atomics are written for x86-64"
#endif

/* In memory. */
struct ae_atomic16 {
    AE_ALIGNED(16) _Atomic uint64_t low;
    _Atomic uint64_t high;
};

static_assert(sizeof(struct ae_atomic16) == 16, "two words");

/* As a value. */
struct ae_u128 {
    uint64_t low, high;
};

static inline bool
ae_u128_equal(struct ae_u128 a, struct ae_u128 b)
{
    return a.low == b.low && a.high == b.high;
}

enum ae_load16 {
    AE_LOAD16_LOCKED,
    AE_LOAD16_VECTOR,
};

/* What this processor can do. The guarantee hangs on the CPUID bit alone: the
 * load is an SSE one, which needs nothing of the operating system. */
static inline enum ae_load16
ae_load16_choose(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_AVX) != 0
               ? AE_LOAD16_VECTOR
               : AE_LOAD16_LOCKED;
}

/* ---- the instructions --------------------------------------------------- */

static inline bool
ae_cmpxchg16b(struct ae_atomic16 *p, struct ae_u128 *expected,
              struct ae_u128 desired)
{
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*p), "+a"(expected->low),
                       "+d"(expected->high)
                     : "b"(desired.low), "c"(desired.high)
                     : "memory");
    return done;
}

static inline struct ae_u128
ae_movdqa(const struct ae_atomic16 *p)
{
    typedef long long vector __attribute__((vector_size(16)));
    vector v;

    __asm__ volatile("movdqa %1, %0" : "=x"(v) : "m"(*p) : "memory");
    return (struct ae_u128){ (uint64_t)v[0], (uint64_t)v[1] };
}

static inline struct ae_u128
ae_raw_load16(enum ae_load16 way, const struct ae_atomic16 *p)
{
    struct ae_u128 value = { 0, 0 };

    if (AE_LIKELY(way == AE_LOAD16_VECTOR)) {
        return ae_movdqa(p);
    }
    (void)ae_cmpxchg16b((struct ae_atomic16 *)(uintptr_t)p, &value, value);
    return value;
}

/* ---- one event ---------------------------------------------------------- */

#ifdef AE_STEP_BUILD

/* One place to switch each: see atomic_step.c. */
struct ae_u128
ae_step_load16(const struct ae_atomic16 *p);
bool
ae_step_cas16(struct ae_atomic16 *p, struct ae_u128 *expected,
              struct ae_u128 desired);

static inline struct ae_u128
ae_load_seqcst_u128(enum ae_load16 way, const struct ae_atomic16 *p)
{
    (void)way;
    return ae_step_load16(p);
}

static inline bool
ae_cas_seqcst_u128(struct ae_atomic16 *p, struct ae_u128 *expected,
                   struct ae_u128 desired)
{
    return ae_step_cas16(p, expected, desired);
}

#else

/*
 * The thread sanitizer does not see into assembly: it is told what the access
 * orders, at the address of either half, where atomic.h's own accesses put it.
 * A failed exchange is told as a successful one.
 */
#if AE_TSAN
void
__tsan_acquire(void *addr);
void
__tsan_release(void *addr);

static inline void
ae_u128_acquired(const struct ae_atomic16 *p)
{
    __tsan_acquire((void *)(uintptr_t)&p->low);
    __tsan_acquire((void *)(uintptr_t)&p->high);
}

static inline void
ae_u128_release(struct ae_atomic16 *p)
{
    __tsan_release((void *)(uintptr_t)&p->low);
    __tsan_release((void *)(uintptr_t)&p->high);
}
#else
static inline void
ae_u128_acquired(const struct ae_atomic16 *p)
{
    (void)p;
}

static inline void
ae_u128_release(struct ae_atomic16 *p)
{
    (void)p;
}
#endif

static inline struct ae_u128
ae_load_seqcst_u128(enum ae_load16 way, const struct ae_atomic16 *p)
{
    struct ae_u128 value = ae_raw_load16(way, p);

    ae_u128_acquired(p);
    return value;
}

/* On failure *expected holds what was found. */
static inline bool
ae_cas_seqcst_u128(struct ae_atomic16 *p, struct ae_u128 *expected,
                   struct ae_u128 desired)
{
    ae_u128_release(p);
    bool done = ae_cmpxchg16b(p, expected, desired);

    ae_u128_acquired(p);
    return done;
}

#endif /* AE_STEP_BUILD */

#endif
