/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posted interrupts against what a vCPU does meanwhile, explored: it blocks, is
 * put, loses AVIC, its entry comes or goes, it is destroyed. Edges follow,
 * notify. Who posts, or the check behind all, is the notifier, too, if the
 * GA-log interrupt came; a sleeper that nobody wakes is a deadlock.
 */

#include "avic_edge.h"

#define DEVICE 8u
#define VECTOR 0x51u

/* ---- machine ------------------------------------------------------------ */

static int
route(struct edge *e, unsigned vcpu)
{
    return avicemu_iommu_route(e->iommu, DEVICE, 0, e->v[vcpu].vcpu, VECTOR);
}

static int
machine(struct edge *e, enum avic_edge_host host, unsigned nr)
{
    const struct avicemu_iommu_config config = {
        .size = sizeof(config),
        .nr_device_ids = 16,
        .max_devices = 1,
        .irqs_per_device = 1,
    };
    int r = avic_edge(e, host, nr);

    avicemu_step_store(&e->ga, 4, 0);
    r = r != 0 ? r : avicemu_iommu_create(e->host, &config, &e->iommu);
    return r != 0 ? r : avicemu_iommu_add_device(e->iommu, DEVICE, 1);
}

static int
posted_words(struct edge *e)
{
    int r = machine(e, AVIC_EDGE_WORD, 1);

    return r != 0 ? r : route(e, 0);
}

static int
posted_kicks(struct edge *e)
{
    int r = machine(e, AVIC_EDGE_KICK, 1);

    return r != 0 ? r : route(e, 0);
}

static int
not_posted(struct edge *e)
{
    return machine(e, AVIC_EDGE_WORD, 1);
}

/* Both vCPUs are blocked, the first one has the entry. */
static int
asleep(struct edge *e)
{
    int r = machine(e, AVIC_EDGE_WORD, 2);

    r = r != 0 ? r : route(e, 0);
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        r = avicemu_vcpu_block_begin(e->v[i].vcpu) == AVICEMU_SLEEP_YES ? 0
                                                                        : -1;
    }
    return r;
}

static void
unmake(struct edge *e)
{
    (void)avicemu_iommu_remove_device(e->iommu, DEVICE);
    (void)avicemu_iommu_destroy(e->iommu);
}

/* ---- parties ------------------------------------------------------------ */

static void
post_only(void *opaque)
{
    struct edge *e = opaque;
    struct avicemu_iommu_posted posted;
    uint64_t address = 0;
    uint32_t data = 0;

    (void)avicemu_iommu_message(e->iommu, DEVICE, 0, &address, &data);
    (void)avicemu_iommu_msi(e->iommu, DEVICE, address, data, &posted);
    e->r[0] += posted.posted.nr_new;
    e->r[1] += posted.posted.nr_dropped;
}

/* The handler of the interrupt, if it came. */
static void
handle(struct edge *e)
{
    if (avicemu_step_load(&e->ga, 4) != 0) {
        (void)avicemu_iommu_notify(e->iommu);
    }
}

static void
post(void *opaque)
{
    post_only(opaque);
    handle(opaque);
}

static void
route_first(void *opaque)
{
    (void)route(opaque, 0);
}

static void
block(void *opaque)
{
    (void)edge_halt(opaque, 0);
}

static void
begin_to_block(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_block_begin(e->v[0].vcpu);
}

static void
put_and_block(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_put(e->v[0].vcpu);
    (void)edge_halt(e, 0);
}

static void
block_then_put(void *opaque)
{
    struct edge *e = opaque;
    struct edge_vcpu *v = &e->v[0];

    if (avicemu_vcpu_block_begin(v->vcpu) != AVICEMU_SLEEP_YES) {
        return;
    }
    (void)avicemu_vcpu_put(v->vcpu);
    while (avicemu_step_load(&v->woken, 4) == 0) {
        avicemu_step_relax("asleep");
    }
    (void)avicemu_vcpu_block_end(v->vcpu);
}

/* AVIC goes off; the vCPU follows at an entry, and blocks without it. */
static void
flip_and_block(void *opaque)
{
    struct edge *e = opaque;
    uint8_t vector;

    (void)avicemu_vm_inhibit(e->vm, AVICEMU_INHIBIT_BLOCKIRQ, 1);
    if ((edge_enter(e, 0, &vector) & AVICEMU_DO_INJECT) != 0) {
        edge_exit(e, 0);
        return;
    }
    edge_exit(e, 0);
    (void)avicemu_vcpu_set_halted(e->v[0].vcpu);
    (void)edge_halt(e, 0);
}

static void
retarget(void *opaque)
{
    (void)route(opaque, 1);
}

static void
destroy(void *opaque)
{
    struct edge *e = opaque;

    e->r[2] = avicemu_vcpu_destroy(e->v[0].vcpu) != 0;
    avicemu_step_store(&e->v[0].gone, 4, 1);
    e->v[0].vcpu = NULL;
}

static void
notify(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_iommu_notify(e->iommu);
}

/* ---- checks ------------------------------------------------------------- */

/* It came, and nobody sleeps on it; the entry is where it should be. */
static int
there(struct edge *e)
{
    int bad = e->r[0] != 1 || !edge_bit(e, 0, 0x200, VECTOR);

    unmake(e);
    return bad;
}

/* Who has the bit was woken, once; by the handler at the latest. */
static int
woken(struct edge *e)
{
    unsigned nr = 0, bad = 0;

    handle(e);
    for (unsigned i = 0; i < 2; i++) {
        if (edge_bit(e, i, 0x200, VECTOR)) {
            nr++;
            bad +=
                avicemu_step_load(&e->v[i].woken, 4) == 0 || e->v[i].wakes != 1;
        }
    }
    unmake(e);
    return bad != 0 || nr != e->r[0] || nr == 0;
}

/* The entry has it blocked: a device wakes it. */
static int
reachable(struct edge *e)
{
    post(e);
    return woken(e);
}

/* Delivered to the one that goes, or to the host: dropped. */
static int
gone(struct edge *e)
{
    int bad = e->r[2] != 0 || e->r[0] + e->r[1] != 1;

    unmake(e);
    return bad;
}

static const struct edge_row rows[] = {
    { "posting: a device against block, words",
      0,
      posted_words,
      there,
      2,
      { post, block } },
    { "posting: a device against block, kicks",
      0,
      posted_kicks,
      there,
      2,
      { post, block } },
    { "posting: a device against put, then block",
      0,
      posted_words,
      there,
      2,
      { post, put_and_block } },
    { "posting: a device against block, then put",
      0,
      posted_words,
      there,
      2,
      { post, block_then_put } },
    { "follow: a new entry against block",
      0,
      not_posted,
      reachable,
      2,
      { route_first, begin_to_block } },
    { "posting: a device against AVIC off, then block",
      0,
      posted_words,
      there,
      2,
      { post, flip_and_block } },
    { "posting: a device against a new target, both asleep",
      0,
      asleep,
      woken,
      2,
      { post_only, retarget } },
    { "posting: a device against destroy",
      0,
      posted_words,
      gone,
      2,
      { post_only, destroy } },
    { "notify: an entry, and a second notifier",
      0,
      asleep,
      woken,
      2,
      { post_only, notify } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
