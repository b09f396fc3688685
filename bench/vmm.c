/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The least VMM that boots vCPUs and takes their interrupts.
 */

#include "vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define APIC_PAGE     0xfee00000ull
#define APIC_BASE_MSR 0x1bu
#define X2APIC_MSR    0x800u
#define BASE_EN       0x800ull
#define BASE_EXTD     0x400ull
#define BASE_BSP      0x100ull
#define REG_EOI       0x0b0u
#define REG_SVR       0x0f0u
#define SVR_ON        0x1ffu
#define XAPIC_MAX_ID  254u
#define START_PAGE    8u

void
vmm_die(const char *what)
{
    (void)fprintf(stderr, "avicemu-bench: %s failed\n", what);
    exit(1);
}

/* ---- callbacks ---------------------------------------------------------- */

static uint64_t
now_clock(void *opaque)
{
    struct timespec t;

    (void)opaque;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t
now_tsc(void *opaque)
{
    (void)opaque;
    return bench_tsc();
}

static void
kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct vmm *v = opaque;

    (void)vcpu;
    v->kicks++;
}

static void
wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct vmm *v = opaque;

    (void)vcpu;
    v->wakes++;
}

static void
arm(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    struct vmm *v = opaque;

    (void)vcpu;
    bench_use(deadline);
    v->arms++;
}

static void *
count_alloc(void *opaque, size_t align, size_t bytes)
{
    struct vmm *v = opaque;
    size_t rounded = (bytes + align - 1) / align * align;

    v->bytes += rounded;
    return aligned_alloc(align, rounded);
}

static void
count_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    (void)bytes;
    free(memory);
}

/* ---- life --------------------------------------------------------------- */

static void
host_open(struct vmm *v)
{
    struct avicemu_host_config host = { .size = sizeof(host) };

    v->vcpus = calloc(v->nr, sizeof(struct avicemu_vcpu *));
    host.allocator.alloc = count_alloc;
    host.allocator.free = count_free;
    host.allocator.opaque = v;
    if (v->avic == VMM_AVIC) {
        host.avic =
            AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC | AVICEMU_HOST_X2AVIC_EXT;
        host.doorbells = AVICEMU_DOORBELL_WORD;
        host.nr_pcpus = v->nr;
    }
    if (v->vcpus == NULL || avicemu_host_create(&host, &v->host) != 0) {
        vmm_die("avicemu_host_create");
    }
    avicemu_thread_attach();
}

static void
vms_open(struct vmm *v, enum vmm_now now)
{
    struct avicemu_vm_config vm = { .size = sizeof(vm) };

    vm.lapic.features = AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE;
    vm.lapic.now_hz = now == VMM_NOW_TSC ? bench_tsc_hz() : 0;
    vm.ops.now = now == VMM_NOW_TSC ? now_tsc : now_clock;
    vm.ops.kick = kick;
    vm.ops.wake = wake;
    vm.ops.arm = arm;
    vm.max_vcpus = v->nr < VMM_MAX_PER_VM ? v->nr : VMM_MAX_PER_VM;
    if (v->avic == VMM_AVIC) {
        vm.flags = AVICEMU_VM_AVIC;
        vm.max_apic_id = v->nr - 1;
    }
    for (uint32_t i = 0; i * VMM_MAX_PER_VM < v->nr; i++) {
        if (i == VMM_MAX_VMS ||
            avicemu_vm_create(v->host, &vm, &v->vms[i]) != 0) {
            vmm_die("avicemu_vm_create");
        }
    }
}

void
vmm_open_empty(struct vmm *v, uint32_t nr_vcpus, enum vmm_now now)
{
    *v = (struct vmm){ .nr = nr_vcpus };
    host_open(v);
    vms_open(v, now);
}

void
vmm_open_empty_avic(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode)
{
    if (nr_vcpus > (mode == VMM_XAPIC ? XAPIC_MAX_ID + 1 : VMM_MAX_PER_VM)) {
        vmm_die("more vCPUs than AVIC has ids");
    }
    *v = (struct vmm){ .nr = nr_vcpus, .mode = mode, .avic = VMM_AVIC };
    host_open(v);
    vms_open(v, VMM_NOW_CLOCK);
}

void
vmm_create_vcpus(struct vmm *v)
{
    for (uint32_t i = 0; i < v->nr; i++) {
        if (avicemu_vcpu_create(v->vms[i / VMM_MAX_PER_VM], i % VMM_MAX_PER_VM,
                                v, &v->vcpus[i]) != 0) {
            vmm_die("avicemu_vcpu_create");
        }
    }
}

void
vmm_destroy_vcpus(struct vmm *v)
{
    /* The last first: each removal looks at all that are left. */
    for (uint32_t i = v->nr; i-- > 0;) {
        if (avicemu_vcpu_destroy(v->vcpus[i]) != 0) {
            vmm_die("avicemu_vcpu_destroy");
        }
        v->vcpus[i] = NULL;
    }
}

void
vmm_close(struct vmm *v)
{
    vmm_destroy_vcpus(v);
    for (uint32_t i = 0; i < VMM_MAX_VMS; i++) {
        if (avicemu_vm_destroy(v->vms[i]) != 0) {
            vmm_die("avicemu_vm_destroy");
        }
    }
    if (avicemu_host_destroy(v->host) != 0) {
        vmm_die("avicemu_host_destroy");
    }
    free(v->vcpus);
}

