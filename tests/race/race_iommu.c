/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edges epoch, done, drop and engine under real threads, through the hardware
 * face: devices post by entries that a driver gives other pages. Where its
 * COMPLETION_WAIT is done the former page is poisoned, as freed memory is, and
 * no bit may ever appear in it. And a device that stands still half-way holds
 * the completion until it goes on.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/hw/iommu.h>

#include "base/atomic.h"
#include "hw/irte.h"
#include "race.h"

#define RAM        0x100000u
#define PAGE       4096u
#define WORDS      (PAGE / 8)
#define ENTRIES    8u
#define POOL       4u /* poisoned pages at a time */
#define MOVES      60u
#define POSTS      200u
#define RING       256u /* commands */
#define BELLS      16u
#define LOOKS      20u
#define SPINS      200u
#define VECTOR     0x41u
#define POISON     0xa5a5a5a5a5a5a5a5u /* has not the vector's bit */
#define OP(opcode) ((uint64_t)(opcode) << 60)

enum page {
    DTES,
    TABLE,
    COMMANDS,
    GA_LOG = COMMANDS + 1,
    COMPLETION,
    BACKING,
    NR_PAGES = BACKING + ENTRIES + POOL,
};

enum outcome {
    AT_ONCE, /* no wait found an interrupt under way */
    HELD,
    EARLY,    /* done while one stood still */
    POISONED, /* a bit in a poisoned page */
    WRONG,
};

/* In the race's r: each party has one of its own. */
enum found {
    FOUND_HELD,
    FOUND_EARLY,
    FOUND_POISONED,
    FOUND_WRONG, /* that of party i at + i */
};

/* The driver's, but for ram. */
static struct {
    struct avicemu_hw_memory *memory;
    struct avicemu_hw_iommu *iommu;
    AE_ALIGNED(64) struct avicemu_doorbell bells[BELLS];
    AE_ALIGNED(4096) unsigned char ram[NR_PAGES][PAGE];

    unsigned command; /* place of the next one */
    uint64_t waits;   /* so far; the last one's data */
    unsigned page_of[ENTRIES];
    unsigned pool[POOL]; /* a queue of poisoned pages */
    unsigned oldest;
} m;

/* ---- memory ------------------------------------------------------------- */

static uint64_t
address_of(unsigned page)
{
    return RAM + (uint64_t)page * PAGE;
}

static _Atomic uint64_t *
word_of(unsigned page, unsigned i)
{
    return (_Atomic uint64_t *)(void *)m.ram[page] + i;
}

static void
fill(unsigned page, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++) {
        ae_store_relaxed_u64(word_of(page, i), value);
    }
}

static bool
is_poison(unsigned page)
{
    for (unsigned i = 0; i < WORDS; i++) {
        if (ae_load_relaxed_u64(word_of(page, i)) != POISON) {
            return false;
        }
    }
    return true;
}

static void
target(unsigned entry, unsigned page)
{
    struct ae_irte irte = {
        .guest_mode = true,
        .vector = VECTOR,
        .dest = entry,
        .ga_tag = entry,
        .root = address_of(page),
        .is_run = entry % 2 == 0,
        .ga_log_intr = entry % 2 != 0,
    };

    m.page_of[entry] = page;
    (void)ae_irte_replace((struct ae_atomic16 *)(void *)m.ram[TABLE] + entry,
                          ae_irte_encode(&irte));
}

/* ---- the driver --------------------------------------------------------- */

static uint64_t
reg_read(uint32_t offset)
{
    uint64_t value = 0;

    (void)avicemu_hw_iommu_read(m.iommu, offset, 8, &value);
    return value;
}

static void
reg_write(uint32_t offset, uint64_t value)
{
    (void)avicemu_hw_iommu_write(m.iommu, offset, 8, value, NULL);
}

static void
command(uint64_t low, uint64_t high)
{
    ae_store_relaxed_u64(word_of(COMMANDS, 2 * m.command), low);
    ae_store_relaxed_u64(word_of(COMMANDS, 2 * m.command + 1), high);
    m.command = (m.command + 1) % RING;
}

