/* SPDX-License-Identifier: BSD-2-Clause */

#include "fake_vmm.h"

#include <string.h>

static void
fake_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->kicks++;
}

static void
fake_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->wakes++;
}

/* Nobody sleeps: with a deadline ahead the clock jumps there. */
static void
fake_block(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->blocks++;
    if (deadline != UINT64_MAX && fake->vmm->now < deadline) {
        fake->vmm->now = deadline;
    }
}

static void
fake_arm(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->arms++;
    fake->last_deadline = deadline;
}

static void
fake_apic_base(void *opaque, struct avicemu_vcpu *vcpu, uint64_t value)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->bases++;
    fake->last_base = value;
}

static uint8_t
fake_inta(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct fake_vcpu *fake = opaque;
    uint64_t n = fake->intas++;

    fake->vcpu = vcpu;
    return fake->vmm->inta_vector ? fake->vmm->inta_vector(n) : 0x20;
}

static void
fake_eoi(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct fake_vcpu *fake = opaque;

    fake->vcpu = vcpu;
    fake->eois++;
    fake->last_eoi = vector;
}

static uint64_t
fake_now(void *opaque)
{
    struct fake_vmm *vmm = opaque;

    return vmm->now;
}

static void
fake_log(void *opaque, enum avicemu_log_level level, const char *text)
{
    struct fake_vmm *vmm = opaque;

    (void)level;
    (void)text;
    vmm->logs++;
}

void
fake_vmm_init(struct fake_vmm *vmm)
{
    memset(vmm, 0, sizeof(*vmm));
    for (size_t i = 0; i < FAKE_MAX_VCPUS; i++) {
        vmm->vcpus[i].vmm = vmm;
        vmm->vcpus[i].last_deadline = UINT64_MAX;
    }
}

void
fake_vmm_config(struct fake_vmm *vmm, struct avicemu_vm_config *config)
{
    config->ops.kick = fake_kick;
    config->ops.wake = fake_wake;
    config->ops.block = fake_block;
    config->ops.arm = fake_arm;
    config->ops.apic_base = fake_apic_base;
    config->ops.inta = fake_inta;
    config->ops.eoi = fake_eoi;
    config->ops.now = fake_now;
    config->ops.log = fake_log;
    config->opaque = vmm;
}
