/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posted interrupts, the vCPU's side: the IOMMU looks at its remapping entries
 * alone, so where a vCPU runs stands there a second time, beside the APIC id
 * table. [KVM posted IRTE lists]
 *
 *                    order of writes                 IsRun  GALogIntr  mode
 *   load             table, then entries             1      0          guest
 *   put              entries, then table             0      0          guest
 *     of a blocked one, or its load: as it is          0      1          guest
 *   block            entries, table, then IRR read   0      1          guest
 *   unblock          table, then entries             1      0          guest
 *   AVIC off         entries, then table             -      -          remapped
 *   AVIC on          table, then entries             as loaded, or put
 *   entered without  before IRR is read              0      1          guest
 *   a doorbell
 *
 * GALogIntr only where nothing else tells: a vCPU that was put will be loaded
 * again anyway, and then looks; one that blocks will not. The last row is ours:
 * a vCPU that its VMM runs without loading it, or on a core without doorbell
 * word, is told by the notifier.
 *
 * Each entry is on the list of the vCPU whose page it names. The owner of a
 * vCPU changes the word `where` and then, if the list is not empty, all entries
 * on it; who adds an entry puts it on the list and then reads the word. So one
 * of the two writes what is right last, and a vCPU without devices takes no
 * lock:
 *
 *   follow  A ae_posting_follow()  where -> nr read          seq_cst
 *           B vcpu_link()          nr -> where read          seq_cst
 *
 * Where mode, vector or page change, the cached entry must be invalidated; run
 * state needs nothing. A vCPU never waits for that: what still goes by its old
 * entry finds another one at its second read, and is logged and rung (irte.c).
 * Who re-targets an entry takes it off the old list, puts it on the new one and
 * writes it once, old to new; meanwhile it may say where the old vCPU was. So
 * he waits, for interrupts under way and for readers of the old target, and
 * then makes the old vCPU look at its IRR.
 *
 * Locks: the host's posting lock (who routes), then a vCPU's (its list), then
 * an IOMMU's queue lock (its commands). Only under the first one is there any
 * waiting.
 *
 * The queue: 512 commands. An invalidation that finds it full, behind a
 * COMPLETION_WAIT that is waiting, is owed: an INVALIDATE_IOMMU_ALL comes
 * before whatever is put in next, and at the latest after that wait.
 */

#include "hv/posting.h"

#include <errno.h>

#include "base/rcu.h"
#include "hv/tables.h"

/* Of a remapped entry; nobody sends it: the path knows the interrupt. */
#define HOST_VECTOR 0x30u

#define QUEUE_BYTES 8192u

/* ---- the command buffer ------------------------------------------------- */

static bool
queue_put_locked(struct avicemu_iommu *iommu, uint64_t low, uint64_t high)
{
    struct ae_iommu *hw = &iommu->hw;
    uint32_t tail = ae_command_tail(hw);
    uint32_t next = (tail + 16) % QUEUE_BYTES;
    uint32_t signals = 0;

    if (next == ae_command_head(hw)) {
        return false;
    }
    /* ORD none: the tail orders them. */
    ae_store_relaxed_u64(&iommu->commands[tail / 8], ae_little64(low));
    ae_store_relaxed_u64(&iommu->commands[tail / 8 + 1], ae_little64(high));
    ae_rcu_enter();
    ae_command_set_tail(hw, next, &signals);
    ae_rcu_leave();
    /* None of these commands asks for an interrupt. */
    assert(signals == 0);
    ae_count(&iommu->counts.commands, 1);
    return true;
}

/* What was owed comes first. */
static bool
queue_settle_locked(struct avicemu_iommu *iommu)
{
    uint64_t all = (uint64_t)AE_COMMAND_INVALIDATE_ALL << COMMAND_OPCODE_LOW;

    if (iommu->owed && queue_put_locked(iommu, all, 0)) {
        iommu->owed = false;
    }
    return !iommu->owed;
}

static void
queue_invalidate(struct avicemu_iommu *iommu, enum ae_command command,
                 uint16_t device_id)
{
    ae_lock(&iommu->queue_lock);
    if (!queue_settle_locked(iommu) ||
        !queue_put_locked(
            iommu, (uint64_t)command << COMMAND_OPCODE_LOW | device_id, 0)) {
        iommu->owed = true;
    }
    ae_unlock(&iommu->queue_lock);
}

void
ae_posting_invalidate(struct avicemu_iommu *iommu, uint16_t device_id)
{
    queue_invalidate(iommu, AE_COMMAND_INVALIDATE_INTERRUPTS, device_id);
}

void
ae_posting_invalidate_dte(struct avicemu_iommu *iommu, uint16_t device_id)
{
    queue_invalidate(iommu, AE_COMMAND_INVALIDATE_DEVTAB, device_id);
}

