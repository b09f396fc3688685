/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPI engine: what hardware does between a write of the ICR and the next
 * instruction. [APM2 15.29.6.1 IPI delivery, 15.29.9.1 exit 401h]
 *
 *   CHECK --type, vector--------------------------------> DONE, failure 0, 4
 *     |--shorthand self--> SELF: IRR bit of the own page -> DONE
 *     |--directed--> RESOLVE all targets --one is bad---> DONE, failure 2, 3
 *     |                | none is bad
 *     '--broadcast--> NEXT <----------------.
 *                       |--no more----------|-----------> DONE, failure 1, 3
 *                       v                   | or none
 *                 IRR -> RUNNING -> RING ---'
 *                (erratum 1235: RUNNING -> IRR -> RING)
 *
 * A step is one phase that others can see. Between two steps anything may
 * happen to the tables and to the memory map, so no host pointer is kept: a
 * target is an address and an index, looked up again.
 *
 * Invariants
 *   a directed IPI that fails with 0, 2, 3 or 4 has set no IRR bit, as long as
 *   no page leaves the memory map on the way
 *   failure 1: the IRR bit of every target is set
 *   each table word is read once per step and target; the copy is checked and
 *   used
 *
 * Choices where the manual is silent (all unverified)
 *   order      a type that is no fixed edge comes before a vector below 16
 *   TMR        the vector's bit is cleared, as for every edge
 *   broadcast  FFh in xAVIC in both destination modes; FFFFFFFFh in x2AVIC,
 *              where FFh is an ordinary id. Entries without V are skipped
 *   but self   (DSH 11) the sender is the entry whose page is the sender's own
 *   index      of failure 1, the first target that is not running; of several
 *              bad targets, the first; of a logical xAVIC destination always
 *              the logical index; of an id beyond 12 bits, the low 12
 *   page       (failure 3) a page pointer beyond the physical width, or in no
 *              region. In a broadcast that target is left out, all others are
 *              served, and 3 is reported rather than 1; likewise for a page
 *              that leaves the memory map under a directed IPI
 *   DFR        neither flat nor cluster, or cluster 15: failure 2, index 0
 *   empty      a logical destination without bits: nothing, no exit
 *   entry      one that loses V after its IRR bit was set is not running
 *   receivers  are never asked for their mode, SVR or EN (by the manual's
 *              silence)
 *
 * Edge (a Dekker pair: all four accesses seq_cst)
 *   running A ae_ipi_step()   IRR bit -> IsRunning read
 *           B the vCPU's block (hv/tables.c)  IsRunning := 0 -> IRR read
 * Side A's IRR bit is also side A of "bell" (avic.c).
 *
 * May overlap: everything but two calls on one ae_ipi. Wait-free; a broadcast
 * takes at most 3 steps per index, a directed IPI 1 + 3 per target.
 */

#include "base/step.h"
#include "hw/avic.h"

enum phase {
    PHASE_CHECK,
    PHASE_SELF,
    PHASE_RESOLVE,
    PHASE_NEXT,
    PHASE_IRR,
    PHASE_RUNNING,
    PHASE_RING,
    PHASE_DONE,
};

/* A self IPI looks no id up. */
#define NO_GUEST_ID UINT32_MAX

void
ae_ipi_begin(struct ae_ipi *ipi, const struct ae_core *core, uint32_t icr_low,
             uint32_t icr_high)
{
    ipi->hw = core->hw;
    ipi->backing = core->backing;
    ipi->physical = core->physical;
    ipi->logical = core->logical;
    ipi->max_index = core->max_index;
    ipi->icr_low = icr_low;
    ipi->icr_high = icr_high;
    ipi->x2avic = core->x2avic;
    ipi->posted = AVICEMU_POST_NEW;
    ipi->is_running = false;
    ipi->guest_id = NO_GUEST_ID;
    ipi->host_id = 0;
    ipi->page = 0;
    ipi->failure = 0;
    ipi->index = 0;
    ipi->phase = PHASE_CHECK;
    ipi->nr_targets = 0;
    ipi->at = 0;
    ipi->near_table = core->near_table;
    ipi->near_page = core->near_page;
}

/* ---- failures ----------------------------------------------------------- */

static void
phase_set(struct ae_ipi *ipi, enum phase phase)
{
    ipi->phase = (uint8_t)phase;
}

static bool
failed_with(const struct ae_ipi *ipi, enum avicemu_ipi_failure failure)
{
    return ipi->failure == (uint32_t)failure + 1;
}

