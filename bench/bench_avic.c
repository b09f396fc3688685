/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a vCPU with AVIC does between its instructions: entry, the look at its
 * doorbell, and accesses that hardware completes without an exit.
 *
 *   enter-avic       nothing pending; one store needs a full barrier, as in
 *                    "enter", so that is its baseline
 *   recheck          the look at a doorbell that was not rung: an acquire load
 *                    is the least that can see it
 *   recheck-always   after an access that may have let something through
 *   eoi-*-avic       as eoi-msr and eoi-mmio, in the guest
 *   read-*-avic      a register that hardware reads in the page, against the
 *                    emulated read of the same register
 *   tpr-*-avic       a TPR write, likewise. Both leave TPR, PPR and what the
 *                    next entry injects as they are without AVIC
 *
 * The emulated accesses are those of a VM without AVIC, outside its guest; the
 * exit that a real guest takes first is in neither.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "vmm.h"

#define APIC_PAGE 0xfee00000ull
#define MSR_APIC  0x800u
#define REG_TPR   0x080u
#define REG_EOI   0x0b0u
#define REG_LDR   0x0d0u
#define NR_VCPUS  8u

struct avic {
    struct vmm vmm;
    struct vmm soft; /* the same without AVIC; opened if compared with */
    bool has_soft;
    bool in_guest; /* all of vmm's */
    uint64_t done;
};

static void
soft_read_msr(void *state, uint64_t n);
static void
soft_read_mmio(void *state, uint64_t n);
static void
soft_tpr(void *state, uint64_t n);

static int
avic_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct avic *a = calloc(1, sizeof(*a));
    enum vmm_mode mode =
        strstr(b->name, "mmio") != NULL ? VMM_XAPIC : VMM_X2APIC;

    (void)objects;
    if (a == NULL) {
        return bench_fail("no memory");
    }
    vmm_open_avic(&a->vmm, NR_VCPUS, mode);
    a->has_soft = b->base == soft_read_msr || b->base == soft_read_mmio ||
                  b->base == soft_tpr;
    if (a->has_soft) {
        vmm_open(&a->soft, NR_VCPUS, mode, VMM_NOW_CLOCK);
    }
    *ret = a;
    return 0;
}

static void
leave_all(void *state)
{
    struct avic *a = state;

    for (uint32_t i = 0; a->in_guest && i < NR_VCPUS; i++) {
        vmm_exit(a->vmm.vcpus[i]);
    }
    a->in_guest = false;
}

static void
enter_all(void *state)
{
    struct avic *a = state;

    for (uint32_t i = 0; !a->in_guest && i < NR_VCPUS; i++) {
        vmm_enter_avic(&a->vmm, a->vmm.vcpus[i]);
    }
    a->in_guest = true;
}

static void
avic_close(void *state)
{
    struct avic *a = state;

    leave_all(a);
    vmm_close(&a->vmm);
    if (a->has_soft) {
        vmm_close(&a->soft);
    }
    free(a);
}

static bool
done_check(void *state, uint64_t nr_ops)
{
    return ((struct avic *)state)->done == nr_ops;
}

/* ---- entry and doorbell ------------------------------------------------- */

/* Each vCPU once; leave_all() between samples. */
static void
enter_run(void *state, uint64_t n)
{
    struct avic *a = state;
    struct avicemu_todo todo;

    for (uint64_t i = 0; i < n; i++) {
        vmm_enter(a->vmm.vcpus[i], &todo);
        a->done += todo.what == 0;
    }
    a->in_guest = true;
}

static void
enter_exit_run(void *state, uint64_t n)
{
    struct avic *a = state;
    struct avicemu_vcpu *vcpu = a->vmm.vcpus[0];
    struct avicemu_todo todo;

    for (uint64_t i = 0; i < n; i++) {
        vmm_enter(vcpu, &todo);
        a->done += todo.what == 0;
        vmm_exit(vcpu);
    }
}

static void
recheck_run(void *state, uint64_t n)
{
    static const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                            .flags = AVICEMU_CPU_IF };
    struct avic *a = state;
    struct avicemu_vcpu *vcpu = a->vmm.vcpus[0];
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint64_t quiet = 0;

    for (uint64_t i = 0; i < n; i++) {
        quiet += avicemu_vcpu_recheck(vcpu, AVICEMU_RECHECK_DOORBELL, &cpu,
                                      &todo) != 0;
    }
    a->done += quiet;
}

static void
recheck_always_run(void *state, uint64_t n)
{
    static const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                            .flags = AVICEMU_CPU_IF };
    struct avic *a = state;
    struct avicemu_vcpu *vcpu = a->vmm.vcpus[0];
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint64_t idle = 0;

    for (uint64_t i = 0; i < n; i++) {
        idle += avicemu_vcpu_recheck(vcpu, AVICEMU_RECHECK_ALWAYS, &cpu,
                                     &todo) == 0 &&
                todo.what == 0;
    }
    a->done += idle;
}

/* ---- EOI ---------------------------------------------------------------- */

/* All vectors in service, from the lowest to the highest. */
static void
eoi_prepare(void *state)
{
    struct avic *a = state;
    struct avicemu_vcpu *vcpu = a->vmm.vcpus[0];

    enter_all(a);
    for (unsigned i = 0; i < VMM_NR_VECTORS; i++) {
        uint8_t vector = (uint8_t)(VMM_FIRST_VECTOR + i);

        (void)avicemu_post(vcpu, vector, AVICEMU_TRIGGER_EDGE);
        if (avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, vector) != 0) {
            vmm_die("avicemu_vcpu_ack");
        }
    }
}

