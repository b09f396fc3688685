/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test of a driver's own GA-log loop, on the hardware alone. The interrupt is
 * made in steps, and the loop runs between the log entry and the tail, where it
 * must see nothing; then the log overflows, and must log again afterwards.
 *
 * Run: build/examples/ga_log
 * Prints: entry written, tail not moved: drained 0
 *         tail moved: drained 1
 *         GUEST_NR: tag 00003007h, device 0001h
 *         after 600 interrupts: EventLogRun GALOverflow GAInt
 *         drained 511, restarted
 *         one more: drained 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <avicemu/hw/iommu.h>

#define BASE  0x100000ull
#define PAGE  4096u
#define TAG   0x3007u
#define SLOTS 512u

/* System physical memory, a page each. */
struct ram {
    uint64_t dtes[512], irtes[512], ga_log[SLOTS], events[512], vapic[512];
};

/* ---- the driver under test ----------------------------------------------- */

struct driver {
    struct avicemu_hw_iommu *iommu;
    struct ram *ram;
    uint64_t control, last;
};

static uint64_t
rd(const struct driver *d, uint32_t offset)
{
    uint64_t value = 0;

    (void)avicemu_hw_iommu_read(d->iommu, offset, 8, &value);
    return value;
}

static void
wr(const struct driver *d, uint32_t offset, uint64_t value)
{
    (void)avicemu_hw_iommu_write(d->iommu, offset, 8, value, NULL);
}

static unsigned
drain(struct driver *d)
{
    uint64_t tail = rd(d, AVICEMU_IOMMU_GA_TAIL);
    uint64_t head = rd(d, AVICEMU_IOMMU_GA_HEAD);
    unsigned n = 0;

    for (; head != tail; n++) {
        d->last = d->ram->ga_log[head / 8]; /* and wake whose tag it is */
        head = (head + 8) % (SLOTS * 8);
        wr(d, AVICEMU_IOMMU_GA_HEAD, head);
    }
    return n;
}

/* The interrupt's handler. 1: it had to restart the log. */
static int
handle(struct driver *d, unsigned *drained)
{
    uint64_t status = rd(d, AVICEMU_IOMMU_STATUS);

    wr(d, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
    *drained = drain(d);
    if ((status & AVICEMU_STATUS_GA_OVERFLOW) == 0) {
        return 0;
    }
    while ((rd(d, AVICEMU_IOMMU_STATUS) & AVICEMU_STATUS_GA_LOG_RUN) != 0) {
    }
    wr(d, AVICEMU_IOMMU_CONTROL, d->control & ~AVICEMU_CONTROL_GA_LOG_EN);
    wr(d, AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_OVERFLOW);
    wr(d, AVICEMU_IOMMU_CONTROL, d->control);
    return 1; /* now scan every vCPU whose GALogIntr is 1 */
}

static void
start(struct driver *d)
{
    d->ram->dtes[4] = 1; /* device 1: V; IV, 2^1 entries, remap */
    d->ram->dtes[6] = (BASE + PAGE) | 2ull << 60 | 1 << 1 | 1;
    d->ram->irtes[0] = (uint64_t)TAG << 32 | 0x85; /* guest mode, GALogIntr */
    d->ram->irtes[1] = (BASE + 4 * PAGE) | 0x41;
    d->control = AVICEMU_CONTROL_IOMMU_EN | AVICEMU_CONTROL_GA_EN |
                 AVICEMU_CONTROL_GAM_EN | AVICEMU_CONTROL_EVENT_LOG_EN |
                 AVICEMU_CONTROL_GA_LOG_EN;
    wr(d, AVICEMU_IOMMU_DEVICE_TABLE, BASE);
    wr(d, AVICEMU_IOMMU_GA_BASE, (BASE + 2 * PAGE) | 8ull << 56);
    wr(d, AVICEMU_IOMMU_EVENT_BASE, (BASE + 3 * PAGE) | 8ull << 56);
    wr(d, AVICEMU_IOMMU_CONTROL, d->control);
}

int
main(void)
{
    struct ram *ram = aligned_alloc(PAGE, sizeof(*ram));
    struct avicemu_hw_iommu_config config = { .size = sizeof(config) };
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };
    struct driver d = { .ram = ram };
    unsigned n = 0;
    char line[96];

    if (ram == NULL || avicemu_hw_memory_create(&config.memory) != 0 ||
        avicemu_hw_memory_add(config.memory, BASE, sizeof(*ram), ram) != 0 ||
        avicemu_hw_iommu_create(&config, &d.iommu) != 0) {
        return 1;
    }
    memset(ram, 0, sizeof(*ram));
    start(&d);
    (void)avicemu_hw_iommu_msi_begin(d.iommu, 1, 0xfee00000, 0, &msi);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_LOGGED) {
    }
    printf("entry written, tail not moved: drained %u\n", drain(&d));
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_FINISHED) {
    }
    printf("tail moved: drained %u\n", drain(&d));
    (void)avicemu_describe_ga_entry(d.last, line, sizeof(line));
    printf("%s\n", line);

    for (unsigned i = 0; i < 600; i++) {
        (void)avicemu_hw_iommu_msi(d.iommu, 1, 0xfee00000, 0, &msi);
    }
    (void)avicemu_describe_iommu_status(rd(&d, AVICEMU_IOMMU_STATUS), line,
                                        sizeof(line));
    printf("after 600 interrupts: %s\n", line);
    printf("drained 511, %s\n", handle(&d, &n) && n == 511 ? "restarted" : "?");
    (void)avicemu_hw_iommu_msi(d.iommu, 1, 0xfee00000, 0, &msi);
    printf("one more: drained %u\n", drain(&d));

    avicemu_hw_iommu_destroy(d.iommu);
    avicemu_hw_memory_destroy(config.memory);
    free(ram);
    return 0;
}