static void
fail(struct ae_ipi *ipi, enum avicemu_ipi_failure failure, uint32_t index)
{
    ipi->failure = (uint32_t)failure + 1;
    ipi->index = index & (uint32_t)AE_MASK64(IPI_INFO2_INDEX);
}

/* Nothing was set and nothing will be. */
static enum avicemu_core_event
refuse(struct ae_ipi *ipi, enum avicemu_ipi_failure failure, uint32_t index)
{
    fail(ipi, failure, index);
    phase_set(ipi, PHASE_DONE);
    return AVICEMU_CORE_NOTHING;
}

/* ---- tables ------------------------------------------------------------- */

/* An entry of the physical table; 0, so not valid, where there is no memory. */
static uint64_t
physical_read(struct ae_ipi *ipi, uint32_t id)
{
    _Atomic uint64_t *slot =
        ae_physical_slot(ipi->hw->mem, ipi->physical, id, &ipi->near_table);

    /*
     * ORD running.A: the entry, then the page that it names; and the IRR bit,
     * then IsRunning. Partner: running.B, where the hypervisor publishes the
     * entry and clears IsRunning (hv/tables.c). If weaker: the vCPU clears
     * IsRunning and scans an IRR that is still empty, we read the old 1, and
     * it sleeps on a pending vector. Test: race_running.
     */
    return slot != NULL ? ae_load_seqcst_u64(slot) : 0;
}

static uint32_t
logical_read(struct ae_ipi *ipi, uint32_t index)
{
    _Atomic uint32_t *slot =
        ae_logical_slot(ipi->hw->mem, ipi->logical, index, &ipi->near_table);

    /* ORD none: an id; its physical entry is ordered before its page. */
    return slot != NULL ? ae_load_relaxed_u32(slot) : 0;
}

/* A backing page, or NULL. */
static void *
page_at(struct ae_ipi *ipi, uint64_t page)
{
    return ae_mem_find_near(ipi->hw->mem, page, AE_PAGE, &ipi->near_page);
}

static bool
page_legal(struct ae_ipi *ipi, uint64_t page)
{
    return (page & ipi->hw->address_reserved) == 0 &&
           page_at(ipi, page) != NULL;
}

/* ---- directed: all targets, or none ------------------------------------- */

static void
target_add(struct ae_ipi *ipi, uint32_t id, uint32_t index)
{
    uint64_t entry = id <= ipi->max_index ? physical_read(ipi, id) : 0;
    uint64_t page = entry & AE_MASK64(PHYSICAL_PAGE);

    if ((entry & AE_MASK64(PHYSICAL_V)) == 0) {
        fail(ipi, AVICEMU_IPI_TARGET, index);
    } else if (!page_legal(ipi, page)) {
        fail(ipi, AVICEMU_IPI_BACKING, index);
    } else {
        assert(ipi->nr_targets < AE_IPI_MAX_DIRECTED);
        ipi->targets[ipi->nr_targets].page = page;
        ipi->targets[ipi->nr_targets].id = (uint16_t)id;
        ipi->targets[ipi->nr_targets].index = (uint16_t)index;
        ipi->nr_targets++;
    }
}

/* [APM2 15.29.5 Table 15-24] with the sender's DFR, as no other is looked at */
static void
resolve_logical_xavic(struct ae_ipi *ipi, uint32_t dest)
{
    void *own = page_at(ipi, ipi->backing);
    uint32_t dfr = own != NULL ? ae_vapic_read(own, LAPIC_DFR) : UINT32_MAX;
    bool clusters = AE_GET(dfr, DFR_MODEL) == 0;
    uint32_t cluster = clusters ? dest & 0xf0u : 0;
    uint32_t bits = dest & ~cluster & (clusters ? 0xfu : 0xffu);

    for (; bits != 0 && ipi->failure == 0; bits &= bits - 1) {
        int index = ae_logical_index(dfr, cluster | (bits & ~(bits - 1)));
        uint32_t entry = index >= 0 ? logical_read(ipi, (uint32_t)index) : 0;

        if ((entry & AE_MASK64(LOGICAL_V)) == 0) {
            fail(ipi, AVICEMU_IPI_TARGET, index >= 0 ? (uint32_t)index : 0);
        } else {
            target_add(ipi, AE_GET(entry, LOGICAL_ID), (uint32_t)index);
        }
    }
}