static void
eoi_run(void *state, uint64_t n)
{
    struct avic *a = state;

    for (uint64_t i = 0; i < n; i++) {
        vmm_write(&a->vmm, a->vmm.vcpus[0], REG_EOI, 0);
    }
}

static bool
eoi_check(void *state, uint64_t nr_ops)
{
    struct avic *a = state;
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    return avicemu_vcpu_stats(a->vmm.vcpus[0], &stats) == 0 &&
           stats.eoi == nr_ops && stats.avic_accelerated >= nr_ops;
}

/* ---- other accesses ----------------------------------------------------- */

static uint64_t
read_msr(struct avicemu_vcpu *vcpu, uint64_t n)
{
    uint64_t done = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t value;

        done += avicemu_msr_read(vcpu, MSR_APIC + (REG_LDR >> 4), &value) ==
                AVICEMU_ACCESS_DONE;
    }
    return done;
}

static uint64_t
read_mmio(struct avicemu_vcpu *vcpu, uint64_t n)
{
    uint64_t done = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t value;

        done += avicemu_mmio_read(vcpu, APIC_PAGE + REG_LDR, 4, &value) ==
                AVICEMU_ACCESS_DONE;
    }
    return done;
}

static void
read_msr_run(void *state, uint64_t n)
{
    struct avic *a = state;

    a->done += read_msr(a->vmm.vcpus[0], n);
}

static void
soft_read_msr(void *state, uint64_t n)
{
    bench_use(read_msr(((struct avic *)state)->soft.vcpus[0], n));
}

static void
read_mmio_run(void *state, uint64_t n)
{
    struct avic *a = state;

    a->done += read_mmio(a->vmm.vcpus[0], n);
}

static void
soft_read_mmio(void *state, uint64_t n)
{
    bench_use(read_mmio(((struct avic *)state)->soft.vcpus[0], n));
}

/* Up and down, as a kernel that raises its priority for a while. */
static void
tpr_writes(const struct vmm *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        vmm_write(v, v->vcpus[0], REG_TPR, (uint32_t)(i & 1) << 5);
    }
}

static void
tpr_run(void *state, uint64_t n)
{
    struct avic *a = state;

    tpr_writes(&a->vmm, n);
    a->done += n;
}

static void
soft_tpr(void *state, uint64_t n)
{
    tpr_writes(&((struct avic *)state)->soft, n);
}

/* None of the accesses exited. */
static bool
accel_check(void *state, uint64_t nr_ops)
{
    struct avic *a = state;
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    return avicemu_vcpu_stats(a->vmm.vcpus[0], &stats) == 0 &&
           a->done == nr_ops && stats.avic_accelerated >= nr_ops;
}

#define ACCESS(name_, what_, run_, base_)                          \
    {                                                              \
        .name = name_, .what = what_, .baseline = "emulated",      \
        .open = avic_open, .prepare = enter_all, .run = (run_),    \
        .base = (base_), .check = accel_check, .close = avic_close \
    }

const struct bench bench_avic[] = {
    { .name = "enter-avic",
      .what = "avicemu_vcpu_enter() with AVIC active, nothing pending",
      .baseline = "seq_cst store",
      .goal = 1.5,
      .ops = NR_VCPUS,
      .open = avic_open,
      .prepare = leave_all,
      .run = enter_run,
      .base = bench_raw_store_seqcst,
      .check = done_check,
      .close = avic_close },
    { .name = "enter+exit-avic",
      .what = "entry and exit with AVIC active, nothing pending",
      .baseline = "seq_cst store",
      .open = avic_open,
      .run = enter_exit_run,
      .base = bench_raw_store_seqcst,
      .check = done_check,
      .close = avic_close },
    { .name = "recheck",
      .what = "avicemu_vcpu_recheck() of a doorbell that was not rung",
      .baseline = "acquire load",
      .goal = 3,
      .open = avic_open,
      .prepare = enter_all,
      .run = recheck_run,
      .base = bench_raw_load_acquire,
      .check = done_check,
      .close = avic_close },
    { .name = "recheck-always",
      .what = "avicemu_vcpu_recheck() that scans, nothing pending",
      .baseline = "acquire load",
      .open = avic_open,
      .prepare = enter_all,
      .run = recheck_always_run,
      .base = bench_raw_load_acquire,
      .check = done_check,
      .close = avic_close },
    { .name = "eoi-msr-avic",
      .what = "EOI by MSR in the guest, edge-triggered",
      .baseline = "lock or",
      .goal = 1.5,
      .ops = VMM_NR_VECTORS,
      .open = avic_open,
      .prepare = eoi_prepare,
      .run = eoi_run,
      .base = bench_raw_lock_or,
      .check = eoi_check,
      .close = avic_close },
    { .name = "eoi-mmio-avic",
      .what = "EOI by MMIO in the guest, edge-triggered",
      .baseline = "lock or",
      .goal = 1.5,
      .ops = VMM_NR_VECTORS,
      .open = avic_open,
      .prepare = eoi_prepare,
      .run = eoi_run,
      .base = bench_raw_lock_or,
      .check = eoi_check,
      .close = avic_close },
    ACCESS("read-msr-avic", "allowed read (LDR) by MSR", read_msr_run,
           soft_read_msr),
    ACCESS("read-mmio-avic", "allowed read (LDR) by MMIO", read_mmio_run,
           soft_read_mmio),
    ACCESS("tpr-msr-avic", "accelerated TPR write by MSR", tpr_run, soft_tpr),
    ACCESS("tpr-mmio-avic", "accelerated TPR write by MMIO", tpr_run, soft_tpr),
    { .name = NULL },
};
