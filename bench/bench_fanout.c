/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One ICR write to all others, per target, by the size of the VM. Each target
 * is in its guest and gets its first interrupt since it last looked, so that
 * each is rung or kicked. The ways, and why they are the same work: ipi_vms.h.
 *
 *   fanout-accel  AVIC (x2AVIC, 4096 ids, the table's end at the last vCPU)
 *   fanout-trap   the emulated write
 *
 * The raw baseline is one locked or per target, each in a page of its own, as
 * the IRRs are: from some hundred targets on, pages at one offset collide in
 * the caches and in the TLB, so that it is not flat itself. The ratio says what
 * the walk adds; the time per target what a guest sees.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ipi_vms.h"

#define PAGE    4096u
#define REG_IRR 0x220u

struct fanout {
    struct ipi_vms vms; /* first: the paths get a struct ipi_vms */
    unsigned char *pages;
    uint32_t tick;
};

static int
fanout_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct fanout *f = calloc(1, sizeof(*f));
    unsigned which = 0;

    if (f == NULL) {
        return bench_fail("no memory");
    }
    f->pages = aligned_alloc(PAGE, (size_t)objects * PAGE);
    if (f->pages == NULL) {
        return bench_fail("no memory");
    }
    memset(f->pages, 0, (size_t)objects * PAGE);
    which |= b->run == ipi_accel_run ? IPI_AVIC : IPI_SOFT;
    which |= b->base == ipi_trap_run ? IPI_SOFT : 0;
    which |= b->base == ipi_rival_run ? IPI_RIVAL : 0;
    ipi_vms_open(&f->vms, objects, 1, 0, VMM_X2APIC, IPI_OTHERS, which);
    *ret = f;
    return 0;
}

static void
fanout_close(void *state)
{
    struct fanout *f = state;

    ipi_vms_close(&f->vms);
    free(f->pages);
    free(f);
}

static void
pages_run(void *state, uint64_t n)
{
    struct fanout *f = state;
    uint32_t bit = 1u << (f->tick++ & 31);

    for (uint64_t i = 0; i < n; i++) {
        _Atomic uint32_t *irr =
            (_Atomic uint32_t *)(void *)(f->pages + (i + 1) * PAGE + REG_IRR);

        (void)atomic_fetch_or_explicit(irr, bit, memory_order_seq_cst);
    }
}

#define ROW(name_, what_, base_name, run_, base_, base_prepare_)       \
    {                                                                  \
        .name = name_, .what = what_, .baseline = base_name,           \
        .objects = { 2, 32, 512, 4096 }, .ops = BENCH_OPS_OTHERS,      \
        .open = fanout_open, .prepare = ipi_##run_##_prepare,          \
        .run = ipi_##run_##_run, .base_prepare = (base_prepare_),      \
        .base = (base_), .check = ipi_vms_check, .close = fanout_close \
    }

const struct bench bench_fanout[] = {
    ROW("fanout-accel", "broadcast by AVIC, per target", "lock or, a page each",
        accel, pages_run, NULL),
    ROW("fanout-trap", "emulated broadcast, per target", "lock or, a page each",
        trap, pages_run, NULL),
    ROW("fanout-accel-vs-trap", "broadcast by AVIC, per target", "trapped",
        accel, ipi_trap_run, ipi_trap_prepare),
    ROW("fanout-accel-vs-mutex", "broadcast by AVIC, per target", "mutex rival",
        accel, ipi_rival_run, ipi_rival_prepare),
    ROW("fanout-trap-vs-mutex", "emulated broadcast, per target", "mutex rival",
        trap, ipi_rival_run, ipi_rival_prepare),
    { .name = NULL },
};
