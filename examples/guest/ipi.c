/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of IPIs between CPUs: who receives, by destination mode and shorthand.
 *
 * A test sends one vector and then asks every CPU how often it came. The
 * answer is awaited where it must be 1 and, after settle(), read where it
 * must be 0.
 */
#include "apic.h"

#define VECTOR_IPI 0x71

/* Bit i of `receivers`: CPU i gets the vector exactly once, others never. */
static void
expect_receivers(const char *what, uint32_t receivers)
{
    irq_window();
    for (uint32_t i = 1; i < nr_cpus; i++) {
        if ((receivers >> i & 1u) != 0) {
            (void)wait_for(&cpu_at(i)->count[VECTOR_IPI], 1);
        }
    }
    settle();
    for (uint32_t i = 0; i < nr_cpus; i++) {
        struct cpu *cpu = cpu_at(i);

        expect(what, (uint64_t)i << 32 | cpu->count[VECTOR_IPI],
               (uint64_t)i << 32 | (receivers >> i & 1u));
        cpu->count[VECTOR_IPI] = 0;
        cpu->nr_order = 0;
    }
}

static uint32_t
everybody(void)
{
    return (1u << nr_cpus) - 1;
}

static void
test_physical(void)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        apic_send(ICR_FIXED | VECTOR_IPI, cpu_at(i)->apic_id);
        expect_receivers("CPU << 32 | times", 1u << i);
    }
}

static void
test_broadcast(void)
{
    apic_send(ICR_FIXED | VECTOR_IPI, apic_broadcast());
    expect_receivers("physical: CPU << 32 | times", everybody());
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, apic_broadcast());
    expect_receivers("logical: CPU << 32 | times", everybody());
}

/* FFh is one APIC's id in x2APIC mode, not everybody [SDM3 10.12.9]. */
static void
test_ff_is_an_id(void)
{
    apic_send(ICR_FIXED | VECTOR_IPI, 0xff);
    expect_receivers("CPU << 32 | times", 0);
}

static void
test_shorthands(void)
{
    apic_send(ICR_SELF | ICR_FIXED | VECTOR_IPI, cpu_at(nr_cpus - 1)->apic_id);
    expect_receivers("self: CPU << 32 | times", 1);
    apic_send(ICR_ALL | ICR_FIXED | VECTOR_IPI, 0);
    expect_receivers("all: CPU << 32 | times", everybody());
    apic_send(ICR_OTHERS | ICR_FIXED | VECTOR_IPI, 0);
    expect_receivers("others: CPU << 32 | times", everybody() & ~1u);
    /* A shorthand makes the destination mode meaningless. */
    apic_send(ICR_OTHERS | ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0);
    expect_receivers("others, logical: CPU << 32 | times", everybody() & ~1u);
}

static void
send_to_others(void *arg)
{
    (void)arg;
    apic_send(ICR_OTHERS | ICR_FIXED | VECTOR_IPI, 0);
}

static void
test_from_ap(void)
{
    (void)run_on(cpu_at(1), send_to_others, NULL);
    expect_receivers("CPU << 32 | times", everybody() & ~2u);
}

static void
test_self_ipi_msr(void)
{
    struct cpu *cpu = this_cpu();

    (void)try_wrmsr(MSR_SELF_IPI, VECTOR_IPI);
    expect("IRR at once", apic_bit(REG_IRR, VECTOR_IPI), 1);
    irq_window();
    expect("delivered", cpu->count[VECTOR_IPI], 1);
    cpu->count[VECTOR_IPI] = 0;
    expect_receivers("nobody else: CPU << 32 | times", 0);
}

static void
test_logical_flat(void)
{
    uint32_t all = everybody() & 0xff;

    for (uint32_t set = 1; set <= all; set <<= 1) {
        apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, set);
        expect_receivers("one: CPU << 32 | times", set);
    }
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, all & 0x55);
    expect_receivers("even ones: CPU << 32 | times", all & 0x55);
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, all & 0xfe);
    expect_receivers("all but one: CPU << 32 | times", all & 0xfe);
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0);
    expect_receivers("none: CPU << 32 | times", 0);
}

/* Two CPUs to a cluster: CPU i is member i & 1 of cluster i >> 1. */
static void
be_clustered(void *arg)
{
    uint32_t i = this_cpu()->index;

    (void)arg;
    apic_write(REG_DFR, 0);
    apic_write(REG_LDR, ((i >> 1) << 4 | 1u << (i & 1)) << 24);
}

static void
be_flat(void *arg)
{
    (void)arg;
    apic_enable();
}

static void
on_all(work_fn fn)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        (void)run_on(cpu_at(i), fn, NULL);
    }
}

