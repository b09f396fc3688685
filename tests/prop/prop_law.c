/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accelerated path = trapped path: random guest programs with AVIC off, on,
 * without IPI virtualisation, and switched off and on at random points, and a
 * table of what the architecture itself makes different.
 *
 *     prop_law                     a new seed, printed
 *     AVICEMU_SEED=n prop_law      that run again
 *     AVICEMU_PROGRAMS=n           how many; 2000 otherwise
 *     AVICEMU_EPISODE=n            begin with this program
 *
 * What must be the same: every interrupt and NMI with its vCPU, vector and
 * step; every value that the guest has read, every #GP; at the end all
 * registers of each APIC page, the books of every vector, and the counters that
 * do not speak of paths. At the first difference a program is cut down, block
 * by block, and printed.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <avicemu/avic.h>

#include "law.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NR_PROGRAMS 200
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define NR_PROGRAMS 200
#endif
#endif
#ifndef NR_PROGRAMS
#define NR_PROGRAMS 2000
#endif

static const char *const mode_names[LAW_NR_MODE] = { "off", "on", "ipiv off",
                                                     "toggled" };

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- comparing ---------------------------------------------------------- */

static void
event_text(const struct law_trace *t, size_t at, char *buf, size_t len)
{
    static const char *const seen[] = {
        "takes vector", "takes NMI",          "reads",
        "#GP at",       "ends with register", "books, column << 8 | vector",
        "counter"
    };
    const struct law_event *e = &t->events[at];

    if (at >= t->nr) {
        (void)snprintf(buf, len, "nothing more");
        return;
    }
    (void)snprintf(buf, len, "step %u vCPU %u %s %xh = %" PRIx64 "h", e->step,
                   e->vcpu, seen[e->seen], e->what, e->value);
}

static bool
events_same(const struct law_event *a, const struct law_event *b)
{
    return a->step == b->step && a->vcpu == b->vcpu && a->seen == b->seen &&
           a->what == b->what && a->value == b->value;
}

/* False: they differ, and message says where. */
static bool
traces_same(const struct law_run *off, const struct law_run *other,
            char *message)
{
    char left[128], right[128];
    size_t n = 0;

    while (n < off->trace.nr && n < other->trace.nr &&
           events_same(&off->trace.events[n], &other->trace.events[n])) {
        n++;
    }
    if (n == off->trace.nr && n == other->trace.nr) {
        return true;
    }
    event_text(&off->trace, n, left, sizeof(left));
    event_text(&other->trace, n, right, sizeof(right));
    (void)snprintf(message, LAW_MESSAGE, "event %zu: off: %s; %s: %s", n, left,
                   mode_names[other->mode], right);
    return false;
}

/* ---- one program -------------------------------------------------------- */

struct totals {
    uint64_t deliveries, accelerated, exits, doorbells, steps;
    uint64_t flips[LAW_NR_MODE];
};

static void
totals_add(struct totals *totals, struct law_run *run)
{
    totals->steps += run->step;
    for (unsigned i = 0; i < run->program->nr_vcpus; i++) {
        struct avicemu_vcpu_stats s = law_stats(run, i);

        totals->deliveries += s.injected;
        totals->accelerated += s.avic_accelerated;
        totals->exits += s.avic_trapped + s.avic_faulted + s.avic_intercepted +
                         s.avic_incomplete;
        totals->doorbells += s.doorbells;
        totals->flips[run->mode] += s.avic_flips;
    }
}

/* False: the law does not hold. totals may be NULL. */
static bool
program_holds(const struct law_program *program, struct totals *totals,
              char *message)
{
    struct law_run *off = malloc(sizeof(*off)), *on = malloc(sizeof(*on));
    bool good = off != NULL && on != NULL;

    (void)snprintf(message, LAW_MESSAGE, "no memory");
    if (good) {
        law_begin(off, program, LAW_OFF);
        law_execute(off);
        memcpy(message, off->message, LAW_MESSAGE);
        good = off->message[0] == '\0';
        for (unsigned m = LAW_ON; good && m < LAW_NR_MODE; m++) {
            law_begin(on, program, (enum law_mode)m);
            law_execute(on);
            good = traces_same(off, on, message);
            if (on->message[0] != '\0') {
                good = false;
                memcpy(message, on->message, LAW_MESSAGE);
            }
            if (totals != NULL) {
                totals_add(totals, on);
            }
            law_end(on);
        }
        law_end(off);
    }
    free(off);
    free(on);
    return good;
}

