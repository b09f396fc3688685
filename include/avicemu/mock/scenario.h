/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_MOCK_SCENARIO_H
#define AVICEMU_MOCK_SCENARIO_H

/*
 * What the mock host runs: a plain struct, filled by hand or from an INI file.
 *
 *     [host]                        one; every key has a default
 *     pcpus = 2                     1..512 physical CPUs
 *     clock = wall                  wall | virtual
 *     seed = 1                      0..2^64-1
 *     slice = 2ms                   10us..1s, what a vCPU runs in one go
 *     duration = 8s                 1ms..1h, then the guests are drained
 *     watchdog = 10s                1s..10m without progress is a failure
 *     avic = off                    off | avic | x2avic | x2avic-ext: silicon
 *     erratum = off                 off | 1235: IPI virtualisation is off
 *     iommus = 0                    0..16: devices post through them, in turn;
 *                                   needs avic. 0: devices send plain MSIs
 *
 *     [vm NAME]                     1..32 of them
 *     vcpus = 4                     1..4096; xapic 1..255, nvme 1..64
 *     mode = x2apic                 xapic | x2apic
 *     personality = amd             amd | intel | kvm
 *     program = nvme                boot | ticks | ipi | nvme
 *     operations = 0                stop early after so many; 0: run on
 *     timer = periodic              off | oneshot | periodic | deadline
 *     tick = 4ms                    20us..1s
 *     ipi = strict                  strict | flood
 *     destination = mixed           physical | logical | broadcast | mixed
 *     nmi = 0                       an NMI every so many rounds; 0: none
 *     avic = off                    off | on; needs avic in [host]
 *     ipiv = on                     off | on: IPI virtualisation
 *     toggle = 0                    0..1000000 times a second AVIC is switched
 *                                   off and on, at random; needs avic = on
 *
 *     [device NAME]                 0..64 of them, NVMe-like
 *     vm = NAME                     a VM that runs nvme
 *     depth = 16                    1..1024 commands in flight per queue
 *     service = 50us                0..1s
 *     jitter = 10us                 0..1s, added at random
 *
 * Sizes of time are an integer with ns, us, ms, s, m or h. A key or section
 * that is not listed here, and a key set twice, is an error.
 */

#include <avicemu/common.h>
#include <avicemu/lapic.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_mock_program;

#define AVICEMU_MOCK_NAME_BYTES  32
#define AVICEMU_MOCK_MAX_VMS     32
#define AVICEMU_MOCK_MAX_VCPUS   4096
#define AVICEMU_MOCK_MAX_DEVICES 64

enum avicemu_mock_clock {
    AVICEMU_MOCK_CLOCK_WALL,    /* a thread per vCPU and device */
    AVICEMU_MOCK_CLOCK_VIRTUAL, /* one thread; repeatable bit for bit */
};

/** What the host's silicon has. */
enum avicemu_mock_avic {
    AVICEMU_MOCK_AVIC_OFF,
    AVICEMU_MOCK_AVIC,
    AVICEMU_MOCK_X2AVIC,     /* ids to 511 */
    AVICEMU_MOCK_X2AVIC_EXT, /* ids to 4095 */
};

enum avicemu_mock_timer {
    AVICEMU_MOCK_TIMER_OFF,
    AVICEMU_MOCK_TIMER_ONESHOT,
    AVICEMU_MOCK_TIMER_PERIODIC,
    AVICEMU_MOCK_TIMER_DEADLINE,
};

enum avicemu_mock_ipi {
    AVICEMU_MOCK_IPI_STRICT, /* each is acknowledged; none may merge */
    AVICEMU_MOCK_IPI_FLOOD,  /* nobody waits; many merge */
};

enum avicemu_mock_destination {
    AVICEMU_MOCK_DESTINATION_PHYSICAL,
    AVICEMU_MOCK_DESTINATION_LOGICAL,
    AVICEMU_MOCK_DESTINATION_BROADCAST, /* shorthand all but self */
    AVICEMU_MOCK_DESTINATION_MIXED,     /* in turn, round by round */
};

struct avicemu_mock_vm_config {
    char name[AVICEMU_MOCK_NAME_BYTES];
    uint32_t nr_vcpus;
    enum avicemu_apic_mode mode; /* XAPIC or X2APIC */
    enum avicemu_personality personality;
    /* What the guest runs. A program of the caller's own, or NULL and one of
     * the names above. It must outlive the run. */
    const struct avicemu_mock_program *program;
    char program_name[AVICEMU_MOCK_NAME_BYTES];
    uint64_t operations;
    enum avicemu_mock_timer timer;
    uint64_t tick_ns;
    enum avicemu_mock_ipi ipi;
    enum avicemu_mock_destination destination;
    uint32_t nmi_every;
    uint32_t avic;   /* 0 or 1 */
    uint32_t ipiv;   /* 0 or 1 */
    uint32_t toggle; /* flips of an inhibit reason per second; 0: none */
};

struct avicemu_mock_device_config {
    char name[AVICEMU_MOCK_NAME_BYTES];
    uint32_t vm; /* index in vms */
    uint32_t depth;
    uint64_t service_ns;
    uint64_t jitter_ns;
};

struct avicemu_mock_scenario {
    size_t size;
    uint32_t nr_pcpus;
    enum avicemu_mock_clock clock;
    uint64_t seed;
    uint64_t slice_ns;
    uint64_t duration_ns;
    uint64_t watchdog_ns;
    enum avicemu_mock_avic avic;
    uint32_t erratum_1235; /* 0 or 1 */
    uint32_t nr_iommus;
    uint32_t nr_vms;
    uint32_t nr_devices;
    struct avicemu_mock_vm_config vms[AVICEMU_MOCK_MAX_VMS];
    struct avicemu_mock_device_config devices[AVICEMU_MOCK_MAX_DEVICES];
};

/** Fill in the defaults above, with no VM and no device. */
AVICEMU_API void
avicemu_mock_scenario_init(struct avicemu_mock_scenario *ret);

/** Fill in the defaults of one VM (one vCPU that runs ticks) and its name. */
AVICEMU_API void
avicemu_mock_vm_init(struct avicemu_mock_vm_config *ret, const char *name);

/** Fill in the defaults of one device of the first VM and its name. */
AVICEMU_API void
avicemu_mock_device_init(struct avicemu_mock_device_config *ret,
                         const char *name);

/**
 * Read a scenario file.
 *
 * @param path  "-" is standard input
 * @param ret   written on success
 * @param error receives one line "FILE:LINE: [SECTION] KEY = VALUE: why, and
 *              what is allowed"; written on failure
 * @param len   bytes in error
 * @return 0, -EINVAL (the text), -ENOENT (cannot be read), -ENOMEM
 */
AVICEMU_API int
avicemu_mock_scenario_load(const char *path, struct avicemu_mock_scenario *ret,
                           char *error, size_t len);

/** As above from memory; name stands for the path in messages. */
AVICEMU_API int
avicemu_mock_scenario_parse(const char *name, const char *text,
                            struct avicemu_mock_scenario *ret, char *error,
                            size_t len);

/**
 * Check a scenario that was filled by hand: ranges, and what must fit together.
 *
 * @return 0, -EINVAL and one line in error
 */
AVICEMU_API int
avicemu_mock_scenario_check(const struct avicemu_mock_scenario *scenario,
                            char *error, size_t len);

#ifdef __cplusplus
}
#endif

#endif
