/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Register access in both modes, and the state that tests start from:
 *
 *   SVR     enabled, spurious vector VECTOR_SPURIOUS
 *   LDR     xAPIC: flat, bit = CPU index (CPUs from 8 on have none); x2APIC:
 *           derived by the APIC itself [APM2 16.14]
 *   TPR     0; every LVT masked; timer stopped; IRR and ISR empty
 */
#include "apic.h"

enum apic_mode mode;

static inline uint64_t
rdmsr(uint32_t msr)
{
    uint32_t low, high;

    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void
wrmsr(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr" ::"a"((uint32_t)value),
                     "d"((uint32_t)(value >> 32)), "c"(msr)
                     : "memory");
}

/*
 * Reading APIC_BASE is an exit of its own, as dear as the access that needs
 * it. So the base is the reset value but for the one test that moves it, and
 * that test reaches the page by itself.
 */

static volatile uint32_t *
page_at(enum reg reg)
{
    return at(APIC_DEFAULT_BASE + (uint32_t)reg);
}

uint32_t
apic_read(enum reg reg)
{
    if (mode == MODE_X2APIC) {
        return (uint32_t)rdmsr(msr_of(reg));
    }
    return *page_at(reg);
}

void
apic_write(enum reg reg, uint32_t value)
{
    if (mode == MODE_X2APIC) {
        wrmsr(msr_of(reg), value);
    } else {
        *page_at(reg) = value;
    }
}

void
apic_send(uint32_t icr, uint32_t dest)
{
    if (mode == MODE_X2APIC) {
        wrmsr(msr_of(REG_ICR), (uint64_t)dest << 32 | icr);
    } else {
        *page_at(REG_ICR_HIGH) = dest << 24;
        *page_at(REG_ICR) = icr;
    }
}

void
apic_self(uint8_t vector)
{
    apic_write(REG_ICR, ICR_SELF | ICR_FIXED | vector);
}

void
apic_eoi(void)
{
    apic_write(REG_EOI, 0);
}

bool
apic_bit(enum reg base, uint8_t vector)
{
    uint32_t word = apic_read(base + 0x10u * (vector >> 5));

    return (word >> (vector & 31)) & 1u;
}

uint32_t
apic_any(enum reg base)
{
    uint32_t any = 0;

    for (uint32_t i = 0; i < 8; i++) {
        any |= apic_read(base + 0x10u * i);
    }
    return any;
}

/* Latch what has accumulated, and read it [SDM3 10.5.3, error handling]. */
uint32_t
apic_esr(void)
{
    apic_write(REG_ESR, 0);
    return apic_read(REG_ESR);
}

uint32_t
apic_broadcast(void)
{
    return mode == MODE_X2APIC ? 0xffffffffu : 0xffu;
}

uint32_t
apic_absent_id(void)
{
    return mode == MODE_X2APIC ? 0x0ffeu : 0xfdu;
}

uint32_t
apic_initial_id(void)
{
    uint32_t a, b, c, d;

    cpuid(1, &a, &b, &c, &d);
    return b >> 24;
}

bool
apic_has_deadline(void)
{
    uint32_t a, b, c, d;

    cpuid(1, &a, &b, &c, &d);
    return (c >> 24) & 1u;
}

bool
apic_has_x2apic(void)
{
    uint32_t a, b, c, d;

    cpuid(1, &a, &b, &c, &d);
    return (c >> 21) & 1u;
}

uint64_t
apic_base(void)
{
    return rdmsr(MSR_APIC_BASE);
}

void
apic_enable(void)
{
    const struct cpu *cpu = this_cpu();

    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    if (mode == MODE_XAPIC) {
        apic_write(REG_DFR, 0xffffffffu);
        apic_write(REG_LDR, cpu->index < 8 ? 1u << (24 + cpu->index) : 0);
    }
    apic_write(REG_TPR, 0);
}

void
apic_quiesce(void)
{
    apic_write(REG_LVT_TIMER, LVT_MASKED);
    apic_write(REG_TMICT, 0);
    apic_write(REG_LVT_ERROR, LVT_MASKED);
    apic_enable();
    for (uint32_t i = 0; i < 256 && apic_any(REG_ISR) != 0; i++) {
        apic_eoi();
    }
    for (uint32_t i = 0; i < 256 && apic_any(REG_IRR) != 0; i++) {
        irq_window();
    }
}

void
apic_enter_mode(enum apic_mode wanted)
{
    uint64_t base = apic_base();
    uint64_t bits = APIC_BASE_EN | APIC_BASE_EXTD;

    if (wanted == MODE_XAPIC && (base & bits) == bits) {
        wrmsr(MSR_APIC_BASE, base & ~bits); /* the only way back */
    }
    base = (base & ~bits) | APIC_BASE_EN;
    if (wanted == MODE_XAPIC || (apic_base() & APIC_BASE_EN) == 0) {
        wrmsr(MSR_APIC_BASE, base);
    }
    if (wanted == MODE_X2APIC) {
        wrmsr(MSR_APIC_BASE, base | APIC_BASE_EXTD);
    }
}
