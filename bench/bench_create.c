/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a vCPU costs: time to create it in a VM that grows to that many, and
 * bytes of it. The baselines are clean memory of that size, and one APIC page.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "vmm.h"

#define PAGE 4096u

struct create {
    struct vmm vmm;
    uint64_t created;
    uint64_t bytes_each;
    void **memory;
    bool full;
};

static int
create_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct create *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return bench_fail("no memory");
    }
    if (strstr(b->name, "xavic") != NULL) {
        vmm_open_empty_avic(&c->vmm, objects, VMM_XAPIC);
    } else if (strstr(b->name, "x2avic") != NULL) {
        vmm_open_empty_avic(&c->vmm, objects, VMM_X2APIC);
    } else {
        vmm_open_empty(&c->vmm, objects, VMM_NOW_CLOCK);
    }
    c->bytes_each = avicemu_vm_vcpu_bytes(c->vmm.vms[0]);
    c->memory = calloc(objects, sizeof(void *));
    if (c->memory == NULL) {
        return bench_fail("no memory");
    }
    *ret = c;
    return 0;
}

/* No vCPUs, no memory. */
static void
create_prepare(void *state)
{
    struct create *c = state;

    if (c->full) {
        vmm_destroy_vcpus(&c->vmm);
    }
    c->full = false;
}

static void
create_close(void *state)
{
    struct create *c = state;

    create_prepare(state);
    for (uint32_t i = 0; i < c->vmm.nr; i++) {
        free(c->memory[i]);
    }
    free(c->memory);
    vmm_close(&c->vmm);
    free(c);
}

/* One call makes all vCPUs; n is their number. */
static void
create_run(void *state, uint64_t n)
{
    struct create *c = state;

    (void)n;
    vmm_create_vcpus(&c->vmm);
    c->full = true;
    for (uint32_t i = 0; i < c->vmm.nr; i++) {
        c->created += avicemu_vcpu_apic_id(c->vmm.vcpus[i]) == i;
    }
}

static void
memory_prepare(void *state)
{
    struct create *c = state;

    for (uint32_t i = 0; i < c->vmm.nr; i++) {
        free(c->memory[i]);
        c->memory[i] = NULL;
    }
}

static void
memory_run(void *state, uint64_t n)
{
    struct create *c = state;
    size_t bytes = (c->bytes_each + PAGE - 1) / PAGE * PAGE;

    (void)n;
    for (uint32_t i = 0; i < c->vmm.nr; i++) {
        c->memory[i] = aligned_alloc(PAGE, bytes);
        if (c->memory[i] == NULL) {
            vmm_die("aligned_alloc");
        }
        memset(c->memory[i], 0, c->bytes_each);
    }
}

static bool
create_check(void *state, uint64_t nr_ops)
{
    return ((struct create *)state)->created == nr_ops;
}

/* ---- bytes -------------------------------------------------------------- */

/* What the library has allocated for them, and what it says it has. */
static double
bytes_value(void *state)
{
    struct create *c = state;
    uint64_t before = c->vmm.bytes;

    create_run(state, c->vmm.nr);
    return (double)(c->vmm.bytes - before) / (double)c->vmm.nr;
}

static double
page_value(void *state)
{
    (void)state;
    return PAGE;
}

/* APIC page and VMCB. */
static double
pages_value(void *state)
{
    (void)state;
    return 2 * PAGE;
}

static bool
bytes_check(void *state, uint64_t nr_ops)
{
    struct create *c = state;

    return c->created == nr_ops && c->bytes_each >= PAGE;
}

#define OBJECTS 1, 64, 1024, 4096

/* Backing pages come 32 at a time, so a small VM pays for some it has not;
 * the id tables of the VM are its own, and not counted. */
#define AVIC_BYTES(name_, what_, ...)                                          \
    {                                                                          \
        .name = name_, .what = what_, .baseline = "two pages",                 \
        .unit = "bytes", .objects = { __VA_ARGS__ }, .open = create_open,      \
        .value = bytes_value, .base_value = pages_value, .check = bytes_check, \
        .close = create_close                                                  \
    }

const struct bench bench_create[] = {
    { .name = "create",
      .what = "avicemu_vcpu_create(), mean over a VM of so many",
      .baseline = "aligned_alloc and memset",
      .objects = { OBJECTS },
      .ops = BENCH_OPS_OBJECTS,
      .open = create_open,
      .prepare = create_prepare,
      .run = create_run,
      .base_prepare = memory_prepare,
      .base = memory_run,
      .check = create_check,
      .close = create_close },
    { .name = "vcpu-bytes",
      .what = "bytes allocated per vCPU",
      .baseline = "one APIC page",
      .unit = "bytes",
      .objects = { OBJECTS },
      .open = create_open,
      .value = bytes_value,
      .base_value = page_value,
      .check = bytes_check,
      .close = create_close },
    AVIC_BYTES("vcpu-bytes-xavic", "bytes allocated per vCPU, xAVIC", 1, 32,
               255),
    AVIC_BYTES("vcpu-bytes-x2avic", "bytes allocated per vCPU, x2AVIC", 1, 32,
               512, 4096),
    { .name = NULL },
};
