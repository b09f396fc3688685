/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_LAPIC_H
#define AVICEMU_LAPIC_H

/*
 * The local APIC as a VMM author sees it: which model it is (personality and
 * features), what a message to it looks like, and what became of one.
 */

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Whose manual the local APIC follows where they differ. Each difference is a
 * column of the register table or a field of the personality table, and has a
 * test row: reserved-bit faults, CMCI or extended space, ICR bit 12, broadcast
 * rules, ESR behaviour, lowest-priority arbitration, level-triggered IPIs.
 */
enum avicemu_personality {
    AVICEMU_PERSONALITY_AMD,   /* [APM2 16], the default */
    AVICEMU_PERSONALITY_INTEL, /* [SDM3 APIC] */
    AVICEMU_PERSONALITY_KVM,   /* what guests of Linux KVM see */
    AVICEMU_NR_PERSONALITY,
};

/* Features of the local APIC, what CPUID and the version register tell. */
#define AVICEMU_LAPIC_X2APIC       (1u << 0) /* CPUID.1:ECX[21] */
#define AVICEMU_LAPIC_TSC_DEADLINE (1u << 1) /* CPUID.1:ECX[24] */
#define AVICEMU_LAPIC_CMCI         (1u << 2) /* LVT at 2F0h; not AMD */
#define AVICEMU_LAPIC_EXT_SPACE    (1u << 3) /* 400h and up; AMD only */
#define AVICEMU_LAPIC_DIRECTED_EOI (1u << 4) /* SVR[12], Version[24] */
#define AVICEMU_LAPIC_FIXED_BASE   (1u << 5) /* a move of the page is #GP */
#define AVICEMU_LAPIC_RESET_OFF    (1u << 6) /* EN=0 after RESET [APM2 16.10] */
#define AVICEMU_LAPIC_LINT0_OPEN   (1u << 7) /* BSP LVT0 resets to 700h [KVM] */

/** What a periodic timer does with ticks that the host accounted too late. */
enum avicemu_missed_ticks {
    AVICEMU_MISSED_SKIP,  /* they merge; the next tick is on the old grid */
    AVICEMU_MISSED_DELAY, /* they merge; the next one is a period from now */
    AVICEMU_MISSED_BURST, /* up to max_burst are made up for, one per ack */
};

/** The local APIC model of a VM; all its vCPUs share it. Zero is valid. */
struct avicemu_lapic_config {
    enum avicemu_personality personality;
    uint32_t features;   /* AVICEMU_LAPIC_*; 0: X2APIC only */
    uint32_t maxphyaddr; /* 32..52 bits of APIC_BASE; 0: 48 */
    /* Rates, in Hz, 1..2^40. The first is that of ops->now. */
    uint64_t now_hz; /* 0: 1000000000, ops->now counts nanoseconds */
    uint64_t bus_hz; /* APIC timer input clock; 0: 1000000000 [KVM] */
    uint64_t tsc_hz; /* guest TSC; 0: now_hz */
    /* Shortest period of a periodic timer, in ticks of now; 0: no limit. */
    uint64_t min_period;
    enum avicemu_missed_ticks missed_ticks;
    uint32_t max_burst; /* BURST only: ticks made up for, 1..65536 */
};

/** Delivery mode: bits 10:8 of an ICR, an LVT entry and MSI data. */
enum avicemu_delivery {
    AVICEMU_DELIVERY_FIXED = 0,
    AVICEMU_DELIVERY_LOWEST = 1,
    AVICEMU_DELIVERY_SMI = 2,
    AVICEMU_DELIVERY_REMOTE_READ = 3, /* reserved on modern parts: dropped */
    AVICEMU_DELIVERY_NMI = 4,
    AVICEMU_DELIVERY_INIT = 5,
    AVICEMU_DELIVERY_SIPI = 6,
    AVICEMU_DELIVERY_EXTINT = 7,
};

enum avicemu_trigger {
    AVICEMU_TRIGGER_EDGE,
    AVICEMU_TRIGGER_LEVEL,
};

/** What became of an interrupt offered to one target. */
enum avicemu_post {
    AVICEMU_POST_NEW,     /* accepted; it will be acknowledged or cleared */
    AVICEMU_POST_MERGED,  /* the same one was pending already */
    AVICEMU_POST_DROPPED, /* not accepted; the reason is counted */
};

