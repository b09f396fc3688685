/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core and the vCPU loop around it; see cpu.h.
 *
 * Doorbell: emptied before enter, because enter sees every post that came
 * before, and looked at after each step. Edge doorbell: the ring is a
 * sequentially consistent store, and so is the exchange here; a ring that
 * comes between the exchange and enter's return stays for the first look.
 *
 * IF, shadow, NMI block and CR8 are the core's; the library hears of them at
 * enter and exit. A window that enter asked for is open as soon as the flags
 * say so, and then the CPU leaves.
 *
 * With AVIC there are two doorbells: the token's, which a kick rings and which
 * makes the vCPU leave, and the library's, which an IPI rings and which
 * avicemu_vcpu_recheck() takes. The first is looked at first.
 */

#include "cpu.h"

#include <errno.h>
#include <stdlib.h>

#include <avicemu/avic.h>

#include "random.h"

#define STEP_BUDGET 8
#define MAX_COMPUTE 4

/* ---- the core ----------------------------------------------------------- */

static void
frame_push(struct avicemu_mock_cpu *cpu, struct am_gate gate, uint8_t vector)
{
    if (cpu->nr_frames == AE_MAX_FRAMES) {
        am_host_fail(cpu->vm->host,
                     "%s vCPU %u: vector %02xh: handlers nest "
                     "deeper than there are priorities",
                     cpu->vm->config->name, cpu->index, vector);
        return;
    }
    cpu->frames[cpu->nr_frames++] =
        (struct am_frame){ gate, vector, cpu->if_flag };
}

static void
frame_pop(struct avicemu_mock_cpu *cpu)
{
    const struct am_frame *frame = &cpu->frames[cpu->nr_frames - 1];

    if (cpu->nr_frames == 1) {
        am_host_fail(cpu->vm->host, "%s vCPU %u: IRET outside a handler",
                     cpu->vm->config->name, cpu->index);
        return;
    }
    if (frame->vector == 2) {
        cpu->nmi_blocked = false;
    }
    cpu->if_flag = frame->was_if;
    cpu->shadow = 0;
    cpu->look = true;
    cpu->nr_frames--;
}

void
am_cpu_start(struct avicemu_mock_cpu *cpu)
{
    struct am_gate boot = { am_boot_step, NULL };

    cpu->nr_frames = 0;
    cpu->if_flag = false;
    cpu->nmi_blocked = false;
    cpu->shadow = 0;
    cpu->boot_next = 1;
    cpu->boot_round = 0;
    cpu->boot_init_sent = false;
    cpu->timer_on = false;
    for (unsigned i = 0; i < 256; i++) {
        cpu->idt[i] = (struct am_gate){ NULL, NULL };
    }
    cpu->nmi = (struct am_gate){ NULL, NULL };
    atomic_store(&cpu->outstanding, 0);
    frame_push(cpu, boot, 0);
}

static uint32_t
core_flags(const struct avicemu_mock_cpu *cpu)
{
    return (cpu->if_flag ? AVICEMU_CPU_IF : 0) |
           (cpu->shadow != 0 ? AVICEMU_CPU_SHADOW : 0) |
           (cpu->nmi_blocked ? AVICEMU_CPU_NMI_BLOCKED : 0);
}

/* ---- the loop ----------------------------------------------------------- */

static void
cpu_trace(struct avicemu_mock_cpu *cpu, enum am_trace kind, uint64_t value)
{
    am_host_trace(cpu->vm->host, cpu->vm->first_who + cpu->index, kind, value);
}

static void
cpu_progress(struct avicemu_mock_cpu *cpu)
{
    (void)atomic_fetch_add_explicit(&cpu->progress, 1, memory_order_relaxed);
}

static void
library_refused(struct avicemu_mock_cpu *cpu, const char *call, int error)
{
    am_host_fail(cpu->vm->host, "%s vCPU %u: %s returned %d",
                 cpu->vm->config->name, cpu->index, call, error);
}

