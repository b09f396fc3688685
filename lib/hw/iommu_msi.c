/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One interrupt of a device, from its memory write to whom is told.
 * [IOMMU 2.2.2 device table], [IOMMU 2.2.5 interrupt remapping tables]
 *
 *   BEGIN   count it as under way (edge epoch, iommu_command.c)
 *   DTE     table and entry; V, IV; by the kind of interrupt a pass bit or
 *           IntCtl; the index and its bound
 *   REMAP   irte.c: fetch, IRR, fetch again
 *   NOTICE  each: a doorbell; or a log entry: reserve, write, tail, GAInt
 *   EVENT   what a fault leaves in the event log
 *   LEAVE   no longer under way; may finish a COMPLETION_WAIT
 *
 *   address             what
 *   FEEx_xxxxh          MSI: kind in data[10:8], index in data[10:0], in 512
 *                       mode 8:0; 2K mode: address bit 2 makes it an index
 *                       whatever data[10:8] is, without it as in 512 mode
 *   FD_F8xx_xxxxh       the same in HyperTransport's form; LINT0, LINT1
 *   else                no interrupt: nothing happens here
 *
 *   no interrupt mapping: IommuEn 0, V 0, IV 0, IntCtl 1, or a pass bit. The
 *   message goes on as it came.
 *
 * What an event tells [IOMMU 2.5 event log]; flags I but for the last:
 *   1  DTE beyond the table, bad encoding; with RZ its reserved bits
 *   2  RemapEn 0, index too big, blocked kind; with PR and RZ a bad IRTE.
 *      Not with SupIOPF, nor with IG
 *   3  no memory where the DTE is; 4 where the IRTE or the page is
 *   8  IntCtl 0, type 5
 * 2 and 4 tell the DTE's domain; 0 in the others.
 *
 * Invariants
 *   under way = begun and not finished; all stores of an interrupt lie between
 *   each word of a table is read once, but for the IRTE's second read
 *   a fault sets no IRR bit
 *   one notice per IRTE read that names somebody, and it is told after the bit
 *
 * Choices where sources are silent (all unverified)
 *   DTE        its words are read one by one: software stores each as one.
 *              Reserved: word 2 bits 53:52, and bit 6 of the table's address
 *   V = 0      forwarded, as IV = 0
 *   IntTabRoot is cut to the physical width (an encryption bit may be there)
 *   modes 3, 6 a blocked kind; SMI is forwarded (no filter)
 *   blocked    also a passed kind with a logical destination
 *   IntCtl 3   bad encoding; IntTabLen > 11 likewise
 *   addresses  of events: FFFF_FFFD_F8xx_xxxxh, with index bits 10:8 at 4:2;
 *              of hardware errors: the memory that is missing
 *   cache      entries with RemapEn = 0 are not kept; a DTE only with IV
 *   GAPPI      sends a fixed physical message, and never logs
 *
 * May overlap: everything but two calls on one ae_msi. Lock-free; an interrupt
 * is at most 24 steps.
 */

#include "base/step.h"
#include "hw/dest.h"
#include "hw/iommu.h"

enum phase {
    PHASE_BEGIN,
    PHASE_DTE,
    PHASE_REMAP,
    PHASE_NOTICE,
    PHASE_WRITE,
    PHASE_TAIL,
    PHASE_STATUS,
    PHASE_EVENT,
    PHASE_LEAVE,
    PHASE_DONE,
};

enum kind {
    KIND_MAPPED, /* fixed or arbitrated: by IntCtl */
    KIND_SMI,
    KIND_NMI,
    KIND_INIT,
    KIND_EXTINT,
    KIND_LINT0,
    KIND_LINT1,
    KIND_BLOCKED,
};

#define DTE_BYTES        32u
#define DTES_PER_PAGE    128u
#define MAX_INT_TAB_LEN  11u
#define HT_WINDOW        0xfdf8000000ull
#define HT_WINDOW_MASK   0xffffffffff000000ull
#define HT_EVENT_ADDRESS 0xfffffffdf8000000ull
#define HT_LINT0         0x98u
#define HT_LINT1         0x8cu
#define TYPE_INT_CTL_0   5u

/* DTE2_INT_CTL. */
enum int_ctl {
    INT_CTL_ABORT,
    INT_CTL_FORWARD,
    INT_CTL_REMAP,
};

