/* SPDX-License-Identifier: BSD-2-Clause */

#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
on_ga(void *opaque, struct avicemu_iommu *iommu)
{
    struct rig *rig = opaque;

    (void)iommu;
    (void)atomic_fetch_add(&rig->ga_interrupts, 1);
}

static void
on_event(void *opaque, struct avicemu_iommu *iommu)
{
    struct rig *rig = opaque;

    (void)iommu;
    (void)atomic_fetch_add(&rig->event_interrupts, 1);
}

static void
on_host(void *opaque, struct avicemu_iommu *iommu, uint16_t device_id,
        uint32_t index)
{
    struct rig *rig = opaque;

    (void)iommu;
    rig->host_index = (uint32_t)device_id << 16 | index;
    (void)atomic_fetch_add(&rig->host_interrupts, 1);
}

struct rig *
rig_open(const struct rig_setup *setup)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct avicemu_vm_config config = { .size = sizeof(config) };
    struct avicemu_host_config host = { .size = sizeof(host),
                                        .avic = setup->avic,
                                        .doorbells = setup->doorbells,
                                        .nr_pcpus = setup->nr_pcpus,
                                        .ops = { .ga_interrupt = on_ga,
                                                 .event_interrupt = on_event,
                                                 .host_interrupt = on_host },
                                        .opaque = rig };

    assert_non_null(rig);
    fake_vmm_init(&rig->vmm);
    fake_vmm_config(&rig->vmm, &config);
    rig->fake = rig->vmm.vcpus;
    if (setup->eoi != NULL) {
        config.ops.eoi = setup->eoi;
    }
    config.lapic = setup->lapic;
    config.flags = AVICEMU_VM_BOOKS | setup->flags |
                   (setup->avic != 0 ? AVICEMU_VM_AVIC : 0);
    config.max_apic_id = setup->max_apic_id;
    rig->loads = setup->avic != 0 && !setup->unloaded;
    config.bsp_apic_id = setup->nr_ids != 0 ? setup->ids[0] : 0;
    config.max_vcpus = FAKE_MAX_VCPUS;
    config.log_level = AVICEMU_LOG_DEBUG;
    assert_int_equal(avicemu_host_create(&host, &rig->host), 0);
    assert_int_equal(avicemu_vm_create(rig->host, &config, &rig->vm), 0);
    for (uint32_t i = 0; i < (setup->nr_vcpus ? setup->nr_vcpus : 1); i++) {
        uint32_t id = i < setup->nr_ids ? setup->ids[i] : i;

        if (!setup->as_created) {
            (void)rig_add(rig, id);
            continue;
        }
        assert_int_equal(
            avicemu_vcpu_create(rig->vm, id, &rig->fake[i], &rig->v[i]), 0);
        rig->nr_vcpus++;
    }
    return rig;
}

uint32_t
rig_add(struct rig *rig, uint32_t apic_id)
{
    uint32_t i = rig->nr_vcpus++;

    assert_true(i < FAKE_MAX_VCPUS);
    assert_int_equal(
        avicemu_vcpu_create(rig->vm, apic_id, &rig->fake[i], &rig->v[i]), 0);
    if (rig_view(rig->v[i]).wait_for_sipi) {
        assert_int_equal(
            avicemu_post_mode(rig->v[i], AVICEMU_DELIVERY_SIPI, 0x10), NEW);
        assert_int_equal(rig_run(rig, i, 0), AVICEMU_DO_SIPI);
    }
    if (rig_view(rig->v[i]).mode == AVICEMU_APIC_XAPIC) {
        reg_w(rig->v[i], R_SVR, 0x1ff);
    }
    if (rig->loads) {
        assert_int_equal(avicemu_vcpu_load(rig->v[i], i), 0);
    }
    if (avicemu_vcpu_vmcb(rig->v[i]) != NULL) {
        (void)rig_enter(rig, i, 0); /* AVIC goes on at the first entry */
        rig_exit(rig, i, 0);
        assert_int_equal(rig_avic(rig, i) == AVICEMU_AVIC_OFF,
                         avicemu_vm_inhibits(rig->vm) != 0);
    }
    return i;
}

