/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RACE_AVIC_H
#define RACE_AVIC_H

/*
 * AVIC under free-running threads: each vCPU has one, which asks another vCPU
 * by an IPI, runs its guest until the answer (an IPI, too) has come, and asks
 * again; meanwhile it answers others. On the way it stays in the guest, halts
 * on a semaphore, moves between pCPUs or runs on none, as its dice say.
 *
 * A vector of a pair is never sent again before it was taken: every IPI is
 * NEW, and is acked, or somebody waits for ever. Then the run is given up after
 * a bounded time, with a report. What was how often is printed.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <avicemu/avicemu.h>

#define RACE_AVIC_VCPUS 4
#define RACE_AVIC_EXTRA 2
#define RACE_AVIC_PCPUS (2 * RACE_AVIC_VCPUS)
/* Vectors: of the vCPU that asks or answers, and free for extra threads. */
#define RACE_AVIC_ASK    0x40u
#define RACE_AVIC_ANSWER 0x80u
#define RACE_AVIC_FREE   0xa0u
#define RACE_AVIC_STRAY  0xd0u

/* How an interrupt, or the end of a wait, came. */
enum race_avic_way {
    RACE_AVIC_AT_ENTRY,
    RACE_AVIC_BELL,
    RACE_AVIC_AFTER_EOI,
    RACE_AVIC_KICKED,
    RACE_AVIC_WOKEN,
    RACE_AVIC_AWAKE, /* block_begin said NO */
    RACE_AVIC_MOVED,
    RACE_AVIC_WAYS,
};

struct race_avic;

struct race_avic_cpu {
    struct race_avic *r;
    struct avicemu_vcpu *vcpu;
    unsigned index;
    sem_t wake;
    _Atomic uint32_t kicked;
    _Atomic uint64_t acked[256];
    /* The owner's. */
    uint32_t seed;
    int in_guest, loaded, waiting, x2;
    uint64_t asked;
    uint64_t ways[RACE_AVIC_WAYS];
};

struct race_avic {
    /* The test's. */
    const char *name;
    uint32_t avic;     /* host: more AVICEMU_HOST_* */
    uint32_t vm_flags; /* more AVICEMU_VM_* */
    enum avicemu_doorbell_mode doorbells;
    unsigned nr_vcpus;
    int x2;            /* vCPUs are in x2APIC mode */
    int stays;         /* no vCPU leaves the guest unless kicked */
    int shared;        /* vCPUs 0 and 1 take turns on pCPU 0 */
    int strays;        /* some IPIs go to id 3, which is an extra thread's */
    uint64_t requests; /* of each vCPU; wanted, see race_rounds() */
    uint32_t max_vcpus, max_apic_id; /* 0: as many as there are, no limit */
    /* Threads beside, which end soon after "over". */
    void (*extra[RACE_AVIC_EXTRA])(struct race_avic *r);

    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct race_avic_cpu cpu[RACE_AVIC_VCPUS];
    pthread_mutex_t pcpu_0;
    sem_t done;
    _Atomic uint32_t start, over, lost;
    _Atomic uint64_t posted; /* NEW, to vCPU 0, by extra threads */
};

/* Run it, and print. How many laws were broken. */
unsigned
race_avic_run(struct race_avic *r);

/* For extra threads: dice; wait until *count is n, or all is over; report a
 * loss when that takes too long. */
uint32_t
race_avic_dice(uint32_t *seed, uint32_t sides);
void
race_avic_wait(struct race_avic *r, const _Atomic uint64_t *count, uint64_t n,
               const char *what);
/* How often it came so, over all vCPUs. */
uint64_t
race_avic_count(const struct race_avic *r, enum race_avic_way way);
/* For extra threads with a vCPU of their own: start it as all others are;
 * take and retire all that is pending. */
int
race_avic_cpu_make(struct race_avic *r, unsigned i);
void
race_avic_cpu_drain(struct race_avic_cpu *c);
/* The guest writes a register, in either mode. */
void
race_avic_write(struct race_avic_cpu *c, uint32_t offset, uint64_t value);
/* A pause that lets others run. */
void
race_avic_pause(unsigned *spins);

#endif
