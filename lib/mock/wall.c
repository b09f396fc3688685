/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wall clock: a thread per vCPU, device and IOMMU, and the caller's thread
 * that watches them.
 *
 * The end, in stages (host.h): drain the guests until all is quiet; end the
 * devices, then the notifiers; park the vCPUs, of which those that sleep stay
 * asleep; once nobody runs, wake those and see whether one of them slept on
 * work. Nothing here waits for time to pass but the watch itself, whose period
 * is only how often it looks.
 *
 * Sleeping. Without AVIC a vCPU's thread gives its token back and calls
 * avicemu_vcpu_halt(). With AVIC it begins to block while the library still
 * believes it on its token, as a hypervisor does: senders may see it running up
 * to the moment at which it is blocked, and that is the race to win.
 *
 * nr_awake counts vCPU threads that are not in ops->block. A wake that is
 * under way is no gap: its sleeper's flag is set by the time that its poster
 * has parked, and the sleeper looks at the flag first.
 */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <avicemu/avic.h>

#include "cpu.h"
#include "device.h"
#include "iommu.h"

#define NS_PER_S 1000000000u
#define WATCH_NS 20000000u

/* ---- a vCPU's thread ---------------------------------------------------- */

static bool
stopping(const struct avicemu_mock_host *host)
{
    return atomic_load(&host->stop) != AE_STOP_NO;
}

/* Run guest code on one token until it is given back. True: sleep now. */
static bool
run_slice(struct avicemu_mock_cpu *cpu)
{
    struct avicemu_mock_host *host = cpu->vm->host;
    uint64_t end = am_host_now(host) + host->scenario.slice_ns;
    enum am_turn turn = AE_TURN_RUN;

    while (turn != AE_TURN_SLEEP && !stopping(host)) {
        turn = am_cpu_turn(cpu);
        if (turn != AE_TURN_SLEEP && am_pcpu_wanted(&host->pool) &&
            (turn == AE_TURN_PAUSE || am_host_now(host) >= end)) {
            break;
        }
    }
    am_cpu_leave(cpu);
    return turn == AE_TURN_SLEEP;
}

static void
awake_less(struct avicemu_mock_host *host)
{
    (void)pthread_mutex_lock(&host->lock);
    if (--host->nr_awake == 0) {
        (void)pthread_cond_signal(&host->parked);
    }
    (void)pthread_mutex_unlock(&host->lock);
}

static void
token_give(struct avicemu_mock_cpu *cpu)
{
    struct am_pcpu *pcpu = cpu->pcpu_held;

    am_cpu_place(cpu, NULL);
    am_pcpu_release(&cpu->vm->host->pool, pcpu);
}

/* The vCPU has nothing to run for, and holds a token; afterwards it may have
 * none. */
static int
cpu_halt(struct avicemu_mock_cpu *cpu)
{
    if (!cpu->vm->avic) {
        token_give(cpu);
        return avicemu_vcpu_halt(cpu->vcpu);
    }
    if (avicemu_vcpu_block_begin(cpu->vcpu) == AVICEMU_SLEEP_NO) {
        return 0;
    }
    token_give(cpu);
    am_cpu_sleep(cpu, avicemu_vcpu_deadline(cpu->vcpu));
    return avicemu_vcpu_block_end(cpu->vcpu);
}

static void *
cpu_thread(void *arg)
{
    struct avicemu_mock_cpu *cpu = arg;
    struct avicemu_mock_host *host = cpu->vm->host;
    int rc = 0;

    avicemu_thread_attach();
    while (!stopping(host) && rc == 0) {
        struct am_pcpu *pcpu = am_pcpu_acquire(&host->pool, &cpu->waiter);

        if (pcpu == NULL) {
            break;
        }
        am_cpu_place(cpu, pcpu);
        while (cpu->pcpu_held != NULL && rc == 0 && run_slice(cpu)) {
            rc = cpu_halt(cpu);
        }
        if (cpu->pcpu_held != NULL) {
            token_give(cpu);
        }
    }
    if (rc != 0) {
        am_host_fail(host, "%s vCPU %u: it cannot halt: the library says %d",
                     cpu->vm->config->name, cpu->index, rc);
    }
    awake_less(host);
    return NULL;
}

/* ---- starting and stopping ---------------------------------------------- */

struct threads {
    uint32_t nr_units;
    uint32_t nr_devices;
    uint32_t nr_cpus;
    struct avicemu_mock_cpu **cpus; /* those whose thread has been started */
};

static int
cpu_start(struct avicemu_mock_cpu *cpu)
{
    size_t stack_bytes = cpu->vm->host->options.stack_bytes;
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);

    if (rc == 0 && stack_bytes != 0) {
        rc = pthread_attr_setstacksize(&attr, stack_bytes);
    }
    if (rc == 0) {
        rc = pthread_create(&cpu->thread, &attr, cpu_thread, cpu);
    }
    (void)pthread_attr_destroy(&attr);
    return rc;
}

