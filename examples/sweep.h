/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SWEEP_H
#define SWEEP_H

/*
 * One scenario at several ratios of pCPUs to vCPUs, each with several designs
 * of the GA-tag look-up in turn.
 */

#include <stddef.h>
#include <stdint.h>

#include <avicemu/mock/scenario.h>

struct sweep {
    const char *ratios;  /* "1:1,1:2"; NULL: the scenario's */
    const char *designs; /* names; NULL: the library */
    const char *json;    /* where to write a record per row; NULL: nowhere */
    int quiet;
};

/* 0 all books closed, 1 not, 2 a word makes no sense. */
int
sweep_run(const struct sweep *sweep,
          const struct avicemu_mock_scenario *scenario);

/* Ctrl-C: end it after the run that is under way. Async-signal-safe. */
void
sweep_interrupt(void);

#endif
