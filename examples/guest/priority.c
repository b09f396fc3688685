/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of acceptance, priority and EOI on one CPU, all by self-IPIs.
 *
 * Everything here is exact: a self-IPI sets its IRR bit before the write of
 * the ICR retires, and an interrupt is taken in the next window or never.
 */
#include "apic.h"

static struct cpu *me;

static void
expect_order(const char *what, const uint8_t *want, uint32_t n)
{
    expect(what, me->nr_order, n);
    for (uint32_t i = 0; i < n; i++) {
        expect(what, me->order[i], want[i]);
    }
}

static void
test_tpr_classes(void)
{
    me = this_cpu();
    apic_write(REG_TPR, 0x50);
    apic_self(0x5f);
    irq_window();
    expect("its own class is blocked", me->count[0x5f], 0);
    expect("and pends", apic_bit(REG_IRR, 0x5f), 1);
    apic_self(0x60);
    irq_window();
    expect("the next class passes", me->count[0x60], 1);
    apic_write(REG_TPR, 0x4f); /* the sub-class takes no part */
    irq_window();
    expect("passes below", me->count[0x5f], 1);
}

static void
test_tpr_ff(void)
{
    me = this_cpu();
    apic_write(REG_TPR, 0xff);
    apic_self(0xff);
    apic_self(0xf0);
    irq_window();
    expect("TPR FFh blocks all", me->nr_order, 0);
    apic_write(REG_TPR, 0xf0);
    irq_window();
    expect("class 15 blocks class 15", me->nr_order, 0);
    apic_write(REG_TPR, 0xe0);
    irq_window();
    expect_order("then both", (const uint8_t[]){ 0xff, 0xf0 }, 2);
}

static void
hook_ppr(struct cpu *cpu, uint8_t vector)
{
    (void)cpu;
    expect("IRR cleared", apic_bit(REG_IRR, vector), 0);
    expect("ISR set", apic_bit(REG_ISR, vector), 1);
    expect("PPR is the ISR class", apic_read(REG_PPR), 0x60);
    apic_write(REG_TPR, 0x35);
    expect("TPR below", apic_read(REG_PPR), 0x60);
    apic_write(REG_TPR, 0x65);
    /* Equal classes: the sub-class is T's, or 0 [SDM3 10.8.3.1]. */
    if (personality == PERSONALITY_AMD) {
        expect("TPR equal", apic_read(REG_PPR), 0x65);
    } else {
        expect("TPR equal", apic_read(REG_PPR) & 0xf0, 0x60);
    }
    apic_write(REG_TPR, 0x75);
    expect("TPR above", apic_read(REG_PPR), 0x75);
    apic_write(REG_TPR, 0);
    apic_eoi();
    expect("ISR empty", apic_bit(REG_ISR, vector), 0);
    expect("PPR after EOI", apic_read(REG_PPR), 0);
}

static void
test_ppr(void)
{
    me = this_cpu();
    me->hook = hook_ppr;
    apic_self(0x6b);
    irq_window();
    expect("delivered", me->count[0x6b], 1);
}

static void
test_highest_first(void)
{
    me = this_cpu();
    apic_self(0x41);
    apic_self(0x91);
    apic_self(0x32);
    apic_self(0xf1);
    apic_self(0x95);
    expect("IRR holds all",
           apic_bit(REG_IRR, 0x41) && apic_bit(REG_IRR, 0x91) &&
               apic_bit(REG_IRR, 0x32) && apic_bit(REG_IRR, 0xf1) &&
               apic_bit(REG_IRR, 0x95),
           1);
    irq_window();
    irq_window();
    expect_order("order", (const uint8_t[]){ 0xf1, 0x95, 0x91, 0x41, 0x32 }, 5);
    expect("IRR empty", apic_any(REG_IRR), 0);
}

/*
 * Nesting: 41h lets in 55h, which lets in A1h. Down the stack wait 4Fh (same
 * class as 41h) and 31h (below all), and each comes when its class is free.
 */
