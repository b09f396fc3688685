/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An IOMMU's protocols, explored: COMPLETION_WAIT against interrupts under way,
 * the engine that two sides hold in turn, status bits against their handler and
 * their enable. Edges epoch, done, engine, status, signal, drop.
 *
 * The machine: one device, one entry, two backing pages, the smallest rings.
 * What may be freed when a wait is done is proved without freeing: whoever
 * waited notes what is in the page, and nothing may be added to it.
 */

#include "hw/iommu.h"

#include <string.h>

#include "base/rcu.h"
#include "edge.h"

#define RAM    0x100000u
#define PAGE   4096u
#define VECTOR 0x41u
#define TAG    0x3007u
#define LINES  4u

enum page {
    DTES,
    TABLE,
    COMMANDS,
    GA_LOG,
    WORDS,
    PAGE_A,
    PAGE_B,
    NR_PAGES,
};

/* In the edge's r: 0 what was in page A when the wait was done; 1 where a later
 * interrupt went; 2 signals, by bit; 3 what else went wrong. */
static struct {
    struct ae_mem map;
    struct ae_iommu iommu;
    struct ae_intcache_line lines[2][LINES];
    _Atomic uint32_t ga_marks[512], event_marks[256];
    AE_ALIGNED(4096) unsigned char ram[NR_PAGES][PAGE];
} m;

static uint64_t
address_of(enum page page)
{
    return RAM + (uint64_t)page * PAGE;
}

static _Atomic uint64_t *
word_of(enum page page, unsigned i)
{
    return (_Atomic uint64_t *)(void *)m.ram[page] + i;
}

/* ---- machine ------------------------------------------------------------ */

static void
reg(uint32_t offset, uint64_t value)
{
    uint32_t signals = 0;

    ae_iommu_mmio_write(&m.iommu, offset, 8, value, &signals);
}

static struct ae_irte
entry_to(enum page page, bool run)
{
    return (struct ae_irte){
        .guest_mode = true,
        .vector = VECTOR,
        .ga_tag = TAG + page,
        .root = address_of(page),
        .is_run = run,
        .ga_log_intr = !run,
    };
}

static struct ae_atomic16 *
slot(void)
{
    return (struct ae_atomic16 *)(void *)m.ram[TABLE];
}

static void
interrupt(struct ae_msi *msi)
{
    memset(msi, 0, sizeof(*msi));
    ae_rcu_enter();
    ae_msi_begin(msi, &m.iommu, 0, 0xfee00000u, 0);
    ae_msi_run(msi);
    ae_rcu_leave();
}

enum caches {
    CACHE_NONE,
    CACHE_IRTE,
    CACHE_BOTH,
};

static int
machine(enum caches caches, bool run, uint64_t enables)
{
    struct ae_irte to_a = entry_to(PAGE_A, run);
    struct ae_iommu_silicon silicon = {
        .mem = &m.map,
        .maxphyaddr = 48,
        .ga_marks = m.ga_marks,
        .event_marks = m.event_marks,
        .dte_lines = caches == CACHE_BOTH ? m.lines[0] : NULL,
        .irte_lines = caches != CACHE_NONE ? m.lines[1] : NULL,
        .nr_lines = LINES,
    };

    memset(&m, 0, sizeof(m));
    ae_mem_init(&m.map, &ae_default_allocator);
    if (ae_mem_add(&m.map, RAM, sizeof(m.ram), m.ram) != 0) {
        return -1;
    }
    (void)ae_iommu_features(0, &silicon);
    ae_iommu_init(&m.iommu, &silicon);
    *word_of(DTES, 0) = 1;
    *word_of(DTES, 2) = address_of(TABLE) | 3u << 1 | 2ull << 60 | 1;
    (void)ae_irte_replace(slot(), ae_irte_encode(&to_a));
    reg(AVICEMU_IOMMU_DEVICE_TABLE, address_of(DTES));
    reg(AVICEMU_IOMMU_COMMAND_BASE, address_of(COMMANDS) | 8ull << 56);
    reg(AVICEMU_IOMMU_GA_BASE, address_of(GA_LOG) | 8ull << 56);
    reg(AVICEMU_IOMMU_CONTROL,
        enables | AVICEMU_CONTROL_IOMMU_EN | AVICEMU_CONTROL_CMD_BUF_EN |
            AVICEMU_CONTROL_GA_EN | AVICEMU_CONTROL_GAM_EN |
            AVICEMU_CONTROL_GA_LOG_EN);
    return 0;
}

