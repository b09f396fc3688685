/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guest accesses under AVIC, and the hypervisor's handlers of what hardware
 * could not complete.
 *
 *   access -> MSR intercept? page mapped? -> filter (hw/avic.c)
 *     ALLOW, ACCEL   done, no exit         (EOI of a level vector: as TRAP)
 *     ICR, SELF IPI  the engine (hw/avic_ipi.c); done, or exit 401h
 *     TRAP, FAULT    exit 402h
 *     else           intercept: exit 07Ch (MSR), 400h (page not mapped)
 *
 * An exit is recorded in the VMCB and in vcpu->avic.exit; between enter and
 * exit the caller leaves first and then has it handled, outside it is handled
 * at once. Handlers [APM2 15.29.9], [KVM]:
 *
 *   401h id 0, 2, 4  the whole command again in software (errors included)
 *        id 1        all IRR bits are set: wake or kick their vCPUs
 *        id 3        dropped: only wrong tables of our own could cause it
 *   402h             the register file (hw/lapic_access.c) carries it out
 *
 * A trapped write lands in the page before its exit, and the handler runs the
 * register's side effects from there. Here both are one step of the owner, so
 * the register file itself stores the value, and keeps what a raw store would
 * lose (remote IRR of a LINT entry).
 *
 * Owner's calls. Progress: wait-free but for identity changes (map's lock).
 */

#include "hv/exits.h"

#include <string.h>

#include "base/rcu.h"
#include "hv/active.h"

/* ---- exits -------------------------------------------------------------- */

/* Leave the rest to the handler: later, if the guest has to come out first. */
static enum avicemu_access
exit_begin(struct avicemu_vcpu *vcpu, const struct ae_exit *what, uint64_t *ret)
{
    vcpu->avic.exit = *what;
    return ae_vcpu_in_guest(vcpu) ? AVICEMU_ACCESS_EXIT
                                  : ae_exits_handle(vcpu, ret);
}

static void
exit_record(struct avicemu_vcpu *vcpu, uint64_t code, uint64_t info1,
            uint64_t info2)
{
    ae_rcu_enter();
    ae_core_exit(&vcpu->avic.core, code, info1, info2);
    vcpu->avic.v_tpr = AE_V_TPR_UNKNOWN; /* it wrote V_TPR */
    ae_rcu_leave();
}

static enum avicemu_access
exit_noaccel(struct avicemu_vcpu *vcpu, const struct ae_exit *what,
             uint32_t slot, uint64_t info2, uint64_t *ret)
{
    exit_record(vcpu, AVICEMU_EXIT_NOACCEL,
                ae_noaccel_info1(slot << 4, what->write), info2);
    return exit_begin(vcpu, what, ret);
}

/* Not for AVIC: it exits at once, and is emulated. */
static void
intercept_record(struct avicemu_vcpu *vcpu, const struct ae_exit *what)
{
    if (!vcpu->avic.active) {
        return;
    }
    vcpu->stats.avic_intercepted++;
    if (what->kind == AE_EXIT_MSR) {
        exit_record(vcpu, AVICEMU_EXIT_MSR, what->write, 0);
    } else if (what->kind == AE_EXIT_MMIO) {
        exit_record(vcpu, AVICEMU_EXIT_NPF, ae_npf_info1(what->write),
                    what->at);
    }
}

static enum avicemu_access
exit_intercept(struct avicemu_vcpu *vcpu, const struct ae_exit *what,
               uint64_t *ret)
{
    intercept_record(vcpu, what);
    return exit_begin(vcpu, what, ret);
}

/* ---- IPIs --------------------------------------------------------------- */

/* The engine has set an IRR bit: into the books, as a software IPI is. The page
 * says whose it is; the id may be another vCPU's by now. */
static void
ipi_book(struct avicemu_vcpu *vcpu, const struct ae_ipi *ipi)
{
    const struct avicemu_vcpu *target =
        vcpu->books != NULL ? ae_tables_owner(vcpu->vm->tables, ipi->page)
                            : NULL;

    ae_deliver_book(vcpu, target, (uint8_t)AE_GET(ipi->icr_low, ICR_VECTOR),
                    (enum avicemu_post)ipi->posted);
}

static unsigned
ipi_level(const struct ae_ipi *ipi)
{
    return 2 * ae_vector_class(AE_GET(ipi->icr_low, ICR_VECTOR));
}

