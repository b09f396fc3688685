/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IRQ bypass: a producer (a device's interrupt) and a consumer (an irqfd) that
 * name the same token are connected, one to one. [KVM irqbypass]
 *
 *   connected, route postable      the entry posts to the one vCPU
 *   connected, not postable        remapped; software injects by the route
 *   producer alone                 remapped, to the host
 *   consumer alone                 only who signals it raises its GSI
 *
 * Postable: an MSI, fixed or lowest priority, edge-triggered, a legal vector,
 * exactly one vCPU that matches. Else its mode or its choice of a target would
 * be lost. Whether AVIC is active there is the vCPU's matter (posting.c).
 *
 * Re-evaluated when the route changes or a side comes or goes. Not when a
 * vCPU's APIC id does: a guest that moves one re-programs its devices ([KVM]
 * does the same).
 *
 * Invariants, under the posting lock
 *   irqfd.irq = irq  <=>  irq.irqfd = irqfd, and both tokens are equal
 *   a token has at most one producer and one consumer
 *   a producer's target is a vCPU of its irqfd's VM
 *
 * All wait for interrupts under way, but for signal, which is lock-free.
 */

#include "hv/bypass.h"

#include <errno.h>

#include "base/rcu.h"
#include "hw/dest.h"

struct ae_bypass {
    struct ae_bypass *next;
    struct ae_irq *irq;
    const void *token;
};

/* ---- is a route postable? ----------------------------------------------- */

/* The only vCPU that a message concerns; NULL: none, or several. In a section.
 */
static struct avicemu_vcpu *
only_target(const struct avicemu_vm *vm, const struct ae_message *m)
{
    struct avicemu_vcpu *only = NULL;

    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(&vm->map); idx++) {
        struct avicemu_vcpu *vcpu = ae_apicmap_at(&vm->map, idx);

        /* ORD ident.B: after the map. Partner: ident.A in ae_lapic_publish().
         * If weaker: an id of before. Test: race_ident. */
        if (vcpu == NULL ||
            !ae_dest_match(&vm->model, ae_load_seqcst_u64(&vcpu->lapic.ident),
                           m)) {
            continue;
        }
        if (only != NULL) {
            return NULL;
        }
        only = vcpu;
    }
    return only;
}

/* Where a route's interrupts may be posted. vcpu NULL: nowhere. */
static struct ae_target
postable(const struct avicemu_vm *vm, const struct ae_route *route)
{
    struct ae_target target = { NULL, 0 };
    struct avicemu_posted ignored = { .why = 0 };
    struct ae_message m;

    if (!route->valid ||
        !ae_vm_msi_decode(vm, route->address, route->data, &m, &ignored) ||
        m.level || m.vector < AE_FIRST_LEGAL_VECTOR ||
        (m.mode != AVICEMU_DELIVERY_FIXED &&
         m.mode != AVICEMU_DELIVERY_LOWEST)) {
        return target;
    }
    ae_rcu_enter();
    target.vcpu = only_target(vm, &m);
    /* One that closes has had its entries taken, and gets none. */
    if (target.vcpu != NULL && target.vcpu->posting.closed) {
        target.vcpu = NULL;
    }
    ae_rcu_leave();
    target.vector = m.vector;
    return target;
}

/* ---- connections: under the posting lock -------------------------------- */

/* Its entry as the route has it. A vCPU that was found is not freed before the
 * lock is given back. */
static void
irqfd_follow(struct avicemu_irqfd *irqfd)
{
    const struct ae_route route = ae_route_get(irqfd->vm, irqfd->gsi);
    struct ae_target to = postable(irqfd->vm, &route);
    const struct ae_target *was = ae_irq_target(irqfd->irq);

    if (was == NULL ? to.vcpu != NULL
                    : was->vcpu != to.vcpu || was->vector != to.vector) {
        ae_iommu_move_locked(irqfd->irq, to.vcpu, to.vector);
    }
}

static void
connect(struct avicemu_irqfd *irqfd, struct ae_irq *irq)
{
    irqfd->irq = irq;
    /* ORD vcpu.A: the irqfd, then its pointer. Partner: vcpu.B in
     * ae_irq_consumer(). If weaker: half of one. Test: race_posting. */
    ae_store_release_ptr(&irq->irqfd, irqfd);
    irqfd_follow(irqfd);
}

