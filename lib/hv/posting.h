/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_POSTING_H
#define AE_HV_POSTING_H

/*
 * Remapping entries that post to vCPUs, each on the list of its vCPU, and the
 * command buffer of the IOMMU that they belong to. See posting.c.
 */

#include "hv/object.h"
#include "hw/iommu.h"

/* Where an interrupt goes. Read in sections, changed behind them. */
struct ae_target {
    struct avicemu_vcpu *vcpu;
    uint8_t vector;
};

/* One interrupt of a device: an entry of its table. */
struct ae_irq {
    /* Constant. */
    struct ae_device *device;
    struct ae_atomic16 *slot;
    uint32_t index;
    /* Under the host's posting lock. */
    struct ae_target targets[2]; /* in turn: readers may have the other */
    struct ae_bypass *bypass;    /* it is a producer; NULL: it is not */
    /* Under that lock; read in sections. */
    _Atomic(struct ae_target *) target;    /* NULL: no vCPU */
    _Atomic(struct avicemu_irqfd *) irqfd; /* NULL: no consumer */
    /* Under the lock of its vCPU. */
    struct ae_irq *next;
    struct ae_irq **link;
};

struct ae_device {
    /* Constant. */
    struct avicemu_iommu *iommu;
    uint16_t device_id;
    uint32_t nr_irqs;
    uint32_t table; /* which of the IOMMU's tables it has */
    /* Where its interrupts found memory; hints. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t near_dte;
    _Atomic uint32_t near_table, near_page;
    struct ae_irq irqs[];
};

/* Counters of an IOMMU; each written by one thread at a time. */
struct ae_iommu_counts {
    _Atomic uint64_t notified, entries, unknown, wakes, overflows, scanned;
    _Atomic uint64_t routes;   /* under the posting lock */
    _Atomic uint64_t commands; /* under the queue lock */
};

struct avicemu_iommu {
    /* Constant after creation. */
    struct avicemu_host *host;
    void *opaque;
    unsigned char *memory; /* one region: see iommu.c */
    size_t bytes;
    uint64_t table_bytes; /* of one device */
    _Atomic uint64_t *device_table, *commands, *events, *ga_log;
    _Atomic uint64_t *words; /* WORD_* */
    unsigned char *tables;   /* max_devices of table_bytes */
    uint32_t nr_device_ids, max_devices, irqs_per_device;
    uint32_t features; /* AVICEMU_IOMMU_* */
    _Atomic uint32_t *marks;
    struct ae_intcache_line *lines;
    uint32_t nr_lines;
    struct ae_drain *drain;

    /* Under the posting lock; devices are also read in sections. */
    _Atomic(struct ae_device *) *devices; /* by id */
    uint32_t *free_tables;                /* a stack */
    uint32_t nr_free;

    /* Serialises who puts commands in. */
    AE_ALIGNED(AE_CACHE_LINE) struct ae_lock queue_lock;
    uint64_t sequence; /* of the last COMPLETION_WAIT */
    bool owed;         /* an invalidation found no place */

    /* Serialises who changes the control register after bring-up. */
    struct ae_lock control_lock;

    /* Calls of notify since one is at it, that one included. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t notify;
    struct ae_iommu_counts counts;

    struct ae_iommu hw;
};

enum ae_iommu_word {
    AE_WORD_COMPLETION, /* what COMPLETION_WAIT stores */
    AE_WORD_TAIL,       /* the GA log's tail, a copy that nobody reads */
};

/* ORD none: by its only writer at a time; others see a moment's view. */
static inline void
ae_count(_Atomic uint64_t *counter, uint64_t n)
{
    ae_store_relaxed_u64(counter, ae_load_relaxed_u64(counter) + n);
}

/* ---- vCPUs (owner's but for close) -------------------------------------- */

void
ae_posting_init(struct avicemu_vcpu *vcpu);
void
ae_posting_fini(struct avicemu_vcpu *vcpu);

/* What the vCPU is about to do, or has just begun. */
enum ae_posting_state {
    AE_POSTING_OUTSIDE, /* if it is loaded, it runs; else preempted */
    AE_POSTING_BLOCKED, /* IRR is read after this call */
    AE_POSTING_ENTERED, /* although nothing reaches it by a doorbell */
};
/* All its entries say so, before return: a read of IRR by the caller then sees
 * each interrupt that went by the old ones. */
void
ae_posting_follow(struct avicemu_vcpu *vcpu, enum ae_posting_state state);

/* It is being destroyed: no entry names it any more, and no interrupt that
 * went by one is under way. Any thread but callbacks. */
void
ae_posting_close(struct avicemu_vcpu *vcpu);

/* ---- entries: under the host's posting lock ----------------------------- */

/*
 * Post the interrupt to a vCPU, which is not closed, or NULL: to the host. The
 * vCPU it was posted to; NULL: none. The caller then settles, before he moves
 * it again, and makes that vCPU look at its IRR.
 */
struct avicemu_vcpu *
ae_posting_move(struct ae_irq *irq, struct avicemu_vcpu *vcpu, uint8_t vector);
/* Nothing goes by the former entry, nobody has the former target. Waits. */
void
ae_posting_settle(struct avicemu_iommu *iommu);

/* In a section, or under that lock. */
static inline struct ae_target *
ae_irq_target(const struct ae_irq *irq)
{
    /* ORD vcpu.B: the pointer, then the target. Partner: vcpu.A in
     * target_set(). If weaker: see there. Test: race_posting. */
    return ae_load_acquire_ptr(&irq->target);
}

/* ---- the command buffer ------------------------------------------------- */

/* Entries of the device's table, and its device table entry, have changed. */
void
ae_posting_invalidate(struct avicemu_iommu *iommu, uint16_t device_id);
void
ae_posting_invalidate_dte(struct avicemu_iommu *iommu, uint16_t device_id);
/* All that was put in before is done, and every interrupt that began before
 * is finished. Waits; under the posting lock. */
void
ae_posting_flush(struct avicemu_iommu *iommu);

#endif
