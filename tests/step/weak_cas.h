/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: an exchange becomes a
 * release store, as if nobody else wrote, and nobody had to be looked for.
 */
#ifndef WEAK_CAS_H
#define WEAK_CAS_H

#include "base/atomic.h"

static inline bool
weak_cas_u32(_Atomic uint32_t *p, uint32_t desired)
{
    ae_store_release_u32(p, desired);
    return true;
}

#define ae_cas_seqcst_u32(p, expected, desired) weak_cas_u32((p), (desired))

#endif
