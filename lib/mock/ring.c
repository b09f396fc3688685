/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ck_ring behind a face of our own; see ring.h. A word travels as the pointer
 * that ck carries, so no element is copied behind the sanitizer's back.
 *
 * ck rings hold a power of two less one.
 */

#include "ring.h"

#include <stdlib.h>

#include <ck_ring.h>

/* The build sets this where the rest of the mock is compiled with the thread
 * sanitizer: this file itself cannot see that. */
#ifdef AE_RING_TSAN
void
__tsan_acquire(void *addr);
void
__tsan_release(void *addr);
#define RING_ACQUIRE(ring) __tsan_acquire(ring)
#define RING_RELEASE(ring) __tsan_release(ring)
#else
#define RING_ACQUIRE(ring) ((void)(ring))
#define RING_RELEASE(ring) ((void)(ring))
#endif

struct am_ring {
    ck_ring_t ring;
    ck_ring_buffer_t *slots;
};

_Static_assert(sizeof(void *) == sizeof(uint64_t), "a word is a pointer");

struct am_ring *
am_ring_create_spsc(uint32_t words)
{
    struct am_ring *ring = calloc(1, sizeof(*ring));
    uint32_t slots = 4;

    while (slots < words + 1) {
        slots *= 2;
    }
    if (ring == NULL) {
        return NULL;
    }
    ring->slots = calloc(slots, sizeof(*ring->slots));
    if (ring->slots == NULL) {
        free(ring);
        return NULL;
    }
    ck_ring_init(&ring->ring, slots);
    return ring;
}

void
am_ring_destroy(struct am_ring *ring)
{
    if (ring != NULL) {
        free(ring->slots);
        free(ring);
    }
}

bool
am_ring_put_spsc(struct am_ring *ring, uint64_t word)
{
    RING_RELEASE(ring);
    return ck_ring_enqueue_spsc(&ring->ring, ring->slots,
                                (void *)(uintptr_t)word);
}

uint64_t
am_ring_get_spsc(struct am_ring *ring)
{
    void *word = NULL;

    if (!ck_ring_dequeue_spsc(&ring->ring, ring->slots, &word)) {
        return 0;
    }
    RING_ACQUIRE(ring);
    return (uint64_t)(uintptr_t)word;
}

uint32_t
am_ring_count(const struct am_ring *ring)
{
    return ck_ring_size(&ring->ring);
}
