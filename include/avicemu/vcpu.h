/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_VCPU_H
#define AVICEMU_VCPU_H

/*
 * One virtual CPU: its loop, its guest's accesses, and interrupts offered to
 * it from outside.
 *
 * The loop of a vCPU thread:
 *
 *     for (;;) {
 *         avicemu_vcpu_enter(vcpu, &cpu, &todo);
 *         inject what todo says; avicemu_vcpu_ack(vcpu, ...) once it succeeded
 *         unless todo says SLEEP: run the guest
 *         avicemu_vcpu_exit(vcpu, &cpu);
 *         handle the exit: avicemu_mmio_write(), avicemu_msr_read(), ...
 *         HLT: avicemu_vcpu_set_halted(vcpu)
 *         todo said SLEEP: avicemu_vcpu_halt(vcpu)
 *     }
 *
 * Threads. Calls marked "owner" on one vCPU must not overlap each other;
 * which thread makes them may change. Calls marked "any" may come from every
 * thread at every time. A debug build checks for overlap and aborts.
 *
 * Kicks. Between the return of enter and the call of exit, whatever becomes
 * pending calls ops->kick, also before the guest has begun to run. Between
 * block_begin and block_end, what makes the vCPU runnable calls ops->wake. At
 * other times nobody is called: the next enter looks. A call may arrive late,
 * when the entry or block it was meant for has ended: take it as one too many.
 */

#include <avicemu/common.h>
#include <avicemu/lapic.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Create a vCPU and make it visible to senders. It starts as after RESET: the
 * VM's bsp_apic_id running, all others waiting for a SIPI.
 *
 * @param apic_id   its initial id, 0..FFFFFFFEh, unique in the VM. Above 254 it
 *                  cannot be addressed in xAPIC format
 * @param opaque    first argument of this vCPU's callbacks; the caller's
 * @param ret_vcpu  owned by the caller until avicemu_vcpu_destroy()
 * @return 0, -EINVAL (apic_id FFFFFFFFh), -EEXIST (id taken), -EBUSY (the VM
 *         has max_vcpus), -ENOMEM
 *
 * Threads: any, also while others post to the VM (hot-add).
 */
AVICEMU_API int
avicemu_vcpu_create(struct avicemu_vm *vm, uint32_t apic_id, void *opaque,
                    struct avicemu_vcpu **ret_vcpu);

/**
 * Destroy a vCPU. NULL is fine. When it returns no thread that sends to the VM
 * can reach it, and no callback about it is running. Who posts by vCPU pointer
 * must have stopped.
 *
 * @return 0, -EBUSY between enter and exit, in a block, or from a callback
 *
 * Threads: owner; waits for messages under way.
 */
AVICEMU_API int
avicemu_vcpu_destroy(struct avicemu_vcpu *vcpu);

/** The initial APIC id that the vCPU was created with. Threads: any. */
AVICEMU_API uint32_t
avicemu_vcpu_apic_id(const struct avicemu_vcpu *vcpu);

/** The opaque that the vCPU was created with. Threads: any. */
AVICEMU_API void *
avicemu_vcpu_opaque(const struct avicemu_vcpu *vcpu);

/** Power-on RESET of the vCPU and its APIC. Owner, not between enter and exit.
 * @return 0, -EBUSY */
AVICEMU_API int
avicemu_vcpu_reset(struct avicemu_vcpu *vcpu);

/* State of the CPU core that decides what can be taken (avicemu_cpu.flags). */
#define AVICEMU_CPU_IF          (1u << 0) /* RFLAGS.IF */
#define AVICEMU_CPU_SHADOW      (1u << 1) /* in an STI or MOV SS shadow */
#define AVICEMU_CPU_NMI_BLOCKED (1u << 2) /* an NMI is in service */
#define AVICEMU_CPU_SMI_BLOCKED (1u << 3) /* in SMM */
#define AVICEMU_CPU_GIF_CLEAR   (1u << 4) /* after CLGI: nothing is taken */
#define AVICEMU_CPU_BUSY        (1u << 5) /* an event waits for injection */

/** The core's state, given to enter and exit. */
struct avicemu_cpu {
    size_t size;
    uint32_t flags; /* AVICEMU_CPU_* */
    uint32_t cr8;   /* exit: the guest's CR8, 0..15; enter does not read it */
};

