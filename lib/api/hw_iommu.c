/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IOMMU's hardware face. Each call, and each step, is one read-side
 * section, so that memory may be removed between any two steps.
 */

#include <avicemu/hw/iommu.h>

#include "api/check.h"
#include "api/hw_memory.h"
#include "base/rcu.h"
#include "hw/iommu.h"

#define DEFAULT_CACHED 256u
#define MAX_CACHED     65536u

struct avicemu_hw_iommu {
    struct ae_iommu hw;
    struct ae_intcache_line *lines; /* of both caches; NULL: none */
    _Atomic uint32_t *marks;        /* of both logs */
};

static_assert(sizeof(struct ae_msi) <=
                  sizeof(((struct avicemu_hw_msi *)NULL)->state),
              "the engine's state must fit");

/* ---- life --------------------------------------------------------------- */

static bool
config_ok(const struct avicemu_hw_iommu_config *c)
{
    const uint32_t all = AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_GAPPI |
                         AVICEMU_IOMMU_GAPPI_DIS | AVICEMU_IOMMU_CACHE;
    bool bare = c->features == AVICEMU_IOMMU_BARE;

    return c->memory != NULL && (bare || (c->features & ~all) == 0) &&
           (c->maxphyaddr == 0 ||
            (c->maxphyaddr >= 32 && c->maxphyaddr <= 52)) &&
           (c->nr_doorbells == 0 ||
            (c->doorbells != NULL &&
             (uintptr_t)c->doorbells % AE_CACHE_LINE == 0)) &&
           c->nr_cached <= MAX_CACHED &&
           (c->nr_cached == 0 || ae_single_bit32(c->nr_cached));
}

static size_t
marks_bytes(void)
{
    return (AE_GALOG_MAX_SLOTS + AE_EVENT_MAX_SLOTS) * sizeof(_Atomic uint32_t);
}

static size_t
lines_bytes(const struct avicemu_hw_iommu *iommu)
{
    return 2 * ((size_t)iommu->hw.dtes.mask + 1) *
           sizeof(struct ae_intcache_line);
}

void
avicemu_hw_iommu_destroy(struct avicemu_hw_iommu *iommu)
{
    const struct avicemu_allocator *a = &ae_default_allocator;

    if (iommu == NULL) {
        return;
    }
    ae_free(a, iommu->lines, lines_bytes(iommu));
    ae_free(a, (void *)iommu->marks, marks_bytes());
    ae_free(a, iommu, sizeof(*iommu));
}

int
avicemu_hw_iommu_create(const struct avicemu_hw_iommu_config *config,
                        struct avicemu_hw_iommu **ret_iommu)
{
    const struct avicemu_allocator *a = &ae_default_allocator;
    struct avicemu_hw_iommu_config c;

    AE_CHECK(config != NULL && ret_iommu != NULL, -EINVAL);
    AE_CHECK(ae_config_copy(&c, sizeof(c), config), -EINVAL);
    AE_CHECK(config_ok(&c), -EINVAL);
    struct avicemu_hw_iommu *iommu = ae_alloc(a, AE_CACHE_LINE, sizeof(*iommu));

    AE_CHECK(iommu != NULL, -ENOMEM);
    struct ae_iommu_silicon silicon = {
        .mem = &c.memory->mem,
        .maxphyaddr = c.maxphyaddr != 0 ? c.maxphyaddr : 48,
        .bells = { c.doorbells, c.nr_doorbells },
        .nr_lines = c.nr_cached != 0 ? c.nr_cached : DEFAULT_CACHED,
    };
    uint32_t features = ae_iommu_features(c.features, &silicon);
    bool cached = (features & AVICEMU_IOMMU_CACHE) != 0;

