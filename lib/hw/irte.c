/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interrupt remapping table entries, and the part of an interrupt's way that
 * begins with its entry. Device table, index, events and logs are iommu.c's.
 * [IOMMU 2.2.5 interrupt remapping tables], as told by drivers and emulators
 * of the remapped form; no public text, and no public model of guest mode.
 *
 *   32 bits    31:24 0  23:16 vector  15:8 dest  7 0  6 DM  5 RqEoi
 *              4:2 IntType  1 SupIOPF  0 RemapEn
 *   128 bits   remapped, bit 7 = 0           guest mode, bit 7 = 1
 *     0        RemapEn                       RemapEn
 *     1        SupIOPF                       SupIOPF
 *     4:2      IntType                       2 GALogIntr, 4:3 0
 *     5, 6     RqEoi, DM                     GAPPIDis, IsRun
 *     31:8     dest 23:0 (XTEn; else 15:8)   host core, likewise
 *     63:32    0                             GATag
 *     71:64    vector                        guest's vector
 *     115:76   0                             backing page 51:12
 *     127:120  dest 31:24 (XTEn; else 0)     likewise
 *
 * One interrupt:
 *
 *   FETCH --no memory, RemapEn 0, reserved, page-------> DONE, a fault
 *     |----remapped------------------------------------> DONE, a message
 *     v guest mode
 *   IRR ---no memory any more--------------------------> DONE, a fault
 *     v
 *   AGAIN -> DONE, posted:  IsRun          doorbell to Destination
 *                           else GAPPIEn   physical interrupt, unless GAPPIDis
 *                           else GALogIntr log entry with GATag
 *                           else           nothing
 *
 * The entry is read as one, 16 bytes at a time, since software changes it while
 * devices post. Then the bit is set, and only then the decision is made, by a
 * second read of the low half, where all that it goes by lies (with XTEn of
 * both halves, for Destination[31:24]).
 *
 * If the second read shows another mode or tag, the bit is already in the first
 * one's page. So the first is notified, too: a log entry with its tag, whatever
 * GALogIntr was; if it ran, also a doorbell, for a vCPU that still runs is not
 * helped by a log entry alone. Both may be spurious, neither may be missing.
 *
 * Invariants
 *   each read is checked as a copy; nothing is read for a check and again for
 *   use, but what the second read decides anew
 *   a fault or a message has set no IRR bit
 *   RemapEn and SupIOPF survive ae_irte_update()
 *
 * Choices where sources are silent (all unverified)
 *   GuestMode     with GAMEn = 0, or in 32 bits: reserved
 *   reserved      bits of guest mode fault like those of the remapped form;
 *                 without XTEn also Destination's; of RemapEn = 0 none
 *   IntType       0 fixed, 1 arbitrated; others are reserved
 *   RqEoi         is told, but the message is edge-triggered
 *   vector < 16   in guest mode: the bit is set as given
 *   TMR           is not touched: the vector keeps what it has
 *   IRR bit 1     is notified again
 *   page          beyond the physical width, or in no memory: BAD_PAGE
 *   second read   no longer finds the entry's memory: as another mode.
 *                 Reserved bits and the page pointer count no more
 *   cache         has RemapEn, SupIOPF, GuestMode, vector and page of a guest-
 *                 mode entry; GAPPIDis and GALogIntr are never cached
 *   GAPPI         is sent whatever IRR held before; vector = GATag[7:0]
 *
 * Edge (a Dekker pair: all four accesses seq_cst)
 *   irte   A ae_remap_step()   entry -> page; IRR bit -> entry read again
 *          B ae_irte_update(), _replace()   page -> entry; entry -> IRR read
 *                                           by the caller
 * Side A's IRR bit is also side A of "post" and "bell" (vapic.c, avic.c).
 *
 * May overlap: everything but two calls on one ae_remap. A step is wait-free.
 * The hypervisor's side is lock-free: only other writers make it try again.
 */

