/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interrupts from every CPU to every other one.
 *
 * strict   In a round each CPU s sends vector REQUEST + s to all others, one
 *          message each or one broadcast, and halts. Target t answers with
 *          vector ACK + t to s. s begins the next round when all have
 *          answered. So at most one message per (target, vector) is under way,
 *          and none may merge: each must be delivered once.
 * flood    Each CPU sends one vector to random others without waiting for
 *          anybody. Many merge; the books must say how many.
 *
 * More than 64 CPUs have too few vectors for that: 64 of them, picked at
 * random, send, each to 64 random others or to all in a round, and the last of
 * those that has handled a request answers for all. Requests of a sender still
 * have a vector of their own, so none may merge.
 *
 * Destinations in turn: physical id, logical id, the shorthand "all but self".
 * Every nmi_every rounds the next CPU also gets an NMI.
 *
 * The handlers of strict mode switch interrupts on again before they are done,
 * so that handlers of higher classes nest into them.
 */

#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"
#include "random.h"

#define VECTOR_REQUEST   0x40u /* + slot of the sender, up to 7Fh */
#define VECTOR_ACK       0x80u /* + slot of who answers, up to BFh */
#define MAX_SENDERS      64u
#define NO_SLOT          UINT32_MAX
#define VECTOR_FLOOD     0x38u
#define ICR_FIXED        0x4000u
#define ICR_NMI          0x4400u
#define ICR_LOGICAL      0x0800u
#define ICR_ALL_BUT_SELF (3u << 18)

/* One per CPU, touched by that CPU only, but for open. */
struct peer {
    uint32_t slot; /* among the senders, or NO_SLOT */
    /* Strict: the targets of this round are those CPUs at first, first + stride
     * and so on behind this one. */
    uint32_t first, stride, nr_targets;
    uint32_t next;    /* the next one of them */
    uint32_t waiting; /* answers that this round still lacks */
    uint64_t rounds;
    uint64_t requests, answers; /* sent and received by this CPU */
    uint64_t got_requests, sent_answers;
    uint64_t nmis;
    _Atomic uint32_t open; /* many: targets that have not handled it yet */
};

struct ipi {
    struct avicemu_mock_vm *vm;
    bool many;                     /* CPUs than slots */
    uint32_t senders[MAX_SENDERS]; /* CPU of each slot */
    struct peer *peers;            /* of each CPU */
};

/* ---- sending ------------------------------------------------------------ */

static bool
use_logical(const struct avicemu_mock_cpu *cpu, uint64_t round)
{
    enum avicemu_mock_destination how = cpu->vm->config->destination;

    return how == AVICEMU_MOCK_DESTINATION_LOGICAL ||
           (how == AVICEMU_MOCK_DESTINATION_MIXED && round % 3 == 1);
}

static bool
use_broadcast(const struct avicemu_mock_cpu *cpu, uint64_t round)
{
    enum avicemu_mock_destination how = cpu->vm->config->destination;

    return how == AVICEMU_MOCK_DESTINATION_BROADCAST ||
           (how == AVICEMU_MOCK_DESTINATION_MIXED && round % 3 == 2);
}

/* As guest_boot.c has written, or the x2APIC derived, the logical ids. */
static uint32_t
logical_id(const struct avicemu_mock_vm *vm, uint32_t index)
{
    if (vm->config->mode == AVICEMU_APIC_X2APIC) {
        return ((index >> 4) << 16) | (1u << (index & 15u));
    }
    return vm->nr_cpus <= 8 ? 1u << index
                            : ((index / 4) << 4) | (1u << (index % 4));
}

static void
send_one(struct avicemu_mock_cpu *cpu, uint32_t target, uint32_t vector,
         uint64_t round)
{
    if (use_logical(cpu, round)) {
        avicemu_mock_icr(cpu, logical_id(cpu->vm, target),
                         ICR_FIXED | ICR_LOGICAL | vector, 1);
    } else {
        avicemu_mock_icr(cpu, target, ICR_FIXED | vector, 1);
    }
}

static void
nmi_maybe(struct avicemu_mock_cpu *cpu, struct peer *me)
{
    uint32_t every = cpu->vm->config->nmi_every;

    if (every != 0 && me->rounds % every == every - 1) {
        avicemu_mock_icr(cpu, (cpu->index + 1) % cpu->vm->nr_cpus, ICR_NMI, 1);
    }
}

/* ---- strict ------------------------------------------------------------- */

static enum avicemu_mock_next
request_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct ipi *ipi = state;
    struct peer *me = &ipi->peers[cpu->index];
    uint32_t slot = avicemu_mock_vector(cpu) - VECTOR_REQUEST;
    uint32_t sender = ipi->senders[slot];

    (void)budget;
    me->got_requests++;
    if (!ipi->many) {
        slot = cpu->index;
    } else if (atomic_fetch_sub(&ipi->peers[sender].open, 1) != 1) {
        avicemu_mock_eoi(cpu);
        return AVICEMU_MOCK_NEXT_IRET;
    }
    me->sent_answers++;
    send_one(cpu, sender, VECTOR_ACK + slot, me->got_requests);
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

