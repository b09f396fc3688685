/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events and local sources, explored on the library's own sources: event (INIT
 * and SIPI words), expire (a deadline against a rewritten timer), error (a
 * sender's error against its owner's look), lint and rir (a pin against its
 * LVT entry and against the EOI), init (a post against INIT and the enabling
 * behind it).
 */

#include "edge.h"

#define VECTOR    0x41
#define OTHER     0x51
#define LVT_TIMER 0x320
#define LVT_LINT0 0x350
#define LVT_ERROR 0x370
#define TMICT     0x380
#define TDCR      0x3e0
#define MASKED    0x10000u
#define LEVEL     0x8000u
#define RIR       0x4000u

/* ---- INIT and SIPI ------------------------------------------------------ */

static void
init_then_sipi(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post_mode(e->v[1].vcpu, AVICEMU_DELIVERY_INIT, 0);
    e->r[0] = avicemu_post_mode(e->v[1].vcpu, AVICEMU_DELIVERY_SIPI, 0x12);
}

static void
nmi_init_nmi(void *opaque)
{
    struct edge *e = opaque;
    struct avicemu_vcpu *ap = e->v[1].vcpu;

    e->r[1] +=
        avicemu_post_mode(ap, AVICEMU_DELIVERY_NMI, 0) == AVICEMU_POST_NEW;
    (void)avicemu_post_mode(ap, AVICEMU_DELIVERY_INIT, 0);
    e->r[1] +=
        avicemu_post_mode(ap, AVICEMU_DELIVERY_NMI, 0) == AVICEMU_POST_NEW;
}

static void
init(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post_mode(e->v[1].vcpu, AVICEMU_DELIVERY_INIT, 0);
}

static void
sipi(void *opaque)
{
    struct edge *e = opaque;

    e->r[0] = avicemu_post_mode(e->v[1].vcpu, AVICEMU_DELIVERY_SIPI, 0x12);
}

static uint32_t
ap_take(struct edge *e)
{
    uint8_t vector = 0;
    uint32_t what = edge_take(e, 1, &vector);

    e->r[2] += what == AVICEMU_DO_INIT;
    e->r[3] += what == AVICEMU_DO_SIPI;
    e->r[4] += what == AVICEMU_DO_NMI;
    e->r[5] = what == AVICEMU_DO_SIPI ? vector : e->r[5];
    return what;
}

/* Sleeps until one of them comes, and takes it. */
static void
ap_waits(void *opaque)
{
    while (ap_take(opaque) == 0) {
        (void)edge_halt(opaque, 1);
    }
}

/* Looks at what is there, three times. */
static void
ap_looks(void *opaque)
{
    for (int i = 0; i < 3; i++) {
        (void)ap_take(opaque);
    }
}

static void
ap_looks_once(void *opaque)
{
    (void)ap_take(opaque);
}

static int
ap_halted(struct edge *e)
{
    return avicemu_vcpu_set_halted(e->v[1].vcpu);
}

/* After an INIT, before its SIPI. */
static int
ap_waiting(struct edge *e)
{
    init(e);
    return ap_take(e) != AVICEMU_DO_INIT;
}

/* Each once, with the right vector, at the latest now. */
static int
started_once(struct edge *e)
{
    while (ap_take(e) != 0) {
        /* What is left. */
    }
    return e->r[0] != AVICEMU_POST_NEW || e->r[2] != 1 || e->r[3] != 1 ||
           e->r[5] != 0x12;
}

static int
init_taken(struct edge *e)
{
    return e->r[2] != 1;
}

/* Each NMI is taken, or lost to the INIT and counted, or still there. */
static int
nmis_accounted(struct edge *e)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    while (ap_take(e) != 0) {
        /* What is left. */
    }
    (void)avicemu_vcpu_stats(e->v[1].vcpu, &stats);
    (void)avicemu_vcpu_view(e->v[1].vcpu, &view);
    return e->r[2] != 1 || e->r[1] != e->r[4] + stats.nmi_cleared + view.nr_nmi;
}

/* ---- a post that races with INIT ---------------------------------------- */

