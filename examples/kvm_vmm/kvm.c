/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What KVM must be told when it has no irqchip.
 *
 *   capabilities   all that the loop depends on, asked for by name, so that an
 *                  old kernel gives one clear line
 *   MSRs           APIC_BASE and TSC_DEADLINE are KVM's own: the filter takes
 *                  them away. x2APIC MSRs cannot be filtered; without an APIC
 *                  KVM refuses them, and USER_SPACE_MSR makes that an exit
 *   CPUID          the APIC's features are the library's; KVM's paravirtual
 *                  ones need its own APIC and go
 *   TSC            offset 0 on every vCPU, so that clock_now() is guest time
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm.h"

#define MSR_TSC           0x10
#define MSR_APIC_BASE     0x1b
#define MSR_TSC_DEADLINE  0x6e0
#define MAX_CPUID_ENTRIES 256

/* Below 4 GiB and above all guest RAM: Intel's KVM wants a place for these. */
#define IDENTITY_MAP_GPA 0xfffbc000ull
#define TSS_GPA          0xfffbd000ull

static const struct {
    long cap;
    const char *name;
    const char *since;
} needed[] = {
    { KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY", "2.6.25" },
    { KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID", "2.6.26" },
    { KVM_CAP_USER_NMI, "KVM_CAP_USER_NMI", "2.6.28" },
    { KVM_CAP_VCPU_EVENTS, "KVM_CAP_VCPU_EVENTS", "2.6.33" },
    { KVM_CAP_GET_TSC_KHZ, "KVM_CAP_GET_TSC_KHZ", "3.1" },
    { KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.13" },
    { KVM_CAP_X86_USER_SPACE_MSR, "KVM_CAP_X86_USER_SPACE_MSR", "5.10" },
    { KVM_CAP_X86_MSR_FILTER, "KVM_CAP_X86_MSR_FILTER", "5.10" },
};

static int
failed(const char *what)
{
    say("%s: %s", what, strerror(errno));
    return -1;
}

int
kvm_open(struct vm *vm)
{
    vm->kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (vm->kvm_fd < 0) {
        say("cannot open /dev/kvm: %s. Load kvm_amd or kvm_intel, enable "
            "virtualization in the firmware, and be in group kvm",
            strerror(errno));
        return -1;
    }
    int version = ioctl(vm->kvm_fd, KVM_GET_API_VERSION, 0);
    if (version != KVM_API_VERSION) {
        say("/dev/kvm speaks API version %d, not %d: no KVM of this century",
            version, KVM_API_VERSION);
        return -1;
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, needed[i].cap) <= 0) {
            say("this KVM has no %s: Linux %s or newer is needed",
                needed[i].name, needed[i].since);
            return -1;
        }
    }
    int bytes = ioctl(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (bytes < (int)sizeof(struct kvm_run)) {
        return failed("KVM_GET_VCPU_MMAP_SIZE");
    }
    vm->run_bytes = (size_t)bytes;
    return 0;
}

static int
memory_create(struct vm *vm)
{
    vm->memory = mmap(NULL, vm->memory_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (vm->memory == MAP_FAILED) {
        vm->memory = NULL;
        return failed("cannot get the guest's memory (try a smaller --memory)");
    }
    struct kvm_userspace_memory_region region = {
        .memory_size = vm->memory_bytes,
        .userspace_addr = (uintptr_t)vm->memory,
    };
    return ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region) < 0
               ? failed("KVM_SET_USER_MEMORY_REGION")
               : 0;
}

/* Bit clear in a range's bitmap: the access is denied, hence comes to us. */
static int
msr_exits_create(struct vm *vm)
{
    static uint8_t deny_all[1];
    struct kvm_enable_cap cap = {
        .cap = KVM_CAP_X86_USER_SPACE_MSR,
        .args = { KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN |
                  KVM_MSR_EXIT_REASON_FILTER },
    };
    struct kvm_msr_filter filter = { .flags = KVM_MSR_FILTER_DEFAULT_ALLOW };
    static const uint32_t msrs[] = { MSR_APIC_BASE, MSR_TSC_DEADLINE };

    if (ioctl(vm->fd, KVM_ENABLE_CAP, &cap) < 0) {
        return failed("KVM_CAP_X86_USER_SPACE_MSR");
    }
    for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        filter.ranges[i] = (struct kvm_msr_filter_range){
            .flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
            .nmsrs = 1,
            .base = msrs[i],
            .bitmap = deny_all,
        };
    }
    return ioctl(vm->fd, KVM_X86_SET_MSR_FILTER, &filter) < 0
               ? failed("KVM_X86_SET_MSR_FILTER")
               : 0;
}

int
kvm_vm_create(struct vm *vm)
{
    vm->fd = ioctl(vm->kvm_fd, KVM_CREATE_VM, 0);
    if (vm->fd < 0) {
        return failed("KVM_CREATE_VM");
    }
    uint64_t identity_map = IDENTITY_MAP_GPA;
    if (ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_SET_TSS_ADDR) > 0 &&
        (ioctl(vm->fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map) < 0 ||
         ioctl(vm->fd, KVM_SET_TSS_ADDR, TSS_GPA) < 0)) {
        return failed("KVM_SET_TSS_ADDR");
    }
    return memory_create(vm) != 0 || msr_exits_create(vm) != 0 ? -1 : 0;
}

static void
set_bit(uint32_t *word, unsigned bit, bool value)
{
    *word = (*word & ~(1u << bit)) | (uint32_t)value << bit;
}

