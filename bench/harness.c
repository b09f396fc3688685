/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measuring rows in turns, and telling it as text and JSON.
 *
 * A sample is one batch of operations, in thread CPU time per operation where
 * the clock allows it: on a shared machine the thread is sometimes not running
 * at all, which is nobody's cost. Samples of the rows alternate, so a slow
 * spell hits all of them. Median and 99th percentile are over samples.
 */

#include "harness.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ROWS    24
#define SAMPLES     121
#define QUICK       9
#define FIRST_BATCH 4096

struct series {
    const struct bench_row *row;
    void *arg;
    double a[SAMPLES], b[SAMPLES]; /* b: the second of library's two */
    double mean, p50, p99, min, max;
    double noise; /* relative */
    double ratio; /* 0: no baseline */
};

static json_t *records;
static bool headed;

void
bench_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("avicemu-bench: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static double
clock_ns(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) {
        bench_fail("no thread CPU clock");
    }
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
sample(const struct series *s)
{
    uint64_t n = s->row->batch != 0 ? s->row->batch : FIRST_BATCH;
    double start = clock_ns();
    uint64_t did = s->row->run(s->arg, n);
    double end = clock_ns();

    if (did != n) {
        bench_fail("%s, %s: %llu of %llu operations did their work",
                   s->row->bench, s->row->variant, (unsigned long long)did,
                   (unsigned long long)n);
    }
    return (end - start) / (double)n;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static bool
is_ours(const struct series *s)
{
    return strcmp(s->row->variant, "library") == 0;
}

static void
summarise(struct series *s, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += s->a[i];
    }
    s->mean = sum / (double)n;
    s->p50 = median(s->a, n);
    s->p99 = s->a[n * 99 / 100];
    s->min = s->a[0];
    s->max = s->a[n - 1];
    if (is_ours(s)) {
        s->noise = fabs(median(s->b, n) - s->p50) / s->p50;
    }
}

static const struct series *
baseline_of(const struct series *all, size_t nr, const struct bench_row *row)
{
    for (size_t i = 0; row->baseline != NULL && i < nr; i++) {
        if (strcmp(all[i].row->variant, row->baseline) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

static void
print_row(const struct series *s, const struct bench_options *o, size_t n)
{
    if (!headed) {
        printf("bench\tvariant\tobjects\tsamples\tmedian ns\tp99 ns\tratio\t"
               "baseline\tnoise%s\n",
               o->goals ? "\tgoal" : "");
        headed = true;
    }
    printf("%s\t%s\t%llu\t%zu\t%.2f\t%.2f\t", s->row->bench, s->row->variant,
           (unsigned long long)s->row->objects, n, s->p50, s->p99);
    if (s->ratio == 0) {
        printf("-\t-\t");
    } else if (is_ours(s) && fabs(s->ratio - 1) < s->noise) {
        printf("same\t%s\t", s->row->baseline);
    } else {
        printf("%.3g\t%s\t", s->ratio, s->row->baseline);
    }
    printf("%.1f%%", 100 * s->noise);
    if (o->goals && s->row->goal != 0) {
        double value = s->row->at_least ? 1 / s->ratio : s->ratio;
        bool met =
            s->row->at_least ? value >= s->row->goal : value <= s->row->goal;

        printf("\t%s%g: %.3g, %s",
               s->row->at_least ? ">= " : "<= ", s->row->goal, value,
               met ? "met" : "not met");
    }
    printf("\n");
    (void)fflush(stdout);
}

static void
record_row(const struct series *s, size_t n)
{
    json_t *r = json_pack(
        "{s:s, s:s, s:i, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "bench",
        s->row->bench, "variant", s->row->variant, "threads", 1, "objects",
        (json_int_t)s->row->objects, "unit", "ns", "mean", s->mean, "p50",
        s->p50, "p99", s->p99, "min", s->min, "max", s->max, "repeats",
        (json_int_t)n, "noise", s->noise);

    if (r == NULL) {
        bench_fail("out of memory");
    }
    if (s->ratio != 0) {
        json_object_set_new(r, "ratio", json_real(s->ratio));
        json_object_set_new(r, "baseline", json_string(s->row->baseline));
    }
    if (records == NULL) {
        records = json_array();
    }
    json_array_append_new(records, r);
}

/* Rows first..first+nr-1 of one bench and one number of objects. */
static void
measure_group(const struct bench_row *rows, size_t nr,
              const struct bench_options *o)
{
    static struct series all[MAX_ROWS];
    size_t n = o->quick ? QUICK : SAMPLES;
    size_t there = 0;

    if (nr > MAX_ROWS) {
        bench_fail("%s has too many rows", rows[0].bench);
    }
    for (size_t i = 0; i < nr; i++) {
        struct series s = { .row = &rows[i] };

        s.arg = rows[i].setup != NULL ? rows[i].setup(rows[i].objects) : NULL;
        if (rows[i].setup == NULL || s.arg != NULL) {
            all[there++] = s;
        }
    }
    for (size_t i = 0; i < there; i++) {
        (void)sample(&all[i]); /* warm up */
    }
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < there; i++) {
            all[i].a[k] = sample(&all[i]);
            if (is_ours(&all[i])) {
                all[i].b[k] = sample(&all[i]);
            }
        }
    }
    for (size_t i = 0; i < there; i++) {
        summarise(&all[i], n);
    }
    for (size_t i = 0; i < there; i++) {
        const struct series *base = baseline_of(all, there, all[i].row);

        all[i].ratio = base != NULL ? all[i].p50 / base->p50 : 0;
        print_row(&all[i], o, n);
        record_row(&all[i], n);
        if (all[i].row->teardown != NULL) {
            all[i].row->teardown(all[i].arg);
        }
    }
}

static bool
wanted(const struct bench_row *row, const struct bench_options *o)
{
    return o->filter == NULL || fnmatch(o->filter, row->bench, 0) == 0;
}

void
bench_measure(const struct bench_table *table, const struct bench_options *o)
{
    for (size_t i = 0, end; i < table->nr_rows; i = end) {
        const struct bench_row *first = &table->rows[i];

        for (end = i + 1; end < table->nr_rows; end++) {
            const struct bench_row *row = &table->rows[end];

            if (strcmp(row->bench, first->bench) != 0 ||
                row->objects != first->objects) {
                break;
            }
        }
        if (wanted(first, o)) {
            measure_group(first, end - i, o);
        }
    }
}

/* A bar per row that has a ratio, drawn by gnuplot. */
static void
plot(const char *dir)
{
    char command[512];
    size_t i;
    json_t *r;

    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        bench_fail("--plot needs gnuplot: apt-get install gnuplot-nox");
    }
    (void)snprintf(command, sizeof(command), "gnuplot");
    FILE *p = popen(command, "w");

    if (p == NULL) {
        bench_fail("gnuplot does not start");
    }
    (void)fprintf(p,
                  "set terminal svg size 900,600\nset output '%s/ratios.svg'\n"
                  "set title 'ratio to the baseline of the same run'\n"
                  "set logscale x\nset grid x\nunset key\nset boxwidth 0.6\n"
                  "set style fill solid 0.6\nset lmargin 34\n"
                  "$rows << EOD\n",
                  dir);
    json_array_foreach(records, i, r)
    {
        if (json_object_get(r, "ratio") != NULL) {
            (void)fprintf(
                p, "\"%s, %lld (%s)\" %g\n",
                json_string_value(json_object_get(r, "bench")),
                (long long)json_integer_value(json_object_get(r, "objects")),
                json_string_value(json_object_get(r, "baseline")),
                json_real_value(json_object_get(r, "ratio")));
        }
    }
    (void)fprintf(p, "EOD\nplot $rows using (0):0:(0):2:($0-0.3):($0+0.3)"
                     ":ytic(1) with boxxyerror\n");
    if (pclose(p) != 0) {
        bench_fail("gnuplot could not draw into %s", dir);
    }
    printf("%s/ratios.svg\n", dir);
}

int
bench_finish(const struct bench_options *o)
{
    int r = 0;

    if (records == NULL) {
        bench_fail("no benchmark matches; see --list");
    }
    if (o->plot != NULL) {
        plot(o->plot);
    }
    if (o->json != NULL && json_dump_file(records, o->json, JSON_INDENT(1))) {
        (void)fprintf(stderr, "avicemu-bench: cannot write %s\n", o->json);
        r = 1;
    }
    json_decref(records);
    records = NULL;
    return r;
}
