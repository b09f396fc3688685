/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_HW_CORE_H
#define AVICEMU_HW_CORE_H

/*
 * A physical core with AVIC, alone: VMRUN, the guest's accesses to its APIC,
 * doorbells and exits, on VMCBs and tables that are the caller's own memory,
 * laid out as the manual says and as a kernel's own structs fill them. For
 * people who test their own hypervisor code: no host, VM or vCPU object.
 *
 * What happens outside a core is either memory (another vCPU's backing page,
 * another core's doorbell word) or returned. There are no callbacks. Calls on
 * one core must not overlap; calls on several may.
 *
 * An access that others can watch can be made in steps: begin, step until
 * FINISHED, finish. Between two steps anything may happen elsewhere.
 */

#include <avicemu/common.h>
#include <avicemu/hw/memory.h>
#include <avicemu/lapic.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the VMCB, byte offsets: [APM2 App. B] ------------------------------ */

#define AVICEMU_VMCB_INTERCEPT_CR   0x000u /* bit 24: write of CR8 */
#define AVICEMU_VMCB_INTERCEPT_MISC 0x00cu /* bit 28: MSRs, by the map */
#define AVICEMU_VMCB_MSRPM          0x048u /* MSR permission map, 8 KiB */
#define AVICEMU_VMCB_TLB_CONTROL    0x05cu /* bits 7:0 */
#define AVICEMU_VMCB_INT_CTL        0x060u /* AVICEMU_INT_* */
#define AVICEMU_VMCB_INT_STATE      0x068u /* bit 0: interrupt shadow */
#define AVICEMU_VMCB_EXITCODE       0x070u
#define AVICEMU_VMCB_EXITINFO1      0x078u
#define AVICEMU_VMCB_EXITINFO2      0x080u
#define AVICEMU_VMCB_NESTED_CTL     0x090u /* bit 0: nested paging */
#define AVICEMU_VMCB_APIC_BAR       0x098u
#define AVICEMU_VMCB_EVENTINJ       0x0a8u /* bit 31: valid */
#define AVICEMU_VMCB_CLEAN          0x0c0u
#define AVICEMU_VMCB_BACKING_PAGE   0x0e0u
#define AVICEMU_VMCB_LOGICAL_TABLE  0x0f0u
#define AVICEMU_VMCB_PHYSICAL_TABLE 0x0f8u /* bits 11:0: MAX_INDEX */
#define AVICEMU_VMCB_RFLAGS         0x570u /* bit 9: IF */

/* 60h. With AVIC on, V_IRQ (8), V_INTR_PRIO (19:16), V_IGN_TPR (20) and
 * V_INTR_VECTOR (39:32) are ignored. */
#define AVICEMU_INT_V_TPR       0xfull
#define AVICEMU_INT_VGIF        (1ull << 9)
#define AVICEMU_INT_VGIF_ENABLE (1ull << 25)
#define AVICEMU_INT_X2AVIC      (1ull << 30)
#define AVICEMU_INT_AVIC        (1ull << 31)

/* Clean bits, C0h: 3 covers 60h-67h, 11 the four AVIC pointers. */
#define AVICEMU_CLEAN_TPR  (1u << 3)
#define AVICEMU_CLEAN_AVIC (1u << 11)

/* Exit codes. [APM2 App. C] */
#define AVICEMU_EXIT_CR8_WRITE      0x018ull
#define AVICEMU_EXIT_INTR           0x060ull
#define AVICEMU_EXIT_MSR            0x07cull
#define AVICEMU_EXIT_NPF            0x400ull
#define AVICEMU_EXIT_INCOMPLETE_IPI 0x401ull
#define AVICEMU_EXIT_NOACCEL        0x402ull
#define AVICEMU_EXIT_INVALID        (~0ull)

/** Why an IPI could not be completed: EXITINFO2[63:32] of exit 401h.
 * [APM2 15.29.9.1 Table 15-27] */
