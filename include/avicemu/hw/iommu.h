/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_HW_IOMMU_H
#define AVICEMU_HW_IOMMU_H

/*
 * An AMD IOMMU's interrupt path, alone: MMIO registers, device table, interrupt
 * remapping with guest virtual APIC mode, command buffer, event log, GA log.
 * For people who test their own driver: tables, rings and backing pages are the
 * caller's memory, laid out as a kernel's own structs fill them.
 *
 * What happens outside is either memory or returned: a message for the host's
 * CPUs, a doorbell, the IOMMU's own interrupts (signals). No callbacks. An
 * interrupt can be made in steps, one per access that another agent can see.
 *
 * Not modelled: DMA page tables, the PPR log, segments, SNP, vIOMMU.
 */

#include <avicemu/common.h>
#include <avicemu/hw/core.h>
#include <avicemu/hw/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what the silicon has ----------------------------------------------- */

#define AVICEMU_IOMMU_GA        (1u << 0) /* GASup: 128-bit entries */
#define AVICEMU_IOMMU_GAM       (1u << 1) /* GAMSup = 1: guest mode; GA log */
#define AVICEMU_IOMMU_XT        (1u << 2) /* XTSup: 32-bit destinations */
#define AVICEMU_IOMMU_IA        (1u << 3) /* IASup: INVALIDATE_IOMMU_ALL */
#define AVICEMU_IOMMU_2K        (1u << 4) /* NumIntRemapSup: 2048 entries */
#define AVICEMU_IOMMU_MSI_MMIO  (1u << 5) /* MsiCapMmioSup */
#define AVICEMU_IOMMU_GAPPI     (1u << 6) /* GAPPISup */
#define AVICEMU_IOMMU_GAPPI_DIS (1u << 7) /* GAPPIDisSup */
/* Cache entries of both tables, strictly: until they are invalidated, even if
 * memory changed. Shows a driver that forgets to. */
#define AVICEMU_IOMMU_CACHE (1u << 8)
/* None of the others: an old one, with 32-bit entries. */
#define AVICEMU_IOMMU_BARE (1u << 31)
/* What features = 0 stands for. */
#define AVICEMU_IOMMU_DEFAULT                                  \
    (AVICEMU_IOMMU_GA | AVICEMU_IOMMU_GAM | AVICEMU_IOMMU_XT | \
     AVICEMU_IOMMU_IA | AVICEMU_IOMMU_2K | AVICEMU_IOMMU_MSI_MMIO)

/* ---- registers, byte offsets -------------------------------------------- */

#define AVICEMU_IOMMU_DEVICE_TABLE 0x0000u /* [51:12] base [8:0] pages - 1 */
#define AVICEMU_IOMMU_COMMAND_BASE 0x0008u /* [51:12] base [59:56] length */
#define AVICEMU_IOMMU_EVENT_BASE   0x0010u
#define AVICEMU_IOMMU_CONTROL      0x0018u
#define AVICEMU_IOMMU_EFR          0x0030u
#define AVICEMU_IOMMU_GA_BASE      0x00e0u
#define AVICEMU_IOMMU_GA_TAIL_WORD 0x00e8u /* address of a copy of the tail */
#define AVICEMU_IOMMU_XT_EVENT     0x0170u
#define AVICEMU_IOMMU_XT_GA        0x0180u
#define AVICEMU_IOMMU_EFR2         0x01a0u
#define AVICEMU_IOMMU_COMMAND_HEAD 0x2000u
#define AVICEMU_IOMMU_COMMAND_TAIL 0x2008u
#define AVICEMU_IOMMU_EVENT_HEAD   0x2010u
#define AVICEMU_IOMMU_EVENT_TAIL   0x2018u
#define AVICEMU_IOMMU_STATUS       0x2020u
#define AVICEMU_IOMMU_GA_HEAD      0x2040u
#define AVICEMU_IOMMU_GA_TAIL      0x2048u

/* Control. */
#define AVICEMU_CONTROL_IOMMU_EN        (1ull << 0)
#define AVICEMU_CONTROL_EVENT_LOG_EN    (1ull << 2)
#define AVICEMU_CONTROL_EVENT_INT_EN    (1ull << 3)
#define AVICEMU_CONTROL_COM_WAIT_INT_EN (1ull << 4)
#define AVICEMU_CONTROL_CMD_BUF_EN      (1ull << 12)
#define AVICEMU_CONTROL_GA_EN           (1ull << 17)
#define AVICEMU_CONTROL_GAM_EN          (1ull << 25) /* GAMEn = 1 */
#define AVICEMU_CONTROL_GA_LOG_EN       (1ull << 28)
#define AVICEMU_CONTROL_GA_INT_EN       (1ull << 29)
#define AVICEMU_CONTROL_2K              (1ull << 43) /* NumIntRemapMode = 1 */
#define AVICEMU_CONTROL_XT_EN           (1ull << 50)
#define AVICEMU_CONTROL_INT_CAP_XT_EN   (1ull << 51)
#define AVICEMU_CONTROL_GAPPI_EN        (1ull << 55)
#define AVICEMU_CONTROL_IRT_CACHE_DIS   (1ull << 59)

