/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The driver of an IOMMU: its memory, its bring-up, its devices. [KVM AMD IOMMU
 * bring-up]
 *
 *   region   device table     32 bytes each, whole pages
 *            command buffer   512 commands
 *            event log        512 entries
 *            GA log           512 entries or more
 *            words            COMPLETION_WAIT's, and the copy of the tail
 *            tables           one of 2^n entries, 16 bytes each, per device
 *
 * One region of the host's memory map, at its own address, for the map is
 * searched on every walk. Bring-up in this order: everything off; device table
 * and command buffer; GAEn and XTEn; IommuEn; event log; GA log; GAMEn.
 *
 * A DTE without a device has IntCtl 0: what it sends is aborted, and logged.
 * Requests of ids beyond the table likewise.
 *
 *   route    off the old vCPU's list, onto the new one's; entry; invalidate;
 *            wait for interrupts under way and for readers; the old vCPU looks
 *            at its IRR (posting.c)
 *   remove   every entry to the host; DTE; invalidate both; wait; free
 *
 * All but get and set take the host's posting lock, and may wait.
 */

#include "hv/iommu.h"

#include <errno.h>
#include <string.h>

#include "base/rcu.h"
#include "hv/tables.h"

#define DTE_BYTES      32u
#define DTE_WORDS      4u
#define QUEUE_BYTES    8192u
#define QUEUE_LENGTH   9u /* 512 of 16 bytes */
#define MIN_TABLE      128u
#define MIN_GA_LOG     512u
#define MAX_GA_LOG     65536u
#define DEFAULT_IDS    256u
#define DEFAULT_CACHED 256u
#define INT_CTL_REMAP  2u
#define MSI_BASE       0xfee00000ull

/* ---- registers ---------------------------------------------------------- */

uint64_t
ae_iommu_get(const struct avicemu_iommu *iommu, uint32_t offset)
{
    return ae_iommu_mmio_read(&iommu->hw, offset, 8);
}

void
ae_iommu_set(struct avicemu_iommu *iommu, uint32_t offset, uint64_t value)
{
    uint32_t signals = 0;

    ae_rcu_enter();
    ae_iommu_mmio_write(&iommu->hw, offset, 8, value, &signals);
    ae_rcu_leave();
    ae_iommu_signal(iommu, signals);
}

/* ---- configuration ------------------------------------------------------ */

static int
config_wrong(const struct avicemu_host *host, const char *what, uint64_t value)
{
    return ae_log_setting(&host->log, "iommu", what, value);
}

/* Zeroes become what they stand for. */
static void
config_default(struct avicemu_iommu_config *c)
{
    c->features = c->features != 0 ? c->features : AVICEMU_IOMMU_DEFAULT;
    c->nr_device_ids = c->nr_device_ids != 0 ? c->nr_device_ids : DEFAULT_IDS;
    c->max_devices = c->max_devices != 0 ? c->max_devices : 64;
    c->irqs_per_device = c->irqs_per_device != 0 ? c->irqs_per_device : 64;
    c->ga_log_entries = c->ga_log_entries != 0 ? c->ga_log_entries : MIN_GA_LOG;
    c->nr_cached = c->nr_cached != 0 ? c->nr_cached : DEFAULT_CACHED;
}

static int
config_check(const struct avicemu_host *host,
             const struct avicemu_iommu_config *c)
{
    const uint32_t need = AVICEMU_IOMMU_GA | AVICEMU_IOMMU_GAM;
    const uint32_t all = AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE;
    uint32_t max_irqs = (c->features & AVICEMU_IOMMU_2K) != 0 ? 2048 : 512;

    if ((c->features & need) != need || (c->features & ~all) != 0) {
        return config_wrong(host,
                            "features: GA and GAM, of XT IA 2K MSI_MMIO CACHE",
                            c->features);
    }
    if (c->nr_device_ids > 65536) {
        return config_wrong(host, "nr_device_ids: 1..65536", c->nr_device_ids);
    }
    if (c->max_devices > 65536) {
        return config_wrong(host, "max_devices: 1..65536", c->max_devices);
    }
    if (c->irqs_per_device > max_irqs) {
        return config_wrong(host, "irqs_per_device: 1..512, with 2K to 2048",
                            c->irqs_per_device);
    }
    if (c->ga_log_entries < MIN_GA_LOG || c->ga_log_entries > MAX_GA_LOG ||
        !ae_single_bit32(c->ga_log_entries)) {
        return config_wrong(host, "ga_log_entries: a power of two, 512..65536",
                            c->ga_log_entries);
    }
    if (c->nr_cached > 65536 || !ae_single_bit32(c->nr_cached)) {
        return config_wrong(host, "nr_cached: a power of two to 65536",
                            c->nr_cached);
    }
    return 0;
}