void
rig_close(struct rig *rig)
{
    rig_check(rig);
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        assert_int_equal(avicemu_vcpu_destroy(rig->v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(rig->vm), 0);
    assert_int_equal(avicemu_host_destroy(rig->host), 0);
    free(rig);
}

int
rig_setup(void **state)
{
    *state = rig_open(*state);
    return 0;
}

int
rig_teardown(void **state)
{
    rig_close(*state);
    return 0;
}

/* ---- registers ---------------------------------------------------------- */

enum avicemu_access
reg_try(struct avicemu_vcpu *v, uint32_t offset, uint64_t value)
{
    struct avicemu_vcpu_view view = rig_view(v);
    uint8_t bytes[4];

    if (view.mode == AVICEMU_APIC_X2APIC) {
        return avicemu_msr_write(v, MSR_X2APIC + offset / 16, value);
    }
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    return avicemu_mmio_write(v, (view.apic_base & ~0xfffull) + offset, 4,
                              bytes);
}

void
reg_w(struct avicemu_vcpu *v, uint32_t offset, uint64_t value)
{
    assert_int_equal(reg_try(v, offset, value), DONE);
}

uint32_t
reg_r(struct avicemu_vcpu *v, uint32_t offset)
{
    struct avicemu_vcpu_view view = rig_view(v);
    uint8_t b[4];

    if (view.mode == AVICEMU_APIC_X2APIC) {
        return (uint32_t)msr_r(v, MSR_X2APIC + offset / 16);
    }
    assert_int_equal(
        avicemu_mmio_read(v, (view.apic_base & ~0xfffull) + offset, 4, b),
        DONE);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
           (uint32_t)b[3] << 24;
}

uint32_t
reg_peek(struct avicemu_vcpu *v, uint32_t offset)
{
    uint32_t value = 0;

    assert_int_equal(avicemu_vcpu_peek(v, offset, &value), 0);
    return value;
}

void
msr_w(struct avicemu_vcpu *v, uint32_t msr, uint64_t value)
{
    assert_int_equal(avicemu_msr_write(v, msr, value), DONE);
}

uint64_t
msr_r(struct avicemu_vcpu *v, uint32_t msr)
{
    uint64_t value = 0;

    assert_int_equal(avicemu_msr_read(v, msr, &value), DONE);
    return value;
}

int
vec_bit(struct avicemu_vcpu *v, uint32_t map, uint8_t vector)
{
    return (int)(reg_peek(v, map + 0x10u * (vector >> 5)) >> (vector & 31) & 1);
}

void
to_x2apic(struct avicemu_vcpu *v)
{
    msr_w(v, MSR_APIC_BASE, msr_r(v, MSR_APIC_BASE) | BASE_EN | BASE_EXTD);
}

void
hw_disable(struct avicemu_vcpu *v)
{
    msr_w(v, MSR_APIC_BASE,
          msr_r(v, MSR_APIC_BASE) & ~(uint64_t)(BASE_EN | BASE_EXTD));
}

void
hw_enable(struct avicemu_vcpu *v)
{
    msr_w(v, MSR_APIC_BASE, msr_r(v, MSR_APIC_BASE) | BASE_EN);
}

void
icr_send(struct avicemu_vcpu *v, uint32_t dest, uint32_t low)
{
    if (rig_view(v).mode == AVICEMU_APIC_X2APIC) {
        reg_w(v, R_ICR, (uint64_t)dest << 32 | low);
        return;
    }
    reg_w(v, R_ICR2, dest << 24);
    reg_w(v, R_ICR, low);
}

void
rig_time(struct rig *rig, uint64_t ticks)
{
    rig->vmm.now += ticks;
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        if (avicemu_vcpu_deadline(rig->v[i]) <= rig->vmm.now) {
            assert_int_equal(avicemu_vcpu_expire(rig->v[i]), 0);
        }
    }
}

/* ---- the run loop ------------------------------------------------------- */

/* ---- AVIC --------------------------------------------------------------- */

