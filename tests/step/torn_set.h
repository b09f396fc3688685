/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: bits are set by a load
 * and a store, as a plain |= does.
 */
#ifndef TORN_SET_H
#define TORN_SET_H

#include "base/atomic.h"

static inline bool
torn_set_u32(_Atomic uint32_t *p, unsigned n)
{
    uint32_t old = ae_load_seqcst_u32(p);
    uint32_t bit = (uint32_t)1 << (n & 31u);

    ae_store_seqcst_u32(p, old | bit);
    return (old & bit) != 0;
}

#define ae_test_and_set_seqcst_u32 torn_set_u32

#endif
