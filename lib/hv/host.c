/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host: what several VMs share. In this version that is the allocator, the
 * log and the memory map.
 */

#include "hv/host.h"

#include <errno.h>

int
ae_host_create(const struct avicemu_host_config *config,
               struct avicemu_host **ret)
{
    const struct avicemu_allocator *a = &config->allocator;
    struct ae_log log = {
        .fn = config->log,
        .opaque = config->opaque,
        .level = config->log_level,
    };

    if ((a->alloc == NULL) != (a->free == NULL)) {
        AE_LOG(&log, AVICEMU_LOG_ERROR,
               "host config: allocator: set both alloc and free, or neither");
        return -EINVAL;
    }
    if (a->alloc == NULL) {
        a = &ae_default_allocator;
    }
    struct avicemu_host *host = ae_alloc(a, AE_CACHE_LINE, sizeof(*host));

    if (host == NULL) {
        return -ENOMEM;
    }
    host->allocator = *a;
    host->log = log;
    ae_mem_init(&host->mem, &host->allocator);
    *ret = host;
    return 0;
}

int
ae_host_destroy(struct avicemu_host *host)
{
    struct avicemu_allocator a = host->allocator;

    /* ORD none: who creates a VM while the host goes has a bug of his own. */
    if (ae_load_relaxed_u32(&host->nr_vms) != 0 || !ae_mem_empty(&host->mem)) {
        return -EBUSY;
    }
    ae_mem_fini(&host->mem);
    ae_free(&a, host, sizeof(*host));
    return 0;
}
