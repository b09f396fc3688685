/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Setting up VMs for the benchmarks.
 */

#include "rig.h"

#include <stdlib.h>
#include <time.h>

#include "harness.h"

#define PER_VM 4096u

uint64_t
rig_now(void *opaque)
{
    struct timespec t;

    (void)opaque;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void
rig_write(struct avicemu_vcpu *vcpu, uint32_t offset, uint32_t value)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };
    enum avicemu_access access;

    (void)avicemu_vcpu_view(vcpu, &view);
    access = view.mode == AVICEMU_APIC_X2APIC
                 ? avicemu_msr_write(vcpu, 0x800 + offset / 16, value)
                 : avicemu_mmio_write(vcpu, 0xfee00000 + offset, 4, &value);
    if (access != AVICEMU_ACCESS_DONE) {
        bench_fail("a register write at %xh was refused", offset);
    }
}

static void
vcpu_make(struct rig *rig, uint64_t i, enum rig_mode mode)
{
    struct avicemu_vm *vm = rig->vms[i / PER_VM];
    uint64_t base = 0xfee00c00 | (i % PER_VM == 0 ? 0x100 : 0);

    if (avicemu_vcpu_create(vm, (uint32_t)(i % PER_VM), NULL, &rig->vcpus[i]) !=
        0) {
        bench_fail("vCPU %llu cannot be made", (unsigned long long)i);
    }
    if (mode == RIG_X2APIC &&
        avicemu_msr_write(rig->vcpus[i], 0x1b, base) != AVICEMU_ACCESS_DONE) {
        bench_fail("no x2APIC mode");
    }
    rig_write(rig->vcpus[i], 0xf0, 0x1ff);
    if (mode == RIG_XAPIC && i < 8) {
        rig_write(rig->vcpus[i], 0xd0, 1u << (24 + i));
    }
}

struct rig *
rig_make(uint64_t nr, enum rig_mode mode)
{
    struct avicemu_vm_config config = {
        .size = sizeof(config),
        .max_vcpus = nr < PER_VM ? (uint32_t)nr : PER_VM,
        .lapic = { .features =
                       AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE },
        .ops = { .now = rig_now },
    };
    struct rig *rig = calloc(1, sizeof(*rig));

    if (rig == NULL || nr > (uint64_t)RIG_MAX_VMS * PER_VM) {
        bench_fail("no rig of %llu vCPUs", (unsigned long long)nr);
    }
    rig->vcpus = calloc(nr, sizeof(struct avicemu_vcpu *));
    if (rig->vcpus == NULL || avicemu_host_create(NULL, &rig->host) != 0) {
        bench_fail("out of memory");
    }
    rig->nr = nr;
    for (uint64_t i = 0; i < nr; i++) {
        if (i % PER_VM == 0 &&
            avicemu_vm_create(rig->host, &config, &rig->vms[i / PER_VM]) != 0) {
            bench_fail("no VM");
        }
        vcpu_make(rig, i, mode);
    }
    return rig;
}

void
rig_drop(void *arg)
{
    struct rig *rig = arg;
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };

    for (uint64_t i = 0; i < rig->nr; i++) {
        (void)avicemu_vcpu_exit(rig->vcpus[i], &cpu);
        if (avicemu_vcpu_destroy(rig->vcpus[i]) != 0) {
            bench_fail("a vCPU cannot be destroyed");
        }
    }
    for (unsigned i = 0; i < RIG_MAX_VMS; i++) {
        (void)avicemu_vm_destroy(rig->vms[i]);
    }
    (void)avicemu_host_destroy(rig->host);
    free(rig->vcpus);
    free(rig);
}
