/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: 16 bytes are written
 * in two halves, as a driver without the locked exchange does.
 */
#ifndef TORN_CAS16_H
#define TORN_CAS16_H

#include "base/atomic.h"
#include "base/atomic16.h"

static inline bool
torn_cas_u128(struct ae_atomic16 *p, struct ae_u128 *expected,
              struct ae_u128 desired)
{
    (void)expected;
    ae_store_seqcst_u64(&p->low, desired.low);
    ae_store_seqcst_u64(&p->high, desired.high);
    return true;
}

#define ae_cas_seqcst_u128 torn_cas_u128

#endif
