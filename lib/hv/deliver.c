/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delivery: from "this interrupt, that destination" to a pending bit and at
 * most one call into the VMM.
 *
 *   find candidates (apicmap) -> match each (hw/dest) -> accept (hw/lapic, or
 *   the event word) -> read the run state -> kick, wake or nothing
 *
 * Decide, then act: candidates are looked up and made pending inside a
 * read-side section; those that must be called are pinned, the section is
 * left, and only then the call is claimed and made. A multicast does so in
 * batches. A message must have begun before the VM's destroy is called.
 *
 * Run state (object.h): one word per vCPU. A poster makes its thing pending,
 * then reads the state; the owner changes the state, then looks for pending
 * things. The first poster that has to call sets KICKED with the same
 * exchange, so there is one call per entry or block, however many posts.
 *
 * Edges (Dekker pairs: all four accesses seq_cst)
 *   kick  A ae_deliver_*()      IRR bit or event -> state read
 *         B ae_vcpu_enter()     state := in guest -> events, IRR read
 *   wake  A ae_deliver_*()      IRR bit or event -> state read
 *         B ae_halt_begin()     state := blocked -> events, IRR read
 *   pin   A ae_deliver_message() pin -> section left -> call -> unpin
 *         B ae_vcpu_destroy()   grace period -> pins read until 0
 *
 * May overlap: everything here with everything. Progress: lock-free; a
 * message is bounded by the number of vCPUs.
 */

#include "hv/deliver.h"

#include "base/rcu.h"
#include "hv/tables.h"

/* Callbacks nest at most through a VMM that posts from one. Thread-local, so
 * that destroy can refuse to wait for itself. */
static _Thread_local unsigned callback_depth;

bool
ae_in_callback(void)
{
    return callback_depth != 0;
}

void
ae_callback_enter(void)
{
    callback_depth++;
}

void
ae_callback_leave(void)
{
    callback_depth--;
}

void
ae_call(struct avicemu_vcpu *vcpu, enum ae_call call)
{
    const struct avicemu_ops *ops = &vcpu->vm->ops;

    if (call == AE_CALL_KICK && ops->kick != NULL) {
        ae_callback_enter();
        ops->kick(vcpu->opaque, vcpu);
        ae_callback_leave();
    } else if (call == AE_CALL_WAKE && ops->wake != NULL) {
        ae_callback_enter();
        ops->wake(vcpu->opaque, vcpu);
        ae_callback_leave();
    } else if (call == AE_CALL_RING) {
        /* ORD none: a core that it has left is rung in vain, and it scans IRR
         * when it enters elsewhere. */
        ae_bells_ring(&vcpu->vm->tables->hw.bells,
                      ae_load_relaxed_u32(&vcpu->pcpu));
    }
}

/*
 * Something of this level has just become pending: which call is due in this
 * state of the vCPU? A doorbell word is rung however often; kick and wake are
 * claimed by the first.
 */
static enum ae_call
call_due(uint32_t state, unsigned level)
{
    enum ae_where where = ae_where_of(state);

    if (where == AE_IN_GUEST && (state & AE_STATE_BELL) != 0 &&
        level > AE_LEVEL_REQUEST && level < AE_LEVEL_EXTINT) {
        return AE_CALL_RING;
    }
    if (where == AE_OUTSIDE || (state & AE_STATE_KICKED) != 0) {
        return AE_CALL_NONE;
    }
    if (where == AE_IN_GUEST) {
        return AE_CALL_KICK;
    }
    return level > (state >> AE_STATE_LEVEL_SHIFT & 0xffu) ? AE_CALL_WAKE
                                                           : AE_CALL_NONE;
}

/* The state after something became pending. */
static uint32_t
state_read(const struct avicemu_vcpu *vcpu)
{
    AE_STEP(wake_a);
    /*
     * ORD wake.A, kick.A: the pending bit, then the state. Partner: wake.B in
     * ae_halt_begin(), kick.B in ae_vcpu_enter(). If weaker: the owner scans
     * an empty IRR, we still see it outside, nobody calls, and it sleeps on a
     * pending vector. Test: race_wake, race_kick.
     */
    return ae_load_seqcst_u32(&vcpu->state);
}