#include "hw/irte.h"

#include "base/step.h"

enum phase {
    PHASE_FETCH,
    PHASE_IRR,
    PHASE_AGAIN,
    PHASE_DONE,
};

/* IntType, as in a message's delivery mode. */
#define INT_TYPE_FIXED      0u
#define INT_TYPE_ARBITRATED 1u

/* ---- formats ------------------------------------------------------------ */

static bool
has(uint64_t word, uint64_t mask)
{
    return (word & mask) != 0;
}

static enum ae_irte_fault
decode32(uint64_t low, struct ae_irte *ret)
{
    uint32_t type = AE_GET(low, IRTE32_INT_TYPE);

    if (has(low, AE_MASK64(IRTE32_RESERVED) | AE_MASK64(IRTE32_GUEST_MODE)) ||
        type > INT_TYPE_ARBITRATED) {
        return AE_IRTE_RESERVED;
    }
    ret->arbitrated = type == INT_TYPE_ARBITRATED;
    ret->rq_eoi = has(low, AE_MASK64(IRTE32_RQ_EOI));
    ret->logical = has(low, AE_MASK64(IRTE32_DM));
    ret->dest = AE_GET(low, IRTE32_DEST);
    ret->vector = (uint8_t)AE_GET(low, IRTE32_VECTOR);
    return AE_IRTE_GOOD;
}

static enum ae_irte_fault
decode_remapped(struct ae_u128 e, struct ae_irte *ret)
{
    uint32_t type = AE_GET(e.low, IRTE_REMAP_INT_TYPE);

    if (has(e.low, AE_MASK64(IRTE_REMAP_RESERVED)) ||
        has(e.high, AE_MASK64(IRTE_HIGH_ROOT)) || type > INT_TYPE_ARBITRATED) {
        return AE_IRTE_RESERVED;
    }
    ret->arbitrated = type == INT_TYPE_ARBITRATED;
    ret->rq_eoi = has(e.low, AE_MASK64(IRTE_REMAP_RQ_EOI));
    ret->logical = has(e.low, AE_MASK64(IRTE_REMAP_DM));
    return AE_IRTE_GOOD;
}

static enum ae_irte_fault
decode_guest(uint32_t flags, struct ae_u128 e, struct ae_irte *ret)
{
    bool gappi_dis = has(e.low, AE_MASK64(IRTE_GUEST_GAPPI_DIS));

    if ((flags & AE_IRTE_GUEST) == 0 ||
        has(e.low, AE_MASK64(IRTE_GUEST_RESERVED)) ||
        (gappi_dis && (flags & AE_IRTE_GAPPI_DIS) == 0)) {
        return AE_IRTE_RESERVED;
    }
    ret->guest_mode = true;
    ret->gappi_dis = gappi_dis;
    ret->is_run = has(e.low, AE_MASK64(IRTE_GUEST_IS_RUN));
    ret->ga_log_intr = has(e.low, AE_MASK64(IRTE_GUEST_GA_LOG_INTR));
    ret->ga_tag = AE_GET(e.low, IRTE_GUEST_GA_TAG);
    ret->root = e.high & AE_MASK64(IRTE_HIGH_ROOT);
    return AE_IRTE_GOOD;
}

static uint32_t
dest_of(uint32_t flags, struct ae_u128 e)
{
    return (flags & AE_IRTE_XT) != 0
               ? AE_GET(e.high, IRTE_HIGH_DEST_HIGH) << 24 |
                     AE_GET(e.low, IRTE_DEST_LOW)
               : AE_GET(e.low, IRTE_DEST8);
}

/* Bits that are reserved in both forms. */
static bool
common_reserved(uint32_t flags, struct ae_u128 e)
{
    return has(e.high, AE_MASK64(IRTE_HIGH_RESERVED_LOW) |
                           AE_MASK64(IRTE_HIGH_RESERVED)) ||
           ((flags & AE_IRTE_XT) == 0 &&
            (has(e.low, AE_MASK64(IRTE_DEST_XT)) ||
             has(e.high, AE_MASK64(IRTE_HIGH_DEST_HIGH))));
}

