/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of INIT and SIPI, on CPUs that run already.
 *
 * Every CPU here came by a broadcast INIT and SIPI; these tests send them
 * again, to one CPU: while it sleeps, while it spins with interrupts off,
 * and at wrong times. A start is seen in `boots`, and what INIT did to the
 * registers in the state that ap_main() saves before it writes any.
 */
#include "apic.h"

#define PAGE       0x08u
#define PAGE_OTHER 0x0au

static void
expect_boot_state(const struct cpu *cpu)
{
    const struct boot_state *boot = &cpu->boot;
    uint32_t id = cpu->apic_id;

    expect("BSP flag", boot->apic_base & APIC_BASE_BSP, 0);
    expect("mode kept", boot->apic_base & (APIC_BASE_EN | APIC_BASE_EXTD),
           mode == MODE_X2APIC ? APIC_BASE_EN | APIC_BASE_EXTD : APIC_BASE_EN);
    expect("TPR", boot->tpr, 0);
    expect("SVR", boot->svr, 0xff);
    expect("ESR, TMICT, TDCR, ICR",
           boot->esr | boot->tmict | boot->tdcr | boot->icr, 0);
    expect("LVTs", boot->lvt_and, LVT_MASKED);
    expect("LVTs", boot->lvt_or, LVT_MASKED);
    expect("IRR", boot->irr_or, 0);
    expect("ISR", boot->isr_or, 0);
    if (mode == MODE_XAPIC) {
        expect("DFR", boot->dfr, 0xffffffff);
        expect("LDR", boot->ldr, 0);
    } else {
        expect("LDR", boot->ldr, (id >> 4) << 16 | 1u << (id & 15));
    }
}

/* Of the boot: later starts change the records, and these tests run first. */
static void
test_boot_state(void)
{
    for (uint32_t i = 1; i < nr_cpus; i++) {
        expect_boot_state(cpu_at(i));
    }
    expect("we are the BSP", apic_base() & APIC_BASE_BSP, APIC_BASE_BSP);
}

static void
make_dirty(void *arg)
{
    (void)arg;
    apic_write(REG_TPR, 0x70);
    apic_write(REG_LVT_LINT1, LVT_NMI);
    apic_write(REG_TDCR, 0x0b);
    apic_write(REG_TMICT, 0xffffffff);
    apic_self(0x61);
    apic_send(ICR_FIXED | 0x62, this_cpu()->apic_id);
}

static void
test_init_clears(void)
{
    struct cpu *cpu = cpu_at(1);

    (void)run_on(cpu, make_dirty, NULL);
    expect("started", cpu_restart(cpu, PAGE), 1);
    expect_boot_state(cpu);
    expect("its vectors are gone", cpu->count[0x61] + cpu->count[0x62], 0);
}

/* The start address is the SIPI's vector [SDM3 9.4.4]. */
static void
test_sipi_vector(void)
{
    struct cpu *cpu = cpu_at(1);

    expect("started", cpu_restart(cpu, PAGE_OTHER), 1);
    expect("CS", cpu->boot.cs, PAGE_OTHER << 8);
    expect("started", cpu_restart(cpu, PAGE), 1);
    expect("CS", cpu->boot.cs, PAGE << 8);
}

static void
spin_forever(void *arg)
{
    *(volatile uint32_t *)arg = 1;
    for (;;) {
        __asm__ volatile("pause");
    }
}

static void
halt_forever(void *arg)
{
    *(volatile uint32_t *)arg = 1;
    for (;;) {
        __asm__ volatile("cli\n\thlt");
    }
}

static void
test_init_any_state(void)
{
    static volatile uint32_t there;
    struct cpu *cpu = cpu_at(nr_cpus - 1);

    there = 0;
    (void)start_on(cpu, spin_forever, (void *)&there);
    expect("spinning", wait_for(&there, 1), 1);
    expect("started from a loop", cpu_restart(cpu, PAGE), 1);
    there = 0;
    (void)start_on(cpu, halt_forever, (void *)&there);
    expect("halting", wait_for(&there, 1), 1);
    expect("started from HLT, IF=0", cpu_restart(cpu, PAGE), 1);
    there = 0;
    settle();
    expect("it works", there, 0);
}

/* First SIPI wins, and outside wait-for-SIPI it is dropped [SDM3 9.4.4]. */
static void
test_sipi_twice(void)
{
    struct cpu *cpu = cpu_at(1);
    uint32_t boots = cpu->boots;

    apic_send(ICR_SIPI | ICR_ASSERT | PAGE_OTHER, cpu->apic_id);
    settle();
    expect("SIPI to a running CPU", cpu->boots, boots);
    expect("started", cpu_restart(cpu, PAGE), 1);
    apic_send(ICR_SIPI | ICR_ASSERT | PAGE_OTHER, cpu->apic_id);
    settle();
    expect("second SIPI", cpu->boots, boots + 1);
}

/* INIT level de-assert only ever synchronised arbitration ids. */
static void
test_init_deassert(void)
{
    uint32_t boots = cpu_at(1)->boots;

    apic_send(ICR_ALL | ICR_INIT | ICR_LEVEL, 0);
    apic_send(ICR_INIT | ICR_LEVEL, cpu_at(1)->apic_id);
    settle();
    expect("no restart", cpu_at(1)->boots, boots);
}

static void
send_to_others(void *arg)
{
    (void)arg;
    apic_send(ICR_OTHERS | ICR_FIXED | 0x61, 0);
}

/* Others notice nothing, and a CPU without SIPI accepts nothing. */
static void
test_wait_for_sipi(void)
{
    struct cpu *cpu = cpu_at(1);
    uint32_t boots = cpu->boots;

    apic_send(ICR_INIT | ICR_ASSERT, cpu->apic_id);
    apic_send(ICR_FIXED | 0x61, cpu->apic_id);
    for (uint32_t i = 2; i < nr_cpus; i++) {
        (void)run_on(cpu_at(i), send_to_others, NULL);
    }
    delay_tsc(ms_to_tsc(3));
    expect("waits", cpu->boots, boots);
    expect("takes no interrupt", cpu->count[0x61], 0);
    apic_send(ICR_SIPI | ICR_ASSERT | PAGE, cpu->apic_id);
    expect("started", wait_for(&cpu->boots, boots + 1), 1);
    settle();
    expect("refused while software-disabled", cpu->count[0x61], 0);
}

const struct test start_tests[] = {
    { "INIT: state after boot", test_boot_state, 1, ONLY_XAPIC },
    { "INIT: clears registers and vectors", test_init_clears, 2, 0 },
    { "INIT: reaches any state", test_init_any_state, 2, 0 },
    { "INIT: de-assert is ignored", test_init_deassert, 2, 0 },
    { "INIT: then waits for SIPI", test_wait_for_sipi, 2, 0 },
    { "SIPI: vector is the page", test_sipi_vector, 2, 0 },
    { "SIPI: only the first counts", test_sipi_twice, 2, 0 },
    { NULL, NULL, 0, 0 },
};
