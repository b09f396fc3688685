/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command buffer, and the two things that it is for: forgetting cached
 * entries, and telling software when nothing goes by them any more. Also the
 * event log's entries. [IOMMU 2.4 commands], [IOMMU 2.5 event log]
 *
 *   COMPLETION_WAIT          [0] store [1] interrupt [51:3] address; data
 *   INVALIDATE_DEVTAB_ENTRY  [15:0] DeviceID
 *   INVALIDATE_INTERRUPT_TABLE  likewise
 *   INVALIDATE_IOMMU_ALL     needs IASup
 *   3, 4, 6, 7               of the DMA side: taken, and nothing to do
 *
 * Commands are carried out in order, by whoever holds the engine: software, who
 * moved the tail, or an interrupt that was the last one a COMPLETION_WAIT
 * waited for. Who finds the engine held leaves a note; nobody waits for it.
 *
 *   IDLE --exchange--> BUSY --note--> AGAIN --its holder goes round--> BUSY
 *
 * That the engine is held says nothing of the ring: an interrupt takes it to
 * look whether a wait is done, also when the buffer has long been stopped. So
 * whoever works on the ring says so in the run word, which is the only thing
 * that software must see before it may change the ring: CmdBufRun.
 *
 *   run   0 software's: CmdBufEn rose, no illegal command since
 *         1 the engine's holder is at the ring; set only while 0 is set, by one
 *           compare-exchange
 *
 * COMPLETION_WAIT must not complete while an interrupt is under way that began
 * by an older entry: it still may set a bit in a page that software is about to
 * free (CVE-2025-37885). Each interrupt counts itself under the current epoch
 * before it looks at anything, and looks whether that still is the epoch. The
 * command turns the epoch and is done when the older count is 0. Later commands
 * stay behind it, so there are never more than two epochs.
 *
 *   epoch   A ae_iommu_enter()    counted -> epoch read again -> tables, caches
 *           B wait_begin()        invalidations -> epoch turned -> count read
 *   done    A ae_iommu_leave()    all it did -> count - 1 -> waiting read
 *           B wait_end()          waiting set -> count read -> data stored
 *   engine  A ae_iommu_run()      the note is set; engine held -> idle
 *           B the holder          head, tail, count read -> note read
 *   ring    A run_clear()         ring read, head moved -> run, bit 1 cleared
 *           B ae_command_running()  run read as 0 -> base, head, tail written
 * all seq_cst.
 *
 * Invariants
 *   head != tail and running: the engine is held, or waiting is set
 *   waiting: an interrupt of the older epoch is under way, or the engine is
 *   held
 *   run = 0: nobody looks at base, head and ring before software starts it
 *   a COMPLETION_WAIT is done exactly once
 *
 * Choices where sources are silent (all unverified)
 *   wait      drains the interrupts that began before it, to their last store
 *   flush     every COMPLETION_WAIT holds later commands back
 *   store     to no memory: nothing is stored, the command is done
 *   restart   while one is waiting: it is done when it may be
 *   bad       reserved bits: any other than those above, of these five
 *
 * Progress: lock-free, O(commands in the ring) for who moves the tail.
 */

#include "base/step.h"
#include "hw/iommu.h"

enum engine {
    ENGINE_IDLE,
    ENGINE_BUSY,
    ENGINE_AGAIN, /* busy, and somebody came */
};

#define RUN_ON   (1u << 0)
#define RUN_BUSY (1u << 1)

struct command {
    uint64_t low, high;
    uint64_t address; /* where it stands */
};

/* ---- events ------------------------------------------------------------- */

void
ae_iommu_event(struct ae_iommu *iommu, enum ae_iommu_event_code code,
               uint64_t flags, uint64_t address, uint32_t *signals)
{
    struct ae_u128 entry = { (uint64_t)code << EVENT_CODE_LOW | flags,
                             address };
    bool visible = false;
    enum ae_galog_slot slot = ae_galog_append(&iommu->events, entry, &visible);

    /* Unlike the GA log's, its overflow is signalled. */
    if (visible || slot == AE_GALOG_OVERFLOW) {
        ae_iommu_raise(iommu, AE_MASK64(STATUS_EVENT_LOG_INT), signals);
    }
}

/* ---- registers ---------------------------------------------------------- */

/* A word of the engine's, seen by who comes to it next. */
static uint32_t
word_read(const _Atomic uint32_t *word)
{
    /* ORD engine.B: the engine is held, then what it works on. Partner:
     * engine.A in ae_iommu_run(). If weaker: a tail that was moved just now is
     * not seen, and its note neither. Test: step/iommu. */
    return ae_load_seqcst_u32(word);
}

