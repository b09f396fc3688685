/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a destination to a vCPU, in each way to write one:
 *
 *   lookup-*  the APIC map alone, in its read-side section, against an array
 *             load by id with the same destinations
 *   msi-*     a whole avicemu_msi() that delivers, against a locked or
 *
 * In the xAPIC rows vCPUs above id 254 exist, and are off: 8 bits do not reach
 * them. Flat logical reaches eight.
 */

#include <stdlib.h>
#include <string.h>

#include "base/rcu.h"
#include "harness.h"
#include "hv/apicmap.h"
#include "vmm.h"

#define NR_KEYS     1024u
#define MSI_BASE    0xfee00000ull
#define MSI_LOGICAL 4u
#define REG_LDR     0x0d0u

/* A broadcast to some models, so it is nobody's destination here. */
#define EIGHT_BITS_ALL 255u

/* How a destination is written. */
enum kind {
    KIND_XAPIC,   /* physical, 8 bits */
    KIND_X2APIC,  /* physical, 32 bits */
    KIND_CLUSTER, /* x2APIC logical: one vCPU of a cluster */
    KIND_FLAT,    /* xAPIC logical, one bit of eight */
};

struct map {
    struct vmm vmm;
    enum kind kind;
    uint32_t dests[NR_KEYS];                    /* as written in a message */
    uint32_t ids[NR_KEYS];                      /* whom each means */
    struct avicemu_vcpu *plain[VMM_MAX_PER_VM]; /* by id */
    uint64_t found;
    uint64_t nr_new;
    uint32_t from; /* first key of the next sample */
};

static enum kind
kind_of(const char *name)
{
    if (strstr(name, "cluster") != NULL) {
        return KIND_CLUSTER;
    }
    if (strstr(name, "flat") != NULL) {
        return KIND_FLAT;
    }
    return strstr(name, "x2apic") != NULL ? KIND_X2APIC : KIND_XAPIC;
}

static uint32_t
dest_of(enum kind kind, uint32_t id)
{
    switch (kind) {
    case KIND_CLUSTER:
        return (id >> 4) << 16 | 1u << (id & 15);
    case KIND_FLAT:
        return 1u << id;
    case KIND_XAPIC:
    case KIND_X2APIC:
    default:
        return id;
    }
}

/* How many of the vCPUs a destination of this kind can name. */
static uint32_t
reach(enum kind kind, uint32_t objects)
{
    uint32_t most = kind == KIND_FLAT ? 8 : kind == KIND_XAPIC ? 255 : objects;

    return objects < most ? objects : most;
}

static int
map_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct map *m = calloc(1, sizeof(*m));

    if (m == NULL) {
        return bench_fail("no memory");
    }
    m->kind = kind_of(b->name);
    vmm_open(&m->vmm, objects,
             m->kind == KIND_X2APIC || m->kind == KIND_CLUSTER ? VMM_X2APIC
                                                               : VMM_XAPIC,
             VMM_NOW_CLOCK);
    for (uint32_t i = 0; m->kind == KIND_FLAT && i < 8 && i < objects; i++) {
        vmm_write(&m->vmm, m->vmm.vcpus[i], REG_LDR, 1u << (24 + i));
    }
    memcpy(m->plain, m->vmm.vcpus, objects * sizeof(m->plain[0]));
    srand(1);
    for (unsigned i = 0; i < NR_KEYS; i++) {
        uint32_t id = (uint32_t)rand() % reach(m->kind, objects);

        m->ids[i] = id == EIGHT_BITS_ALL ? 0 : id;
        m->dests[i] = dest_of(m->kind, m->ids[i]);
    }
    *ret = m;
    return 0;
}

static void
map_close(void *state)
{
    struct map *m = state;

    vmm_close(&m->vmm);
    free(m);
}

/* ---- the map alone ------------------------------------------------------ */

