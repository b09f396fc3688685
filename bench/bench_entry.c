/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entering and leaving the guest with nothing pending. The raw operation is
 * the seq_cst store that tells posters where the vCPU is.
 */

#include <stdatomic.h>

#include "rig.h"
#include "tables.h"

static void *
make(uint64_t objects)
{
    (void)objects;
    return rig_make(1, RIG_X2APIC);
}

static uint64_t
raw_store(void *arg, uint64_t n)
{
    static _Atomic uint32_t state;

    (void)arg;
    for (uint64_t i = 0; i < n; i++) {
        atomic_store(&state, (uint32_t)i);
    }
    return n;
}

static uint64_t
enter_exit(void *arg, uint64_t n)
{
    struct rig *rig = arg;
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        did += avicemu_vcpu_enter(rig->vcpus[0], &cpu, &todo) == 0 &&
               todo.what == 0;
        (void)avicemu_vcpu_exit(rig->vcpus[0], &cpu);
    }
    return did;
}

static const struct bench_row rows[] = {
    { .bench = "enter-exit", .variant = "seq_cst store", .run = raw_store },
    { .bench = "enter-exit",
      .variant = "library",
      .baseline = "seq_cst store",
      .setup = make,
      .teardown = rig_drop,
      .run = enter_exit },
};

const struct bench_table bench_entry = { rows, sizeof(rows) / sizeof(rows[0]) };