/*
 * Who must be called? Claims the call, so the caller has to make it, at once:
 * until it is made, no other poster calls for this entry or block.
 */
static enum ae_call
call_claim(struct avicemu_vcpu *vcpu, unsigned level)
{
    uint32_t state = state_read(vcpu);
    enum ae_call call;

    while ((call = call_due(state, level)) != AE_CALL_NONE) {
        /* ORD wake.A, kick.A: claims the call; see state_read(). */
        if (call == AE_CALL_RING ||
            ae_cas_seqcst_u32(&vcpu->state, &state, state | AE_STATE_KICKED)) {
            AE_STEP(claimed);
            return call;
        }
    }
    return AE_CALL_NONE;
}

/* ---- one vCPU ----------------------------------------------------------- */

static void
owner_put(struct avicemu_vcpu *vcpu, uint32_t event)
{
    /* ORD expire.A, wake.A, kick.A: whatever is due, then the event, then (in
     * state_read()) the state. Partner: expire.B in ae_vcpu_look(). If weaker:
     * the owner takes the event and does not see why. Test: race_expire. */
    (void)ae_fetch_or_seqcst_u32(&vcpu->events, event);
    AE_STEP(expire_a);
}

enum ae_call
ae_deliver_owner(struct avicemu_vcpu *vcpu, uint32_t event)
{
    owner_put(vcpu, event);
    return call_claim(vcpu, AE_LEVEL_OWNER);
}

/* Make a vector pending; call nobody. *level: how urgent, 0: not at all. */
static enum avicemu_post
vector_put(struct avicemu_vcpu *vcpu, uint8_t vector,
           enum avicemu_trigger trigger, enum avicemu_drop *why,
           unsigned *level)
{
    bool error;
    enum avicemu_post result =
        ae_lapic_accept(&vcpu->lapic, vector, trigger, why, &error);

    *level = result == AVICEMU_POST_NEW ? 2 * ae_vector_class(vector) : 0;
    if (AE_UNLIKELY(error)) {
        owner_put(vcpu, AE_EV_ERROR);
        *level = AE_LEVEL_OWNER;
    }
    return result;
}

enum avicemu_post
ae_deliver_vector(struct avicemu_vcpu *vcpu, uint8_t vector,
                  enum avicemu_trigger trigger, enum avicemu_drop *why,
                  enum ae_call *call)
{
    unsigned level;
    enum avicemu_post result = vector_put(vcpu, vector, trigger, why, &level);

    *call = level != 0 ? call_claim(vcpu, level) : AE_CALL_NONE;
    return result;
}

void
ae_deliver_local_call(struct avicemu_vcpu *vcpu)
{
    /* Which vector it was is not known any more: as urgent as any of them. A
     * wake too many is found out by the sleeper. */
    ae_call(vcpu, call_claim(vcpu, AE_LEVEL_EXTINT - 1));
}

/* Of NMI, SMI, INIT, SIPI and EXTINT; by enum avicemu_delivery. */
static const uint8_t event_levels[8] = {
    [AVICEMU_DELIVERY_SMI] = AE_LEVEL_SMI,
    [AVICEMU_DELIVERY_NMI] = AE_LEVEL_NMI,
    [AVICEMU_DELIVERY_INIT] = AE_LEVEL_INIT,
    [AVICEMU_DELIVERY_SIPI] = AE_LEVEL_INIT,
    [AVICEMU_DELIVERY_EXTINT] = AE_LEVEL_EXTINT,
};