/* Status. Runs are read-only, the rest is cleared by writing 1. */
#define AVICEMU_STATUS_EVENT_OVERFLOW (1ull << 0)
#define AVICEMU_STATUS_EVENT_LOG_INT  (1ull << 1)
#define AVICEMU_STATUS_COM_WAIT_INT   (1ull << 2)
#define AVICEMU_STATUS_EVENT_LOG_RUN  (1ull << 3)
#define AVICEMU_STATUS_CMD_BUF_RUN    (1ull << 4)
#define AVICEMU_STATUS_GA_LOG_RUN     (1ull << 8)
#define AVICEMU_STATUS_GA_OVERFLOW    (1ull << 9)
#define AVICEMU_STATUS_GA_INT         (1ull << 10)

/* ---- an IOMMU ----------------------------------------------------------- */

struct avicemu_hw_iommu;

struct avicemu_hw_iommu_config {
    size_t size;
    struct avicemu_hw_memory *memory; /* required; outlives the IOMMU */
    uint32_t features;                /* AVICEMU_IOMMU_*; 0: DEFAULT */
    uint32_t maxphyaddr;              /* 32..52; 0: 48 */
    uint32_t nr_doorbells;
    struct avicemu_doorbell *doorbells; /* by host APIC id; 64-byte aligned */
    uint32_t nr_cached; /* CACHE: entries each, a power of two to 65536; 0: 256
                         */
};

/**
 * Create an IOMMU in reset state.
 *
 * @param config     copied
 * @param ret_iommu  the caller's until avicemu_hw_iommu_destroy()
 * @return 0, -EINVAL (a field out of range), -ENOMEM
 */
AVICEMU_API int
avicemu_hw_iommu_create(const struct avicemu_hw_iommu_config *config,
                        struct avicemu_hw_iommu **ret_iommu);

/** Destroy it; NULL is fine. Nothing may be under way. */
AVICEMU_API void
avicemu_hw_iommu_destroy(struct avicemu_hw_iommu *iommu);

/* Its own interrupts, to be sent by the caller. */
#define AVICEMU_SIGNAL_EVENT (1u << 0) /* event log, COMPLETION_WAIT */
#define AVICEMU_SIGNAL_GA    (1u << 1) /* GA log */

/**
 * Read a register, or either half of one.
 *
 * @param offset  0..3FFFh, a multiple of bytes; what is no register reads 0
 * @param bytes   4 or 8
 * @return 0, -EINVAL
 *
 * Threads: any. Ordering: entries before a tail that was read are visible.
 */
AVICEMU_API int
avicemu_hw_iommu_read(struct avicemu_hw_iommu *iommu, uint32_t offset,
                      unsigned bytes, uint64_t *ret_value);

/**
 * Write a register, or either half of one: reserved and read-only bits stay.
 *
 * @param ret_signals  AVICEMU_SIGNAL_* to send now, 0 if none; may be NULL
 * @return 0, -EINVAL
 *
 * Threads: one at a time for each register, and for all of one ring.
 * Progress: never waits. A command tail carries out up to a ring of commands; a
 * COMPLETION_WAIT is done when the interrupts that began before it are, by
 * whoever ends the last of them.
 */
AVICEMU_API int
avicemu_hw_iommu_write(struct avicemu_hw_iommu *iommu, uint32_t offset,
                       unsigned bytes, uint64_t value, uint32_t *ret_signals);

/** A dword of the PCI capability block, offsets 0..14h from its start; 0
 * elsewhere. @return 0, -EINVAL */
AVICEMU_API int
avicemu_hw_iommu_config_read(struct avicemu_hw_iommu *iommu, uint32_t offset,
                             uint32_t *ret_value);
/** Write one: base address, until its enable bit locks it. @return 0, -EINVAL
 */
AVICEMU_API int
avicemu_hw_iommu_config_write(struct avicemu_hw_iommu *iommu, uint32_t offset,
                              uint32_t value);

/** An interrupt for a CPU of the host. */
struct avicemu_hw_message {
    uint32_t dest;
    int logical;
    enum avicemu_delivery mode;
    uint8_t vector;
    int level;
};

/**
 * How one signal is sent: by the MSI capability, or by the XT registers.
 *
 * @param signal  one AVICEMU_SIGNAL_*
 * @return 0, -EINVAL, -EAGAIN (software has masked it, or there is no
 *         MsiCapMmioSup and the MSI is programmed elsewhere: not sent here)
 */
