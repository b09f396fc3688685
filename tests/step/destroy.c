/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is there, explored on the library's own sources: pin and the grace
 * period (destroy against a message), vcpu (hot-add), ident (a map that changes
 * under an IPI; cases SEC-02), and whose the IPIs are when an index changes
 * hands.
 */

#include "edge.h"

#define VECTOR        0x41
#define X2APIC        0xfee00c00u
#define MSR_APIC_BASE 0x1bu

static void
count(struct edge *e, uint64_t address)
{
    struct avicemu_posted posted = { .why = 0 };

    (void)avicemu_msi(e->vm, address, VECTOR, &posted);
    e->r[0] += posted.nr_new;
    e->r[1] += posted.nr_dropped;
}

/* ---- destroy ------------------------------------------------------------ */

static void
msi_to_1(void *opaque)
{
    count(opaque, edge_msi_address(1));
}

static void
msi_to_1_twice(void *opaque)
{
    msi_to_1(opaque);
    msi_to_1(opaque);
}

static void
msi_to_all(void *opaque)
{
    count(opaque, edge_msi_address(0xff));
}

static void
destroy_1(void *opaque)
{
    struct edge *e = opaque;

    e->r[2] = (uint64_t)-avicemu_vcpu_destroy(e->v[1].vcpu);
    e->v[1].vcpu = NULL;
    avicemu_step_store(&e->v[1].gone, 4, 1);
}

/* A message that came between begin and end still calls, perhaps late. */
static void
sleep_and_destroy_1(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_vcpu_block_begin(e->v[1].vcpu);
    (void)avicemu_vcpu_block_end(e->v[1].vcpu);
    destroy_1(e);
}

static int
halt_1(struct edge *e)
{
    uint8_t vector;

    (void)edge_enter(e, 1, &vector);
    edge_exit(e, 1);
    return avicemu_vcpu_set_halted(e->v[1].vcpu);
}

static int
new_or_dropped(struct edge *e)
{
    return e->r[0] + e->r[1] != 1 || e->r[2] != 0 ||
           avicemu_vm_nr_vcpus(e->vm) != 1;
}

/* One that stays, and one that may have been seen. */
static int
one_or_two(struct edge *e)
{
    return e->r[0] < 1 || e->r[0] > 2 || e->r[1] != 0 || e->r[2] != 0;
}

/* Out, and another one with the same id in. */
static void
replace_1(void *opaque)
{
    struct edge *e = opaque;

    e->r[2] = (uint64_t)-avicemu_vcpu_destroy(e->v[1].vcpu);
    e->r[2] +=
        (uint64_t)-avicemu_vcpu_create(e->vm, 1, &e->v[1], &e->v[1].vcpu);
}

/* The new one's APIC is still off for software. */
static int
old_or_refused(struct edge *e)
{
    return e->r[2] != 0 || e->r[0] + e->r[1] != 1 ||
           edge_bit(e, 1, 0x200, VECTOR);
}

/* ---- hot-add ------------------------------------------------------------ */

static void
add_1(void *opaque)
{
    struct edge *e = opaque;

    e->v[1].edge = e;
    e->r[2] = (uint64_t)-avicemu_vcpu_create(e->vm, 1, &e->v[1], &e->v[1].vcpu);
    avicemu_step_store(&e->r[4], 4, 1);
}

/* An NMI needs no enabled APIC: it arrives, or the target is not there yet. */
static void
nmi_to_1(void *opaque)
{
    struct edge *e = opaque;
    struct avicemu_posted posted = { .why = 0 };

    e->r[3] = avicemu_step_load(&e->r[4], 4);
    (void)avicemu_msi(e->vm, edge_msi_address(1), 0x400, &posted);
    e->r[0] = posted.nr_new;
    e->r[1] = posted.nr_dropped;
}

static int
added(struct edge *e)
{
    return e->r[2] != 0 || e->r[0] + e->r[1] != 1 ||
           (e->r[3] == 1 && e->r[0] != 1);
}

/* ---- the map ------------------------------------------------------------ */

static void
mode_1(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_msr_write(e->v[1].vcpu, MSR_APIC_BASE, X2APIC);
}

static void
rename_1(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 1, 0x20, 0x09000000);
    avicemu_step_store(&e->r[4], 4, 1);
}

static void
ldr_1(void *opaque)
{
    struct edge *e = opaque;

    edge_write(e, 1, 0xd0, 0x02000000);
    avicemu_step_store(&e->r[4], 4, 1);
}

static void
off_1(void *opaque)
{
    struct edge *e = opaque;

    (void)avicemu_msr_write(e->v[1].vcpu, MSR_APIC_BASE, 0xfee00000u);
}

static void
msi_to_1_and_0(void *opaque)
{
    count(opaque, edge_msi_address(1));
    count(opaque, edge_msi_address(0));
}