/* A doorbell that is a call: who is behind it? */
static void
ipi_kick(struct avicemu_vcpu *vcpu, const struct ae_ipi *ipi,
         struct ae_calls *calls)
{
    struct avicemu_vcpu *target =
        ae_apicmap_by_id(&vcpu->vm->map, ipi->guest_id);

    if (target != NULL) {
        ae_calls_add(calls, target, ipi_level(ipi));
    }
}

static void
ipi_run(struct avicemu_vcpu *vcpu, struct ae_ipi *ipi)
{
    bool self = AE_GET(ipi->icr_low, ICR_DSH) == AE_DSH_SELF;
    enum avicemu_core_event event;
    struct ae_calls calls;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    while ((event = ae_ipi_step(ipi)) != AVICEMU_CORE_FINISHED) {
        if (event == AVICEMU_CORE_IRR) {
            ipi_book(vcpu, ipi);
        } else if (event == AVICEMU_CORE_RANG) {
            vcpu->stats.doorbells++;
            if (!vcpu->avic.words) {
                ipi_kick(vcpu, ipi, &calls);
            }
        }
    }
    if (self && ipi->failure == 0) {
        /* Hardware looks at its own IRR: here its runner has to. */
        ae_calls_add(&calls, vcpu, ipi_level(ipi));
    }
    ae_rcu_leave();
    ae_calls_end(&calls);
    vcpu->avic.core.near_table = ipi->near_table;
    vcpu->avic.core.near_page = ipi->near_page;
}

/* ICR low, or the SELF IPI register. Delivery is over when the write is, so DS
 * reads idle. The page holds what sticks in the register file, the exit what
 * was written. */
static enum avicemu_access
ipi_write(struct avicemu_vcpu *vcpu, struct ae_exit *what, uint32_t slot)
{
    void *page = vcpu->lapic.page;
    uint32_t low = (uint32_t)what->value;
    uint32_t high = 0;
    uint32_t sticks =
        vcpu->vm->model.rules[LAPIC_ICR_LOW >> 4].sticks & ~AE_MASK(ICR_DS);
    struct ae_ipi ipi;

    if (slot == LAPIC_SELF_IPI >> 4) {
        low = (low & 0xffu) | AE_SELF_IPI;
    } else if (what->kind == AE_EXIT_MSR) {
        high = (uint32_t)(what->value >> 32);
        ae_vapic_write(page, LAPIC_ICR_HIGH, high);
        ae_vapic_write(page, LAPIC_ICR_LOW, low & sticks);
    } else {
        high = ae_vapic_read(page, LAPIC_ICR_HIGH);
        ae_vapic_write(page, LAPIC_ICR_LOW, low & sticks);
    }
    ae_ipi_begin(&ipi, &vcpu->avic.core, low, high);
    ipi_run(vcpu, &ipi);
    if (ipi.failure == 0 || ipi.failure == AVICEMU_IPI_NOT_RUNNING + 1) {
        vcpu->stats.ipi_sent++; /* else the handler's register file counts */
    }
    if (ipi.failure == 0) {
        vcpu->stats.avic_accelerated++;
        return AVICEMU_ACCESS_DONE;
    }
    vcpu->stats.avic_incomplete++;
    exit_record(vcpu, AVICEMU_EXIT_INCOMPLETE_IPI, ae_ipi_info1(&ipi),
                ae_ipi_info2(&ipi));
    what->failure = ipi.failure;
    what->level = (uint8_t)ipi_level(&ipi);
    what->nr_ids = ipi.nr_targets;
    for (unsigned i = 0; i < ipi.nr_targets; i++) {
        what->ids[i] = ipi.targets[i].id;
    }
    return exit_begin(vcpu, what, NULL);
}

/* ---- registers ---------------------------------------------------------- */

/*
 * EOI, TPR or CR8 may let a lower vector through, and hardware looks at once.
 * A runner that watches a doorbell word looks by itself (recheck); one that is
 * inside a call has to come out.
 */
static enum avicemu_access
look_again(struct avicemu_vcpu *vcpu)
{
    ae_active_vmrun(vcpu); /* V_TPR in step */
    if (ae_vcpu_in_guest(vcpu) && !ae_active_by_word(vcpu) &&
        ae_active_pending(vcpu) >= 0) {
        ae_deliver_local_call(vcpu);
    }
    return AVICEMU_ACCESS_DONE;
}