/* ---- memory ------------------------------------------------------------- */

static uint64_t
pages(uint64_t bytes)
{
    return (bytes + AE_PAGE - 1) & ~(uint64_t)(AE_PAGE - 1);
}

static uint64_t
table_bytes(uint32_t irqs)
{
    uint64_t bytes = MIN_TABLE;

    while (bytes < (uint64_t)irqs * 16) {
        bytes *= 2;
    }
    return bytes;
}

static size_t
marks_bytes(void)
{
    return (AE_GALOG_MAX_SLOTS + AE_EVENT_MAX_SLOTS) * sizeof(uint32_t);
}

static size_t
lines_bytes(const struct avicemu_iommu *iommu)
{
    return 2 * (size_t)iommu->nr_lines * sizeof(struct ae_intcache_line);
}

static void
iommu_free(struct avicemu_iommu *iommu)
{
    struct avicemu_host *host = iommu->host;
    const struct avicemu_allocator *a = &host->allocator;

    ae_drain_destroy(&host->vmtable, iommu->drain);
    ae_free(a, iommu->memory, iommu->bytes);
    ae_free(a, (void *)iommu->marks, marks_bytes());
    ae_free(a, iommu->lines, lines_bytes(iommu));
    ae_free(a, (void *)iommu->devices,
            iommu->nr_device_ids * sizeof(iommu->devices[0]));
    ae_free(a, iommu->free_tables,
            iommu->max_devices * sizeof(iommu->free_tables[0]));
    ae_lock_fini(&iommu->queue_lock);
    ae_lock_fini(&iommu->control_lock);
    ae_free(a, iommu, sizeof(*iommu));
}

/* All of it but the region in the map. false: no memory. */
static bool
memory_get(struct avicemu_iommu *iommu, uint64_t ga_bytes)
{
    struct avicemu_host *host = iommu->host;
    const struct avicemu_allocator *a = &host->allocator;
    uint64_t dtes = pages((uint64_t)iommu->nr_device_ids * DTE_BYTES);
    uint64_t tables = pages(iommu->max_devices * iommu->table_bytes);

    iommu->bytes = dtes + QUEUE_BYTES * 2 + ga_bytes + AE_PAGE + tables;
    iommu->memory = ae_alloc(a, AE_PAGE, iommu->bytes);
    iommu->marks = ae_alloc(a, AE_CACHE_LINE, marks_bytes());
    iommu->devices = ae_alloc(a, AE_CACHE_LINE,
                              iommu->nr_device_ids * sizeof(iommu->devices[0]));
    iommu->free_tables = ae_alloc(
        a, AE_CACHE_LINE, iommu->max_devices * sizeof(iommu->free_tables[0]));
    if ((iommu->features & AVICEMU_IOMMU_CACHE) != 0) {
        iommu->lines = ae_alloc(a, AE_CACHE_LINE, lines_bytes(iommu));
        if (iommu->lines == NULL) {
            return false;
        }
    }
    if (iommu->memory == NULL || iommu->marks == NULL ||
        iommu->devices == NULL || iommu->free_tables == NULL ||
        ae_drain_create(&host->vmtable, &iommu->drain) != 0) {
        return false;
    }
    unsigned char *at = iommu->memory;

    iommu->device_table = (void *)at;
    iommu->commands = (void *)(at += dtes);
    iommu->events = (void *)(at += QUEUE_BYTES);
    iommu->ga_log = (void *)(at += QUEUE_BYTES);
    iommu->words = (void *)(at += ga_bytes);
    iommu->tables = at + AE_PAGE;
    return true;
}

static void
silicon_make(struct avicemu_iommu *iommu)
{
    struct avicemu_host *host = iommu->host;
    struct ae_iommu_silicon silicon = {
        .mem = &host->mem,
        .maxphyaddr = host->maxphyaddr,
        .bells = { host->doorbells, host->nr_pcpus },
        .ga_marks = iommu->marks,
        .event_marks = iommu->marks + AE_GALOG_MAX_SLOTS,
        .dte_lines = iommu->lines,
        .nr_lines = iommu->nr_lines,
    };

    if (iommu->lines != NULL) {
        silicon.irte_lines = iommu->lines + iommu->nr_lines;
    }
    (void)ae_iommu_features(iommu->features, &silicon);
    ae_iommu_init(&iommu->hw, &silicon);
}

