/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The IOMMU against the serial model: random registers, commands and
 * interrupts over random tables, rings over each other and over tables, memory
 * that comes and goes. Results, registers and every byte of memory are equal.
 *
 *     prop_iommu                   a new seed, printed
 *     AVICEMU_SEED=n prop_iommu    that run again
 *     AVICEMU_STEPS=n              number of operations
 *
 * A world is a set of features and tables, brought up as a driver would; it
 * serves some hundred operations. Every second world has interrupts held
 * between two of their steps, and the strict cache; that one the model does not
 * follow, but its books are kept: each interrupt comes to one end, what was
 * logged is what the tail moved by, and no command is left lying when nothing
 * is under way. [IOMMU 2.2.5 caching]
 */

#include "prop_iommu.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BELLS 256u
#define HELD  4u
#define WORLD 256u

struct bench {
    struct avicemu_hw_memory *memory;
    struct avicemu_hw_iommu *iommu;
    struct avicemu_doorbell *bells;
    unsigned char *ram[MODEL_REGIONS]; /* the library's */
    struct model_iommu model;
    struct gen gen;
    bool is_held; /* this world has held interrupts */
    struct avicemu_hw_msi held[HELD];
    uint64_t logged;  /* in all, since ga_tail was 0 */
    uint64_t seen[7]; /* by outcome; entries logged, overflows */
    char message[256];
};

static struct bench b;

static uint32_t
below(uint32_t n)
{
    return gen_below(&b.gen, n);
}

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- failing ------------------------------------------------------------ */