/** What must be done; also the second argument of ack. Bits of todo.what. */
enum avicemu_do {
    AVICEMU_DO_INJECT = 1u << 0, /* deliver todo.vector, from the APIC */
    AVICEMU_DO_EXTINT = 1u << 1, /* deliver todo.vector, from the PIC */
    AVICEMU_DO_NMI = 1u << 2,
    AVICEMU_DO_SMI = 1u << 3,
    AVICEMU_DO_INIT = 1u << 4, /* reset the core as INIT does */
    AVICEMU_DO_SIPI = 1u << 5, /* start at page todo.vector: CS base v << 12 */
    AVICEMU_DO_WINDOW = 1u << 6, /* come out when an interrupt can be taken */
    AVICEMU_DO_NMI_WINDOW = 1u << 7, /* come out when an NMI can be taken */
    AVICEMU_DO_SLEEP = 1u << 8, /* do not run: halted, or waiting for SIPI */
};

/**
 * What enter wants done. Of INJECT, EXTINT, NMI, SMI, INIT, SIPI and SLEEP at
 * most one is set, the one of highest priority that the core can take now;
 * the windows come on top of it.
 */
struct avicemu_todo {
    size_t size;
    uint32_t what;         /* OR of enum avicemu_do */
    uint8_t vector;        /* INJECT, EXTINT, SIPI */
    uint8_t cr8;           /* what the guest's CR8 must read */
    uint8_t tpr_threshold; /* come out when CR8 drops below this; 0: never */
    uint64_t deadline;     /* next timer deadline, UINT64_MAX: none */
};

/**
 * About to run the guest: what first?
 *
 * @param cpu  size and flags
 * @param ret  size set by the caller; the rest is written on success
 * @return 0; -EINVAL (NULL, a size); -EBUSY (entered already, in a block, or
 *         an exit waits to be handled: <avicemu/avic.h>)
 *
 * Threads: owner. Progress: wait-free but for ops->inta and ops->arm; with AVIC
 * lock-free against those who inhibit it.
 * Ordering: sees all posts whose call returned before; later ones kick.
 * Spec: [APM2 8.5 priorities], [APM2 16.6.3 IRR and ISR]
 */
AVICEMU_API int
avicemu_vcpu_enter(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu,
                   struct avicemu_todo *ret);

/**
 * The injection that enter asked for succeeded. Not acked, it is asked for
 * again: a VMM whose injection failed loses nothing.
 *
 * INJECT moves the vector from IRR to ISR; INIT resets the APIC as INIT does
 * and puts all but the BSP into wait-for-SIPI; SIPI ends that wait.
 *
 * @param what    one of INJECT, EXTINT, NMI, SMI, INIT, SIPI
 * @param vector  INJECT, EXTINT, SIPI: todo.vector; else ignored
 * @return 0, -EINVAL (what), -ENOENT (no such thing is pending)
 *
 * Threads: owner, after enter and before the next enter.
 */
AVICEMU_API int
avicemu_vcpu_ack(struct avicemu_vcpu *vcpu, enum avicemu_do what,
                 uint8_t vector);

/**
 * The guest came out. cpu->cr8 goes to the TPR where its class differs
 * ([APM2 16.6.4]: bits 3:0 are then zeroed); flags are kept for block_begin.
 *
 * @return 0, -EINVAL (NULL, a size, cr8 > 15), -EBUSY (not entered)
 */
AVICEMU_API int
avicemu_vcpu_exit(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu);

/** The guest executed HLT: enter says SLEEP until something ends it. Owner.
 * @return 0, -EBUSY between enter and exit */
AVICEMU_API int
avicemu_vcpu_set_halted(struct avicemu_vcpu *vcpu);

/** May the thread sleep now? */
enum avicemu_sleep {
    AVICEMU_SLEEP_NO,  /* there is work: enter again. No block was begun */
    AVICEMU_SLEEP_YES, /* sleep until ops->wake, then call block_end */
};

