/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every guest program with its books closed, with and without AVIC, in both
 * APIC modes and with three personalities, on the virtual clock and on threads;
 * repeatability; many vCPUs on few pCPUs.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/mock/guest.h>

#include "support.h"

#define MS 1000000u

/* ---- one row per program, mode, timer and clock ------------------------- */

struct row {
    const char *name;
    const char *program;
    enum avicemu_apic_mode mode;
    enum avicemu_personality personality;
    enum avicemu_mock_timer timer;
    enum avicemu_mock_ipi ipi;
    enum avicemu_mock_destination destination;
    uint32_t nr_vcpus, nr_pcpus;
    enum avicemu_mock_clock clock;
    enum avicemu_mock_avic avic;
    uint32_t ipiv_off, toggle;
};

#define XAPIC     AVICEMU_APIC_XAPIC
#define X2APIC    AVICEMU_APIC_X2APIC
#define AMD       AVICEMU_PERSONALITY_AMD
#define INTEL     AVICEMU_PERSONALITY_INTEL
#define KVM       AVICEMU_PERSONALITY_KVM
#define OFF       AVICEMU_MOCK_TIMER_OFF
#define ONESHOT   AVICEMU_MOCK_TIMER_ONESHOT
#define PERIODIC  AVICEMU_MOCK_TIMER_PERIODIC
#define DEADLINE  AVICEMU_MOCK_TIMER_DEADLINE
#define STRICT    AVICEMU_MOCK_IPI_STRICT
#define FLOOD     AVICEMU_MOCK_IPI_FLOOD
#define PHYSICAL  AVICEMU_MOCK_DESTINATION_PHYSICAL
#define LOGICAL   AVICEMU_MOCK_DESTINATION_LOGICAL
#define BROADCAST AVICEMU_MOCK_DESTINATION_BROADCAST
#define MIXED     AVICEMU_MOCK_DESTINATION_MIXED
#define NONE      AVICEMU_MOCK_AVIC_OFF
#define AVIC      AVICEMU_MOCK_AVIC
#define X2AVIC    AVICEMU_MOCK_X2AVIC
#define VIRTUAL   AVICEMU_MOCK_CLOCK_VIRTUAL
#define WALL      AVICEMU_MOCK_CLOCK_WALL