static bool
has(uint64_t word, uint64_t mask)
{
    return (word & mask) != 0;
}

/* ---- the message -------------------------------------------------------- */

static bool
is_ht(uint64_t address)
{
    return (address & HT_WINDOW_MASK) == HT_WINDOW;
}

static bool
is_msi(uint64_t address)
{
    return address >> 32 == 0 &&
           AE_GET(address, MSI_ADDRESS_WINDOW) == AE_MSI_WINDOW;
}

/* HyperTransport's message types, as MSIs have them. Type 7 ends an interrupt
 * and is none: as the mode that MSIs have reserved. */
static const uint8_t ht_modes[8] = {
    AVICEMU_DELIVERY_FIXED,  AVICEMU_DELIVERY_LOWEST,
    AVICEMU_DELIVERY_SMI,    AVICEMU_DELIVERY_NMI,
    AVICEMU_DELIVERY_INIT,   AVICEMU_DELIVERY_SIPI,
    AVICEMU_DELIVERY_EXTINT, AVICEMU_DELIVERY_REMOTE_READ,
};

static void
ht_decode(uint64_t address, struct ae_message *ret)
{
    uint8_t mode = ht_modes[AE_GET(address, HT_MT)];

    *ret = (struct ae_message){
        .dest = AE_GET(address, HT_DEST),
        .vector = (uint8_t)AE_GET(address, HT_VECTOR),
        .mode = mode,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_MSI,
        .logical = has(address, AE_MASK64(HT_DM)),
        .level = has(address, AE_MASK64(HT_LEVEL)),
        .arbitrate = mode == AVICEMU_DELIVERY_LOWEST,
    };
}

/* By delivery mode: 2 SMI, 4 NMI, 5 INIT, 7 ExtINT. */
static const uint8_t kinds[8] = {
    KIND_MAPPED, KIND_MAPPED, KIND_SMI,     KIND_BLOCKED,
    KIND_NMI,    KIND_INIT,   KIND_BLOCKED, KIND_EXTINT,
};

static bool
mode_2k(const struct ae_msi *m)
{
    return AE_GET(m->control, CONTROL_NUM_INT_REMAP_MODE) == 1;
}

/* What sort of interrupt it is, and its index if it has one. */
static enum kind
classify(struct ae_msi *m)
{
    uint32_t low = AE_GET(m->address, HT_LOW);

    if (is_ht(m->address)) {
        ht_decode(m->address, &m->message);
        m->index = m->message.vector | (uint32_t)m->message.mode << 8;
        if (low == HT_LINT0 || low == HT_LINT1) {
            return low == HT_LINT0 ? KIND_LINT0 : KIND_LINT1;
        }
        return (enum kind)kinds[m->message.mode];
    }
    ae_message_decode(m->address, m->data, &m->message);
    if (mode_2k(m) && m->message.logical) {
        m->index = AE_GET(m->data, MSI_DATA_INDEX);
        return KIND_MAPPED;
    }
    m->index = AE_GET(m->data, MSI_DATA_INDEX_512);
    return (enum kind)kinds[m->message.mode & 7u];
}

/* As an event shows it. */
static uint64_t
event_address(const struct ae_msi *m)
{
    if (is_ht(m->address)) {
        return HT_EVENT_ADDRESS | (m->address & ~HT_WINDOW_MASK);
    }
    return HT_EVENT_ADDRESS | (uint64_t)(m->data & 0xffu) << HT_VECTOR_LOW |
           (uint64_t)(m->message.dest & 0xffu) << HT_DEST_LOW |
           (m->message.logical ? AE_MASK64(HT_DM) : 0) |
           (uint64_t)AE_GET(m->data, MSI_DATA_MODE) << HT_MT_LOW;
}

/* ---- ways out ----------------------------------------------------------- */

/* The others have a PASID in its place, which an interrupt has not. */
static bool
tells_domain(enum ae_iommu_event_code code)
{
    return code == AE_IOMMU_EVENT_PAGE_FAULT ||
           code == AE_IOMMU_EVENT_TABLE_HARDWARE;
}

