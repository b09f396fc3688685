/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The virtual clock: one thread, a heap of events, and time that jumps from
 * one to the next. Same scenario, same seed, same run, bit for bit.
 *
 *   STEP pcpu      its vCPU does one turn; what it costs is when its next one
 *                  is due: a part at random, and more where it came out
 *   DEVICE n       a poll
 *   DEADLINE vcpu  a blocked vCPU's timer
 *   DRAIN          the duration is over
 *   TOGGLE vm      its inhibit reason flips; ends with the drain
 *   NOTIFY n       an IOMMU's GA log has something
 *
 * pCPUs run side by side in virtual time. vCPUs that could run and have none
 * queue, first come, first served; a slice that ends hands the pCPU over, and
 * so does a guest that spins. Where the wall clock's vCPU thread waits in
 * avicemu_vcpu_halt(), this one calls block_begin and goes on to the next
 * event; wake, or the deadline, calls for block_end.
 *
 * An empty heap is the end: nothing will ever happen again. Whoever still
 * expects something then has lost it.
 */

#include "virtual.h"

#include <errno.h>
#include <stdlib.h>

#include "iommu.h"
#include "random.h"

#define STEP_NS        200u
#define STEP_JITTER_NS 64u
#define EXIT_NS        1000u
#define WATCH_NS       1000000u /* how often the watchdog looks */
#define NOTIFY_NS      1000u    /* from the interrupt to its thread */
#define MAX_PCPUS      512u

enum event {
    EVENT_STEP,
    EVENT_DEVICE,
    EVENT_DEADLINE,
    EVENT_DRAIN,
    EVENT_TOGGLE,
    EVENT_NOTIFY,
};

struct sim_pcpu {
    struct avicemu_mock_cpu *cpu; /* NULL: idle */
    uint64_t slice_end_ns;
    uint64_t exits_seen;
};

struct am_virtual {
    struct avicemu_mock_host *host;
    struct am_heap heap;
    struct sim_pcpu *pcpus;
    uint64_t idle[MAX_PCPUS / 64];          /* bit p: pCPU p has no vCPU */
    struct avicemu_mock_cpu *first, **last; /* runnable, without a pCPU */
    uint64_t random;
    uint64_t watch_ns, told_ns;
    bool out_of_memory;
};

static void
event_put(struct am_virtual *sim, enum event kind, uint32_t index,
          uint64_t word, uint64_t when_ns)
{
    struct am_heap_item item = {
        .when_ns = when_ns, .kind = kind, .index = index, .word = word
    };

    if (!am_heap_put(&sim->heap, item)) {
        sim->out_of_memory = true;
    }
}

/* ---- the run queue ------------------------------------------------------ */

static void
queue_append(struct am_virtual *sim, struct avicemu_mock_cpu *cpu)
{
    cpu->sim_queued = true;
    cpu->sim_next = NULL;
    *sim->last = cpu;
    sim->last = &cpu->sim_next;
}

static struct avicemu_mock_cpu *
queue_first(struct am_virtual *sim)
{
    struct avicemu_mock_cpu *cpu = sim->first;

    if (cpu != NULL) {
        sim->first = cpu->sim_next;
        if (sim->first == NULL) {
            sim->last = &sim->first;
        }
        cpu->sim_queued = false;
    }
    return cpu;
}

static void
idle_set(struct am_virtual *sim, uint32_t p, bool idle)
{
    uint64_t bit = (uint64_t)1 << (p % 64);

    sim->idle[p / 64] =
        idle ? sim->idle[p / 64] | bit : sim->idle[p / 64] & ~bit;
}

/* Give pCPU p, which is free, to the first in the queue. */
static void
pcpu_give(struct am_virtual *sim, uint32_t p)
{
    struct sim_pcpu *pcpu = &sim->pcpus[p];
    struct avicemu_mock_cpu *cpu = queue_first(sim);

    pcpu->cpu = cpu;
    idle_set(sim, p, cpu == NULL);
    if (cpu == NULL) {
        return;
    }
    if (cpu->sim_blocked) {
        cpu->sim_blocked = false;
        (void)avicemu_vcpu_block_end(cpu->vcpu);
    }
    am_cpu_place(cpu, &sim->host->pool.pcpus[p]);
    pcpu->slice_end_ns = sim->host->now_ns + sim->host->scenario.slice_ns;
    pcpu->exits_seen = cpu->nr_exits;
    event_put(sim, EVENT_STEP, p, 0, sim->host->now_ns);
}

static void
cpu_runnable(struct am_virtual *sim, struct avicemu_mock_cpu *cpu)
{
    queue_append(sim, cpu);
    for (uint32_t i = 0; i < MAX_PCPUS / 64; i++) {
        if (sim->idle[i] != 0) {
            pcpu_give(sim, i * 64 + (uint32_t)__builtin_ctzll(sim->idle[i]));
            return;
        }
    }
}