static void
test_logical_cluster(void)
{
    on_all(be_clustered);
    for (uint32_t i = 0; i < nr_cpus; i++) {
        apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI,
                  (i >> 1) << 4 | 1u << (i & 1));
        expect_receivers("member: CPU << 32 | times", 1u << i);
    }
    for (uint32_t cluster = 0; cluster <= (nr_cpus - 1) >> 1; cluster++) {
        apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, cluster << 4 | 0x0f);
        expect_receivers("cluster: CPU << 32 | times",
                         everybody() & 3u << (2 * cluster));
    }
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0x0c);
    expect_receivers("absent members: CPU << 32 | times", 0);
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0xe0 | 0x03);
    expect_receivers("absent cluster: CPU << 32 | times", 0);
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0xff);
    expect_receivers("FFh: CPU << 32 | times", everybody());
    on_all(be_flat);
}

/* In x2APIC mode: cluster = id[19:4], member = id[3:0] [APM2 16.14]. */
static void
test_logical_x2apic(void)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        uint32_t cluster = cpu_at(i)->apic_id >> 4, receivers = 0;

        apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI,
                  cluster << 16 | 1u << (cpu_at(i)->apic_id & 15));
        expect_receivers("member: CPU << 32 | times", 1u << i);
        for (uint32_t j = 0; j < nr_cpus; j++) {
            receivers |= (uint32_t)(cpu_at(j)->apic_id >> 4 == cluster) << j;
        }
        apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, cluster << 16 | 0xffff);
        expect_receivers("cluster: CPU << 32 | times", receivers);
    }
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0x7ff0000 | 0xffff);
    expect_receivers("absent cluster: CPU << 32 | times", 0);
    apic_send(ICR_FIXED | ICR_LOGICAL | VECTOR_IPI, 0);
    expect_receivers("zero: CPU << 32 | times", 0);
}

static void
test_absent(void)
{
    (void)apic_esr(); /* set-up wrote LVTs with vector 0: Intel notes that */
    apic_send(ICR_FIXED | VECTOR_IPI, apic_absent_id());
    apic_send(ICR_NMI, apic_absent_id());
    apic_send(ICR_INIT | ICR_ASSERT, apic_absent_id());
    apic_send(ICR_SIPI | ICR_ASSERT | 0x08, apic_absent_id());
    /* AMD may report that no APIC accepted it [APM2 16.4.6]; no other bit. */
    expect("ESR", apic_esr() & ~ESR_SEND_ACCEPT, 0);
    expect_receivers("CPU << 32 | times", 0);
}

/*
 * Which one is the model's business; that it is no more than one is not. AMD
 * has lowest priority in logical flat mode only [APM2 16.6.2].
 */
static void
test_lowest(void)
{
    bool may_drop = mode == MODE_X2APIC && personality == PERSONALITY_AMD;
    uint32_t dest = everybody() & 0xff;

    if (mode == MODE_X2APIC) {
        dest = 0;
        for (uint32_t i = 0; i < nr_cpus; i++) {
            if (cpu_at(i)->apic_id >> 4 == 0) {
                dest |= 1u << cpu_at(i)->apic_id;
            }
        }
    }
    for (uint32_t round = 1; round <= 4; round++) {
        uint32_t sum = 0;

        apic_send(ICR_LOWEST | ICR_LOGICAL | (VECTOR_IPI + round), dest);
        settle();
        for (uint32_t i = 0; i < nr_cpus; i++) {
            sum += cpu_at(i)->count[VECTOR_IPI + round];
        }
        expect_between("receivers", sum, may_drop ? 0 : 1, 1);
    }
}

static void
hook_tmr(struct cpu *cpu, uint8_t vector)
{
    (void)cpu;
    if (personality != PERSONALITY_INTEL) {
        expect("TMR", apic_bit(REG_TMR, vector), vector == 0x72);
    }
    apic_eoi();
}

/* Level-triggered IPIs: AMD and KVM keep the bit, Intel sends an edge. */
static void
test_level(void)
{
    struct cpu *cpu = this_cpu();

    cpu->hook = hook_tmr;
    apic_send(ICR_FIXED | ICR_LEVEL | ICR_ASSERT | 0x72, cpu->apic_id);
    irq_window();
    expect("delivered", cpu->count[0x72], 1);
    apic_send(ICR_FIXED | 0x73, cpu->apic_id);
    irq_window();
    expect("edge", cpu->count[0x73], 1);
    cpu->hook = NULL;
    apic_send(ICR_FIXED | 0x72, cpu->apic_id);
    expect("an edge clears TMR", apic_bit(REG_TMR, 0x72), 0);
    irq_window();
    expect("delivered again", cpu->count[0x72], 2);
}

static void
test_merge_remote(void)
{
    struct cpu *to = cpu_at(1);

    for (uint32_t i = 1; i <= 20; i++) {
        apic_send(ICR_FIXED | VECTOR_IPI, to->apic_id);
        expect("one by one", wait_for(&to->count[VECTOR_IPI], i), 1);
        settle(); /* the handler has counted; now it has sent its EOI, too */
    }
    expect("none more", to->count[VECTOR_IPI], 20);
}

/*
 * A CPU exits, and spins without any exit as soon as it is back. The IPI is
 * sent at ever later moments after that, so also while its VMM is on the way
 * in: a kick that only interrupts a running guest is lost there.
 */
