/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_VM_H
#define AE_MOCK_VM_H

/*
 * One guest: its library objects, its CPUs, the callbacks that the library
 * makes, and its program.
 */

#include <avicemu/mock/guest.h>

#include "host.h"

struct avicemu_mock_vm {
    /* set at creation */
    struct avicemu_mock_host *host;
    const struct avicemu_mock_vm_config *config;
    const struct avicemu_mock_program *program;
    void *state; /* of the program */
    struct avicemu_vm *vm;
    bool avic;
    uint32_t nr_cpus;
    uint32_t first_who; /* of its CPUs in the trace */
    struct avicemu_mock_cpu **cpus;
    uint32_t nr_devices;
    struct am_device *devices[AVICEMU_MOCK_MAX_DEVICES];
    pthread_mutex_t route_lock; /* who changes the routing table */

    /* the thread that runs the host */
    uint32_t awake_hint; /* the CPU that was last seen not to be quiet */
    uint64_t toggle_ns;  /* when the inhibit reason flips; UINT64_MAX: never */
    uint64_t toggle_random;
    uint64_t toggles;
    bool toggled;

    /* any thread */
    _Alignas(64) _Atomic uint32_t phase; /* enum am_phase */
    _Atomic uint32_t nr_online;          /* CPUs that have booted */
    _Alignas(64) _Atomic uint64_t operations;
};

/* 0 or -errno. Its devices attach themselves afterwards. */
int
am_vm_create(struct avicemu_mock_host *host, uint32_t index,
             struct avicemu_mock_vm **ret);
void
am_vm_destroy(struct avicemu_mock_vm *vm);

/* Flip the inhibit reason, if it is time and the VM does not drain. Returns
 * when to call again; UINT64_MAX: never. The thread that runs the host. */
uint64_t
am_vm_toggle(struct avicemu_mock_vm *vm, uint64_t now_ns);

/* The CPU with that APIC id, NULL: none. */
struct avicemu_mock_cpu *
am_vm_cpu_of(struct avicemu_mock_vm *vm, uint32_t apic_id);

/* The program that a scenario names, NULL: none of that name. */
const struct avicemu_mock_program *
am_program_of(const char *name);

#endif
