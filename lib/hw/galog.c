/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IOMMU's logs: GA log and event log. What an entry of the event log says,
 * the status register and the interrupt are the IOMMU's own (iommu.c).
 * [IOMMU 2.7 GA log], as told by drivers; no public text.
 *
 *   base register   51:12 address  59:56 length code L, 8 to 15
 *                   bytes = 2^(L + 4); entries of 8 or 16 bytes
 *   head, tail      byte offsets; empty: head = tail; full: tail + 1 = head
 *   GA entry        63:60 type 1  47:32 DeviceID  31:0 GATag
 *
 * Many interrupts append at once, and none waits for another:
 *
 *   reserve  position := reserved + 1, in flight + 1   one compare-exchange;
 *            where none is free the same one sets Overflow and ends accepting
 *   write    the entry, then the slot's mark := position + 1
 *   publish  tail := first position without its mark; the tail word; then the
 *            caller's interrupt bit
 *   finish   in flight - 1
 *
 *   state, 64 bits   63 Overflow  62 accepting  61:48 generation
 *                    47:32 in flight  31:0 reserved (position)
 *   ring             tail <= reserved: written and to be published, or not
 *                    written yet. Positions count on; slot = position mod N
 *
 * Invariants
 *   reserved - tail < N: no slot has two entries in flight
 *   nothing in flight: reserved = tail
 *   the tail never passes an entry that is not written
 *   an entry is lost only when Overflow is set, or with the log off
 *   Run = accepting, or something is in flight. So base, length and pointers
 *   never change under a stalled producer, who works on what he reserved in
 *
 * The generation, one more at each start, tells a state from an equal one of
 * an earlier ring (after 2^14 starts between two instructions it does not).
 * Positions wrap at 2^32; in flight is at most 2^16 - 1: one more finds no
 * place.
 *
 * Choices (all unverified)
 *   L < 8      counts as 8
 *   base       writing it sets head and tail to 0
 *   running    writes of base, tail and tail word are ignored
 *   head       any value that software writes, bits out of range cut off; it
 *              can cost itself entries, and no more
 *   no memory  at the ring's address: the entry is dropped, the tail moves on
 *   tail word  the register's value, one 64-bit store
 *   stop       what is in flight is still written
 *   start      while something is in flight: the log goes on as it was
 *
 * Edges
 *   galog    A ae_galog_write(), _publish()  entry -> mark -> tail   seq_cst
 *            B ae_galog_tail()               tail -> entry           seq_cst
 *   mark     A ae_galog_publish()  own mark -> tail read             seq_cst
 *            B ae_galog_publish()  tail moved -> next mark read      seq_cst
 *   shadow   A tail_word_store()   tail moved -> tail word           seq_cst
 *            B tail_word_store()   tail word -> tail read            seq_cst
 *   head     A ae_galog_set_head() entries read -> head              seq_cst
 *            B ae_galog_reserve()  head -> entry overwritten         seq_cst
 *   quiet    A ae_galog_finish()   all of the above -> in flight     seq_cst
 *            B ae_galog_running()  in flight -> ring is changed      seq_cst
 *   restart  A ae_galog_reserve()  (IRR bit) -> accepting read       seq_cst
 *            B ae_galog_start()    ring, accepting -> (IRR scan)     seq_cst
 *
 * May overlap: hardware's side with everything, software's side not with
 * itself. Progress: lock-free; a failed exchange or a repeated store means
 * that another append went on. Software's side: wait-free, start O(N).
 */

#include "hw/galog.h"

#include "base/step.h"

#define STATE_OVERFLOW   ((uint64_t)1 << 63)
#define STATE_ACCEPTING  ((uint64_t)1 << 62)
#define STATE_ONE_FLIGHT ((uint64_t)1 << 32)
#define STATE_FLIGHTS    ((uint64_t)0xffff << 32)
#define STATE_ONE_GEN    ((uint64_t)1 << 48)
#define STATE_GEN        ((uint64_t)0x3fff << 48)
#define STATE_POSITION   ((uint64_t)0xffffffff)

void
ae_galog_init(struct ae_galog *log, const struct ae_mem *mem,
              uint32_t entry_bytes, _Atomic uint32_t *marks)
{
    log->mem = mem;
    log->entry_shift = entry_bytes == 8 ? 3 : 4;
    log->marks = marks;
    /* ORD none: nobody else has it yet. */
    ae_store_relaxed_u64(&log->base,
                         (uint64_t)AE_LOG_MIN_LENGTH << LOG_BASE_LENGTH_LOW);
    ae_store_relaxed_u64(&log->tail_word, 0);
    ae_store_relaxed_u32(&log->head, 0);
    ae_store_relaxed_u32(&log->tail, 0);
    ae_store_relaxed_u64(&log->state, 0);
}