void
am_cpu_place(struct avicemu_mock_cpu *cpu, struct am_pcpu *pcpu)
{
    int rc;

    cpu->slices += pcpu != NULL;
    cpu->pcpu_held = pcpu;
    atomic_store(&cpu->pcpu, pcpu);
    if (!cpu->vm->avic) {
        return;
    }
    rc = pcpu != NULL ? avicemu_vcpu_load(cpu->vcpu, pcpu->apic_id)
                      : avicemu_vcpu_put(cpu->vcpu);
    if (rc != 0) {
        library_refused(
            cpu, pcpu != NULL ? "avicemu_vcpu_load" : "avicemu_vcpu_put", rc);
    }
}

void
am_cpu_lost(struct avicemu_mock_cpu *cpu, const char *what)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };
    char work[32] = "an INIT or SIPI";

    (void)avicemu_vcpu_view(cpu->vcpu, &view);
    if (view.pending >= 0) {
        (void)snprintf(work, sizeof(work), "vector %02xh",
                       (unsigned)view.pending);
    } else if (view.nr_nmi != 0) {
        (void)snprintf(work, sizeof(work), "an NMI");
    }
    am_host_fail(
        cpu->vm->host, "%s vCPU %u: lost %s %s (so far %llu kicks, %llu wakes)",
        cpu->vm->config->name, cpu->index, what, work,
        (unsigned long long)cpu->kicks, (unsigned long long)cpu->wakes);
}

/*
 * A lost kick is late, not lost: the next exit finds what it was about. With
 * the virtual clock no post is ever half done, so it can be told: if nothing
 * waited at enter, and nobody has rung since, nothing can be deliverable now.
 * With AVIC active that is told at each look instead, see posted_lost().
 */
static void
kick_lost(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    if (cpu->vm->host->sim == NULL || cpu->windows != 0 ||
        avicemu_vcpu_avic(cpu->vcpu) != AVICEMU_AVIC_OFF ||
        cpu->threshold != 0 || cpu->shadow != 0 ||
        atomic_load(&cpu->pcpu_held->doorbell) != 0) {
        return;
    }
    (void)avicemu_vcpu_view(cpu->vcpu, &view);
    if ((cpu->if_flag && view.pending >= 0) ||
        (!cpu->nmi_blocked && view.nr_nmi != 0)) {
        am_cpu_lost(cpu, "kick: while it ran there came");
    }
}

void
am_cpu_leave(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_cpu core = { sizeof(core), core_flags(cpu), cpu->cr8 };
    int rc;

    if (!cpu->inside) {
        return;
    }
    cpu->inside = false;
    cpu->nr_exits++;
    rc = avicemu_vcpu_exit(cpu->vcpu, &core);
    if (rc != 0) {
        library_refused(cpu, "avicemu_vcpu_exit", rc);
    }
    kick_lost(cpu);
}

static void
cpu_ack(struct avicemu_mock_cpu *cpu, enum avicemu_do what, uint8_t vector)
{
    int rc = avicemu_vcpu_ack(cpu->vcpu, what, vector);

    if (rc != 0) {
        library_refused(cpu, "avicemu_vcpu_ack", rc);
    }
    cpu_progress(cpu);
}

static void
take_vector(struct avicemu_mock_cpu *cpu, uint8_t vector)
{
    cpu_trace(cpu, AE_TRACE_INJECT, vector);
    cpu_ack(cpu, AVICEMU_DO_INJECT, vector);
    if (am_host_plant(cpu->vm->host, AVICEMU_MOCK_PLANT_HANDLER)) {
        avicemu_mock_eoi(cpu);
        return;
    }
    if (cpu->idt[vector].fn == NULL) {
        am_host_fail(cpu->vm->host, "%s vCPU %u: vector %02xh has no handler",
                     cpu->vm->config->name, cpu->index, vector);
        avicemu_mock_eoi(cpu);
        return;
    }
    cpu->handled[vector]++;
    frame_push(cpu, cpu->idt[vector], vector);
    cpu->if_flag = false;
}

static void
take_nmi(struct avicemu_mock_cpu *cpu)
{
    cpu_trace(cpu, AE_TRACE_NMI, 0);
    cpu_ack(cpu, AVICEMU_DO_NMI, 0);
    if (cpu->nmi.fn == NULL) {
        am_host_fail(cpu->vm->host, "%s vCPU %u: NMI without a handler",
                     cpu->vm->config->name, cpu->index);
        return;
    }
    cpu->nmi_handled++;
    frame_push(cpu, cpu->nmi, 2);
    cpu->if_flag = false;
    cpu->nmi_blocked = true;
}

