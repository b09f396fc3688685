/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GA-log notifier: from tags in the log to vCPUs that wake. [KVM GA log
 * notifier]
 *
 *   status: GAInt or GALOverflow?  no: done
 *   write 1 to GAInt               before the tail is read: what comes later
 *                                  sets it again, and is signalled
 *   drain                          seq odd; each entry: head, tag, vCPU, call;
 *                                  seq even (vmtable.c)
 *   after an overflow              wait for GALogRun 0; GALogEn 0; write 1 to
 *                                  GALOverflow; GALogEn 1; then every vCPU that
 *                                  this IOMMU posts to looks at its IRR
 *   again
 *
 * The entry carries no vector: IRR has it. The vCPU is woken if it is blocked,
 * and made to look if it runs, for a log entry may be forced (irte.c); outside
 * it will look by itself.
 *
 * The scan comes after the restart, so an interrupt whose entry was lost has
 * set its bit before, and one that comes later is logged (edge restart,
 * galog.c). Who is scanned: the targets of now. A former target was made to
 * look by who took it away; one whose AVIC went off is still the target.
 *
 * A second thread that calls in leaves its count, and the first goes round
 * again:
 *
 *   notify  A ae_iommu_notify()  status set (by silicon) -> count + 1   seq_cst
 *           B ae_iommu_notify()  status read -> count read              seq_cst
 *
 * Progress: waits for producers that are under way in a full log; else as long
 * as entries come.
 */

#include <errno.h>

#include "base/rcu.h"
#include "hv/iommu.h"

/* ---- a log, as a driver reads it ---------------------------------------- */

/* What differs between the two logs. */
struct log {
    uint32_t head, tail; /* registers */
    uint64_t interrupt, overflow, run, enable;
};

static const struct log ga_log = {
    .head = AVICEMU_IOMMU_GA_HEAD,
    .tail = AVICEMU_IOMMU_GA_TAIL,
    .interrupt = AVICEMU_STATUS_GA_INT,
    .overflow = AVICEMU_STATUS_GA_OVERFLOW,
    .run = AVICEMU_STATUS_GA_LOG_RUN,
    .enable = AVICEMU_CONTROL_GA_LOG_EN,
};

static const struct log event_log = {
    .head = AVICEMU_IOMMU_EVENT_HEAD,
    .tail = AVICEMU_IOMMU_EVENT_TAIL,
    .interrupt = AVICEMU_STATUS_EVENT_LOG_INT,
    .overflow = AVICEMU_STATUS_EVENT_OVERFLOW,
    .run = AVICEMU_STATUS_EVENT_LOG_RUN,
    .enable = AVICEMU_CONTROL_EVENT_LOG_EN,
};

/* Has it anything? Then its interrupt bit is cleared. */
static uint64_t
log_begin(struct avicemu_iommu *iommu, const struct log *log)
{
    uint64_t status = ae_iommu_get(iommu, AVICEMU_IOMMU_STATUS) &
                      (log->interrupt | log->overflow);

    if ((status & log->interrupt) != 0) {
        ae_iommu_set(iommu, AVICEMU_IOMMU_STATUS, log->interrupt);
    }
    return status;
}

static void
log_restart(struct avicemu_iommu *iommu, const struct log *log)
{
    while ((ae_iommu_get(iommu, AVICEMU_IOMMU_STATUS) & log->run) != 0) {
        ae_relax();
    }
    /* The enables of both logs are in one register. */
    ae_lock(&iommu->control_lock);
    uint64_t control = ae_iommu_get(iommu, AVICEMU_IOMMU_CONTROL);

    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control & ~log->enable);
    ae_iommu_set(iommu, AVICEMU_IOMMU_STATUS, log->overflow);
    ae_iommu_set(iommu, AVICEMU_IOMMU_CONTROL, control | log->enable);
    ae_unlock(&iommu->control_lock);
}

/* ---- drain -------------------------------------------------------------- */

static struct avicemu_vcpu *
look_up(struct avicemu_iommu *iommu, uint32_t tag)
{
    struct avicemu_host *host = iommu->host;

    if (AE_LIKELY(host->ops.ga_lookup == NULL)) {
        return ae_vmtable_find(&host->vmtable, tag);
    }
    host->ops.ga_lookup(host->opaque, iommu, 1);
    struct avicemu_vcpu *vcpu = ae_vmtable_find(&host->vmtable, tag);

    host->ops.ga_lookup(host->opaque, iommu, 0);
    return vcpu;
}

