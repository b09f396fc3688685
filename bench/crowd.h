/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

/*
 * Threads that do, all the time, what the measured thread does in samples: so
 * that it meets them at locks and lines that all share. When it changes over
 * from one design to the other, they do.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CROWD_MAX 8u

struct crowd;

/* A burst of some microseconds of what, by member n (from 0). Any thread. */
typedef void (*crowd_fn)(void *state, unsigned n, uint32_t what);

struct crowd_member {
    struct crowd *crowd;
    unsigned n;
    pthread_t thread;
};

struct crowd {
    _Alignas(128) _Atomic uint32_t what; /* the measured thread writes it */
    _Alignas(128) _Atomic uint32_t noticed;
    /* Constant once they run. */
    _Alignas(128) unsigned nr;
    crowd_fn burst;
    void *state;
    struct crowd_member members[CROWD_MAX];
};

/* Zeroed before. nr may be 0. what: where they begin. false: no thread. */
bool
crowd_start(struct crowd *c, unsigned nr, uint32_t what, crowd_fn burst,
            void *state);
/* All of them do this from now on; at least those that have had a CPU within
 * some milliseconds. */
void
crowd_change(struct crowd *c, uint32_t what);
void
crowd_stop(struct crowd *c);

#endif