/* [APM2 16.14]: id = cluster * 16 + number of the bit. */
static void
resolve_logical_x2avic(struct ae_ipi *ipi, uint32_t dest)
{
    uint32_t bits = dest & 0xffffu;

    for (; bits != 0 && ipi->failure == 0; bits &= bits - 1) {
        uint32_t id = (dest >> 16) * 16u + ae_lowest_bit32(bits);

        target_add(ipi, id, id);
    }
}

static uint32_t
destination(const struct ae_ipi *ipi)
{
    return ipi->x2avic ? ipi->icr_high
                       : AE_GET(ipi->icr_high, ICR_HIGH_XAPIC_DEST);
}

static enum avicemu_core_event
resolve(struct ae_ipi *ipi)
{
    uint32_t dest = destination(ipi);

    if ((ipi->icr_low & AE_MASK(ICR_LOGICAL)) == 0) {
        target_add(ipi, dest, dest);
    } else if (ipi->x2avic) {
        resolve_logical_x2avic(ipi, dest);
    } else {
        resolve_logical_xavic(ipi, dest);
    }
    if (ipi->failure != 0 || ipi->nr_targets == 0) {
        phase_set(ipi, PHASE_DONE);
        return AVICEMU_CORE_NOTHING;
    }
    phase_set(ipi, PHASE_NEXT);
    return AVICEMU_CORE_RESOLVED;
}

/* ---- deliver ------------------------------------------------------------ */

/* A broadcast knows its targets one at a time, in the first place. */
static bool
is_broadcast(const struct ae_ipi *ipi)
{
    return ipi->nr_targets == 0;
}

static bool
is_erratum(const struct ae_ipi *ipi)
{
    return (ipi->hw->features & AVICEMU_CORE_ERRATUM_1235) != 0;
}

/* Is the next index of a broadcast a target? Then it is in the first place. */
static bool
broadcast_try(struct ae_ipi *ipi)
{
    uint64_t entry = physical_read(ipi, ipi->at);
    uint64_t page = entry & AE_MASK64(PHYSICAL_PAGE);

    if ((entry & AE_MASK64(PHYSICAL_V)) == 0 ||
        (AE_GET(ipi->icr_low, ICR_DSH) == AE_DSH_OTHERS &&
         page == ipi->backing)) {
        return false;
    }
    if (!page_legal(ipi, page)) {
        if (!failed_with(ipi, AVICEMU_IPI_BACKING)) {
            fail(ipi, AVICEMU_IPI_BACKING, ipi->at);
        }
        return false;
    }
    ipi->targets[0].page = page;
    ipi->targets[0].id = ipi->at;
    ipi->targets[0].index = ipi->at;
    return true;
}

/* Is there a target at ipi->at, or for a broadcast, from there on? */
static bool
next_found(struct ae_ipi *ipi)
{
    if (!is_broadcast(ipi)) {
        return ipi->at < ipi->nr_targets;
    }
    for (; ipi->at <= ipi->max_index; ipi->at++) {
        if (broadcast_try(ipi)) {
            return true;
        }
    }
    return false;
}

static enum avicemu_core_event
next(struct ae_ipi *ipi)
{
    if (!next_found(ipi)) {
        phase_set(ipi, PHASE_DONE);
    } else {
        phase_set(ipi, is_erratum(ipi) ? PHASE_RUNNING : PHASE_IRR);
    }
    return AVICEMU_CORE_NOTHING;
}

static void
target_done(struct ae_ipi *ipi)
{
    ipi->at++;
    phase_set(ipi, PHASE_NEXT);
}

/* After both the IRR bit and IsRunning. */
static void
notify(struct ae_ipi *ipi, uint32_t index)
{
    if (ipi->is_running) {
        phase_set(ipi, PHASE_RING);
        return;
    }
    if (ipi->failure == 0) {
        fail(ipi, AVICEMU_IPI_NOT_RUNNING, index);
    }
    target_done(ipi);
}

