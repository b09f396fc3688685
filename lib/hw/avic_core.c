/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One core with AVIC: what VMRUN checks and latches, evaluation and delivery,
 * #VMEXIT. [APM2 15.29.4.1, 15.29.4.2, 15.29.4.3, 15.29.8] What a guest's
 * access to its APIC does is in avic_access.c.
 *
 *   host mode --latch ok--> guest mode --exit--> host mode
 *      ^--latch: INVALID-'
 *
 * Not here: guest instructions, event injection but for its one effect (nothing
 * else is delivered before it), and every VMCB field that core.h does not name.
 *
 * Where hardware keeps things
 *   TPR, PPR, ISR   the backing page, always current. V_TPR is written at exit
 *   IRR, TMR        likewise; others write them at any time (locked)
 *   IF, shadow, GIF latched; back in the VMCB at exit
 *
 * Choices where the manual is silent (all unverified)
 *   VMRUN   INVALID also for bit 30 on a core without x2AVIC, for AVIC without
 *           nested paging, for any of the four pointers beyond the physical
 *           width (in x2AVIC, too), and for a page or table to be used that is
 *           no memory. Low bits of pointers are not looked at
 *   TPR     at VMRUN is the page's; V_TPR is not looked at
 *   page    one that has left the memory map under the core: nothing is
 *           delivered, and V_TPR keeps its value
 *
 * A vector is delivered by evaluation only, at VMRUN, a doorbell, a self IPI,
 * EOI, a write of TPR, and a change of what blocks it: a store to IRR is not
 * noticed by itself. [APM2 15.29.8]
 *
 * All calls are the owner's; several cores may run at once on shared pages.
 * Wait-free. Edge "bell" (avic.c) is side B in ae_core_look().
 */

#include <string.h>

#include "hw/avic.h"

static_assert(AVICEMU_INT_V_TPR == AE_MASK64(VMCB_INT_CTL_V_TPR), "bits 3:0");
static_assert(AVICEMU_INT_VGIF == AE_MASK64(VMCB_INT_CTL_VGIF), "bit 9");
static_assert(AVICEMU_INT_VGIF_ENABLE == AE_MASK64(VMCB_INT_CTL_VGIF_ENABLE),
              "bit 25");
static_assert(AVICEMU_INT_X2AVIC == AE_MASK64(VMCB_INT_CTL_X2AVIC), "bit 30");
static_assert(AVICEMU_INT_AVIC == AE_MASK64(VMCB_INT_CTL_AVIC), "bit 31");

/* ---- VMCB --------------------------------------------------------------- */

uint64_t
ae_vmcb_read(const unsigned char *vmcb, uint32_t offset)
{
    uint64_t value;

    memcpy(&value, vmcb + offset, sizeof(value));
    return ae_little64(value);
}

void
ae_vmcb_write(unsigned char *vmcb, uint32_t offset, uint64_t value)
{
    value = ae_little64(value);
    memcpy(vmcb + offset, &value, sizeof(value));
}

static bool
vmcb_bit(const struct ae_core *core, uint32_t offset, uint64_t mask)
{
    return (ae_vmcb_read(core->vmcb, offset) & mask) != 0;
}

/* Bits of a field := value. */
static void
vmcb_put(struct ae_core *core, uint32_t offset, uint64_t mask, uint64_t value)
{
    uint64_t old = ae_vmcb_read(core->vmcb, offset);

    ae_vmcb_write(core->vmcb, offset, (old & ~mask) | (value & mask));
}

static uint64_t
vmcb_pointer(const struct ae_core *core, uint32_t offset)
{
    return ae_vmcb_read(core->vmcb, offset) & ~(uint64_t)(AE_PAGE - 1);
}

/* ---- VMRUN -------------------------------------------------------------- */

