/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and writing snapshot frames. A reader may be given any bytes: every
 * length is checked against what is left before it is used.
 */

#include "base/frame.h"

#include <string.h>

static const uint8_t frame_magic[8] = { 'A', 'V', 'I', 'C', 'E', 'M', 'U', 0 };

static void
put_le32(uint8_t *p, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t
get_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

void
ae_frame_begin(struct ae_frame_writer *w, void *buf, size_t bytes)
{
    w->buf = buf;
    w->bytes = bytes;
    w->used = AE_FRAME_HEADER;
    w->full = bytes < AE_FRAME_HEADER;
    if (!w->full) {
        memcpy(w->buf, frame_magic, sizeof(frame_magic));
        put_le32(w->buf + 8, AE_FRAME_VERSION);
    }
}

void
ae_frame_u32(struct ae_frame_writer *w, uint32_t value)
{
    if (w->full || w->bytes - w->used < 4) {
        w->full = true;
        return;
    }
    put_le32(w->buf + w->used, value);
    w->used += 4;
}

void
ae_frame_u64(struct ae_frame_writer *w, uint64_t value)
{
    ae_frame_u32(w, (uint32_t)value);
    ae_frame_u32(w, (uint32_t)(value >> 32));
}

void
ae_frame_record(struct ae_frame_writer *w, uint32_t tag, uint32_t length)
{
    ae_frame_u32(w, tag);
    ae_frame_u32(w, length);
}

bool
ae_frame_end(struct ae_frame_writer *w, size_t *ret_len)
{
    if (w->full || w->used > UINT32_MAX) {
        return false;
    }
    put_le32(w->buf + 12, (uint32_t)w->used);
    *ret_len = w->used;
    return true;
}

bool
ae_frame_find(const void *buf, size_t len, uint32_t tag,
              struct ae_frame_reader *ret)
{
    const uint8_t *p = buf;

    for (size_t at = AE_FRAME_HEADER; len - at >= 8;) {
        uint32_t length = get_le32(p + at + 4);

        if (get_le32(p + at) == tag) {
            ret->at = p + at + 8;
            ret->left = length;
            ret->bad = false;
            return true;
        }
        at += 8 + (size_t)length;
    }
    return false;
}

bool
ae_frame_valid(const void *buf, size_t len)
{
    const uint8_t *p = buf;

    if (len < AE_FRAME_HEADER || len > AE_FRAME_MAX ||
        memcmp(p, frame_magic, 8) != 0 || get_le32(p + 8) != AE_FRAME_VERSION ||
        get_le32(p + 12) != len) {
        return false;
    }
    size_t at = AE_FRAME_HEADER;

    while (at < len) {
        if (len - at < 8 || get_le32(p + at + 4) > len - at - 8) {
            return false;
        }
        struct ae_frame_reader first;
        uint32_t tag = get_le32(p + at);

        if (ae_frame_find(buf, at, tag, &first)) {
            return false;
        }
        at += 8 + (size_t)get_le32(p + at + 4);
    }
    return true;
}

uint32_t
ae_frame_get_u32(struct ae_frame_reader *r)
{
    if (r->left < 4) {
        r->bad = true;
        return 0;
    }
    uint32_t value = get_le32(r->at);

    r->at += 4;
    r->left -= 4;
    return value;
}

uint64_t
ae_frame_get_u64(struct ae_frame_reader *r)
{
    uint64_t low = ae_frame_get_u32(r);

    return low | (uint64_t)ae_frame_get_u32(r) << 32;
}