AVICEMU_API int
avicemu_hw_iommu_signal(struct avicemu_hw_iommu *iommu, uint32_t signal,
                        struct avicemu_hw_message *ret);

/* ---- one interrupt ------------------------------------------------------ */

enum avicemu_hw_outcome {
    AVICEMU_HW_POSTED,     /* the bit is in a backing page */
    AVICEMU_HW_REMAPPED,   /* send message */
    AVICEMU_HW_FORWARDED,  /* not remapped: send message, which is as it came */
    AVICEMU_HW_ABORTED,    /* dropped; event says why */
    AVICEMU_HW_NO_REQUEST, /* the address is no interrupt's */
};

/** What the last step did. */
enum avicemu_hw_event {
    AVICEMU_HW_NOTHING,
    AVICEMU_HW_BEGUN,    /* counts as under way, for COMPLETION_WAIT */
    AVICEMU_HW_DTE,      /* the device table was looked at */
    AVICEMU_HW_FETCHED,  /* the IRTE was read */
    AVICEMU_HW_IRR,      /* the IRR bit is set */
    AVICEMU_HW_REREAD,   /* the IRTE was read again */
    AVICEMU_HW_RANG,     /* the doorbell of dest was rung */
    AVICEMU_HW_PHYSICAL, /* GAPPI: send message */
    AVICEMU_HW_RESERVED, /* slot: a place in the GA log, overflow, or off */
    AVICEMU_HW_LOGGED,   /* the entry with ga_tag is written */
    AVICEMU_HW_TAIL,     /* the tail was moved past it */
    AVICEMU_HW_STATUS,   /* GAInt is set */
    AVICEMU_HW_EVENT,    /* the fault is logged, where it may be */
    AVICEMU_HW_FINISHED, /* nothing is left; signals are to be sent */
};

enum avicemu_hw_slot {
    AVICEMU_HW_SLOT_RESERVED,
    AVICEMU_HW_SLOT_OVERFLOW, /* it was full: GALOverflow is set */
    AVICEMU_HW_SLOT_OFF,      /* GALogRun is 0: dropped */
};

/** One interrupt; the caller's memory. */
struct avicemu_hw_msi {
    size_t size;
    enum avicemu_hw_event event;     /* of the last step */
    enum avicemu_hw_outcome outcome; /* FINISHED */
    enum avicemu_post posted;        /* POSTED, from IRR on: NEW or MERGED */
    uint32_t fault;                  /* ABORTED: the event's code, 1..8 */
    uint32_t signals;                /* FINISHED: AVICEMU_SIGNAL_* */
    struct avicemu_hw_message message;
    uint32_t dest;   /* RANG */
    uint32_t ga_tag; /* RESERVED, LOGGED, TAIL, STATUS */
    enum avicemu_hw_slot slot;
    /* FINISHED: how often each happened. */
    uint32_t nr_doorbells, nr_logged, nr_overflows;
    uint64_t state[48]; /* the engine's */
};

/**
 * A device writes an MSI: all of it.
 *
 * @param device_id  requester: bus [15:8], device and function [7:0]
 * @param address    FEEx_xxxxh, or HyperTransport's FD_F8xx_xxxxh
 * @param data       MSI data; of a HyperTransport address ignored
 * @param msi        size set; the rest is written
 * @return 0, -EINVAL
 *
 * Threads: any, concurrently, also with register accesses. Lock-free.
 */
AVICEMU_API int
avicemu_hw_iommu_msi(struct avicemu_hw_iommu *iommu, uint16_t device_id,
                     uint64_t address, uint32_t data,
                     struct avicemu_hw_msi *msi);

/** Begin one that is made in steps. It must be stepped to FINISHED, however
 * late: until then COMPLETION_WAIT waits for it. @return 0, -EINVAL */
AVICEMU_API int
avicemu_hw_iommu_msi_begin(struct avicemu_hw_iommu *iommu, uint16_t device_id,
                           uint64_t address, uint32_t data,
                           struct avicemu_hw_msi *msi);
/** The next step. @return msi->event; NOTHING of one that was never begun */
AVICEMU_API enum avicemu_hw_event
avicemu_hw_iommu_msi_step(struct avicemu_hw_msi *msi);

/* ---- in words ----------------------------------------------------------- */

/** Say in one line what a 128-bit remapping table entry means, in either mode.
 * @return as snprintf */
AVICEMU_API int
avicemu_describe_irte(uint64_t low, uint64_t high, char *buf, size_t len);
/** The same of a GA log entry. */
AVICEMU_API int
avicemu_describe_ga_entry(uint64_t entry, char *buf, size_t len);
/** The same of an event log entry. */
AVICEMU_API int
avicemu_describe_event(uint64_t low, uint64_t high, char *buf, size_t len);
/** The same of the status register. */
AVICEMU_API int
avicemu_describe_iommu_status(uint64_t status, char *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
