/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_IOMMU_H
#define AVICEMU_IOMMU_H

/*
 * Interrupts of devices that are passed through to guests: an IOMMU posts them
 * into the vCPU's backing page, rings the core that runs it, or logs its tag so
 * that a notifier wakes it.
 *
 * A host with AVIC has any number of IOMMUs. The library is their driver, too:
 * it keeps device table, remapping entries, command buffer and logs, and
 * follows each vCPU as it is loaded, put, blocks, or loses AVIC. The hardware
 * alone, for a driver of your own, is <avicemu/hw/iommu.h>.
 *
 *   avicemu_iommu_add_device(iommu, dev, nr)       at set-up
 *   avicemu_iommu_route(iommu, dev, i, vcpu, vec)  device vector i -> guest's
 *   avicemu_iommu_msi(iommu, dev, addr, data)      the device's write
 *   ops.ga_interrupt -> avicemu_iommu_notify()     by a thread of the host
 *
 * Or by GSI, as KVM's irqfd does it: a routing table per VM, an irqfd for each
 * GSI, and the device's interrupt as producer with the same token.
 */

#include <avicemu/common.h>
#include <avicemu/hw/iommu.h>
#include <avicemu/lapic.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_iommu_config {
    size_t size;
    uint32_t features;        /* AVICEMU_IOMMU_*, with GA and GAM; 0: DEFAULT */
    uint32_t nr_device_ids;   /* 1..65536: ids 0 .. nr-1; 0: 256 */
    uint32_t max_devices;     /* 1..65536 at a time; 0: 64 */
    uint32_t irqs_per_device; /* 1..2048, above 512 with 2K; 0: 64 */
    uint32_t ga_log_entries;  /* 512..65536, a power of two; 0: 512 */
    uint32_t nr_cached;       /* with CACHE, see <avicemu/hw/iommu.h> */
    void *opaque;             /* avicemu_iommu_opaque() */
};

/**
 * Create an IOMMU and bring it up: tables, rings, logs, guest mode.
 *
 * @param host       with AVIC; outlives the IOMMU
 * @param config     copied; NULL: all defaults
 * @param ret_iommu  the caller's until avicemu_iommu_destroy()
 * @return 0, -EINVAL (a field; the host's log says which), -EOPNOTSUPP (the
 *         host has no AVIC), -ENOMEM, -EEXIST (its memory's own address is
 *         mapped to other memory)
 *
 * Threads: any.
 */
AVICEMU_API int
avicemu_iommu_create(struct avicemu_host *host,
                     const struct avicemu_iommu_config *config,
                     struct avicemu_iommu **ret_iommu);

/**
 * Destroy an IOMMU. NULL is fine. Nobody notifies or posts through it any more.
 * @return 0, -EBUSY while it has devices
 */
AVICEMU_API int
avicemu_iommu_destroy(struct avicemu_iommu *iommu);

/** The opaque of its config. */
AVICEMU_API void *
avicemu_iommu_opaque(const struct avicemu_iommu *iommu);

/**
 * Give a device its remapping table; every entry is not present.
 *
 * @param device_id  requester: bus [15:8], device and function [7:0]
 * @param nr_irqs    1 .. irqs_per_device
 * @return 0, -EINVAL, -EEXIST, -ENOMEM (no memory, or max_devices)
 *
 * Threads: any; may wait.
 */
AVICEMU_API int
avicemu_iommu_add_device(struct avicemu_iommu *iommu, uint16_t device_id,
                         uint32_t nr_irqs);

/**
 * Take a device away. Its interrupts are dropped from now on; those under way
 * have been delivered when it returns.
 * @return 0, -ENOENT, -EBUSY (an interrupt of it is a producer)
 *
 * Threads: any but callbacks; waits for interrupts under way.
 */
AVICEMU_API int
avicemu_iommu_remove_device(struct avicemu_iommu *iommu, uint16_t device_id);

/**
 * What the device must write for its interrupt index: to be programmed into its
 * MSI or MSI-X capability. @return 0, -ENOENT (no such device or index)
 */
AVICEMU_API int
avicemu_iommu_message(struct avicemu_iommu *iommu, uint16_t device_id,
                      uint32_t index, uint64_t *ret_address,
                      uint32_t *ret_data);

/**
 * Route a device's interrupt to a guest's vector, or anew, or nowhere.
 *
 * Posted in hardware while AVIC is active on the vCPU, injected by software
 * while it is not. When it returns, nothing arrives by the former route any
 * more; what came by it is pending where it went.
 *
 * @param index   0 .. nr_irqs-1
 * @param vcpu    target, of this host; NULL: none, to the host
 * @param vector  16..255
 * @return 0, -EINVAL (vector; vCPU of another host), -ENOENT (no such device
 *         or index; vcpu is being destroyed), -EBUSY (a producer's; from a
 *         callback)
 *
 * Threads: any but callbacks; waits for interrupts under way, never for a vCPU.
 * Spec: [KVM posted IRTE lists]
 */
AVICEMU_API int
avicemu_iommu_route(struct avicemu_iommu *iommu, uint16_t device_id,
                    uint32_t index, struct avicemu_vcpu *vcpu, uint8_t vector);

/** What became of a device's interrupt. */
enum avicemu_iommu_way {
    AVICEMU_WAY_POSTED,   /* by hardware */
    AVICEMU_WAY_INJECTED, /* by software: AVIC is off there, or not postable */
    AVICEMU_WAY_HOST,     /* to the host: ops.host_interrupt */
    AVICEMU_WAY_ABORTED,  /* a fault; an event is in the log */
};

