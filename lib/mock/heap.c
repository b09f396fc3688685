/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariant: items[(i - 1) / 2] is not later than items[i]. See heap.h.
 */

#include "heap.h"

#include <stdlib.h>

static bool
item_before(const struct am_heap_item *a, const struct am_heap_item *b)
{
    return a->when_ns < b->when_ns ||
           (a->when_ns == b->when_ns && a->order < b->order);
}

static bool
heap_grow(struct am_heap *heap)
{
    size_t room = heap->room == 0 ? 64 : heap->room * 2;
    struct am_heap_item *items =
        realloc(heap->items, room * sizeof(*heap->items));

    if (items == NULL) {
        return false;
    }
    heap->items = items;
    heap->room = room;
    return true;
}

void
am_heap_fini(struct am_heap *heap)
{
    free(heap->items);
    *heap = (struct am_heap){ 0 };
}

bool
am_heap_put(struct am_heap *heap, struct am_heap_item item)
{
    size_t i = heap->nr_items;

    if (i == heap->room && !heap_grow(heap)) {
        return false;
    }
    item.order = heap->next_order++;
    heap->nr_items++;
    while (i > 0 && item_before(&item, &heap->items[(i - 1) / 2])) {
        heap->items[i] = heap->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->items[i] = item;
    return true;
}

uint64_t
am_heap_when(const struct am_heap *heap)
{
    return heap->nr_items == 0 ? UINT64_MAX : heap->items[0].when_ns;
}

bool
am_heap_get(struct am_heap *heap, struct am_heap_item *ret)
{
    struct am_heap_item last;
    size_t i = 0;

    if (heap->nr_items == 0) {
        return false;
    }
    *ret = heap->items[0];
    last = heap->items[--heap->nr_items];
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= heap->nr_items) {
            break;
        }
        if (child + 1 < heap->nr_items &&
            item_before(&heap->items[child + 1], &heap->items[child])) {
            child++;
        }
        if (!item_before(&heap->items[child], &last)) {
            break;
        }
        heap->items[i] = heap->items[child];
        i = child;
    }
    heap->items[i] = last;
    return true;
}
