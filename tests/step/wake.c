/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The edges of a vCPU's run loop, explored on the library's own sources:
 * wake (post against block), kick (post against enter), post (a device's
 * writes against the handler), tmr (trigger mode against EOI).
 */

#include "edge.h"

#define VECTOR 0x41
#define OTHER  0x72

/* ---- parties ------------------------------------------------------------ */

static void
post(void *opaque)
{
    struct edge *e = opaque;

    e->r[0] = avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
post_other(void *opaque)
{
    struct edge *e = opaque;

    e->r[1] = avicemu_post(e->v[0].vcpu, OTHER, AVICEMU_TRIGGER_EDGE);
}

static void
post_same(void *opaque)
{
    struct edge *e = opaque;

    e->r[1] = avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
post_nmi(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post_mode(e->v[0].vcpu, AVICEMU_DELIVERY_NMI, 0);
}

static void
post_level(void *opaque)
{
    struct edge *e = opaque;

    e->r[0] = avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_LEVEL);
}

static void
send_msi(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_msi(e->vm, edge_msi_address(0), VECTOR, NULL);
}

/* A completion entry, then the interrupt that tells of it. */
static void
complete(void *opaque)
{
    struct edge *e = opaque;

    avicemu_step_store(&e->r[2], 4, 1);
    e->r[0] = avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
}

static void
halt(void *opaque)
{
    struct edge *e = opaque;

    e->r[4] += (uint64_t)edge_halt(e, 0);
}

/* Until the guest has had an interrupt. */
static void
run_guest(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector = 0;
    uint32_t what = edge_enter(e, 0, &vector);

    while ((what & (AVICEMU_DO_INJECT | AVICEMU_DO_NMI)) == 0) {
        while (avicemu_step_load(&e->v[0].kicked, 4) == 0) {
            avicemu_step_relax("in_guest");
        }
        avicemu_step_store(&e->v[0].kicked, 4, 0);
        edge_exit(e, 0);
        what = edge_enter(e, 0, &vector);
    }
    e->r[5] = vector;
    edge_exit(e, 0);
}

/* Takes what is there and reads the completion entry. */
static void
handle(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector;

    if (edge_take(e, 0, &vector) == AVICEMU_DO_INJECT) {
        e->r[4] = 1;
        e->r[5] = avicemu_step_load(&e->r[2], 4);
    }
}

/* Takes the vector, and retires it. */
static void
handle_and_eoi(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector;

    if (edge_take(e, 0, &vector) == AVICEMU_DO_INJECT) {
        e->r[4]++;
        edge_write(e, 0, 0xb0, 0);
    }
}

static void
raise_extint(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 1);
}

/* Sends to the other one, then sleeps until the other has sent. */
static void
ping_0(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 0, 0x310, 0x01000000);
    edge_write(e, 0, 0x300, VECTOR);
    e->r[4] += (uint64_t)edge_halt(e, 0);
}

static void
ping_1(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 1, 0x310, 0);
    edge_write(e, 1, 0x300, VECTOR);
    e->r[5] += (uint64_t)edge_halt(e, 1);
}

/* Twice in and out, without a look at the kick. */
static void
enter_twice(void *opaque)
{
    struct edge *e = opaque;

    for (int i = 0; i < 2; i++) {
        uint8_t vector;

        if ((edge_enter(e, 0, &vector) & AVICEMU_DO_INJECT) != 0) {
            e->r[4] = 1;
        }
        edge_exit(e, 0);
    }
    e->r[5] = edge_enter(e, 0, &(uint8_t){ 0 }) & AVICEMU_DO_INJECT;
}

/* ---- checks ------------------------------------------------------------- */

static int
halted(struct edge *e)
{
    uint8_t vector;

    /* block_begin goes by the flags of the last exit. */
    (void)edge_enter(e, 0, &vector);
    edge_exit(e, 0);
    return avicemu_vcpu_set_halted(e->v[0].vcpu);
}

static int
halted_with_extint(struct edge *e)
{
    edge_write(e, 0, 0x350, 0x700);
    return halted(e);
}

