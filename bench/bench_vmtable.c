/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GA tag -> vCPU: the library's VM table, a batch of 64 look-ups per drain,
 * against the floor, one array load indexed by the tag without protection, and
 * against the kernel's table under locks and RCU (rivals/vmtable). All look up
 * the same random tags, and compare who is found.
 *
 * Objects are live entries: to 12, VMs of one vCPU; 1024, VMs of 32; above,
 * VMs of 256. The first thread is measured; the others look up all the time. In
 * rows -w, one more thread inserts and removes a VM, 100,000 changes a second
 * if it can. Rows with more threads than CPUs count the first
 * thread's CPU time.
 */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "crowd.h"
#include "harness.h"
#include "hv/vmtable.h"
#include "rivals/vmtable/hash.h"

#define BATCH     64u
#define EXTRA_ID  5000u /* the writer's VM */
#define CHANGES_S 100000u

extern const struct vmtable_rival vmtable_spinlock_hash, vmtable_rcu_hash,
    vmtable_mutex_hash, vmtable_rwlock_hash;

enum what {
    WHAT_LIBRARY,
    WHAT_BASE,
};

struct reader {
    _Alignas(128) struct keys keys;
    struct ae_drain *drain;
};

struct vmtable {
    struct crowd crowd;
    uint64_t found; /* by the measured thread, in the library's table */
    /* Constant once the threads run. */
    _Alignas(128) struct ae_vmtable table;
    const struct vmtable_rival *rival; /* NULL: the floor */
    void *rival_table;
    void **floor;
    bool writes; /* the last thread does */
    struct reader readers[CROWD_MAX + 1];
    _Alignas(128) uint64_t next; /* the writer's: when it changes again */
};

static uint64_t
library_find(const struct vmtable *v, struct reader *r, uint64_t n)
{
    struct keys k = r->keys;
    uint64_t found = 0;

    for (uint64_t done = 0; done < n;) {
        uint64_t end = n - done < BATCH ? n : done + BATCH;

        ae_drain_begin(r->drain);
        for (; done < end; done++) {
            uint32_t tag = keys_next(&k);

            found += (void *)ae_vmtable_find(&v->table, tag) == keys_who(tag);
        }
        ae_drain_end(r->drain);
    }
    r->keys = k;
    return found;
}

static uint64_t
floor_find(const struct vmtable *v, struct reader *r, uint64_t n)
{
    struct keys k = r->keys;
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t tag = keys_next(&k);

        found += v->floor[tag] == keys_who(tag);
    }
    r->keys = k;
    return found;
}

static uint64_t
base_find(const struct vmtable *v, struct reader *r, uint64_t n)
{
    return v->rival == NULL ? floor_find(v, r, n)
                            : v->rival->find(v->rival_table, &r->keys, n);
}

/* ---- the others --------------------------------------------------------- */

static void
change(struct vmtable *v, uint32_t what)
{
    uint32_t tag = EXTRA_ID << 8;

    if (bench_tsc() < v->next) {
        bench_relax();
        return;
    }
    v->next = bench_tsc() + 2 * bench_tsc_hz() / CHANGES_S;
    if (what == WHAT_LIBRARY) {
        (void)ae_vmtable_publish(&v->table, tag, keys_who(tag));
        ae_vmtable_remove(&v->table, tag);
    } else if (v->rival != NULL &&
               v->rival->insert(v->rival_table, EXTRA_ID, 1)) {
        v->rival->remove(v->rival_table, EXTRA_ID);
    }
}

static void
others_burst(void *state, unsigned n, uint32_t what)
{
    struct vmtable *v = state;
    struct reader *r = &v->readers[n + 1];

    if (v->writes && n + 1 == v->crowd.nr) {
        change(v, what);
    } else {
        bench_use(what == WHAT_LIBRARY ? library_find(v, r, 4 * BATCH)
                                       : base_find(v, r, 4 * BATCH));
    }
}

/* ---- rows --------------------------------------------------------------- */

static const struct vmtable_rival *
rival_of(const char *name)
{
    static const struct {
        const char *word;
        const struct vmtable_rival *rival;
    } rivals[] = {
        { "-vs-spinlock", &vmtable_spinlock_hash },
        { "-vs-rcu", &vmtable_rcu_hash },
        { "-vs-mutex", &vmtable_mutex_hash },
        { "-vs-rwlock", &vmtable_rwlock_hash },
    };

    for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
        if (strstr(name, rivals[i].word) != NULL) {
            return rivals[i].rival;
        }
    }
    return NULL;
}

