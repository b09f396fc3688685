/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The vCPU loop and the guest's accesses of the law's machine; see law.h.
 *
 * Boundary of two instructions, in this order in every mode: a deadline that
 * has passed; a wake; a kick, an open window, CR8 below its threshold: leave;
 * if outside: enter, and take what it says; if inside with AVIC: recheck, and
 * take what it says. At most one interrupt is taken.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <avicemu/avic.h>

#include "law.h"

#define APIC_PAGE    0xfee00000u
#define REG_TPR      0x080u
#define REG_EOI      0x0b0u
#define REG_ICR      0x300u
#define REG_ICR_HIGH 0x310u
#define X2APIC_FIRST 0x800u

uint64_t
law_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void
law_fail(struct law_run *run, const char *format, ...)
{
    va_list args;
    int at;

    if (run->message[0] != '\0') {
        return;
    }
    at = snprintf(run->message, sizeof(run->message),
                  "mode %u, step %u: ", (unsigned)run->mode, run->step);
    va_start(args, format);
    (void)vsnprintf(run->message + at, sizeof(run->message) - (size_t)at,
                    format, args);
    va_end(args);
}

void
law_saw(struct law_run *run, unsigned i, enum law_seen seen, uint32_t what,
        uint64_t value)
{
    struct law_trace *t = &run->trace;

    if (t->nr == t->room) {
        size_t room = t->room == 0 ? 1024 : 2 * t->room;
        void *events = realloc(t->events, room * sizeof(*t->events));

        if (events == NULL) {
            law_fail(run, "no memory");
            return;
        }
        t->events = events;
        t->room = room;
    }
    t->events[t->nr++] =
        (struct law_event){ run->step, (uint8_t)i, (uint8_t)seen, what, value };
}

struct avicemu_vcpu_stats
law_stats(struct law_run *run, unsigned i)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    (void)avicemu_vcpu_stats(run->cpus[i].vcpu, &stats);
    return stats;
}

/* ---- the loop ----------------------------------------------------------- */

static struct avicemu_cpu
core_of(const struct law_cpu *cpu)
{
    return (struct avicemu_cpu){
        .size = sizeof(struct avicemu_cpu),
        .flags = (cpu->iff ? AVICEMU_CPU_IF : 0) |
                 (cpu->shadow != 0 ? AVICEMU_CPU_SHADOW : 0) |
                 (cpu->nmi_blocked ? AVICEMU_CPU_NMI_BLOCKED : 0),
        .cr8 = cpu->cr8,
    };
}

void
law_must(struct law_run *run, unsigned i, const char *call, int rc)
{
    if (rc != 0) {
        law_fail(run, "vCPU %u: %s returned %d", i, call, rc);
    }
}

void
law_leave(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];
    struct avicemu_cpu core = core_of(cpu);

    if (cpu->inside) {
        cpu->inside = false;
        law_must(run, i, "exit", avicemu_vcpu_exit(cpu->vcpu, &core));
    }
}

static void
take(struct law_run *run, unsigned i, enum avicemu_do what, uint8_t vector)
{
    struct law_cpu *cpu = &run->cpus[i];

    law_must(run, i, "ack", avicemu_vcpu_ack(cpu->vcpu, what, vector));
    if (cpu->nr_frames == LAW_MAX_FRAMES) {
        law_fail(run, "vCPU %u: vector %02xh: too many handlers nest", i,
                 vector);
        return;
    }
    cpu->frames[cpu->nr_frames++] =
        (struct law_frame){ what == AVICEMU_DO_NMI ? 2 : vector, 0, cpu->iff };
    cpu->iff = false;
    cpu->nmi_blocked |= what == AVICEMU_DO_NMI;
    law_saw(run, i, what == AVICEMU_DO_NMI ? LAW_SAW_NMI : LAW_SAW_VECTOR,
            vector, 0);
}

/* INIT, or the start. */
static void
core_reset(struct law_cpu *cpu)
{
    cpu->iff = false;
    cpu->nmi_blocked = false;
    cpu->shadow = 0;
    cpu->cr8 = 0;
    cpu->nr_frames = 0;
    cpu->pc = 0;
}

/* What enter asks for. False: nothing to run for now. */
static bool
entered(struct law_run *run, unsigned i, const struct avicemu_todo *todo)
{
    struct law_cpu *cpu = &run->cpus[i];

    cpu->inside = true;
    cpu->look = false;
    cpu->cr8 = todo->cr8;
    cpu->threshold = todo->tpr_threshold;
    cpu->windows = todo->what & (AVICEMU_DO_WINDOW | AVICEMU_DO_NMI_WINDOW);
    if ((todo->what & (AVICEMU_DO_SLEEP | AVICEMU_DO_INIT)) != 0) {
        if ((todo->what & AVICEMU_DO_INIT) != 0) {
            law_must(run, i, "ack",
                     avicemu_vcpu_ack(cpu->vcpu, AVICEMU_DO_INIT, 0));
            core_reset(cpu);
        }
        law_leave(run, i);
        return false;
    }
    if ((todo->what & AVICEMU_DO_SIPI) != 0) {
        law_must(run, i, "ack",
                 avicemu_vcpu_ack(cpu->vcpu, AVICEMU_DO_SIPI, todo->vector));
        core_reset(cpu);
    } else if ((todo->what & AVICEMU_DO_NMI) != 0) {
        take(run, i, AVICEMU_DO_NMI, 0);
    } else if ((todo->what & AVICEMU_DO_INJECT) != 0) {
        take(run, i, AVICEMU_DO_INJECT, todo->vector);
    }
    return true;
}

