/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

/*
 * Telling figures: rows for people, records for programs, pictures.
 */

#include <jansson.h>

#include "measure.h"

struct report {
    json_t *records;
    bool goals;   /* print goal and met or not */
    bool library; /* variants wanted: --design */
    bool baselines;
    unsigned nr_failed;
};

/* 0 or -1. */
int
report_open(struct report *r);
void
report_row(struct report *r, const struct measure_row *row);
/* Write the records; NULL: nowhere. 0, or -1 with a message. */
int
report_close(struct report *r, const char *json_path, const char *plot_dir);

/* plot.c: pictures of the records into a folder. Both 0, or -1 with a message;
 * the check comes before the measurement. */
int
plot_check(const char *dir);
int
plot_records(const json_t *records, const char *dir);

#endif
