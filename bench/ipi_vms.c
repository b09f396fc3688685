/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The VMs and the paths of the IPI benchmarks. See ipi_vms.h.
 */

#include "ipi_vms.h"

#include <stdlib.h>

#define MSR_ICR      0x830u
#define MSR_SELF_IPI 0x83fu
#define REG_LDR      0x0d0u
#define REG_ICR_LOW  0x300u
#define REG_ICR_HIGH 0x310u
#define REG_SELF_IPI 0x3f0u
#define APIC_PAGE    0xfee00000ull
#define ICR_ASSERT   (1u << 14)
#define ICR_LOGICAL  (1u << 11)
#define ICR_SELF     (1u << 18)
#define ICR_OTHERS   (3u << 18)
#define VECTOR       0x41u
#define FLAT_BITS    8u
#define BURST        64u

/* What the crowd does. */
enum path {
    PATH_IDLE,
    PATH_ACCEL,
    PATH_TRAP,
    PATH_RIVAL,
};

/* ---- sending ------------------------------------------------------------ */

/* What a guest writes to send VECTOR to this vCPU: ICR high and low. */
static uint64_t
icr_to(const struct ipi_vms *p, uint32_t id)
{
    uint64_t dest = id;
    uint32_t low = ICR_ASSERT | VECTOR;

    if (p->dest == IPI_LOGICAL) {
        low |= ICR_LOGICAL;
        dest = p->mode == VMM_X2APIC ? (id >> 4) << 16 | 1u << (id & 15)
                                     : 1u << (id - 1);
    }
    return (p->mode == VMM_X2APIC ? dest : dest << 24) << 32 | low;
}

/* ... for the ith IPI of a sample. */
static uint64_t
icr_of(const struct ipi_vms *p, uint64_t i)
{
    switch (p->dest) {
    case IPI_SELF:
        return ICR_ASSERT | ICR_SELF | (VMM_FIRST_VECTOR + i);
    case IPI_OTHERS:
        return ICR_OTHERS | ICR_ASSERT | VECTOR;
    case IPI_LOGICAL:
    case IPI_PHYSICAL:
    default:
        return icr_to(p, 1 + (uint32_t)i % IPI_TARGETS) + i / IPI_TARGETS;
    }
}

/* One register, or in xAPIC mode two where there is a destination. */
static void
guest_sends(const struct ipi_vms *p, const struct vmm *v, uint32_t sender,
            uint64_t icr)
{
    struct avicemu_vcpu *vcpu = v->vcpus[sender];

    if (p->mode == VMM_X2APIC) {
        bool self = p->dest == IPI_SELF;

        if (avicemu_msr_write(vcpu, self ? MSR_SELF_IPI : MSR_ICR,
                              self ? icr & 0xffu : icr) !=
            AVICEMU_ACCESS_DONE) {
            vmm_die("ICR write");
        }
        return;
    }
    if (p->dest == IPI_PHYSICAL || p->dest == IPI_LOGICAL) {
        vmm_write(v, vcpu, REG_ICR_HIGH, (uint32_t)(icr >> 32));
    }
    vmm_write(v, vcpu, REG_ICR_LOW, (uint32_t)icr);
}

static void
rival_sends(const struct ipi_vms *p, uint32_t sender, uint64_t icr)
{
    bool ok = true;

    if (p->mode == VMM_X2APIC) {
        ok = ipi_mutex_icr(p->rival, sender, icr);
    } else {
        if (p->dest == IPI_PHYSICAL || p->dest == IPI_LOGICAL) {
            ok = ipi_mutex_icr_high(p->rival, sender, (uint32_t)(icr >> 32));
        }
        ok = ok && ipi_mutex_icr_low(p->rival, sender, (uint32_t)icr);
    }
    if (!ok) {
        vmm_die("rival's ICR write");
    }
}

/* ---- others ------------------------------------------------------------- */

/* The nth other's vCPU sends to the one behind it. */
static void
crowd_burst(void *state, unsigned n, uint32_t what)
{
    const struct ipi_vms *p = state;
    uint32_t sender = p->nr + 2 * n;
    uint64_t icr = icr_to(p, sender + 1);

    for (unsigned i = 0; i < BURST; i++) {
        switch ((enum path)what) {
        case PATH_ACCEL:
            guest_sends(p, &p->avic, sender, icr);
            break;
        case PATH_TRAP:
            guest_sends(p, &p->soft, sender, icr);
            break;
        case PATH_RIVAL:
            rival_sends(p, sender, icr);
            break;
        case PATH_IDLE:
        default:
            bench_relax();
            break;
        }
    }
}

