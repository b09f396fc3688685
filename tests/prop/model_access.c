/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Guest accesses to the model: what a write sets in motion, the page, the
 * MSRs, and the changes of mode by APIC_BASE.
 */

#include <string.h>

#include "model_lapic.h"

static bool
is_amd(const struct model_vcpu *v)
{
    return model_is(v, AVICEMU_PERSONALITY_AMD);
}

static bool
is_intel(const struct model_vcpu *v)
{
    return model_is(v, AVICEMU_PERSONALITY_INTEL);
}

static bool
is_kvm(const struct model_vcpu *v)
{
    return model_is(v, AVICEMU_PERSONALITY_KVM);
}

static bool
ier(uint32_t offset)
{
    return offset >= M_IER && offset < M_IER + 0x80;
}

/* ---- writes ------------------------------------------------------------- */

static void
retire(struct model_vcpu *v, int vector)
{
    v->isr[vector] = 0;
    v->counts.eoi++;
    if (v->tmr[vector]) {
        if (!(model_get(v, M_SVR) & M_SVR_DIRECTED)) {
            v->calls.eois++;
            v->calls.last_eoi = (uint8_t)vector;
            v->counts.eoi_broadcast++;
        }
    }
    for (unsigned pin = 0; pin < 2; pin++) {
        uint32_t lvt = M_LINT0 + 0x10 * pin;
        uint32_t value = model_get(v, lvt);

        /* The pin's level is over with its vector; TMR is not asked. */
        if (!is_kvm(v) && (value & M_LVT_RIR) &&
            (value & 0xff) == (uint32_t)vector) {
            model_set(v, lvt, value & ~M_LVT_RIR);
            model_lint_evaluate(v, pin);
        }
    }
}

static void
write_lvt(struct model_vcpu *v, uint32_t offset, uint32_t value)
{
    uint32_t old = model_get(v, offset);

    value &= model_sticks(v, offset);
    if (!model_software_enabled(v)) {
        value |= M_LVT_MASK;
    }
    if (!is_kvm(v) && (offset == M_LINT0 || offset == M_LINT1)) {
        /* In service is a level, under the vector that it was sent with. */
        if ((value & M_LVT_LEVEL) && !(value & 0x700) &&
            !((value ^ old) & 0xff)) {
            value |= old & M_LVT_RIR;
        }
    }
    if (offset == M_LVTT) {
        model_timer_write_lvt(v, value);
    } else {
        model_set(v, offset, value);
    }
    if (is_intel(v) && (value & 0xff) < 16 && !(value & 0x700)) {
        model_error(v, M_ESR_RECV_ILLEGAL);
    }
    if (offset == M_LINT0 || offset == M_LINT1) {
        model_lint_evaluate(v, offset == M_LINT1);
    }
}

static void
mask_all(struct model_vcpu *v)
{
    for (uint32_t lvt = M_LVTT; lvt <= M_LVTERR; lvt += 0x10) {
        model_set(v, lvt, model_get(v, lvt) | M_LVT_MASK);
    }
    model_set(v, M_CMCI, model_get(v, M_CMCI) | M_LVT_MASK);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t lvt = M_EXT_LVT + 0x10 * i;

        model_set(v, lvt, model_get(v, lvt) | M_LVT_MASK);
    }
    v->backlog = 0;
}

static void
write_esr(struct model_vcpu *v)
{
    if (!is_kvm(v)) {
        model_set(v, M_ESR, v->esr_acc);
        v->esr_acc = 0;
        v->esr_fresh = 0;
        v->esr_spent = false;
    }
}

static void
write_seoi(struct model_vcpu *v, uint32_t value)
{
    model_set(v, M_SEOI, value & 0xff);
    if ((model_get(v, M_EACR) & 2) && v->isr[value & 0xff]) {
        retire(v, (int)(value & 0xff));
    }
}

/* A write that faults neither and hits a writable register. */
static void
write_register(struct model_vcpu *v, uint32_t offset, uint32_t value)
{
    uint32_t sticks = model_sticks(v, offset);

    switch (offset) {
    case M_EOI:
        if (model_top(v->isr) >= 0) {
            retire(v, model_top(v->isr));
        }
        break;
    case M_ID:
        if (!is_intel(v)) {
            model_set(v, M_ID, value & sticks);
        }
        break;
    case M_DFR:
        model_set(v, M_DFR, value | 0x0fffffff);
        break;
    case M_SVR:
        model_timer_account(v);
        model_set(v, M_SVR, value & sticks);
        if (!(value & M_SVR_ENABLE)) {
            mask_all(v);
        }
        break;
    case M_ESR:
        write_esr(v);
        break;
    case M_TMICT:
        model_timer_write_count(v, value);
        break;
    case M_TDCR:
        model_timer_write_divide(v, value);
        break;
    case M_SEOI:
        write_seoi(v, value);
        break;
    case M_CMCI:
    case M_LVTT:
    case M_THERMAL:
    case M_PERF:
    case M_LINT0:
    case M_LINT1:
    case M_LVTERR:
        write_lvt(v, offset, value);
        break;
    default:
        if (model_is_ext_lvt(offset)) {
            write_lvt(v, offset, value);
        } else if (!ier(offset) || (model_get(v, M_EACR) & 1)) {
            model_set(v, offset, value & sticks);
        }
        break;
    }
}

