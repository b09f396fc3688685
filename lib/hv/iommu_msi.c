/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device's interrupt: what the silicon decided, carried out.
 *
 *   posted      the bit is in the page, and the core was rung or the log has an
 *               entry. Where doorbells are kicks, the vCPU is kicked here
 *   remapped    the entry is the host's, as AVIC is off on its vCPU, or the
 *               route is not postable: inject by software; to whom, the irqfd's
 *               route or the entry's target say; without either it is the
 *               host's own
 *   aborted     dropped; the reason is in the event log
 *
 * One read-side section around silicon and software, so that device, target and
 * vCPU are there until the call that is due; callbacks come after it.
 *
 * Any thread, lock-free. A posted interrupt takes no lock and makes no call but
 * the kick, or that of the GA-log interrupt.
 */

#include "base/rcu.h"
#include "hv/iommu.h"

/* What to tell the host after the section. */
struct after {
    bool to_host;
    uint32_t index;
};

void
ae_iommu_signal(struct avicemu_iommu *iommu, uint32_t signals)
{
    const struct avicemu_host *host = iommu->host;

    if (AE_LIKELY(signals == 0)) {
        return;
    }
    ae_callback_enter();
    if ((signals & AE_IOMMU_SIGNAL_GA) != 0 && host->ops.ga_interrupt != NULL) {
        host->ops.ga_interrupt(host->opaque, iommu);
    }
    if ((signals & AE_IOMMU_SIGNAL_EVENT) != 0 &&
        host->ops.event_interrupt != NULL) {
        host->ops.event_interrupt(host->opaque, iommu);
    }
    ae_callback_leave();
}

static void
hint_keep(_Atomic uint32_t *hint, uint32_t value)
{
    /* ORD none: a hint; a wrong one costs a search. */
    if (ae_load_relaxed_u32(hint) != value) {
        ae_store_relaxed_u32(hint, value);
    }
}

/* The silicon's part, from where the device's last one found memory. */
static void
silicon_run(struct ae_msi *m, struct avicemu_iommu *iommu,
            struct ae_device *device, uint16_t device_id, uint64_t address,
            uint32_t data)
{
    ae_msi_begin(m, &iommu->hw, device_id, address, data);
    if (device == NULL) {
        m->near_dte = m->remap.near_table = m->remap.near_page = 0;
        ae_msi_run(m);
        return;
    }
    /* ORD none: hints. */
    m->near_dte = ae_load_relaxed_u32(&device->near_dte);
    m->remap.near_table = ae_load_relaxed_u32(&device->near_table);
    m->remap.near_page = ae_load_relaxed_u32(&device->near_page);
    ae_msi_run(m);
    hint_keep(&device->near_dte, m->near_dte);
    hint_keep(&device->near_table, m->remap.near_table);
    hint_keep(&device->near_page, m->remap.near_page);
}

static void
count(struct avicemu_posted *posted, enum avicemu_post result)
{
    posted->nr_new += result == AVICEMU_POST_NEW;
    posted->nr_merged += result == AVICEMU_POST_MERGED;
    posted->nr_dropped += result == AVICEMU_POST_DROPPED;
}

/* Doorbells are kicks: who runs there is asked by his state. Who had the entry
 * before is made to look by who took it away. */
static void
kick(const struct avicemu_iommu *iommu, const struct ae_irq *irq,
     struct ae_calls *calls)
{
    const struct ae_target *target =
        iommu->hw.bells.nr == 0 && irq != NULL ? ae_irq_target(irq) : NULL;

    if (target != NULL) {
        ae_calls_pending(calls, target->vcpu);
    }
}

/* By software. false: it is the host's. */
static bool
inject(const struct ae_irq *irq, struct ae_calls *calls,
       struct avicemu_posted *posted)
{
    const struct ae_target *target = irq != NULL ? ae_irq_target(irq) : NULL;

    if (target != NULL) {
        ae_deliver_found(target->vcpu, target->vector, calls, posted);
        return true;
    }
    return irq != NULL && ae_irqfd_inject(irq, calls, posted);
}

/* In the section. */
static void
carry_out(const struct ae_msi *m, const struct avicemu_iommu *iommu,
          const struct ae_irq *irq, struct ae_calls *calls,
          struct avicemu_iommu_posted *ret, struct after *after)
{
    switch ((enum ae_msi_outcome)m->outcome) {
    case AE_MSI_POSTED:
        ret->way = AVICEMU_WAY_POSTED;
        count(&ret->posted, (enum avicemu_post)m->posted);
        if (m->nr_doorbells != 0) {
            kick(iommu, irq, calls);
        }
        return;
    case AE_MSI_MESSAGE:
        if (m->is_remapped && inject(irq, calls, &ret->posted)) {
            ret->way = AVICEMU_WAY_INJECTED;
            return;
        }
        ret->way = AVICEMU_WAY_HOST;
        after->to_host = true;
        after->index = m->index;
        break;
    case AE_MSI_ABORTED:
        ret->way = AVICEMU_WAY_ABORTED;
        break;
    case AE_MSI_NO_REQUEST:
        ret->way = AVICEMU_WAY_ABORTED;
        ret->posted.why |= 1u << AVICEMU_DROP_ADDRESS;
        break;
    }
    ret->posted.nr_dropped++;
}

void
ae_iommu_deliver(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint64_t address, uint32_t data,
                 struct avicemu_iommu_posted *ret)
{
    struct avicemu_host *host = iommu->host;
    struct after after = { .to_host = false };
    struct ae_calls calls;
    struct ae_msi m;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    struct ae_device *device = ae_iommu_device(iommu, device_id);

    silicon_run(&m, iommu, device, device_id, address, data);
    ret->nr_doorbells = m.nr_doorbells;
    ret->nr_logged = m.nr_logged;
    ret->nr_overflows = m.nr_overflows;
    carry_out(&m, iommu,
              device != NULL && m.index < device->nr_irqs
                  ? &device->irqs[m.index]
                  : NULL,
              &calls, ret, &after);
    ae_rcu_leave();
    ae_calls_end(&calls);
    ae_iommu_signal(iommu, m.signals);
    if (AE_UNLIKELY(after.to_host) && host->ops.host_interrupt != NULL) {
        ae_callback_enter();
        host->ops.host_interrupt(host->opaque, iommu, device_id, after.index);
        ae_callback_leave();
    }
}
