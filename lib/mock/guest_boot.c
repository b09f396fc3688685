/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How every guest boots, and the program that does nothing but boot.
 *
 *   each CPU   x2APIC on, if the scenario wants it; logical id; SVR; the
 *              program's handlers; its timer; sti; one more is online
 *   the BSP    then, for each AP: INIT, SIPI, SIPI; waits for all
 *
 * An AP above 254 is in xAPIC mode until it has booted, with the low 8 bits of
 * its id for an id: messages to another CPU would reach it, too. So where there
 * are any, the first boot is a broadcast to all APs, as firmware does it.
 *
 * The second SIPI finds a CPU that waits no more and is dropped, as on real
 * machines. The program `boot` does this over and over, and sends each AP an
 * interrupt on the way: long before its INIT, and it is delivered; right
 * before, and INIT clears it; behind it, and an APIC that INIT has switched off
 * drops it. So the books see all three.
 */

#include <stdlib.h>

#include "cpu.h"

#define MSR_APIC_BASE  0x1bu
#define APIC_BASE_EXTD (1u << 10)
#define REG_LDR        0x0d0u
#define REG_DFR        0x0e0u
#define REG_SVR        0x0f0u
#define SVR_ENABLE     0x100u
#define ICR_INIT       0x4500u /* assert, edge */
#define ICR_SIPI       0x4600u
#define ICR_FIXED      0x4000u
#define ICR_OTHERS     (3u << 18)
#define MAX_XAPIC_CPUS 255u
#define START_PAGE     0x08u
#define VECTOR_PROBE   0x31u

/* When an AP is sent a probe: before its predecessor's INIT, before its own,
 * behind it. */
enum probe {
    PROBE_EARLY,
    PROBE_BEFORE,
    PROBE_BEHIND,
    NR_PROBE,
};

/* ---- one CPU ------------------------------------------------------------ */

/* Up to 8 CPUs fit the flat model; more go to clusters of 4. */
static void
logical_id_set(struct avicemu_mock_cpu *cpu)
{
    uint32_t i = cpu->index;

    if (cpu->vm->nr_cpus <= 8) {
        avicemu_mock_apic_write(cpu, REG_DFR, 0xffffffffu);
        avicemu_mock_apic_write(cpu, REG_LDR, 1u << (24 + i));
    } else if (i < 60) {
        avicemu_mock_apic_write(cpu, REG_DFR, 0x0fffffffu);
        avicemu_mock_apic_write(cpu, REG_LDR,
                                ((i / 4) << 28) | (1u << (24 + i % 4)));
    }
}

static void
apic_on(struct avicemu_mock_cpu *cpu)
{
    uint64_t base = 0;

    if (cpu->vm->config->mode == AVICEMU_APIC_X2APIC) {
        (void)avicemu_mock_msr_read(cpu, MSR_APIC_BASE, &base);
        (void)avicemu_mock_msr_write(cpu, MSR_APIC_BASE, base | APIC_BASE_EXTD);
    } else {
        logical_id_set(cpu);
    }
    avicemu_mock_apic_write(cpu, REG_SVR, SVR_ENABLE | AE_VECTOR_SPURIOUS);
}

static void
probe_install(struct avicemu_mock_cpu *cpu);

static void
cpu_boots(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_mock_vm *vm = cpu->vm;

    apic_on(cpu);
    probe_install(cpu);
    vm->program->start(cpu, vm->state);
    am_timer_start(cpu);
    avicemu_mock_sti(cpu);
    (void)atomic_fetch_add(&vm->nr_online, 1);
    cpu->boot_round = 1;
}

/* ---- the BSP starts the others ------------------------------------------ */

static void
ap_probe(struct avicemu_mock_cpu *bsp, uint32_t ap)
{
    if (ap < bsp->vm->nr_cpus) {
        avicemu_mock_icr(bsp, ap, ICR_FIXED | VECTOR_PROBE, 1);
    }
}

/* The same two steps for all APs. */
static void
all_start(struct avicemu_mock_cpu *bsp)
{
    uint32_t others = bsp->vm->nr_cpus - 1;

    if (bsp->boot_init_sent) {
        avicemu_mock_icr(bsp, 0, ICR_SIPI | ICR_OTHERS | START_PAGE, others);
        avicemu_mock_icr(bsp, 0, ICR_SIPI | ICR_OTHERS | START_PAGE, others);
        bsp->boot_next = bsp->vm->nr_cpus;
    } else {
        avicemu_mock_icr(bsp, 0, ICR_INIT | ICR_OTHERS, others);
    }
    bsp->boot_init_sent = !bsp->boot_init_sent;
}

