/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest's ICR write, x2APIC mode: to one vCPU, and to all others. Targets are
 * outside their guests, as they are while their thread handles an exit.
 */

#include <stdlib.h>

#include "harness.h"
#include "vmm.h"

#define MSR_ICR        0x830u
#define ICR_ASSERT     (1u << 14)
#define ICR_ALL_OTHERS (3u << 18)
#define NR_TARGETS     64u
#define BROADCASTS     28u

struct ipi {
    struct vmm vmm;
    uint64_t drained; /* acks at the targets */
    struct {
        _Alignas(128) _Atomic uint32_t word;
        char rest[124];
    } lines[NR_TARGETS];
};

static int
ipi_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct ipi *p = aligned_alloc(128, (sizeof(*p) + 127) / 128 * 128);

    (void)b;
    if (p == NULL) {
        return bench_fail("no memory");
    }
    *p = (struct ipi){ .drained = 0 };
    vmm_open(&p->vmm, objects + 1, VMM_X2APIC, VMM_NOW_CLOCK);
    *ret = p;
    return 0;
}

static void
ipi_close(void *state)
{
    struct ipi *p = state;

    vmm_close(&p->vmm);
    free(p);
}

static void
ipi_prepare(void *state)
{
    struct ipi *p = state;

    for (uint32_t i = 1; i < p->vmm.nr; i++) {
        p->drained += vmm_drain(&p->vmm, p->vmm.vcpus[i]);
    }
}

static void
icr_write(struct ipi *p, uint64_t icr)
{
    if (avicemu_msr_write(p->vmm.vcpus[0], MSR_ICR, icr) !=
        AVICEMU_ACCESS_DONE) {
        vmm_die("ICR write");
    }
}

static void
one_run(void *state, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        icr_write(state, 1ull << 32 | ICR_ASSERT | (VMM_FIRST_VECTOR + i));
    }
}

static void
all_run(void *state, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        icr_write(state, ICR_ALL_OTHERS | ICR_ASSERT | (VMM_FIRST_VECTOR + i));
    }
}

static void
all_base(void *state, uint64_t n)
{
    struct ipi *p = state;

    for (uint64_t i = 0; i < n; i++) {
        for (unsigned t = 0; t < NR_TARGETS; t++) {
            (void)atomic_fetch_or_explicit(&p->lines[t].word, 1u << (i & 31),
                                           memory_order_seq_cst);
        }
    }
}

static bool
ipi_check(void *state, uint64_t nr_ops)
{
    struct ipi *p = state;

    ipi_prepare(state);
    return p->drained == nr_ops * (p->vmm.nr - 1);
}

const struct bench bench_ipi[] = {
    { .name = "ipi",
      .what = "IPI by ICR write to one vCPU",
      .baseline = "lock or",
      .ops = VMM_NR_VECTORS,
      .open = ipi_open,
      .prepare = ipi_prepare,
      .run = one_run,
      .base = bench_raw_lock_or,
      .check = ipi_check,
      .close = ipi_close },
    { .name = "ipi-broadcast",
      .what = "IPI by ICR write to all others",
      .baseline = "64 lock or, 64 lines",
      .objects = { NR_TARGETS },
      .ops = BROADCASTS,
      .open = ipi_open,
      .prepare = ipi_prepare,
      .run = all_run,
      .base = all_base,
      .check = ipi_check,
      .close = ipi_close },
    { .name = NULL },
};
