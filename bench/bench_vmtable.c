/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GA tag -> vCPU: the library's VM table against the floor, one array load
 * indexed by the tag without protection, and against the kernel's table under
 * locks and RCU. All of them are variants (variant.h): their loops are compiled
 * alike, a batch of 512 look-ups per drain, the kernel's whole log. All look up
 * the same random tags, and compare who is found.
 *
 * Objects are live entries: to 12, VMs of one vCPU; 1024, VMs of 32; above,
 * VMs of 256. The first thread is measured; the others look up all the time. In
 * rows -w, one more thread publishes and removes a vCPU, 100,000 changes a
 * second if it can. Rows with more threads than CPUs count the first thread's
 * CPU time. Rows -each time every look-up by itself, the timer's median taken
 * off: their p99 and p99.9 are of look-ups, not of samples of many.
 *
 * Rows -writer count changes a second, of 100,000 asked, beside one reader or
 * 8: a vCPU of a VM with another one is published and removed, and nobody waits
 * for readers; rows -change what one takes, in ns. Rows -teardown are the last
 * vCPU of a VM: published, removed, and waited for, in ns. The library waits
 * for every batch that may have found the vCPU, wakes included, which no rival
 * does: the RCU hash waits for look-ups, the locks for nothing.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crowd.h"
#include "harness.h"
#include "variant.h"

#define OTHERS    256u      /* look-ups of the others at a time */
#define EXTRA_TAG 0x138801u /* the writer's: VM 5000, of which one stays */
#define LAST_TAG  0x138900u /* VM 5001's only one */
#define CHANGES_S 100000u
#define WRITE_MS  250u

enum what {
    WHAT_LIBRARY,
    WHAT_BASE,
    WHAT_NOTHING, /* the base is the library, and the others rest */
};

/* A design with its table, filled. */
struct design {
    const struct variant_vmtable *loop;
    void *table;
    void *readers[CROWD_MAX + 1];
};

struct vmtable {
    struct crowd crowd;
    uint64_t found; /* by the measured thread, in the library's table */
    /* Constant once the threads run. */
    _Alignas(128) struct design library;
    struct design rival; /* loop NULL: the floor */
    void **floor;
    unsigned nr_others;
    bool writes; /* the last of them does */
    bool tears_down;
    uint32_t base; /* enum what */
    struct {
        _Alignas(128) struct keys keys;
    } readers[CROWD_MAX + 1];
    /* The writer's: when it changes again; changes, and ticks they took. */
    _Alignas(128) _Atomic uint64_t next;
    _Atomic uint64_t changes, ticks;
};

static uint64_t
floor_find(const struct vmtable *v, struct keys *keys, uint64_t n)
{
    struct keys k = *keys;
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t tag = keys_next(&k);

        found += v->floor[tag] == keys_who(tag);
    }
    *keys = k;
    return found;
}

static uint64_t
find(struct vmtable *v, uint32_t what, unsigned reader, uint64_t n)
{
    const struct design *d = what == WHAT_BASE ? &v->rival : &v->library;
    struct keys *keys = &v->readers[reader].keys;

    return d->loop == NULL
               ? floor_find(v, keys, n)
               : d->loop->find(d->table, d->readers[reader], keys, n);
}

/* ---- the others --------------------------------------------------------- */

static void
change(struct vmtable *v, uint32_t what)
{
    const struct design *d = what == WHAT_LIBRARY ? &v->library : &v->rival;
    uint64_t from = bench_tsc(), next = atomic_load(&v->next);

    if (from < next || d->loop == NULL) {
        bench_relax();
        return;
    }
    /* Late ones are made up for, as far as it can. */
    atomic_store(&v->next,
                 (next == 0 ? from : next) + 2 * bench_tsc_hz() / CHANGES_S);
    if (v->tears_down) {
        (void)d->loop->publish(d->table, LAST_TAG);
        d->loop->remove(d->table, LAST_TAG);
        d->loop->synchronize(d->table);
    } else {
        (void)d->loop->publish(d->table, EXTRA_TAG);
        d->loop->remove(d->table, EXTRA_TAG);
    }
    (void)atomic_fetch_add(&v->ticks, bench_tsc() - from);
    (void)atomic_fetch_add(&v->changes, 2);
}

