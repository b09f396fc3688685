/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random programs for the law; see law.h. A program is a list of blocks, each
 * of which leaves IF = 1 and TPR = 0 behind and waits for what it has begun, so
 * that any of them can be cut away, and nobody waits for one who waits for him.
 *
 * Left out is what the architecture itself makes different: the table in
 * prop_law.c.
 */

#include <stdio.h>
#include <string.h>

#include <avicemu/avic.h>

#include "law.h"

#define REG_VERSION  0x030u
#define REG_TPR      0x080u
#define REG_PPR      0x0a0u
#define REG_EOI      0x0b0u
#define REG_LDR      0x0d0u
#define REG_DFR      0x0e0u
#define REG_SVR      0x0f0u
#define REG_ISR      0x100u
#define REG_IRR      0x200u
#define REG_ESR      0x280u
#define REG_ICR_HIGH 0x310u
#define REG_THERMAL  0x330u
#define REG_PERF     0x340u
#define REG_LINT0    0x350u
#define REG_LINT1    0x360u
#define REG_ERROR    0x370u
#define REG_TMICT    0x380u
#define REG_TMCCT    0x390u
#define REG_TDCR     0x3e0u

#define SVR_ENABLE 0x100u
#define MASKED     0x10000u
#define PERIODIC   (1u << 17)
#define DEADLINE   (2u << 17)
#define FIXED      0x4000u
#define LOWEST     0x0100u
#define NMI        0x0400u
#define LOGICAL    0x0800u
#define SELF       (1u << 18)
#define ALL        (2u << 18)
#define OTHERS     (3u << 18)

#define FEATURES (AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE)

struct generator {
    struct law_program *p;
    uint64_t random;
    unsigned i; /* the vCPU */
    uint8_t block;
};

static uint32_t
below(struct generator *g, uint32_t n)
{
    return law_below(&g->random, n);
}

static void
emit(struct generator *g, enum law_kind kind, uint32_t a, uint32_t b,
     uint32_t c)
{
    struct law_program *p = g->p;

    p->ops[g->i][p->nr_ops[g->i]++] =
        (struct law_op){ (uint8_t)kind, g->block, a, b, c };
}

/* ---- sending ------------------------------------------------------------ */

static uint32_t
request(struct generator *g)
{
    return LAW_REQUEST + 8 * below(g, LAW_NR_REQUEST) + g->i;
}

static uint32_t
logical_id(const struct law_program *p, unsigned i)
{
    return p->flat ? 1u << i : (i / 4) << 4 | 1u << (i % 4);
}

static uint32_t
logical_destination(struct generator *g)
{
    const struct law_program *p = g->p;

    if (p->x2apic) {
        return 1 + below(g, (1u << p->nr_vcpus) - 1); /* cluster 0 */
    }
    if (p->flat) {
        return 1 + below(g, 255);
    }
    return below(g, (p->nr_vcpus + 3) / 4) << 4 | (1 + below(g, 15));
}

static void
emit_send(struct generator *g, uint32_t low, uint32_t destination)
{
    emit(g, LAW_SEND, low, destination, below(g, 2));
}

/* Any message that needs no answer from a CPU that is switched off. */
static void
send_any(struct generator *g)
{
    uint32_t all = g->p->x2apic ? UINT32_MAX : 0xffu;

    switch (below(g, 12)) {
    case 0:
        emit_send(g, FIXED | SELF | request(g), 0);
        break;
    case 1:
        emit_send(g, FIXED | ALL | request(g), 0);
        break;
    case 2:
        emit_send(g, FIXED | OTHERS | request(g), 0);
        break;
    case 3:
    case 4:
    case 5:
        emit_send(g, FIXED | LOGICAL | request(g), logical_destination(g));
        break;
    case 6:
        emit_send(g, FIXED | LOWEST | LOGICAL | request(g),
                  logical_destination(g));
        break;
    case 7:
        emit_send(g, FIXED | request(g), below(g, 4) == 0 ? all : g->i);
        break;
    case 8:
        if (g->i == LAW_NMI_SENDER) {
            emit_send(g, FIXED | NMI | (below(g, 2) == 0 ? OTHERS : 0),
                      below(g, g->p->nr_vcpus));
            break;
        }
        /* fall through */
    default:
        emit_send(g, FIXED | request(g), below(g, g->p->nr_vcpus));
        break;
    }
}

