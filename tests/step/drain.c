/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge drain, explored: batches of look-ups and wakes against removals. When
 * synchronize has returned the vCPU is marked as freed: no wake may see that,
 * and no tag may find a vCPU of another one's, also where the table's nodes
 * change places. G3, G6 and G7 are those of the kernel's table: a wait of
 * another kind is none; a look-up beside a removal; what must be there before
 * an entry is. (G1 and G2: teardown.c. G4 and G5: hv/test_vmtable.c. G8 is of
 * figures that time the look-up alone: fio-12x32 prints completions, too.)
 */

#include <string.h>

#include "base/alloc.h"
#include "base/rcu.h"
#include "edge.h"
#include "hv/vmtable.h"

/* In two leaves of one middle node; and where nothing else is. */
#define TAG_0   0x100u
#define TAG_1   0x200u
#define TAG_FAR 0x1000000u

#define NR_VCPUS 3u

/* In the edge's r: 1 wakes of what was freed, 2 another one's vCPU, 3 errors,
 * 4 wakes. */
static struct ae_vmtable table;
static struct ae_drain *drains[2];
static struct {
    uint32_t freed, made; /* the explorer's */
} vcpus[NR_VCPUS];

static void *
address(unsigned n)
{
    return &vcpus[n];
}

static int
prepare(struct edge *e, unsigned nr_vcpus, unsigned nr_drains)
{
    static const uint32_t tags[] = { TAG_0, TAG_1 };
    int r = ae_vmtable_init(&table, &ae_default_allocator, AE_TAG_24_8);

    (void)e;
    for (unsigned i = 0; i < NR_VCPUS; i++) {
        vcpus[i].freed = 0;
        vcpus[i].made = i < nr_vcpus;
    }
    for (unsigned i = 0; r == 0 && i < nr_drains; i++) {
        r = ae_drain_create(&table, &drains[i]);
    }
    for (unsigned i = 0; r == 0 && i < nr_vcpus; i++) {
        r = ae_vmtable_publish(&table, tags[i], address(i));
    }
    return r;
}

static int
one_drain(struct edge *e)
{
    return prepare(e, 1, 1);
}

static int
two_drains(struct edge *e)
{
    return prepare(e, 1, 2);
}

static int
two_vcpus(struct edge *e)
{
    return prepare(e, 2, 1);
}

static int
no_vcpu(struct edge *e)
{
    return prepare(e, 0, 1);
}

static int
no_drain(struct edge *e)
{
    return prepare(e, 1, 0);
}

/* ---- parties ------------------------------------------------------------ */

static void
wake(struct edge *e, uint32_t tag, unsigned n)
{
    struct avicemu_vcpu *vcpu = ae_vmtable_find(&table, tag);

    if (vcpu != NULL) {
        avicemu_step_here("found");
        e->r[1] += avicemu_step_load(&vcpus[n].freed, 4) != 0;
        e->r[2] += vcpu != address(n);
        e->r[2] += avicemu_step_load(&vcpus[n].made, 4) == 0;
        e->r[4]++;
    }
}

static void
batch_0(void *opaque)
{
    ae_drain_begin(drains[0]);
    wake(opaque, TAG_0, 0);
    ae_drain_end(drains[0]);
}

/* Of another drain, which finds nothing: the first one is waited for, too. */
static void
empty_batch(void *opaque)
{
    (void)opaque;
    ae_drain_begin(drains[1]);
    ae_drain_end(drains[1]);
}

static void
two_batches(void *opaque)
{
    batch_0(opaque);
    batch_0(opaque);
}

static void
batch_of_two(void *opaque)
{
    ae_drain_begin(drains[0]);
    wake(opaque, TAG_0, 0);
    wake(opaque, TAG_1, 1);
    ae_drain_end(drains[0]);
}

static void
register_and_batch(void *opaque)
{
    struct edge *e = opaque;

    e->r[3] += ae_drain_create(&table, &drains[0]) != 0;
    batch_0(e);
    ae_drain_destroy(&table, drains[0]);
}

static void
remove_0(void *opaque)
{
    (void)opaque;
    ae_vmtable_remove(&table, TAG_0);
    ae_vmtable_synchronize(&table);
    avicemu_step_store(&vcpus[0].freed, 4, 1);
}