static int
both_halted(struct edge *e)
{
    uint8_t vector;

    (void)edge_enter(e, 1, &vector);
    edge_exit(e, 1);
    return avicemu_vcpu_set_halted(e->v[1].vcpu) != 0 || halted(e) != 0;
}

static int
both_runnable(struct edge *e)
{
    return !edge_bit(e, 0, 0x200, VECTOR) || !edge_bit(e, 1, 0x200, VECTOR) ||
           !avicemu_vcpu_runnable(e->v[0].vcpu) ||
           !avicemu_vcpu_runnable(e->v[1].vcpu);
}

/* In the guest for the third time: injected now, or kicked since. */
static int
injected_or_kicked(struct edge *e)
{
    return e->r[5] == 0 && e->v[0].kicks == 0;
}

/* A wake may come late, when the sleeper had found the work by itself. */
static int
woken_at_most_once(struct edge *e)
{
    return e->v[0].wakes < e->r[4] || e->v[0].wakes > 1 ||
           !avicemu_vcpu_runnable(e->v[0].vcpu);
}

static int
kicked_at_most_twice(struct edge *e)
{
    return e->v[0].kicks > 2 || e->v[0].wakes != 0;
}

static int
handler_saw_entry(struct edge *e)
{
    return e->r[4] != 0 && e->r[5] != 1;
}

/* An edge-triggered vector of before has left TMR = 0. */
static int
eoi_told(struct edge *e)
{
    /* Taken: the IOAPIC heard of it. Not taken: pending, with its trigger. */
    if (e->r[4] != 0) {
        return e->v[0].eois != 1 || e->v[0].last_eoi != VECTOR;
    }
    return !edge_bit(e, 0, 0x200, VECTOR) || !edge_bit(e, 0, 0x180, VECTOR);
}

/* NEW + MERGED are all posts; each NEW is taken or pending. */
static int
nothing_lost(struct edge *e)
{
    uint64_t left = e->r[4] + (uint64_t)edge_bit(e, 0, 0x200, VECTOR);

    left -= e->r[0] == AVICEMU_POST_NEW;
    left -= e->r[1] == AVICEMU_POST_NEW;
    return left != 0;
}

/* ---- tests -------------------------------------------------------------- */

static const struct edge_row rows[] = {
    { "wake: post against block",
      1,
      halted,
      woken_at_most_once,
      2,
      { post, halt } },
    { "kick: post against enter",
      1,
      NULL,
      kicked_at_most_twice,
      2,
      { post, run_guest } },
    { "wake: NMI against block",
      1,
      halted,
      woken_at_most_once,
      2,
      { post_nmi, halt } },
    { "wake: MSI against block",
      1,
      halted,
      woken_at_most_once,
      2,
      { send_msi, halt } },
    { "wake: two posters, one wake",
      1,
      halted,
      woken_at_most_once,
      3,
      { post, post_other, halt } },
    { "wake: two posters of one vector",
      1,
      halted,
      woken_at_most_once,
      3,
      { post, post_same, halt } },
    { "kick: NMI against enter",
      1,
      NULL,
      kicked_at_most_twice,
      2,
      { post_nmi, run_guest } },
    { "kick: two posters against enter",
      1,
      NULL,
      kicked_at_most_twice,
      3,
      { post, post_other, run_guest } },
    { "post: a handler sees the completion entry",
      1,
      NULL,
      handler_saw_entry,
      2,
      { complete, handle } },
    { "post: two posters against a taker, nothing lost",
      1,
      NULL,
      nothing_lost,
      3,
      { post, post_same, handle_and_eoi } },
    { "tmr: a level-triggered vector tells its EOI",
      1,
      NULL,
      eoi_told,
      2,
      { post_level, handle_and_eoi } },
    { "wake: ExtINT on a pin against block",
      1,
      halted_with_extint,
      woken_at_most_once,
      2,
      { raise_extint, halt } },
    { "wake: two vCPUs send to each other, then sleep",
      2,
      both_halted,
      both_runnable,
      2,
      { ping_0, ping_1 } },
    { "kick: post against three entries",
      1,
      NULL,
      injected_or_kicked,
      2,
      { post, enter_twice } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
