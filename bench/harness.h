/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

/*
 * A benchmark is a loop, the loop it is compared with, and a check that the
 * work was done. To add one: write bench/bench_fence.c as below, and put
 * 'fence' into the list in bench/meson.build. Nothing else.
 *
 *     #include "harness.h"
 *
 *     static uint64_t done;
 *
 *     static void
 *     fence_run(void *state, uint64_t n)
 *     {
 *         (void)state;
 *         for (uint64_t i = 0; i < n; i++) {
 *             atomic_thread_fence(memory_order_seq_cst);
 *         }
 *         done += n;
 *     }
 *
 *     static bool
 *     fence_check(void *state, uint64_t nr_ops)
 *     {
 *         (void)state;
 *         return done == nr_ops;
 *     }
 *
 *     const struct bench bench_fence[] = {
 *         { .name = "fence",
 *           .what = "a full fence",
 *           .baseline = "lock or",
 *           .run = fence_run,
 *           .base = bench_raw_lock_or,
 *           .check = fence_check },
 *         { .name = NULL },
 *     };
 *
 * What is measured. A sample is one timed call of run; what its prepare does
 * before is not timed. Rounds alternate run, base, run, base on one pinned
 * thread. ratio is run / base of a round, median over the rounds; noise is how
 * far the two measurements of run in one round differ, median over the rounds.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_OBJECTS 5
#define BENCH_OPS_OBJECTS UINT32_MAX /* ops: as many as there are objects */
#define BENCH_OPS_OTHERS  (UINT32_MAX - 1) /* ... but one, at least one */

/* What open may return besides 0. */
#define BENCH_SKIP 1 /* cannot run here; bench_skip() said why */
#define BENCH_FAIL 2

struct bench {
    const char *name; /* NULL ends an array */
    const char *what; /* one line for --list */
    const char *baseline;
    const char *unit; /* NULL: ns */
    double goal;      /* ratio that it should not exceed; 0: none */
    /* How many objects there are; one row each. 0 ends; none: one row of 1. */
    uint32_t objects[BENCH_MAX_OBJECTS + 1];
    unsigned threads; /* that run at the same time; 0: 1 */
    uint32_t ops;     /* per sample; 0: as many as take some microseconds */
    /* Everything below gets the state that open made. Only run and base, or
     * value and base_value, are required. */
    int (*open)(const struct bench *b, uint32_t objects, void **ret_state);
    void (*prepare)(void *state);
    void (*run)(void *state, uint64_t n);
    void (*base_prepare)(void *state);
    void (*base)(void *state, uint64_t n);
    /* Did all calls of run together do this much? */
    bool (*check)(void *state, uint64_t nr_ops);
    void (*close)(void *state);
    /* Instead of run: a quantity that is no time, such as bytes. */
    double (*value)(void *state);
    double (*base_value)(void *state);
};

/* For open: why it returns BENCH_SKIP or BENCH_FAIL. */
int
bench_skip(const char *why);
int
bench_fail(const char *why);

/* Pin the calling thread to the nth CPU of the process, modulo their number. */
void
bench_pin(unsigned n);
/* CPUs that the process may use. */
unsigned
bench_nr_cpus(void);
/* Wait a little in a loop on another thread's store: a pause, or a yield where
 * that thread may need this CPU. */
void
bench_relax(void);
/* Ticks per second of bench_tsc(). */
uint64_t
bench_tsc_hz(void);
/* The cheapest clock there is: not ordered with what stands around it. */
uint64_t
bench_tsc(void);

/* Keep a value that is else unused. */
static inline void
bench_use(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* ---- baselines: raw.c. They ignore the state --------------------------- */

/* A locked or on one private line. */
void
bench_raw_lock_or(void *state, uint64_t n);
/* A seq_cst store to a private line. */
void
bench_raw_store_seqcst(void *state, uint64_t n);
/* One load that hits. */
void
bench_raw_load(void *state, uint64_t n);
/* The same with acquire order: the same instruction, on x86. */
void
bench_raw_load_acquire(void *state, uint64_t n);
/* clock_gettime(CLOCK_MONOTONIC), as nanoseconds. */
void
bench_raw_clock(void *state, uint64_t n);
void
bench_raw_tsc(void *state, uint64_t n);

#endif
