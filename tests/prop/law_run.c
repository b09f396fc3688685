/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instructions of the law's machine, and a whole run; see law.h.
 *
 * Handlers, one instruction each: tell the sender, and answer it by an IPI if
 * it wants that; switch interrupts on, for some vectors; read the in-service
 * register, for some; EOI; IRET.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <avicemu/avic.h>

#include "law.h"

#define MSR_APIC_BASE    0x1bu
#define MSR_TSC_DEADLINE 0x6e0u
#define BASE_X2APIC      0xfee00c00u
#define BASE_BSP         0x100u
#define REG_EOI          0x0b0u
#define REG_ISR          0x100u
#define REG_LVT_TIMER    0x320u
#define REG_SELF_IPI     0x3f0u
#define ICR_FIXED        0x4000u
#define ICR_INIT         0x4500u
#define ICR_SIPI         0x4600u
#define ICR_OTHERS       (3u << 18)
#define NR_PCPUS         LAW_NR_PCPUS

/* ---- handlers ----------------------------------------------------------- */

static void
handled(struct law_run *run, unsigned by, unsigned sender)
{
    struct law_cpu *from = &run->cpus[sender];

    if (from->outstanding == 0) {
        law_fail(run, "vCPU %u: handles what vCPU %u has not sent", by, sender);
        return;
    }
    from->outstanding--;
    if (from->answer) {
        law_icr(run, by, ICR_FIXED | (LAW_ACK + by), sender);
    }
}

static void
handler_begins(struct law_run *run, unsigned i, uint8_t vector)
{
    if (vector >= 0x30 && vector < 0x98) {
        handled(run, i, vector & 7u);
    } else if (vector >= LAW_EDGE && vector < LAW_LEVEL + 8) {
        handled(run, i, vector & 7u);
    } else if (vector >= LAW_LINT0 && vector < LAW_LINT0 + 8) {
        (void)avicemu_vcpu_lint(run->cpus[i].vcpu, 0, 0);
        handled(run, i, i);
    } else if (vector >= LAW_TICKS && vector < LAW_ERROR) {
        run->cpus[i].ticks++;
    }
}

static void
nmi_step(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];
    struct law_frame *frame = &cpu->frames[cpu->nr_frames - 1];

    if (frame->phase++ == 0) {
        handled(run, i, LAW_NMI_SENDER); /* nobody else sends any */
        return;
    }
    cpu->nmi_blocked = false;
    cpu->iff = frame->was_if;
    cpu->look = true;
    cpu->nr_frames--;
}

static void
handler_step(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];
    struct law_frame *frame = &cpu->frames[cpu->nr_frames - 1];
    uint64_t value;

    if (frame->vector == 2) {
        nmi_step(run, i);
        return;
    }
    switch (frame->phase++) {
    case 0:
        handler_begins(run, i, frame->vector);
        break;
    case 1:
        if ((frame->vector & 0x10u) != 0) {
            cpu->iff = true;
            cpu->shadow = 2;
        }
        break;
    case 2:
        if ((frame->vector & 0x20u) != 0 &&
            law_read(run, i, REG_ISR + (frame->vector >> 5) * 16, &value) ==
                AVICEMU_ACCESS_DONE) {
            law_saw(run, i, LAW_SAW_VALUE, REG_ISR, value);
        }
        break;
    case 3:
        (void)law_write(run, i, REG_EOI, 0);
        break;
    default:
        cpu->iff = frame->was_if;
        cpu->shadow = 0;
        cpu->look = true;
        cpu->nr_frames--;
        break;
    }
}

/* ---- instructions ------------------------------------------------------- */

static void
halt(struct law_run *run, unsigned i)
{
    law_leave(run, i);
    if (avicemu_vcpu_set_halted(run->cpus[i].vcpu) != 0) {
        law_fail(run, "vCPU %u: set_halted", i);
    }
}

/* What this vCPU has sent to whom, as the library counts it: the law needs no
 * model of destinations, and a wrong count ends in a run that hangs. */
static void
send(struct law_run *run, unsigned i, const struct law_op *op)
{
    struct law_cpu *cpu = &run->cpus[i];
    uint64_t before = law_stats(run, i).ipi_new;

    cpu->answer = op->c != 0;
    if (op->kind == LAW_SELF) {
        (void)law_write(run, i, REG_SELF_IPI, op->a);
    } else {
        law_icr(run, i, op->a, op->b);
    }
    cpu->outstanding += (uint32_t)(law_stats(run, i).ipi_new - before);
}

