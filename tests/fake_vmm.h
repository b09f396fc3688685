/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FAKE_VMM_H
#define FAKE_VMM_H

/*
 * A VMM that only records: every callback counts and keeps its last argument,
 * and the clock is a number that the test moves. Counters are atomic, since
 * kick and wake come from whichever thread posts.
 *
 *     struct fake_vmm vmm;
 *     struct avicemu_vm_config config = { .size = sizeof(config) };
 *
 *     fake_vmm_init(&vmm);
 *     fake_vmm_config(&vmm, &config);
 *     avicemu_vm_create(host, &config, &vm);
 *     avicemu_vcpu_create(vm, 0, &vmm.vcpus[0], &vcpu);
 *     ... vmm.now += 100; vmm.vcpus[0].kicks ...
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <avicemu/avicemu.h>

#define FAKE_MAX_VCPUS 16

struct fake_vmm;

/* The opaque of one vCPU. */
struct fake_vcpu {
    struct fake_vmm *vmm;
    _Atomic(struct avicemu_vcpu *) vcpu; /* of the last callback */
    _Atomic uint64_t kicks, wakes, blocks, arms, eois, intas, bases;
    _Atomic uint64_t last_deadline; /* of arm; UINT64_MAX before the first */
    _Atomic uint64_t last_base;
    _Atomic uint32_t last_eoi; /* vector */
};

struct fake_vmm {
    _Atomic uint64_t now;
    _Atomic uint64_t logs;
    /* The vector of a vCPU's n-th INTA cycle; NULL: 20h. */
    uint8_t (*inta_vector)(uint64_t n);
    struct fake_vcpu vcpus[FAKE_MAX_VCPUS];
};

void
fake_vmm_init(struct fake_vmm *vmm);

/* Fill in ops and opaque; the rest of config is the test's. */
void
fake_vmm_config(struct fake_vmm *vmm, struct avicemu_vm_config *config);

#endif