static enum ae_msi_event
aborted(struct ae_msi *m, enum ae_iommu_event_code code, uint64_t flags,
        uint64_t address)
{
    m->outcome = AE_MSI_ABORTED;
    m->posted = AVICEMU_POST_DROPPED;
    m->fault = (uint32_t)code;
    m->fault_flags = flags | (uint64_t)m->device_id << EVENT_DEVICE_ID_LOW;
    if (tells_domain(code)) {
        m->fault_flags |= m->domain << EVENT_DOMAIN_ID_LOW;
    }
    m->fault_address = address;
    m->phase = PHASE_EVENT;
    return AE_MSI_DTE;
}

/* A fault that SupIOPF or IG keep out of the log. */
static enum ae_msi_event
page_fault(struct ae_msi *m, uint64_t flags, bool is_suppressed)
{
    enum ae_msi_event event =
        aborted(m, AE_IOMMU_EVENT_PAGE_FAULT, AE_MASK64(EVENT_I) | flags,
                event_address(m));

    if (is_suppressed) {
        m->phase = PHASE_LEAVE;
    }
    return event;
}

/* No memory where something should be: a master abort. */
static enum ae_msi_event
no_memory(struct ae_msi *m, enum ae_iommu_event_code code, uint64_t address)
{
    return aborted(m, code,
                   AE_MASK64(EVENT_I) | (uint64_t)1 << EVENT_HW_TYPE_LOW,
                   address);
}

/* As it came. */
static enum ae_msi_event
forward(struct ae_msi *m)
{
    m->outcome = AE_MSI_MESSAGE;
    m->is_remapped = false;
    m->phase = PHASE_LEAVE;
    return AE_MSI_DTE;
}

/* ---- device table ------------------------------------------------------- */

/* As far as interrupts go: words 0 to 2. false: there is no memory. */
static bool
dte_fetch(struct ae_msi *m, uint64_t address, uint64_t ret[AE_INTCACHE_WORDS])
{
    struct ae_iommu *iommu = m->iommu;
    uint64_t since = ae_intcache_since(&iommu->dtes, m->device_id);
    const _Atomic uint64_t *memory;

    if (ae_intcache_find(&iommu->dtes, m->device_id, 0, ret)) {
        return true;
    }
    memory =
        ae_mem_find_near(iommu->remapper.mem, address, DTE_BYTES, &m->near_dte);
    if (memory == NULL) {
        return false;
    }
    for (unsigned i = 0; i < AE_INTCACHE_WORDS; i++) {
        /* ORD epoch.A: counted, then the entry. Partner: epoch.B in
         * wait_begin(). If weaker: see there. Test: step/iommu. */
        ret[i] = ae_little64(ae_load_seqcst_u64(&memory[i]));
    }
    if (has(ret[2], AE_MASK64(DTE2_IV))) {
        ae_intcache_keep(&iommu->dtes, since, m->device_id, 0, ret);
    }
    return true;
}

/* Does the DTE let a kind pass that is not mapped? */
static bool
passes(const struct ae_msi *m, uint64_t word, enum kind kind)
{
    uint64_t bit = 0;

    switch (kind) {
    case KIND_SMI:
        return !m->message.logical;
    case KIND_NMI:
        bit = AE_MASK64(DTE2_NMI_PASS);
        break;
    case KIND_INIT:
        bit = AE_MASK64(DTE2_INIT_PASS);
        break;
    case KIND_EXTINT:
        bit = AE_MASK64(DTE2_EINT_PASS);
        break;
    case KIND_LINT0:
        return has(word, AE_MASK64(DTE2_LINT0_PASS));
    case KIND_LINT1:
        return has(word, AE_MASK64(DTE2_LINT1_PASS));
    case KIND_MAPPED:
    case KIND_BLOCKED:
        break;
    }
    return has(word, bit) && !m->message.logical;
}

static uint32_t
remap_flags(const struct ae_msi *m)
{
    uint64_t c = m->control;
    uint32_t flags = 0;

    if (!has(c, AE_MASK64(CONTROL_GA_EN))) {
        return 0;
    }
    flags |= AE_IRTE_GA;
    flags |= AE_GET(c, CONTROL_GAM_EN) == 1 ? AE_IRTE_GUEST : 0;
    flags |= has(c, AE_MASK64(CONTROL_XT_EN)) ? AE_IRTE_XT : 0;
    flags |= has(c, AE_MASK64(CONTROL_GAPPI_EN)) ? AE_IRTE_GAPPI : 0;
    flags |=
        has(m->iommu->efr2, AE_MASK64(EFR2_GAPPI_DIS)) ? AE_IRTE_GAPPI_DIS : 0;
    return flags;
}

