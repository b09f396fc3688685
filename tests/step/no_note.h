/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hw/iommu_command.c to weaken it: who finds the engine held
 * leaves no note.
 */
#ifndef NO_NOTE_H
#define NO_NOTE_H

#include "base/atomic.h"

/* From busy to busy with a note, see enum engine: as if it were done. */
static inline bool
no_note_cas(_Atomic uint32_t *p, uint32_t *expected, uint32_t desired)
{
    return (*expected == 1 && desired == 2) ||
           ae_cas_seqcst_u32(p, expected, desired);
}

#define ae_cas_seqcst_u32 no_note_cas

#endif
