/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an AVIC core does with one access of the guest to its APIC.
 * [APM2 15.29.3.1, 15.29.9.2, 15.29.10]
 *
 * In the order of checks
 *   MMIO  the APIC page in xAVIC, if nested paging maps it: the filter (avic.c)
 *   MSR   permission map -> exit 07Ch; register and reserved bits -> #GP; the
 *         filter. What AVIC does not own is the host's own MSR
 *   CR8   intercept -> exit 018h; above 15 -> #GP; TPR
 *
 *   ALLOW  the page                 TRAP   the page, then exit 402h
 *   ACCEL  the page, side effect    FAULT  exit 402h, page untouched
 *
 * An access is done at once, but for an IPI: that is begun, stepped (first the
 * store of its ICR, then the engine of avic_ipi.c) and finished.
 *
 * Choices where the manual is silent (all unverified)
 *   bytes +4..+15 of a register: the filter sees the register; what it lets
 *   through is page memory, without side effect. An MMIO address is rounded
 *   down to a multiple of 4
 *   TPR keeps 8 bits; other registers in the page keep what was written
 *   an EOI stores the written value; without a vector in service that is all.
 *   A level-triggered one leaves ISR and PPR alone: the VMM retires it [KVM]
 *   SELF IPI: the ICR of an incomplete one is 00040000h | vector, 0; the page's
 *   ICR keeps its value
 *   a backing page that has left the memory map under the core: reads give
 *   ones, writes are lost, nothing is sent
 *   a permission map that is no memory intercepts all
 *
 * All calls are the owner's. Wait-free.
 */

#include "hw/avic.h"

/* ---- exits -------------------------------------------------------------- */

static enum avicemu_core_result
exit_noaccel(struct ae_core *core, uint32_t slot, bool write, uint32_t vector)
{
    ae_core_exit(core, AVICEMU_EXIT_NOACCEL, ae_noaccel_info1(slot << 4, write),
                 vector);
    return AVICEMU_CORE_EXIT;
}

/* ---- registers ---------------------------------------------------------- */

/* The backing page may have left the memory map: then page is NULL. */
static uint32_t
page_load(void *page, uint32_t offset)
{
    return page != NULL ? ae_vapic_read(page, offset) : UINT32_MAX;
}

static void
page_store(void *page, uint32_t offset, uint32_t value)
{
    if (page != NULL) {
        ae_vapic_write(page, offset, value);
    }
}

static void
tpr_write(struct ae_core *core, void *page, uint32_t value,
          struct avicemu_core_access *a)
{
    page_store(page, LAPIC_TPR, value & 0xffu);
    a->vector = ae_core_evaluate(core);
}

static enum avicemu_core_result
eoi_write(struct ae_core *core, void *page, struct avicemu_core_access *a)
{
    int vector = ae_vapic_highest(page, LAPIC_ISR);

    ae_vapic_write(page, LAPIC_EOI, (uint32_t)a->value);
    if (vector < 0) {
        return AVICEMU_CORE_DONE;
    }
    if (ae_vapic_test(page, LAPIC_TMR, (uint8_t)vector)) {
        return exit_noaccel(core, LAPIC_EOI >> 4, true, (uint32_t)vector);
    }
    ae_vapic_retire(page, (uint8_t)vector);
    a->vector = ae_core_evaluate(core);
    return AVICEMU_CORE_DONE;
}

/* Registers with a side effect in hardware. */
static enum avicemu_core_result
accel_write(struct ae_core *core, void *page, uint32_t offset,
            struct avicemu_core_access *a, struct ae_core_op *op)
{
    uint32_t value = (uint32_t)a->value;

    switch (offset) {
    case LAPIC_TPR:
        tpr_write(core, page, value, a);
        return AVICEMU_CORE_DONE;
    case LAPIC_EOI:
        return eoi_write(core, page, a);
    case LAPIC_ICR_LOW:
        op->store = true;
        ae_ipi_begin(&op->ipi, core, value,
                     core->x2avic ? (uint32_t)(a->value >> 32)
                                  : ae_vapic_read(page, LAPIC_ICR_HIGH));
        return AVICEMU_CORE_STEPS;
    case LAPIC_SELF_IPI:
        op->store = false;
        ae_ipi_begin(&op->ipi, core, AE_SELF_IPI | (value & 0xffu), 0);
        return AVICEMU_CORE_STEPS;
    default: /* +4..+15 of one of them */
        ae_vapic_write(page, offset, value);
        return AVICEMU_CORE_DONE;
    }
}

