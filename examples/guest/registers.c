/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of single registers: values after reset, bits that stick, bits that
 * are reserved, and accesses that the mode does not have.
 *
 * What is written to a reserved bit differs by mode: xAPIC drops it, x2APIC
 * faults [APM2 16.11.3]. And by personality: KVM drops most of them in x2APIC
 * mode as well.
 */
#include "apic.h"

static void
test_version(void)
{
    uint32_t version = apic_read(REG_VERSION);

    expect_between("version[7:0]", version & 0xff, 0x10, 0x1f);
    expect_between("LVT entries - 1", (version >> 16) & 0xff, 3, 6);
    expect("extended space [31]", version >> 31,
           personality == PERSONALITY_AMD);
}

static void
test_id(void)
{
    uint32_t a, b, c, d;

    cpuid(0, &a, &b, &c, &d);
    if (mode == MODE_XAPIC) {
        expect("id register", apic_read(REG_ID), apic_initial_id() << 24);
    } else {
        expect("id register", apic_read(REG_ID) & 0xff, apic_initial_id());
        if (a >= 0x0b) {
            cpuid(0x0b, &a, &b, &c, &d);
            expect("id is CPUID.0Bh:EDX", apic_read(REG_ID), d);
        }
    }
}

static void
test_tpr_bits(void)
{
    for (uint32_t tpr = 0; tpr < 0x100; tpr += 0x1f) {
        apic_write(REG_TPR, tpr);
        expect("TPR", apic_read(REG_TPR), tpr);
        expect("PPR with nothing in service", apic_read(REG_PPR), tpr);
    }
    if (mode == MODE_XAPIC) {
        apic_write(REG_TPR, 0xffffff35);
        expect("TPR[31:8] dropped", apic_read(REG_TPR), 0x35);
    }
}

static void
test_svr_bits(void)
{
    apic_write(REG_SVR, 0xffffffffu);
    /* SVR[12] needs Version[24], which a model may have [SDM3 10.8.5]. */
    expect("writable bits", apic_read(REG_SVR) & ~(1u << 12), 0x3ff);
    if (personality == PERSONALITY_AMD) {
        expect("SVR[12]", apic_read(REG_SVR) >> 12, 0);
    }
}

static void
test_ldr_dfr_bits(void)
{
    apic_write(REG_LDR, 0xa5ffffff);
    expect("LDR", apic_read(REG_LDR), 0xa5000000);
    apic_write(REG_DFR, 0);
    expect("DFR cluster", apic_read(REG_DFR), 0x0fffffff);
    apic_write(REG_DFR, 0xffffffff);
    expect("DFR flat", apic_read(REG_DFR), 0xffffffff);
}

static void
test_ldr_derived(void)
{
    uint32_t id = apic_read(REG_ID);

    expect("LDR", apic_read(REG_LDR),
           (id >> 4 & 0xffff) << 16 | 1u << (id & 15));
    expect("LDR write faults", try_wrmsr(msr_of(REG_LDR), 0), 0);
    expect("DFR absent", try_wrmsr(msr_of(REG_DFR), 0xffffffff), 0);
}

struct lvt_row {
    enum reg reg;
    uint32_t amd, intel, kvm; /* bits that stick when all are written */
};

/* [APM2 16.4, LVT figures], [SDM3 10.5.1]; DS (12), RIR (14) are read-only. */
static const struct lvt_row lvt_rows[] = {
    { REG_LVT_TIMER, 0x300ff, 0x300ff, 0x300ff },
    { REG_LVT_THERMAL, 0x107ff, 0x107ff, 0x107ff },
    { REG_LVT_PERF, 0x107ff, 0x107ff, 0x107ff },
    { REG_LVT_LINT0, 0x187ff, 0x1a7ff, 0x1a7ff },
    { REG_LVT_LINT1, 0x187ff, 0x1a7ff, 0x1a7ff },
    { REG_LVT_ERROR, 0x107ff, 0x100ff, 0x100ff },
};
#define NR_LVT_ROWS (sizeof(lvt_rows) / sizeof(lvt_rows[0]))

