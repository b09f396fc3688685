/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of NMIs: counted, latched one deep, before any maskable interrupt.
 *
 * No test sends an NMI just behind an STI: not every processor model keeps
 * the shadow of STI for NMIs. Each order here is forced by IRET, which ends
 * the blocking of NMIs and restores IF in one instruction [SDM3 6.7.1].
 */
#include "apic.h"

static void
nmi_self(void)
{
    apic_send(ICR_NMI | ICR_ASSERT, this_cpu()->apic_id);
}

static void
test_nmi_each(void)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        struct cpu *cpu = cpu_at(i);

        apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
        expect("arrives", wait_for(&cpu->count[VECTOR_NMI], 1), 1);
    }
    settle();
    for (uint32_t i = 0; i < nr_cpus; i++) {
        expect("once", cpu_at(i)->count[VECTOR_NMI], 1);
    }
    expect("no ISR bit", apic_any(REG_ISR), 0);
}

static void
test_nmi_others(void)
{
    apic_send(ICR_OTHERS | ICR_NMI | ICR_ASSERT, 0);
    for (uint32_t i = 1; i < nr_cpus; i++) {
        expect("arrives", wait_for(&cpu_at(i)->count[VECTOR_NMI], 1), 1);
    }
    settle();
    expect("not here", cpu_at(0)->count[VECTOR_NMI], 0);
}

/* IF and TPR are nothing to it. */
static void
test_nmi_unmasked(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_TPR, 0xff);
    apic_self(0x61);
    nmi_self();
    expect("with IF=0 and TPR=FFh", wait_for(&cpu->count[VECTOR_NMI], 1), 1);
    expect("the vector waits", cpu->count[0x61], 0);
    apic_write(REG_TPR, 0);
    irq_window();
    expect("and comes", cpu->count[0x61], 1);
}

static volatile uint32_t seen_inside;

static void
nmi_hook_latch(struct cpu *cpu, uint8_t vector)
{
    if (cpu->count[vector] == 1) {
        nmi_self();
        nmi_self();
        seen_inside = cpu->count[vector];
    }
}

/* One in service, one latched, more collapse. */
static void
test_nmi_latched(void)
{
    struct cpu *cpu = this_cpu();

    cpu->nmi_hook = nmi_hook_latch;
    nmi_self();
    expect("second one", wait_for(&cpu->count[VECTOR_NMI], 2), 1);
    expect("blocked in the handler", seen_inside, 1);
    delay_tsc(ms_to_tsc(2));
    irq_window();
    expect("third collapsed", cpu->count[VECTOR_NMI], 2);
}

static void
nmi_hook_race(struct cpu *cpu, uint8_t vector)
{
    if (cpu->count[vector] == 1) {
        apic_self(0x61); /* first the vector, then the NMI */
        nmi_self();
    }
}

/* IRET to IF=1 with both pending: the NMI is first [APM2 8.5, priorities]. */
static void
test_nmi_before_vector(void)
{
    struct cpu *cpu = this_cpu();

    for (uint32_t round = 0; round < 10; round++) {
        records_clear();
        cpu->nmi_hook = nmi_hook_race;
        irq_on();
        nmi_self();
        (void)wait_for(&cpu->nr_order, 3);
        irq_off();
        expect("three events", cpu->nr_order, 3);
        expect("NMI", cpu->order[0], VECTOR_NMI);
        expect("NMI again", cpu->order[1], VECTOR_NMI);
        expect("then the vector", cpu->order[2], 0x61);
    }
}

/*
 * From another CPU, both at once, many times: the target is anywhere. The
 * order is free here, because the two may arrive apart; the counts are not.
 */
static void
test_nmi_and_vector_counts(void)
{
    struct cpu *cpu = cpu_at(1);

    for (uint32_t i = 1; i <= 30; i++) {
        apic_send(ICR_FIXED | 0x61, cpu->apic_id);
        apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
        (void)wait_for(&cpu->count[0x61], i);
        (void)wait_for(&cpu->count[VECTOR_NMI], i);
        settle();
        expect("vectors", cpu->count[0x61], i);
        expect("NMIs", cpu->count[VECTOR_NMI], i);
    }
}

static void
halt_for_nmi(void *arg)
{
    struct cpu *cpu = this_cpu();

    *(volatile uint32_t *)arg = 1;
    while (cpu->count[VECTOR_NMI] == 0) {
        __asm__ volatile("hlt" ::: "memory"); /* IF=0: only an NMI ends it */
    }
}

static void
test_nmi_ends_halt(void)
{
    static volatile uint32_t there;
    struct cpu *cpu = cpu_at(1);

    there = 0;
    (void)start_on(cpu, halt_for_nmi, (void *)&there);
    (void)wait_for(&there, 1);
    delay_tsc(ms_to_tsc(2));
    apic_send(ICR_FIXED | 0x61, cpu->apic_id);
    delay_tsc(ms_to_tsc(2));
    expect("a vector does not end HLT with IF=0", cpu->work_done, 0);
    apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
    expect("an NMI does", join(cpu), 1);
    settle();
    expect("the vector was kept", cpu->count[0x61], 1);
}

static volatile uint32_t halting;

static void
nmi_hook_halt(struct cpu *cpu, uint8_t vector)
{
    if (cpu->count[vector] == 1) {
        apic_write(REG_TDCR, 0x0b);
        apic_write(REG_LVT_TIMER, 0x61);
        apic_write(REG_TMICT, timer_count(20));
        halting = 1;
        irq_halt();
    }
}

/* Blocked in its handler, so no reason to run; the timer's IRET ends that. */
static void
test_nmi_blocked_halt(void)
{
    struct cpu *cpu = cpu_at(1);

    halting = 0;
    cpu->nmi_hook = nmi_hook_halt;
    apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
    (void)wait_for(&halting, 1);
    delay_tsc(ms_to_tsc(5));
    apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
    (void)wait_for(&cpu->count[VECTOR_NMI], 2);
    settle();
    expect("three events", cpu->nr_order, 3);
    expect("NMI", cpu->order[0], VECTOR_NMI);
    expect("the timer ends HLT", cpu->order[1], 0x61);
    expect("then the latched NMI", cpu->order[2], VECTOR_NMI);
}

const struct test nmi_tests[] = {
    { "NMI: to each CPU", test_nmi_each, 1, 0 },
    { "NMI: to all others", test_nmi_others, 2, 0 },
    { "NMI: passes IF and TPR", test_nmi_unmasked, 1, 0 },
    { "NMI: one is latched in the handler", test_nmi_latched, 1, 0 },
    { "NMI: comes before a vector", test_nmi_before_vector, 1, 0 },
    { "NMI: counts with vectors", test_nmi_and_vector_counts, 2, 0 },
    { "NMI: ends HLT with IF=0", test_nmi_ends_halt, 2, 0 },
    { "NMI: blocked, ends no HLT", test_nmi_blocked_halt, 2, 0 },
    { NULL, NULL, 0, 0 },
};