/* As vector_put(), for the modes that bypass the IRR. */
static enum avicemu_post
mode_put(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode, uint8_t vector,
         enum avicemu_drop *why, unsigned *level)
{
    /* [SDM3 10.4.3]: a disabled APIC is not addressed at all; [APM2 16.3.1]:
     * ExtINT is refused while software-disabled, too (16.5 says otherwise).
     * ORD none: a message that races with a disable comes before or after. */
    uint64_t ident = ae_load_relaxed_u64(&vcpu->lapic.ident);
    uint64_t need = mode == AVICEMU_DELIVERY_EXTINT
                        ? AE_IDENT_EN | AE_IDENT_SOFT
                        : AE_IDENT_EN;
    enum avicemu_post result = AVICEMU_POST_DROPPED;

    *why = AVICEMU_DROP_DISABLED;
    if ((ident & need) == need) {
        result = ae_event_put(vcpu, mode, vector, why);
    }
    *level = result == AVICEMU_POST_NEW ? event_levels[mode] : 0;
    return result;
}

enum avicemu_post
ae_deliver_mode(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
                uint8_t vector, enum avicemu_drop *why, enum ae_call *call)
{
    unsigned level;
    enum avicemu_post result = mode_put(vcpu, mode, vector, why, &level);

    *call = level != 0 ? call_claim(vcpu, level) : AE_CALL_NONE;
    return result;
}

enum avicemu_post
ae_deliver_lvt_events(struct avicemu_vcpu *vcpu, uint32_t events,
                      enum ae_source source)
{
    static const struct {
        uint32_t event;
        enum avicemu_delivery mode;
    } map[] = {
        { AE_EVENT_NMI, AVICEMU_DELIVERY_NMI },
        { AE_EVENT_SMI, AVICEMU_DELIVERY_SMI },
        { AE_EVENT_INIT, AVICEMU_DELIVERY_INIT },
        { AE_EVENT_EXTINT, AVICEMU_DELIVERY_EXTINT },
    };
    enum avicemu_post result = AVICEMU_POST_NEW;

    for (unsigned i = 0; i < AE_ARRAY_SIZE(map); i++) {
        enum avicemu_drop why;

        if ((events & map[i].event) == 0) {
            continue;
        }
        if (map[i].event == AE_EVENT_EXTINT && source == AE_SOURCE_LINT) {
            /* A level: nothing to latch, but somebody must look. */
            ae_call(vcpu, call_claim(vcpu, AE_LEVEL_EXTINT));
            continue;
        }
        result = ae_event_put(vcpu, map[i].mode, 0, &why);
        /* Claimed by the owner, a call would be taken from the next poster. */
        if (result == AVICEMU_POST_NEW && source != AE_SOURCE_OWNER) {
            ae_call(vcpu, call_claim(vcpu, event_levels[map[i].mode]));
        }
    }
    if ((events & AE_EVENT_ERROR) != 0) {
        ae_call(vcpu, ae_deliver_owner(vcpu, AE_EV_ERROR));
        result = AVICEMU_POST_DROPPED;
    }
    return result;
}

/* ---- calls to several ---------------------------------------------------- */

/*
 * A call may be due: pin the vCPU for it. It is claimed later, directly before
 * it is made, so that a slow callback to one vCPU of a multicast withholds no
 * other poster's call from the next. A doorbell word is rung at once.
 */
static void
calls_add(struct ae_calls *calls, struct avicemu_vcpu *vcpu, unsigned level)
{
    enum ae_call call =
        level != 0 ? call_due(state_read(vcpu), level) : AE_CALL_NONE;

    if (call == AE_CALL_NONE) {
        return;
    }
    calls->nr_due++;
    if (call == AE_CALL_RING) {
        ae_call(vcpu, call);
        return;
    }
    /* ORD pin.A: the pin, then the section's end. Partner: pin.B in
     * ae_vcpu_destroy(). If weaker: the vCPU is freed before the call.
     * Test: race_pin. */
    (void)ae_fetch_add_seqcst_u32(&vcpu->pins, 1);
    AE_STEP(pin_a);
    calls->at[calls->nr].vcpu = vcpu;
    calls->at[calls->nr].level = level;
    calls->nr++;
}

