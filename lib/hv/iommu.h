/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_IOMMU_H
#define AE_HV_IOMMU_H

/*
 * An IOMMU's driver: bring-up and devices (iommu.c), a device's interrupt
 * (iommu_msi.c), the notifier (iommu_notify.c).
 */

#include <avicemu/iommu.h>

#include "hv/deliver.h"
#include "hv/posting.h"

/* ---- life --------------------------------------------------------------- */

/* config is checked but for its fields' ranges. 0, -EINVAL, -EOPNOTSUPP,
 * -ENOMEM, -EEXIST. */
int
ae_iommu_create(struct avicemu_host *host,
                const struct avicemu_iommu_config *config,
                struct avicemu_iommu **ret);
/* 0, -EBUSY. */
int
ae_iommu_destroy(struct avicemu_iommu *iommu);

/* Through the registers, as a driver does. */
uint64_t
ae_iommu_get(const struct avicemu_iommu *iommu, uint32_t offset);
void
ae_iommu_set(struct avicemu_iommu *iommu, uint32_t offset, uint64_t value);

/* ---- devices: take the posting lock ------------------------------------- */

int
ae_iommu_add_device(struct avicemu_iommu *iommu, uint16_t device_id,
                    uint32_t nr_irqs);
int
ae_iommu_remove_device(struct avicemu_iommu *iommu, uint16_t device_id);
/* Post, or to the host. 0, -EINVAL, -ENOENT, -EBUSY. */
int
ae_iommu_route(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index,
               struct avicemu_vcpu *vcpu, uint8_t vector);
int
ae_iommu_message(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint32_t index, uint64_t *ret_address, uint32_t *ret_data);

/* The device, or NULL. In a section, or under the posting lock. */
struct ae_device *
ae_iommu_device(const struct avicemu_iommu *iommu, uint16_t device_id);
/* Its interrupt, or NULL. Likewise. */
struct ae_irq *
ae_iommu_irq(const struct avicemu_iommu *iommu, uint16_t device_id,
             uint32_t index);
/* Under the posting lock: as ae_posting_move(), settled, and the former vCPU
 * has looked. */
void
ae_iommu_move_locked(struct ae_irq *irq, struct avicemu_vcpu *vcpu,
                     uint8_t vector);

/* ---- interrupts; any thread --------------------------------------------- */

/* A device's write. */
void
ae_iommu_deliver(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint64_t address, uint32_t data,
                 struct avicemu_iommu_posted *ret);
/* Inject by the route of its irqfd (bypass.c). In a section. false: none. */
bool
ae_irqfd_inject(const struct ae_irq *irq, struct ae_calls *calls,
                struct avicemu_posted *posted);
/* Call the host about the IOMMU's own interrupts. Nothing is held. */
void
ae_iommu_signal(struct avicemu_iommu *iommu, uint32_t signals);

/* ---- the notifier: one thread at a time --------------------------------- */

/* Entries drained; -EBUSY. */
int
ae_iommu_notify(struct avicemu_iommu *iommu);
/* 0, -EAGAIN. */
int
ae_iommu_event_take(struct avicemu_iommu *iommu,
                    struct avicemu_iommu_event *ret);

#endif
