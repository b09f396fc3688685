/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Which registers a mode has, which bits of them stick, and which fault in
 * x2APIC mode: the sheet's tables 1.2 and 1.4, one switch per column.
 */

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

bool
model_is_ext_lvt(uint32_t offset)
{
    return offset >= M_EXT_LVT && offset < M_EXT_LVT + 0x40;
}

/* ---- presence ----------------------------------------------------------- */

bool
model_has_xapic(const struct model_vcpu *v, uint32_t offset)
{
    uint32_t unused;

    return offset != M_SELF_IPI && model_peek(v, offset, &unused);
}

bool
model_has_x2apic(const struct model_vcpu *v, uint32_t offset)
{
    uint32_t unused;

    if (offset == M_RRR || offset == M_DFR || offset == M_ICR2 ||
        (offset == M_APR && !is_amd(v))) {
        return false;
    }
    return model_peek(v, offset, &unused);
}

bool
model_write_only(uint32_t offset)
{
    return offset == M_EOI || offset == M_SELF_IPI;
}

bool
model_read_only(const struct model_vcpu *v, uint32_t offset)
{
    if (model_mode(v) == AVICEMU_APIC_X2APIC &&
        (offset == M_ID || offset == M_LDR)) {
        return true;
    }
    return offset == M_VERSION || offset == M_APR || offset == M_PPR ||
           offset == M_RRR || offset == M_TMCCT || offset == M_EAFR ||
           (offset >= M_ISR && offset < M_ESR);
}

/* ---- masks, sheet 1.4 --------------------------------------------------- */

static uint32_t
timer_mode_bits(const struct model_vcpu *v)
{
    return model_feature(v, AVICEMU_LAPIC_TSC_DEADLINE) ? 0x60000 : 0x20000;
}

static uint32_t
lvt_sticks(const struct model_vcpu *v, uint32_t offset)
{
    switch (offset) {
    case M_LVTT:
        return 0x100ff | timer_mode_bits(v) | (is_kvm(v) ? 0x1000 : 0);
    case M_LINT0:
    case M_LINT1:
        return is_amd(v) ? 0x187ff : is_intel(v) ? 0x1a7ff : 0x1f7ff;
    case M_LVTERR:
        return is_amd(v) ? 0x107ff : is_intel(v) ? 0x100ff : 0x110ff;
    default:
        return is_kvm(v) ? 0x117ff : 0x107ff;
    }
}

uint32_t
model_sticks(const struct model_vcpu *v, uint32_t offset)
{
    switch (offset) {
    case M_TPR:
    case M_SEOI:
        return 0xff;
    case M_ID:
        return is_intel(v) ? 0 : 0xff000000;
    case M_LDR:
    case M_ICR2:
        return 0xff000000;
    case M_SVR:
        return model_feature(v, AVICEMU_LAPIC_DIRECTED_EOI) ? 0x13ff : 0x3ff;
    case M_ICR:
        return is_kvm(v) ? 0xffffefff : 0xccfff;
    case M_EACR:
        return 7;
    case M_IER:
        return 0xffff0000;
    case M_LVTT:
    case M_CMCI:
    case M_THERMAL:
    case M_PERF:
    case M_LINT0:
    case M_LINT1:
    case M_LVTERR:
        return lvt_sticks(v, offset);
    default:
        return model_is_ext_lvt(offset) ? lvt_sticks(v, offset) : 0xffffffff;
    }
}

static uint64_t
reserved_kvm(uint32_t offset)
{
    switch (offset) {
    case M_ICR:
        return 0xfff32000;
    case M_SELF_IPI:
        return ~0xffull;
    case M_ESR:
        return ~0ull;
    default:
        return 0xffffffff00000000;
    }
}

static uint64_t
reserved_lvt(const struct model_vcpu *v, uint32_t offset)
{
    switch (offset) {
    case M_LVTT:
        return ~(0x110ffull | timer_mode_bits(v));
    case M_LINT0:
    case M_LINT1:
        return is_amd(v) ? ~0x1d7ffull : ~0x1f7ffull;
    case M_LVTERR:
        return is_amd(v) ? ~0x117ffull : ~0x110ffull;
    default:
        return ~0x117ffull;
    }
}

uint64_t
model_reserved(const struct model_vcpu *v, uint32_t offset)
{
    if (is_kvm(v)) {
        return reserved_kvm(offset);
    }
    switch (offset) {
    case M_TPR:
    case M_SEOI:
    case M_SELF_IPI:
        return ~0xffull;
    case M_EOI:
    case M_ESR:
        return ~0ull;
    case M_SVR:
        return model_feature(v, AVICEMU_LAPIC_DIRECTED_EOI) ? ~0x13ffull
                                                            : ~0x3ffull;
    case M_ICR:
        return is_amd(v) ? 0xfff33000 : 0xfff32000;
    case M_TDCR:
        return ~0xbull;
    case M_EACR:
        return ~7ull;
    case M_IER:
        return 0xffffffff0000ffff;
    case M_CMCI:
    case M_LVTT:
    case M_THERMAL:
    case M_PERF:
    case M_LINT0:
    case M_LINT1:
    case M_LVTERR:
        return reserved_lvt(v, offset);
    default:
        return model_is_ext_lvt(offset) ? reserved_lvt(v, offset)
                                        : 0xffffffff00000000;
    }
}
