/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_IOMMU_H
#define AE_HW_IOMMU_H

/*
 * An AMD IOMMU's interrupt path: registers (iommu.c), commands and events
 * (iommu_command.c), one interrupt (iommu_msi.c).
 */

#include <avicemu/hw/iommu.h>

#include "hw/avic.h"
#include "hw/galog.h"
#include "hw/intcache.h"
#include "hw/irte.h"

/* What the silicon is. */
struct ae_iommu_silicon {
    const struct ae_mem *mem;
    uint64_t efr, efr2; /* as the registers read */
    uint32_t maxphyaddr;
    struct ae_bells bells;
    /* The sides of its logs: AE_GALOG_MAX_SLOTS, AE_EVENT_MAX_SLOTS. */
    _Atomic uint32_t *ga_marks, *event_marks;
    /* Both caches, a power of two of zeroed lines each; NULL: none. */
    struct ae_intcache_line *dte_lines, *irte_lines;
    uint32_t nr_lines;
};

/* Its own interrupts, a bit each: what became pending, and is to be sent. */
#define AE_IOMMU_SIGNAL_EVENT (1u << 0) /* an event, or COMPLETION_WAIT */
#define AE_IOMMU_SIGNAL_GA    (1u << 1)

struct ae_iommu {
    /* Constant after init. */
    struct ae_remapper remapper;
    uint64_t efr, efr2;
    uint64_t control_writable;
    struct ae_bells bells;

    /* Software's: one writer at a time for each. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t control;
    _Atomic uint64_t plain[AE_NR_IOMMU_REGS]; /* of rows that say PLAIN */
    _Atomic uint32_t capability[6];           /* of the PCI function */

    /* The interrupt bits of the status register; all. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t status;

    /* The command buffer: tail and base software's, run a bit of either's, the
     * rest whoever has the engine; see iommu_command.c. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t engine; /* enum engine */
    _Atomic uint32_t command_run;
    _Atomic uint64_t command_base;
    _Atomic uint32_t command_head, command_tail; /* bytes */
    _Atomic uint32_t waiting; /* a COMPLETION_WAIT is not done */
    uint32_t wait_flags;      /* of that one */
    uint64_t wait_address, wait_data;