static uint32_t
lvt_writable(const struct lvt_row *row)
{
    switch (personality) {
    case PERSONALITY_INTEL:
        return row->intel;
    case PERSONALITY_KVM:
        return row->kvm;
    case PERSONALITY_AMD:
        break;
    }
    return row->amd;
}

static void
test_lvt_bits(void)
{
    uint32_t ignore = 1u << 18; /* with or without TSC-deadline mode */

    if (personality == PERSONALITY_KVM) {
        ignore |= 1u << 12 | 1u << 14; /* KVM stores these as plain data */
    }
    for (uint32_t i = 0; i < NR_LVT_ROWS; i++) {
        const struct lvt_row *row = &lvt_rows[i];

        apic_write(row->reg, 0xffffffffu);
        expect("writable bits", apic_read(row->reg) & ~ignore,
               lvt_writable(row));
        apic_write(row->reg, LVT_MASKED);
        expect("written back", apic_read(row->reg), LVT_MASKED);
    }
}

static void
test_timer_register_bits(void)
{
    apic_write(REG_TDCR, mode == MODE_XAPIC ? 0xffffffff : 0x0b);
    expect("TDCR", apic_read(REG_TDCR), 0x0b);
    apic_write(REG_LVT_TIMER, LVT_MASKED);
    apic_write(REG_TMICT, 0xfedcba98);
    expect("TMICT", apic_read(REG_TMICT), 0xfedcba98);
    if (mode == MODE_XAPIC) {
        apic_write(REG_TMCCT, 1);
    } else {
        expect("TMCCT write faults", try_wrmsr(msr_of(REG_TMCCT), 1), 0);
    }
    expect_between("TMCCT not written", apic_read(REG_TMCCT), 0xe0000000,
                   0xfedcba98);
    apic_write(REG_TMICT, 0);
    expect("TMCCT stopped", apic_read(REG_TMCCT), 0);
}

static void
test_icr_readback(void)
{
    uint32_t icr = ICR_FIXED | ICR_SELF | 0x51;
    uint64_t wide;

    apic_send(icr, 0x5a);
    expect("ICR low", apic_read(REG_ICR), icr);
    if (mode == MODE_XAPIC) {
        expect("ICR high", apic_read(REG_ICR_HIGH), 0x5a000000);
        apic_write(REG_ICR, icr | ICR_BUSY);
        expect("delivery status is read-only", apic_read(REG_ICR), icr);
    } else {
        (void)try_rdmsr(msr_of(REG_ICR), &wide);
        expect("ICR", wide, 0x5a00000000ull | icr);
        apic_write(REG_ICR, icr);
        expect("SELF IPI written", try_wrmsr(MSR_SELF_IPI, 0x52), 1);
        expect("SELF IPI leaves the ICR", apic_read(REG_ICR), icr);
    }
    irq_window();
    expect("sent", this_cpu()->count[0x51], 1);
}

static void
test_absent_in_xapic(void)
{
    static const uint32_t msrs[] = { 0x802, 0x808, 0x80b, 0x828,
                                     0x830, 0x83f, 0x8ff };
    uint64_t value;

    for (uint32_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        expect("x2APIC MSR read faults", try_rdmsr(msrs[i], &value), 0);
        expect("x2APIC MSR write faults", try_wrmsr(msrs[i], 0), 0);
    }
}

static void
test_absent_in_x2apic(void)
{
    static const uint32_t msrs[] = { 0x800, 0x801, 0x804, 0x80c, 0x80e,
                                     0x831, 0x83f, 0x854, 0x8ff };
    static const uint32_t read_only[] = { 0x802, 0x803, 0x80a, 0x80d,
                                          0x810, 0x81f, 0x820, 0x839 };
    uint64_t value;

    for (uint32_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        expect("absent register faults", try_rdmsr(msrs[i], &value), 0);
    }
    for (uint32_t i = 0; i < sizeof(read_only) / sizeof(read_only[0]); i++) {
        expect("read-only register", try_rdmsr(read_only[i], &value), 1);
        expect("write faults", try_wrmsr(read_only[i], 0), 0);
    }
    expect("EOI read faults", try_rdmsr(msr_of(REG_EOI), &value), 0);
    /* APR: AMD has it in x2APIC mode, Intel and KVM do not [APM2 16.11]. */
    expect("809h", try_rdmsr(msr_of(REG_APR), &value),
           personality == PERSONALITY_AMD);
    expect("840h", try_rdmsr(msr_of(REG_EAFR), &value),
           personality == PERSONALITY_AMD);
    expect("the page is not an APIC", *at(APIC_DEFAULT_BASE + REG_VERSION),
           0xffffffff);
}

