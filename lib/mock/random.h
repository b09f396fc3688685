/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_RANDOM_H
#define AE_MOCK_RANDOM_H

/*
 * splitmix64: a sequence per owner, all from the run's seed, so that a run
 * with the virtual clock depends on nothing else.
 */

#include <stdint.h>

static inline uint64_t
am_random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The start of owner number n's sequence. */
static inline uint64_t
am_random_start(uint64_t seed, uint64_t n)
{
    uint64_t state = seed ^ (n * 0xd1342543de82ef95u);

    return am_random_next(&state);
}

#endif