static void
msi_to_9(void *opaque)
{
    struct edge *e = opaque;

    e->r[3] = avicemu_step_load(&e->r[4], 4);
    count(e, edge_msi_address(9));
}

static void
msi_to_logical_2(void *opaque)
{
    struct edge *e = opaque;

    e->r[3] = avicemu_step_load(&e->r[4], 4);
    count(e, edge_msi_address(2) | 4);
}

static void
ldr_0(void *opaque)
{
    edge_write(opaque, 0, 0xd0, 0x04000000);
}

/* Two wrote the map at once: it names both. */
static int
both_named(struct edge *e)
{
    e->r[4] = 0;
    count(e, edge_msi_address(6) | 4);
    return e->r[0] != 2 || !edge_bit(e, 0, 0x200, VECTOR) ||
           !edge_bit(e, 1, 0x200, VECTOR);
}

/* Both have their ids in either mode. */
static int
both_reached(struct edge *e)
{
    return e->r[0] != 2 || e->r[1] != 0 || !edge_bit(e, 0, 0x200, VECTOR) ||
           !edge_bit(e, 1, 0x200, VECTOR);
}

/* Whoever knows the new identity reaches it; nobody else is hit. */
static int
known_is_reached(struct edge *e)
{
    return e->r[0] + e->r[1] != 1 || (e->r[3] == 1 && e->r[0] != 1) ||
           edge_bit(e, 0, 0x200, VECTOR) ||
           (uint64_t)edge_bit(e, 1, 0x200, VECTOR) != e->r[0];
}

static int
zero_reached(struct edge *e)
{
    return !edge_bit(e, 0, 0x200, VECTOR) || e->r[0] + e->r[1] != 2;
}

/* ---- books -------------------------------------------------------------- */

/* Another comes, with its index. */
static void
renew_1(void *opaque)
{
    struct edge *e = opaque;

    e->r[5] += avicemu_vcpu_destroy(e->v[1].vcpu) != 0;
    e->v[1].vcpu = NULL;
    e->r[5] += avicemu_vcpu_create(e->vm, 1, &e->v[1], &e->v[1].vcpu) != 0;
}

/* The new one is disabled: what is accepted is the old one's. */
static void
ipi_to_1(void *opaque)
{
    edge_write(opaque, 0, 0x310, 1u << 24);
    edge_write(opaque, 0, 0x300, VECTOR);
}

static uint64_t
new_to(struct edge *e, struct avicemu_vcpu *sender, struct avicemu_vcpu *target)
{
    uint64_t n = 0;

    e->r[5] += avicemu_vcpu_ipi_new_to(sender, target, &n) != 0;
    return n;
}

/* The new one has accepted nothing, and all of it went to the old one. */
static int
old_account(struct edge *e)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };
    struct avicemu_vcpu *sender = e->v[0].vcpu;

    (void)avicemu_vcpu_stats(sender, &stats);
    return new_to(e, sender, e->v[1].vcpu) != 0 ||
           new_to(e, sender, NULL) != stats.ipi_new || e->r[5] != 0;
}

/* ---- tests -------------------------------------------------------------- */

static const struct edge_row rows[] = {
    { "destroy: a message to who goes",
      2,
      halt_1,
      new_or_dropped,
      2,
      { msi_to_1, sleep_and_destroy_1 } },
    { "destroy: a broadcast while one goes",
      2,
      NULL,
      one_or_two,
      2,
      { msi_to_all, destroy_1 } },
    { "hotadd: a message to who comes",
      1,
      NULL,
      added,
      2,
      { nmi_to_1, add_1 } },
    { "SEC-02 ident: a message while the mode changes",
      2,
      NULL,
      both_reached,
      2,
      { msi_to_1_and_0, mode_1 } },
    { "SEC-02 ident: a message while the id changes",
      2,
      NULL,
      known_is_reached,
      2,
      { msi_to_9, rename_1 } },
    { "SEC-02 ident: a message while the logical id changes",
      2,
      NULL,
      known_is_reached,
      2,
      { msi_to_logical_2, ldr_1 } },
    { "SEC-02 ident: a message while the APIC is switched off",
      2,
      NULL,
      zero_reached,
      2,
      { msi_to_1_and_0, off_1 } },
    { "destroy: two messages to who goes",
      2,
      halt_1,
      NULL,
      2,
      { msi_to_1_twice, sleep_and_destroy_1 } },
    { "destroy: a message while the id changes hands",
      2,
      NULL,
      old_or_refused,
      2,
      { msi_to_1, replace_1 } },
    { "books: an IPI to who is replaced",
      2,
      NULL,
      old_account,
      2,
      { ipi_to_1, renew_1 } },
    { "ident: two change at once", 2, NULL, both_named, 2, { ldr_0, ldr_1 } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
