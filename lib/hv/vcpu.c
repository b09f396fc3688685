/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A vCPU: creation and destruction, its guest's accesses to the APIC, and what
 * these set off. The run loop is in entry.c, sleeping in halt.c.
 *
 * Each access runs the register file (hw), which decides; apply() then acts:
 * books, map update, deadline, IPIs, EOI broadcast, APIC_BASE callback, in
 * this order, so that a callback sees the vCPU in its new state.
 *
 * Destruction: take the remapping entries of devices off it, and its GA tag out
 * of the VM table (each waits: posting.c, vmtable.c), take it out of the map,
 * wait for the read-side sections that can see it, close its books, and wait
 * for the callbacks that were pinned in one (edge pin, see deliver.c). Posters
 * by pointer are the caller's to stop.
 *
 * Edges
 *   expire A ae_deliver_owner()  due time, error -> event       seq_cst
 *          B ae_vcpu_look()      event taken -> time, ESR        seq_cst
 *
 * All calls are the owner's. Progress: wait-free, but for destroy, and for a
 * write that changes the identity: it takes the map's lock, O(vCPUs).
 */

#include "hv/vcpu.h"

#include <errno.h>
#include <string.h>

#include "base/rcu.h"
#include "hv/active.h"

/* ---- effects ------------------------------------------------------------ */

uint64_t
ae_vcpu_now(const struct avicemu_vcpu *vcpu)
{
    ae_callback_enter();
    uint64_t now = vcpu->vm->ops.now(vcpu->vm->opaque);

    ae_callback_leave();
    return now;
}

void
ae_vcpu_arm(struct avicemu_vcpu *vcpu, enum ae_arm when)
{
    uint64_t deadline = vcpu->lapic.timer.deadline;

    /* ORD none: any thread may want a deadline that was once true. */
    if (when == AE_ARM_CHANGED &&
        deadline == ae_load_relaxed_u64(&vcpu->deadline)) {
        return;
    }
    /* ORD none: as above. */
    ae_store_relaxed_u64(&vcpu->deadline, deadline);
    if (vcpu->vm->ops.arm != NULL) {
        ae_callback_enter();
        vcpu->vm->ops.arm(vcpu->opaque, vcpu, deadline);
        ae_callback_leave();
    }
}

static void
book_cleared(struct avicemu_vcpu *vcpu, const struct ae_lapic_effects *fx)
{
    for (uint32_t v = 0; v < AE_NR_VECTORS; v++) {
        if ((fx->cleared[v >> 5] & ae_bit32(v)) == 0) {
            continue;
        }
        vcpu->stats.cleared++;
        if (vcpu->books != NULL) {
            vcpu->books->cleared[v]++;
        }
    }
}

static void
book_local(struct avicemu_vcpu *vcpu, const struct ae_lapic_effects *fx)
{
    for (unsigned i = 0; i < fx->nr_local; i++) {
        uint8_t vector = fx->local[i].vector;
        bool is_new = fx->local[i].result == AVICEMU_POST_NEW;

        vcpu->stats.local_new += is_new;
        vcpu->stats.local_merged += !is_new;
        if (vcpu->books != NULL) {
            vcpu->books->local_new[vector] += is_new;
            vcpu->books->local_merged[vector] += !is_new;
        }
    }
}

static void
book_effects(struct avicemu_vcpu *vcpu, const struct ae_lapic_effects *fx)
{
    vcpu->stats.timer_ticks += fx->ticks;
    vcpu->stats.esr += fx->nr_errors;
    vcpu->stats.ipi_sent += (fx->what & AE_DID_SEND) != 0;
    vcpu->stats.ipi_dropped += fx->drop != 0;
    vcpu->stats.eoi += (fx->what & AE_DID_RETIRE) != 0;
    vcpu->stats.eoi_broadcast += (fx->what & AE_DID_EOI) != 0;
    book_local(vcpu, fx);
    if ((fx->what & AE_DID_CLEAR) != 0) {
        book_cleared(vcpu, fx);
    }
}