static void
wait_begin(void)
{
    command(OP(5), 0);
    command(OP(1) | address_of(COMPLETION) | 1, ++m.waits);
    reg_write(AVICEMU_IOMMU_COMMAND_TAIL, m.command * 16);
}

static bool
wait_is_done(void)
{
    return ae_load_seqcst_u64(word_of(COMPLETION, 0)) == m.waits;
}

static void
wait_end(void)
{
    for (unsigned spins = 0; !wait_is_done(); spins++) {
        if (spins > SPINS) {
            (void)sched_yield();
        }
    }
}

/* The entry to the page that was poisoned first; its former page is poisoned
 * once nobody goes by it. */
static void
move_begin(struct race *r, unsigned entry, unsigned *ret_former)
{
    unsigned page = m.pool[m.oldest];

    r->r[FOUND_POISONED] += !is_poison(page);
    fill(page, 0);
    *ret_former = m.page_of[entry];
    target(entry, page);
    wait_begin();
}

static void
move_end(unsigned former)
{
    wait_end();
    fill(former, POISON);
    m.pool[m.oldest] = former;
    m.oldest = (m.oldest + 1) % POOL;
}

static void
drive(struct race *r)
{
    for (unsigned i = 0; i < MOVES; i++) {
        unsigned former;

        move_begin(r, i % ENTRIES, &former);
        r->r[FOUND_HELD] += !wait_is_done();
        move_end(former);
        reg_write(AVICEMU_IOMMU_GA_HEAD, reg_read(AVICEMU_IOMMU_GA_TAIL));
    }
}

/* ---- devices ------------------------------------------------------------ */

static void
post_many(struct race *r, unsigned party)
{
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    for (unsigned i = 0; i < POSTS; i++) {
        uint32_t entry = (i * 5 + party * 3) % ENTRIES;

        if (avicemu_hw_iommu_msi(m.iommu, 0, 0xfee00000u, entry, &msi) != 0 ||
            msi.outcome != AVICEMU_HW_POSTED) {
            r->r[FOUND_WRONG + party]++;
        }
    }
}

static void
post_1(struct race *r)
{
    post_many(r, 1);
}

static void
post_2(struct race *r)
{
    post_many(r, 2);
}

static void
post_3(struct race *r)
{
    post_many(r, 3);
}

/* ---- machine ------------------------------------------------------------ */

static int
machine_make(uint32_t features)
{
    struct avicemu_hw_iommu_config config = {
        .size = sizeof(config),
        .features = features,
        .nr_doorbells = BELLS,
        .doorbells = m.bells,
    };

    memset(&m, 0, sizeof(m));
    if (avicemu_hw_memory_create(&m.memory) != 0 ||
        avicemu_hw_memory_add(m.memory, RAM, sizeof(m.ram), m.ram) != 0) {
        return -1;
    }
    config.memory = m.memory;
    if (avicemu_hw_iommu_create(&config, &m.iommu) != 0) {
        return -1;
    }
    *word_of(DTES, 0) = 1;
    *word_of(DTES, 2) = address_of(TABLE) | 3u << 1 | 2ull << 60 | 1;
    for (unsigned i = 0; i < ENTRIES; i++) {
        target(i, BACKING + i);
    }
    for (unsigned i = 0; i < POOL; i++) {
        m.pool[i] = BACKING + ENTRIES + i;
        fill(m.pool[i], POISON);
    }
    reg_write(AVICEMU_IOMMU_DEVICE_TABLE, address_of(DTES));
    reg_write(AVICEMU_IOMMU_COMMAND_BASE, address_of(COMMANDS) | 8ull << 56);
    reg_write(AVICEMU_IOMMU_GA_BASE, address_of(GA_LOG) | 8ull << 56);
    reg_write(AVICEMU_IOMMU_CONTROL,
              AVICEMU_CONTROL_IOMMU_EN | AVICEMU_CONTROL_CMD_BUF_EN |
                  AVICEMU_CONTROL_GA_EN | AVICEMU_CONTROL_GAM_EN |
                  AVICEMU_CONTROL_GA_LOG_EN);
    return 0;
}

static int
make_plain(void **state)
{
    (void)state;
    return machine_make(0);
}