struct reserved_row {
    enum reg reg;
    uint32_t base;            /* a harmless value to add the bit to */
    uint32_t amd, intel, kvm; /* reserved bits of 31:0; 63:32 always are */
};

/* [APM2 16.11.3], [SDM3 10.12.1.3] */
static const struct reserved_row reserved_rows[] = {
    { REG_TPR, 0, 0xffffff00, 0xffffff00, 0 },
    { REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS, 0xfffffc00, 0xffffec00, 0 },
    { REG_ESR, 0, 0xffffffff, 0xffffffff, 0xffffffff },
    { REG_EOI, 0, 0xffffffff, 0xffffffff, 0 },
    { REG_LVT_TIMER, LVT_MASKED, 0xfff8ef00, 0xfff8ef00, 0 },
    { REG_LVT_THERMAL, LVT_MASKED, 0xfffee800, 0xfffee800, 0 },
    { REG_LVT_PERF, LVT_MASKED, 0xfffee800, 0xfffee800, 0 },
    { REG_LVT_LINT0, LVT_MASKED, 0xfffe2800, 0xfffe0800, 0 },
    { REG_LVT_LINT1, LVT_MASKED, 0xfffe2800, 0xfffe0800, 0 },
    { REG_LVT_ERROR, LVT_MASKED, 0xfffee800, 0xfffeef00, 0 },
    { REG_TDCR, 0, 0xfffffff4, 0xfffffff4, 0 },
    { REG_TMICT, 0, 0, 0, 0 },
    { REG_ICR, ICR_SELF | 0x51, 0xfff33000, 0xfff32000, 0xfff32000 },
};

static void
test_reserved_bits(void)
{
    for (uint32_t i = 0; i < sizeof(reserved_rows) / sizeof(*reserved_rows);
         i++) {
        const struct reserved_row *row = &reserved_rows[i];
        uint32_t reserved = personality == PERSONALITY_AMD     ? row->amd
                            : personality == PERSONALITY_INTEL ? row->intel
                                                               : row->kvm;

        if (row->reg == REG_LVT_TIMER || row->reg == REG_LVT_ERROR ||
            row->reg == REG_LVT_THERMAL || row->reg == REG_LVT_PERF) {
            reserved &= ~(1u << 12); /* DS: read-only, dropped, no fault */
        }
        for (uint32_t bit = 0; bit < 32; bit++) {
            if ((reserved >> bit & 1u) != 0 &&
                try_wrmsr(msr_of(row->reg), row->base | 1u << bit)) {
                expect("reserved bit faults: register, bit",
                       (uint32_t)row->reg << 8 | bit, 0);
            }
        }
        if (row->reg != REG_ICR) { /* there it is the destination */
            expect("bit 32 faults",
                   try_wrmsr(msr_of(row->reg), 1ull << 32 | row->base), 0);
        }
        if (row->reg != REG_EOI && row->reg != REG_ICR) {
            expect("and nothing is written",
                   try_wrmsr(msr_of(row->reg), row->base), 1);
        }
    }
    expect("SELF IPI [63:8] faults", try_wrmsr(MSR_SELF_IPI, 0x151), 0);
    irq_window();
    expect("no IPI was sent", this_cpu()->count[0x51], 0);
}

/*
 * A guest may clear or copy the page with any instruction. What a byte access
 * does is left to the model [APM2 16.3.2]; that the guest goes on is not.
 */
