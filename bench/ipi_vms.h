/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_IPI_VMS_H
#define BENCH_IPI_VMS_H

/*
 * One shape of VM, three times: with AVIC, with the library's software APIC,
 * and with the rival that takes a mutex (rivals/ipi/mutex). vCPU 0 sends, the
 * others are its targets; all have the same ids, mode and logical ids.
 *
 * A path is a way for an IPI to go, as a pair of functions for the harness:
 * prepare makes every target take and end what it has, and go back to where
 * that path finds it; run sends n IPIs to the eight targets in turn, or one to
 * all. In a sample of eight each IPI is the first after its target's entry, and
 * pays for its doorbell, kick or wake; in a longer one later ones, of other
 * vectors, find it rung, kicked or woken.
 *
 *   accel   AVIC; sender and targets in the guest; IRR bit, IsRunning, doorbell
 *   wake    AVIC; targets halted: exit 401h id 1, and its handler wakes them.
 *           The sender is outside, so that exit and handler are one call
 *   trap    no AVIC; the emulated ICR write, targets in the guest: kicks
 *   loop    the same from a sender in the guest: exit, emulation, entry
 *   rival, rival-wake   as trap and as wake, under one mutex per VM
 *
 * With others, so many more threads send at the same time and on the same
 * path, each from a vCPU of its own to a target of its own, where the vector is
 * pending already. They meet only in what the VM shares.
 *
 * What a real CPU adds to each, a #VMEXIT for all but accel, or an
 * inter-processor interrupt for a kick, is in none of them.
 */

#include "crowd.h"
#include "rivals/ipi/mutex/ipi.h"
#include "vmm.h"

/* Which VMs: OR of these. */
#define IPI_AVIC  1u
#define IPI_SOFT  2u
#define IPI_RIVAL 4u

#define IPI_TARGETS 8u

/* How a target is addressed. Directed: nr is IPI_TARGETS + 1. */
enum ipi_dest {
    IPI_PHYSICAL,
    IPI_LOGICAL, /* x2APIC cluster; xAPIC flat: at most eight targets */
    IPI_SELF,    /* x2APIC: its own register; xAPIC: the shorthand */
    IPI_OTHERS,  /* one IPI to all others */
};

struct ipi_vms {
    enum vmm_mode mode;
    enum ipi_dest dest;
    uint32_t nr; /* vCPUs; behind them two for each other thread */
    unsigned nr_others;
    uint32_t rounds; /* IPIs to each target per sample */
    unsigned which;
    struct crowd *crowd; /* NULL: no others */
    struct vmm avic, soft;
    struct ipi_mutex *rival;
    uint64_t rival_kicks, rival_wakes;
    bool in_guest; /* avic: sender and targets */
    bool blocked;  /* avic: targets */
    bool entered;  /* soft: targets */
    bool rival_blocked;
    /* All paths: interrupts that targets should get, and got. */
    uint64_t sent, taken;
    /* Of those that were sent, by path. */
    uint64_t accel, wake, trap, rivals;
};

/* ops: of a sample. others: how many, at most CROWD_MAX; physical destinations
 * only. */
void
ipi_vms_open(struct ipi_vms *p, uint32_t nr, uint32_t ops, unsigned others,
             enum vmm_mode mode, enum ipi_dest dest, unsigned which);
void
ipi_vms_close(struct ipi_vms *p);

/* For bench.check, state is a struct ipi_vms: everything that was sent was
 * taken, and on each path in its own way, with one doorbell, kick or wake
 * each. */
bool
ipi_vms_check(void *state, uint64_t nr_ops);

/* ---- paths; state is a struct ipi_vms ----------------------------------- */
void
ipi_accel_prepare(void *state);
void
ipi_accel_run(void *state, uint64_t n);
void
ipi_wake_prepare(void *state);
void
ipi_wake_run(void *state, uint64_t n);
void
ipi_trap_prepare(void *state);
void
ipi_trap_run(void *state, uint64_t n);
void
ipi_loop_prepare(void *state);
void
ipi_loop_run(void *state, uint64_t n);
void
ipi_rival_prepare(void *state);
void
ipi_rival_run(void *state, uint64_t n);
void
ipi_rival_wake_prepare(void *state);

#endif
