/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiled into each variant of the VM table: its measured loop, and its check.
 *
 * The check is the contract of hv/vmtable.h: who is found after publish and
 * after remove, what publish refuses; that two readers find nothing mixed while
 * a writer changes the table; and that nobody who was removed is still in use
 * by a batch when synchronize has returned.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "hv/vmtable.h"
#include "variant.h"

#define BATCH 512u /* a whole GA log of the kernel's */

/* ---- the loop ----------------------------------------------------------- */

static void *
loop_create(void)
{
    struct ae_vmtable *t =
        ae_alloc(&ae_default_allocator, AE_CACHE_LINE, sizeof(*t));

    if (t != NULL &&
        ae_vmtable_init(t, &ae_default_allocator, AE_TAG_24_8) != 0) {
        ae_free(&ae_default_allocator, t, sizeof(*t));
        t = NULL;
    }
    return t;
}

static void
loop_destroy(void *table)
{
    struct ae_vmtable *t = table;

    ae_vmtable_fini(t);
    ae_free(&ae_default_allocator, t, sizeof(*t));
}

static void *
loop_reader(void *table)
{
    struct ae_drain *d = NULL;

    return ae_drain_create(table, &d) == 0 ? d : NULL;
}

static void
loop_reader_end(void *table, void *reader)
{
    ae_drain_destroy(table, reader);
}

static bool
loop_publish(void *table, uint32_t tag)
{
    return ae_vmtable_publish(table, tag, keys_who(tag)) == 0;
}

static void
loop_remove(void *table, uint32_t tag)
{
    ae_vmtable_remove(table, tag);
}

static void
loop_synchronize(void *table)
{
    ae_vmtable_synchronize(table);
}

static uint64_t
loop_find(void *table, void *reader, struct keys *keys, uint64_t n)
{
    const struct ae_vmtable *t = table;
    struct keys k = *keys;
    uint64_t found = 0;

    for (uint64_t done = 0; done < n;) {
        uint64_t end = n - done < BATCH ? n : done + BATCH;

        ae_drain_begin(reader);
        for (; done < end; done++) {
            uint32_t tag = keys_next(&k);

            found += (void *)ae_vmtable_find(t, tag) == keys_who(tag);
        }
        ae_drain_end(reader);
    }
    *keys = k;
    return found;
}

/* ---- the check ---------------------------------------------------------- */

static bool
finds(struct ae_vmtable *t, struct ae_drain *d, uint32_t tag, const void *who)
{
    ae_drain_begin(d);
    bool ok = (void *)ae_vmtable_find(t, tag) == who;

    ae_drain_end(d);
    return ok;
}

static const char *
check_contract(struct ae_vmtable *t, struct ae_drain *d)
{
    for (uint32_t vm = 1; vm < 600; vm += 7) {
        for (uint32_t i = 0; i < 256; i += 51) {
            uint32_t tag = vm << 8 | i;

            if (!finds(t, d, tag, NULL)) {
                return "a tag is found that was never published";
            }
            if (!loop_publish(t, tag) || !finds(t, d, tag, keys_who(tag))) {
                return "a published tag is not found";
            }
            if (loop_publish(t, tag)) {
                return "a tag is published twice";
            }
        }
    }
    for (uint32_t vm = 1; vm < 600; vm += 7) {
        for (uint32_t i = 0; i < 256; i += 51) {
            loop_remove(t, vm << 8 | i);
            if (!finds(t, d, vm << 8 | i, NULL)) {
                return "a removed tag is found";
            }
        }
    }
    loop_remove(t, 0x12345678);
    loop_synchronize(t);
    return NULL;
}

/* Whoever was removed is dead when synchronize has returned. */
struct racing {
    struct ae_vmtable *table;
    struct ae_drain *drain;
    _Atomic uint32_t alive;           /* what the tag's vCPU is */
    _Atomic uint32_t inside, leaving; /* a wake runs; the vCPU is to go */
    _Atomic uint32_t over, late, wrong;
};

#define RACE_TAG 0x700u
#define HELD     50u    /* rounds in which a batch is held open */
#define PATIENCE 20u    /* looks at a batch that is held, 100 us apart */
#define ROUNDS   20000u /* all */

