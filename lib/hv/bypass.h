/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_BYPASS_H
#define AE_HV_BYPASS_H

/*
 * Irqfds and the producers that they are matched with. See bypass.c.
 */

#include "hv/iommu.h"
#include "hv/routing.h"
#include "hv/vm.h"

struct avicemu_irqfd {
    /* Constant. */
    struct avicemu_vm *vm;
    uint32_t gsi;
    const void *token;
    /* Under the posting lock. */
    struct avicemu_irqfd *next;
    struct ae_irq *irq; /* its producer; NULL: none */
};

/* All take the posting lock, but for signal. Not from callbacks: -EBUSY. */
int
ae_irqfd_create(struct avicemu_vm *vm, uint32_t gsi, const void *token,
                struct avicemu_irqfd **ret);
int
ae_irqfd_destroy(struct avicemu_irqfd *irqfd);
int
ae_bypass_add(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index,
              const void *token);
int
ae_bypass_remove(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint32_t index);
int
ae_bypass_set_routes(struct avicemu_vm *vm,
                     const struct avicemu_msi_route *routes, uint32_t nr);

/* Raise a GSI. 0, -ENOENT. Any thread. */
int
ae_gsi_signal(struct avicemu_vm *vm, uint32_t gsi,
              struct avicemu_posted *posted);

#endif
