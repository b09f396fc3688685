/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MODEL_LAPIC_H
#define MODEL_LAPIC_H

/*
 * A serial model of the local APICs of one VM, written from the manuals' facts
 * and from the public headers, and sharing no code with the library. It is
 * slow and plain on purpose: one byte per vector, no bit tricks, no threads,
 * the whole state in one struct that is copied to save it.
 *
 * The property test drives the library and this model in lockstep. Public
 * enums and result structs are the common language; nothing else is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <avicemu/avicemu.h>

#define MODEL_MAX_VCPUS 4
#define MODEL_NEVER     UINT64_MAX

/* Register offsets in the xAPIC page. */
enum model_offset {
    M_ID = 0x020,
    M_VERSION = 0x030,
    M_TPR = 0x080,
    M_APR = 0x090,
    M_PPR = 0x0a0,
    M_EOI = 0x0b0,
    M_RRR = 0x0c0,
    M_LDR = 0x0d0,
    M_DFR = 0x0e0,
    M_SVR = 0x0f0,
    M_ISR = 0x100,
    M_TMR = 0x180,
    M_IRR = 0x200,
    M_ESR = 0x280,
    M_CMCI = 0x2f0,
    M_ICR = 0x300,
    M_ICR2 = 0x310,
    M_LVTT = 0x320,
    M_THERMAL = 0x330,
    M_PERF = 0x340,
    M_LINT0 = 0x350,
    M_LINT1 = 0x360,
    M_LVTERR = 0x370,
    M_TMICT = 0x380,
    M_TMCCT = 0x390,
    M_TDCR = 0x3e0,
    M_SELF_IPI = 0x3f0,
    M_EAFR = 0x400,
    M_EACR = 0x410,
    M_SEOI = 0x420,
    M_IER = 0x480,
    M_EXT_LVT = 0x500,
};

#define M_BASE_BSP         (1ull << 8)
#define M_BASE_EXTD        (1ull << 10)
#define M_BASE_EN          (1ull << 11)
#define M_SVR_ENABLE       0x100u
#define M_SVR_FOCUS_OFF    0x200u
#define M_SVR_DIRECTED     0x1000u
#define M_LVT_RIR          0x4000u
#define M_LVT_LEVEL        0x8000u
#define M_LVT_MASK         0x10000u
#define M_ESR_SEND_ILLEGAL 0x20u
#define M_ESR_RECV_ILLEGAL 0x40u
#define M_ESR_BAD_ADDRESS  0x80u

enum model_phase {
    M_OUTSIDE,
    M_ENTERED,
    M_BLOCKED
};

enum model_timer_mode {
    M_ONE_SHOT,
    M_PERIODIC,
    M_DEADLINE,
    M_RESERVED
};

struct model_config {
    struct avicemu_lapic_config lapic; /* no zero left in rates, features */
    uint32_t bsp_apic_id;
    bool has_inta;
};

/* What the VMM would have seen through its callbacks. */
struct model_calls {
    uint64_t eois;
    uint8_t last_eoi;
    uint64_t intas;
    uint64_t bases;
    uint64_t last_base;
    bool may_kick, must_kick; /* since enter */
    bool may_wake, must_wake; /* since block_begin */
};

struct model_counts {
    uint64_t entries, injected, extint, nmi, smi, init, sipi;
    uint64_t eoi, eoi_broadcast, ipi_sent, ipi_new, ipi_merged, ipi_dropped;
    uint64_t gp, mmio_odd, blocks;
};

struct model_vcpu {
    struct model_vm *vm;
    unsigned index;
    uint32_t initial_id;

    uint64_t apic_base;
    uint32_t reg[256]; /* by offset / 16; not what is computed */
    uint8_t irr[256], isr[256], tmr[256];
    uint32_t x2_id;

    uint32_t esr_acc;   /* the hidden copy */
    uint32_t esr_fresh; /* newly set there, LVT error not raised yet */
    bool esr_check;     /* look at esr_fresh */
    bool esr_spent;     /* Intel: raised since the last write of ESR */

