/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GA log, explored: two producers against a consumer, and software that
 * stops, changes or restarts the log meanwhile. Edges galog, mark, shadow,
 * head, quiet, restart. The ring is the smallest; where its last places count,
 * head and tail begin there.
 */

#include "hw/galog.h"

#include <string.h>

#include "base/rcu.h"
#include "edge.h"

#define RING  0x100000u
#define OTHER 0x101000u
#define WORD  0x102000u
#define SLOTS 512u

/* In the edge's r: 0, 1 what became of the producers' entries (a slot + 1);
 * 2 entries that the consumer saw as 0; 3 what else went wrong; 4, 5 how many
 * became visible by a producer's publish; 6 the interrupt bit; 7 a wake. */
static struct ae_mem map;
static struct ae_galog galog;
static AE_ALIGNED(4096) unsigned char memory[3 * 4096];
static _Atomic uint32_t marks[SLOTS];
static _Atomic uint32_t irr, interrupt;

static int
log_make(struct edge *e, uint32_t free_places)
{
    (void)e;
    memset(memory, 0, sizeof(memory));
    ae_mem_init(&map, &ae_default_allocator);
    if (ae_mem_add(&map, RING, sizeof(memory), memory) != 0) {
        return -1;
    }
    ae_galog_init(&galog, &map, 8, marks);
    (void)ae_galog_set_base(&galog, RING | 8ull << 56);
    (void)ae_galog_set_tail_word(&galog, WORD);
    /* At the end of the ring, so that it wraps. */
    (void)ae_galog_set_tail(&galog, (SLOTS - 1) * 8);
    ae_galog_set_head(&galog, (SLOTS - 1 + free_places + 1) * 8);
    avicemu_step_store(&irr, 4, 0);
    avicemu_step_store(&interrupt, 4, 0);
    return ae_galog_start(&galog) ? 0 : -1;
}

static int
roomy(struct edge *e)
{
    return log_make(e, 100);
}

static int
one_place(struct edge *e)
{
    return log_make(e, 1);
}

/* Stopped by an overflow before: who posts finds it off. */
static int
stopped(struct edge *e)
{
    int result = log_make(e, 100);

    ae_galog_stop(&galog);
    return result;
}

/* ---- parties ------------------------------------------------------------ */

/* A device: an entry, the interrupt bit, finish. */
static void
produce(struct edge *e, unsigned who)
{
    uint32_t position;

    ae_rcu_enter();
    enum ae_galog_slot slot = ae_galog_reserve(&galog, &position);

    e->r[who] = (uint64_t)slot + 1;
    if (slot == AE_GALOG_RESERVED) {
        (void)ae_galog_write(&galog, position, ae_ga_entry(who + 1, 0));
        if (ae_galog_publish(&galog, position)) {
            e->r[4 + who]++;
            ae_store_seqcst_u32(&interrupt, 1);
        }
        ae_galog_finish(&galog);
    }
    ae_rcu_leave();
}

static void
produce_0(void *opaque)
{
    produce(opaque, 0);
}

static void
produce_1(void *opaque)
{
    produce(opaque, 1);
}

static uint64_t
entry_at(uint32_t base, uint32_t offset)
{
    return avicemu_step_load(memory + (base - RING) + offset, 8);
}

/* What lies before the tail is an entry; head follows. */
static void
consume(void *opaque)
{
    struct edge *e = opaque;
    uint32_t head = (SLOTS - 1) * 8;
    uint32_t tail = ae_galog_tail(&galog);

    while (head != tail) {
        e->r[2] += entry_at(RING, head) == 0;
        head = (head + 8) % (SLOTS * 8);
    }
    ae_galog_set_head(&galog, head);
}

/* The same by the tail word alone, as who polls memory does. */
static void
consume_word(void *opaque)
{
    struct edge *e = opaque;
    uint64_t tail = avicemu_step_load(memory + (WORD - RING), 8);

    if (tail == 0 || tail == 8) {
        e->r[2] += tail == 8 && entry_at(RING, 0) == 0;
    } else {
        e->r[3]++;
    }
}

/* Stop; when it stands still, another ring. */
static void
move_ring(void *opaque)
{
    struct edge *e = opaque;

    ae_galog_stop(&galog);
    while (ae_galog_running(&galog)) {
        ae_step_relax("running");
    }
    e->r[3] += !ae_galog_set_base(&galog, OTHER | 8ull << 56);
    e->r[3] += !ae_galog_start(&galog);
}

