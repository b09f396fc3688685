/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The IPI engine against the serial model, a million random commands, each
 * carried out at once and, on the same tables, step by step.
 *
 *     prop_ipi                   a new seed, printed
 *     AVICEMU_SEED=n prop_ipi    that run again
 *     AVICEMU_STEPS=n            number of commands
 *     AVICEMU_SHRINK=0           do not cut a failing input down
 *
 * A world is a set of tables, a mode and a core; it serves some hundred
 * commands, with an entry or two changed between them. At the first difference
 * entries are zeroed as long as there still is one, then the input is printed.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <avicemu/hw/core.h>

#include "model_ipi.h"

#define BASE     0x80000000ull /* system physical address of page 0 */
#define PAGES    48u           /* backing pages */
#define HOSTS    64u
#define OWN_HOST 7u
#define BAR      0xfee00000ull
#define IRR      0x200u
#define TMR      0x180u

/* The library's side: memory behind the model's tables, and one core. */
struct bench {
    struct avicemu_hw_memory *memory;
    unsigned char *physical, *logical, *pages; /* 8, 1, PAGES pages */
    unsigned char *vmcb;
    struct avicemu_doorbell *bells;
    void *core_memory;
    struct avicemu_core *core;
    uint32_t features;
    uint64_t x; /* random state */
};

static struct bench b;
static struct model_ipi_in in;
static struct model_ipi_out want;
static char message[256];

/* ---- random ------------------------------------------------------------- */