void
am_virtual_wake(struct am_virtual *sim, struct avicemu_mock_cpu *cpu)
{
    if (cpu->sim_blocked && !cpu->sim_queued) {
        am_host_trace(sim->host, cpu->vm->first_who + cpu->index, AE_TRACE_WAKE,
                      0);
        atomic_store(&cpu->asleep, 0);
        cpu_runnable(sim, cpu);
    }
}

/* ---- events ------------------------------------------------------------- */

void
am_virtual_device(struct am_virtual *sim, struct am_device *device,
                  uint64_t when_ns)
{
    uint32_t index = 0;

    if (when_ns >= device->sim_due) {
        return; /* an earlier poll is set, and will look */
    }
    while (sim->host->devices[index] != device) {
        index++;
    }
    device->sim_due = when_ns;
    event_put(sim, EVENT_DEVICE, index, when_ns, when_ns);
}

static void
device_event(struct am_virtual *sim, const struct am_heap_item *item)
{
    struct am_device *device = sim->host->devices[item->index];
    uint64_t next;

    if (device->sim_due != item->word) {
        return; /* an earlier one took its place */
    }
    device->sim_due = UINT64_MAX;
    next = am_device_poll(device, sim->host->now_ns);
    if (next != UINT64_MAX) {
        am_virtual_device(sim, device, next);
    }
}

void
am_virtual_notify(struct am_virtual *sim, uint32_t index)
{
    event_put(sim, EVENT_NOTIFY, index, 0, sim->host->now_ns + NOTIFY_NS);
}

/* A CPU by its number in the trace. */
static struct avicemu_mock_cpu *
cpu_of(struct am_virtual *sim, uint32_t who)
{
    struct avicemu_mock_vm *vm = sim->host->vms[who / AVICEMU_MOCK_MAX_VCPUS];

    return vm->cpus[who % AVICEMU_MOCK_MAX_VCPUS];
}

/* Whoever sleeps on work and is not in the queue was not woken for it. */
static void
wake_lost(struct avicemu_mock_cpu *cpu)
{
    if (cpu->sim_blocked && !cpu->sim_queued &&
        avicemu_vcpu_runnable(cpu->vcpu)) {
        am_cpu_lost(cpu, "wake-up: it sleeps on");
    }
}

static void
deadline_event(struct am_virtual *sim, const struct am_heap_item *item)
{
    struct avicemu_mock_cpu *cpu = cpu_of(sim, item->index);

    if (cpu->sim_deadline == item->word) {
        cpu->sim_deadline = UINT64_MAX;
    }
    if (cpu->sim_blocked && !cpu->sim_queued) {
        wake_lost(cpu); /* or else the tick would hide it */
        (void)avicemu_vcpu_expire(cpu->vcpu); /* wakes, if it is due */
    }
}

/* Take the vCPU, which is outside, off its pCPU. */
static void
pcpu_free(struct am_virtual *sim, uint32_t p)
{
    am_cpu_place(sim->pcpus[p].cpu, NULL);
    sim->pcpus[p].cpu = NULL;
}

/* The vCPU has nothing to run for. False: it has, after all. */
static bool
cpu_block(struct am_virtual *sim, uint32_t p)
{
    struct avicemu_mock_cpu *cpu = sim->pcpus[p].cpu;
    uint64_t deadline;

    if (avicemu_vcpu_block_begin(cpu->vcpu) == AVICEMU_SLEEP_NO) {
        return false;
    }
    pcpu_free(sim, p);
    cpu->sim_blocked = true;
    atomic_store(&cpu->asleep, 1);
    deadline = avicemu_vcpu_deadline(cpu->vcpu);
    if (deadline != UINT64_MAX && deadline != cpu->sim_deadline) {
        cpu->sim_deadline = deadline;
        event_put(sim, EVENT_DEADLINE, cpu->vm->first_who + cpu->index,
                  deadline, deadline);
    }
    return true;
}

static void
step_event(struct am_virtual *sim, uint32_t p)
{
    struct sim_pcpu *pcpu = &sim->pcpus[p];
    struct avicemu_mock_cpu *cpu = pcpu->cpu;
    enum am_turn turn = am_cpu_turn(cpu);
    uint64_t cost = STEP_NS + am_random_next(&sim->random) % STEP_JITTER_NS +
                    (cpu->nr_exits - pcpu->exits_seen) * EXIT_NS;
    bool slice_over =
        turn == AE_TURN_PAUSE || sim->host->now_ns + cost >= pcpu->slice_end_ns;

    pcpu->exits_seen = cpu->nr_exits;
    if (turn == AE_TURN_SLEEP && cpu_block(sim, p)) {
        pcpu_give(sim, p);
    } else if (slice_over && sim->first != NULL) {
        am_cpu_leave(cpu);
        pcpu_free(sim, p);
        queue_append(sim, cpu);
        pcpu_give(sim, p);
    } else {
        event_put(sim, EVENT_STEP, p, 0, sim->host->now_ns + cost);
    }
}

