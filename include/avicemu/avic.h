/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_AVIC_H
#define AVICEMU_AVIC_H

/*
 * AVIC and x2AVIC as a VMM author sees them: where the vCPUs run, guest
 * accesses that need no exit, the exits that are left, and the reasons that
 * keep AVIC off.
 *
 * A VM has AVIC if its host's silicon has it (avicemu_host_config.avic) and
 * its flags ask for it (AVICEMU_VM_AVIC). Its vCPUs then have a VMCB and
 * entries in the VM's APIC id tables; an IPI between them is an IRR bit, one
 * read of IsRunning and a doorbell. The hardware model alone, on tables of
 * your own, is in <avicemu/hw/core.h>.
 */

#include <avicemu/vcpu.h>
#include <avicemu/vm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the host's silicon: avicemu_host_config.avic ----------------------- */

#define AVICEMU_HOST_AVIC       (1u << 0) /* Fn8000_000A EDX[13] */
#define AVICEMU_HOST_X2AVIC     (1u << 1) /* EDX[18] */
#define AVICEMU_HOST_X2AVIC_EXT (1u << 2) /* ECX[6]: ids to 4095, else 511 */
#define AVICEMU_HOST_EXT_LVT    (1u << 3) /* EDX[27] */
/* Family 17h: IPI virtualisation is off, as with AVICEMU_VM_NO_IPIV. */
#define AVICEMU_HOST_ERRATUM_1235 (1u << 4)

/* ---- where a vCPU runs -------------------------------------------------- */

/**
 * The vCPU's thread was scheduled in on a physical CPU: senders see IsRunning
 * and that CPU's APIC id, and ring its doorbell. A vCPU that was never loaded
 * is found by exits and kicks: slower, and just as safe.
 *
 * @param pcpu  host APIC id, 0..4095. Of the vCPUs that are loaded on one, at
 *              most one may be between enter and exit: it hears the doorbell
 * @return 0, -EINVAL, -EBUSY (between enter and exit)
 *
 * Between block_begin and block_end it is only noted; block_end takes it up.
 * Threads: owner. Progress: wait-free.
 * Spec: [APM2 15.29.5 IsRunning]
 */
AVICEMU_API int
avicemu_vcpu_load(struct avicemu_vcpu *vcpu, uint32_t pcpu);

/** The vCPU's thread was scheduled out. @return 0, -EBUSY (as above) */
AVICEMU_API int
avicemu_vcpu_put(struct avicemu_vcpu *vcpu);

/** When avicemu_vcpu_recheck() has to look at the APIC page. */
enum avicemu_recheck {
    AVICEMU_RECHECK_DOORBELL, /* if the doorbell was rung */
    AVICEMU_RECHECK_ALWAYS,   /* the guest set IF or GIF, a shadow or an
                                 injection ended, or EOI, TPR or CR8 was
                                 written */
};

/**
 * Between enter and exit, with AVIC active: what does hardware deliver now,
 * without an exit? For hosts whose doorbells are words
 * (AVICEMU_DOORBELL_WORD): their runner calls it between guest instructions.
 *
 * @param cpu  flags as for enter
 * @param ret  what: INJECT or 0; vector; cr8. ack what was injected
 * @return 0; -EAGAIN (the doorbell was not rung: nothing read or written);
 *         -EINVAL;
 *         -EBUSY (not between enter and exit); -EOPNOTSUPP (AVIC not active)
 *
 * Threads: owner. Progress: wait-free. Unrung it costs one load.
 * Ordering: the doorbell is taken first, then IRR is read.
 * Spec: [APM2 15.29.8.2 doorbell]
 */
AVICEMU_API int
avicemu_vcpu_recheck(struct avicemu_vcpu *vcpu, enum avicemu_recheck when,
                     const struct avicemu_cpu *cpu, struct avicemu_todo *ret);

/* ---- exits -------------------------------------------------------------- */

