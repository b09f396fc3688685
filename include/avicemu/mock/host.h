/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_MOCK_HOST_H
#define AVICEMU_MOCK_HOST_H

/*
 * Run a scenario, close its books, tell what happened.
 *
 * The books. For every vCPU, and for every vector over all vCPUs of a VM:
 *
 *     posted = delivered + merged + dropped + cleared + pending
 *
 * posted and its outcomes are what the posters' calls returned, and for
 * messages that a vCPU sends to others or to itself, what the library counted
 * at the sender; delivered is what the guests' handlers counted, and must be
 * what the library counted as acknowledged; cleared are IRR bits that an INIT
 * took away. A run whose books do not close, that lost a wake-up, or in which
 * something waited without progress is a failure, and says where.
 */

#include <stdio.h>

#include <avicemu/common.h>
#include <avicemu/mock/scenario.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_mock_host;

/** A loss that the mock commits on purpose, to prove that the books see it. */
enum avicemu_mock_plant {
    AVICEMU_MOCK_PLANT_NONE,
    AVICEMU_MOCK_PLANT_POST,     /* a device counts an MSI that it never sent */
    AVICEMU_MOCK_PLANT_HANDLER,  /* an acknowledged vector is not handled */
    AVICEMU_MOCK_PLANT_WAKE,     /* a wake callback is forgotten */
    AVICEMU_MOCK_PLANT_KICK,     /* a kick; seen with the virtual clock only */
    AVICEMU_MOCK_PLANT_DOORBELL, /* AVIC: what a doorbell rings for; likewise */
    AVICEMU_MOCK_PLANT_GA,       /* a GA-log interrupt */
};

struct avicemu_mock_options {
    size_t size;
    /*
     * Called a few times a second with the time that has passed and that the
     * run takes, both in ns of the scenario's clock; NULL: nobody to tell.
     * From the thread that runs the host.
     */
    void (*progress)(void *opaque, uint64_t now_ns, uint64_t total_ns);
    void *opaque;
    enum avicemu_mock_plant plant;
    uint64_t plant_after; /* commit it after so many occasions */
    /* Stack of a vCPU's thread, with the wall clock; 0: the system's default.
     * The library and the programs above need less than 64 KiB. */
    size_t stack_bytes;
};

/** The paths that a VM's APIC accesses and IPIs took; see struct
 * avicemu_vcpu_stats. All 0 without AVIC. */
struct avicemu_mock_paths {
    uint64_t accelerated;  /* completed without an exit */
    uint64_t trapped;      /* exit 402h after a write */
    uint64_t faulted;      /* exit 402h before an access */
    uint64_t intercepted;  /* MSR intercepts, nested page faults */
    uint64_t incomplete;   /* exit 401h */
    uint64_t doorbells;    /* rung by IPIs */
    uint64_t ipi_wakes;    /* targets woken or kicked after exit 401h */
    uint64_t ipi_software; /* IPIs that the hypervisor sent */
    uint64_t in_guest;     /* interrupts taken without an exit */
    uint64_t flips;        /* AVIC went on or off at a vCPU */
    uint64_t toggles;      /* of the scenario's inhibit reason */
};

/** What one VM did. Counts are over all its vCPUs. */
struct avicemu_mock_vm_report {
    char name[AVICEMU_MOCK_NAME_BYTES];
    char program[AVICEMU_MOCK_NAME_BYTES];
    uint32_t nr_vcpus;
    uint32_t avic;       /* 1: the VM has AVIC */
    uint64_t vcpu_bytes; /* of the library's memory, per vCPU */
    uint32_t closed;     /* 1: every book of this VM closes */
    /* The sum of the next five is posted. */
    uint64_t posted, delivered, merged, dropped, cleared, pending;
    uint32_t drop_reasons; /* OR of 1u << enum avicemu_drop */
    /* Deliveries by kind. */
    uint64_t ipis, ticks, msis, others, nmis;
    /* How the vCPUs were told, and what they did. */
    uint64_t kicks, wakes, halts, entries, slices;
    uint64_t inits, sipis;
    uint64_t operations;
    uint64_t submitted, completed; /* commands of its devices' drivers */
    struct avicemu_mock_paths paths;
};

/** What the IOMMUs did, all together. All 0 without one. */
struct avicemu_mock_iommu_report {
    uint32_t nr_iommus;
    uint64_t posted, injected, to_host, aborted; /* MSIs, by their way */
    uint64_t doorbells;
    uint64_t logged, overflows; /* GA-log entries, and those without a place */
    uint64_t interrupts;        /* of the GA logs */
    uint64_t drained, unknown;  /* entries; of those, tags of nobody */
    uint64_t wakes;             /* that a notifier made due */
    uint64_t routes, commands;
    /* Look-ups of a GA tag, in ns, the timer's own median taken off; those that
     * began while another one was under way. */
    uint64_t lookups, overlaps;
    double mean, p50, p99;
};

struct avicemu_mock_report {
    uint32_t closed;      /* 1: all books close, nothing lost or stalled */
    uint32_t interrupted; /* 1: ended by avicemu_mock_host_interrupt() */
    uint64_t elapsed_ns;  /* of the scenario's clock */
    uint64_t seed;
    /* Of everything that happened, in order; virtual clock only, else 0. */
    uint64_t trace_hash, trace_events;
    uint32_t nr_vms;
    struct avicemu_mock_vm_report *vms;
    struct avicemu_mock_iommu_report iommu;
    uint32_t nr_failures; /* all; at most 16 have a line */
    char **failures;
};

/**
 * Set up a run.
 *
 * @param scenario  copied; must pass avicemu_mock_scenario_check()
 * @param options   copied; NULL: defaults
 * @return 0, -EINVAL, -ENOMEM
 */
AVICEMU_API int
avicemu_mock_host_create(const struct avicemu_mock_scenario *scenario,
                         const struct avicemu_mock_options *options,
                         struct avicemu_mock_host **ret);

/**
 * Run it, once.
 *
 * @param ret  the report; free it with avicemu_mock_report_free()
 * @return 0 also if the books do not close; -EBUSY (ran already), -ENOMEM,
 *         -EAGAIN (no thread could be started)
 */
AVICEMU_API int
avicemu_mock_host_run(struct avicemu_mock_host *host,
                      struct avicemu_mock_report **ret);

/**
 * End the run early: what is under way is finished, and the books are closed
 * over what ran. A second call does not wait for what is under way.
 *
 * Threads: any, also before the run; async-signal-safe.
 */
AVICEMU_API void
avicemu_mock_host_interrupt(struct avicemu_mock_host *host);

/** NULL is fine. Not during a run. */
AVICEMU_API void
avicemu_mock_host_destroy(struct avicemu_mock_host *host);

/** NULL is fine. */
AVICEMU_API void
avicemu_mock_report_free(struct avicemu_mock_report *report);

/** Write the report for people. @return 0, -EIO */
AVICEMU_API int
avicemu_mock_report_print(const struct avicemu_mock_report *report, FILE *file);

/** Write the report as one JSON object. @return 0, -ENOMEM, -EIO */
AVICEMU_API int
avicemu_mock_report_json(const struct avicemu_mock_report *report, FILE *file);

#ifdef __cplusplus
}
#endif

#endif
