/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Activation: from the inhibit word and the APIC's mode to the bits of the
 * VMCB, the MSR permission map, and IsRunning.
 *
 *   active = (inhibit word == 0) and APIC enabled and the id has an entry
 *   x2AVIC = active, x2APIC mode, silicon has it;  hybrid = without it
 *
 * On a flip, in this order [KVM]: VMCB enable bits, MAX_INDEX, CR8 intercept,
 * MSR intercepts, TLB flush, IsRunning; then the clean bits. The caches that
 * a kernel re-derives here are none of ours: IRR and ISR are scanned in the
 * page at every entry, PPR is in the page in either state.
 *
 * Each vCPU looks at the word when it enters; who changes it kicks those that
 * are in the guest. Until a vCPU follows, some have AVIC and others not; that
 * is right by itself, since IsRunning = 0 makes every IPI to them exit and be
 * completed in software. Only what the tables cannot say (an id without an
 * entry, two vCPUs with one id) waits for the senders' next entries.
 *
 * Edges
 *   inhibit A ae_tables_inhibit()  word -> states (ae_calls_all)    seq_cst
 *           B ae_vcpu_enter()      state := in guest -> word        seq_cst
 *
 * update, follows, vmrun, load, put are the owner's. inhibit and request are
 * for any thread, O(vCPUs).
 */

#include "hv/active.h"

#include "base/rcu.h"

#define TLB_FLUSH_GUEST 3u
/* Intercepts, MSR map, AVIC group. The TPR group is never clean: V_TPR is
 * written before an entry. [APM2 15.15.3 clean bits] */
#define CLEAN_FLIP (1u << 0 | 1u << 1 | AVICEMU_CLEAN_AVIC)

static void
vmcb_set32(struct avicemu_vcpu *vcpu, uint32_t offset, uint32_t value)
{
    /* The fields are read and written as aligned 64-bit words. */
    unsigned char *vmcb = vcpu->avic.core.vmcb;
    uint32_t at = offset & ~7u;
    unsigned shift = (offset & 4u) * 8;
    uint64_t word = ae_vmcb_read(vmcb, at);

    word &= ~(0xffffffffull << shift);
    ae_vmcb_write(vmcb, at, word | (uint64_t)value << shift);
}

static uint32_t
max_index(const struct avicemu_vcpu *vcpu)
{
    const struct ae_tables *t = vcpu->vm->tables;
    uint32_t max = AE_MAX_INDEX_XAVIC - 1;

    if (vcpu->avic.x2avic) {
        max = t->nr_physical - 1;
    }
    return t->max_apic_id < max ? t->max_apic_id : max;
}

/* Everything in the VMCB that depends on the state. */
static void
vmcb_flip(struct avicemu_vcpu *vcpu)
{
    const struct ae_tables *t = vcpu->vm->tables;
    const struct ae_vcpu_avic *v = &vcpu->avic;
    unsigned char *vmcb = v->core.vmcb;
    uint64_t ctl = ae_vmcb_read(vmcb, AVICEMU_VMCB_INT_CTL) &
                   ~(AVICEMU_INT_AVIC | AVICEMU_INT_X2AVIC);

    ctl |= v->active ? AVICEMU_INT_AVIC : 0;
    ctl |= v->x2avic ? AVICEMU_INT_X2AVIC : 0;
    ae_vmcb_write(vmcb, AVICEMU_VMCB_INT_CTL, ctl);
    ae_vmcb_write(vmcb, AVICEMU_VMCB_PHYSICAL_TABLE,
                  ae_hpa(t->memory) | (v->active ? max_index(vcpu) : 0));
    vmcb_set32(vcpu, AVICEMU_VMCB_INTERCEPT_CR,
               v->active ? 0 : AE_MASK(VMCB_INTERCEPT_CR_WRITE_CR8));
    ae_vmcb_write(vmcb, AVICEMU_VMCB_MSRPM,
                  ae_hpa(v->x2avic ? t->msrpm_x2 : t->msrpm_all));
    if (v->active) {
        /* A translation tagged "APIC page" for the other mode may be there. */
        vmcb_set32(vcpu, AVICEMU_VMCB_TLB_CONTROL, TLB_FLUSH_GUEST);
    }
}

void
ae_active_init(struct avicemu_vcpu *vcpu)
{
    struct ae_tables *t = vcpu->vm->tables;
    struct ae_vcpu_avic *v = &vcpu->avic;

    v->core.hw = &t->hw;
    v->words = t->words;
    v->v_tpr = AE_V_TPR_UNKNOWN;
    ae_vmcb_write(v->core.vmcb, AVICEMU_VMCB_APIC_BAR, AE_APIC_DEFAULT_BASE);
    ae_vmcb_write(v->core.vmcb, AVICEMU_VMCB_BACKING_PAGE,
                  ae_hpa(vcpu->lapic.page));
    ae_vmcb_write(v->core.vmcb, AVICEMU_VMCB_LOGICAL_TABLE,
                  ae_hpa((void *)t->logical));
    ae_vmcb_write(v->core.vmcb, AVICEMU_VMCB_NESTED_CTL, 1);
    vmcb_set32(vcpu, AVICEMU_VMCB_INTERCEPT_MISC,
               AE_MASK(VMCB_INTERCEPT_MISC_MSR));
    vmcb_flip(vcpu);
}