/* offset: multiple of 4. */
static enum avicemu_core_result
reg_write(struct ae_core *core, uint32_t offset, struct avicemu_core_access *a,
          struct ae_core_op *op)
{
    uint32_t slot = offset >> 4;
    void *page = ae_core_page(core);

    switch (ae_avic_filter_write(core->hw, core->x2avic, slot, a->value)) {
    case AVICEMU_AVIC_ALLOW:
        page_store(page, offset, (uint32_t)a->value);
        return AVICEMU_CORE_DONE;
    case AVICEMU_AVIC_ACCEL:
        return page != NULL ? accel_write(core, page, offset, a, op)
                            : AVICEMU_CORE_DONE;
    case AVICEMU_AVIC_TRAP:
        page_store(page, offset, (uint32_t)a->value);
        return exit_noaccel(core, slot, true, 0);
    case AVICEMU_AVIC_FAULT:
        return exit_noaccel(core, slot, true, 0);
    case AVICEMU_AVIC_GP:
        break;
    }
    return AVICEMU_CORE_GP;
}

static enum avicemu_core_result
reg_read(struct ae_core *core, uint32_t offset, uint64_t *ret_value)
{
    uint32_t slot = offset >> 4;
    void *page = ae_core_page(core);

    switch (ae_avic_filter(core->hw, core->x2avic, slot, false)) {
    case AVICEMU_AVIC_ALLOW:
        break;
    case AVICEMU_AVIC_FAULT:
        return exit_noaccel(core, slot, false, 0);
    case AVICEMU_AVIC_GP:
        return AVICEMU_CORE_GP;
    case AVICEMU_AVIC_ACCEL:
    case AVICEMU_AVIC_TRAP:
        break; /* no row has them for a read */
    }
    *ret_value = page_load(page, offset);
    if (core->x2avic && offset == LAPIC_ICR_LOW) {
        *ret_value |= (uint64_t)page_load(page, LAPIC_ICR_HIGH) << 32;
    }
    return AVICEMU_CORE_DONE;
}

/* ---- how the guest gets there ------------------------------------------- */

static enum avicemu_core_result
mmio_begin(struct ae_core *core, struct avicemu_core_access *a,
           struct ae_core_op *op)
{
    uint32_t offset = (uint32_t)a->at & (AE_PAGE - 4);

    if (!core->avic || core->x2avic ||
        (a->at & ~(uint64_t)(AE_PAGE - 1)) != core->apic_bar) {
        return AVICEMU_CORE_MEMORY;
    }
    if (core->unmapped) {
        ae_core_exit(core, AVICEMU_EXIT_NPF, ae_npf_info1(a->write != 0),
                     a->at);
        return AVICEMU_CORE_EXIT;
    }
    return a->write ? reg_write(core, offset, a, op)
                    : reg_read(core, offset, &a->value);
}

/*
 * The permission map: two bits per MSR, read and write, in three ranges of
 * 2000h; what is in none is always intercepted. [APM2 15.11 MSR intercepts]
 * A map that is no memory intercepts everything.
 */
static bool
msr_intercepted(const struct ae_core *core, uint32_t msr, bool write)
{
    static const uint32_t ranges[] = { 0, 0xc0000000u, 0xc0010000u };

    if (!core->msr_prot) {
        return false;
    }
    if ((core->msrpm & core->hw->address_reserved) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < AE_ARRAY_SIZE(ranges); i++) {
        uint32_t m = msr - ranges[i];

        if (m < 0x2000u) {
            /* Sixteen MSRs per word. */
            const _Atomic uint32_t *word = ae_mem_find(
                core->hw->mem, core->msrpm + i * 0x800u + m / 16u * 4u, 4);

            /* ORD none: the map is the hypervisor's setting. */
            return word == NULL ||
                   (ae_load_relaxed_u32(word) &
                    ae_bit32(2u * (m % 16u) + (write ? 1u : 0u))) != 0;
        }
    }
    return true;
}