/* Three steps: count; sti; and, behind its shadow, where handlers of a higher
 * class nest, EOI. */
static enum avicemu_mock_next
ack_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct ipi *ipi = state;
    struct peer *me = &ipi->peers[cpu->index];
    uint32_t answers = ipi->many ? me->nr_targets : 1;

    (void)budget;
    if (cpu->shadow != 0) {
        return AVICEMU_MOCK_NEXT_STEP;
    }
    if (cpu->if_flag) {
        avicemu_mock_eoi(cpu);
        return AVICEMU_MOCK_NEXT_IRET;
    }
    me->answers += answers;
    if (me->waiting < answers) {
        am_host_fail(cpu->vm->host,
                     "%s vCPU %u: vector %02xh: an answer that "
                     "nobody waits for",
                     cpu->vm->config->name, cpu->index,
                     avicemu_mock_vector(cpu));
    } else {
        me->waiting -= answers;
        avicemu_mock_expect(cpu, -(int32_t)answers);
    }
    avicemu_mock_did(cpu, answers);
    avicemu_mock_sti(cpu);
    return AVICEMU_MOCK_NEXT_STEP;
}

/* All others; or, where that are many, 64 of them at random. */
static void
targets_pick(struct avicemu_mock_cpu *cpu, struct peer *me, bool all)
{
    uint32_t others = cpu->vm->nr_cpus - 1;

    me->nr_targets = others;
    me->first = 1;
    me->stride = 1;
    if (!all && others > MAX_SENDERS) {
        uint32_t gaps = MAX_SENDERS - 1;
        uint64_t random = avicemu_mock_random(cpu);

        me->nr_targets = MAX_SENDERS;
        me->stride = 1 + (uint32_t)(random % ((others - 1) / gaps));
        me->first =
            1 + (uint32_t)((random >> 32) % (others - gaps * me->stride));
    }
}

static void
round_begin(struct avicemu_mock_cpu *cpu, struct peer *me)
{
    bool broadcast = use_broadcast(cpu, me->rounds + 1);

    targets_pick(cpu, me, broadcast);
    me->waiting = me->nr_targets;
    me->next = 0;
    atomic_store(&me->open, me->nr_targets);
    avicemu_mock_expect(cpu, (int32_t)me->waiting);
    nmi_maybe(cpu, me);
    me->rounds++;
    if (broadcast) {
        me->next = me->nr_targets;
        me->requests += me->waiting;
        avicemu_mock_icr(
            cpu, 0, ICR_FIXED | ICR_ALL_BUT_SELF | (VECTOR_REQUEST + me->slot),
            me->waiting);
    }
}

static enum avicemu_mock_next
strict_step(struct avicemu_mock_cpu *cpu, struct peer *me, unsigned budget)
{
    uint32_t nr_cpus = cpu->vm->nr_cpus;

    /* Before the others are there, a broadcast would not reach them. */
    if (atomic_load(&cpu->vm->nr_online) < cpu->vm->nr_cpus) {
        return AVICEMU_MOCK_NEXT_PAUSE;
    }
    if (me->waiting == 0) {
        if (avicemu_mock_draining(cpu)) {
            return AVICEMU_MOCK_NEXT_HALT;
        }
        round_begin(cpu, me);
    }
    for (; budget > 0 && me->next < me->nr_targets; me->next++) {
        uint32_t ahead = me->first + me->next * me->stride;

        me->requests++;
        send_one(cpu, (cpu->index + ahead) % nr_cpus, VECTOR_REQUEST + me->slot,
                 me->rounds);
        budget--;
    }
    return me->next < me->nr_targets || me->waiting == 0
               ? AVICEMU_MOCK_NEXT_STEP
               : AVICEMU_MOCK_NEXT_HALT;
}

/* ---- flood -------------------------------------------------------------- */

static enum avicemu_mock_next
flood_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct ipi *ipi = state;

    (void)budget;
    ipi->peers[cpu->index].got_requests++;
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

