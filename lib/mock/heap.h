/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_HEAP_H
#define AE_MOCK_HEAP_H

/*
 * A binary heap of things that happen at a time: commands under way in a
 * device, and all events of a run with the virtual clock. Equal times come
 * out in the order in which they were put, which makes a run repeatable.
 *
 * One thread at a time. It grows by doubling; put is the only call that can
 * fail.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct am_heap_item {
    uint64_t when_ns;
    uint64_t order; /* set by put */
    uint32_t kind;
    uint32_t index;
    uint64_t word;
};

struct am_heap {
    struct am_heap_item *items;
    size_t nr_items;
    size_t room;
    uint64_t next_order;
};

void
am_heap_fini(struct am_heap *heap);

/* False: no memory. item.order is ignored. */
bool
am_heap_put(struct am_heap *heap, struct am_heap_item item);

/* When the first one is due, UINT64_MAX: empty. */
uint64_t
am_heap_when(const struct am_heap *heap);

/* False: empty. */
bool
am_heap_get(struct am_heap *heap, struct am_heap_item *ret);

#endif
