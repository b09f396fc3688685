/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_STATE_H
#define AVICEMU_STATE_H

/*
 * Saving, restoring and migrating a vCPU's interrupt state.
 *
 * Two formats. The library's own snapshot holds everything. The KVM format is
 * what KVM_GET_LAPIC, KVM_GET_MSRS tell: a 1 KiB register page, APIC_BASE and
 * TSC_DEADLINE; its three pieces and the TSC offset may be set in any order
 * with the same result.
 *
 * All calls here are the owner's, outside enter .. exit and outside a block.
 */

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that are enough for any snapshot that this version writes. */
#define AVICEMU_SNAPSHOT_BYTES 4096

/**
 * Save a vCPU: registers, timer (as the time that remains), pending NMI, SMI,
 * INIT, SIPI, wait-for-SIPI, halted, LINT lines, latched ExtINT.
 *
 * @param buf      written
 * @param bytes    its size; AVICEMU_SNAPSHOT_BYTES is enough
 * @param ret_len  bytes written
 * @return 0, -EINVAL (NULL, or too small), -EBUSY (entered)
 */
AVICEMU_API int
avicemu_vcpu_snapshot(struct avicemu_vcpu *vcpu, void *buf, size_t bytes,
                      size_t *ret_len);

/**
 * Load a snapshot into a vCPU of a VM with the same personality and features.
 * Interrupts that were pending before are lost and counted as cleared.
 *
 * @return 0; -EPROTO (not a snapshot, another version, truncated, a value out
 *         of range, another model or initial APIC id); -EBUSY (entered). On
 *         failure nothing has changed
 */
AVICEMU_API int
avicemu_vcpu_restore(struct avicemu_vcpu *vcpu, const void *buf, size_t len);

/** KVM's LAPIC page: registers at their xAPIC offsets. */
struct avicemu_kvm_lapic {
    uint8_t regs[1024];
};

/* How the id at 020h is written in x2APIC mode. */
#define AVICEMU_KVM_32BIT_IDS (1u << 0) /* KVM_X2APIC_API_USE_32BIT_IDS */

/**
 * Export what KVM_GET_LAPIC would. TMCCT is computed now; ICR is split.
 *
 * @param flags  AVICEMU_KVM_*
 * @return 0, -EINVAL, -EBUSY (entered)
 */
AVICEMU_API int
avicemu_vcpu_export_kvm(struct avicemu_vcpu *vcpu, uint32_t flags,
                        struct avicemu_kvm_lapic *ret);

/**
 * Import a page as KVM_SET_LAPIC does: PPR, version and the x2APIC LDR are
 * recomputed; TMCCT is what remains of a running count.
 *
 * @param flags  AVICEMU_KVM_32BIT_IDS: in x2APIC mode 020h must be the id
 * @return 0, -EINVAL (NULL, flags, the id), -EBUSY (entered)
 */
AVICEMU_API int
avicemu_vcpu_import_kvm(struct avicemu_vcpu *vcpu, uint32_t flags,
                        const struct avicemu_kvm_lapic *page);

/** Host's own access to APIC_BASE: no transition is refused.
 * @return 0, -EINVAL (reserved bits, or EXTD without EN), -EBUSY */
AVICEMU_API int
avicemu_vcpu_set_apic_base(struct avicemu_vcpu *vcpu, uint64_t value);

/** Host's own access to TSC_DEADLINE. Before the LVT timer is in deadline mode
 * the value waits for it. @return 0, -EOPNOTSUPP (no such feature), -EBUSY */
AVICEMU_API int
avicemu_vcpu_set_tsc_deadline(struct avicemu_vcpu *vcpu, uint64_t value);

/** The armed or waiting deadline; 0: none. @return 0, -EINVAL */
AVICEMU_API int
avicemu_vcpu_get_tsc_deadline(struct avicemu_vcpu *vcpu, uint64_t *ret);

/** Guest TSC = now * tsc_hz / now_hz + offset, modulo 2^64. An armed deadline
 * follows. Owner, outside enter .. exit. @return 0, -EBUSY */
AVICEMU_API int
avicemu_vcpu_set_tsc_offset(struct avicemu_vcpu *vcpu, uint64_t offset);

#ifdef __cplusplus
}
#endif

#endif
