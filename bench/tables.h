/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_TABLES_H
#define BENCH_TABLES_H

/* The benchmarks, one table a file. */

#include "harness.h"

extern const struct bench_table bench_post;   /* post, scan, ack, EOI */
extern const struct bench_table bench_entry;  /* enter and exit */
extern const struct bench_table bench_timer;  /* arming a timer */
extern const struct bench_table bench_map;    /* from id to vCPU */
extern const struct bench_table bench_kvm;    /* against KVM's irqchip */
extern const struct bench_table bench_create; /* making vCPUs */

#endif
