/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: an interrupt that has
 * counted itself does not look whether the epoch still is the one it guessed.
 */
#ifndef BLIND_ENTER_H
#define BLIND_ENTER_H

#include "base/atomic.h"

/* The epoch is the only word that is read relaxed there. */
static _Thread_local const _Atomic uint32_t *blind_word;
static _Thread_local uint32_t blind_guess;

static inline uint32_t
blind_load_relaxed(const _Atomic uint32_t *p)
{
    blind_word = p;
    blind_guess = ae_load_relaxed_u32(p);
    return blind_guess;
}

static inline uint32_t
blind_load_seqcst(const _Atomic uint32_t *p)
{
    return p == blind_word ? blind_guess : ae_load_seqcst_u32(p);
}

#define ae_load_relaxed_u32 blind_load_relaxed
#define ae_load_seqcst_u32  blind_load_seqcst

#endif