static enum avicemu_core_result
msr_begin(struct ae_core *core, struct avicemu_core_access *a,
          struct ae_core_op *op)
{
    uint32_t msr = (uint32_t)a->at; /* ECX */
    uint32_t slot = msr - AE_MSR_X2APIC_FIRST;

    if (msr_intercepted(core, msr, a->write != 0)) {
        ae_core_exit(core, AVICEMU_EXIT_MSR, a->write ? 1 : 0, 0);
        return AVICEMU_CORE_EXIT;
    }
    if (!core->avic || !core->x2avic || slot >= AE_MAX_SLOTS) {
        return AVICEMU_CORE_HOST;
    }
    return a->write ? reg_write(core, slot << 4, a, op)
                    : reg_read(core, slot << 4, &a->value);
}

/* Without AVIC, CR8 is V_TPR, or without V_INTR_MASKING the host's. */
static enum avicemu_core_result
cr8_plain(struct ae_core *core, struct avicemu_core_access *a)
{
    uint64_t int_ctl = ae_vmcb_read(core->vmcb, AVICEMU_VMCB_INT_CTL);

    if ((int_ctl & AE_MASK64(VMCB_INT_CTL_V_INTR_MASK)) == 0) {
        return AVICEMU_CORE_HOST;
    }
    if (a->write) {
        ae_vmcb_write(core->vmcb, AVICEMU_VMCB_INT_CTL,
                      (int_ctl & ~AVICEMU_INT_V_TPR) | a->value);
    } else {
        a->value = int_ctl & AVICEMU_INT_V_TPR;
    }
    return AVICEMU_CORE_DONE;
}

static enum avicemu_core_result
cr8_begin(struct ae_core *core, struct avicemu_core_access *a)
{
    if (a->write && core->cr8_exits) {
        ae_core_exit(core, AVICEMU_EXIT_CR8_WRITE, 0, 0);
        return AVICEMU_CORE_EXIT;
    }
    if (a->write && a->value > 0xf) {
        return AVICEMU_CORE_GP;
    }
    if (!core->avic) {
        return cr8_plain(core, a);
    }
    void *page = ae_core_page(core);

    if (a->write) {
        tpr_write(core, page, (uint32_t)a->value << 4, a);
    } else {
        a->value = page_load(page, LAPIC_TPR) >> 4 & 0xfu;
    }
    return AVICEMU_CORE_DONE;
}

enum avicemu_core_result
ae_core_begin(struct ae_core *core, struct avicemu_core_access *a,
              struct ae_core_op *op)
{
    a->vector = -1;
    switch (a->kind) {
    case AVICEMU_CORE_MMIO:
        return mmio_begin(core, a, op);
    case AVICEMU_CORE_MSR:
        return msr_begin(core, a, op);
    case AVICEMU_CORE_CR8:
        return cr8_begin(core, a);
    }
    return AVICEMU_CORE_MODE;
}

/* ---- an IPI under way --------------------------------------------------- */

enum avicemu_core_event
ae_core_step(struct ae_core_op *op)
{
    if (!op->store) {
        return ae_ipi_step(&op->ipi);
    }
    void *page = ae_mem_find(op->ipi.hw->mem, op->ipi.backing, AE_PAGE);

    op->store = false;
    if (op->ipi.x2avic) {
        page_store(page, LAPIC_ICR_HIGH, op->ipi.icr_high);
    }
    page_store(page, LAPIC_ICR_LOW, op->ipi.icr_low);
    return AVICEMU_CORE_STORED;
}

enum avicemu_core_result
ae_core_finish(struct ae_core *core, struct avicemu_core_access *a,
               const struct ae_core_op *op)
{
    if (op->ipi.failure != 0) {
        ae_core_exit(core, AVICEMU_EXIT_INCOMPLETE_IPI, ae_ipi_info1(&op->ipi),
                     ae_ipi_info2(&op->ipi));
        return AVICEMU_CORE_EXIT;
    }
    if (AE_GET(op->ipi.icr_low, ICR_DSH) == AE_DSH_SELF) {
        a->vector = ae_core_evaluate(core);
    }
    return AVICEMU_CORE_DONE;
}
