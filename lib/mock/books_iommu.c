/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The books of the IOMMUs, and how long their look-ups took.
 *
 *   (9)  every MSI of a device went one way: posted, injected, to the host, or
 *        aborted; in these scenarios nothing is the host's or faulty
 *   (10) for each IOMMU: entries that devices logged = entries drained
 */

#include <string.h>
#include <time.h>

#include "books.h"
#include "iommu.h"

uint64_t
am_wall_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
device_add(struct avicemu_mock_iommu_report *r, const struct am_device *device)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < AE_NR_WAYS; i++) {
        sum += device->ways[i];
    }
    r->posted += device->ways[AVICEMU_WAY_POSTED];
    r->injected += device->ways[AVICEMU_WAY_INJECTED];
    r->to_host += device->ways[AVICEMU_WAY_HOST];
    r->aborted += device->ways[AVICEMU_WAY_ABORTED];
    r->doorbells += device->bells;
    r->overflows += device->overflows;
    if (sum != device->msis || device->ways[AVICEMU_WAY_HOST] != 0 ||
        device->ways[AVICEMU_WAY_ABORTED] != 0) {
        am_host_fail(device->vm->host,
                     "device %s: of %llu MSIs %llu went a way; %llu to the "
                     "host, %llu aborted",
                     device->config->name, (unsigned long long)device->msis,
                     (unsigned long long)sum,
                     (unsigned long long)device->ways[AVICEMU_WAY_HOST],
                     (unsigned long long)device->ways[AVICEMU_WAY_ABORTED]);
    }
}

/* Entries that the devices of an IOMMU have logged. */
static uint64_t
logged_at(const struct am_iommu_unit *unit)
{
    const struct avicemu_mock_host *host = unit->host;
    uint64_t logged = 0;

    for (uint32_t d = 0; d < host->nr_devices; d++) {
        if (host->devices[d]->unit == unit) {
            logged += host->devices[d]->logged;
        }
    }
    return logged;
}

static void
unit_add(struct avicemu_mock_iommu_report *r, struct am_iommu_unit *unit)
{
    struct avicemu_iommu_stats stats = { .size = sizeof(stats) };
    uint64_t logged = logged_at(unit);

    (void)avicemu_iommu_stats(unit->iommu, &stats);
    r->logged += logged;
    r->interrupts += atomic_load(&unit->interrupts);
    r->drained += stats.entries;
    r->unknown += stats.unknown;
    r->wakes += stats.wakes;
    r->routes += stats.routes;
    r->commands += stats.commands;
    r->overlaps += unit->overlaps;
    if (stats.entries != logged) {
        am_host_fail(unit->host,
                     "IOMMU %u: %llu entries in the GA log, %llu drained",
                     unit->index, (unsigned long long)logged,
                     (unsigned long long)stats.entries);
    }
}

/* Ticks to ns, by the whole run; what the timer itself takes comes off. */
static double
ns_of(const struct avicemu_mock_host *host, double ticks, uint64_t overhead)
{
    uint64_t ran_ticks = am_ticks() - host->ticks_began;
    uint64_t ran_ns = am_wall_ns() - host->wall_began_ns;

    ticks = ticks > (double)overhead ? ticks - (double)overhead : 0;
    return ticks * (double)ran_ns / (double)ran_ticks;
}

static void
lookups_fill(struct avicemu_mock_iommu_report *r,
             const struct avicemu_mock_host *host)
{
    struct am_histogram all;
    uint64_t overhead = am_ticks_overhead();

    memset(&all, 0, sizeof(all));
    for (uint32_t i = 0; i < host->nr_units; i++) {
        am_histogram_merge(&all, &host->units[i]->lookups);
    }
    r->lookups = all.nr;
    r->mean = ns_of(host, am_histogram_mean(&all), overhead);
    r->p50 = ns_of(host, am_histogram_quantile(&all, 0.5), overhead);
    r->p99 = ns_of(host, am_histogram_quantile(&all, 0.99), overhead);
}

void
am_books_iommu(struct avicemu_mock_iommu_report *r,
               struct avicemu_mock_host *host)
{
    if (host->nr_units == 0) {
        return;
    }
    r->nr_iommus = host->nr_units;
    for (uint32_t d = 0; d < host->nr_devices; d++) {
        device_add(r, host->devices[d]);
    }
    for (uint32_t i = 0; i < host->nr_units; i++) {
        unit_add(r, host->units[i]);
    }
    lookups_fill(r, host);
}
