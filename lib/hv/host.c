/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host: what several VMs share: the allocator, the log, the memory map, the
 * doorbells of its physical CPUs, GA tags.
 */

#include "hv/host.h"

#include <errno.h>

static int
config_wrong(const struct ae_log *log, const char *what, uint64_t value)
{
    return ae_log_setting(log, "host", what, value);
}

static int
avic_check(const struct avicemu_host_config *config, const struct ae_log *log)
{
    const uint32_t all = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC |
                         AVICEMU_HOST_X2AVIC_EXT | AVICEMU_HOST_EXT_LVT |
                         AVICEMU_HOST_ERRATUM_1235;
    uint32_t avic = config->avic;

    if ((avic & ~all) != 0) {
        return config_wrong(log, "avic: AVICEMU_HOST_* only", avic);
    }
    if (avic != 0 && (avic & AVICEMU_HOST_AVIC) == 0) {
        return config_wrong(log, "avic: its features need AVICEMU_HOST_AVIC",
                            avic);
    }
    if ((avic & AVICEMU_HOST_X2AVIC_EXT) != 0 &&
        (avic & AVICEMU_HOST_X2AVIC) == 0) {
        return config_wrong(log, "avic: X2AVIC_EXT needs X2AVIC", avic);
    }
    if (config->maxphyaddr != 0 &&
        (config->maxphyaddr < 32 || config->maxphyaddr > 52)) {
        return config_wrong(log, "maxphyaddr: 32..52", config->maxphyaddr);
    }
    if ((unsigned)config->doorbells > AVICEMU_DOORBELL_WORD) {
        return config_wrong(log, "doorbells: enum avicemu_doorbell_mode",
                            (uint64_t)config->doorbells);
    }
    if ((unsigned)config->tag_layout > AVICEMU_TAG_24_8) {
        return config_wrong(log, "tag_layout: enum avicemu_tag_layout",
                            (uint64_t)config->tag_layout);
    }
    if (config->nr_pcpus > AVICEMU_PHYSICAL_HOST_ID + 1) {
        return config_wrong(log, "nr_pcpus: at most 4096", config->nr_pcpus);
    }
    return 0;
}

static int
config_check(const struct avicemu_host_config *config, const struct ae_log *log)
{
    if ((config->allocator.alloc == NULL) != (config->allocator.free == NULL)) {
        AE_LOG(log, AVICEMU_LOG_ERROR,
               "host config: allocator: set both alloc and free, or neither");
        return -EINVAL;
    }
    return avic_check(config, log);
}

static size_t
doorbell_bytes(const struct avicemu_host *host)
{
    return host->nr_pcpus * sizeof(struct avicemu_doorbell);
}

/* The lock, and with AVIC the table that maps GA tags. 0, -ENOMEM. */
static int
posting_init(struct avicemu_host *host,
             const struct avicemu_host_config *config)
{
    static const enum ae_tag_layout layouts[] = {
        [AVICEMU_TAG_20_12] = AE_TAG_20_12,
        [AVICEMU_TAG_23_9] = AE_TAG_23_9,
        [AVICEMU_TAG_24_8] = AE_TAG_24_8,
    };

    ae_lock_init(&host->posting_lock);
    host->ops = config->ops;
    host->opaque = config->opaque;
    if (host->avic == 0) {
        return 0;
    }
    const enum ae_tag_layout layout = layouts[config->tag_layout];
    int r = ae_vmids_init(&host->vm_ids, &host->allocator, layout);

    r = r != 0 ? r : ae_vmtable_init(&host->vmtable, &host->allocator, layout);
    if (r != 0) {
        ae_vmids_fini(&host->vm_ids);
    }
    return r;
}

int
ae_host_create(const struct avicemu_host_config *config,
               struct avicemu_host **ret)
{
    const struct avicemu_allocator *a = config->allocator.alloc != NULL
                                            ? &config->allocator
                                            : &ae_default_allocator;
    struct ae_log log = {
        .fn = config->log,
        .opaque = config->opaque,
        .level = config->log_level,
    };
    int r = config_check(config, &log);

    if (r != 0) {
        return r;
    }
    struct avicemu_host *host = ae_alloc(a, AE_CACHE_LINE, sizeof(*host));

    if (host == NULL) {
        return -ENOMEM;
    }
    host->allocator = *a;
    host->log = log;
    host->avic = config->avic;
    host->maxphyaddr = config->maxphyaddr != 0 ? config->maxphyaddr : 48;
    host->doorbell_mode = config->doorbells;
    host->nr_pcpus = config->nr_pcpus;
    if (host->nr_pcpus != 0) {
        host->doorbells = ae_alloc(a, AE_CACHE_LINE, doorbell_bytes(host));
    }
    if ((host->nr_pcpus != 0 && host->doorbells == NULL) ||
        posting_init(host, config) != 0) {
        ae_free(a, host->doorbells, doorbell_bytes(host));
        ae_free(a, host, sizeof(*host));
        return -ENOMEM;
    }
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
    ae_vmtable_fini(&host->vmtable);
    ae_vmids_fini(&host->vm_ids);
    ae_lock_fini(&host->posting_lock);
    ae_free(&a, host->doorbells, doorbell_bytes(host));
    ae_free(&a, host, sizeof(*host));
    return 0;
}
