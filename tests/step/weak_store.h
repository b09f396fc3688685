/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: seq_cst stores become
 * release stores, as if the four-access rule were not known.
 */
#ifndef WEAK_STORE_H
#define WEAK_STORE_H

#include "base/atomic.h"

#define ae_store_seqcst_u32 ae_store_release_u32
#define ae_store_seqcst_u64 ae_store_release_u64

#endif
