/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HW_GALOG_H
#define AE_HW_GALOG_H

/*
 * A log of the IOMMU: a ring in memory that many interrupts fill at once and
 * software empties. The GA log has 8-byte entries, the event log 16-byte ones.
 * See galog.c.
 */

#include "base/atomic.h"
#include "base/atomic16.h"
#include "base/mem.h"
#include "base/regs.h"

/* Slots of the side array that serve every length code. */
#define AE_GALOG_MAX_SLOTS 65536u /* 8-byte entries */
#define AE_EVENT_MAX_SLOTS 32768u /* 16-byte entries */
#define AE_LOG_MIN_LENGTH  8u

struct ae_galog {
    /* Constant after init. */
    const struct ae_mem *mem;
    uint32_t entry_shift; /* 3: 8 bytes, 4: 16 */
    /* The side array: by slot, 1 + position of the last entry written. Any
     * producer's own slot. */
    _Atomic uint32_t *marks;

    /* Registers. Software's through the IOMMU, one thread at a time; base,
     * length and tail word change only while nothing runs. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t base; /* as written */
    _Atomic uint64_t tail_word;                      /* as written; 0: none */
    _Atomic uint32_t head;                           /* bytes, as written */

    /* All producers: reserve and finish. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint64_t state;
    /* All producers: publish. A position: everything before it is written. */
    AE_ALIGNED(AE_CACHE_LINE) _Atomic uint32_t tail;
};

/* marks: AE_GALOG_MAX_SLOTS or AE_EVENT_MAX_SLOTS words, the caller's. */
void
ae_galog_init(struct ae_galog *log, const struct ae_mem *mem,
              uint32_t entry_bytes, _Atomic uint32_t *marks);

/* Entries of a ring by its base register. Reserved length codes count as 8. */
uint32_t
ae_galog_entries(uint64_t base, uint32_t entry_bytes);

/* ---- software's side: one thread at a time ------------------------------ */

/* The registers as they read. */
uint64_t
ae_galog_base(const struct ae_galog *log);
uint64_t
ae_galog_tail_word(const struct ae_galog *log);
uint32_t
ae_galog_head(const struct ae_galog *log);
/* The tail register. Entries before it are visible then. Any thread. */
uint32_t
ae_galog_tail(const struct ae_galog *log);
/* The Run and Overflow bits of the status register. Any thread. */
bool
ae_galog_running(const struct ae_galog *log);
bool
ae_galog_overflowed(const struct ae_galog *log);

/* Writes; false: ignored, since the log runs. The first one also sets head and
 * tail to 0. */
bool
ae_galog_set_base(struct ae_galog *log, uint64_t value);
bool
ae_galog_set_tail_word(struct ae_galog *log, uint64_t value);
bool
ae_galog_set_tail(struct ae_galog *log, uint32_t value);
/* Software's end: at any time. */
void
ae_galog_set_head(struct ae_galog *log, uint32_t value);

/* The enable bit rises. false: not with Overflow set. */
bool
ae_galog_start(struct ae_galog *log);
/* It falls. Run reads 1 until nothing is in flight. */
void
ae_galog_stop(struct ae_galog *log);
/* 1 is written to Overflow. Starts nothing. */
void
ae_galog_clear_overflow(struct ae_galog *log);

/* ---- hardware's side: any thread ---------------------------------------- */

enum ae_galog_slot {
    AE_GALOG_RESERVED, /* write, publish, finish */
    AE_GALOG_OVERFLOW, /* none is free: this call has set Overflow */
    AE_GALOG_OFF,      /* not running: the entry is dropped */
};

/* A place for one entry. */
enum ae_galog_slot
ae_galog_reserve(struct ae_galog *log, uint32_t *ret_position);
/* Fill it, in a read-side section. high: of 16-byte entries. false: there is
 * no memory; the place counts as filled. */
bool
ae_galog_write(struct ae_galog *log, uint32_t position, struct ae_u128 entry);
/* Move the tail over all places that are filled, and store the tail word, in
 * a read-side section. true: this place lies before the tail now, so set the
 * interrupt bit; false: who fills an earlier place will. */
bool
ae_galog_publish(struct ae_galog *log, uint32_t position);
/* Last: base and pointers may change once all have said this. */
void
ae_galog_finish(struct ae_galog *log);

/* All four, in a read-side section. *ret_visible: as publish. */
enum ae_galog_slot
ae_galog_append(struct ae_galog *log, struct ae_u128 entry, bool *ret_visible);

/* An entry of the GA log: this tag's vCPU is not running. */
static inline struct ae_u128
ae_ga_entry(uint32_t ga_tag, uint16_t device_id)
{
    return (struct ae_u128){
        (uint64_t)AE_GA_GUEST_NR << GA_ENTRY_TYPE_LOW |
            (uint64_t)device_id << GA_ENTRY_DEVICE_ID_LOW | ga_tag,
        0,
    };
}

#endif
