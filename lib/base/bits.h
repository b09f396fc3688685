/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_BITS_H
#define AE_BASE_BITS_H

/*
 * Fields of registers, and the geometry of the 256-bit vector maps: eight
 * 32-bit words, 16 bytes apart. Vector v is bit v & 31 of word v >> 5.
 * Spec: [APM2 16.6.3 IRR and ISR]
 */

#include "base/compiler.h"

#define AE_NR_VECTORS         256u
#define AE_VECTOR_WORDS       8u
#define AE_FIRST_LEGAL_VECTOR 16u

static inline uint32_t
ae_bit32(unsigned n)
{
    return (uint32_t)1 << (n & 31u);
}

static inline uint32_t
ae_vector_bit(uint8_t vector)
{
    return ae_bit32(vector);
}

/* Byte offset of the word that holds vector, from the map's first word. */
static inline uint32_t
ae_vector_offset(uint8_t vector)
{
    return ((uint32_t)vector >> 5) << 4;
}

static inline unsigned
ae_vector_class(unsigned vector)
{
    return vector >> 4;
}

/* Bits high:low of value, both inclusive. */
static inline uint64_t
ae_field_get(uint64_t value, unsigned high, unsigned low)
{
    unsigned width = high - low + 1;
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;

    return (value >> low) & mask;
}

/* Index of the highest set bit; value is not 0. */
static inline int
ae_highest_bit32(uint32_t value)
{
    return 31 - __builtin_clz(value);
}

/* Index of the lowest set bit; value is not 0. */
static inline unsigned
ae_lowest_bit32(uint32_t value)
{
    return (unsigned)__builtin_ctz(value);
}

static inline bool
ae_single_bit32(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* A word of a little-endian structure, to ours or back. */
static inline uint64_t
ae_little64(uint64_t word)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word
                                                     : __builtin_bswap64(word);
}

#endif