static void AVICEMU_PRINTF(1, 2) fail(const char *format, ...)
{
    va_list args;

    if (b.message[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(b.message, sizeof(b.message), format, args);
        va_end(args);
    }
}

static void
same(const char *what, uint64_t library, uint64_t model)
{
    if (library != model) {
        fail("%s: library %" PRIx64 ", model %" PRIx64, what, library, model);
    }
}

/* ---- memory ------------------------------------------------------------- */

static void
word_set(unsigned region, size_t at, uint64_t value)
{
    memcpy(b.ram[region] + at, &value, 8);
    memcpy(b.model.regions[region].memory + at, &value, 8);
}

static void
random_dte(unsigned device)
{
    size_t at = (size_t)device * 32;

    word_set(0, at, below(16) != 0);
    word_set(0, at + 8, gen_u64(&b.gen) & 0xffff);
    word_set(0, at + 16, gen_dte2(&b.gen));
    word_set(0, at + 24, 0);
}

static void
random_irte(unsigned index)
{
    size_t at = (size_t)TABLE * MODEL_PAGE + (size_t)index * 16;
    uint64_t low, high;

    gen_irte(&b.gen, &low, &high);
    word_set(0, at, low);
    word_set(0, at + 8, high);
}

static void
memory_toggle(void)
{
    struct model_region *r = &b.model.regions[1];

    if (r->mapped) {
        same("remove", (uint64_t)avicemu_hw_memory_remove(b.memory, HIGH), 0);
    } else {
        same(
            "add",
            (uint64_t)avicemu_hw_memory_add(b.memory, HIGH, r->bytes, b.ram[1]),
            0);
    }
    r->mapped = !r->mapped;
}

/* ---- registers ---------------------------------------------------------- */

static const uint32_t offsets[] = {
    0x0000, 0x0008, 0x0010, 0x0018, 0x0020, 0x0028, 0x0030, 0x0038,
    0x0040, 0x00e0, 0x00e8, 0x00f0, 0x0100, 0x0150, 0x0158, 0x0160,
    0x0168, 0x0170, 0x0178, 0x0180, 0x0190, 0x01a0, 0x2000, 0x2008,
    0x2010, 0x2018, 0x2020, 0x2040, 0x2048, 0x2050, 0x3ff8,
};

#define NR_OFFSETS (sizeof(offsets) / sizeof(offsets[0]))

static uint64_t
reg_read(uint32_t offset)
{
    uint64_t value = 0;

    same("read", (uint64_t)avicemu_hw_iommu_read(b.iommu, offset, 8, &value),
         0);
    return value;
}

static void
reg_write(uint32_t offset, unsigned bytes, uint64_t value)
{
    uint32_t signals = 0;

    same("write",
         (uint64_t)avicemu_hw_iommu_write(b.iommu, offset, bytes, value,
                                          &signals),
         0);
    if (!b.is_held) {
        same("signals of a write", signals,
             model_iommu_write(&b.model, offset, bytes, value));
    }
}

static void
random_register(void)
{
    uint32_t offset = offsets[below(NR_OFFSETS)];
    uint64_t value = gen_value(&b.gen, offset, reg_read(0x18));

    if (below(3) != 0) {
        reg_write(offset, 8, value);
    } else if (below(2) != 0) {
        reg_write(offset, 4, value & UINT32_MAX);
    } else {
        reg_write(offset + 4, 4, value >> 32);
    }
}

/* Drain and restart both logs and the command buffer, as drivers do. */
static void
restart(void)
{
    uint64_t control = reg_read(0x18);

    reg_write(0x2010, 8, reg_read(0x2018));
    reg_write(0x2040, 8, reg_read(0x2048));
    reg_write(0x18, 8, control & ~0x10001004ull);
    reg_write(0x2020, 8, 0x7ff);
    reg_write(0x2000, 8, 0);
    reg_write(0x2008, 8, 0);
    reg_write(0x18, 8, control | 0x10001004);
}

/* Into the ring that a world begins with, if it still is that one; else the
 * tail goes over whatever is there. */
static void
random_command(void)
{
    uint64_t tail = reg_read(0x2008);
    uint64_t low, high;

    gen_command(&b.gen, &low, &high);
    if (reg_read(0x0008) == RING(COMMANDS)) {
        word_set(0, COMMANDS * MODEL_PAGE + tail, low);
        word_set(0, COMMANDS * MODEL_PAGE + tail + 8, high);
    }
    reg_write(0x2008, 8, tail + 16);
}

/* ---- interrupts --------------------------------------------------------- */

static void
same_message(const struct avicemu_hw_message *l,
             const struct avicemu_hw_message *m)
{
    same("dest", l->dest, m->dest);
    same("logical", (uint64_t)l->logical, (uint64_t)m->logical);
    same("mode", (uint64_t)l->mode, (uint64_t)m->mode);
    same("vector", l->vector, m->vector);
    same("level", (uint64_t)l->level, (uint64_t)m->level);
}

/* What any interrupt comes to, whoever made it. */
static void
check_end(const struct avicemu_hw_msi *msi)
{
    bool posted = msi->outcome == AVICEMU_HW_POSTED;

    if (msi->outcome > AVICEMU_HW_NO_REQUEST) {
        fail("outcome %d", (int)msi->outcome);
    }
    same("a fault is an abort", msi->fault != 0,
         msi->outcome == AVICEMU_HW_ABORTED);
    if (posted == (msi->posted == AVICEMU_POST_DROPPED)) {
        fail("posted %d, outcome %d", (int)msi->posted, (int)msi->outcome);
    }
    if (!posted &&
        (msi->nr_doorbells | msi->nr_logged | msi->nr_overflows) != 0) {
        fail("somebody was told of what was not posted");
    }
    same("level of a mode", msi->message.mode > AVICEMU_DELIVERY_EXTINT, 0);
    b.logged += msi->nr_logged;
    b.seen[msi->outcome % 5]++;
    b.seen[5] += msi->nr_logged;
    b.seen[6] += msi->nr_overflows;
}

static void
random_msi(void)
{
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };
    struct model_result want;
    uint16_t device;
    uint64_t address;
    uint32_t data;

    gen_message(&b.gen, &device, &address, &data);
    same("msi",
         (uint64_t)avicemu_hw_iommu_msi(b.iommu, device, address, data, &msi),
         0);
    check_end(&msi);
    if (b.is_held) {
        return;
    }
    same("signals", msi.signals,
         model_iommu_msi(&b.model, device, address, data, &want));
    same("outcome", (uint64_t)msi.outcome, (uint64_t)want.outcome);
    same("posted", (uint64_t)msi.posted, (uint64_t)want.posted);
    same("fault", msi.fault, want.fault);
    same("doorbells", msi.nr_doorbells, want.nr_doorbells);
    same("logged", msi.nr_logged, want.nr_logged);
    same("overflows", msi.nr_overflows, want.nr_overflows);
    if (msi.outcome == AVICEMU_HW_REMAPPED ||
        msi.outcome == AVICEMU_HW_FORWARDED) {
        same_message(&msi.message, &want.message);
    }
}

