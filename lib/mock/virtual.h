/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_VIRTUAL_H
#define AE_MOCK_VIRTUAL_H

/*
 * What a run with the virtual clock is told from outside its loop; all on its
 * one thread. See virtual.c.
 */

#include "cpu.h"
#include "device.h"

struct am_virtual *
am_virtual_create(struct avicemu_mock_host *host);
void
am_virtual_destroy(struct am_virtual *sim);

/* ops->wake came for a CPU that is in a block. */
void
am_virtual_wake(struct am_virtual *sim, struct avicemu_mock_cpu *cpu);

/* The device has something to do at that time. */
void
am_virtual_device(struct am_virtual *sim, struct am_device *device,
                  uint64_t when_ns);

/* The IOMMU's GA-log interrupt has come. */
void
am_virtual_notify(struct am_virtual *sim, uint32_t index);

#endif