static void
test_odd_accesses(void)
{
    volatile uint8_t *page = (volatile uint8_t *)at(APIC_DEFAULT_BASE);
    uint8_t sum = 0;

    sum = (uint8_t)(sum + page[REG_ID + 3]);
    sum = (uint8_t)(sum + *(volatile uint16_t *)(page + REG_VERSION));
    page[REG_LVT_THERMAL + 2] = 1;
    *(volatile uint16_t *)(page + REG_LVT_PERF + 4) = 0xffff;
    *(volatile uint32_t *)(page + REG_LDR + 6) = sum;
    (void)*(volatile uint32_t *)(page + 0xffc);
    (void)*(volatile uint64_t *)(page + REG_ID);
    *(volatile uint64_t *)(page + REG_LVT_PERF + 8) = 1;
    (void)apic_esr();
    expect("still there", apic_read(REG_ID), apic_initial_id() << 24);
}

static void
test_eacr(void)
{
    expect("EAFR", apic_read(REG_EAFR), 0x00040007);
    for (uint32_t value = 0; value < 8; value++) {
        apic_write(REG_EACR, value);
        expect("EACR", apic_read(REG_EACR), value);
    }
    apic_write(REG_EACR, 0);
}

/* IER gates the choice of what is delivered, not what is accepted. */
static void
test_ier(void)
{
    struct cpu *cpu = this_cpu();
    enum reg word = REG_IER + 0x10u * (0x51 >> 5);

    apic_write(REG_EACR, 1);
    expect("IER reset value", apic_read(word), 0xffffffff);
    apic_write(word, ~(1u << (0x51 & 31)));
    apic_self(0x51);
    expect("accepted", apic_bit(REG_IRR, 0x51), 1);
    irq_window();
    expect("held", cpu->count[0x51], 0);
    apic_write(word, 0xffffffff);
    irq_window();
    expect("delivered", cpu->count[0x51], 1);
    apic_write(REG_EACR, 0);
    apic_write(word, 0);
    expect("read-only while EACR[0]=0", apic_read(word), 0xffffffff);
}

static void
hook_specific_eoi(struct cpu *cpu, uint8_t vector)
{
    (void)cpu;
    if (vector == 0x41) {
        apic_self(0x81);
        irq_window();
        apic_write(REG_SEOI, 0x41);
        expect("0x41 retired", apic_bit(REG_ISR, 0x41), 0);
        expect("0x81 still in service", apic_bit(REG_ISR, 0x81), 1);
        apic_eoi();
        expect("ISR empty", apic_any(REG_ISR), 0);
    }
}

static void
test_seoi(void)
{
    struct cpu *cpu = this_cpu();

    apic_write(REG_EACR, 2);
    cpu->hook = hook_specific_eoi;
    apic_self(0x41);
    irq_window();
    expect("nested", cpu->count[0x81], 1);
    apic_write(REG_EACR, 0);
}

const struct test register_tests[] = {
    { "register: version", test_version, 1, 0 },
    { "register: id is the initial id", test_id, 1, 0 },
    { "register: TPR has eight bits", test_tpr_bits, 1, 0 },
    { "register: SVR bits", test_svr_bits, 1, ONLY_XAPIC },
    { "register: LDR and DFR bits", test_ldr_dfr_bits, 1, ONLY_XAPIC },
    { "register: LDR is derived", test_ldr_derived, 1, ONLY_X2APIC },
    { "register: LVT bits", test_lvt_bits, 1, ONLY_XAPIC },
    { "register: timer registers", test_timer_register_bits, 1, 0 },
    { "register: ICR read-back", test_icr_readback, 1, 0 },
    { "register: x2APIC MSRs fault", test_absent_in_xapic, 1, ONLY_XAPIC },
    { "register: absent and read-only MSRs", test_absent_in_x2apic, 1,
      ONLY_X2APIC },
    { "register: reserved bits fault", test_reserved_bits, 1, ONLY_X2APIC },
    { "register: odd accesses do no harm", test_odd_accesses, 1, ONLY_XAPIC },
    { "register: AMD extended control", test_eacr, 1, NOT_INTEL | NOT_KVM },
    { "register: AMD IER holds a vector", test_ier, 1, NOT_INTEL | NOT_KVM },
    { "register: AMD SEOI retires its vector", test_seoi, 1,
      NOT_INTEL | NOT_KVM },
    { NULL, NULL, 0, 0 },
};
