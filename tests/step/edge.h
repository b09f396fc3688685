/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EDGE_H
#define EDGE_H

/*
 * A small machine for the explorer: up to four vCPUs with their APICs enabled
 * and started, and a VMM whose callbacks use the explorer's words, so that a
 * sleeper that nobody wakes is a deadlock that it reports. Memory that the
 * library frees is kept until the end, with a copy: a store after the free,
 * and under the address sanitizer a load, too, is found.
 *
 * With the arguments "mutant" and a row's name only that row is run, and must
 * fail: the library has then been weakened at one site, and a test that still
 * passes would not see that.
 */

#include <stddef.h>
#include <stdint.h>

#include <avicemu/avicemu.h>
#include <avicemu/step.h>

#define EDGE_VCPUS 4
#define EDGE_FREED 32

struct edge;

struct edge_vcpu {
    struct edge *edge;
    struct avicemu_vcpu *vcpu;
    /* Words of the explorer's: set by the callbacks, polled by the owner. */
    uint32_t woken, kicked;
    uint32_t gone; /* the party's: destroyed, no callback may run */
    uint32_t wakes, kicks, eois, intas, late;
    uint8_t last_eoi;
    uint64_t armed;
};

struct edge {
    const struct edge_row *row;

    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_iommu *iommu; /* the row's own */
    struct edge_vcpu v[EDGE_VCPUS];
    uint32_t ga; /* a word: its interrupt came */
    uint64_t now;
    uint64_t r[8]; /* what the parties found; 0 at the beginning */
    /* Over all schedules: what happened in some, and must have, by bit. */
    uint32_t seen, must;
    struct {
        void *memory, *copy;
        size_t bytes;
    } freed[EDGE_FREED];
    unsigned nr_freed;
};

/* One test: what is explored. The parties' argument is the edge. */
struct edge_row {
    const char *name;
    uint32_t nr_vcpus;
    int (*prepare)(struct edge *e);
    int (*verify)(struct edge *e);
    uint32_t nr_parties;
    avicemu_step_fn fns[3];
};

/* main(): each row is a test, which prints its figures and, where it fails,
 * the schedule. */
int
edge_main(const struct edge_row *rows, size_t nr, int argc, char **argv);

/* ---- short words for parties and checks --------------------------------- */

uint32_t
edge_read(struct edge *e, unsigned vcpu, uint32_t offset);
void
edge_write(struct edge *e, unsigned vcpu, uint32_t offset, uint32_t value);
/* Is the vector's bit set in IRR (200h), ISR (100h) or TMR (180h)? */
int
edge_bit(struct edge *e, unsigned vcpu, uint32_t base, uint8_t vector);
/* enter with IF = 1; todo.what, and its vector. */
uint32_t
edge_enter(struct edge *e, unsigned vcpu, uint8_t *ret_vector);
void
edge_exit(struct edge *e, unsigned vcpu);
/* enter; take one event that it offers; exit. What it was, 0 for none. */
uint32_t
edge_take(struct edge *e, unsigned vcpu, uint8_t *ret_vector);
/* Halted: block until woken, or until there is work. 1: it slept. */
int
edge_halt(struct edge *e, unsigned vcpu);
uint64_t
edge_msi_address(uint32_t dest);

#endif
