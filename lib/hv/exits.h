/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_EXITS_H
#define AE_HV_EXITS_H

/*
 * Guest accesses to the APIC as hardware with AVIC takes them, and the
 * handlers of the exits that are left. See exits.c.
 */

#include "hv/vcpu.h"

/* As the functions of hv/vcpu.h, which they call without AVIC. Owner, also
 * between enter and exit. */
enum avicemu_access
ae_exits_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                   void *data);
enum avicemu_access
ae_exits_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, uint32_t len,
                    const void *data);
enum avicemu_access
ae_exits_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret);
enum avicemu_access
ae_exits_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value);
enum avicemu_access
ae_exits_cr8_write(struct avicemu_vcpu *vcpu, uint64_t value);

/* Handle the exit that an access left behind; UNCLAIMED: there is none. */
enum avicemu_access
ae_exits_handle(struct avicemu_vcpu *vcpu, uint64_t *ret);

#endif
