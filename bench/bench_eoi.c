/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of one interrupt: ack, EOI, and the whole of it on one core.
 *
 *   post+ack+eoi  without entries, against the least that could do the same:
 *                 two locked ors, a locked clear, ISR, and two scans
 *   cycle         as a VMM runs it: post, enter, ack, exit, EOI
 */

#include <stdlib.h>

#include "harness.h"
#include "vmm.h"

#define REG_EOI 0x0b0u

struct eoi {
    struct vmm vmm;
    bool entered;
    uint64_t done;
    /* The plain model. */
    _Alignas(128) _Atomic uint32_t irr[8];
    _Atomic uint32_t summary;
    uint32_t isr[8];
    uint32_t ppr;
};

static int
eoi_open(enum vmm_mode mode, void **ret)
{
    struct eoi *e = aligned_alloc(128, (sizeof(*e) + 127) / 128 * 128);

    if (e == NULL) {
        return bench_fail("no memory");
    }
    *e = (struct eoi){ .entered = false };
    vmm_open(&e->vmm, 1, mode, VMM_NOW_CLOCK);
    *ret = e;
    return 0;
}

static int
x2apic_open(const struct bench *b, uint32_t objects, void **ret)
{
    (void)b;
    (void)objects;
    return eoi_open(VMM_X2APIC, ret);
}

static int
xapic_open(const struct bench *b, uint32_t objects, void **ret)
{
    (void)b;
    (void)objects;
    return eoi_open(VMM_XAPIC, ret);
}

static void
eoi_close(void *state)
{
    struct eoi *e = state;

    if (e->entered) {
        vmm_exit(e->vmm.vcpus[0]);
    }
    vmm_close(&e->vmm);
    free(e);
}

static void
eoi_all(struct eoi *e)
{
    for (unsigned i = 0; i < VMM_NR_VECTORS; i++) {
        vmm_write(&e->vmm, e->vmm.vcpus[0], REG_EOI, 0);
    }
}

/* All vectors pending; those of the last sample are over. */
static void
ack_prepare(void *state)
{
    struct eoi *e = state;
    struct avicemu_vcpu *vcpu = e->vmm.vcpus[0];
    struct avicemu_todo todo;

    if (e->entered) {
        vmm_exit(vcpu);
        eoi_all(e);
    }
    for (unsigned i = 0; i < VMM_NR_VECTORS; i++) {
        (void)avicemu_post(vcpu, (uint8_t)(VMM_FIRST_VECTOR + i),
                           AVICEMU_TRIGGER_EDGE);
    }
    vmm_enter(vcpu, &todo);
    e->entered = true;
}

static void
ack_run(void *state, uint64_t n)
{
    struct eoi *e = state;
    uint64_t done = 0;

    for (uint64_t i = 0; i < n; i++) {
        done += avicemu_vcpu_ack(e->vmm.vcpus[0], AVICEMU_DO_INJECT,
                                 (uint8_t)(VMM_FIRST_VECTOR + i)) == 0;
    }
    e->done += done;
}

static bool
done_check(void *state, uint64_t nr_ops)
{
    return ((struct eoi *)state)->done == nr_ops;
}

static void
eoi_prepare(void *state)
{
    struct eoi *e = state;

    ack_prepare(state);
    ack_run(state, VMM_NR_VECTORS);
    vmm_exit(e->vmm.vcpus[0]);
    e->entered = false;
}

static void
eoi_run(void *state, uint64_t n)
{
    struct eoi *e = state;

    for (uint64_t i = 0; i < n; i++) {
        vmm_write(&e->vmm, e->vmm.vcpus[0], REG_EOI, 0);
    }
}

static bool
eoi_check(void *state, uint64_t nr_ops)
{
    struct eoi *e = state;
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    return avicemu_vcpu_stats(e->vmm.vcpus[0], &stats) == 0 &&
           stats.eoi == nr_ops;
}

/* ---- all on one core ---------------------------------------------------- */