enum avicemu_ipi_failure {
    AVICEMU_IPI_TYPE = 0,        /* not a fixed edge: send it in software */
    AVICEMU_IPI_NOT_RUNNING = 1, /* all IRR bits are set; wake the rest */
    AVICEMU_IPI_TARGET = 2,      /* id without a valid entry; nothing is set */
    AVICEMU_IPI_BACKING = 3,     /* an entry's page pointer is no memory */
    AVICEMU_IPI_VECTOR = 4,      /* vector 0..15 */
};

/* ---- tables: [APM2 15.29.5] --------------------------------------------- */

/* Physical APIC id table: 8 bytes per guest physical id. */
#define AVICEMU_PHYSICAL_VALID   (1ull << 63)
#define AVICEMU_PHYSICAL_RUNNING (1ull << 62)
#define AVICEMU_PHYSICAL_PAGE    0x000ffffffffff000ull
#define AVICEMU_PHYSICAL_HOST_ID 0xfffull

/* Logical APIC id table: 4 bytes; 8 entries (flat) or 60 (cluster). */
#define AVICEMU_LOGICAL_VALID (1u << 31)
#define AVICEMU_LOGICAL_ID    0xffu

/**
 * Index in the logical table of one destination bit.
 *
 * @param dfr  the sender's DFR: bits 31:28 are Fh (flat) or 0 (cluster)
 * @param ldr  one logical id bit, with its cluster in bits 7:4
 * @return 0..7 or 0..59; -ENOENT (none or several bits, cluster 15, a DFR that
 *         is neither)
 */
AVICEMU_API int
avicemu_hw_logical_index(uint32_t dfr, uint8_t ldr);

/** Pages of a physical table: 1 + MAX_INDEX[11:9]. */
AVICEMU_API unsigned
avicemu_hw_physical_pages(uint32_t max_index);

/* ---- doorbells ---------------------------------------------------------- */

/** The doorbell of one core: 1 is rung. One per host APIC id, as an array that
 * all cores share. Written by atomic operations only. */
struct avicemu_doorbell {
    uint32_t rung;
    uint32_t reserved[15];
};

/* ---- a core ------------------------------------------------------------- */

/* What the silicon can do. */
#define AVICEMU_CORE_X2AVIC     (1u << 0) /* Fn8000_000A EDX[18] */
#define AVICEMU_CORE_X2AVIC_EXT (1u << 1) /* Fn8000_000A ECX[6]: 4096 ids */
#define AVICEMU_CORE_EXT_LVT    (1u << 2) /* Fn8000_000A EDX[27] */
/* Erratum 1235: IsRunning is read before the IRR bit is visible. [KVM] */
#define AVICEMU_CORE_ERRATUM_1235 (1u << 3)
/* Offsets 540h-FFFh are plain memory, as [APM2 15.29.8.1] has it; without,
 * they fault, as [APM2 Table 15-22] has it. */
#define AVICEMU_CORE_HIGH_ALLOWED (1u << 4)

struct avicemu_core_config {
    size_t size;
    const struct avicemu_hw_memory *memory; /* required; outlives the core */
    uint32_t features;                      /* AVICEMU_CORE_* */
    uint32_t maxphyaddr;                    /* 32..52; 0: 48 */
    uint32_t host_apic_id;                  /* of this core, 0..4095 */
    uint32_t nr_doorbells; /* host ids 0 .. nr-1 have one; others do not ring */
    struct avicemu_doorbell *doorbells; /* 64-aligned; outlives the core */
    /* Which x2APIC MSRs exist and which bits fault: the AMD columns. */
    struct avicemu_lapic_config lapic;
};

struct avicemu_core;

/** Bytes and alignment that avicemu_core_init() wants. */
AVICEMU_API size_t
avicemu_core_bytes(void);
#define AVICEMU_CORE_ALIGN 64

/** Make a core in the caller's memory, in host mode. There is nothing to undo.
 * @return 0, -EINVAL */
AVICEMU_API int
avicemu_core_init(void *memory, const struct avicemu_core_config *config,
                  struct avicemu_core **ret_core);