static void
others_burst(void *state, unsigned n, uint32_t what)
{
    struct vmtable *v = state;

    if (what == WHAT_NOTHING) {
        (void)usleep(1000);
    } else if (v->writes && n + 1 == v->nr_others) {
        change(v, what);
    } else {
        bench_use(find(v, what, n + 1, OTHERS));
    }
}

/* ---- rows --------------------------------------------------------------- */

/* A row's name says its rival. */
static const char *
rival_of(const char *name)
{
    static const char *const rivals[] = { "spinlock_hash", "rcu_hash",
                                          "mutex_hash", "rwlock_hash" };

    for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
        if (strstr(name, "-vs-") != NULL &&
            strncmp(strstr(name, "-vs-") + 4, rivals[i],
                    strcspn(rivals[i], "_")) == 0) {
            return rivals[i];
        }
    }
    return NULL;
}

/* Say once of a design that it fails its check. */
static void
mark(const struct avicemu_mock_variant *variant)
{
    static const struct avicemu_mock_variant *marked[8];
    const char *fault = variant_fault(variant);

    for (unsigned i = 0; fault != NULL && i < 8; i++) {
        if (marked[i] == variant) {
            return;
        }
        if (marked[i] == NULL) {
            marked[i] = variant;
            printf("# vmtable=%s fails its check: %s\n", variant->name, fault);
            return;
        }
    }
}

static bool
design_open(struct design *d, const char *name, const struct keys *k,
            unsigned readers)
{
    const struct avicemu_mock_variant *variant = variant_load("vmtable", name);
    bool ok = variant != NULL;

    if (ok) {
        mark(variant);
    }
    d->loop = ok ? variant->loop : NULL;
    d->table = ok ? d->loop->create() : NULL;
    ok = d->table != NULL;
    for (uint32_t i = 0; ok && i < k->nr; i++) {
        ok = d->loop->publish(d->table, keys_tag(k, i));
    }
    ok = ok && d->loop->publish(d->table, EXTRA_TAG - 1);
    for (unsigned i = 0; ok && i < readers; i++) {
        d->readers[i] = d->loop->reader(d->table);
        ok = d->readers[i] != NULL;
    }
    return ok;
}

static void
design_close(const struct design *d, const struct keys *k, unsigned readers)
{
    if (d->loop != NULL) {
        for (uint32_t i = 0; i < k->nr; i++) {
            d->loop->remove(d->table, keys_tag(k, i));
        }
        d->loop->remove(d->table, EXTRA_TAG - 1);
        for (unsigned i = 0; i < readers; i++) {
            d->loop->reader_end(d->table, d->readers[i]);
        }
        d->loop->destroy(d->table);
    }
}

static bool
floor_open(struct vmtable *v, const struct keys *k)
{
    v->floor = calloc(keys_tag(k, k->nr) + 1, sizeof(v->floor[0]));
    for (uint32_t i = 0; v->floor != NULL && i < k->nr; i++) {
        v->floor[keys_tag(k, i)] = keys_who(keys_tag(k, i));
    }
    return v->floor != NULL;
}

static int
vmtable_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct vmtable *v = aligned_alloc(128, (sizeof(*v) + 127) / 128 * 128);
    const char *rival = rival_of(b->name);
    unsigned threads = b->threads != 0 ? b->threads : 1;
    struct keys k = { .nr = objects,
                      .per_vm_shift = objects <= 12     ? 0
                                      : objects <= 1024 ? 5
                                                        : 8 };

    if (v == NULL) {
        return bench_fail("no memory");
    }
    *v = (struct vmtable){ .writes = strstr(b->name, "-w") != NULL };
    v->tears_down = strstr(b->name, "-teardown") != NULL;
    v->writes |= v->tears_down;
    v->base = strstr(b->name, "-vs-alone") != NULL ? WHAT_NOTHING : WHAT_BASE;
    for (unsigned i = 0; i < threads; i++) {
        v->readers[i].keys = k;
        v->readers[i].keys.random = i + 1;
    }
    if (!design_open(&v->library, "library", &k, threads) ||
        !(rival != NULL ? design_open(&v->rival, rival, &k, threads)
                        : floor_open(v, &k))) {
        return bench_fail("no memory, or no such design");
    }
    v->nr_others = threads - 1;
    if (!crowd_start(&v->crowd, v->nr_others, WHAT_LIBRARY, others_burst, v)) {
        return bench_fail("pthread_create");
    }
    *ret = v;
    return 0;
}

