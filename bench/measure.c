/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measuring on a machine that others use, too.
 *
 * Absolute times there move by tens of percent from second to second, so what
 * is compared alternates in short slices: run, base, run, base. A slice is some
 * hundred samples and counts with its median, which an interrupted sample does
 * not move. A round gives one ratio and one difference between its two slices
 * of the same loop; their medians over the rounds are ratio and noise.
 *
 * Clock: the TSC between fences, less the median of an empty pair. Where there
 * are fewer CPUs than threads: the thread's CPU time.
 */

#include "measure.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define SAMPLE_NS   5000u /* aimed at where the number of ops is free */
#define MAX_SLICE   4096u /* samples */
#define MIN_SLICE   1u
#define WARM_UP     2u /* slices that do not count */
#define MAX_SERIES  (1u << 20)
#define NS_PER_SEC  1000000000ull
#define CALIBRATION 20000000ull /* ns */

static double ns_per_tick = 1.0;
static double empty_ticks[2]; /* by use_cpu_time */
static bool use_cpu_time;
static const char *open_reason = "";

/* All samples of one loop, for percentiles; per operation, in ns. */
struct series {
    double *v;
    size_t nr;
};

int
bench_skip(const char *why)
{
    open_reason = why;
    return BENCH_SKIP;
}

int
bench_fail(const char *why)
{
    open_reason = why;
    return BENCH_FAIL;
}

/* ---- clock and CPUs ----------------------------------------------------- */

static uint64_t
clock_ns(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t
bench_tsc(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return clock_ns(CLOCK_MONOTONIC);
#endif
}

uint64_t
bench_tsc_hz(void)
{
    return (uint64_t)(1e9 / ns_per_tick);
}

static uint64_t
ticks(void)
{
    if (use_cpu_time) {
        return clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t now = __rdtsc();

    _mm_lfence();
    return now;
#else
    return clock_ns(CLOCK_MONOTONIC);
#endif
}

static double
to_ns(double t)
{
    return use_cpu_time ? t : t * ns_per_tick;
}

unsigned
bench_nr_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    return (unsigned)CPU_COUNT(&set);
}

/* The CPUs at the start; pinning a thread must not narrow the choice. */
static cpu_set_t cpus;
static unsigned nr_cpus = 1;

void
bench_pin(unsigned n)
{
    cpu_set_t one;

    n %= nr_cpus;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &cpus) || n-- != 0) {
            continue;
        }
        CPU_ZERO(&one);
        CPU_SET((size_t)cpu, &one);
        /* Unpinned is noisier, not wrong. */
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

void
bench_relax(void)
{
    if (nr_cpus < 2) {
        (void)sched_yield();
        return;
    }
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static int
double_cmp(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
percentile(double *v, size_t nr, double p)
{
    if (nr == 0) {
        return 0;
    }
    qsort(v, nr, sizeof(*v), double_cmp);
    return v[(size_t)((double)(nr - 1) * p + 0.5)];
}

static void
calibrate_empty(bool cpu_time)
{
    double v[255];

    use_cpu_time = cpu_time;
    for (size_t i = 0; i < 255; i++) {
        uint64_t from = ticks();

        v[i] = (double)(ticks() - from);
    }
    empty_ticks[cpu_time] = percentile(v, 255, 0.5);
    use_cpu_time = false;
}

static void *
thread_nothing(void *opaque)
{
    return opaque;
}

/* A process that never had a second thread gets mutexes without a locked
 * operation from glibc. A VMM is none, so a rival's must not be. */
static void
become_threaded(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_nothing, NULL) == 0) {
        (void)pthread_join(thread, NULL);
    }
}

void
measure_init(void)
{
    become_threaded();
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    (void)sched_getaffinity(0, sizeof(cpus), &cpus);
    nr_cpus = (unsigned)CPU_COUNT(&cpus);
    bench_pin(0);

    uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t from = bench_tsc();
    uint64_t ns;

    do {
        ns = clock_ns(CLOCK_MONOTONIC) - from_ns;
    } while (ns < CALIBRATION);
    ns_per_tick = (double)ns / (double)(bench_tsc() - from);
    calibrate_empty(false);
    calibrate_empty(true);
}

/* ---- slices ------------------------------------------------------------- */

/* One of the two loops of a row. */
struct side {
    void *state;
    void (*prepare)(void *state);
    void (*run)(void *state, uint64_t n);
    uint64_t ops;   /* per sample */
    uint64_t total; /* ops of all samples */
    struct series series;
};

static double
sample(struct side *s)
{
    if (s->prepare != NULL) {
        s->prepare(s->state);
    }
    uint64_t from = ticks();

    s->run(s->state, s->ops);
    double t = (double)(ticks() - from) - empty_ticks[use_cpu_time];

    s->total += s->ops;
    return to_ns(t > 0 ? t : 0) / (double)s->ops;
}

/* As many operations as make a sample long beside its timer. */
static void
side_calibrate(struct side *s)
{
    s->ops = 16;
    while (s->ops < (1u << 20) && sample(s) * (double)s->ops < SAMPLE_NS) {
        s->ops *= 2;
    }
}

static void
series_add(struct series *s, double v)
{
    if (s->v != NULL && s->nr < MAX_SERIES) {
        s->v[s->nr++] = v;
    }
}

/* Median of one slice; its samples join the series if that counts. */
static double
slice(struct side *s, uint64_t slice_ns, bool counts)
{
    static double v[MAX_SLICE];
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + slice_ns;
    size_t nr = 0;

    while (nr < MAX_SLICE &&
           (nr < MIN_SLICE || clock_ns(CLOCK_MONOTONIC) < end)) {
        v[nr++] = sample(s);
    }
    for (size_t i = 0; counts && i < nr; i++) {
        series_add(&s->series, v[i]);
    }
    return percentile(v, nr, 0.5);
}