static void
word_write(_Atomic uint32_t *word, uint32_t value)
{
    /* ORD engine.A: what there is to do, then the note. Partner: engine.B in
     * word_read(). If weaker: see there. Test: step/iommu. */
    ae_store_seqcst_u32(word, value);
    AE_STEP(engine_a);
}

uint64_t
ae_command_base(const struct ae_iommu *iommu)
{
    /* ORD none: its writer checked that nothing runs; the run word orders it.
     */
    return ae_load_relaxed_u64(&iommu->command_base);
}

static uint32_t
ring_mask(const struct ae_iommu *iommu)
{
    return ae_galog_entries(ae_command_base(iommu), 16) * 16 - 1;
}

uint32_t
ae_command_head(const struct ae_iommu *iommu)
{
    return word_read(&iommu->command_head) & ring_mask(iommu);
}

uint32_t
ae_command_tail(const struct ae_iommu *iommu)
{
    return word_read(&iommu->command_tail) & ring_mask(iommu);
}

bool
ae_command_running(const struct ae_iommu *iommu)
{
    /* ORD ring.B: nobody is at the ring, then it is changed. Partner: ring.A in
     * run_clear(). If weaker: a command of the old ring is read from the new
     * one. Test: step/iommu. */
    uint32_t run = ae_load_seqcst_u32(&iommu->command_run);

    AE_STEP(ring_b);
    return run != 0;
}

void
ae_command_set_base(struct ae_iommu *iommu, uint64_t value)
{
    if (ae_command_running(iommu)) {
        return;
    }
    /* ORD none: as ae_command_base(). */
    ae_store_relaxed_u64(&iommu->command_base, value);
    word_write(&iommu->command_head, 0);
    word_write(&iommu->command_tail, 0);
}

void
ae_command_set_head(struct ae_iommu *iommu, uint32_t value)
{
    if (!ae_command_running(iommu)) {
        word_write(&iommu->command_head, value);
    }
}

static void
run_set(struct ae_iommu *iommu)
{
    /* ORD engine.A: the ring, then that it runs, then the note. Partner:
     * engine.B in ring_enter(). If weaker: see word_read(). Test: step/iommu.
     */
    (void)ae_fetch_or_seqcst_u32(&iommu->command_run, RUN_ON);
}

static void
run_clear(struct ae_iommu *iommu, uint32_t bit)
{
    /* ORD ring.A: what was done at the ring, then that it is left. Partner:
     * ring.B in ae_command_running(). If weaker: see there. Test: step/iommu.
     */
    (void)ae_fetch_and_seqcst_u32(&iommu->command_run, ~bit);
    AE_STEP(ring_a);
}

/* ---- interrupts under way ----------------------------------------------- */

uint32_t
ae_iommu_enter(struct ae_iommu *iommu, uint32_t *signals)
{
    /* ORD none: a guess; it is read again below. */
    uint32_t epoch = ae_load_relaxed_u32(&iommu->epoch);

    for (;;) {
        /*
         * ORD epoch.A: counted, then the epoch again, then caches and tables.
         * Partner: epoch.B in wait_begin(). If weaker: the command reads a
         * count without us, and we go by the entry that it waited for. Test:
         * step/iommu.
         */
        (void)ae_fetch_add_seqcst_u32(&iommu->under_way[epoch], 1);
        AE_STEP(epoch_a);
        uint32_t now = ae_load_seqcst_u32(&iommu->epoch);

        if (AE_LIKELY(now == epoch)) {
            return epoch;
        }
        /* A command that saw us counted may be waiting for just that. */
        ae_iommu_leave(iommu, epoch, signals);
        epoch = now;
    }
}

void
ae_iommu_leave(struct ae_iommu *iommu, uint32_t epoch, uint32_t *signals)
{
    /*
     * ORD done.A: all that the interrupt did, then its count, then whether
     * somebody waits for it. Partner: done.B in wait_end(). If weaker: a page
     * is freed under our store; or we see nobody waiting, he sees us, and the
     * command is never done. Test: step/iommu.
     */
    uint32_t left =
        ae_fetch_add_seqcst_u32(&iommu->under_way[epoch], UINT32_MAX) - 1;

    AE_STEP(done_a);
    if (AE_UNLIKELY(left == 0 && word_read(&iommu->waiting) != 0)) {
        ae_iommu_run(iommu, signals);
    }
}

/* ---- COMPLETION_WAIT ---------------------------------------------------- */

