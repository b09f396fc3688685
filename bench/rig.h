/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

/* A VM for a benchmark: n vCPUs, software-enabled, x2APIC or xAPIC mode. */

#include <avicemu/avicemu.h>

enum rig_mode {
    RIG_XAPIC,
    RIG_X2APIC
};

#define RIG_MAX_VMS 4u

struct rig {
    struct avicemu_host *host;
    struct avicemu_vm *vms[RIG_MAX_VMS]; /* up to 4096 vCPUs each */
    struct avicemu_vcpu **vcpus;
    uint64_t nr;
    uint64_t at; /* for the loops: where they are */
};

/* Never NULL: what fails ends the program. */
struct rig *
rig_make(uint64_t nr, enum rig_mode mode);
void
rig_drop(void *rig);

/* ops->now of all rigs: CLOCK_MONOTONIC in nanoseconds. */
uint64_t
rig_now(void *opaque);

/* A register write in the rig's mode; offset as in the xAPIC page. */
void
rig_write(struct avicemu_vcpu *vcpu, uint32_t offset, uint32_t value);

/* A number that the compiler cannot foresee; about 1 ns. */
static inline uint64_t
rig_next(struct rig *rig)
{
    rig->at = rig->at * 6364136223846793005ull + 1442695040888963407ull;
    return rig->at >> 33;
}

#endif