static void
cpuid_entry_edit(const struct vcpu *vcpu, struct kvm_cpuid_entry2 *e)
{
    uint32_t features = vcpu->vm->lapic_features;

    switch (e->function) {
    case 0x1:
        e->ebx = (e->ebx & 0x0000ffffu) | (vcpu->apic_id & 0xff) << 24 |
                 (vcpu->vm->nr_vcpus & 0xff) << 16;
        set_bit(&e->ecx, 3, false); /* MONITOR: HLT must come out */
        set_bit(&e->ecx, 21, (features & AVICEMU_LAPIC_X2APIC) != 0);
        set_bit(&e->ecx, 24, (features & AVICEMU_LAPIC_TSC_DEADLINE) != 0);
        set_bit(&e->ecx, 31, true); /* hypervisor */
        set_bit(&e->edx, 9, true);  /* APIC; KVM follows APIC_BASE.EN */
        break;
    case 0xb:
    case 0x1f:
        e->edx = vcpu->apic_id;
        break;
    case 0x40000001: /* KVM's own: PV EOI, PV IPI, async faults ... */
        e->eax = 0;
        break;
    case 0x80000001:
        set_bit(&e->ecx, 2, false); /* SVM: this is no nested example */
        set_bit(&e->ecx, 3,
                (features & AVICEMU_LAPIC_EXT_SPACE) != 0); /* ExtApicSpace */
        break;
    case 0x8000001e:
        e->eax = vcpu->apic_id;
        break;
    default:
        break;
    }
}

static int
cpuid_set(struct vcpu *vcpu)
{
    struct kvm_cpuid2 *cpuid =
        calloc(1, sizeof(*cpuid) +
                      MAX_CPUID_ENTRIES * sizeof(struct kvm_cpuid_entry2));
    int ret = -1;

    if (cpuid == NULL) {
        return failed("CPUID");
    }
    cpuid->nent = MAX_CPUID_ENTRIES;
    if (ioctl(vcpu->vm->kvm_fd, KVM_GET_SUPPORTED_CPUID, cpuid) < 0) {
        (void)failed("KVM_GET_SUPPORTED_CPUID");
        goto out;
    }
    for (uint32_t i = 0; i < cpuid->nent; i++) {
        cpuid_entry_edit(vcpu, &cpuid->entries[i]);
    }
    if (ioctl(vcpu->fd, KVM_SET_CPUID2, cpuid) < 0) {
        (void)failed("KVM_SET_CPUID2");
        goto out;
    }
    ret = 0;
out:
    free(cpuid);
    return ret;
}

static int
msr_set(struct vcpu *vcpu, uint32_t index, uint64_t value, const char *name)
{
    union { /* a head and room for one entry behind it */
        struct kvm_msrs head;
        uint8_t room[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
    } msrs;

    memset(&msrs, 0, sizeof(msrs));
    msrs.head.nmsrs = 1;
    msrs.head.entries[0].index = index;
    msrs.head.entries[0].data = value;
    if (ioctl(vcpu->fd, KVM_SET_MSRS, &msrs) != 1) { /* number that it took */
        say("vCPU %u: KVM refused %s = %#llx", vcpu->index, name,
            (unsigned long long)value);
        return -1;
    }
    return 0;
}

int
kvm_apic_base_set(struct vcpu *vcpu, uint64_t value)
{
    if (msr_set(vcpu, MSR_APIC_BASE, value, "APIC_BASE") != 0) {
        vm_stop(vcpu->vm, STATUS_BROKEN);
        return -1;
    }
    return 0;
}

static int
tsc_set(struct vcpu *vcpu)
{
    uint64_t offset = 0;
    struct kvm_device_attr attr = {
        .group = KVM_VCPU_TSC_CTRL,
        .attr = KVM_VCPU_TSC_OFFSET,
        .addr = (uintptr_t)&offset,
    };

    if (ioctl(vcpu->fd, KVM_SET_DEVICE_ATTR, &attr) < 0) {
        say("cannot set the guest's TSC offset: %s. Linux 5.16 or newer is "
            "needed",
            strerror(errno));
        return -1;
    }
    int khz = ioctl(vcpu->fd, KVM_GET_TSC_KHZ, 0);
    if (khz <= 0) {
        return failed("KVM_GET_TSC_KHZ");
    }
    vcpu->vm->tsc_hz = (uint64_t)khz * 1000u;
    return 0;
}

int
kvm_vcpu_create(struct vcpu *vcpu)
{
    struct vm *vm = vcpu->vm;

    vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, (unsigned long)vcpu->index);
    if (vcpu->fd < 0) {
        return failed("KVM_CREATE_VCPU");
    }
    vcpu->run = mmap(NULL, vm->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                     vcpu->fd, 0);
    if (vcpu->run == MAP_FAILED) {
        vcpu->run = NULL;
        return failed("cannot map a vCPU's run page");
    }
    return cpuid_set(vcpu) != 0 || tsc_set(vcpu) != 0 ? -1 : 0;
}

void
kvm_vm_close(struct vm *vm)
{
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        struct vcpu *vcpu = &vm->vcpus[i];

        if (vcpu->run != NULL) {
            (void)munmap(vcpu->run, vm->run_bytes);
        }
        if (vcpu->fd >= 0) {
            (void)close(vcpu->fd);
        }
    }
    if (vm->memory != NULL) {
        (void)munmap(vm->memory, vm->memory_bytes);
    }
    if (vm->fd >= 0) {
        (void)close(vm->fd);
    }
    if (vm->kvm_fd >= 0) {
        (void)close(vm->kvm_fd);
    }
}