/* ---- held interrupts ---------------------------------------------------- */

static bool
is_under_way(const struct avicemu_hw_msi *msi)
{
    return msi->size != 0 && msi->event != AVICEMU_HW_FINISHED;
}

static void
held_step(unsigned i)
{
    struct avicemu_hw_msi *msi = &b.held[i];
    uint16_t device;
    uint64_t address;
    uint32_t data;

    if (!is_under_way(msi)) {
        gen_message(&b.gen, &device, &address, &data);
        msi->size = sizeof(*msi);
        same("begin",
             (uint64_t)avicemu_hw_iommu_msi_begin(b.iommu, device, address,
                                                  data, msi),
             0);
    } else if (avicemu_hw_iommu_msi_step(msi) == AVICEMU_HW_FINISHED) {
        check_end(msi);
    }
}

static void
held_finish(void)
{
    for (unsigned i = 0; i < HELD; i++) {
        /* Longer than any interrupt's way. */
        for (unsigned n = 0; is_under_way(&b.held[i]); n++) {
            if (n > 24) {
                fail("an interrupt does not end");
                return;
            }
            held_step(i);
        }
    }
}

/* ---- worlds ------------------------------------------------------------- */

static void
world_tables(void)
{
    for (unsigned region = 0; region < MODEL_REGIONS; region++) {
        struct model_region *r = &b.model.regions[region];

        memset(r->memory, 0, r->bytes);
        memset(b.ram[region], 0, r->bytes);
    }
    for (unsigned device = 0; device < 24; device++) {
        random_dte(device);
    }
    for (unsigned i = 0; i < 80; i++) {
        random_irte(i < 64 ? i : below(2048));
    }
}

/* With logs that are soon full, or soon go round. */
static void
bring_up(void)
{
    uint64_t control = 0x32021000 | 0x1d | (uint64_t)below(2) * (3ull << 50) |
                       (uint64_t)below(2) << 43 | (uint64_t)below(2) << 55;

    uint64_t events = below(256) * 16ull;
    uint64_t ga = below(512) * 8ull;

    reg_write(0x0000, 8, RAM | 3);
    reg_write(0x0008, 8, RING(COMMANDS));
    reg_write(0x0010, 8, RING(EVENTS));
    reg_write(0x00e0, 8, RING(GA_LOG));
    reg_write(0x00e8, 8, AT(WORDS) + 0x800);
    reg_write(0x2018, 8, events);
    reg_write(0x2010, 8, events + (2 + below(32)) * 16);
    reg_write(0x2048, 8, ga);
    reg_write(0x2040, 8, ga + (2 + below(16)) * 8);
    reg_write(0x0018, 8, below(16) != 0 ? control : control ^ gen_bit(&b.gen));
}

static void
world_begin(uint64_t n)
{
    uint32_t features = gen_features(&b.gen);
    struct avicemu_hw_iommu_config config = { .size = sizeof(config),
                                              .memory = b.memory,
                                              .nr_doorbells = BELLS,
                                              .doorbells = b.bells };

    b.is_held = n % 2 != 0;
    config.features = b.is_held && features != AVICEMU_IOMMU_BARE
                          ? features | AVICEMU_IOMMU_CACHE
                          : features;
    config.nr_cached = b.is_held ? 16 : 0;
    avicemu_hw_iommu_destroy(b.iommu);
    same("create", (uint64_t)avicemu_hw_iommu_create(&config, &b.iommu), 0);
    model_iommu_reset(&b.model, features);
    memset(b.held, 0, sizeof(b.held));
    world_tables();
    bring_up();
    b.logged = reg_read(0x2048) / 8;
}

static void
compare_all(void)
{
    for (unsigned i = 0; i < NR_OFFSETS; i++) {
        char what[32];

        (void)snprintf(what, sizeof(what), "register %04" PRIx32, offsets[i]);
        same(what, reg_read(offsets[i]),
             model_iommu_read(&b.model, offsets[i]));
    }
    for (unsigned i = 0; i < MODEL_REGIONS; i++) {
        const struct model_region *r = &b.model.regions[i];

        for (size_t at = 0;
             memcmp(b.ram[i], r->memory, r->bytes) != 0 && at < r->bytes;
             at++) {
            if (b.ram[i][at] != r->memory[at]) {
                fail("memory of region %u at %zx", i, at);
                return;
            }
        }
    }
}