static void
entry_handle(struct avicemu_iommu *iommu, uint64_t entry)
{
    struct ae_iommu_counts *c = &iommu->counts;
    struct avicemu_vcpu *vcpu =
        AE_GET(entry, GA_ENTRY_TYPE) == AE_GA_GUEST_NR
            ? look_up(iommu, AE_GET(entry, GA_ENTRY_GA_TAG))
            : NULL;

    ae_count(&c->entries, 1);
    if (vcpu == NULL) {
        ae_count(&c->unknown, 1);
    } else if (ae_deliver_pending(vcpu)) {
        ae_count(&c->wakes, 1);
    }
}

static int
drain(struct avicemu_iommu *iommu)
{
    uint32_t mask = ae_galog_entries(ae_galog_base(&iommu->hw.ga), 8) * 8 - 1;
    uint32_t head = (uint32_t)ae_iommu_get(iommu, ga_log.head);
    uint32_t tail = (uint32_t)ae_iommu_get(iommu, ga_log.tail);
    int n = 0;

    ae_drain_begin(iommu->drain);
    for (; head != tail; n++) {
        /* ORD galog.B: behind the tail. Partner: galog.A in tail_move(). If
         * weaker: see there. Test: race_galog. */
        uint64_t entry =
            ae_little64(ae_load_seqcst_u64(&iommu->ga_log[head / 8]));

        head = (head + 8) & mask;
        ae_iommu_set(iommu, ga_log.head, head);
        entry_handle(iommu, entry);
    }
    ae_drain_end(iommu->drain);
    return n;
}

/* ---- recovery ----------------------------------------------------------- */

/* Every vCPU that this IOMMU posts to. A batch of calls leaves the section, so
 * the device is looked up anew after each. */
static void
scan(struct avicemu_iommu *iommu)
{
    struct ae_calls calls;
    struct ae_irq *irq;
    uint64_t scanned = 0;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    for (uint32_t id = 0; id < iommu->nr_device_ids; id++) {
        for (uint32_t i = 0;
             (irq = ae_iommu_irq(iommu, (uint16_t)id, i)) != NULL; i++) {
            struct ae_target *target = ae_irq_target(irq);

            if (target != NULL) {
                scanned++;
                ae_calls_pending(&calls, target->vcpu);
            }
        }
    }
    ae_rcu_leave();
    ae_calls_end(&calls);
    ae_count(&iommu->counts.scanned, scanned);
    ae_count(&iommu->counts.wakes, calls.nr_due);
}

static int
notify_round(struct avicemu_iommu *iommu)
{
    uint64_t status;
    int n = 0;

    while ((status = log_begin(iommu, &ga_log)) != 0) {
        ae_count(&iommu->counts.notified, 1);
        n += drain(iommu);
        if ((status & ga_log.overflow) != 0) {
            ae_count(&iommu->counts.overflows, 1);
            log_restart(iommu, &ga_log);
            scan(iommu);
        }
    }
    return n;
}

int
ae_iommu_notify(struct avicemu_iommu *iommu)
{
    uint32_t calls = 1;
    int n = 0;

    /*
     * ORD notify.A, notify.B: the status that this call is about, then the
     * count; and the status was read, then the count. Partner: each other. If
     * weaker: the first reads the status before it was set, and ends before
     * the second is counted: a wake-up waits for the next entry. Test:
     * step/posting.
     */
    if (ae_fetch_add_seqcst_u32(&iommu->notify, 1) != 0) {
        AE_STEP(notify_a);
        return -EBUSY;
    }
    for (;;) {
        uint32_t found = calls;

        n += notify_round(iommu);
        /* ORD notify.B: as above; a locked operation. */
        if (ae_cas_seqcst_u32(&iommu->notify, &found, 0)) {
            return n;
        }
        calls = found;
    }
}

/* ---- events ------------------------------------------------------------- */

int
ae_iommu_event_take(struct avicemu_iommu *iommu,
                    struct avicemu_iommu_event *ret)
{
    uint64_t status = log_begin(iommu, &event_log);
    uint32_t mask =
        ae_galog_entries(ae_galog_base(&iommu->hw.events), 16) * 16 - 1;
    uint32_t head = (uint32_t)ae_iommu_get(iommu, event_log.head);
    bool is_empty = head == (uint32_t)ae_iommu_get(iommu, event_log.tail);

    if (!is_empty) {
        /* ORD galog.B: behind the tail. As in drain(). */
        ret->low = ae_little64(ae_load_seqcst_u64(&iommu->events[head / 8]));
        ret->high =
            ae_little64(ae_load_seqcst_u64(&iommu->events[head / 8 + 1]));
        ae_iommu_set(iommu, event_log.head, (head + 16) & mask);
    }
    if ((status & event_log.overflow) != 0) {
        log_restart(iommu, &event_log);
    }
    return is_empty ? -EAGAIN : 0;
}