/* Cut away what the failure does not need. */
static void
shrink(struct law_program *program, char *message)
{
    char other[LAW_MESSAGE];
    bool again = true;

    while (again) {
        again = false;
        for (unsigned i = 0; i < program->nr_vcpus; i++) {
            for (unsigned b = 1; b < LAW_MAX_BLOCKS; b++) {
                if (program->cut[i][b]) {
                    continue;
                }
                program->cut[i][b] = true;
                if (program_holds(program, NULL, other)) {
                    program->cut[i][b] = false;
                } else {
                    again = true;
                    memcpy(message, other, LAW_MESSAGE);
                }
            }
        }
    }
}

static bool
programs_hold(uint64_t seed, uint64_t first, uint64_t nr)
{
    struct law_program *program = malloc(sizeof(*program));
    struct totals totals = { 0 };
    char message[LAW_MESSAGE];
    bool good = program != NULL;

    for (uint64_t n = first; good && n < first + nr; n++) {
        uint64_t state = seed + n * 0xd1342543de82ef95u;

        law_generate(law_random(&state), program);
        good = program_holds(program, &totals, message);
        if (!good) {
            printf("AVICEMU_SEED=%" PRIu64 " AVICEMU_EPISODE=%" PRIu64 ": %s\n",
                   seed, n, message);
            shrink(program, message);
            printf("cut down: %s\n", message);
            law_print(program);
        }
    }
    printf("%" PRIu64 " programs, 3 modes against AVIC off: %" PRIu64
           " steps, %" PRIu64 " deliveries, %" PRIu64 " accelerated, %" PRIu64
           " exits, %" PRIu64 " doorbells, %" PRIu64 " flips\n",
           nr, totals.steps, totals.deliveries, totals.accelerated,
           totals.exits, totals.doorbells, totals.flips[LAW_TOGGLED]);
    /* Nothing is shown by runs in which nothing of it has happened. */
    if (good && nr >= 20 &&
        (totals.accelerated < 100 * nr || totals.exits < 50 * nr ||
         totals.doorbells < 10 * nr ||
         totals.flips[LAW_TOGGLED] < 5 * totals.flips[LAW_ON])) {
        printf("FAILED: too little of that\n");
        good = false;
    }
    free(program);
    return good;
}

/* ---- where the architecture differs ------------------------------------- */

#define ROW_OPS   8
#define REG_APR   0x090u
#define REG_LDR   0x0d0u
#define REG_DFR   0x0e0u
#define REG_SVR   0x0f0u
#define REG_ESR   0x280u
#define REG_TMCCT 0x390u

struct row {
    const char *name;
    bool x2apic;
    struct law_op ops[2][ROW_OPS];
    /* Returns NULL, or what is wrong. base: AVIC on, nothing but the boot. */
    const char *(*check)(struct law_run *off, struct law_run *on,
                         struct law_run *base);
};

/* What vCPU i has seen of this kind, the last one. */
static bool
saw(const struct law_run *run, unsigned i, enum law_seen seen, uint32_t what,
    uint64_t *ret)
{
    for (size_t n = run->trace.nr; n-- > 0;) {
        const struct law_event *e = &run->trace.events[n];

        if (e->vcpu == i && e->seen == seen && e->what == what) {
            *ret = e->value;
            return true;
        }
    }
    return false;
}

static const char *
check_disabled(struct law_run *off, struct law_run *on, struct law_run *base)
{
    uint64_t value;

    (void)base;
    if (law_stats(off, 0).ipi_dropped != 1 ||
        saw(off, 1, LAW_SAW_VECTOR, 0x30, &value)) {
        return "off: it must be dropped";
    }
    if (law_stats(on, 0).ipi_dropped != 0 ||
        !saw(on, 1, LAW_SAW_VECTOR, 0x30, &value)) {
        return "on: hardware does not look at SVR: it must be delivered";
    }
    return NULL;
}

