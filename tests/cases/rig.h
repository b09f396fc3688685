/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RIG_H
#define RIG_H

/*
 * A VM on a test bench: a fake VMM, a host, a VM and its vCPUs, with the few
 * moves that scripts of cases are made of. Register offsets are typed from
 * the manuals here, not taken from the library's table.
 *
 *     static void
 *     case_x(void **state)
 *     {
 *         struct rig *rig = *state;
 *
 *         assert_int_equal(avicemu_post(rig->v[0], 0x40, EDGE), NEW);
 *         assert_int_equal(rig_take(rig, 0), 0x40);
 *     }
 *
 * A rig's vCPUs run (the APs had their SIPI), their APICs are in xAPIC mode
 * and software-enabled (SVR = 1FFh), and TPR is 0.
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <cmocka.h>

#include <avicemu/avicemu.h>
#include <avicemu/hw/core.h>

#include "fake_vmm.h"

/* Byte offsets in the APIC page. [APM2 16.3.2 Table 16-2] */
enum reg {
    R_ID = 0x020,
    R_VERSION = 0x030,
    R_TPR = 0x080,
    R_APR = 0x090,
    R_PPR = 0x0a0,
    R_EOI = 0x0b0,
    R_RRR = 0x0c0,
    R_LDR = 0x0d0,
    R_DFR = 0x0e0,
    R_SVR = 0x0f0,
    R_ISR = 0x100,
    R_TMR = 0x180,
    R_IRR = 0x200,
    R_ESR = 0x280,
    R_CMCI = 0x2f0,
    R_ICR = 0x300,
    R_ICR2 = 0x310,
    R_LVTT = 0x320,
    R_THERMAL = 0x330,
    R_PERF = 0x340,
    R_LINT0 = 0x350,
    R_LINT1 = 0x360,
    R_ERROR = 0x370,
    R_TMICT = 0x380,
    R_TMCCT = 0x390,
    R_TDCR = 0x3e0,
    R_SELF_IPI = 0x3f0,
    R_EAFR = 0x400,
    R_EACR = 0x410,
    R_SEOI = 0x420,
    R_IER = 0x480,
    R_EXT0 = 0x500,
};

#define MSR_APIC_BASE    0x1bu
#define MSR_TSC_DEADLINE 0x6e0u
#define MSR_X2APIC       0x800u

#define BASE_BSP  0x100u
#define BASE_EXTD 0x400u
#define BASE_EN   0x800u
#define BASE_PAGE 0xfee00000ull

/* ICR low. [APM2 16.5] */
#define ICR_FIXED   0x000u
#define ICR_LOWEST  0x100u
#define ICR_SMI     0x200u
#define ICR_REMOTE  0x300u
#define ICR_NMI     0x400u
#define ICR_INIT    0x500u
#define ICR_SIPI    0x600u
#define ICR_EXTINT  0x700u
#define ICR_LOGICAL 0x800u
#define ICR_BUSY    0x1000u
#define ICR_ASSERT  0x4000u
#define ICR_LEVEL   0x8000u
#define ICR_SELF    0x40000u
#define ICR_ALL     0x80000u
#define ICR_OTHERS  0xc0000u

#define LVT_MASKED   0x10000u
#define LVT_PERIODIC 0x20000u
#define LVT_DEADLINE 0x40000u

#define TDCR_BY_1  0xbu
#define TDCR_BY_2  0x0u
#define TDCR_BY_16 0x3u

#define ESR_SEND_ILLEGAL     0x20u
#define ESR_RECEIVE_ILLEGAL  0x40u
#define ESR_ILLEGAL_REGISTER 0x80u

#define EDGE    AVICEMU_TRIGGER_EDGE
#define LEVEL   AVICEMU_TRIGGER_LEVEL
#define NEW     AVICEMU_POST_NEW
#define MERGED  AVICEMU_POST_MERGED
#define DROPPED AVICEMU_POST_DROPPED
#define DONE    AVICEMU_ACCESS_DONE
#define GP      AVICEMU_ACCESS_GP
#define UNCLAIM AVICEMU_ACCESS_UNCLAIMED
#define IF      AVICEMU_CPU_IF

/* What a test wants; zeros are defaults. */
struct rig_setup {
    struct avicemu_lapic_config lapic;
    uint32_t nr_vcpus; /* 0: 1 */
    uint32_t nr_ids;   /* of ids; vCPUs beyond have their index */
    uint32_t ids[8];
    uint32_t flags; /* AVICEMU_VM_* */
    int as_created; /* 1: leave the vCPUs as they were created */
    uint32_t avic;  /* AVICEMU_HOST_*; not 0: the VM has AVIC */
    enum avicemu_doorbell_mode doorbells;
    uint32_t nr_pcpus;
    uint32_t max_apic_id;
    int unloaded; /* 1: with AVIC, on no physical CPU; else on their index */
    /* Instead of the fake VMM's own. */
    void (*eoi)(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector);
};

struct rig {
    struct fake_vmm vmm;
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    int loads; /* vCPUs that are added are loaded */
    uint32_t nr_vcpus;
    struct avicemu_vcpu *v[FAKE_MAX_VCPUS];
    /* The host's callbacks: how often, and the last interrupt of its own. */
    _Atomic uint32_t ga_interrupts, event_interrupts, host_interrupts;
    uint32_t host_index;
    struct fake_vcpu *fake;   /* of the vCPUs, by index */
    struct avicemu_todo todo; /* of the last entry */
};

/* cmocka fixtures; initial state: a struct rig_setup. */
int
rig_setup(void **state);
int
rig_teardown(void **state);