static void
wait_for_answers(struct generator *g)
{
    const struct law_program *p = g->p;
    const struct law_op *last = &p->ops[g->i][p->nr_ops[g->i] - 1];
    bool answered = last->kind == LAW_SEND && last->c != 0;

    emit(g, LAW_WAIT, answered && below(g, 2) == 0, 0, 0);
}

/* ---- blocks ------------------------------------------------------------- */

static void
nops(struct generator *g, unsigned most)
{
    for (unsigned n = below(g, most + 1); n > 0; n--) {
        emit(g, LAW_NOP, 0, 0, 0);
    }
}

static void
read_any(struct generator *g)
{
    static const uint16_t regs[] = {
        0x020,
        0x030,
        0x080,
        0x090,
        0x0a0,
        0x0d0,
        0x0f0,
        0x280,
        0x300,
        0x320,
        0x330,
        0x340,
        0x350,
        0x360,
        0x370,
        0x380,
        0x390,
        0x3e0,
        /* xAPIC only */
        0x0c0,
        0x0e0,
        0x310,
    };
    unsigned nr = sizeof(regs) / sizeof(regs[0]) - (g->p->x2apic ? 3 : 0);
    uint32_t n = below(g, nr + 24);

    emit(g, LAW_READ, n < nr ? regs[n] : REG_ISR + 16 * (n - nr), 0, 0);
}

static void
block_send(struct generator *g)
{
    if (g->p->x2apic && below(g, 8) == 0) {
        emit(g, LAW_SELF, request(g), 0, 0);
        emit(g, LAW_WAIT, 0, 0, 0);
        return;
    }
    send_any(g);
    wait_for_answers(g);
}

/* Something comes while the priority holds it back. */
static void
block_priority(struct generator *g)
{
    for (unsigned n = 1 + below(g, 3); n > 0; n--) {
        uint32_t value = below(g, 16);

        if (below(g, 2) == 0) {
            emit(g, LAW_CR8, value, 0, 0);
        } else {
            emit(g, LAW_WRITE, REG_TPR, value << 4 | below(g, 16), 0);
        }
        emit(g, LAW_READ, below(g, 2) == 0 ? REG_PPR : REG_TPR, 0, 0);
        nops(g, 6);
    }
    send_any(g);
    read_any(g);
    emit(g, LAW_CR8_READ, 0, 0, 0);
    nops(g, 6);
    if (below(g, 2) == 0) {
        emit(g, LAW_CR8, 0, 0, 0);
    } else {
        emit(g, LAW_WRITE, REG_TPR, 0, 0);
    }
    emit(g, LAW_WAIT, 0, 0, 0);
}

static void
block_cli(struct generator *g)
{
    emit(g, LAW_CLI, 0, 0, 0);
    nops(g, 8);
    send_any(g);
    emit(g, LAW_READ, REG_IRR + 16 * below(g, 8), 0, 0);
    nops(g, 8);
    emit(g, LAW_STI, 0, 0, 0);
    emit(g, LAW_WAIT, 0, 0, 0);
}

static void
block_timer(struct generator *g)
{
    uint32_t vector = LAW_TICKS + g->i;
    uint32_t how = below(g, 3);
    uint32_t asleep = below(g, 2);

    if (below(g, 3) == 0) {
        static const uint8_t dividers[] = { 0, 1, 2, 8, 11 };

        emit(g, LAW_WRITE, REG_TDCR, dividers[below(g, 5)], 0);
    }
    if (how == 0) {
        emit(g, LAW_TIMER, DEADLINE | vector, 0, 0);
        emit(g, LAW_DEADLINE, 0, below(g, 5000), 0);
        emit(g, LAW_WAIT_TICK, asleep, 0, 0);
        return;
    }
    emit(g, LAW_TIMER, (how == 1 ? PERIODIC : 0) | vector, 0, 0);
    /* Longer than a handler takes on one of eight vCPUs. */
    emit(g, LAW_WRITE, REG_TMICT,
         how == 1 ? 8000 + below(g, 8000) : below(g, 4000) + 1, 0);
    emit(g, LAW_READ, REG_TMCCT, 0, 0);
    emit(g, LAW_WAIT_TICK, asleep, 0, 0);
    if (how == 1) {
        nops(g, 20);
        emit(g, LAW_READ, REG_TMCCT, 0, 0);
        emit(g, LAW_WRITE, REG_TMICT, 0, 0);
    }
}

