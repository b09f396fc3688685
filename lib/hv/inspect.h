/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_INSPECT_H
#define AE_HV_INSPECT_H

/*
 * Looking at a vCPU without changing it. See inspect.c.
 */

#include "base/text.h"
#include "hv/vcpu.h"

void
ae_inspect_view(struct avicemu_vcpu *vcpu, struct avicemu_vcpu_view *ret);
void
ae_inspect_dump(struct avicemu_vcpu *vcpu, struct ae_text *t);
void
ae_inspect_books(struct avicemu_vcpu *vcpu, uint8_t vector,
                 struct avicemu_vcpu_books *ret);

#endif
