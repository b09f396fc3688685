/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef IOMMU_MACHINE_H
#define IOMMU_MACHINE_H

/*
 * A machine for the IOMMU's rows: one device, one entry, two backing pages, the
 * smallest rings. What may be freed is poisoned instead: from then on a bit
 * that somebody sets in it shows.
 */

#include "base/rcu.h"
#include "edge.h"
#include "hw/iommu.h"

#define MACHINE_TAG    0x3007u
#define MACHINE_VECTOR 0x41u

enum machine_page {
    PAGE_DTES,
    PAGE_TABLE,
    PAGE_COMMANDS,
    PAGE_COMMANDS_2,
    PAGE_GA_LOG,
    PAGE_WORDS,
    PAGE_A,
    PAGE_B,
    NR_MACHINE_PAGES,
};

enum machine_caches {
    CACHE_NONE,
    CACHE_IRTE,
    CACHE_BOTH,
};

/* In the edge's r. */
enum machine_found {
    FOUND_EVENTS, /* how often the event interrupt was signalled */
    FOUND_GAS,    /* the GA log's */
    FOUND_WRONG,  /* what must not be */
    NR_FOUND,
};

extern struct ae_iommu machine;

/* The entry posts to page A. run: with IsRun, else with GALogIntr. enables:
 * more bits of the control register. */
int
machine_make(enum machine_caches caches, bool run, uint64_t enables);
/* Read-side sections, as the library's callers have them. Signals count. */
uint64_t
machine_read(uint32_t offset);
void
machine_write(struct edge *e, uint32_t offset, uint64_t value);
void
machine_interrupt(struct edge *e, struct ae_msi *msi);
void
machine_count(struct edge *e, uint32_t signals);

struct ae_irte
machine_entry(enum machine_page page, bool run);
void
machine_retarget(enum machine_page page, bool run);
uint64_t
machine_address(enum machine_page page);
_Atomic uint64_t *
machine_word(enum machine_page page, unsigned i);

/* A command at a ring's place n; the next place. */
unsigned
machine_command(enum machine_page ring, unsigned n, uint64_t low,
                uint64_t high);
void
machine_tail(struct edge *e, unsigned n);
/* COMPLETION_WAIT that stores into a word and interrupts: its low half. */
uint64_t
machine_wait_command(unsigned word);
/* Poll the word, and clear it: a wait is done once. */
void
machine_wait_for(unsigned word);

void
machine_poison(enum machine_page page);
bool
machine_is_poison(enum machine_page page);
uint32_t
machine_irr(enum machine_page page);

/* The command buffer is at rest, its words are clear and what was found is not
 * wrong. Also ends the machine. */
bool
machine_is_idle(const struct edge *e);

#endif