static void
block_device(struct generator *g)
{
    uint32_t level = below(g, 2);

    emit(g, LAW_POST, (level != 0 ? LAW_LEVEL : LAW_EDGE) + g->i,
         below(g, g->p->nr_vcpus), level);
    emit(g, LAW_WAIT, 0, 0, 0);
}

static void
block_pin(struct generator *g)
{
    uint32_t level = below(g, 2) << 15;

    emit(g, LAW_WRITE, REG_LINT0, level | (LAW_LINT0 + g->i), 0);
    emit(g, LAW_PIN, 0, 0, 0);
    read_any(g);
    emit(g, LAW_WAIT, 0, 0, 0);
    nops(g, 8);
    emit(g, LAW_READ, REG_LINT0, 0, 0);
    emit(g, LAW_WRITE, REG_LINT0, MASKED | level | (LAW_LINT0 + g->i), 0);
}

static void
block_write(struct generator *g)
{
    static const uint16_t lvts[] = { REG_THERMAL, REG_PERF, REG_LINT0,
                                     REG_LINT1, REG_ERROR };

    switch (below(g, 7)) {
    case 0:
        emit(g, LAW_WRITE, REG_SVR, SVR_ENABLE | 0xf0u | below(g, 16), 0);
        break;
    case 1:
    case 2:
        emit(g, LAW_WRITE, lvts[below(g, 5)], MASKED | below(g, 256), 0);
        break;
    case 3:
        emit(g, LAW_WRITE, REG_ESR, 0, 0);
        emit(g, LAW_READ, REG_ESR, 0, 0);
        break;
    case 4:
        emit(g, LAW_WRITE, REG_EOI, 0, 0);
        break;
    case 5:
        emit(g, LAW_WRITE, REG_VERSION, 0, 0); /* read-only */
        break;
    default:
        if (!g->p->x2apic) {
            emit(g, LAW_WRITE, REG_ICR_HIGH, below(g, 256) << 24, 0);
        }
        break;
    }
    read_any(g);
}

/* Without a logical id for a while, or with that of another one. */
static void
block_logical(struct generator *g)
{
    const struct law_program *p = g->p;
    uint32_t own = logical_id(p, g->i) << 24;

    if (p->x2apic) {
        return;
    }
    switch (below(g, 5)) {
    case 0:
        emit(g, LAW_WRITE, REG_LDR, logical_id(p, below(g, p->nr_vcpus)) << 24,
             0);
        break;
    case 1:
        emit(g, LAW_WRITE, REG_LDR, own | logical_id(p, 0) << 24, 0);
        break;
    case 2:
        emit(g, LAW_WRITE, REG_DFR, p->flat ? 0x0fffffffu : UINT32_MAX, 0);
        break;
    case 3:
        emit(g, LAW_WRITE, REG_LDR, 0, 0);
        emit(g, LAW_WRITE, REG_DFR, p->flat ? 0x0fffffffu : UINT32_MAX, 0);
        break;
    default:
        emit(g, LAW_WRITE, REG_LDR, 0, 0);
        break;
    }
    nops(g, 4);
    if (below(g, 2) == 0) {
        emit_send(g, FIXED | LOGICAL | request(g), logical_destination(g));
    } else {
        send_any(g);
    }
    emit(g, LAW_WAIT, 0, 0, 0);
    emit(g, LAW_WRITE, REG_DFR, p->flat ? UINT32_MAX : 0x0fffffffu, 0);
    emit(g, LAW_WRITE, REG_LDR, own, 0);
}

/* ---- a program ---------------------------------------------------------- */

static void
block_any(struct generator *g)
{
    switch (below(g, 15)) {
    case 0:
    case 1:
        block_priority(g);
        break;
    case 2:
        block_cli(g);
        break;
    case 3:
    case 4:
        block_timer(g);
        break;
    case 5:
        block_device(g);
        break;
    case 6:
    case 7:
        block_write(g);
        break;
    case 8:
        read_any(g);
        nops(g, 12);
        break;
    case 9:
        block_logical(g);
        break;
    case 10:
        block_pin(g);
        break;
    default:
        block_send(g);
        break;
    }
}