static void
figures(struct series *s, struct measure_figures *ret)
{
    double sum = 0;

    ret->p50 = percentile(s->v, s->nr, 0.50);
    ret->p99 = percentile(s->v, s->nr, 0.99);
    ret->p999 = percentile(s->v, s->nr, 0.999);
    for (size_t i = 0; i < s->nr; i++) {
        sum += s->v[i];
    }
    ret->mean = s->nr == 0 ? 0 : sum / (double)s->nr;
    ret->min = s->nr == 0 ? 0 : s->v[0]; /* percentile() has sorted it */
    ret->max = s->nr == 0 ? 0 : s->v[s->nr - 1];
}

#define MAX_ROUNDS 101u

static void
rounds(struct side *run, struct side *base, const struct measure_plan *plan,
       struct measure_row *row)
{
    double ratio[MAX_ROUNDS];
    double noise[MAX_ROUNDS];
    unsigned nr = plan->repeats < MAX_ROUNDS ? plan->repeats : MAX_ROUNDS;

    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)slice(run, plan->slice_ns / 2, false);
        (void)slice(base, plan->slice_ns / 2, false);
    }
    for (unsigned i = 0; i < nr; i++) {
        double a = slice(run, plan->slice_ns, true);
        double b = slice(base, plan->slice_ns, true);
        double a2 = slice(run, plan->slice_ns, true);
        double b2 = slice(base, plan->slice_ns, true);

        ratio[i] = b + b2 > 0 ? (a + a2) / (b + b2) : 0;
        noise[i] = a + a2 > 0 ? 2 * fabs(a - a2) / (a + a2) : 0;
    }
    row->repeats = nr;
    row->ratio = percentile(ratio, nr, 0.5);
    row->noise = percentile(noise, nr, 0.5);
    figures(&run->series, &row->run);
    figures(&base->series, &row->base);
    row->nr_ops = run->total;
}

/* ---- rows --------------------------------------------------------------- */

static uint64_t
ops_of(const struct bench *b, uint32_t objects)
{
    switch (b->ops) {
    case BENCH_OPS_OBJECTS:
        return objects;
    case BENCH_OPS_OTHERS:
        return objects > 1 ? objects - 1 : 1;
    default:
        return b->ops;
    }
}

static void
measure_times(const struct bench *b, void *state,
              const struct measure_plan *plan, struct measure_row *row)
{
    struct side run = { .state = state,
                        .prepare = b->prepare,
                        .run = b->run,
                        .ops = ops_of(b, row->objects) };
    struct side base = { .state = state,
                         .prepare = b->base_prepare,
                         .run = b->base,
                         .ops = ops_of(b, row->objects) };

    run.series.v = malloc(MAX_SERIES * sizeof(double));
    base.series.v = malloc(MAX_SERIES * sizeof(double));
    if (run.series.v == NULL || base.series.v == NULL) {
        row->outcome = MEASURE_FAILED;
        row->why = "no memory";
    } else {
        if (b->ops == 0) {
            side_calibrate(&run);
            side_calibrate(&base);
        }
        rounds(&run, &base, plan, row);
    }
    free(run.series.v);
    free(base.series.v);
}

static void
measure_value(const struct bench *b, void *state, struct measure_row *row)
{
    double v = b->value(state);
    double base = b->base_value(state);

    row->run = (struct measure_figures){ v, v, v, v, v, v };
    row->base = (struct measure_figures){ base, base, base, base, base, base };
    row->ratio = base > 0 ? v / base : 0;
    row->repeats = 1;
    row->nr_ops = row->objects;
}

static bool
row_open(const struct bench *b, uint32_t objects, void **state,
         struct measure_row *row)
{
    int r = b->open == NULL ? 0 : b->open(b, objects, state);

    if (r != 0) {
        row->outcome = r == BENCH_SKIP ? MEASURE_SKIPPED : MEASURE_FAILED;
        row->why = open_reason;
    }
    return r == 0;
}

void
measure_row(const struct bench *b, uint32_t objects,
            const struct measure_plan *plan, struct measure_row *ret)
{
    void *state = NULL;

    *ret = (struct measure_row){
        .bench = b,
        .objects = objects,
        .threads = b->threads != 0 ? b->threads : 1,
        .why = "",
    };
    ret->oversubscribed = ret->threads > nr_cpus;
    if (!row_open(b, objects, &state, ret)) {
        return;
    }
    use_cpu_time = ret->oversubscribed;
    if (b->value != NULL) {
        measure_value(b, state, ret);
    } else {
        measure_times(b, state, plan, ret);
    }
    use_cpu_time = false;
    if (ret->outcome == MEASURE_DONE && b->check != NULL &&
        !b->check(state, ret->nr_ops)) {
        ret->outcome = MEASURE_FAILED;
        ret->why = "it did not do the work that was timed";
    }
    if (b->close != NULL) {
        b->close(state);
    }
}

bool
measure_loop(const struct bench *b, uint32_t objects, unsigned seconds)
{
    struct measure_row row = { .bench = b };
    struct side run = { .prepare = b->prepare,
                        .run = b->run,
                        .ops = ops_of(b, objects) };
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + seconds * NS_PER_SEC;

    if (b->run == NULL || !row_open(b, objects, &run.state, &row)) {
        return false;
    }
    if (b->ops == 0) {
        side_calibrate(&run);
    }
    while (clock_ns(CLOCK_MONOTONIC) < end) {
        (void)sample(&run);
    }
    if (b->close != NULL) {
        b->close(run.state);
    }
    return true;
}
