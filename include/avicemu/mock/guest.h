/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_MOCK_GUEST_H
#define AVICEMU_MOCK_GUEST_H

/*
 * What code inside a mock guest can do.
 *
 * A guest program is a step function over explicit state: it is called with a
 * budget, does at most so many small things, and says what comes next. There
 * is no stack switching, so sanitizers see all of it, and a run with the
 * virtual clock is repeatable. Interrupts are taken between steps only: a step
 * is one long instruction, and what it decides before NEXT_HALT holds when the
 * CPU halts, as with "sti; hlt". Between two steps of the program, the CPU
 * computes for a short random while, in which interrupts are taken, too.
 *
 * Interrupt handlers are step functions, too, one frame each: a handler that
 * calls sti() is interrupted by vectors of a higher class between its steps.
 *
 * Every VM boots first: the BSP starts the other CPUs with INIT and SIPI, each
 * switches its APIC on and calls program->start; then all run program->step.
 *
 * Threads: a CPU's functions are for its own step functions only. State that
 * several CPUs of a guest share needs atomics, as in any SMP guest.
 */

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_mock_cpu; /* one CPU of a guest */
struct avicemu_mock_vm;  /* the guest */

/** What a step function wants next. */
enum avicemu_mock_next {
    AVICEMU_MOCK_NEXT_STEP,  /* call again */
    AVICEMU_MOCK_NEXT_PAUSE, /* spinning: another vCPU may have the pCPU */
    AVICEMU_MOCK_NEXT_HALT,  /* hlt; call again after an interrupt */
    AVICEMU_MOCK_NEXT_IRET,  /* the handler is done */
};

/**
 * One step.
 *
 * @param state   as given with the function
 * @param budget  do at most so many small things (commands, messages), >= 1
 */
typedef enum avicemu_mock_next (*avicemu_mock_step_fn)(
    struct avicemu_mock_cpu *cpu, void *state, unsigned budget);

/** A guest program. */
struct avicemu_mock_program {
    const char *name;
    /* Make the state that all CPUs of the VM share; NULL is a failure. */
    void *(*create)(struct avicemu_mock_vm *vm);
    void (*destroy)(void *state);
    /* Once per CPU and boot, APIC on, interrupts off: install handlers. */
    void (*start)(struct avicemu_mock_cpu *cpu, void *state);
    avicemu_mock_step_fn step;
    /*
     * After the run, with all CPUs stopped: the driver's own books. Returns
     * the number of faults, and writes a line about the first one. NULL: none.
     */
    unsigned (*check)(struct avicemu_mock_vm *vm, void *state, char *buf,
                      size_t len);
};

/* ---- who am I ---- */
AVICEMU_API uint32_t
avicemu_mock_cpu_index(const struct avicemu_mock_cpu *cpu);
AVICEMU_API struct avicemu_mock_vm *
avicemu_mock_cpu_vm(const struct avicemu_mock_cpu *cpu);
AVICEMU_API uint32_t
avicemu_mock_vm_nr_cpus(const struct avicemu_mock_vm *vm);

/* ---- instructions ---- */

/*
 * With AVIC, an access to the APIC exits only if hardware cannot complete it;
 * all others, and all to devices, come out of the guest. The rest of a step
 * that came out runs outside.
 */
AVICEMU_API enum avicemu_access
avicemu_mock_mmio_read(struct avicemu_mock_cpu *cpu, uint64_t gpa, unsigned len,
                       void *data);
AVICEMU_API enum avicemu_access
avicemu_mock_mmio_write(struct avicemu_mock_cpu *cpu, uint64_t gpa,
                        unsigned len, const void *data);
AVICEMU_API enum avicemu_access
avicemu_mock_msr_read(struct avicemu_mock_cpu *cpu, uint32_t msr,
                      uint64_t *ret);
AVICEMU_API enum avicemu_access
avicemu_mock_msr_write(struct avicemu_mock_cpu *cpu, uint32_t msr,
                       uint64_t value);
