/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_FRAME_H
#define AE_BASE_FRAME_H

/*
 * Framing of snapshots: a header, then records of (tag, length, bytes), all
 * little-endian whatever the host is.
 *
 *   0   8  "AVICEMU" and NUL
 *   8   4  format version
 *  12   4  bytes in all, header included
 *  16      records: u32 tag, u32 length, length bytes
 *
 * A reader finds records by tag, in any order; it refuses a truncated frame,
 * a record that leaves it, and a tag that stands twice.
 */

#include "base/compiler.h"

#define AE_FRAME_HEADER 16u
/* No snapshot is longer; checking tags is quadratic in the records. */
#define AE_FRAME_MAX     65536u
#define AE_FRAME_VERSION 1u

struct ae_frame_writer {
    uint8_t *buf;
    size_t bytes;
    size_t used;
    bool full; /* something did not fit; nothing more is written */
};

void
ae_frame_begin(struct ae_frame_writer *w, void *buf, size_t bytes);
void
ae_frame_record(struct ae_frame_writer *w, uint32_t tag, uint32_t length);
void
ae_frame_u32(struct ae_frame_writer *w, uint32_t value);
void
ae_frame_u64(struct ae_frame_writer *w, uint64_t value);
/* Fills in the length. false if something did not fit. */
bool
ae_frame_end(struct ae_frame_writer *w, size_t *ret_len);

/* A cursor inside one record; reading past its end sets bad and yields 0. */
struct ae_frame_reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

/* Is buf a whole frame of a version that we read, all records inside? */
bool
ae_frame_valid(const void *buf, size_t len);
/* Open the record with tag in a valid frame; false if there is none. */
bool
ae_frame_find(const void *buf, size_t len, uint32_t tag,
              struct ae_frame_reader *ret);
uint32_t
ae_frame_get_u32(struct ae_frame_reader *r);
uint64_t
ae_frame_get_u64(struct ae_frame_reader *r);

#endif
