/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device's interrupt, from its write to whom is told, against one locked or:
 * through device table and remapping entry to a running vCPU, whose doorbell is
 * a word; to a preempted one; to a blocked one with the notifier's drain and
 * its wake-up. The GA log alone: an append with 1, 2 and 8 producers, and a
 * drain, per entry.
 */

#include <stdlib.h>
#include <string.h>

#include <avicemu/avicemu.h>

#include "base/rcu.h"
#include "crowd.h"
#include "harness.h"
#include "hw/galog.h"

#define DEVICE 8u
#define VECTOR 0x51u
#define RING   65536u /* entries */
#define EVERY  256u   /* appends between two looks of the consumer */

/* ---- posts -------------------------------------------------------------- */

struct post {
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu;
    struct avicemu_iommu *iommu;
    uint64_t address;
    uint32_t data;
    uint64_t posted, bells, logged, wakes;
};

static uint64_t
on_now(void *opaque)
{
    (void)opaque;
    return 0;
}

static void
on_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct post *p = opaque;

    (void)vcpu;
    p->wakes++;
}

static const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                        .flags = AVICEMU_CPU_IF };

static int
post_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct post *p = calloc(1, sizeof(*p));
    const struct avicemu_host_config hc = {
        .size = sizeof(hc),
        .avic = AVICEMU_HOST_AVIC,
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_pcpus = 2,
    };
    const struct avicemu_vm_config vc = {
        .size = sizeof(vc),
        .flags = AVICEMU_VM_AVIC,
        .ops = { .now = on_now, .wake = on_wake },
    };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint32_t svr = 0x1ff;

    (void)objects;
    if (p == NULL || avicemu_host_create(&hc, &p->host) != 0 ||
        avicemu_vm_create(p->host, &vc, &p->vm) != 0 ||
        avicemu_vcpu_create(p->vm, 0, p, &p->vcpu) != 0 ||
        avicemu_iommu_create(p->host, NULL, &p->iommu) != 0 ||
        avicemu_iommu_add_device(p->iommu, DEVICE, 1) != 0 ||
        avicemu_iommu_message(p->iommu, DEVICE, 0, &p->address, &p->data) !=
            0) {
        return bench_fail("no memory");
    }
    (void)avicemu_mmio_write(p->vcpu, 0xfee000f0, 4, &svr);
    (void)avicemu_vcpu_load(p->vcpu, 1);
    (void)avicemu_vcpu_enter(p->vcpu, &cpu, &todo);
    if (strstr(b->name, "running") == NULL) {
        (void)avicemu_vcpu_exit(p->vcpu, &cpu);
    }
    if (strstr(b->name, "preempted") != NULL) {
        (void)avicemu_vcpu_put(p->vcpu);
    }
    *ret = p;
    return avicemu_iommu_route(p->iommu, DEVICE, 0, p->vcpu, VECTOR) == 0
               ? 0
               : bench_fail("no route");
}

static void
post_close(void *state)
{
    struct post *p = state;

    (void)avicemu_iommu_remove_device(p->iommu, DEVICE);
    (void)avicemu_vcpu_block_end(p->vcpu);
    (void)avicemu_vcpu_exit(p->vcpu, &cpu);
    (void)avicemu_vcpu_destroy(p->vcpu);
    (void)avicemu_vm_destroy(p->vm);
    (void)avicemu_iommu_destroy(p->iommu);
    (void)avicemu_host_destroy(p->host);
    free(p);
}

static void
post_run(void *state, uint64_t n)
{
    struct post *p = state;
    struct avicemu_iommu_posted posted;

    for (uint64_t i = 0; i < n; i++) {
        (void)avicemu_iommu_msi(p->iommu, DEVICE, p->address, p->data, &posted);
        p->posted += posted.way == AVICEMU_WAY_POSTED;
        p->bells += posted.nr_doorbells;
        p->logged += posted.nr_logged;
    }
}

static bool
running_check(void *state, uint64_t nr_ops)
{
    const struct post *p = state;

    return p->posted == nr_ops && p->bells == nr_ops && p->logged == 0;
}

static bool
preempted_check(void *state, uint64_t nr_ops)
{
    const struct post *p = state;

    return p->posted == nr_ops && p->bells + p->logged == 0;
}

/* Awake, the guest takes its vector. */
static void
take(struct post *p)
{
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint32_t zero = 0;

    (void)avicemu_vcpu_block_end(p->vcpu);
    (void)avicemu_vcpu_enter(p->vcpu, &cpu, &todo);
    if ((todo.what & AVICEMU_DO_INJECT) != 0) {
        (void)avicemu_vcpu_ack(p->vcpu, AVICEMU_DO_INJECT, todo.vector);
    }
    (void)avicemu_vcpu_exit(p->vcpu, &cpu);
    (void)avicemu_mmio_write(p->vcpu, 0xfee000b0, 4, &zero);
}

/* Blocked, posted to, its notifier, awake, and the vector taken. */
static void
blocked_run(void *state, uint64_t n)
{
    struct post *p = state;

    for (uint64_t i = 0; i < n; i++) {
        (void)avicemu_vcpu_set_halted(p->vcpu);
        (void)avicemu_vcpu_block_begin(p->vcpu);
        post_run(p, 1);
        (void)avicemu_iommu_notify(p->iommu);
        take(p);
    }
}

static bool
blocked_check(void *state, uint64_t nr_ops)
{
    const struct post *p = state;

    return p->posted == nr_ops && p->logged == nr_ops && p->wakes == nr_ops;
}