enum ae_irte_fault
ae_irte_decode(uint32_t flags, struct ae_u128 entry, struct ae_irte *ret)
{
    *ret = (struct ae_irte){
        .sup_iopf = has(entry.low, AE_MASK64(IRTE_SUP_IOPF)),
    };
    if (!has(entry.low, AE_MASK64(IRTE_REMAP_EN))) {
        return AE_IRTE_NOT_PRESENT;
    }
    if ((flags & AE_IRTE_GA) == 0) {
        return decode32(entry.low & UINT32_MAX, ret);
    }
    if (common_reserved(flags, entry)) {
        return AE_IRTE_RESERVED;
    }
    ret->vector = (uint8_t)AE_GET(entry.high, IRTE_HIGH_VECTOR);
    ret->dest = dest_of(flags, entry);
    return has(entry.low, AE_MASK64(IRTE_GUEST_MODE))
               ? decode_guest(flags, entry, ret)
               : decode_remapped(entry, ret);
}

static uint64_t
flag(bool set, uint64_t mask)
{
    return set ? mask : 0;
}

struct ae_u128
ae_irte_encode(const struct ae_irte *e)
{
    struct ae_u128 entry = {
        AE_MASK64(IRTE_REMAP_EN) | flag(e->sup_iopf, AE_MASK64(IRTE_SUP_IOPF)) |
            (uint64_t)(e->dest & 0xffffffu) << IRTE_DEST_LOW_LOW,
        (uint64_t)(e->dest >> 24) << IRTE_HIGH_DEST_HIGH_LOW | e->vector,
    };

    if (!e->guest_mode) {
        uint64_t type = e->arbitrated ? INT_TYPE_ARBITRATED : INT_TYPE_FIXED;

        entry.low |= type << IRTE_REMAP_INT_TYPE_LOW |
                     flag(e->rq_eoi, AE_MASK64(IRTE_REMAP_RQ_EOI)) |
                     flag(e->logical, AE_MASK64(IRTE_REMAP_DM));
        return entry;
    }
    entry.low |= AE_MASK64(IRTE_GUEST_MODE) |
                 flag(e->is_run, AE_MASK64(IRTE_GUEST_IS_RUN)) |
                 flag(e->ga_log_intr, AE_MASK64(IRTE_GUEST_GA_LOG_INTR)) |
                 flag(e->gappi_dis, AE_MASK64(IRTE_GUEST_GAPPI_DIS)) |
                 (uint64_t)e->ga_tag << IRTE_GUEST_GA_TAG_LOW;
    entry.high |= e->root & AE_MASK64(IRTE_HIGH_ROOT);
    return entry;
}

struct ae_message
ae_irte_message(uint32_t flags, const struct ae_irte *e)
{
    return (struct ae_message){
        .dest = e->dest,
        .vector = e->vector,
        .mode =
            e->arbitrated ? AVICEMU_DELIVERY_LOWEST : AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_NONE,
        .format = (flags & AE_IRTE_XT) != 0 ? AE_FORMAT_X2APIC : AE_FORMAT_MSI,
        .logical = e->logical,
        .level = false,
        .arbitrate = e->arbitrated,
    };
}

/* ---- the hypervisor's side ---------------------------------------------- */

static struct ae_u128
host_order(struct ae_u128 e)
{
    return (struct ae_u128){ ae_little64(e.low), ae_little64(e.high) };
}

/* A guess at the entry, of two halves: the exchange says whether it is one. */
static struct ae_u128
slot_guess(struct ae_atomic16 *slot)
{
    /* ORD none: a wrong guess costs one failed exchange. */
    return (struct ae_u128){
        ae_load_relaxed_u64(&slot->low),
        ae_load_relaxed_u64(&slot->high),
    };
}