/** Why an interrupt was not accepted. Bit numbers of avicemu_posted.why. */
enum avicemu_drop {
    AVICEMU_DROP_NO_TARGET,   /* no APIC has that destination */
    AVICEMU_DROP_DISABLED,    /* the APIC is hardware- or software-disabled */
    AVICEMU_DROP_ILLEGAL,     /* vector 0..15 */
    AVICEMU_DROP_MODE,        /* delivery mode reserved or not supported */
    AVICEMU_DROP_DEASSERT,    /* level-triggered de-assertion */
    AVICEMU_DROP_NOT_WAITING, /* SIPI to a CPU that does not wait for one */
    AVICEMU_DROP_MASKED,      /* its LVT entry or line is masked */
    AVICEMU_DROP_ADDRESS,     /* MSI address outside FEEx_xxxxh */
    AVICEMU_NR_DROP,
};

/** Outcome of one message; a multicast counts every target. */
struct avicemu_posted {
    uint32_t nr_new;
    uint32_t nr_merged;
    uint32_t nr_dropped; /* targets that refused; 1 if there was no target */
    uint32_t why;        /* OR of 1u << enum avicemu_drop */
};

/** Mode of an APIC, from APIC_BASE. */
enum avicemu_apic_mode {
    AVICEMU_APIC_DISABLED,
    AVICEMU_APIC_XAPIC,
    AVICEMU_APIC_X2APIC,
};

/** Sources with an LVT entry that the host raises. LINT: avicemu_vcpu_lint. */
enum avicemu_lvt {
    AVICEMU_LVT_CMCI,
    AVICEMU_LVT_THERMAL,
    AVICEMU_LVT_PERF,
    AVICEMU_LVT_EXT0,
    AVICEMU_LVT_EXT1,
    AVICEMU_LVT_EXT2,
    AVICEMU_LVT_EXT3,
    AVICEMU_NR_LVT,
};

/**
 * Send a message-signalled interrupt, as a device behind no remapping does.
 *
 * @param vm       target VM
 * @param address  MSI address: FEEx_xxxxh; [19:12] destination, [3] redirection
 *                 hint, [2] logical. [63:40] extend the destination to 32 bits
 *                 ([KVM] 32-bit id format: bits 39:32 must be 0)
 * @param data     [7:0] vector, [10:8] delivery mode, [14] assert, [15] level
 * @param ret      counts per outcome; NULL: not wanted
 * @return 0, -EINVAL if vm is NULL
 *
 * Threads: any, concurrently, also while vCPUs are added or destroyed.
 * Progress: lock-free; a multicast is bounded by the number of vCPUs.
 * Ordering: writes before this call are visible to whoever acks the vector.
 * Spec: [APM2 16.5 interrupt messages], [SDM3 10.11 message signalled]
 */
AVICEMU_API int
avicemu_msi(struct avicemu_vm *vm, uint64_t address, uint32_t data,
            struct avicemu_posted *ret);

/**
 * Say in one line what an interrupt command means, for traces and tests.
 *
 * @param icr    [31:0] ICR low, [63:32] ICR high: in xAPIC mode the
 *               destination is [63:56], in x2APIC mode [63:32]
 * @param mode   how to read the destination
 * @param buf    written, always terminated if len is not 0
 * @param len    bytes in buf
 * @return length of the whole line without the terminator, as snprintf
 *
 * Threads: any. Spec: [APM2 16.5 ICR], [APM2 16.13 x2APIC ICR]
 */
AVICEMU_API int
avicemu_describe_icr(uint64_t icr, enum avicemu_apic_mode mode, char *buf,
                     size_t len);

/** Say in one line what an MSI means. As avicemu_describe_icr(). */
AVICEMU_API int
avicemu_describe_msi(uint64_t address, uint32_t data, char *buf, size_t len);

/**
 * Say in one line what a local APIC register and its value mean.
 *
 * @param offset  byte offset in the xAPIC page, 0..FFFh (x2APIC MSR m has
 *                offset (m - 800h) * 16)
 * @param value   the register's value
 * @return as avicemu_describe_icr()
 */
AVICEMU_API int
avicemu_describe_reg(uint32_t offset, uint32_t value, char *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