/* An ExtINT that came by message goes with the APIC that accepted it. */
static void
extint_forget(struct avicemu_vcpu *vcpu)
{
    if (ae_lapic_enabled(&vcpu->lapic)) {
        return;
    }
    /* ORD none: a message that races with the disable comes before or after. */
    uint32_t old = ae_fetch_and_seqcst_u32(&vcpu->events, ~AE_EV_EXTINT);

    vcpu->stats.extint_cleared += (old & AE_EV_EXTINT) != 0;
}

/* APIC_BASE decides, too, whether AVIC is active. */
static void
base_changed(struct avicemu_vcpu *vcpu)
{
    const uint32_t moved = 1u << AVICEMU_INHIBIT_APIC_BASE_MODIFIED;

    if (vcpu->vm->tables == NULL) {
        return;
    }
    if (ae_lapic_enabled(&vcpu->lapic) &&
        ae_lapic_base_page(&vcpu->lapic) != AE_APIC_DEFAULT_BASE) {
        ae_active_inhibit(vcpu->vm, moved, moved);
    }
    ae_active_update(vcpu);
    ae_tables_publish(vcpu); /* valid while the APIC is enabled */
}

void
ae_vcpu_apply(struct avicemu_vcpu *vcpu, struct ae_lapic_effects *fx)
{
    const struct avicemu_ops *ops = &vcpu->vm->ops;

    if (AE_LIKELY(ae_lapic_quiet(fx))) {
        ae_vcpu_arm(vcpu, AE_ARM_CHANGED);
        return; /* a plain register write: nothing for the books */
    }
    book_effects(vcpu, fx);
    if ((fx->what & AE_DID_IDENT) != 0 && ae_apicmap_update(&vcpu->vm->map)) {
        ae_active_request(vcpu->vm);
    }
    ae_vcpu_arm(vcpu, AE_ARM_CHANGED);
    if (fx->events != 0) {
        (void)ae_deliver_lvt_events(vcpu, fx->events, AE_SOURCE_OWNER);
    }
    if ((fx->what & AE_DID_IPI) != 0) {
        struct avicemu_posted posted = { .why = 0 };

        ae_deliver_message(vcpu->vm, vcpu, &fx->ipi, &posted);
    }
    if ((fx->what & AE_DID_EOI) != 0 && ops->eoi != NULL) {
        ae_callback_enter();
        ops->eoi(vcpu->opaque, vcpu, fx->eoi_vector);
        ae_callback_leave();
    }
    if ((fx->what & AE_DID_BASE) != 0) {
        extint_forget(vcpu);
        base_changed(vcpu);
    }
    if ((fx->what & AE_DID_BASE) != 0 && ops->apic_base != NULL) {
        ae_callback_enter();
        ops->apic_base(vcpu->opaque, vcpu, vcpu->lapic.base);
        ae_callback_leave();
    }
}

void
ae_vcpu_take_events(struct avicemu_vcpu *vcpu)
{
    struct ae_lapic_effects fx = { .what = 0 };

    /*
     * ORD expire.B: the event, then time and accumulator. Partner: expire.A
     * in ae_deliver_owner(). If weaker: the event is gone and its reason was
     * not seen. Test: race_expire.
     */
    uint32_t events =
        ae_fetch_and_seqcst_u32(&vcpu->events, ~(AE_EV_EXPIRED | AE_EV_ERROR));

    AE_STEP(expire_b);
    if ((events & AE_EV_EXPIRED) != 0) {
        uint64_t before = vcpu->lapic.timer.deadline;

        ae_lapic_timer_sync(&vcpu->lapic, ae_vcpu_now(vcpu), &fx);
        if (fx.ticks == 0 && before != AE_NEVER) {
            /* Too early: the host forgot the deadline, so tell it anew. */
            ae_vcpu_arm(vcpu, AE_ARM_ALWAYS);
        }
    }
    if ((events & AE_EV_ERROR) != 0) {
        ae_lapic_error_sync(&vcpu->lapic, &fx);
    }
    ae_vcpu_apply(vcpu, &fx);
}

/* ---- life --------------------------------------------------------------- */

static size_t
books_bytes(const struct avicemu_vm *vm)
{
    return sizeof(struct ae_books) + vm->map.max_vcpus * sizeof(uint64_t);
}