#define NR_ENTRIES 300u

static void
exit_and_spin(void *arg)
{
    volatile uint32_t *round = arg;
    struct cpu *cpu = this_cpu();

    irq_on();
    for (uint32_t i = 1; i <= NR_ENTRIES; i++) {
        *round = i;
        outb(0x80, 0);
        if (!wait_for(&cpu->count[VECTOR_IPI], i)) {
            break;
        }
    }
    irq_off();
}

static void
test_on_the_way_in(void)
{
    static volatile uint32_t round;
    struct cpu *cpu = cpu_at(1);

    round = 0;
    (void)start_on(cpu, exit_and_spin, (void *)&round);
    for (uint32_t i = 1; i <= NR_ENTRIES; i++) {
        if (!wait_for(&round, i)) {
            break;
        }
        delay_tsc(ms_to_tsc(1) / 1024 * (i % 100)); /* 0 to 100 us */
        apic_send(ICR_FIXED | VECTOR_IPI, cpu->apic_id);
    }
    (void)join(cpu);
    expect("arrived", cpu->count[VECTOR_IPI], NR_ENTRIES);
}

/* ------------------------------------------------------------------ *
 * All to all: each CPU asks each other one and sleeps until it answers.
 *
 *   ask     vector 80h + asker      handler answers
 *   answer  vector A0h + answerer   ends the asker's HLT
 *
 * Nothing merges, because there is one question under way at most; so the
 * counts are exact, and a single lost wake-up stops the run.
 * ------------------------------------------------------------------ */

#define VECTOR_ASK    0x80
#define VECTOR_ANSWER 0xa0
#define NR_ROUNDS     25u

static void
hook_answer(struct cpu *cpu, uint8_t vector)
{
    apic_eoi();
    if (vector >= VECTOR_ASK && vector < VECTOR_ASK + nr_cpus) {
        apic_send(ICR_FIXED | (VECTOR_ANSWER + cpu->index),
                  cpu_at(vector - VECTOR_ASK)->apic_id);
    }
}

static void
ask_all(void *arg)
{
    struct cpu *cpu = this_cpu();
    /* The boot CPU watches the clock; a hung AP it sees by join(). */
    bool may_halt = cpu->index != 0;

    (void)arg;
    for (uint32_t round = 1; round <= NR_ROUNDS; round++) {
        for (uint32_t i = 0; i < nr_cpus; i++) {
            const volatile uint32_t *answers = &cpu->count[VECTOR_ANSWER + i];

            if (i == cpu->index) {
                continue;
            }
            apic_send(ICR_FIXED | (VECTOR_ASK + cpu->index),
                      cpu_at(i)->apic_id);
            if (!may_halt) {
                irq_on();
                (void)wait_for(answers, round);
                irq_off();
            }
            while (may_halt && *answers < round) {
                irq_halt();
            }
        }
    }
}

static void
test_all_to_all(void)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        cpu_at(i)->hook = hook_answer;
    }
    for (uint32_t i = nr_cpus; i-- > 0;) { /* the boot CPU last */
        (void)start_on(cpu_at(i), ask_all, NULL);
    }
    irq_on(); /* others may still ask us */
    for (uint32_t i = 1; i < nr_cpus; i++) {
        (void)join(cpu_at(i));
    }
    irq_off();
    settle();
    for (uint32_t i = 0; i < nr_cpus; i++) {
        for (uint32_t j = 0; j < nr_cpus; j++) {
            uint32_t want = i == j ? 0 : NR_ROUNDS;

            expect("asked", cpu_at(i)->count[VECTOR_ASK + j], want);
            expect("answered", cpu_at(i)->count[VECTOR_ANSWER + j], want);
        }
    }
}

const struct test ipi_tests[] = {
    { "IPI: physical, to each CPU", test_physical, 1, 0 },
    { "IPI: broadcast, both modes", test_broadcast, 1, 0 },
    { "IPI: FFh is an id", test_ff_is_an_id, 1, ONLY_X2APIC },
    { "IPI: shorthands", test_shorthands, 1, 0 },
    { "IPI: from an AP", test_from_ap, 2, 0 },
    { "IPI: SELF IPI register", test_self_ipi_msr, 1, ONLY_X2APIC },
    { "IPI: logical flat", test_logical_flat, 1, ONLY_XAPIC },
    { "IPI: logical cluster", test_logical_cluster, 1, ONLY_XAPIC },
    { "IPI: logical x2APIC cluster", test_logical_x2apic, 1, ONLY_X2APIC },
    { "IPI: absent id", test_absent, 1, 0 },
    { "IPI: lowest priority goes to one", test_lowest, 1, 0 },
    { "IPI: level, and TMR", test_level, 1, 0 },
    { "IPI: ends HLT every time", test_merge_remote, 2, 0 },
    { "IPI: reaches a CPU on its way in", test_on_the_way_in, 2, 0 },
    { "IPI: all to all", test_all_to_all, 2, 0 },
    { NULL, NULL, 0, 0 },
};
