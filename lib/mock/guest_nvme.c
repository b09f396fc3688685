/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A driver for the devices of device.h: each CPU keeps its queue of every
 * device full, and halts when all are.
 *
 * A command is slot + 1 and a serial number; a slot is in flight from submit
 * to completion, so a completion that comes twice, or that was never asked
 * for, is seen at once, and one that never comes is what the drain waits for.
 *
 * The handler empties the queue, then writes EOI: a completion that comes
 * after its look sends another MSI, whose IRR bit was cleared when this one
 * was taken.
 */

#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"
#include "device.h"

#define VECTOR_DISK 0x50u /* + index of the device */
#define MAX_DISKS   64u
#define MSI_ADDRESS 0xfee00000u

/* Queue of one CPU at one device; that CPU's. */
struct disk {
    uint32_t *serials; /* [depth]: of the command in flight, 0: free */
    uint32_t in_flight;
    uint32_t next_slot;
    uint32_t next_serial;
    uint64_t submitted, completed;
};

struct nvme {
    struct avicemu_mock_vm *vm;
    struct disk *disks; /* [cpu][device] */
    uint32_t nr_disks;
};

static struct disk *
disk_of(const struct nvme *nvme, uint32_t cpu, uint32_t device)
{
    return &nvme->disks[(size_t)cpu * nvme->nr_disks + device];
}

/* ---- submitting --------------------------------------------------------- */

static void
submit_one(struct avicemu_mock_cpu *cpu, struct disk *disk,
           struct am_device *device)
{
    uint32_t depth = device->config->depth;
    uint64_t word;

    while (disk->serials[disk->next_slot % depth] != 0) {
        disk->next_slot++;
    }
    disk->next_slot %= depth;
    disk->next_serial += disk->next_serial == UINT32_MAX ? 2 : 1;
    disk->serials[disk->next_slot] = disk->next_serial;
    word = ((uint64_t)disk->next_serial << 16) | (disk->next_slot + 1);
    if (!am_ring_put_spsc(device->queues[cpu->index].sq, word)) {
        am_host_fail(cpu->vm->host, "%s vCPU %u: %s: submission queue is full",
                     cpu->vm->config->name, cpu->index, device->config->name);
    }
    disk->in_flight++;
    disk->submitted++;
    avicemu_mock_expect(cpu, 1);
}

/* Submit up to budget commands, ring once. Returns how many. */
static unsigned
submit(struct avicemu_mock_cpu *cpu, struct nvme *nvme, uint32_t d,
       unsigned budget)
{
    struct am_device *device = nvme->vm->devices[d];
    struct disk *disk = disk_of(nvme, cpu->index, d);
    uint32_t tail;
    unsigned n = 0;

    while (n < budget && disk->in_flight < device->config->depth) {
        submit_one(cpu, disk, device);
        n++;
    }
    if (n > 0) {
        tail = (uint32_t)disk->submitted;
        (void)avicemu_mock_mmio_write(
            cpu, AE_DEVICE_BAR(d) + AE_DEVICE_DOORBELL + cpu->index * 4,
            sizeof(tail), &tail);
    }
    return n;
}

static enum avicemu_mock_next
nvme_step(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct nvme *nvme = state;
    unsigned n = 0;

    if (avicemu_mock_draining(cpu)) {
        return AVICEMU_MOCK_NEXT_HALT;
    }
    for (uint32_t d = 0; d < nvme->nr_disks && n < budget; d++) {
        n += submit(cpu, nvme, d, budget - n);
    }
    return n == 0 ? AVICEMU_MOCK_NEXT_HALT : AVICEMU_MOCK_NEXT_STEP;
}

/* ---- completing --------------------------------------------------------- */

static void
complete(struct avicemu_mock_cpu *cpu, struct nvme *nvme, uint32_t d,
         uint64_t word)
{
    uint32_t slot = (uint32_t)(word & 0xffffu) - 1;
    struct disk *disk = disk_of(nvme, cpu->index, d);
    const struct avicemu_mock_device_config *config =
        nvme->vm->devices[d]->config;

    if (slot >= config->depth || disk->serials[slot] == 0 ||
        disk->serials[slot] != (uint32_t)(word >> 16)) {
        am_host_fail(cpu->vm->host,
                     "%s vCPU %u: %s: completion %llxh of no command in "
                     "flight",
                     cpu->vm->config->name, cpu->index, config->name,
                     (unsigned long long)word);
        return;
    }
    disk->serials[slot] = 0;
    disk->in_flight--;
    disk->completed++;
    avicemu_mock_expect(cpu, -1);
}