uint64_t
ae_vcpu_bytes(const struct avicemu_vm *vm)
{
    bool books = (vm->flags & AVICEMU_VM_BOOKS) != 0;

    return sizeof(struct avicemu_vcpu) + AE_PAGE +
           (vm->tables != NULL ? AE_PAGE : 0) + (books ? books_bytes(vm) : 0);
}

static void
vcpu_free(struct avicemu_vcpu *vcpu)
{
    struct avicemu_vm *vm = vcpu->vm;
    const struct avicemu_allocator *a = &vm->host->allocator;

    ae_posting_fini(vcpu);
    ae_free(a, vcpu->books, books_bytes(vm));
    ae_free(a, vcpu->avic.core.vmcb, AE_PAGE);
    if (vm->tables != NULL) {
        ae_tables_page_put(vm->tables, vcpu->lapic.page);
    } else {
        ae_free(a, vcpu->lapic.page, AE_PAGE);
    }
    ae_free(a, vcpu, sizeof(*vcpu));
}

/* Events of a CPU after RESET: all but the BSP wait for a SIPI. */
static uint32_t
events_reset(const struct avicemu_vcpu *vcpu)
{
    return vcpu->lapic.bsp ? 0 : AE_EV_WFS;
}

/* Pages and books. false: no memory. */
static bool
vcpu_memory(struct avicemu_vcpu *vcpu)
{
    struct avicemu_vm *vm = vcpu->vm;
    const struct avicemu_allocator *a = &vm->host->allocator;

    if (vm->tables != NULL) {
        vcpu->lapic.page = ae_tables_page_get(vm->tables, vcpu);
        vcpu->avic.core.vmcb = ae_alloc(a, AE_PAGE, AE_PAGE);
        if (vcpu->avic.core.vmcb == NULL) {
            return false;
        }
    } else {
        vcpu->lapic.page = ae_alloc(a, AE_PAGE, AE_PAGE);
    }
    if ((vm->flags & AVICEMU_VM_BOOKS) != 0) {
        vcpu->books = ae_alloc(a, AE_CACHE_LINE, books_bytes(vm));
        if (vcpu->books == NULL) {
            return false;
        }
    }
    return vcpu->lapic.page != NULL;
}

/* A new vCPU in the map: its entry in the table, or AVIC is off. It follows the
 * inhibit word at its first entry. */
static void
avic_begin(struct avicemu_vcpu *vcpu)
{
    const uint32_t too_big = 1u << AVICEMU_INHIBIT_PHYSICAL_ID_TOO_BIG;

    ae_tables_publish(vcpu);
    if (!ae_tables_fits(vcpu->vm->tables, vcpu->lapic.initial_id)) {
        ae_active_inhibit(vcpu->vm, too_big, too_big);
    }
}

/* Nobody counts there any more: the amount goes to another account. */
static void
book_move(_Atomic uint64_t *from, _Atomic uint64_t *to)
{
    /* ORD none: the map's lock is held, and only who holds it writes these;
     * others read a moment's view. */
    uint64_t sum = ae_load_relaxed_u64(to) + ae_load_relaxed_u64(from);

    ae_store_relaxed_u64(to, sum);
    /* ORD none: as above. */
    ae_store_relaxed_u64(from, 0);
}

/*
 * Behind the grace period of a vCPU that goes: no sender counts under its
 * index, and it sends nothing. What it sent stays in the books of its targets,
 * and what it was sent in those of their senders, as to and from one that is
 * gone; then its index is free, with all its counts 0. Others that are on
 * their way out take part, for their index is not free yet either.
 */
static void
books_close(struct avicemu_vcpu *vcpu)
{
    struct ae_apicmap *map = &vcpu->vm->map;
    struct ae_books *own = vcpu->books;

    if (own == NULL) {
        return;
    }
    ae_lock(&map->lock);
    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(map); idx++) {
        const struct avicemu_vcpu *other = ae_apicmap_holder_locked(map, idx);

        if (other != NULL && other != vcpu) {
            book_move(&own->ipi_new_to[idx], &other->books->ipi_new_from_gone);
            book_move(&other->books->ipi_new_to[vcpu->vcpu_idx],
                      &other->books->ipi_new_to_gone);
        }
    }
    ae_apicmap_index_free_locked(map, vcpu->vcpu_idx);
    ae_unlock(&map->lock);
}