static void
wait_begin(struct ae_iommu *iommu, const struct command *c)
{
    iommu->wait_flags = (uint32_t)(c->low & 7u);
    iommu->wait_address = c->low & AE_MASK64(COMMAND_WAIT_ADDRESS);
    iommu->wait_data = c->high;
    /* ORD none: the engine's holder is its only writer. */
    uint32_t epoch = ae_load_relaxed_u32(&iommu->epoch);

    /* ORD epoch.B: the invalidations before, then the epoch, then (in
     * wait_end()) the count of the old one. Partner: epoch.A in
     * ae_iommu_enter(). If weaker: see there. Test: step/iommu. */
    ae_store_seqcst_u32(&iommu->epoch, epoch ^ 1u);
    AE_STEP(epoch_b);
    word_write(&iommu->waiting, 1);
}

/* Is nothing of the older epoch under way? Then the command is done. */
static bool
wait_end(struct ae_iommu *iommu, uint32_t *signals)
{
    /* ORD none: as in wait_begin(). */
    uint32_t older = ae_load_relaxed_u32(&iommu->epoch) ^ 1u;

    /* ORD done.B: waiting is set, then the count, then the data. Partner:
     * done.A in ae_iommu_leave(). If weaker: see there. Test: step/iommu. */
    if (ae_load_seqcst_u32(&iommu->under_way[older]) != 0) {
        AE_STEP(done_b);
        return false;
    }
    word_write(&iommu->waiting, 0);
    if ((iommu->wait_flags & AE_MASK64(COMMAND_WAIT_STORE)) != 0) {
        _Atomic uint64_t *word =
            ae_mem_find(iommu->remapper.mem, iommu->wait_address, 8);

        if (word != NULL) {
            /* ORD done.B: as above; software that sees it may free. */
            ae_store_seqcst_u64(word, ae_little64(iommu->wait_data));
        }
    }
    if ((iommu->wait_flags & AE_MASK64(COMMAND_WAIT_INTERRUPT)) != 0) {
        ae_iommu_raise(iommu, AE_MASK64(STATUS_COM_WAIT_INT), signals);
    }
    return true;
}

/* ---- the engine --------------------------------------------------------- */

/* Which bits may be set in both words, but for the opcode; false: no such
 * command. */
static bool
command_bits(const struct ae_iommu *iommu, uint32_t opcode, struct ae_u128 *ret)
{
    const uint64_t device = AE_MASK64(COMMAND_DEVICE_ID);
    const uint64_t wait = AE_MASK64(COMMAND_WAIT_ADDRESS) | 7u;
    const uint64_t all = UINT64_MAX;

    switch ((enum ae_command)opcode) {
    case AE_COMMAND_COMPLETION_WAIT:
        *ret = (struct ae_u128){ wait, all };
        return true;
    case AE_COMMAND_INVALIDATE_DEVTAB:
    case AE_COMMAND_INVALIDATE_INTERRUPTS:
        *ret = (struct ae_u128){ device, 0 };
        return true;
    case AE_COMMAND_INVALIDATE_ALL:
        *ret = (struct ae_u128){ 0, 0 };
        return (iommu->efr & AE_MASK64(EFR_IA)) != 0;
    case AE_COMMAND_INVALIDATE_PAGES:
    case AE_COMMAND_INVALIDATE_IOTLB:
    case AE_COMMAND_PREFETCH_PAGES:
    case AE_COMMAND_COMPLETE_PPR:
        *ret = (struct ae_u128){ all, all };
        return true;
    default:
        return false;
    }
}

/* false: an illegal command, at which the buffer stops. */
static bool
command_do(struct ae_iommu *iommu, const struct command *c)
{
    uint32_t opcode = AE_GET(c->low, COMMAND_OPCODE);
    uint16_t device_id = (uint16_t)AE_GET(c->low, COMMAND_DEVICE_ID);
    struct ae_u128 bits;

    if (!command_bits(iommu, opcode, &bits) ||
        (c->low & ~bits.low & ~AE_MASK64(COMMAND_OPCODE)) != 0 ||
        (c->high & ~bits.high) != 0) {
        return false;
    }
    if (opcode == AE_COMMAND_COMPLETION_WAIT) {
        wait_begin(iommu, c);
    } else if (opcode == AE_COMMAND_INVALIDATE_DEVTAB) {
        ae_intcache_drop(&iommu->dtes, device_id);
    } else if (opcode == AE_COMMAND_INVALIDATE_INTERRUPTS) {
        ae_intcache_drop(&iommu->irtes, device_id);
    } else if (opcode == AE_COMMAND_INVALIDATE_ALL) {
        ae_intcache_drop_all(&iommu->dtes);
        ae_intcache_drop_all(&iommu->irtes);
    }
    return true;
}

