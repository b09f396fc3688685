/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_AVIC_H
#define AE_HW_AVIC_H

/*
 * AVIC and x2AVIC: the access filter, the IPI engine, a core with its latched
 * VMCB. See avic.c (filter, doorbell), avic_core.c (VMRUN to exit), avic_ipi.c
 * (IPI engine), avic_access.c (a guest's access).
 */

#include <avicemu/hw/core.h>

#include "hw/idtable.h"
#include "hw/lapic.h"

/* The doorbells of a host's cores, by host APIC id. */
struct ae_bells {
    struct avicemu_doorbell *at; /* NULL: none */
    uint32_t nr;
};

/* A core's doorbell; NULL: this id has none. */
static inline _Atomic uint32_t *
ae_bells_at(const struct ae_bells *bells, uint32_t host_apic_id)
{
    return host_apic_id < bells->nr
               ? (_Atomic uint32_t *)&bells->at[host_apic_id].rung
               : NULL;
}

/* Ring a core's doorbell; an id without one: nothing. Any thread. */
void
ae_bells_ring(const struct ae_bells *bells, uint32_t host_apic_id);
/* Take a doorbell: was it rung? Then scan IRR. */
bool
ae_bells_rung(const struct ae_bells *bells, uint32_t host_apic_id);

/* The silicon: constant after init, shared by cores. */
struct ae_avic_hw {
    const struct ae_lapic_model *model; /* which x2APIC MSRs exist */
    const struct ae_mem *mem;
    uint64_t address_reserved; /* bits that no physical address has */
    uint32_t features;         /* AVICEMU_CORE_* */
    struct ae_bells bells;
    uint8_t filter[2][2]
                  [AE_MAX_SLOTS]; /* [x2avic][write]: avicemu_avic_access */
};

void
ae_avic_hw_init(struct ae_avic_hw *hw, const struct ae_lapic_model *model,
                const struct ae_mem *mem, uint32_t features,
                uint32_t maxphyaddr);

static inline enum avicemu_avic_access
ae_avic_filter(const struct ae_avic_hw *hw, bool x2avic, uint32_t slot,
               bool write)
{
    return (enum avicemu_avic_access)hw->filter[x2avic][write][slot];
}

/* The filter, for a write of this value: reserved bits of an MSR are #GP. */
static inline enum avicemu_avic_access
ae_avic_filter_write(const struct ae_avic_hw *hw, bool x2avic, uint32_t slot,
                     uint64_t value)
{
    return x2avic && (value & hw->model->rules[slot].reserved) != 0
               ? AVICEMU_AVIC_GP
               : ae_avic_filter(hw, x2avic, slot, true);
}

/* f(TPR, ISR), of TPR words that software may have filled beyond 8 bits. */
uint32_t
ae_avic_ppr(void *page);

/* Highest vector in IRR; -1. */
int
ae_avic_requested(void *page);

/* Highest vector in IRR whose class is above a priority's; -1. */
int
ae_avic_above(void *page, uint32_t ppr);

/* Highest vector that the page lets through: IRR against f(TPR, ISR); -1.
 * SVR, EN and IER take no part. */
static inline int
ae_avic_pending(void *page)
{
    return ae_avic_above(page, ae_avic_ppr(page));
}

/* Does the page let this requested vector (or -1) through? It, or -1. */
static inline int
ae_avic_deliverable(void *page, int requested)
{
    return requested >= 0 && ae_vector_class((unsigned)requested) >
                                 ae_vector_class(ae_avic_ppr(page))
               ? requested
               : -1;
}

/* ---- a core ------------------------------------------------------------- */

/* What VMRUN latches. */
struct ae_core {
    const struct ae_avic_hw *hw;
    unsigned char *vmcb; /* 4 KiB; NULL in host mode of the hardware face */
    uint64_t apic_bar, backing, logical, physical, msrpm;
    uint32_t max_index;
    uint32_t host_apic_id;
    uint32_t flags; /* AVICEMU_CORE_IF, SHADOW, GIF */
    bool avic, x2avic;
    bool vgif;     /* GIF counts */
    bool msr_prot; /* the MSR permission map counts */
    bool cr8_exits;
    bool injecting; /* EVENTINJ: nothing else is delivered before it */
    bool guest;     /* in guest mode */
    uint32_t near_table, near_page; /* where the last IPI found memory */
    bool unmapped; /* nested paging does not map the APIC page */
};

