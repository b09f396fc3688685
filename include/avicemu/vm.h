/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_VM_H
#define AVICEMU_VM_H

/*
 * Hosts and VMs: creation, the callbacks into the VMM, the memory map.
 *
 * A host owns what several guests share; a VM owns its vCPUs. There are no
 * globals: a process may hold several hosts. The library creates no thread,
 * timer, signal handler or descriptor.
 *
 * Configuration structs go by pointer, begin with size (set it to
 * sizeof(struct ...)), are copied, and read zero as "the default". Bytes past
 * what the library knows must be zero.
 */

#include <avicemu/common.h>
#include <avicemu/lapic.h>
#include <avicemu/log.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where the library gets memory, at set-up only. Both or neither set. */
struct avicemu_allocator {
    /* bytes > 0, aligned to align (a power of two, at most 4096); or NULL */
    void *(*alloc)(void *opaque, size_t align, size_t bytes);
    void (*free)(void *opaque, void *memory, size_t bytes);
    void *opaque;
};

/** How a doorbell reaches the thread that runs the guest. */
enum avicemu_doorbell_mode {
    AVICEMU_DOORBELL_KICK, /* by ops->kick: the guest runs inside a call */
    AVICEMU_DOORBELL_WORD, /* a word of the pCPU: the runner of the guest calls
                              avicemu_vcpu_recheck() between its steps */
};

/** How a GA tag is made up: VM id above, vCPU index below. The lower part
 * limits the vCPUs of a VM. [KVM GATag layout] */
enum avicemu_tag_layout {
    AVICEMU_TAG_20_12, /* 4096 vCPUs */
    AVICEMU_TAG_23_9,  /* 512 */
    AVICEMU_TAG_24_8,  /* 256 */
};

/**
 * The callbacks of a host about its IOMMUs, see <avicemu/iommu.h>. NULL: nobody
 * to tell. No lock and no read-side section of the library is held.
 */
struct avicemu_host_ops {
    /*
     * The IOMMU's GA-log interrupt: have avicemu_iommu_notify() called, by any
     * thread, soon. From the thread that posted. NULL: the host calls it
     * now and then.
     */
    void (*ga_interrupt)(void *opaque, struct avicemu_iommu *iommu);
    /*
     * The IOMMU's event interrupt: avicemu_iommu_event() has something. From
     * the thread that posted.
     */
    void (*event_interrupt)(void *opaque, struct avicemu_iommu *iommu);
    /*
     * A device's interrupt that belongs to the host: its entry is routed to no
     * guest. From the thread that sent it. NULL: dropped.
     */
    void (*host_interrupt)(void *opaque, struct avicemu_iommu *iommu,
                           uint16_t device_id, uint32_t index);
    /*
     * To measure: a look-up of a GA tag begins (1), has ended (0). Inside a
     * drain: signals only, no re-entry.
     */
    void (*ga_lookup)(void *opaque, struct avicemu_iommu *iommu, int begins);
};

struct avicemu_host_config {
    size_t size;
    struct avicemu_allocator allocator; /* zero: aligned_alloc and free */
    avicemu_log_fn log;                 /* NULL: silent */
    enum avicemu_log_level log_level;
    void *opaque; /* first argument of log */
    /* AVIC, see <avicemu/avic.h>. */
    uint32_t avic;       /* AVICEMU_HOST_*: what the silicon has */
    uint32_t maxphyaddr; /* 32..52 bits of a system physical address; 0: 48 */
    enum avicemu_doorbell_mode doorbells;
    uint32_t nr_pcpus; /* WORD: host APIC ids 0 .. nr-1 have one; to 4096 */
    /* IOMMUs, see <avicemu/iommu.h>; with AVIC. */
    enum avicemu_tag_layout tag_layout;
    struct avicemu_host_ops ops; /* first argument: opaque, above */
};

