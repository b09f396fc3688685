/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of the error status register and of the software-disabled APIC.
 *
 * ESR has two copies: errors collect in a hidden one, and a write of the
 * register moves them to the visible one [APM2 16.4.6], [SDM3 10.5.3]. KVM
 * records none, and sends what it should refuse; its tests only ask that.
 */
#include "apic.h"

#define VECTOR_ERROR   0xe1
#define ILLEGAL_VECTOR 0x05

static void
test_send_illegal(void)
{
    uint32_t esr;

    (void)apic_esr();
    (void)apic_esr();
    apic_send(ICR_FIXED | ILLEGAL_VECTOR, apic_absent_id());
    expect("hidden until a write", apic_read(REG_ESR), 0);
    esr = apic_esr();
    expect("send illegal vector", esr & ~ESR_SEND_ACCEPT, ESR_SEND_ILLEGAL);
    expect("reading keeps it", apic_read(REG_ESR), esr);
    expect("a second write clears it", apic_esr(), 0);
    apic_self(ILLEGAL_VECTOR);
    expect("to itself", apic_esr() & ESR_SEND_ILLEGAL, ESR_SEND_ILLEGAL);
    expect("nothing pends", apic_any(REG_IRR), 0);
}

static void
test_self_ipi_illegal(void)
{
    (void)apic_esr();
    expect("no fault", try_wrmsr(MSR_SELF_IPI, 0x0f), 1);
    expect_between("an illegal vector",
                   apic_esr() & (ESR_SEND_ILLEGAL | ESR_RECEIVE_ILLEGAL), 1,
                   0xff);
    expect("nothing pends", apic_any(REG_IRR), 0);
    expect("16 is legal", try_wrmsr(MSR_SELF_IPI, 16), 1);
    expect("no error", apic_esr(), 0);
    irq_window();
    expect("delivered", this_cpu()->count[16], 1);
}

/* The timer's own message has a vector below 16. */
static void
test_receive_illegal(void)
{
    uint32_t esr = 0;

    (void)apic_esr();
    apic_write(REG_TDCR, 0x0b);
    apic_write(REG_LVT_TIMER, 0x0f);
    apic_write(REG_TMICT, 1);
    /* However late the timer is: Intel's APIC has said so at the LVT write. */
    for (uint32_t i = 0; i < 50 && (esr & ESR_RECEIVE_ILLEGAL) == 0; i++) {
        delay_tsc(ms_to_tsc(2));
        esr |= apic_esr();
    }
    expect("receive illegal vector", esr, ESR_RECEIVE_ILLEGAL);
    expect("nothing pends", apic_any(REG_IRR), 0);
    apic_write(REG_LVT_TIMER, LVT_MASKED);
}

static void
test_illegal_register(void)
{
    (void)apic_esr();
    (void)apic_read(0x040);
    expect("read", apic_esr(), ESR_ILLEGAL_REGISTER);
    apic_write(0x050, 1);
    expect("write", apic_esr(), ESR_ILLEGAL_REGISTER);
    (void)apic_read(REG_VERSION);
    expect("a legal one", apic_esr(), 0);
}

static void
test_error_interrupt(void)
{
    struct cpu *cpu = this_cpu();

    (void)apic_esr();
    apic_write(REG_LVT_ERROR, VECTOR_ERROR);
    apic_send(ICR_FIXED | ILLEGAL_VECTOR, apic_absent_id());
    irq_window();
    expect("raised", cpu->count[VECTOR_ERROR], 1);
    expect("cause", apic_esr() & ESR_SEND_ILLEGAL, ESR_SEND_ILLEGAL);
    apic_send(ICR_FIXED | ILLEGAL_VECTOR, apic_absent_id());
    irq_window();
    expect("armed again by the write", cpu->count[VECTOR_ERROR], 2);
    apic_write(REG_LVT_ERROR, LVT_MASKED | VECTOR_ERROR);
    (void)apic_esr();
    apic_send(ICR_FIXED | ILLEGAL_VECTOR, apic_absent_id());
    irq_window();
    expect("masked: no interrupt", cpu->count[VECTOR_ERROR], 2);
    expect("masked: logged", apic_esr() & ESR_SEND_ILLEGAL, ESR_SEND_ILLEGAL);
}

static void
test_no_errors_under_kvm(void)
{
    if (mode == MODE_XAPIC) {
        (void)apic_read(0x040);
    }
    apic_send(ICR_FIXED | ILLEGAL_VECTOR, apic_absent_id());
    expect("ESR", apic_esr(), 0);
}

/* ------------------------------------------------------------------ *
 * Software disable, SVR[8] = 0 [APM2 16.3.1], [SDM3 10.4.7.2]
 * ------------------------------------------------------------------ */

