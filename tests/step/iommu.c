/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * COMPLETION_WAIT, explored: against interrupts under way, with and without
 * caches, and against the engine that two sides hold in turn. Edges epoch,
 * done, engine, drop.
 *
 * A row must also have seen the wait ended by either side: by software, who
 * moved the tail, and by the interrupt that it waited for.
 */

#include <string.h>

#include "iommu_machine.h"

enum seen {
    SEEN_SOFTWARE_ENDS = 1u << 0,
    SEEN_INTERRUPT_ENDS = 1u << 1,
};

/* Interrupts that have read their entry already. */
static struct ae_msi late[2];

/* ---- machines ----------------------------------------------------------- */

static int
with_caches(struct edge *e, enum machine_caches caches)
{
    e->must = SEEN_SOFTWARE_ENDS | SEEN_INTERRUPT_ENDS;
    return machine_make(caches, true, 0);
}

static int
plain(struct edge *e)
{
    return with_caches(e, CACHE_NONE);
}

static int
empty_cache(struct edge *e)
{
    return with_caches(e, CACHE_IRTE);
}

static int
full(struct edge *e, enum machine_caches caches)
{
    struct ae_msi msi;
    int r = with_caches(e, caches);

    machine_interrupt(e, &msi);
    return r;
}

static int
full_cache(struct edge *e)
{
    return full(e, CACHE_IRTE);
}

static int
full_caches(struct edge *e)
{
    return full(e, CACHE_BOTH);
}

static void
begin_until(struct ae_msi *msi, enum ae_msi_event event)
{
    memset(msi, 0, sizeof(*msi));
    ae_rcu_enter();
    ae_msi_begin(msi, &machine, 0, 0xfee00000u, 0);
    while (ae_msi_step(msi) != event) {
    }
    ae_rcu_leave();
}

/* An interrupt has read its entry, and set no bit yet. */
static int
one_under_way(struct edge *e)
{
    int r = plain(e);

    begin_until(&late[0], AE_MSI_FETCHED);
    return r;
}

/* A second one has set its bit. */
static int
two_under_way(struct edge *e)
{
    int r = one_under_way(e);

    begin_until(&late[1], AE_MSI_REREAD);
    return r;
}

/* One has found nothing in the cache and is about to read memory; the other one
 * has filled it and set its bit. */
static int
two_cached(struct edge *e)
{
    int r = empty_cache(e);

    begin_until(&late[0], AE_MSI_DTE);
    begin_until(&late[1], AE_MSI_REREAD);
    return r;
}

/* ---- devices ------------------------------------------------------------ */

static void
end(struct edge *e, const struct ae_msi *msi)
{
    if ((msi->signals & AE_IOMMU_SIGNAL_EVENT) != 0) {
        e->seen |= SEEN_INTERRUPT_ENDS;
    }
    e->r[FOUND_WRONG] += msi->outcome != AE_MSI_POSTED;
}

static void
post(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    machine_interrupt(e, &msi);
    end(e, &msi);
}

static void
post_or_abort(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    machine_interrupt(e, &msi);
    if (msi.outcome == AE_MSI_ABORTED) {
        msi.outcome = AE_MSI_POSTED;
    }
    end(e, &msi);
}

static void
finish(struct edge *e, struct ae_msi *msi)
{
    ae_rcu_enter();
    ae_msi_run(msi);
    ae_rcu_leave();
    machine_count(e, msi->signals);
    end(e, msi);
}

static void
finish_0(void *opaque)
{
    finish(opaque, &late[0]);
}

static void
finish_1(void *opaque)
{
    finish(opaque, &late[1]);
}

/* Of an interrupt only that it is counted. */
static void
enter_and_leave(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi = { .outcome = AE_MSI_POSTED };

    ae_rcu_enter();
    ae_iommu_leave(&machine, ae_iommu_enter(&machine, &msi.signals),
                   &msi.signals);
    ae_rcu_leave();
    machine_count(e, msi.signals);
    end(e, &msi);
}

/* ---- software ----------------------------------------------------------- */

/* The tail behind a wait; who ends it is signalled. */
static void
tail_behind(struct edge *e, unsigned n)
{
    uint64_t before = e->r[FOUND_EVENTS];

    machine_tail(e, n);
    if (e->r[FOUND_EVENTS] != before) {
        e->seen |= SEEN_SOFTWARE_ENDS;
    }
}

/* Commands until here, a wait behind them, and its word. */
static void
wait_behind(struct edge *e, unsigned n)
{
    tail_behind(e,
                machine_command(PAGE_COMMANDS, n, machine_wait_command(0), 1));
    machine_wait_for(0);
}

/* To another page; when nobody goes by the old entry, the old page is poisoned.
 */
static void
move(struct edge *e, uint64_t invalidation)
{
    machine_retarget(PAGE_B, true);
    wait_behind(e, machine_command(PAGE_COMMANDS, 0, invalidation, 0));
    machine_poison(PAGE_A);
}

static void
retarget_only(void *opaque)
{
    move(opaque, 5ull << 60);
}

/* Then an interrupt of one's own must go to the new one. */
static void
retarget_by(struct edge *e, uint64_t invalidation)
{
    struct ae_msi msi;

    move(e, invalidation);
    machine_interrupt(e, &msi);
    e->r[FOUND_WRONG] += msi.outcome != AE_MSI_POSTED ||
                         msi.remap.irte.root != machine_address(PAGE_B);
}

static void
retarget(void *opaque)
{
    retarget_by(opaque, 5ull << 60);
}

static void
retarget_all(void *opaque)
{
    retarget_by(opaque, 8ull << 60);
}