/*
 * Guest accesses (avicemu_mmio_*, avicemu_msr_*, avicemu_cr8_write) of a VM
 * with AVIC may also be made between enter and exit. What hardware completes
 * there is DONE; what causes a #VMEXIT gives AVICEMU_ACCESS_EXIT: then call
 * avicemu_vcpu_exit() and avicemu_vcpu_handle_exit(), which does the rest of
 * the access. Until then enter, reset, destroy and every call that saves or
 * loads state return -EBUSY. Made outside, an access exits and is handled in
 * the same call. Reads in the guest are of at most 8 bytes.
 */

/**
 * Handle the exit of an access that gave AVICEMU_ACCESS_EXIT: emulate it, or
 * complete the IPI, as the exit's code and failure id ask for.
 *
 * @param ret  the value of a read; may be NULL for a write
 * @return DONE, GP; UNCLAIMED: there is no such exit
 *
 * Threads: owner, outside.
 * Spec: [APM2 15.29.9.1 incomplete IPI], [APM2 15.29.9.2 no acceleration]
 */
AVICEMU_API enum avicemu_access
avicemu_vcpu_handle_exit(struct avicemu_vcpu *vcpu, uint64_t *ret);

/** The vCPU's VMCB, 4096 bytes as <avicemu/hw/core.h> describes them; NULL
 * without AVIC. Its exit fields are those of the last AVIC exit. Owner. */
AVICEMU_API const void *
avicemu_vcpu_vmcb(const struct avicemu_vcpu *vcpu);

/** How a vCPU's APIC is accelerated now. */
enum avicemu_avic_state {
    AVICEMU_AVIC_OFF,
    AVICEMU_AVIC_XAVIC,
    AVICEMU_AVIC_X2AVIC,
    AVICEMU_AVIC_HYBRID, /* x2APIC guest, no x2AVIC: posts and doorbells only */
};

/** The state as of the last enter. Owner. */
AVICEMU_API enum avicemu_avic_state
avicemu_vcpu_avic(const struct avicemu_vcpu *vcpu);

/** Does the guest's access to this MSR pass without an intercept now, by the
 * VMCB's MSR permission map? 0 or 1. Owner. */
AVICEMU_API int
avicemu_vcpu_msr_passes(const struct avicemu_vcpu *vcpu, uint32_t msr,
                        int write);

/* ---- inhibits ----------------------------------------------------------- */

/** Why AVIC is off: bit numbers of the inhibit word. [KVM] numbering. */
enum avicemu_inhibit {
    AVICEMU_INHIBIT_DISABLED,
    AVICEMU_INHIBIT_HYPERV,
    AVICEMU_INHIBIT_ABSENT,
    AVICEMU_INHIBIT_BLOCKIRQ,
    AVICEMU_INHIBIT_PHYSICAL_ID_ALIASED, /* the library's: APIC map */
    AVICEMU_INHIBIT_APIC_ID_MODIFIED,    /* likewise */
    AVICEMU_INHIBIT_APIC_BASE_MODIFIED,  /* the library's: never cleared */
    AVICEMU_INHIBIT_NESTED,
    AVICEMU_INHIBIT_IRQWIN,
    AVICEMU_INHIBIT_PIT_REINJ,
    AVICEMU_INHIBIT_SEV,
    AVICEMU_INHIBIT_LOGICAL_ID_ALIASED,  /* the library's: APIC map */
    AVICEMU_INHIBIT_PHYSICAL_ID_TOO_BIG, /* the library's: never cleared */
    AVICEMU_NR_INHIBIT,
};

/**
 * Set or clear a reason of the VMM's own. Each vCPU follows at its next enter;
 * those in the guest are kicked, blocked ones are not woken.
 *
 * @param on  0 or 1
 * @return 0; -EINVAL (a reason that the library keeps itself);
 *         -EOPNOTSUPP (VM without AVIC)
 *
 * Threads: any. Progress: bounded by the number of vCPUs; calls kick.
 */
AVICEMU_API int
avicemu_vm_inhibit(struct avicemu_vm *vm, enum avicemu_inhibit reason, int on);

/** The inhibit word: OR of 1 << reason; 0: AVIC may be active. Any thread. */
AVICEMU_API uint32_t
avicemu_vm_inhibits(const struct avicemu_vm *vm);

#ifdef __cplusplus
}
#endif

#endif
