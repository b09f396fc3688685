/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IOMMU's status bits, explored: against their handler and their enable.
 * Edges status, signal.
 */

#include <string.h>

#include "iommu_machine.h"

static struct ae_msi late[2];

/* ---- machines ----------------------------------------------------------- */

/* Nothing is logged yet. */
static int
enabled(struct edge *e)
{
    (void)e;
    return machine_make(CACHE_NONE, false, AVICEMU_CONTROL_GA_INT_EN);
}

/* One entry is in the log, and its bit is set. */
static int
logging(struct edge *e)
{
    struct ae_msi msi;
    int r = enabled(e);

    machine_interrupt(e, &msi);
    e->r[FOUND_WRONG] += e->r[FOUND_GAS] != 1;
    e->r[FOUND_GAS] = 0;
    return r;
}

static int
masked(struct edge *e)
{
    (void)e;
    return machine_make(CACHE_NONE, false, 0);
}

/* Two entries are written, and the tail is before them. */
static int
two_written(struct edge *e)
{
    memset(late, 0, sizeof(late));
    ae_rcu_enter();
    for (unsigned i = 0; i < 2; i++) {
        ae_msi_begin(&late[i], &machine, 0, 0xfee00000u, 0);
        while (ae_msi_step(&late[i]) != AE_MSI_LOGGED) {
        }
    }
    ae_rcu_leave();
    (void)e;
    return 0;
}

static int
two_after_one(struct edge *e)
{
    return logging(e) + two_written(e);
}

static int
two_masked(struct edge *e)
{
    return masked(e) + two_written(e);
}

/* ---- parties ------------------------------------------------------------ */

static void
post(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    machine_interrupt(e, &msi);
    e->r[FOUND_WRONG] += msi.outcome != AE_MSI_POSTED || msi.nr_logged != 1;
}

static void
finish(struct edge *e, struct ae_msi *msi)
{
    ae_rcu_enter();
    ae_msi_run(msi);
    ae_rcu_leave();
    machine_count(e, msi->signals);
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

/* The GA log's handler, as a driver has it: once. */
static void
handle(void *opaque)
{
    if ((machine_read(AVICEMU_IOMMU_STATUS) & AVICEMU_STATUS_GA_INT) != 0) {
        machine_write(opaque, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
        machine_write(opaque, AVICEMU_IOMMU_GA_HEAD,
                      machine_read(AVICEMU_IOMMU_GA_TAIL));
    }
}

static void
enable(void *opaque)
{
    machine_write(opaque, AVICEMU_IOMMU_CONTROL,
                  machine_read(AVICEMU_IOMMU_CONTROL) |
                      AVICEMU_CONTROL_GA_INT_EN);
}

/* ---- checks ------------------------------------------------------------- */

static bool
is_pending(void)
{
    return (machine_read(AVICEMU_IOMMU_STATUS) & AVICEMU_STATUS_GA_INT) != 0;
}

/* No entry lies unseen with the bit clear; the bit was cleared once, so that it
 * is set now if it rose again, and each rise is one signal. */
static int
seen(struct edge *e)
{
    bool is_unseen = machine_read(AVICEMU_IOMMU_GA_HEAD) !=
                     machine_read(AVICEMU_IOMMU_GA_TAIL);

    return !machine_is_idle(e) || (is_unseen && !is_pending()) ||
           e->r[FOUND_GAS] != (is_pending() ? 1 : 0);
}

/* Of two entries the first one to be visible raises the bit. */
static int
once(struct edge *e)
{
    return !machine_is_idle(e) || !is_pending() || e->r[FOUND_GAS] != 1;
}

/* Twice: who set the bit saw the enable, who set the enable the bit. */
static int
signalled(struct edge *e)
{
    return !machine_is_idle(e) || !is_pending() || e->r[FOUND_GAS] < 1 ||
           e->r[FOUND_GAS] > 2;
}

static const struct edge_row rows[] = {
    { "status: an entry against the handler of one before",
      0,
      logging,
      seen,
      2,
      { post, handle } },
    { "status: two entries against the handler of one before",
      0,
      two_after_one,
      seen,
      3,
      { finish_0, finish_1, handle } },
    { "status: two entries", 0, enabled, once, 2, { post, post } },
    { "signal: an entry against the enable",
      0,
      masked,
      signalled,
      2,
      { post, enable } },
    { "signal: two entries against the enable",
      0,
      two_masked,
      signalled,
      3,
      { finish_0, finish_1, enable } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