/* clang-format off */
static const struct row rows[] = {
    { "virtual: one-shot ticks, xAPIC",       "ticks", XAPIC,  AMD,   ONESHOT,  STRICT, MIXED,  2, 1, VIRTUAL, NONE, 0, 0 },
    { "virtual: periodic ticks, x2APIC",      "ticks", X2APIC, INTEL, PERIODIC, STRICT, MIXED,  3, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: deadline ticks, x2APIC",      "ticks", X2APIC, KVM,   DEADLINE, STRICT, MIXED,  3, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: deadline ticks, xAPIC",       "ticks", XAPIC,  INTEL, DEADLINE, STRICT, MIXED,  1, 1, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, physical",       "ipi",   XAPIC,  AMD,   OFF,      STRICT, PHYSICAL, 4, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, flat logical",   "ipi",   XAPIC,  INTEL, OFF,      STRICT, LOGICAL,  8, 4, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, xAPIC cluster",  "ipi",   XAPIC,  AMD,   OFF,      STRICT, LOGICAL, 18, 4, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, x2APIC cluster", "ipi",   X2APIC, AMD,   PERIODIC, STRICT, LOGICAL, 18, 4, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, broadcast",      "ipi",   X2APIC, KVM,   ONESHOT,  STRICT, BROADCAST, 5, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: strict IPIs, 64 CPUs",        "ipi",   X2APIC, AMD,   OFF,      STRICT, MIXED,   64, 8, VIRTUAL, NONE, 0, 0 },
    { "virtual: IPI flood merges",            "ipi",   XAPIC,  KVM,   PERIODIC, FLOOD,  MIXED,   4, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: disks, xAPIC",                "nvme",  XAPIC,  AMD,   PERIODIC, STRICT, MIXED,   2, 1, VIRTUAL, NONE, 0, 0 },
    { "virtual: disks, x2APIC",               "nvme",  X2APIC, INTEL, DEADLINE, STRICT, MIXED,   4, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: boot, xAPIC",                 "boot",  XAPIC,  AMD,   OFF,      STRICT, MIXED,   4, 2, VIRTUAL, NONE, 0, 0 },
    { "virtual: boot, x2APIC",                "boot",  X2APIC, KVM,   PERIODIC, STRICT, MIXED,   4, 1, VIRTUAL, NONE, 0, 0 },
    { "threads: one-shot ticks",              "ticks", XAPIC,  AMD,   ONESHOT,  STRICT, MIXED,   2, 2, WALL, NONE, 0, 0 },
    { "threads: periodic ticks",              "ticks", X2APIC, INTEL, PERIODIC, STRICT, MIXED,   2, 2, WALL, NONE, 0, 0 },
    { "threads: deadline ticks",              "ticks", X2APIC, AMD,   DEADLINE, STRICT, MIXED,   2, 2, WALL, NONE, 0, 0 },
    { "threads: strict IPIs",                 "ipi",   X2APIC, AMD,   PERIODIC, STRICT, MIXED,   4, 2, WALL, NONE, 0, 0 },
    { "threads: strict IPIs, 1:4",            "ipi",   XAPIC,  KVM,   ONESHOT,  STRICT, MIXED,   8, 2, WALL, NONE, 0, 0 },
    { "threads: IPI flood, 1:4",              "ipi",   X2APIC, AMD,   OFF,      FLOOD,  MIXED,   8, 2, WALL, NONE, 0, 0 },
    { "threads: disks, 1:4",                  "nvme",  X2APIC, AMD,   PERIODIC, STRICT, MIXED,   8, 2, WALL, NONE, 0, 0 },
    { "threads: disks, xAPIC",                "nvme",  XAPIC,  INTEL, OFF,      STRICT, MIXED,   2, 2, WALL, NONE, 0, 0 },
    { "threads: boot",                        "boot",  XAPIC,  AMD,   PERIODIC, STRICT, MIXED,   4, 2, WALL, NONE, 0, 0 },
    { "AVIC: periodic ticks",                 "ticks", XAPIC,  AMD,   PERIODIC, STRICT, MIXED,   3, 2, VIRTUAL, AVIC,   0, 0 },
    { "AVIC: deadline ticks, toggled",        "ticks", X2APIC, INTEL, DEADLINE, STRICT, MIXED,   3, 2, VIRTUAL, X2AVIC, 0, 20000 },
    { "AVIC: strict IPIs, flat",              "ipi",   XAPIC,  AMD,   ONESHOT,  STRICT, MIXED,   8, 4, VIRTUAL, AVIC,   0, 0 },
    { "AVIC: strict IPIs, xAPIC cluster",     "ipi",   XAPIC,  KVM,   OFF,      STRICT, MIXED,  18, 4, VIRTUAL, AVIC,   0, 0 },
    { "AVIC: strict IPIs, x2APIC cluster",    "ipi",   X2APIC, AMD,   PERIODIC, STRICT, LOGICAL, 18, 4, VIRTUAL, X2AVIC, 0, 0 },
    { "AVIC: strict IPIs, hybrid",            "ipi",   X2APIC, AMD,   PERIODIC, STRICT, MIXED,   6, 3, VIRTUAL, AVIC,   0, 0 },
    { "AVIC: strict IPIs, ipiv off",          "ipi",   X2APIC, AMD,   OFF,      STRICT, MIXED,   6, 3, VIRTUAL, X2AVIC, 1, 0 },
    { "AVIC: strict IPIs, toggled",           "ipi",   X2APIC, AMD,   PERIODIC, STRICT, MIXED,   6, 3, VIRTUAL, X2AVIC, 0, 50000 },
    { "AVIC: strict IPIs, xAPIC, toggled",    "ipi",   XAPIC,  AMD,   ONESHOT,  STRICT, MIXED,   6, 3, VIRTUAL, X2AVIC, 0, 50000 },
    { "AVIC: IPI flood, toggled",             "ipi",   X2APIC, AMD,   OFF,      FLOOD,  MIXED,   4, 2, VIRTUAL, X2AVIC, 0, 5000 },
    { "AVIC: disks",                          "nvme",  X2APIC, AMD,   DEADLINE, STRICT, MIXED,   4, 2, VIRTUAL, X2AVIC, 0, 0 },
    { "AVIC: disks, xAPIC, toggled",          "nvme",  XAPIC,  AMD,   PERIODIC, STRICT, MIXED,   4, 2, VIRTUAL, AVIC,   0, 20000 },
    { "AVIC: boot, xAPIC",                    "boot",  XAPIC,  AMD,   OFF,      STRICT, MIXED,   4, 2, VIRTUAL, AVIC,   0, 0 },
    { "AVIC: boot, x2APIC, toggled",          "boot",  X2APIC, KVM,   PERIODIC, STRICT, MIXED,   4, 1, VIRTUAL, X2AVIC, 0, 20000 },
    { "AVIC, threads: ticks, toggled",        "ticks", X2APIC, AMD,   PERIODIC, STRICT, MIXED,   2, 2, WALL, X2AVIC, 0, 2000 },
    { "AVIC, threads: disks, 1:4, toggled",   "nvme",  X2APIC, AMD,   PERIODIC, STRICT, MIXED,   8, 2, WALL, X2AVIC, 0, 2000 },
    { "AVIC, threads: disks, xAPIC",          "nvme",  XAPIC,  AMD,   OFF,      STRICT, MIXED,   2, 2, WALL, AVIC,   0, 0 },
    { "AVIC, threads: boot, toggled",         "boot",  XAPIC,  AMD,   PERIODIC, STRICT, MIXED,   4, 2, WALL, AVIC,   0, 2000 },
};
/* clang-format on */

#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t
row_operations(const struct row *row)
{
    if (strcmp(row->program, "ticks") == 0) {
        return 100;
    }
    if (strcmp(row->program, "boot") == 0) {
        return 30;
    }
    return row->ipi == FLOOD ? 20000 : 2000;
}

static struct avicemu_mock_scenario *
row_scenario(const struct row *row)
{
    struct avicemu_mock_scenario *s =
        support_scenario(row->program, row->nr_vcpus, row->mode);

    s->clock = row->clock;
    s->nr_pcpus = row->nr_pcpus;
    /* Threads run for a number of operations, not for a time: how much they do
     * in a time is the machine's. */
    s->duration_ns = row->clock == WALL ? 100000ull * MS : 20u * MS;
    s->vms[0].operations = row->clock == WALL ? row_operations(row) : 0;
    s->watchdog_ns = 60000ull * MS; /* a busy machine is no failure */
    s->vms[0].personality = row->personality;
    s->vms[0].timer = row->timer;
    s->vms[0].ipi = row->ipi;
    s->vms[0].destination = row->destination;
    s->vms[0].nmi_every = 7;
    s->avic = row->avic;
    s->vms[0].avic = row->avic != AVICEMU_MOCK_AVIC_OFF;
    s->vms[0].ipiv = row->ipiv_off == 0;
    s->vms[0].toggle = row->toggle;
    if (strcmp(row->program, "nvme") == 0) {
        support_disk(s)->depth = 8;
        support_disk(s)->service_ns = 0;
    }
    return s;
}

static void
paths_fit(const struct row *row, const struct avicemu_mock_vm_report *vm)
{
    static const struct avicemu_mock_paths none;
    int hybrid = row->mode == X2APIC && row->avic == AVIC;

    assert_int_equal(vm->avic, row->avic != AVICEMU_MOCK_AVIC_OFF);
    if (vm->avic == 0) {
        assert_memory_equal(&vm->paths, &none, sizeof(none));
        return;
    }
    if (row->clock == WALL && row->toggle != 0) {
        return; /* how long it was off is the machine's affair */
    }
    assert_true(hybrid || vm->paths.accelerated > 0);
    assert_true(vm->paths.flips > 0);
    if (row->clock == VIRTUAL && row->toggle != 0) {
        assert_true(vm->paths.toggles > 50);
        assert_true(vm->paths.flips > 2 * row->nr_vcpus);
    }
    if (row->clock == VIRTUAL && strcmp(row->program, "ipi") == 0) {
        assert_true(vm->paths.in_guest > 0);
        assert_true(hybrid || vm->paths.incomplete > 0);
        assert_int_equal(vm->paths.doorbells > 0, !hybrid && !row->ipiv_off);
    }
}

static void
program_closes_its_books(void **state)
{
    const struct row *row = *state;
    struct avicemu_mock_scenario *s = row_scenario(row);
    struct avicemu_mock_report *report = support_run_closed(s);
    const struct avicemu_mock_vm_report *vm = &report->vms[0];

    assert_true(vm->operations > 0);
    paths_fit(row, vm);
    assert_int_equal(vm->pending, 0); /* drained */
    /* The boot counts as many INITs as SIPIs, one each per AP. */
    assert_int_equal(vm->inits, vm->sipis);
    assert_true(vm->sipis >= row->nr_vcpus - 1);
    if (strcmp(row->program, "ipi") == 0) {
        assert_true(vm->ipis > 0);
        assert_true(vm->nmis > 0 || row->clock == WALL);
    }
    if (row->timer != OFF) {
        assert_true(vm->ticks > 0);
    }
    if (strcmp(row->program, "nvme") == 0) {
        assert_true(vm->msis > 0);
        assert_int_equal(vm->submitted, vm->completed);
        assert_int_equal(vm->operations, vm->completed);
    }
    avicemu_mock_report_free(report);
    free(s);
}

/* ---- the virtual clock --------------------------------------------------- */

static struct avicemu_mock_scenario *
everything(uint64_t seed)
{
    struct avicemu_mock_scenario *s = support_scenario("nvme", 4, X2APIC);
    const char *const programs[] = { "ipi", "ipi", "boot", "ticks" };

    s->seed = seed;
    for (unsigned i = 0; i < 4; i++) {
        struct avicemu_mock_vm_config *vm = &s->vms[s->nr_vms++];

        *vm = s->vms[0];
        (void)snprintf(vm->name, sizeof(vm->name), "more%u", i);
        (void)snprintf(vm->program_name, sizeof(vm->program_name), "%s",
                       programs[i]);
        vm->mode = i % 2 == 0 ? XAPIC : X2APIC;
        vm->ipi = i == 1 ? FLOOD : STRICT;
        vm->timer = PERIODIC;
    }
    (void)support_disk(s);
    return s;
}

/* With and without AVIC, toggled or not, on one host. */
static struct avicemu_mock_scenario *
everything_avic(uint64_t seed)
{
    struct avicemu_mock_scenario *s = everything(seed);

    s->avic = X2AVIC;
    for (uint32_t i = 0; i < s->nr_vms; i++) {
        s->vms[i].avic = i != 1;
        s->vms[i].ipiv = i != 2;
        s->vms[i].toggle = i == 1 ? 0 : i * 5000;
    }
    return s;
}

static void
run_twice(struct avicemu_mock_scenario *s)
{
    struct avicemu_mock_report *first = support_run_closed(s);
    struct avicemu_mock_report *second = support_run_closed(s);

    assert_true(first->trace_events > 10000);
    assert_true(first->trace_events == second->trace_events);
    assert_true(first->trace_hash == second->trace_hash);
    assert_true(first->elapsed_ns == second->elapsed_ns);
    assert_memory_equal(first->vms, second->vms,
                        first->nr_vms * sizeof(*first->vms));
    avicemu_mock_report_free(first);
    avicemu_mock_report_free(second);
    free(s);
}

static void
same_seed_same_run(void **state)
{
    (void)state;
    run_twice(everything(42));
}

static void
same_seed_same_run_with_avic(void **state)
{
    (void)state;
    run_twice(everything_avic(42));
}

static void
other_seed_other_run(void **state)
{
    struct avicemu_mock_scenario *s = everything(42);
    struct avicemu_mock_report *first = support_run_closed(s);
    struct avicemu_mock_report *second;

    (void)state;
    s->seed = 43;
    second = support_run_closed(s);
    assert_true(first->trace_hash != second->trace_hash);
    avicemu_mock_report_free(first);
    avicemu_mock_report_free(second);
    free(s);
}

static void
operations_end_a_run_early(void **state)
{
    struct avicemu_mock_scenario *s = support_scenario("ipi", 4, X2APIC);
    struct avicemu_mock_report *report;

    (void)state;
    s->duration_ns = 3600000ull * MS;
    s->vms[0].operations = 500;
    report = support_run_closed(s);
    assert_true(report->vms[0].operations >= 500);
    assert_true(report->vms[0].operations < 600);
    assert_true(report->elapsed_ns < 1000ull * MS);
    avicemu_mock_report_free(report);
    free(s);
}

/* ---- a program of the caller's own: nested priorities -------------------- */

struct nest {
    uint32_t deepest;
    uint32_t log[8];
    uint32_t nr_log;
};

static enum avicemu_mock_next
nest_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct nest *nest = state;
    uint32_t vector = avicemu_mock_vector(cpu);

    (void)budget;
    if (avicemu_mock_nesting(cpu) > nest->deepest) {
        nest->deepest = avicemu_mock_nesting(cpu);
    }
    /* First step: let a higher and a lower one come, both from here. */
    if (nest->nr_log == 0) {
        nest->log[nest->nr_log++] = vector;
        avicemu_mock_icr(cpu, 0, 0x4000u | (1u << 18) | 0x45u, 1);
        avicemu_mock_icr(cpu, 0, 0x4000u | (1u << 18) | 0x91u, 1);
        avicemu_mock_sti(cpu);
        return AVICEMU_MOCK_NEXT_STEP;
    }
    if (vector == 0x50 && nest->nr_log < 2) {
        return AVICEMU_MOCK_NEXT_STEP; /* until the higher one has been */
    }
    if (vector != 0x50) {
        nest->log[nest->nr_log++] = vector;
    }
    avicemu_mock_eoi(cpu);
    avicemu_mock_did(cpu, 1);
    return AVICEMU_MOCK_NEXT_IRET;
}

static void *
nest_create(struct avicemu_mock_vm *vm)
{
    (void)vm;
    return calloc(1, sizeof(struct nest));
}

static void
nest_start(struct avicemu_mock_cpu *cpu, void *state)
{
    avicemu_mock_idt(cpu, 0x45, nest_handler, state);
    avicemu_mock_idt(cpu, 0x50, nest_handler, state);
    avicemu_mock_idt(cpu, 0x91, nest_handler, state);
}

static enum avicemu_mock_next
nest_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct nest *nest = state;

    (void)budget;
    if (nest->nr_log == 0) {
        avicemu_mock_icr(cpu, 0, 0x4000u | (1u << 18) | 0x50u, 1);
    }
    return AVICEMU_MOCK_NEXT_HALT;
}

