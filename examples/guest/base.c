/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of APIC_BASE: legal and faulting transitions, what they do to CPUID,
 * and where the page is [APM2 16.10, Table 16-5], [SDM3 10.12.5].
 *
 *        D  <---->  X  ----->  X2        D = off, X = xAPIC, X2 = x2APIC
 *        ^---------------------'         all other changes fault
 *
 * A disabled APIC can be told nothing and may forget all, so these tests run
 * on the boot CPU while nobody sends to it, and set up the APIC afterwards.
 */
#include "apic.h"

#define STATE_BITS (APIC_BASE_EN | APIC_BASE_EXTD)

static bool
cpuid_has_apic(void)
{
    uint32_t a, b, c, d;

    cpuid(1, &a, &b, &c, &d);
    return (d >> 9) & 1u;
}

static bool
go(uint64_t state)
{
    return try_wrmsr(MSR_APIC_BASE,
                     (apic_base() & ~(uint64_t)STATE_BITS) | state);
}

static void
expect_state(uint64_t state)
{
    expect("state", apic_base() & STATE_BITS, state);
    expect("CPUID.1:EDX[9]", cpuid_has_apic(), (state & APIC_BASE_EN) != 0);
}

static void
come_back(void)
{
    apic_enter_mode(mode);
    apic_enable();
    apic_self(0x61);
    irq_window();
    expect("works again", this_cpu()->count[0x61], 1);
    expect("id again",
           apic_read(REG_ID) >> (mode == MODE_XAPIC ? 24 : 0) & 0xff,
           apic_initial_id());
}

static void
test_from_xapic(void)
{
    uint64_t value;

    expect_state(APIC_BASE_EN);
    expect("X to I faults", go(APIC_BASE_EXTD), 0);
    expect("X to X", go(APIC_BASE_EN), 1);
    expect_state(APIC_BASE_EN);
    expect("X to D", go(0), 1);
    expect_state(0);
    expect("the page is not an APIC", *at(APIC_DEFAULT_BASE + REG_VERSION),
           0xffffffff);
    expect("no MSRs either", try_rdmsr(msr_of(REG_VERSION), &value), 0);
    expect("D to X2 faults", go(STATE_BITS), 0);
    expect("D to I faults", go(APIC_BASE_EXTD), 0);
    expect("D to D", go(0), 1);
    expect("D to X", go(APIC_BASE_EN), 1);
    expect_state(APIC_BASE_EN);
    come_back();
}

static void
test_from_x2apic(void)
{
    expect_state(STATE_BITS);
    expect("X2 to X faults", go(APIC_BASE_EN), 0);
    expect("X2 to I faults", go(APIC_BASE_EXTD), 0);
    expect("X2 to X2", go(STATE_BITS), 1);
    expect_state(STATE_BITS);
    expect("X2 to D", go(0), 1);
    expect_state(0);
    expect("D to X2 faults", go(STATE_BITS), 0);
    expect("D to X", go(APIC_BASE_EN), 1);
    expect_state(APIC_BASE_EN);
    expect("an xAPIC now", *at(APIC_DEFAULT_BASE + REG_VERSION) & 0xf0, 0x10);
    expect("X to X2", go(STATE_BITS), 1);
    expect_state(STATE_BITS);
    come_back();
}

static void
test_reserved(void)
{
    uint64_t base = apic_base();

    for (uint32_t bit = 0; bit < 10; bit++) {
        if (bit != 8) { /* BSP: read-only, but no fault */
            expect("bits 7:0 and 9 fault: bit",
                   try_wrmsr(MSR_APIC_BASE, base | 1u << bit) ? bit : 0x100,
                   0x100);
        }
    }
    expect("bit 63 faults", try_wrmsr(MSR_APIC_BASE, base | 1ull << 63), 0);
    expect("unchanged", apic_base(), base);
}

/* Registers that xAPIC and x2APIC share stay across X to X2 [APM2 16.9]. */
static void
test_keeps_state(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_LVT_THERMAL, LVT_MASKED | 0x77);
    apic_write(REG_TMICT, 0xffffffffu); /* masked, and runs on */
    apic_write(REG_TPR, 0x60);
    apic_self(0x61);
    apic_enter_mode(MODE_X2APIC);
    mode = MODE_X2APIC;
    expect("LVT", apic_read(REG_LVT_THERMAL), LVT_MASKED | 0x77);
    expect("TPR", apic_read(REG_TPR), 0x60);
    expect("SVR", apic_read(REG_SVR), SVR_ENABLE | VECTOR_SPURIOUS);
    expect("IRR", apic_bit(REG_IRR, 0x61), 1);
    expect_between("timer", apic_read(REG_TMCCT), 1, 0xfffffffe);
    apic_write(REG_TPR, 0);
    irq_window();
    expect("delivered", cpu->count[0x61], 1);
    cpu->count[0x61] = 0;
    apic_write(REG_LVT_THERMAL, LVT_MASKED);
    mode = MODE_XAPIC;
    come_back();
}

/* The page moves with the base; the old place is no APIC any more. */
static void
test_move(void)
{
    const uint32_t moved = 0xfef10000u;
    uint64_t base = apic_base();

    expect("accepted", try_wrmsr(MSR_APIC_BASE, (base & 0xfff) | moved), 1);
    expect("at the new place", *at(moved + REG_ID), apic_initial_id() << 24);
    expect("not at the old one", *at(APIC_DEFAULT_BASE + REG_ID), 0xffffffff);
    *at(moved + REG_ICR) = ICR_SELF | 0x62;
    expect("back", try_wrmsr(MSR_APIC_BASE, base), 1);
    irq_window();
    expect("sent from there", this_cpu()->count[0x62], 1);
}

/* CR8 belongs to the CPU: it works without an APIC [APM2 16.6.4]. */
static void
test_cr8_without_apic(void)
{
    expect("off", go(0), 1);
    cr8_write(7);
    expect("CR8 reads back", cr8_read(), 7);
    cr8_write(0);
    come_back();
}

const struct test base_tests[] = {
    { "base: transitions from xAPIC", test_from_xapic, 1,
      ONLY_XAPIC | NEEDS_X2APIC },
    { "base: transitions from x2APIC", test_from_x2apic, 1, ONLY_X2APIC },
    { "base: reserved bits fault", test_reserved, 1, 0 },
    { "base: X to X2 keeps registers", test_keeps_state, 1,
      ONLY_XAPIC | NEEDS_X2APIC },
    { "base: the page moves", test_move, 1, ONLY_XAPIC },
    { "base: CR8 works without an APIC", test_cr8_without_apic, 1, 0 },
    { NULL, NULL, 0, 0 },
};