static void
post(struct law_run *run, unsigned i, const struct law_op *op)
{
    struct law_cpu *cpu = &run->cpus[i];
    enum avicemu_post result =
        avicemu_post(run->cpus[op->b].vcpu, (uint8_t)op->a,
                     op->c != 0 ? AVICEMU_TRIGGER_LEVEL : AVICEMU_TRIGGER_EDGE);

    cpu->answer = false;
    cpu->outstanding += result == AVICEMU_POST_NEW;
}

static void
pin(struct law_run *run, unsigned i)
{
    struct law_cpu *cpu = &run->cpus[i];

    cpu->answer = false;
    cpu->outstanding += avicemu_vcpu_lint(cpu->vcpu, 0, 1) == AVICEMU_POST_NEW;
}

/* Stay here until it is true; asleep, if the program wants that. */
static void
wait_until(struct law_run *run, unsigned i, const struct law_op *op, bool true_)
{
    struct law_cpu *cpu = &run->cpus[i];

    if (true_) {
        cpu->pc++;
    } else if (op->a != 0) {
        halt(run, i);
    }
}

static void
read_op(struct law_run *run, unsigned i, const struct law_op *op)
{
    uint64_t value;

    if (law_read(run, i, op->a, &value) == AVICEMU_ACCESS_DONE) {
        law_saw(run, i, LAW_SAW_VALUE, op->a, value);
    }
}

static void
cr8_write(struct law_run *run, unsigned i, uint32_t value)
{
    struct law_cpu *cpu = &run->cpus[i];
    enum avicemu_access done;

    if (!run->avic) { /* intercepted */
        law_leave(run, i);
    }
    done = avicemu_cr8_write(cpu->vcpu, value);
    if (done == AVICEMU_ACCESS_EXIT) {
        law_leave(run, i);
        done = avicemu_vcpu_handle_exit(cpu->vcpu, NULL);
    }
    if (done != AVICEMU_ACCESS_DONE) {
        law_fail(run, "vCPU %u: CR8 := %u: %d", i, value, (int)done);
    }
    cpu->cr8 = value;
    cpu->look = true;
}

/* Instructions of the boot code, and of the timer. */
static void
boot_op(struct law_run *run, unsigned i, const struct law_op *op)
{
    struct law_cpu *cpu = &run->cpus[i];

    switch (op->kind) {
    case LAW_MODE_X2:
        (void)law_write(run, i, LAW_MSR | MSR_APIC_BASE,
                        BASE_X2APIC | (i == 0 ? BASE_BSP : 0));
        break;
    case LAW_START:
        law_icr(run, i, ICR_OTHERS | (op->a != 0 ? ICR_SIPI | 8u : ICR_INIT),
                0);
        break;
    case LAW_ONLINE:
        run->nr_online++;
        break;
    case LAW_TIMER:
        (void)law_write(run, i, REG_LVT_TIMER, op->a);
        cpu->ticks_wanted = cpu->ticks + 1;
        break;
    case LAW_DEADLINE:
        (void)law_write(run, i, LAW_MSR | MSR_TSC_DEADLINE,
                        run->fake.now + op->b);
        break;
    default:
        break;
    }
    cpu->pc++;
}

static void
flag_op(struct law_run *run, unsigned i, const struct law_op *op)
{
    struct law_cpu *cpu = &run->cpus[i];

    if (op->kind == LAW_STI && !cpu->iff) {
        cpu->iff = true;
        cpu->shadow = 2;
    } else if (op->kind == LAW_CLI) {
        cpu->iff = false;
        cpu->shadow = 0;
    }
    cpu->pc++;
}

static void
program_step(struct law_run *run, unsigned i)
{
    const struct law_program *p = run->program;
    struct law_cpu *cpu = &run->cpus[i];
    const struct law_op *op = &p->ops[i][cpu->pc];

    if (cpu->pc == p->nr_ops[i]) {
        cpu->done = true;
        halt(run, i);
        return;
    }
    if (p->cut[i][op->block]) {
        cpu->pc++;
        return;
    }
    switch (op->kind) {
    case LAW_ALL:
        wait_until(run, i, op, run->nr_online == p->nr_vcpus);
        return;
    case LAW_WAIT:
        wait_until(run, i, op, cpu->outstanding == 0);
        return;
    case LAW_WAIT_TICK:
        wait_until(run, i, op, cpu->ticks >= cpu->ticks_wanted);
        return;
    case LAW_CLI:
    case LAW_STI:
        flag_op(run, i, op);
        return;
    case LAW_WRITE:
        (void)law_write(run, i, op->a, op->b);
        break;
    case LAW_READ:
        read_op(run, i, op);
        break;
    case LAW_CR8:
        cr8_write(run, i, op->a);
        break;
    case LAW_CR8_READ:
        law_saw(run, i, LAW_SAW_VALUE, LAW_MSR | 8u,
                avicemu_cr8_read(cpu->vcpu));
        break;
    case LAW_SEND:
    case LAW_SELF:
        send(run, i, op);
        break;
    case LAW_POST:
        post(run, i, op);
        break;
    case LAW_PIN:
        pin(run, i);
        break;
    case LAW_NOP:
        break;
    default:
        boot_op(run, i, op);
        return;
    }
    cpu->pc++;
}