/* Both vCPUs of each other are where the path wants them, and stay there; the
 * vector is pending. */
static void
crowd_pair(struct ipi_vms *p, unsigned n)
{
    uint32_t sender = p->nr + 2 * n;
    struct avicemu_todo todo;

    if ((p->which & IPI_AVIC) != 0) {
        vmm_enter_avic(&p->avic, p->avic.vcpus[sender]);
        vmm_enter_avic(&p->avic, p->avic.vcpus[sender + 1]);
        crowd_burst(p, n, PATH_ACCEL);
    }
    if ((p->which & IPI_SOFT) != 0) {
        vmm_enter(p->soft.vcpus[sender + 1], &todo);
        crowd_burst(p, n, PATH_TRAP);
    }
    if ((p->which & IPI_RIVAL) != 0) {
        (void)ipi_mutex_enter(p->rival, sender + 1);
        crowd_burst(p, n, PATH_RIVAL);
    }
}

static void
crowd_open(struct ipi_vms *p)
{
    p->crowd = aligned_alloc(128, (sizeof(*p->crowd) + 127) / 128 * 128);
    if (p->crowd == NULL) {
        vmm_die("aligned_alloc");
    }
    *p->crowd = (struct crowd){ .nr = 0 };
    for (unsigned n = 0; n < p->nr_others; n++) {
        crowd_pair(p, n);
    }
    p->soft.kicks = 0;
    p->rival_kicks = 0;
    if (!crowd_start(p->crowd, p->nr_others, PATH_IDLE, crowd_burst, p)) {
        vmm_die("pthread_create");
    }
}

static void
crowd_close(struct ipi_vms *p)
{
    if (p->crowd == NULL) {
        return;
    }
    crowd_stop(p->crowd);
    free(p->crowd);
    for (unsigned n = 0; n < p->nr_others; n++) {
        uint32_t sender = p->nr + 2 * n;

        if ((p->which & IPI_AVIC) != 0) {
            vmm_exit(p->avic.vcpus[sender]);
            vmm_exit(p->avic.vcpus[sender + 1]);
        }
        if ((p->which & IPI_SOFT) != 0) {
            vmm_exit(p->soft.vcpus[sender + 1]);
        }
    }
}

static void
others_do(const struct ipi_vms *p, enum path path)
{
    if (p->crowd != NULL) {
        crowd_change(p->crowd, (uint32_t)path);
    }
}

/* ---- life --------------------------------------------------------------- */

static void
rival_kick(void *opaque, uint32_t id)
{
    struct ipi_vms *p = opaque;

    (void)id;
    p->rival_kicks++;
}

static void
rival_wake(void *opaque, uint32_t id)
{
    struct ipi_vms *p = opaque;

    (void)id;
    p->rival_wakes++;
}

static bool
is_flat(const struct ipi_vms *p)
{
    return p->mode == VMM_XAPIC && p->dest == IPI_LOGICAL;
}

static void
soft_open(struct ipi_vms *p)
{
    vmm_open(&p->soft, p->nr + 2 * p->nr_others, p->mode, VMM_NOW_CLOCK);
    for (uint32_t i = 1; is_flat(p) && i < p->nr; i++) {
        vmm_write(&p->soft, p->soft.vcpus[i], REG_LDR, 1u << (23 + i));
    }
}

static void
avic_open(struct ipi_vms *p)
{
    vmm_open_avic(&p->avic, p->nr + 2 * p->nr_others, p->mode);
    for (uint32_t i = 1; is_flat(p) && i < p->nr; i++) {
        vmm_write(&p->avic, p->avic.vcpus[i], REG_LDR, 1u << (23 + i));
    }
}

static void
rival_open(struct ipi_vms *p)
{
    struct ipi_mutex_ops ops = { .kick = rival_kick,
                                 .wake = rival_wake,
                                 .opaque = p };

    p->rival =
        ipi_mutex_create(p->nr + 2 * p->nr_others, p->mode == VMM_X2APIC, &ops);
    if (p->rival == NULL) {
        vmm_die("ipi_mutex_create");
    }
    for (uint32_t i = 1; is_flat(p) && i < p->nr; i++) {
        ipi_mutex_set_ldr(p->rival, i, (uint8_t)(1u << (i - 1)));
    }
}