static bool
pages_legal(const struct ae_avic_hw *hw, uint64_t hpa, uint32_t pages)
{
    for (uint32_t i = 0; i < pages; i++) {
        uint64_t page = hpa + i * (uint64_t)AE_PAGE;

        if ((page & hw->address_reserved) != 0 ||
            ae_mem_find(hw->mem, page, AE_PAGE) == NULL) {
            return false;
        }
    }
    return true;
}

/* Highest MAX_INDEX. With x2AVIC_EXT all 12 bits count. */
static uint32_t
index_limit(const struct ae_core *core)
{
    if (!core->x2avic) {
        return AE_MAX_INDEX_XAVIC;
    }
    return (core->hw->features & AVICEMU_CORE_X2AVIC_EXT) != 0
               ? AE_MAX_INDEX_X2AVIC_EXT
               : AE_MAX_INDEX_X2AVIC;
}

/* [APM2 15.29.4.1, 15.29.4.2, 15.29.4.3] */
static bool
avic_legal(const struct ae_core *core)
{
    const struct ae_avic_hw *hw = core->hw;

    if (core->x2avic &&
        (!core->avic || (hw->features & AVICEMU_CORE_X2AVIC) == 0)) {
        return false;
    }
    if (!core->avic) {
        return true;
    }
    if (!vmcb_bit(core, AVICEMU_VMCB_NESTED_CTL,
                  AE_MASK64(VMCB_NESTED_CTL_NP)) ||
        core->max_index > index_limit(core)) {
        return false;
    }
    /* All four are checked for width; what is used must be memory, too. The
     * BAR is guest physical. */
    return ((core->apic_bar | core->logical) & hw->address_reserved) == 0 &&
           pages_legal(hw, core->backing, 1) &&
           pages_legal(hw, core->physical,
                       ae_physical_pages(core->max_index)) &&
           (core->x2avic || pages_legal(hw, core->logical, 1));
}

static uint32_t
flags_latch(const struct ae_core *core)
{
    uint32_t flags = 0;

    flags |= vmcb_bit(core, AVICEMU_VMCB_RFLAGS, AE_MASK64(VMCB_RFLAGS_IF))
                 ? AVICEMU_CORE_IF
                 : 0;
    flags |=
        vmcb_bit(core, AVICEMU_VMCB_INT_STATE, AE_MASK64(VMCB_INT_STATE_SHADOW))
            ? AVICEMU_CORE_SHADOW
            : 0;
    flags |= vmcb_bit(core, AVICEMU_VMCB_INT_CTL, AVICEMU_INT_VGIF)
                 ? AVICEMU_CORE_GIF
                 : 0;
    return flags;
}

bool
ae_core_latch(struct ae_core *core)
{
    struct ae_core c = *core;
    uint64_t int_ctl = ae_vmcb_read(c.vmcb, AVICEMU_VMCB_INT_CTL);
    uint64_t table = ae_vmcb_read(c.vmcb, AVICEMU_VMCB_PHYSICAL_TABLE);

    c.avic = (int_ctl & AVICEMU_INT_AVIC) != 0;
    c.x2avic = (int_ctl & AVICEMU_INT_X2AVIC) != 0;
    c.vgif = (int_ctl & AVICEMU_INT_VGIF_ENABLE) != 0;
    c.apic_bar = vmcb_pointer(&c, AVICEMU_VMCB_APIC_BAR);
    c.backing = vmcb_pointer(&c, AVICEMU_VMCB_BACKING_PAGE);
    c.logical = vmcb_pointer(&c, AVICEMU_VMCB_LOGICAL_TABLE);
    c.physical = vmcb_pointer(&c, AVICEMU_VMCB_PHYSICAL_TABLE);
    c.max_index = AE_GET(table, VMCB_PHYSICAL_TABLE_MAX_INDEX);
    c.msrpm = vmcb_pointer(&c, AVICEMU_VMCB_MSRPM);
    c.msr_prot = vmcb_bit(&c, AVICEMU_VMCB_INTERCEPT_MISC,
                          AE_MASK64(VMCB_INTERCEPT_MISC_MSR));
    c.cr8_exits = vmcb_bit(&c, AVICEMU_VMCB_INTERCEPT_CR,
                           AE_MASK64(VMCB_INTERCEPT_CR_WRITE_CR8));
    c.injecting =
        vmcb_bit(&c, AVICEMU_VMCB_EVENTINJ, AE_MASK64(VMCB_EVENTINJ_V));
    c.flags = flags_latch(&c);
    c.guest = true;
    if (!avic_legal(&c)) {
        ae_vmcb_write(c.vmcb, AVICEMU_VMCB_EXITCODE, AVICEMU_EXIT_INVALID);
        return false;
    }
    *core = c;
    return true;
}

