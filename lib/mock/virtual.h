/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_VIRTUAL_H
#define AE_MOCK_VIRTUAL_H

/*
 * What a run with the virtual clock is told from outside its loop; all on its
 * one thread. See virtual.c.
 */

#include "cpu.h"
#include "device.h"

struct ae_virtual *
ae_virtual_create(struct avicemu_mock_host *host);
void
ae_virtual_destroy(struct ae_virtual *sim);

/* ops->wake came for a CPU that is in a block. */
void
ae_virtual_wake(struct ae_virtual *sim, struct avicemu_mock_cpu *cpu);

/* The device has something to do at that time. */
void
ae_virtual_device(struct ae_virtual *sim, struct ae_device *device,
                  uint64_t when_ns);

/* The IOMMU's GA-log interrupt has come. */
void
ae_virtual_notify(struct ae_virtual *sim, uint32_t index);

#endif
