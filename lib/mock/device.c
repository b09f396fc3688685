/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NVMe-like device; see device.h.
 *
 * A poll has three parts: fetch all new commands into the heap with the time
 * at which each is done; move those that are due to their completion queues;
 * send one MSI per queue that got some. The MSI-X entry is copied under the
 * lock, the message goes out with nothing held.
 *
 * busy counts from the doorbell's ring to the MSI, so that a drain does not
 * overlook a command that is between two queues.
 */

#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "iommu.h"
#include "random.h"
#include "virtual.h"

#define NS_PER_S 1000000000u

/* ---- books -------------------------------------------------------------- */

/* Whose book a message goes to: the CPU of a physical destination, else the
 * row behind the last CPU. */
static struct am_posts *
posts_of(struct am_device *device, uint64_t address, uint32_t data)
{
    struct avicemu_mock_vm *vm = device->vm;
    struct avicemu_mock_cpu *cpu = NULL;
    uint32_t row = vm->nr_cpus;

    if ((address & 4u) == 0) { /* not logical */
        cpu = am_vm_cpu_of(vm, (uint32_t)(address >> 12) & 0xffu);
    }
    if (cpu != NULL) {
        row = cpu->index;
    }
    return &device->posts[(size_t)row * 256 + (data & 0xffu)];
}

static void
msi_send(struct am_device *device, uint32_t q, uint64_t address, uint32_t data)
{
    struct am_posts *posts = posts_of(device, address, data);
    struct avicemu_posted posted = { .nr_new = 1 };
    int rc = 0;

    device->msis++;
    if (!am_host_plant(device->vm->host, AVICEMU_MOCK_PLANT_POST)) {
        rc = device->unit != NULL
                 ? am_iommu_raise(device, q, &posted)
                 : avicemu_msi(device->vm->vm, address, data, &posted);
    }
    if (rc != 0) {
        am_host_fail(device->vm->host, "device %s: its MSI returned %d",
                     device->config->name, rc);
        return;
    }
    posts->new += posted.nr_new;
    posts->merged += posted.nr_merged;
    posts->dropped += posted.nr_dropped;
    device->why |= posted.why;
}

/* ---- service ------------------------------------------------------------ */

static uint64_t
service_time(struct am_device *device)
{
    uint64_t jitter = device->config->jitter_ns;

    return device->config->service_ns +
           (jitter == 0 ? 0 : am_random_next(&device->random) % (jitter + 1));
}

/* Under lock. */
static void
queue_fetch(struct am_device *device, uint32_t q, uint64_t now_ns)
{
    uint64_t word;

    while ((word = am_ring_get_spsc(device->queues[q].sq)) != 0) {
        struct am_heap_item item = { .when_ns = now_ns + service_time(device),
                                     .index = q,
                                     .word = word };

        device->fetched++;
        if (!am_heap_put(&device->heap, item)) {
            am_host_fail(device->vm->host, "device %s: no memory",
                         device->config->name);
        }
    }
}

/* Under lock. */
static void
complete_due(struct am_device *device, uint64_t now_ns)
{
    struct am_heap_item item;

    while (am_heap_when(&device->heap) <= now_ns) {
        struct am_queue *queue;

        (void)am_heap_get(&device->heap, &item);
        queue = &device->queues[item.index];
        if (!am_ring_put_spsc(queue->cq, item.word)) {
            am_host_fail(device->vm->host,
                         "device %s queue %u: completion queue is full",
                         device->config->name, item.index);
        }
        queue->completed = true;
        device->completed++;
        am_host_trace(device->vm->host, device->who, AE_TRACE_DEVICE,
                      item.word);
    }
}

static void
raise_completed(struct am_device *device)
{
    for (uint32_t q = 0; q < device->nr_queues; q++) {
        struct am_queue *queue = &device->queues[q];
        uint64_t address;
        uint32_t data;
        bool send;

        (void)pthread_mutex_lock(&device->lock);
        send = queue->completed && !queue->masked;
        queue->waiting |= queue->completed && queue->masked;
        queue->completed = false;
        address = queue->address;
        data = queue->data;
        (void)pthread_mutex_unlock(&device->lock);
        if (send) {
            msi_send(device, q, address, data);
        }
    }
}

uint64_t
am_device_poll(struct am_device *device, uint64_t now_ns)
{
    uint64_t next;

    (void)pthread_mutex_lock(&device->lock);
    device->rung = false;
    for (uint32_t q = 0; q < device->nr_queues; q++) {
        queue_fetch(device, q, now_ns);
    }
    complete_due(device, now_ns);
    (void)pthread_mutex_unlock(&device->lock);
    raise_completed(device);
    (void)pthread_mutex_lock(&device->lock);
    next = am_heap_when(&device->heap);
    atomic_store(&device->busy, device->rung || next != UINT64_MAX);
    (void)pthread_mutex_unlock(&device->lock);
    return next;
}

bool
am_device_idle(const struct am_device *device)
{
    return atomic_load(&device->busy) == 0;
}

/* ---- registers ---------------------------------------------------------- */

static void
doorbell(struct am_device *device)
{
    struct am_virtual *sim = device->vm->host->sim;

    (void)pthread_mutex_lock(&device->lock);
    device->rung = true;
    atomic_store(&device->busy, 1);
    (void)pthread_cond_signal(&device->cond);
    (void)pthread_mutex_unlock(&device->lock);
    if (sim != NULL) {
        am_virtual_device(sim, device, am_host_now(device->vm->host));
    }
}

