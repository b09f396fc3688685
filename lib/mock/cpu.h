/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_CPU_H
#define AE_MOCK_CPU_H

/*
 * One guest CPU: the core (a stack of frames, IF, CR8, the NMI block), and the
 * vCPU loop around it.
 *
 *   turn:  outside? enter, ack, push a frame
 *          one step of the top frame
 *          leave if something asks for it: doorbell, deadline, a window, CR8
 *          below the threshold
 *
 * An access that the library serves comes out of the guest first, as a real
 * one exits; the rest of that step runs outside, and the next turn enters.
 *
 * In a VM with AVIC an access to the APIC is made inside, and comes out only if
 * the library says that hardware would. While AVIC is active a turn ends with
 * what hardware does between two instructions: it looks at the doorbell, and
 * at the APIC page where IF, the shadow, TPR or ISR have changed, and takes an
 * interrupt without an exit. Where the vCPU has a token the library knows it
 * (load, put), so that senders ring that token's doorbell; a kick is as ever.
 *
 * Whoever drives a CPU (its thread, or the one thread of the virtual clock)
 * owns all but the words marked "any".
 */

#include "pcpu.h"
#include "vm.h"

/* The program, one handler per priority class, an NMI's, and room. */
#define AE_MAX_FRAMES 20

enum am_turn {
    AE_TURN_RUN,
    AE_TURN_PAUSE, /* the guest spins */
    AE_TURN_SLEEP, /* outside, and nothing to run for */
};

/* Kinds of trace events. */
enum am_trace {
    AE_TRACE_ENTER,
    AE_TRACE_INJECT,
    AE_TRACE_NMI,
    AE_TRACE_INIT,
    AE_TRACE_SIPI,
    AE_TRACE_HALT,
    AE_TRACE_ACCESS,
    AE_TRACE_DEVICE,
    AE_TRACE_WAKE,
};

struct am_gate {
    avicemu_mock_step_fn fn;
    void *state;
};

struct am_frame {
    struct am_gate gate;
    uint8_t vector;
    bool was_if; /* what IRET restores */
};

struct avicemu_mock_cpu {
    /* set at creation */
    struct avicemu_mock_vm *vm;
    struct avicemu_vcpu *vcpu;
    uint32_t index;

    /* the core; owner */
    struct am_frame frames[AE_MAX_FRAMES];
    uint32_t nr_frames;
    uint32_t shadow; /* steps that the STI shadow still covers */
    uint32_t cr8;
    uint32_t compute; /* turns before the program's next step */
    bool if_flag;
    bool nmi_blocked;
    struct am_gate idt[256];
    struct am_gate nmi;
    uint64_t random;
    uint32_t boot_next; /* BSP: the next AP to start; 0: all run */
    uint32_t boot_round;
    bool boot_init_sent;

    /* the loop; owner */
    bool inside;        /* between enter and exit */
    bool look;          /* AVIC: look at the APIC page without a doorbell */
    uint32_t windows;   /* AVICEMU_DO_*WINDOW that enter asked for */
    uint32_t threshold; /* of CR8 */
    uint64_t deadline_ns;
    struct am_pcpu *pcpu_held;
    uint64_t nr_exits;
    uint64_t slices;
    uint64_t halts;
    uint64_t in_guest; /* interrupts taken without an exit */

    /* books; owner, read by others after the run */
    uint64_t handled[256];
    uint64_t expected[256]; /* targets of the fixed IPIs that it sent */
    uint64_t may_drop;      /* IPIs sent to where one may be refused */
    uint64_t icr_writes;
    uint64_t nmi_handled;
    uint64_t timer_armed; /* one-shot and deadline: ticks asked for */
    uint64_t timer_ticks; /* ticks handled */
    bool timer_on;
    bool has_sent; /* at the close: the library counts IPIs of it */

    /* the watchdog; the thread that runs the host */
    uint64_t seen_progress;
    uint64_t seen_ns;

    /* any thread */
    _Alignas(64) _Atomic(struct am_pcpu *) pcpu; /* where it runs; NULL */
    _Atomic uint64_t kicks;
    _Atomic uint64_t wakes;
    _Atomic uint64_t progress;   /* things done and interrupts handled */
    _Atomic int32_t outstanding; /* avicemu_mock_expect() */
    _Atomic uint32_t asleep;     /* in a block */

    /* sleeping with the wall clock; under sleep_lock */
    pthread_mutex_t sleep_lock;
    pthread_cond_t sleep_cond;
    bool woken;
    struct am_pcpu_waiter waiter;
    pthread_t thread;

    /* the virtual clock's; its one thread */
    bool sim_blocked, sim_queued;
    uint64_t sim_deadline; /* of the event that is in the heap; UINT64_MAX */
    struct avicemu_mock_cpu *sim_next;
};

int
am_cpu_create(struct avicemu_mock_vm *vm, uint32_t index,
              struct avicemu_mock_cpu **ret);
void
am_cpu_destroy(struct avicemu_mock_cpu *cpu);

/* It now holds a token, or gives it up (NULL). Outside. */
void
am_cpu_place(struct avicemu_mock_cpu *cpu, struct am_pcpu *pcpu);

enum am_turn
am_cpu_turn(struct avicemu_mock_cpu *cpu);

/* Come out of the guest, if inside. */
void
am_cpu_leave(struct avicemu_mock_cpu *cpu);

/* Between block_begin and block_end, with the wall clock: sleep until a wake,
 * the deadline, or the end of the run. vm.c */
void
am_cpu_sleep(struct avicemu_mock_cpu *cpu, uint64_t deadline_ns);

/* Fail the run: it has lost what, and the work that waits. */
void
am_cpu_lost(struct avicemu_mock_cpu *cpu, const char *what);

/* Stop all this CPU does and begin at the boot code, as after a SIPI. */
void
am_cpu_start(struct avicemu_mock_cpu *cpu);

/* The VM's timer, if it has one: guest_timer.c. */
void
am_timer_start(struct avicemu_mock_cpu *cpu);

/* The boot code, first frame of every CPU: guest_boot.c. */
enum avicemu_mock_next
am_boot_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget);

/* Start the APs anew, from the BSP's program; true when all are online. Call
 * until then. */
bool
am_boot_aps(struct avicemu_mock_cpu *bsp);

/* The vector of a VM's timer, and what the shared helpers of programs use. */
#define AE_VECTOR_TIMER    0xef
#define AE_VECTOR_SPURIOUS 0xff

extern const struct avicemu_mock_program am_program_boot;
extern const struct avicemu_mock_program am_program_ticks;
extern const struct avicemu_mock_program am_program_ipi;
extern const struct avicemu_mock_program am_program_nvme;

#endif
