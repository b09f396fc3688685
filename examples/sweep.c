/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of look-ups: a row for each ratio and design. Designs of a ratio run
 * A B C A B C, so that what the machine does beside hits them alike; a row adds
 * both runs up, its quantiles are their means.
 */

#include "sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "variant.h"

#define ROUNDS 2u
#define MAX    16u
#define BAR    30u

struct row {
    const struct avicemu_mock_variant *design;
    struct avicemu_mock_iommu_report sum;
    uint64_t completed, elapsed_ns;
    int closed;
};

struct table {
    const struct sweep *sweep;
    struct avicemu_mock_scenario scenario;
    uint32_t nr_vcpus;
    uint32_t nr_ratios, nr_designs;
    uint32_t ratios[MAX]; /* vCPUs to a pCPU */
    const struct avicemu_mock_variant *designs[MAX];
    struct row rows[MAX];
    uint32_t runs_done;
    json_t *records;
};

static volatile sig_atomic_t interrupted;
static const struct avicemu_mock_variant *running;
static struct avicemu_mock_host *host_running;

void
sweep_interrupt(void)
{
    interrupted = 1;
    if (host_running != NULL) {
        running->interrupt(host_running);
    }
}

/* ---- words -------------------------------------------------------------- */

/* The next word of a list; NULL: none is left. */
static char *
word_next(char **list)
{
    return *list == NULL ? NULL : strsep(list, ",");
}

static int
ratios_read(struct table *t)
{
    char *copy = strdup(t->sweep->ratios != NULL ? t->sweep->ratios : "");
    char *list = copy, *word, *end;
    int ok = copy != NULL;

    while (ok && (word = word_next(&list)) != NULL && *word != '\0') {
        unsigned long n =
            strtoul(strncmp(word, "1:", 2) == 0 ? word + 2 : "", &end, 10);

        ok = t->nr_ratios < MAX && *end == '\0' && n >= 1 && n <= t->nr_vcpus &&
             t->nr_vcpus / n <= 512;
        if (ok) {
            t->ratios[t->nr_ratios++] = (uint32_t)n;
        } else {
            (void)fprintf(stderr,
                          "--ratios %s: must be 1:N, 1..%u, and at most 512 "
                          "pCPUs for %u vCPUs\n",
                          word, t->nr_vcpus, t->nr_vcpus);
        }
    }
    free(copy);
    return ok;
}

static int
designs_read(struct table *t)
{
    char *copy =
        strdup(t->sweep->designs != NULL ? t->sweep->designs : "library");
    char *list = copy, *word;
    int ok = copy != NULL;

    while (ok && (word = word_next(&list)) != NULL) {
        const struct avicemu_mock_variant *v =
            t->nr_designs < MAX ? variant_load("vmtable", word) : NULL;

        ok = v != NULL;
        if (ok) {
            t->designs[t->nr_designs++] = v;
        }
    }
    free(copy);
    return ok;
}

/* ---- progress ----------------------------------------------------------- */

static void
on_progress(void *opaque, uint64_t now_ns, uint64_t total_ns)
{
    struct table *t = opaque;
    uint32_t runs = t->nr_ratios * t->nr_designs * ROUNDS;
    uint64_t done =
        t->runs_done * total_ns + (now_ns < total_ns ? now_ns : total_ns);
    uint64_t all = runs * total_ns;
    unsigned full = (unsigned)(done * BAR / all);

    (void)printf("\r[%.*s%.*s] %3u%%  %5.1f s left ", (int)full,
                 "##############################", (int)(BAR - full),
                 "..............................", (unsigned)(done * 100 / all),
                 (double)(all - done) / 1e9);
    (void)fflush(stdout);
}

static void
progress_clear(const struct table *t)
{
    if (!t->sweep->quiet && isatty(STDOUT_FILENO)) {
        (void)printf("\r%60s\r", "");
    }
}

/* ---- runs --------------------------------------------------------------- */

static void
row_add(struct row *row, const struct avicemu_mock_report *report)
{
    const struct avicemu_mock_iommu_report *r = &report->iommu;
    struct avicemu_mock_iommu_report *sum = &row->sum;

    /* Means and quantiles by the number of look-ups, divided when printed. */
    sum->mean += r->mean * (double)r->lookups;
    sum->p99 += r->p99 * (double)r->lookups;
    sum->lookups += r->lookups;
    sum->overlaps += r->overlaps;
    sum->posted += r->posted;
    sum->doorbells += r->doorbells;
    sum->logged += r->logged;
    sum->interrupts += r->interrupts;
    sum->wakes += r->wakes;
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        row->completed += report->vms[i].completed;
    }
    row->elapsed_ns += report->elapsed_ns;
    row->closed &= report->closed != 0;
    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        (void)fprintf(stderr, "FAILED: %s: %s\n", row->design->name,
                      report->failures[i]);
    }
}

static void
run_one(struct table *t, struct row *row)
{
    struct avicemu_mock_options options = {
        .size = sizeof(options),
        .progress =
            t->sweep->quiet || !isatty(STDOUT_FILENO) ? NULL : on_progress,
        .opaque = t,
        .stack_bytes = 128u * 1024u,
    };
    struct avicemu_mock_report *report = NULL;
    struct avicemu_mock_host *host = NULL;
    int rc = row->design->create(&t->scenario, &options, &host);

    if (rc == 0) {
        running = row->design;
        host_running = host;
        rc = row->design->run(host, &report);
        host_running = NULL;
        row->design->destroy(host);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "%s does not run: %s\n", row->design->name,
                      strerror(-rc));
        row->closed = 0;
        return;
    }
    row_add(row, report);
    avicemu_mock_report_free(report);
    t->runs_done++;
}

