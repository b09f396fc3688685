/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One tab-separated line per row on stdout, as it is measured; lines that begin
 * with # are no rows. One JSON record per measurement: the library's, and its
 * baseline's with ratio 1.
 */

#include "report.h"

#include <math.h>
#include <stdio.h>

int
report_open(struct report *r)
{
    r->records = json_array();
    if (r->records == NULL) {
        return -1;
    }
    printf(
        "name\tthreads\titerations\tmedian\tp99\tp99.9\tratio\tobjects\tunit\t"
        "variant\tbaseline\tits_median\tnoise_%%%s\tnote\n",
        r->goals ? "\tgoal\tgoal_met" : "");
    return 0;
}

static const char *
unit_of(const struct measure_row *row)
{
    return row->bench->unit != NULL ? row->bench->unit : "ns";
}

static void
record(struct report *r, const struct measure_row *row, const char *variant,
       const struct measure_figures *f, double ratio)
{
    json_t *j = json_pack(
        "{s:s, s:s, s:i, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, "
        "s:s, s:f}",
        "bench", row->bench->name, "variant", variant, "threads",
        (int)row->threads, "objects", (json_int_t)row->objects, "unit",
        unit_of(row), "mean", f->mean, "p50", f->p50, "p99", f->p99, "p999",
        f->p999, "min", f->min, "max", f->max, "repeats", (int)row->repeats,
        "ratio", ratio, "baseline", row->bench->baseline, "noise", row->noise);

    if (j == NULL || json_array_append_new(r->records, j) != 0) {
        (void)fprintf(stderr, "avicemu-bench: no memory for a record\n");
        r->nr_failed++;
    }
}

static void
print_goal(const struct measure_row *row)
{
    double goal = row->bench->goal;

    if (goal > 0) {
        /* The goal holds for the ratio as it is, also where it is "same". */
        printf("\t%.3g\t%s", goal, row->ratio <= goal ? "met" : "not_met");
    } else {
        printf("\t-\t-");
    }
}

/* A difference that two measurements of the same loop show, too, is none. */
static void
print_ratio(const struct measure_row *row)
{
    if (fabs(row->ratio - 1) < row->noise) {
        printf("\tsame");
    } else {
        printf("\t%.3g", row->ratio);
    }
}

static void
print_row(const struct report *r, const struct measure_row *row,
          const char *variant, const struct measure_figures *f)
{
    bool library = f == &row->run;

    printf("%s\t%u\t%llu\t%.4g\t%.4g\t%.4g", row->bench->name, row->threads,
           (unsigned long long)row->nr_ops, f->p50, f->p99, f->p999);
    if (library) {
        print_ratio(row);
    } else {
        printf("\t1");
    }
    printf("\t%u\t%s\t%s\t%s\t%.4g\t%.1f", row->objects, unit_of(row), variant,
           row->bench->baseline, row->base.p50, row->noise * 100);
    if (r->goals && library) {
        print_goal(row);
    } else if (r->goals) {
        printf("\t-\t-");
    }
    printf("\t%s\n", row->oversubscribed ? "oversubscribed, CPU time" : "-");
}

void
report_row(struct report *r, const struct measure_row *row)
{
    switch (row->outcome) {
    case MEASURE_SKIPPED:
        printf("# %s skipped: %s\n", row->bench->name, row->why);
        break;
    case MEASURE_FAILED:
        printf("# %s, %u objects FAILED: %s\n", row->bench->name, row->objects,
               row->why);
        r->nr_failed++;
        break;
    case MEASURE_DONE:
    default:
        if (r->library) {
            print_row(r, row, "library", &row->run);
            record(r, row, "library", &row->run, row->ratio);
        }
        if (r->baselines) {
            if (!r->library) {
                print_row(r, row, "baseline", &row->base);
            }
            record(r, row, "baseline", &row->base, 1.0);
        }
        break;
    }
    (void)fflush(stdout);
}

int
report_close(struct report *r, const char *json_path, const char *plot_dir)
{
    int result = 0;

    if (json_path != NULL &&
        json_dump_file(r->records, json_path,
                       JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0) {
        (void)fprintf(stderr, "avicemu-bench: cannot write %s\n", json_path);
        result = -1;
    }
    if (plot_dir != NULL && plot_records(r->records, plot_dir) != 0) {
        result = -1;
    }
    json_decref(r->records);
    return result;
}