/* ---- #VMEXIT ------------------------------------------------------------ */

void *
ae_core_page(const struct ae_core *core)
{
    return ae_mem_find(core->hw->mem, core->backing, AE_PAGE);
}

void
ae_core_exit(struct ae_core *core, uint64_t code, uint64_t info1,
             uint64_t info2)
{
    void *page = core->avic ? ae_core_page(core) : NULL;

    ae_vmcb_write(core->vmcb, AVICEMU_VMCB_EXITCODE, code);
    ae_vmcb_write(core->vmcb, AVICEMU_VMCB_EXITINFO1, info1);
    ae_vmcb_write(core->vmcb, AVICEMU_VMCB_EXITINFO2, info2);
    if (page != NULL) {
        vmcb_put(core, AVICEMU_VMCB_INT_CTL, AVICEMU_INT_V_TPR,
                 ae_vapic_read(page, LAPIC_TPR) >> 4);
    }
    if (core->vgif) {
        vmcb_put(core, AVICEMU_VMCB_INT_CTL, AVICEMU_INT_VGIF,
                 (core->flags & AVICEMU_CORE_GIF) != 0 ? ~0ull : 0);
    }
    vmcb_put(core, AVICEMU_VMCB_RFLAGS, AE_MASK64(VMCB_RFLAGS_IF),
             (core->flags & AVICEMU_CORE_IF) != 0 ? ~0ull : 0);
    vmcb_put(core, AVICEMU_VMCB_INT_STATE, AE_MASK64(VMCB_INT_STATE_SHADOW),
             (core->flags & AVICEMU_CORE_SHADOW) != 0 ? ~0ull : 0);
    core->guest = false;
}

/* ---- evaluation --------------------------------------------------------- */

static uint32_t
ppr_update(void *page)
{
    uint32_t ppr = ae_avic_ppr(page);

    ae_vapic_write(page, LAPIC_PPR, ppr);
    return ppr;
}

/* May the guest be interrupted? */
static bool
is_open(const struct ae_core *core)
{
    return (core->flags & AVICEMU_CORE_IF) != 0 &&
           (core->flags & AVICEMU_CORE_SHADOW) == 0 && !core->injecting &&
           (!core->vgif || (core->flags & AVICEMU_CORE_GIF) != 0);
}

/* [APM2 15.29.8] SVR, LVT and IER take no part. */
int
ae_core_evaluate(struct ae_core *core)
{
    void *page = core->avic ? ae_core_page(core) : NULL;

    if (page == NULL) {
        return -1;
    }
    int vector = ae_avic_above(page, ppr_update(page));

    if (vector < 0 || !is_open(core) || !ae_vapic_ack(page, (uint8_t)vector)) {
        return -1;
    }
    (void)ppr_update(page);
    return vector;
}

int
ae_core_look(struct ae_core *core)
{
    bool rung = ae_bells_rung(&core->hw->bells, core->host_apic_id);

    /* A store to IRR alone is not noticed: [APM2 15.29.8.2] */
    if (!rung && !core->injecting) {
        return -1;
    }
    core->injecting = false;
    return ae_core_evaluate(core);
}
