/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An AMD IOMMU as software sees it: registers, status, its own interrupts.
 * Only the interrupt path: no DMA page tables, no PPR log, no segments, no SNP
 * and no vIOMMU; their features read 0 and their control bits stay 0. Written
 * from what drivers and emulators say; no public text. [IOMMU 3.4 MMIO
 * registers]
 *
 *   ring        base   head  tail  enable, run
 *   commands    0008   2000  2008  control 12, status 4   hardware moves head
 *   event log   0010   2010  2018  control 2,  status 3   hardware moves tail
 *   GA log      00E0   2040  2048  control 28, status 8   likewise
 *
 * Rows of IOMMU_REGS are eight bytes; either half may be read or written alone.
 * The status register is put together when it is read: the runs and overflows
 * are the rings' own state. Software can set none of its bits.
 *
 *   GAInt, EventLogInt, ComWaitInt   set by hardware, cleared by writing 1
 *   signal    rising edge of (bit and its enable): the caller sends it
 *   overflow  of the event log signals EventLogInt, of the GA log nothing
 *
 * Invariants
 *   a ring's base and hardware's pointer never change while its run bit is 1
 *   control never has a bit that the features do not allow
 *   XTEn counts only with GAEn
 *
 * Choices where sources are silent (all unverified)
 *   rings        run by their own enable, whatever IommuEn is
 *   base, hw's   writes while running are ignored
 *   pointer
 *   GALogEn      rising with GALOverflow set: no start. The event log alike
 *   enables      rising with the bit set: a signal
 *   features     GAMEn, GALogEn, GAIntEn without GAMSup stay 0, and so on; the
 *                registers of the GA log, of XT and of the MSI capability are
 *                there with GAMSup, XTSup and MsiCapMmioSup
 *   MSI          of the capability: the GA log has message number 1, events 0,
 *                if software allowed two
 *   base enable  of the capability locks the base until reset
 *
 * Edge (a Dekker pair; seq_cst)
 *   signal A ae_iommu_raise()       status bit -> control read
 *          B control_write()        control -> status read
 * So an interrupt whose enable is just set may be signalled twice, never not.
 *
 * May overlap: reads with everything; writes with everything but another write
 * of the same ring or register. Wait-free, but for what a command tail sets
 * off.
 */

#include "hw/iommu.h"

#include "base/step.h"
#include "hw/dest.h"

enum write {
    WRITE_READ_ONLY,
    WRITE_PLAIN,
    WRITE_CONTROL,
    WRITE_STATUS,
    WRITE_COMMAND_BASE,
    WRITE_COMMAND_HEAD,
    WRITE_COMMAND_TAIL,
    WRITE_EVENT_BASE,
    WRITE_EVENT_HEAD,
    WRITE_EVENT_TAIL,
    WRITE_GA_BASE,
    WRITE_GA_TAIL_WORD,
    WRITE_GA_HEAD,
    WRITE_GA_TAIL,
};

struct row {
    uint16_t offset;
    uint8_t write;  /* enum write */
    uint64_t needs; /* any of these in EFR; 0: nothing */
    uint64_t writable;
};

#define NEEDS_NOTHING      0
#define NEEDS_GAM          AE_MASK64(EFR_GAM)
#define NEEDS_XT           AE_MASK64(EFR_XT)
#define NEEDS_MSI_CAP_MMIO AE_MASK64(EFR_MSI_CAP_MMIO)

#define ROW(name, offset_, needs_, write_, writable_) \
    { .offset = (offset_),                            \
      .write = WRITE_##write_,                        \
      .needs = NEEDS_##needs_,                        \
      .writable = (writable_) },
static const struct row rows[AE_NR_IOMMU_REGS] = { IOMMU_REGS(ROW) };

