/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_IRTE_H
#define AE_HW_IRTE_H

/*
 * Entries of the interrupt remapping table, and what one interrupt does with
 * its entry. See irte.c.
 */

#include "base/atomic.h"
#include "base/atomic16.h"
#include "base/mem.h"
#include "hw/lapic.h"

/* What of the control register counts here. */
#define AE_IRTE_GA        (1u << 0) /* GAEn: entries have 128 bits */
#define AE_IRTE_GUEST     (1u << 1) /* GAMEn = 1: guest mode is allowed */
#define AE_IRTE_XT        (1u << 2) /* XTEn: 32-bit destinations */
#define AE_IRTE_GAPPI     (1u << 3) /* GAPPIEn: no log, a physical interrupt */
#define AE_IRTE_GAPPI_DIS (1u << 4) /* GAPPIDisSup: bit 5 of guest mode is */

enum ae_irte_fault {
    AE_IRTE_GOOD,
    AE_IRTE_NOT_PRESENT, /* RemapEn = 0: PR = 0 */
    AE_IRTE_RESERVED,    /* PR = 1, RZ = 1 */
};

/* An entry taken apart. With a fault only sup_iopf counts. */
struct ae_irte {
    bool sup_iopf;
    bool guest_mode;
    uint8_t vector; /* guest mode: the guest's */
    uint32_t dest;  /* guest mode: the host core's id */
    /* Remapped. */
    bool arbitrated; /* IntType 1; else fixed */
    bool rq_eoi;
    bool logical;
    /* Guest mode. */
    bool is_run;
    bool ga_log_intr;
    bool gappi_dis;
    uint32_t ga_tag;
    uint64_t root; /* address of the backing page */
};

/* flags: AE_IRTE_*; with AE_IRTE_GA entry has both halves, else only its low
 * 32 bits count. ret: all of it is set. */
enum ae_irte_fault
ae_irte_decode(uint32_t flags, struct ae_u128 entry, struct ae_irte *ret);

/* Bytes of one entry. */
static inline uint32_t
ae_irte_bytes(uint32_t flags)
{
    return (flags & AE_IRTE_GA) != 0 ? 16 : 4;
}

/* The 128-bit entry that a hypervisor writes, with RemapEn = 1. */
struct ae_u128
ae_irte_encode(const struct ae_irte *e);

/* The message of a remapped entry. */
struct ae_message
ae_irte_message(uint32_t flags, const struct ae_irte *e);

/* ---- the hypervisor's side ---------------------------------------------- */

/* Put the whole entry in place, as one. What it was before. */
struct ae_u128
ae_irte_replace(struct ae_atomic16 *slot, struct ae_u128 entry);

/* Fields of a guest-mode entry that no cache keeps. */
#define AE_IRTE_SET_RUN  (1u << 0) /* IsRun := is_run */
#define AE_IRTE_SET_LOG  (1u << 1) /* GALogIntr := ga_log_intr */
#define AE_IRTE_SET_DEST (1u << 2) /* Destination := dest, 32 bits */
#define AE_IRTE_SET_TAG  (1u << 3) /* GATag := ga_tag */

/* Change those fields at once and keep the rest. false: the entry is not in
 * guest mode, and is as it was. A read of the page's IRR by the caller after
 * this call sees each interrupt that still went by the old entry. */
bool
ae_irte_update(struct ae_atomic16 *slot, uint32_t which,
               const struct ae_irte *value);

/* ---- one interrupt ------------------------------------------------------ */

/* Constant while interrupts are on their way. */
struct ae_remapper {
    const struct ae_mem *mem;
    uint64_t address_reserved; /* bits that no physical address has */
    enum ae_load16 way;
};

/* What the last step did. */
enum ae_remap_event {
    AE_REMAP_FETCHED,  /* the entry was read: raw */
    AE_REMAP_IRR,      /* posted, into the page at irte.root */
    AE_REMAP_REREAD,   /* the entry was read again: raw_again */
    AE_REMAP_FINISHED, /* outcome and notices stand; no step is left */
};

enum ae_remap_outcome {
    AE_REMAP_MESSAGE,     /* send message */
    AE_REMAP_POSTED,      /* carry out the notices */
    AE_REMAP_NO_TABLE,    /* no memory where the entry should be */
    AE_REMAP_NOT_PRESENT, /* fault; no event if irte.sup_iopf */
    AE_REMAP_BAD_ENTRY,   /* fault; no event if irte.sup_iopf */
    AE_REMAP_BAD_PAGE,    /* no memory where the page should be */
};

enum ae_notice_kind {
    AE_NOTICE_DOORBELL, /* dest */
    AE_NOTICE_LOG,      /* ga_tag: an entry of the GA log */
    AE_NOTICE_PHYSICAL, /* GAPPI: vector to dest, fixed, physical */
};

struct ae_notice {
    uint8_t kind; /* enum ae_notice_kind */
    uint8_t vector;
    uint32_t dest;
    uint32_t ga_tag;
};

#define AE_REMAP_MAX_NOTICES 3u

struct ae_remap {
    const struct ae_remapper *hw;
    uint64_t address; /* of the entry */
    uint32_t flags;
    uint8_t phase;
    uint8_t outcome; /* enum ae_remap_outcome */
    uint8_t posted;  /* enum avicemu_post */
    uint8_t nr_notices;
    bool is_cached;                /* raw came from a cache */
    struct ae_u128 raw, raw_again; /* raw_again.high: only with XTEn */
    struct ae_irte irte;
    struct ae_message message;
    struct ae_notice notices[AE_REMAP_MAX_NOTICES];
    uint32_t near_table, near_page; /* kept; 0 before the first use */
};

/* An interrupt whose entry is at address, a multiple of its size. cached: NULL,
 * or the entry in an interrupt cache; what no cache keeps is then read from
 * memory, the rest is not. */
void
ae_remap_begin(struct ae_remap *r, const struct ae_remapper *hw, uint32_t flags,
               uint64_t address, const struct ae_u128 *cached);

/* The next step, in a read-side section of its own or a longer one. Wait-free,
 * three at most, and FINISHED from then on. */
enum ae_remap_event
ae_remap_step(struct ae_remap *r);
/* All steps that are left, in one section. Was FETCHED one of them? */
bool
ae_remap_run(struct ae_remap *r);

#endif