static void
engine_halt(struct ae_iommu *iommu, enum ae_iommu_event_code code,
            uint64_t flags, uint64_t address, uint32_t *signals)
{
    run_clear(iommu, RUN_ON);
    ae_iommu_event(iommu, code, flags, address, signals);
}

/* The command at head, and move on. */
static void
engine_step(struct ae_iommu *iommu, uint32_t head, uint32_t *signals)
{
    struct command c = {
        .address = (ae_command_base(iommu) & AE_MASK64(LOG_BASE_PAGE)) + head,
    };
    const _Atomic uint64_t *memory =
        ae_mem_find(iommu->remapper.mem, c.address, 16);

    if (memory == NULL) {
        engine_halt(iommu, AE_IOMMU_EVENT_COMMAND_HARDWARE,
                    (uint64_t)1 << EVENT_HW_TYPE_LOW, c.address, signals);
        return;
    }
    /* ORD none: the tail orders them. A copy, then only the copy. */
    c.low = ae_little64(ae_load_relaxed_u64(&memory[0]));
    c.high = ae_little64(ae_load_relaxed_u64(&memory[1]));
    if (!command_do(iommu, &c)) {
        engine_halt(iommu, AE_IOMMU_EVENT_BAD_COMMAND, 0, c.address, signals);
        return;
    }
    word_write(&iommu->command_head, (head + 16) & ring_mask(iommu));
}

/* May the holder work on the ring? Until run_clear(). */
static bool
ring_enter(struct ae_iommu *iommu)
{
    uint32_t run = word_read(&iommu->command_run);

    /* ORD engine.B, ring.B: the engine is held and the ring runs, then what is
     * in it. Partner: engine.A in run_set(). If weaker: see word_read(). Test:
     * step/iommu. */
    return (run & RUN_ON) != 0 &&
           ((run & RUN_BUSY) != 0 ||
            ae_cas_seqcst_u32(&iommu->command_run, &run, RUN_ON | RUN_BUSY));
}

/* As far as it goes. Bounded: a tail that software moves meanwhile counts no
 * more than once round the ring; its note comes, too. */
static void
engine_work(struct ae_iommu *iommu, uint32_t *signals)
{
    bool is_entered = false;

    for (uint32_t n = 0; n <= ring_mask(iommu) / 16; n++) {
        if (word_read(&iommu->waiting) != 0 && !wait_end(iommu, signals)) {
            break;
        }
        if (!ring_enter(iommu)) {
            break;
        }
        is_entered = true;
        uint32_t head = ae_command_head(iommu);

        if (head == ae_command_tail(iommu)) {
            break;
        }
        engine_step(iommu, head, signals);
    }
    if (is_entered) {
        run_clear(iommu, RUN_BUSY);
    }
}

/* One of two states the engine goes from; what it was if another. */
static uint32_t
engine_change(struct ae_iommu *iommu, uint32_t from, uint32_t to)
{
    /* ORD engine.A, engine.B: what there is to do, then the note; the work,
     * then whether there is a note. A locked operation. Partner: each other.
     * If weaker: a command lies behind the tail that nobody looks at. Test:
     * step/iommu. */
    (void)ae_cas_seqcst_u32(&iommu->engine, &from, to);
    AE_STEP(engine_b);
    return from;
}

void
ae_iommu_run(struct ae_iommu *iommu, uint32_t *signals)
{
    uint32_t was = engine_change(iommu, ENGINE_IDLE, ENGINE_BUSY);

    while (was != ENGINE_IDLE) {
        /* Held: leave a note, unless it has just become free. */
        if (was == ENGINE_AGAIN ||
            engine_change(iommu, ENGINE_BUSY, ENGINE_AGAIN) == ENGINE_BUSY) {
            return;
        }
        was = engine_change(iommu, ENGINE_IDLE, ENGINE_BUSY);
    }
    for (;;) {
        engine_work(iommu, signals);
        if (engine_change(iommu, ENGINE_BUSY, ENGINE_IDLE) == ENGINE_BUSY) {
            return;
        }
        (void)engine_change(iommu, ENGINE_AGAIN, ENGINE_BUSY);
    }
}

void
ae_command_set_tail(struct ae_iommu *iommu, uint32_t value, uint32_t *signals)
{
    word_write(&iommu->command_tail, value);
    ae_iommu_run(iommu, signals);
}

void
ae_command_start(struct ae_iommu *iommu, uint32_t *signals)
{
    run_set(iommu);
    ae_iommu_run(iommu, signals);
}

void
ae_command_stop(struct ae_iommu *iommu)
{
    run_clear(iommu, RUN_ON);
}
