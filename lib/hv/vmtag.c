/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GA tags, and the VM ids in them. Hardware does not look into a tag; the
 * layouts are KVM's. [KVM GATag layout], [KVM VM id allocation]
 *
 * Ids go round, so that a stale tag in a log names nobody for as long as
 * possible; 0 is never one. Which are in use stands in chunks of bits that are
 * made when an id of theirs is first given out. With all in use it says so, at
 * once.
 *
 * Invariant: nr = bits set, without that of id 0, which is always set
 */

#include "hv/vmtag.h"

#include <errno.h>

#include "base/alloc.h"

/* ---- tags --------------------------------------------------------------- */

static uint32_t
index_bits(enum ae_tag_layout layout)
{
    static const uint8_t bits[] = {
        [AE_TAG_24_8] = 8,
        [AE_TAG_23_9] = 9,
        [AE_TAG_20_12] = 12,
    };

    return bits[layout];
}

uint32_t
ae_tag_max_vcpus(enum ae_tag_layout layout)
{
    return 1u << index_bits(layout);
}

static uint32_t
max_id(enum ae_tag_layout layout)
{
    return UINT32_MAX >> index_bits(layout);
}

int
ae_tag_pack(enum ae_tag_layout layout, uint32_t vm_id, uint32_t vcpu_idx,
            uint32_t *ret)
{
    uint32_t bits = index_bits(layout);

    if (vm_id == 0 || vm_id > max_id(layout) || vcpu_idx >> bits != 0) {
        return -EINVAL;
    }
    *ret = vm_id << bits | vcpu_idx;
    return 0;
}

void
ae_tag_unpack(enum ae_tag_layout layout, uint32_t tag, uint32_t *ret_vm_id,
              uint32_t *ret_vcpu_idx)
{
    uint32_t bits = index_bits(layout);

    *ret_vm_id = tag >> bits;
    *ret_vcpu_idx = tag & ((1u << bits) - 1);
}

/* ---- VM ids ------------------------------------------------------------- */

#define CHUNK_SHIFT 15u /* ids of a chunk: 4 KiB of bits */
#define CHUNK_IDS   (1u << CHUNK_SHIFT)
#define CHUNK_WORDS (CHUNK_IDS / 64)
#define WORD_FULL   UINT64_MAX

static uint32_t
nr_chunks(const struct ae_vmids *ids)
{
    return max_id(ids->layout) / CHUNK_IDS + 1;
}

/* The word with this id's bit; NULL: its chunk has no memory. */
static uint64_t *
id_word(const struct ae_vmids *ids, uint32_t id)
{
    uint64_t *chunk = ids->chunks[id >> CHUNK_SHIFT];

    return chunk == NULL ? NULL : &chunk[id % CHUNK_IDS / 64];
}

/* The next free id after last. One is: so it ends within a lap and a word. */
static uint32_t
id_next(const struct ae_vmids *ids, uint32_t max)
{
    uint32_t id = ids->last;

    for (;;) {
        id = (id + 1) & max;
        const uint64_t *word = id_word(ids, id);

        if (word == NULL) {
            return id != 0 ? id : 1;
        }
        if (id % 64 == 0 && *word == WORD_FULL) {
            id += 63;
        } else if (id != 0 && (*word >> id % 64 & 1) == 0) {
            return id;
        }
    }
}

static int
vmid_get_locked(struct ae_vmids *ids, uint32_t *ret)
{
    uint32_t max = max_id(ids->layout);

    if (ids->nr == max) {
        return -EBUSY;
    }
    uint32_t id = id_next(ids, max);
    uint64_t **chunk = &ids->chunks[id >> CHUNK_SHIFT];

    if (*chunk == NULL) {
        *chunk = ae_alloc(ids->allocator, AE_CACHE_LINE, CHUNK_WORDS * 8);
        if (*chunk == NULL) {
            return -ENOMEM;
        }
        (*chunk)[0] |= id < CHUNK_IDS; /* no VM has id 0 */
    }
    *id_word(ids, id) |= 1ull << id % 64;
    ids->nr++;
    ids->last = id;
    *ret = id;
    return 0;
}

int
ae_vmid_get(struct ae_vmids *ids, uint32_t *ret)
{
    ae_lock(&ids->lock);
    int r = vmid_get_locked(ids, ret);

    ae_unlock(&ids->lock);
    return r;
}

void
ae_vmid_put(struct ae_vmids *ids, uint32_t id)
{
    ae_lock(&ids->lock);
    uint64_t *word = id_word(ids, id);

    assert(id != 0 && word != NULL && (*word >> id % 64 & 1) != 0);
    *word &= ~(1ull << id % 64);
    ids->nr--;
    ae_unlock(&ids->lock);
}

int
ae_vmids_init(struct ae_vmids *ids, const struct avicemu_allocator *allocator,
              enum ae_tag_layout layout)
{
    *ids = (struct ae_vmids){ .allocator = allocator, .layout = layout };
    ids->chunks = ae_alloc(allocator, AE_CACHE_LINE,
                           nr_chunks(ids) * sizeof(ids->chunks[0]));
    if (ids->chunks == NULL) {
        ids->allocator = NULL;
        return -ENOMEM;
    }
    ae_lock_init(&ids->lock);
    return 0;
}

void
ae_vmids_fini(struct ae_vmids *ids)
{
    if (ids->allocator == NULL) {
        return;
    }
    for (uint32_t i = 0; i < nr_chunks(ids); i++) {
        ae_free(ids->allocator, ids->chunks[i], CHUNK_WORDS * 8);
    }
    ae_free(ids->allocator, ids->chunks,
            nr_chunks(ids) * sizeof(ids->chunks[0]));
    ae_lock_fini(&ids->lock);
    ids->allocator = NULL;
}