static int
cpus_start(struct avicemu_mock_host *host, struct threads *threads)
{
    for (uint32_t v = 0; v < host->nr_vms; v++) {
        for (uint32_t c = 0; c < host->vms[v]->nr_cpus; c++) {
            struct avicemu_mock_cpu *cpu = host->vms[v]->cpus[c];

            (void)pthread_mutex_lock(&host->lock);
            host->nr_awake++;
            (void)pthread_mutex_unlock(&host->lock);
            if (cpu_start(cpu) != 0) {
                awake_less(host);
                return -EAGAIN;
            }
            threads->cpus[threads->nr_cpus++] = cpu;
        }
    }
    return 0;
}

static int
threads_start(struct avicemu_mock_host *host, struct threads *threads)
{
    int rc = 0;

    for (uint32_t i = 0; i < host->nr_units && rc == 0; i++) {
        rc = am_iommu_unit_start(host->units[i]);
        threads->nr_units += rc == 0;
    }
    for (uint32_t i = 0; i < host->nr_devices && rc == 0; i++) {
        rc = am_device_start(host->devices[i]);
        threads->nr_devices += rc == 0;
    }
    return rc == 0 ? cpus_start(host, threads) : rc;
}

static void
threads_stop(struct avicemu_mock_host *host, struct threads *threads)
{
    for (uint32_t i = 0; i < threads->nr_devices; i++) {
        am_device_stop(host->devices[i]);
    }
    /* Each once more: what the devices logged last. */
    for (uint32_t i = 0; i < threads->nr_units; i++) {
        am_iommu_unit_stop(host->units[i]);
    }
    atomic_store(&host->stop, AE_STOP_PARK);
    am_pcpu_close(&host->pool);
    (void)pthread_mutex_lock(&host->lock);
    while (host->nr_awake != 0) {
        (void)pthread_cond_wait(&host->parked, &host->lock);
    }
    (void)pthread_mutex_unlock(&host->lock);
    atomic_store(&host->stop, AE_STOP_LEAVE);
    for (uint32_t i = 0; i < threads->nr_cpus; i++) {
        struct avicemu_mock_cpu *cpu = threads->cpus[i];

        (void)pthread_mutex_lock(&cpu->sleep_lock);
        (void)pthread_cond_signal(&cpu->sleep_cond);
        (void)pthread_mutex_unlock(&cpu->sleep_lock);
        (void)pthread_join(cpu->thread, NULL);
    }
}

/* ---- watching ----------------------------------------------------------- */

/* Flip the inhibit reasons that are due; when is the next one? */
static uint64_t
toggles(struct avicemu_mock_host *host, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < host->nr_vms; i++) {
        uint64_t due = am_vm_toggle(host->vms[i], now);

        next = due < next ? due : next;
    }
    return next;
}

/* False: interrupted. */
static bool
wait_for(struct avicemu_mock_host *host, uint64_t ns)
{
    struct timespec until;

    /* sem_timedwait counts by the realtime clock; a jump of it makes one look
     * early or late, no more. */
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    return sem_timedwait(&host->alarm, &until) != 0;
}

/* Until the next look, or an interrupt. */
static void
watch_wait(struct avicemu_mock_host *host)
{
    uint64_t now = am_host_now(host), look = now + WATCH_NS;
    bool waiting = true;

    while (waiting && now < look) {
        uint64_t due = toggles(host, now);

        due = due < look ? due : look;
        waiting = wait_for(host, due - now);
        now = am_host_now(host);
    }
}

/* Every VM has done its operations: no need to wait for the duration. */
static bool
all_drain(struct avicemu_mock_host *host)
{
    for (uint32_t i = 0; i < host->nr_vms; i++) {
        if (atomic_load(&host->vms[i]->phase) == AE_PHASE_RUN) {
            return false;
        }
    }
    return true;
}

static void
watch(struct avicemu_mock_host *host)
{
    const struct avicemu_mock_options *options = &host->options;
    uint32_t quiet = 0;

    for (;;) {
        uint64_t now = am_host_now(host);
        uint32_t interrupts = atomic_load(&host->interrupts);

        if (now >= host->scenario.duration_ns || interrupts > 0) {
            am_host_drain(host);
        }
        /* Twice in a row: between two CPUs a message may be under way that
         * the first look saw at neither. */
        quiet = all_drain(host) && am_host_quiet(host) ? quiet + 1 : 0;
        if (quiet == 2 || interrupts > 1 || am_host_stalled(host, now)) {
            return;
        }
        if (options->progress != NULL) {
            options->progress(options->opaque, now, host->scenario.duration_ns);
        }
        watch_wait(host);
    }
}

int
am_wall_run(struct avicemu_mock_host *host)
{
    struct threads threads = { 0, 0, 0, NULL };
    uint32_t nr_cpus = 0;
    int rc;

    for (uint32_t i = 0; i < host->nr_vms; i++) {
        nr_cpus += host->vms[i]->nr_cpus;
    }
    threads.cpus = calloc(nr_cpus, sizeof(struct avicemu_mock_cpu *));
    if (threads.cpus == NULL) {
        return -ENOMEM;
    }
    host->start_ns = 0;
    host->start_ns = am_host_now(host);
    rc = threads_start(host, &threads);
    if (rc == 0) {
        watch(host);
    }
    threads_stop(host, &threads);
    free(threads.cpus);
    return rc;
}