    bool running;      /* a count is under way */
    uint64_t target;   /* in edges of the bus clock: when it reaches 0 */
    uint64_t deadline; /* armed TSC value, 0: none */
    uint64_t waiting;  /* TSC value set by the host for deadline mode */
    uint32_t backlog;  /* BURST: ticks to make up for */
    bool poked;        /* an error that others caused waits to be seen */
    bool expired;      /* the host said so; the owner has not looked yet */
    uint64_t tsc_offset;

    uint32_t nr_nmi;
    bool smi, init, sipi;
    uint8_t sipi_vector;
    bool extint;         /* an ExtINT message waits */
    bool extint_latched; /* INTA was done, not yet acked */
    uint8_t extint_vector;
    bool pin[2];

    bool wait_for_sipi, halted;
    enum model_phase phase;
    uint32_t flags; /* of the last exit */

    struct model_calls calls;
    struct model_counts counts;
};

struct model_vm {
    struct model_config config;
    uint64_t now;
    unsigned nr_vcpus;
    struct model_vcpu vcpus[MODEL_MAX_VCPUS];
};

/* ---- model_lapic.c: registers ------------------------------------------- */

void
model_vm_init(struct model_vm *vm, const struct model_config *config);
struct model_vcpu *
model_vcpu_add(struct model_vm *vm, uint32_t apic_id);
/* APIC_BASE after RESET. */
uint64_t
model_fresh_base(const struct model_vcpu *v);
/* APIC_BASE was old: is the host told? */
void
model_tell_base(struct model_vcpu *v, uint64_t old);
void
model_reset(struct model_vcpu *v);
void
model_init(struct model_vcpu *v);
void
model_registers_reset(struct model_vcpu *v);

bool
model_is(const struct model_vcpu *v, enum avicemu_personality who);
bool
model_feature(const struct model_vcpu *v, uint32_t feature);
bool
model_bsp(const struct model_vcpu *v);
enum avicemu_apic_mode
model_mode(const struct model_vcpu *v);
bool
model_software_enabled(const struct model_vcpu *v);
uint32_t
model_get(const struct model_vcpu *v, uint32_t offset);
void
model_set(struct model_vcpu *v, uint32_t offset, uint32_t value);

/* Is there such a register in any mode? Then *ret is its value. */
bool
model_peek(const struct model_vcpu *v, uint32_t offset, uint32_t *ret);
uint32_t
model_ppr(const struct model_vcpu *v);
uint32_t
model_apr_amd(const struct model_vcpu *v);
int
model_top(const uint8_t *vectors);
int
model_top_irr(const struct model_vcpu *v);
int
model_deliverable(const struct model_vcpu *v);
void
model_error(struct model_vcpu *v, uint32_t bits);
void
model_sync_errors(struct model_vcpu *v);
void
model_look(struct model_vcpu *v);

/* ---- model_access.c: what guest accesses do ----------------------------- */

enum avicemu_access
model_mmio_read(struct model_vcpu *v, uint64_t gpa, unsigned len,
                uint8_t *data);
enum avicemu_access
model_mmio_write(struct model_vcpu *v, uint64_t gpa, unsigned len,
                 const uint8_t *data);
enum avicemu_access
model_msr_read(struct model_vcpu *v, uint32_t msr, uint64_t *ret);
enum avicemu_access
model_msr_write(struct model_vcpu *v, uint32_t msr, uint64_t value);
enum avicemu_access
model_cr8_write(struct model_vcpu *v, uint64_t value);
int
model_host_apic_base(struct model_vcpu *v, uint64_t value);

/* ---- model_masks.c: tables ---------------------------------------------- */

