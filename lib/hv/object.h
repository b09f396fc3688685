/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_OBJECT_H
#define AE_HV_OBJECT_H

/*
 * The structs of host, VM and vCPU. Fields are grouped by writer; each group
 * that another thread reads has cache lines of its own.
 */

#include <avicemu/avic.h>
#include <avicemu/vcpu.h>
#include <avicemu/vm.h>

#include "base/alloc.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hv/vmtable.h"
#include "hw/avic.h"
#include "hw/dest.h"
#include "hw/lapic.h"

/*
 * Run state of a vCPU, one word, so that a poster decides with one read
 * whether to call, and one exchange makes sure that only one does.
 *
 *   1:0   where     2 BELL: AVIC is active, vectors ring the doorbell word
 *   8     KICKED: somebody has called already
 *   23:16 BLOCKED: events of this level or below do not end the wait
 */
enum ae_where {
    AE_OUTSIDE,
    AE_IN_GUEST,
    AE_BLOCKED,
};

#define AE_STATE_WHERE       0x3u
#define AE_STATE_BELL        0x4u
#define AE_STATE_KICKED      0x100u
#define AE_STATE_LEVEL_SHIFT 16

/*
 * Levels of urgency: a blocked vCPU is woken by what is above its threshold.
 * Fixed vectors: 2 * class; "PPR class p" as threshold is 2 * p + 1.
 */
enum ae_level {
    AE_LEVEL_REQUEST = 1, /* below every threshold: wakes nobody */
    AE_LEVEL_EXTINT = 32, /* as threshold: IF = 0 */
    AE_LEVEL_NMI = 33,
    AE_LEVEL_SMI = 34, /* as threshold: waits for SIPI */
    AE_LEVEL_INIT = 35,
    AE_LEVEL_OWNER = 36, /* the owner must look: timer, error */
};

/*
 * Events that bypass the IRR, one word, any thread:
 *
 *   1:0 NMIs waiting (0..2)  2 SMI  3 INIT  4 SIPI  5 waits for SIPI
 *   6 ExtINT by IPI  7 a deadline may have passed  8 look at the ESR
 *   23:16 SIPI vector
 */
#define AE_EV_NMI_MASK    0x3u
#define AE_EV_SMI         0x4u
#define AE_EV_INIT        0x8u
#define AE_EV_SIPI        0x10u
#define AE_EV_WFS         0x20u
#define AE_EV_EXTINT      0x40u
#define AE_EV_EXPIRED     0x80u
#define AE_EV_ERROR       0x100u
#define AE_EV_SIPI_SHIFT  16
#define AE_EV_SIPI_VECTOR 0x00ff0000u
#define AE_EV_SAVED       0x00ff017fu /* what a snapshot keeps */

/*
 * Books, AVICEMU_VM_BOOKS: per vector, and of IPIs that were NEW by pair of
 * sender and target. Written by the owner only, but that who destroys a vCPU
 * moves its pairs to the two accounts of those that are gone (vcpu.c), under
 * the map's lock.
 */
struct ae_books {
    uint64_t acked[AE_NR_VECTORS];
    uint64_t cleared[AE_NR_VECTORS];
    uint64_t local_new[AE_NR_VECTORS];
    uint64_t local_merged[AE_NR_VECTORS];
    uint64_t ipi_new[AE_NR_VECTORS];
    uint64_t ipi_merged[AE_NR_VECTORS];
    uint64_t ipi_dropped[AE_NR_VECTORS];
    _Atomic uint64_t ipi_new_from_gone; /* senders that were destroyed */
    _Atomic uint64_t ipi_new_to_gone;   /* targets that were destroyed */
    _Atomic uint64_t ipi_new_to[]; /* by target's vcpu_idx; max_vcpus entries */
};

/* What an access left for the handler of its exit. */
enum ae_exit_kind {
    AE_EXIT_NONE,
    AE_EXIT_MMIO, /* at: guest physical address */
    AE_EXIT_MSR,  /* at: MSR */
    AE_EXIT_CR8,
};

struct ae_exit {
    enum ae_exit_kind kind;
    bool write;
    uint32_t len; /* MMIO */
    uint64_t at;
    uint64_t value;
    uint32_t failure; /* IPI: enum avicemu_ipi_failure + 1; 0: no IPI */
    uint8_t level;    /* IPI: of its vector */
    uint8_t nr_ids;   /* whose IRR bits are set; 0 of a broadcast */
    uint16_t ids[AE_IPI_MAX_DIRECTED];
};

#define AE_V_TPR_UNKNOWN 0xffu

/* AVIC of one vCPU; all zero in a VM without. Owner's. */
struct ae_vcpu_avic {
    struct ae_core core;
    bool active;
    bool x2avic;   /* active, by MSRs */
    bool loaded;   /* on the core pcpu */
    bool blocked;  /* between block_begin and block_end */
    bool words;    /* of the host */
    uint8_t v_tpr; /* in the VMCB; UNKNOWN: VMRUN has to look at all of it */
    _Atomic uint32_t *word; /* the doorbell of pcpu; NULL: it has none */
    struct ae_exit exit;
};

