/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's patch as it was posted: as rcu_hash, but without a grace period
 * between removal and free. For correctness tests only: it has both windows, G1
 * inside the read section and G2 between look-up and wake.
 */
#define RIVAL_NO_GRACE_PERIOD
#include "../rcu_hash/vmtable_impl.h"
