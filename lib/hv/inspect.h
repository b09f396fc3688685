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
/* IPIs of the pair that were NEW; NULL: of all that are gone, for one. */
uint64_t
ae_inspect_ipi_new_to(const struct avicemu_vcpu *sender,
                      const struct avicemu_vcpu *target);

#endif
