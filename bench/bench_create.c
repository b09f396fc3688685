/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making a VM of n vCPUs, all in x2APIC mode and software-enabled: time per
 * vCPU. The bytes that each takes are printed once per size.
 */

#include <stdio.h>

#include "rig.h"
#include "tables.h"

static uint64_t
create(uint64_t objects, uint64_t n)
{
    uint64_t did = 0;

    while (did < n) {
        struct rig *rig = rig_make(objects, RIG_X2APIC);

        did += avicemu_vm_nr_vcpus(rig->vms[0]);
        rig_drop(rig);
    }
    return did;
}

static void *
sized(uint64_t objects)
{
    static uint64_t sizes[4];
    static unsigned at;
    struct rig *rig = rig_make(objects, RIG_X2APIC);
    uint64_t *size = &sizes[at++ % 4];

    printf("# %llu vCPUs: %llu bytes each\n", (unsigned long long)objects,
           (unsigned long long)avicemu_vm_vcpu_bytes(rig->vms[0]));
    rig_drop(rig);
    *size = objects;
    return size;
}

static uint64_t
run(void *arg, uint64_t n)
{
    return create(*(const uint64_t *)arg, n);
}

static const struct bench_row rows[] = {
    { .bench = "create",
      .variant = "library",
      .objects = 1,
      .batch = 16,
      .setup = sized,
      .run = run },
    { .bench = "create",
      .variant = "library",
      .objects = 64,
      .batch = 64,
      .setup = sized,
      .run = run },
    { .bench = "create",
      .variant = "library",
      .objects = 1024,
      .batch = 1024,
      .setup = sized,
      .run = run },
    { .bench = "create",
      .variant = "library",
      .objects = 4096,
      .batch = 4096,
      .setup = sized,
      .run = run },
};

const struct bench_table bench_create = { rows,
                                          sizeof(rows) / sizeof(rows[0]) };