static void
hook_nest(struct cpu *cpu, uint8_t vector)
{
    uint32_t before = cpu->nr_order;

    switch (vector) {
    case 0x41:
        apic_self(0x31);
        apic_self(0x4f);
        irq_window();
        expect("same class and lower wait", cpu->nr_order, before);
        apic_self(0x55);
        irq_window();
        expect("IRR kept", apic_bit(REG_IRR, 0x4f) && apic_bit(REG_IRR, 0x31),
               1);
        break;
    case 0x55:
        apic_self(0xa1);
        irq_window();
        expect("back in 55h", apic_read(REG_PPR), 0x50);
        break;
    case 0xa1:
        expect("three in service",
               apic_bit(REG_ISR, 0x41) && apic_bit(REG_ISR, 0x55) &&
                   apic_bit(REG_ISR, 0xa1),
               1);
        break;
    default:
        break;
    }
    apic_eoi();
    expect("EOI retired the highest", apic_bit(REG_ISR, vector), 0);
    if (vector == 0xa1) {
        expect("and no other",
               apic_bit(REG_ISR, 0x41) && apic_bit(REG_ISR, 0x55), 1);
        expect("PPR", apic_read(REG_PPR), 0x50);
    }
}

static void
test_nesting(void)
{
    me = this_cpu();
    me->hook = hook_nest;
    apic_self(0x41);
    irq_window();
    irq_window();
    expect_order("order", (const uint8_t[]){ 0x41, 0x55, 0xa1, 0x4f, 0x31 }, 5);
    expect("ISR empty", apic_any(REG_ISR), 0);
}

/* A handler that ends its vectors by two EOIs at the end, inner ones first. */
static void
hook_late_eoi(struct cpu *cpu, uint8_t vector)
{
    (void)cpu;
    if (vector == 0x41) {
        apic_self(0x61);
        irq_window();
        expect("both in service",
               apic_bit(REG_ISR, 0x41) && apic_bit(REG_ISR, 0x61), 1);
        apic_self(0x51);
        irq_window();
        expect("51h waits for 61h", me->count[0x51], 0);
        apic_eoi();
        expect("61h first", apic_bit(REG_ISR, 0x41), 1);
        expect("61h gone", apic_bit(REG_ISR, 0x61), 0);
        irq_window();
        expect("now 51h", me->count[0x51], 1);
        apic_eoi();
        apic_eoi();
    }
}

static void
test_eoi_order(void)
{
    me = this_cpu();
    me->hook = hook_late_eoi;
    apic_self(0x41);
    irq_window();
    expect_order("order", (const uint8_t[]){ 0x41, 0x61, 0x51 }, 3);
    expect("ISR empty", apic_any(REG_ISR), 0);
}

static void
test_eoi_empty(void)
{
    me = this_cpu();
    apic_write(REG_TPR, 0x20);
    apic_self(0x51);
    apic_eoi();
    apic_eoi();
    expect("IRR kept", apic_bit(REG_IRR, 0x51), 1);
    expect("PPR kept", apic_read(REG_PPR), 0x20);
    irq_window();
    expect("delivered once", me->count[0x51], 1);
    expect("ISR empty", apic_any(REG_ISR), 0);
}

static void
test_merge(void)
{
    me = this_cpu();
    for (uint32_t i = 0; i < 3; i++) {
        apic_self(0x51);
    }
    irq_window();
    irq_window();
    expect("three became one", me->count[0x51], 1);
}

static void
hook_again(struct cpu *cpu, uint8_t vector)
{
    if (cpu->count[vector] == 1) {
        apic_self(vector);
        apic_self(vector);
        expect("in IRR and ISR", apic_bit(REG_IRR, vector), 1);
        irq_window();
        expect("not into its own class", cpu->count[vector], 1);
    }
    apic_eoi();
}

static void
test_merge_in_service(void)
{
    me = this_cpu();
    me->hook = hook_again;
    apic_self(0x51);
    irq_window();
    irq_window();
    expect("one in service and one pending", me->count[0x51], 2);
}

/* Every vector an APIC takes; those with an error code as exceptions not. */
static void
test_all_vectors(void)
{
    me = this_cpu();
    for (uint32_t v = 16; v < 256; v++) {
        if (v == 17 || v == 21 || v == 29 || v == 30 || v == VECTOR_WORK ||
            v == VECTOR_SPURIOUS) {
            continue;
        }
        apic_self((uint8_t)v);
        irq_window();
        expect_between("delivered: vector", me->count[v] == 1 ? 0 : v, 0, 0);
    }
    expect("ISR empty", apic_any(REG_ISR), 0);
}