static int
plain(struct edge *e)
{
    (void)e;
    return machine(CACHE_NONE, true, 0);
}

static int
empty_cache(struct edge *e)
{
    (void)e;
    return machine(CACHE_IRTE, true, 0);
}

/* Both caches have the entries. */
static int
full_cache(struct edge *e)
{
    struct ae_msi msi;
    int r = machine(CACHE_BOTH, true, 0);

    (void)e;
    interrupt(&msi);
    memset(m.ram[PAGE_A], 0, PAGE);
    return r;
}

/* One entry is in the log, and its bit is set. */
static int
logging(struct edge *e)
{
    struct ae_msi msi;
    int r = machine(CACHE_NONE, false, AVICEMU_CONTROL_GA_INT_EN);

    interrupt(&msi);
    e->r[4] = msi.signals;
    return r;
}

static int
masked(struct edge *e)
{
    (void)e;
    return machine(CACHE_NONE, false, 0);
}

/* ---- parties ------------------------------------------------------------ */

static void
post(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    interrupt(&msi);
    e->r[2] |= msi.signals;
    e->r[3] += msi.outcome != AE_MSI_POSTED;
}

/* Commands at the ring's place n, and the tail behind them. */
static unsigned
command(unsigned n, uint64_t low, uint64_t high)
{
    ae_store_relaxed_u64(word_of(COMMANDS, 2 * n), low);
    ae_store_relaxed_u64(word_of(COMMANDS, 2 * n + 1), high);
    return n + 1;
}

static void
tail(struct edge *e, unsigned n)
{
    uint32_t signals = 0;

    ae_rcu_enter();
    ae_iommu_mmio_write(&m.iommu, AVICEMU_IOMMU_COMMAND_TAIL, 8, n * 16,
                        &signals);
    ae_rcu_leave();
    e->r[2] |= signals;
}

static uint64_t
wait_command(unsigned word)
{
    return 1ull << 60 | (address_of(WORDS) + word * 8) | 1;
}

static void
wait_for(unsigned word)
{
    while (ae_load_seqcst_u64(word_of(WORDS, word)) == 0) {
        ae_step_relax("completion");
    }
}

static uint64_t
irr_of(enum page page)
{
    return ae_load_seqcst_u32(ae_vapic_word(m.ram[page], 0x220));
}

/* To another page; when nobody goes by the old entry, note what is there. */
static void
retarget_and_wait(struct edge *e)
{
    struct ae_irte to_b = entry_to(PAGE_B, true);

    (void)ae_irte_replace(slot(), ae_irte_encode(&to_b));
    unsigned n = command(0, 5ull << 60, 0);

    tail(e, command(n, wait_command(0), 1));
    wait_for(0);
    e->r[0] = irr_of(PAGE_A) + 1;
}

/* Then an interrupt of one's own. */
static void
retarget(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    retarget_and_wait(e);
    interrupt(&msi);
    e->r[1] = msi.remap.irte.root;
}

/* Or a look into the cache: what would one find? */
static void
retarget_cached(void *opaque)
{
    struct edge *e = opaque;
    uint64_t words[AE_INTCACHE_WORDS];
    struct ae_irte found;

    retarget_and_wait(e);
    e->r[1] = address_of(PAGE_B);
    if (ae_intcache_find(&m.iommu.irtes, 0, 0, words)) {
        (void)ae_irte_decode(AE_IRTE_GA | AE_IRTE_GUEST,
                             (struct ae_u128){ words[0], words[1] }, &found);
        e->r[1] = found.root;
    }
}

/* The table's own entry: no device any more. */
static void
unplug(void *opaque)
{
    struct edge *e = opaque;

    ae_store_seqcst_u64(word_of(DTES, 2), 1); /* IV, IntCtl 0: abort */
    unsigned n = command(0, 2ull << 60, 0);

    n = command(n, 5ull << 60, 0);
    tail(e, command(n, wait_command(0), 1));
    wait_for(0);
    e->r[0] = irr_of(PAGE_A) + 1;
}

static void
post_or_abort(void *opaque)
{
    struct edge *e = opaque;
    struct ae_msi msi;

    interrupt(&msi);
    e->r[3] += msi.outcome != AE_MSI_POSTED && msi.outcome != AE_MSI_ABORTED;
}

