/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What KVM's exits become. Called between avicemu_vcpu_exit() and the next
 * enter, where a guest's accesses belong.
 *
 * Each answer of the library is an enum avicemu_access: DONE; GP, which only
 * an MSR access can give here; UNCLAIMED, so some other device's. There are
 * no other devices on the bus of this VMM: reads give all ones.
 */
#include <string.h>

#include "vmm.h"

static int
handle_mmio(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;

    /*
     * The library compares with the vCPU's own APIC_BASE: two vCPUs may have
     * their pages at two places, or one of them none.
     */
    if (run->mmio.is_write) {
        (void)avicemu_mmio_write(vcpu->apic, run->mmio.phys_addr, run->mmio.len,
                                 run->mmio.data);
    } else if (avicemu_mmio_read(vcpu->apic, run->mmio.phys_addr, run->mmio.len,
                                 run->mmio.data) != AVICEMU_ACCESS_DONE) {
        memset(run->mmio.data, 0xff, sizeof(run->mmio.data));
    }
    vcpu->unfinished = true;
    return 0;
}

/*
 * Two ways lead here: the filter of kvm.c (APIC_BASE, TSC_DEADLINE), and MSRs
 * that KVM refuses by itself (x2APIC ones, as it has no APIC). error = 1 makes
 * KVM inject #GP.
 */
static int
handle_rdmsr(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    uint64_t value = 0;

    run->msr.error = avicemu_msr_read(vcpu->apic, run->msr.index, &value) !=
                     AVICEMU_ACCESS_DONE;
    run->msr.data = value;
    vcpu->unfinished = true;
    return 0;
}

static int
handle_wrmsr(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;

    run->msr.error = avicemu_msr_write(vcpu->apic, run->msr.index,
                                       run->msr.data) != AVICEMU_ACCESS_DONE;
    vcpu->unfinished = true;
    if (run->msr.index == 0x1b && !run->msr.error) {
        /* KVM keeps CPUID.1:EDX[9] in step with its own copy. */
        uint64_t value = run->msr.data;

        (void)avicemu_msr_read(vcpu->apic, 0x1b, &value);
        return kvm_apic_base_set(vcpu, value);
    }
    return 0;
}

static int
handle_port(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;

    for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
        if (run->io.direction == KVM_EXIT_IO_OUT) {
            port_write(vcpu->vm, run->io.port, data, run->io.size);
        } else {
            port_read(vcpu->vm, run->io.port, data, run->io.size);
        }
    }
    vcpu->unfinished = true;
    return 0;
}

static int
handle_fatal(struct vcpu *vcpu, const char *what, unsigned long long detail)
{
    say("vCPU %u: %s (%#llx): stopped", vcpu->index, what, detail);
    vm_stop(vcpu->vm, STATUS_BROKEN);
    return -1;
}

int
exit_handle(struct vcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;

    if (run->exit_reason < 64) {
        vcpu->nr_exits[run->exit_reason]++;
    }
    switch (run->exit_reason) {
    case KVM_EXIT_MMIO:
        return handle_mmio(vcpu);
    case KVM_EXIT_X86_RDMSR:
        return handle_rdmsr(vcpu);
    case KVM_EXIT_X86_WRMSR:
        return handle_wrmsr(vcpu);
    case KVM_EXIT_IO:
        return handle_port(vcpu);
    case KVM_EXIT_HLT:
        return vcpu_halt(vcpu);
    case KVM_EXIT_IRQ_WINDOW_OPEN: /* the next enter injects */
    case KVM_EXIT_SET_TPR: /* avicemu_vcpu_exit() has taken CR8 already */
    case KVM_EXIT_INTR:
        return 0;
    case KVM_EXIT_SHUTDOWN:
        say("vCPU %u: triple fault: the guest is reset, so stopped",
            vcpu->index);
        vm_stop(vcpu->vm, STATUS_RESET);
        return -1;
    case KVM_EXIT_FAIL_ENTRY:
        return handle_fatal(vcpu, "the CPU refused the guest's state",
                            run->fail_entry.hardware_entry_failure_reason);
    case KVM_EXIT_INTERNAL_ERROR:
        return handle_fatal(vcpu, "KVM cannot emulate an instruction",
                            run->internal.suberror);
    default:
        return handle_fatal(vcpu, "an exit that this VMM does not know",
                            run->exit_reason);
    }
}
