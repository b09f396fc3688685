/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer of a guest CPU, which any program can have beside its work, and
 * the program `ticks` that has nothing else.
 *
 * A one-shot or deadline timer is armed again in its handler, so each arming
 * makes exactly one tick: the program's own book. Periodic ticks may merge
 * while the vCPU does not run; the library counts that. While a VM drains, the
 * next tick is the last one.
 */

#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"

#define REG_LVT_TIMER     0x320u
#define REG_INITIAL_COUNT 0x380u
#define REG_DIVIDE        0x3e0u
#define DIVIDE_BY_1       0x0bu
#define LVT_MASKED        (1u << 16)
#define MSR_TSC_DEADLINE  0x6e0u

static uint32_t
lvt_mode(enum avicemu_mock_timer timer)
{
    switch (timer) {
    case AVICEMU_MOCK_TIMER_PERIODIC:
        return 1u << 17;
    case AVICEMU_MOCK_TIMER_DEADLINE:
        return 2u << 17;
    case AVICEMU_MOCK_TIMER_OFF:
        return LVT_MASKED;
    case AVICEMU_MOCK_TIMER_ONESHOT:
        break;
    }
    return 0;
}

/* Bus and TSC both run at 1 GHz: a count is a nanosecond. */
static void
timer_arm(struct avicemu_mock_cpu *cpu)
{
    const struct avicemu_mock_vm_config *config = cpu->vm->config;

    if (config->timer == AVICEMU_MOCK_TIMER_DEADLINE) {
        (void)avicemu_mock_msr_write(cpu, MSR_TSC_DEADLINE,
                                     avicemu_mock_tsc(cpu) + config->tick_ns);
    } else {
        avicemu_mock_apic_write(cpu, REG_INITIAL_COUNT,
                                (uint32_t)config->tick_ns);
    }
    cpu->timer_armed++;
}

static void
timer_stop(struct avicemu_mock_cpu *cpu)
{
    if (cpu->vm->config->timer == AVICEMU_MOCK_TIMER_PERIODIC) {
        avicemu_mock_apic_write(cpu, REG_INITIAL_COUNT, 0);
    }
    if (cpu->timer_on) {
        cpu->timer_on = false;
        avicemu_mock_expect(cpu, -1);
    }
}

static enum avicemu_mock_next
timer_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    (void)state;
    (void)budget;
    cpu->timer_ticks++;
    if (cpu->vm->program == &am_program_ticks) {
        avicemu_mock_did(cpu, 1);
    }
    if (avicemu_mock_draining(cpu)) {
        timer_stop(cpu);
    } else if (cpu->vm->config->timer != AVICEMU_MOCK_TIMER_PERIODIC) {
        timer_arm(cpu);
    }
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

void
am_timer_start(struct avicemu_mock_cpu *cpu)
{
    enum avicemu_mock_timer timer = cpu->vm->config->timer;

    if (timer == AVICEMU_MOCK_TIMER_OFF) {
        return;
    }
    avicemu_mock_idt(cpu, AE_VECTOR_TIMER, timer_handler, NULL);
    if (timer != AVICEMU_MOCK_TIMER_DEADLINE) {
        avicemu_mock_apic_write(cpu, REG_DIVIDE, DIVIDE_BY_1);
    }
    avicemu_mock_apic_write(cpu, REG_LVT_TIMER,
                            lvt_mode(timer) | AE_VECTOR_TIMER);
    cpu->timer_on = true;
    avicemu_mock_expect(cpu, 1);
    timer_arm(cpu);
}

/* ---- the program `ticks` ------------------------------------------------ */

static void *
ticks_create(struct avicemu_mock_vm *vm)
{
    (void)vm;
    return malloc(1); /* all its state is in the CPUs */
}

static void
ticks_start(struct avicemu_mock_cpu *cpu, void *state)
{
    (void)cpu;
    (void)state;
}

static enum avicemu_mock_next
ticks_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    (void)cpu;
    (void)state;
    (void)budget;
    return AVICEMU_MOCK_NEXT_HALT;
}

/* Armed = handled + the one that is armed, or waits, at the close. */
static unsigned
ticks_check(struct avicemu_mock_vm *vm, void *state, char *buf, size_t len)
{
    unsigned faults = 0;

    (void)state;
    for (uint32_t i = 0; i < vm->nr_cpus; i++) {
        const struct avicemu_mock_cpu *cpu = vm->cpus[i];

        if (vm->config->timer == AVICEMU_MOCK_TIMER_PERIODIC ||
            cpu->timer_armed == cpu->timer_ticks + cpu->timer_on) {
            continue;
        }
        if (faults++ == 0) {
            (void)snprintf(
                buf, len,
                "vCPU %u vector %02xh: %llu ticks armed, %llu "
                "handled, %u still due",
                i, AE_VECTOR_TIMER, (unsigned long long)cpu->timer_armed,
                (unsigned long long)cpu->timer_ticks, cpu->timer_on ? 1u : 0u);
        }
    }
    return faults;
}

const struct avicemu_mock_program am_program_ticks = {
    .name = "ticks",
    .create = ticks_create,
    .destroy = free,
    .start = ticks_start,
    .step = ticks_step,
    .check = ticks_check,
};