/* Nothing is under way: no command lies there, and the tail is where the log's
 * entries end, if no register of the log was written. */
static void
check_books(bool log_untouched)
{
    uint64_t status = reg_read(0x2020);

    if ((status & 1u << 4) != 0) {
        same("commands left", reg_read(0x2000), reg_read(0x2008));
    }
    if (log_untouched) {
        same("the tail against the books", reg_read(0x2048) / 8,
             b.logged % 512);
    }
}

static void
operation(uint64_t n, bool *log_untouched)
{
    uint32_t what = below(32);

    if (what < 18 && b.is_held) {
        held_step(below(HELD));
    } else if (what < 22) {
        random_msi();
    } else if (what < 24) {
        random_irte(below(64));
    } else if (what < 25) {
        random_dte(below(24));
    } else if (what < 28) {
        random_command();
    } else if (what < 29) {
        if (below(4) == 0) {
            restart();
        }
    } else if (what < 30) {
        memory_toggle();
    } else if (n % WORLD > WORLD / 4 * 3) { /* later, as it spoils much */
        *log_untouched = false;
        random_register();
    }
}

static bool
bench_open(void)
{
    static const uint64_t bases[MODEL_REGIONS] = { RAM, HIGH };
    static const size_t pages[MODEL_REGIONS] = { RAM_PAGES, HIGH_PAGES };

    b.bells = aligned_alloc(64, BELLS * sizeof(b.bells[0]));
    if (b.bells == NULL || avicemu_hw_memory_create(&b.memory) != 0) {
        return false;
    }
    memset(b.bells, 0, BELLS * sizeof(b.bells[0]));
    for (unsigned i = 0; i < MODEL_REGIONS; i++) {
        struct model_region *r = &b.model.regions[i];

        *r = (struct model_region){ .base = bases[i],
                                    .bytes = pages[i] * MODEL_PAGE,
                                    .mapped = true };
        r->memory = malloc(r->bytes);
        b.ram[i] = aligned_alloc(MODEL_PAGE, r->bytes);
        if (r->memory == NULL || b.ram[i] == NULL ||
            avicemu_hw_memory_add(b.memory, r->base, r->bytes, b.ram[i]) != 0) {
            return false;
        }
    }
    return true;
}

static void
bench_close(void)
{
    avicemu_hw_iommu_destroy(b.iommu);
    avicemu_hw_memory_destroy(b.memory);
    for (unsigned i = 0; i < MODEL_REGIONS; i++) {
        free(b.model.regions[i].memory);
        free(b.ram[i]);
    }
    free(b.bells);
}

/* Nothing has to be equal by chance: all of it was seen. */
static bool
seen_all(uint64_t steps)
{
    static const char *const names[] = { "posted",   "remapped",   "forwarded",
                                         "aborted",  "no request", "logged",
                                         "overflows" };
    bool all = true;

    for (unsigned i = 0; i < 7; i++) {
        printf("%s%s %" PRIu64, i ? ", " : "", names[i], b.seen[i]);
        all = all && (b.seen[i] != 0 || steps < 100000);
    }
    printf("\n");
    return all;
}

int
main(void)
{
    uint64_t seed = number_from("AVICEMU_SEED", (uint64_t)time(NULL));
    uint64_t steps = number_from("AVICEMU_STEPS", 500000);
    bool log_untouched = true;
    uint64_t n;

    printf("AVICEMU_SEED=%" PRIu64 " AVICEMU_STEPS=%" PRIu64 "\n", seed, steps);
    fflush(stdout);
    b.gen.x = seed;
    if (!bench_open()) {
        bench_close();
        return 1;
    }
    for (n = 0; n < steps && b.message[0] == '\0'; n++) {
        if (n % WORLD == 0) {
            world_begin(n / WORLD);
            log_untouched = true;
        }
        operation(n, &log_untouched);
        if (n % 16 == 0 && !b.is_held) {
            compare_all();
        }
        if (n % 16 == 0 && b.is_held) {
            held_finish();
            check_books(log_untouched);
        }
    }
    held_finish();
    bench_close();
    if (b.message[0] != '\0') {
        printf("operation %" PRIu64 ": %s\n", n - 1, b.message);
        return 1;
    }
    return seen_all(steps) ? 0 : 1;
}