void
ipi_vms_open(struct ipi_vms *p, uint32_t nr, uint32_t ops, unsigned others,
             enum vmm_mode mode, enum ipi_dest dest, unsigned which)
{
    *p = (struct ipi_vms){
        .mode = mode,
        .dest = dest,
        .nr = nr,
        .nr_others = others,
        .rounds =
            dest == IPI_PHYSICAL || dest == IPI_LOGICAL ? ops / IPI_TARGETS : 1,
        .which = which,
    };
    if (is_flat(p) && nr > 1 + FLAT_BITS) {
        vmm_die("flat logical ids for so many");
    }
    if ((which & IPI_AVIC) != 0) {
        avic_open(p);
    }
    if ((which & IPI_SOFT) != 0) {
        soft_open(p);
    }
    if ((which & IPI_RIVAL) != 0) {
        rival_open(p);
    }
    if (others != 0) {
        crowd_open(p);
    }
}

/* The vCPUs that get interrupts: first .. nr-1. */
static uint32_t
first_target(const struct ipi_vms *p)
{
    return p->dest == IPI_SELF ? 0 : 1;
}

/* ---- AVIC --------------------------------------------------------------- */

static void
avic_unblock(struct ipi_vms *p)
{
    for (uint32_t i = first_target(p); p->blocked && i < p->nr; i++) {
        vmm_unblock(p->avic.vcpus[i]);
        p->taken += vmm_drain(&p->avic, p->avic.vcpus[i]);
    }
    p->blocked = false;
}

static void
avic_leave(struct ipi_vms *p)
{
    for (uint32_t i = 0; p->in_guest && i < p->nr; i++) {
        p->taken += vmm_take(&p->avic, p->avic.vcpus[i]);
        vmm_exit(p->avic.vcpus[i]);
    }
    p->in_guest = false;
}

void
ipi_accel_prepare(void *state)
{
    struct ipi_vms *p = state;

    others_do(p, PATH_ACCEL);
    avic_unblock(p);
    for (uint32_t i = 0; !p->in_guest && i < p->nr; i++) {
        vmm_enter_avic(&p->avic, p->avic.vcpus[i]);
    }
    p->in_guest = true;
    for (uint32_t i = first_target(p); i < p->nr; i++) {
        p->taken += vmm_take(&p->avic, p->avic.vcpus[i]);
    }
}

void
ipi_wake_prepare(void *state)
{
    struct ipi_vms *p = state;

    avic_leave(p);
    avic_unblock(p);
    for (uint32_t i = first_target(p); i < p->nr; i++) {
        /* An entry tells the library that IF is 1. */
        p->taken += vmm_drain(&p->avic, p->avic.vcpus[i]);
        vmm_block(p->avic.vcpus[i]);
    }
    p->blocked = true;
}

/* ---- no AVIC ------------------------------------------------------------ */

static void
soft_leave(struct ipi_vms *p)
{
    for (uint32_t i = first_target(p); p->entered && i < p->nr; i++) {
        vmm_exit(p->soft.vcpus[i]);
        p->taken += vmm_drain(&p->soft, p->soft.vcpus[i]);
    }
    p->entered = false;
}

void
ipi_trap_prepare(void *state)
{
    struct ipi_vms *p = state;
    struct avicemu_todo todo;

    others_do(p, PATH_TRAP);
    soft_leave(p);
    for (uint32_t i = first_target(p); i < p->nr; i++) {
        /* The self IPI comes from an exit, whose entry delivers it. */
        if (p->dest == IPI_SELF) {
            p->taken += vmm_drain(&p->soft, p->soft.vcpus[i]);
        } else {
            vmm_enter(p->soft.vcpus[i], &todo);
            p->entered = true;
        }
    }
}

void
ipi_loop_prepare(void *state)
{
    ipi_trap_prepare(state);
}

/* ---- rival -------------------------------------------------------------- */

static void
rival_leave(struct ipi_vms *p)
{
    for (uint32_t i = first_target(p); i < p->nr; i++) {
        int vector;

        if (p->rival_blocked) {
            ipi_mutex_unblock(p->rival, i);
        } else {
            ipi_mutex_exit(p->rival, i);
        }
        while ((vector = ipi_mutex_enter(p->rival, i)) >= 0) {
            ipi_mutex_ack(p->rival, i, (uint8_t)vector);
            ipi_mutex_exit(p->rival, i);
            ipi_mutex_eoi(p->rival, i);
            p->taken++;
        }
        ipi_mutex_exit(p->rival, i);
    }
    p->rival_blocked = false;
}

void
ipi_rival_prepare(void *state)
{
    struct ipi_vms *p = state;

    others_do(p, PATH_RIVAL);
    rival_leave(p);
    for (uint32_t i = first_target(p); i < p->nr && p->dest != IPI_SELF; i++) {
        (void)ipi_mutex_enter(p->rival, i);
    }
}