/* On failure *found is what the entry is. */
static bool
slot_change(struct ae_atomic16 *slot, struct ae_u128 *found,
            struct ae_u128 next)
{
    /*
     * ORD irte.B: the page's content, then the entry that names it; the entry,
     * then the caller's read of IRR. Partner: irte.A in entry_fetch() and
     * entry_again(). If weaker: a bit lands in a page that is not ready; or
     * the device sees IsRun = 1, we an empty IRR, and the vCPU sleeps on a
     * pending vector. Test: race_irte.
     */
    bool done = ae_cas_seqcst_u128(slot, found, next);

    AE_STEP(irte_b);
    return done;
}

struct ae_u128
ae_irte_replace(struct ae_atomic16 *slot, struct ae_u128 entry)
{
    struct ae_u128 found = slot_guess(slot);

    while (!slot_change(slot, &found, host_order(entry))) {
        /* Found is what it is now. */
    }
    return host_order(found);
}

/* The bits of the fields that which names. */
static struct ae_u128
field_mask(uint32_t which)
{
    return (struct ae_u128){
        flag(which & AE_IRTE_SET_RUN, AE_MASK64(IRTE_GUEST_IS_RUN)) |
            flag(which & AE_IRTE_SET_LOG, AE_MASK64(IRTE_GUEST_GA_LOG_INTR)) |
            flag(which & AE_IRTE_SET_DEST, AE_MASK64(IRTE_DEST_LOW)) |
            flag(which & AE_IRTE_SET_TAG, AE_MASK64(IRTE_GUEST_GA_TAG)),
        flag(which & AE_IRTE_SET_DEST, AE_MASK64(IRTE_HIGH_DEST_HIGH)),
    };
}

static struct ae_u128
bits_merge(struct ae_u128 keep, struct ae_u128 take, struct ae_u128 mask)
{
    return (struct ae_u128){
        (keep.low & ~mask.low) | (take.low & mask.low),
        (keep.high & ~mask.high) | (take.high & mask.high),
    };
}

bool
ae_irte_update(struct ae_atomic16 *slot, uint32_t which,
               const struct ae_irte *value)
{
    struct ae_irte in_guest = *value;
    struct ae_u128 found = slot_guess(slot);
    struct ae_u128 set, next;

    in_guest.guest_mode = true;
    set = ae_irte_encode(&in_guest);
    do {
        next = host_order(found);
        /* In the low half, so true at one moment even of a guess. */
        if (!has(next.low, AE_MASK64(IRTE_GUEST_MODE))) {
            return false;
        }
        next = bits_merge(next, set, field_mask(which));
    } while (!slot_change(slot, &found, host_order(next)));
    return true;
}

/* ---- one interrupt ------------------------------------------------------ */

void
ae_remap_begin(struct ae_remap *r, const struct ae_remapper *hw, uint32_t flags,
               uint64_t address, const struct ae_u128 *cached)
{
    const struct ae_u128 nothing = { 0, 0 };

    r->hw = hw;
    r->address = address;
    r->flags = flags;
    r->phase = PHASE_FETCH;
    r->outcome = AE_REMAP_NO_TABLE;
    r->posted = AVICEMU_POST_DROPPED;
    r->nr_notices = 0;
    r->is_cached = cached != NULL;
    r->raw = cached != NULL ? *cached : nothing;
    r->raw_again = nothing;
}

static enum ae_remap_event
finish(struct ae_remap *r, enum ae_remap_outcome outcome)
{
    r->outcome = (uint8_t)outcome;
    r->phase = PHASE_DONE;
    return AE_REMAP_FINISHED;
}

/* The entry; NULL: there is no memory. */
static void *
entry_memory(struct ae_remap *r)
{
    return ae_mem_find_near(r->hw->mem, r->address, ae_irte_bytes(r->flags),
                            &r->near_table);
}

