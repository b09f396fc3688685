/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge irte, explored: interrupts that are posted through an entry against its
 * vCPU's block, and against an entry that comes to name another vCPU.
 */

#include "hw/irte.h"

#include <string.h>

#include "base/rcu.h"
#include "edge.h"

#define TABLE  0x100000u
#define PAGE_A 0x101000u
#define PAGE_B 0x102000u
#define FLAGS  (AE_IRTE_GA | AE_IRTE_GUEST)
#define TAG_A  0xau
#define TAG_B  0xbu

/* In the edge's r: 0 bit of page A seen by the scan; 1 tag A was notified, 2
 * tag B; 3 doorbells; 4 what went wrong; 5 posts. */
static struct ae_mem map;
static AE_ALIGNED(4096) unsigned char memory[3 * 4096];
static struct ae_remapper remapper = { .mem = &map };

static struct ae_atomic16 *
slot(void)
{
    return (struct ae_atomic16 *)(void *)memory;
}

static uint32_t
irr_word(uint32_t page)
{
    return (uint32_t)avicemu_step_load(memory + (page - TABLE) + 0x220, 4);
}

static struct ae_u128
entry(uint32_t tag, bool run)
{
    const struct ae_irte e = {
        .guest_mode = true,
        .vector = tag == TAG_A ? 0x41 : 0x42,
        .dest = tag,
        .ga_tag = tag,
        .root = tag == TAG_A ? PAGE_A : PAGE_B,
        .is_run = run,
        .ga_log_intr = !run,
    };

    return ae_irte_encode(&e);
}

static int
make(uint32_t tag, bool run)
{
    memset(memory, 0, sizeof(memory));
    ae_mem_init(&map, &ae_default_allocator);
    (void)ae_irte_replace(slot(), entry(tag, run));
    return ae_mem_add(&map, TABLE, sizeof(memory), memory);
}

static int
runs(struct edge *e)
{
    (void)e;
    return make(TAG_A, true);
}

static int
blocked(struct edge *e)
{
    (void)e;
    return make(TAG_A, false);
}

/* ---- parties ------------------------------------------------------------ */

static void
post(void *opaque)
{
    struct edge *e = opaque;
    struct ae_remap r = { .near_table = 0 };

    ae_remap_begin(&r, &remapper, FLAGS, TABLE, NULL);
    ae_rcu_enter();
    while (ae_remap_step(&r) != AE_REMAP_FINISHED) {
    }
    ae_rcu_leave();
    e->r[5]++;
    e->r[4] += r.outcome != AE_REMAP_POSTED;
    for (unsigned i = 0; i < r.nr_notices; i++) {
        if (r.notices[i].kind == AE_NOTICE_DOORBELL) {
            e->r[3]++;
        } else {
            e->r[1] += r.notices[i].ga_tag == TAG_A;
            e->r[2] += r.notices[i].ga_tag == TAG_B;
        }
    }
}

/* The put of a vCPU that blocks, then its last look. */
static void
block(void *opaque)
{
    struct edge *e = opaque;
    const struct ae_irte value = { .ga_log_intr = true };

    e->r[4] +=
        !ae_irte_update(slot(), AE_IRTE_SET_RUN | AE_IRTE_SET_LOG, &value);
    e->r[0] = (irr_word(PAGE_A) & 2) != 0;
}

static void
retarget(void *opaque)
{
    struct edge *e = opaque;
    struct ae_u128 was = ae_irte_replace(slot(), entry(TAG_B, false));

    e->r[4] += !ae_u128_equal(was, entry(TAG_A, false));
}

/* ---- checks ------------------------------------------------------------- */

/* Each vector in its own page only; a vCPU with a bit is told. */
static int
nobody_sleeps(struct edge *e)
{
    uint32_t a = irr_word(PAGE_A);
    uint32_t b = irr_word(PAGE_B);

    ae_mem_fini(&map);
    return e->r[4] != 0 || (a & ~2u) != 0 || (b & ~4u) != 0 || (a | b) == 0 ||
           (a != 0 && e->r[0] == 0 && e->r[1] == 0) || (b != 0 && e->r[2] == 0);
}

static const struct edge_row rows[] = {
    { "irte: a post against a block",
      0,
      runs,
      nobody_sleeps,
      2,
      { post, block } },
    { "irte: two posts against a block",
      0,
      runs,
      nobody_sleeps,
      3,
      { post, post, block } },
    { "irte: two posts against a new target",
      0,
      blocked,
      nobody_sleeps,
      3,
      { post, post, retarget } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