/**
 * Begin to wait. From here to block_end, whatever makes the vCPU runnable
 * calls ops->wake. Never waits itself.
 *
 * Whether a pending interrupt ends the wait is decided by the flags of the
 * last exit (IF) and by the priority; NMI, SMI, INIT end a halt whatever IF
 * is; a CPU that waits for a SIPI is woken by INIT and SIPI only.
 *
 * Threads: owner. Progress: wait-free.
 * Ordering: ORD wake: state := blocked, then IRR and events are read.
 */
AVICEMU_API enum avicemu_sleep
avicemu_vcpu_block_begin(struct avicemu_vcpu *vcpu);

/** End a wait that block_begin began. @return 0, -EBUSY if there is none */
AVICEMU_API int
avicemu_vcpu_block_end(struct avicemu_vcpu *vcpu);

/**
 * block_begin, ops->block, block_end in one.
 *
 * @return 0 (slept, or there was work), -EOPNOTSUPP (no ops->block), -EBUSY
 */
AVICEMU_API int
avicemu_vcpu_halt(struct avicemu_vcpu *vcpu);

/** Would enter find something to run for? No side effect. Threads: owner, also
 * between block_begin and block_end (a polling host). */
AVICEMU_API int
avicemu_vcpu_runnable(struct avicemu_vcpu *vcpu);

/**
 * The deadline that ops->arm told may have passed. Too early or too often is
 * harmless: the vCPU then arms it anew.
 *
 * The library looks at the clock after this call, at the vCPU's next enter,
 * block or register access, and else only in accesses to SVR and the timer's
 * own registers. A VMM whose timer thread may be late calls it after each exit
 * whose deadline has passed, too. A tick that was not accounted yet is dropped
 * by a write of TMICT or TSC_DEADLINE, and by loading state.
 *
 * @return 0, -EINVAL (NULL)
 *
 * Threads: any. Progress: lock-free; at most one kick or wake.
 */
AVICEMU_API int
avicemu_vcpu_expire(struct avicemu_vcpu *vcpu);

/** The next timer deadline in ticks of now; UINT64_MAX: none. Threads: any. */
AVICEMU_API uint64_t
avicemu_vcpu_deadline(const struct avicemu_vcpu *vcpu);

/* ---- guest accesses: owner, outside enter .. exit ----------------------- */

/**
 * The guest reads memory that is no RAM.
 *
 * Inside the APIC page (xAPIC mode, at the vCPU's own APIC_BASE): any length
 * and alignment has a defined result. Each byte inside bytes 0..3 of a 16-byte
 * slot is that byte of the register, read once per access; other bytes, write
 * only and absent registers read 0. An absent register sets ESR bit 7.
 *
 * @param gpa   guest physical address
 * @param len   bytes, 1..4096
 * @param data  len bytes, little-endian; written only if DONE
 * @return DONE; UNCLAIMED (outside the page, crossing its end, APIC off or in
 *         x2APIC mode, len out of range)
 *
 * Spec: [APM2 16.3.2 APIC registers], [SDM3 10.4.1]
 */
AVICEMU_API enum avicemu_access
avicemu_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, unsigned len,
                  void *data);

/**
 * The guest writes memory that is no RAM. Inside the APIC page a write of 4
 * bytes at a 16-byte aligned offset is a register write; every other size or
 * alignment is dropped and counted.
 *
 * @return as avicemu_mmio_read()
 */
AVICEMU_API enum avicemu_access
avicemu_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, unsigned len,
                   const void *data);

/**
 * The guest executes RDMSR on 1Bh (APIC_BASE), 6E0h (TSC_DEADLINE) or
 * 800h..8FFh (x2APIC).
 *
 * @param ret  the value; written only if DONE
 * @return DONE, GP, UNCLAIMED (another MSR)
 *
 * Spec: [APM2 16.11 x2APIC MSRs], [SDM3 10.12.1]
 */
AVICEMU_API enum avicemu_access
avicemu_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret);

/** The guest executes WRMSR. As avicemu_msr_read(). */
AVICEMU_API enum avicemu_access
avicemu_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value);

/**
 * The guest moves to CR8: TPR[7:4] := value, TPR[3:0] := 0. Works while the
 * APIC is off. DONE, or GP if value > 15.
 * Spec: [APM2 16.6.4 TPR]
 */
AVICEMU_API enum avicemu_access
avicemu_cr8_write(struct avicemu_vcpu *vcpu, uint64_t value);