/* ---- a run -------------------------------------------------------------- */

static void
machine_create(struct law_run *run)
{
    const struct law_program *p = run->program;
    struct avicemu_host_config host = {
        .size = sizeof(host),
        .avic = p->avic,
        .doorbells = p->kicks ? AVICEMU_DOORBELL_KICK : AVICEMU_DOORBELL_WORD,
        .nr_pcpus = NR_PCPUS,
    };
    struct avicemu_vm_config vm = {
        .size = sizeof(vm),
        .flags = AVICEMU_VM_BOOKS,
        .max_vcpus = p->nr_vcpus,
        .lapic = { .personality = p->personality, .features = p->features },
        .max_apic_id = p->nr_vcpus - 1,
    };

    fake_vmm_init(&run->fake);
    fake_vmm_config(&run->fake, &vm);
    if (run->avic) {
        vm.flags |= AVICEMU_VM_AVIC;
        vm.flags |= run->mode == LAW_NO_IPIV ? AVICEMU_VM_NO_IPIV : 0;
    }
    if (avicemu_host_create(&host, &run->host) != 0 ||
        avicemu_vm_create(run->host, &vm, &run->vm) != 0) {
        law_fail(run, "host or VM cannot be created");
        return;
    }
    for (unsigned i = 0; i < p->nr_vcpus; i++) {
        struct law_cpu *cpu = &run->cpus[i];

        cpu->fake = &run->fake.vcpus[i];
        if (avicemu_vcpu_create(run->vm, i, cpu->fake, &cpu->vcpu) != 0) {
            law_fail(run, "vCPU %u cannot be created", i);
            return;
        }
    }
}

void
law_begin(struct law_run *run, const struct law_program *program,
          enum law_mode mode)
{
    memset(run, 0, sizeof(*run));
    run->program = program;
    run->mode = mode;
    run->avic = mode != LAW_OFF;
    run->schedule = program->seed;
    run->meddling = program->seed ^ (0x5851f42d4c957f2du * (mode + 1u));
    machine_create(run);
}

/* Off its core, and on another one, or for a while on none. A core has one vCPU
 * at a time, and what the last one left behind must not matter. */
static void
migrate(struct law_run *run, unsigned i, bool stay_off)
{
    struct law_cpu *cpu = &run->cpus[i];
    unsigned pcpu = law_below(&run->meddling, NR_PCPUS);

    law_leave(run, i);
    if (cpu->loaded) {
        law_must(run, i, "put", avicemu_vcpu_put(cpu->vcpu));
        cpu->loaded = false;
        run->taken[cpu->pcpu] = false;
    }
    if (!stay_off && !run->taken[pcpu]) {
        law_must(run, i, "load", avicemu_vcpu_load(cpu->vcpu, pcpu));
        cpu->loaded = true;
        cpu->pcpu = pcpu;
        run->taken[pcpu] = true;
    }
}

/* What the guest does not see: where a vCPU runs, and the inhibit reason. */
static void
meddle(struct law_run *run, unsigned i)
{
    uint32_t random = law_below(&run->meddling, 256);

    if (random < 4 || (random < 32 && !run->cpus[i].loaded)) {
        migrate(run, i, random == 0);
    }
    if (run->mode == LAW_TOGGLED && random >= 248) {
        run->inhibited = !run->inhibited;
        law_must(run, i, "inhibit",
                 avicemu_vm_inhibit(run->vm, AVICEMU_INHIBIT_BLOCKIRQ,
                                    run->inhibited));
    }
}

static bool
all_done(const struct law_run *run)
{
    for (unsigned i = 0; i < run->program->nr_vcpus; i++) {
        const struct law_cpu *cpu = &run->cpus[i];

        if (!cpu->done || !cpu->blocked || cpu->nr_frames != 0 ||
            cpu->fake->wakes != cpu->wakes) {
            return false;
        }
    }
    return true;
}