static unsigned
nest_check(struct avicemu_mock_vm *vm, void *state, char *buf, size_t len)
{
    const struct nest *nest = state;

    (void)vm;
    /* 50h is taken, 91h nests into it, 45h waits for its EOI. */
    if (nest->nr_log == 3 && nest->log[0] == 0x50 && nest->log[1] == 0x91 &&
        nest->log[2] == 0x45 && nest->deepest == 2) {
        return 0;
    }
    (void)snprintf(buf, len, "%u logged: %x %x %x, %u deep", nest->nr_log,
                   nest->log[0], nest->log[1], nest->log[2], nest->deepest);
    return 1;
}

static void
higher_classes_nest_and_lower_ones_wait(void **state)
{
    static const struct avicemu_mock_program program = {
        "nest", nest_create, free, nest_start, nest_step, nest_check
    };
    struct avicemu_mock_scenario *s = support_scenario("ticks", 1, X2APIC);
    struct avicemu_mock_report *report;

    (void)state;
    s->vms[0].program = &program;
    report = support_run_closed(s);
    assert_int_equal(report->vms[0].delivered, 3);
    avicemu_mock_report_free(report);
    free(s);
}

/* ---- CR8 keeps vectors back until it drops ------------------------------- */

struct held {
    uint32_t steps, early, taken;
};