static void
vmtable_close(void *state)
{
    struct vmtable *v = state;
    const struct keys *k = &v->readers[0].keys;

    crowd_stop(&v->crowd);
    design_close(&v->library, k, v->nr_others + 1);
    design_close(&v->rival, k, v->nr_others + 1);
    free(v->floor);
    free(v);
}

static void
library_prepare(void *state)
{
    crowd_change(&((struct vmtable *)state)->crowd, WHAT_LIBRARY);
}

static void
library_run(void *state, uint64_t n)
{
    struct vmtable *v = state;

    v->found += find(v, WHAT_LIBRARY, 0, n);
}

static void
base_prepare(void *state)
{
    struct vmtable *v = state;

    crowd_change(&v->crowd, v->base);
}

static void
base_run(void *state, uint64_t n)
{
    struct vmtable *v = state;

    bench_use(find(v, v->base, 0, n));
}

static bool
vmtable_check(void *state, uint64_t nr_ops)
{
    return ((struct vmtable *)state)->found == nr_ops;
}

/* ---- the writer --------------------------------------------------------- */

/* Changes in some time beside the readers, of which the caller is one. */
static void
writer_run(struct vmtable *v, uint32_t what, double *ret_per_s, double *ret_ns)
{
    uint64_t hz = bench_tsc_hz(), from, ticks;

    crowd_change(&v->crowd, what);
    atomic_store(&v->next, 0);
    atomic_store(&v->changes, 0);
    atomic_store(&v->ticks, 0);
    from = bench_tsc();
    do {
        bench_use(find(v, what, 0, OTHERS));
        ticks = bench_tsc() - from;
    } while (ticks < hz / 1000 * WRITE_MS);
    uint64_t n = atomic_load(&v->changes);

    *ret_per_s = (double)n * (double)hz / (double)ticks;
    *ret_ns =
        n == 0 ? 0
               : (double)atomic_load(&v->ticks) * 1e9 / (double)hz / (double)n;
}

static double
library_rate(void *state)
{
    double rate, ns;

    writer_run(state, WHAT_LIBRARY, &rate, &ns);
    return rate;
}

static double
base_rate(void *state)
{
    double rate, ns;

    writer_run(state, WHAT_BASE, &rate, &ns);
    return rate;
}

static double
asked_rate(void *state)
{
    (void)state;
    return CHANGES_S;
}

static double
library_change(void *state)
{
    double rate, ns;

    writer_run(state, WHAT_LIBRARY, &rate, &ns);
    return ns;
}

static double
base_change(void *state)
{
    double rate, ns;

    writer_run(state, WHAT_BASE, &rate, &ns);
    return ns;
}

#define ROW_OPS(name_, what_, base_, threads_, goal_, ops_, ...)            \
    {                                                                       \
        .name = name_, .what = "GA tag to vCPU: " what_, .baseline = base_, \
        .goal = (goal_), .objects = { __VA_ARGS__ }, .threads = (threads_), \
        .ops = (ops_), .open = vmtable_open, .prepare = library_prepare,    \
        .run = library_run, .base_prepare = base_prepare, .base = base_run, \
        .check = vmtable_check, .close = vmtable_close                      \
    }
#define ROW(name_, what_, base_, threads_, goal_, ...) \
    ROW_OPS(name_, what_, base_, threads_, goal_, 0, __VA_ARGS__)
#define WRITER(name_, threads_, unit_, base_, run_, base_run_)            \
    {                                                                     \
        .name = name_, .what = "GA tag to vCPU: a writer beside readers", \
        .baseline = base_, .unit = unit_, .objects = { 12, 100000 },      \
        .threads = (threads_), .open = vmtable_open, .value = run_,       \
        .base_value = base_run_, .close = vmtable_close                   \
    }
