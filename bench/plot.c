/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pictures, by gnuplot on a pipe: all ratios as bars, and the rows that exist
 * for several numbers of objects as curves.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

static const char *
text_of(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

static double
number_of(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

static bool
is_library(const json_t *record)
{
    return strcmp(text_of(record, "variant"), "library") == 0;
}

static bool
gnuplot_is_there(void)
{
    const char *path = getenv("PATH");
    char *copy = strdup(path != NULL ? path : "/usr/bin");
    char *save = NULL;
    bool found = false;

    for (char *dir = copy == NULL ? NULL : strtok_r(copy, ":", &save);
         dir != NULL && !found; dir = strtok_r(NULL, ":", &save)) {
        char file[4096];
        int len = snprintf(file, sizeof(file), "%s/gnuplot", dir);

        found =
            len > 0 && (size_t)len < sizeof(file) && access(file, X_OK) == 0;
    }
    free(copy);
    return found;
}

static void
plot_ratios(FILE *g, const json_t *records, const char *dir)
{
    size_t i;
    const json_t *r;
    int nr = 0;

    fprintf(g, "$ratios << EOD\n");
    json_array_foreach(records, i, r)
    {
        if (is_library(r) && number_of(r, "ratio") > 0) {
            fprintf(g, "\"%s, %.0f / %s\" %g\n", text_of(r, "bench"),
                    number_of(r, "objects"), text_of(r, "baseline"),
                    number_of(r, "ratio"));
            nr++;
        }
    }
    fprintf(g, "EOD\n");
    if (nr == 0) {
        return;
    }
    fprintf(g,
            "set terminal svg size 1000,%d noenhanced background 'white'\n"
            "set output '%s/ratios.svg'\n"
            "set title 'time / time of the baseline in the same run'\n"
            "set logscale x\nset xtics\nset grid x\nunset key\n"
            "set yrange [%d:-1]\nset lmargin 50\n"
            "set style fill solid\n"
            "set arrow 1 from 1,-1 to 1,%d nohead lw 2\n"
            "plot $ratios using (sqrt($2)):0:(($2>1)?1:$2):(($2>1)?$2:1):"
            "($0-0.35):($0+0.35):ytic(1) with boxxyerror\n",
            60 + 18 * nr, dir, nr, nr);
}

/* The next record of another benchmark with several rows, or NULL. */
static bool
curve_begins(const json_t *records, size_t at)
{
    const json_t *r = json_array_get(records, at);
    size_t nr = 0;
    size_t i;
    const json_t *o;

    if (!is_library(r) || strcmp(text_of(r, "unit"), "ns") != 0) {
        return false;
    }
    json_array_foreach(records, i, o)
    {
        if (is_library(o) &&
            strcmp(text_of(o, "bench"), text_of(r, "bench")) == 0) {
            if (i < at) {
                return false;
            }
            nr++; /* no name has two rows of the same number of objects */
        }
    }
    return nr > 1;
}

static void
plot_curves(FILE *g, const json_t *records, const char *dir)
{
    size_t i;
    const json_t *r;
    int nr = 0;

    json_array_foreach(records, i, r)
    {
        size_t k;
        const json_t *o;

        if (!curve_begins(records, i)) {
            continue;
        }
        fprintf(g, "$curve%d << EOD\n", nr++);
        json_array_foreach(records, k, o)
        {
            if (is_library(o) &&
                strcmp(text_of(o, "bench"), text_of(r, "bench")) == 0) {
                fprintf(g, "%g %g\n", number_of(o, "objects"),
                        number_of(o, "p50"));
            }
        }
        fprintf(g, "EOD\nname%d = \"%s\"\n", nr - 1, text_of(r, "bench"));
    }
    if (nr == 0) {
        return;
    }
    fprintf(g,
            "reset\nset terminal svg size 1000,700 noenhanced background "
            "'white'\nset output '%s/objects.svg'\n"
            "set title 'median, by number of vCPUs'\n"
            "set logscale xy\nset xlabel 'vCPUs'\nset ylabel 'ns'\nset grid\n"
            "set key outside right\nplot ",
            dir);
    for (int c = 0; c < nr; c++) {
        fprintf(g, "%s$curve%d with linespoints title name%d",
                c == 0 ? "" : ", ", c, c);
    }
    fprintf(g, "\n");
}

int
plot_check(const char *dir)
{
    if (!gnuplot_is_there()) {
        (void)fprintf(stderr, "avicemu-bench: --plot needs gnuplot: "
                              "apt-get install gnuplot-nox\n");
        return -1;
    }
    if (strchr(dir, '\'') != NULL ||
        (mkdir(dir, 0777) != 0 && errno != EEXIST)) {
        (void)fprintf(stderr, "avicemu-bench: cannot make folder %s\n", dir);
        return -1;
    }
    return 0;
}

int
plot_records(const json_t *records, const char *dir)
{
    (void)signal(SIGPIPE, SIG_IGN);
    FILE *g = popen("gnuplot", "w");

    if (g == NULL) {
        (void)fprintf(stderr, "avicemu-bench: gnuplot does not start\n");
        return -1;
    }
    plot_ratios(g, records, dir);
    plot_curves(g, records, dir);
    if (pclose(g) != 0) {
        (void)fprintf(stderr, "avicemu-bench: gnuplot failed\n");
        return -1;
    }
    printf("# pictures: %s/ratios.svg, %s/objects.svg\n", dir, dir);
    return 0;
}
