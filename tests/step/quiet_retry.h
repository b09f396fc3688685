/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: an interrupt that counted
 * itself under an epoch that was over takes that back without looking whether a
 * command has been waiting for it.
 */
#ifndef QUIET_RETRY_H
#define QUIET_RETRY_H

#include "hw/iommu.h"

/* The epoch is the only word that is read relaxed there. */
static _Thread_local const _Atomic uint32_t *quiet_epoch;
static _Thread_local uint32_t quiet_guess;
static _Thread_local bool quiet;

static inline uint32_t
quiet_load_relaxed(const _Atomic uint32_t *p)
{
    quiet_epoch = p;
    quiet_guess = ae_load_relaxed_u32(p);
    return quiet_guess;
}

static inline uint32_t
quiet_load_seqcst(const _Atomic uint32_t *p)
{
    if (quiet) {
        /* The count was taken back; this is the waiting word. */
        quiet = false;
        return 0;
    }
    uint32_t value = ae_load_seqcst_u32(p);

    quiet = p == quiet_epoch && value != quiet_guess;
    return value;
}

/* Somebody else is left in that epoch: the waiting word is not read. */
static inline uint32_t
quiet_fetch_add(_Atomic uint32_t *p, uint32_t n)
{
    uint32_t old = ae_fetch_add_seqcst_u32(p, n);

    quiet = quiet && old == 1;
    return old;
}

#define ae_load_relaxed_u32     quiet_load_relaxed
#define ae_load_seqcst_u32      quiet_load_seqcst
#define ae_fetch_add_seqcst_u32 quiet_fetch_add

#endif
