/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A VM: configuration checked once, MSIs decoded, invariants stated.
 *
 * MSI format [APM2 16.5 interrupt messages], [SDM3 10.11], extended ids as
 * [KVM] KVM_X2APIC_API_USE_32BIT_IDS:
 *
 *   address  31:20 FEEh  19:12 dest[7:0]  3 redirection hint  2 logical
 *            63:40 dest[31:8]  39:32 must be 0
 *   data     7:0 vector  10:8 delivery mode  14 assert  15 level
 *
 * create and destroy may wait; an MSI is lock-free.
 */

#include "hv/vm.h"

#include <errno.h>

#include "base/rcu.h"
#include "base/text.h"
#include "hv/routing.h"
#include "hv/tables.h"
#include "hw/dest.h"

/* ---- life --------------------------------------------------------------- */

static int
config_wrong(const struct ae_log *log, const char *what, uint64_t value)
{
    return ae_log_setting(log, "vm", what, value);
}

static int
config_check(const struct avicemu_host *host,
             const struct avicemu_vm_config *config, const struct ae_log *log)
{
    const uint32_t flags =
        AVICEMU_VM_BOOKS | AVICEMU_VM_AVIC | AVICEMU_VM_NO_IPIV;

    if ((config->flags & ~flags) != 0) {
        return config_wrong(log, "flags: AVICEMU_VM_* only", config->flags);
    }
    if ((config->flags & AVICEMU_VM_AVIC) != 0 &&
        (host->avic & AVICEMU_HOST_AVIC) == 0) {
        return config_wrong(log, "flags: AVICEMU_VM_AVIC needs a host with it",
                            config->flags);
    }
    if ((config->parts & ~AVICEMU_PART_LAPIC) != 0) {
        return config_wrong(log, "parts: AVICEMU_PART_* only", config->parts);
    }
    if (config->max_vcpus > 4096) {
        return config_wrong(log, "max_vcpus: 1..4096", config->max_vcpus);
    }
    if ((config->flags & AVICEMU_VM_AVIC) != 0 &&
        config->max_vcpus > ae_tag_max_vcpus(host->vm_ids.layout)) {
        return config_wrong(log, "max_vcpus: more than the host's GA tags name",
                            config->max_vcpus);
    }
    if (config->bsp_apic_id == AE_X2APIC_BROADCAST) {
        return config_wrong(log, "bsp_apic_id: 0..FFFFFFFEh",
                            config->bsp_apic_id);
    }
    if (config->ops.now == NULL) {
        return config_wrong(log, "ops.now: required", 0);
    }
    return 0;
}

static void
id_put(struct avicemu_vm *vm)
{
    if (vm->vm_id != 0) {
        ae_vmid_put(&vm->host->vm_ids, vm->vm_id);
    }
}

int
ae_vm_create(struct avicemu_host *host, const struct avicemu_vm_config *config,
             struct avicemu_vm **ret)
{
    struct ae_log log = {
        .fn = config->ops.log,
        .opaque = config->opaque,
        .level = config->log_level,
    };
    int r = config_check(host, config, &log);

    if (r != 0) {
        return r;
    }
    struct avicemu_vm *vm =
        ae_alloc(&host->allocator, AE_CACHE_LINE, sizeof(*vm));

    if (vm == NULL) {
        return -ENOMEM;
    }
    uint64_t value;
    const char *wrong = ae_lapic_model_init(&vm->model, &config->lapic, &value);

    if (wrong != NULL) {
        r = config_wrong(&log, wrong, value);
        goto fail;
    }
    vm->host = host;
    vm->ops = config->ops;
    vm->opaque = config->opaque;
    vm->log = log;
    vm->flags = config->flags;
    vm->bsp_apic_id = config->bsp_apic_id;
    vm->map.msi_ff_broadcast = vm->model.traits->msi_ff_broadcast;
    vm->map.books = (vm->flags & AVICEMU_VM_BOOKS) != 0;
    if ((vm->flags & AVICEMU_VM_AVIC) != 0) {
        r = ae_tables_create(vm, config, &vm->tables);
        if (r == 0) {
            r = ae_vmid_get(&host->vm_ids, &vm->vm_id);
        }
        if (r != 0) {
            goto fail;
        }
    }
    vm->map.tables = vm->tables;
    r = ae_apicmap_init(&vm->map, &host->allocator,
                        config->max_vcpus != 0 ? config->max_vcpus : 255);
    if (r != 0) {
        goto fail;
    }
    /* ORD none: a count for avicemu_host_destroy(). */
    (void)ae_fetch_add_relaxed_u32(&host->nr_vms, 1);
    *ret = vm;
    return 0;

fail:
    id_put(vm);
    ae_tables_destroy(vm->tables);
    ae_free(&host->allocator, vm, sizeof(*vm));
    return r;
}

