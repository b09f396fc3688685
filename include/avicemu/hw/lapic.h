/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_HW_LAPIC_H
#define AVICEMU_HW_LAPIC_H

/*
 * The local APIC as hardware alone: an APIC page and its register file, for
 * people who test their own hypervisor code. No host, VM or vCPU object, no
 * callbacks, no clock: memory is the caller's, time is an argument, and what
 * must happen outside is returned.
 *
 * Calls on one APIC must not overlap, but for those marked "any thread".
 */

#include <avicemu/common.h>
#include <avicemu/lapic.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the APIC page ------------------------------------------------------ */

/**
 * Set a vector's TMR and IRR bits in an APIC page, as a sender does.
 *
 * @param page    4096 bytes, 4096-aligned, laid out as the xAPIC page
 * @param vector  16..255; below: DROPPED
 * @return NEW, MERGED (IRR bit was set), DROPPED
 *
 * Threads: any. Progress: wait-free.
 * Ordering: writes before this call are visible to whoever acks the vector.
 * Spec: [APM2 16.6.3 IRR and ISR], [APM2 15.29.5 backing page]
 */
AVICEMU_API enum avicemu_post
avicemu_hw_page_post(void *page, uint8_t vector, enum avicemu_trigger trigger);

/** Highest vector that the page's priorities let through; -1: none. */
AVICEMU_API int
avicemu_hw_page_pending(void *page);

/** IRR -> ISR for a vector. @return 0, -ENOENT (its IRR bit is clear) */
AVICEMU_API int
avicemu_hw_page_ack(void *page, uint8_t vector);

/** Retire the highest vector in service. @return it, or -1: none was */
AVICEMU_API int
avicemu_hw_page_eoi(void *page);

/** Processor priority for a TPR and the highest vector in service (-1: none).
 * Spec: [APM2 16.6.4 PPR] */
AVICEMU_API uint32_t
avicemu_hw_ppr(uint32_t tpr, int in_service);

/* ---- the register table ------------------------------------------------- */

enum avicemu_hw_access {
    AVICEMU_HW_NONE,
    AVICEMU_HW_RO,
    AVICEMU_HW_WO,
    AVICEMU_HW_RW,
};

/** What a local APIC model does with one 16-byte slot. */
struct avicemu_hw_reg {
    size_t size;
    const char *name; /* of the register; constant */
    uint32_t index;   /* which of its slots, 0.. */
    enum avicemu_hw_access xapic, x2apic;
    uint32_t sticks;   /* bits of a written value that are kept */
    uint64_t reserved; /* bits that fault an x2APIC write */
    uint32_t reset;
};

/**
 * Look a register up in the table of a model.
 *
 * @param config  the model; NULL: defaults
 * @param offset  multiple of 16, 0..FF0h
 * @param ret     size set by the caller
 * @return 0, -EINVAL, -ENOENT (no model has a register there)
 */
AVICEMU_API int
avicemu_hw_reg(const struct avicemu_lapic_config *config, uint32_t offset,
               struct avicemu_hw_reg *ret);

/* ---- a register file ---------------------------------------------------- */

struct avicemu_hw_lapic;

/** Bytes and alignment that avicemu_hw_lapic_init() wants. */
AVICEMU_API size_t
avicemu_hw_lapic_bytes(void);
#define AVICEMU_HW_LAPIC_ALIGN 64

/**
 * Make a local APIC in the caller's memory, as after RESET.
 *
 * @param memory   avicemu_hw_lapic_bytes(), aligned to AVICEMU_HW_LAPIC_ALIGN
 * @param page     its APIC page, 4096 bytes, 4096-aligned
 * @param config   the model; NULL: defaults
 * @param apic_id  initial id
 * @param bsp      not 0: the boot processor
 * @return 0, -EINVAL
 *
 * There is nothing to undo: give the memory back when done.
 */
AVICEMU_API int
avicemu_hw_lapic_init(void *memory, void *page,
                      const struct avicemu_lapic_config *config,
                      uint32_t apic_id, int bsp, struct avicemu_hw_lapic **ret);

/* What an access wants done. Bits of outcome.what. */
#define AVICEMU_HW_IPI      (1u << 0) /* send icr */
#define AVICEMU_HW_EOI      (1u << 1) /* broadcast the EOI of vector */
#define AVICEMU_HW_IDENT    (1u << 2) /* id, LDR, DFR, mode or enable changed */
#define AVICEMU_HW_DEADLINE (1u << 3) /* deadline changed */
#define AVICEMU_HW_NMI      (1u << 4) /* an LVT entry raised these */
#define AVICEMU_HW_SMI      (1u << 5)
#define AVICEMU_HW_INIT     (1u << 6)
#define AVICEMU_HW_EXTINT   (1u << 7)

struct avicemu_hw_outcome {
    size_t size;
    uint32_t what;
    uint8_t vector;    /* EOI */
    uint64_t icr;      /* IPI: as avicemu_describe_icr() */
    uint64_t deadline; /* next timer deadline, UINT64_MAX: none */
};

/** Guest access to the page (xAPIC mode); as avicemu_mmio_read/_write, with an
 * offset 0..FFFh, now and the outcome. UNCLAIMED in other modes. */
AVICEMU_API enum avicemu_access
avicemu_hw_lapic_read(struct avicemu_hw_lapic *lapic, uint32_t offset,
                      unsigned len, uint64_t now, void *data,
                      struct avicemu_hw_outcome *ret);
AVICEMU_API enum avicemu_access
avicemu_hw_lapic_write(struct avicemu_hw_lapic *lapic, uint32_t offset,
                       unsigned len, uint64_t now, const void *data,
                       struct avicemu_hw_outcome *ret);

/** Guest access to an MSR; as avicemu_msr_read/_write. TSC_DEADLINE: with a
 * TSC offset of 0. */
AVICEMU_API enum avicemu_access
avicemu_hw_lapic_rdmsr(struct avicemu_hw_lapic *lapic, uint32_t msr,
                       uint64_t now, uint64_t *value,
                       struct avicemu_hw_outcome *ret);
AVICEMU_API enum avicemu_access
avicemu_hw_lapic_wrmsr(struct avicemu_hw_lapic *lapic, uint32_t msr,
                       uint64_t now, uint64_t value,
                       struct avicemu_hw_outcome *ret);

/** Offer a fixed interrupt. Any thread. As avicemu_post() without calls. */
AVICEMU_API enum avicemu_post
avicemu_hw_lapic_post(struct avicemu_hw_lapic *lapic, uint8_t vector,
                      enum avicemu_trigger trigger);

/** Account timer expiries up to now. */
AVICEMU_API void
avicemu_hw_lapic_tick(struct avicemu_hw_lapic *lapic, uint64_t now,
                      struct avicemu_hw_outcome *ret);

/** Interrupt acknowledge: the vector, moved to ISR; or the spurious vector,
 * with ISR untouched, if nothing is deliverable any more.
 * Spec: [APM2 16.4.7 spurious] */
AVICEMU_API uint8_t
avicemu_hw_lapic_inta(struct avicemu_hw_lapic *lapic);

/** INIT and RESET. Spec: [APM2 16.3.2 reset values], [SDM3 10.4.7] */
AVICEMU_API void
avicemu_hw_lapic_signal_init(struct avicemu_hw_lapic *lapic);
AVICEMU_API void
avicemu_hw_lapic_signal_reset(struct avicemu_hw_lapic *lapic);

#ifdef __cplusplus
}
#endif

#endif