/** What a call did. */
enum avicemu_core_result {
    AVICEMU_CORE_DONE,   /* the guest goes on */
    AVICEMU_CORE_EXIT,   /* #VMEXIT: the VMCB says why; in host mode */
    AVICEMU_CORE_GP,     /* #GP(0) in the guest; nothing changed */
    AVICEMU_CORE_MEMORY, /* no redirection: what nested paging maps there */
    AVICEMU_CORE_HOST,   /* an MSR that nobody intercepts and AVIC does not own:
                            the host's own was reached; of 800h-8FFh, its own
                            APIC (the CVE-2023-5090 shape). Without AVIC and
                            V_INTR_MASKING likewise CR8 */
    AVICEMU_CORE_STEPS,  /* begin only: not done yet, call step */
    AVICEMU_CORE_MODE,   /* not in guest mode (vmrun: in it), or an argument is
                            no such thing: nothing done */
};

/**
 * VMRUN: check the VMCB, latch what hardware latches, enter guest mode,
 * evaluate.
 *
 * @param vmcb    4096 bytes, 4096-aligned; the caller's, used until the exit
 * @param vector  the vector delivered at once, -1: none. May be NULL
 * @return DONE; EXIT (EXITCODE is INVALID); MODE
 *
 * Latched: int_ctl, pointers, MAX_INDEX, RFLAGS.IF, shadow, VGIF, intercepts,
 * and whether EVENTINJ holds deliveries back until look or set_flags.
 * INVALID, beyond the manual's rules: AVIC without nested paging, x2AVIC that
 * the core does not have, a pointer beyond maxphyaddr, a page or table that is
 * no memory (the logical one only in xAVIC). Low bits are not checked.
 * V_TPR wins over nothing: TPR is the page's (which of them hardware takes is
 * unverified; hypervisors keep them equal).
 * Spec: [APM2 15.29.4 checks]
 */
AVICEMU_API enum avicemu_core_result
avicemu_core_vmrun(struct avicemu_core *core, void *vmcb, int *vector);

/** Force an exit, as an interrupt to the host does: code to EXITCODE, state
 * back to the VMCB, host mode. @return EXIT, MODE */
AVICEMU_API enum avicemu_core_result
avicemu_core_exit(struct avicemu_core *core, uint64_t code);

/** 1 in guest mode. */
AVICEMU_API int
avicemu_core_in_guest(const struct avicemu_core *core);

/* The guest's state that decides about delivery; bits of flags. A delivery does
 * not change them: whether IF is 0 in the handler is its gate's affair. */
#define AVICEMU_CORE_IF     (1u << 0) /* RFLAGS.IF */
#define AVICEMU_CORE_SHADOW (1u << 1) /* interrupt shadow */
#define AVICEMU_CORE_GIF    (1u << 2) /* virtual GIF; ignored without VGIF */

/**
 * The guest executed CLI, STI, STGI ...: set its state, then evaluate.
 *
 * @return the vector delivered now (it is in ISR), -1: none
 */
AVICEMU_API int
avicemu_core_set_flags(struct avicemu_core *core, uint32_t flags);

/**
 * An event was injected, or the guest ran an instruction: look at the doorbell,
 * as hardware does between instructions: exchange it to 0 and, if it was rung,
 * evaluate. An IRR bit that somebody merely stored is not noticed; what
 * EVENTINJ kept back is.
 *
 * @return the vector delivered now, -1: none. In host mode the doorbell goes
 *         unheard, as the manual says: -1
 */
AVICEMU_API int
avicemu_core_look(struct avicemu_core *core);

/** Ring the doorbell of a host APIC id, as WRMSR C001_011Bh or the IOMMU does.
 * Any thread. An id without a core: nothing. */
AVICEMU_API void
avicemu_core_ring(struct avicemu_core *core, uint32_t host_apic_id);

/** Does nested paging map the APIC page (1, the default)? If not, an access to
 * it is an ordinary NPF. */
AVICEMU_API void
avicemu_core_map_apic(struct avicemu_core *core, int mapped);

/** How the guest reaches its APIC. */
enum avicemu_core_kind {
    AVICEMU_CORE_MMIO, /* at: guest physical address, 4 bytes; see below */
    AVICEMU_CORE_MSR,  /* at: MSR number */
    AVICEMU_CORE_CR8,
};

