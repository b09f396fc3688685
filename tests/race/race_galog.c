/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edges galog and head: three producers, one consumer who empties the log,
 * and where it overflows restarts it. What lies before the tail is an entry,
 * each one that had a place is read once and in its producer's order, and none
 * is lost without Overflow being seen.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rcu.h"
#include "hw/galog.h"
#include "race.h"

#define RING  0x100000u
#define WORD  0x102000u
#define SLOTS 512u
/* Each producer's, per round: more than there are places, or fewer. */
#define MANY 600u
#define FEW  160u

static struct ae_mem mem;
static AE_ALIGNED(4096) unsigned char memory[3 * 4096];
static _Atomic uint32_t marks[SLOTS];
static struct ae_galog galog;
static uint32_t entry_bytes;

/* Per producer: what it had places for; written by itself. */
static struct {
    AE_ALIGNED(64) uint32_t reserved;
    uint32_t dropped;
    uint32_t held; /* left to another to publish */
} produced[4];
static _Atomic uint32_t nr_done;
/* The consumer's. */
static uint32_t consumed[4], last[4];
static uint32_t bad, restarts;
static bool slow;
static uint32_t entries;

static void
prepare(struct race *r)
{
    (void)r;
    memset(produced, 0, sizeof(produced));
    memset(consumed, 0, sizeof(consumed));
    memset(last, 0, sizeof(last));
    bad = 0;
    restarts = 0;
    slow = !slow;
    entries = slow ? MANY : FEW;
    ae_store_seqcst_u32(&nr_done, 0);
}

static void
produce(unsigned who)
{
    for (uint32_t i = 1; i <= entries; i++) {
        /* The sequence number where the tag is, the producer's as device. */
        struct ae_u128 entry = ae_ga_entry(i, (uint16_t)who);
        bool visible = true;

        entry.high = ~entry.low;
        ae_rcu_enter();
        if (ae_galog_append(&galog, entry, &visible) == AE_GALOG_RESERVED) {
            produced[who].reserved++;
            produced[who].held += !visible;
        } else {
            produced[who].dropped++;
        }
        ae_rcu_leave();
    }
    (void)ae_fetch_add_seqcst_u32(&nr_done, 1);
}

static void
produce_1(struct race *r)
{
    (void)r;
    produce(1);
}

static void
produce_2(struct race *r)
{
    (void)r;
    produce(2);
}

static void
produce_3(struct race *r)
{
    (void)r;
    produce(3);
}

static void
entry_take(uint32_t offset)
{
    _Atomic uint64_t *words = (void *)(memory + offset);
    uint64_t low = ae_load_relaxed_u64(words);
    uint32_t who = (uint32_t)(low >> 32) & 3;

    if (low >> 60 != AE_GA_GUEST_NR || (uint32_t)low <= last[who] ||
        (entry_bytes == 16 && ae_load_relaxed_u64(words + 1) != ~low)) {
        bad++;
    }
    last[who] = (uint32_t)low;
    consumed[who]++;
    ae_store_relaxed_u64(words, 0);
}

static void
drain(void)
{
    uint32_t bytes =
        ae_galog_entries(ae_galog_base(&galog), entry_bytes) * entry_bytes;
    uint32_t tail = ae_galog_tail(&galog);
    uint32_t head = ae_galog_head(&galog);

    while (head != tail) {
        entry_take(head);
        head = (head + entry_bytes) % bytes;
        ae_galog_set_head(&galog, head);
    }
}

static void
consume(struct race *r)
{
    bool last_look = false;

    (void)r;
    while (!last_look) {
        last_look = ae_load_seqcst_u32(&nr_done) == 3;
        for (unsigned i = 0; i < 20 && slow && !last_look; i++) {
            (void)sched_yield();
        }
        drain();
        if (ae_galog_overflowed(&galog)) {
            while (ae_galog_running(&galog)) {
                (void)sched_yield();
            }
            drain();
            ae_galog_stop(&galog);
            ae_galog_clear_overflow(&galog);
            bad += !ae_galog_start(&galog) || !ae_galog_running(&galog);
            restarts++;
        }
    }
}

static unsigned
judge(struct race *r)
{
    uint32_t dropped = 0;
    uint32_t held = 0;
    uint64_t word;

    (void)r;
    for (unsigned i = 1; i < 4; i++) {
        bad += consumed[i] != produced[i].reserved;
        bad += consumed[i] + produced[i].dropped != entries;
        dropped += produced[i].dropped;
        held += produced[i].held;
    }
    bad += consumed[0] != 0 || ae_galog_head(&galog) != ae_galog_tail(&galog);
    bad += (dropped != 0) != (restarts != 0);
    memcpy(&word, memory + (WORD - RING), 8);
    bad += word != ae_galog_tail(&galog);
    if (bad != 0) {
        return 3;
    }
    return restarts != 0 ? 2 : held != 0 ? 1 : 0;
}

static void
run(const char *name, uint32_t bytes)
{
    static struct race r;

    entry_bytes = bytes;
    memset(memory, 0, sizeof(memory));
    ae_mem_init(&mem, &ae_default_allocator);
    assert_int_equal(ae_mem_add(&mem, RING, sizeof(memory), memory), 0);
    ae_galog_init(&galog, &mem, bytes, marks);
    /* 512 entries of either size. */
    assert_true(
        ae_galog_set_base(&galog, RING | (bytes == 8 ? 8ull : 9ull) << 56));
    assert_true(ae_galog_set_tail_word(&galog, WORD));
    assert_true(ae_galog_start(&galog));
    r = (struct race){
        .nr_threads = 4,
        .rounds = 2000,
        .prepare = prepare,
        .party = { consume, produce_1, produce_2, produce_3 },
        .judge = judge,
        .outcomes = { "in order", "left to another", "overflowed", "wrong" },
    };
    race_run(&r, name);
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[3], 0);
    ae_mem_fini(&mem);
}

static void
test_ga(void **state)
{
    (void)state;
    run("GA log", 8);
}

static void
test_event(void **state)
{
    (void)state;
    run("event log", 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ga),
        cmocka_unit_test(test_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