/* ---- bring-up ----------------------------------------------------------- */

static void
dte_write(struct avicemu_iommu *iommu, uint16_t device_id, uint64_t word)
{
    _Atomic uint64_t *dte = &iommu->device_table[device_id * DTE_WORDS];

    /* ORD epoch.B: the entry, then its invalidation. Partner: epoch.A in
     * dte_fetch(). If weaker: an interrupt that begins after the completion
     * goes by the old one. Test: step/iommu. */
    ae_store_seqcst_u64(&dte[2], ae_little64(word));
    ae_store_seqcst_u64(&dte[0], ae_little64(AE_MASK64(DTE0_V)));
}

/* Mapped, by IntCtl 0: abort. */
#define DTE_NONE AE_MASK64(DTE2_IV)

static uint64_t
ring(const _Atomic uint64_t *base, uint32_t length)
{
    return ae_hpa((const void *)base) | (uint64_t)length << LOG_BASE_LENGTH_LOW;
}

static void
bring_up(struct avicemu_iommu *iommu, uint32_t ga_entries)
{
    uint32_t dte_pages =
        (uint32_t)(pages((uint64_t)iommu->nr_device_ids * DTE_BYTES) / AE_PAGE);
    uint32_t ga_length =
        QUEUE_LENGTH - 1 + ae_lowest_bit32(ga_entries / MIN_GA_LOG);
    uint64_t control = AVICEMU_CONTROL_CMD_BUF_EN;

    for (uint32_t id = 0; id < iommu->nr_device_ids; id++) {
        dte_write(iommu, (uint16_t)id, DTE_NONE);
    }
    ae_iommu_set(iommu, AVICEMU_IOMMU_DEVICE_TABLE,
                 ae_hpa((void *)iommu->device_table) | (dte_pages - 1));
    ae_iommu_set(iommu, AVICEMU_IOMMU_COMMAND_BASE,
                 ring(iommu->commands, QUEUE_LENGTH));
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
    control |= AVICEMU_CONTROL_GA_EN;
    control |=
        (iommu->features & AVICEMU_IOMMU_XT) != 0 ? AVICEMU_CONTROL_XT_EN : 0;
    control |=
        (iommu->features & AVICEMU_IOMMU_2K) != 0 ? AVICEMU_CONTROL_2K : 0;
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
    control |= AVICEMU_CONTROL_IOMMU_EN;
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
    ae_iommu_set(iommu, AVICEMU_IOMMU_EVENT_BASE,
                 ring(iommu->events, QUEUE_LENGTH));
    control |= AVICEMU_CONTROL_EVENT_INT_EN | AVICEMU_CONTROL_EVENT_LOG_EN;
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
    ae_iommu_set(iommu, AVICEMU_IOMMU_GA_BASE, ring(iommu->ga_log, ga_length));
    ae_iommu_set(iommu, AVICEMU_IOMMU_GA_TAIL_WORD,
                 ae_hpa((void *)&iommu->words[AE_WORD_TAIL]));
    control |= AVICEMU_CONTROL_GA_INT_EN;
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
    control |= AVICEMU_CONTROL_GA_LOG_EN | AVICEMU_CONTROL_GAM_EN;
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control);
}

/* ---- life --------------------------------------------------------------- */

static int
region_add(struct avicemu_iommu *iommu)
{
    struct avicemu_host *host = iommu->host;
    uint64_t last = ae_hpa(iommu->memory) + iommu->bytes - 1;

    if (last >> host->maxphyaddr != 0) {
        return config_wrong(host, "maxphyaddr: too narrow for its memory",
                            last);
    }
    return ae_mem_add_own(&host->mem, ae_hpa(iommu->memory), iommu->bytes,
                          iommu->memory);
}

int
ae_iommu_create(struct avicemu_host *host,
                const struct avicemu_iommu_config *config,
                struct avicemu_iommu **ret)
{
    struct avicemu_iommu_config c = *config;
    int r;

    config_default(&c);
    r = (host->avic & AVICEMU_HOST_AVIC) == 0 ? -EOPNOTSUPP
                                              : config_check(host, &c);
    if (r != 0) {
        return r;
    }
    struct avicemu_iommu *iommu =
        ae_alloc(&host->allocator, AE_CACHE_LINE, sizeof(*iommu));