static const char *
check_faults(struct law_run *off, struct law_run *on, struct law_run *base)
{
    static char message[LAW_MESSAGE];

    if (!traces_same(off, on, message)) {
        return message;
    }
    struct avicemu_vcpu_stats s = law_stats(on, 0), b = law_stats(base, 0);
    uint64_t faulted = s.avic_faulted - b.avic_faulted;
    uint64_t intercepted = s.avic_intercepted - b.avic_intercepted;

    if (on->program->x2apic) {
        return faulted == 0 && intercepted == 3
                   ? NULL
                   : "on: [KVM] intercepts what would fault, and TMICT's write";
    }
    return faulted == 2 && intercepted == 0 ? NULL
                                            : "on: two exits 402h, faults";
}

/* Hardware's own evaluation knows nothing of the enable registers. */
static const char *
check_ier(struct law_run *off, struct law_run *on, struct law_run *base)
{
    uint64_t value;

    (void)base;
    if (saw(off, 0, LAW_SAW_VECTOR, 0x30, &value) ||
        !saw(off, 0, LAW_SAW_PAGE, 0x210, &value) || (value & 1u << 16) == 0) {
        return "off: it must stay in IRR";
    }
    return saw(on, 0, LAW_SAW_VECTOR, 0x30, &value)
               ? NULL
               : "on: it must be delivered";
}

static const char *
check_same(struct law_run *off, struct law_run *on, struct law_run *base)
{
    static char message[LAW_MESSAGE];

    (void)base;
    return traces_same(off, on, message) ? NULL : message;
}

static const char *
check_software(struct law_run *off, struct law_run *on, struct law_run *base)
{
    static char message[LAW_MESSAGE];

    if (!traces_same(off, on, message)) {
        return message;
    }
    return law_stats(on, 0).avic_incomplete ==
                       law_stats(base, 0).avic_incomplete + 1 &&
                   law_stats(on, 0).ipi_software ==
                       law_stats(base, 0).ipi_software + 1
               ? NULL
               : "on: an exit 401h that the hypervisor sends again";
}

static const char *
check_level(struct law_run *off, struct law_run *on, struct law_run *base)
{
    static char message[LAW_MESSAGE];

    if (!traces_same(off, on, message)) {
        return message;
    }
    if (on->fake.vcpus[1].eois != 1 || off->fake.vcpus[1].eois != 1) {
        return "the IOAPIC must hear of it once";
    }
    return law_stats(on, 1).avic_trapped == law_stats(base, 1).avic_trapped + 1
               ? NULL
               : "on: an exit 402h, trap";
}

static const char *
check_unlisted(struct law_run *off, struct law_run *on, struct law_run *base)
{
    uint64_t esr_off = 0, esr_on = 0;

    if (!saw(off, 0, LAW_SAW_VALUE, REG_ESR, &esr_off) ||
        !saw(on, 0, LAW_SAW_VALUE, REG_ESR, &esr_on) || esr_off != 0x80) {
        return "off: ESR must show an illegal register";
    }
    if (esr_on != 0) {
        return "on: it must land in the page, and ESR not change";
    }
    (void)base;
    return NULL;
}

/* A timer, so that what the other vCPU does meanwhile has been done. */
#define PAUSE                                                             \
    { LAW_TIMER, 1, LAW_TICKS, 0, 0 }, { LAW_WRITE, 1, 0x380, 20000, 0 }, \
    {                                                                     \
        LAW_WAIT_TICK, 1, 0, 0, 0                                         \
    }

/* Broadcasts between two modes differ, too: tests/hv/test_avic_found.c, where
 * a VM can have both. */
