/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_IOMMU_H
#define AE_MOCK_IOMMU_H

/*
 * IOMMUs of the mock host, each with a notifier thread of its own (with the
 * virtual clock, an event), and what a VMM does for a device that it passes
 * through: an irqfd and a producer for each queue, and a route for each MSI-X
 * entry that the guest unmasks.
 *
 *   guest unmasks an entry -> route of its GSI -> IRTE
 *   device -> avicemu_iommu_msi() -> page, doorbell, or GA log
 *   GA-log interrupt -> the notifier -> avicemu_iommu_notify() -> wake
 *
 * GSI of queue q of a VM's device d: d * 64 + q. Device id: 8 + its number in
 * the scenario. Devices are dealt out to the IOMMUs in turn.
 *
 * Look-ups of GA tags are timed by the library's tracepoint, in ticks of the
 * processor's counter; two that overlap are counted.
 */

#include "device.h"
#include "histogram.h"

/* Threads: the notifier owns the look-ups; the words are for any. */
struct am_iommu_unit {
    /* set at creation */
    struct avicemu_mock_host *host;
    uint32_t index;
    struct avicemu_iommu *iommu;

    /* whoever notifies */
    uint64_t lookup_began;
    struct am_histogram lookups; /* ticks */
    uint64_t overlaps;           /* look-ups that began during another */

    /* any thread */
    _Alignas(64) _Atomic uint32_t rung; /* an interrupt is not handled yet */
    _Atomic uint64_t interrupts;

    /* the thread; under lock */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool pending, ending;
    pthread_t thread;
};

/* The host's callbacks; the opaque is the mock host. */
extern const struct avicemu_host_ops am_iommu_ops;

/* The processor's counter, and what reading it twice takes (its median). */
uint64_t
am_ticks(void);
uint64_t
am_ticks_overhead(void);

int
am_iommu_unit_create(struct avicemu_mock_host *host, uint32_t index,
                     struct am_iommu_unit **ret);
void
am_iommu_unit_destroy(struct am_iommu_unit *unit);

/* Handle what there is. */
void
am_iommu_unit_notify(struct am_iommu_unit *unit);
bool
am_iommu_unit_idle(const struct am_iommu_unit *unit);

/* The notifier's thread, with the wall clock. */
int
am_iommu_unit_start(struct am_iommu_unit *unit);
void
am_iommu_unit_stop(struct am_iommu_unit *unit);

/* ---- a device that is passed through ------------------------------------ */

int
am_iommu_attach(struct am_device *device);
void
am_iommu_detach(struct am_device *device);
/* The guest has changed queue q's MSI-X entry. */
void
am_iommu_entry(struct am_device *device, uint32_t q);
/* Raise queue q's interrupt. 0 or -errno. */
int
am_iommu_raise(struct am_device *device, uint32_t q,
               struct avicemu_posted *ret);

#endif