static enum avicemu_mock_next
held_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct held *held = state;

    (void)budget;
    held->early += held->steps < 10;
    held->taken++;
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

static void *
held_create(struct avicemu_mock_vm *vm)
{
    (void)vm;
    return calloc(1, sizeof(struct held));
}

static void
held_start(struct avicemu_mock_cpu *cpu, void *state)
{
    avicemu_mock_idt(cpu, 0x60, held_handler, state);
}

static enum avicemu_mock_next
held_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct held *held = state;

    (void)budget;
    switch (held->steps++) {
    case 0:
        avicemu_mock_cr8_write(cpu, 9);
        avicemu_mock_icr(cpu, 0, 0x4000u | (1u << 18) | 0x60u, 1);
        break;
    case 9: /* no exit, but for the threshold */
        avicemu_mock_cr8_write(cpu, 2);
        break;
    case 12:
        return AVICEMU_MOCK_NEXT_HALT;
    default:
        break;
    }
    return held->steps > 12 ? AVICEMU_MOCK_NEXT_HALT : AVICEMU_MOCK_NEXT_STEP;
}

static unsigned
held_check(struct avicemu_mock_vm *vm, void *state, char *buf, size_t len)
{
    const struct held *held = state;

    (void)vm;
    (void)snprintf(buf, len, "%u taken, %u early", held->taken, held->early);
    return held->taken != 1 || held->early != 0;
}

