/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_STEP_H
#define AVICEMU_STEP_H

/*
 * Stepping threads through the library's protocols, and yours. For tests;
 * only in the variant library avicemu-step (pkg-config: avicemu-step), where
 * each memory-ordering label of the library is a named stop, and locks, grace
 * periods and atomic accesses are seen by a scheduler.
 *
 * A party is a thread of this header's that runs one function of yours. Only
 * one party runs at a time, so a run is repeatable. Threads that are no
 * parties pass through all stops, and must not work on the same objects
 * meanwhile: a grace period of theirs does not wait for parties.
 *
 * Two clients. A script says by hand who runs how far:
 *
 *     avicemu_step_create(0, &s);
 *     avicemu_step_party(s, "poster", post_fn, vcpu, &p);
 *     avicemu_step_party(s, "sleeper", block_fn, vcpu, &q);
 *     avicemu_step_run(s, p, "post_a");     IRR is set, the state not read
 *     avicemu_step_run(s, q, NULL);         one stop further
 *     avicemu_step_finish(s);               all to their end
 *     avicemu_step_destroy(s);
 *
 * The explorer tries every interleaving, and tells the one that fails:
 *
 *     struct avicemu_step_test test = {
 *         .size = sizeof(test), .nr_parties = 2, .opaque = &t,
 *         .names = { "poster", "sleeper" }, .fns = { post_fn, block_fn },
 *         .setup = make_vm, .check = nothing_lost, .teardown = drop_vm,
 *     };
 *     struct avicemu_step_found found = { .size = sizeof(found) };
 *
 *     avicemu_step_explore(&test, NULL, &found);
 *     found.outcome, found.schedules, found.schedule
 *
 * Stores. An x86 processor keeps its stores in a buffer that others do not
 * see, while its later loads go ahead. With AVICEMU_STEP_TSO so does each
 * party: its plain, relaxed and release stores through the library's atomics
 * (or avicemu_step_store()) wait in a queue; its own loads see them; locked
 * operations, seq_cst stores, locks and frees wait until the queue is empty;
 * a grace period empties all. When the oldest store of a queue is made
 * visible is the scheduler's choice, like any other step. Other plain memory
 * accesses take effect at once.
 */

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AVICEMU_STEP_MAX_PARTIES 8

/* Store buffers as described above; else accesses are sequentially
 * consistent. */
#define AVICEMU_STEP_TSO (1u << 0)
/* Explorer: switch at named stops, locks and grace periods only, not at every
 * atomic access. Then AVICEMU_STEP_TSO queues are emptied by choice at stops
 * and at once by a locked operation. */
#define AVICEMU_STEP_NAMED (1u << 1)

typedef void (*avicemu_step_fn)(void *arg);

/* ---- scripts ------------------------------------------------------------ */

struct avicemu_step;

/** How a run of one party ended. */
enum avicemu_step_end {
    AVICEMU_STEP_AT,      /* parked at the stop */
    AVICEMU_STEP_BLOCKED, /* waits for a lock, a grace period or a value that
                             another party must give; run it again later */
    AVICEMU_STEP_DONE,    /* its function has returned */
};

/**
 * Create a script without parties.
 *
 * @param flags  0 or AVICEMU_STEP_TSO
 * @return 0, -EINVAL, -ENOMEM
 */
AVICEMU_API int
avicemu_step_create(uint32_t flags, struct avicemu_step **ret_step);

/**
 * Add a party. Its function does not begin before the first
 * avicemu_step_run().
 *
 * @param name       without blank, ':' and '*'; the caller's, not copied
 * @param ret_party  its number, 0..7
 * @return 0, -EINVAL, -EBUSY (there are AVICEMU_STEP_MAX_PARTIES), -ENOMEM
 *         (no thread)
 */
AVICEMU_API int
avicemu_step_party(struct avicemu_step *step, const char *name,
                   avicemu_step_fn fn, void *arg, unsigned *ret_party);

/**
 * Run a party, while all others stand still.
 *
 * @param label  until it next reaches this stop; NULL: any stop
 * @return see enum avicemu_step_end. BLOCKED also if it was blocked and still
 *         is; DONE also if it was done. Never waits for another party
 *
 * Labels: the library's AE_STEP names ("wake_a": see the ORD comments of its
 * sources), "locked", "unlocked", "rcu_enter", "rcu_leave", and yours.
 */
AVICEMU_API enum avicemu_step_end
avicemu_step_run(struct avicemu_step *step, unsigned party, const char *label);

/** Where a party stands: a label, "start", what it waits for ("lock",
 * "grace", "relax", or yours), or "done". */
AVICEMU_API const char *
avicemu_step_where(const struct avicemu_step *step, unsigned party);

/** Make the oldest buffered store of a party visible.
 * @return how many remain, -ENOENT if there was none */
AVICEMU_API int
avicemu_step_drain(struct avicemu_step *step, unsigned party);