/* The interrupt's entry is at index of this table. */
static enum ae_msi_event
remap_begin(struct ae_msi *m, uint64_t word)
{
    struct ae_iommu *iommu = m->iommu;
    uint32_t flags = remap_flags(m);
    uint64_t root =
        word & AE_MASK64(DTE2_INT_TAB_ROOT) & ~iommu->remapper.address_reserved;
    uint64_t cached[AE_INTCACHE_WORDS];
    struct ae_u128 entry;
    bool hit = false;

    if (m->index >> AE_GET(word, DTE2_INT_TAB_LEN) != 0) {
        return page_fault(m, 0, has(word, AE_MASK64(DTE2_IG)));
    }
    if (!has(m->control, AE_MASK64(CONTROL_IRT_CACHE_DIS))) {
        m->since = ae_intcache_since(&iommu->irtes, m->device_id);
        hit = ae_intcache_find(&iommu->irtes, m->device_id, m->index, cached);
        entry = (struct ae_u128){ cached[0], cached[1] };
    }
    ae_remap_begin(&m->remap, &iommu->remapper, flags,
                   root + (uint64_t)m->index * ae_irte_bytes(flags),
                   hit ? &entry : NULL);
    m->is_suppressed = has(word, AE_MASK64(DTE2_IG));
    m->phase = PHASE_REMAP;
    return AE_MSI_DTE;
}

/* Fixed or arbitrated: what IntCtl says. */
static enum ae_msi_event
mapped(struct ae_msi *m, uint64_t word)
{
    uint32_t ctl = AE_GET(word, DTE2_INT_CTL);

    if (ctl == INT_CTL_ABORT) {
        return aborted(m, AE_IOMMU_EVENT_BAD_REQUEST,
                       (uint64_t)TYPE_INT_CTL_0 << EVENT_TYPE_LOW,
                       event_address(m));
    }
    if (ctl == INT_CTL_FORWARD) {
        return forward(m);
    }
    if (ctl != INT_CTL_REMAP ||
        AE_GET(word, DTE2_INT_TAB_LEN) > MAX_INT_TAB_LEN) {
        return aborted(m, AE_IOMMU_EVENT_BAD_DTE, AE_MASK64(EVENT_I),
                       event_address(m));
    }
    return remap_begin(m, word);
}

static enum ae_msi_event
dte_step(struct ae_msi *m)
{
    /* ORD none: software changes it with the IOMMU off. */
    uint64_t table =
        ae_load_relaxed_u64(&m->iommu->plain[AE_IOMMU_DEVICE_TABLE]);
    enum kind kind = classify(m);
    uint64_t address = (table & AE_MASK64(DEVICE_TABLE_BASE)) +
                       (uint64_t)m->device_id * DTE_BYTES;
    uint64_t dte[AE_INTCACHE_WORDS];

    if (!has(m->control, AE_MASK64(CONTROL_IOMMU_EN))) {
        return forward(m);
    }
    if (m->device_id >=
        (AE_GET(table, DEVICE_TABLE_SIZE) + 1) * DTES_PER_PAGE) {
        return aborted(m, AE_IOMMU_EVENT_BAD_DTE, AE_MASK64(EVENT_I),
                       event_address(m));
    }
    if (!dte_fetch(m, address, dte)) {
        return no_memory(m, AE_IOMMU_EVENT_DTE_HARDWARE, address);
    }
    m->domain = AE_GET(dte[1], DTE1_DOMAIN_ID);
    if (!has(dte[0], AE_MASK64(DTE0_V)) || !has(dte[2], AE_MASK64(DTE2_IV))) {
        return forward(m);
    }
    if (has(dte[2], AE_MASK64(DTE2_RESERVED) | AE_MASK64(DTE2_ROOT_ALIGN))) {
        return aborted(m, AE_IOMMU_EVENT_BAD_DTE,
                       AE_MASK64(EVENT_I) | AE_MASK64(EVENT_RZ),
                       event_address(m));
    }
    if (kind == KIND_MAPPED) {
        return mapped(m, dte[2]);
    }
    return passes(m, dte[2], kind)
               ? forward(m)
               : page_fault(m, 0, has(dte[2], AE_MASK64(DTE2_IG)));
}

