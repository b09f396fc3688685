/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_STEP_RUN_H
#define AE_BASE_STEP_RUN_H

/*
 * Inside of the step build: a run is a set of parties of which one at a time
 * holds the baton. The baton goes from thread to thread by semaphores, so
 * whoever holds it may read and write everything here. See step.c.
 */

#include <pthread.h>
#include <semaphore.h>

#include <avicemu/step.h>

#include "base/step.h"

#define AE_STEP_PARTIES   AVICEMU_STEP_MAX_PARTIES
#define AE_STEP_BUFFER    128u
#define AE_STEP_WATCHED   16u
#define AE_STEP_FOOTPRINT 4u

/* What the scheduler chooses: party i runs on, its oldest store is made
 * visible (AE_STEP_DRAIN + i), or the controller gets the baton back. */
#define AE_STEP_DRAIN      ((int)AE_STEP_PARTIES)
#define AE_STEP_CONTROLLER (-1)

/* What a party's next step touches, for the question whether two steps can
 * be swapped without a difference. */
enum ae_step_effect {
    AE_STEP_LOCAL, /* nothing that others see */
    AE_STEP_READ,
    AE_STEP_WRITE,
    AE_STEP_ANY, /* not known: everything */
};

enum ae_step_wait {
    AE_STEP_NOW,
    AE_STEP_LOCK,  /* until op.is_free */
    AE_STEP_WATCH, /* until a watched value has changed */
    AE_STEP_GRACE, /* until the sections of party.grace have ended */
};

/* What a parked party does when it runs on. */
struct ae_step_op {
    const char *what;
    const volatile void *address;
    uint32_t bytes;
    enum ae_step_effect effect;
    enum ae_step_wait wait;
    bool drained;     /* only with its own stores visible */
    bool all_drained; /* only with everybody's stores visible */
    bool stop;        /* a script may park here */
    void *lock;
    bool (*is_free)(void *lock);
};

/* What a step touches. A polling loop's goes by the values it loaded. */
struct ae_step_footprint {
    struct ae_step_op op;
    uint32_t nr_watched; /* above AE_STEP_FOOTPRINT: not known */
    const volatile void *watched[AE_STEP_FOOTPRINT];
};

struct ae_step_store {
    volatile void *address;
    uint32_t bytes;
    uint32_t step; /* of the run, that stored it */
    uint64_t value;
};

enum ae_step_status {
    AE_STEP_PARKED,
    AE_STEP_RUNNING,
    AE_STEP_DONE,
};

struct ae_step_party {
    struct ae_step_run *run;
    const char *name;
    avicemu_step_fn fn;
    void *arg;
    pthread_t thread;
    sem_t baton;
    enum ae_step_status status;
    struct ae_step_op op; /* PARKED: what comes next */
    const char *label;    /* last one that was passed since op began */
    /* Stores that others do not see yet, oldest first. */
    uint32_t nr_stores;
    struct ae_step_store stores[AE_STEP_BUFFER];
    /* Loaded since the last relax. */
    uint32_t nr_watched;
    struct ae_step_store watched[AE_STEP_WATCHED];
    /* Read-side sections: nesting, how many were begun, and which ones of
     * others the grace period waits for (0: none). */
    uint32_t nesting;
    uint64_t sections;
    uint64_t grace[AE_STEP_PARTIES];
};

struct ae_step_run {
    uint32_t flags;
    bool accesses;  /* every access is a place to switch */
    bool script;    /* run by hand: a wait is a place only if it must wait */
    bool abandoned; /* parties that get the baton leave for good */
    uint32_t nr;
    struct ae_step_party party[AE_STEP_PARTIES];
    int current;    /* who ran last */
    uint32_t steps; /* so many were chosen */
    sem_t controller;
    /* Called with the baton, at every place to switch. */
    int (*choose)(struct ae_step_run *run);
    void *chooser;
};

/* ---- step.c ------------------------------------------------------------- */

/* The calling thread's party, NULL if it is none. */
struct ae_step_party *
ae_step_self(void);
/* A place to switch: park with op as the next step, run on when chosen. */
void
ae_step_point(struct ae_step_party *me, const struct ae_step_op *op);
/* Could it take its next step now? */
bool
ae_step_enabled(struct ae_step_run *run, const struct ae_step_party *p);

struct ae_step_footprint
ae_step_footprint_of(const struct ae_step_run *run, int choice);
/* May the next steps of u and v be swapped without a difference? */
bool
ae_step_independent(int u, const struct ae_step_footprint *fu, int v,
                    const struct ae_step_footprint *fv);

int
ae_step_run_init(struct ae_step_run *run, uint32_t flags);
/* 0, -EBUSY, -ENOMEM. */
int
ae_step_run_add(struct ae_step_run *run, const char *name, avicemu_step_fn fn,
                void *arg);
/* All parties back to their beginning. */
void
ae_step_run_restart(struct ae_step_run *run);
/* Give the baton away until the chooser gives it back. */
void
ae_step_run_go(struct ae_step_run *run);
/* Ends the threads; those inside their function leave where they stand. */
void
ae_step_run_fini(struct ae_step_run *run);

/* ---- atomic_step.c ------------------------------------------------------ */

/* Make the oldest store, or all of them, visible. */
void
ae_step_drain_one(struct ae_step_party *p);
void
ae_step_drain_all(struct ae_step_party *p);
/* Has a watched value changed, or is nothing watched? */
bool
ae_step_watch_changed(const struct ae_step_party *p);

#endif