/* ---- the log ------------------------------------------------------------ */

struct log {
    struct crowd crowd;
    struct ae_mem mem;
    struct ae_galog galog;
    _Atomic uint32_t *marks;
    unsigned char *ring;
    uint64_t appended, drained;
};

static void
append(struct log *l, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        bool visible;

        ae_rcu_enter();
        (void)ae_galog_append(&l->galog, ae_ga_entry(0x3007, DEVICE), &visible);
        ae_rcu_leave();
    }
}

static void
log_burst(void *state, unsigned n, uint32_t what)
{
    (void)n;
    if (what == 0) {
        append(state, 64);
    } else {
        bench_raw_lock_or(NULL, 256);
    }
}

static int
log_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct log *l = aligned_alloc(128, (sizeof(*l) + 127) / 128 * 128);

    (void)objects;
    if (l == NULL) {
        return bench_fail("no memory");
    }
    memset(l, 0, sizeof(*l));
    l->marks = calloc(RING, sizeof(uint32_t));
    l->ring = aligned_alloc(4096, RING * 8);
    if (l->marks == NULL || l->ring == NULL) {
        return bench_fail("no memory");
    }
    ae_mem_init(&l->mem, &ae_default_allocator);
    (void)ae_mem_add(&l->mem, 0x100000, RING * 8, l->ring);
    ae_galog_init(&l->galog, &l->mem, 8, l->marks);
    (void)ae_galog_set_base(&l->galog, 0x100000 | 15ull << 56);
    (void)ae_galog_start(&l->galog);
    *ret = l;
    return crowd_start(&l->crowd, b->threads - 1, 0, log_burst, l)
               ? 0
               : bench_fail("pthread_create");
}

static void
log_close(void *state)
{
    struct log *l = state;

    crowd_stop(&l->crowd);
    ae_mem_fini(&l->mem);
    free((void *)l->marks);
    free(l->ring);
    free(l);
}

static void
log_prepare(void *state)
{
    crowd_change(&((struct log *)state)->crowd, 0);
}

static void
log_base_prepare(void *state)
{
    crowd_change(&((struct log *)state)->crowd, 1);
}

/* The measured producer is the consumer, too, now and then; what overflows
 * while others are quicker is restarted. */
static void
append_run(void *state, uint64_t n)
{
    struct log *l = state;

    for (uint64_t done = 0; done < n; done += EVERY) {
        append(l, n - done < EVERY ? n - done : EVERY);
        if (ae_galog_overflowed(&l->galog)) {
            ae_galog_clear_overflow(&l->galog);
            (void)ae_galog_start(&l->galog);
        }
        ae_galog_set_head(&l->galog, ae_galog_tail(&l->galog));
    }
    l->appended += n;
}

static bool
append_check(void *state, uint64_t nr_ops)
{
    const struct log *l = state;

    return l->appended == nr_ops &&
           (l->crowd.nr != 0 || !ae_galog_overflowed(&l->galog));
}

/* ---- the notifier ------------------------------------------------------- */

static void
drain_prepare(void *state)
{
    struct post *p = state;

    take(p);
    (void)avicemu_vcpu_set_halted(p->vcpu);
    (void)avicemu_vcpu_block_begin(p->vcpu);
    post_run(p, EVERY);
}

/* One sample: a drain of EVERY entries; counted as so many operations. */
static void
drain_run(void *state, uint64_t n)
{
    struct post *p = state;

    (void)n;
    (void)avicemu_iommu_notify(p->iommu);
}

static bool
drain_check(void *state, uint64_t nr_ops)
{
    const struct post *p = state;
    struct avicemu_iommu_stats stats = { .size = sizeof(stats) };

    (void)avicemu_iommu_stats(p->iommu, &stats);
    return stats.entries == nr_ops && stats.overflows == 0;
}

#define POST(name_, what_, goal_, run_, check_)                               \
    {                                                                         \
        .name = name_, .what = what_, .baseline = "lock or", .goal = (goal_), \
        .open = post_open, .run = run_, .base = bench_raw_lock_or,            \
        .check = check_, .close = post_close                                  \
    }
#define APPEND(name_, threads_)                                              \
    {                                                                        \
        .name = name_, .what = "GA log: an append", .baseline = "lock or",   \
        .threads = (threads_), .open = log_open, .prepare = log_prepare,     \
        .run = append_run, .base_prepare = log_base_prepare,                 \
        .base = bench_raw_lock_or, .check = append_check, .close = log_close \
    }

const struct bench bench_iommu[] = {
    POST("iommu-running", "MSI through DTE and IRTE, the vCPU runs", 4.0,
         post_run, running_check),
    POST("iommu-preempted", "the same, preempted: nobody is told", 4.0,
         post_run, preempted_check),
    POST("iommu-blocked", "the same, blocked: log, notifier, wake, taken", 0,
         blocked_run, blocked_check),
    { .name = "iommu-drain",
      .what = "notifier: an entry of the GA log, of 256",
      .baseline = "lock or",
      .ops = EVERY,
      .open = post_open,
      .prepare = drain_prepare,
      .run = drain_run,
      .base = bench_raw_lock_or,
      .check = drain_check,
      .close = post_close },
    APPEND("galog-append", 1),
    APPEND("galog-append-2", 2),
    APPEND("galog-append-8", 8),
    { .name = NULL },
};