static void
lookup_run(void *state, uint64_t n)
{
    struct map *m = state;
    struct ae_message message = {
        .vector = 0x41,
        .mode = AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_MSI,
        .logical = m->kind == KIND_CLUSTER || m->kind == KIND_FLAT,
    };
    uint64_t found = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct avicemu_vcpu *who[AE_MAP_MAX_FOUND];

        message.dest = m->dests[i % NR_KEYS];
        ae_rcu_enter();
        int nr = ae_apicmap_find(&m->vmm.vms[0]->map, &message, who);

        found += nr == 1 && who[0] == m->plain[m->ids[i % NR_KEYS]];
        ae_rcu_leave();
    }
    m->found += found;
}

/* What the section alone is of that. */
static void
section_run(void *state, uint64_t n)
{
    struct map *m = state;

    for (uint64_t i = 0; i < n; i++) {
        ae_rcu_enter();
        m->found++;
        ae_rcu_leave();
    }
}

static void
array_run(void *state, uint64_t n)
{
    struct map *m = state;

    for (uint64_t i = 0; i < n; i++) {
        bench_use((uint64_t)(uintptr_t)m->plain[m->ids[i % NR_KEYS]]);
    }
}

static bool
lookup_check(void *state, uint64_t nr_ops)
{
    return ((struct map *)state)->found == nr_ops;
}

/* ---- delivery ----------------------------------------------------------- */

/* What the last sample posted is over; it posts each vector once. */
static void
msi_prepare(void *state)
{
    struct map *m = state;

    for (uint32_t i = 0; i < VMM_NR_VECTORS; i++) {
        (void)vmm_drain(&m->vmm, m->plain[m->ids[(m->from + i) % NR_KEYS]]);
    }
    m->from += VMM_NR_VECTORS;
}

static void
msi_run(void *state, uint64_t n)
{
    struct map *m = state;
    struct avicemu_posted posted = { .nr_new = 0 };
    uint64_t logical =
        m->kind == KIND_CLUSTER || m->kind == KIND_FLAT ? MSI_LOGICAL : 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t dest = m->dests[(m->from + i) % NR_KEYS];
        uint64_t address =
            MSI_BASE | (dest & 0xff) << 12 | (dest >> 8) << 40 | logical;

        (void)avicemu_msi(m->vmm.vms[0], address,
                          (uint32_t)(VMM_FIRST_VECTOR + i), &posted);
        m->nr_new += posted.nr_new;
    }
}

static bool
msi_check(void *state, uint64_t nr_ops)
{
    return ((struct map *)state)->nr_new == nr_ops;
}

#define OBJECTS 1, 64, 1024, 4096

#define LOOKUP(suffix, text)                                       \
    {                                                              \
        .name = "lookup-" suffix, .what = "APIC map alone: " text, \
        .baseline = "array load by id", .objects = { OBJECTS },    \
        .open = map_open, .run = lookup_run, .base = array_run,    \
        .check = lookup_check, .close = map_close                  \
    }

#define MSI(suffix, text)                                                     \
    {                                                                         \
        .name = "msi-" suffix, .what = "avicemu_msi(), new vector: " text,    \
        .baseline = "lock or", .objects = { OBJECTS }, .ops = VMM_NR_VECTORS, \
        .open = map_open, .prepare = msi_prepare, .run = msi_run,             \
        .base = bench_raw_lock_or, .check = msi_check, .close = map_close     \
    }

const struct bench bench_map[] = {
    { .name = "lookup-section",
      .what = "the read-side section around a look-up, empty",
      .baseline = "array load by id",
      .open = map_open,
      .run = section_run,
      .base = array_run,
      .check = lookup_check,
      .close = map_close },
    LOOKUP("xapic", "physical, xAPIC"),
    LOOKUP("x2apic", "physical, x2APIC"),
    LOOKUP("x2apic-cluster", "logical, x2APIC"),
    LOOKUP("flat", "logical, xAPIC flat"),
    MSI("xapic", "physical, xAPIC"),
    MSI("x2apic", "physical, x2APIC"),
    MSI("x2apic-cluster", "logical, x2APIC"),
    MSI("flat", "logical, xAPIC flat"),
    { .name = NULL },
};