/* ---- remapping ---------------------------------------------------------- */

/* Keep a good entry that came from memory. */
static void
irte_keep(struct ae_msi *m)
{
    const struct ae_remap *r = &m->remap;
    const uint64_t words[AE_INTCACHE_WORDS] = { r->raw.low, r->raw.high };

    if (!r->is_cached && !has(m->control, AE_MASK64(CONTROL_IRT_CACHE_DIS))) {
        ae_intcache_keep(&m->iommu->irtes, m->since, m->device_id, m->index,
                         words);
    }
}

/* What the entry led to, if not into a page. */
static enum ae_msi_event
remap_end(struct ae_msi *m)
{
    const struct ae_remap *r = &m->remap;
    bool quiet = m->is_suppressed || r->irte.sup_iopf;

    switch ((enum ae_remap_outcome)r->outcome) {
    case AE_REMAP_MESSAGE:
        irte_keep(m);
        m->message = r->message;
        m->is_remapped = true;
        m->outcome = AE_MSI_MESSAGE;
        m->phase = PHASE_LEAVE;
        break;
    case AE_REMAP_NO_TABLE:
        (void)no_memory(m, AE_IOMMU_EVENT_TABLE_HARDWARE, r->address);
        break;
    case AE_REMAP_NOT_PRESENT:
        (void)page_fault(m, 0, quiet);
        break;
    case AE_REMAP_BAD_ENTRY:
        (void)page_fault(m, AE_MASK64(EVENT_PR) | AE_MASK64(EVENT_RZ), quiet);
        break;
    case AE_REMAP_BAD_PAGE:
        (void)no_memory(m, AE_IOMMU_EVENT_TABLE_HARDWARE, r->irte.root);
        break;
    case AE_REMAP_POSTED:
        break;
    }
    return AE_MSI_FETCHED;
}

static enum ae_msi_event
remap_step(struct ae_msi *m)
{
    switch (ae_remap_step(&m->remap)) {
    case AE_REMAP_FETCHED:
        irte_keep(m);
        return AE_MSI_FETCHED;
    case AE_REMAP_IRR:
        m->outcome = AE_MSI_POSTED;
        m->posted = m->remap.posted;
        return AE_MSI_IRR;
    case AE_REMAP_REREAD:
        m->phase = PHASE_NOTICE;
        return AE_MSI_REREAD;
    case AE_REMAP_FINISHED:
        break;
    }
    return remap_end(m);
}

/* All of it that is left. */
static void
remap_run(struct ae_msi *m)
{
    if (ae_remap_run(&m->remap)) {
        irte_keep(m);
    }
    if (m->remap.outcome != AE_REMAP_POSTED) {
        (void)remap_end(m);
        return;
    }
    m->outcome = AE_MSI_POSTED;
    m->posted = m->remap.posted;
    m->phase = PHASE_NOTICE;
}

/* ---- notices ------------------------------------------------------------ */

static void
notice_next(struct ae_msi *m)
{
    m->notice++;
    m->phase = PHASE_NOTICE;
}

static enum ae_msi_event
notice_physical(struct ae_msi *m, const struct ae_notice *n)
{
    m->message = (struct ae_message){
        .dest = n->dest,
        .vector = n->vector,
        .mode = AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_X2APIC,
    };
    notice_next(m);
    return AE_MSI_PHYSICAL;
}

static enum ae_msi_event
notice_reserve(struct ae_msi *m)
{
    enum ae_galog_slot slot = ae_galog_reserve(&m->iommu->ga, &m->position);

    m->slot = (uint8_t)slot;
    if (slot == AE_GALOG_RESERVED) {
        m->phase = PHASE_WRITE;
    } else {
        /* An overflow is no interrupt of its own. */
        m->nr_overflows += slot == AE_GALOG_OVERFLOW;
        notice_next(m);
    }
    return AE_MSI_RESERVED;
}

static enum ae_msi_event
leave(struct ae_msi *m)
{
    ae_iommu_leave(m->iommu, m->epoch, &m->signals);
    m->phase = PHASE_DONE;
    return AE_MSI_FINISHED;
}