/** CR8 as the guest must read it: TPR[7:4]. Threads: owner. */
AVICEMU_API uint32_t
avicemu_cr8_read(struct avicemu_vcpu *vcpu);

/* ---- interrupts from outside: any thread -------------------------------- */

/**
 * Offer a fixed interrupt to one vCPU, as a device or peer would.
 *
 * @param vcpu    target, kept alive by the caller; running, halted or outside
 * @param vector  16..255; 0..15 set the receive-illegal-vector bit of its ESR
 * @param trigger LEVEL sets the TMR bit: its EOI calls ops->eoi
 * @return NEW, MERGED (its IRR bit was set already) or DROPPED (APIC disabled,
 *         or illegal vector). Every value is a legal thing for hardware to send
 *
 * Threads: any, concurrently. Progress: lock-free; at most one kick or wake.
 * Ordering: writes before this call are visible to whoever acks the vector.
 * Spec: [APM2 16.6.3 IRR and ISR], [SDM3 10.8.4]
 */
AVICEMU_API enum avicemu_post
avicemu_post(struct avicemu_vcpu *vcpu, uint8_t vector,
             enum avicemu_trigger trigger);

/**
 * Offer an interrupt of any delivery mode to one vCPU.
 *
 * @param mode    FIXED and LOWEST as avicemu_post() with an edge; NMI (two
 *                deep, more merge), SMI, INIT, SIPI, EXTINT; others DROPPED
 * @param vector  FIXED, LOWEST, SIPI; else ignored
 *
 * Threads and progress as avicemu_post().
 */
AVICEMU_API enum avicemu_post
avicemu_post_mode(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
                  uint8_t vector);

/**
 * Drive a local interrupt pin. LINT0 is where a PIC's output goes, LINT1 the
 * NMI source. The LVT entry decides what it means; with the APIC disabled
 * LINT0 is INTR and LINT1 is NMI.
 *
 * @param pin    0 or 1
 * @param level  0 low, else high
 * @return what a rising edge or a level that is not served yet became;
 *         DROPPED where nothing was sent
 *
 * Threads: any, but one at a time per pin.
 * Spec: [APM2 16.4.2 LINT], [SDM3 10.5.1]
 */
AVICEMU_API enum avicemu_post
avicemu_vcpu_lint(struct avicemu_vcpu *vcpu, unsigned pin, int level);

/** Raise a local source. EXT0..3 need the extended space, CMCI its feature;
 * without, and while masked: DROPPED. Threads: any. */
AVICEMU_API enum avicemu_post
avicemu_vcpu_local(struct avicemu_vcpu *vcpu, enum avicemu_lvt source);

/* ---- seeing ------------------------------------------------------------- */

/** Getters for a VMM with an injection logic of its own. Owner, no effects. */
struct avicemu_vcpu_view {
    size_t size;
    enum avicemu_apic_mode mode;
    uint64_t apic_base; /* the MSR */
    int32_t pending;    /* highest deliverable vector; -1: none */
    uint32_t ppr;
    uint32_t tpr;
    uint32_t nr_nmi;        /* 0..2 waiting */
    uint32_t accepts_pic;   /* 1: a PIC's INTR would be taken by this vCPU */
    uint32_t wait_for_sipi; /* 1: only INIT and SIPI act */
    uint32_t halted;
    uint64_t deadline;
};

/** Fill *ret; size set by the caller. @return 0, -EINVAL */
AVICEMU_API int
avicemu_vcpu_view(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_view *ret);

/**
 * Read a register of the APIC page without side effects, in every mode.
 *
 * @param offset  multiple of 16, 0..FF0h
 * @return 0, -EINVAL, -ENOENT (no such register in this model)
 */
AVICEMU_API int
avicemu_vcpu_peek(struct avicemu_vcpu *vcpu, uint32_t offset, uint32_t *ret);

