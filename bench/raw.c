/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw operations that benchmarks are compared with. Each is what the best
 * possible implementation could not do without.
 */

#include <time.h>

#include "harness.h"

struct line {
    _Alignas(128) _Atomic uint32_t word;
    char rest[124];
};

static struct line line;

void
bench_raw_lock_or(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        (void)atomic_fetch_or_explicit(&line.word, 1u << (i & 31),
                                       memory_order_seq_cst);
    }
}

void
bench_raw_store_seqcst(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        atomic_store_explicit(&line.word, (uint32_t)i, memory_order_seq_cst);
    }
}

void
bench_raw_load(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        bench_use(atomic_load_explicit(&line.word, memory_order_relaxed));
    }
}

void
bench_raw_load_acquire(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        bench_use(atomic_load_explicit(&line.word, memory_order_acquire));
    }
}

void
bench_raw_clock(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
    }
}

void
bench_raw_tsc(void *state, uint64_t n)
{
    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        bench_use(bench_tsc());
    }
}
