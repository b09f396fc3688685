/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_DEVICE_H
#define AE_MOCK_DEVICE_H

/*
 * An NVMe-like device: a queue pair per vCPU, a service time per command, an
 * MSI-X vector per queue, raised through an IOMMU (iommu.h), or where the host
 * has none through avicemu_msi().
 *
 * Its registers, 64 KiB from AE_DEVICE_BAR(n) on, 4-byte accesses:
 *
 *   q * 16 + 0   MSI-X entry of queue q: message address, low half
 *   q * 16 + 4   high half
 *   q * 16 + 8   message data
 *   q * 16 + 12  bit 0: masked (1 after reset). Unmasking sends what waited
 *   8000h + q*4  doorbell: there are new commands in queue q
 *
 * A command is a word that is not 0; its completion is the same word. Queues
 * are rings in memory: the driver puts and the device gets commands, and the
 * other way round for completions.
 *
 *   driver --sq--> device: heap of commands under way --cq--> driver
 *                                                    --MSI--> vCPU
 *
 * Order: the completion is in its queue before the MSI is sent, so whoever
 * takes the interrupt sees it.
 *
 * Threads. Queue q's driver is one vCPU. The registers and the heap are under
 * lock; the books belong to the thread that polls.
 */

#include <avicemu/iommu.h>

#include "heap.h"
#include "ring.h"
#include "vm.h"

#define AE_DEVICE_BAR(n)   (0xd0000000u + (uint64_t)(n)*0x10000u)
#define AE_DEVICE_DOORBELL 0x8000u

#define AE_NR_WAYS ((unsigned)AVICEMU_WAY_ABORTED + 1u)

struct am_iommu_unit;

struct am_posts {
    uint64_t new, merged, dropped;
};

struct am_queue {
    struct am_ring *sq, *cq;
    uint64_t address; /* MSI-X entry, as the guest has it */
    uint32_t data;
    /* Passed through: what the device writes, and the guest's event. Set at
     * creation. */
    uint64_t host_address;
    uint32_t host_data;
    struct avicemu_irqfd *irqfd;
    bool masked, waiting;
    bool completed; /* since the last look: send an MSI */
};

struct am_device {
    /* set at creation */
    const struct avicemu_mock_device_config *config;
    struct avicemu_mock_vm *vm;
    uint32_t index; /* among those of the VM */
    uint32_t who;   /* in the trace */
    uint32_t nr_queues;
    struct am_queue *queues;
    struct am_iommu_unit *unit; /* NULL: none */
    uint16_t device_id;

    /* whoever polls */
    uint64_t random;
    uint64_t fetched, completed, msis;
    uint64_t ways[AE_NR_WAYS]; /* MSIs by enum avicemu_iommu_way */
    uint64_t bells, logged, overflows;
    uint32_t why;           /* OR of the reasons for drops */
    struct am_posts *posts; /* [target CPU, or nr_cpus: several][vector] */

    _Atomic uint32_t busy; /* commands seen by the device and not completed */

    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct am_heap heap;
    bool rung, ending;
    pthread_t thread;
    uint64_t sim_due; /* virtual clock: the earliest event that is set */
};

int
am_device_create(struct avicemu_mock_vm *vm,
                 const struct avicemu_mock_device_config *config,
                 struct am_device **ret);
void
am_device_destroy(struct am_device *device);

/* A guest's access; UNCLAIMED: no register there. */
enum avicemu_access
am_device_write(struct am_device *device, uint64_t offset, uint32_t value);
enum avicemu_access
am_device_read(struct am_device *device, uint64_t offset, uint32_t *ret);

/* Fetch what is new, complete what is due, send MSIs. Returns when to call
 * again, unless the doorbell rings before; UINT64_MAX: idle. */
uint64_t
am_device_poll(struct am_device *device, uint64_t now_ns);

bool
am_device_idle(const struct am_device *device);

/* The thread of a device with the wall clock. */
int
am_device_start(struct am_device *device);
void
am_device_stop(struct am_device *device);

#endif
