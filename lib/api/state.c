/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions that save and load state.
 */

#include "api/check.h"
#include "hv/snapshot.h"

int
avicemu_vcpu_snapshot(struct avicemu_vcpu *vcpu, void *buf, size_t bytes,
                      size_t *ret_len)
{
    AE_CHECK(vcpu != NULL && buf != NULL && ret_len != NULL, -EINVAL);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    bool fits = ae_snapshot_save(vcpu, buf, bytes, ret_len);

    ae_disown(vcpu);
    return fits ? 0 : -EINVAL;
}

int
avicemu_vcpu_restore(struct avicemu_vcpu *vcpu, const void *buf, size_t len)
{
    AE_CHECK(vcpu != NULL && buf != NULL, -EPROTO);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    int r = ae_snapshot_load(vcpu, buf, len);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_export_kvm(struct avicemu_vcpu *vcpu, uint32_t flags,
                        struct avicemu_kvm_lapic *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK((flags & ~AVICEMU_KVM_32BIT_IDS) == 0, -EINVAL);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_kvm_export(vcpu, flags, ret);
    return 0;
}

int
avicemu_vcpu_import_kvm(struct avicemu_vcpu *vcpu, uint32_t flags,
                        const struct avicemu_kvm_lapic *page)
{
    AE_CHECK(vcpu != NULL && page != NULL, -EINVAL);
    AE_CHECK((flags & ~AVICEMU_KVM_32BIT_IDS) == 0, -EINVAL);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    int r = ae_kvm_import(vcpu, flags, page);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_set_apic_base(struct avicemu_vcpu *vcpu, uint64_t value)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    int r = ae_kvm_set_base(vcpu, value);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_set_tsc_deadline(struct avicemu_vcpu *vcpu, uint64_t value)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    AE_CHECK(ae_lapic_has(&vcpu->vm->model, AVICEMU_LAPIC_TSC_DEADLINE),
             -EOPNOTSUPP);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    ae_kvm_set_deadline(vcpu, value);
    ae_disown(vcpu);
    return 0;
}

int
avicemu_vcpu_get_tsc_deadline(struct avicemu_vcpu *vcpu, uint64_t *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    *ret = vcpu->lapic.timer.tsc_deadline != 0 ? vcpu->lapic.timer.tsc_deadline
                                               : vcpu->lapic.waiting_deadline;
    return 0;
}

int
avicemu_vcpu_set_tsc_offset(struct avicemu_vcpu *vcpu, uint64_t offset)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    AE_CHECK(ae_vcpu_at_rest(vcpu), -EBUSY);
    ae_own(vcpu);
    ae_kvm_set_tsc_offset(vcpu, offset);
    ae_disown(vcpu);
    return 0;
}