static void
calls_make(const struct ae_calls *calls)
{
    for (unsigned i = 0; i < calls->nr; i++) {
        struct avicemu_vcpu *vcpu = calls->at[i].vcpu;

        ae_call(vcpu, call_claim(vcpu, calls->at[i].level));
    }
}

static void
calls_unpin(struct ae_calls *calls)
{
    for (unsigned i = 0; i < calls->nr; i++) {
        /* ORD pin.A: the call, then the unpin. Partner: pin.B. If weaker:
         * destroy returns while the callback runs. Test: race_pin. */
        (void)ae_fetch_add_seqcst_u32(&calls->at[i].vcpu->pins, UINT32_MAX);
    }
    calls->nr = 0;
}

/*
 * The batch is full: leave the section, call, and enter again before the pins
 * go. A pinned vCPU keeps its VM, and then the section does.
 */
static void
calls_flush(struct ae_calls *calls)
{
    ae_rcu_leave();
    calls_make(calls);
    ae_rcu_enter();
    calls_unpin(calls);
}

void
ae_calls_add(struct ae_calls *calls, struct avicemu_vcpu *vcpu, unsigned level)
{
    calls_add(calls, vcpu, level);
    if (calls->nr == AE_CALLS_BATCH) {
        calls_flush(calls);
    }
}

void
ae_calls_end(struct ae_calls *calls)
{
    calls_make(calls);
    calls_unpin(calls);
}

/* How urgent is what stands in IRR; 0: nothing does. */
static unsigned
pending_level(const struct avicemu_vcpu *vcpu)
{
    int vector = ae_avic_requested(vcpu->lapic.page);

    return vector < 0 ? 0 : 2 * ae_vector_class((unsigned)vector);
}

void
ae_calls_pending(struct ae_calls *calls, struct avicemu_vcpu *vcpu)
{
    ae_calls_add(calls, vcpu, pending_level(vcpu));
}

bool
ae_deliver_pending(struct avicemu_vcpu *vcpu)
{
    unsigned level = pending_level(vcpu);
    enum ae_call call = level != 0 ? call_claim(vcpu, level) : AE_CALL_NONE;

    ae_call(vcpu, call);
    return call != AE_CALL_NONE;
}

unsigned
ae_calls_all(struct avicemu_vm *vm, unsigned level)
{
    struct ae_calls calls;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(&vm->map); idx++) {
        struct avicemu_vcpu *vcpu = ae_apicmap_at(&vm->map, idx);

        if (vcpu != NULL) {
            ae_calls_add(&calls, vcpu, level);
        }
    }
    ae_rcu_leave();
    ae_calls_end(&calls);
    return calls.nr_due;
}

/* ---- messages ----------------------------------------------------------- */

/* A message under way: the counts, and who is to be called. */
struct delivery {
    struct avicemu_vm *vm;
    struct avicemu_vcpu *sender;
    const struct ae_message *m;
    struct avicemu_posted *posted;
    bool reached; /* somebody matched */
    struct ae_calls *calls;
};

static bool
is_vectored(const struct ae_message *m)
{
    return m->mode == AVICEMU_DELIVERY_FIXED ||
           m->mode == AVICEMU_DELIVERY_LOWEST;
}

/* ORD none: only the sender's owner counts up. */
static void
book_ipi_to(struct ae_books *books, uint32_t target)
{
    ae_store_relaxed_u64(&books->ipi_new_to[target],
                         ae_load_relaxed_u64(&books->ipi_new_to[target]) + 1);
}

/*
 * With a target: in the section that found it. So behind the grace period of a
 * target that goes nobody counts under its index any more, and its books can
 * be closed (vcpu.c).
 */
