/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * avicemu-bench: what the library's paths cost, beside what they cannot do
 * without. Exit status: 0; 1 if a benchmark did not do its work; 2 if it was
 * called wrongly. No time is ever a failure.
 */

#include <argp.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "variant.h"

/* The arrays that bench/meson.build names. */
#define BENCH(name) extern const struct bench bench_##name[];
#include "bench_list.h"
#undef BENCH

#define BENCH(name) bench_##name,
static const struct bench *const all[] = {
#include "bench_list.h"
};
#undef BENCH

#define NR_ALL (sizeof(all) / sizeof(all[0]))

#define LOOP_SECONDS 3600u

static const struct measure_plan full_plan = {
    .repeats = 11,
    .slice_ns = 4000000,
    .max_objects = UINT32_MAX,
    .max_threads = UINT32_MAX,
};
static const struct measure_plan quick_plan = {
    .repeats = 7,
    .slice_ns = 300000,
    .max_objects = 1024,
    .max_threads = 1,
};

struct options {
    const char *filter;
    const char *loop;
    const char *json;
    const char *plot;
    bool list;
    bool quick;
    bool goals;
    bool library, baselines; /* --design */
    const char *check;
};

enum {
    KEY_LIST = 256,
    KEY_FILTER,
    KEY_DESIGN,
    KEY_QUICK,
    KEY_LOOP,
    KEY_JSON,
    KEY_PLOT,
    KEY_GOALS,
    KEY_CHECK,
};

static const struct argp_option argp_options[] = {
    { "list", KEY_LIST, NULL, 0, "Name the benchmarks and measure nothing", 0 },
    { "filter", KEY_FILTER, "GLOB", 0, "Only those whose name matches", 0 },
    { "design", KEY_DESIGN, "A,B", 0,
      "Only these designs: library, baseline (default: library in the table, "
      "both in JSON)",
      0 },
    { "quick", KEY_QUICK, NULL, 0,
      "Within a minute: noisier, no rows of more than 1024 objects, and of "
      "several threads one each",
      0 },
    { "goals", KEY_GOALS, NULL, 0, "Print the goal of each ratio", 0 },
    { "loop", KEY_LOOP, "NAME[/OBJECTS]", 0,
      "Run one loop for an hour, for a profiler", 0 },
    { "check", KEY_CHECK, "BLOCK=DESIGN", 0,
      "Run the block's tests and races on a design, and say what fails", 0 },
    { "json", KEY_JSON, "FILE", 0, "Write the records; - is /dev/stdout", 0 },
    { "plot", KEY_PLOT, "DIR", 0, "Write pictures (needs gnuplot)", 0 },
    { 0 },
};

