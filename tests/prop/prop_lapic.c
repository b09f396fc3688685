/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The library against the model, a million random steps.
 *
 *     prop_lapic                   a new seed, printed
 *     AVICEMU_SEED=n prop_lapic    that run again
 *     AVICEMU_STEPS=n              length, over all episodes
 *     AVICEMU_EPISODE=n            begin with this episode
 *     AVICEMU_SHRINK=0             do not cut a failing run down
 *
 * An episode is one VM of a random model, with its own seed drawn from the
 * first. At the first difference the last operations are printed, then the
 * list is cut down, part by part, as long as the same difference remains.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prop.h"

#define EPISODE 3000
#define TRACE   30
#define MAX_OPS (EPISODE + PROP_PROLOGUE)

static struct prop_op ops[MAX_OPS], shorter[MAX_OPS];
static struct prop_run run;

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* Run the list; how many operations until it failed, nr if it did not. */
static size_t
replay(const struct prop_config *config, const struct prop_op *list, size_t nr)
{
    size_t n = 0;
    bool good = prop_run_begin(&run, config);

    while (good && n < nr) {
        good = prop_run_step(&run, &list[n++]);
    }
    if (good) {
        prop_compare(&run);
    }
    prop_run_end(&run);
    return n;
}

/* What failed, without the numbers: shrinking must not change the subject. */
static void
subject(char *ret, size_t len)
{
    const char *end = strstr(run.message, ": library");

    snprintf(ret, len, "%.*s",
             (int)(end ? end - run.message : (long)strlen(run.message)),
             run.message);
}

static size_t
shrink(const struct prop_config *config, size_t nr)
{
    char wanted[PROP_MESSAGE], got[PROP_MESSAGE];
    bool again = true;

    subject(wanted, sizeof(wanted));
    while (again) {
        again = false;
        for (size_t part = nr / 2 ? nr / 2 : 1; part > 0; part /= 2) {
            for (size_t at = 0; at + part <= nr;) {
                size_t left = nr - part;

                memcpy(shorter, ops, at * sizeof(ops[0]));
                memcpy(shorter + at, ops + at + part,
                       (left - at) * sizeof(ops[0]));
                left = replay(config, shorter, left);
                subject(got, sizeof(got));
                if (run.failed && strcmp(got, wanted) == 0) {
                    memcpy(ops, shorter, left * sizeof(ops[0]));
                    nr = left;
                    again = part == 1;
                } else {
                    at += part;
                }
            }
        }
    }
    (void)replay(config, ops, nr);
    return nr;
}

static void
report(const struct prop_config *config, size_t nr, uint64_t seed,
       uint64_t episode)
{
    size_t first = nr > TRACE ? nr - TRACE : 0;

    printf("seed %" PRIu64 ", episode %" PRIu64 ", step %zu\n", seed, episode,
           nr);
    prop_config_print(config);
    printf("%s\nlast operations:\n", run.message);
    for (size_t i = first; i < nr; i++) {
        printf("%5zu  ", i);
        prop_op_print(&ops[i]);
    }
    if (number_from("AVICEMU_SHRINK", 1) == 0) {
        return;
    }
    nr = shrink(config, nr);
    printf("cut down to %zu operations: %s\n", nr, run.message);
    for (size_t i = 0; i < nr; i++) {
        printf("%5zu  ", i);
        prop_op_print(&ops[i]);
    }
}

static bool
episode(uint64_t seed, uint64_t number, size_t length)
{
    struct prop_random r = { .state = seed + number * 0xd1342543de82ef95 };
    struct prop_config config;
    size_t nr, done;

    /* Through the hash, or an episode's numbers are the next one's, shifted. */
    r.state = prop_u64(&r);
    prop_config_random(&r, &config);
    nr = prop_prologue(&config, ops);
    while (nr < length && nr < MAX_OPS) {
        prop_op_random(&r, &config, &ops[nr++]);
    }
    done = replay(&config, ops, nr);
    if (run.failed) {
        report(&config, done, seed, number);
    }
    return !run.failed;
}

int
main(void)
{
    uint64_t seed = number_from("AVICEMU_SEED", (uint64_t)time(NULL));
    uint64_t steps = number_from("AVICEMU_STEPS", 1000000);
    uint64_t first = number_from("AVICEMU_EPISODE", 0);
    uint64_t done = 0;

    printf("AVICEMU_SEED=%" PRIu64 " AVICEMU_STEPS=%" PRIu64 "\n", seed, steps);
    fflush(stdout);
    for (uint64_t n = first; done < steps; n++) {
        uint64_t left = steps - done;
        size_t length = left < EPISODE ? (size_t)left : EPISODE;

        if (!episode(seed, n, length)) {
            return 1;
        }
        done += length;
    }
    printf("%" PRIu64 " steps, library and model agree\n", done);
    return 0;
}