static bool
is_posting(struct ae_u128 entry)
{
    const uint64_t both = AE_MASK64(IRTE_GUEST_MODE) | AE_MASK64(IRTE_REMAP_EN);

    return (entry.low & both) == both;
}

/*
 * What the first read gives with a cache: the cache has RemapEn, GuestMode,
 * vector and page, memory the rest. But where memory names another page, or
 * none, the cache has all of it: the bit goes to the page of its tag, and the
 * second read will find another one.
 */
static struct ae_u128
cache_merge(struct ae_u128 cached, struct ae_u128 memory)
{
    struct ae_u128 live = field_mask(UINT32_MAX);

    live.low |= AE_MASK64(IRTE_GUEST_GAPPI_DIS);
    if (!is_posting(memory) ||
        has(cached.high ^ memory.high, AE_MASK64(IRTE_HIGH_ROOT))) {
        return cached;
    }
    return bits_merge(cached, memory, live);
}

/* Into raw. false: there is no memory. */
static bool
entry_fetch(struct ae_remap *r)
{
    bool is_wide = (r->flags & AE_IRTE_GA) != 0;

    /* All of a remapped entry is cached. */
    if (r->is_cached && !(is_wide && is_posting(r->raw))) {
        return true;
    }
    void *memory = entry_memory(r);

    if (memory == NULL) {
        return r->is_cached;
    }
    /*
     * ORD irte.A: the entry, then the page that it names. Partner: irte.B in
     * slot_change(). If weaker: see there. Test: race_irte.
     */
    if (!is_wide) {
        r->raw.low = ae_load_seqcst_u32(memory);
    } else {
        struct ae_u128 entry =
            host_order(ae_load_seqcst_u128(r->hw->way, memory));

        r->raw = r->is_cached ? cache_merge(r->raw, entry) : entry;
    }
    return true;
}

static enum ae_remap_event
fetch(struct ae_remap *r)
{
    if (!entry_fetch(r)) {
        return finish(r, AE_REMAP_NO_TABLE);
    }
    switch (ae_irte_decode(r->flags, r->raw, &r->irte)) {
    case AE_IRTE_NOT_PRESENT:
        return finish(r, AE_REMAP_NOT_PRESENT);
    case AE_IRTE_RESERVED:
        return finish(r, AE_REMAP_BAD_ENTRY);
    case AE_IRTE_GOOD:
        break;
    }
    if (!r->irte.guest_mode) {
        r->message = ae_irte_message(r->flags, &r->irte);
        return finish(r, AE_REMAP_MESSAGE);
    }
    if ((r->irte.root & r->hw->address_reserved) != 0) {
        return finish(r, AE_REMAP_BAD_PAGE);
    }
    r->phase = PHASE_IRR;
    return AE_REMAP_FETCHED;
}

static enum ae_remap_event
irr_set(struct ae_remap *r)
{
    void *page =
        ae_mem_find_near(r->hw->mem, r->irte.root, AE_PAGE, &r->near_page);

    if (page == NULL) {
        return finish(r, AE_REMAP_BAD_PAGE);
    }
    /*
     * ORD irte.A, post.A: everything before, then the IRR bit; the bit, then
     * the entry is read again. Partner: irte.B in slot_change(), post.B in
     * ae_vapic_ack(). If weaker: see there. Test: race_irte, race_post.
     */
    bool was = ae_test_and_set_seqcst_u32(
        ae_vapic_word(page, LAPIC_IRR + ae_vector_offset(r->irte.vector)),
        r->irte.vector);

    AE_STEP(irte_a);
    r->posted = was ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
    r->phase = PHASE_AGAIN;
    return AE_REMAP_IRR;
}

/* ---- whom to tell ------------------------------------------------------- */

static void
notice_add(struct ae_remap *r, struct ae_notice notice)
{
    assert(r->nr_notices < AE_REMAP_MAX_NOTICES);
    r->notices[r->nr_notices++] = notice;
}