/* The VMCB, by the offsets of <avicemu/hw/core.h>; little-endian, aligned. */
uint64_t
ae_vmcb_read(const unsigned char *vmcb, uint32_t offset);
void
ae_vmcb_write(unsigned char *vmcb, uint32_t offset, uint64_t value);

/*
 * The calls below are in a read-side section, the owner's, and between
 * ae_core_latch() and ae_core_exit(); guest says so.
 */

/* VMRUN's checks of the VMCB [APM2 15.29.4.1]; if they pass, latch and be in
 * guest mode. false: INVALID is in the VMCB, nothing is latched. */
bool
ae_core_latch(struct ae_core *core);

/* #VMEXIT: the three exit fields, V_TPR from the page, flags back. */
void
ae_core_exit(struct ae_core *core, uint64_t code, uint64_t info1,
             uint64_t info2);

/* The backing page; NULL: it has left the memory map. */
void *
ae_core_page(const struct ae_core *core);

/* Deliver the highest vector if it may be: IRR -> ISR. It, or -1. */
int
ae_core_evaluate(struct ae_core *core);
/* Between two instructions: evaluate if the doorbell was rung, or if an
 * injection kept it from being heard. The vector, or -1. */
int
ae_core_look(struct ae_core *core);

/* EXITINFO1 of exit 400h for an APIC page that is not mapped: an access of the
 * guest itself, at its final address. [APM2 15.25.6] */
static inline uint64_t
ae_npf_info1(bool write)
{
    return AE_MASK64(NPF_INFO1_FINAL) | AE_MASK64(NPF_INFO1_USER) |
           (write ? AE_MASK64(NPF_INFO1_WRITE) : 0);
}

/* EXITINFO1 of exit 402h. */
static inline uint64_t
ae_noaccel_info1(uint32_t offset, bool write)
{
    return (write ? 1ull << 32 : 0) | (offset & 0xff0u);
}

/* ---- an IPI ------------------------------------------------------------- */

#define AE_IPI_MAX_DIRECTED 16u

struct ae_ipi {
    /* Set by begin. */
    const struct ae_avic_hw *hw;
    uint64_t backing, physical, logical;
    uint32_t max_index;
    uint32_t icr_low, icr_high;
    bool x2avic;
    /* What the last step did. */
    uint8_t posted; /* enum avicemu_post */
    bool is_running;
    uint32_t guest_id, host_id;
    uint64_t page; /* IRR: whose */
    /* Outcome: enum avicemu_ipi_failure + 1; 0: none. */
    uint32_t failure;
    uint32_t index; /* EXITINFO2[11:0] */
    /* The engine's. */
    uint8_t phase;
    uint8_t nr_targets;
    uint16_t at; /* next target, or next index of a broadcast */
    uint32_t near_table, near_page;
    struct {
        uint64_t page;
        uint16_t id;
        uint16_t index; /* what a failure names */
    } targets[AE_IPI_MAX_DIRECTED];
};

/* icr as the guest wrote it; of a SELF IPI, AE_SELF_IPI | vector and 0. */
#define AE_SELF_IPI ((uint32_t)AE_DSH_SELF << ICR_DSH_LOW)
void
ae_ipi_begin(struct ae_ipi *ipi, const struct ae_core *core, uint32_t icr_low,
             uint32_t icr_high);

/* The next step, in a read-side section of its own or a longer one. Wait-free;
 * a broadcast has at most three steps per index. Does not store the ICR. */
enum avicemu_core_event
ae_ipi_step(struct ae_ipi *ipi);

static inline uint64_t
ae_ipi_info1(const struct ae_ipi *ipi)
{
    return (uint64_t)ipi->icr_high << 32 | ipi->icr_low;
}

static inline uint64_t
ae_ipi_info2(const struct ae_ipi *ipi)
{
    return ipi->failure == 0
               ? 0
               : (uint64_t)(ipi->failure - 1) << 32 | (ipi->index & 0xfffu);
}

/* ---- an access ---------------------------------------------------------- */

/* An IPI with the store of its ICR before it; what avicemu_core_op keeps. */
struct ae_core_op {
    struct ae_ipi ipi;
    bool store; /* the ICR is not in the page yet */
};

/* Carry the access out; of an IPI, STEPS: then step until FINISHED, finish. */
enum avicemu_core_result
ae_core_begin(struct ae_core *core, struct avicemu_core_access *a,
              struct ae_core_op *op);
enum avicemu_core_event
ae_core_step(struct ae_core_op *op);
enum avicemu_core_result
ae_core_finish(struct ae_core *core, struct avicemu_core_access *a,
               const struct ae_core_op *op);

#endif