/* ---- flips -------------------------------------------------------------- */

/* A vCPU that flips at its entry is in the guest already. */
static enum ae_posting_state
posting_state(const struct avicemu_vcpu *vcpu)
{
    /* ORD none: the owner's own word, but for KICKED. */
    return ae_where_of(ae_load_relaxed_u32(&vcpu->state)) == AE_IN_GUEST
               ? AE_POSTING_ENTERED
               : AE_POSTING_OUTSIDE;
}

void
ae_active_update(struct avicemu_vcpu *vcpu)
{
    struct ae_tables *t = vcpu->vm->tables;
    struct ae_vcpu_avic *v = &vcpu->avic;
    enum avicemu_apic_mode mode = ae_lapic_mode(&vcpu->lapic);
    /* ORD inhibit.B: the state, then the word. Partner: inhibit.A in
     * ae_tables_inhibit(). If weaker: see there. Test: race_inhibit. */
    bool active =
        ae_load_seqcst_u32(&t->inhibits) == 0 && mode != AVICEMU_APIC_DISABLED;
    bool x2 = mode == AVICEMU_APIC_X2APIC;
    bool has_x2avic = (t->hw.features & AVICEMU_CORE_X2AVIC) != 0;
    bool x2avic = active && x2 && has_x2avic;

    AE_STEP(inhibit_b);
    if (x2 && !has_x2avic) {
        /* Hybrid: without its mapping the page is no more redirected. Sticky,
         * since the tables are shared. ORD none: who still reads 0 accesses a
         * page that is still his. */
        ae_store_relaxed_u32(&t->page_gone, 1);
    }
    if (active == v->active && x2avic == v->x2avic) {
        return;
    }
    vcpu->stats.avic_flips += active != v->active;
    v->active = active;
    v->x2avic = x2avic;
    ae_lapic_by_hardware(&vcpu->lapic, active);
    vmcb_flip(vcpu);
    /* Off: the entries of devices first; on: the table first. */
    if (!active) {
        ae_posting_follow(vcpu, AE_POSTING_OUTSIDE);
    }
    ae_tables_publish(vcpu);
    if (active) {
        ae_posting_follow(vcpu, posting_state(vcpu));
    }
    vmcb_set32(vcpu, AVICEMU_VMCB_CLEAN,
               (uint32_t)ae_vmcb_read(v->core.vmcb, AVICEMU_VMCB_CLEAN) &
                   ~CLEAN_FLIP);
    v->v_tpr = AE_V_TPR_UNKNOWN;
    ae_active_vmrun(vcpu);
}

void
ae_active_vmrun_all(struct avicemu_vcpu *vcpu)
{
    struct ae_vcpu_avic *v = &vcpu->avic;
    unsigned char *vmcb = v->core.vmcb;
    uint64_t ctl = ae_vmcb_read(vmcb, AVICEMU_VMCB_INT_CTL);
    uint64_t tpr = ae_vector_class(ae_vapic_read(vcpu->lapic.page, LAPIC_TPR));

    if ((ctl & AVICEMU_INT_V_TPR) != tpr) {
        ae_vmcb_write(vmcb, AVICEMU_VMCB_INT_CTL,
                      (ctl & ~AVICEMU_INT_V_TPR) | tpr);
    }
    v->v_tpr = (uint8_t)tpr;
    uint32_t clean = (uint32_t)ae_vmcb_read(vmcb, AVICEMU_VMCB_CLEAN);

    if (AE_LIKELY((clean & CLEAN_FLIP) == CLEAN_FLIP)) {
        return;
    }
    ae_rcu_enter();
    bool legal = ae_core_latch(&v->core);

    ae_rcu_leave();
    /* All pointers are our own memory: VMRUN takes them. */
    assert(legal);
    (void)legal;
    vmcb_set32(vcpu, AVICEMU_VMCB_TLB_CONTROL, 0);
    vmcb_set32(vcpu, AVICEMU_VMCB_CLEAN, clean | CLEAN_FLIP);
}

void
ae_active_request(struct avicemu_vm *vm)
{
    (void)ae_calls_all(vm, AE_LEVEL_REQUEST);
}

void
ae_active_inhibit(struct avicemu_vm *vm, uint32_t mask, uint32_t value)
{
    if (ae_tables_inhibit(vm->tables, mask, value)) {
        ae_active_request(vm);
    }
}

/* ---- where it runs ------------------------------------------------------ */

void
ae_active_load(struct avicemu_vcpu *vcpu, uint32_t pcpu)
{
    struct ae_vcpu_avic *v = &vcpu->avic;

    v->loaded = true;
    v->word = ae_bells_at(&v->core.hw->bells, pcpu);
    /* ORD none: a poster that rings the core before wakes nobody who is not
     * about to enter and scan. */
    ae_store_relaxed_u32(&vcpu->pcpu, pcpu);
    ae_tables_publish(vcpu);
    ae_posting_follow(vcpu, AE_POSTING_OUTSIDE);
}

void
ae_active_put(struct avicemu_vcpu *vcpu)
{
    vcpu->avic.loaded = false;
    ae_posting_follow(vcpu, AE_POSTING_OUTSIDE);
    ae_tables_publish(vcpu);
}
