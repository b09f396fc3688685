/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_API_CHECK_H
#define AE_API_CHECK_H

/*
 * Argument checks of the exported functions, and the check that the owner's
 * calls on one vCPU do not overlap.
 */

#include <errno.h>

#include "hv/object.h"

/* Return value unless cond. Always compiled in. */
#define AE_CHECK(cond, value)       \
    do {                            \
        if (AE_UNLIKELY(!(cond))) { \
            return (value);         \
        }                           \
    } while (0)

/*
 * A config of the caller's size, zero-extended to ours; false if it has set
 * bytes that we do not know. size counts from the struct's beginning.
 */
bool
ae_config_copy(void *ours, size_t our_size, const void *theirs);

/* Two owners in one vCPU are the host programmer's error: debug builds abort.
 * ORD none: it looks for overlap, and orders nothing. */
static inline void
ae_own(struct avicemu_vcpu *vcpu)
{
#ifndef NDEBUG
    uint32_t owners = ae_fetch_add_relaxed_u32(&vcpu->owned, 1);

    assert(owners == 0 && "calls on one vCPU overlap");
    (void)owners;
#else
    (void)vcpu;
#endif
}

static inline void
ae_disown(struct avicemu_vcpu *vcpu)
{
#ifndef NDEBUG
    /* ORD none: as above. */
    (void)ae_fetch_add_relaxed_u32(&vcpu->owned, UINT32_MAX);
#else
    (void)vcpu;
#endif
}

#endif
