/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MSI to the library against one to KVM's in-kernel irqchip, where /dev/kvm
 * opens. Both APICs are software-enabled and take a vector that they hold
 * already or not, in the same order; neither vCPU runs.
 */

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "tables.h"

struct kvm {
    int dev, vm, vcpu;
};

static void
kvm_drop(void *arg)
{
    struct kvm *k = arg;

    (void)close(k->vcpu);
    (void)close(k->vm);
    (void)close(k->dev);
    free(k);
}

static bool
apic_enable(int vcpu)
{
    static struct kvm_lapic_state lapic;
    const uint32_t svr = 0x1ff;

    if (ioctl(vcpu, KVM_GET_LAPIC, &lapic) != 0) {
        return false;
    }
    memcpy(lapic.regs + 0xf0, &svr, sizeof(svr));
    return ioctl(vcpu, KVM_SET_LAPIC, &lapic) == 0;
}

/* NULL where there is no KVM: the rows are left out. */
static void *
kvm_make(uint64_t objects)
{
    struct stat st;
    struct kvm *k;
    int dev;

    (void)objects;
    if (stat("/dev/kvm", &st) != 0 || !S_ISCHR(st.st_mode)) {
        return NULL;
    }
    dev = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (dev < 0) {
        return NULL;
    }
    k = calloc(1, sizeof(*k));
    if (k == NULL) {
        bench_fail("out of memory");
    }
    k->dev = dev;
    k->vm = ioctl(dev, KVM_CREATE_VM, 0);
    if (k->vm < 0 || ioctl(k->vm, KVM_CREATE_IRQCHIP) != 0) {
        bench_fail("/dev/kvm opens, but makes no irqchip");
    }
    k->vcpu = ioctl(k->vm, KVM_CREATE_VCPU, 0);
    if (k->vcpu < 0 || !apic_enable(k->vcpu)) {
        bench_fail("/dev/kvm opens, but its APIC cannot be enabled");
    }
    return k;
}

static uint64_t
signal_msi(void *arg, uint64_t n)
{
    struct kvm *k = arg;
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct kvm_msi msi = {
            .address_lo = 0xfee00000,
            .data = 0x40 + (uint32_t)(i & 0x7f),
        };

        did += ioctl(k->vm, KVM_SIGNAL_MSI, &msi) > 0;
    }
    return did;
}

static void *
make(uint64_t objects)
{
    (void)objects;
    return rig_make(1, RIG_XAPIC);
}

static uint64_t
library_msi(void *arg, uint64_t n)
{
    struct rig *rig = arg;
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct avicemu_posted posted;

        (void)avicemu_msi(rig->vms[0], 0xfee00000, 0x40 + (uint32_t)(i & 0x7f),
                          &posted);
        did += posted.nr_new + posted.nr_merged == 1;
    }
    return did;
}

static const struct bench_row rows[] = {
    { .bench = "msi-kvm",
      .variant = "KVM_SIGNAL_MSI",
      .batch = 512,
      .setup = kvm_make,
      .teardown = kvm_drop,
      .run = signal_msi },
    { .bench = "msi-kvm",
      .variant = "library",
      .baseline = "KVM_SIGNAL_MSI",
      .goal = 15,
      .at_least = true,
      .setup = make,
      .teardown = rig_drop,
      .run = library_msi },
};

const struct bench_table bench_kvm = { rows, sizeof(rows) / sizeof(rows[0]) };
