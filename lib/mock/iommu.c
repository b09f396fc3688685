/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of posted interrupts; see iommu.h.
 *
 * The interrupt sets rung, then tells the thread; the thread clears rung, then
 * notifies. So rung says for sure when something is left to do, and a run that
 * drains waits for it.
 */

#include "iommu.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "virtual.h"

#define FIRST_DEVICE_ID 8u
#define GSIS_PER_DEVICE 64u
#define TIMER_TRIES     1001u

uint64_t
am_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static int
compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

uint64_t
am_ticks_overhead(void)
{
    uint64_t tries[TIMER_TRIES];

    for (unsigned i = 0; i < TIMER_TRIES; i++) {
        uint64_t began = am_ticks();

        tries[i] = am_ticks() - began;
    }
    qsort(tries, TIMER_TRIES, sizeof(tries[0]), compare);
    return tries[TIMER_TRIES / 2];
}

/* ---- callbacks ---------------------------------------------------------- */

static void
on_ga_interrupt(void *opaque, struct avicemu_iommu *iommu)
{
    struct avicemu_mock_host *host = opaque;
    struct am_iommu_unit *unit = avicemu_iommu_opaque(iommu);

    (void)atomic_fetch_add_explicit(&unit->interrupts, 1, memory_order_relaxed);
    atomic_store(&unit->rung, 1);
    if (am_host_plant(host, AVICEMU_MOCK_PLANT_GA)) {
        return;
    }
    if (host->sim != NULL) {
        am_virtual_notify(host->sim, unit->index);
        return;
    }
    (void)pthread_mutex_lock(&unit->lock);
    unit->pending = true;
    (void)pthread_cond_signal(&unit->cond);
    (void)pthread_mutex_unlock(&unit->lock);
}

static void
on_event_interrupt(void *opaque, struct avicemu_iommu *iommu)
{
    struct avicemu_iommu_event event;
    char line[160];

    while (avicemu_iommu_event(iommu, &event) == 0) {
        (void)avicemu_describe_event(event.low, event.high, line, sizeof(line));
        am_host_fail(opaque, "IOMMU: %s", line);
    }
}

static void
on_ga_lookup(void *opaque, struct avicemu_iommu *iommu, int begins)
{
    struct avicemu_mock_host *host = opaque;
    struct am_iommu_unit *unit = avicemu_iommu_opaque(iommu);

    if (begins) {
        unit->overlaps += atomic_fetch_add(&host->looking_up, 1) != 0;
        unit->lookup_began = am_ticks();
    } else {
        am_histogram_add(&unit->lookups, am_ticks() - unit->lookup_began);
        (void)atomic_fetch_sub(&host->looking_up, 1);
    }
}

const struct avicemu_host_ops am_iommu_ops = {
    .ga_interrupt = on_ga_interrupt,
    .event_interrupt = on_event_interrupt,
    .ga_lookup = on_ga_lookup,
};

/* ---- the notifier ------------------------------------------------------- */

void
am_iommu_unit_notify(struct am_iommu_unit *unit)
{
    int rc;

    atomic_store(&unit->rung, 0);
    rc = avicemu_iommu_notify(unit->iommu);
    if (rc < 0) {
        am_host_fail(unit->host, "IOMMU %u: avicemu_iommu_notify returned %d",
                     unit->index, rc);
    }
}

bool
am_iommu_unit_idle(const struct am_iommu_unit *unit)
{
    return atomic_load(&unit->rung) == 0;
}

static void *
notifier_thread(void *arg)
{
    struct am_iommu_unit *unit = arg;
    bool ending = false;

    avicemu_thread_attach();
    while (!ending) {
        (void)pthread_mutex_lock(&unit->lock);
        while (!unit->pending && !unit->ending) {
            (void)pthread_cond_wait(&unit->cond, &unit->lock);
        }
        unit->pending = false;
        ending = unit->ending;
        (void)pthread_mutex_unlock(&unit->lock);
        am_iommu_unit_notify(unit);
    }
    return NULL;
}

int
am_iommu_unit_start(struct am_iommu_unit *unit)
{
    return pthread_create(&unit->thread, NULL, notifier_thread, unit) == 0
               ? 0
               : -EAGAIN;
}

void
am_iommu_unit_stop(struct am_iommu_unit *unit)
{
    (void)pthread_mutex_lock(&unit->lock);
    unit->ending = true;
    (void)pthread_cond_signal(&unit->cond);
    (void)pthread_mutex_unlock(&unit->lock);
    (void)pthread_join(unit->thread, NULL);
}

int
am_iommu_unit_create(struct avicemu_mock_host *host, uint32_t index,
                     struct am_iommu_unit **ret)
{
    size_t bytes = (sizeof(struct am_iommu_unit) + 63u) & ~(size_t)63u;
    struct am_iommu_unit *unit = aligned_alloc(64, bytes);
    struct avicemu_iommu_config config = {
        .size = sizeof(config),
        .irqs_per_device = GSIS_PER_DEVICE,
        .opaque = unit,
    };
    int rc;