void
ae_deliver_book(struct avicemu_vcpu *sender, const struct avicemu_vcpu *target,
                uint8_t vector, enum avicemu_post result)
{
    struct ae_books *books = sender->books;

    sender->stats.ipi_new += result == AVICEMU_POST_NEW;
    sender->stats.ipi_merged += result == AVICEMU_POST_MERGED;
    sender->stats.ipi_dropped += result == AVICEMU_POST_DROPPED;
    if (books == NULL || vector < AE_FIRST_LEGAL_VECTOR) {
        return;
    }
    books->ipi_new[vector] += result == AVICEMU_POST_NEW;
    books->ipi_merged[vector] += result == AVICEMU_POST_MERGED;
    books->ipi_dropped[vector] += result == AVICEMU_POST_DROPPED;
    if (target != NULL && result == AVICEMU_POST_NEW) {
        book_ipi_to(books, target->vcpu_idx);
    }
}

static void
posted_count(struct avicemu_posted *posted, enum avicemu_post result,
             enum avicemu_drop why)
{
    switch (result) {
    case AVICEMU_POST_NEW:
        posted->nr_new++;
        break;
    case AVICEMU_POST_MERGED:
        posted->nr_merged++;
        break;
    case AVICEMU_POST_DROPPED:
        posted->nr_dropped++;
        posted->why |= 1u << why;
        break;
    }
}

static void
count_result(struct delivery *d, const struct avicemu_vcpu *target,
             enum avicemu_post result, enum avicemu_drop why)
{
    posted_count(d->posted, result, why);
    if (d->sender != NULL) {
        ae_deliver_book(d->sender, target, is_vectored(d->m) ? d->m->vector : 0,
                        result);
    }
}

/* Make the message pending at a vCPU that matches. In the section. */
static enum avicemu_post
put_at(const struct delivery *d, struct avicemu_vcpu *vcpu,
       enum avicemu_drop *why, unsigned *level)
{
    if (is_vectored(d->m)) {
        return vector_put(vcpu, d->m->vector,
                          d->m->level ? AVICEMU_TRIGGER_LEVEL
                                      : AVICEMU_TRIGGER_EDGE,
                          why, level);
    }
    return mode_put(vcpu, (enum avicemu_delivery)d->m->mode, d->m->vector, why,
                    level);
}

void
ae_deliver_found(struct avicemu_vcpu *vcpu, uint8_t vector,
                 struct ae_calls *calls, struct avicemu_posted *posted)
{
    enum avicemu_drop why = AVICEMU_DROP_DISABLED;
    unsigned level;
    enum avicemu_post result =
        vector_put(vcpu, vector, AVICEMU_TRIGGER_EDGE, &why, &level);

    posted_count(posted, result, why);
    ae_calls_add(calls, vcpu, level);
}

static void
deliver_to(struct delivery *d, struct avicemu_vcpu *vcpu)
{
    enum avicemu_drop why = AVICEMU_DROP_DISABLED;
    unsigned level;
    enum avicemu_post result = put_at(d, vcpu, &why, &level);

    d->reached = true;
    count_result(d, vcpu, result, why);
    ae_calls_add(d->calls, vcpu, level);
}

static bool
concerns(const struct delivery *d, const struct avicemu_vcpu *vcpu)
{
    /* ORD ident.B: after the hint. Partner: ident.A in ae_lapic_publish(). If
     * weaker: see there. Test: race_ident. */
    uint64_t ident = ae_load_seqcst_u64(&vcpu->lapic.ident);

    switch ((enum ae_shorthand)d->m->shorthand) {
    case AE_DSH_ALL:
        return (ident & AE_IDENT_EN) != 0;
    case AE_DSH_OTHERS:
        return (ident & AE_IDENT_EN) != 0 && vcpu != d->sender;
    case AE_DSH_SELF:
        return vcpu == d->sender;
    case AE_DSH_NONE:
    default:
        return ae_dest_match(&d->vm->model, ident, d->m);
    }
}