#define ALL  1, 12, 1024, 100000, 1000000
#define SOME 12, 100000, 1000000
/* 1, 2 and 8 readers, without and with a writer; goals: one reader, more. */
#define READERS(name_, base_, goal_1_, goal_)                            \
    ROW(name_, "one reader", base_, 1, goal_1_, ALL),                    \
        ROW(name_ "-2", "2 readers", base_, 2, goal_, ALL),              \
        ROW(name_ "-8", "8 readers", base_, 8, goal_, ALL),              \
        ROW(name_ "-w", "one reader, a writer", base_, 2, goal_1_, ALL), \
        ROW(name_ "-2-w", "2 readers, a writer", base_, 3, goal_, ALL),  \
        ROW(name_ "-8-w", "8 readers, a writer", base_, 9, goal_, ALL)
/* Beside one reader and 8, on all rivals. */
#define WRITERS(name_, unit_, run_, base_run_)                                 \
    WRITER(name_ "-vs-spinlock", 2, unit_, "spinlock", run_, base_run_),       \
        WRITER(name_ "-vs-rcu", 2, unit_, "RCU hash", run_, base_run_),        \
        WRITER(name_ "-vs-mutex", 2, unit_, "mutex", run_, base_run_),         \
        WRITER(name_ "-vs-rwlock", 2, unit_, "rwlock", run_, base_run_),       \
        WRITER(name_ "-8-vs-spinlock", 9, unit_, "spinlock", run_, base_run_), \
        WRITER(name_ "-8-vs-rcu", 9, unit_, "RCU hash", run_, base_run_),      \
        WRITER(name_ "-8-vs-mutex", 9, unit_, "mutex", run_, base_run_),       \
        WRITER(name_ "-8-vs-rwlock", 9, unit_, "rwlock", run_, base_run_)

const struct bench bench_vmtable[] = {
    READERS("vmtable", "array load", 2.0, 2.0), /* to 1024; 1.5 at a million */
    READERS("vmtable-vs-spinlock", "spinlock", 1 / 3.0, 1 / 20.0),
    READERS("vmtable-vs-rcu", "RCU hash", 0, 0),
    READERS("vmtable-vs-mutex", "mutex", 0, 0),
    READERS("vmtable-vs-rwlock", "rwlock", 0, 0),
    ROW("vmtable-vs-alone-2", "2 readers", "the same alone", 2, 1.3, ALL),
    ROW("vmtable-vs-alone-8", "8 readers", "the same alone", 8, 1.3, ALL),
    ROW("vmtable-vs-alone-w", "a writer", "the same alone", 2, 1.3, ALL),
    ROW_OPS("vmtable-each", "each, one reader", "array load", 1, 0, 1, SOME),
    ROW_OPS("vmtable-each-vs-spinlock", "each, one reader", "spinlock", 1, 0, 1,
            SOME),
    ROW_OPS("vmtable-each-vs-spinlock-2", "each, 2 readers", "spinlock", 2, 0,
            1, SOME),
    ROW_OPS("vmtable-each-vs-spinlock-8", "each, 8 readers", "spinlock", 8, 0,
            1, SOME),
    ROW_OPS("vmtable-each-vs-rcu-2", "each, 2 readers", "RCU hash", 2, 0, 1,
            SOME),
    WRITER("vmtable-writer", 2, "changes/s", "asked", library_rate, asked_rate),
    WRITER("vmtable-writer-8", 9, "changes/s", "asked", library_rate,
           asked_rate),
    WRITERS("vmtable-writer", "changes/s", library_rate, base_rate),
    WRITERS("vmtable-writer-change", "ns", library_change, base_change),
    WRITER("vmtable-teardown-vs-rcu", 2, "ns", "RCU hash", library_change,
           base_change),
    WRITER("vmtable-teardown-8-vs-rcu", 9, "ns", "RCU hash", library_change,
           base_change),
    { .name = NULL },
};