/* To another page and back, so that an interrupt may have slept through an
 * epoch: nobody goes to the other one afterwards. */
static void
retarget_twice(void *opaque)
{
    struct edge *e = opaque;

    machine_retarget(PAGE_B, true);
    unsigned n = machine_command(PAGE_COMMANDS, 0, 5ull << 60, 0);

    wait_behind(e, n);
    machine_retarget(PAGE_A, true);
    n = machine_command(PAGE_COMMANDS, n + 1, 5ull << 60, 0);
    wait_behind(e, n);
    machine_poison(PAGE_B);
}

/* The device table's own entry: no device any more. */
static void
unplug(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    /* IV, IntCtl 0: abort. */
    ae_store_seqcst_u64(machine_word(PAGE_DTES, 2), 1);
    unsigned n = machine_command(PAGE_COMMANDS, 0, 2ull << 60, 0);

    wait_behind(e, machine_command(PAGE_COMMANDS, n, 5ull << 60, 0));
    machine_poison(PAGE_A);
    machine_interrupt(e, &msi);
    e->r[FOUND_WRONG] += msi.outcome != AE_MSI_ABORTED;
}

/* Two waits, each with a tail of its own, the second put in whenever. */
static void
wait_twice(void *opaque)
{
    struct edge *e = opaque;
    unsigned n = machine_command(PAGE_COMMANDS, 0, machine_wait_command(0), 1);

    tail_behind(e, n);
    tail_behind(e,
                machine_command(PAGE_COMMANDS, n, machine_wait_command(1), 1));
    machine_wait_for(0);
    machine_wait_for(1);
}

/* Stop with a wait and a command behind it in the ring, as a driver that then
 * may do what it likes with the ring: begin another one. */
static void
move_ring(void *opaque)
{
    struct edge *e = opaque;
    uint64_t base = machine_address(PAGE_COMMANDS_2) | 8ull << 56;
    uint64_t control = machine_read(AVICEMU_IOMMU_CONTROL);

    unsigned n = machine_command(PAGE_COMMANDS, 0, machine_wait_command(0), 1);

    tail_behind(e, machine_command(PAGE_COMMANDS, n, 5ull << 60, 0));
    machine_write(e, AVICEMU_IOMMU_CONTROL,
                  control & ~AVICEMU_CONTROL_CMD_BUF_EN);
    while ((machine_read(AVICEMU_IOMMU_STATUS) & AVICEMU_STATUS_CMD_BUF_RUN) !=
           0) {
        ae_step_relax("run");
    }
    machine_write(e, AVICEMU_IOMMU_COMMAND_BASE, base);
    e->r[FOUND_WRONG] += machine_read(AVICEMU_IOMMU_COMMAND_BASE) != base;
    machine_write(e, AVICEMU_IOMMU_CONTROL, control);
    machine_tail(
        e, machine_command(PAGE_COMMANDS_2, 0, machine_wait_command(1), 1));
    machine_wait_for(0);
    machine_wait_for(1);
}

/* ---- checks ------------------------------------------------------------- */

/* Nothing came into page A after the wait was done, which it was once. */
static int
settled(struct edge *e)
{
    return !machine_is_idle(e) || e->r[FOUND_EVENTS] != 1 ||
           !machine_is_poison(PAGE_A);
}

static int
back(struct edge *e)
{
    return !machine_is_idle(e) || e->r[FOUND_EVENTS] != 1 ||
           !machine_is_poison(PAGE_B);
}

/* What began before the waits may go on after them: only that they end. Their
 * status bit is never cleared: one signal. */
static int
done(struct edge *e)
{
    return !machine_is_idle(e) || e->r[FOUND_EVENTS] != 1;
}

static const struct edge_row rows[] = {
    { "epoch, done: an interrupt against a wait",
      0,
      plain,
      settled,
      2,
      { post, retarget } },
    { "done: one before its bit, one behind it, against a wait",
      0,
      two_under_way,
      settled,
      3,
      { finish_0, finish_1, retarget_only } },
    { "epoch, done: one before its bit, one that begins, against a wait",
      0,
      one_under_way,
      settled,
      3,
      { finish_0, enter_and_leave, retarget_only } },
    { "epoch: an interrupt against two waits, to another page and back",
      0,
      plain,
      back,
      2,
      { post, retarget_twice } },
    { "epoch, drop: an interrupt, with a full cache",
      0,
      full_cache,
      settled,
      2,
      { post, retarget } },
    { "epoch, drop: an interrupt, with an empty cache",
      0,
      empty_cache,
      settled,
      2,
      { post, retarget } },
    { "epoch, drop: one that fills the cache, one behind its bit",
      0,
      two_cached,
      settled,
      3,
      { finish_0, finish_1, retarget } },
    { "epoch, drop: INVALIDATE_IOMMU_ALL, with an empty cache",
      0,
      empty_cache,
      settled,
      2,
      { post, retarget_all } },
    { "epoch, drop: the device table's entry, with full caches",
      0,
      full_caches,
      settled,
      2,
      { post_or_abort, unplug } },
    { "engine, done: an interrupt against two waits",
      0,
      plain,
      done,
      2,
      { post, wait_twice } },
    { "engine, done: two that leave against two waits",
      0,
      two_under_way,
      done,
      3,
      { finish_0, finish_1, wait_twice } },
    { "epoch, engine: one that is only counted against two waits",
      0,
      plain,
      done,
      2,
      { enter_and_leave, wait_twice } },
    { "engine, ring: one that ends a wait against a ring that is moved",
      0,
      one_under_way,
      done,
      2,
      { finish_0, move_ring } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