    /* Interrupts under way, by the epoch that they began in; all. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t epoch;
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t under_way[2];

    struct ae_galog events;
    struct ae_galog ga;
    struct ae_intcache dtes;
    struct ae_intcache irtes;
};

/* Feature registers from AVICEMU_IOMMU_*; 0: the default. What that stands for.
 */
uint32_t
ae_iommu_features(uint32_t features, struct ae_iommu_silicon *silicon);
void
ae_iommu_init(struct ae_iommu *iommu, const struct ae_iommu_silicon *silicon);

/* ---- software's side ---------------------------------------------------- */

/* A register, or half of one: bytes 4 or 8, aligned, else 0. Any thread. */
uint64_t
ae_iommu_mmio_read(const struct ae_iommu *iommu, uint32_t offset,
                   unsigned bytes);
/* One thread at a time for each register, and for base, pointers and enable
 * bit of one ring. signals: what must be sent now is added. In a read-side
 * section. Bounded: a write of a tail may run a whole ring of commands. */
void
ae_iommu_mmio_write(struct ae_iommu *iommu, uint32_t offset, unsigned bytes,
                    uint64_t value, uint32_t *signals);

/* The capability block in the function's configuration space: a dword. */
uint32_t
ae_iommu_config_read(const struct ae_iommu *iommu, uint32_t offset);
void
ae_iommu_config_write(struct ae_iommu *iommu, uint32_t offset, uint32_t value);

/* How a signal is sent. false: masked, by a register that is 0. */
bool
ae_iommu_signal_message(const struct ae_iommu *iommu, uint32_t signal,
                        struct ae_message *ret);

/* ---- hardware's side; any thread, in read-side sections ------------------ */

/* The control register. */
uint64_t
ae_iommu_control(const struct ae_iommu *iommu);

/* Set an interrupt bit of the status register. */
void
ae_iommu_raise(struct ae_iommu *iommu, uint64_t bit, uint32_t *signals);

/* An entry of the event log; dropped where that is off. flags: as EVENT_I and
 * so on. */
void
ae_iommu_event(struct ae_iommu *iommu, enum ae_iommu_event_code code,
               uint64_t flags, uint64_t address, uint32_t *signals);

/* ---- the command buffer: software's, as the registers -------------------- */

uint64_t
ae_command_base(const struct ae_iommu *iommu);
uint32_t
ae_command_head(const struct ae_iommu *iommu);
uint32_t
ae_command_tail(const struct ae_iommu *iommu);
/* CmdBufRun: also while a command is being carried out. */
bool
ae_command_running(const struct ae_iommu *iommu);
/* Ignored while it runs. The first also sets head and tail to 0. */
void
ae_command_set_base(struct ae_iommu *iommu, uint64_t value);
void
ae_command_set_head(struct ae_iommu *iommu, uint32_t value);
void
ae_command_set_tail(struct ae_iommu *iommu, uint32_t value, uint32_t *signals);
/* CmdBufEn rises, falls. */
void
ae_command_start(struct ae_iommu *iommu, uint32_t *signals);
void
ae_command_stop(struct ae_iommu *iommu);

/* Carry commands out, as far as it goes, if nobody else does. */
void
ae_iommu_run(struct ae_iommu *iommu, uint32_t *signals);

/* Interrupts under way: an interrupt looks at no table before enter, and has
 * done all it does before leave. */
uint32_t
ae_iommu_enter(struct ae_iommu *iommu, uint32_t *signals);
void
ae_iommu_leave(struct ae_iommu *iommu, uint32_t epoch, uint32_t *signals);

/* ---- one interrupt ------------------------------------------------------ */

/* What the last step did. */
enum ae_msi_event {
    AE_MSI_BEGUN,    /* it counts as under way */
    AE_MSI_DTE,      /* the device table entry was read */
    AE_MSI_FETCHED,  /* the IRTE was read */
    AE_MSI_IRR,      /* posted */
    AE_MSI_REREAD,   /* the IRTE was read again */
    AE_MSI_RANG,     /* notice: a doorbell */
    AE_MSI_PHYSICAL, /* notice: message is to be sent to the host */
    AE_MSI_RESERVED, /* notice: a place in the GA log, or none */
    AE_MSI_LOGGED,   /* the log entry is written */
    AE_MSI_TAIL,     /* the tail was moved over it */
    AE_MSI_STATUS,   /* GAInt is set */
    AE_MSI_EVENT,    /* an event was logged, if it may be */
    AE_MSI_FINISHED, /* no longer under way; no step is left */
};

enum ae_msi_outcome {
    AE_MSI_POSTED,     /* into a backing page */
    AE_MSI_MESSAGE,    /* send message: remapped, or as it came */
    AE_MSI_ABORTED,    /* a fault */
    AE_MSI_NO_REQUEST, /* the address is no interrupt's */
};

struct ae_msi {
    struct ae_iommu *iommu;
    uint64_t address, control;
    uint32_t data;
    uint16_t device_id;
    uint8_t phase;
    uint8_t outcome;    /* enum ae_msi_outcome */
    uint8_t posted;     /* enum avicemu_post */
    uint8_t notice;     /* index of the one that is carried out */
    uint8_t slot;       /* enum ae_galog_slot of its log entry */
    bool is_remapped;   /* message comes from an IRTE */
    bool is_suppressed; /* IG: no IO_PAGE_FAULT is logged */
    uint32_t epoch;     /* that it is counted in */
    uint32_t index;     /* of the IRTE */
    uint32_t position;  /* in the GA log */
    uint32_t fault;     /* enum ae_iommu_event_code; 0: none */
    uint64_t fault_flags, fault_address;
    uint64_t domain;  /* of the DTE, as an event says it */
    uint64_t since;   /* invalidations before the IRTE was read */
    uint32_t signals; /* AE_IOMMU_SIGNAL_*: send them, once finished */
    uint32_t nr_doorbells, nr_logged, nr_overflows;
    struct ae_message message;
    struct ae_remap remap;
    uint32_t near_dte; /* kept; 0 before the first use */
};

/* A message of a device. */
void
ae_msi_begin(struct ae_msi *m, struct ae_iommu *iommu, uint16_t device_id,
             uint64_t address, uint32_t data);
/* The next step. Lock-free; what is begun must be finished, however late. */
enum ae_msi_event
ae_msi_step(struct ae_msi *m);
/* All steps that are left. */
void
ae_msi_run(struct ae_msi *m);

#endif
