/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LAW_H
#define LAW_H

/*
 * The law "accelerated path = trapped path": a small machine that runs the same
 * guest program with AVIC off, on, without IPI virtualisation, and switched off
 * and on at random points, and keeps a trace of everything that the guest can
 * see, with the step at which it happened. All traces must be the same.
 *
 * The machine is one thread with a virtual clock. In each step one vCPU, picked
 * by the program's seed, takes at most one interrupt and executes one
 * instruction; the clock moves by LAW_TICK. Whether the vCPU had to exit for it
 * is the mode's affair and costs no time, so even the order and the time of
 * deliveries must be the same.
 *
 * A sender waits until all targets have handled what it sent, and each sender
 * has vectors of its own, so no two interrupts merge.
 */

#include <stdbool.h>

#include "fake_vmm.h"

#define LAW_MAX_VCPUS  8
#define LAW_MAX_OPS    256 /* of one vCPU */
#define LAW_MAX_BLOCKS 48
#define LAW_NR_PCPUS   10
#define LAW_MAX_FRAMES 40
#define LAW_TICK       100u
#define LAW_MAX_STEPS  200000u
#define LAW_MESSAGE    400

enum law_mode {
    LAW_OFF,
    LAW_ON,
    LAW_NO_IPIV,
    LAW_TOGGLED,
    LAW_NR_MODE,
};

enum law_kind {
    LAW_NOP,
    LAW_MODE_X2,  /* APIC_BASE := x2APIC */
    LAW_START,    /* INIT (a = 0) or SIPI (a = 1) to all others */
    LAW_ONLINE,   /* this vCPU has booted */
    LAW_ALL,      /* wait until all have */
    LAW_WRITE,    /* a: register, b: value */
    LAW_READ,     /* a: register */
    LAW_CR8,      /* a: value */
    LAW_CR8_READ, /* */
    LAW_CLI,
    LAW_STI,
    LAW_SEND,      /* a: ICR low, b: destination, c: targets answer by IPI */
    LAW_SELF,      /* a: vector, by the SELF IPI register */
    LAW_POST,      /* a: vector, b: vCPU, c: level; a device's interrupt */
    LAW_PIN,       /* LINT0 goes high, until its handler runs */
    LAW_WAIT,      /* until all has been handled that it sent; a: halt */
    LAW_TIMER,     /* a: LVT */
    LAW_DEADLINE,  /* b: ns from now */
    LAW_WAIT_TICK, /* a: halt */
    LAW_NR_KIND,
};

struct law_op {
    uint8_t kind;
    uint8_t block; /* what is cut away together */
    uint32_t a, b, c;
};

struct law_program {
    uint64_t seed;
    unsigned nr_vcpus;
    bool x2apic;
    bool flat; /* xAPIC: DFR */
    enum avicemu_personality personality;
    uint32_t features; /* AVICEMU_LAPIC_* */
    uint32_t avic;     /* AVICEMU_HOST_* */
    bool kicks;        /* doorbells are calls */
    unsigned nr_ops[LAW_MAX_VCPUS];
    struct law_op ops[LAW_MAX_VCPUS][LAW_MAX_OPS];
    bool cut[LAW_MAX_VCPUS][LAW_MAX_BLOCKS]; /* blocks left out */
};

/* A register number that is an MSR's. */
#define LAW_MSR 0x10000u

/* ---- vectors ------------------------------------------------------------ */

/* 30h-97h: requests; the low three bits are the sender. */
#define LAW_REQUEST    0x30u
#define LAW_NR_REQUEST 13u   /* of each sender */
#define LAW_ACK        0xa0u /* + who answers */
#define LAW_EDGE       0xb0u /* + whose device it is */
#define LAW_LEVEL      0xb8u /* likewise */
#define LAW_LINT0      0xc0u /* + whose pin it is */
#define LAW_TICKS      0xe0u
#define LAW_ERROR      0xe8u
#define LAW_NMI_SENDER 0 /* the vCPU */

/* ---- what happened ------------------------------------------------------ */

enum law_seen {
    LAW_SAW_VECTOR, /* what: the vector */
    LAW_SAW_NMI,
    LAW_SAW_VALUE, /* what: register or MSR; value */
    LAW_SAW_GP,    /* what: register or MSR */
    LAW_SAW_PAGE,  /* at the end; what: register */
    LAW_SAW_BOOK,  /* at the end; what: column << 8 | vector */
    LAW_SAW_STAT,  /* at the end; what: which */
};

struct law_event {
    uint32_t step;
    uint8_t vcpu, seen;
    uint32_t what;
    uint64_t value;
};

struct law_trace {
    struct law_event *events;
    size_t nr, room;
};

/* ---- the machine -------------------------------------------------------- */

struct law_frame {
    uint8_t vector; /* 2: NMI */
    uint8_t phase;
    bool was_if;
};

struct law_cpu {
    struct avicemu_vcpu *vcpu;
    struct fake_vcpu *fake;
    bool inside, blocked, loaded, look, done;
    bool iff, nmi_blocked;
    uint8_t shadow;
    unsigned pcpu; /* if loaded */
    uint32_t cr8, windows, threshold;
    uint64_t kicks, wakes; /* of fake, at the last enter and block */
    unsigned nr_frames;
    struct law_frame frames[LAW_MAX_FRAMES];
    unsigned pc;
    uint32_t outstanding;
    bool answer;
    uint32_t ticks, ticks_wanted;
};

struct law_run {
    const struct law_program *program;
    enum law_mode mode;
    bool avic;
    struct fake_vmm fake;
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct law_cpu cpus[LAW_MAX_VCPUS];
    struct law_trace trace;
    uint32_t step;
    uint32_t nr_online;
    uint64_t schedule, meddling; /* random */
    bool inhibited;
    bool taken[LAW_NR_PCPUS];
    char message[LAW_MESSAGE]; /* "": all is well */
};

uint64_t
law_random(uint64_t *state);
static inline uint32_t
law_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(law_random(state) % n);
}

/* A random program. */
void
law_generate(uint64_t seed, struct law_program *ret);
/* One that only boots, with x2AVIC. */
void
law_boot_program(unsigned nr_vcpus, bool x2apic, struct law_program *ret);
void
law_print(const struct law_program *program);

/* Make the machine; run it to its end. The rows of prop_law.c make one without
 * a program, and call what is below. */
void
law_begin(struct law_run *run, const struct law_program *program,
          enum law_mode mode);
void
law_execute(struct law_run *run);
void
law_end(struct law_run *run);

/* One turn of a vCPU up to its instruction; false: it sleeps. */
bool
law_boundary(struct law_run *run, unsigned i);
void
law_leave(struct law_run *run, unsigned i);
/* Register accesses as the mode of the program wants them, MSRs as such. */
enum avicemu_access
law_write(struct law_run *run, unsigned i, uint32_t reg, uint64_t value);
enum avicemu_access
law_read(struct law_run *run, unsigned i, uint32_t reg, uint64_t *ret);
void
law_icr(struct law_run *run, unsigned i, uint32_t low, uint32_t destination);
struct avicemu_vcpu_stats
law_stats(struct law_run *run, unsigned i);
void
law_saw(struct law_run *run, unsigned i, enum law_seen seen, uint32_t what,
        uint64_t value);
/* A call of the library that must return 0. */
void
law_must(struct law_run *run, unsigned i, const char *call, int rc);
void
law_fail(struct law_run *run, const char *format, ...) AVICEMU_PRINTF(2, 3);

#endif