static bool
cpu_enter(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_cpu core = { sizeof(core), core_flags(cpu), cpu->cr8 };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int rc;

    (void)atomic_exchange(&cpu->pcpu_held->doorbell, 0);
    rc = avicemu_vcpu_enter(cpu->vcpu, &core, &todo);
    if (rc != 0) {
        library_refused(cpu, "avicemu_vcpu_enter", rc);
        return false;
    }
    cpu_trace(cpu, AE_TRACE_ENTER, todo.what);
    cpu->inside = true;
    cpu->look = false; /* it has looked */
    cpu->cr8 = todo.cr8;
    cpu->windows = todo.what & (AVICEMU_DO_WINDOW | AVICEMU_DO_NMI_WINDOW);
    cpu->threshold = todo.tpr_threshold;
    cpu->deadline_ns = todo.deadline;
    if ((todo.what & AVICEMU_DO_INIT) != 0) {
        cpu_trace(cpu, AE_TRACE_INIT, 0);
        cpu_ack(cpu, AVICEMU_DO_INIT, 0);
        am_cpu_start(cpu);
        cpu->cr8 = 0;
        am_cpu_leave(cpu);
        return cpu_enter(cpu); /* at most twice: INIT is gone, SIPI may wait */
    }
    if ((todo.what & AVICEMU_DO_SLEEP) != 0) {
        am_cpu_leave(cpu);
        return false;
    }
    if ((todo.what & AVICEMU_DO_SIPI) != 0) {
        cpu_trace(cpu, AE_TRACE_SIPI, todo.vector);
        cpu_ack(cpu, AVICEMU_DO_SIPI, todo.vector);
        am_cpu_start(cpu);
    } else if ((todo.what & AVICEMU_DO_NMI) != 0) {
        take_nmi(cpu);
    } else if ((todo.what & AVICEMU_DO_INJECT) != 0) {
        take_vector(cpu, todo.vector);
    }
    return true;
}

/* The doorbell was not rung, and nothing has changed: as kick_lost(). */
static void
posted_lost(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    if (cpu->vm->host->sim == NULL || !cpu->if_flag || cpu->shadow != 0) {
        return;
    }
    (void)avicemu_vcpu_view(cpu->vcpu, &view);
    if (view.pending >= 0) {
        am_cpu_lost(cpu, "doorbell or kick: while it ran there came");
    }
}

/* What hardware with AVIC does between two instructions. */
static void
take_posted(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_cpu core = { sizeof(core), core_flags(cpu), cpu->cr8 };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int rc = avicemu_vcpu_recheck(cpu->vcpu,
                                  cpu->look ? AVICEMU_RECHECK_ALWAYS
                                            : AVICEMU_RECHECK_DOORBELL,
                                  &core, &todo);

    if (rc == -EOPNOTSUPP) {
        return; /* not active */
    }
    if (rc == -EAGAIN) {
        posted_lost(cpu);
        return;
    }
    if (rc != 0) {
        library_refused(cpu, "avicemu_vcpu_recheck", rc);
        return;
    }
    cpu->look = false;
    if ((todo.what & AVICEMU_DO_INJECT) != 0 &&
        !am_host_plant(cpu->vm->host, AVICEMU_MOCK_PLANT_DOORBELL)) {
        cpu->in_guest++;
        take_vector(cpu, todo.vector);
    }
}

static bool
must_leave(struct avicemu_mock_cpu *cpu)
{
    if ((cpu->windows & AVICEMU_DO_WINDOW) != 0 && cpu->if_flag &&
        cpu->shadow == 0) {
        return true;
    }
    if ((cpu->windows & AVICEMU_DO_NMI_WINDOW) != 0 && !cpu->nmi_blocked) {
        return true;
    }
    if (cpu->cr8 < cpu->threshold) {
        return true;
    }
    if (am_host_now(cpu->vm->host) >= cpu->deadline_ns) {
        /* It kicks, if the tick is due; so ask at most once per entry. */
        cpu->deadline_ns = UINT64_MAX;
        (void)avicemu_vcpu_expire(cpu->vcpu);
    }
    return atomic_load(&cpu->pcpu_held->doorbell) != 0;
}

