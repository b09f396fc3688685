/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The edges of AVIC, explored on the library's own sources, store buffers
 * included:
 *
 *   running  an accelerated IPI (IRR bit, then IsRunning) against a vCPU that
 *            blocks (IsRunning := 0, then IRR), or moves to another pCPU
 *   bell     a post or IPI that rings a word against a runner that takes the
 *            word and then scans
 *   inhibit  a reason that is set or cleared against an entry
 *
 * Laws. A vCPU that may sleep is woken, and one in the guest that hears of
 * nothing but doorbells and kicks is told: one that waits for ever is a
 * deadlock, which the explorer reports. Of an inhibit: the vCPU follows at its
 * entry, or is in the guest and kicked.
 *
 * Weakened builds of the library that must fail are in meson.build.
 */

#include "avic_edge.h"

#define VECTOR 0x41
#define OTHER  0x72

/* ---- parties ------------------------------------------------------------ */

/* vCPU 1, outside the guest: the engine, and the handler of its exit. ICR high
 * is 0, so they go to id 0. */
static void
ipi(void *opaque)
{
    edge_write(opaque, 1, 0x300, VECTOR);
}

static void
ipi_other(void *opaque)
{
    edge_write(opaque, 2, 0x300, OTHER);
}

static void
ipi_logical(void *opaque)
{
    avic_edge_ipi_logical(opaque, 1, 0x01, VECTOR);
}

