/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_RING_H
#define AE_MOCK_RING_H

/*
 * A ring of words between one producer and one consumer: the queue pairs of
 * the mock's devices. The only include of Concurrency Kit in lib/.
 *
 * Edge ring: what the producer wrote before put() is visible to the consumer
 * after get() returned the word. ck's own headers look racy to the thread
 * sanitizer, so ring.c is compiled without it and tells it of the edge.
 *
 * put and get may overlap; two puts, or two gets, may not. Both wait-free.
 */

#include <stdbool.h>
#include <stdint.h>

struct am_ring;

/* Room for at least words; NULL: no memory. */
struct am_ring *
am_ring_create_spsc(uint32_t words);
void
am_ring_destroy(struct am_ring *ring);

/* word must not be 0. False: full. */
bool
am_ring_put_spsc(struct am_ring *ring, uint64_t word);

/* 0: empty. */
uint64_t
am_ring_get_spsc(struct am_ring *ring);

/* Words in it: exact for its two parties between their own calls. */
uint32_t
am_ring_count(const struct am_ring *ring);

#endif
