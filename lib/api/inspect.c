/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions that look: view, peek, counters, books, dump.
 */

#include "hv/inspect.h"

#include "api/check.h"

int
avicemu_vcpu_view(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_view *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(ret->size >= sizeof(*ret), -EINVAL);
    ae_inspect_view(vcpu, ret);
    return 0;
}

int
avicemu_vcpu_peek(struct avicemu_vcpu *vcpu, uint32_t offset, uint32_t *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(offset < AE_PAGE && offset % 16 == 0, -EINVAL);
    const struct ae_lapic_rule *rule = &vcpu->vm->model.rules[offset >> 4];

    AE_CHECK(rule->xapic != AE_REG_NONE || rule->x2apic != AE_REG_NONE,
             -ENOENT);
    *ret = ae_lapic_peek(&vcpu->lapic, offset >> 4,
                         ae_lapic_needs_time(&vcpu->vm->model, offset >> 4)
                             ? ae_vcpu_now(vcpu)
                             : 0);
    return 0;
}

int
avicemu_vcpu_stats(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_stats *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(ret->size >= sizeof(*ret), -EINVAL);
    size_t size = ret->size;

    *ret = vcpu->stats;
    ret->size = size;
    return 0;
}

int
avicemu_vcpu_books(struct avicemu_vcpu *vcpu, uint8_t vector,
                   struct avicemu_vcpu_books *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(ret->size >= sizeof(*ret), -EINVAL);
    AE_CHECK(vcpu->books != NULL, -EOPNOTSUPP);
    ae_inspect_books(vcpu, vector, ret);
    return 0;
}

int
avicemu_vcpu_ipi_new_to(struct avicemu_vcpu *sender,
                        struct avicemu_vcpu *target, uint64_t *ret)
{
    const struct avicemu_vcpu *one = sender != NULL ? sender : target;

    AE_CHECK(one != NULL && ret != NULL, -EINVAL);
    AE_CHECK(target == NULL || target->vm == one->vm, -EINVAL);
    AE_CHECK(one->books != NULL, -EOPNOTSUPP);
    *ret = ae_inspect_ipi_new_to(sender, target);
    return 0;
}

int
avicemu_vcpu_dump(struct avicemu_vcpu *vcpu, char *buf, size_t len)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    struct ae_text t = ae_text_begin(buf, len);

    ae_inspect_dump(vcpu, &t);
    return (int)t.used;
}
