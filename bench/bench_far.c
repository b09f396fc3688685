/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting to a vCPU that another core polls: one isolated post at a time, as a
 * device's completion is, against the raw operation on a line that is polled.
 *
 *   post-far     what the sender pays       lock or on a polled line
 *   deliver-far  until the handler has run  a store, and the poller's answer
 *
 * The target is halted and its thread polls avicemu_vcpu_runnable(); or, -avic,
 * it is in the guest with AVIC active, and what its thread polls between the
 * guest's instructions is the doorbell (avicemu_vcpu_recheck()), as the line is
 * polled in the baseline. ipi-* is an ICR write by AVIC instead of a post.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "vmm.h"

#define MSR_ICR      0x830u
#define ICR_ASSERT   (1u << 14)
#define REG_EOI      0x0b0u
#define LOST_SECONDS 20u

struct line {
    _Alignas(128) _Atomic uint64_t word;
    char rest[120];
};

enum target {
    TARGET_VCPU,
    TARGET_GUEST,
    TARGET_LINE,
    TARGET_STOP,
};

struct far {
    struct line seen; /* what the poller took, of either kind */
    struct line raw;  /* the baseline's request */
    struct line target;
    /* Constant once the threads run. vCPU 0 is the target, 1 sends IPIs. */
    _Alignas(128) struct vmm vmm;
    bool avic; /* both are in the guest */
    pthread_t thread;
    /* The poster's. */
    _Alignas(128) uint64_t sent;
    uint64_t nr_new;
    uint64_t rest; /* of a random generator: when to send */
};

/* An entry and an exit, as of a guest that halts right behind its handler. */
static void
enter_once(struct far *f)
{
    struct avicemu_vcpu *vcpu = f->vmm.vcpus[0];
    struct avicemu_todo todo;
    bool inject;

    vmm_enter(vcpu, &todo);
    inject = (todo.what & AVICEMU_DO_INJECT) != 0;
    if (inject) {
        if (avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) != 0) {
            vmm_die("avicemu_vcpu_ack");
        }
        (void)atomic_fetch_add(&f->seen.word, 1);
    }
    vmm_exit(vcpu);
    if (inject) {
        vmm_write(&f->vmm, vcpu, REG_EOI, 0);
    }
    if (avicemu_vcpu_set_halted(vcpu) != 0) {
        vmm_die("avicemu_vcpu_set_halted");
    }
}

static void
poll_vcpu(struct far *f)
{
    if (avicemu_vcpu_runnable(f->vmm.vcpus[0])) {
        enter_once(f);
    }
}

/* Between two instructions of a guest with AVIC. */
static void
poll_guest(struct far *f)
{
    struct avicemu_vcpu *vcpu = f->vmm.vcpus[0];
    struct avicemu_todo todo;

    if (!vmm_recheck(vcpu, AVICEMU_RECHECK_DOORBELL, &todo) ||
        (todo.what & AVICEMU_DO_INJECT) == 0) {
        return;
    }
    if (avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) != 0) {
        vmm_die("avicemu_vcpu_ack");
    }
    (void)atomic_fetch_add(&f->seen.word, 1);
    vmm_write(&f->vmm, vcpu, REG_EOI, 0);
}

static void
poll_line(struct far *f)
{
    if (atomic_load_explicit(&f->raw.word, memory_order_acquire) != 0) {
        atomic_store_explicit(&f->raw.word, 0, memory_order_relaxed);
        (void)atomic_fetch_add(&f->seen.word, 1);
    }
}

static void *
poller(void *opaque)
{
    struct far *f = opaque;

    bench_pin(1);
    avicemu_thread_attach();
    for (;;) {
        switch (atomic_load_explicit(&f->target.word, memory_order_acquire)) {
        case TARGET_VCPU:
            poll_vcpu(f);
            break;
        case TARGET_GUEST:
            poll_guest(f);
            break;
        case TARGET_LINE:
            poll_line(f);
            break;
        default:
            return NULL;
        }
        bench_relax();
    }
}

static void
await_seen(const struct far *f)
{
    uint64_t end = bench_tsc() + LOST_SECONDS * bench_tsc_hz();

    while (atomic_load_explicit(&f->seen.word, memory_order_acquire) !=
           f->sent) {
        if (bench_tsc() > end) {
            vmm_die("delivery to a polling vCPU");
        }
        bench_relax();
    }
}