void
ipi_rival_wake_prepare(void *state)
{
    struct ipi_vms *p = state;

    rival_leave(p);
    for (uint32_t i = first_target(p); i < p->nr; i++) {
        if (!ipi_mutex_block(p->rival, i)) {
            vmm_die("ipi_mutex_block");
        }
    }
    p->rival_blocked = true;
}

/* ---- paths: run ---------------------------------------------------------- */

/* How many interrupts n sends are. */
static uint64_t
interrupts(const struct ipi_vms *p, uint64_t n)
{
    return p->dest == IPI_OTHERS ? p->nr - 1 : n;
}

/* ... and how many writes. The harness counts a broadcast per target. */
static uint64_t
writes(const struct ipi_vms *p, uint64_t n)
{
    return p->dest == IPI_OTHERS ? 1 : n;
}

void
ipi_accel_run(void *state, uint64_t n)
{
    struct ipi_vms *p = state;

    for (uint64_t i = 0; i < writes(p, n); i++) {
        guest_sends(p, &p->avic, 0, icr_of(p, i));
    }
    p->sent += interrupts(p, n);
    p->accel += interrupts(p, n);
}

void
ipi_wake_run(void *state, uint64_t n)
{
    struct ipi_vms *p = state;

    for (uint64_t i = 0; i < writes(p, n); i++) {
        guest_sends(p, &p->avic, 0, icr_of(p, i));
    }
    p->sent += interrupts(p, n);
    p->wake += interrupts(p, n);
}

void
ipi_trap_run(void *state, uint64_t n)
{
    struct ipi_vms *p = state;

    for (uint64_t i = 0; i < writes(p, n); i++) {
        guest_sends(p, &p->soft, 0, icr_of(p, i));
    }
    p->sent += interrupts(p, n);
    p->trap += interrupts(p, n);
}

void
ipi_loop_run(void *state, uint64_t n)
{
    struct ipi_vms *p = state;
    struct avicemu_vcpu *sender = p->soft.vcpus[0];
    struct avicemu_todo todo;

    vmm_enter(sender, &todo);
    for (uint64_t i = 0; i < writes(p, n); i++) {
        vmm_exit(sender);
        guest_sends(p, &p->soft, 0, icr_of(p, i));
        vmm_enter(sender, &todo);
    }
    vmm_exit(sender);
    p->sent += interrupts(p, n);
    p->trap += interrupts(p, n);
}

void
ipi_rival_run(void *state, uint64_t n)
{
    struct ipi_vms *p = state;

    for (uint64_t i = 0; i < writes(p, n); i++) {
        rival_sends(p, 0, icr_of(p, i));
    }
    p->sent += interrupts(p, n);
    p->rivals += interrupts(p, n);
}

/* ---- end ---------------------------------------------------------------- */

static bool
avic_counts_agree(struct ipi_vms *p)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    if (avicemu_vcpu_stats(p->avic.vcpus[0], &stats) != 0) {
        return false;
    }
    if (p->dest == IPI_SELF) {
        return stats.ipi_new == p->accel && stats.avic_incomplete == 0;
    }
    return stats.doorbells == p->accel &&
           p->avic.wakes * p->rounds == p->wake &&
           stats.ipi_new == p->accel + p->wake && p->avic.kicks == 0;
}

bool
ipi_vms_check(void *state, uint64_t nr_ops)
{
    struct ipi_vms *p = state;
    bool self = p->dest == IPI_SELF;

    others_do(p, PATH_IDLE);
    if ((p->which & IPI_AVIC) != 0) {
        avic_leave(p);
        avic_unblock(p);
        if (!avic_counts_agree(p)) {
            return false;
        }
    }
    if ((p->which & IPI_SOFT) != 0) {
        soft_leave(p);
        p->taken += self ? vmm_drain(&p->soft, p->soft.vcpus[0]) : 0;
        if (p->soft.kicks * p->rounds != (self ? 0 : p->trap)) {
            return false;
        }
    }
    if ((p->which & IPI_RIVAL) != 0) {
        rival_leave(p);
        if ((p->rival_kicks + p->rival_wakes) * p->rounds !=
            (self ? 0 : p->rivals)) {
            return false;
        }
    }
    return p->sent == p->taken && p->sent >= nr_ops;
}

void
ipi_vms_close(struct ipi_vms *p)
{
    crowd_close(p);
    if ((p->which & IPI_AVIC) != 0) {
        avic_leave(p);
        avic_unblock(p);
        vmm_close(&p->avic);
    }
    if ((p->which & IPI_SOFT) != 0) {
        soft_leave(p);
        vmm_close(&p->soft);
    }
    ipi_mutex_destroy(p->rival);
}
