/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_VMM_H
#define BENCH_VMM_H

/*
 * The VMM that the benchmarks are: a host, VMs with vCPUs whose guests have
 * booted, and callbacks that only count. Failures end the program: a benchmark
 * of a VM that is not there has no result.
 */

#include <avicemu/avicemu.h>

#include "harness.h"

#define VMM_MAX_PER_VM 4096u
#define VMM_MAX_VMS    3u

/* Vectors that the benchmarks post, so that each post is a new one. */
#define VMM_FIRST_VECTOR 32u
#define VMM_NR_VECTORS   224u

enum vmm_mode {
    VMM_XAPIC,  /* ids above 254, which it cannot address, are off */
    VMM_X2APIC, /* all of them */
};

enum vmm_now {
    VMM_NOW_CLOCK, /* clock_gettime(), nanoseconds */
    VMM_NOW_TSC,   /* rdtsc, at its own rate */
};

enum vmm_avic {
    VMM_NO_AVIC,
    /* Silicon with x2AVIC for 4096 ids, doorbells are words; vcpus[i] is loaded
     * on pCPU i. xAPIC mode: at most 255 vCPUs. */
    VMM_AVIC,
};

struct vmm {
    struct avicemu_host *host;
    struct avicemu_vm *vms[VMM_MAX_VMS];
    struct avicemu_vcpu **vcpus; /* vcpus[i] has id i % VMM_MAX_PER_VM */
    uint32_t nr;
    enum vmm_mode mode;
    enum vmm_avic avic;
    uint64_t kicks; /* by the posting thread only */
    uint64_t wakes; /* likewise */
    uint64_t arms;
    uint64_t bytes; /* allocated by the library now */
};

void
vmm_open(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode,
         enum vmm_now now);
/* With AVIC: one VM, booted, nobody in the guest. */
void
vmm_open_avic(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode);
/* Host and VMs alone; then vcpus one by one, which are not booted. */
void
vmm_open_empty(struct vmm *v, uint32_t nr_vcpus, enum vmm_now now);
void
vmm_open_empty_avic(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode);
void
vmm_create_vcpus(struct vmm *v);
void
vmm_destroy_vcpus(struct vmm *v);
void
vmm_close(struct vmm *v);

/* The guest writes a register: by MMIO or MSR, as its mode is. It is DONE, or
 * the program ends. */
void
vmm_write(const struct vmm *v, struct avicemu_vcpu *vcpu, uint32_t offset,
          uint32_t value);

void
vmm_enter(struct avicemu_vcpu *vcpu, struct avicemu_todo *todo);
void
vmm_exit(struct avicemu_vcpu *vcpu);

/* Take and end all interrupts of a vCPU that is outside. How many it were. */
uint64_t
vmm_drain(const struct vmm *v, struct avicemu_vcpu *vcpu);

/* Enter, with AVIC: it is active, or the program ends. Nothing is pending. */
void
vmm_enter_avic(const struct vmm *v, struct avicemu_vcpu *vcpu);
/* With AVIC, in the guest: look at the doorbell; if it was rung, take and end
 * all interrupts without an exit. How many it were. */
uint64_t
vmm_take(const struct vmm *v, struct avicemu_vcpu *vcpu);
/* Between enter and exit, with AVIC: as avicemu_vcpu_recheck(). */
bool
vmm_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
            struct avicemu_todo *todo);

/* Halt: outside, taken all, and wait for ops->wake. vmm_unblock() ends it. */
void
vmm_block(struct avicemu_vcpu *vcpu);
void
vmm_unblock(struct avicemu_vcpu *vcpu);

/* End the program: something that cannot fail did. */
_Noreturn void
vmm_die(const char *what);

#endif