/* Three rows of a table: the same case per personality. */
#define AMD   AVICEMU_PERSONALITY_AMD
#define INTEL AVICEMU_PERSONALITY_INTEL
#define KVM   AVICEMU_PERSONALITY_KVM

/* In a setup: P(AMD), P(KVM, .bus_hz = 5). */
#define P(...) .lapic = { .personality = __VA_ARGS__ }

#define RIG_TEST(name_, fn_, ...)                                           \
    {                                                                       \
        .name = (name_), .test_func = (fn_), .setup_func = rig_setup,       \
        .teardown_func = rig_teardown, .initial_state = &(struct rig_setup) \
        {                                                                   \
            __VA_ARGS__                                                     \
        }                                                                   \
    }

#define RIG_EACH(name_, fn_, ...)                               \
    RIG_TEST(name_ " (AMD)", fn_, P(AMD), __VA_ARGS__),         \
        RIG_TEST(name_ " (Intel)", fn_, P(INTEL), __VA_ARGS__), \
        RIG_TEST(name_ " (KVM)", fn_, P(KVM), __VA_ARGS__)

/* With AVIC: all that the silicon can have, or without x2AVIC (hybrid). */
#define RIG_X2AVIC \
    (AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC | AVICEMU_HOST_X2AVIC_EXT)
#define RIG_HYBRID AVICEMU_HOST_AVIC

#define RIG_EACH_AVIC(name_, fn_, ...)                                         \
    RIG_TEST(name_ " (AMD, AVIC)", fn_, P(AMD), .avic = RIG_X2AVIC,            \
             __VA_ARGS__),                                                     \
        RIG_TEST(name_ " (KVM, AVIC)", fn_, P(KVM), .avic = RIG_X2AVIC,        \
                 __VA_ARGS__),                                                 \
        RIG_TEST(name_ " (KVM, hybrid AVIC)", fn_, P(KVM), .avic = RIG_HYBRID, \
                 __VA_ARGS__)

/* For tests that need several; rig_close() checks the invariants. */
struct rig *
rig_open(const struct rig_setup *setup);
void
rig_close(struct rig *rig);

/* Another vCPU, started and enabled. Returns its index. */
uint32_t
rig_add(struct rig *rig, uint32_t apic_id);

/* ---- registers: by page or MSR, as the mode says ------------------------ */

enum avicemu_access
reg_try(struct avicemu_vcpu *v, uint32_t offset, uint64_t value);
/* As reg_try(), must be DONE. */
void
reg_w(struct avicemu_vcpu *v, uint32_t offset, uint64_t value);
uint32_t
reg_r(struct avicemu_vcpu *v, uint32_t offset);
/* No side effect, in every mode. */
uint32_t
reg_peek(struct avicemu_vcpu *v, uint32_t offset);

void
msr_w(struct avicemu_vcpu *v, uint32_t msr, uint64_t value);
uint64_t
msr_r(struct avicemu_vcpu *v, uint32_t msr);

/* Bit of a vector in the map that begins at offset R_ISR, R_TMR or R_IRR. */
int
vec_bit(struct avicemu_vcpu *v, uint32_t map, uint8_t vector);

/* xAPIC -> x2APIC. */
void
to_x2apic(struct avicemu_vcpu *v);
/* Both ways of disabling. */
void
hw_disable(struct avicemu_vcpu *v);
void
hw_enable(struct avicemu_vcpu *v);

/* Send by the ICR: high (if xAPIC), then low. */
void
icr_send(struct avicemu_vcpu *v, uint32_t dest, uint32_t low);

/* The clock goes on; whose deadline has passed is told so. */
void
rig_time(struct rig *rig, uint64_t ticks);

/* ---- the run loop ------------------------------------------------------- */

/* Highest deliverable vector; -1: none. */
int
scan(struct avicemu_vcpu *v);
/* Enter with these AVICEMU_CPU_* and stay inside. Returns todo.what. */
uint32_t
rig_enter(struct rig *rig, uint32_t i, uint32_t flags);
void
rig_exit(struct rig *rig, uint32_t i, uint32_t flags);
/* Enter, ack what todo wants (if ack), exit. Returns todo.what. */
uint32_t
rig_run(struct rig *rig, uint32_t i, uint32_t flags);
/* One entry with IF = 1: the vector that was injected and acked; or -1. */
int
rig_take(struct rig *rig, uint32_t i);
void
eoi(struct avicemu_vcpu *v);

/* ---- AVIC --------------------------------------------------------------- */

/* 8 bytes of the VMCB at an offset. */
uint64_t
rig_vmcb(struct avicemu_vcpu *v, uint32_t offset);
/* The entry of a guest physical id in the physical table; and of an index in
 * the logical one. */
uint64_t
rig_physical(struct avicemu_vcpu *v, uint32_t id);
uint32_t
rig_logical(struct avicemu_vcpu *v, uint32_t index);
enum avicemu_avic_state
rig_avic(struct rig *rig, uint32_t i);

struct avicemu_vcpu_view
rig_view(struct avicemu_vcpu *v);
struct avicemu_vcpu_stats
rig_stats(struct avicemu_vcpu *v);
/* Bit i: the vector is in vCPU i's IRR. */
uint32_t
rig_irr_mask(struct rig *rig, uint8_t vector);
/* Empty the IRR of all vCPUs. */
void
rig_drain(struct rig *rig);
/* avicemu_check_invariants() must find nothing. */
void
rig_check(struct rig *rig);

#endif