    /* The size that destroy frees. */
    iommu->hw.dtes.mask = silicon.nr_lines - 1;
    iommu->marks = ae_alloc(a, AE_CACHE_LINE, marks_bytes());
    iommu->lines =
        cached ? ae_alloc(a, AE_CACHE_LINE, lines_bytes(iommu)) : NULL;
    if (iommu->marks == NULL || (cached && iommu->lines == NULL)) {
        avicemu_hw_iommu_destroy(iommu);
        return -ENOMEM;
    }
    silicon.ga_marks = iommu->marks;
    silicon.event_marks = iommu->marks + AE_GALOG_MAX_SLOTS;
    silicon.dte_lines = iommu->lines;
    silicon.irte_lines = cached ? iommu->lines + silicon.nr_lines : NULL;
    ae_iommu_init(&iommu->hw, &silicon);
    *ret_iommu = iommu;
    return 0;
}

/* ---- registers ---------------------------------------------------------- */

static bool
is_access(uint32_t offset, unsigned bytes)
{
    return (bytes == 4 || bytes == 8) && offset % bytes == 0 &&
           offset < AE_IOMMU_MMIO_BYTES;
}

int
avicemu_hw_iommu_read(struct avicemu_hw_iommu *iommu, uint32_t offset,
                      unsigned bytes, uint64_t *ret_value)
{
    AE_CHECK(iommu != NULL && ret_value != NULL, -EINVAL);
    AE_CHECK(is_access(offset, bytes), -EINVAL);
    *ret_value = ae_iommu_mmio_read(&iommu->hw, offset, bytes);
    return 0;
}

int
avicemu_hw_iommu_write(struct avicemu_hw_iommu *iommu, uint32_t offset,
                       unsigned bytes, uint64_t value, uint32_t *ret_signals)
{
    uint32_t signals = 0;

    AE_CHECK(iommu != NULL && is_access(offset, bytes), -EINVAL);
    ae_rcu_enter();
    ae_iommu_mmio_write(&iommu->hw, offset, bytes, value, &signals);
    ae_rcu_leave();
    if (ret_signals != NULL) {
        *ret_signals = signals;
    }
    return 0;
}

int
avicemu_hw_iommu_config_read(struct avicemu_hw_iommu *iommu, uint32_t offset,
                             uint32_t *ret_value)
{
    AE_CHECK(iommu != NULL && ret_value != NULL && offset % 4 == 0, -EINVAL);
    *ret_value = ae_iommu_config_read(&iommu->hw, offset);
    return 0;
}

int
avicemu_hw_iommu_config_write(struct avicemu_hw_iommu *iommu, uint32_t offset,
                              uint32_t value)
{
    AE_CHECK(iommu != NULL && offset % 4 == 0, -EINVAL);
    ae_iommu_config_write(&iommu->hw, offset, value);
    return 0;
}

/* ---- messages ----------------------------------------------------------- */

static void
message_tell(const struct ae_message *m, struct avicemu_hw_message *ret)
{
    *ret = (struct avicemu_hw_message){
        .dest = m->dest,
        .logical = m->logical,
        .mode = (enum avicemu_delivery)m->mode,
        .vector = m->vector,
        .level = m->level,
    };
}

int
avicemu_hw_iommu_signal(struct avicemu_hw_iommu *iommu, uint32_t signal,
                        struct avicemu_hw_message *ret)
{
    struct ae_message m;

