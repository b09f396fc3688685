/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_SNAPSHOT_H
#define AE_HV_SNAPSHOT_H

/*
 * Saving and loading a vCPU. See snapshot.c, kvmstate.c.
 */

#include <avicemu/state.h>

#include "hv/vcpu.h"

/* false: it does not fit. */
bool
ae_snapshot_save(struct avicemu_vcpu *vcpu, void *buf, size_t bytes,
                 size_t *ret_len);
/* 0 or -EPROTO; nothing changes on failure. */
int
ae_snapshot_load(struct avicemu_vcpu *vcpu, const void *buf, size_t len);

void
ae_kvm_export(struct avicemu_vcpu *vcpu, uint32_t flags,
              struct avicemu_kvm_lapic *ret);
/* 0 or -EINVAL. */
int
ae_kvm_import(struct avicemu_vcpu *vcpu, uint32_t flags,
              const struct avicemu_kvm_lapic *page);
int
ae_kvm_set_base(struct avicemu_vcpu *vcpu, uint64_t value);
void
ae_kvm_set_deadline(struct avicemu_vcpu *vcpu, uint64_t value);
void
ae_kvm_set_tsc_offset(struct avicemu_vcpu *vcpu, uint64_t offset);

/* Books of a whole new IRR: what was pending is lost, what is, is local. */
void
ae_snapshot_book_irr(struct avicemu_vcpu *vcpu,
                     const uint32_t irr[AE_VECTOR_WORDS]);

#endif