static enum avicemu_mock_next
flood_step(struct avicemu_mock_cpu *cpu, struct peer *me, unsigned budget)
{
    uint32_t others = cpu->vm->nr_cpus - 1;

    if (atomic_load(&cpu->vm->nr_online) < cpu->vm->nr_cpus) {
        return AVICEMU_MOCK_NEXT_PAUSE;
    }
    if (avicemu_mock_draining(cpu)) {
        return AVICEMU_MOCK_NEXT_HALT;
    }
    nmi_maybe(cpu, me);
    me->rounds++;
    if (use_broadcast(cpu, me->rounds)) {
        me->requests += others;
        avicemu_mock_icr(cpu, 0, ICR_FIXED | ICR_ALL_BUT_SELF | VECTOR_FLOOD,
                         others);
        avicemu_mock_did(cpu, others);
        return AVICEMU_MOCK_NEXT_STEP;
    }
    for (unsigned i = 0; i < budget; i++) {
        uint32_t step = 1 + (uint32_t)(avicemu_mock_random(cpu) % others);

        me->requests++;
        send_one(cpu, (cpu->index + step) % cpu->vm->nr_cpus, VECTOR_FLOOD,
                 me->rounds);
    }
    avicemu_mock_did(cpu, budget);
    return AVICEMU_MOCK_NEXT_STEP;
}

/* ---- the program -------------------------------------------------------- */

static enum avicemu_mock_next
nmi_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct ipi *ipi = state;

    (void)budget;
    ipi->peers[cpu->index].nmis++;
    return AVICEMU_MOCK_NEXT_IRET;
}

/* The BSP and others; all of them where there are slots enough. */
static void
senders_pick(struct ipi *ipi)
{
    uint64_t random = am_random_start(ipi->vm->host->scenario.seed,
                                      ~(uint64_t)ipi->vm->first_who);
    uint32_t nr_cpus = ipi->vm->nr_cpus;

    for (uint32_t i = 0; i < nr_cpus; i++) {
        ipi->peers[i].slot = NO_SLOT;
    }
    for (uint32_t slot = 0; slot < MAX_SENDERS && slot < nr_cpus; slot++) {
        uint32_t i = slot;

        if (ipi->many && slot != 0) {
            i = (uint32_t)(am_random_next(&random) % nr_cpus);
        }
        while (ipi->peers[i].slot != NO_SLOT) {
            i = (i + 1) % nr_cpus;
        }
        ipi->peers[i].slot = slot;
        ipi->senders[slot] = i;
    }
}

static void *
ipi_create(struct avicemu_mock_vm *vm)
{
    struct ipi *ipi = calloc(1, sizeof(*ipi));
    struct peer *peers = calloc(vm->nr_cpus, sizeof(*peers));

    if (ipi == NULL || peers == NULL) {
        free(ipi);
        free(peers);
        return NULL;
    }
    ipi->vm = vm;
    ipi->peers = peers;
    ipi->many = vm->nr_cpus > MAX_SENDERS;
    senders_pick(ipi);
    return ipi;
}

static void
ipi_destroy(void *state)
{
    struct ipi *ipi = state;

    free(ipi->peers);
    free(ipi);
}

static void
ipi_start(struct avicemu_mock_cpu *cpu, void *state)
{
    for (uint32_t i = 0; i < MAX_SENDERS; i++) {
        avicemu_mock_idt(cpu, (uint8_t)(VECTOR_REQUEST + i), request_handler,
                         state);
        avicemu_mock_idt(cpu, (uint8_t)(VECTOR_ACK + i), ack_handler, state);
    }
    avicemu_mock_idt(cpu, VECTOR_FLOOD, flood_handler, state);
    avicemu_mock_idt_nmi(cpu, nmi_handler, state);
}

static enum avicemu_mock_next
ipi_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct ipi *ipi = state;
    struct peer *me = &ipi->peers[cpu->index];

    if (me->slot == NO_SLOT) {
        return AVICEMU_MOCK_NEXT_HALT;
    }
    return cpu->vm->config->ipi == AVICEMU_MOCK_IPI_STRICT
               ? strict_step(cpu, me, budget)
               : flood_step(cpu, me, budget);
}

/* Strict: each request was answered once, but for those under way. */
static unsigned
ipi_check(struct avicemu_mock_vm *vm, void *state, char *buf, size_t len)
{
    const struct ipi *ipi = state;
    unsigned faults = 0;

    if (vm->config->ipi != AVICEMU_MOCK_IPI_STRICT) {
        return 0;
    }
    for (uint32_t i = 0; i < vm->nr_cpus; i++) {
        const struct peer *peer = &ipi->peers[i];
        uint64_t unsent = peer->waiting > 0 ? peer->nr_targets - peer->next : 0;

        if (peer->waiting < unsent ||
            peer->requests != peer->answers + peer->waiting - unsent) {
            if (faults++ == 0) {
                (void)snprintf(buf, len,
                               "vCPU %u: %llu requests sent, %llu answered, "
                               "%u open",
                               i, (unsigned long long)peer->requests,
                               (unsigned long long)peer->answers,
                               peer->waiting);
            }
        }
    }
    return faults;
}

const struct avicemu_mock_program am_program_ipi = {
    .name = "ipi",
    .create = ipi_create,
    .destroy = ipi_destroy,
    .start = ipi_start,
    .step = ipi_step,
    .check = ipi_check,
};