bool
model_is_ext_lvt(uint32_t offset);
bool
model_has_xapic(const struct model_vcpu *v, uint32_t offset);
bool
model_has_x2apic(const struct model_vcpu *v, uint32_t offset);
bool
model_write_only(uint32_t offset);
bool
model_read_only(const struct model_vcpu *v, uint32_t offset);
/* Bits that stick in a register, and that #GP in x2APIC mode. */
uint32_t
model_sticks(const struct model_vcpu *v, uint32_t offset);
uint64_t
model_reserved(const struct model_vcpu *v, uint32_t offset);

/* ---- model_timer.c ------------------------------------------------------ */

enum model_timer_mode
model_timer_mode(const struct model_vcpu *v);
void
model_timer_resume(struct model_vcpu *v, uint64_t count);
void
model_timer_account(struct model_vcpu *v);
void
model_timer_stop(struct model_vcpu *v);
void
model_timer_write_count(struct model_vcpu *v, uint32_t count);
void
model_timer_write_divide(struct model_vcpu *v, uint32_t value);
void
model_timer_write_lvt(struct model_vcpu *v, uint32_t value);
void
model_timer_write_deadline(struct model_vcpu *v, uint64_t value);
uint64_t
model_timer_read_deadline(struct model_vcpu *v);
uint32_t
model_timer_count(const struct model_vcpu *v);
uint64_t
model_timer_deadline(const struct model_vcpu *v);
void
model_timer_acked(struct model_vcpu *v, uint8_t vector);

/* ---- model_route.c: messages and pins ----------------------------------- */

struct model_message {
    enum avicemu_delivery mode;
    uint8_t vector;
    bool level, assert_, logical, from_msi, hint;
    uint32_t dest;
};

struct avicemu_posted
model_none(enum avicemu_drop why);
enum avicemu_post
model_accept(struct model_vcpu *v, uint8_t vector, bool level,
             enum avicemu_drop *why);
enum avicemu_post
model_post_mode(struct model_vcpu *v, enum avicemu_delivery mode,
                uint8_t vector);
struct avicemu_posted
model_msi(struct model_vm *vm, uint64_t address, uint32_t data);
void
model_send_icr(struct model_vcpu *sender, uint32_t low, uint32_t dest);
void
model_self_ipi(struct model_vcpu *sender, uint8_t vector);
enum avicemu_post
model_lvt_deliver(struct model_vcpu *v, uint32_t offset, bool level);
enum avicemu_post
model_local(struct model_vcpu *v, enum avicemu_lvt source);
enum avicemu_post
model_lint(struct model_vcpu *v, unsigned pin, bool level);
void
model_lint_evaluate(struct model_vcpu *v, unsigned pin);

/* ---- model_cpu.c: the vCPU loop ----------------------------------------- */

int
model_enter(struct model_vcpu *v, uint32_t flags, struct avicemu_todo *ret);
int
model_ack(struct model_vcpu *v, enum avicemu_do what, uint8_t vector);
int
model_exit(struct model_vcpu *v, uint32_t flags, uint32_t cr8);
bool
model_runnable(const struct model_vcpu *v);
enum avicemu_sleep
model_block_begin(struct model_vcpu *v);
bool
model_accepts_pic(const struct model_vcpu *v);
bool
model_extint_pending(const struct model_vcpu *v);
void
model_expire(struct model_vcpu *v);
void
model_notify(struct model_vcpu *v, bool matters);
/* The vector that the n-th INTA cycle of a vCPU returns, n from 0. */
uint8_t
model_inta_vector(uint64_t n);

/* ---- model_state.c: saving and loading ---------------------------------- */

/* Load what was saved; the timer goes on with the time that remained. */
void
model_restore(struct model_vcpu *v, const struct model_vcpu *saved,
              uint64_t saved_now);
void
model_export(struct model_vcpu *v, uint32_t flags,
             struct avicemu_kvm_lapic *page);
void
model_import(struct model_vcpu *v, const struct avicemu_kvm_lapic *page);
void
model_host_deadline(struct model_vcpu *v, uint64_t value);

#endif
