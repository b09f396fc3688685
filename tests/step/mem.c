/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge mem, explored: a walk of the memory map against the removal of what it
 * may find. When remove has returned the memory behind the region is given
 * another content: no walk may see that.
 */

#include "base/mem.h"

#include <string.h>

#include "base/rcu.h"
#include "edge.h"

#define BASE 0x100000u

/* In the edge's r: 1 what walks saw wrong, 2 errors of the changes. */
static struct ae_mem map;
static _Alignas(4096) unsigned char page[4096];

static int
map_one(struct edge *e)
{
    memset(page, 0, sizeof(page));
    ae_mem_init(&map, &ae_default_allocator);
    (void)e;
    return ae_mem_add(&map, BASE, sizeof(page), page);
}

static void
walk(void *opaque)
{
    struct edge *e = opaque;

    ae_rcu_enter();
    const unsigned char *p = ae_mem_find(&map, BASE + 64, 64);

    if (p != NULL) {
        e->r[1] += avicemu_step_load(p, 4) != 0;
    }
    ae_rcu_leave();
}

static void
take_away(void *opaque)
{
    struct edge *e = opaque;

    e->r[2] += (uint64_t)-ae_mem_remove(&map, BASE);
    avicemu_step_store(page + 64, 4, 1);
}

static void
add_beside(void *opaque)
{
    struct edge *e = opaque;

    e->r[2] +=
        (uint64_t)-ae_mem_add(&map, BASE + sizeof(page), sizeof(page), page);
}

static int
gone(struct edge *e)
{
    ae_rcu_enter();
    int found = ae_mem_find(&map, BASE, 1) != NULL;

    ae_rcu_leave();
    ae_mem_fini(&map);
    return e->r[1] != 0 || e->r[2] != 0 || found;
}

static const struct edge_row rows[] = {
    { "mem: a walk against a removal",
      0,
      map_one,
      gone,
      2,
      { walk, take_away } },
    { "mem: a walk against a removal and an addition",
      0,
      map_one,
      gone,
      3,
      { walk, take_away, add_beside } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
