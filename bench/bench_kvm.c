/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MSI that a VMM sends: avicemu_msi() against KVM_SIGNAL_MSI to Linux KVM's
 * in-kernel local APIC. Both APICs are enabled, both vCPUs do not run, and
 * every message is a new vector: KVM's page is set anew before each sample.
 */

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "harness.h"
#include "vmm.h"

#define MSI_ADDRESS 0xfee00000u
#define REG_SVR     0x0f0u
#define REG_IRR     0x200u
#define SVR_ON      0x1ffu

struct kvm {
    struct vmm vmm;
    int fd, vm, vcpu;
    struct kvm_lapic_state clean; /* nothing pending */
    uint64_t nr_new, kvm_new;
};

static void
kvm_close(void *state)
{
    struct kvm *k = state;

    (void)close(k->vcpu);
    (void)close(k->vm);
    (void)close(k->fd);
    if (k->vmm.nr != 0) {
        vmm_close(&k->vmm);
    }
    free(k);
}

/* NULL, or what failed. */
static const char *
peer_open(struct kvm *k)
{
    uint32_t svr = SVR_ON;

    k->fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (k->fd < 0) {
        return "/dev/kvm does not open";
    }
    k->vm = ioctl(k->fd, KVM_CREATE_VM, 0);
    if (k->vm < 0 || ioctl(k->vm, KVM_CREATE_IRQCHIP, 0) != 0) {
        return "no VM with an in-kernel irqchip";
    }
    k->vcpu = ioctl(k->vm, KVM_CREATE_VCPU, 0);
    if (k->vcpu < 0 || ioctl(k->vcpu, KVM_GET_LAPIC, &k->clean) != 0) {
        return "KVM_GET_LAPIC failed";
    }
    memcpy(k->clean.regs + REG_SVR, &svr, sizeof(svr));
    if (ioctl(k->vcpu, KVM_SET_LAPIC, &k->clean) != 0) {
        return "KVM_SET_LAPIC failed";
    }
    return NULL;
}

static int
kvm_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct kvm *k = calloc(1, sizeof(*k));

    (void)b;
    (void)objects;
    if (k == NULL) {
        return bench_fail("no memory");
    }
    k->fd = k->vm = k->vcpu = -1;
    const char *why = peer_open(k);

    if (why != NULL) {
        kvm_close(k);
        return bench_skip(why);
    }
    vmm_open(&k->vmm, 1, VMM_XAPIC, VMM_NOW_CLOCK);
    *ret = k;
    return 0;
}

static void
our_prepare(void *state)
{
    struct kvm *k = state;

    (void)vmm_drain(&k->vmm, k->vmm.vcpus[0]);
}

static void
our_run(void *state, uint64_t n)
{
    struct kvm *k = state;

    for (uint64_t i = 0; i < n; i++) {
        struct avicemu_posted posted = { .nr_new = 0 };

        (void)avicemu_msi(k->vmm.vms[0], MSI_ADDRESS,
                          (uint32_t)(VMM_FIRST_VECTOR + i), &posted);
        k->nr_new += posted.nr_new;
    }
}

/* Count what the last sample left pending, then clear it. */
static void
peer_prepare(void *state)
{
    struct kvm *k = state;
    struct kvm_lapic_state page;

    if (ioctl(k->vcpu, KVM_GET_LAPIC, &page) != 0 ||
        ioctl(k->vcpu, KVM_SET_LAPIC, &k->clean) != 0) {
        vmm_die("KVM_SET_LAPIC");
    }
    for (unsigned i = 0; i < 8; i++) {
        uint32_t word;

        memcpy(&word, page.regs + REG_IRR + 16 * i, sizeof(word));
        k->kvm_new += (uint64_t)__builtin_popcount(word);
    }
}

static void
peer_run(void *state, uint64_t n)
{
    struct kvm *k = state;

    for (uint64_t i = 0; i < n; i++) {
        struct kvm_msi msi = {
            .address_lo = MSI_ADDRESS,
            .data = (uint32_t)(VMM_FIRST_VECTOR + i),
        };

        if (ioctl(k->vm, KVM_SIGNAL_MSI, &msi) != 1) {
            vmm_die("KVM_SIGNAL_MSI");
        }
    }
}

/* Both delivered all; each side made about as many samples as it had time. */
static bool
kvm_check(void *state, uint64_t nr_ops)
{
    struct kvm *k = state;

    peer_prepare(state);
    return k->nr_new == nr_ops && k->kvm_new != 0 &&
           k->kvm_new % VMM_NR_VECTORS == 0;
}

const struct bench bench_kvm[] = {
    { .name = "msi-kvm",
      .what = "an MSI, against the in-kernel irqchip of Linux KVM",
      .baseline = "KVM_SIGNAL_MSI",
      .goal = 1.0 / 15,
      .ops = VMM_NR_VECTORS,
      .open = kvm_open,
      .prepare = our_prepare,
      .run = our_run,
      .base_prepare = peer_prepare,
      .base = peer_run,
      .check = kvm_check,
      .close = kvm_close },
    { .name = NULL },
};