/** CR8 is 0..15 and does not come out of the guest, unless it goes below the
 * threshold that avicemu_vcpu_enter() named. */
AVICEMU_API uint32_t
avicemu_mock_cr8_read(const struct avicemu_mock_cpu *cpu);
AVICEMU_API void
avicemu_mock_cr8_write(struct avicemu_mock_cpu *cpu, uint32_t value);
AVICEMU_API void
avicemu_mock_cli(struct avicemu_mock_cpu *cpu);
/** Interrupts are taken from the end of the *next* step on (the shadow). */
AVICEMU_API void
avicemu_mock_sti(struct avicemu_mock_cpu *cpu);
/** Leaf 0 and 1 and 8000_0001h; the others read 0. ret: eax, ebx, ecx, edx */
AVICEMU_API void
avicemu_mock_cpuid(const struct avicemu_mock_cpu *cpu, uint32_t leaf,
                   uint32_t ret[4]);
AVICEMU_API uint64_t
avicemu_mock_tsc(const struct avicemu_mock_cpu *cpu);

/* ---- the IDT ---- */
/** What handles a vector, 16..255. fn NULL: an interrupt of it is a fault that
 * fails the run. */
AVICEMU_API void
avicemu_mock_idt(struct avicemu_mock_cpu *cpu, uint8_t vector,
                 avicemu_mock_step_fn fn, void *state);
/** What handles an NMI. Further NMIs wait for its IRET. */
AVICEMU_API void
avicemu_mock_idt_nmi(struct avicemu_mock_cpu *cpu, avicemu_mock_step_fn fn,
                     void *state);
/** The vector whose handler runs; 0 in the program, 2 in the NMI handler. */
AVICEMU_API uint32_t
avicemu_mock_vector(const struct avicemu_mock_cpu *cpu);
/** How many handlers are on the stack. */
AVICEMU_API uint32_t
avicemu_mock_nesting(const struct avicemu_mock_cpu *cpu);

/* ---- the APIC, by whichever of MMIO and MSR its mode has ---- */
/** @param offset  of the register in the xAPIC page, a multiple of 16 */
AVICEMU_API uint32_t
avicemu_mock_apic_read(struct avicemu_mock_cpu *cpu, uint32_t offset);
AVICEMU_API void
avicemu_mock_apic_write(struct avicemu_mock_cpu *cpu, uint32_t offset,
                        uint32_t value);
/**
 * Write the ICR.
 *
 * @param destination  APIC id, or logical address; 0xff is all in xAPIC mode
 * @param low          ICR[31:0]
 * @param targets      how many CPUs the guest expects it to reach: goes to the
 *                     books of a fixed vector, and must turn out true
 */
AVICEMU_API void
avicemu_mock_icr(struct avicemu_mock_cpu *cpu, uint32_t destination,
                 uint32_t low, uint32_t targets);
AVICEMU_API void
avicemu_mock_eoi(struct avicemu_mock_cpu *cpu);

/* ---- the run ---- */
/** A number from the run's seed, this CPU's own sequence. */
AVICEMU_API uint64_t
avicemu_mock_random(struct avicemu_mock_cpu *cpu);
/** So many operations are done: progress, for the rate and the watchdog. */
AVICEMU_API void
avicemu_mock_did(struct avicemu_mock_cpu *cpu, uint32_t operations);
/**
 * The CPU waits for so many more (or, negative, fewer) things that will
 * happen. While this is above 0 and nothing moves, the watchdog runs, and a
 * drain waits for it.
 */
AVICEMU_API void
avicemu_mock_expect(struct avicemu_mock_cpu *cpu, int32_t change);
/** 1: begin nothing new; finish what is under way, then halt. */
AVICEMU_API int
avicemu_mock_draining(const struct avicemu_mock_cpu *cpu);

#ifdef __cplusplus
}
#endif

#endif
