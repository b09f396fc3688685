/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_HALT_H
#define AE_HV_HALT_H

/*
 * Waiting: when a vCPU may sleep, and what ends it. See halt.c.
 */

#include "hv/deliver.h"

/* Is there a reason to run? Owner. */
bool
ae_halt_runnable(struct avicemu_vcpu *vcpu);

/* YES: the state is blocked now. NO: it is not, there is work. Owner. */
enum avicemu_sleep
ae_halt_begin(struct avicemu_vcpu *vcpu);

/* 0, -EBUSY if no block was begun. Owner. */
int
ae_halt_end(struct avicemu_vcpu *vcpu);

#endif