/**
 * Create a host.
 *
 * @param config    NULL: all defaults
 * @param ret_host  the host; owned by the caller until avicemu_host_destroy()
 * @return 0, -EINVAL (a config field; the log says which), -ENOMEM
 *
 * Threads: any.
 */
AVICEMU_API int
avicemu_host_create(const struct avicemu_host_config *config,
                    struct avicemu_host **ret_host);

/**
 * Destroy a host. NULL is fine.
 *
 * @return 0, -EBUSY while it has VMs or mapped regions
 */
AVICEMU_API int
avicemu_host_destroy(struct avicemu_host *host);

/**
 * Add a region to the host's memory map: what hardware calls system physical
 * addresses base .. base+bytes-1 is then the caller's memory at hva.
 *
 * @param base   multiple of 4096
 * @param bytes  multiple of 4096, not 0; base+bytes must not wrap
 * @param hva    4096-aligned; stays the caller's, valid until unmapped
 * @return 0, -EINVAL, -EEXIST (overlaps a region), -ENOMEM
 *
 * Threads: any; waits for walks in flight, so not from a callback.
 */
AVICEMU_API int
avicemu_host_map(struct avicemu_host *host, uint64_t base, uint64_t bytes,
                 void *hva);

/**
 * Remove the region that begins at base. When it returns no walk can reach
 * the memory behind it. Regions of the library itself are not the caller's.
 *
 * @return 0, -ENOENT
 */
AVICEMU_API int
avicemu_host_unmap(struct avicemu_host *host, uint64_t base);

/**
 * The callbacks of one VM. All are set at creation; NULL is the no-op that
 * each line names. The opaque of vCPU callbacks is the one that was given to
 * avicemu_vcpu_create(); of the others, that of the VM.
 *
 * No lock and no read-side section of the library is held during a call. A
 * callback may make any call that is marked "Threads: any"; it must not
 * destroy anything (-EBUSY) and not enter the vCPU that it is about. A slow
 * callback delays the thread that called in, and nobody else.
 */
struct avicemu_ops {
    /*
     * The vCPU is between enter and exit, and something new is pending: make
     * it come out. At most once per entry. From any posting thread. NULL: the
     * host looks at pending work between steps by itself.
     */
    void (*kick)(void *opaque, struct avicemu_vcpu *vcpu);
    /*
     * The vCPU is between block_begin and block_end, and has a reason to run:
     * end its wait. At most once per block. It may come before the sleeper
     * sleeps, so the wait must remember it (a semaphore does). From any
     * posting thread. NULL: the host polls avicemu_vcpu_runnable().
     */
    void (*wake)(void *opaque, struct avicemu_vcpu *vcpu);
    /*
     * Wait until wake was called for this vCPU or now reaches deadline
     * (UINT64_MAX: none). At the deadline call avicemu_vcpu_expire(), unless
     * whoever was armed does. From the vCPU's own thread, in
     * avicemu_vcpu_halt().
     * NULL: halt returns -EOPNOTSUPP.
     */
    void (*block)(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline);
    /*
     * The vCPU's next deadline changed: call avicemu_vcpu_expire() once now
     * reaches it (UINT64_MAX: no deadline). From the vCPU's own thread. NULL:
     * the host looks at the deadline in struct avicemu_todo.
     */
    void (*arm)(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline);
    /*
     * APIC_BASE changed: the guest moved, enabled, disabled or switched its
     * APIC, or the host loaded the MSR. value is the new one. From the vCPU's
     * own thread. NULL: nobody to tell.
     */
    void (*apic_base)(void *opaque, struct avicemu_vcpu *vcpu, uint64_t value);
    /*
     * INTA cycle to the VMM's own PIC: which vector? From the vCPU's own
     * thread, once per ExtINT. NULL: ExtINT interrupts are not taken.
     */
    uint8_t (*inta)(void *opaque, struct avicemu_vcpu *vcpu);
    /*
     * EOI broadcast for a level-triggered vector: tell every IOAPIC. In the
     * same call that wrote the EOI register. It may post the vector again.
     * NULL: there is no IOAPIC.
     */
    void (*eoi)(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector);
    /*
     * The time, in ticks of now_hz, never going back. May be called by any
     * thread. Required.
     */
    uint64_t (*now)(void *opaque);
    /* A message of this VM. NULL: silent. */
    avicemu_log_fn log;
};