/*
 * What the IRTEs of a vCPU are to say. The word: 0 guest mode, else remapped
 * 1 IsRun  2 GALogIntr  63:32 Destination.
 */
#define AE_POST_GUEST      1u
#define AE_POST_RUN        2u
#define AE_POST_LOG        4u
#define AE_POST_DEST_SHIFT 32

struct ae_irq;

/* Interrupts of devices that are posted to one vCPU. See posting.c. */
struct ae_posting {
    uint32_t ga_tag; /* constant */
    /* The owner's, read by who adds an entry. */
    _Atomic uint64_t where;
    /* Under the lock; nr is also read by the owner without it. */
    struct ae_lock lock;
    struct ae_irq *irqs;
    bool closed; /* it is being destroyed */
    _Atomic uint32_t nr;
};

struct avicemu_vcpu {
    /* Constant after creation. */
    struct avicemu_vm *vm;
    void *opaque;
    struct ae_books *books; /* NULL without AVICEMU_VM_BOOKS */
    uint32_t vcpu_idx;      /* dense, ours; never an APIC id */

    /* Written by every poster and the owner; see vcpu.c for the edges. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t state;
    _Atomic uint32_t events; /* AE_EV_* */
    _Atomic uint32_t pins;   /* callbacks about it that are under way */
    _Atomic uint32_t pcpu; /* AVIC: whose doorbell posters ring; the owner's */

    /* Owner's. deadline is also read by any thread. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t deadline;
    uint32_t cpu_flags; /* AVICEMU_CPU_* of the last enter or exit */
    bool halted;
    bool extint_latched; /* INTA was done, the injection not acked yet */
    uint8_t extint_vector;
    _Atomic uint32_t owned; /* debug builds: an owner's call is under way */
    struct avicemu_vcpu_stats stats;
    struct ae_vcpu_avic avic;
    struct ae_lapic lapic;

    AE_ALIGNED(AE_CACHE_LINE) struct ae_posting posting;
};

struct ae_tables;

#define AE_MAP_NONE     0u
#define AE_MAP_MANY     UINT32_MAX
#define AE_MAP_CLUSTERS 15u

/* Who is where in a VM's APIC space. See apicmap.c. */
struct ae_apicmap {
    struct ae_lock lock; /* serialises writers */
    uint32_t max_vcpus;
    uint32_t hash_mask;
    bool msi_ff_broadcast;    /* of the VM's personality */
    bool books;               /* an index is held until its books are closed */
    struct ae_tables *tables; /* NULL without AVIC */
    /* Under the lock: by vcpu_idx, who is out of the map and holds the index.
     * NULL without books. */
    struct avicemu_vcpu **leaving;
    /* Written under the lock, read by senders inside a read-side section. */
    _Atomic(struct avicemu_vcpu *) *vcpus; /* by vcpu_idx */
    _Atomic uint64_t *hash;                /* initial id -> vcpu_idx */
    _Atomic uint32_t nr_slots; /* one past the highest index ever used */
    _Atomic uint32_t nr_vcpus;
    _Atomic uint32_t version; /* odd while flags and hints change */
    _Atomic uint32_t flags;   /* AE_MAP_HAS_* */
    /* Hints: vcpu_idx + 1, NONE or MANY. */
    _Atomic uint32_t xapic_phys[256];
    _Atomic uint32_t flat[8];
    _Atomic uint32_t cluster[AE_MAP_CLUSTERS * 4];
};

struct ae_routes;

struct avicemu_vm {
    /* Constant after creation. */
    struct avicemu_host *host;
    uint32_t vm_id; /* in GA tags; 0 without AVIC */
    struct avicemu_ops ops;
    void *opaque;
    struct ae_log log;
    uint32_t flags;
    uint32_t bsp_apic_id;
    struct ae_lapic_model model;
    struct ae_tables *tables; /* NULL without AVIC */

    /* GSI to MSI; NULL: none. Written under the host's posting lock, read in
     * sections. */
    _Atomic(struct ae_routes *) routes;
    uint32_t nr_irqfds; /* under that lock */

    /* vCPUs whose memory is there; the map's count drops earlier. */
    _Atomic uint32_t nr_alive;

    AE_ALIGNED(AE_CACHE_LINE) struct ae_apicmap map;
};

struct ae_bypass;

struct avicemu_host {
    struct avicemu_allocator allocator;
    struct ae_log log;
    uint32_t avic; /* AVICEMU_HOST_* */
    uint32_t maxphyaddr;
    enum avicemu_doorbell_mode doorbell_mode;
    uint32_t nr_pcpus;
    struct avicemu_doorbell *doorbells; /* by host APIC id; NULL: none */
    struct ae_mem mem;
    _Atomic uint32_t nr_vms;

    /* With AVIC. */
    struct avicemu_host_ops ops;
    void *opaque;
    struct ae_vmids vm_ids;
    struct ae_vmtable vmtable;
    /* Serialises who routes interrupts of devices: never taken on the way of
     * one, nor by a vCPU. Under it: the rest. */
    struct ae_lock posting_lock;
    uint32_t nr_iommus;
    struct avicemu_irqfd *irqfds; /* lists */
    struct ae_bypass *bypasses;
};

#endif