/* Its GA tag, before any entry holds it. 0, -ENOMEM. */
static int
tag_publish(struct avicemu_vcpu *vcpu)
{
    struct avicemu_host *host = vcpu->vm->host;
    int r = ae_tag_pack(host->vm_ids.layout, vcpu->vm->vm_id, vcpu->vcpu_idx,
                        &vcpu->posting.ga_tag);

    /* max_vcpus was checked, and the index was free. */
    assert(r == 0);
    r = ae_vmtable_publish(&host->vmtable, vcpu->posting.ga_tag, vcpu);
    assert(r != -EEXIST);
    return r;
}

int
ae_vcpu_create(struct avicemu_vm *vm, uint32_t apic_id, void *opaque,
               struct avicemu_vcpu **ret)
{
    struct avicemu_vcpu *vcpu =
        ae_alloc(&vm->host->allocator, AE_CACHE_LINE, sizeof(*vcpu));
    bool flipped = false;
    int r = -ENOMEM;

    if (vcpu == NULL) {
        return r;
    }
    vcpu->vm = vm;
    vcpu->opaque = opaque;
    ae_posting_init(vcpu);
    if (!vcpu_memory(vcpu)) {
        goto fail;
    }
    ae_lapic_init(&vcpu->lapic, &vm->model, vcpu->lapic.page, apic_id,
                  apic_id == vm->bsp_apic_id);
    /* ORD none: nobody sees it yet; ae_apicmap_add() publishes. */
    ae_store_relaxed_u32(&vcpu->events, events_reset(vcpu));
    ae_store_relaxed_u64(&vcpu->deadline, AE_NEVER);
    if (vm->tables != NULL) {
        ae_active_init(vcpu);
    }
    r = ae_apicmap_add(&vm->map, vcpu, &flipped);
    if (r != 0) {
        goto fail;
    }
    if (vm->tables != NULL) {
        r = tag_publish(vcpu);
        if (r != 0) {
            flipped = ae_apicmap_remove(&vm->map, vcpu) || flipped;
            books_close(vcpu);
            goto fail;
        }
        avic_begin(vcpu);
    }
    if (flipped) {
        ae_active_request(vm);
    }
    /* ORD none: who destroys the VM meanwhile has a bug of his own. */
    (void)ae_fetch_add_relaxed_u32(&vm->nr_alive, 1);
    *ret = vcpu;
    return 0;

fail:
    vcpu_free(vcpu);
    if (flipped) {
        ae_active_request(vm);
    }
    return r;
}

int
ae_vcpu_destroy(struct avicemu_vcpu *vcpu)
{
    if (!ae_vcpu_at_rest(vcpu) || ae_in_callback()) {
        return -EBUSY;
    }
    /* No entry names it, then no notifier has it, then nobody finds it. */
    ae_posting_close(vcpu);
    if (vcpu->vm->tables != NULL) {
        ae_vmtable_remove(&vcpu->vm->host->vmtable, vcpu->posting.ga_tag);
        ae_vmtable_synchronize(&vcpu->vm->host->vmtable);
        ae_tables_unpublish(vcpu);
    }
    bool flipped = ae_apicmap_remove(&vcpu->vm->map, vcpu);

    books_close(vcpu);
    AE_STEP(pin_b);
    /*
     * ORD pin.B: the grace period, then the pins. Partner: pin.A in
     * hv/deliver.c. If weaker: the memory goes while somebody calls the VMM
     * about it. Test: race_pin.
     */
    while (ae_load_seqcst_u32(&vcpu->pins) != 0) {
        ae_relax();
    }
    struct avicemu_vm *vm = vcpu->vm;

    vcpu_free(vcpu);
    if (flipped) {
        ae_active_request(vm);
    }
    /* ORD pin.B: the memory is given back, then the VM may go. Partner: the
     * read in ae_vm_destroy(). If weaker: the VM is freed under us.
     * Test: race_pin. */
    (void)ae_fetch_add_seqcst_u32(&vm->nr_alive, UINT32_MAX);
    return 0;
}

