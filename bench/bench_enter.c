/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry and exit with nothing pending. An entry needs one full barrier, its
 * store of the run state, so the baseline is a sequentially consistent store.
 */

#include <stdlib.h>

#include "harness.h"
#include "vmm.h"

#define NR_VCPUS 8u

struct enter {
    struct vmm vmm;
    bool entered;
    uint64_t idle; /* entries with nothing to do */
};

static int
enter_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct enter *e = calloc(1, sizeof(*e));

    (void)b;
    (void)objects;
    if (e == NULL) {
        return bench_fail("no memory");
    }
    vmm_open(&e->vmm, NR_VCPUS, VMM_X2APIC, VMM_NOW_CLOCK);
    *ret = e;
    return 0;
}

static void
leave_all(void *state)
{
    struct enter *e = state;

    for (uint32_t i = 0; e->entered && i < NR_VCPUS; i++) {
        vmm_exit(e->vmm.vcpus[i]);
    }
    e->entered = false;
}

static void
enter_close(void *state)
{
    struct enter *e = state;

    leave_all(e);
    vmm_close(&e->vmm);
    free(e);
}

/* Each vCPU once; leave_all() between samples. */
static void
enter_run(void *state, uint64_t n)
{
    struct enter *e = state;
    struct avicemu_todo todo;

    for (uint64_t i = 0; i < n; i++) {
        vmm_enter(e->vmm.vcpus[i], &todo);
        e->idle += todo.what == 0;
    }
    e->entered = true;
}

static void
enter_exit_run(void *state, uint64_t n)
{
    struct enter *e = state;
    struct avicemu_vcpu *vcpu = e->vmm.vcpus[0];
    struct avicemu_todo todo;

    for (uint64_t i = 0; i < n; i++) {
        vmm_enter(vcpu, &todo);
        e->idle += todo.what == 0;
        vmm_exit(vcpu);
    }
}

static bool
enter_check(void *state, uint64_t nr_ops)
{
    return ((struct enter *)state)->idle == nr_ops;
}

const struct bench bench_enter[] = {
    { .name = "enter",
      .what = "avicemu_vcpu_enter() with nothing pending",
      .baseline = "seq_cst store",
      .goal = 1.5,
      .ops = NR_VCPUS,
      .open = enter_open,
      .prepare = leave_all,
      .run = enter_run,
      .base = bench_raw_store_seqcst,
      .check = enter_check,
      .close = enter_close },
    { .name = "enter+exit",
      .what = "entry and exit with nothing pending",
      .baseline = "seq_cst store",
      .open = enter_open,
      .run = enter_exit_run,
      .base = bench_raw_store_seqcst,
      .check = enter_check,
      .close = enter_close },
    { .name = NULL },
};
