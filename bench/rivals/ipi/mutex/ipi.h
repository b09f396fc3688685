/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIVAL_IPI_MUTEX_H
#define RIVAL_IPI_MUTEX_H

/*
 * A rival of the library's IPI paths: local APICs as a plain VMM writes them,
 * with one mutex per VM around target look-up, IRR bit and the decision whom
 * to kick. The kicks themselves are made without it.
 *
 * The same work as the library's software path, with its books off: reserved
 * bits of the ICR fault, the ICR is stored in the register page, shorthand,
 * broadcast, physical and logical destinations, software-disabled targets
 * drop, vectors below 16 set an ESR bit, TMR follows the trigger, the first
 * interrupt of an entry or a block calls kick or wake and later ones do not,
 * and new, merged and dropped are counted. Registers lie where the xAPIC page
 * has them, one 4 KiB page per vCPU, so both touch as many cache lines.
 *
 * What it need not do: keep alive whom it kicks (its vCPUs live as long as the
 * VM); look at interrupts of other modes than fixed, which return false.
 */

#include <stdbool.h>
#include <stdint.h>

struct ipi_mutex;

struct ipi_mutex_ops {
    void (*kick)(void *opaque, uint32_t id); /* running, the first time */
    void (*wake)(void *opaque, uint32_t id); /* blocked, the first time */
    void *opaque;
};

/* vCPUs 0 .. nr-1, software-enabled, outside; xAPIC: flat model, LDR 0. NULL:
 * no memory. */
struct ipi_mutex *
ipi_mutex_create(uint32_t nr, bool x2apic, const struct ipi_mutex_ops *ops);
void
ipi_mutex_destroy(struct ipi_mutex *vm);
void
ipi_mutex_set_ldr(struct ipi_mutex *vm, uint32_t id, uint8_t ldr);

/* The guest of vCPU id writes its ICR. high, low: xAPIC, the other one alone
 * sends. false: #GP, or not a fixed interrupt. */
bool
ipi_mutex_icr(struct ipi_mutex *vm, uint32_t id, uint64_t icr);
bool
ipi_mutex_icr_high(struct ipi_mutex *vm, uint32_t id, uint32_t high);
bool
ipi_mutex_icr_low(struct ipi_mutex *vm, uint32_t id, uint32_t low);
/* ... and EOI. */
void
ipi_mutex_eoi(struct ipi_mutex *vm, uint32_t id);

/* The loop of a vCPU. enter: the vector to inject, or -1. */
int
ipi_mutex_enter(struct ipi_mutex *vm, uint32_t id);
void
ipi_mutex_ack(struct ipi_mutex *vm, uint32_t id, uint8_t vector);
void
ipi_mutex_exit(struct ipi_mutex *vm, uint32_t id);
/* false: something is pending. */
bool
ipi_mutex_block(struct ipi_mutex *vm, uint32_t id);
void
ipi_mutex_unblock(struct ipi_mutex *vm, uint32_t id);

#endif