static void
toggle_event(struct am_virtual *sim, uint32_t vm)
{
    uint64_t next = am_vm_toggle(sim->host->vms[vm], sim->host->now_ns);

    if (next != UINT64_MAX) {
        event_put(sim, EVENT_TOGGLE, vm, 0, next);
    }
}

static void
event_happens(struct am_virtual *sim, const struct am_heap_item *item)
{
    switch ((enum event)item->kind) {
    case EVENT_STEP:
        step_event(sim, item->index);
        break;
    case EVENT_DEVICE:
        device_event(sim, item);
        break;
    case EVENT_DEADLINE:
        deadline_event(sim, item);
        break;
    case EVENT_DRAIN:
        am_host_drain(sim->host);
        break;
    case EVENT_TOGGLE:
        toggle_event(sim, item->index);
        break;
    case EVENT_NOTIFY:
        am_iommu_unit_notify(sim->host->units[item->index]);
        break;
    }
}

/* ---- the run ------------------------------------------------------------ */

/* Look up from time to time. False: stop here. */
static bool
watch(struct am_virtual *sim)
{
    struct avicemu_mock_host *host = sim->host;
    const struct avicemu_mock_options *options = &host->options;
    uint32_t interrupts = atomic_load(&host->interrupts);

    if (interrupts > 0) {
        am_host_drain(host);
    }
    if (sim->out_of_memory || interrupts > 1) {
        return false;
    }
    if (host->now_ns < sim->watch_ns) {
        return true;
    }
    sim->watch_ns = host->now_ns + WATCH_NS;
    if (options->progress != NULL &&
        host->now_ns - sim->told_ns >= host->scenario.duration_ns / 20) {
        sim->told_ns = host->now_ns;
        options->progress(options->opaque, host->now_ns,
                          host->scenario.duration_ns);
    }
    return !am_host_stalled(host, host->now_ns);
}

/* Nothing will happen any more: who sleeps on work, or still expects it? */
static void
end_check(struct avicemu_mock_cpu *cpu, bool ran_out)
{
    struct avicemu_mock_host *host = cpu->vm->host;
    int32_t outstanding = atomic_load(&cpu->outstanding);

    wake_lost(cpu);
    if (ran_out && outstanding > 0) {
        am_host_fail(host,
                     "%s vCPU %u: waits for %d things that will never "
                     "happen",
                     cpu->vm->config->name, cpu->index, outstanding);
    }
}

static void
cpus_end(struct am_virtual *sim, bool ran_out)
{
    for (uint32_t v = 0; v < sim->host->nr_vms; v++) {
        struct avicemu_mock_vm *vm = sim->host->vms[v];

        for (uint32_t c = 0; c < vm->nr_cpus; c++) {
            struct avicemu_mock_cpu *cpu = vm->cpus[c];

            end_check(cpu, ran_out);
            am_cpu_leave(cpu);
            if (cpu->sim_blocked) {
                (void)avicemu_vcpu_block_end(cpu->vcpu);
                cpu->sim_blocked = false;
            }
        }
    }
}

int
am_virtual_run(struct avicemu_mock_host *host)
{
    struct am_virtual *sim = host->sim;
    struct am_heap_item item;
    bool ran_out = false;

    avicemu_thread_attach();
    event_put(sim, EVENT_DRAIN, 0, 0, host->scenario.duration_ns);
    for (uint32_t v = 0; v < host->nr_vms; v++) {
        toggle_event(sim, v);
        for (uint32_t c = 0; c < host->vms[v]->nr_cpus; c++) {
            cpu_runnable(sim, host->vms[v]->cpus[c]);
        }
    }
    while (watch(sim)) {
        if (am_host_quiet(host) || !am_heap_get(&sim->heap, &item)) {
            ran_out = true;
            break;
        }
        host->now_ns = item.when_ns;
        event_happens(sim, &item);
    }
    cpus_end(sim, ran_out);
    return sim->out_of_memory ? -ENOMEM : 0;
}

struct am_virtual *
am_virtual_create(struct avicemu_mock_host *host)
{
    struct am_virtual *sim = calloc(1, sizeof(*sim));

    if (sim == NULL) {
        return NULL;
    }
    sim->host = host;
    sim->last = &sim->first;
    sim->random = am_random_start(host->scenario.seed, 0);
    sim->pcpus = calloc(host->scenario.nr_pcpus, sizeof(*sim->pcpus));
    if (sim->pcpus == NULL) {
        free(sim);
        return NULL;
    }
    for (uint32_t p = 0; p < host->scenario.nr_pcpus; p++) {
        idle_set(sim, p, true);
    }
    return sim;
}

void
am_virtual_destroy(struct am_virtual *sim)
{
    if (sim != NULL) {
        am_heap_fini(&sim->heap);
        free(sim->pcpus);
        free(sim);
    }
}
