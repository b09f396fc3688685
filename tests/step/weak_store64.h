/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: seq_cst stores of eight
 * bytes become release stores.
 */
#ifndef WEAK_STORE64_H
#define WEAK_STORE64_H

#include "base/atomic.h"

#define ae_store_seqcst_u64 ae_store_release_u64

#endif