/* Under lock. True: unmasked with a message waiting. */
static bool
entry_write(struct am_queue *queue, uint32_t field, uint32_t value)
{
    bool send = false;

    switch (field) {
    case 0:
        queue->address = (queue->address & ~(uint64_t)UINT32_MAX) | value;
        break;
    case 4:
        queue->address =
            (queue->address & UINT32_MAX) | ((uint64_t)value << 32);
        break;
    case 8:
        queue->data = value;
        break;
    default:
        queue->masked = (value & 1u) != 0;
        send = queue->waiting && !queue->masked;
        queue->waiting = queue->waiting && queue->masked;
        break;
    }
    return send;
}

enum avicemu_access
am_device_write(struct am_device *device, uint64_t offset, uint32_t value)
{
    uint64_t q = offset < AE_DEVICE_DOORBELL
                     ? offset / 16
                     : (offset - AE_DEVICE_DOORBELL) / 4;

    if (q >= device->nr_queues || offset % 4 != 0) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (offset >= AE_DEVICE_DOORBELL) {
        doorbell(device);
        return AVICEMU_ACCESS_DONE;
    }
    (void)pthread_mutex_lock(&device->lock);
    /* What waited goes out with the next poll: its books are the poller's. */
    device->queues[q].completed |=
        entry_write(&device->queues[q], (uint32_t)offset % 16, value);
    (void)pthread_mutex_unlock(&device->lock);
    if (offset % 16 == 12) {
        am_iommu_entry(device, (uint32_t)q);
        doorbell(device);
    }
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
am_device_read(struct am_device *device, uint64_t offset, uint32_t *ret)
{
    const struct am_queue *queue = &device->queues[offset / 16];

    if (offset / 16 >= device->nr_queues || offset % 4 != 0) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    (void)pthread_mutex_lock(&device->lock);
    switch (offset % 16) {
    case 0:
        *ret = (uint32_t)queue->address;
        break;
    case 4:
        *ret = (uint32_t)(queue->address >> 32);
        break;
    case 8:
        *ret = queue->data;
        break;
    default:
        *ret = queue->masked;
        break;
    }
    (void)pthread_mutex_unlock(&device->lock);
    return AVICEMU_ACCESS_DONE;
}

/* ---- its thread --------------------------------------------------------- */

/* Under lock. */
static void
device_sleep(struct am_device *device, uint64_t next_ns)
{
    uint64_t at = device->vm->host->start_ns + next_ns;
    struct timespec until = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) };

    if (next_ns == UINT64_MAX) {
        (void)pthread_cond_wait(&device->cond, &device->lock);
    } else {
        (void)pthread_cond_timedwait(&device->cond, &device->lock, &until);
    }
}

static void *
device_thread(void *arg)
{
    struct am_device *device = arg;
    bool ending = false;

    avicemu_thread_attach();
    while (!ending) {
        uint64_t next = am_device_poll(device, am_host_now(device->vm->host));

        (void)pthread_mutex_lock(&device->lock);
        while (!device->rung && !device->ending &&
               am_host_now(device->vm->host) < next) {
            device_sleep(device, next);
        }
        ending = device->ending;
        (void)pthread_mutex_unlock(&device->lock);
    }
    return NULL;
}

int
am_device_start(struct am_device *device)
{
    return pthread_create(&device->thread, NULL, device_thread, device) == 0
               ? 0
               : -EAGAIN;
}

void
am_device_stop(struct am_device *device)
{
    (void)pthread_mutex_lock(&device->lock);
    device->ending = true;
    (void)pthread_cond_signal(&device->cond);
    (void)pthread_mutex_unlock(&device->lock);
    (void)pthread_join(device->thread, NULL);
}

/* ---- making one --------------------------------------------------------- */

static void
sync_init(struct am_device *device)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&device->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static bool
queues_create(struct am_device *device)
{
    uint32_t nr_rows = device->vm->nr_cpus + 1;

    device->nr_queues = device->vm->nr_cpus;
    device->queues = calloc(device->nr_queues, sizeof(*device->queues));
    device->posts = calloc((size_t)nr_rows * 256, sizeof(*device->posts));
    if (device->queues == NULL || device->posts == NULL) {
        return false;
    }
    for (uint32_t q = 0; q < device->nr_queues; q++) {
        struct am_queue *queue = &device->queues[q];

        queue->sq = am_ring_create_spsc(device->config->depth);
        queue->cq = am_ring_create_spsc(device->config->depth);
        queue->masked = true;
        if (queue->sq == NULL || queue->cq == NULL) {
            return false;
        }
    }
    return true;
}

int
am_device_create(struct avicemu_mock_vm *vm,
                 const struct avicemu_mock_device_config *config,
                 struct am_device **ret)
{
    struct am_device *device = calloc(1, sizeof(*device));
    int rc;

    if (device == NULL) {
        return -ENOMEM;
    }
    device->config = config;
    device->vm = vm;
    device->index = vm->nr_devices;
    device->who = UINT32_MAX / 2 + vm->first_who + vm->nr_devices;
    device->random = am_random_start(vm->host->scenario.seed, device->who);
    device->sim_due = UINT64_MAX;
    sync_init(device);
    if (!queues_create(device)) {
        am_device_destroy(device);
        return -ENOMEM;
    }
    rc = am_iommu_attach(device);
    if (rc != 0) {
        am_device_destroy(device);
        return rc;
    }
    vm->devices[vm->nr_devices++] = device;
    *ret = device;
    return 0;
}

void
am_device_destroy(struct am_device *device)
{
    if (device == NULL) {
        return;
    }
    am_iommu_detach(device);
    for (uint32_t q = 0; device->queues != NULL && q < device->nr_queues; q++) {
        am_ring_destroy(device->queues[q].sq);
        am_ring_destroy(device->queues[q].cq);
    }
    free(device->queues);
    free(device->posts);
    am_heap_fini(&device->heap);
    (void)pthread_cond_destroy(&device->cond);
    (void)pthread_mutex_destroy(&device->lock);
    free(device);
}