static void
post(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
post_other(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post(e->v[0].vcpu, OTHER, AVICEMU_TRIGGER_EDGE);
}

static void
halt(void *opaque)
{
    struct edge *e = opaque;

    e->r[4] += (uint64_t)edge_halt(e, 0);
}

/* Scheduled in elsewhere, then asleep. */
static void
move_and_halt(void *opaque)
{
    avic_edge_migrate(opaque, 0, 3);
    halt(opaque);
}

/* In the guest until an interrupt was taken. */
static void
run(void *opaque)
{
    avic_edge_run(opaque, 0, 1);
}

static void
run_two(void *opaque)
{
    avic_edge_run(opaque, 0, 2);
}

static void
move_and_run(void *opaque)
{
    avic_edge_migrate(opaque, 0, 3);
    avic_edge_run(opaque, 0, 1);
}

static void
enter(void *opaque)
{
    uint8_t vector;

    (void)edge_enter(opaque, 0, &vector);
}

static void
inhibit(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vm_inhibit(e->vm, AVICEMU_INHIBIT_PIT_REINJ, 1);
}

static void
allow(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vm_inhibit(e->vm, AVICEMU_INHIBIT_PIT_REINJ, 0);
}

/* Sends to the other one, then sleeps until the other has sent. */
static void
ping_0(void *opaque)
{
    avic_edge_ipi(opaque, 0, 1, VECTOR);
    (void)edge_halt(opaque, 0);
}

static void
ping_1(void *opaque)
{
    avic_edge_ipi(opaque, 1, 0, VECTOR);
    (void)edge_halt(opaque, 1);
}

/* ---- set-up ------------------------------------------------------------- */

static int
kick_2(struct edge *e)
{
    return avic_edge(e, AVIC_EDGE_KICK, 2);
}

static int
word_2(struct edge *e)
{
    return avic_edge(e, AVIC_EDGE_WORD, 2);
}

static int
word_3(struct edge *e)
{
    return avic_edge(e, AVIC_EDGE_WORD, 3);
}

static int
erratum_2(struct edge *e)
{
    return avic_edge(e, AVIC_EDGE_ERRATUM, 2);
}

static int
no_ipiv_2(struct edge *e)
{
    return avic_edge(e, AVIC_EDGE_NO_IPIV, 2);
}

/* The doorbell word is 1, and what it told of was taken at an entry. */
static int
stray_2(struct edge *e)
{
    int r = avic_edge(e, AVIC_EDGE_WORD, 2);
    uint8_t vector;

    (void)edge_enter(e, 0, &vector);
    post(e);
    edge_exit(e, 0);
    r = r != 0 || edge_take(e, 0, &vector) == AVICEMU_DO_INJECT ? r : -1;
    edge_write(e, 0, 0xb0, 0);
    return r;
}

/* AVIC is off, and its vCPUs know. */
static int
inhibited_2(struct edge *e)
{
    int r = avic_edge(e, AVIC_EDGE_WORD, 2);

    inhibit(e);
    r = r != 0 ? r : avic_edge_halted(e, 0);
    return r != 0 ? r : avic_edge_halted(e, 1);
}

/* ---- checks ------------------------------------------------------------- */

/* A wake may come late, when the sleeper had found the work by itself. */
static int
woken_at_most_once(struct edge *e)
{
    return e->v[0].wakes < e->r[4] || e->v[0].wakes > 1 ||
           !avicemu_vcpu_runnable(e->v[0].vcpu);
}

static int
both_runnable(struct edge *e)
{
    return !edge_bit(e, 0, 0x200, VECTOR) || !edge_bit(e, 1, 0x200, VECTOR) ||
           !avicemu_vcpu_runnable(e->v[0].vcpu) ||
           !avicemu_vcpu_runnable(e->v[1].vcpu);
}

/* All was taken; a doorbell that is a word needs no kick. */
static int
taken(struct edge *e)
{
    return edge_bit(e, 0, 0x200, VECTOR) || edge_bit(e, 0, 0x200, OTHER) ||
           e->v[0].wakes != 0;
}

static int
taken_unkicked(struct edge *e)
{
    return taken(e) || e->v[0].kicks != 0;
}

/* In the guest: it follows already, or it was told to come out; and then, or
 * anyway at its next entry, it does. */
static int
follows(struct edge *e)
{
    enum avicemu_avic_state want =
        avicemu_vm_inhibits(e->vm) != 0 ? AVICEMU_AVIC_OFF : AVICEMU_AVIC_XAVIC;
    uint8_t vector;

    if (avicemu_vcpu_avic(e->v[0].vcpu) != want && e->v[0].kicks == 0) {
        return 1;
    }
    edge_exit(e, 0);
    (void)edge_enter(e, 0, &vector);
    return avicemu_vcpu_avic(e->v[0].vcpu) != want;
}

static int
taken_and_follows(struct edge *e)
{
    uint8_t vector;

    (void)edge_enter(e, 0, &vector);
    return taken(e) || follows(e);
}

/* ---- what was found once ------------------------------------------------ */

/* Another logical id, or another id, and asleep: the engine has resolved by
 * the old one. */
static void
move_and_sleep(struct edge *e, uint32_t offset, uint32_t value)
{
    edge_write(e, 0, offset, value);
    if (avicemu_vcpu_block_begin(e->v[0].vcpu) == AVICEMU_SLEEP_YES) {
        e->r[4] = 1;
    }
}

static void
ldr_and_sleep(void *opaque)
{
    move_and_sleep(opaque, 0x0d0, 0x04000000);
}

static void
id_and_sleep(void *opaque)
{
    move_and_sleep(opaque, 0x020, 0x05000000);
}

/* Asleep with the vector pending, and nobody has called. */
static int
not_woken(struct edge *e)
{
    return e->r[4] != 0 && e->v[0].wakes == 0 && edge_bit(e, 0, 0x200, VECTOR);
}

/* Two reasons at once: who sets the second may be the first to enter. */
static void
second_and_enter(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector;

    (void)avicemu_vm_inhibit(e->vm, AVICEMU_INHIBIT_IRQWIN, 1);
    (void)edge_enter(e, 0, &vector);
    e->r[0] = avicemu_vcpu_avic(e->v[0].vcpu) != AVICEMU_AVIC_OFF;
}

static int
still_on(struct edge *e)
{
    return e->r[0] != 0;
}

/* ---- tests -------------------------------------------------------------- */

#define ROW(name, prepare, verify, nr, ...) \
    {                                       \
        name, 0, prepare, verify, nr,       \
        {                                   \
            __VA_ARGS__                     \
        }                                   \
    }

/* clang-format off */
static const struct edge_row rows[] = {
    ROW("running: IPI against block", kick_2, woken_at_most_once, 2, ipi, halt),
    ROW("running: IPI against block, words", word_2, woken_at_most_once, 2,
        ipi, halt),
    ROW("running: IPI against block, erratum 1235 worked around", erratum_2,
        woken_at_most_once, 2, ipi, halt),
    ROW("running: IPI against block, IPI virtualisation off", no_ipiv_2,
        woken_at_most_once, 2, ipi, halt),
    ROW("running: logical IPI against block", word_2, woken_at_most_once, 2,
        ipi_logical, halt),
    ROW("running: two senders against block", word_3, woken_at_most_once, 3,
        ipi, ipi_other, halt),
    ROW("running: IPI and post against block", word_2, woken_at_most_once, 3,
        ipi, post_other, halt),
    ROW("running: IPI against migration and block", word_2, woken_at_most_once,
        2, ipi, move_and_halt),
    ROW("running: two vCPUs send to each other, then sleep", word_2,
        both_runnable, 2, ping_0, ping_1),
    ROW("running: IPI against enter, kicks", kick_2, taken, 2, ipi, run),
    ROW("running: IPI against migration and enter, kicks", kick_2, taken, 2,
        ipi, move_and_run),
    ROW("bell: post against the runner", word_2, taken_unkicked, 2, post, run),
    ROW("bell: IPI against the runner", word_2, taken_unkicked, 2, ipi, run),
    ROW("bell: post against the runner, a stray doorbell", stray_2,
        taken_unkicked, 2, post, run),
    ROW("bell: IPI against the runner, a stray doorbell", stray_2,
        taken_unkicked, 2, ipi, run),
    ROW("bell: IPI against the runner, erratum 1235", erratum_2, taken, 2,
        ipi, run),
    ROW("bell: IPI against migration and enter", word_2, taken_unkicked, 2,
        ipi, move_and_run),
    ROW("bell: two posts against the runner", word_2, taken_unkicked, 3,
        post, post_other, run_two),
    ROW("bell: two senders against the runner", word_3, taken_unkicked, 3,
        ipi, ipi_other, run_two),
    ROW("inhibit: set against enter", word_2, follows, 2, inhibit, enter),
    ROW("inhibit: cleared against enter", inhibited_2, follows, 2,
        allow, enter),
    ROW("inhibit: set, cleared and enter", word_2, follows, 3,
        inhibit, allow, enter),
    ROW("inhibit: set against IPI and block", word_2, woken_at_most_once, 3,
        inhibit, ipi, halt),
    ROW("inhibit: cleared against post and the runner", inhibited_2,
        taken_and_follows, 3, allow, post, run),
    ROW("inhibit: a second reason and enter against the first", word_2,
        still_on, 2, inhibit, second_and_enter),
    ROW("running: logical IPI against a new LDR and block", word_2, not_woken,
        2, ipi_logical, ldr_and_sleep),
    ROW("running: IPI against a new id and block", word_2, not_woken, 2,
        ipi, id_and_sleep),
};
/* clang-format on */

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
