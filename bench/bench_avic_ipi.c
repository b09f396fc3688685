/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest's ICR write that sends one IPI to one vCPU, on each way it can take:
 * accelerated by AVIC, completed after exit 401h id 1, emulated, and under a
 * rival's mutex. The ways, and why they are the same work: ipi_vms.h.
 *
 *   ipi-accel           AVIC against the raw operation that it needs at least
 *   ipi-accel-vs-trap   AVIC against the emulated write (without its exit)
 *   ipi-accel-vs-loop   ... with the library's part of that exit and entry
 *   ipi-accel-vs-mutex  AVIC against the rival
 *   ipi-trap-vs-mutex   the emulated write against the rival
 *   ipi-wake-vs-mutex   a halted target, both
 *   ipi-self*           to itself: nobody is woken, the sender looks
 *
 * Alone, a mutex is two locked operations on a line of its own, and the rest of
 * the rival needs none: what it costs shows with several senders in one VM
 * (-2, -8), which meet in nothing else.
 *
 * Suffix: how the target is addressed; without, an x2APIC id.
 *
 * Eight targets, one IPI each per sample: their pages collide in few cache
 * sets, and more would measure that.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ipi_vms.h"

#define CROWD_OPS (28u * IPI_TARGETS) /* samples that outweigh their clock */

static unsigned
vms_of(void (*run)(void *state, uint64_t n))
{
    if (run == ipi_accel_run || run == ipi_wake_run) {
        return IPI_AVIC;
    }
    if (run == ipi_trap_run || run == ipi_loop_run) {
        return IPI_SOFT;
    }
    return run == ipi_rival_run ? IPI_RIVAL : 0;
}

static int
ipi_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct ipi_vms *p = calloc(1, sizeof(*p));
    bool self = strstr(b->name, "-self") != NULL;
    bool logical =
        strstr(b->name, "-cluster") != NULL || strstr(b->name, "-flat") != NULL;
    bool xapic =
        strstr(b->name, "-xapic") != NULL || strstr(b->name, "-flat") != NULL;

    (void)objects;
    if (p == NULL) {
        return bench_fail("no memory");
    }
    ipi_vms_open(p, self ? 1 : IPI_TARGETS + 1, b->ops,
                 b->threads > 1 ? b->threads - 1 : 0,
                 xapic ? VMM_XAPIC : VMM_X2APIC,
                 self      ? IPI_SELF
                 : logical ? IPI_LOGICAL
                           : IPI_PHYSICAL,
                 vms_of(b->run) | vms_of(b->base));
    *ret = p;
    return 0;
}

static void
ipi_close(void *state)
{
    ipi_vms_close(state);
    free(state);
}

#define ROW(name_, what_, ops_, base_name, run_, base_, base_prepare_)      \
    {                                                                       \
        .name = name_, .what = what_, .baseline = base_name, .ops = (ops_), \
        .open = ipi_open, .prepare = ipi_##run_##_prepare,                  \
        .run = ipi_##run_##_run, .base_prepare = (base_prepare_),           \
        .base = (base_), .check = ipi_vms_check, .close = ipi_close         \
    }

#define CROWD(name_, what_, threads_, run_, base_)                        \
    {                                                                     \
        .name = name_, .what = what_, .baseline = "mutex rival",          \
        .threads = (threads_), .ops = CROWD_OPS, .open = ipi_open,        \
        .prepare = ipi_##run_##_prepare, .run = ipi_##run_##_run,         \
        .base_prepare = ipi_##base_##_prepare, .base = ipi_##base_##_run, \
        .check = ipi_vms_check, .close = ipi_close                        \
    }

#define ONE(name, what, base_name, run, base)                      \
    ROW(name, what, IPI_TARGETS, base_name, run, ipi_##base##_run, \
        ipi_##base##_prepare)

#define SELF(name, what, base_name, run, base)                        \
    ROW(name, what, VMM_NR_VECTORS, base_name, run, ipi_##base##_run, \
        ipi_##base##_prepare)

/* The same comparisons for each way to address a target. */
#define SHAPE(suffix, text)                                                   \
    ROW("ipi-accel" suffix, "IPI by AVIC: " text, IPI_TARGETS, "lock or",     \
        accel, bench_raw_lock_or, NULL),                                      \
        ONE("ipi-accel-vs-trap" suffix, "IPI by AVIC: " text, "trapped",      \
            accel, trap),                                                     \
        ONE("ipi-accel-vs-loop" suffix, "IPI by AVIC: " text,                 \
            "exit, trapped, entry", accel, loop),                             \
        ONE("ipi-accel-vs-mutex" suffix, "IPI by AVIC: " text, "mutex rival", \
            accel, rival),                                                    \
        ONE("ipi-trap-vs-mutex" suffix, "emulated ICR write: " text,          \
            "mutex rival", trap, rival),                                      \
        ROW("ipi-wake-vs-mutex" suffix,                                       \
            "AVIC, exit 401h id 1, halted target: " text, IPI_TARGETS,        \
            "mutex rival", wake, ipi_rival_run, ipi_rival_wake_prepare)

const struct bench bench_avic_ipi[] = {
    SHAPE("", "x2APIC id"),
    SHAPE("-cluster", "x2APIC logical"),
    SHAPE("-xapic", "xAPIC id"),
    SHAPE("-flat", "xAPIC flat logical"),
    CROWD("ipi-accel-vs-mutex-2", "IPI by AVIC: 2 senders", 2, accel, rival),
    CROWD("ipi-accel-vs-mutex-8", "IPI by AVIC: 8 senders", 8, accel, rival),
    CROWD("ipi-trap-vs-mutex-2", "emulated ICR write: 2 senders", 2, trap,
          rival),
    CROWD("ipi-trap-vs-mutex-8", "emulated ICR write: 8 senders", 8, trap,
          rival),
    ROW("ipi-self", "self IPI by AVIC, x2APIC", VMM_NR_VECTORS, "lock or",
        accel, bench_raw_lock_or, NULL),
    SELF("ipi-self-vs-trap", "self IPI by AVIC, x2APIC", "trapped", accel,
         trap),
    SELF("ipi-self-vs-mutex", "self IPI by AVIC, x2APIC", "mutex rival", accel,
         rival),
    ROW("ipi-self-xapic", "self IPI by AVIC, xAPIC shorthand", VMM_NR_VECTORS,
        "lock or", accel, bench_raw_lock_or, NULL),
    SELF("ipi-self-vs-trap-xapic", "self IPI by AVIC, xAPIC shorthand",
         "trapped", accel, trap),
    SELF("ipi-self-vs-mutex-xapic", "self IPI by AVIC, xAPIC shorthand",
         "mutex rival", accel, rival),
    { .name = NULL },
};