#define ROW_ASSERT(name, offset, needs, write, writable)               \
    static_assert((offset) % 8 == 0 && (offset) < AE_IOMMU_MMIO_BYTES, \
                  #name " is no register");
IOMMU_REGS(ROW_ASSERT)

/* Capability block: id, type 3, revision 1, EFRSup, CapExt. */
#define CAP_HEADER   (0x0fu | 3u << 16 | 1u << 19 | 1u << 27 | 1u << 28)
#define CAP_ENABLE   1u
#define CAP_BASE_LOW 0xffffc000u
/* The message of the GA log, in both places that say so. */
#define GA_MESSAGE 1u
/* MSI capability: id 5, two messages, 64-bit address. */
#define MSI_CAP_HEADER (0x05u | 1u << 17 | 1u << 23)

/* Those of status that are kept here. */
#define INTERRUPT_BITS                                                  \
    (AE_MASK64(STATUS_EVENT_LOG_INT) | AE_MASK64(STATUS_COM_WAIT_INT) | \
     AE_MASK64(STATUS_GA_INT))

/* ---- life --------------------------------------------------------------- */

uint32_t
ae_iommu_features(uint32_t features, struct ae_iommu_silicon *silicon)
{
    static const struct {
        uint32_t feature;
        uint64_t efr, efr2;
    } bits[] = {
        { AVICEMU_IOMMU_GA, AE_MASK64(EFR_GA), 0 },
        { AVICEMU_IOMMU_GAM, (uint64_t)1 << EFR_GAM_LOW, 0 },
        { AVICEMU_IOMMU_XT, AE_MASK64(EFR_XT), 0 },
        { AVICEMU_IOMMU_IA, AE_MASK64(EFR_IA), 0 },
        { AVICEMU_IOMMU_MSI_MMIO, AE_MASK64(EFR_MSI_CAP_MMIO), 0 },
        { AVICEMU_IOMMU_GAPPI, AE_MASK64(EFR_GAPPI), 0 },
        { AVICEMU_IOMMU_2K, 0, (uint64_t)1 << EFR2_NUM_INT_REMAP_LOW },
        { AVICEMU_IOMMU_GAPPI_DIS, 0, AE_MASK64(EFR2_GAPPI_DIS) },
    };

    if (features == 0) {
        features = AVICEMU_IOMMU_DEFAULT;
    }
    for (unsigned i = 0; i < AE_ARRAY_SIZE(bits); i++) {
        if ((features & bits[i].feature) != 0) {
            silicon->efr |= bits[i].efr;
            silicon->efr2 |= bits[i].efr2;
        }
    }
    return features;
}

/* The bits of the control register that these features leave writable. */
static uint64_t
control_of(uint64_t efr, uint64_t efr2)
{
    uint64_t bits =
        AE_MASK64(CONTROL_IOMMU_EN) | AE_MASK64(CONTROL_EVENT_LOG_EN) |
        AE_MASK64(CONTROL_EVENT_INT_EN) | AE_MASK64(CONTROL_COM_WAIT_INT_EN) |
        AE_MASK64(CONTROL_PLAIN) | AE_MASK64(CONTROL_CMD_BUF_EN) |
        AE_MASK64(CONTROL_IRT_CACHE_DIS);

    if ((efr & AE_MASK64(EFR_GA)) != 0) {
        bits |= AE_MASK64(CONTROL_GA_EN);
    }
    if ((efr & AE_MASK64(EFR_GAM)) != 0) {
        bits |= AE_MASK64(CONTROL_GAM_EN) | AE_MASK64(CONTROL_GA_LOG_EN) |
                AE_MASK64(CONTROL_GA_INT_EN);
    }
    if ((efr & AE_MASK64(EFR_GAPPI)) != 0) {
        bits |= AE_MASK64(CONTROL_GAPPI_EN);
    }
    if ((efr & AE_MASK64(EFR_XT)) != 0) {
        bits |= AE_MASK64(CONTROL_XT_EN) | AE_MASK64(CONTROL_INT_CAP_XT_EN);
    }
    if ((efr2 & AE_MASK64(EFR2_NUM_INT_REMAP)) != 0) {
        bits |= AE_MASK64(CONTROL_NUM_INT_REMAP_MODE);
    }
    return bits;
}

static void
plain_set(struct ae_iommu *iommu, enum ae_iommu_reg reg, uint64_t value)
{
    /* ORD none: a register of its own; software orders its accesses by the
     * ring's enable or run bit. */
    ae_store_relaxed_u64(&iommu->plain[reg], value);
}

static uint64_t
plain_get(const struct ae_iommu *iommu, enum ae_iommu_reg reg)
{
    /* ORD none: as plain_set(). */
    return ae_load_relaxed_u64(&iommu->plain[reg]);
}

static void
capability_set(struct ae_iommu *iommu, unsigned i, uint32_t value)
{
    /* ORD none: its only writer reads it. */
    ae_store_relaxed_u32(&iommu->capability[i], value);
}

void
ae_iommu_init(struct ae_iommu *iommu, const struct ae_iommu_silicon *silicon)
{
    *iommu = (struct ae_iommu){
        .remapper = { .mem = silicon->mem,
                      .address_reserved =
                          ~(((uint64_t)1 << silicon->maxphyaddr) - 1),
                      .way = ae_load16_choose() },
        .efr = silicon->efr,
        .efr2 = silicon->efr2,
        .bells = silicon->bells,
    };
    iommu->control_writable = control_of(iommu->efr, iommu->efr2);
    ae_galog_init(&iommu->events, silicon->mem, 16, silicon->event_marks);
    ae_galog_init(&iommu->ga, silicon->mem, 8, silicon->ga_marks);
    ae_intcache_init(&iommu->dtes, silicon->dte_lines, silicon->nr_lines);
    ae_intcache_init(&iommu->irtes, silicon->irte_lines, silicon->nr_lines);
    capability_set(iommu, 0, CAP_HEADER);
    capability_set(iommu, 5, GA_MESSAGE);
    /* ORD none: nobody else has it yet. */
    ae_store_relaxed_u64(&iommu->command_base,
                         (uint64_t)AE_LOG_MIN_LENGTH << LOG_BASE_LENGTH_LOW);
    plain_set(iommu, AE_IOMMU_PPR_BASE,
              (uint64_t)AE_LOG_MIN_LENGTH << LOG_BASE_LENGTH_LOW);
    plain_set(iommu, AE_IOMMU_EFR, iommu->efr);
    plain_set(iommu, AE_IOMMU_EFR2, iommu->efr2);
    if ((iommu->efr & AE_MASK64(EFR_MSI_CAP_MMIO)) != 0) {
        plain_set(iommu, AE_IOMMU_MISC, (uint64_t)GA_MESSAGE << 32);
        plain_set(iommu, AE_IOMMU_MSI_CAP, MSI_CAP_HEADER);
    }
}

/* ---- status and signals ------------------------------------------------- */

uint64_t
ae_iommu_control(const struct ae_iommu *iommu)
{
    /* ORD signal.A: a status bit was set, then its enable is read. Partner:
     * signal.B in control_write(). If weaker: software enables and sees no
     * bit, we set it and see no enable, and nobody is interrupted. Test:
     * step/iommu. */
    uint64_t control = ae_load_seqcst_u64(&iommu->control);

    AE_STEP(signal_a);
    return control;
}

/* Which signals these interrupt bits ask for, with these enables. */
static uint32_t
signals_of(uint64_t bits, uint64_t control)
{
    bool event = ((bits & AE_MASK64(STATUS_EVENT_LOG_INT)) != 0 &&
                  (control & AE_MASK64(CONTROL_EVENT_INT_EN)) != 0) ||
                 ((bits & AE_MASK64(STATUS_COM_WAIT_INT)) != 0 &&
                  (control & AE_MASK64(CONTROL_COM_WAIT_INT_EN)) != 0);
    bool ga = (bits & AE_MASK64(STATUS_GA_INT)) != 0 &&
              (control & AE_MASK64(CONTROL_GA_INT_EN)) != 0;

    return (event ? AE_IOMMU_SIGNAL_EVENT : 0) | (ga ? AE_IOMMU_SIGNAL_GA : 0);
}

void
ae_iommu_raise(struct ae_iommu *iommu, uint64_t bit, uint32_t *signals)
{
    /*
     * ORD status.A, signal.A: the entry and its tail, then the bit; the bit,
     * then the enable. Partner: status.B in status_write(), signal.B in
     * control_write(). If weaker: software clears the bit, reads an old tail,
     * and the entry waits for the next one. Test: step/iommu.
     */
    uint64_t was = ae_fetch_or_seqcst_u64(&iommu->status, bit);

    AE_STEP(status_a);
    if ((was & bit) == 0) {
        *signals |= signals_of(bit, ae_iommu_control(iommu));
    }
}

static uint64_t
flag(bool set, uint64_t mask)
{
    return set ? mask : 0;
}

static uint64_t
status_read(const struct ae_iommu *iommu)
{
    /* ORD status.B: the bits, then whatever they make software look at.
     * Partner: status.A in ae_iommu_raise(). If weaker: see there. Test:
     * step/iommu. */
    return ae_load_seqcst_u64(&iommu->status) |
           flag(ae_galog_overflowed(&iommu->events),
                AE_MASK64(STATUS_EVENT_OVERFLOW)) |
           flag(ae_galog_running(&iommu->events),
                AE_MASK64(STATUS_EVENT_LOG_RUN)) |
           flag(ae_command_running(iommu), AE_MASK64(STATUS_CMD_BUF_RUN)) |
           flag(ae_galog_running(&iommu->ga), AE_MASK64(STATUS_GA_LOG_RUN)) |
           flag(ae_galog_overflowed(&iommu->ga), AE_MASK64(STATUS_GA_OVERFLOW));
}

static void
status_write(struct ae_iommu *iommu, uint64_t value)
{
    /* ORD status.B: the bit is cleared, then software reads the tail. Partner:
     * status.A in ae_iommu_raise(). If weaker: see there. Test: step/iommu. */
    (void)ae_fetch_and_seqcst_u64(&iommu->status, ~(value & INTERRUPT_BITS));
    AE_STEP(status_b);
    if ((value & AE_MASK64(STATUS_EVENT_OVERFLOW)) != 0) {
        ae_galog_clear_overflow(&iommu->events);
    }
    if ((value & AE_MASK64(STATUS_GA_OVERFLOW)) != 0) {
        ae_galog_clear_overflow(&iommu->ga);
    }
}

static bool
xt_message(uint64_t xt, struct ae_message *ret)
{
    *ret = (struct ae_message){
        .dest = AE_GET(xt, XT_DEST_LOW) | AE_GET(xt, XT_DEST_HIGH) << 24,
        .vector = (uint8_t)AE_GET(xt, XT_VECTOR),
        .mode = (xt & AE_MASK64(XT_ARBITRATED)) != 0 ? AVICEMU_DELIVERY_LOWEST
                                                     : AVICEMU_DELIVERY_FIXED,
        .shorthand = AE_DSH_NONE,
        .format = AE_FORMAT_X2APIC,
        .logical = (xt & AE_MASK64(XT_LOGICAL)) != 0,
        .arbitrate = (xt & AE_MASK64(XT_ARBITRATED)) != 0,
    };
    return xt != 0;
}

bool
ae_iommu_signal_message(const struct ae_iommu *iommu, uint32_t signal,
                        struct ae_message *ret)
{
    bool is_ga = signal == AE_IOMMU_SIGNAL_GA;
    uint64_t header = plain_get(iommu, AE_IOMMU_MSI_CAP);
    uint64_t rest = plain_get(iommu, AE_IOMMU_MSI_DATA);
    uint32_t data = (uint32_t)(rest >> 32) & 0xffffu;

    if ((ae_iommu_control(iommu) & AE_MASK64(CONTROL_INT_CAP_XT_EN)) != 0) {
        return xt_message(
            plain_get(iommu, is_ga ? AE_IOMMU_XT_GA : AE_IOMMU_XT_EVENT), ret);
    }
    if (is_ga && AE_GET(header, MSI_MULTIPLE) != 0) {
        data |= GA_MESSAGE;
    }
    ae_message_decode(rest << 32 | header >> 32, data, ret);
    return (header & AE_MASK64(MSI_ENABLE)) != 0;
}

/* ---- control ------------------------------------------------------------ */

static bool
rises(uint64_t was, uint64_t is, uint64_t mask)
{
    return (is & ~was & mask) != 0;
}

static bool
falls(uint64_t was, uint64_t is, uint64_t mask)
{
    return rises(is, was, mask);
}

static void
log_control(struct ae_galog *log, uint64_t was, uint64_t is, uint64_t enable)
{
    if (rises(was, is, enable)) {
        (void)ae_galog_start(log);
    } else if (falls(was, is, enable)) {
        ae_galog_stop(log);
    }
}

static void
control_write(struct ae_iommu *iommu, uint64_t value, uint32_t *signals)
{
    uint64_t was = ae_iommu_control(iommu);
    uint64_t is = value & iommu->control_writable;

    /* ORD signal.B: the enables, then the status bits. Partner: signal.A in
     * ae_iommu_raise(). If weaker: see ae_iommu_control(). Test: step/iommu. */
    ae_store_seqcst_u64(&iommu->control, is);
    AE_STEP(signal_b);
    log_control(&iommu->events, was, is, AE_MASK64(CONTROL_EVENT_LOG_EN));
    log_control(&iommu->ga, was, is, AE_MASK64(CONTROL_GA_LOG_EN));
    if (rises(was, is, AE_MASK64(CONTROL_CMD_BUF_EN))) {
        ae_command_start(iommu, signals);
    } else if (falls(was, is, AE_MASK64(CONTROL_CMD_BUF_EN))) {
        ae_command_stop(iommu);
    }
    *signals |= signals_of(status_read(iommu), is & ~was);
}

/* ---- MMIO --------------------------------------------------------------- */

/* At an offset / 8: the row's number + 1; 0: there is none. */
#define ROW_NUMBER(name, offset, needs, write, writable) \
    [(offset) / 8] = AE_IOMMU_##name + 1,
static const uint8_t row_numbers[] = { IOMMU_REGS(ROW_NUMBER) };

/* The row at an offset, or its upper half; NULL: none with these features. */
static const struct row *
row_at(const struct ae_iommu *iommu, uint32_t offset)
{
    unsigned number =
        offset / 8 < sizeof(row_numbers) ? row_numbers[offset / 8] : 0;

    if (number == 0) {
        return NULL;
    }
    const struct row *row = &rows[number - 1];

    return row->needs == 0 || (iommu->efr & row->needs) != 0 ? row : NULL;
}

static uint64_t
row_read(const struct ae_iommu *iommu, const struct row *row)
{
    switch ((enum write)row->write) {
    case WRITE_CONTROL:
        return ae_iommu_control(iommu);
    case WRITE_STATUS:
        return status_read(iommu);
    case WRITE_COMMAND_BASE:
        return ae_command_base(iommu);
    case WRITE_COMMAND_HEAD:
        return ae_command_head(iommu);
    case WRITE_COMMAND_TAIL:
        return ae_command_tail(iommu);
    case WRITE_EVENT_BASE:
        return ae_galog_base(&iommu->events);
    case WRITE_EVENT_HEAD:
        return ae_galog_head(&iommu->events);
    case WRITE_EVENT_TAIL:
        return ae_galog_tail(&iommu->events);
    case WRITE_GA_BASE:
        return ae_galog_base(&iommu->ga);
    case WRITE_GA_TAIL_WORD:
        return ae_galog_tail_word(&iommu->ga);
    case WRITE_GA_HEAD:
        return ae_galog_head(&iommu->ga);
    case WRITE_GA_TAIL:
        return ae_galog_tail(&iommu->ga);
    case WRITE_READ_ONLY:
    case WRITE_PLAIN:
        break;
    }
    return plain_get(iommu, (enum ae_iommu_reg)(row - rows));
}

static void
row_write(struct ae_iommu *iommu, const struct row *row, uint64_t value,
          uint32_t *signals)
{
    enum ae_iommu_reg reg = (enum ae_iommu_reg)(row - rows);
    uint32_t pointer = (uint32_t)(value & row->writable);

    switch ((enum write)row->write) {
    case WRITE_READ_ONLY:
        break;
    case WRITE_PLAIN:
        plain_set(iommu, reg,
                  (value & row->writable) |
                      (plain_get(iommu, reg) & ~row->writable));
        break;
    case WRITE_CONTROL:
        control_write(iommu, value, signals);
        break;
    case WRITE_STATUS:
        status_write(iommu, value);
        break;
    case WRITE_COMMAND_BASE:
        ae_command_set_base(iommu, value & row->writable);
        break;
    case WRITE_COMMAND_HEAD:
        ae_command_set_head(iommu, pointer);
        break;
    case WRITE_COMMAND_TAIL:
        ae_command_set_tail(iommu, pointer, signals);
        break;
    case WRITE_EVENT_BASE:
        (void)ae_galog_set_base(&iommu->events, value);
        break;
    case WRITE_EVENT_HEAD:
        ae_galog_set_head(&iommu->events, pointer);
        break;
    case WRITE_EVENT_TAIL:
        (void)ae_galog_set_tail(&iommu->events, pointer);
        break;
    case WRITE_GA_BASE:
        (void)ae_galog_set_base(&iommu->ga, value);
        break;
    case WRITE_GA_TAIL_WORD:
        (void)ae_galog_set_tail_word(&iommu->ga, value);
        break;
    case WRITE_GA_HEAD:
        ae_galog_set_head(&iommu->ga, pointer);
        break;
    case WRITE_GA_TAIL:
        (void)ae_galog_set_tail(&iommu->ga, pointer);
        break;
    }
}

static bool
is_access(uint32_t offset, unsigned bytes)
{
    return (bytes == 4 || bytes == 8) && offset % bytes == 0;
}

uint64_t
ae_iommu_mmio_read(const struct ae_iommu *iommu, uint32_t offset,
                   unsigned bytes)
{
    const struct row *row = row_at(iommu, offset);

    if (row == NULL || !is_access(offset, bytes)) {
        return 0;
    }
    uint64_t value = row_read(iommu, row);

    return bytes == 8 ? value : value >> (offset & 4u) * 8 & UINT32_MAX;
}

/* Half of a register: the other half as it reads, but where writing ones acts.
 */
static uint64_t
half_write(const struct ae_iommu *iommu, const struct row *row, uint32_t offset,
           uint64_t value)
{
    unsigned shift = (offset & 4u) * 8;
    uint64_t mask = (uint64_t)UINT32_MAX << shift;
    uint64_t rest = row->write == WRITE_STATUS ? 0 : row_read(iommu, row);

    return (rest & ~mask) | (value << shift & mask);
}

void
ae_iommu_mmio_write(struct ae_iommu *iommu, uint32_t offset, unsigned bytes,
                    uint64_t value, uint32_t *signals)
{
    const struct row *row = row_at(iommu, offset);

    if (row == NULL || !is_access(offset, bytes)) {
        return;
    }
    if (bytes == 4) {
        value = half_write(iommu, row, offset, value);
    }
    row_write(iommu, row, value, signals);
}

/* ---- the capability block ----------------------------------------------- */

uint32_t
ae_iommu_config_read(const struct ae_iommu *iommu, uint32_t offset)
{
    if (offset % 4 != 0 || offset / 4 >= AE_ARRAY_SIZE(iommu->capability)) {
        return 0;
    }
    /* ORD none: as capability_set(). */
    return ae_load_relaxed_u32(&iommu->capability[offset / 4]);
}

void
ae_iommu_config_write(struct ae_iommu *iommu, uint32_t offset, uint32_t value)
{
    bool locked = (ae_iommu_config_read(iommu, 4) & CAP_ENABLE) != 0;

    /* Base low, with the bit that locks both; base high. */
    if (!locked && offset == 4) {
        capability_set(iommu, 1, value & (CAP_BASE_LOW | CAP_ENABLE));
    } else if (!locked && offset == 8) {
        capability_set(iommu, 2, value);
    }
}