/* An EOI that has more to do than to retire its vector. */
static enum avicemu_access
eoi_long(struct avicemu_vcpu *vcpu, const struct ae_exit *what)
{
    struct ae_lapic *l = &vcpu->lapic;
    uint8_t vector = (uint8_t)ae_vapic_highest(l->page, LAPIC_ISR);
    struct ae_lapic_effects fx = { .what = 0 };

    if (ae_vapic_test(l->page, LAPIC_TMR, vector)) {
        vcpu->stats.avic_trapped++;
        return exit_noaccel(vcpu, what, LAPIC_EOI >> 4, vector, NULL);
    }
    /* Hardware knows no remote IRR, so the LINT pin is the emulator's. */
    vcpu->stats.avic_accelerated++;
    ae_lapic_eoi(l, vector, &fx);
    ae_vcpu_apply(vcpu, &fx);
    return look_again(vcpu);
}

static enum avicemu_access
eoi_write(struct avicemu_vcpu *vcpu, const struct ae_exit *what)
{
    if (AE_UNLIKELY(!ae_vcpu_eoi_short(vcpu))) {
        return eoi_long(vcpu, what);
    }
    vcpu->stats.avic_accelerated++;
    return look_again(vcpu);
}

static enum avicemu_access
accel_write(struct avicemu_vcpu *vcpu, struct ae_exit *what, uint32_t slot)
{
    switch (slot << 4) {
    case LAPIC_TPR:
        ae_lapic_set_tpr(&vcpu->lapic, (uint32_t)what->value);
        vcpu->stats.avic_accelerated++;
        return look_again(vcpu);
    case LAPIC_EOI:
        return eoi_write(vcpu, what);
    default:
        return ipi_write(vcpu, what, slot);
    }
}

/* A write that reached the filter. */
static enum avicemu_access
filtered_write(struct avicemu_vcpu *vcpu, struct ae_exit *what, uint32_t slot)
{
    switch (ae_avic_filter_write(vcpu->avic.core.hw, what->kind == AE_EXIT_MSR,
                                 slot, what->value)) {
    case AVICEMU_AVIC_ALLOW:
        ae_vapic_write(vcpu->lapic.page, slot << 4, (uint32_t)what->value);
        vcpu->stats.avic_accelerated++;
        return AVICEMU_ACCESS_DONE;
    case AVICEMU_AVIC_ACCEL:
        return accel_write(vcpu, what, slot);
    case AVICEMU_AVIC_TRAP:
        vcpu->stats.avic_trapped++;
        return exit_noaccel(vcpu, what, slot, 0, NULL);
    case AVICEMU_AVIC_FAULT:
        vcpu->stats.avic_faulted++;
        return exit_noaccel(vcpu, what, slot, 0, NULL);
    case AVICEMU_AVIC_GP:
    default:
        vcpu->stats.gp++;
        return AVICEMU_ACCESS_GP;
    }
}

/* A read that reached the filter. */
static enum avicemu_access
filtered_read(struct avicemu_vcpu *vcpu, const struct ae_exit *what,
              uint32_t slot, uint64_t *ret)
{
    void *page = vcpu->lapic.page;
    bool msr = what->kind == AE_EXIT_MSR;

    switch (ae_avic_filter(vcpu->avic.core.hw, msr, slot, false)) {
    case AVICEMU_AVIC_ALLOW:
    case AVICEMU_AVIC_ACCEL:
        *ret = ae_vapic_read(page, slot << 4);
        if (msr && slot == LAPIC_ICR_LOW >> 4) {
            *ret |= (uint64_t)ae_vapic_read(page, LAPIC_ICR_HIGH) << 32;
        }
        vcpu->stats.avic_accelerated++;
        return AVICEMU_ACCESS_DONE;
    case AVICEMU_AVIC_TRAP:
    case AVICEMU_AVIC_FAULT:
        vcpu->stats.avic_faulted++;
        return exit_noaccel(vcpu, what, slot, 0, ret);
    case AVICEMU_AVIC_GP:
    default:
        vcpu->stats.gp++;
        return AVICEMU_ACCESS_GP;
    }
}

/* ---- MMIO --------------------------------------------------------------- */

/* Outside, an access is made as the guest would make it after an entry. true:
 * the VM has AVIC at all. */