/* Places in IRR: words 0, 1, 7 and their edges [APM2 16.6.3]. */
static void
test_irr_places(void)
{
    static const uint8_t vectors[] = { 0x10, 0x1f, 0x20, 0x3f, 0x80, 0xff };

    me = this_cpu();
    apic_write(REG_TPR, 0xff);
    for (uint32_t i = 0; i < sizeof(vectors); i++) {
        apic_self(vectors[i]);
    }
    expect("word 0", apic_read(REG_IRR), 1u << 16 | 1u << 31);
    expect("word 1", apic_read(REG_IRR + 0x10), 1u << 0 | 1u << 31);
    expect("word 2", apic_read(REG_IRR + 0x20), 0);
    expect("word 4", apic_read(REG_IRR + 0x40), 1);
    expect("word 7", apic_read(REG_IRR + 0x70), 1u << 31);
    expect("TMR", apic_any(REG_TMR), 0);
    apic_write(REG_TPR, 0);
    irq_window();
    irq_window();
    expect_order("order",
                 (const uint8_t[]){ 0xff, 0x80, 0x3f, 0x20, 0x1f, 0x10 }, 6);
}

/*
 * The TPR rises while a vector pends. A real APIC may then answer with the
 * spurious vector, which sets no ISR bit [SDM3 10.9]; the vector itself must
 * not come, and nothing may need an EOI.
 */
static void
test_tpr_raised(void)
{
    me = this_cpu();
    apic_self(0x51);
    apic_write(REG_TPR, 0x60);
    irq_window();
    expect("blocked", me->count[0x51], 0);
    expect("pends", apic_bit(REG_IRR, 0x51), 1);
    expect("ISR empty", apic_any(REG_ISR), 0);
    apic_write(REG_TPR, 0);
    irq_window();
    expect("delivered", me->count[0x51], 1);
}

static void
halt_on_pending(void *arg)
{
    (void)arg;
    for (uint32_t i = 1; i <= 20; i++) {
        apic_self(0x51);
        irq_halt();
        expect("woken", this_cpu()->count[0x51], i);
    }
}

/* On another CPU if there is one, so that this one can see it hang. */
static void
test_halt_pending(void)
{
    (void)run_on(cpu_at(nr_cpus > 1), halt_on_pending, NULL);
}

static void
test_cr8(void)
{
    me = this_cpu();
    apic_write(REG_TPR, 0x37);
    expect("CR8 is TPR[7:4]", cr8_read(), 3);
    expect("reading changes nothing", apic_read(REG_TPR), 0x37);
    cr8_write(5);
    expect("CR8 clears TPR[3:0]", apic_read(REG_TPR), 0x50);
    expect("PPR follows", apic_read(REG_PPR), 0x50);
    apic_self(0x5f);
    irq_window();
    expect("CR8 blocks", me->count[0x5f], 0);
    cr8_write(4);
    irq_window();
    expect("CR8 admits", me->count[0x5f], 1);
    apic_write(REG_TPR, 0xf0);
    expect("TPR shows in CR8", cr8_read(), 15);
    apic_write(REG_TPR, 0);
    expect("both ways", cr8_read(), 0);
}

const struct test priority_tests[] = {
    { "priority: TPR blocks by class", test_tpr_classes, 1, 0 },
    { "priority: TPR FFh blocks all", test_tpr_ff, 1, 0 },
    { "priority: PPR of TPR and ISR", test_ppr, 1, 0 },
    { "priority: highest first", test_highest_first, 1, 0 },
    { "priority: handlers nest by class", test_nesting, 1, 0 },
    { "priority: raised TPR holds a vector", test_tpr_raised, 1, 0 },
    { "priority: CR8 and TPR are one", test_cr8, 1, 0 },
    { "EOI: only the highest in service", test_eoi_order, 1, 0 },
    { "EOI: with empty ISR is nothing", test_eoi_empty, 1, 0 },
    { "IRR: same vector merges", test_merge, 1, 0 },
    { "IRR: one more pends in service", test_merge_in_service, 1, 0 },
    { "IRR: places of vectors", test_irr_places, 1, 0 },
    { "IRR: every vector from 16 to 255", test_all_vectors, 1, 0 },
    { "HLT: wakes for what pends already", test_halt_pending, 1, 0 },
    { NULL, NULL, 0, 0 },
};