static void
remove_both(void *opaque)
{
    (void)opaque;
    ae_vmtable_remove(&table, TAG_0);
    ae_vmtable_remove(&table, TAG_1);
    ae_vmtable_synchronize(&table);
    avicemu_step_store(&vcpus[0].freed, 4, 1);
    avicemu_step_store(&vcpus[1].freed, 4, 1);
}

/* As if any grace period would do. */
static void
remove_0_other_grace(void *opaque)
{
    (void)opaque;
    ae_vmtable_remove(&table, TAG_0);
    ae_rcu_synchronize();
    avicemu_step_store(&vcpus[0].freed, 4, 1);
}

static void
make_and_publish_0(void *opaque)
{
    struct edge *e = opaque;

    avicemu_step_store(&vcpus[0].made, 4, 1);
    e->r[3] += ae_vmtable_publish(&table, TAG_0, address(0)) != 0;
}

/* The nodes that TAG_0 had serve again for another vCPU. */
static void
remove_0_publish_far(void *opaque)
{
    struct edge *e = opaque;

    remove_0(e);
    e->r[3] += ae_vmtable_publish(&table, TAG_FAR, address(2)) != 0;
}

static void
remove_1(void *opaque)
{
    (void)opaque;
    ae_vmtable_remove(&table, TAG_1);
    ae_vmtable_synchronize(&table);
    avicemu_step_store(&vcpus[1].freed, 4, 1);
}

/* A vCPU that comes back to the leaf it emptied, before and while another one's
 * remover prunes. */
static void
remove_0_publish_0(void *opaque)
{
    struct edge *e = opaque;

    ae_vmtable_remove(&table, TAG_0);
    e->r[3] += ae_vmtable_publish(&table, TAG_0, address(0)) != 0;
    ae_vmtable_remove(&table, TAG_0);
    ae_vmtable_synchronize(&table);
    avicemu_step_store(&vcpus[0].freed, 4, 1);
}

/* ---- rows --------------------------------------------------------------- */

static int
well(struct edge *e)
{
    ae_vmtable_remove(&table, TAG_FAR);
    ae_vmtable_synchronize(&table);
    int left = table.root->nr != 0;

    ae_vmtable_fini(&table);
    return e->r[1] != 0 || e->r[2] != 0 || e->r[3] != 0 || left;
}

static int
well_after_publication(struct edge *e)
{
    ae_vmtable_remove(&table, TAG_0);
    return well(e);
}

static const struct edge_row right[] = {
    { "drain: a batch against a removal",
      0,
      one_drain,
      well,
      2,
      { batch_0, remove_0 } },
    { "drain: two batches of one drain against a removal",
      0,
      one_drain,
      well,
      2,
      { two_batches, remove_0 } },
    { "drain: two drains against a removal",
      0,
      two_drains,
      well,
      3,
      { batch_0, empty_batch, remove_0 } },
    { "drain: a batch of two against their removals",
      0,
      two_vcpus,
      well,
      2,
      { batch_of_two, remove_both } },
    { "drain: G6, a batch against nodes that change places",
      0,
      one_drain,
      well,
      2,
      { batch_0, remove_0_publish_far } },
    { "drain: a batch against a leaf emptied and filled again",
      0,
      one_drain,
      well,
      2,
      { batch_0, remove_0_publish_0 } },
    { "drain: two removers that empty a middle node",
      0,
      two_vcpus,
      well,
      2,
      { remove_0, remove_1 } },
    { "drain: a leaf emptied and filled again against another's remover",
      0,
      two_vcpus,
      well,
      2,
      { remove_0_publish_0, remove_1 } },
    { "drain: G7, a batch against a publication",
      0,
      no_vcpu,
      well_after_publication,
      2,
      { batch_0, make_and_publish_0 } },
    { "drain: a registration against a removal",
      0,
      no_drain,
      well,
      2,
      { register_and_batch, remove_0 } },
};

static const struct edge_row wrong[] = {
    { "drain: G3, another grace period",
      0,
      one_drain,
      well,
      2,
      { batch_0, remove_0_other_grace } },
};

int
main(int argc, char **argv)
{
    bool is_wrong = argc > 2 && strcmp(argv[2], wrong[0].name) == 0;

    return is_wrong
               ? edge_main(wrong, 1, argc, argv)
               : edge_main(right, sizeof(right) / sizeof(right[0]), argc, argv);
}
