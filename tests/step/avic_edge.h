/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVIC_EDGE_H
#define AVIC_EDGE_H

/*
 * The explorer's machine (edge.h) with AVIC. A row has nr_vcpus = 0 and a
 * prepare that calls avic_edge(): it puts a host with AVIC and its vCPUs in
 * the place of the plain VM. vCPU i has the APIC id i, is loaded on pCPU i and
 * has been in the guest once, so that AVIC is active on it.
 */

#include "edge.h"

enum avic_edge_host {
    AVIC_EDGE_KICK,    /* doorbells are kicks */
    AVIC_EDGE_WORD,    /* doorbells are words */
    AVIC_EDGE_ERRATUM, /* words; silicon with erratum 1235 */
    AVIC_EDGE_NO_IPIV, /* words; AVICEMU_VM_NO_IPIV */
};

/* 0, or -errno. */
int
avic_edge(struct edge *e, enum avic_edge_host host, uint32_t nr_vcpus);

/* Fixed IPI of a vCPU outside the guest; of an exit the handler is run, too.
 * dest: physical id. */
void
avic_edge_ipi(struct edge *e, unsigned from, uint8_t dest, uint8_t vector);
/* The same with a logical destination. */
void
avic_edge_ipi_logical(struct edge *e, unsigned from, uint8_t dest,
                      uint8_t vector);

/* In the guest until nr interrupts were taken: the runner looks at the
 * doorbell and at kicks between instructions, and hears of nothing else. */
void
avic_edge_run(struct edge *e, unsigned vcpu, unsigned nr);

/* Scheduled out, and in on another pCPU. */
void
avic_edge_migrate(struct edge *e, unsigned vcpu, uint32_t pcpu);

/* vCPU is halted, by the flags of an exit with IF = 1. */
int
avic_edge_halted(struct edge *e, unsigned vcpu);

#endif