/* Put a COMPLETION_WAIT in. 0: the queue is full; else what it will store. */
static uint64_t
queue_wait(struct avicemu_iommu *iommu)
{
    uint64_t low = (uint64_t)AE_COMMAND_COMPLETION_WAIT << COMMAND_OPCODE_LOW |
                   AE_MASK64(COMMAND_WAIT_STORE) |
                   ae_hpa((void *)&iommu->words[AE_WORD_COMPLETION]);
    uint64_t sequence = 0;

    ae_lock(&iommu->queue_lock);
    if (queue_settle_locked(iommu) &&
        queue_put_locked(iommu, low, iommu->sequence + 1)) {
        sequence = ++iommu->sequence;
    }
    ae_unlock(&iommu->queue_lock);
    return sequence;
}

void
ae_posting_flush(struct avicemu_iommu *iommu)
{
    uint64_t sequence;

    while ((sequence = queue_wait(iommu)) == 0) {
        ae_relax();
    }
    /* ORD done.B: the command's store, then what the caller frees. Partner:
     * done.A in ae_iommu_leave(). If weaker: see there. Test: step/iommu. */
    while (ae_little64(ae_load_seqcst_u64(&iommu->words[AE_WORD_COMPLETION])) <
           sequence) {
        ae_relax();
    }
    ae_lock(&iommu->queue_lock);
    (void)queue_settle_locked(iommu);
    ae_unlock(&iommu->queue_lock);
}

/* ---- entries ------------------------------------------------------------ */

/* The entry as it should be, for a vCPU in this state. */
static struct ae_irte
entry_of(const struct ae_irq *irq, const struct avicemu_vcpu *vcpu,
         uint64_t where)
{
    const struct avicemu_iommu *iommu = irq->device->iommu;
    struct ae_irte e = { .vector = HOST_VECTOR };
    const struct ae_target *target = ae_irq_target(irq);

    if ((where & AE_POST_GUEST) == 0) {
        return e;
    }
    e.guest_mode = true;
    e.vector = target->vector;
    e.ga_tag = vcpu->posting.ga_tag;
    e.root = ae_hpa(vcpu->lapic.page);
    e.dest = (uint32_t)(where >> AE_POST_DEST_SHIFT);
    e.is_run = (where & AE_POST_RUN) != 0;
    e.ga_log_intr = (where & AE_POST_LOG) != 0;
    if (e.dest > 0xff && (iommu->features & AVICEMU_IOMMU_XT) == 0) {
        /* Its entries cannot name that core. */
        e.ga_log_intr |= e.is_run;
        e.is_run = false;
        e.dest = 0;
    }
    return e;
}

static void
entry_write(struct ae_irq *irq, const struct ae_irte *e)
{
    (void)ae_irte_replace(irq->slot, ae_irte_encode(e));
    ae_posting_invalidate(irq->device->iommu, irq->device->device_id);
}

/* An entry follows its vCPU. Under its lock. */
static void
entry_follow(struct ae_irq *irq, const struct avicemu_vcpu *vcpu,
             uint64_t where)
{
    struct ae_irte e = entry_of(irq, vcpu, where);

    if (!e.guest_mode ||
        !ae_irte_update(irq->slot,
                        AE_IRTE_SET_RUN | AE_IRTE_SET_LOG | AE_IRTE_SET_DEST,
                        &e)) {
        entry_write(irq, &e);
    }
}

/* ---- vCPUs -------------------------------------------------------------- */

void
ae_posting_init(struct avicemu_vcpu *vcpu)
{
    ae_lock_init(&vcpu->posting.lock);
}

void
ae_posting_fini(struct avicemu_vcpu *vcpu)
{
    assert(vcpu->posting.irqs == NULL);
    ae_lock_fini(&vcpu->posting.lock);
}

static uint64_t
where_of(const struct avicemu_vcpu *vcpu, enum ae_posting_state state)
{
    const struct ae_vcpu_avic *v = &vcpu->avic;
    bool reached = v->word != NULL || !v->words;
    /* ORD none: the owner's own store. */
    uint64_t dest = (uint64_t)ae_load_relaxed_u32(&vcpu->pcpu)
                    << AE_POST_DEST_SHIFT;

    if (!v->active) {
        return 0;
    }
    if (v->blocked || state == AE_POSTING_BLOCKED) {
        return dest | AE_POST_GUEST | AE_POST_LOG;
    }
    if (v->loaded && reached) {
        return dest | AE_POST_GUEST | AE_POST_RUN;
    }
    return dest | AE_POST_GUEST |
           (state == AE_POSTING_ENTERED ? AE_POST_LOG : 0);
}