static uint64_t
random_u64(void)
{
    uint64_t z = b.x += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint32_t
below(uint32_t n)
{
    return (uint32_t)(random_u64() % n);
}

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- inputs ------------------------------------------------------------- */

/* A page that is there, and now and then one that is not. */
static uint64_t
random_page(uint32_t bad_in)
{
    uint64_t page = BASE + (uint64_t)below(PAGES) * 4096;

    if (below(bad_in) != 0) {
        return page;
    }
    switch (below(4)) {
    case 0:
        return 0;
    case 1:
        return BASE - 4096;
    case 2:
        return BASE + PAGES * 4096;
    default:
        return page | 1ull << (48 + below(4));
    }
}

static uint64_t
random_entry(uint32_t bad_in)
{
    uint64_t r = random_u64();
    uint64_t entry = random_page(bad_in) | r % HOSTS;

    entry |= r >> 8 & 15 ? AVICEMU_PHYSICAL_VALID : 0;
    entry |= r >> 12 & 3 ? AVICEMU_PHYSICAL_RUNNING : 0;
    entry |= r >> 16 & 7 ? 0 : r & 0x3ff0000000000000;
    return entry;
}

static void
mutate_one(uint32_t bad_in)
{
    uint32_t id = below(4) ? below(in.max_index + 1) : below(MODEL_IPI_IDS);

    in.physical[id] = below(8) ? random_entry(bad_in) : 0;
    if (below(2)) {
        uint32_t entry = below(16) ? 1u << 31 : 0;

        entry |= below(8) ? 0 : below(1u << 23) << 8;
        entry |= below(16) ? below(in.max_index % 256 + 1) : below(256);
        in.logical[below(2) ? below(8) : below(MODEL_IPI_LOGICAL)] = entry;
    }
}

static void
random_world(void)
{
    static const uint32_t most[] = { 16, 64, 255, 512, 4096 };
    uint32_t kind = below(8);

    in.x2avic = kind >= 4;
    b.features = AVICEMU_CORE_X2AVIC;
    b.features |= kind >= 6 ? AVICEMU_CORE_X2AVIC_EXT : 0;
    b.features |= below(4) ? 0 : AVICEMU_CORE_ERRATUM_1235;
    in.max_index = below(most[below(kind >= 6 ? 5 : kind >= 4 ? 4 : 3)]);
    in.own_page = BASE + (uint64_t)below(PAGES) * 4096;
    in.memory_base = BASE;
    in.memory_pages = PAGES;
    in.dfr = (below(2) ? 0xf0000000 : 0) | below(1u << 28);
    in.dfr ^= below(16) ? 0 : 0x30000000;
    for (uint32_t id = 0; id < MODEL_IPI_IDS; id++) {
        in.physical[id] = 0;
    }
    for (uint32_t n = 0; n < 2 * in.max_index + 16; n++) {
        mutate_one(1000);
    }
}

static uint32_t
random_destination(int is_logical)
{
    uint32_t id = below(16) ? below(in.max_index + 1) : below(MODEL_IPI_IDS);

    if (!in.x2avic) {
        return (below(32) ? (is_logical ? 1u << below(8) | 1u << below(8) : id)
                          : below(256))
                   << 24 |
               (below(8) ? 0 : below(1u << 24));
    }
    if (is_logical) {
        id = id / 16 << 16 | 1u << id % 16 | 1u << below(16);
        return below(8) ? id : id ^ below(1u << 16);
    }
    return below(32) ? id : (uint32_t)random_u64();
}

/* What the manual leaves open is not asked: reserved bits of an xAVIC command,
 * cluster 15, an empty destination in a model that is none. */
static void
leave_out(int is_logical)
{
    uint32_t model = in.dfr >> 28, dest = in.icrh >> 24;

    if (in.x2avic || !is_logical || dest == 0xff) {
        return;
    }
    if (model == 0 && dest / 16 == 15) {
        in.icrh ^= 0x80000000;
    }
    if (model != 0 && model != 15 && dest == 0) {
        in.icrh = 0x01000000;
    }
}

static void
random_command(void)
{
    uint32_t vector = below(16) ? 16 + below(240) : below(16);
    uint32_t type = below(16) ? 0 : below(8) << 8;
    uint32_t is_logical = below(2) << 11;
    uint32_t trigger = below(16) ? below(2) << 14 : below(4) << 14;
    uint32_t shorthand = below(in.max_index > 600 ? 40 : 6) ? 0 : below(4);

    in.self_register = in.x2avic && below(32) == 0;
    if (in.self_register) {
        in.icrl = below(8) ? vector : vector | 1u << below(32);
        in.icrh = below(8) ? 0 : 1u << below(32);
        return;
    }
    in.icrl = vector | type | is_logical | trigger | shorthand << 18;
    in.icrh = below(64) || in.max_index > 600
                  ? random_destination(is_logical != 0)
                  : UINT32_MAX;
    if (in.x2avic && below(32) == 0) {
        in.icrl |= 1u << below(32); /* perhaps a reserved one */
    }
    leave_out(is_logical != 0);
}

/* ---- the library -------------------------------------------------------- */

static void *
zeroed(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (p == NULL) {
        abort();
    }
    return memset(p, 0, (bytes + 4095) / 4096 * 4096);
}

static void
must(int good, const char *what)
{
    if (!good) {
        printf("cannot: %s\n", what);
        exit(1);
    }
}

static void
bench_open(void)
{
    b.physical = zeroed(8 * 4096);
    b.logical = zeroed(4096);
    b.pages = zeroed(PAGES * 4096);
    b.vmcb = zeroed(4096);
    b.bells = zeroed(HOSTS * sizeof(*b.bells));
    b.core_memory = zeroed(avicemu_core_bytes());
    must(avicemu_hw_memory_create(&b.memory) == 0, "create memory");
    must(avicemu_hw_memory_add(b.memory, 0x10000, 8 * 4096, b.physical) == 0 &&
             avicemu_hw_memory_add(b.memory, 0x20000, 4096, b.logical) == 0 &&
             avicemu_hw_memory_add(b.memory, BASE, PAGES * 4096, b.pages) == 0,
         "add memory");
}

static void
bench_close(void)
{
    avicemu_hw_memory_destroy(b.memory);
    free(b.physical);
    free(b.logical);
    free(b.pages);
    free(b.vmcb);
    free(b.bells);
    free(b.core_memory);
}

static void
put(unsigned char *at, uint64_t value, size_t bytes)
{
    memcpy(at, &value, bytes);
}

static uint64_t
vmcb(uint32_t offset)
{
    uint64_t value;

    memcpy(&value, b.vmcb + offset, sizeof(value));
    return value;
}

/* Tables and VMCB as the input has them. */
static void
bench_load(void)
{
    struct avicemu_core_config config = {
        .size = sizeof(config),
        .memory = b.memory,
        .features = b.features,
        .host_apic_id = OWN_HOST,
        .nr_doorbells = HOSTS,
        .doorbells = b.bells,
    };
    uint64_t int_ctl = AVICEMU_INT_AVIC;

    int_ctl |= in.x2avic ? AVICEMU_INT_X2AVIC : 0;
    memcpy(b.physical, in.physical, sizeof(in.physical));
    memcpy(b.logical, in.logical, sizeof(in.logical));
    put(b.vmcb + AVICEMU_VMCB_INT_CTL, int_ctl, 8);
    put(b.vmcb + AVICEMU_VMCB_NESTED_CTL, 1, 8);
    put(b.vmcb + AVICEMU_VMCB_APIC_BAR, BAR, 8);
    put(b.vmcb + AVICEMU_VMCB_BACKING_PAGE, in.own_page, 8);
    put(b.vmcb + AVICEMU_VMCB_LOGICAL_TABLE, 0x20000, 8);
    put(b.vmcb + AVICEMU_VMCB_PHYSICAL_TABLE, 0x10000 | in.max_index, 8);
    put(b.vmcb + AVICEMU_VMCB_RFLAGS, 2, 8);
    must(avicemu_core_init(b.core_memory, &config, &b.core) == 0, "init");
}

static unsigned char *
own_page(void)
{
    return b.pages + (in.own_page - BASE);
}

/* ---- comparison --------------------------------------------------------- */

static int
same(const char *what, uint64_t library, uint64_t model)
{
    if (library != model && message[0] == '\0') {
        snprintf(message, sizeof(message),
                 "%s: library %" PRIx64 ", model %" PRIx64, what, library,
                 model);
    }
    return library == model;
}

static void
differ(const char *what, uint32_t number)
{
    if (message[0] == '\0') {
        snprintf(message, sizeof(message), "%s %" PRIu32, what, number);
    }
}

static uint32_t
word(uint32_t page, uint32_t offset)
{
    uint32_t value;

    memcpy(&value, b.pages + (size_t)page * 4096 + offset, sizeof(value));
    return value;
}

/* Where the vector's bits are. */
static uint32_t
slot(uint32_t map)
{
    return map + (in.icrl & 0xff) / 32 * 16;
}

/* Other bits of these words are not to change; page n has n in them. */
static uint32_t
others(uint32_t page, uint32_t mask)
{
    return (page * 0x01010101u) & ~mask;
}

static void
before(void)
{
    uint32_t mask = 1u << (in.icrl % 32);

    for (uint32_t page = 0; page < PAGES; page++) {
        unsigned char *at = b.pages + (size_t)page * 4096;

        put(at + slot(IRR), others(page, mask), 4);
        put(at + slot(TMR), others(page, mask) | mask, 4);
    }
    for (uint32_t host = 0; host < HOSTS; host++) {
        b.bells[host].rung = 0;
    }
    put(own_page() + 0xe0, in.dfr, 4);
    put(own_page() + 0x300, 0x12345, 4);
    put(own_page() + 0x310, in.x2avic ? 0x54321 : in.icrh, 4);
    if (!avicemu_core_in_guest(b.core)) {
        must(avicemu_core_vmrun(b.core, b.vmcb, NULL) == AVICEMU_CORE_DONE,
             "vmrun");
    }
}

static void
compare_memory(void)
{
    uint32_t mask = 1u << (in.icrl % 32);
    uint64_t pages = 0, hosts = 0;
    uint32_t own = (uint32_t)((in.own_page - BASE) / 4096);

    for (uint32_t n = 0; n < want.nr_targets; n++) {
        const struct model_ipi_target *target = &want.targets[n];

        pages |= 1ull << target->page;
        hosts |= target->running ? 1ull << target->host_id % HOSTS : 0;
    }
    pages |= want.self ? 1ull << own : 0;
    for (uint32_t page = 0; page < PAGES; page++) {
        uint32_t set = pages >> page & 1 ? mask : 0;
        uint32_t irr = others(page, mask) | set;
        uint32_t tmr = others(page, mask) | (mask ^ set);

        if (word(page, slot(IRR)) != irr || word(page, slot(TMR)) != tmr) {
            differ("IRR or TMR word of page", page);
        }
    }
    for (uint32_t host = 0; host < HOSTS; host++) {
        if (host != OWN_HOST && b.bells[host].rung != (hosts >> host & 1)) {
            differ("doorbell of host", host);
        }
    }
    same("ICR low", word(own, 0x300), want.stored ? in.icrl : 0x12345);
    same("ICR high", word(own, 0x310),
         want.stored || !in.x2avic ? in.icrh : 0x54321);
}

static void
compare(enum avicemu_core_result result, const struct avicemu_core_access *a)
{
    static const enum avicemu_core_result results[] = {
        [MODEL_IPI_DONE] = AVICEMU_CORE_DONE,
        [MODEL_IPI_EXIT] = AVICEMU_CORE_EXIT,
        [MODEL_IPI_GP] = AVICEMU_CORE_GP,
    };

    if (!same("result", result, results[want.result])) {
        return;
    }
    same("in guest mode", (uint64_t)avicemu_core_in_guest(b.core),
         want.result != MODEL_IPI_EXIT);
    if (want.result == MODEL_IPI_EXIT) {
        same("EXITCODE", vmcb(AVICEMU_VMCB_EXITCODE), 0x401);
        same("EXITINFO1", vmcb(AVICEMU_VMCB_EXITINFO1), want.info1);
        same("EXITINFO2", vmcb(AVICEMU_VMCB_EXITINFO2), want.info2);
    } else if (want.result == MODEL_IPI_DONE) {
        same("vector", (uint64_t)(int64_t)a->vector, UINT64_MAX);
    }
    compare_memory();
}

/* ---- carrying out ------------------------------------------------------- */

static struct avicemu_core_access
command(void)
{
    struct avicemu_core_access a = { .size = sizeof(a), .write = 1 };

    a.kind = in.x2avic ? AVICEMU_CORE_MSR : AVICEMU_CORE_MMIO;
    a.at = in.self_register ? 0x83f : in.x2avic ? 0x830 : BAR + 0x300;
    a.value = in.icrl;
    a.value |= in.x2avic ? (uint64_t)in.icrh << 32 : 0;
    return a;
}

/* The next event that others can see is this one. */
static bool
event(struct avicemu_core_op *op, enum avicemu_core_event wanted)
{
    enum avicemu_core_event got;

    do {
        got = avicemu_core_step(b.core, op);
    } while (got == AVICEMU_CORE_NOTHING);
    return same("event", got, wanted);
}

static bool
event_irr(struct avicemu_core_op *op, const struct model_ipi_target *target)
{
    uint32_t old = word(target->page, slot(IRR)) >> (in.icrl % 32) & 1;

    return event(op, AVICEMU_CORE_IRR) &&
           same("IRR of", op->guest_id, target->id) &&
           same("posted", op->posted,
                old ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW);
}

static bool
event_running(struct avicemu_core_op *op, const struct model_ipi_target *target)
{
    return event(op, AVICEMU_CORE_RUNNING) &&
           same("IsRunning of", op->guest_id, target->id) &&
           same("IsRunning", (uint64_t)op->is_running, target->running);
}

static bool
event_target(struct avicemu_core_op *op, const struct model_ipi_target *target)
{
    bool erratum = (b.features & AVICEMU_CORE_ERRATUM_1235) != 0;

    if (erratum ? !event_running(op, target) || !event_irr(op, target)
                : !event_irr(op, target) || !event_running(op, target)) {
        return false;
    }
    return !target->running || (event(op, AVICEMU_CORE_RANG) &&
                                same("rang for", op->guest_id, target->id) &&
                                same("rang", op->host_id, target->host_id));
}

/* Of the own IPI only the outcome is looked at. */
static void
events(struct avicemu_core_op *op)
{
    if (want.self || !want.stored) {
        while (avicemu_core_step(b.core, op) != AVICEMU_CORE_FINISHED) {
        }
        return;
    }
    if (!event(op, AVICEMU_CORE_STORED) ||
        (want.resolved && !event(op, AVICEMU_CORE_RESOLVED))) {
        return;
    }
    for (uint32_t n = 0; n < want.nr_targets; n++) {
        if (!event_target(op, &want.targets[n])) {
            return;
        }
    }
    (void)event(op, AVICEMU_CORE_FINISHED);
}

/* True if library and model agree. */
static bool
try(void)
{
    struct avicemu_core_access a = command();
    struct avicemu_core_op op = { .size = sizeof(op) };
    enum avicemu_core_result result;

    message[0] = '\0';
    model_ipi(&in, &want);
    before();
    compare(avicemu_core_access(b.core, &a), &a);
    if (message[0] != '\0') {
        return false;
    }
    a = command();
    before();
    result = avicemu_core_begin(b.core, &a, &op);
    if (result == AVICEMU_CORE_STEPS) {
        events(&op);
        if (message[0] != '\0') {
            return false;
        }
        result = avicemu_core_finish(b.core, &a, &op);
    }
    compare(result, &a);
    return message[0] == '\0';
}

/* ---- failure ------------------------------------------------------------ */

static char subject[sizeof(message)];

/* And with the same difference, but for the numbers. */
static bool
fails_still(void)
{
    bench_load();
    return !try() && strncmp(message, subject, strlen(subject)) == 0;
}

static void
shrink(void)
{
    snprintf(subject, sizeof(subject), "%.*s",
             (int)strcspn(message, ":0123456789"), message);
    for (uint32_t id = 0; id < MODEL_IPI_IDS; id++) {
        uint64_t old = in.physical[id];

        in.physical[id] = 0;
        if (old != 0 && !fails_still()) {
            in.physical[id] = old;
        }
    }
    for (uint32_t n = 0; n < MODEL_IPI_LOGICAL; n++) {
        uint32_t old = in.logical[n];

        in.logical[n] = 0;
        if (old != 0 && !fails_still()) {
            in.logical[n] = old;
        }
    }
    (void)fails_still();
}

static void
report(uint64_t seed, uint64_t at)
{
    printf("seed %" PRIu64 ", command %" PRIu64 ": %s\n", seed, at, message);
    if (number_from("AVICEMU_SHRINK", 1) != 0) {
        shrink();
        printf("cut down: %s\n", message);
    }
    printf("%s, features %" PRIx32 ", MAX_INDEX %" PRIx32 ", %s %08" PRIx32
           ":%08" PRIx32 ", DFR %08" PRIx32 ", own page %" PRIx64 "\n",
           in.x2avic ? "x2AVIC" : "xAVIC", b.features, in.max_index,
           in.self_register ? "self IPI" : "ICR", in.icrh, in.icrl, in.dfr,
           in.own_page);
    printf("memory %" PRIx64 ", %" PRIu32 " pages\n", in.memory_base,
           in.memory_pages);
    for (uint32_t id = 0; id < MODEL_IPI_IDS; id++) {
        if (in.physical[id] != 0) {
            printf("physical %03" PRIx32 ": %016" PRIx64 "\n", id,
                   in.physical[id]);
        }
    }
    for (uint32_t n = 0; n < MODEL_IPI_LOGICAL; n++) {
        if (in.logical[n] != 0) {
            printf("logical %" PRIu32 ": %08" PRIx32 "\n", n, in.logical[n]);
        }
    }
    printf("model: result %d, exit %" PRIx64 " %" PRIx64 ", targets %" PRIu32
           "\n",
           (int)want.result, want.info1, want.info2, want.nr_targets);
}

/* Nothing has to be equal by chance: each outcome was seen. */
static bool
seen_all(const uint64_t seen[8], uint64_t steps)
{
    static const char *const names[8] = { "ID 0", "ID 1", "ID 2", "ID 3",
                                          "ID 4", "done", "#GP",  "self" };
    bool all = true;

    for (unsigned n = 0; n < 8; n++) {
        printf("%s%s %" PRIu64, n ? ", " : "", names[n], seen[n]);
        all = all && (seen[n] != 0 || steps < 100000);
    }
    printf("\n");
    return all;
}

int
main(void)
{
    uint64_t seed = number_from("AVICEMU_SEED", (uint64_t)time(NULL));
    uint64_t steps = number_from("AVICEMU_STEPS", 1000000);
    uint64_t seen[8] = { 0 };
    bool good = true;

    printf("AVICEMU_SEED=%" PRIu64 " AVICEMU_STEPS=%" PRIu64 "\n", seed, steps);
    fflush(stdout);
    b.x = seed;
    bench_open();
    for (uint64_t n = 0; good && n < steps; n++) {
        if (n % 256 == 0) {
            random_world();
            bench_load();
        }
        for (uint32_t m = below(3); m > 0; m--) {
            mutate_one(200);
        }
        memcpy(b.physical, in.physical, (size_t)(in.max_index + 1) * 8);
        memcpy(b.logical, in.logical, sizeof(in.logical));
        random_command();
        good = try();
        if (!good) {
            report(seed, n);
        }
        seen[want.self                       ? 7
             : want.result == MODEL_IPI_EXIT ? want.info2 >> 32
             : want.result == MODEL_IPI_DONE ? 5
                                             : 6]++;
    }
    bench_close();
    if (good) {
        good = seen_all(seen, steps);
        printf("%" PRIu64 " commands, library and model agree\n", steps);
    }
    return good ? 0 : 1;
}