    static_assert(AVICEMU_SIGNAL_EVENT == AE_IOMMU_SIGNAL_EVENT &&
                      AVICEMU_SIGNAL_GA == AE_IOMMU_SIGNAL_GA,
                  "the same bits");
    AE_CHECK(iommu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(signal == AVICEMU_SIGNAL_EVENT || signal == AVICEMU_SIGNAL_GA,
             -EINVAL);
    AE_CHECK(ae_iommu_signal_message(&iommu->hw, signal, &m), -EAGAIN);
    message_tell(&m, ret);
    return 0;
}

/* ---- one interrupt ------------------------------------------------------ */

static struct ae_msi *
engine(struct avicemu_hw_msi *msi)
{
    return (struct ae_msi *)(void *)msi->state;
}

static const enum avicemu_hw_event events[] = {
    [AE_MSI_BEGUN] = AVICEMU_HW_BEGUN,
    [AE_MSI_DTE] = AVICEMU_HW_DTE,
    [AE_MSI_FETCHED] = AVICEMU_HW_FETCHED,
    [AE_MSI_IRR] = AVICEMU_HW_IRR,
    [AE_MSI_REREAD] = AVICEMU_HW_REREAD,
    [AE_MSI_RANG] = AVICEMU_HW_RANG,
    [AE_MSI_PHYSICAL] = AVICEMU_HW_PHYSICAL,
    [AE_MSI_RESERVED] = AVICEMU_HW_RESERVED,
    [AE_MSI_LOGGED] = AVICEMU_HW_LOGGED,
    [AE_MSI_TAIL] = AVICEMU_HW_TAIL,
    [AE_MSI_STATUS] = AVICEMU_HW_STATUS,
    [AE_MSI_EVENT] = AVICEMU_HW_EVENT,
    [AE_MSI_FINISHED] = AVICEMU_HW_FINISHED,
};

static enum avicemu_hw_outcome
outcome_of(const struct ae_msi *m)
{
    switch ((enum ae_msi_outcome)m->outcome) {
    case AE_MSI_POSTED:
        return AVICEMU_HW_POSTED;
    case AE_MSI_MESSAGE:
        return m->is_remapped ? AVICEMU_HW_REMAPPED : AVICEMU_HW_FORWARDED;
    case AE_MSI_ABORTED:
        return AVICEMU_HW_ABORTED;
    case AE_MSI_NO_REQUEST:
        break;
    }
    return AVICEMU_HW_NO_REQUEST;
}

/* What the caller sees of the engine. */
static void
tell(struct avicemu_hw_msi *msi, enum ae_msi_event event,
     const struct ae_notice *notice)
{
    const struct ae_msi *m = engine(msi);

    msi->event = events[event];
    msi->outcome = outcome_of(m);
    msi->posted = (enum avicemu_post)m->posted;
    msi->fault = m->fault;
    msi->signals = m->signals;
    msi->nr_doorbells = m->nr_doorbells;
    msi->nr_logged = m->nr_logged;
    msi->nr_overflows = m->nr_overflows;
    if (notice != NULL) {
        msi->dest = notice->dest;
        msi->ga_tag = notice->ga_tag;
    }
    if (event == AE_MSI_RESERVED) {
        msi->slot = (enum avicemu_hw_slot)m->slot;
    }
    if (event == AE_MSI_PHYSICAL || m->outcome == AE_MSI_MESSAGE) {
        message_tell(&m->message, &msi->message);
    }
}

int
avicemu_hw_iommu_msi_begin(struct avicemu_hw_iommu *iommu, uint16_t device_id,
                           uint64_t address, uint32_t data,
                           struct avicemu_hw_msi *msi)
{
    AE_CHECK(iommu != NULL && msi != NULL && msi->size == sizeof(*msi),
             -EINVAL);
    *msi = (struct avicemu_hw_msi){ .size = sizeof(*msi),
                                    .outcome = AVICEMU_HW_NO_REQUEST,
                                    .posted = AVICEMU_POST_DROPPED };
    ae_msi_begin(engine(msi), &iommu->hw, device_id, address, data);
    return 0;
}

enum avicemu_hw_event
avicemu_hw_iommu_msi_step(struct avicemu_hw_msi *msi)
{
    struct ae_msi *m;
    const struct ae_notice *notice;

    AE_CHECK(msi != NULL && msi->size == sizeof(*msi), AVICEMU_HW_NOTHING);
    m = engine(msi);
    AE_CHECK(m->iommu != NULL, AVICEMU_HW_NOTHING);
    /* The one that this step is about, if it is about any. */
    notice =
        m->notice < m->remap.nr_notices ? &m->remap.notices[m->notice] : NULL;
    ae_rcu_enter();
    enum ae_msi_event event = ae_msi_step(m);

    ae_rcu_leave();
    tell(msi, event, notice);
    return msi->event;
}

int
avicemu_hw_iommu_msi(struct avicemu_hw_iommu *iommu, uint16_t device_id,
                     uint64_t address, uint32_t data,
                     struct avicemu_hw_msi *msi)
{
    int r = avicemu_hw_iommu_msi_begin(iommu, device_id, address, data, msi);

    while (r == 0 && avicemu_hw_iommu_msi_step(msi) != AVICEMU_HW_FINISHED) {
        /* Each step moves on. */
    }
    return r;
}