/**
 * Run all parties to their end, in turns, and make all stores visible.
 *
 * @return 0, -EBUSY (those that are left wait for each other)
 */
AVICEMU_API int
avicemu_step_finish(struct avicemu_step *step);

/** Destroy a script. NULL is fine. Parties that are not done are given up
 * where they stand: what they hold stays held. */
AVICEMU_API void
avicemu_step_destroy(struct avicemu_step *step);

/* ---- inside a party ----------------------------------------------------- */
/* In a thread that is no party these do what they say, without stopping. */

/** A stop of your own. label: constant, not copied. */
AVICEMU_API void
avicemu_step_here(const char *label);

/**
 * In a loop that polls: wait until one of the values that this party loaded
 * (through the library's atomics or avicemu_step_load()) since its previous
 * relax has changed. label: what it waits for, for the schedule.
 */
AVICEMU_API void
avicemu_step_relax(const char *label);

/** Load, store and full barrier of your own protocol, as x86 does them.
 * bytes: 4 or 8; p aligned to it. */
AVICEMU_API uint64_t
avicemu_step_load(const void *p, unsigned bytes);
AVICEMU_API void
avicemu_step_store(void *p, unsigned bytes, uint64_t value);
AVICEMU_API void
avicemu_step_fence(void);

/* ---- the explorer ------------------------------------------------------- */

/** What to explore. Every callback's argument is opaque. */
struct avicemu_step_test {
    size_t size;
    void *opaque;
    uint32_t nr_parties; /* 1..8; sensible: 2 or 3 */
    const char *names[AVICEMU_STEP_MAX_PARTIES];
    avicemu_step_fn fns[AVICEMU_STEP_MAX_PARTIES];
    /* Before each schedule: the same state each time. 0, or -errno that
     * explore returns. */
    int (*setup)(void *opaque);
    /* After each, when all parties are done and all stores visible: 0 if all
     * is well. */
    int (*check)(void *opaque);
    /* After check. NULL: nothing to do. Not called after DEADLOCK, LIVELOCK and
     * NONDETERMINISTIC, where parties may still stand inside the objects. */
    void (*teardown)(void *opaque);
};

struct avicemu_step_limits {
    size_t size;
    uint32_t flags;         /* AVICEMU_STEP_* */
    uint32_t max_steps;     /* of one schedule; 0: 20000. More: LIVELOCK */
    uint64_t max_schedules; /* 0: 1000000. Then complete is 0 */
    /* At most so many switches away from a party, or stores made visible,
     * while that party could have gone on; 0: no limit. */
    uint32_t max_preemptions;
};

enum avicemu_step_outcome {
    AVICEMU_STEP_OK,
    AVICEMU_STEP_FAILED,           /* check said no */
    AVICEMU_STEP_DEADLOCK,         /* parties wait for each other for ever */
    AVICEMU_STEP_LIVELOCK,         /* max_steps */
    AVICEMU_STEP_NONDETERMINISTIC, /* a repeated schedule went another way */
};

#define AVICEMU_STEP_SCHEDULE_BYTES 4096

struct avicemu_step_found {
    size_t size;
    enum avicemu_step_outcome outcome;
    uint32_t complete;  /* 1: every interleaving was tried */
    uint64_t schedules; /* run to their end */
    uint64_t pruned;    /* found equivalent to another one on the way */
    uint64_t steps;     /* in all */
    uint32_t longest;   /* steps of the longest schedule */
    /*
     * The failing schedule: "A:label*n B:label*n A:drain", where A runs n
     * steps, the last label on the way being label, and a drain makes A's
     * oldest buffered store visible. Cut with "..." where it is too long.
     */
    char schedule[AVICEMU_STEP_SCHEDULE_BYTES];
};

/**
 * Run all interleavings of the parties, but for those that differ only in the
 * order of steps that do not touch the same memory. Memory that parties share
 * by other means than the library's atomics or the calls above is not seen:
 * use avicemu_step_here() around it.
 *
 * @param limits  NULL: AVICEMU_STEP_TSO and defaults
 * @param ret     size set by the caller
 * @return 0 (see ret->outcome; the first failure ends it), -EINVAL, -ENOMEM,
 *         what setup returned
 *
 * Threads: any; waits for its parties. After DEADLOCK, LIVELOCK and
 * NONDETERMINISTIC what the parties held stays held.
 */
AVICEMU_API int
avicemu_step_explore(const struct avicemu_step_test *test,
                     const struct avicemu_step_limits *limits,
                     struct avicemu_step_found *ret);

/**
 * Run one schedule, as avicemu_step_found.schedule tells it, with the flags
 * that it was found with. Where it ends, parties run to their end in turn.
 *
 * @return as avicemu_step_explore(); -EINVAL also for a schedule that does
 *         not fit the test
 */
AVICEMU_API int
avicemu_step_replay(const struct avicemu_step_test *test, const char *schedule,
                    uint32_t flags, struct avicemu_step_found *ret);

#ifdef __cplusplus
}
#endif

#endif