#define POSTED(e) (&(e)->v[2].kicked) /* nobody's word: the post returned */

static int
ap_restarts(struct edge *e)
{
    init_then_sipi(e);
    return e->r[0] != AVICEMU_POST_NEW;
}

static void
post_ap_edge(void *opaque)
{
    struct edge *e = opaque;

    e->r[0] = avicemu_post(e->v[1].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
    avicemu_step_store(POSTED(e), 4, 1);
}

static void
post_ap_level(void *opaque)
{
    struct edge *e = opaque;

    e->r[0] = avicemu_post(e->v[1].vcpu, VECTOR, AVICEMU_TRIGGER_LEVEL);
    avicemu_step_store(POSTED(e), 4, 1);
}

/* INIT, SIPI, a look at the APIC that INIT disabled, and the enable. */
static void
ap_restart(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector;

    (void)ap_take(e);
    (void)ap_take(e);
    e->r[1] += edge_read(e, 1, 0x200 + (VECTOR >> 5) * 16u) != 0;
    e->r[1] += edge_enter(e, 1, &vector) != 0;
    e->r[1] += avicemu_vcpu_ack(e->v[1].vcpu, AVICEMU_DO_INJECT, VECTOR) == 0;
    edge_exit(e, 1);
    e->r[6] = avicemu_step_load(POSTED(e), 4);
    edge_write(e, 1, 0xf0, 0x1ff);
}

/* Disabled it showed nothing. Now the post is pending, or lost to INIT and
 * counted; and lost, or dropped, if it had returned before the enable. */
static int
post_accounted(struct edge *e)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };
    uint64_t pending = edge_bit(e, 1, 0x200, VECTOR) ? 1 : 0;
    int level = edge_bit(e, 1, 0x180, VECTOR);

    (void)avicemu_vcpu_stats(e->v[1].vcpu, &stats);
    if (pending != 0 && level != (e->row->fns[0] == post_ap_level)) {
        return 1; /* its EOI would or would not be broadcast */
    }
    return e->r[2] != 1 || e->r[3] != 1 || e->r[1] != 0 ||
           (e->r[6] != 0 && pending != 0) ||
           stats.cleared + pending != (e->r[0] == AVICEMU_POST_NEW ? 1 : 0);
}

static void
post_ap_too(void *opaque)
{
    struct edge *e = opaque;

    e->r[7] = avicemu_post(e->v[1].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE) ==
              AVICEMU_POST_NEW;
}

static void
ap_restart_shortly(void *opaque)
{
    struct edge *e = opaque;

    (void)ap_take(e);
    edge_write(e, 1, 0xf0, 0x1ff);
}

/* One or two posts: each NEW is pending or counted. */
static int
posts_accounted(struct edge *e)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };
    uint64_t went = edge_bit(e, 1, 0x200, VECTOR) ? 1 : 0;
    uint64_t fresh = e->r[7];

    fresh += e->r[0] == AVICEMU_POST_NEW;
    (void)avicemu_vcpu_stats(e->v[1].vcpu, &stats);
    went += stats.cleared;
    return e->r[1] != 0 || went != fresh;
}

/* Saved and loaded while INIT has it disabled: nor does a snapshot show it. */
static void
ap_moves(void *opaque)
{
    struct edge *e = opaque;
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };
    unsigned char saved[4096];
    size_t len = 0;

    (void)ap_take(e);
    e->r[1] +=
        avicemu_vcpu_snapshot(e->v[1].vcpu, saved, sizeof(saved), &len) != 0;
    e->r[1] += avicemu_vcpu_restore(e->v[1].vcpu, saved, len) != 0;
    (void)avicemu_vcpu_stats(e->v[1].vcpu, &stats);
    e->r[1] += stats.local_new;
}

/* ---- timer -------------------------------------------------------------- */

/* One-shot, vector VECTOR, due now; the host has not told it yet. */
static int
timer_due(struct edge *e)
{
    edge_write(e, 0, LVT_TIMER, VECTOR);
    edge_write(e, 0, TDCR, 0xb);
    edge_write(e, 0, TMICT, 500);
    e->now = e->v[0].armed;
    return e->now == UINT64_MAX;
}