    if (iommu == NULL) {
        return -ENOMEM;
    }
    iommu->host = host;
    iommu->opaque = c.opaque;
    iommu->features = c.features;
    iommu->nr_device_ids = c.nr_device_ids;
    iommu->max_devices = c.max_devices;
    iommu->irqs_per_device = c.irqs_per_device;
    iommu->nr_lines = c.nr_cached;
    iommu->table_bytes = table_bytes(c.irqs_per_device);
    ae_lock_init(&iommu->queue_lock);
    ae_lock_init(&iommu->control_lock);
    r = memory_get(iommu, c.ga_log_entries * 8ull) ? region_add(iommu)
                                                   : -ENOMEM;
    if (r != 0) {
        iommu_free(iommu);
        return r;
    }
    for (uint32_t i = 0; i < c.max_devices; i++) {
        iommu->free_tables[i] = c.max_devices - 1 - i;
    }
    iommu->nr_free = c.max_devices;
    silicon_make(iommu);
    bring_up(iommu, c.ga_log_entries);
    ae_lock(&host->posting_lock);
    host->nr_iommus++;
    ae_unlock(&host->posting_lock);
    *ret = iommu;
    return 0;
}

int
ae_iommu_destroy(struct avicemu_iommu *iommu)
{
    struct avicemu_host *host = iommu->host;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    ae_lock(&host->posting_lock);
    bool is_empty = iommu->nr_free == iommu->max_devices;

    host->nr_iommus -= is_empty;
    ae_unlock(&host->posting_lock);
    if (!is_empty) {
        return -EBUSY;
    }
    (void)ae_mem_remove_own(&host->mem, ae_hpa(iommu->memory));
    iommu_free(iommu);
    return 0;
}

/* ---- devices ------------------------------------------------------------ */

struct ae_device *
ae_iommu_device(const struct avicemu_iommu *iommu, uint16_t device_id)
{
    /* ORD vcpu.B: the pointer, then the device. Partner: vcpu.A in
     * device_publish(). If weaker: a half-made device. Test: race_posting. */
    return device_id < iommu->nr_device_ids
               ? ae_load_acquire_ptr(&iommu->devices[device_id])
               : NULL;
}

struct ae_irq *
ae_iommu_irq(const struct avicemu_iommu *iommu, uint16_t device_id,
             uint32_t index)
{
    struct ae_device *device = ae_iommu_device(iommu, device_id);

    return device != NULL && index < device->nr_irqs ? &device->irqs[index]
                                                     : NULL;
}

static void
device_publish(struct avicemu_iommu *iommu, uint16_t device_id,
               struct ae_device *device)
{
    /* ORD vcpu.A: the device, then its pointer. Partner: vcpu.B in
     * ae_iommu_device(). If weaker: see there. Test: race_posting. */
    ae_store_release_ptr(&iommu->devices[device_id], device);
}

static size_t
device_bytes(uint32_t nr_irqs)
{
    return sizeof(struct ae_device) + nr_irqs * sizeof(struct ae_irq);
}

static unsigned char *
device_table(const struct ae_device *device)
{
    return device->iommu->tables + device->table * device->iommu->table_bytes;
}

static struct ae_device *
device_make(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t nr_irqs)
{
    struct ae_device *device =
        ae_alloc(&iommu->host->allocator, AE_CACHE_LINE, device_bytes(nr_irqs));

    if (device == NULL) {
        return NULL;
    }
    device->iommu = iommu;
    device->device_id = device_id;
    device->nr_irqs = nr_irqs;
    device->table = iommu->free_tables[--iommu->nr_free];
    struct ae_atomic16 *slots = (void *)device_table(device);

    for (uint32_t i = 0; i < nr_irqs; i++) {
        device->irqs[i].device = device;
        device->irqs[i].index = i;
        device->irqs[i].slot = &slots[i];
    }
    return device;
}

static uint32_t
table_length(const struct avicemu_iommu *iommu)
{
    return ae_lowest_bit32((uint32_t)(iommu->table_bytes / 16));
}

static int
add_locked(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t nr_irqs)
{
    if (ae_iommu_device(iommu, device_id) != NULL) {
        return -EEXIST;
    }
    struct ae_device *device =
        iommu->nr_free != 0 ? device_make(iommu, device_id, nr_irqs) : NULL;

    if (device == NULL) {
        return -ENOMEM;
    }
    device_publish(iommu, device_id, device);
    dte_write(iommu, device_id,
              AE_MASK64(DTE2_IV) | ae_hpa(device_table(device)) |
                  (uint64_t)table_length(iommu) << DTE2_INT_TAB_LEN_LOW |
                  (uint64_t)INT_CTL_REMAP << DTE2_INT_CTL_LOW);
    ae_posting_invalidate_dte(iommu, device_id);
    ae_posting_flush(iommu);
    return 0;
}

