/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting to a vCPU whose lines are in the poster's cache. The goal leaves room
 * for two locked operations: the IRR bit, and the claim of the one kick.
 */

#include <stdlib.h>

#include "harness.h"
#include "vmm.h"

#define NR_FIRST 8u /* vCPUs; their pages collide in few cache sets */

struct post {
    struct vmm vmm;
    bool entered;
    uint64_t nr_new, nr_merged;
};

static int
post_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct post *p = calloc(1, sizeof(*p));

    (void)objects;
    if (p == NULL) {
        return bench_fail("no memory");
    }
    vmm_open(&p->vmm, b->ops == NR_FIRST ? NR_FIRST : 1, VMM_X2APIC,
             VMM_NOW_CLOCK);
    *ret = p;
    return 0;
}

static void
post_close(void *state)
{
    struct post *p = state;

    for (uint32_t i = 0; p->entered && i < p->vmm.nr; i++) {
        vmm_exit(p->vmm.vcpus[i]);
    }
    vmm_close(&p->vmm);
    free(p);
}

/* All in their guests, nothing pending, nobody kicked. */
static void
post_prepare(void *state)
{
    struct post *p = state;
    struct avicemu_todo todo;

    for (uint32_t i = 0; i < p->vmm.nr; i++) {
        if (p->entered) {
            vmm_exit(p->vmm.vcpus[i]);
        }
        (void)vmm_drain(&p->vmm, p->vmm.vcpus[i]);
        vmm_enter(p->vmm.vcpus[i], &todo);
    }
    p->entered = true;
}

static void
post_run(void *state, uint64_t n)
{
    struct post *p = state;
    struct avicemu_vcpu *vcpu = p->vmm.vcpus[0];
    uint64_t nr_new = 0;

    for (uint64_t i = 0; i < n; i++) {
        nr_new += avicemu_post(vcpu, (uint8_t)(VMM_FIRST_VECTOR + i),
                               AVICEMU_TRIGGER_EDGE) == AVICEMU_POST_NEW;
    }
    p->nr_new += nr_new;
}

static void
first_run(void *state, uint64_t n)
{
    struct post *p = state;

    for (uint64_t i = 0; i < n; i++) {
        p->nr_new += avicemu_post(p->vmm.vcpus[i], 0x41,
                                  AVICEMU_TRIGGER_EDGE) == AVICEMU_POST_NEW;
    }
}

static bool
post_check(void *state, uint64_t nr_ops)
{
    struct post *p = state;

    return p->nr_new == nr_ops && p->vmm.kicks == nr_ops / VMM_NR_VECTORS;
}

static bool
first_check(void *state, uint64_t nr_ops)
{
    struct post *p = state;

    return p->nr_new == nr_ops && p->vmm.kicks == nr_ops;
}

/* ---- merged ------------------------------------------------------------- */

static void
merged_run(void *state, uint64_t n)
{
    struct post *p = state;
    struct avicemu_vcpu *vcpu = p->vmm.vcpus[0];
    uint64_t nr_merged = 0;

    for (uint64_t i = 0; i < n; i++) {
        nr_merged += avicemu_post(vcpu, 0x41, AVICEMU_TRIGGER_EDGE) ==
                     AVICEMU_POST_MERGED;
    }
    p->nr_merged += nr_merged;
}

static bool
merged_check(void *state, uint64_t nr_ops)
{
    struct post *p = state;

    return p->nr_merged + 1 >= nr_ops; /* the first was a new one */
}

const struct bench bench_post[] = {
    { .name = "post",
      .what = "avicemu_post() of a new vector to a running vCPU, kicked before",
      .baseline = "lock or",
      .goal = 2.5,
      .ops = VMM_NR_VECTORS,
      .open = post_open,
      .prepare = post_prepare,
      .run = post_run,
      .base = bench_raw_lock_or,
      .check = post_check,
      .close = post_close },
    { .name = "post-first",
      .what = "the first post after each entry: it kicks",
      .baseline = "lock or",
      .goal = 2.5,
      .ops = NR_FIRST,
      .open = post_open,
      .prepare = post_prepare,
      .run = first_run,
      .base = bench_raw_lock_or,
      .check = first_check,
      .close = post_close },
    { .name = "post-merged",
      .what = "avicemu_post() of a vector that is pending already",
      .baseline = "lock or",
      .goal = 2.5,
      .open = post_open,
      .run = merged_run,
      .base = bench_raw_lock_or,
      .check = merged_check,
      .close = post_close },
    { .name = NULL },
};