static bool
access_begin(struct avicemu_vcpu *vcpu)
{
    if (vcpu->vm->tables == NULL) {
        return false;
    }
    if (!ae_vcpu_in_guest(vcpu) && AE_UNLIKELY(!ae_active_follows(vcpu))) {
        ae_active_update(vcpu);
    }
    return true;
}

/* Does hardware redirect this access to the backing page? */
static bool
page_redirects(const struct avicemu_vcpu *vcpu, const struct ae_exit *what)
{
    /* ORD none: a mapping that goes now was there when the access began. */
    return vcpu->avic.active && !vcpu->avic.x2avic && what->len == 4 &&
           (what->at & 15u) == 0 &&
           ae_load_relaxed_u32(&vcpu->vm->tables->page_gone) == 0;
}

enum avicemu_access
ae_exits_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                   void *data)
{
    struct ae_exit what = { .kind = AE_EXIT_MMIO, .at = gpa, .len = len };
    enum avicemu_access access;
    uint64_t value = 0;

    if (!access_begin(vcpu) || !ae_vcpu_claims(vcpu, gpa, len)) {
        return ae_vcpu_mmio_read(vcpu, gpa, len, data);
    }
    if (!page_redirects(vcpu, &what)) {
        if (ae_vcpu_in_guest(vcpu)) {
            return exit_intercept(vcpu, &what, NULL);
        }
        intercept_record(vcpu, &what);
        return ae_vcpu_mmio_read(vcpu, gpa, len, data);
    }
    access = filtered_read(vcpu, &what, (uint32_t)(gpa & 0xfffu) >> 4, &value);
    if (access == AVICEMU_ACCESS_DONE) {
        for (unsigned i = 0; i < 4; i++) {
            ((uint8_t *)data)[i] = (uint8_t)(value >> (8 * i));
        }
    }
    return access;
}

enum avicemu_access
ae_exits_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                    const void *data)
{
    struct ae_exit what = {
        .kind = AE_EXIT_MMIO, .write = true, .at = gpa, .len = len
    };
    const uint8_t *bytes = data;

    if (!access_begin(vcpu) || !ae_vcpu_claims(vcpu, gpa, len)) {
        return ae_vcpu_mmio_write(vcpu, gpa, len, data);
    }
    for (uint32_t i = 0; i < len && i < 4; i++) {
        what.value |= (uint64_t)bytes[i] << (8 * i);
    }
    if (!page_redirects(vcpu, &what)) {
        return exit_intercept(vcpu, &what, NULL);
    }
    return filtered_write(vcpu, &what, (uint32_t)(gpa & 0xfffu) >> 4);
}

/* ---- MSRs and CR8 ------------------------------------------------------- */

/* Does hardware take the MSR access itself? */
static bool
msr_passes(const struct avicemu_vcpu *vcpu, uint32_t msr, bool write)
{
    return vcpu->avic.x2avic && msr >= AE_MSR_X2APIC_FIRST &&
           msr <= AE_MSR_X2APIC_LAST &&
           ae_msrpm_passes(vcpu->vm->tables->msrpm_x2, msr, write);
}

enum avicemu_access
ae_exits_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret)
{
    struct ae_exit what = { .kind = AE_EXIT_MSR, .at = msr };

    if (!access_begin(vcpu) || !ae_vcpu_claims_msr(msr)) {
        return ae_vcpu_msr_read(vcpu, msr, ret);
    }
    if (!msr_passes(vcpu, msr, false)) {
        return exit_intercept(vcpu, &what, ret);
    }
    return filtered_read(vcpu, &what, msr - AE_MSR_X2APIC_FIRST, ret);
}

enum avicemu_access
ae_exits_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value)
{
    struct ae_exit what = {
        .kind = AE_EXIT_MSR, .write = true, .at = msr, .value = value
    };

    if (!access_begin(vcpu) || !ae_vcpu_claims_msr(msr)) {
        return ae_vcpu_msr_write(vcpu, msr, value);
    }
    if (!msr_passes(vcpu, msr, true)) {
        return exit_intercept(vcpu, &what, NULL);
    }
    return filtered_write(vcpu, &what, msr - AE_MSR_X2APIC_FIRST);
}