static bool
enter(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];
    struct avicemu_todo todo = { .size = sizeof(todo) };

    while (run->message[0] == '\0') {
        struct avicemu_cpu core = core_of(cpu);

        cpu->kicks = cpu->fake->kicks;
        law_must(run, i, "enter", avicemu_vcpu_enter(cpu->vcpu, &core, &todo));
        if (entered(run, i, &todo)) {
            return true;
        }
        if ((todo.what & AVICEMU_DO_SLEEP) != 0) {
            cpu->wakes = cpu->fake->wakes;
            cpu->blocked =
                avicemu_vcpu_block_begin(cpu->vcpu) == AVICEMU_SLEEP_YES;
        }
        if (cpu->blocked) {
            return false;
        }
    }
    return false;
}

static bool
must_leave(const struct law_cpu *cpu)
{
    return cpu->fake->kicks != cpu->kicks || cpu->cr8 < cpu->threshold ||
           ((cpu->windows & AVICEMU_DO_WINDOW) != 0 && cpu->iff &&
            cpu->shadow == 0) ||
           ((cpu->windows & AVICEMU_DO_NMI_WINDOW) != 0 && !cpu->nmi_blocked);
}

static void
recheck(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];
    struct avicemu_cpu core = core_of(cpu);
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int rc = avicemu_vcpu_recheck(cpu->vcpu,
                                  cpu->look ? AVICEMU_RECHECK_ALWAYS
                                            : AVICEMU_RECHECK_DOORBELL,
                                  &core, &todo);

    if (rc == -EOPNOTSUPP || rc == -EAGAIN) {
        return;
    }
    law_must(run, i, "recheck", rc);
    cpu->look = false;
    if ((todo.what & AVICEMU_DO_INJECT) != 0) {
        take(run, i, AVICEMU_DO_INJECT, todo.vector);
    }
}

bool
law_boundary(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];

    if (run->fake.now >= avicemu_vcpu_deadline(cpu->vcpu)) {
        (void)avicemu_vcpu_expire(cpu->vcpu);
    }
    if (cpu->blocked) {
        if (cpu->fake->wakes == cpu->wakes) {
            return false;
        }
        cpu->blocked = false;
        law_must(run, i, "block_end", avicemu_vcpu_block_end(cpu->vcpu));
    }
    if (cpu->inside && must_leave(cpu)) {
        law_leave(run, i);
    }
    if (!cpu->inside) {
        return enter(run, i);
    }
    if (run->avic) {
        recheck(run, i);
    }
    return true;
}

/* ---- accesses ----------------------------------------------------------- */

static enum avicemu_access
access_ends(struct law_run *run, unsigned i, enum avicemu_access done,
            uint64_t *ret)
{
    struct law_cpu *cpu = &run->cpus[i];

    if (done == AVICEMU_ACCESS_EXIT) {
        law_leave(run, i);
        return avicemu_vcpu_handle_exit(cpu->vcpu, ret);
    }
    if (cpu->inside) {
        cpu->cr8 = avicemu_cr8_read(cpu->vcpu);
    }
    return done;
}

enum avicemu_access
law_write(struct law_run *run, unsigned i, uint32_t reg, uint64_t value)
{
    struct avicemu_vcpu *vcpu = run->cpus[i].vcpu;
    uint32_t narrow = (uint32_t)value;
    enum avicemu_access done;

    if (!run->avic) {
        law_leave(run, i);
    }
    if ((reg & LAW_MSR) != 0) {
        done = avicemu_msr_write(vcpu, reg & ~LAW_MSR, value);
    } else if (run->program->x2apic) {
        done = avicemu_msr_write(vcpu, X2APIC_FIRST + (reg >> 4), value);
    } else {
        done = avicemu_mmio_write(vcpu, APIC_PAGE + reg, 4, &narrow);
    }
    done = access_ends(run, i, done, NULL);
    /* Of all others the doorbell must tell. */
    run->cpus[i].look |= reg == REG_TPR || reg == REG_EOI;
    if (done == AVICEMU_ACCESS_GP) {
        law_saw(run, i, LAW_SAW_GP, reg, value);
    } else if (done != AVICEMU_ACCESS_DONE) {
        law_fail(run, "vCPU %u: write of %03xh: %d", i, reg, (int)done);
    }
    return done;
}

enum avicemu_access
law_read(struct law_run *run, unsigned i, uint32_t reg, uint64_t *ret)
{
    struct avicemu_vcpu *vcpu = run->cpus[i].vcpu;
    enum avicemu_access done;
    uint32_t narrow = 0;

    *ret = 0;
    if (!run->avic) {
        law_leave(run, i);
    }
    if (run->program->x2apic) {
        done = avicemu_msr_read(vcpu, X2APIC_FIRST + (reg >> 4), ret);
    } else {
        done = avicemu_mmio_read(vcpu, APIC_PAGE + reg, 4, &narrow);
        *ret = narrow;
    }
    done = access_ends(run, i, done, ret);
    if (done == AVICEMU_ACCESS_GP) {
        law_saw(run, i, LAW_SAW_GP, reg, 0);
    } else if (done != AVICEMU_ACCESS_DONE) {
        law_fail(run, "vCPU %u: read of %03xh: %d", i, reg, (int)done);
    }
    return done;
}

void
law_icr(struct law_run *run, unsigned i, uint32_t low, uint32_t destination)
{
    if (run->program->x2apic) {
        (void)law_write(run, i, REG_ICR, (uint64_t)destination << 32 | low);
    } else {
        (void)law_write(run, i, REG_ICR_HIGH, destination << 24);
        (void)law_write(run, i, REG_ICR, low);
    }
}