/* ---- the page ----------------------------------------------------------- */

static bool
in_page(const struct model_vcpu *v, uint64_t gpa, unsigned len)
{
    uint64_t page = v->apic_base & ~0xfffull;

    return model_mode(v) == AVICEMU_APIC_XAPIC && len >= 1 && len <= 4096 &&
           gpa >= page && gpa - page <= 4096 - len;
}

static uint32_t
read_slot(struct model_vcpu *v, uint32_t offset)
{
    uint32_t value = 0;

    if (!model_has_xapic(v, offset)) {
        model_error(v, M_ESR_BAD_ADDRESS);
        model_sync_errors(v);
        return 0;
    }
    if (offset == M_TMCCT) {
        model_timer_account(v);
    }
    (void)model_peek(v, offset, &value);
    return value;
}

enum avicemu_access
model_mmio_read(struct model_vcpu *v, uint64_t gpa, unsigned len, uint8_t *data)
{
    uint32_t slot = ~0u;
    uint32_t value = 0;

    if (!in_page(v, gpa, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    model_look(v);
    for (unsigned i = 0; i < len; i++) {
        uint32_t offset = (uint32_t)(gpa + i) & 0xfff;

        data[i] = 0;
        if ((offset & 15) >= 4) {
            continue;
        }
        if ((offset & ~15u) != slot) {
            slot = offset & ~15u;
            value = read_slot(v, slot);
        }
        data[i] = (uint8_t)(value >> 8 * (offset & 3));
    }
    model_sync_errors(v);
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
model_mmio_write(struct model_vcpu *v, uint64_t gpa, unsigned len,
                 const uint8_t *data)
{
    uint32_t offset = (uint32_t)gpa & 0xfff;
    uint32_t value;

    if (!in_page(v, gpa, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (len != 4 || (offset & 15)) {
        v->counts.mmio_odd++;
        return AVICEMU_ACCESS_DONE;
    }
    model_look(v);
    memcpy(&value, data, 4);
    if (!model_has_xapic(v, offset)) {
        model_error(v, M_ESR_BAD_ADDRESS);
    } else if (!model_read_only(v, offset)) {
        write_register(v, offset, value);
        if (offset == M_ICR) {
            model_send_icr(v, model_get(v, M_ICR), model_get(v, M_ICR2) >> 24);
        }
    }
    model_sync_errors(v);
    return AVICEMU_ACCESS_DONE;
}

/* ---- APIC_BASE ---------------------------------------------------------- */

static void
to_x2apic(struct model_vcpu *v, bool guest)
{
    uint32_t id = model_get(v, M_ID) >> 24;

    v->x2_id = v->initial_id;
    if (guest && is_amd(v) && id != (v->initial_id & 0xff)) {
        v->x2_id = id;
    }
    model_set(v, M_ID, v->x2_id << 24);
    model_set(v, M_LDR, (v->x2_id >> 4 & 0xffff) << 16 | 1u << (v->x2_id & 15));
    if (guest && !is_kvm(v)) {
        model_set(v, M_ICR2, 0);
    }
}

static void
disable(struct model_vcpu *v)
{
    uint32_t tpr = model_get(v, M_TPR);

    uint64_t waiting = v->waiting;

    if (is_kvm(v)) {
        model_timer_stop(v);
        v->waiting = waiting;
        v->extint = false;
        return;
    }
    model_registers_reset(v);
    model_set(v, M_TPR, tpr);
    v->extint = false;
}

static uint64_t
base_reserved(const struct model_vcpu *v)
{
    uint64_t reserved = ~((1ull << v->vm->config.lapic.maxphyaddr) - 1);

    return reserved | 0x2ff |
           (model_feature(v, AVICEMU_LAPIC_X2APIC) ? 0 : M_BASE_EXTD);
}

static void
store_base(struct model_vcpu *v, uint64_t value, bool guest)
{
    uint64_t old = v->apic_base;

    v->apic_base = value;
    if (guest && (old & M_BASE_EN) && !(value & M_BASE_EN)) {
        disable(v);
    }
    if (guest && !(old & M_BASE_EN) && (value & M_BASE_EN)) {
        model_set(v, M_ID, v->initial_id << 24);
    }
    if (!(old & M_BASE_EXTD) && (value & M_BASE_EXTD)) {
        to_x2apic(v, guest);
    }
    if ((old & M_BASE_EXTD) && !(value & M_BASE_EXTD)) {
        model_set(v, M_ID, v->initial_id << 24);
    }
    if (!(old & M_BASE_EN) && (value & M_BASE_EN)) {
        model_lint_evaluate(v, 0);
        model_lint_evaluate(v, 1);
    }
}

static bool
write_base(struct model_vcpu *v, uint64_t value)
{
    uint64_t old = v->apic_base;
    bool off = !(old & M_BASE_EN);
    bool x2 = (old & M_BASE_EXTD) != 0;

    if ((value & base_reserved(v)) ||
        ((value & M_BASE_EXTD) && !(value & M_BASE_EN)) ||
        (off && (value & M_BASE_EXTD)) ||
        (x2 && (value & M_BASE_EN) && !(value & M_BASE_EXTD))) {
        return false;
    }
    if (model_feature(v, AVICEMU_LAPIC_FIXED_BASE) &&
        (value & ~0xfffull) != 0xfee00000) {
        return false;
    }
    if (!is_kvm(v)) {
        value = (value & ~M_BASE_BSP) | (old & M_BASE_BSP);
    }
    if (value != old) {
        v->calls.bases++;
        v->calls.last_base = value;
    }
    store_base(v, value, true);
    return true;
}

int
model_host_apic_base(struct model_vcpu *v, uint64_t value)
{
    if ((value & base_reserved(v)) ||
        ((value & M_BASE_EXTD) && !(value & M_BASE_EN))) {
        return -1;
    }
    if (value != v->apic_base) {
        v->calls.bases++;
        v->calls.last_base = value;
    }
    store_base(v, value, false);
    return 0;
}

/* ---- MSRs --------------------------------------------------------------- */

static enum avicemu_access
gp(struct model_vcpu *v)
{
    v->counts.gp++;
    return AVICEMU_ACCESS_GP;
}

static bool
no_deadline_msr(const struct model_vcpu *v)
{
    return !is_kvm(v) && !model_feature(v, AVICEMU_LAPIC_TSC_DEADLINE);
}

/* Every MSR of ours, also one that faults, lets the owner look first. */
static void
look_if_ours(struct model_vcpu *v, uint32_t msr)
{
    if (msr == 0x1b || msr == 0x6e0 || (msr >= 0x800 && msr <= 0x8ff)) {
        model_look(v);
    }
}

enum avicemu_access
model_msr_read(struct model_vcpu *v, uint32_t msr, uint64_t *ret)
{
    uint32_t offset = (msr - 0x800) << 4;
    uint32_t value;

    look_if_ours(v, msr);
    if (msr == 0x1b) {
        *ret = v->apic_base;
        return AVICEMU_ACCESS_DONE;
    }
    if (msr == 0x6e0) {
        if (no_deadline_msr(v)) {
            return gp(v);
        }
        *ret = model_timer_read_deadline(v);
        return AVICEMU_ACCESS_DONE;
    }
    if (msr < 0x800 || msr > 0x8ff) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (model_mode(v) != AVICEMU_APIC_X2APIC) {
        return gp(v);
    }
    if (!model_has_x2apic(v, offset) || model_write_only(offset)) {
        return gp(v);
    }
    if (offset == M_TMCCT) {
        model_timer_account(v);
    }
    (void)model_peek(v, offset, &value);
    *ret = value;
    if (offset == M_ICR) {
        *ret |= (uint64_t)model_get(v, M_ICR2) << 32;
    }
    return AVICEMU_ACCESS_DONE;
}

static enum avicemu_access
write_x2apic(struct model_vcpu *v, uint32_t offset, uint64_t value)
{
    if (model_mode(v) != AVICEMU_APIC_X2APIC) {
        return gp(v);
    }
    if (!model_has_x2apic(v, offset) || model_read_only(v, offset) ||
        (value & model_reserved(v, offset))) {
        return gp(v);
    }
    if (offset == M_SELF_IPI) {
        model_self_ipi(v, (uint8_t)value);
    } else {
        write_register(v, offset, (uint32_t)value);
        if (offset == M_ICR) {
            model_set(v, M_ICR2, (uint32_t)(value >> 32));
            model_send_icr(v, model_get(v, M_ICR), model_get(v, M_ICR2));
        }
    }
    model_sync_errors(v);
    return AVICEMU_ACCESS_DONE;
}

/* Not a register of the APIC: what others left stays; its own tick counts. */
static void
write_deadline(struct model_vcpu *v, uint64_t value)
{
    uint32_t fresh = v->esr_fresh;

    model_timer_write_deadline(v, value);
    if (v->esr_fresh != fresh) {
        model_sync_errors(v);
    }
}

enum avicemu_access
model_msr_write(struct model_vcpu *v, uint32_t msr, uint64_t value)
{
    look_if_ours(v, msr);
    if (msr == 0x1b) {
        return write_base(v, value) ? AVICEMU_ACCESS_DONE : gp(v);
    }
    if (msr == 0x6e0) {
        if (no_deadline_msr(v)) {
            return gp(v);
        }
        write_deadline(v, value);
        return AVICEMU_ACCESS_DONE;
    }
    if (msr < 0x800 || msr > 0x8ff) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    return write_x2apic(v, (msr - 0x800) << 4, value);
}

enum avicemu_access
model_cr8_write(struct model_vcpu *v, uint64_t value)
{
    if (value > 15) {
        return gp(v);
    }
    model_set(v, M_TPR, (uint32_t)value << 4);
    return AVICEMU_ACCESS_DONE;
}
