/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One vCPU's thread: the loop that a VMM without an in-kernel irqchip needs.
 *
 *     enter ──> INIT, SIPI, NMI: do it, ack, again
 *       │   └─> INJECT: KVM_INTERRUPT, ack if KVM took it
 *       │   └─> WINDOW: ask KVM to come out when IF=1
 *       ▼
 *     KVM_RUN          ── not if SLEEP
 *       ▼
 *     exit ──> handle the exit ──> SLEEP: block
 *
 * Rules that are easy to get wrong, each tested by examples/guest:
 *
 *  1. A vector leaves the IRR only when KVM_INTERRUPT has succeeded: pending
 *     and ack are two calls of the library.
 *  2. No vector while KVM holds an NMI: it would overtake the NMI [APM2 8.5].
 *  3. Every NMI is handed to KVM at once, one ioctl each. KVM knows whether an
 *     NMI is in service, and merges what a CPU would merge. Only in a HLT the
 *     library must know, too: a blocked NMI does not end it.
 *  4. Registers are replaced (INIT, SIPI) only after the instruction of the
 *     last exit is finished; else KVM finishes it on the new registers.
 *  5. A kick sets immediate_exit, then signals. The thread clears it after
 *     KVM_RUN and before it looks for work, so none is lost (see vcpu_kick).
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "vmm.h"

#define SIGNAL_KICK SIGUSR1

/* EFLAGS bit 1 is always set; CR0: CD, NW, ET as after INIT [SDM3 9.1.1]. */
#define EFLAGS_FIXED   0x2u
#define CR0_AFTER_INIT 0x60000010u
#define CR0_PROTECTED  0x00000011u

static void
on_kick(int signal_number)
{
    (void)signal_number; /* its only purpose is to end KVM_RUN with EINTR */
}

int
vcpu_signals_init(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action)); /* no SA_RESTART: EINTR is wanted */
    action.sa_handler = on_kick;
    if (sigaction(SIGNAL_KICK, &action, NULL) != 0) {
        say("cannot install the kick signal: %s", strerror(errno));
        return -1;
    }
    return 0;
}

/*
 * Any thread. Between the thread's last look for work and KVM_RUN a signal
 * alone would be lost: it would end nothing. immediate_exit stays, and makes
 * that KVM_RUN return at once. A signal that comes late ends some later wait
 * early, which every wait here allows for.
 */