static void
whole_run(void *state, uint64_t n)
{
    struct eoi *e = state;
    struct avicemu_vcpu *vcpu = e->vmm.vcpus[0];
    uint64_t done = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t vector = (uint8_t)(VMM_FIRST_VECTOR + i % VMM_NR_VECTORS);

        (void)avicemu_post(vcpu, vector, AVICEMU_TRIGGER_EDGE);
        done += avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, vector) == 0;
        vmm_write(&e->vmm, vcpu, REG_EOI, 0);
    }
    e->done += done;
}

static void
cycle_run(void *state, uint64_t n)
{
    struct eoi *e = state;
    struct avicemu_vcpu *vcpu = e->vmm.vcpus[0];
    struct avicemu_todo todo;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t vector = (uint8_t)(VMM_FIRST_VECTOR + i % VMM_NR_VECTORS);

        (void)avicemu_post(vcpu, vector, AVICEMU_TRIGGER_EDGE);
        vmm_enter(vcpu, &todo);
        e->done += avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) == 0;
        vmm_exit(vcpu);
        vmm_write(&e->vmm, vcpu, REG_EOI, 0);
    }
}

static int
plain_highest(const uint32_t words[8])
{
    for (int i = 7; i >= 0; i--) {
        if (words[i] != 0) {
            return i * 32 + 31 - __builtin_clz(words[i]);
        }
    }
    return -1;
}

static uint32_t
plain_ppr(const struct eoi *e)
{
    int isr = plain_highest(e->isr);

    return isr < 0 ? 0 : (uint32_t)isr & 0xf0u;
}

static void
plain_run(void *state, uint64_t n)
{
    struct eoi *e = state;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t vector = VMM_FIRST_VECTOR + (uint32_t)(i % VMM_NR_VECTORS);
        uint32_t bit = 1u << (vector & 31);

        (void)atomic_fetch_or(&e->irr[vector >> 5], bit);
        (void)atomic_fetch_or(&e->summary, 1u << (vector >> 5));
        (void)atomic_fetch_and(&e->irr[vector >> 5], ~bit);
        e->isr[vector >> 5] |= bit;
        e->ppr = plain_ppr(e);
        bench_use(e->ppr);
        e->isr[vector >> 5] &= ~bit;
        e->ppr = plain_ppr(e);
        bench_use(atomic_load_explicit(&e->summary, memory_order_acquire));
    }
}

const struct bench bench_eoi[] = {
    { .name = "ack",
      .what = "avicemu_vcpu_ack() of a fixed vector",
      .baseline = "lock or",
      .ops = VMM_NR_VECTORS,
      .open = x2apic_open,
      .close = eoi_close,
      .prepare = ack_prepare,
      .run = ack_run,
      .base = bench_raw_lock_or,
      .check = done_check },
    { .name = "eoi-msr",
      .what = "EOI by MSR, edge-triggered",
      .baseline = "lock or",
      .goal = 1.5,
      .ops = VMM_NR_VECTORS,
      .open = x2apic_open,
      .close = eoi_close,
      .prepare = eoi_prepare,
      .run = eoi_run,
      .base = bench_raw_lock_or,
      .check = eoi_check },
    { .name = "eoi-mmio",
      .what = "EOI by MMIO, edge-triggered",
      .baseline = "lock or",
      .goal = 1.5,
      .ops = VMM_NR_VECTORS,
      .open = xapic_open,
      .close = eoi_close,
      .prepare = eoi_prepare,
      .run = eoi_run,
      .base = bench_raw_lock_or,
      .check = eoi_check },
    { .name = "post+ack+eoi",
      .what = "one interrupt on one core, without entries",
      .baseline = "plain model",
      .goal = 1.3,
      .open = x2apic_open,
      .close = eoi_close,
      .run = whole_run,
      .base = plain_run,
      .check = done_check },
    { .name = "cycle",
      .what = "one interrupt as a VMM runs it: post, enter, ack, exit, EOI",
      .baseline = "plain model",
      .open = x2apic_open,
      .close = eoi_close,
      .run = cycle_run,
      .base = plain_run,
      .check = done_check },
    { .name = NULL },
};