static enum avicemu_mock_next
disk_handler(struct avicemu_mock_cpu *cpu, void *state, unsigned budget)
{
    struct nvme *nvme = state;
    uint32_t d = avicemu_mock_vector(cpu) - VECTOR_DISK;
    struct am_ring *cq = nvme->vm->devices[d]->queues[cpu->index].cq;
    unsigned n = 0;

    while (n < budget) {
        uint64_t word = am_ring_get_spsc(cq);

        if (word == 0) {
            break;
        }
        complete(cpu, nvme, d, word);
        n++;
    }
    avicemu_mock_did(cpu, n);
    if (n == budget) {
        return AVICEMU_MOCK_NEXT_STEP;
    }
    avicemu_mock_eoi(cpu);
    return AVICEMU_MOCK_NEXT_IRET;
}

/* ---- the program -------------------------------------------------------- */

static void
nvme_destroy(void *state)
{
    struct nvme *nvme = state;
    uint32_t n = nvme->nr_disks * nvme->vm->nr_cpus;

    for (uint32_t i = 0; nvme->disks != NULL && i < n; i++) {
        free(nvme->disks[i].serials);
    }
    free(nvme->disks);
    free(nvme);
}

/* The devices come after the VM: the tables are made when the BSP starts. */
static void *
nvme_create(struct avicemu_mock_vm *vm)
{
    struct nvme *nvme = calloc(1, sizeof(*nvme));

    if (nvme != NULL) {
        nvme->vm = vm;
    }
    return nvme;
}

static bool
disks_create(struct nvme *nvme)
{
    struct avicemu_mock_vm *vm = nvme->vm;

    nvme->nr_disks = vm->nr_devices < MAX_DISKS ? vm->nr_devices : MAX_DISKS;
    nvme->disks =
        calloc((size_t)vm->nr_cpus * nvme->nr_disks, sizeof(*nvme->disks));
    if (nvme->disks == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < vm->nr_cpus * nvme->nr_disks; i++) {
        uint32_t depth = vm->devices[i % nvme->nr_disks]->config->depth;

        nvme->disks[i].serials = calloc(depth, sizeof(uint32_t));
        if (nvme->disks[i].serials == NULL) {
            return false;
        }
    }
    return true;
}

static void
msix_set(struct avicemu_mock_cpu *cpu, uint32_t d)
{
    uint64_t entry = AE_DEVICE_BAR(d) + cpu->index * 16;
    uint32_t words[4] = { MSI_ADDRESS | (cpu->index << 12), 0, VECTOR_DISK + d,
                          0 };

    for (uint32_t i = 0; i < 4; i++) {
        (void)avicemu_mock_mmio_write(cpu, entry + i * 4, sizeof(words[i]),
                                      &words[i]);
    }
}

static void
nvme_start(struct avicemu_mock_cpu *cpu, void *state)
{
    struct nvme *nvme = state;

    /* The BSP runs alone until it has sent the first SIPI. */
    if (cpu->index == 0 && nvme->disks == NULL && !disks_create(nvme)) {
        am_host_fail(cpu->vm->host, "%s: no memory", cpu->vm->config->name);
        nvme->nr_disks = 0;
    }
    for (uint32_t d = 0; d < nvme->nr_disks; d++) {
        avicemu_mock_idt(cpu, (uint8_t)(VECTOR_DISK + d), disk_handler, state);
        msix_set(cpu, d);
    }
}

static unsigned
nvme_check(struct avicemu_mock_vm *vm, void *state, char *buf, size_t len)
{
    const struct nvme *nvme = state;
    unsigned faults = 0;

    for (uint32_t i = 0; i < vm->nr_cpus * nvme->nr_disks; i++) {
        const struct disk *disk = &nvme->disks[i];
        const struct am_device *device = vm->devices[i % nvme->nr_disks];
        uint32_t cpu = i / nvme->nr_disks;
        struct am_queue *queue = &device->queues[cpu];
        uint32_t unseen = am_ring_count(queue->cq);

        if (disk->submitted == disk->completed + disk->in_flight &&
            unseen <= disk->in_flight) {
            continue;
        }
        if (faults++ == 0) {
            (void)snprintf(
                buf, len,
                "vCPU %u: %s: %llu commands submitted, %llu "
                "completed, %u in flight, %u in its queue",
                cpu, device->config->name, (unsigned long long)disk->submitted,
                (unsigned long long)disk->completed, disk->in_flight, unseen);
        }
    }
    return faults;
}

const struct avicemu_mock_program am_program_nvme = {
    .name = "nvme",
    .create = nvme_create,
    .destroy = nvme_destroy,
    .start = nvme_start,
    .step = nvme_step,
    .check = nvme_check,
};