/* clang-format off */
static const struct row rows[] = {
    { "a software-disabled target gets its IRR bit, and takes it", false,
      { { PAUSE, { LAW_SEND, 1, 0x4030, 1, 0 }, { LAW_WAIT, 1, 0, 0, 0 } },
        { { LAW_WRITE, 1, REG_SVR, 0x0ff, 0 } } }, check_disabled },
    { "the same by x2APIC", true,
      { { PAUSE, { LAW_SEND, 1, 0x4030, 1, 0 }, { LAW_WAIT, 1, 0, 0, 0 } },
        { { LAW_WRITE, 1, REG_SVR, 0x0ff, 0 } } }, check_disabled },
    { "APR and current count fault, with the same value", false,
      { { { LAW_WRITE, 1, 0x380, 5000, 0 }, { LAW_READ, 1, REG_APR, 0, 0 },
          { LAW_READ, 1, REG_TMCCT, 0, 0 } } }, check_faults },
    { "the same by x2APIC", true,
      { { { LAW_WRITE, 1, 0x380, 5000, 0 }, { LAW_READ, 1, REG_APR, 0, 0 },
          { LAW_READ, 1, REG_TMCCT, 0, 0 } } }, check_faults },
    { "what IER holds back is delivered", false,
      { { { LAW_WRITE, 1, 0x410, 1, 0 }, { LAW_WRITE, 1, 0x490, 0xfffeffff, 0 },
          { LAW_SEND, 1, 0x44030, 0, 0 } } }, check_ier },
    /* Hardware reads the table by the sender's DFR, so it must not get there:
     * this one's id has no bit in its own model, and still it sends. */
    { "who sends in another logical model inhibits AVIC", false,
      { { PAUSE, { LAW_WRITE, 1, REG_LDR, 0x10000000, 0 }, { LAW_WRITE, 1, REG_DFR, 0x0fffffff, 0 },
          { LAW_SEND, 1, 0x4830, 0x20, 0 }, { LAW_WAIT, 1, 0, 0, 0 } },
        { { LAW_WRITE, 1, REG_LDR, 0x20000000, 0 } } }, check_same },
    { "a level-triggered IPI exits", false,
      { { { LAW_SEND, 1, 0xc030, 1, 0 }, { LAW_WAIT, 1, 0, 0, 0 } } }, check_software },
    { "vectors 0 to 15 exit, and are in the ESR", false,
      { { { LAW_SEND, 1, 0x4005, 1, 0 }, { LAW_WRITE, 1, REG_ESR, 0, 0 },
          { LAW_READ, 1, REG_ESR, 0, 0 } } }, check_software },
    { "a level-triggered vector's EOI exits", false,
      { { { LAW_POST, 1, LAW_LEVEL, 1, 1 }, { LAW_WAIT, 1, 0, 0, 0 } } }, check_level },
    { "the same by x2APIC", true,
      { { { LAW_POST, 1, LAW_LEVEL, 1, 1 }, { LAW_WAIT, 1, 0, 0, 0 } } }, check_level },
    { "a write that no register is at lands in the page", false,
      { { { LAW_WRITE, 1, 0x040, 0x55, 0 }, { LAW_WRITE, 1, REG_ESR, 0, 0 },
          { LAW_READ, 1, REG_ESR, 0, 0 } } }, check_unlisted },
};
/* clang-format on */

#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static void
row_program(const struct row *row, bool empty, struct law_program *ret)
{
    law_boot_program(2, row->x2apic, ret);
    for (unsigned i = 0; i < 2 && !empty; i++) {
        for (unsigned n = 0; n < ROW_OPS && row->ops[i][n].block != 0; n++) {
            ret->ops[i][ret->nr_ops[i]++] = row->ops[i][n];
        }
    }
}

static bool
row_holds(const struct row *row)
{
    static struct law_program program, empty;
    static struct law_run off, on, base;
    const char *wrong = NULL;

    row_program(row, false, &program);
    row_program(row, true, &empty);
    law_begin(&off, &program, LAW_OFF);
    law_begin(&on, &program, LAW_ON);
    law_begin(&base, &empty, LAW_ON);
    law_execute(&off);
    law_execute(&on);
    law_execute(&base);
    if (off.message[0] != '\0') {
        wrong = off.message;
    } else if (on.message[0] != '\0') {
        wrong = on.message;
    } else {
        wrong = row->check(&off, &on, &base);
    }
    printf("%s: %s%s%s\n", wrong == NULL ? "ok" : "FAILED", row->name,
           wrong == NULL ? "" : ": ", wrong == NULL ? "" : wrong);
    law_end(&off);
    law_end(&on);
    law_end(&base);
    return wrong == NULL;
}

int
main(void)
{
    uint64_t seed = number_from("AVICEMU_SEED", (uint64_t)time(NULL));
    uint64_t programs = number_from("AVICEMU_PROGRAMS", NR_PROGRAMS);
    uint64_t first = number_from("AVICEMU_EPISODE", 0);
    bool good = true;

    printf("AVICEMU_SEED=%" PRIu64 " AVICEMU_PROGRAMS=%" PRIu64 "\n", seed,
           programs);
    for (size_t i = 0; i < NR_ROWS; i++) {
        good &= row_holds(&rows[i]);
    }
    good &= programs_hold(seed, first, programs);
    return good ? 0 : 1;
}
