/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MODEL_IOMMU_H
#define MODEL_IOMMU_H

/*
 * The IOMMU's interrupt path as a serial program: one thing after the other,
 * with its own copy of memory, nothing cached. Offsets, bits and rules are
 * typed from what drivers say, not taken from the library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <avicemu/hw/iommu.h>

#define MODEL_PAGE    4096u
#define MODEL_REGIONS 2u

struct model_region {
    uint64_t base;
    size_t bytes;
    unsigned char *memory; /* the model's copy */
    bool mapped;
};

/* Base, pointers as written, and state of a ring. */
struct model_ring {
    unsigned entry_bytes;
    uint64_t base, head, tail;
    bool run, overflow;
};

enum {
    MODEL_NR_PLAIN = 10
};

struct model_iommu {
    struct model_region regions[MODEL_REGIONS];
    uint32_t features; /* AVICEMU_IOMMU_* */
    uint64_t control;
    uint64_t status; /* the three interrupt bits */
    uint64_t tail_word;
    uint64_t plain[MODEL_NR_PLAIN];
    struct model_ring commands, events, ga;
    uint32_t signals; /* of the call under way */
};

/* What an interrupt came to. */
struct model_result {
    enum avicemu_hw_outcome outcome;
    enum avicemu_post posted;
    uint32_t fault;
    unsigned nr_doorbells, nr_logged, nr_overflows;
    struct avicemu_hw_message message; /* REMAPPED, FORWARDED */
};

/* Reset; the regions stay. */
void
model_iommu_reset(struct model_iommu *m, uint32_t features);
uint64_t
model_iommu_read(const struct model_iommu *m, uint32_t offset);
/* bytes: 4 or 8. Returns the signals. */
uint32_t
model_iommu_write(struct model_iommu *m, uint32_t offset, unsigned bytes,
                  uint64_t value);
/* Returns the signals. */
uint32_t
model_iommu_msi(struct model_iommu *m, uint16_t device_id, uint64_t address,
                uint32_t data, struct model_result *ret);

/* ---- inside: registers and rings (model_iommu.c), interrupts
 * (model_remap.c) ---------------------------------------------------------- */

/* NULL: not all of it lies in one region. */
void *
model_iommu_find(const struct model_iommu *m, uint64_t address, size_t bytes);
uint64_t
model_iommu_word(const struct model_iommu *m, uint64_t address);
void
model_iommu_raise(struct model_iommu *m, uint64_t bit);
void
model_iommu_event(struct model_iommu *m, uint64_t low, uint64_t high);

enum model_slot {
    MODEL_LOGGED,
    MODEL_OVERFLOW,
    MODEL_OFF,
};

enum model_slot
model_iommu_log(struct model_iommu *m, struct model_ring *ring, uint64_t low,
                uint64_t high);

#endif