static bool
fill(struct vmtable *v, const struct keys *k)
{
    uint32_t per_vm = 1u << k->per_vm_shift;
    bool ok = true;

    if (v->rival != NULL) {
        v->rival_table = v->rival->create();
        ok = v->rival_table != NULL;
        for (uint32_t id = 1; ok && id <= k->nr / per_vm + 1; id++) {
            ok = v->rival->insert(v->rival_table, id, per_vm);
        }
    } else {
        v->floor = calloc(keys_tag(k, k->nr) + 1, sizeof(v->floor[0]));
        ok = v->floor != NULL;
    }
    for (uint32_t i = 0; ok && i < k->nr; i++) {
        uint32_t tag = keys_tag(k, i);

        ok = ae_vmtable_publish(&v->table, tag, keys_who(tag)) == 0;
        if (v->floor != NULL) {
            v->floor[tag] = keys_who(tag);
        }
    }
    return ok;
}

static int
vmtable_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct vmtable *v = aligned_alloc(128, (sizeof(*v) + 127) / 128 * 128);
    struct keys k = { .nr = objects,
                      .per_vm_shift = objects <= 12     ? 0
                                      : objects <= 1024 ? 5
                                                        : 8 };

    if (v == NULL) {
        return bench_fail("no memory");
    }
    *v = (struct vmtable){ .rival = rival_of(b->name),
                           .writes = strstr(b->name, "-w") != NULL };
    if (ae_vmtable_init(&v->table, &ae_default_allocator, AE_TAG_24_8) != 0) {
        return bench_fail("no memory");
    }
    for (unsigned i = 0; i < b->threads; i++) {
        v->readers[i].keys = k;
        v->readers[i].keys.random = i + 1;
        if (ae_drain_create(&v->table, &v->readers[i].drain) != 0) {
            return bench_fail("no memory");
        }
    }
    if (!fill(v, &k)) {
        return bench_fail("no memory");
    }
    if (!crowd_start(&v->crowd, b->threads - 1, WHAT_LIBRARY, others_burst,
                     v)) {
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
    for (uint32_t i = 0; i < k->nr; i++) {
        ae_vmtable_remove(&v->table, keys_tag(k, i));
    }
    ae_vmtable_fini(&v->table);
    if (v->rival != NULL) {
        v->rival->destroy(v->rival_table);
    }
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

    v->found += library_find(v, &v->readers[0], n);
}

static void
base_prepare(void *state)
{
    crowd_change(&((struct vmtable *)state)->crowd, WHAT_BASE);
}

static void
base_run(void *state, uint64_t n)
{
    struct vmtable *v = state;

    bench_use(base_find(v, &v->readers[0], n));
}

static bool
vmtable_check(void *state, uint64_t nr_ops)
{
    return ((struct vmtable *)state)->found == nr_ops;
}

#define ROW(name_, what_, base_, threads_, goal_, ...)                        \
    {                                                                         \
        .name = name_, .what = "GA tag to vCPU: " what_, .baseline = base_,   \
        .goal = (goal_), .objects = { __VA_ARGS__ }, .threads = (threads_),   \
        .open = vmtable_open, .prepare = library_prepare, .run = library_run, \
        .base_prepare = base_prepare, .base = base_run,                       \
        .check = vmtable_check, .close = vmtable_close                        \
    }
#define ALL  1, 12, 1024, 100000, 1000000
#define SOME 12, 100000, 1000000

/* The goals are those of 2 and more readers; and the floor's up to 1k. */
const struct bench bench_vmtable[] = {
    ROW("vmtable", "one reader", "array load", 1, 2.0, ALL),
    ROW("vmtable-2", "2 readers", "array load", 2, 2.0, ALL),
    ROW("vmtable-8", "8 readers", "array load", 8, 2.0, ALL),
    ROW("vmtable-w", "one reader, a writer", "array load", 2, 2.0, ALL),
    ROW("vmtable-vs-spinlock", "one reader", "spinlock", 1, 1 / 3.0, ALL),
    ROW("vmtable-vs-spinlock-2", "2 readers", "spinlock", 2, 1 / 20.0, ALL),
    ROW("vmtable-vs-spinlock-8", "8 readers", "spinlock", 8, 1 / 20.0, ALL),
    ROW("vmtable-vs-spinlock-w", "one reader, a writer", "spinlock", 2, 0,
        SOME),
    ROW("vmtable-vs-rcu", "one reader", "RCU hash", 1, 0, SOME),
    ROW("vmtable-vs-rcu-8", "8 readers", "RCU hash", 8, 0, SOME),
    ROW("vmtable-vs-mutex", "one reader", "mutex", 1, 0, SOME),
    ROW("vmtable-vs-mutex-8", "8 readers", "mutex", 8, 0, SOME),
    ROW("vmtable-vs-rwlock", "one reader", "rwlock", 1, 0, SOME),
    ROW("vmtable-vs-rwlock-8", "8 readers", "rwlock", 8, 0, SOME),
    { .name = NULL },
};