/* Two waits, each with a tail of its own, the second put in whenever. */
static void
wait_twice(void *opaque)
{
    struct edge *e = opaque;
    unsigned n = command(0, wait_command(0), 1);

    tail(e, n);
    tail(e, command(n, wait_command(1), 2));
    wait_for(0);
    wait_for(1);
    e->r[0] = irr_of(PAGE_A) + 1;
}

/* The GA log's handler, as a driver has it. */
static void
handle(void *opaque)
{
    uint64_t status = ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_STATUS, 8);

    (void)opaque;
    if ((status & AVICEMU_STATUS_GA_INT) != 0) {
        reg(AVICEMU_IOMMU_STATUS, AVICEMU_STATUS_GA_INT);
        reg(AVICEMU_IOMMU_GA_HEAD,
            ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_GA_TAIL, 8));
    }
}

static void
enable(void *opaque)
{
    struct edge *e = opaque;
    uint32_t signals = 0;
    uint64_t control = ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_CONTROL, 8);

    ae_rcu_enter();
    ae_iommu_mmio_write(&m.iommu, AVICEMU_IOMMU_CONTROL, 8,
                        control | AVICEMU_CONTROL_GA_INT_EN, &signals);
    ae_rcu_leave();
    e->r[4] |= signals;
}

/* ---- checks ------------------------------------------------------------- */

static int
idle(void)
{
    int bad = (ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_COMMAND_HEAD, 8) !=
               ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_COMMAND_TAIL, 8)) ||
              ae_load_seqcst_u32(&m.iommu.under_way[0]) != 0 ||
              ae_load_seqcst_u32(&m.iommu.under_way[1]) != 0 ||
              ae_load_seqcst_u32(&m.iommu.engine) != 0 ||
              ae_load_seqcst_u32(&m.iommu.waiting) != 0;

    ae_mem_fini(&m.map);
    return bad;
}

/* Nothing came into page A after the wait was done, and nobody goes there. */
static int
settled(struct edge *e)
{
    return idle() || e->r[3] != 0 || e->r[0] != irr_of(PAGE_A) + 1 ||
           e->r[1] != address_of(PAGE_B);
}

static int
unplugged(struct edge *e)
{
    return idle() || e->r[3] != 0 || e->r[0] != irr_of(PAGE_A) + 1;
}

/* What began before the waits may go on after them: only that they end. */
static int
both_done(struct edge *e)
{
    return idle() || e->r[3] != 0 || irr_of(PAGE_A) == 0;
}

/* An entry that was not seen has its bit set; a bit that was cleared between
 * is signalled again. */
static int
seen(struct edge *e)
{
    uint64_t status = ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_STATUS, 8);
    uint64_t head = ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_GA_HEAD, 8);
    uint64_t tail_at = ae_iommu_mmio_read(&m.iommu, AVICEMU_IOMMU_GA_TAIL, 8);
    bool unseen = head != tail_at;
    bool pending = (status & AVICEMU_STATUS_GA_INT) != 0;

    return idle() || e->r[3] != 0 || (unseen && !pending) ||
           (pending && (e->r[2] & AE_IOMMU_SIGNAL_GA) == 0);
}

static int
signalled(struct edge *e)
{
    return idle() || e->r[3] != 0 ||
           ((e->r[2] | e->r[4]) & AE_IOMMU_SIGNAL_GA) == 0;
}

static const struct edge_row rows[] = {
    { "epoch, done: an interrupt against a wait",
      0,
      plain,
      settled,
      2,
      { post, retarget } },
    { "epoch, drop: the same, with a full cache",
      0,
      full_cache,
      settled,
      2,
      { post, retarget_cached } },
    { "epoch, drop: the same, with an empty cache",
      0,
      empty_cache,
      settled,
      2,
      { post, retarget_cached } },
    { "epoch, drop: the device table's entry, with a full cache",
      0,
      full_cache,
      unplugged,
      2,
      { post_or_abort, unplug } },
    { "engine, done: an interrupt against two waits",
      0,
      plain,
      both_done,
      2,
      { post, wait_twice } },
    { "status: an entry against the handler of one before",
      0,
      logging,
      seen,
      2,
      { post, handle } },
    { "signal: an entry against the enable",
      0,
      masked,
      signalled,
      2,
      { post, enable } },
};

int
main(int argc, char **argv)
{
    return edge_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