struct avicemu_iommu_posted {
    struct avicemu_posted posted; /* ABORTED, HOST: one dropped */
    enum avicemu_iommu_way way;
    uint32_t nr_doorbells; /* rung */
    uint32_t nr_logged;    /* entries in the GA log */
    uint32_t nr_overflows; /* the log was full */
};

/**
 * A device's interrupt: the write that avicemu_iommu_message() tells.
 *
 * @param ret  may be NULL
 * @return 0, -EINVAL
 *
 * Threads: any, concurrently, callbacks too. Progress: lock-free; a posted one
 * makes no system call where doorbells are words. Races with destroy of the
 * vCPU and removal of the device: then it is dropped.
 */
AVICEMU_API int
avicemu_iommu_msi(struct avicemu_iommu *iommu, uint16_t device_id,
                  uint64_t address, uint32_t data,
                  struct avicemu_iommu_posted *ret);

/**
 * Handle the GA-log interrupt: drain the log, wake whose tags are in it, and
 * recover from an overflow by a restart and then a scan, so that no wake-up is
 * lost. Call it after ops.ga_interrupt; more often is harmless.
 *
 * @return number of entries drained; -EBUSY: another thread is at it, and will
 *         look once more
 *
 * Threads: any, one at a time for each IOMMU. ops.wake is called inside a
 * drain: it must only signal. Spec: [KVM GA log notifier]
 */
AVICEMU_API int
avicemu_iommu_notify(struct avicemu_iommu *iommu);

/** An entry of the event log. */
struct avicemu_iommu_event {
    uint64_t low, high; /* see avicemu_describe_event() */
};

/**
 * Take one event from the log; restarts it after an overflow.
 * @return 0, -EAGAIN (none), -EINVAL
 *
 * Threads: any, one at a time for each IOMMU.
 */
AVICEMU_API int
avicemu_iommu_event(struct avicemu_iommu *iommu,
                    struct avicemu_iommu_event *ret);

/** The notifier's counters, and the driver's. */
struct avicemu_iommu_stats {
    size_t size;
    uint64_t notified;  /* calls of avicemu_iommu_notify() that did work */
    uint64_t entries;   /* of the GA log */
    uint64_t unknown;   /* whose tag has no vCPU */
    uint64_t wakes;     /* that made a callback due, or rang a core */
    uint64_t overflows; /* recovered from */
    uint64_t scanned;   /* vCPUs looked at after an overflow */
    uint64_t routes;    /* changes */
    uint64_t commands;  /* put into the command buffer */
};

/** Threads: any; a moment's view. @return 0, -EINVAL */
AVICEMU_API int
avicemu_iommu_stats(const struct avicemu_iommu *iommu,
                    struct avicemu_iommu_stats *ret);

/* ---- by GSI ------------------------------------------------------------- */

/** An entry of a VM's routing table. */
struct avicemu_msi_route {
    uint32_t gsi; /* 0..4095 */
    uint32_t data;
    uint64_t address;
};

/**
 * Replace the VM's routing table. Irqfds with a producer follow.
 *
 * @param routes  nr entries, copied; each GSI at most once
 * @return 0, -EINVAL, -EEXIST (a GSI twice), -ENOMEM, -EBUSY (from a callback)
 *
 * Threads: any but callbacks; waits for messages under way.
 */
AVICEMU_API int
avicemu_vm_set_routes(struct avicemu_vm *vm,
                      const struct avicemu_msi_route *routes, uint32_t nr);

/** Raise a GSI: the MSI that it is routed to. @return 0, -EINVAL, -ENOENT (no
 * route). Threads: any, lock-free. */
AVICEMU_API int
avicemu_vm_signal(struct avicemu_vm *vm, uint32_t gsi,
                  struct avicemu_posted *ret);

struct avicemu_irqfd;

/**
 * Tie a GSI of a VM to a token, as KVM_IRQFD ties it to an eventfd.
 *
 * @param token      any pointer that names the event; not looked into; NULL:
 *                   no producer will come
 * @param ret_irqfd  the caller's until avicemu_irqfd_destroy()
 * @return 0, -EINVAL, -EEXIST (the token has a consumer), -ENOMEM, -EBUSY
 */
AVICEMU_API int
avicemu_irqfd_create(struct avicemu_vm *vm, uint32_t gsi, const void *token,
                     struct avicemu_irqfd **ret_irqfd);
/** Its producer goes back to the host. NULL is fine. @return 0, -EBUSY (from a
 * callback). Waits for interrupts under way. */
AVICEMU_API int
avicemu_irqfd_destroy(struct avicemu_irqfd *irqfd);

/** The event has been signalled: raise its GSI. As avicemu_vm_signal(). */
AVICEMU_API int
avicemu_irqfd_signal(struct avicemu_irqfd *irqfd, struct avicemu_posted *ret);

/**
 * A device's interrupt signals the token. With a consumer it is posted where
 * the route is postable: fixed or lowest priority, to exactly one vCPU; else
 * software injects it. Without one it goes to the host.
 *
 * @return 0, -EINVAL, -ENOENT (device, index), -EEXIST (the token, or the
 *         interrupt, is a producer already), -EBUSY (routed; from a callback)
 *
 * Spec: [KVM irqbypass]
 */
AVICEMU_API int
avicemu_iommu_add_producer(struct avicemu_iommu *iommu, uint16_t device_id,
                           uint32_t index, const void *token);
/** @return 0, -ENOENT, -EBUSY (from a callback) */
AVICEMU_API int
avicemu_iommu_remove_producer(struct avicemu_iommu *iommu, uint16_t device_id,
                              uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