static void
expire(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_expire(e->v[0].vcpu);
}

static void
rewrite(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 0, TMICT, 700);
    e->r[0] = (uint64_t)edge_bit(e, 0, 0x200, VECTOR);
}

static void
take_tick(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector = 0;

    (void)edge_halt(e, 0);
    e->r[1] = edge_take(e, 0, &vector) == AVICEMU_DO_INJECT;
    e->r[2] = vector;
}

/* In the guest until the tick comes. */
static void
guest_ticks(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector = 0;

    while ((edge_enter(e, 0, &vector) & AVICEMU_DO_INJECT) == 0) {
        while (avicemu_step_load(&e->v[0].kicked, 4) == 0) {
            avicemu_step_relax("in_guest");
        }
        avicemu_step_store(&e->v[0].kicked, 4, 0);
        edge_exit(e, 0);
    }
    e->r[1] = 1;
    e->r[2] = vector;
}

static int
idle(struct edge *e)
{
    uint8_t vector;

    (void)edge_enter(e, 0, &vector);
    edge_exit(e, 0);
    return avicemu_vcpu_set_halted(e->v[0].vcpu);
}

static int
due_and_idle(struct edge *e)
{
    return timer_due(e) != 0 || idle(e) != 0;
}

/* The new deadline was told to the host, and comes. */
static int
new_tick_comes(struct edge *e)
{
    uint8_t vector;

    while (edge_take(e, 0, &vector) != 0) {
        edge_write(e, 0, 0xb0, 0);
    }
    if (e->v[0].armed != e->now + 700) {
        return 1;
    }
    e->now = e->v[0].armed;
    (void)avicemu_vcpu_expire(e->v[0].vcpu);
    return edge_take(e, 0, &vector) != AVICEMU_DO_INJECT || vector != VECTOR;
}

static int
tick_taken(struct edge *e)
{
    return e->r[1] != 1 || e->r[2] != VECTOR;
}

/* ---- errors ------------------------------------------------------------- */

static int
error_open(struct edge *e)
{
    edge_write(e, 0, LVT_ERROR, VECTOR);
    return idle(e);
}

static void
post_illegal(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post(e->v[0].vcpu, 5, AVICEMU_TRIGGER_EDGE);
}

/* The owner has an error of its own at the same time: a register that is not
 * there. */
static void
own_error_then_tick(void *opaque)
{
    struct edge *e = opaque;

    (void)edge_read(e, 0, 0x40);
    take_tick(e);
}

/* ---- pins --------------------------------------------------------------- */

static int
lint_masked(struct edge *e)
{
    edge_write(e, 0, LVT_LINT0, MASKED | LEVEL | VECTOR);
    return 0;
}

static int
lint_open(struct edge *e)
{
    edge_write(e, 0, LVT_LINT0, LEVEL | VECTOR);
    return 0;
}

static int
lint_in_service(struct edge *e)
{
    uint8_t vector;

    (void)lint_open(e);
    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 1);
    return edge_take(e, 0, &vector) != AVICEMU_DO_INJECT;
}

static void
raise_pin(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 1);
}

static void
pulse_pin(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 0);
    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 1);
}

static void
lower_pin(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_lint(e->v[0].vcpu, 0, 0);
}

static void
unmask(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 0, LVT_LINT0, LEVEL | VECTOR);
}

static void
eoi(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 0, 0xb0, 0);
}

/* To another vector, while the driver may deliver the old one. */
static void
revector(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 0, LVT_LINT0, LEVEL | OTHER);
}

static void
post_edge(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_post(e->v[0].vcpu, VECTOR, AVICEMU_TRIGGER_EDGE);
}

/* Take and retire all; is the pin free for its next level then? */
static int
pin_is_free(struct edge *e)
{
    uint8_t vector;

    lower_pin(e);
    for (int i = 0; i < 4; i++) {
        (void)edge_take(e, 0, &vector);
        edge_write(e, 0, 0xb0, 0);
    }
    return edge_bit(e, 0, 0x200, VECTOR) || edge_bit(e, 0, 0x200, OTHER) ||
           (edge_read(e, 0, LVT_LINT0) & RIR) != 0;
}