static int
make_cached(void **state)
{
    (void)state;
    return machine_make(AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE);
}

static int
machine_drop(void **state)
{
    (void)state;
    avicemu_hw_iommu_destroy(m.iommu);
    avicemu_hw_memory_destroy(m.memory);
    return 0;
}

static void
clear(struct race *r)
{
    memset(r->r, 0, sizeof(r->r));
}

static unsigned
judge(struct race *r)
{
    for (unsigned i = 0; i < POOL; i++) {
        r->r[FOUND_POISONED] += !is_poison(m.pool[i]);
    }
    for (unsigned i = 0; i < r->nr_threads; i++) {
        if (r->r[FOUND_WRONG + i] != 0) {
            return WRONG;
        }
    }
    if (r->r[FOUND_POISONED] != 0) {
        return POISONED;
    }
    if (r->r[FOUND_EARLY] != 0) {
        return EARLY;
    }
    return r->r[FOUND_HELD] != 0 ? HELD : AT_ONCE;
}

/* ---- tests -------------------------------------------------------------- */

static void
run(struct race *r, const char *name)
{
    const char *const outcomes[] = { "at once", "held", "done early",
                                     "bit in a poisoned page", "wrong" };

    memcpy(r->outcomes, outcomes, sizeof(outcomes));
    r->judge = judge;
    race_run(r, name);
    assert_int_equal(r->done, r->rounds);
    assert_int_equal(r->histogram[EARLY], 0);
    assert_int_equal(r->histogram[POISONED], 0);
    assert_int_equal(r->histogram[WRONG], 0);
}

static void
test_moves(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 4,
        .rounds = 4000,
        .prepare = clear,
        .party = { drive, post_1, post_2, post_3 },
    };
    run(&r, "iommu, moved entries");
}

/* One stands still behind a step, another one goes on. The words are theirs,
 * and the driver's. */
static _Atomic uint32_t stalled, may_go;

static void
still_prepare(struct race *r)
{
    clear(r);
    ae_store_seqcst_u32(&stalled, 0);
    ae_store_seqcst_u32(&may_go, 0);
}

static void
until(const _Atomic uint32_t *word)
{
    while (ae_load_seqcst_u32(word) == 0) {
        (void)sched_yield();
    }
}

static void
stall(struct race *r)
{
    /* In turn; entry 0 rings a doorbell. */
    static const enum avicemu_hw_event behind[] = {
        AVICEMU_HW_BEGUN, AVICEMU_HW_DTE,    AVICEMU_HW_FETCHED,
        AVICEMU_HW_IRR,   AVICEMU_HW_REREAD, AVICEMU_HW_RANG,
    };
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    (void)avicemu_hw_iommu_msi_begin(m.iommu, 0, 0xfee00000u, 0, &msi);
    while (avicemu_hw_iommu_msi_step(&msi) != behind[r->done % 6]) {
    }
    ae_store_seqcst_u32(&stalled, 1);
    until(&may_go);
    while (avicemu_hw_iommu_msi_step(&msi) != AVICEMU_HW_FINISHED) {
    }
    r->r[FOUND_WRONG + 1] += msi.outcome != AVICEMU_HW_POSTED;
}

static void
drive_still(struct race *r)
{
    unsigned former;

    until(&stalled);
    move_begin(r, 0, &former);
    for (unsigned i = 0; i < LOOKS; i++) {
        r->r[FOUND_EARLY] += wait_is_done();
        (void)sched_yield();
    }
    r->r[FOUND_HELD]++;
    ae_store_seqcst_u32(&may_go, 1);
    move_end(former);
}

static void
test_still(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 2000,
        .prepare = still_prepare,
        .party = { drive_still, stall, post_2 },
    };
    run(&r, "iommu, one stands still");
    assert_int_equal(r.histogram[HELD], r.done);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "moved entries", test_moves, make_plain, machine_drop, NULL },
        { "moved entries, cached", test_moves, make_cached, machine_drop,
          NULL },
        { "one stands still", test_still, make_plain, machine_drop, NULL },
        { "one stands still, cached", test_still, make_cached, machine_drop,
          NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
