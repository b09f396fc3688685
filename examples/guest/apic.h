/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local APIC as its own guest sees it, the same calls in both modes.
 *
 * A register is named by its offset in the xAPIC page. In x2APIC mode the
 * same register is MSR 800h + (offset >> 4) [APM2 16.11, x2APIC registers].
 */
#ifndef GUEST_APIC_H
#define GUEST_APIC_H

#include "guest.h"

#define APIC_DEFAULT_BASE 0xfee00000u

#define MSR_APIC_BASE    0x01b
#define APIC_BASE_BSP    (1u << 8)
#define APIC_BASE_EXTD   (1u << 10)
#define APIC_BASE_EN     (1u << 11)
#define MSR_TSC_DEADLINE 0x6e0
#define MSR_X2APIC       0x800
#define MSR_SELF_IPI     0x83f

enum reg {
    REG_ID = 0x020,
    REG_VERSION = 0x030,
    REG_TPR = 0x080,
    REG_APR = 0x090,
    REG_PPR = 0x0a0,
    REG_EOI = 0x0b0,
    REG_LDR = 0x0d0,
    REG_DFR = 0x0e0,
    REG_SVR = 0x0f0,
    REG_ISR = 0x100,
    REG_TMR = 0x180,
    REG_IRR = 0x200,
    REG_ESR = 0x280,
    REG_ICR = 0x300,
    REG_ICR_HIGH = 0x310,
    REG_LVT_TIMER = 0x320,
    REG_LVT_THERMAL = 0x330,
    REG_LVT_PERF = 0x340,
    REG_LVT_LINT0 = 0x350,
    REG_LVT_LINT1 = 0x360,
    REG_LVT_ERROR = 0x370,
    REG_TMICT = 0x380,
    REG_TMCCT = 0x390,
    REG_TDCR = 0x3e0,
    REG_EAFR = 0x400,
    REG_EACR = 0x410,
    REG_SEOI = 0x420,
    REG_IER = 0x480,
};

#define SVR_ENABLE (1u << 8)

#define LVT_MASKED   (1u << 16)
#define LVT_PERIODIC (1u << 17)
#define LVT_DEADLINE (2u << 17)
#define LVT_NMI      (4u << 8)

#define ICR_FIXED   (0u << 8)
#define ICR_LOWEST  (1u << 8)
#define ICR_NMI     (4u << 8)
#define ICR_INIT    (5u << 8)
#define ICR_SIPI    (6u << 8)
#define ICR_LOGICAL (1u << 11)
#define ICR_BUSY    (1u << 12)
#define ICR_ASSERT  (1u << 14)
#define ICR_LEVEL   (1u << 15)
#define ICR_SELF    (1u << 18)
#define ICR_ALL     (2u << 18)
#define ICR_OTHERS  (3u << 18)

#define ESR_SEND_ACCEPT      (1u << 2)
#define ESR_SEND_ILLEGAL     (1u << 5)
#define ESR_RECEIVE_ILLEGAL  (1u << 6)
#define ESR_ILLEGAL_REGISTER (1u << 7)

enum apic_mode {
    MODE_XAPIC,
    MODE_X2APIC
};

/* The mode that all CPUs are in; a test that leaves it also comes back. */
extern enum apic_mode mode;

uint32_t
apic_read(enum reg reg);
void
apic_write(enum reg reg, uint32_t value);
/* ICR: destination first, then the low half, whose write sends. */
void
apic_send(uint32_t icr, uint32_t dest);
void
apic_self(uint8_t vector);
void
apic_eoi(void);
bool
apic_bit(enum reg base, uint8_t vector);
/* The OR of all eight words: is anything set? */
uint32_t
apic_any(enum reg base);
uint32_t
apic_esr(void);
uint32_t
apic_broadcast(void);
uint32_t
apic_absent_id(void);
uint32_t
apic_initial_id(void);
bool
apic_has_deadline(void);
bool
apic_has_x2apic(void);
uint64_t
apic_base(void);

/* What a CPU programs after boot and after each test. */
void
apic_enable(void);
void
apic_quiesce(void);
/* Make this CPU's APIC be in `mode`, from any legal state. */
void
apic_enter_mode(enum apic_mode wanted);

static inline volatile uint32_t *
at(uint32_t address)
{
    return (volatile uint32_t *)(uintptr_t)address;
}

static inline uint32_t
msr_of(enum reg reg)
{
    return MSR_X2APIC + ((uint32_t)reg >> 4);
}

#endif
