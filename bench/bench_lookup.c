/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's APIC map, read in an RCU section, against the same map under a
 * mutex (rivals/map/mutex), by vCPUs and by threads.
 *
 * The same keys in the same order; each look-up is begun, answered, compared
 * with who it must be, and ended, by both. The first thread is measured; the
 * others look up in the same map all the time, and change over to the other
 * map when it does. Rows with more threads than CPUs count the first thread's
 * CPU time: waiting for a mutex whose owner does not run costs it nothing
 * there, but the system calls that put it to sleep do.
 */

#include <stdlib.h>
#include <string.h>

#include "base/rcu.h"
#include "crowd.h"
#include "harness.h"
#include "hv/apicmap.h"
#include "rivals/map/mutex/map.h"
#include "vmm.h"

#define NR_KEYS 1024u
#define BURST   64u

enum what {
    WHAT_RCU,
    WHAT_MUTEX,
};

struct lookup {
    struct crowd crowd;
    struct vmm vmm;
    uint64_t found; /* by the measured thread, in the library's map */
    /* Constant once the threads run. */
    _Alignas(128) struct avicemu_vm *vm;
    struct map_mutex *rival;
    bool logical;
    uint32_t dests[NR_KEYS];
    struct avicemu_vcpu *want[NR_KEYS];
};

static uint64_t
rcu_lookups(const struct lookup *l, uint64_t n)
{
    struct ae_message message = {
        .vector = 0x41,
        .mode = AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_X2APIC,
        .logical = l->logical,
    };
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct avicemu_vcpu *who[AE_MAP_MAX_FOUND];

        message.dest = l->dests[i % NR_KEYS];
        ae_rcu_enter();
        int nr = ae_apicmap_find(&l->vm->map, &message, who);

        found += nr == 1 && who[0] == l->want[i % NR_KEYS];
        ae_rcu_leave();
    }
    return found;
}

static uint64_t
mutex_lookups(const struct lookup *l, uint64_t n)
{
    struct map_mutex_dest dest = { .logical = l->logical };
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        void *who[MAP_MUTEX_MAX_FOUND];

        dest.dest = l->dests[i % NR_KEYS];
        map_mutex_lock(l->rival);
        int nr = map_mutex_find(l->rival, &dest, who);

        found += nr == 1 && who[0] == l->want[i % NR_KEYS];
        map_mutex_unlock(l->rival);
    }
    return found;
}

static void
others_burst(void *state, unsigned n, uint32_t what)
{
    (void)n;
    bench_use(what == WHAT_RCU ? rcu_lookups(state, BURST)
                               : mutex_lookups(state, BURST));
}

/* ---- rows --------------------------------------------------------------- */

static int
lookup_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct lookup *l = aligned_alloc(128, (sizeof(*l) + 127) / 128 * 128);

    if (l == NULL) {
        return bench_fail("no memory");
    }
    *l = (struct lookup){ .logical = strstr(b->name, "-cluster") != NULL };
    vmm_open(&l->vmm, objects, VMM_X2APIC, VMM_NOW_CLOCK);
    l->vm = l->vmm.vms[0];
    l->rival = map_mutex_create(objects);
    for (uint32_t id = 0; id < objects; id++) {
        if (l->rival == NULL ||
            !map_mutex_add(l->rival, id, true, l->vmm.vcpus[id])) {
            return bench_fail("no memory");
        }
    }
    srand(1);
    for (unsigned i = 0; i < NR_KEYS; i++) {
        uint32_t id = (uint32_t)rand() % objects;

        l->want[i] = l->vmm.vcpus[id];
        l->dests[i] = l->logical ? (id >> 4) << 16 | 1u << (id & 15) : id;
    }
    if (!crowd_start(&l->crowd, b->threads > 1 ? b->threads - 1 : 0, WHAT_RCU,
                     others_burst, l)) {
        return bench_fail("pthread_create");
    }
    *ret = l;
    return 0;
}

static void
lookup_close(void *state)
{
    struct lookup *l = state;

    crowd_stop(&l->crowd);
    map_mutex_destroy(l->rival);
    vmm_close(&l->vmm);
    free(l);
}

static void
rcu_prepare(void *state)
{
    crowd_change(&((struct lookup *)state)->crowd, WHAT_RCU);
}

static void
rcu_run(void *state, uint64_t n)
{
    struct lookup *l = state;

    l->found += rcu_lookups(l, n);
}

static void
mutex_prepare(void *state)
{
    crowd_change(&((struct lookup *)state)->crowd, WHAT_MUTEX);
}

static void
mutex_run(void *state, uint64_t n)
{
    if (mutex_lookups(state, n) != n) {
        vmm_die("the rival's look-up");
    }
}

static bool
lookup_check(void *state, uint64_t nr_ops)
{
    return ((struct lookup *)state)->found == nr_ops;
}

#define ROW(name_, what_, threads_)                                         \
    {                                                                       \
        .name = name_, .what = "APIC map, RCU: " what_,                     \
        .baseline = "mutex rival", .objects = { 1, 32, 512, 4096 },         \
        .threads = (threads_), .open = lookup_open, .prepare = rcu_prepare, \
        .run = rcu_run, .base_prepare = mutex_prepare, .base = mutex_run,   \
        .check = lookup_check, .close = lookup_close                        \
    }

const struct bench bench_lookup[] = {
    ROW("lookup-vs-mutex", "x2APIC id, one reader", 1),
    ROW("lookup-vs-mutex-2", "x2APIC id, 2 readers", 2),
    ROW("lookup-vs-mutex-8", "x2APIC id, 8 readers", 8),
    ROW("lookup-vs-mutex-cluster", "x2APIC logical, one reader", 1),
    { .name = NULL },
};