/** Counters of one vCPU since its creation. Written by its owner only. */
struct avicemu_vcpu_stats {
    size_t size;
    uint64_t entries;
    uint64_t injected;       /* vectors acked, from the APIC */
    uint64_t extint;         /* vectors acked, from the PIC */
    uint64_t extint_cleared; /* INTA done, lost to INIT, reset, restore */
    uint64_t nmi;            /* NMIs acked */
    uint64_t smi;            /* SMIs acked */
    uint64_t init;           /* INITs acked */
    uint64_t sipi;           /* SIPIs acked */
    uint64_t nmi_cleared;    /* pending NMIs lost to INIT, reset, restore */
    uint64_t smi_cleared, init_cleared, sipi_cleared; /* likewise */
    uint64_t eoi;                              /* EOIs that retired a vector */
    uint64_t eoi_broadcast;                    /* ... of level-triggered ones */
    uint64_t ipi_sent;                         /* ICR and SELF IPI writes */
    uint64_t ipi_new, ipi_merged, ipi_dropped; /* their targets */
    uint64_t local_new, local_merged; /* timer, error, LINT re-sends, restore */
    uint64_t cleared;     /* IRR bits lost to INIT, reset, restore */
    uint64_t timer_ticks; /* expiries, also masked ones */
    uint64_t gp;          /* accesses answered with #GP */
    uint64_t mmio_odd;    /* dropped writes of a wrong size or alignment */
    uint64_t esr;         /* error bits newly accumulated */
    uint64_t blocks;      /* block_begin that said YES */
    /* Paths of the guest's APIC accesses and IPIs, with AVIC. */
    uint64_t avic_accelerated; /* completed without an exit */
    uint64_t avic_trapped;     /* exit 402h after the write */
    uint64_t avic_faulted;     /* exit 402h before the access */
    uint64_t avic_intercepted; /* MSR intercepts, nested page faults */
    uint64_t avic_incomplete;  /* exit 401h */
    uint64_t avic_flips;       /* AVIC went on or off */
    uint64_t doorbells;        /* rung by this vCPU's IPIs */
    uint64_t ipi_software;     /* IPIs that the hypervisor sent for it */
    uint64_t ipi_wakes;        /* wakes, kicks, rings after an exit 401h id 1 */
};

/** Copy the counters; size set by the caller. Owner. @return 0, -EINVAL */
AVICEMU_API int
avicemu_vcpu_stats(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_stats *ret);

/**
 * The books of one vector at one vCPU, with AVICEMU_VM_BOOKS. For each vCPU v
 * and vector x, once all is quiet:
 *
 *   NEW results of avicemu_post(), avicemu_msi() ... to v  +  local_new
 *       +  sum over all vCPUs s, and NULL for those that are gone, of
 *          ipi_new_to(s, v), see below
 *     = acked + cleared + pending
 *
 * and over all vCPUs the sum of ipi_new is the number of IPIs accepted, but for
 * those that a vCPU sent that was destroyed: read its books before.
 */
struct avicemu_vcpu_books {
    size_t size;
    uint64_t acked;
    uint64_t cleared;
    uint64_t pending; /* 0 or 1: its IRR bit */
    uint64_t local_new, local_merged;
    uint64_t ipi_new, ipi_merged, ipi_dropped; /* sent by this vCPU */
};

/** Fill *ret. @return 0, -EINVAL, -EOPNOTSUPP (VM without BOOKS) */
AVICEMU_API int
avicemu_vcpu_books(struct avicemu_vcpu *vcpu, uint8_t vector,
                   struct avicemu_vcpu_books *ret);

/**
 * How many fixed IPIs from sender were accepted as NEW by target, all vectors,
 * since the younger of them was created.
 *
 * @param sender  or NULL: all that target got from vCPUs that were destroyed
 * @param target  or NULL: all that sender sent to vCPUs that were destroyed
 * @return 0, -EINVAL (different VMs, both NULL), -EOPNOTSUPP (VM without BOOKS)
 *
 * Threads: any; exact once all is quiet.
 */
AVICEMU_API int
avicemu_vcpu_ipi_new_to(struct avicemu_vcpu *sender,
                        struct avicemu_vcpu *target, uint64_t *ret);

/** Write the APIC's registers, one per line, into buf. Owner.
 * @return as snprintf, or -EINVAL */
AVICEMU_API int
avicemu_vcpu_dump(struct avicemu_vcpu *vcpu, char *buf, size_t len);

/** Say in one line what a todo asks for. @return as snprintf */
AVICEMU_API int
avicemu_describe_todo(const struct avicemu_todo *todo, char *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif
