/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run from its scenario to its report: makes the objects, has them driven by
 * wall.c or virtual.c, has the books closed by books.c.
 */

#include "host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <avicemu/avic.h>

#include "books.h"
#include "cpu.h"
#include "device.h"
#include "iommu.h"
#include "virtual.h"

#define NS_PER_S   1000000000u
#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME  0x100000001b3u

/* ---- what all share ----------------------------------------------------- */

uint64_t
am_host_now(const struct avicemu_mock_host *host)
{
    struct timespec now;

    if (host->sim != NULL) {
        return host->now_ns;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec -
           host->start_ns;
}

void
am_host_fail(struct avicemu_mock_host *host, const char *fmt, ...)
{
    char line[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    (void)pthread_mutex_lock(&host->lock);
    if (host->nr_failures < AE_MAX_FAILURES) {
        host->failures[host->nr_failures] = strdup(line);
    }
    host->nr_failures++;
    (void)pthread_mutex_unlock(&host->lock);
}

bool
am_host_plant(struct avicemu_mock_host *host, enum avicemu_mock_plant plant)
{
    if (host->options.plant != plant) {
        return false;
    }
    return atomic_fetch_add(&host->plant_seen, 1) == host->options.plant_after;
}

/* FNV-1a over 64-bit words: it need only tell two runs apart. */
void
am_host_trace(struct avicemu_mock_host *host, uint32_t who, uint32_t kind,
              uint64_t value)
{
    const uint64_t words[] = { host->now_ns, ((uint64_t)who << 32) | kind,
                               value };

    if (host->sim == NULL) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        host->trace_hash = (host->trace_hash ^ words[i]) * FNV_PRIME;
        host->trace_hash ^= host->trace_hash >> 29;
    }
    host->trace_events++;
}

void
am_host_drain(struct avicemu_mock_host *host)
{
    for (uint32_t i = 0; i < host->nr_vms; i++) {
        atomic_store(&host->vms[i]->phase, AE_PHASE_DRAIN);
    }
}

static bool
vm_quiet(struct avicemu_mock_vm *vm)
{
    if (atomic_load(&vm->phase) == AE_PHASE_RUN) {
        return false;
    }
    /* From whoever was busy at the last look: with the virtual clock there is
     * a look at every event, and thousands of CPUs may sleep. */
    for (uint32_t n = 0; n < vm->nr_cpus; n++) {
        uint32_t i = (vm->awake_hint + n) % vm->nr_cpus;

        if (!atomic_load(&vm->cpus[i]->asleep) ||
            atomic_load(&vm->cpus[i]->outstanding) != 0) {
            vm->awake_hint = i;
            return false;
        }
    }
    return true;
}

bool
am_host_quiet(struct avicemu_mock_host *host)
{
    for (uint32_t i = 0; i < host->nr_vms; i++) {
        if (!vm_quiet(host->vms[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < host->nr_devices; i++) {
        if (!am_device_idle(host->devices[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < host->nr_units; i++) {
        if (!am_iommu_unit_idle(host->units[i])) {
            return false;
        }
    }
    return true;
}

static bool
cpu_stalled(struct avicemu_mock_cpu *cpu, uint64_t now_ns)
{
    struct avicemu_mock_host *host = cpu->vm->host;
    uint64_t progress = atomic_load(&cpu->progress);
    int32_t outstanding = atomic_load(&cpu->outstanding);

    if (progress != cpu->seen_progress || outstanding <= 0) {
        cpu->seen_progress = progress;
        cpu->seen_ns = now_ns;
        return false;
    }
    if (now_ns - cpu->seen_ns < host->scenario.watchdog_ns) {
        return false;
    }
    am_host_fail(host,
                 "%s vCPU %u: no progress for %llu ms: waits for %d things, "
                 "%s, %llu kicks, %llu wakes",
                 cpu->vm->config->name, cpu->index,
                 (unsigned long long)((now_ns - cpu->seen_ns) / 1000000u),
                 outstanding, atomic_load(&cpu->asleep) ? "asleep" : "awake",
                 (unsigned long long)atomic_load(&cpu->kicks),
                 (unsigned long long)atomic_load(&cpu->wakes));
    return true;
}

bool
am_host_stalled(struct avicemu_mock_host *host, uint64_t now_ns)
{
    bool stalled = false;

    for (uint32_t i = 0; i < host->nr_vms; i++) {
        for (uint32_t c = 0; c < host->vms[i]->nr_cpus; c++) {
            stalled |= cpu_stalled(host->vms[i]->cpus[c], now_ns);
        }
    }
    return stalled;
}

/* ---- making one --------------------------------------------------------- */

static int
library_host_create(struct avicemu_mock_host *host)
{
    static const uint32_t silicon[] = {
        [AVICEMU_MOCK_AVIC_OFF] = 0,
        [AVICEMU_MOCK_AVIC] = AVICEMU_HOST_AVIC,
        [AVICEMU_MOCK_X2AVIC] = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC,
        [AVICEMU_MOCK_X2AVIC_EXT] =
            AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC | AVICEMU_HOST_X2AVIC_EXT,
    };
    const struct avicemu_mock_scenario *s = &host->scenario;
    struct avicemu_host_config config = { .size = sizeof(config) };

    if (s->avic != AVICEMU_MOCK_AVIC_OFF) {
        config.avic = silicon[s->avic];
        config.avic |= s->erratum_1235 ? AVICEMU_HOST_ERRATUM_1235 : 0;
        config.doorbells = AVICEMU_DOORBELL_WORD;
        config.nr_pcpus = s->nr_pcpus;
        config.ops = am_iommu_ops;
        config.opaque = host;
    }
    return avicemu_host_create(&config, &host->host);
}

static int
objects_create(struct avicemu_mock_host *host)
{
    const struct avicemu_mock_scenario *s = &host->scenario;
    int rc = library_host_create(host);

    host->vms = calloc(s->nr_vms, sizeof(*host->vms));
    host->devices = calloc(s->nr_devices + 1u, sizeof(*host->devices));
    host->units = calloc(s->nr_iommus + 1u, sizeof(*host->units));
    if (rc != 0 || host->vms == NULL || host->devices == NULL ||
        host->units == NULL || !am_pcpu_pool_init(&host->pool, s->nr_pcpus)) {
        return rc != 0 ? rc : -ENOMEM;
    }
    if (s->clock == AVICEMU_MOCK_CLOCK_VIRTUAL) {
        host->sim = am_virtual_create(host);
        if (host->sim == NULL) {
            return -ENOMEM;
        }
    }
    for (uint32_t i = 0; i < s->nr_vms && rc == 0; i++) {
        rc = am_vm_create(host, i, &host->vms[i]);
        host->nr_vms += rc == 0;
    }
    for (uint32_t i = 0; i < s->nr_iommus && rc == 0; i++) {
        rc = am_iommu_unit_create(host, i, &host->units[i]);
        host->nr_units += rc == 0;
    }
    for (uint32_t i = 0; i < s->nr_devices && rc == 0; i++) {
        rc = am_device_create(host->vms[s->devices[i].vm], &s->devices[i],
                              &host->devices[i]);
        host->nr_devices += rc == 0;
    }
    return rc;
}

int
avicemu_mock_host_create(const struct avicemu_mock_scenario *scenario,
                         const struct avicemu_mock_options *options,
                         struct avicemu_mock_host **ret)
{
    struct avicemu_mock_host *host;
    int rc;

    if (ret == NULL || avicemu_mock_scenario_check(scenario, NULL, 0) != 0 ||
        (options != NULL && options->size != sizeof(*options))) {
        return -EINVAL;
    }
    host = aligned_alloc(64, (sizeof(*host) + 63u) & ~(size_t)63u);
    if (host == NULL) {
        return -ENOMEM;
    }
    memset(host, 0, sizeof(*host));
    host->scenario = *scenario;
    if (options != NULL) {
        host->options = *options;
    }
    host->trace_hash = FNV_OFFSET;
    (void)sem_init(&host->alarm, 0, 0);
    (void)pthread_mutex_init(&host->lock, NULL);
    (void)pthread_cond_init(&host->parked, NULL);
    rc = objects_create(host);
    if (rc != 0) {
        avicemu_mock_host_destroy(host);
        return rc;
    }
    *ret = host;
    return 0;
}

int
avicemu_mock_host_run(struct avicemu_mock_host *host,
                      struct avicemu_mock_report **ret)
{
    struct avicemu_mock_report *report;
    uint64_t elapsed;
    int rc;

    if (host->ran) {
        return -EBUSY;
    }
    host->ran = true;
    host->ticks_began = am_ticks();
    host->wall_began_ns = am_wall_ns();
    rc = host->sim != NULL ? am_virtual_run(host) : am_wall_run(host);
    elapsed = am_host_now(host);
    if (rc != 0) {
        return rc;
    }
    report = am_books_close(host);
    if (report == NULL) {
        return -ENOMEM;
    }
    report->elapsed_ns = elapsed;
    *ret = report;
    return 0;
}

/* Two async-signal-safe things, in this order: who is woken sees the count. */
void
avicemu_mock_host_interrupt(struct avicemu_mock_host *host)
{
    (void)atomic_fetch_add(&host->interrupts, 1);
    (void)sem_post(&host->alarm);
}

void
avicemu_mock_host_destroy(struct avicemu_mock_host *host)
{
    if (host == NULL) {
        return;
    }
    for (uint32_t i = 0; i < host->nr_devices; i++) {
        am_device_destroy(host->devices[i]);
    }
    for (uint32_t i = 0; i < host->nr_vms; i++) {
        am_vm_destroy(host->vms[i]);
    }
    for (uint32_t i = 0; i < host->nr_units; i++) {
        am_iommu_unit_destroy(host->units[i]);
    }
    free(host->units);
    free(host->devices);
    free(host->vms);
    am_virtual_destroy(host->sim);
    (void)avicemu_host_destroy(host->host);
    am_pcpu_pool_fini(&host->pool);
    for (unsigned i = 0; i < AE_MAX_FAILURES; i++) {
        free(host->failures[i]);
    }
    (void)pthread_cond_destroy(&host->parked);
    (void)pthread_mutex_destroy(&host->lock);
    (void)sem_destroy(&host->alarm);
    free(host);
}
