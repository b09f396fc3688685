/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * avicemu-bench: the library's paths beside the raw operations they stand on.
 * What is quoted is a ratio of one run, never a time.
 */

#include <argp.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tables.h"

const char *argp_program_version = "avicemu-bench 0.1.0";

static const struct bench_table *const tables[] = {
    &bench_post, &bench_entry, &bench_timer,
    &bench_map,  &bench_kvm,   &bench_create,
};
#define NR_TABLES (sizeof(tables) / sizeof(tables[0]))

struct arguments {
    struct bench_options o;
    const char *loop;
    bool list;
};

static const struct argp_option options[] = {
    { "list", 'l', NULL, 0, "List the benchmarks and their variants", 0 },
    { "filter", 'f', "GLOB", 0, "Only benchmarks whose name matches", 0 },
    { "quick", 'q', NULL, 0, "Few samples: does every loop do its work?", 0 },
    { "goals", 'g', NULL, 0, "Show each goal, and whether it was met", 0 },
    { "loop", 'L', "NAME", 0, "Run the library's loop of NAME for ever", 0 },
    { "json", 'j', "FILE", 0, "Write the records to FILE", 0 },
    { "plot", 'p', "DIR", 0, "Draw the ratios into DIR (needs gnuplot)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 },
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;

    switch (key) {
    case 'l':
        a->list = true;
        break;
    case 'f':
        a->o.filter = arg;
        break;
    case 'q':
        a->o.quick = true;
        break;
    case 'g':
        a->o.goals = true;
        break;
    case 'L':
        a->loop = arg;
        break;
    case 'j':
        a->o.json = arg;
        break;
    case 'p':
        a->o.plot = arg;
        break;
    case ARGP_KEY_ARG:
        argp_usage(state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int
list(void)
{
    for (size_t t = 0; t < NR_TABLES; t++) {
        for (size_t i = 0; i < tables[t]->nr_rows; i++) {
            const struct bench_row *r = &tables[t]->rows[i];

            printf("%s\t%s\t%llu\n", r->bench, r->variant,
                   (unsigned long long)r->objects);
        }
    }
    return 0;
}

static int
loop(const char *name)
{
    for (size_t t = 0; t < NR_TABLES; t++) {
        for (size_t i = 0; i < tables[t]->nr_rows; i++) {
            const struct bench_row *r = &tables[t]->rows[i];

            if (strcmp(r->bench, name) != 0 ||
                strcmp(r->variant, "library") != 0) {
                continue;
            }
            void *arg = r->setup != NULL ? r->setup(r->objects) : NULL;

            for (;;) {
                bench_use(r->run(arg, r->batch != 0 ? r->batch : 4096));
            }
        }
    }
    (void)fprintf(stderr, "avicemu-bench: no benchmark %s; see --list\n", name);
    return 2;
}

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Measures the library's paths as ratios to the raw operations.",
        NULL,
        NULL,
        NULL
    };
    struct arguments a = { .loop = NULL };

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0) {
        return 2;
    }
    if (a.list) {
        return list();
    }
    if (a.loop != NULL) {
        return loop(a.loop);
    }
    for (size_t t = 0; t < NR_TABLES; t++) {
        bench_measure(tables[t], &a.o);
    }
    return bench_finish(&a.o);
}