int
ae_iommu_add_device(struct avicemu_iommu *iommu, uint16_t device_id,
                    uint32_t nr_irqs)
{
    int r = -EINVAL;

    if (device_id < iommu->nr_device_ids && nr_irqs != 0 &&
        nr_irqs <= iommu->irqs_per_device) {
        ae_lock(&iommu->host->posting_lock);
        r = add_locked(iommu, device_id, nr_irqs);
        ae_unlock(&iommu->host->posting_lock);
    }
    return r;
}

/* 0, -EBUSY: one of them is a producer. */
static int
may_remove_locked(const struct ae_device *device)
{
    for (uint32_t i = 0; i < device->nr_irqs; i++) {
        if (device->irqs[i].bypass != NULL) {
            return -EBUSY;
        }
    }
    return 0;
}

static void
remove_locked(struct avicemu_iommu *iommu, struct ae_device *device)
{
    uint16_t device_id = device->device_id;

    dte_write(iommu, device_id, DTE_NONE);
    ae_posting_invalidate_dte(iommu, device_id);
    for (uint32_t i = 0; i < device->nr_irqs; i++) {
        if (ae_irq_target(&device->irqs[i]) != NULL) {
            ae_iommu_move_locked(&device->irqs[i], NULL, 0);
        }
    }
    ae_posting_invalidate(iommu, device_id);
    ae_posting_flush(iommu);
    device_publish(iommu, device_id, NULL);
    ae_rcu_synchronize();
    memset(device_table(device), 0, iommu->table_bytes);
    iommu->free_tables[iommu->nr_free++] = device->table;
    ae_free(&iommu->host->allocator, device, device_bytes(device->nr_irqs));
}

int
ae_iommu_remove_device(struct avicemu_iommu *iommu, uint16_t device_id)
{
    int r = -ENOENT;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    ae_lock(&iommu->host->posting_lock);
    struct ae_device *device = ae_iommu_device(iommu, device_id);

    if (device != NULL) {
        r = may_remove_locked(device);
        if (r == 0) {
            remove_locked(iommu, device);
        }
    }
    ae_unlock(&iommu->host->posting_lock);
    return r;
}

int
ae_iommu_message(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint32_t index, uint64_t *ret_address, uint32_t *ret_data)
{
    ae_rcu_enter();
    bool is_there = ae_iommu_irq(iommu, device_id, index) != NULL;

    ae_rcu_leave();
    if (!is_there) {
        return -ENOENT;
    }
    /* 2K mode: this bit says that all of the data is the index. */
    *ret_address = MSI_BASE | ((iommu->features & AVICEMU_IOMMU_2K) != 0
                                   ? AE_MASK64(MSI_ADDRESS_DM)
                                   : 0);
    *ret_data = index;
    return 0;
}

/* ---- routes ------------------------------------------------------------- */

void
ae_iommu_move_locked(struct ae_irq *irq, struct avicemu_vcpu *vcpu,
                     uint8_t vector)
{
    struct avicemu_iommu *iommu = irq->device->iommu;
    struct avicemu_vcpu *was = ae_posting_move(irq, vcpu, vector);

    ae_count(&iommu->counts.routes, 1);
    ae_posting_settle(iommu);
    /* Not freed: who destroys it waits for the posting lock. */
    if (was != NULL) {
        (void)ae_deliver_pending(was);
    }
}

/* Is there anything to change? */
static bool
differs(const struct ae_irq *irq, const struct avicemu_vcpu *vcpu,
        uint8_t vector)
{
    const struct ae_target *target = ae_irq_target(irq);

    return target == NULL ? vcpu != NULL
                          : target->vcpu != vcpu || target->vector != vector;
}

int
ae_iommu_route(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index,
               struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct ae_irq *irq;
    int r = 0;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    ae_lock(&iommu->host->posting_lock);
    irq = ae_iommu_irq(iommu, device_id, index);
    if (irq == NULL || (vcpu != NULL && vcpu->posting.closed)) {
        r = -ENOENT;
    } else if (irq->bypass != NULL) {
        r = -EBUSY;
    } else if (differs(irq, vcpu, vector)) {
        ae_iommu_move_locked(irq, vcpu, vector);
    }
    ae_unlock(&iommu->host->posting_lock);
    return r;
}