/* By the map. false: it cannot tell; nothing was delivered. */
static bool
deliver_found(struct delivery *d)
{
    struct avicemu_vcpu *found[AE_MAP_MAX_FOUND];
    int nr = ae_apicmap_find(&d->vm->map, d->m, found);

    for (int i = 0; i < nr; i++) {
        if (!concerns(d, found[i])) {
            /* Younger than its slot, or of another mode: look at all. */
            return false;
        }
    }
    for (int i = 0; i < nr; i++) {
        deliver_to(d, found[i]);
    }
    return nr >= 0;
}

/* All vCPUs, in order of index. In the section, but for the calls. */
static void
deliver_scan(struct delivery *d)
{
    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(&d->vm->map); idx++) {
        struct avicemu_vcpu *vcpu = ae_apicmap_at(&d->vm->map, idx);

        if (vcpu != NULL && concerns(d, vcpu)) {
            deliver_to(d, vcpu);
        }
    }
}

/* The one of those that match who takes it now; NULL: nobody. */
static struct avicemu_vcpu *
arbitrate(struct delivery *d)
{
    struct ae_arbiter a;

    ae_arbiter_begin(&a, &d->vm->model, d->m->vector);
    do {
        uint32_t nr = ae_apicmap_nr_slots(&d->vm->map);

        for (uint32_t idx = 0; idx < nr; idx++) {
            struct avicemu_vcpu *vcpu = ae_apicmap_at(&d->vm->map, idx);

            if (vcpu != NULL && concerns(d, vcpu)) {
                d->reached = true;
                ae_arbiter_offer(&a, &vcpu->lapic, vcpu);
            }
        }
    } while (ae_arbiter_again(&a));
    return a.winner;
}

/*
 * To one of those that match. In the section. A winner that was disabled since
 * has not accepted it: then the others are asked, each at most once.
 */
static void
deliver_arbitrated(struct delivery *d)
{
    enum avicemu_drop why = AVICEMU_DROP_DISABLED;
    enum avicemu_post result = AVICEMU_POST_DROPPED;
    struct avicemu_vcpu *winner = arbitrate(d);
    unsigned level = 0;

    for (uint32_t i = 0; winner != NULL; i++) {
        result = put_at(d, winner, &why, &level);
        if (result != AVICEMU_POST_DROPPED || why != AVICEMU_DROP_DISABLED ||
            i == ae_apicmap_nr_slots(&d->vm->map)) {
            break;
        }
        winner = arbitrate(d);
    }
    if (d->reached) {
        count_result(d, winner, result, why);
    }
    if (winner != NULL) {
        ae_calls_add(d->calls, winner, level);
    }
}

static bool
arbitrates(const struct delivery *d)
{
    /* [KVM]: a physical broadcast of lowest priority goes to all. */
    return d->m->arbitrate &&
           !(d->vm->model.traits->broadcast_lowest_is_fixed &&
             d->m->shorthand == AE_DSH_NONE && !d->m->logical &&
             d->m->dest == AE_XAPIC_BROADCAST);
}

void
ae_deliver_message_in(struct avicemu_vm *vm, struct avicemu_vcpu *sender,
                      const struct ae_message *m, struct ae_calls *calls,
                      struct avicemu_posted *posted)
{
    struct delivery d = {
        .vm = vm,
        .sender = sender,
        .m = m,
        .posted = posted,
        .reached = false,
        .calls = calls,
    };

    if (m->shorthand == AE_DSH_SELF) {
        deliver_to(&d, sender);
    } else if (arbitrates(&d)) {
        deliver_arbitrated(&d);
    } else if (!deliver_found(&d)) {
        deliver_scan(&d);
    }
    if (!d.reached) {
        count_result(&d, NULL, AVICEMU_POST_DROPPED, AVICEMU_DROP_NO_TARGET);
    }
}

void
ae_deliver_message(struct avicemu_vm *vm, struct avicemu_vcpu *sender,
                   const struct ae_message *m, struct avicemu_posted *posted)
{
    struct ae_calls calls;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    ae_deliver_message_in(vm, sender, m, &calls, posted);
    ae_rcu_leave();
    ae_calls_end(&calls);
}