static enum ae_msi_event
notice_step(struct ae_msi *m)
{
    const struct ae_notice *n = &m->remap.notices[m->notice];

    if (m->notice == m->remap.nr_notices) {
        return leave(m);
    }
    switch ((enum ae_notice_kind)n->kind) {
    case AE_NOTICE_DOORBELL:
        ae_bells_ring(&m->iommu->bells, n->dest);
        m->nr_doorbells++;
        notice_next(m);
        return AE_MSI_RANG;
    case AE_NOTICE_PHYSICAL:
        return notice_physical(m, n);
    case AE_NOTICE_LOG:
        break;
    }
    return notice_reserve(m);
}

static enum ae_msi_event
write_step(struct ae_msi *m)
{
    uint32_t tag = m->remap.notices[m->notice].ga_tag;

    (void)ae_galog_write(&m->iommu->ga, m->position,
                         ae_ga_entry(tag, m->device_id));
    m->nr_logged++;
    m->phase = PHASE_TAIL;
    return AE_MSI_LOGGED;
}

static enum ae_msi_event
tail_step(struct ae_msi *m)
{
    if (ae_galog_publish(&m->iommu->ga, m->position)) {
        m->phase = PHASE_STATUS;
    } else {
        ae_galog_finish(&m->iommu->ga);
        notice_next(m);
    }
    return AE_MSI_TAIL;
}

static enum ae_msi_event
status_step(struct ae_msi *m)
{
    ae_iommu_raise(m->iommu, AE_MASK64(STATUS_GA_INT), &m->signals);
    ae_galog_finish(&m->iommu->ga);
    notice_next(m);
    return AE_MSI_STATUS;
}

/* ---- all of it ---------------------------------------------------------- */

void
ae_msi_begin(struct ae_msi *m, struct ae_iommu *iommu, uint16_t device_id,
             uint64_t address, uint32_t data)
{
    bool is_interrupt = is_msi(address) || is_ht(address);

    m->iommu = iommu;
    m->address = address;
    m->data = data;
    m->device_id = device_id;
    m->phase = is_interrupt ? PHASE_BEGIN : PHASE_DONE;
    m->outcome = AE_MSI_NO_REQUEST;
    m->posted = AVICEMU_POST_DROPPED;
    m->notice = 0;
    m->is_remapped = false;
    m->is_suppressed = false;
    m->index = 0;
    m->fault = 0;
    m->domain = 0;
    m->signals = 0;
    m->nr_doorbells = 0;
    m->nr_logged = 0;
    m->nr_overflows = 0;
    m->remap.nr_notices = 0;
}

static enum ae_msi_event
begin_step(struct ae_msi *m)
{
    m->epoch = ae_iommu_enter(m->iommu, &m->signals);
    m->control = ae_iommu_control(m->iommu);
    m->phase = PHASE_DTE;
    return AE_MSI_BEGUN;
}

static enum ae_msi_event
event_step(struct ae_msi *m)
{
    ae_iommu_event(m->iommu, (enum ae_iommu_event_code)m->fault, m->fault_flags,
                   m->fault_address, &m->signals);
    m->phase = PHASE_LEAVE;
    return AE_MSI_EVENT;
}

enum ae_msi_event
ae_msi_step(struct ae_msi *m)
{
    switch ((enum phase)m->phase) {
    case PHASE_BEGIN:
        return begin_step(m);
    case PHASE_DTE:
        return dte_step(m);
    case PHASE_REMAP:
        return remap_step(m);
    case PHASE_NOTICE:
        return notice_step(m);
    case PHASE_WRITE:
        return write_step(m);
    case PHASE_TAIL:
        return tail_step(m);
    case PHASE_STATUS:
        return status_step(m);
    case PHASE_EVENT:
        return event_step(m);
    case PHASE_LEAVE:
        return leave(m);
    case PHASE_DONE:
        break;
    }
    return AE_MSI_FINISHED;
}

void
ae_msi_run(struct ae_msi *m)
{
    /* What nearly all come to, without a turn of the loop for each. */
    if (m->phase == PHASE_BEGIN) {
        (void)begin_step(m);
    }
    if (m->phase == PHASE_DTE) {
        (void)dte_step(m);
    }
    if (m->phase == PHASE_REMAP) {
        remap_run(m);
    }
    if (m->phase == PHASE_NOTICE) {
        (void)notice_step(m);
    }
    while (ae_msi_step(m) != AE_MSI_FINISHED) {
        /* Each step moves on. */
    }
}