uint32_t
ae_galog_entries(uint64_t base, uint32_t entry_bytes)
{
    uint32_t length = AE_GET(base, LOG_BASE_LENGTH);

    if (length < AE_LOG_MIN_LENGTH) {
        length = AE_LOG_MIN_LENGTH;
    }
    return ((uint32_t)16 << length) / entry_bytes;
}

/* ---- what both sides read ----------------------------------------------- */

uint64_t
ae_galog_base(const struct ae_galog *log)
{
    /* ORD none: "restart" orders it before a reservation, "quiet" after. */
    return ae_load_relaxed_u64(&log->base);
}

uint64_t
ae_galog_tail_word(const struct ae_galog *log)
{
    /* ORD none: as the base. */
    return ae_load_relaxed_u64(&log->tail_word);
}

/* Position to slot. */
static uint32_t
ring_mask(const struct ae_galog *log)
{
    return ae_galog_entries(ae_galog_base(log), 1u << log->entry_shift) - 1;
}

static uint32_t
tail_read(const struct ae_galog *log)
{
    /*
     * ORD galog.B, mark.A, shadow.B: the tail, then the entries before it; and
     * an own mark, or the tail word, then the tail. Partner: galog.A, mark.B,
     * shadow.A in tail_move() and tail_word_store(). If weaker: software reads
     * a slot's former entry; two who fill neighbours both leave them to the
     * other; the tail word stays behind the tail. Test: race_galog,
     * step/galog.
     */
    uint32_t tail = ae_load_seqcst_u32(&log->tail);

    AE_STEP(galog_b);
    return tail;
}

static uint64_t
state_read(const struct ae_galog *log)
{
    /*
     * ORD restart.A, quiet.B: the interrupt's IRR bit, then whether the log
     * accepts; and nothing in flight, then the ring is changed. Partner:
     * restart.B in ae_galog_start(), quiet.A in ae_galog_finish(). If weaker:
     * the entry is dropped, and the scan after the restart misses the bit; a
     * late producer writes into the next ring. Test: step/galog.
     */
    uint64_t state = ae_load_seqcst_u64(&log->state);

    AE_STEP(restart_a);
    return state;
}

/* On failure *state holds what was found. */
static bool
state_change(struct ae_galog *log, uint64_t *state, uint64_t next)
{
    /* ORD restart.B, quiet.A: as state_read(); a locked operation. */
    return ae_cas_seqcst_u64(&log->state, state, next);
}

/* ---- software's side ---------------------------------------------------- */

uint32_t
ae_galog_head(const struct ae_galog *log)
{
    /* ORD none: its only writer asks. */
    return ae_load_relaxed_u32(&log->head) &
           (ring_mask(log) << log->entry_shift);
}

uint32_t
ae_galog_tail(const struct ae_galog *log)
{
    return (tail_read(log) & ring_mask(log)) << log->entry_shift;
}

bool
ae_galog_running(const struct ae_galog *log)
{
    return (state_read(log) & (STATE_ACCEPTING | STATE_FLIGHTS)) != 0;
}

bool
ae_galog_overflowed(const struct ae_galog *log)
{
    return (state_read(log) & STATE_OVERFLOW) != 0;
}

bool
ae_galog_set_base(struct ae_galog *log, uint64_t value)
{
    if (ae_galog_running(log)) {
        return false;
    }
    /* ORD none: "restart" publishes them; nobody is in flight. */
    ae_store_relaxed_u64(&log->base, value & (AE_MASK64(LOG_BASE_PAGE) |
                                              AE_MASK64(LOG_BASE_LENGTH)));
    ae_store_relaxed_u32(&log->head, 0);
    ae_store_relaxed_u32(&log->tail, 0);
    return true;
}

bool
ae_galog_set_tail_word(struct ae_galog *log, uint64_t value)
{
    if (ae_galog_running(log)) {
        return false;
    }
    /* ORD none: as the base. */
    ae_store_relaxed_u64(&log->tail_word,
                         value & AE_MASK64(LOG_TAIL_WORD_ADDRESS));
    return true;
}

