/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: no grace period.
 */
#ifndef NO_GRACE_H
#define NO_GRACE_H

#include "base/rcu.h"

#define ae_rcu_synchronize() ((void)0)

#endif