/* Parts of the irqchip that the library provides; the rest is the VMM's. */
#define AVICEMU_PART_LAPIC (1u << 0)

/* Keep books per vector and per vCPU (avicemu_vcpu_books()): about 14 KiB and
 * 8 bytes per possible vCPU more, for each vCPU. A vCPU's place in max_vcpus is
 * free when its destroy has returned. */
#define AVICEMU_VM_BOOKS (1u << 0)
/* AVIC for this VM, if the host has it. */
#define AVICEMU_VM_AVIC (1u << 1)
/* IPI virtualisation off: IsRunning is never set in the table, so every IPI but
 * a self-IPI exits. The answer to erratum 1235. */
#define AVICEMU_VM_NO_IPIV (1u << 2)

struct avicemu_vm_config {
    size_t size;
    uint32_t parts;       /* AVICEMU_PART_*; 0: AVICEMU_PART_LAPIC */
    uint32_t flags;       /* AVICEMU_VM_* */
    uint32_t max_vcpus;   /* 1..4096; 0: 255. Sizes the APIC map */
    uint32_t bsp_apic_id; /* the vCPU that starts at the reset vector */
    struct avicemu_lapic_config lapic;
    struct avicemu_ops ops;
    void *opaque; /* first argument of now and log */
    enum avicemu_log_level log_level;
    /* AVIC: the highest APIC id of a vCPU to come; a broadcast walks the table
     * up to here. Ids above inhibit AVIC. 0: as high as the mode allows. */
    uint32_t max_apic_id;
};

/**
 * Create a VM without vCPUs.
 *
 * @param host    owner; must outlive the VM
 * @param config  copied. Required: size, ops.now
 * @param ret_vm  the VM; owned by the caller until avicemu_vm_destroy()
 * @return 0, -EINVAL (the log names field, value and range), -ENOMEM; with
 *         AVIC -EEXIST (its memory's own address is mapped to other memory)
 *
 * Threads: any.
 */
AVICEMU_API int
avicemu_vm_create(struct avicemu_host *host,
                  const struct avicemu_vm_config *config,
                  struct avicemu_vm **ret_vm);

/**
 * Destroy a VM. NULL is fine. Waits for messages to it that are under way.
 *
 * @return 0, -EBUSY while it has vCPUs
 */
AVICEMU_API int
avicemu_vm_destroy(struct avicemu_vm *vm);

/** Number of vCPUs of the VM now. Threads: any. */
AVICEMU_API uint32_t
avicemu_vm_nr_vcpus(const struct avicemu_vm *vm);

/** Memory that one more vCPU of this VM takes, in bytes. Threads: any. */
AVICEMU_API uint64_t
avicemu_vm_vcpu_bytes(const struct avicemu_vm *vm);

/**
 * Set up the calling thread for the library's read-side sections now, so that
 * its first delivery does not have to allocate.
 */
AVICEMU_API void
avicemu_thread_attach(void);

/**
 * Check what must always hold, at a moment when no other call is under way:
 * vector books closed, map agrees with the vCPUs, PPR = f(TPR, ISR), nothing
 * below vector 16 pending.
 *
 * @param buf  receives one line about the first violation; may be NULL
 * @param len  bytes in buf
 * @return number of violations; 0 is right
 *
 * Works in every build. Cost: about 10 us per vCPU.
 */
AVICEMU_API uint32_t
avicemu_check_invariants(struct avicemu_vm *vm, char *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