void
ae_vcpu_book_lost(struct avicemu_vcpu *vcpu, uint32_t events)
{
    vcpu->stats.nmi_cleared += events & AE_EV_NMI_MASK;
    vcpu->stats.smi_cleared += (events & AE_EV_SMI) != 0;
    vcpu->stats.init_cleared += (events & AE_EV_INIT) != 0;
    vcpu->stats.sipi_cleared += (events & AE_EV_SIPI) != 0;
    vcpu->stats.extint_cleared += (events & AE_EV_EXTINT) != 0;
    vcpu->stats.extint_cleared += vcpu->extint_latched;
}

int
ae_vcpu_reset(struct avicemu_vcpu *vcpu)
{
    struct ae_lapic_effects fx = { .what = 0 };

    uint64_t base = vcpu->lapic.base;

    if (!ae_vcpu_at_rest(vcpu)) {
        return -EBUSY;
    }
    ae_lapic_reset(&vcpu->lapic, &fx);
    /* ORD wake.B: an event is either lost to this reset, and counted, or
     * stays. Partner: wake.A. If weaker: neither. Test: race_expire. */
    uint32_t lost = ae_exchange_seqcst_u32(&vcpu->events, events_reset(vcpu));

    ae_vcpu_book_lost(vcpu, lost);
    vcpu->extint_latched = false;
    vcpu->halted = false;
    vcpu->cpu_flags = 0;
    fx.what |= base != vcpu->lapic.base ? AE_DID_BASE : 0;
    ae_vcpu_apply(vcpu, &fx);
    return 0;
}

/* ---- guest accesses ----------------------------------------------------- */

bool
ae_vcpu_claims(const struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len)
{
    const struct ae_lapic *l = &vcpu->lapic;
    uint64_t offset = gpa - ae_lapic_base_page(l);

    return ae_lapic_mode(l) == AVICEMU_APIC_XAPIC && len >= 1 &&
           len <= AE_PAGE && offset < AE_PAGE && len <= AE_PAGE - offset;
}

/* The time, if an access to slots first..last wants it. */
static uint64_t
access_time(const struct avicemu_vcpu *vcpu, uint32_t first, uint32_t last)
{
    for (uint32_t slot = first; slot <= last; slot++) {
        if (ae_lapic_needs_time(&vcpu->vm->model, slot)) {
            return ae_vcpu_now(vcpu);
        }
    }
    return 0;
}

