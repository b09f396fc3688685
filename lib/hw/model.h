/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_MODEL_H
#define AE_HW_MODEL_H

/*
 * Which local APIC it is: the register table and the personality resolved,
 * once per VM, into one rule per 16-byte slot. See model.c.
 */

#include <avicemu/lapic.h>

#include "base/regs.h"
#include "hw/timer.h"

enum ae_apr_rule {
    AE_APR_NONE, /* reads 0 [KVM] */
    AE_APR_AMD,
    AE_APR_INTEL,
};

enum ae_lowest_rule {
    AE_LOWEST_AMD,   /* focus CPU, then lowest APR, tie: highest id */
    AE_LOWEST_INTEL, /* lowest TPR, tie: first */
    AE_LOWEST_HASH,  /* vector modulo number of candidates [KVM] */
};

/* How a personality differs beyond its registers. */
struct ae_lapic_traits {
    const char *name;
    uint8_t version;       /* Version[7:0] */
    bool errors;           /* the ESR records anything */
    bool error_per_arming; /* LVT error once per ESR write, not per new bit */
    bool lvt_write_flags;  /* a fixed LVT with vector < 16 sets ESR bit 6 */
    bool disable_resets;   /* EN 1 -> 0 loses all but id and TPR */
    bool id_follows_xapic; /* X -> X2 takes a rewritten 8-bit id */
    bool bsp_writable;     /* APIC_BASE[8] stores what is written */
    bool ipi_level;        /* a level-triggered fixed IPI is one */
    bool lowest_flat_only; /* lowest-priority IPIs: logical flat only */
    bool extint_ipi;       /* MT 7 by ICR, in xAPIC mode */
    bool perf_masks;       /* delivery of the perf LVT sets its mask */
    bool lint1_level;      /* LINT1 may be level-triggered */
    bool remote_irr;       /* a LINT level in service is not taken again */
    bool last_sipi_wins;
    bool msi_ff_broadcast; /* MSI to FFh reaches x2APIC receivers */
    bool msi_sipi;         /* an MSI may be a start-up message */
    bool broadcast_lowest_is_fixed;
    enum ae_apr_rule apr;
    enum ae_lowest_rule lowest;
    uint32_t features; /* the AVICEMU_LAPIC_* that it can have */
};

/* What holds for one 16-byte slot of the page, and its MSR. */
struct ae_lapic_rule {
    uint8_t xapic, x2apic; /* enum ae_reg_access */
    uint8_t handler;       /* enum ae_reg_handler */
    uint8_t keep_on_init;
    uint32_t sticks;
    uint32_t reset;
    uint64_t reserved; /* x2APIC: #GP */
};

/* Constant after ae_lapic_model_init(); shared by all vCPUs of a VM. */
struct ae_lapic_model {
    const struct ae_lapic_traits *traits;
    enum avicemu_personality personality;
    uint32_t features;
    uint32_t version;       /* the register */
    uint64_t base_reserved; /* APIC_BASE bits that fault */
    struct ae_timer_clock clock;
    struct ae_lapic_rule rules[AE_MAX_SLOTS]; /* by offset >> 4 */
};

/*
 * Resolve a configuration whose zeros stand for defaults.
 * On failure NULL is not returned but a text: which field is wrong, and what
 * it may be; *value is what it was. NULL means all is well.
 */
const char *
ae_lapic_model_init(struct ae_lapic_model *m,
                    const struct avicemu_lapic_config *config, uint64_t *value);

static inline bool
ae_lapic_has(const struct ae_lapic_model *m, uint32_t feature)
{
    return (m->features & feature) != 0;
}

#endif
