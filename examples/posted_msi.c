/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that is passed through raises its interrupt three times: its vCPU is
 * in the guest, preempted, and blocked. The IOMMU posts each into the vCPU's
 * APIC page; what else happens is printed.
 *
 * Run: build/examples/posted_msi
 * Prints: running: posted, 1 doorbell, 0 logged; the guest takes 51h
 *         preempted: posted, 0 doorbells, 0 logged; at its next entry 51h
 *         blocked: posted, 0 doorbells, 1 logged; the notifier wakes it: 51h
 */
#include <stdio.h>

#include <avicemu/avicemu.h>

#define DEVICE 0x0008u /* bus 0, device 1, function 0 */
#define VECTOR 0x51u
#define PCPU   0u

static struct machine {
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu;
    struct avicemu_iommu *iommu;
    unsigned wakes, ga_interrupts;
} m;

static uint64_t
on_now(void *opaque)
{
    (void)opaque;
    return 0;
}

static void
on_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    (void)opaque;
    (void)vcpu;
    m.wakes++;
}

static void
on_ga_interrupt(void *opaque, struct avicemu_iommu *iommu)
{
    (void)opaque;
    (void)iommu;
    m.ga_interrupts++; /* a VMM signals its notifier's thread here */
}

static int
start(void)
{
    const struct avicemu_host_config host = {
        .size = sizeof(host),
        .avic = AVICEMU_HOST_AVIC,
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_pcpus = 1,
        .ops = { .ga_interrupt = on_ga_interrupt },
    };
    const struct avicemu_vm_config vm = {
        .size = sizeof(vm),
        .flags = AVICEMU_VM_AVIC,
        .ops = { .now = on_now, .wake = on_wake },
    };
    uint32_t svr = 0x1ff;

    if (avicemu_host_create(&host, &m.host) != 0 ||
        avicemu_vm_create(m.host, &vm, &m.vm) != 0 ||
        avicemu_vcpu_create(m.vm, 0, NULL, &m.vcpu) != 0 ||
        avicemu_mmio_write(m.vcpu, 0xfee000f0, 4, &svr) !=
            AVICEMU_ACCESS_DONE ||
        avicemu_iommu_create(m.host, NULL, &m.iommu) != 0 ||
        avicemu_iommu_add_device(m.iommu, DEVICE, 1) != 0 ||
        avicemu_vcpu_load(m.vcpu, PCPU) != 0) {
        return -1;
    }
    /* The guest has written the device's MSI-X entry; the VMM routes it. */
    return avicemu_iommu_route(m.iommu, DEVICE, 0, m.vcpu, VECTOR);
}

/* What the device does, knowing nothing of any of this. */
static void
raise_it(const char *when)
{
    struct avicemu_iommu_posted p = { .way = AVICEMU_WAY_ABORTED };
    uint64_t address = 0;
    uint32_t data = 0;

    (void)avicemu_iommu_message(m.iommu, DEVICE, 0, &address, &data);
    (void)avicemu_iommu_msi(m.iommu, DEVICE, address, data, &p);
    printf("%s: %s, %u doorbell%s, %u logged; ", when,
           p.way == AVICEMU_WAY_POSTED ? "posted" : "not posted",
           p.nr_doorbells, p.nr_doorbells == 1 ? "" : "s", p.nr_logged);
}

static const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                        .flags = AVICEMU_CPU_IF };
static struct avicemu_todo todo = { .size = sizeof(todo) };

/* The guest takes what todo says, and ends it. */
static void
take(const char *how)
{
    uint32_t zero = 0;

    (void)avicemu_vcpu_ack(m.vcpu, AVICEMU_DO_INJECT, todo.vector);
    (void)avicemu_vcpu_exit(m.vcpu, &cpu);
    (void)avicemu_mmio_write(m.vcpu, 0xfee000b0, 4, &zero);
    printf("%s %xh\n", how, todo.vector);
}

int
main(void)
{
    if (start() != 0) {
        return 1;
    }
    (void)avicemu_vcpu_enter(m.vcpu, &cpu, &todo);
    raise_it("running");
    (void)avicemu_vcpu_recheck(m.vcpu, AVICEMU_RECHECK_DOORBELL, &cpu, &todo);
    take("the guest takes");

    (void)avicemu_vcpu_put(m.vcpu);
    raise_it("preempted");
    (void)avicemu_vcpu_load(m.vcpu, PCPU);
    (void)avicemu_vcpu_enter(m.vcpu, &cpu, &todo);
    take("at its next entry");

    (void)avicemu_vcpu_set_halted(m.vcpu);
    (void)avicemu_vcpu_block_begin(m.vcpu);
    raise_it("blocked");
    if (m.ga_interrupts == 1 && avicemu_iommu_notify(m.iommu) == 1 &&
        m.wakes == 1) {
        (void)avicemu_vcpu_block_end(m.vcpu);
        (void)avicemu_vcpu_enter(m.vcpu, &cpu, &todo);
        take("the notifier wakes it:");
    }
    return avicemu_iommu_remove_device(m.iommu, DEVICE) != 0 ||
           avicemu_vcpu_destroy(m.vcpu) != 0 || avicemu_vm_destroy(m.vm) != 0 ||
           avicemu_iommu_destroy(m.iommu) != 0 ||
           avicemu_host_destroy(m.host) != 0;
}
