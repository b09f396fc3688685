/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_SCALE_H
#define AE_BASE_SCALE_H

/*
 * Changing between clocks: ticks at one rate to ticks at another, with a
 * 128-bit product and saturation, so that a count of hundreds of seconds is
 * neither truncated nor wrapped. Absolute times are converted, never
 * differences, so rounding does not accumulate.
 */

#include "base/compiler.h"

#define AE_NEVER UINT64_MAX

/* The one typedef of the tree: pedantic compilers want the type named once. */
__extension__ typedef unsigned __int128 ae_u128;

/* floor(ticks * to / from). from is not 0. */
static inline uint64_t
ae_scale_floor(uint64_t ticks, uint64_t to, uint64_t from)
{
    if (to == from) {
        return ticks;
    }
    ae_u128 product = (ae_u128)ticks * to;

    /* One 64-bit division where the product allows it: it nearly always does,
     * and a 128-bit division costs several times as much. */
    if ((uint64_t)(product >> 64) == 0) {
        return (uint64_t)product / from;
    }
    ae_u128 q = product / from;

    return q > AE_NEVER ? AE_NEVER : (uint64_t)q;
}

/* The least t with ae_scale_floor(t, from, to) >= ticks: ceil, saturated. */
static inline uint64_t
ae_scale_ceil(uint64_t ticks, uint64_t to, uint64_t from)
{
    if (to == from) {
        return ticks;
    }
    ae_u128 product = (ae_u128)ticks * to + (from - 1);

    if ((uint64_t)(product >> 64) == 0) {
        return (uint64_t)product / from;
    }
    ae_u128 q = product / from;

    return q > AE_NEVER ? AE_NEVER : (uint64_t)q;
}

static inline uint64_t
ae_add_saturated(uint64_t a, uint64_t b)
{
    return a > AE_NEVER - b ? AE_NEVER : a + b;
}

#endif