/* The overflow's handler: wait, empty, clear, start; then scan IRR. */
static void
recover(void *opaque)
{
    struct edge *e = opaque;

    while (!ae_galog_overflowed(&galog) || ae_galog_running(&galog)) {
        ae_step_relax("no overflow");
    }
    consume(e);
    ae_galog_stop(&galog);
    ae_galog_clear_overflow(&galog);
    e->r[3] += !ae_galog_start(&galog) || !ae_galog_running(&galog);
}

/* A vCPU's bit, then its entry: dropped or not. */
static void
post(void *opaque)
{
    ae_store_seqcst_u32(&irr, 1);
    produce(opaque, 0);
}

static void
restart_and_scan(void *opaque)
{
    struct edge *e = opaque;

    e->r[3] += !ae_galog_start(&galog);
    e->r[7] = ae_load_seqcst_u32(&irr);
}

/* ---- checks ------------------------------------------------------------- */

static uint32_t
nr_with(const struct edge *e, enum ae_galog_slot slot)
{
    uint32_t first = e->r[0] == (uint64_t)slot + 1;
    uint32_t second = e->r[1] == (uint64_t)slot + 1;

    return first + second;
}

/* Entries with type 1 in a ring. */
static uint32_t
nr_entries(uint32_t base)
{
    uint32_t nr = 0;

    for (uint32_t i = 0; i < SLOTS; i++) {
        nr += entry_at(base, i * 8) >> 60 == 1;
    }
    return nr;
}

/* n entries before the tail, tail word and interrupt bit agree. */
static int
settled(const struct edge *e, uint32_t n)
{
    uint32_t tail = (SLOTS - 1 + n) % SLOTS * 8;
    uint64_t word = avicemu_step_load(memory + (WORD - RING), 8);

    ae_mem_fini(&map);
    return e->r[2] != 0 || e->r[3] != 0 || ae_galog_tail(&galog) != tail ||
           nr_entries(RING) != n || (n != 0 && word != tail) ||
           ae_load_seqcst_u32(&interrupt) != (n != 0);
}

static int
both_there(struct edge *e)
{
    return settled(e, 2) || ae_galog_overflowed(&galog) ||
           !ae_galog_running(&galog) || nr_with(e, AE_GALOG_RESERVED) != 2;
}

/* One has the place; the other has set Overflow, unless it was made room. */
static int
one_or_made_room(struct edge *e)
{
    uint32_t nr = nr_with(e, AE_GALOG_RESERVED);
    bool overflow = ae_galog_overflowed(&galog);

    return settled(e, nr) || nr == 0 || overflow != (nr == 1) ||
           overflow == ae_galog_running(&galog) ||
           nr_with(e, AE_GALOG_OVERFLOW) != 2 - nr;
}

/* One overflowed; its entry alone is lost, and the log runs. */
static int
recovered(struct edge *e)
{
    return settled(e, 1) || nr_with(e, AE_GALOG_OVERFLOW) != 1 ||
           ae_galog_overflowed(&galog) || !ae_galog_running(&galog);
}

/* Each entry is in the ring in which it was reserved, at its tail. */
static int
moved(struct edge *e)
{
    uint32_t nr = nr_entries(RING) + nr_entries(OTHER);

    ae_mem_fini(&map);
    return e->r[3] != 0 || nr != nr_with(e, AE_GALOG_RESERVED) ||
           nr + nr_with(e, AE_GALOG_OFF) != 2 || !ae_galog_running(&galog) ||
           ae_galog_tail(&galog) != nr_entries(OTHER) * 8;
}

/* The entry is there, or the scan saw the bit. */
static int
told(struct edge *e)
{
    bool logged = e->r[0] == AE_GALOG_RESERVED + 1;

    return settled(e, logged) || (!logged && e->r[7] == 0);
}

static const struct edge_row rows[] = {
    { "galog, mark: two producers against a consumer",
      0,
      roomy,
      both_there,
      3,
      { produce_0, produce_1, consume } },
    { "galog, shadow: two producers against the tail word",
      0,
      roomy,
      both_there,
      3,
      { produce_0, produce_1, consume_word } },
    { "head: two producers, one place, a consumer",
      0,
      one_place,
      one_or_made_room,
      3,
      { produce_0, produce_1, consume } },
    { "restart: two producers, one place, the handler",
      0,
      one_place,
      recovered,
      3,
      { produce_0, produce_1, recover } },
    { "quiet: two producers against a new ring",
      0,
      roomy,
      moved,
      3,
      { produce_0, produce_1, move_ring } },
    { "restart: a post against restart and scan",
      0,
      stopped,
      told,
      2,
      { post, restart_and_scan } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
