/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions of IOMMUs, routes and irqfds.
 */

#include "hv/iommu.h"

#include "api/check.h"
#include "hv/bypass.h"
#include "hv/routing.h"

int
avicemu_iommu_create(struct avicemu_host *host,
                     const struct avicemu_iommu_config *config,
                     struct avicemu_iommu **ret_iommu)
{
    struct avicemu_iommu_config copy = { .size = sizeof(copy) };

    AE_CHECK(host != NULL && ret_iommu != NULL, -EINVAL);
    if (config != NULL) {
        AE_CHECK(ae_config_copy(&copy, sizeof(copy), config), -EINVAL);
    }
    return ae_iommu_create(host, &copy, ret_iommu);
}

int
avicemu_iommu_destroy(struct avicemu_iommu *iommu)
{
    return iommu == NULL ? 0 : ae_iommu_destroy(iommu);
}

void *
avicemu_iommu_opaque(const struct avicemu_iommu *iommu)
{
    return iommu == NULL ? NULL : iommu->opaque;
}

int
avicemu_iommu_add_device(struct avicemu_iommu *iommu, uint16_t device_id,
                         uint32_t nr_irqs)
{
    AE_CHECK(iommu != NULL, -EINVAL);
    return ae_iommu_add_device(iommu, device_id, nr_irqs);
}

int
avicemu_iommu_remove_device(struct avicemu_iommu *iommu, uint16_t device_id)
{
    AE_CHECK(iommu != NULL, -ENOENT);
    return ae_iommu_remove_device(iommu, device_id);
}

int
avicemu_iommu_message(struct avicemu_iommu *iommu, uint16_t device_id,
                      uint32_t index, uint64_t *ret_address, uint32_t *ret_data)
{
    AE_CHECK(iommu != NULL && ret_address != NULL && ret_data != NULL, -ENOENT);
    return ae_iommu_message(iommu, device_id, index, ret_address, ret_data);
}

int
avicemu_iommu_route(struct avicemu_iommu *iommu, uint16_t device_id,
                    uint32_t index, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    AE_CHECK(iommu != NULL, -EINVAL);
    AE_CHECK(vcpu == NULL || (vector >= AE_FIRST_LEGAL_VECTOR &&
                              vcpu->vm->host == iommu->host),
             -EINVAL);
    return ae_iommu_route(iommu, device_id, index, vcpu, vector);
}

int
avicemu_iommu_msi(struct avicemu_iommu *iommu, uint16_t device_id,
                  uint64_t address, uint32_t data,
                  struct avicemu_iommu_posted *ret)
{
    struct avicemu_iommu_posted unused;
    struct avicemu_iommu_posted *posted = ret != NULL ? ret : &unused;

    AE_CHECK(iommu != NULL, -EINVAL);
    *posted = (struct avicemu_iommu_posted){ .way = AVICEMU_WAY_ABORTED };
    ae_iommu_deliver(iommu, device_id, address, data, posted);
    return 0;
}

int
avicemu_iommu_notify(struct avicemu_iommu *iommu)
{
    AE_CHECK(iommu != NULL, -EINVAL);
    return ae_iommu_notify(iommu);
}

int
avicemu_iommu_event(struct avicemu_iommu *iommu,
                    struct avicemu_iommu_event *ret)
{
    AE_CHECK(iommu != NULL && ret != NULL, -EINVAL);
    return ae_iommu_event_take(iommu, ret);
}

/* ORD none: counters; a moment's view. */
static uint64_t
count_of(const _Atomic uint64_t *counter)
{
    return ae_load_relaxed_u64(counter);
}

int
avicemu_iommu_stats(const struct avicemu_iommu *iommu,
                    struct avicemu_iommu_stats *ret)
{
    AE_CHECK(iommu != NULL && ret != NULL && ret->size == sizeof(*ret),
             -EINVAL);
    const struct ae_iommu_counts *c = &iommu->counts;

    *ret = (struct avicemu_iommu_stats){
        .size = sizeof(*ret),
        .notified = count_of(&c->notified),
        .entries = count_of(&c->entries),
        .unknown = count_of(&c->unknown),
        .wakes = count_of(&c->wakes),
        .overflows = count_of(&c->overflows),
        .scanned = count_of(&c->scanned),
        .routes = count_of(&c->routes),
        .commands = count_of(&c->commands),
    };
    return 0;
}

/* ---- by GSI ------------------------------------------------------------- */

int
avicemu_vm_set_routes(struct avicemu_vm *vm,
                      const struct avicemu_msi_route *routes, uint32_t nr)
{
    AE_CHECK(vm != NULL && (routes != NULL || nr == 0), -EINVAL);
    return ae_bypass_set_routes(vm, routes, nr);
}

int
avicemu_vm_signal(struct avicemu_vm *vm, uint32_t gsi,
                  struct avicemu_posted *ret)
{
    struct avicemu_posted posted = { .why = 0 };
    int r;

    AE_CHECK(vm != NULL, -EINVAL);
    r = ae_gsi_signal(vm, gsi, &posted);
    if (r == 0 && ret != NULL) {
        *ret = posted;
    }
    return r;
}

int
avicemu_irqfd_create(struct avicemu_vm *vm, uint32_t gsi, const void *token,
                     struct avicemu_irqfd **ret_irqfd)
{
    AE_CHECK(vm != NULL && ret_irqfd != NULL && gsi < AE_MAX_GSI, -EINVAL);
    return ae_irqfd_create(vm, gsi, token, ret_irqfd);
}

int
avicemu_irqfd_destroy(struct avicemu_irqfd *irqfd)
{
    return irqfd == NULL ? 0 : ae_irqfd_destroy(irqfd);
}

int
avicemu_irqfd_signal(struct avicemu_irqfd *irqfd, struct avicemu_posted *ret)
{
    AE_CHECK(irqfd != NULL, -EINVAL);
    return avicemu_vm_signal(irqfd->vm, irqfd->gsi, ret);
}

int
avicemu_iommu_add_producer(struct avicemu_iommu *iommu, uint16_t device_id,
                           uint32_t index, const void *token)
{
    AE_CHECK(iommu != NULL && token != NULL, -EINVAL);
    return ae_bypass_add(iommu, device_id, index, token);
}

int
avicemu_iommu_remove_producer(struct avicemu_iommu *iommu, uint16_t device_id,
                              uint32_t index)
{
    AE_CHECK(iommu != NULL, -ENOENT);
    return ae_bypass_remove(iommu, device_id, index);
}