static void
cr8_keeps_a_vector_back_until_it_drops(void **state)
{
    static const struct avicemu_mock_program program = {
        "held", held_create, free, held_start, held_step, held_check
    };
    struct avicemu_mock_scenario *s = support_scenario("ticks", 1, XAPIC);

    (void)state;
    s->vms[0].program = &program;
    avicemu_mock_report_free(support_run_closed(s));
    free(s);
}

int
main(void)
{
    struct CMUnitTest tests[NR_ROWS + 6] = {
        { "same seed, same run, bit for bit", same_seed_same_run, NULL, NULL,
          NULL },
        { "same seed, same run, with AVIC toggled",
          same_seed_same_run_with_avic, NULL, NULL, NULL },
        { "another seed is another run", other_seed_other_run, NULL, NULL,
          NULL },
        { "a number of operations ends a run early", operations_end_a_run_early,
          NULL, NULL, NULL },
        { "higher classes nest and lower ones wait",
          higher_classes_nest_and_lower_ones_wait, NULL, NULL, NULL },
        { "CR8 keeps a vector back until it drops",
          cr8_keeps_a_vector_back_until_it_drops, NULL, NULL, NULL },
    };

    for (size_t i = 0; i < NR_ROWS; i++) {
        tests[6 + i] =
            (struct CMUnitTest){ rows[i].name, program_closes_its_books, NULL,
                                 NULL, (void *)(uintptr_t)&rows[i] };
    }
    return cmocka_run_group_tests_name("mock programs", tests, NULL, NULL);
}