int
ae_vm_destroy(struct avicemu_vm *vm)
{
    struct avicemu_host *host = vm->host;

    /* ORD pin.B: the last vCPU's memory is given back, then the VM goes.
     * Partner: ae_vcpu_destroy(). If weaker: see there. Test: race_pin. */
    if (ae_load_seqcst_u32(&vm->nr_alive) != 0 || ae_in_callback() ||
        vm->nr_irqfds != 0) {
        return -EBUSY;
    }
    /* Messages that found no vCPU may still read the map, and the routes. */
    ae_rcu_synchronize();
    ae_routes_free(vm);
    id_put(vm);
    ae_apicmap_fini(&vm->map, &host->allocator);
    ae_tables_destroy(vm->tables);
    ae_free(&host->allocator, vm, sizeof(*vm));
    /* ORD none: as in ae_vm_create(). */
    (void)ae_fetch_add_relaxed_u32(&host->nr_vms, UINT32_MAX);
    return 0;
}

/* ---- MSI ---------------------------------------------------------------- */

static void
msi_drop(struct avicemu_posted *posted, enum avicemu_drop why)
{
    posted->nr_dropped++;
    posted->why |= 1u << why;
}

bool
ae_vm_msi_decode(const struct avicemu_vm *vm, uint64_t address, uint32_t data,
                 struct ae_message *m, struct avicemu_posted *posted)
{
    ae_message_decode(address, data, m);
    bool vectored =
        m->mode == AVICEMU_DELIVERY_FIXED || m->mode == AVICEMU_DELIVERY_LOWEST;

    if (AE_GET(address, MSI_ADDRESS_WINDOW) != AE_MSI_WINDOW ||
        (address >> 32 & 0xffu) != 0) {
        msi_drop(posted, AVICEMU_DROP_ADDRESS);
        return false;
    }
    /* A start-up IPI is no device's; [KVM] passes it on. */
    if (m->mode == AVICEMU_DELIVERY_REMOTE_READ ||
        (m->mode == AVICEMU_DELIVERY_SIPI && !vm->model.traits->msi_sipi)) {
        msi_drop(posted, AVICEMU_DROP_MODE);
        return false;
    }
    if (m->level && (data & AE_MASK64(MSI_DATA_ASSERT)) == 0 &&
        (vectored || m->mode == AVICEMU_DELIVERY_INIT)) {
        msi_drop(posted, AVICEMU_DROP_DEASSERT);
        return false;
    }
    return true;
}

void
ae_vm_msi(struct avicemu_vm *vm, uint64_t address, uint32_t data,
          struct avicemu_posted *posted)
{
    struct ae_message m;

    if (ae_vm_msi_decode(vm, address, data, &m, posted)) {
        ae_deliver_message(vm, NULL, &m, posted);
    }
}

/* ---- invariants --------------------------------------------------------- */

struct report {
    struct ae_text text;
    uint32_t nr;
};

static void
violation(struct report *r, const struct avicemu_vcpu *vcpu, const char *what,
          uint32_t got, uint32_t want)
{
    if (r->nr++ == 0) {
        ae_text_add(&r->text, "vcpu %u (id %xh): %s: %xh, not %xh",
                    vcpu->vcpu_idx, vcpu->lapic.initial_id, what, got, want);
    }
}

static void
check_registers(struct report *r, struct avicemu_vcpu *vcpu)
{
    void *page = vcpu->lapic.page;
    uint32_t ppr = ae_vapic_ppr(ae_vapic_read(page, LAPIC_TPR),
                                ae_vapic_highest(page, LAPIC_ISR));

    if (ae_vapic_read(page, LAPIC_PPR) != ppr) {
        violation(r, vcpu, "PPR = f(TPR, ISR)", ae_vapic_read(page, LAPIC_PPR),
                  ppr);
    }
    if ((ae_vapic_read(page, LAPIC_IRR) & 0xffffu) != 0) {
        violation(r, vcpu, "IRR below vector 16",
                  ae_vapic_read(page, LAPIC_IRR), 0);
    }
    if ((ae_vapic_read(page, LAPIC_ISR) & 0xffffu) != 0) {
        violation(r, vcpu, "ISR below vector 16",
                  ae_vapic_read(page, LAPIC_ISR), 0);
    }
    if (ae_lapic_x2(&vcpu->lapic) &&
        ae_vapic_read(page, LAPIC_LDR) != ae_x2apic_ldr(vcpu->lapic.x2_id)) {
        violation(r, vcpu, "x2APIC LDR", ae_vapic_read(page, LAPIC_LDR),
                  ae_x2apic_ldr(vcpu->lapic.x2_id));
    }
}