static void
follow_all(struct avicemu_vcpu *vcpu, uint64_t where)
{
    struct ae_posting *p = &vcpu->posting;

    ae_lock(&p->lock);
    for (struct ae_irq *irq = p->irqs; irq != NULL; irq = irq->next) {
        entry_follow(irq, vcpu, where);
    }
    ae_unlock(&p->lock);
}

void
ae_posting_follow(struct avicemu_vcpu *vcpu, enum ae_posting_state state)
{
    struct ae_posting *p = &vcpu->posting;
    uint64_t where = where_of(vcpu, state);

    /* ORD none: the owner's own store. */
    if (where == ae_load_relaxed_u64(&p->where)) {
        return;
    }
    /*
     * ORD follow.A: where it is, then whether it has entries. Partner: follow.B
     * in vcpu_link(). If weaker: the other side reads the old state, we
     * an empty list, and a device rings a core that the vCPU has left while it
     * sleeps. Test: step/posting.
     */
    ae_store_seqcst_u64(&p->where, where);
    AE_STEP(follow_a);
    if (AE_UNLIKELY(ae_load_seqcst_u32(&p->nr) != 0)) {
        follow_all(vcpu, where);
    }
}

/* On the list of a vCPU; off it. Under its lock. */
static void
list_add_locked(struct ae_posting *p, struct ae_irq *irq)
{
    irq->next = p->irqs;
    irq->link = &p->irqs;
    if (p->irqs != NULL) {
        p->irqs->link = &irq->next;
    }
    p->irqs = irq;
    /* ORD follow.B: the entry counts, then (in vcpu_link()) where the vCPU is.
     * Partner: follow.A in ae_posting_follow(). If weaker: see there. Test:
     * step/posting. */
    (void)ae_fetch_add_seqcst_u32(&p->nr, 1);
    AE_STEP(follow_b);
}

static void
list_remove_locked(struct ae_posting *p, struct ae_irq *irq)
{
    *irq->link = irq->next;
    if (irq->next != NULL) {
        irq->next->link = irq->link;
    }
    /* ORD none: the owner may find it not empty, and look in vain. */
    (void)ae_fetch_add_relaxed_u32(&p->nr, UINT32_MAX);
}

static void
target_set(struct ae_irq *irq, struct ae_target *target)
{
    /* ORD vcpu.A: the target, then its pointer; or no target, then the caller's
     * grace period. Partner: vcpu.B in ae_irq_target(). If weaker: a half-made
     * target, or a freed vCPU. Test: race_posting. */
    ae_store_release_ptr(&irq->target, target);
}

/* From here on the entry names this vCPU. */
static void
vcpu_link(struct ae_irq *irq, struct ae_target *target)
{
    struct avicemu_vcpu *vcpu = target->vcpu;
    struct ae_posting *p = &vcpu->posting;

    ae_lock(&p->lock);
    target_set(irq, target);
    list_add_locked(p, irq);
    /* ORD follow.B: on the list, then where the vCPU is. As above. */
    struct ae_irte e = entry_of(irq, vcpu, ae_load_seqcst_u64(&p->where));

    entry_write(irq, &e);
    ae_unlock(&p->lock);
}

struct avicemu_vcpu *
ae_posting_move(struct ae_irq *irq, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct ae_target *was = ae_irq_target(irq);
    /* Readers may still have the other one. */
    struct ae_target *is = &irq->targets[was == &irq->targets[0]];
    const struct ae_irte to_host = { .vector = HOST_VECTOR };

    assert(vcpu == NULL || !vcpu->posting.closed);
    if (was != NULL) {
        ae_lock(&was->vcpu->posting.lock);
        list_remove_locked(&was->vcpu->posting, irq);
        ae_unlock(&was->vcpu->posting.lock);
    }
    if (vcpu != NULL) {
        *is = (struct ae_target){ vcpu, vector };
        vcpu_link(irq, is);
    } else {
        entry_write(irq, &to_host);
        target_set(irq, NULL);
    }
    return was != NULL ? was->vcpu : NULL;
}

void
ae_posting_settle(struct avicemu_iommu *iommu)
{
    ae_posting_flush(iommu);
    ae_rcu_synchronize();
}

/* The first entry of a vCPU that is closing. */
static struct ae_irq *
close_next(struct ae_posting *p)
{
    ae_lock(&p->lock);
    struct ae_irq *irq = p->irqs;

    p->closed = true;
    ae_unlock(&p->lock);
    return irq;
}

void
ae_posting_close(struct avicemu_vcpu *vcpu)
{
    struct avicemu_host *host = vcpu->vm->host;
    struct ae_irq *irq;

    ae_lock(&host->posting_lock);
    while ((irq = close_next(&vcpu->posting)) != NULL) {
        (void)ae_posting_move(irq, NULL, 0);
        ae_posting_settle(irq->device->iommu);
    }
    ae_unlock(&host->posting_lock);
}
