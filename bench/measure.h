/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

/*
 * Running one row and reducing it to figures. See measure.c.
 */

#include "harness.h"

struct measure_plan {
    unsigned repeats;     /* rounds of run, base, run, base */
    uint64_t slice_ns;    /* about how long each of the four takes */
    uint32_t max_objects; /* rows with more are left out */
    uint32_t max_threads; /* of more only the row with the fewest objects */
};

struct measure_figures {
    double mean, p50, p99, p999, min, max; /* per operation, in the unit */
};

enum measure_outcome {
    MEASURE_DONE,
    MEASURE_SKIPPED,
    MEASURE_FAILED, /* the work was not done, or it could not be set up */
};

struct measure_row {
    const struct bench *bench;
    uint32_t objects;
    unsigned threads;
    unsigned repeats;
    bool oversubscribed; /* then times are the thread's CPU time */
    enum measure_outcome outcome;
    const char *why; /* SKIPPED, FAILED */
    uint64_t nr_ops; /* of run, all samples */
    struct measure_figures run, base;
    double ratio; /* run / base */
    double noise; /* relative: 0.02 is 2 % */
};

/* Calibrate the clock and pin the thread. Once, first. */
void
measure_init(void);

void
measure_row(const struct bench *b, uint32_t objects,
            const struct measure_plan *plan, struct measure_row *ret);

/* Run the loop until seconds have passed, for a profiler. false: failed. */
bool
measure_loop(const struct bench *b, uint32_t objects, unsigned seconds);

#endif
