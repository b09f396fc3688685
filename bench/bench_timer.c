/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arming the APIC timer while that many vCPUs have a deadline: by a write of
 * the initial count, and by TSC_DEADLINE. Against one call of the VMM's own
 * clock, which a write needs in any case, and against timerfd_settime(), what a
 * VMM without a deadline word of its own would call.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "harness.h"
#include "vmm.h"

#define REG_LVT_TIMER    0x320u
#define REG_TMICT        0x380u
#define REG_TDCR         0x3e0u
#define LVT_ONE_SHOT     0x00040u
#define LVT_DEADLINE     0x40040u
#define DIVIDE_BY_1      0xbu
#define FAR_TICKS        4000000000u /* 4 s */
#define MSR_TSC_DEADLINE 0x6e0u
#define FAR_DEADLINE     (1ull << 62)

struct timer {
    struct vmm vmm;
    uint64_t next; /* every value is another one */
    int fd;
};

static void
timer_arm(struct timer *t, struct avicemu_vcpu *vcpu, bool deadline)
{
    t->next++;
    if (!deadline) {
        vmm_write(&t->vmm, vcpu, REG_TMICT,
                  (uint32_t)(FAR_TICKS + t->next % 1024 * 1024));
    } else if (avicemu_msr_write(vcpu, MSR_TSC_DEADLINE,
                                 FAR_DEADLINE + t->next) !=
               AVICEMU_ACCESS_DONE) {
        vmm_die("TSC_DEADLINE write");
    }
}

static int
timer_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct timer *t = calloc(1, sizeof(*t));
    bool deadline = strstr(b->name, "tscdl") != NULL;
    bool tsc =
        strstr(b->name, "rdtsc") != NULL || strstr(b->name, "-fd") != NULL;

    if (t == NULL) {
        return bench_fail("no memory");
    }
    t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (t->fd < 0) {
        free(t);
        return bench_fail("timerfd_create");
    }
    vmm_open(&t->vmm, objects, VMM_X2APIC, tsc ? VMM_NOW_TSC : VMM_NOW_CLOCK);
    for (uint32_t i = 0; i < objects; i++) {
        vmm_write(&t->vmm, t->vmm.vcpus[i], REG_TDCR, DIVIDE_BY_1);
        vmm_write(&t->vmm, t->vmm.vcpus[i], REG_LVT_TIMER,
                  deadline ? LVT_DEADLINE : LVT_ONE_SHOT);
        timer_arm(t, t->vmm.vcpus[i], deadline);
    }
    t->vmm.arms = 0;
    *ret = t;
    return 0;
}

static void
timer_close(void *state)
{
    struct timer *t = state;

    (void)close(t->fd);
    vmm_close(&t->vmm);
    free(t);
}

static void
tmict_run(void *state, uint64_t n)
{
    struct timer *t = state;

    for (uint64_t i = 0; i < n; i++) {
        timer_arm(t, t->vmm.vcpus[0], false);
    }
}

static void
tscdl_run(void *state, uint64_t n)
{
    struct timer *t = state;

    for (uint64_t i = 0; i < n; i++) {
        timer_arm(t, t->vmm.vcpus[0], true);
    }
}

static void
timerfd_run(void *state, uint64_t n)
{
    struct timer *t = state;

    for (uint64_t i = 0; i < n; i++) {
        struct itimerspec its = { .it_value = { 4, (long)(i % 1024) * 1024 } };

        if (timerfd_settime(t->fd, 0, &its, NULL) != 0) {
            vmm_die("timerfd_settime");
        }
    }
}

/* The VMM heard of every new deadline, and it is far off. */
static bool
timer_check(void *state, uint64_t nr_ops)
{
    struct timer *t = state;

    return t->vmm.arms == nr_ops &&
           avicemu_vcpu_deadline(t->vmm.vcpus[0]) != UINT64_MAX;
}

#define PENDING 1, 1000, 10000

const struct bench bench_timer[] = {
    { .name = "timer-tmict",
      .what = "arm by TMICT; now is clock_gettime(), pending timers as many",
      .baseline = "ops->now (clock_gettime)",
      .goal = 2.5,
      .objects = { PENDING },
      .open = timer_open,
      .run = tmict_run,
      .base = bench_raw_clock,
      .check = timer_check,
      .close = timer_close },
    { .name = "timer-tmict-rdtsc",
      .what = "the same where now is rdtsc",
      .baseline = "ops->now (rdtsc)",
      .goal = 2.5,
      .objects = { PENDING },
      .open = timer_open,
      .run = tmict_run,
      .base = bench_raw_tsc,
      .check = timer_check,
      .close = timer_close },
    { .name = "timer-tmict-fd",
      .what = "arm by TMICT where now is rdtsc, against the OS",
      .baseline = "timerfd_settime",
      .goal = 1.0 / 15,
      .objects = { PENDING },
      .open = timer_open,
      .run = tmict_run,
      .base = timerfd_run,
      .check = timer_check,
      .close = timer_close },
    { .name = "timer-tscdl",
      .what = "arm by TSC_DEADLINE; now is clock_gettime()",
      .baseline = "ops->now (clock_gettime)",
      .goal = 2.5,
      .objects = { PENDING },
      .open = timer_open,
      .run = tscdl_run,
      .base = bench_raw_clock,
      .check = timer_check,
      .close = timer_close },
    { .name = "timer-tscdl-rdtsc",
      .what = "the same where now is rdtsc",
      .baseline = "ops->now (rdtsc)",
      .goal = 2.5,
      .objects = { PENDING },
      .open = timer_open,
      .run = tscdl_run,
      .base = bench_raw_tsc,
      .check = timer_check,
      .close = timer_close },
    { .name = "timer-tscdl-fd",
      .what = "arm by TSC_DEADLINE where now is rdtsc, against the OS",
      .baseline = "timerfd_settime",
      .goal = 1.0 / 15,
      .objects = { PENDING },
      .open = timer_open,
      .run = tscdl_run,
      .base = timerfd_run,
      .check = timer_check,
      .close = timer_close },
    { .name = NULL },
};
