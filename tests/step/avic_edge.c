/* SPDX-License-Identifier: BSD-2-Clause */

#include "avic_edge.h"

#include <errno.h>
#include <string.h>

#define ICR_LOGICAL 0x800u

/* ---- callbacks ---------------------------------------------------------- */

static void
avic_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    v->late += (uint32_t)avicemu_step_load(&v->gone, 4);
    v->wakes++;
    avicemu_step_store(&v->woken, 4, 1);
}

static void
avic_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    v->late += (uint32_t)avicemu_step_load(&v->gone, 4);
    v->kicks++;
    avicemu_step_store(&v->kicked, 4, 1);
}

static uint64_t
avic_now(void *opaque)
{
    (void)opaque;
    return 1000;
}

static void
avic_ga_interrupt(void *opaque, struct avicemu_iommu *iommu)
{
    struct edge *e = opaque;

    (void)iommu;
    avicemu_step_store(&e->ga, 4, 1);
}

/* ---- memory: at the same addresses in every schedule --------------------- */

static struct {
    _Alignas(4096) unsigned char bytes[4u << 20];
    size_t used;
} arena;

static void *
arena_alloc(void *opaque, size_t align, size_t bytes)
{
    size_t at = (arena.used + align - 1) & ~(align - 1);

    (void)opaque;
    if (at + bytes > sizeof(arena.bytes)) {
        return NULL;
    }
    arena.used = at + bytes;
    return arena.bytes + at;
}

/* Not given out again: who uses it afterwards changes nothing that lives. */
static void
arena_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    memset(memory, 0xdd, bytes);
}

/* ---- machine ------------------------------------------------------------ */

static int
vm_replace(struct edge *e, enum avic_edge_host host)
{
    struct avicemu_host_config hc = {
        .size = sizeof(hc),
        .avic = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC,
        .doorbells = host == AVIC_EDGE_KICK ? AVICEMU_DOORBELL_KICK
                                            : AVICEMU_DOORBELL_WORD,
        .nr_pcpus = host == AVIC_EDGE_KICK ? 0 : EDGE_VCPUS,
        .allocator = { arena_alloc, arena_free, NULL },
        .ops = { .ga_interrupt = avic_ga_interrupt },
        .opaque = e,
    };
    struct avicemu_vm_config vc = {
        .size = sizeof(vc),
        .flags = AVICEMU_VM_BOOKS | AVICEMU_VM_AVIC,
        .max_vcpus = EDGE_VCPUS,
        .ops = { .kick = avic_kick, .wake = avic_wake, .now = avic_now },
        .opaque = e,
    };

    hc.avic |= host == AVIC_EDGE_ERRATUM ? AVICEMU_HOST_ERRATUM_1235 : 0;
    vc.flags |= host == AVIC_EDGE_NO_IPIV ? AVICEMU_VM_NO_IPIV : 0;
    int r = avicemu_vm_destroy(e->vm);

    r = r != 0 ? r : avicemu_host_destroy(e->host);
    arena.used = 0;
    r = r != 0 ? r : avicemu_host_create(&hc, &e->host);
    return r != 0 ? r : avicemu_vm_create(e->host, &vc, &e->vm);
}

static int
vcpu_start(struct edge *e, unsigned i)
{
    uint8_t vector;
    int r = avicemu_vcpu_create(e->vm, i, &e->v[i], &e->v[i].vcpu);

    e->v[i].edge = e;
    if (r != 0) {
        return r;
    }
    r = avicemu_vcpu_load(e->v[i].vcpu, i);
    if (i != 0) {
        (void)avicemu_post_mode(e->v[i].vcpu, AVICEMU_DELIVERY_SIPI, 8);
        (void)edge_take(e, i, &vector);
    }
    edge_write(e, i, 0xf0, 0x1ff);
    edge_write(e, i, 0xd0, 0x01000000u << i); /* flat logical id */
    (void)edge_take(e, i, &vector);
    return r != 0 || avicemu_vcpu_avic(e->v[i].vcpu) == AVICEMU_AVIC_XAVIC
               ? r
               : -ENODEV;
}

int
avic_edge(struct edge *e, enum avic_edge_host host, uint32_t nr_vcpus)
{
    int r = vm_replace(e, host);

    for (unsigned i = 0; r == 0 && i < nr_vcpus; i++) {
        r = vcpu_start(e, i);
    }
    /* The LDRs of the younger ones changed the map: take what that asked. */
    for (unsigned i = 0; r == 0 && i < nr_vcpus; i++) {
        r = avic_edge_halted(e, i);
        (void)avicemu_vcpu_set_halted(e->v[i].vcpu);
        e->v[i].kicks = 0;
        e->v[i].wakes = 0;
    }
    return r;
}

int
avic_edge_halted(struct edge *e, unsigned vcpu)
{
    uint8_t vector;

    /* block_begin goes by the flags of the last exit. */
    (void)edge_enter(e, vcpu, &vector);
    edge_exit(e, vcpu);
    return avicemu_vcpu_set_halted(e->v[vcpu].vcpu);
}

/* ---- parties ------------------------------------------------------------ */

void
avic_edge_ipi(struct edge *e, unsigned from, uint8_t dest, uint8_t vector)
{
    edge_write(e, from, 0x310, (uint32_t)dest << 24);
    edge_write(e, from, 0x300, vector);
}

void
avic_edge_ipi_logical(struct edge *e, unsigned from, uint8_t dest,
                      uint8_t vector)
{
    edge_write(e, from, 0x310, (uint32_t)dest << 24);
    edge_write(e, from, 0x300, ICR_LOGICAL | vector);
}

void
avic_edge_migrate(struct edge *e, unsigned vcpu, uint32_t pcpu)
{
    (void)avicemu_vcpu_put(e->v[vcpu].vcpu);
    (void)avicemu_vcpu_load(e->v[vcpu].vcpu, pcpu);
}

/* What an instruction boundary delivers; 0: nothing was heard. */
static uint32_t
runner_look(struct edge *e, unsigned vcpu, uint8_t *ret_vector)
{
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    for (;;) {
        int r = avicemu_vcpu_recheck(e->v[vcpu].vcpu, AVICEMU_RECHECK_DOORBELL,
                                     &cpu, &todo);

        if (r == 0 && (todo.what & AVICEMU_DO_INJECT) != 0) {
            *ret_vector = todo.vector;
            return AVICEMU_DO_INJECT;
        }
        if (avicemu_step_load(&e->v[vcpu].kicked, 4) != 0) {
            return 0;
        }
        avicemu_step_relax("in_guest");
    }
}

void
avic_edge_run(struct edge *e, unsigned vcpu, unsigned nr)
{
    uint8_t vector = 0;
    uint32_t what = edge_enter(e, vcpu, &vector) & AVICEMU_DO_INJECT;

    while (nr > 0) {
        what = what != 0 ? what : runner_look(e, vcpu, &vector);
        if (what != 0) {
            (void)avicemu_vcpu_ack(e->v[vcpu].vcpu, AVICEMU_DO_INJECT, vector);
            nr--;
        } else {
            avicemu_step_store(&e->v[vcpu].kicked, 4, 0);
        }
        edge_exit(e, vcpu);
        if (what != 0) {
            edge_write(e, vcpu, 0xb0, 0);
        }
        what = nr > 0 ? edge_enter(e, vcpu, &vector) & AVICEMU_DO_INJECT : 0;
    }
}
