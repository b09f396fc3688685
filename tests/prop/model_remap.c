/* SPDX-License-Identifier: BSD-2-Clause */

/* One interrupt, start to end. [IOMMU 2.2.2 device table], [IOMMU 2.2.5
 * interrupt remapping tables], [IOMMU 2.5 event log] */

#include <string.h>

#include "model_iommu.h"

#define WIDTH     0x0000ffffffffffffull /* 48 bits */
#define ROOT      0x000ffffffffff000ull
#define HT        0xfdf8000000ull
#define HT_SIGNED 0xfffffffdf8000000ull
#define EVENT_I   (1ull << 51)
#define PR_RZ     (1ull << 52 | 1ull << 55)
#define MASTER    (1ull << 57) /* a master abort */

/* Of control. */
#define IOMMU_EN(c) ((c)&1)
#define GA_EN(c)    ((c) >> 17 & 1)
#define GAM_EN(c)   ((c) >> 25 & 7)
#define MODE_2K(c)  (((c) >> 43 & 3) == 1)
#define XT_EN(c)    ((c) >> 50 & 1)
#define GAPPI_EN(c) ((c) >> 55 & 1)

/* As delivery modes, and two more. */
enum kind {
    FIXED,
    LOWEST,
    SMI,
    BAD3,
    NMI,
    INIT,
    SIPI,
    EXTINT,
    LINT0,
    LINT1
};

struct way {
    struct model_iommu *m;
    struct model_result *result;
    uint64_t address;
    uint32_t data;
    uint16_t device_id;
    enum kind kind;
    uint32_t index;
    uint64_t dte[3];
};

struct entry {
    uint64_t low, high;
};

static uint64_t
bits(uint64_t word, unsigned high, unsigned low)
{
    return word >> low & ((2ull << (high - low)) - 1);
}

/* ---- the message -------------------------------------------------------- */

static bool
is_ht(uint64_t address)
{
    return address >> 24 == HT >> 24;
}

static void
decode_ht(struct way *w)
{
    static const enum kind types[8] = { FIXED, LOWEST, SMI,    NMI,
                                        INIT,  SIPI,   EXTINT, BAD3 };
    uint64_t a = w->address;

    w->kind = types[bits(a, 4, 2)];
    w->index = (uint32_t)(bits(a, 23, 16) | (uint64_t)w->kind << 8);
    w->result->message = (struct avicemu_hw_message){
        .dest = (uint32_t)bits(a, 15, 8),
        .logical = (int)bits(a, 6, 6),
        .mode = (enum avicemu_delivery)w->kind,
        .vector = (uint8_t)bits(a, 23, 16),
        .level = (int)bits(a, 5, 5),
    };
    if (bits(a, 7, 0) == 0x98 || bits(a, 7, 0) == 0x8c) {
        w->kind = bits(a, 7, 0) == 0x98 ? LINT0 : LINT1;
    }
}

static void
decode_msi(struct way *w)
{
    uint64_t a = w->address;

    w->kind = (enum kind)bits(w->data, 10, 8);
    w->index = (uint32_t)bits(w->data, 8, 0);
    w->result->message = (struct avicemu_hw_message){
        .dest = (uint32_t)bits(a, 19, 12),
        .logical = (int)bits(a, 2, 2),
        .mode = (enum avicemu_delivery)w->kind,
        .vector = (uint8_t)w->data,
        .level = (int)bits(w->data, 15, 15),
    };
    if (MODE_2K(w->m->control) && bits(a, 2, 2) != 0) {
        w->kind = FIXED;
        w->index = (uint32_t)bits(w->data, 10, 0);
    }
}

static uint64_t
reported(const struct way *w)
{
    if (is_ht(w->address)) {
        return HT_SIGNED | (w->address & 0xffffff);
    }
    return HT_SIGNED | bits(w->data, 7, 0) << 16 |
           bits(w->address, 19, 12) << 8 | bits(w->address, 2, 2) << 6 |
           bits(w->data, 10, 8) << 2;
}

/* ---- faults ------------------------------------------------------------- */

static void
abort_by(struct way *w, uint64_t code, uint64_t flags, uint64_t address,
         bool quiet)
{
    uint64_t domain = code == 2 || code == 4 ? w->dte[1] & 0xffff : 0;

    w->result->outcome = AVICEMU_HW_ABORTED;
    w->result->fault = (uint32_t)code;
    if (!quiet) {
        model_iommu_event(
            w->m, code << 60 | flags | domain << 32 | w->device_id, address);
    }
}