/* The line is high: the new vector waits, with remote IRR; and nothing of it
 * is left when the line is low and all is retired. */
static int
revectored(struct edge *e)
{
    return !edge_bit(e, 0, 0x200, OTHER) ||
           (edge_read(e, 0, LVT_LINT0) & RIR) == 0 || pin_is_free(e);
}

/* The line is high and open: its vector waits or is served, with remote IRR. */
static int
level_served(struct edge *e)
{
    return (!edge_bit(e, 0, 0x200, VECTOR) && !edge_bit(e, 0, 0x100, VECTOR)) ||
           (edge_read(e, 0, LVT_LINT0) & RIR) == 0;
}

/* The line is low: nothing is left to be served for ever. */
static int
level_ends(struct edge *e)
{
    uint8_t vector;

    for (int i = 0; i < 3; i++) {
        if (edge_take(e, 0, &vector) == AVICEMU_DO_INJECT) {
            edge_write(e, 0, 0xb0, 0);
        }
    }
    return edge_bit(e, 0, 0x200, VECTOR) || edge_bit(e, 0, 0x100, VECTOR) ||
           (edge_read(e, 0, LVT_LINT0) & RIR) != 0;
}

/* ---- tests -------------------------------------------------------------- */

static const struct edge_row rows[] = {
    { "expire: a deadline against a rewritten timer",
      1,
      timer_due,
      new_tick_comes,
      2,
      { expire, rewrite } },
    { "expire: a deadline against block",
      1,
      due_and_idle,
      tick_taken,
      2,
      { expire, take_tick } },
    { "expire: a deadline against the guest",
      1,
      timer_due,
      tick_taken,
      2,
      { expire, guest_ticks } },
    { "expire: two tell it",
      1,
      due_and_idle,
      tick_taken,
      3,
      { expire, take_tick, expire } },
    { "error: an illegal vector against block",
      1,
      error_open,
      tick_taken,
      2,
      { post_illegal, take_tick } },
    { "error: an illegal vector against an error of its own",
      1,
      error_open,
      tick_taken,
      2,
      { post_illegal, own_error_then_tick } },
    { "lint: a level against its unmasking",
      1,
      lint_masked,
      level_served,
      2,
      { raise_pin, unmask } },
    { "rir: a level against its EOI",
      1,
      lint_in_service,
      level_served,
      2,
      { pulse_pin, eoi } },
    { "rir: a falling line against its EOI",
      1,
      lint_in_service,
      level_ends,
      2,
      { lower_pin, eoi } },
    { "rir: an edge of its vector against its EOI",
      1,
      lint_in_service,
      pin_is_free,
      2,
      { post_edge, eoi } },
    { "rir: a level against a new vector",
      1,
      lint_open,
      revectored,
      2,
      { raise_pin, revector } },
    { "event: INIT against a halted AP",
      2,
      ap_halted,
      init_taken,
      2,
      { init, ap_waits } },
    { "event: SIPI against an AP that waits for it",
      2,
      ap_waiting,
      started_once,
      2,
      { sipi, ap_waits } },
    { "event: INIT and a SIPI right behind it",
      2,
      NULL,
      started_once,
      2,
      { init_then_sipi, ap_looks } },
    { "event: NMIs against INIT",
      2,
      NULL,
      nmis_accounted,
      2,
      { nmi_init_nmi, ap_looks_once } },
    { "init: an edge against INIT and the enable",
      2,
      ap_restarts,
      post_accounted,
      2,
      { post_ap_edge, ap_restart } },
    { "init: a level against INIT and the enable",
      2,
      ap_restarts,
      post_accounted,
      2,
      { post_ap_level, ap_restart } },
    { "init: an edge against INIT and a snapshot",
      2,
      ap_restarts,
      posts_accounted,
      2,
      { post_ap_edge, ap_moves } },
    { "init: two posts against INIT and the enable",
      2,
      ap_restarts,
      posts_accounted,
      3,
      { post_ap_edge, ap_restart_shortly, post_ap_too } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