/* One step: the INIT of an AP, or, in the step after it, its SIPIs. In the
 * first boot there is nobody who could take a probe. */
static void
ap_start(struct avicemu_mock_cpu *bsp, uint32_t ap)
{
    uint64_t when = NR_PROBE;

    if (bsp->boot_round == 1 && bsp->vm->nr_cpus > MAX_XAPIC_CPUS) {
        all_start(bsp);
        return;
    }
    if (bsp->boot_round > 1) {
        when = avicemu_mock_random(bsp) % NR_PROBE;
    }
    if (bsp->boot_init_sent) {
        if (when == PROBE_BEHIND) {
            bsp->may_drop++;
            ap_probe(bsp, ap);
        }
        avicemu_mock_icr(bsp, ap, ICR_SIPI | START_PAGE, 1);
        avicemu_mock_icr(bsp, ap, ICR_SIPI | START_PAGE, 1);
        bsp->boot_init_sent = false;
        bsp->boot_next++;
        return;
    }
    if (when == PROBE_EARLY || when == PROBE_BEFORE) {
        ap_probe(bsp, when == PROBE_EARLY ? ap + 1 : ap);
    }
    avicemu_mock_icr(bsp, ap, ICR_INIT, 1); /* APIC ids are indices */
    bsp->boot_init_sent = true;
}

bool
am_boot_aps(struct avicemu_mock_cpu *bsp)
{
    struct avicemu_mock_vm *vm = bsp->vm;

    if (bsp->boot_next < vm->nr_cpus) {
        avicemu_mock_expect(
            bsp, bsp->boot_next == 1 && !bsp->boot_init_sent ? 1 : 0);
        ap_start(bsp, bsp->boot_next);
        return false;
    }
    if (atomic_load(&vm->nr_online) < vm->nr_cpus) {
        return false;
    }
    avicemu_mock_expect(bsp, vm->nr_cpus > 1 ? -1 : 0);
    bsp->boot_next = 0;
    return true;
}

/* The first frame of each CPU; becomes the program once all are there. */
enum avicemu_mock_next
am_boot_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct avicemu_mock_vm *vm = cpu->vm;

    (void)state;
    (void)budget;
    if (cpu->boot_round == 0) {
        cpu_boots(cpu);
        return AVICEMU_MOCK_NEXT_STEP;
    }
    if (cpu->index == 0 && !am_boot_aps(cpu)) {
        return AVICEMU_MOCK_NEXT_PAUSE;
    }
    /* An AP that has booted may run the program before the others have. */
    cpu->frames[0].gate = (struct am_gate){ vm->program->step, vm->state };
    return AVICEMU_MOCK_NEXT_STEP;
}

/* ---- the program `boot` ------------------------------------------------- */

static enum avicemu_mock_next
probe_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    (void)state;
    (void)budget;
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

static void
probe_install(struct avicemu_mock_cpu *cpu)
{
    avicemu_mock_idt(cpu, VECTOR_PROBE, probe_handler, NULL);
}

static void *
boot_create(struct avicemu_mock_vm *vm)
{
    (void)vm;
    return malloc(1); /* all its state is in the CPUs */
}

static void
boot_start(struct avicemu_mock_cpu *cpu, void *state)
{
    (void)cpu;
    (void)state;
}

static enum avicemu_mock_next
boot_program_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct avicemu_mock_vm *vm = cpu->vm;

    (void)state;
    (void)budget;
    if (cpu->index != 0) {
        return AVICEMU_MOCK_NEXT_HALT;
    }
    if (cpu->boot_next == 0) { /* the last round is over */
        if (avicemu_mock_draining(cpu)) {
            return AVICEMU_MOCK_NEXT_HALT;
        }
        atomic_store(&vm->nr_online, 1);
        cpu->boot_next = 1;
        cpu->boot_round++;
    }
    if (am_boot_aps(cpu)) {
        avicemu_mock_did(cpu, vm->nr_cpus - 1);
    }
    return AVICEMU_MOCK_NEXT_PAUSE;
}

const struct avicemu_mock_program am_program_boot = {
    .name = "boot",
    .create = boot_create,
    .destroy = free,
    .start = boot_start,
    .step = boot_program_step,
};