static void
page_fault(struct way *w, uint64_t flags, bool sup_iopf)
{
    abort_by(w, 2, EVENT_I | flags, reported(w),
             sup_iopf || bits(w->dte[2], 5, 5) != 0);
}

/* ---- posting ------------------------------------------------------------ */

static bool
is_posting(struct entry e)
{
    return (e.low & 0x81) == 0x81;
}

static uint32_t
dest_of(uint64_t control, struct entry e)
{
    return XT_EN(control)
               ? (uint32_t)(bits(e.low, 31, 8) | bits(e.high, 63, 56) << 24)
               : (uint32_t)bits(e.low, 15, 8);
}

static void
log_tag(struct way *w, uint64_t tag)
{
    enum model_slot slot = model_iommu_log(
        w->m, &w->m->ga, 1ull << 60 | (uint64_t)w->device_id << 32 | tag, 0);

    w->result->nr_logged += slot == MODEL_LOGGED;
    w->result->nr_overflows += slot == MODEL_OVERFLOW;
    if (slot == MODEL_LOGGED) {
        model_iommu_raise(w->m, 1u << 10);
    }
}

/* By what the entry says after the bit was set; the bit may have changed it,
 * where page and table are one. */
static void
notify(struct way *w, struct entry first, struct entry again)
{
    uint64_t control = w->m->control;
    bool still = is_posting(again);

    if (!still || again.low >> 32 != first.low >> 32) {
        w->result->nr_doorbells += (unsigned)bits(first.low, 6, 6);
        if (!GAPPI_EN(control)) {
            log_tag(w, first.low >> 32);
        }
    }
    if (still && bits(again.low, 6, 6) != 0) {
        w->result->nr_doorbells++;
    } else if (still && !GAPPI_EN(control) && bits(again.low, 2, 2) != 0) {
        log_tag(w, again.low >> 32);
    }
}

static struct entry
entry_at(const struct model_iommu *m, uint64_t address)
{
    return (struct entry){ model_iommu_word(m, address),
                           model_iommu_word(m, address + 8) };
}

static void
post(struct way *w, struct entry e, uint64_t at)
{
    uint64_t root = e.high & ROOT;
    unsigned vector = (unsigned)bits(e.high, 7, 0);
    unsigned char *page =
        (root & ~WIDTH) == 0 ? model_iommu_find(w->m, root, MODEL_PAGE) : NULL;

    if (page == NULL) {
        abort_by(w, 4, EVENT_I | MASTER, root, false);
        return;
    }
    unsigned char *byte =
        page + 0x200 + (size_t)(vector / 32) * 16 + vector % 32 / 8;
    unsigned char bit = (unsigned char)(1u << vector % 8);

    w->result->outcome = AVICEMU_HW_POSTED;
    w->result->posted =
        (*byte & bit) != 0 ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
    *byte |= bit;
    notify(w, e, entry_at(w->m, at));
}

/* ---- the entry ---------------------------------------------------------- */

static void
remapped(struct way *w, uint32_t dest, uint64_t low, uint8_t vector)
{
    w->result->outcome = AVICEMU_HW_REMAPPED;
    w->result->message = (struct avicemu_hw_message){
        .dest = dest,
        .logical = (int)bits(low, 6, 6),
        .mode = (enum avicemu_delivery)bits(low, 4, 2),
        .vector = vector,
    };
}

static bool
is_reserved(const struct way *w, struct entry e)
{
    uint64_t control = w->m->control;

    if (bits(e.high, 11, 8) != 0 || bits(e.high, 55, 52) != 0 ||
        (!XT_EN(control) &&
         (bits(e.low, 31, 16) != 0 || bits(e.high, 63, 56) != 0))) {
        return true;
    }
    if (bits(e.low, 7, 7) == 0) {
        return bits(e.low, 63, 32) != 0 || bits(e.high, 51, 12) != 0 ||
               bits(e.low, 4, 2) > 1;
    }
    return GAM_EN(control) != 1 || bits(e.low, 4, 3) != 0 ||
           (bits(e.low, 5, 5) != 0 &&
            (w->m->features & AVICEMU_IOMMU_GAPPI_DIS) == 0);
}

static void
entry_wide(struct way *w, uint64_t at)
{
    struct entry e = entry_at(w->m, at);

    if (bits(e.low, 0, 0) == 0) {
        page_fault(w, 0, bits(e.low, 1, 1) != 0);
    } else if (is_reserved(w, e)) {
        page_fault(w, PR_RZ, bits(e.low, 1, 1) != 0);
    } else if (bits(e.low, 7, 7) == 0) {
        remapped(w, dest_of(w->m->control, e), e.low, (uint8_t)e.high);
    } else {
        post(w, e, at);
    }
}