enum avicemu_access
ae_exits_cr8_write(struct avicemu_vcpu *vcpu, uint64_t value)
{
    struct ae_exit what = { .kind = AE_EXIT_CR8,
                            .write = true,
                            .value = value };

    if (!access_begin(vcpu) || !ae_vcpu_in_guest(vcpu) || vcpu->avic.active) {
        ae_lapic_set_tpr(&vcpu->lapic, (uint32_t)value << 4);
        return vcpu->avic.active ? look_again(vcpu) : AVICEMU_ACCESS_DONE;
    }
    return exit_begin(vcpu, &what, NULL);
}

/* ---- handlers ----------------------------------------------------------- */

static enum avicemu_access
emulate_mmio(struct avicemu_vcpu *vcpu, const struct ae_exit *e, uint64_t *ret)
{
    uint8_t bytes[8] = { 0 };
    uint32_t len = e->len < 8 ? e->len : 8; /* in the guest: no longer ones */
    enum avicemu_access access;

    for (uint32_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(e->value >> (8 * i));
    }
    if (e->write) {
        /* Only the shape of a longer write matters: it is dropped. */
        return ae_vcpu_mmio_write(vcpu, e->at, len, bytes);
    }
    access = ae_vcpu_mmio_read(vcpu, e->at, len, bytes);
    for (uint32_t i = 0; i < len && access == AVICEMU_ACCESS_DONE; i++) {
        *ret = (i == 0 ? 0 : *ret) | (uint64_t)bytes[i] << (8 * i);
    }
    return access;
}

static enum avicemu_access
emulate(struct avicemu_vcpu *vcpu, const struct ae_exit *e, uint64_t *ret)
{
    switch (e->kind) {
    case AE_EXIT_MMIO:
        return emulate_mmio(vcpu, e, ret);
    case AE_EXIT_MSR:
        return e->write ? ae_vcpu_msr_write(vcpu, (uint32_t)e->at, e->value)
                        : ae_vcpu_msr_read(vcpu, (uint32_t)e->at, ret);
    case AE_EXIT_CR8:
        ae_lapic_set_tpr(&vcpu->lapic, (uint32_t)e->value << 4);
        return AVICEMU_ACCESS_DONE;
    case AE_EXIT_NONE:
    default:
        return AVICEMU_ACCESS_UNCLAIMED;
    }
}

/*
 * The IRR bits are set, so it is those vCPUs that must hear of it, whatever
 * their ids match by now. Some may have been doorbelled: once more is harmless.
 */
static unsigned
wake_targets(struct avicemu_vcpu *vcpu, const struct ae_exit *e)
{
    struct ae_calls calls;

    if (e->nr_ids == 0) {
        return ae_calls_all(vcpu->vm, e->level); /* a broadcast */
    }
    ae_calls_begin(&calls);
    ae_rcu_enter();
    for (unsigned i = 0; i < e->nr_ids; i++) {
        struct avicemu_vcpu *target =
            ae_apicmap_by_id(&vcpu->vm->map, e->ids[i]);

        if (target != NULL) {
            ae_calls_add(&calls, target, e->level);
        }
    }
    ae_rcu_leave();
    ae_calls_end(&calls);
    return calls.nr_due;
}

static enum avicemu_access
handle_incomplete(struct avicemu_vcpu *vcpu, const struct ae_exit *e)
{
    switch ((enum avicemu_ipi_failure)(e->failure - 1)) {
    case AVICEMU_IPI_NOT_RUNNING:
        vcpu->stats.ipi_wakes += wake_targets(vcpu, e);
        return AVICEMU_ACCESS_DONE;
    case AVICEMU_IPI_BACKING:
        vcpu->stats.ipi_dropped++;
        return AVICEMU_ACCESS_DONE;
    case AVICEMU_IPI_TYPE:
    case AVICEMU_IPI_TARGET:
    case AVICEMU_IPI_VECTOR:
    default:
        vcpu->stats.ipi_software++;
        return emulate(vcpu, e, NULL);
    }
}

enum avicemu_access
ae_exits_handle(struct avicemu_vcpu *vcpu, uint64_t *ret)
{
    struct ae_exit e = vcpu->avic.exit;
    uint64_t ignored;

    vcpu->avic.exit = (struct ae_exit){ .kind = AE_EXIT_NONE };
    if (e.failure != 0) {
        return handle_incomplete(vcpu, &e);
    }
    return emulate(vcpu, &e, ret != NULL ? ret : &ignored);
}