static void
prologue(struct generator *g)
{
    const struct law_program *p = g->p;

    if (p->x2apic) {
        emit(g, LAW_MODE_X2, 0, 0, 0);
    } else {
        emit(g, LAW_WRITE, REG_DFR, p->flat ? UINT32_MAX : 0x0fffffffu, 0);
        emit(g, LAW_WRITE, REG_LDR, logical_id(p, g->i) << 24, 0);
    }
    emit(g, LAW_WRITE, REG_SVR, SVR_ENABLE | 0xffu, 0);
    emit(g, LAW_WRITE, REG_ERROR,
         (below(g, 2) == 0 ? MASKED : 0) | (LAW_ERROR + g->i), 0);
    if (g->i == 0) {
        emit(g, LAW_START, 0, 0, 0);
        emit(g, LAW_START, 1, 0, 0);
    }
    emit(g, LAW_ONLINE, 0, 0, 0);
    emit(g, LAW_ALL, 0, 0, 0);
    emit(g, LAW_STI, 0, 0, 0);
}

static uint32_t
silicon(struct generator *g, bool x2apic)
{
    uint32_t avic = AVICEMU_HOST_AVIC;

    if (x2apic ? below(g, 4) != 0 : below(g, 2) == 0) {
        avic |= AVICEMU_HOST_X2AVIC; /* without it: hybrid */
        avic |= below(g, 2) == 0 ? AVICEMU_HOST_X2AVIC_EXT : 0;
    }
    avic |= below(g, 4) == 0 ? AVICEMU_HOST_EXT_LVT : 0;
    avic |= below(g, 8) == 0 ? AVICEMU_HOST_ERRATUM_1235 : 0;
    return avic;
}

void
law_boot_program(unsigned nr_vcpus, bool x2apic, struct law_program *ret)
{
    struct generator g = { .p = ret, .random = 1 };

    memset(ret, 0, sizeof(*ret));
    ret->nr_vcpus = nr_vcpus;
    ret->x2apic = x2apic;
    ret->flat = true;
    ret->features = FEATURES | AVICEMU_LAPIC_EXT_SPACE;
    ret->avic = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC;
    for (g.i = 0; g.i < nr_vcpus; g.i++) {
        prologue(&g);
    }
}

void
law_generate(uint64_t seed, struct law_program *ret)
{
    struct generator g = { .p = ret, .random = seed };
    unsigned nr_blocks;

    memset(ret, 0, sizeof(*ret));
    ret->seed = seed;
    ret->nr_vcpus = 2 + below(&g, LAW_MAX_VCPUS - 1);
    ret->x2apic = below(&g, 2) == 0;
    ret->flat = below(&g, 2) == 0;
    ret->avic = silicon(&g, ret->x2apic);
    ret->kicks = below(&g, 4) == 0;
    ret->personality =
        (enum avicemu_personality)below(&g, AVICEMU_NR_PERSONALITY);
    ret->features = FEATURES;
    if (ret->personality == AVICEMU_PERSONALITY_AMD && below(&g, 2) == 0) {
        ret->features |= AVICEMU_LAPIC_EXT_SPACE;
    }
    nr_blocks = 2 + below(&g, 24);
    for (g.i = 0; g.i < ret->nr_vcpus; g.i++) {
        g.block = 0;
        prologue(&g);
        while (g.block < nr_blocks && ret->nr_ops[g.i] < LAW_MAX_OPS - 64) {
            g.block++;
            block_any(&g);
        }
    }
}

/* ---- for people --------------------------------------------------------- */

void
law_print(const struct law_program *p)
{
    static const char *const names[LAW_NR_KIND] = {
        "nop", "x2apic", "start", "online",   "all",       "write", "read",
        "cr8", "cr8?",   "cli",   "sti",      "send",      "self",  "post",
        "pin", "wait",   "timer", "deadline", "wait-tick",
    };

    printf("%u vCPUs, personality %u, features %xh, %s%s, silicon %xh, "
           "doorbells by %s\n",
           p->nr_vcpus, (unsigned)p->personality, p->features,
           p->x2apic ? "x2APIC" : "xAPIC",
           p->x2apic ? ""
           : p->flat ? " flat"
                     : " cluster",
           p->avic, p->kicks ? "kick" : "word");
    for (unsigned i = 0; i < p->nr_vcpus; i++) {
        printf("vCPU %u:", i);
        for (unsigned n = 0; n < p->nr_ops[i]; n++) {
            const struct law_op *op = &p->ops[i][n];

            if (!p->cut[i][op->block] && op->kind != LAW_NOP) {
                printf("  %u:%s(%x,%x,%x)", n, names[op->kind], op->a, op->b,
                       op->c);
            }
        }
        printf("\n");
    }
}