static enum am_turn
halt(struct avicemu_mock_cpu *cpu)
{
    int rc;

    am_cpu_leave(cpu);
    cpu_trace(cpu, AE_TRACE_HALT, 0);
    cpu->halts++;
    rc = avicemu_vcpu_set_halted(cpu->vcpu);
    if (rc != 0) {
        library_refused(cpu, "avicemu_vcpu_set_halted", rc);
    }
    return AE_TURN_SLEEP;
}

/*
 * One step of the top frame. Between two steps a program computes for a few
 * turns, inside the guest: most steps end with an access, and without this a
 * vCPU would hardly ever be in the guest when a message comes.
 */
static enum avicemu_mock_next
step(struct avicemu_mock_cpu *cpu)
{
    struct am_gate gate = cpu->frames[cpu->nr_frames - 1].gate;

    if (cpu->nr_frames == 1 && cpu->compute > 0) {
        cpu->compute--;
        return AVICEMU_MOCK_NEXT_STEP;
    }
    cpu->compute = (uint32_t)(am_random_next(&cpu->random) % MAX_COMPUTE);
    return gate.fn(cpu, gate.state, STEP_BUDGET);
}

enum am_turn
am_cpu_turn(struct avicemu_mock_cpu *cpu)
{
    enum avicemu_mock_next next;

    if (!cpu->inside && !cpu_enter(cpu)) {
        return AE_TURN_SLEEP;
    }
    next = step(cpu);
    cpu->look |= cpu->shadow == 1;
    cpu->shadow -= cpu->shadow != 0;
    switch (next) {
    case AVICEMU_MOCK_NEXT_HALT:
        return halt(cpu);
    case AVICEMU_MOCK_NEXT_IRET:
        frame_pop(cpu);
        break;
    case AVICEMU_MOCK_NEXT_STEP:
    case AVICEMU_MOCK_NEXT_PAUSE:
        break;
    }
    if (cpu->inside && must_leave(cpu)) {
        am_cpu_leave(cpu);
    } else if (cpu->inside && cpu->vm->avic) {
        take_posted(cpu);
    }
    return next == AVICEMU_MOCK_NEXT_PAUSE ? AE_TURN_PAUSE : AE_TURN_RUN;
}

/* ---- making one --------------------------------------------------------- */

static void
sync_init(struct avicemu_mock_cpu *cpu)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&cpu->sleep_lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&cpu->sleep_cond, &attr);
    (void)pthread_cond_init(&cpu->waiter.cond, NULL);
    (void)pthread_condattr_destroy(&attr);
}

int
am_cpu_create(struct avicemu_mock_vm *vm, uint32_t index,
              struct avicemu_mock_cpu **ret)
{
    size_t bytes = (sizeof(struct avicemu_mock_cpu) + 63u) & ~(size_t)63u;
    struct avicemu_mock_cpu *cpu = aligned_alloc(64, bytes);
    int rc;

    if (cpu == NULL) {
        return -ENOMEM;
    }
    *cpu = (struct avicemu_mock_cpu){ .vm = vm, .index = index };
    cpu->random =
        am_random_start(vm->host->scenario.seed, vm->first_who + index + 1);
    cpu->deadline_ns = UINT64_MAX;
    cpu->sim_deadline = UINT64_MAX;
    rc = avicemu_vcpu_create(vm->vm, index, cpu, &cpu->vcpu);
    if (rc != 0) {
        free(cpu);
        return rc;
    }
    sync_init(cpu);
    am_cpu_start(cpu);
    *ret = cpu;
    return 0;
}

void
am_cpu_destroy(struct avicemu_mock_cpu *cpu)
{
    if (cpu != NULL) {
        (void)avicemu_vcpu_destroy(cpu->vcpu);
        (void)pthread_cond_destroy(&cpu->waiter.cond);
        (void)pthread_cond_destroy(&cpu->sleep_cond);
        (void)pthread_mutex_destroy(&cpu->sleep_lock);
        free(cpu);
    }
}