static int
far_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct far *f = aligned_alloc(128, (sizeof(*f) + 127) / 128 * 128);

    (void)objects;
    if (f == NULL) {
        return bench_fail("no memory");
    }
    *f = (struct far){ .rest = 88172645463325252u,
                       .avic = strstr(b->name, "-avic") != NULL };
    if (f->avic) {
        vmm_open_avic(&f->vmm, 2, VMM_X2APIC);
        vmm_enter_avic(&f->vmm, f->vmm.vcpus[0]);
        vmm_enter_avic(&f->vmm, f->vmm.vcpus[1]);
        atomic_store(&f->target.word, TARGET_GUEST);
    } else {
        vmm_open(&f->vmm, 1, VMM_X2APIC, VMM_NOW_CLOCK);
        /* An entry tells the library that IF is 1. */
        enter_once(f);
    }
    if (pthread_create(&f->thread, NULL, poller, f) != 0) {
        return bench_fail("pthread_create");
    }
    *ret = f;
    return 0;
}

static void
far_close(void *state)
{
    struct far *f = state;

    atomic_store(&f->target.word, TARGET_STOP);
    (void)pthread_join(f->thread, NULL);
    for (uint32_t i = 0; f->avic && i < f->vmm.nr; i++) {
        vmm_exit(f->vmm.vcpus[i]);
    }
    vmm_close(&f->vmm);
    free(f);
}

/* The poller has taken all, polls this target, and has done so a while. */
static void
settle(struct far *f, enum target target)
{
    await_seen(f);
    atomic_store(&f->target.word, (uint64_t)target);
    f->rest ^= f->rest << 13;
    f->rest ^= f->rest >> 7;
    f->rest ^= f->rest << 17;
    for (uint64_t i = 0; i < 8 + f->rest % 8; i++) {
        bench_relax();
    }
}

static void
far_prepare(void *state)
{
    struct far *f = state;

    settle(f, f->avic ? TARGET_GUEST : TARGET_VCPU);
}

static void
far_base_prepare(void *state)
{
    settle(state, TARGET_LINE);
}

static void
post_run(void *state, uint64_t n)
{
    struct far *f = state;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t vector = (uint8_t)(VMM_FIRST_VECTOR + f->sent % VMM_NR_VECTORS);

        f->nr_new += avicemu_post(f->vmm.vcpus[0], vector,
                                  AVICEMU_TRIGGER_EDGE) == AVICEMU_POST_NEW;
        f->sent++;
    }
}

static void
ipi_run(void *state, uint64_t n)
{
    struct far *f = state;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t vector = VMM_FIRST_VECTOR + f->sent % VMM_NR_VECTORS;

        f->nr_new +=
            avicemu_msr_write(f->vmm.vcpus[1], MSR_ICR, ICR_ASSERT | vector) ==
            AVICEMU_ACCESS_DONE;
        f->sent++;
    }
}

static void
lock_or_run(void *state, uint64_t n)
{
    struct far *f = state;

    for (uint64_t i = 0; i < n; i++) {
        (void)atomic_fetch_or_explicit(&f->raw.word, 1, memory_order_seq_cst);
        f->sent++;
    }
}

static void
deliver_run(void *state, uint64_t n)
{
    post_run(state, n);
    await_seen(state);
}

static void
ipi_deliver_run(void *state, uint64_t n)
{
    ipi_run(state, n);
    await_seen(state);
}

static void
store_run(void *state, uint64_t n)
{
    struct far *f = state;

    (void)n;
    atomic_store_explicit(&f->raw.word, 1, memory_order_release);
    f->sent++;
    await_seen(f);
}

static bool
far_check(void *state, uint64_t nr_ops)
{
    struct far *f = state;

    await_seen(f);
    return f->nr_new == nr_ops;
}

#define FAR(name_, what_, baseline_, goal_, run_, base_)                      \
    {                                                                         \
        .name = name_, .what = what_, .baseline = baseline_, .goal = (goal_), \
        .threads = 2, .ops = 1, .open = far_open, .prepare = far_prepare,     \
        .run = (run_), .base_prepare = far_base_prepare, .base = (base_),     \
        .check = far_check, .close = far_close                                \
    }

const struct bench bench_far[] = {
    FAR("post-far", "avicemu_post() to a halted vCPU that another core polls",
        "lock or, polled line", 1.25, post_run, lock_or_run),
    FAR("deliver-far", "post until it was acked on another core that polls",
        "store and answer", 1.5, deliver_run, store_run),
    FAR("post-far-avic", "avicemu_post() to a guest that polls its doorbell",
        "lock or, polled line", 1.25, post_run, lock_or_run),
    FAR("deliver-far-avic", "post until it was acked in that guest",
        "store and answer", 1.5, deliver_run, store_run),
    FAR("ipi-far-avic", "IPI by AVIC to a guest that polls its doorbell",
        "lock or, polled line", 1.25, ipi_run, lock_or_run),
    FAR("ipi-deliver-far-avic", "IPI by AVIC until it was acked in that guest",
        "store and answer", 1.5, ipi_deliver_run, store_run),
    { .name = NULL },
};