/* A physical message to the id must find it. */
static void
check_map(struct report *r, struct avicemu_vm *vm, struct avicemu_vcpu *vcpu)
{
    struct avicemu_vcpu *by_id =
        ae_apicmap_by_id(&vm->map, vcpu->lapic.initial_id);
    uint32_t idx = by_id != NULL ? by_id->vcpu_idx : UINT32_MAX;

    if (by_id != vcpu) {
        violation(r, vcpu, "map entry of its id", idx, vcpu->vcpu_idx);
    }
}

/* What it took, by the books and by the counters. */
static void
check_taken(struct report *r, const struct avicemu_vcpu *vcpu)
{
    uint64_t taken = vcpu->stats.injected + vcpu->stats.cleared;
    uint64_t sum = 0;

    for (uint32_t v = 0; v < AE_NR_VECTORS; v++) {
        sum += vcpu->books->acked[v] + vcpu->books->cleared[v];
    }
    if (sum != taken) {
        violation(r, vcpu, "vectors taken, by the books", (uint32_t)sum,
                  (uint32_t)taken);
    }
}

/* What it sent, by vector and by target. */
static void
check_sent(struct report *r, const struct avicemu_vm *vm,
           const struct avicemu_vcpu *vcpu)
{
    uint64_t sum = 0;
    /* ORD none: nobody is at work. */
    uint64_t to = ae_load_relaxed_u64(&vcpu->books->ipi_new_to_gone);

    for (uint32_t v = 0; v < AE_NR_VECTORS; v++) {
        sum += vcpu->books->ipi_new[v];
    }
    for (uint32_t idx = 0; idx < vm->map.max_vcpus; idx++) {
        /* ORD none: as above. */
        to += ae_load_relaxed_u64(&vcpu->books->ipi_new_to[idx]);
    }
    if (sum != to) {
        violation(r, vcpu, "IPIs by vector against by target", (uint32_t)sum,
                  (uint32_t)to);
    }
}

/* What senders say they made pending cannot be more than what it took and
 * has. */
static void
check_received(struct report *r, const struct avicemu_vm *vm,
               struct avicemu_vcpu *vcpu)
{
    uint64_t had = vcpu->stats.injected + vcpu->stats.cleared;
    /* ORD none: nobody is at work. */
    uint64_t sent = ae_load_relaxed_u64(&vcpu->books->ipi_new_from_gone);

    for (uint32_t i = 0; i < AE_VECTOR_WORDS; i++) {
        had += (uint32_t)__builtin_popcount(
            ae_vapic_read(vcpu->lapic.page, LAPIC_IRR + (i << 4)));
    }
    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(&vm->map); idx++) {
        const struct avicemu_vcpu *sender = ae_apicmap_at(&vm->map, idx);

        if (sender != NULL) {
            /* ORD none: as above. */
            sent +=
                ae_load_relaxed_u64(&sender->books->ipi_new_to[vcpu->vcpu_idx]);
        }
    }
    if (sent > had) {
        violation(r, vcpu, "IPIs to it against what it took and has",
                  (uint32_t)sent, (uint32_t)had);
    }
}

uint32_t
ae_vm_check(struct avicemu_vm *vm, char *buf, size_t len)
{
    struct report r = { .text = ae_text_begin(buf, len), .nr = 0 };

    ae_rcu_enter();
    for (uint32_t idx = 0; idx < ae_apicmap_nr_slots(&vm->map); idx++) {
        struct avicemu_vcpu *vcpu = ae_apicmap_at(&vm->map, idx);

        if (vcpu != NULL) {
            check_registers(&r, vcpu);
            check_map(&r, vm, vcpu);
        }
        if (vcpu != NULL && vcpu->books != NULL) {
            check_taken(&r, vcpu);
            check_sent(&r, vm, vcpu);
            check_received(&r, vm, vcpu);
        }
    }
    ae_rcu_leave();
    return r.nr;
}