uint64_t
rig_vmcb(struct avicemu_vcpu *v, uint32_t offset)
{
    const unsigned char *vmcb = avicemu_vcpu_vmcb(v);
    uint64_t value;

    assert_non_null(vmcb);
    memcpy(&value, vmcb + offset, sizeof(value));
    return value;
}

/* The library's tables are at the host's own addresses. */
static const unsigned char *
table_at(struct avicemu_vcpu *v, uint32_t pointer)
{
    return (const unsigned char *)(uintptr_t)(rig_vmcb(v, pointer) & ~0xfffull);
}

uint64_t
rig_physical(struct avicemu_vcpu *v, uint32_t id)
{
    uint64_t entry;

    memcpy(&entry, table_at(v, AVICEMU_VMCB_PHYSICAL_TABLE) + 8 * (size_t)id,
           sizeof(entry));
    return entry;
}

uint32_t
rig_logical(struct avicemu_vcpu *v, uint32_t index)
{
    uint32_t entry;

    memcpy(&entry, table_at(v, AVICEMU_VMCB_LOGICAL_TABLE) + 4 * (size_t)index,
           sizeof(entry));
    return entry;
}

enum avicemu_avic_state
rig_avic(struct rig *rig, uint32_t i)
{
    return avicemu_vcpu_avic(rig->v[i]);
}

struct avicemu_vcpu_view
rig_view(struct avicemu_vcpu *v)
{
    struct avicemu_vcpu_view view = { .size = sizeof(view) };

    assert_int_equal(avicemu_vcpu_view(v, &view), 0);
    return view;
}

struct avicemu_vcpu_stats
rig_stats(struct avicemu_vcpu *v)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    assert_int_equal(avicemu_vcpu_stats(v, &stats), 0);
    return stats;
}

int
scan(struct avicemu_vcpu *v)
{
    return rig_view(v).pending;
}

uint32_t
rig_enter(struct rig *rig, uint32_t i, uint32_t flags)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = flags };

    rig->todo = (struct avicemu_todo){ .size = sizeof(rig->todo) };
    assert_int_equal(avicemu_vcpu_enter(rig->v[i], &cpu, &rig->todo), 0);
    return rig->todo.what;
}

void
rig_exit(struct rig *rig, uint32_t i, uint32_t flags)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = flags };

    cpu.cr8 = avicemu_cr8_read(rig->v[i]);
    assert_int_equal(avicemu_vcpu_exit(rig->v[i], &cpu), 0);
}

uint32_t
rig_run(struct rig *rig, uint32_t i, uint32_t flags)
{
    const uint32_t acked = AVICEMU_DO_INJECT | AVICEMU_DO_EXTINT |
                           AVICEMU_DO_NMI | AVICEMU_DO_SMI | AVICEMU_DO_INIT |
                           AVICEMU_DO_SIPI;
    uint32_t what = rig_enter(rig, i, flags);

    if ((what & acked) != 0) {
        assert_int_equal(avicemu_vcpu_ack(rig->v[i],
                                          (enum avicemu_do)(what & acked),
                                          rig->todo.vector),
                         0);
    }
    rig_exit(rig, i, flags);
    return what;
}

int
rig_take(struct rig *rig, uint32_t i)
{
    return (rig_run(rig, i, IF) & AVICEMU_DO_INJECT) != 0 ? rig->todo.vector
                                                          : -1;
}

void
eoi(struct avicemu_vcpu *v)
{
    reg_w(v, R_EOI, 0);
}

uint32_t
rig_irr_mask(struct rig *rig, uint8_t vector)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        mask |= (uint32_t)vec_bit(rig->v[i], R_IRR, vector) << i;
    }
    return mask;
}

void
rig_drain(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->nr_vcpus; i++) {
        while (rig_take(rig, i) >= 0) {
            eoi(rig->v[i]);
        }
    }
}

void
rig_check(struct rig *rig)
{
    char line[256] = "";

    if (avicemu_check_invariants(rig->vm, line, sizeof(line)) != 0) {
        fail_msg("%s", line);
    }
}