enum avicemu_access
ae_vcpu_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                  void *data)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint32_t offset = (uint32_t)gpa & 0xfffu;

    if (!ae_vcpu_claims(vcpu, gpa, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    ae_vcpu_look(vcpu);
    ae_lapic_mmio_read(&vcpu->lapic, offset, len,
                       access_time(vcpu, offset >> 4, (offset + len - 1) >> 4),
                       data, &fx);
    ae_vcpu_apply(vcpu, &fx);
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
ae_vcpu_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                   const void *data)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint32_t offset = (uint32_t)gpa & 0xfffu;
    const uint8_t *bytes = data;

    if (!ae_vcpu_claims(vcpu, gpa, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (len != 4 || (offset & 15u) != 0) {
        vcpu->stats.mmio_odd++;
        return AVICEMU_ACCESS_DONE;
    }
    ae_vcpu_look(vcpu);
    if (offset == LAPIC_EOI && ae_vcpu_eoi_short(vcpu)) {
        return AVICEMU_ACCESS_DONE;
    }
    ae_lapic_mmio_write(&vcpu->lapic, offset,
                        (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                            (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24,
                        access_time(vcpu, offset >> 4, offset >> 4), &fx);
    ae_vcpu_apply(vcpu, &fx);
    return AVICEMU_ACCESS_DONE;
}

bool
ae_vcpu_claims_msr(uint32_t msr)
{
    return msr == AE_MSR_APIC_BASE || msr == AE_MSR_TSC_DEADLINE ||
           (msr >= AE_MSR_X2APIC_FIRST && msr <= AE_MSR_X2APIC_LAST);
}

static enum avicemu_access
deadline_read(struct avicemu_vcpu *vcpu, uint64_t *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };

    if (!ae_lapic_has(&vcpu->vm->model, AVICEMU_LAPIC_TSC_DEADLINE)) {
        /* Without the feature there is no such MSR; [KVM] reads 0. */
        if (vcpu->vm->model.personality != AVICEMU_PERSONALITY_KVM) {
            return AVICEMU_ACCESS_GP;
        }
        *ret = 0;
        return AVICEMU_ACCESS_DONE;
    }
    if (vcpu->lapic.timer.tsc_deadline != 0) {
        ae_lapic_timer_sync(&vcpu->lapic, ae_vcpu_now(vcpu), &fx);
    }
    *ret = ae_lapic_enabled(&vcpu->lapic) ? vcpu->lapic.timer.tsc_deadline : 0;
    ae_vcpu_apply(vcpu, &fx);
    return AVICEMU_ACCESS_DONE;
}

static enum avicemu_access
deadline_write(struct avicemu_vcpu *vcpu, uint64_t value)
{
    struct ae_lapic *l = &vcpu->lapic;

    if (!ae_lapic_has(l->model, AVICEMU_LAPIC_TSC_DEADLINE)) {
        return l->model->personality == AVICEMU_PERSONALITY_KVM
                   ? AVICEMU_ACCESS_DONE
                   : AVICEMU_ACCESS_GP;
    }
    if (ae_lapic_enabled(l) && l->timer.mode == AE_TIMER_DEADLINE) {
        struct ae_lapic_effects fx = { .what = 0 };
        uint64_t now = ae_vcpu_now(vcpu);

        ae_timer_set_deadline(&l->model->clock, &l->timer, now, value);
        if (value != 0 && l->timer.deadline <= now) {
            ae_lapic_timer_sync(l, now, &fx); /* a past value fires at once */
        }
        ae_vcpu_apply(vcpu, &fx);
    }
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
ae_vcpu_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    enum avicemu_access access = AVICEMU_ACCESS_GP;
    uint32_t slot = msr - AE_MSR_X2APIC_FIRST;

    if (!ae_vcpu_claims_msr(msr)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (msr == AE_MSR_APIC_BASE) {
        *ret = vcpu->lapic.base;
        access = AVICEMU_ACCESS_DONE;
    } else if (msr == AE_MSR_TSC_DEADLINE) {
        access = deadline_read(vcpu, ret);
    } else if (ae_lapic_mode(&vcpu->lapic) == AVICEMU_APIC_X2APIC) {
        ae_vcpu_look(vcpu);
        access = ae_lapic_msr_read(&vcpu->lapic, slot,
                                   access_time(vcpu, slot, slot), ret, &fx);
    }
    ae_vcpu_apply(vcpu, &fx);
    vcpu->stats.gp += access == AVICEMU_ACCESS_GP;
    return access;
}

enum avicemu_access
ae_vcpu_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value)
{
    struct ae_lapic_effects fx = { .what = 0 };
    enum avicemu_access access = AVICEMU_ACCESS_GP;
    uint32_t slot = msr - AE_MSR_X2APIC_FIRST;

    if (!ae_vcpu_claims_msr(msr)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (msr == AE_MSR_APIC_BASE) {
        ae_vcpu_look(vcpu);
        access = ae_lapic_base_write(&vcpu->lapic, value, AE_BASE_GUEST,
                                     ae_vcpu_now(vcpu), &fx);
    } else if (msr == AE_MSR_TSC_DEADLINE) {
        access = deadline_write(vcpu, value);
    } else if (ae_lapic_mode(&vcpu->lapic) == AVICEMU_APIC_X2APIC) {
        ae_vcpu_look(vcpu);
        if (slot == LAPIC_EOI >> 4 && value == 0 && ae_vcpu_eoi_short(vcpu)) {
            return AVICEMU_ACCESS_DONE;
        }
        access = ae_lapic_msr_write(&vcpu->lapic, slot,
                                    access_time(vcpu, slot, slot), value, &fx);
    }
    ae_vcpu_apply(vcpu, &fx);
    vcpu->stats.gp += access == AVICEMU_ACCESS_GP;
    return access;
}
