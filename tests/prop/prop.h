/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PROP_H
#define PROP_H

/*
 * The differential property test of the local APIC: a generator of random
 * operations, an executor that applies each to the library and to the model,
 * and the comparison of everything that can be seen. An operation is a plain
 * value, so that a failing run can be replayed, printed and cut down.
 *
 * Left out: LVT timer [18:17] = 3 with the TSC-deadline feature, which no
 * manual defines; rates whose ratio is no whole number, hence rounding of
 * times; min_period; the number of calls of ops->arm, of which only the last
 * counts; ops->block, which needs a second thread.
 */

#include "fake_vmm.h"
#include "model_lapic.h"

#define PROP_MESSAGE 240

/* ---- randomness: a seed, or the bytes of a fuzzer ----------------------- */

struct prop_random {
    uint64_t state;
    const uint8_t *bytes; /* NULL: from state */
    size_t left;
};

uint32_t
prop_below(struct prop_random *r, uint32_t n);
uint64_t
prop_u64(struct prop_random *r);
bool
prop_chance(struct prop_random *r, uint32_t one_in);

/* ---- operations --------------------------------------------------------- */

enum prop_kind {
    PROP_REG_READ,   /* a: offset; as the mode of the vCPU demands */
    PROP_REG_WRITE,  /* a: offset, b: value */
    PROP_MMIO_READ,  /* a: offset, c: length, b: distance from the page */
    PROP_MMIO_WRITE, /* a: offset, c: length, b: value, repeated */
    PROP_MSR_READ,   /* a: MSR */
    PROP_MSR_WRITE,  /* a: MSR, b: value */
    PROP_MODE,       /* a: 0 off, 1 xAPIC, 2 x2APIC; c: other bits kept */
    PROP_CR8,        /* b: value */
    PROP_ICR,        /* a: low, b: destination */
    PROP_EOI,        /* b: 1 by SEOI, the lowest vector in service */
    PROP_TIMER,      /* a: vector, c: mode, b: counts: program and start it */
    PROP_POST,       /* a: vector, c: trigger */
    PROP_POST_MODE,  /* a: mode, b: vector */
    PROP_LINT,       /* a: pin, c: level */
    PROP_LOCAL,      /* a: source */
    PROP_MSI,        /* b: address, a: data */
    PROP_CLOCK,      /* c: 0 by b; 1..3 to a deadline - 1, exactly, + 1 */
    PROP_EXPIRE,     /* b: 1 at its deadline */
    PROP_ENTER,      /* a: flags, c: 1 ack at once */
    PROP_ACK,
    PROP_EXIT, /* a: flags, b: CR8 or above 15: unchanged */
    PROP_RUN,  /* enter with interrupts on, ack, exit */
    PROP_HALT,
    PROP_BLOCK, /* b: 1 halted */
    PROP_UNBLOCK,
    PROP_REVIVE, /* enable the APIC, send a SIPI, run */
    PROP_RESET,
    PROP_SAVE,    /* a: slot */
    PROP_RESTORE, /* a: slot */
    PROP_MIGRATE, /* every vCPU into a new VM */
    PROP_KVM,     /* a: flags, c: order of the pieces, b: 1 reset between */
    PROP_DEADLINE_HOST, /* b: value */
    PROP_TSC_OFFSET,    /* b: value */
    PROP_MISUSE,        /* a: which call in the wrong phase */
    PROP_NR_KIND,
};

struct prop_op {
    uint8_t kind;
    uint8_t vcpu;
    uint32_t a;
    uint32_t c;
    uint64_t b;
};

struct prop_config {
    struct model_config model;
    unsigned nr_vcpus;
    uint32_t ids[MODEL_MAX_VCPUS];
    uint8_t vectors[4]; /* favourites, so that things meet */
};

void
prop_config_random(struct prop_random *r, struct prop_config *ret);
void
prop_op_random(struct prop_random *r, const struct prop_config *config,
               struct prop_op *ret);
/* What an episode begins with, so that it need not wait for luck. */
size_t
prop_prologue(const struct prop_config *config, struct prop_op *ret);
#define PROP_PROLOGUE (2 * MODEL_MAX_VCPUS)

void
prop_config_print(const struct prop_config *config);
void
prop_op_print(const struct prop_op *op);

/* ---- the run ------------------------------------------------------------ */

struct prop_saved {
    bool valid;
    uint8_t bytes[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
    unsigned vcpu;
    struct model_vcpu model;
    uint64_t now;
};

struct prop_run {
    struct prop_config config;
    struct model_vm model;
    struct fake_vmm fake;
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpus[MODEL_MAX_VCPUS];
    struct avicemu_todo todo[MODEL_MAX_VCPUS];
    bool unacked[MODEL_MAX_VCPUS]; /* todo asks for something not acked yet */
    bool flags_known[MODEL_MAX_VCPUS];
    bool expired[MODEL_MAX_VCPUS];   /* expire was called, nobody looked yet */
    uint64_t kicks[MODEL_MAX_VCPUS]; /* at the last enter */
    uint64_t wakes[MODEL_MAX_VCPUS]; /* at the last block_begin */
    struct prop_saved saved[2];
    uint64_t steps;
    bool failed;
    char message[PROP_MESSAGE];
};

/* Both set the message and return false where library and model differ. */
bool
prop_run_begin(struct prop_run *run, const struct prop_config *config);
bool
prop_run_step(struct prop_run *run, const struct prop_op *op);
void
prop_run_end(struct prop_run *run);

/* ---- inside ------------------------------------------------------------- */

void
prop_fail(struct prop_run *run, const char *format, ...) AVICEMU_PRINTF(2, 3);
void
prop_same(struct prop_run *run, const char *what, unsigned vcpu,
          uint64_t library, uint64_t model);
void
prop_same_posted(struct prop_run *run, const struct avicemu_posted *l,
                 const struct avicemu_posted *m);
void
prop_compare_vcpu(struct prop_run *run, unsigned i, bool absent_too);
void
prop_compare(struct prop_run *run);
bool
prop_create_vm(struct prop_run *run);
void
prop_destroy_vm(struct prop_run *run);
void
prop_loop_op(struct prop_run *run, const struct prop_op *op, unsigned i);
void
prop_outside(struct prop_run *run, unsigned i);
void
prop_enter(struct prop_run *run, unsigned i, uint32_t flags);
void
prop_ack(struct prop_run *run, unsigned i);
void
prop_exit(struct prop_run *run, unsigned i, uint32_t flags, uint64_t cr8);
void
prop_state_op(struct prop_run *run, const struct prop_op *op, unsigned i);
void
prop_reg_write(struct prop_run *run, unsigned i, uint32_t offset,
               uint64_t value);

#endif