void
vcpu_kick(void *opaque, struct avicemu_vcpu *apic)
{
    struct vcpu *vcpu = opaque;

    (void)apic;
    __atomic_store_n(&vcpu->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
    (void)pthread_kill(vcpu->thread, SIGNAL_KICK);
}

/* Any thread. The semaphore remembers a wake that comes before the wait. */
void
vcpu_wake(void *opaque, struct avicemu_vcpu *apic)
{
    struct vcpu *vcpu = opaque;

    (void)apic;
    (void)sem_post(&vcpu->wake);
}

void
vcpu_block(void *opaque, struct avicemu_vcpu *apic, uint64_t deadline)
{
    struct vcpu *vcpu = opaque;
    struct timespec until;

    (void)apic;
    if (deadline == NO_DEADLINE) {
        (void)sem_wait(&vcpu->wake); /* EINTR: the loop comes back here */
        return;
    }
    uint64_t now = clock_now(vcpu->vm);
    uint64_t ns = deadline > now ? clock_to_ns(vcpu->vm, deadline - now) : 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    (void)sem_clockwait(&vcpu->wake, CLOCK_MONOTONIC, &until);
}

/* A failing ioctl here is a bug of the VMM or of KVM: stop, do not guess. */
static int
vcpu_ioctl(struct vcpu *vcpu, unsigned long request, void *arg,
           const char *name)
{
    if (ioctl(vcpu->fd, request, arg) < 0) {
        say("vCPU %u: %s failed: %s", vcpu->index, name, strerror(errno));
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    return 0;
}

/* ---- registers ----------------------------------------------------------- */

static struct kvm_segment
segment(uint8_t type, uint16_t selector, uint64_t base, bool flat32)
{
    struct kvm_segment s;

    memset(&s, 0, sizeof(s));
    s.base = base;
    s.limit = flat32 ? 0xffffffffu : 0xffffu;
    s.selector = selector;
    s.type = type;
    s.present = 1;
    s.s = 1;
    s.db = flat32;
    s.g = flat32;
    return s;
}

/* Rule 4: let KVM finish the last exit's instruction, without running on. */
static int
finish_instruction(struct vcpu *vcpu)
{
    if (!vcpu->unfinished) {
        return 0;
    }
    __atomic_store_n(&vcpu->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
    if (ioctl(vcpu->fd, KVM_RUN, 0) < 0 && errno != EINTR && errno != EAGAIN) {
        say("vCPU %u: KVM_RUN failed: %s", vcpu->index, strerror(errno));
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    vcpu->unfinished = false;
    return 0;
}

/*
 * All registers as INIT leaves them, then CS:IP [SDM3 9.1.4, 9.4.4]. A flat
 * 32-bit start is what a multiboot loader owes its kernel.
 */
static int
registers_set(struct vcpu *vcpu, bool flat32, uint16_t selector, uint64_t rip)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs;
    struct kvm_vcpu_events events;

    if (finish_instruction(vcpu) != 0 ||
        vcpu_ioctl(vcpu, KVM_GET_SREGS, &sregs, "KVM_GET_SREGS") != 0) {
        return -1;
    }
    uint64_t apic_base = sregs.apic_base; /* INIT keeps it [SDM3 10.4.7.3] */

    memset(&sregs, 0, sizeof(sregs));
    sregs.apic_base = apic_base;
    sregs.cr0 = flat32 ? CR0_PROTECTED : CR0_AFTER_INIT;
    sregs.cs =
        segment(0xb, selector, flat32 ? 0 : (uint64_t)selector << 4, flat32);
    sregs.ds = segment(0x3, flat32 ? 0x10 : 0, 0, flat32);
    sregs.es = sregs.fs = sregs.gs = sregs.ss = sregs.ds;
    sregs.tr = segment(0xb, 0, 0, false); /* busy TSS */
    sregs.tr.s = 0;
    sregs.ldt = segment(0x2, 0, 0, false);
    sregs.ldt.s = 0;
    sregs.idt.limit = 0xffff;
    sregs.gdt.limit = 0xffff;

    memset(&regs, 0, sizeof(regs));
    regs.rip = rip;
    regs.rflags = EFLAGS_FIXED;
    regs.rdx = 0x600; /* family, model: any value is legal */
    if (flat32) {
        regs.rax = vcpu->vm->multiboot_magic;
        regs.rbx = vcpu->vm->boot_info;
    }
    /* INIT also ends NMI blocking, shadows and what KVM still held. */
    memset(&events, 0, sizeof(events));
    events.flags = KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SHADOW;
    vcpu->nmi_handed = false;
    vcpu->nmi_blocked = false;

    if (vcpu_ioctl(vcpu, KVM_SET_SREGS, &sregs, "KVM_SET_SREGS") != 0 ||
        vcpu_ioctl(vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS") != 0 ||
        vcpu_ioctl(vcpu, KVM_SET_VCPU_EVENTS, &events, "KVM_SET_VCPU_EVENTS") !=
            0) {
        return -1;
    }
    vcpu->run->if_flag = 0;
    vcpu->run->ready_for_interrupt_injection = 0;
    vcpu->run->cr8 = 0;
    return 0;
}

/* ---- what enter asked for ------------------------------------------------ */

/* Rule 2. The ioctl is made only between an NMI and the first look after it. */
static bool
nmi_pends_in_kvm(struct vcpu *vcpu)
{
    struct kvm_vcpu_events events;

    if (!vcpu->nmi_handed) {
        return false;
    }
    if (vcpu_ioctl(vcpu, KVM_GET_VCPU_EVENTS, &events, "KVM_GET_VCPU_EVENTS") !=
        0) {
        return true;
    }
    vcpu->nmi_handed = events.nmi.pending != 0;
    return vcpu->nmi_handed;
}

static void
inject(struct vcpu *vcpu, uint8_t vector)
{
    struct kvm_interrupt interrupt = { .irq = vector };

    if (!vcpu->run->ready_for_interrupt_injection || nmi_pends_in_kvm(vcpu) ||
        ioctl(vcpu->fd, KVM_INTERRUPT, &interrupt) < 0) {
        vcpu->run->request_interrupt_window = 1; /* not acked: comes again */
        return;
    }
    (void)avicemu_vcpu_ack(vcpu->apic, AVICEMU_DO_INJECT, vector);
    vcpu->run->ready_for_interrupt_injection = 0; /* KVM's slot is taken */
}

enum step {
    STEP_RUN,
    STEP_SLEEP,
    STEP_AGAIN,
    STEP_STOP
};

static enum step
act(struct vcpu *vcpu, const struct avicemu_todo *todo)
{
    vcpu->run->request_interrupt_window = (todo->what & AVICEMU_DO_WINDOW) != 0;
    vcpu->run->cr8 = todo->cr8;

    if (todo->what & AVICEMU_DO_INIT) {
        if (vcpu->index == 0) { /* to the reset vector, where nothing is */
            say("the guest sent INIT to the boot CPU: stopped as by a reset");
            vm_stop(vcpu->vm, STATUS_RESET);
            return STEP_STOP;
        }
        if (registers_set(vcpu, false, 0xf000, 0xfff0) != 0) {
            return STEP_STOP;
        }
        (void)avicemu_vcpu_ack(vcpu->apic, AVICEMU_DO_INIT, 0);
        return STEP_AGAIN; /* a SIPI may be right behind it */
    }
    if (todo->what & AVICEMU_DO_SIPI) {
        uint16_t selector = (uint16_t)(todo->vector << 8);

        if (registers_set(vcpu, false, selector, 0) != 0) {
            return STEP_STOP;
        }
        (void)avicemu_vcpu_ack(vcpu->apic, AVICEMU_DO_SIPI, todo->vector);
        return STEP_AGAIN;
    }
    if (todo->what & AVICEMU_DO_NMI) { /* rule 3 */
        if (vcpu_ioctl(vcpu, KVM_NMI, NULL, "KVM_NMI") != 0) {
            return STEP_STOP;
        }
        (void)avicemu_vcpu_ack(vcpu->apic, AVICEMU_DO_NMI, 0);
        vcpu->nmi_handed = true;
        return STEP_AGAIN;
    }
    if (todo->what & AVICEMU_DO_SMI) { /* no SMM here: taken and dropped */
        (void)avicemu_vcpu_ack(vcpu->apic, AVICEMU_DO_SMI, 0);
        return STEP_AGAIN;
    }
    if (todo->what & AVICEMU_DO_INJECT) {
        inject(vcpu, todo->vector);
    }
    return todo->what & AVICEMU_DO_SLEEP ? STEP_SLEEP : STEP_RUN;
}

/* The guest executed HLT. Rule 3: was that in an NMI handler? */
int
vcpu_halt(struct vcpu *vcpu)
{
    struct kvm_vcpu_events events;

    if (vcpu_ioctl(vcpu, KVM_GET_VCPU_EVENTS, &events, "KVM_GET_VCPU_EVENTS") !=
        0) {
        return -1;
    }
    vcpu->nmi_blocked = events.nmi.masked != 0;
    return avicemu_vcpu_set_halted(vcpu->apic);
}

/* The core's state as KVM told at the last exit. */
static void
core_state(const struct vcpu *vcpu, struct avicemu_cpu *cpu)
{
    memset(cpu, 0, sizeof(*cpu));
    cpu->size = sizeof(*cpu);
    cpu->flags = (vcpu->run->if_flag ? AVICEMU_CPU_IF : 0) |
                 (vcpu->nmi_blocked ? AVICEMU_CPU_NMI_BLOCKED : 0);
    cpu->cr8 = (uint32_t)vcpu->run->cr8;
}

/* Run the guest. 0: it came out with something to handle; 1: it was kicked. */
static int
run_guest(struct vcpu *vcpu)
{
    int failed = ioctl(vcpu->fd, KVM_RUN, 0);

    vcpu->unfinished = false;
    vcpu->nmi_blocked = false; /* not known any more, and KVM's business */
    if (failed < 0 && errno != EINTR && errno != EAGAIN) {
        say("vCPU %u: KVM_RUN failed: %s", vcpu->index, strerror(errno));
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    return failed < 0 ? 1 : 0;
}

/* One round. 0 to go on. */
static int
round_trip(struct vcpu *vcpu)
{
    struct avicemu_cpu cpu;
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int ran = 1;

    core_state(vcpu, &cpu);
    int err = avicemu_vcpu_enter(vcpu->apic, &cpu, &todo);
    if (err != 0) {
        say("vCPU %u: enter: %s", vcpu->index, strerror(-err));
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    enum step step = act(vcpu, &todo);

    if (step == STEP_RUN) {
        ran = run_guest(vcpu);
    }
    /* Rule 5: clear first; the next enter finds what was posted before. */
    __atomic_store_n(&vcpu->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
    core_state(vcpu, &cpu);
    err = avicemu_vcpu_exit(vcpu->apic, &cpu);
    if (err != 0) {
        say("vCPU %u: exit: %s", vcpu->index, strerror(-err));
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    /*
     * The clock thread may be late. The guest has its own clock, and must not
     * find a timer at 0 whose interrupt is not there.
     */
    if (todo.deadline <= clock_now(vcpu->vm)) {
        (void)avicemu_vcpu_expire(vcpu->apic);
    }
    if (ran == 0) {
        return exit_handle(vcpu);
    }
    if (step == STEP_SLEEP && !vm_stopping(vcpu->vm)) {
        (void)avicemu_vcpu_halt(vcpu->apic);
    }
    return ran < 0 || step == STEP_STOP ? -1 : 0;
}

void *
vcpu_thread(void *opaque)
{
    struct vcpu *vcpu = opaque;

    while (sem_wait(&vcpu->wake) != 0) { /* all threads exist: see run() */
    }
    avicemu_thread_attach();
    bool good = vcpu->index != 0 ||
                registers_set(vcpu, true, 0x08, vcpu->vm->entry) == 0;

    while (good && !vm_stopping(vcpu->vm)) {
        good = round_trip(vcpu) == 0;
    }
    vm_stop(vcpu->vm, STATUS_BROKEN); /* no effect if it stops already */
    return NULL;
}