static void
test_disable_masks(void)
{
    apic_write(REG_LVT_THERMAL, 0x61);
    apic_write(REG_LVT_ERROR, 0x62);
    apic_write(REG_SVR, VECTOR_SPURIOUS);
    expect("mask set", apic_read(REG_LVT_THERMAL), LVT_MASKED | 0x61);
    expect("mask set", apic_read(REG_LVT_ERROR), LVT_MASKED | 0x62);
    apic_write(REG_LVT_THERMAL, 0x63);
    expect("mask cannot be cleared", apic_read(REG_LVT_THERMAL),
           LVT_MASKED | 0x63);
    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    expect("and stays", apic_read(REG_LVT_THERMAL), LVT_MASKED | 0x63);
    apic_write(REG_LVT_THERMAL, 0x63);
    expect("until written", apic_read(REG_LVT_THERMAL), 0x63);
    apic_write(REG_LVT_THERMAL, LVT_MASKED);
    apic_write(REG_LVT_ERROR, LVT_MASKED);
}

static void
test_disable_refuses(void)
{
    struct cpu *cpu = this_cpu();

    apic_self(0x61);
    apic_write(REG_SVR, VECTOR_SPURIOUS);
    expect("IRR kept", apic_bit(REG_IRR, 0x61), 1);
    apic_self(0x62);
    expect("fixed refused", apic_bit(REG_IRR, 0x62), 0);
    apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
    expect("NMI accepted", wait_for(&cpu->count[VECTOR_NMI], 1), 1);
    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    irq_window();
    expect("kept vector", cpu->count[0x61], 1);
    expect("refused vector", cpu->count[0x62], 0);
}

static void
hook_disable(struct cpu *cpu, uint8_t vector)
{
    (void)cpu;
    apic_write(REG_SVR, VECTOR_SPURIOUS);
    expect("ISR kept", apic_bit(REG_ISR, vector), 1);
    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    expect("ISR kept", apic_bit(REG_ISR, vector), 1);
    apic_eoi();
    expect("retired", apic_bit(REG_ISR, vector), 0);
}

static void
test_disable_keeps_isr(void)
{
    this_cpu()->hook = hook_disable;
    apic_self(0x61);
    irq_window();
    expect("delivered", this_cpu()->count[0x61], 1);
}

static void
disable_and_wait(void *arg)
{
    volatile uint32_t *step = arg;

    apic_write(REG_SVR, VECTOR_SPURIOUS);
    *step = 1;
    (void)wait_for(step, 2);
    expect("refused from outside", apic_bit(REG_IRR, 0x62), 0);
    apic_send(ICR_FIXED | 0x63, cpu_at(0)->apic_id);
    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
}

static void
test_disable_remote(void)
{
    static volatile uint32_t step;
    struct cpu *cpu = cpu_at(1);

    step = 0;
    (void)start_on(cpu, disable_and_wait, (void *)&step);
    (void)wait_for(&step, 1);
    apic_send(ICR_FIXED | 0x62, cpu->apic_id);
    apic_send(ICR_NMI | ICR_ASSERT, cpu->apic_id);
    expect("NMI accepted", wait_for(&cpu->count[VECTOR_NMI], 1), 1);
    step = 2;
    (void)join(cpu);
    settle();
    expect("refused", cpu->count[0x62], 0);
    expect("it could send", cpu_at(0)->count[0x63], 1);
}

static void
test_disable_timer(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_TDCR, 0x0b);
    apic_write(REG_LVT_TIMER, LVT_PERIODIC | 0x61);
    apic_write(REG_TMICT, 0xf0000000);
    apic_write(REG_SVR, VECTOR_SPURIOUS);
    expect("timer masked", apic_read(REG_LVT_TIMER) & LVT_MASKED, LVT_MASKED);
    expect_between("and counts on", apic_read(REG_TMCCT), 1, 0xf0000000);
    apic_write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
    apic_write(REG_TMICT, 0);
    irq_window();
    expect("no interrupt", cpu->count[0x61], 0);
}

const struct test error_tests[] = {
    { "ESR: illegal vector sent", test_send_illegal, 1, NOT_KVM },
    { "ESR: illegal SELF IPI vector", test_self_ipi_illegal, 1,
      NOT_KVM | ONLY_X2APIC },
    { "ESR: illegal vector received", test_receive_illegal, 1, NOT_KVM },
    { "ESR: illegal register", test_illegal_register, 1, NOT_KVM | ONLY_XAPIC },
    { "ESR: LVT error interrupt", test_error_interrupt, 1, NOT_KVM },
    { "ESR: KVM reports none", test_no_errors_under_kvm, 1,
      NOT_AMD | NOT_INTEL },
    { NULL, NULL, 0, 0 },
};

const struct test disable_tests[] = {
    { "disable: LVT masks are forced", test_disable_masks, 1, 0 },
    { "disable: fixed refused, NMI taken", test_disable_refuses, 1, 0 },
    { "disable: ISR kept", test_disable_keeps_isr, 1, 0 },
    { "disable: seen from outside", test_disable_remote, 2, 0 },
    { "disable: timer counts, is silent", test_disable_timer, 1, 0 },
    { NULL, NULL, 0, 0 },
};