static void
parse_designs(struct options *o, char *list, struct argp_state *state)
{
    char *save = NULL;

    o->library = o->baselines = false;
    for (char *name = strtok_r(list, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        if (strcmp(name, "library") == 0) {
            o->library = true;
        } else if (strcmp(name, "baseline") == 0) {
            o->baselines = true;
        } else {
            argp_error(state, "no design %s: library, baseline", name);
        }
    }
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case KEY_LIST:
        o->list = true;
        break;
    case KEY_FILTER:
        o->filter = arg;
        break;
    case KEY_DESIGN:
        parse_designs(o, arg, state);
        break;
    case KEY_QUICK:
        o->quick = true;
        break;
    case KEY_LOOP:
        o->loop = arg;
        break;
    case KEY_JSON:
        o->json = strcmp(arg, "-") == 0 ? "/dev/stdout" : arg;
        break;
    case KEY_PLOT:
        o->plot = arg;
        break;
    case KEY_CHECK:
        o->check = arg;
        break;
    case KEY_GOALS:
        o->goals = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool
wanted(const struct options *o, const struct bench *b)
{
    return o->filter == NULL || fnmatch(o->filter, b->name, 0) == 0;
}

static void
list_all(const struct options *o)
{
    for (size_t i = 0; i < NR_ALL; i++) {
        for (const struct bench *b = all[i]; b->name != NULL; b++) {
            if (wanted(o, b)) {
                printf("%s\t%s\tagainst: %s\n", b->name, b->what, b->baseline);
            }
        }
    }
}

static uint32_t
first_objects(const struct bench *b)
{
    return b->objects[0] != 0 ? b->objects[0] : 1;
}

static int
run_loop(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t len = slash != NULL ? (size_t)(slash - name) : strlen(name);

    for (size_t i = 0; i < NR_ALL; i++) {
        for (const struct bench *b = all[i]; b->name != NULL; b++) {
            if (strncmp(b->name, name, len) != 0 || b->name[len] != '\0') {
                continue;
            }
            uint32_t objects = slash != NULL
                                   ? (uint32_t)strtoul(slash + 1, NULL, 10)
                                   : first_objects(b);

            if (objects == 0 || !measure_loop(b, objects, LOOP_SECONDS)) {
                (void)fprintf(stderr, "avicemu-bench: %s has no such loop\n",
                              name);
                return 2;
            }
            return 0;
        }
    }
    (void)fprintf(stderr, "avicemu-bench: no benchmark %s; see --list\n", name);
    return 2;
}

static void
run_bench(const struct bench *b, const struct measure_plan *plan,
          struct report *report)
{
    for (unsigned i = 0; i == 0 || b->objects[i] != 0; i++) {
        uint32_t objects = i == 0 ? first_objects(b) : b->objects[i];
        struct measure_row row;

        if (objects <= plan->max_objects &&
            (i == 0 || b->threads <= plan->max_threads)) {
            measure_row(b, objects, plan, &row);
            report_row(report, &row);
        }
    }
}

static int
run_all(const struct options *o)
{
    struct report report = {
        .goals = o->goals,
        .library = o->library,
        .baselines = o->baselines,
    };
    unsigned nr = 0;

    if ((o->plot != NULL && plot_check(o->plot) != 0) ||
        report_open(&report) != 0) {
        return 1;
    }
    for (size_t i = 0; i < NR_ALL; i++) {
        for (const struct bench *b = all[i]; b->name != NULL; b++) {
            if (wanted(o, b)) {
                run_bench(b, o->quick ? &quick_plan : &full_plan, &report);
                nr++;
            }
        }
    }
    if (report_close(&report, o->json, o->plot) != 0) {
        return 1;
    }
    if (nr == 0) {
        (void)fprintf(stderr, "avicemu-bench: nothing matches; see --list\n");
        return 2;
    }
    return report.nr_failed != 0;
}

/* A design against its block's contract. */
static int
run_check(const char *what)
{
    const char *name = strchr(what, '=');
    const struct avicemu_mock_variant *v;
    const char *fault;

    if (name == NULL || strncmp(what, "vmtable=", 8) != 0) {
        (void)fprintf(stderr, "--check %s: must be vmtable=DESIGN, one of",
                      what);
        for (unsigned i = 0; variant_vmtable_names[i] != NULL; i++) {
            (void)fprintf(stderr, " %s", variant_vmtable_names[i]);
        }
        (void)fputc('\n', stderr);
        return 2;
    }
    v = variant_load("vmtable", name + 1);
    if (v == NULL) {
        return 2;
    }
    fault = variant_fault(v);
    printf("%s: %s\n", what, fault == NULL ? "passes" : fault);
    return fault != NULL;
}

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Measure libavicemu's paths, each as a ratio to a baseline in "
               "the same run.",
    };
    struct options o = { .library = true, .baselines = true };

    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0) {
        return 2;
    }
    if (o.list) {
        list_all(&o);
        return 0;
    }
    if (o.check != NULL) {
        return run_check(o.check);
    }
    measure_init();
    return o.loop != NULL ? run_loop(o.loop) : run_all(&o);
}