static enum avicemu_core_event
irr_set(struct ae_ipi *ipi)
{
    unsigned place = is_broadcast(ipi) ? 0 : ipi->at;
    void *page = page_at(ipi, ipi->targets[place].page);

    if (page == NULL) {
        if (!failed_with(ipi, AVICEMU_IPI_BACKING)) {
            fail(ipi, AVICEMU_IPI_BACKING, ipi->targets[place].index);
        }
        target_done(ipi);
        return AVICEMU_CORE_NOTHING;
    }
    ipi->guest_id = ipi->targets[place].id;
    ipi->page = ipi->targets[place].page;
    /* Side A of "running" and "bell" begins here: a seq_cst operation. */
    ipi->posted = (uint8_t)ae_vapic_post(
        page, (uint8_t)AE_GET(ipi->icr_low, ICR_VECTOR), AVICEMU_TRIGGER_EDGE);
    AE_STEP(running_a);
    if (is_erratum(ipi)) {
        notify(ipi, ipi->targets[place].index);
    } else {
        phase_set(ipi, PHASE_RUNNING);
    }
    return AVICEMU_CORE_IRR;
}

static enum avicemu_core_event
running_read(struct ae_ipi *ipi)
{
    unsigned place = is_broadcast(ipi) ? 0 : ipi->at;
    const uint64_t both = AE_MASK64(PHYSICAL_V) | AE_MASK64(PHYSICAL_RUNNING);
    uint64_t entry = physical_read(ipi, ipi->targets[place].id);

    ipi->guest_id = ipi->targets[place].id;
    ipi->is_running = (entry & both) == both;
    ipi->host_id = AE_GET(entry, PHYSICAL_HOST_ID);
    if (is_erratum(ipi)) {
        phase_set(ipi, PHASE_IRR);
    } else {
        notify(ipi, ipi->targets[place].index);
    }
    return AVICEMU_CORE_RUNNING;
}

static enum avicemu_core_event
ring(struct ae_ipi *ipi)
{
    ae_bells_ring(&ipi->hw->bells, ipi->host_id);
    target_done(ipi);
    return AVICEMU_CORE_RANG;
}

/* Neither table takes part, nor IsRunning; the sender evaluates when it is
 * done. Where the own page is gone the write is lost. */
static enum avicemu_core_event
self_post(struct ae_ipi *ipi)
{
    void *page = page_at(ipi, ipi->backing);

    phase_set(ipi, PHASE_DONE);
    if (page == NULL) {
        return AVICEMU_CORE_NOTHING;
    }
    ipi->page = ipi->backing;
    ipi->posted = (uint8_t)ae_vapic_post(
        page, (uint8_t)AE_GET(ipi->icr_low, ICR_VECTOR), AVICEMU_TRIGGER_EDGE);
    return AVICEMU_CORE_IRR;
}

/* ---- phases ------------------------------------------------------------- */

static enum avicemu_core_event
check(struct ae_ipi *ipi)
{
    uint32_t shorthand = AE_GET(ipi->icr_low, ICR_DSH);
    uint32_t all = ipi->x2avic ? AE_X2APIC_BROADCAST : AE_XAPIC_BROADCAST;

    if (AE_GET(ipi->icr_low, ICR_MT) != AVICEMU_DELIVERY_FIXED ||
        (ipi->icr_low & AE_MASK(ICR_LEVEL)) != 0) {
        return refuse(ipi, AVICEMU_IPI_TYPE, 0);
    }
    if (AE_GET(ipi->icr_low, ICR_VECTOR) < AE_FIRST_LEGAL_VECTOR) {
        return refuse(ipi, AVICEMU_IPI_VECTOR, 0);
    }
    if (shorthand == AE_DSH_SELF) {
        phase_set(ipi, PHASE_SELF);
    } else if (shorthand == AE_DSH_NONE && destination(ipi) != all) {
        phase_set(ipi, PHASE_RESOLVE);
    } else {
        phase_set(ipi, PHASE_NEXT);
    }
    return AVICEMU_CORE_NOTHING;
}

static enum avicemu_core_event
phase_do(struct ae_ipi *ipi)
{
    switch ((enum phase)ipi->phase) {
    case PHASE_CHECK:
        return check(ipi);
    case PHASE_SELF:
        return self_post(ipi);
    case PHASE_RESOLVE:
        return resolve(ipi);
    case PHASE_NEXT:
        return next(ipi);
    case PHASE_IRR:
        return irr_set(ipi);
    case PHASE_RUNNING:
        return running_read(ipi);
    case PHASE_RING:
        return ring(ipi);
    case PHASE_DONE:
        break;
    }
    return AVICEMU_CORE_FINISHED;
}

enum avicemu_core_event
ae_ipi_step(struct ae_ipi *ipi)
{
    enum avicemu_core_event event;

    do {
        event = phase_do(ipi);
    } while (event == AVICEMU_CORE_NOTHING);
    return event;
}