/* A start-up interrupt for an AP, then its guest enables the APIC. */
static void
boot(struct vmm *v, struct avicemu_vcpu *vcpu, bool bsp)
{
    struct avicemu_todo todo;

    if (!bsp) {
        (void)avicemu_post_mode(vcpu, AVICEMU_DELIVERY_SIPI, START_PAGE);
        vmm_enter(vcpu, &todo);
        if (todo.what != AVICEMU_DO_SIPI ||
            avicemu_vcpu_ack(vcpu, AVICEMU_DO_SIPI, todo.vector) != 0) {
            vmm_die("start-up");
        }
        vmm_exit(vcpu);
    }
    if (v->mode == VMM_X2APIC &&
        avicemu_msr_write(vcpu, APIC_BASE_MSR,
                          APIC_PAGE | BASE_EN | BASE_EXTD |
                              (bsp ? BASE_BSP : 0)) != AVICEMU_ACCESS_DONE) {
        vmm_die("switch to x2APIC mode");
    }
    vmm_write(v, vcpu, REG_SVR, SVR_ON);
}

void
vmm_open(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode, enum vmm_now now)
{
    vmm_open_empty(v, nr_vcpus, now);
    v->mode = mode;
    vmm_create_vcpus(v);
    for (uint32_t i = 0; i < nr_vcpus; i++) {
        uint32_t id = i % VMM_MAX_PER_VM;

        if (mode == VMM_X2APIC || id <= XAPIC_MAX_ID) {
            boot(v, v->vcpus[i], id == 0);
        } else if (avicemu_vcpu_set_apic_base(v->vcpus[i], APIC_PAGE) != 0) {
            vmm_die("avicemu_vcpu_set_apic_base");
        }
    }
    v->arms = 0;
}

void
vmm_open_avic(struct vmm *v, uint32_t nr_vcpus, enum vmm_mode mode)
{
    vmm_open_empty_avic(v, nr_vcpus, mode);
    vmm_create_vcpus(v);
    for (uint32_t i = 0; i < nr_vcpus; i++) {
        boot(v, v->vcpus[i], i == 0);
    }
    for (uint32_t i = 0; i < nr_vcpus; i++) {
        if (avicemu_vcpu_load(v->vcpus[i], i) != 0) {
            vmm_die("avicemu_vcpu_load");
        }
    }
    v->arms = 0;
}

/* ---- guest -------------------------------------------------------------- */

void
vmm_write(const struct vmm *v, struct avicemu_vcpu *vcpu, uint32_t offset,
          uint32_t value)
{
    enum avicemu_access access =
        v->mode == VMM_X2APIC
            ? avicemu_msr_write(vcpu, X2APIC_MSR + (offset >> 4), value)
            : avicemu_mmio_write(vcpu, APIC_PAGE + offset, 4, &value);

    if (access != AVICEMU_ACCESS_DONE) {
        vmm_die("register write");
    }
}

static const struct avicemu_cpu cpu = {
    .size = sizeof(cpu),
    .flags = AVICEMU_CPU_IF,
};

void
vmm_enter(struct avicemu_vcpu *vcpu, struct avicemu_todo *todo)
{
    todo->size = sizeof(*todo);
    if (avicemu_vcpu_enter(vcpu, &cpu, todo) != 0) {
        vmm_die("avicemu_vcpu_enter");
    }
}

void
vmm_exit(struct avicemu_vcpu *vcpu)
{
    if (avicemu_vcpu_exit(vcpu, &cpu) != 0) {
        vmm_die("avicemu_vcpu_exit");
    }
}

uint64_t
vmm_drain(const struct vmm *v, struct avicemu_vcpu *vcpu)
{
    struct avicemu_todo todo;

    for (uint64_t nr = 0;; nr++) {
        vmm_enter(vcpu, &todo);
        if ((todo.what & AVICEMU_DO_INJECT) == 0) {
            vmm_exit(vcpu);
            return nr;
        }
        if (avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) != 0) {
            vmm_die("avicemu_vcpu_ack");
        }
        vmm_exit(vcpu);
        vmm_write(v, vcpu, REG_EOI, 0);
    }
}

/* ---- guest, with AVIC --------------------------------------------------- */

void
vmm_enter_avic(const struct vmm *v, struct avicemu_vcpu *vcpu)
{
    enum avicemu_avic_state want =
        v->mode == VMM_X2APIC ? AVICEMU_AVIC_X2AVIC : AVICEMU_AVIC_XAVIC;
    struct avicemu_todo todo;

    vmm_enter(vcpu, &todo);
    if (todo.what != 0 || avicemu_vcpu_avic(vcpu) != want) {
        vmm_die("AVIC");
    }
}

bool
vmm_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
            struct avicemu_todo *todo)
{
    todo->size = sizeof(*todo);
    return avicemu_vcpu_recheck(vcpu, when, &cpu, todo) == 0;
}

uint64_t
vmm_take(const struct vmm *v, struct avicemu_vcpu *vcpu)
{
    enum avicemu_recheck when = AVICEMU_RECHECK_DOORBELL;
    struct avicemu_todo todo;
    uint64_t nr = 0;

    while (vmm_recheck(vcpu, when, &todo) &&
           (todo.what & AVICEMU_DO_INJECT) != 0) {
        if (avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) != 0) {
            vmm_die("avicemu_vcpu_ack");
        }
        vmm_write(v, vcpu, REG_EOI, 0);
        when = AVICEMU_RECHECK_ALWAYS;
        nr++;
    }
    return nr;
}

/* ---- halt --------------------------------------------------------------- */

void
vmm_block(struct avicemu_vcpu *vcpu)
{
    if (avicemu_vcpu_set_halted(vcpu) != 0 ||
        avicemu_vcpu_block_begin(vcpu) != AVICEMU_SLEEP_YES) {
        vmm_die("avicemu_vcpu_block_begin");
    }
}

void
vmm_unblock(struct avicemu_vcpu *vcpu)
{
    if (avicemu_vcpu_block_end(vcpu) != 0) {
        vmm_die("avicemu_vcpu_block_end");
    }
}