bool
ae_galog_set_tail(struct ae_galog *log, uint32_t value)
{
    if (ae_galog_running(log)) {
        return false;
    }
    /* ORD none: as the base. */
    ae_store_relaxed_u32(&log->tail,
                         (value >> log->entry_shift) & ring_mask(log));
    return true;
}

void
ae_galog_set_head(struct ae_galog *log, uint32_t value)
{
    /*
     * ORD head.A: the entries are read, then their places are free. Partner:
     * head.B in slot_free(). If weaker: an entry is overwritten while it is
     * read. Test: race_galog, step/galog.
     */
    ae_store_seqcst_u32(&log->head, value);
    AE_STEP(head_a);
}

/* Begin at the tail that software left, with no place marked. */
static void
ring_begin(struct ae_galog *log, uint32_t *ret_position)
{
    uint32_t mask = ring_mask(log);
    uint32_t tail = tail_read(log) & mask;

    /* ORD none: nobody is in flight; "restart" publishes it. */
    ae_store_relaxed_u32(&log->tail, tail);
    for (uint32_t slot = 0; slot <= mask; slot++) {
        /* ORD none: likewise. */
        ae_store_relaxed_u32(&log->marks[slot], 0);
    }
    *ret_position = tail;
}

bool
ae_galog_start(struct ae_galog *log)
{
    uint64_t state = state_read(log);
    uint64_t next;

    do {
        if ((state & STATE_OVERFLOW) != 0) {
            return false;
        }
        if ((state & STATE_ACCEPTING) != 0) {
            return true;
        }
        if ((state & STATE_FLIGHTS) != 0) {
            next = state | STATE_ACCEPTING;
        } else {
            uint32_t position;

            ring_begin(log, &position);
            next = STATE_ACCEPTING | ((state + STATE_ONE_GEN) & STATE_GEN) |
                   position;
        }
        /*
         * ORD restart.B: the ring, then accepting; then the caller's scan of
         * IRRs. Partner: restart.A in state_read(). If weaker: see there.
         * Test: step/galog.
         */
    } while (!state_change(log, &state, next));
    AE_STEP(restart_b);
    return true;
}

void
ae_galog_stop(struct ae_galog *log)
{
    /* ORD none: reservations and this agree on one word. */
    (void)ae_fetch_and_seqcst_u64(&log->state, ~STATE_ACCEPTING);
}

void
ae_galog_clear_overflow(struct ae_galog *log)
{
    /* ORD none: as stop. */
    (void)ae_fetch_and_seqcst_u64(&log->state, ~STATE_OVERFLOW);
}

/* ---- hardware's side ---------------------------------------------------- */

/* Is there a place at position? Of software's head only the slot counts. */
static bool
slot_free(const struct ae_galog *log, uint32_t position)
{
    uint32_t mask = ring_mask(log);
    /*
     * ORD head.B: the head, then the place is filled. Partner: head.A in
     * ae_galog_set_head(). If weaker: see there. Test: race_galog, step/galog.
     */
    uint32_t head = ae_load_seqcst_u32(&log->head) >> log->entry_shift & mask;

    AE_STEP(head_b);
    /* The second keeps the first invariant whatever head says. Of a head that
     * never was ahead of the tail it asks no more than the first. */
    return ((position + 1) & mask) != head && position - tail_read(log) < mask;
}

enum ae_galog_slot
ae_galog_reserve(struct ae_galog *log, uint32_t *ret_position)
{
    uint64_t state = state_read(log);
    uint64_t next;
    bool room;

    do {
        if ((state & STATE_ACCEPTING) == 0) {
            return AE_GALOG_OFF;
        }
        uint32_t position = (uint32_t)(state & STATE_POSITION);

        room = (state & STATE_FLIGHTS) != STATE_FLIGHTS &&
               slot_free(log, position);
        next = room ? ((state & ~STATE_POSITION) + STATE_ONE_FLIGHT) |
                          (uint32_t)(position + 1)
                    : (state & ~STATE_ACCEPTING) | STATE_OVERFLOW;
        /* ORD restart.A: the state was read; what it says of the ring holds
         * from here until finish. As state_read(). */
    } while (!state_change(log, &state, next));
    if (!room) {
        return AE_GALOG_OVERFLOW;
    }
    *ret_position = (uint32_t)(state & STATE_POSITION);
    return AE_GALOG_RESERVED;
}

static void
entry_store(void *memory, uint32_t shift, struct ae_u128 entry)
{
    _Atomic uint64_t *words = memory;

    /* ORD none: the mark orders them before the tail. */
    if (shift == 4) {
        ae_store_relaxed_u64(&words[1], ae_little64(entry.high));
    }
    ae_store_relaxed_u64(&words[0], ae_little64(entry.low));
}