    if (unit == NULL) {
        return -ENOMEM;
    }
    *unit = (struct am_iommu_unit){ .host = host, .index = index };
    (void)pthread_mutex_init(&unit->lock, NULL);
    (void)pthread_cond_init(&unit->cond, NULL);
    rc = avicemu_iommu_create(host->host, &config, &unit->iommu);
    if (rc != 0) {
        am_iommu_unit_destroy(unit);
        return rc;
    }
    *ret = unit;
    return 0;
}

void
am_iommu_unit_destroy(struct am_iommu_unit *unit)
{
    (void)avicemu_iommu_destroy(unit->iommu);
    (void)pthread_cond_destroy(&unit->cond);
    (void)pthread_mutex_destroy(&unit->lock);
    free(unit);
}

/* ---- a device that is passed through ------------------------------------ */

static uint32_t
gsi_of(const struct am_device *device, uint32_t q)
{
    return device->index * GSIS_PER_DEVICE + q;
}

/* A queue's irqfd and producer have the queue as their token. */
static int
queue_attach(struct am_device *device, uint32_t q)
{
    struct am_queue *queue = &device->queues[q];
    struct avicemu_iommu *iommu = device->unit->iommu;
    int rc = avicemu_irqfd_create(device->vm->vm, gsi_of(device, q), queue,
                                  &queue->irqfd);

    if (rc == 0) {
        rc = avicemu_iommu_add_producer(iommu, device->device_id, q, queue);
    }
    if (rc == 0) {
        rc = avicemu_iommu_message(iommu, device->device_id, q,
                                   &queue->host_address, &queue->host_data);
    }
    return rc;
}

int
am_iommu_attach(struct am_device *device)
{
    struct avicemu_mock_host *host = device->vm->host;
    uint32_t number = host->nr_devices;
    int rc;

    if (host->nr_units == 0) {
        return 0;
    }
    device->unit = host->units[number % host->nr_units];
    device->device_id = (uint16_t)(FIRST_DEVICE_ID + number);
    rc = avicemu_iommu_add_device(device->unit->iommu, device->device_id,
                                  device->nr_queues);
    for (uint32_t q = 0; q < device->nr_queues && rc == 0; q++) {
        rc = queue_attach(device, q);
    }
    return rc;
}

void
am_iommu_detach(struct am_device *device)
{
    if (device->unit == NULL) {
        return;
    }
    for (uint32_t q = 0; q < device->nr_queues; q++) {
        (void)avicemu_irqfd_destroy(device->queues[q].irqfd);
        (void)avicemu_iommu_remove_producer(device->unit->iommu,
                                            device->device_id, q);
    }
    (void)avicemu_iommu_remove_device(device->unit->iommu, device->device_id);
}

/* Under the VM's route_lock: the table as the guest has it now. */
static int
routes_set(struct avicemu_mock_vm *vm)
{
    struct avicemu_msi_route *routes =
        calloc((size_t)vm->nr_devices * vm->nr_cpus + 1, sizeof(*routes));
    uint32_t nr = 0;
    int rc;

    if (routes == NULL) {
        return -ENOMEM;
    }
    for (uint32_t d = 0; d < vm->nr_devices; d++) {
        struct am_device *device = vm->devices[d];

        (void)pthread_mutex_lock(&device->lock);
        for (uint32_t q = 0; q < device->nr_queues; q++) {
            const struct am_queue *queue = &device->queues[q];

            if (!queue->masked) {
                routes[nr++] = (struct avicemu_msi_route){
                    .gsi = gsi_of(device, q),
                    .address = queue->address,
                    .data = queue->data,
                };
            }
        }
        (void)pthread_mutex_unlock(&device->lock);
    }
    rc = avicemu_vm_set_routes(vm->vm, routes, nr);
    free(routes);
    return rc;
}

void
am_iommu_entry(struct am_device *device, uint32_t q)
{
    struct avicemu_mock_vm *vm = device->vm;
    int rc;

    if (device->unit == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&vm->route_lock);
    rc = routes_set(vm);
    (void)pthread_mutex_unlock(&vm->route_lock);
    if (rc != 0) {
        am_host_fail(vm->host, "device %s queue %u: its route: %d",
                     device->config->name, q, rc);
    }
}

int
am_iommu_raise(struct am_device *device, uint32_t q, struct avicemu_posted *ret)
{
    const struct am_queue *queue = &device->queues[q];
    struct avicemu_iommu_posted posted;
    int rc = avicemu_iommu_msi(device->unit->iommu, device->device_id,
                               queue->host_address, queue->host_data, &posted);

    if (rc != 0) {
        return rc;
    }
    device->ways[posted.way]++;
    device->bells += posted.nr_doorbells;
    device->logged += posted.nr_logged;
    device->overflows += posted.nr_overflows;
    *ret = posted.posted;
    return 0;
}