/* The entry goes back to the host, and no interrupt has the irqfd. */
static void
disconnect(struct avicemu_irqfd *irqfd)
{
    struct ae_irq *irq = irqfd->irq;

    if (irq == NULL) {
        return;
    }
    if (ae_irq_target(irq) != NULL) {
        ae_iommu_move_locked(irq, NULL, 0);
    }
    irqfd->irq = NULL;
    /* ORD vcpu.A: no pointer, then the grace period. As connect(). */
    ae_store_release_ptr(&irq->irqfd, NULL);
    ae_rcu_synchronize();
}

static struct avicemu_irqfd *
consumer_of(const struct avicemu_host *host, const void *token)
{
    struct avicemu_irqfd *irqfd = host->irqfds;

    while (irqfd != NULL && irqfd->token != token) {
        irqfd = irqfd->next;
    }
    return token != NULL ? irqfd : NULL;
}

static struct ae_bypass *
producer_of(const struct avicemu_host *host, const void *token)
{
    struct ae_bypass *b = host->bypasses;

    while (b != NULL && b->token != token) {
        b = b->next;
    }
    return token != NULL ? b : NULL;
}

/* ---- consumers ---------------------------------------------------------- */

static int
create_locked(struct avicemu_irqfd *irqfd)
{
    struct avicemu_host *host = irqfd->vm->host;
    struct ae_bypass *producer = producer_of(host, irqfd->token);

    if (consumer_of(host, irqfd->token) != NULL) {
        return -EEXIST;
    }
    irqfd->next = host->irqfds;
    host->irqfds = irqfd;
    irqfd->vm->nr_irqfds++;
    if (producer != NULL) {
        connect(irqfd, producer->irq);
    }
    return 0;
}

int
ae_irqfd_create(struct avicemu_vm *vm, uint32_t gsi, const void *token,
                struct avicemu_irqfd **ret)
{
    struct avicemu_host *host = vm->host;
    int r;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    struct avicemu_irqfd *irqfd =
        ae_alloc(&host->allocator, AE_CACHE_LINE, sizeof(*irqfd));

    if (irqfd == NULL) {
        return -ENOMEM;
    }
    irqfd->vm = vm;
    irqfd->gsi = gsi;
    irqfd->token = token;
    ae_lock(&host->posting_lock);
    r = create_locked(irqfd);
    ae_unlock(&host->posting_lock);
    if (r != 0) {
        ae_free(&host->allocator, irqfd, sizeof(*irqfd));
        return r;
    }
    *ret = irqfd;
    return 0;
}

int
ae_irqfd_destroy(struct avicemu_irqfd *irqfd)
{
    struct avicemu_host *host = irqfd->vm->host;
    struct avicemu_irqfd **link = &host->irqfds;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    ae_lock(&host->posting_lock);
    disconnect(irqfd);
    while (*link != irqfd) {
        link = &(*link)->next;
    }
    *link = irqfd->next;
    irqfd->vm->nr_irqfds--;
    ae_unlock(&host->posting_lock);
    ae_free(&host->allocator, irqfd, sizeof(*irqfd));
    return 0;
}

/* ---- producers ---------------------------------------------------------- */

static int
add_locked(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index,
           struct ae_bypass *b)
{
    struct avicemu_host *host = iommu->host;
    struct ae_irq *irq = ae_iommu_irq(iommu, device_id, index);
    struct avicemu_irqfd *consumer = consumer_of(host, b->token);

    if (irq == NULL) {
        return -ENOENT;
    }
    if (irq->bypass != NULL || producer_of(host, b->token) != NULL) {
        return -EEXIST;
    }
    if (ae_irq_target(irq) != NULL) {
        return -EBUSY;
    }
    b->irq = irq;
    b->next = host->bypasses;
    host->bypasses = b;
    irq->bypass = b;
    /* Remapped, if not posted at once: it may have been not present. */
    ae_iommu_move_locked(irq, NULL, 0);
    if (consumer != NULL) {
        connect(consumer, irq);
    }
    return 0;
}

int
ae_bypass_add(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index,
              const void *token)
{
    struct avicemu_host *host = iommu->host;
    int r;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    struct ae_bypass *b = ae_alloc(&host->allocator, AE_CACHE_LINE, sizeof(*b));

    if (b == NULL) {
        return -ENOMEM;
    }
    b->token = token;
    ae_lock(&host->posting_lock);
    r = add_locked(iommu, device_id, index, b);
    ae_unlock(&host->posting_lock);
    if (r != 0) {
        ae_free(&host->allocator, b, sizeof(*b));
    }
    return r;
}