static void
notice_doorbell(struct ae_remap *r, uint32_t dest)
{
    notice_add(r,
               (struct ae_notice){ .kind = AE_NOTICE_DOORBELL, .dest = dest });
}

static void
notice_log(struct ae_remap *r, uint32_t ga_tag)
{
    notice_add(r,
               (struct ae_notice){ .kind = AE_NOTICE_LOG, .ga_tag = ga_tag });
}

static void
notice_physical(struct ae_remap *r, uint32_t dest, uint32_t ga_tag)
{
    notice_add(r, (struct ae_notice){ .kind = AE_NOTICE_PHYSICAL,
                                      .vector = (uint8_t)ga_tag,
                                      .dest = dest });
}

/* The vCPU in whose page the bit is, but which the entry no longer names. */
static void
notice_first(struct ae_remap *r)
{
    if (r->irte.is_run) {
        notice_doorbell(r, r->irte.dest);
    }
    if ((r->flags & AE_IRTE_GAPPI) != 0) {
        notice_physical(r, r->irte.dest, r->irte.ga_tag);
    } else {
        notice_log(r, r->irte.ga_tag);
    }
}

/* By the second read. */
static void
notice_second(struct ae_remap *r)
{
    uint64_t low = r->raw_again.low;
    uint32_t dest = dest_of(r->flags, r->raw_again);
    uint32_t ga_tag = AE_GET(low, IRTE_GUEST_GA_TAG);

    if (has(low, AE_MASK64(IRTE_GUEST_IS_RUN))) {
        notice_doorbell(r, dest);
    } else if ((r->flags & AE_IRTE_GAPPI) != 0) {
        if (!has(low, AE_MASK64(IRTE_GUEST_GAPPI_DIS))) {
            notice_physical(r, dest, ga_tag);
        }
    } else if (has(low, AE_MASK64(IRTE_GUEST_GA_LOG_INTR))) {
        notice_log(r, ga_tag);
    }
}

static enum ae_remap_event
again(struct ae_remap *r)
{
    struct ae_atomic16 *memory = entry_memory(r);
    bool in_guest;

    /*
     * ORD irte.A: the IRR bit, then the entry once more. Partner: irte.B in
     * slot_change(). If weaker: see there. Test: race_irte.
     */
    if (memory == NULL) {
        r->raw_again = (struct ae_u128){ 0, 0 };
    } else if ((r->flags & AE_IRTE_XT) != 0) {
        r->raw_again = host_order(ae_load_seqcst_u128(r->hw->way, memory));
    } else {
        r->raw_again.low = ae_little64(ae_load_seqcst_u64(&memory->low));
    }
    in_guest = is_posting(r->raw_again);
    if (!in_guest ||
        AE_GET(r->raw_again.low, IRTE_GUEST_GA_TAG) != r->irte.ga_tag) {
        notice_first(r);
    }
    if (in_guest) {
        notice_second(r);
    }
    r->phase = PHASE_DONE;
    r->outcome = AE_REMAP_POSTED;
    return AE_REMAP_REREAD;
}

enum ae_remap_event
ae_remap_step(struct ae_remap *r)
{
    switch ((enum phase)r->phase) {
    case PHASE_FETCH:
        return fetch(r);
    case PHASE_IRR:
        return irr_set(r);
    case PHASE_AGAIN:
        return again(r);
    case PHASE_DONE:
        break;
    }
    return AE_REMAP_FINISHED;
}

bool
ae_remap_run(struct ae_remap *r)
{
    bool is_first = r->phase == PHASE_FETCH;

    if (is_first && fetch(r) != AE_REMAP_FETCHED) {
        return false;
    }
    if ((r->phase != PHASE_IRR || irr_set(r) == AE_REMAP_IRR) &&
        r->phase == PHASE_AGAIN) {
        (void)again(r);
    }
    return is_first;
}
