/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RACE_H
#define RACE_H

/*
 * Race tests: threads that meet at a barrier before each round, so that their
 * first instructions overlap; what each round ended in is counted in a
 * histogram, printed, and judged by the main thread.
 *
 * Rounds are bounded and shrink under the thread sanitizer; AVICEMU_ROUNDS
 * overrides them.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_vmm.h"

#define RACE_THREADS  4
#define RACE_OUTCOMES 8

struct race {
    /* The test's. */
    unsigned nr_threads;
    uint64_t rounds; /* wanted; see race_run() */
    /* Before each round, in the thread of party 0, others stand still. */
    void (*prepare)(struct race *r);
    void (*party[RACE_THREADS])(struct race *r);
    /* After each round, in the thread of party 0: its outcome, an index. */
    unsigned (*judge)(struct race *r);
    const char *outcomes[RACE_OUTCOMES]; /* names; NULL ends them */

    /* A machine with its APICs enabled and APs started. */
    unsigned nr_vcpus;
    struct fake_vmm vmm;
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu[FAKE_MAX_VCPUS];

    uint64_t r[8]; /* what the parties found */
    uint64_t histogram[RACE_OUTCOMES];
    _Atomic uint32_t arrived, phase;
    uint64_t done;
};

/* Make the machine, run the rounds, print the histogram, drop the machine. */
void
race_run(struct race *r, const char *name);

/* Wait for all parties. Also usable inside a round. */
void
race_barrier(struct race *r);

uint64_t
race_rounds(uint64_t wanted);

/* ---- short words -------------------------------------------------------- */

uint32_t
race_read(struct race *r, unsigned vcpu, uint32_t offset);
void
race_write(struct race *r, unsigned vcpu, uint32_t offset, uint32_t value);
int
race_bit(struct race *r, unsigned vcpu, uint32_t base, uint8_t vector);
/* enter with IF = 1; take one event that it offers; exit. What it was. */
uint32_t
race_take(struct race *r, unsigned vcpu, uint8_t *ret_vector);
/* Take and retire all that is pending. How many vectors those were. */
unsigned
race_drain(struct race *r, unsigned vcpu);
int
race_enable(struct race *r, unsigned vcpu);

#endif