static void
entry_narrow(struct way *w, uint64_t at)
{
    uint32_t e;

    memcpy(&e, model_iommu_find(w->m, at, 4), 4);
    if (bits(e, 0, 0) == 0) {
        page_fault(w, 0, bits(e, 1, 1) != 0);
    } else if (bits(e, 7, 7) != 0 || bits(e, 31, 24) != 0 ||
               bits(e, 4, 2) > 1) {
        page_fault(w, PR_RZ, bits(e, 1, 1) != 0);
    } else {
        remapped(w, (uint32_t)bits(e, 15, 8), e, (uint8_t)bits(e, 23, 16));
    }
}

static void
by_table(struct way *w)
{
    unsigned size = GA_EN(w->m->control) ? 16 : 4;
    uint64_t root = w->dte[2] & 0x000fffffffffffc0 & WIDTH;
    uint64_t at = root + (uint64_t)w->index * size;

    if (w->index >= 1u << bits(w->dte[2], 4, 1)) {
        page_fault(w, 0, false);
    } else if (model_iommu_find(w->m, at, size) == NULL) {
        abort_by(w, 4, EVENT_I | MASTER, at, false);
    } else if (size == 16) {
        entry_wide(w, at);
    } else {
        entry_narrow(w, at);
    }
}

/* ---- the device table --------------------------------------------------- */

static bool
passes(const struct way *w)
{
    uint64_t dte = w->dte[2];
    bool logical = w->result->message.logical != 0;

    switch (w->kind) {
    case SMI:
        return !logical;
    case INIT:
        return bits(dte, 56, 56) != 0 && !logical;
    case EXTINT:
        return bits(dte, 57, 57) != 0 && !logical;
    case NMI:
        return bits(dte, 58, 58) != 0 && !logical;
    case LINT0:
        return bits(dte, 62, 62) != 0;
    case LINT1:
        return bits(dte, 63, 63) != 0;
    case FIXED:
    case LOWEST:
    case BAD3:
    case SIPI:
        break;
    }
    return false;
}

static void
by_dte(struct way *w)
{
    uint64_t ctl = bits(w->dte[2], 61, 60);

    if (bits(w->dte[0], 0, 0) == 0 || bits(w->dte[2], 0, 0) == 0) {
        w->result->outcome = AVICEMU_HW_FORWARDED;
    } else if (bits(w->dte[2], 53, 52) != 0 || bits(w->dte[2], 6, 6) != 0) {
        abort_by(w, 1, EVENT_I | 1ull << 55, reported(w), false);
    } else if (w->kind > LOWEST) {
        if (passes(w)) {
            w->result->outcome = AVICEMU_HW_FORWARDED;
        } else {
            page_fault(w, 0, false);
        }
    } else if (ctl == 0) {
        abort_by(w, 8, 5ull << 57, reported(w), false);
    } else if (ctl == 1) {
        w->result->outcome = AVICEMU_HW_FORWARDED;
    } else if (ctl == 3 || bits(w->dte[2], 4, 1) > 11) {
        abort_by(w, 1, EVENT_I, reported(w), false);
    } else {
        by_table(w);
    }
}

uint32_t
model_iommu_msi(struct model_iommu *m, uint16_t device_id, uint64_t address,
                uint32_t data, struct model_result *ret)
{
    struct way w = { .m = m,
                     .result = ret,
                     .address = address,
                     .data = data,
                     .device_id = device_id };
    uint64_t table = model_iommu_read(m, 0);
    uint64_t at = (table & ROOT) + device_id * 32ull;

    *ret = (struct model_result){ .outcome = AVICEMU_HW_NO_REQUEST,
                                  .posted = AVICEMU_POST_DROPPED };
    m->signals = 0;
    if (address >> 20 != 0xfee && !is_ht(address)) {
        return 0;
    }
    if (is_ht(address)) {
        decode_ht(&w);
    } else {
        decode_msi(&w);
    }
    if (!IOMMU_EN(m->control)) {
        ret->outcome = AVICEMU_HW_FORWARDED;
    } else if (device_id >= (bits(table, 8, 0) + 1) * 128) {
        abort_by(&w, 1, EVENT_I, reported(&w), false);
    } else if (model_iommu_find(m, at, 32) == NULL) {
        abort_by(&w, 3, EVENT_I | MASTER, at, false);
    } else {
        memcpy(w.dte, model_iommu_find(m, at, 24), 24);
        by_dte(&w);
    }
    return m->signals;
}
