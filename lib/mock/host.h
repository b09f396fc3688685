/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_HOST_H
#define AE_MOCK_HOST_H

/*
 * The run: what all VMs, vCPUs and devices of a scenario share.
 *
 * Phases of a VM: it runs, then it drains (nothing new is begun, what is under
 * way is finished). Stages of the stop, with the wall clock:
 *
 *   STOP_NO     all threads at work
 *   STOP_PARK   devices have ended; a vCPU thread ends at its next step, one
 *               that sleeps stays asleep unless it was woken
 *   STOP_LEAVE  no vCPU runs, so nobody posts: whoever sleeps, was not woken,
 *               and has work, has lost a wake-up. That is certain, no timeout
 *
 * Lines of failure are under lock: any thread may fail a run. The trace belongs
 * to the one thread that the virtual clock has.
 */

#include <semaphore.h>

#include <avicemu/avicemu.h>
#include <avicemu/mock/host.h>

#include "heap.h"
#include "pcpu.h"

enum am_phase {
    AE_PHASE_RUN,
    AE_PHASE_DRAIN,
};

enum am_stop {
    AE_STOP_NO,
    AE_STOP_PARK,
    AE_STOP_LEAVE,
};

#define AE_MAX_FAILURES 16

struct am_virtual;

struct avicemu_mock_host {
    /* set at creation */
    struct avicemu_mock_scenario scenario;
    struct avicemu_mock_options options;
    struct avicemu_host *host;
    uint32_t nr_vms;
    uint32_t nr_devices;
    uint32_t nr_units; /* IOMMUs */
    struct avicemu_mock_vm **vms;
    struct am_device **devices;
    struct am_iommu_unit **units;
    struct am_pcpu_pool pool;
    struct am_virtual *sim; /* NULL: wall clock */
    uint64_t start_ns;      /* wall clock: CLOCK_MONOTONIC at the start */
    bool ran;
    /* when the run began, in ticks and in ns of real time */
    uint64_t ticks_began, wall_began_ns;

    /* one thread with the virtual clock; unused with the wall clock */
    uint64_t now_ns;
    uint64_t trace_hash;
    uint64_t trace_events;

    /* any thread */
    _Atomic uint32_t interrupts; /* avicemu_mock_host_interrupt() calls */
    _Atomic uint32_t stop;       /* enum am_stop */
    _Atomic uint64_t plant_seen;
    _Alignas(64) _Atomic uint32_t looking_up; /* notifiers, in a look-up */
    sem_t alarm; /* posted by an interrupt: the controller looks up */

    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t parked; /* nr_awake became 0 */
    uint32_t nr_awake;     /* vCPU threads that do not sleep */
    uint32_t nr_failures;
    char *failures[AE_MAX_FAILURES];
};

/* ns since the start, on the scenario's clock. Any thread. */
uint64_t
am_host_now(const struct avicemu_mock_host *host);

/* One more failure, with a line. Any thread. */
void
am_host_fail(struct avicemu_mock_host *host, const char *fmt, ...)
    AVICEMU_PRINTF(2, 3);

/* Is this the occasion at which the planted loss is due? Any thread. */
bool
am_host_plant(struct avicemu_mock_host *host, enum avicemu_mock_plant plant);

/* Add an event to the trace; no effect with the wall clock. */
void
am_host_trace(struct avicemu_mock_host *host, uint32_t who, uint32_t kind,
              uint64_t value);

/* Ask every VM to drain. Any thread. */
void
am_host_drain(struct avicemu_mock_host *host);

/* All CPUs asleep or done with nothing expected, all devices idle? */
bool
am_host_quiet(struct avicemu_mock_host *host);

/* What waits without progress for the scenario's watchdog time: one line of
 * failure each. True: there was one. One thread at a time. */
bool
am_host_stalled(struct avicemu_mock_host *host, uint64_t now_ns);

/* What takes the place of a step in the two ways to drive a run. */
int
am_wall_run(struct avicemu_mock_host *host);
int
am_virtual_run(struct avicemu_mock_host *host);

#endif