static struct ae_bypass *
remove_locked(struct avicemu_iommu *iommu, uint16_t device_id, uint32_t index)
{
    struct avicemu_host *host = iommu->host;
    struct ae_irq *irq = ae_iommu_irq(iommu, device_id, index);
    struct ae_bypass **link = &host->bypasses;
    struct ae_bypass *b = irq != NULL ? irq->bypass : NULL;

    if (b == NULL) {
        return NULL;
    }
    struct avicemu_irqfd *consumer = consumer_of(host, b->token);

    if (consumer != NULL) {
        disconnect(consumer);
    }
    while (*link != b) {
        link = &(*link)->next;
    }
    *link = b->next;
    irq->bypass = NULL;
    return b;
}

int
ae_bypass_remove(struct avicemu_iommu *iommu, uint16_t device_id,
                 uint32_t index)
{
    struct avicemu_host *host = iommu->host;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    ae_lock(&host->posting_lock);
    struct ae_bypass *b = remove_locked(iommu, device_id, index);

    ae_unlock(&host->posting_lock);
    ae_free(&host->allocator, b, sizeof(*b));
    return b != NULL ? 0 : -ENOENT;
}

/* ---- routes ------------------------------------------------------------- */

static bool
same_route(struct ae_route a, struct ae_route b)
{
    return a.valid == b.valid &&
           (!a.valid || (a.address == b.address && a.data == b.data));
}

int
ae_bypass_set_routes(struct avicemu_vm *vm,
                     const struct avicemu_msi_route *routes, uint32_t nr)
{
    struct avicemu_host *host = vm->host;
    struct ae_routes *made;
    int r;

    if (ae_in_callback()) {
        return -EBUSY;
    }
    r = ae_routes_make(vm, routes, nr, &made);
    if (r != 0) {
        return r;
    }
    ae_lock(&host->posting_lock);
    struct ae_routes *was = ae_routes_swap(vm, made);

    for (struct avicemu_irqfd *i = host->irqfds; i != NULL; i = i->next) {
        if (i->vm == vm && i->irq != NULL &&
            !same_route(ae_route_in(was, i->gsi), ae_route_in(made, i->gsi))) {
            irqfd_follow(i);
        }
    }
    ae_unlock(&host->posting_lock);
    ae_rcu_synchronize();
    ae_routes_drop(vm, was);
    return 0;
}

/* ---- signals ------------------------------------------------------------ */

/* In a section; the calls that are due are the caller's. */
static int
signal_in(struct avicemu_vm *vm, uint32_t gsi, struct ae_calls *calls,
          struct avicemu_posted *posted)
{
    const struct ae_route route = ae_route_get(vm, gsi);
    struct ae_message m;

    if (!route.valid) {
        return -ENOENT;
    }
    if (ae_vm_msi_decode(vm, route.address, route.data, &m, posted)) {
        ae_deliver_message_in(vm, NULL, &m, calls, posted);
    }
    return 0;
}

int
ae_gsi_signal(struct avicemu_vm *vm, uint32_t gsi,
              struct avicemu_posted *posted)
{
    struct ae_calls calls;

    ae_calls_begin(&calls);
    ae_rcu_enter();
    int r = signal_in(vm, gsi, &calls, posted);

    ae_rcu_leave();
    ae_calls_end(&calls);
    return r;
}

bool
ae_irqfd_inject(const struct ae_irq *irq, struct ae_calls *calls,
                struct avicemu_posted *posted)
{
    /* ORD vcpu.B: the pointer, then the irqfd. Partner: vcpu.A in connect(). If
     * weaker: see there. Test: race_posting. */
    const struct avicemu_irqfd *irqfd = ae_load_acquire_ptr(&irq->irqfd);

    if (irqfd == NULL) {
        return false;
    }
    if (signal_in(irqfd->vm, irqfd->gsi, calls, posted) != 0) {
        /* As a masked MSI-X entry: signalled, and routed nowhere. */
        posted->nr_dropped++;
        posted->why |= 1u << AVICEMU_DROP_MASKED;
    }
    return true;
}