/* ---- the table ---------------------------------------------------------- */

static double
per_lookup(const struct row *row, double sum)
{
    return row->sum.lookups == 0 ? 0 : sum / (double)row->sum.lookups;
}

static void
head_print(void)
{
    (void)printf("%-5s %-14s %8s %7s %8s %7s %8s %7s %7s %8s %7s %8s %s\n",
                 "ratio", "look-up by", "look-ups", "mean ns", "p99 ns",
                 "overlap", "GA-log", "its IRQ", "bells", "posts", "wakes",
                 "compl/s", "books");
}

static void
row_print(uint32_t ratio, const struct row *row)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "1:%" PRIu32, ratio);
    (void)printf("%-5s %-14s %8" PRIu64 " %7.1f %8.1f %7" PRIu64 " %8" PRIu64
                 " %7" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64
                 " %8.0f %s\n",
                 name, row->design->name, row->sum.lookups,
                 per_lookup(row, row->sum.mean), per_lookup(row, row->sum.p99),
                 row->sum.overlaps, row->sum.logged, row->sum.interrupts,
                 row->sum.doorbells, row->sum.posted, row->sum.wakes,
                 (double)row->completed * 1e9 / (double)row->elapsed_ns,
                 row->closed ? "closed" : "NOT CLOSED");
    (void)fflush(stdout);
}

static void
row_record(struct table *t, uint32_t ratio, const struct row *row)
{
    json_t *record = json_pack(
        "{s:i,s:s,s:I,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:b}", "ratio",
        (int)ratio, "design", row->design->name, "lookups",
        (json_int_t)row->sum.lookups, "mean_ns", per_lookup(row, row->sum.mean),
        "p99_ns", per_lookup(row, row->sum.p99), "overlaps",
        (json_int_t)row->sum.overlaps, "ga_entries",
        (json_int_t)row->sum.logged, "ga_interrupts",
        (json_int_t)row->sum.interrupts, "doorbells",
        (json_int_t)row->sum.doorbells, "posts", (json_int_t)row->sum.posted,
        "wakes", (json_int_t)row->sum.wakes, "completions_per_s",
        (double)row->completed * 1e9 / (double)row->elapsed_ns, "closed",
        row->closed);

    (void)json_array_append_new(t->records, record);
}

/* All designs at one ratio. True: all books closed. */
static int
ratio_run(struct table *t, uint32_t ratio)
{
    int closed = 1;

    t->scenario.nr_pcpus = t->nr_vcpus / ratio;
    memset(t->rows, 0, sizeof(t->rows));
    for (uint32_t d = 0; d < t->nr_designs; d++) {
        t->rows[d].design = t->designs[d];
        t->rows[d].closed = 1;
    }
    for (uint32_t n = 0; n < ROUNDS * t->nr_designs && !interrupted; n++) {
        run_one(t, &t->rows[n % t->nr_designs]);
    }
    progress_clear(t);
    for (uint32_t d = 0; d < t->nr_designs; d++) {
        if (t->rows[d].elapsed_ns != 0) {
            row_print(ratio, &t->rows[d]);
            row_record(t, ratio, &t->rows[d]);
        }
        closed &= t->rows[d].closed;
    }
    return closed;
}

/* Designs that are quick because they do less. */
static void
faults_print(const struct table *t)
{
    for (uint32_t d = 0; d < t->nr_designs; d++) {
        const char *fault = variant_fault(t->designs[d]);

        if (fault != NULL) {
            (void)printf("%s fails the look-up's check: %s\n",
                         t->designs[d]->name, fault);
        }
    }
}

static int
records_write(const struct table *t)
{
    if (t->sweep->json == NULL ||
        json_dump_file(t->records, t->sweep->json, JSON_INDENT(2)) == 0) {
        return 1;
    }
    (void)fprintf(stderr, "%s: cannot be written\n", t->sweep->json);
    return 0;
}

int
sweep_run(const struct sweep *sweep,
          const struct avicemu_mock_scenario *scenario)
{
    static struct table t;
    int closed = 1;

    t = (struct table){ .sweep = sweep, .scenario = *scenario };
    for (uint32_t i = 0; i < scenario->nr_vms; i++) {
        t.nr_vcpus += scenario->vms[i].nr_vcpus;
    }
    if (!ratios_read(&t) || !designs_read(&t)) {
        return 2;
    }
    if (t.nr_ratios == 0) {
        t.ratios[t.nr_ratios++] =
            (t.nr_vcpus + scenario->nr_pcpus - 1) / scenario->nr_pcpus;
    }
    t.records = json_array();
    head_print();
    for (uint32_t i = 0; i < t.nr_ratios && !interrupted; i++) {
        closed &= ratio_run(&t, t.ratios[i]);
    }
    faults_print(&t);
    closed &= records_write(&t);
    json_decref(t.records);
    return closed ? 0 : 1;
}
