/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions of AVIC: where vCPUs run, exits, inhibits.
 */

#include <avicemu/avic.h>

#include "api/check.h"
#include "hv/active.h"
#include "hv/exits.h"

int
avicemu_vcpu_load(struct avicemu_vcpu *vcpu, uint32_t pcpu)
{
    AE_CHECK(vcpu != NULL && pcpu <= AVICEMU_PHYSICAL_HOST_ID, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_in_guest(vcpu) ? -EBUSY : 0;

    if (r == 0 && vcpu->vm->tables != NULL) {
        ae_active_load(vcpu, pcpu);
    }
    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_put(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_in_guest(vcpu) ? -EBUSY : 0;

    if (r == 0 && vcpu->vm->tables != NULL) {
        ae_active_put(vcpu);
    }
    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
                     const struct avicemu_cpu *cpu, struct avicemu_todo *ret)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    if (AE_LIKELY(when == AVICEMU_RECHECK_DOORBELL && ae_vcpu_unrung(vcpu))) {
        return -EAGAIN; /* between most instructions */
    }
    AE_CHECK(cpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(cpu->size >= sizeof(*cpu) && ret->size >= sizeof(*ret), -EINVAL);
    AE_CHECK((unsigned)when <= AVICEMU_RECHECK_ALWAYS, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_recheck(vcpu, when, cpu, ret);

    ae_disown(vcpu);
    return r;
}

enum avicemu_access
avicemu_vcpu_handle_exit(struct avicemu_vcpu *vcpu, uint64_t *ret)
{
    AE_CHECK(vcpu != NULL && ae_vcpu_outside(vcpu), AVICEMU_ACCESS_UNCLAIMED);
    ae_own(vcpu);
    enum avicemu_access access = ae_exits_handle(vcpu, ret);

    ae_disown(vcpu);
    return access;
}

const void *
avicemu_vcpu_vmcb(const struct avicemu_vcpu *vcpu)
{
    return vcpu == NULL ? NULL : vcpu->avic.core.vmcb;
}

enum avicemu_avic_state
avicemu_vcpu_avic(const struct avicemu_vcpu *vcpu)
{
    if (vcpu == NULL || !vcpu->avic.active) {
        return AVICEMU_AVIC_OFF;
    }
    if (vcpu->avic.x2avic) {
        return AVICEMU_AVIC_X2AVIC;
    }
    return ae_lapic_x2(&vcpu->lapic) ? AVICEMU_AVIC_HYBRID : AVICEMU_AVIC_XAVIC;
}

int
avicemu_vcpu_msr_passes(const struct avicemu_vcpu *vcpu, uint32_t msr,
                        int write)
{
    const struct ae_tables *t;

    AE_CHECK(vcpu != NULL && vcpu->vm->tables != NULL, 0);
    t = vcpu->vm->tables;
    return ae_msrpm_passes(vcpu->avic.x2avic ? t->msrpm_x2 : t->msrpm_all, msr,
                           write != 0);
}

int
avicemu_vm_inhibit(struct avicemu_vm *vm, enum avicemu_inhibit reason, int on)
{
    const uint32_t kept = AE_INHIBIT_MAP |
                          1u << AVICEMU_INHIBIT_APIC_BASE_MODIFIED |
                          1u << AVICEMU_INHIBIT_PHYSICAL_ID_TOO_BIG;

    AE_CHECK(vm != NULL && (unsigned)reason < AVICEMU_NR_INHIBIT, -EINVAL);
    AE_CHECK((kept & 1u << reason) == 0, -EINVAL);
    AE_CHECK(vm->tables != NULL, -EOPNOTSUPP);
    ae_active_inhibit(vm, 1u << reason, on != 0 ? 1u << reason : 0);
    return 0;
}

uint32_t
avicemu_vm_inhibits(const struct avicemu_vm *vm)
{
    /* ORD none: a moment's view. */
    return vm == NULL || vm->tables == NULL
               ? 0
               : ae_load_relaxed_u32(&vm->tables->inhibits);
}