/**
 * One access of the guest.
 *
 * An MMIO address is rounded down to a multiple of 4. Bytes +4..+15 of a
 * register are undefined; here the filter sees the register (EXITINFO1 cannot
 * tell them apart), and what it lets through is page memory without a side
 * effect. If the backing page has left the memory, reads give ones and writes
 * are lost.
 */
struct avicemu_core_access {
    size_t size;
    enum avicemu_core_kind kind;
    int write;
    uint64_t at;
    uint64_t value; /* write: in; read that is DONE: out */
    int vector;     /* out: delivered because of the access; -1: none */
};

/** Carry the access out. @return DONE, EXIT, GP, MEMORY, HOST, MODE */
AVICEMU_API enum avicemu_core_result
avicemu_core_access(struct avicemu_core *core, struct avicemu_core_access *a);

/* ---- in steps ----------------------------------------------------------- */

/** What the last step did that another agent can see. */
enum avicemu_core_event {
    AVICEMU_CORE_NOTHING,
    AVICEMU_CORE_STORED,   /* the ICR is in the page; not of a SELF IPI */
    AVICEMU_CORE_RESOLVED, /* all targets of a directed IPI are valid */
    AVICEMU_CORE_IRR,      /* the IRR bit of guest_id is set */
    AVICEMU_CORE_RUNNING,  /* IsRunning of guest_id was read */
    AVICEMU_CORE_RANG,     /* the doorbell of host_id was rung */
    AVICEMU_CORE_FINISHED, /* nothing is left: call finish */
};

/** An IPI under way; the caller's memory. */
struct avicemu_core_op {
    size_t size;
    enum avicemu_core_event event;
    /* IRR, RUNNING, RANG: index in the physical table; FFFFFFFFh: a self IPI,
     * which looks nothing up. */
    uint32_t guest_id;
    uint32_t host_id;         /* RUNNING, RANG */
    int is_running;           /* RUNNING */
    enum avicemu_post posted; /* IRR: NEW or MERGED */
    uint64_t state[48];       /* the engine's */
};

/** Begin an access; what has no steps (all but an IPI) is done at once. op
 * needs its size only. @return as avicemu_core_access(), or STEPS */
AVICEMU_API enum avicemu_core_result
avicemu_core_begin(struct avicemu_core *core, struct avicemu_core_access *a,
                   struct avicemu_core_op *op);

/** Do the next step. @return op->event */
AVICEMU_API enum avicemu_core_event
avicemu_core_step(struct avicemu_core *core, struct avicemu_core_op *op);

/** Finish what was stepped through; steps that are left are done first.
 * @return DONE, EXIT; MODE (nothing is under way on this core) */
AVICEMU_API enum avicemu_core_result
avicemu_core_finish(struct avicemu_core *core, struct avicemu_core_access *a,
                    struct avicemu_core_op *op);

/* ---- the access filter -------------------------------------------------- */

/** What hardware does with an access. [APM2 15.29.3.1 Table 15-22] */
enum avicemu_avic_access {
    AVICEMU_AVIC_ALLOW, /* the backing page, no more */
    AVICEMU_AVIC_ACCEL, /* the page, and the side effect in hardware */
    AVICEMU_AVIC_TRAP,  /* lands in the page, then exit 402h (ICR: 401h) */
    AVICEMU_AVIC_FAULT, /* exit 402h before the access */
    AVICEMU_AVIC_GP,    /* x2APIC: #GP(0) */
};

/**
 * Look an access up. EOI and ICR say ACCEL: whether they exit is decided by
 * what is in service, and by the IPI. GP: no such MSR, or not in that
 * direction; reserved bits of a value are not looked at here.
 *
 * @param config  features and lapic count; NULL: a core without any
 * @param x2avic  1: by MSR; offset is then (msr - 800h) * 16
 * @param offset  0..FF0h, multiple of 16
 * @param ret     written on success
 * @return 0, -EINVAL
 */
AVICEMU_API int
avicemu_hw_avic_filter(const struct avicemu_core_config *config, int x2avic,
                       uint32_t offset, int write,
                       enum avicemu_avic_access *ret);

/** Say in one line what an exit means. @return as snprintf */
AVICEMU_API int
avicemu_describe_exit(uint64_t exitcode, uint64_t exitinfo1, uint64_t exitinfo2,
                      char *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