/* Who hangs, and on what. */
static void
hang(struct law_run *run)
{
    for (unsigned i = 0; i < run->program->nr_vcpus; i++) {
        const struct law_cpu *cpu = &run->cpus[i];
        struct avicemu_vcpu_view view = { .size = sizeof(view) };

        (void)avicemu_vcpu_view(cpu->vcpu, &view);
        if (!cpu->done) {
            law_fail(run,
                     "vCPU %u hangs at instruction %u: waits for %u, %u of %u "
                     "ticks, %s, IF %d, pending %d",
                     i, cpu->pc, cpu->outstanding, cpu->ticks,
                     cpu->ticks_wanted, cpu->blocked ? "asleep" : "awake",
                     cpu->iff, view.pending);
        }
    }
    law_fail(run, "it does not come to rest");
}

static void
turn(struct law_run *run)
{
    unsigned i = law_below(&run->schedule, run->program->nr_vcpus);
    struct law_cpu *cpu = &run->cpus[i];

    run->fake.now += LAW_TICK;
    if (run->avic) {
        meddle(run, i);
    }
    if (!law_boundary(run, i)) {
        return;
    }
    if (cpu->nr_frames != 0) {
        handler_step(run, i);
    } else {
        program_step(run, i);
    }
    if (cpu->shadow != 0 && --cpu->shadow == 0) {
        cpu->look = true;
    }
}

/* ---- the end ------------------------------------------------------------ */

static void
books_see(struct law_run *run, unsigned i)
{
    for (unsigned x = 0; x < 256; x++) {
        struct avicemu_vcpu_books b = { .size = sizeof(b) };
        const uint64_t *columns[] = { &b.acked,        &b.cleared,
                                      &b.pending,      &b.local_new,
                                      &b.local_merged, &b.ipi_new,
                                      &b.ipi_merged,   &b.ipi_dropped };

        (void)avicemu_vcpu_books(run->cpus[i].vcpu, (uint8_t)x, &b);
        for (unsigned c = 0; c < 8; c++) {
            if (*columns[c] != 0) {
                law_saw(run, i, LAW_SAW_BOOK, c << 8 | x, *columns[c]);
            }
        }
    }
}

static void
stats_see(struct law_run *run, unsigned i)
{
    struct avicemu_vcpu_stats s = law_stats(run, i);
    const uint64_t all[] = { s.injected,    s.nmi,         s.init,
                             s.sipi,        s.eoi,         s.eoi_broadcast,
                             s.ipi_sent,    s.ipi_new,     s.ipi_merged,
                             s.ipi_dropped, s.local_new,   s.local_merged,
                             s.cleared,     s.timer_ticks, s.gp,
                             s.esr };

    for (unsigned n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
        law_saw(run, i, LAW_SAW_STAT, n, all[n]);
    }
}

static void
page_see(struct law_run *run, unsigned i)
{
    for (uint32_t reg = 0; reg < 0x1000; reg += 16) {
        uint32_t value = 0;

        if (avicemu_vcpu_peek(run->cpus[i].vcpu, reg, &value) == 0) {
            law_saw(run, i, LAW_SAW_PAGE, reg, value);
        }
    }
}

void
law_execute(struct law_run *run)
{
    char line[160];

    while (run->message[0] == '\0' && !all_done(run)) {
        if (++run->step == LAW_MAX_STEPS) {
            hang(run);
        }
        turn(run);
    }
    for (unsigned i = 0; i < run->program->nr_vcpus; i++) {
        page_see(run, i);
        stats_see(run, i);
        books_see(run, i);
    }
    if (run->message[0] == '\0' &&
        avicemu_check_invariants(run->vm, line, sizeof(line)) != 0) {
        law_fail(run, "%s", line);
    }
}

void
law_end(struct law_run *run)
{
    for (unsigned i = 0; i < run->program->nr_vcpus; i++) {
        if (run->cpus[i].vcpu == NULL) {
            continue;
        }
        law_leave(run, i);
        if (run->cpus[i].blocked) {
            (void)avicemu_vcpu_block_end(run->cpus[i].vcpu);
        }
        (void)avicemu_vcpu_destroy(run->cpus[i].vcpu);
    }
    (void)avicemu_vm_destroy(run->vm);
    (void)avicemu_host_destroy(run->host);
    free(run->trace.events);
    run->trace = (struct law_trace){ NULL, 0, 0 };
}