static void
pause_100us(void)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* A wake, which is not over before the vCPU has had time to go, if it may. */
static void
race_wake(struct racing *r)
{
    atomic_store(&r->inside, 1);
    while (!atomic_load(&r->leaving)) {
        (void)sched_yield();
    }
    bool held = atomic_load(&r->leaving) == 2;

    for (unsigned i = 0; held && i < PATIENCE && atomic_load(&r->alive); i++) {
        pause_100us();
    }
    (void)atomic_fetch_add(&r->late, atomic_load(&r->alive) == 0);
    atomic_store(&r->inside, 0);
}

static void *
race_reader(void *opaque)
{
    struct racing *r = opaque;

    while (!atomic_load(&r->over)) {
        ae_drain_begin(r->drain);
        void *who = ae_vmtable_find(r->table, RACE_TAG);

        if (who == (void *)&r->alive) {
            race_wake(r);
        } else if (who != NULL) {
            (void)atomic_fetch_add(&r->wrong, 1);
        }
        ae_drain_end(r->drain);
    }
    return NULL;
}

/* One life. held: it ends beside a wake. */
static void
race_round(struct racing *r, bool held)
{
    atomic_store(&r->leaving, held ? 0 : 1);
    atomic_store(&r->alive, 1);
    (void)ae_vmtable_publish(r->table, RACE_TAG,
                             (struct avicemu_vcpu *)(void *)&r->alive);
    while (held && !atomic_load(&r->inside)) {
        (void)sched_yield();
    }
    atomic_store(&r->leaving, held ? 2 : 1);
    loop_remove(r->table, RACE_TAG);
    loop_synchronize(r->table);
    atomic_store(&r->alive, 0);
    while (atomic_load(&r->inside)) {
        (void)sched_yield(); /* only where synchronize is wrong */
    }
}

static const char *
check_race(struct ae_vmtable *t, struct ae_drain *d)
{
    struct racing r = { .table = t, .drain = d };
    pthread_t thread;

    if (pthread_create(&thread, NULL, race_reader, &r) != 0) {
        return "no thread";
    }
    /* On any CPU, though the caller may be bound to one. */
    cpu_set_t any;

    memset(&any, 0xff, sizeof(any));
    (void)pthread_setaffinity_np(thread, sizeof(any), &any);
    for (uint32_t i = 0; i < ROUNDS && atomic_load(&r.late) == 0; i++) {
        race_round(&r, i < HELD);
    }
    atomic_store(&r.over, 1);
    atomic_store(&r.leaving, 1);
    (void)pthread_join(thread, NULL);
    if (atomic_load(&r.wrong) != 0) {
        return "a look-up found somebody that was never published";
    }
    return atomic_load(&r.late) == 0
               ? NULL
               : "synchronize returns while a batch wakes who was removed";
}

static const char *
loop_check(void)
{
    struct ae_vmtable *t = loop_create();
    struct ae_drain *d = t != NULL ? loop_reader(t) : NULL;
    const char *fault = "no memory";

    if (d != NULL) {
        fault = check_contract(t, d);
        fault = fault != NULL ? fault : check_race(t, d);
        ae_drain_destroy(t, d);
        loop_destroy(t);
    }
    return fault;
}

static const struct variant_vmtable loop = {
    .create = loop_create,
    .destroy = loop_destroy,
    .reader = loop_reader,
    .reader_end = loop_reader_end,
    .publish = loop_publish,
    .remove = loop_remove,
    .synchronize = loop_synchronize,
    .find = loop_find,
    .check = loop_check,
};

/* The one symbol that is not hidden. */
extern const struct avicemu_mock_variant avicemu_variant;
__attribute__((visibility("default")))
const struct avicemu_mock_variant avicemu_variant = {
    .size = sizeof(avicemu_variant),
    .block = "vmtable",
    .name = VARIANT_NAME,
    .create = avicemu_mock_host_create,
    .run = avicemu_mock_host_run,
    .interrupt = avicemu_mock_host_interrupt,
    .destroy = avicemu_mock_host_destroy,
    .loop = &loop,
};
