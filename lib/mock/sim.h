/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_SIM_H
#define AE_MOCK_SIM_H

/*
 * What a run with the virtual clock is told from outside its loop; all on its
 * one thread. See virtual.c.
 */

#include "cpu.h"
#include "device.h"

/* ops->wake came for a blocked CPU. */
void ae_virtual_wake(struct ae_virtual *sim, struct avicemu_mock_cpu *cpu);

/* The device has something to do at that time. */
void ae_virtual_device(struct ae_virtual *sim, struct ae_device *device,
                       uint64_t when_ns);

#endif