bool
ae_galog_write(struct ae_galog *log, uint32_t position, struct ae_u128 entry)
{
    uint64_t base = ae_galog_base(log);
    uint32_t slot = position & ring_mask(log);
    void *memory = ae_mem_find(log->mem,
                               (base & AE_MASK64(LOG_BASE_PAGE)) +
                                   ((uint64_t)slot << log->entry_shift),
                               1u << log->entry_shift);

    if (memory != NULL) {
        entry_store(memory, log->entry_shift, entry);
    }
    /*
     * ORD mark.A, galog.A: the entry, then its mark; the mark, then the tail
     * is read. Partner: mark.B in filled_until(), galog.B in tail_read(). If
     * weaker: the tail passes an entry that is not there; or two neighbours
     * each leave the tail to the other, and an entry lies behind it for ever.
     * Test: race_galog, step/galog.
     */
    ae_store_seqcst_u32(&log->marks[slot], position + 1);
    AE_STEP(mark_a);
    return memory != NULL;
}

/* The first position from here that has no mark. */
static uint32_t
filled_until(const struct ae_galog *log, uint32_t position)
{
    uint32_t mask = ring_mask(log);

    for (uint32_t i = 0; i <= mask; i++, position++) {
        /*
         * ORD mark.B: the tail was moved, then the next mark. Partner: mark.A
         * in ae_galog_write(). If weaker: see there. Test: step/galog.
         */
        uint32_t filled = ae_load_seqcst_u32(&log->marks[position & mask]);

        AE_STEP(mark_b);
        if (filled != position + 1) {
            break;
        }
    }
    return position;
}

/* Software's copy of the tail. Who stores it looks whether it still is the
 * tail: of two who moved it the later store may be the earlier tail's. */
static void
tail_word_store(struct ae_galog *log)
{
    uint64_t address = ae_galog_tail_word(log);
    uint32_t mask = ring_mask(log);
    _Atomic uint64_t *word =
        address != 0 ? ae_mem_find(log->mem, address, 8) : NULL;
    uint32_t tail = tail_read(log);
    uint32_t stored;

    if (word == NULL) {
        return;
    }
    do {
        stored = tail;
        /*
         * ORD shadow.A, shadow.B: the tail was moved, then the word; the word,
         * then the tail. Partner: the same, of another producer. If weaker:
         * the word stays behind. Test: step/galog.
         */
        ae_store_seqcst_u64(
            word, ae_little64((uint64_t)(stored & mask) << log->entry_shift));
        AE_STEP(shadow_a);
        tail = tail_read(log);
    } while (tail != stored);
}

/* Move the tail as far as it goes. true: this call did. */
static bool
tail_move(struct ae_galog *log)
{
    uint32_t tail = tail_read(log);
    bool moved = false;

    for (;;) {
        uint32_t next = filled_until(log, tail);

        if (next == tail) {
            return moved;
        }
        /*
         * ORD galog.A, mark.B, shadow.A: the entries' marks, then the tail;
         * the tail, then the next mark, and the tail word. Partner: galog.B,
         * mark.A, shadow.B in tail_read(). If weaker: see there. Test:
         * race_galog, step/galog.
         */
        if (ae_cas_seqcst_u32(&log->tail, &tail, next)) {
            AE_STEP(galog_a);
            moved = true;
            tail = next;
        }
    }
}

bool
ae_galog_publish(struct ae_galog *log, uint32_t position)
{
    if (tail_move(log)) {
        tail_word_store(log);
    }
    return (int32_t)(tail_read(log) - position) > 0;
}

void
ae_galog_finish(struct ae_galog *log)
{
    /*
     * ORD quiet.A: all that was done to the ring, then not in flight. Partner:
     * quiet.B in state_read(). If weaker: see there. Test: step/galog.
     */
    (void)ae_fetch_add_seqcst_u64(&log->state, -STATE_ONE_FLIGHT);
    AE_STEP(quiet_a);
}

enum ae_galog_slot
ae_galog_append(struct ae_galog *log, struct ae_u128 entry, bool *ret_visible)
{
    uint32_t position;
    enum ae_galog_slot slot = ae_galog_reserve(log, &position);

    if (slot == AE_GALOG_RESERVED) {
        (void)ae_galog_write(log, position, entry);
        *ret_visible = ae_galog_publish(log, position);
        ae_galog_finish(log);
    }
    return slot;
}
