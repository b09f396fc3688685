/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MODEL_IPI_H
#define MODEL_IPI_H

/*
 * What AVIC hardware makes of one interrupt command when nothing else happens:
 * a plain serial model, written from the manual's facts, that shares no code
 * with the library. [APM2 15.29.6.1], [APM2 15.29.9.1]
 */

#include <stdbool.h>
#include <stdint.h>

#define MODEL_IPI_IDS     4096
#define MODEL_IPI_LOGICAL 60

/* Tables, the sender's page and the command. */
struct model_ipi_in {
    bool x2avic;
    bool self_register; /* WRMSR 83Fh; icrl is the value, icrh its upper half */
    uint32_t max_index;
    uint64_t physical[MODEL_IPI_IDS];
    uint32_t logical[MODEL_IPI_LOGICAL];
    uint32_t dfr;      /* the word at E0h */
    uint64_t own_page; /* system physical */
    uint32_t icrh, icrl;
    /* All memory there is. */
    uint64_t memory_base;
    uint32_t memory_pages;
};

enum model_ipi_result {
    MODEL_IPI_DONE,
    MODEL_IPI_EXIT,
    MODEL_IPI_GP,
};

struct model_ipi_target {
    uint32_t id;
    uint32_t page; /* number of its page in memory */
    bool running;
    uint32_t host_id;
};

struct model_ipi_out {
    enum model_ipi_result result;
    uint64_t info1, info2; /* of the exit */
    bool stored;           /* the command is in the page */
    bool resolved;         /* directed, with targets, all of them good */
    bool self;             /* the bit goes to the own page, by no table */
    uint32_t nr_targets;   /* that get the bit, in this order */
    struct model_ipi_target targets[MODEL_IPI_IDS];
};

void
model_ipi(const struct model_ipi_in *in, struct model_ipi_out *out);

#endif
