/* SPDX-License-Identifier: BSD-2-Clause */

/* Guest accesses and messages, to the library and to the model alike. */

#include <string.h>

#include "prop.h"

/* ---- VMs ---------------------------------------------------------------- */

bool
prop_create_vm(struct prop_run *run)
{
    struct avicemu_vm_config c = { .size = sizeof(c) };
    int rc;

    fake_vmm_config(&run->fake, &c);
    c.max_vcpus = MODEL_MAX_VCPUS;
    c.bsp_apic_id = run->config.model.bsp_apic_id;
    c.lapic = run->config.model.lapic;
    c.flags = AVICEMU_VM_BOOKS;
    rc = avicemu_vm_create(run->host, &c, &run->vm);
    if (rc != 0) {
        prop_fail(run, "avicemu_vm_create: %d", rc);
        return false;
    }
    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        rc = avicemu_vcpu_create(run->vm, run->config.ids[i],
                                 &run->fake.vcpus[i], &run->vcpus[i]);
        prop_same(run, "avicemu_vcpu_create", i, (uint64_t)rc, 0);
    }
    return !run->failed;
}

void
prop_destroy_vm(struct prop_run *run)
{
    for (unsigned i = 0; i < run->config.nr_vcpus; i++) {
        prop_outside(run, i);
        prop_same(run, "avicemu_vcpu_destroy", i,
                  (uint64_t)avicemu_vcpu_destroy(run->vcpus[i]), 0);
        run->vcpus[i] = NULL;
    }
    prop_same(run, "avicemu_vm_destroy", 0,
              (uint64_t)avicemu_vm_destroy(run->vm), 0);
    run->vm = NULL;
}

bool
prop_run_begin(struct prop_run *run, const struct prop_config *config)
{
    memset(run, 0, sizeof(*run));
    run->config = *config;
    fake_vmm_init(&run->fake);
    run->fake.inta_vector = model_inta_vector;
    run->fake.now = 1000;
    model_vm_init(&run->model, &config->model);
    run->model.now = 1000;
    for (unsigned i = 0; i < config->nr_vcpus; i++) {
        (void)model_vcpu_add(&run->model, config->ids[i]);
    }
    if (avicemu_host_create(NULL, &run->host) != 0) {
        prop_fail(run, "avicemu_host_create failed");
        return false;
    }
    if (prop_create_vm(run)) {
        prop_compare(run);
    }
    return !run->failed;
}

void
prop_run_end(struct prop_run *run)
{
    if (run->vm != NULL) {
        prop_destroy_vm(run);
    }
    (void)avicemu_host_destroy(run->host);
}

/* ---- accesses ----------------------------------------------------------- */

/* [18:17] = 3 of LVT timer is reserved and left out. */
static uint64_t
legal_lvt(const struct prop_run *run, uint32_t offset, uint64_t value)
{
    if (offset == M_LVTT && (value & 0x60000) == 0x60000 &&
        (run->config.model.lapic.features & AVICEMU_LAPIC_TSC_DEADLINE)) {
        value &= ~0x20000ull;
    }
    return value;
}

static void
msr_write(struct prop_run *run, unsigned i, uint32_t msr, uint64_t value)
{
    if (msr >= 0x800 && msr <= 0x8ff) {
        value = legal_lvt(run, (msr - 0x800) << 4, value);
    }
    prop_same(run, "wrmsr", i, avicemu_msr_write(run->vcpus[i], msr, value),
              model_msr_write(&run->model.vcpus[i], msr, value));
}

static void
msr_read(struct prop_run *run, unsigned i, uint32_t msr)
{
    uint64_t l = 0;
    uint64_t m = 0;

    prop_same(run, "rdmsr", i, avicemu_msr_read(run->vcpus[i], msr, &l),
              model_msr_read(&run->model.vcpus[i], msr, &m));
    prop_same(run, "value of rdmsr", i, l, m);
}

static void
mmio_write(struct prop_run *run, unsigned i, uint64_t gpa, unsigned len,
           uint64_t value)
{
    static uint8_t data[4096];

    value = legal_lvt(run, (uint32_t)gpa & 0xfff, value);
    for (unsigned n = 0; n < len; n++) {
        data[n] = (uint8_t)(value >> 8 * (n & 7));
    }
    prop_same(run, "write of the page", i,
              avicemu_mmio_write(run->vcpus[i], gpa, len, data),
              model_mmio_write(&run->model.vcpus[i], gpa, len, data));
}

static void
mmio_read(struct prop_run *run, unsigned i, uint64_t gpa, unsigned len)
{
    static uint8_t l[4096], m[4096];

    memset(l, 0x55, len);
    memset(m, 0x55, len);
    prop_same(run, "read of the page", i,
              avicemu_mmio_read(run->vcpus[i], gpa, len, l),
              model_mmio_read(&run->model.vcpus[i], gpa, len, m));
    for (unsigned n = 0; n < len && !run->failed; n++) {
        if (l[n] != m[n]) {
            prop_fail(run, "vcpu %u page byte %03x: library %02x, model %02x",
                      i, (unsigned)(gpa + n) & 0xfff, l[n], m[n]);
        }
    }
}

static uint64_t
page_of(const struct prop_run *run, unsigned i)
{
    return run->model.vcpus[i].apic_base & ~0xfffull;
}

/* A register write as a guest of the vCPU's mode makes it. */
void
prop_reg_write(struct prop_run *run, unsigned i, uint32_t offset,
               uint64_t value)
{
    if (model_mode(&run->model.vcpus[i]) == AVICEMU_APIC_X2APIC) {
        msr_write(run, i, 0x800 + (offset >> 4), value);
    } else {
        mmio_write(run, i, page_of(run, i) + offset, 4, value & 0xffffffff);
    }
}

static void
send_icr(struct prop_run *run, unsigned i, uint32_t low, uint32_t dest)
{
    if (model_mode(&run->model.vcpus[i]) == AVICEMU_APIC_X2APIC) {
        msr_write(run, i, 0x830, (uint64_t)dest << 32 | low);
        return;
    }
    prop_reg_write(run, i, M_ICR2, (uint64_t)dest << 24);
    prop_reg_write(run, i, M_ICR, low);
}

static void
change_mode(struct prop_run *run, unsigned i, const struct prop_op *op)
{
    static const uint64_t bits[] = { 0, M_BASE_EN, M_BASE_EN | M_BASE_EXTD };
    uint64_t value = run->model.vcpus[i].apic_base;

    value = (value & ~(M_BASE_EN | M_BASE_EXTD)) | bits[op->a % 3];
    if (op->c == 0) {
        value = (value & 0xfff) | 0xfee10000;
    } else if (op->c == 1) {
        value = (value & 0xfff) | 0xfee00000;
    }
    msr_write(run, i, 0x1b, value);
}

/* A timer as a guest sets it up: mode and vector, then the count. */
static void
start_timer(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    prop_reg_write(run, i, M_LVTT, (op->a & 0xff) | (op->c % 3) << 17);
    if (op->c % 3 == M_DEADLINE) {
        uint64_t tsc = run->model.now * (run->config.model.lapic.tsc_hz /
                                         run->config.model.lapic.now_hz) +
                       run->model.vcpus[i].tsc_offset;

        msr_write(run, i, 0x6e0, tsc + op->b);
    } else {
        prop_reg_write(run, i, M_TMICT, op->b);
    }
}

static void
eoi(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    const struct model_vcpu *m = &run->model.vcpus[i];

    if (op->b && model_feature(m, AVICEMU_LAPIC_EXT_SPACE)) {
        uint32_t vector = 0;

        while (vector < 255 && !m->isr[vector]) {
            vector++;
        }
        prop_reg_write(run, i, M_EACR, 3);
        prop_reg_write(run, i, M_SEOI, vector);
        return;
    }
    prop_reg_write(run, i, M_EOI, 0);
}

/*
 * Something was left for the owner, and it is nowhere said that an access that
 * faults or is dropped counts as his: a plain one goes first.
 */
static void
settle(struct prop_run *run, unsigned i)
{
    const struct model_vcpu *m = &run->model.vcpus[i];

    if (!m->expired && !m->poked) {
        return;
    }
    switch (model_mode(m)) {
    case AVICEMU_APIC_DISABLED:
        prop_enter(run, i, 0);
        prop_exit(run, i, m->flags, 255);
        break;
    case AVICEMU_APIC_XAPIC:
        mmio_read(run, i, page_of(run, i) + M_TPR, 4);
        break;
    case AVICEMU_APIC_X2APIC:
        msr_read(run, i, 0x808);
        break;
    }
}

static void
access_op(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    prop_outside(run, i);
    settle(run, i);
    switch ((uint32_t)op->kind) {
    case PROP_REG_READ:
        if (model_mode(&run->model.vcpus[i]) == AVICEMU_APIC_X2APIC) {
            msr_read(run, i, 0x800 + (op->a >> 4));
        } else {
            mmio_read(run, i, page_of(run, i) + op->a, 4);
        }
        break;
    case PROP_REG_WRITE:
        prop_reg_write(run, i, op->a, op->b);
        break;
    case PROP_MMIO_READ:
        mmio_read(run, i, page_of(run, i) + op->a + op->b, op->c);
        break;
    case PROP_MMIO_WRITE:
        mmio_write(run, i, page_of(run, i) + op->a, op->c, op->b);
        break;
    case PROP_MSR_READ:
        msr_read(run, i, op->a);
        break;
    case PROP_MSR_WRITE:
        msr_write(run, i, op->a, op->b);
        break;
    case PROP_MODE:
        change_mode(run, i, op);
        break;
    case PROP_CR8:
        prop_same(run, "write of CR8", i,
                  avicemu_cr8_write(run->vcpus[i], op->b),
                  model_cr8_write(&run->model.vcpus[i], op->b));
        break;
    case PROP_ICR:
        send_icr(run, i, op->a, (uint32_t)op->b);
        break;
    case PROP_TIMER:
        start_timer(run, op, i);
        break;
    default:
        eoi(run, op, i);
        break;
    }
}

/* ---- messages ----------------------------------------------------------- */

static void
msi(struct prop_run *run, const struct prop_op *op)
{
    uint32_t data = op->a;
    struct avicemu_posted l = { 0 };
    struct avicemu_posted m = model_msi(&run->model, op->b, data);

    prop_same(run, "avicemu_msi", 0,
              (uint64_t)avicemu_msi(run->vm, op->b, data, &l), 0);
    prop_same_posted(run, &l, &m);
}

static void
post_op(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    struct avicemu_vcpu *l = run->vcpus[i];
    struct model_vcpu *m = &run->model.vcpus[i];
    enum avicemu_trigger trigger =
        op->c ? AVICEMU_TRIGGER_LEVEL : AVICEMU_TRIGGER_EDGE;
    enum avicemu_delivery mode = (enum avicemu_delivery)(op->a & 7);
    enum avicemu_lvt source = (enum avicemu_lvt)(op->a % AVICEMU_NR_LVT);
    uint8_t vector = (uint8_t)(op->kind == PROP_POST ? op->a : (uint32_t)op->b);
    enum avicemu_drop why;

    switch ((uint32_t)op->kind) {
    case PROP_POST:
        prop_same(run, "avicemu_post", i, avicemu_post(l, vector, trigger),
                  model_accept(m, vector, op->c != 0, &why));
        break;
    case PROP_POST_MODE:
        prop_same(run, "avicemu_post_mode", i,
                  avicemu_post_mode(l, mode, vector),
                  model_post_mode(m, mode, vector));
        break;
    case PROP_LINT:
        prop_same(run, "avicemu_vcpu_lint", i,
                  avicemu_vcpu_lint(l, op->a & 1, op->c & 1),
                  model_lint(m, op->a & 1, op->c & 1));
        break;
    case PROP_LOCAL:
        prop_same(run, "avicemu_vcpu_local", i, avicemu_vcpu_local(l, source),
                  model_local(m, source));
        break;
    default:
        msi(run, op);
        break;
    }
}

/* ---- time --------------------------------------------------------------- */

static void
clock_op(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    uint64_t now = run->model.now;
    uint64_t to = model_timer_deadline(&run->model.vcpus[i]);

    if (op->c == 0) {
        to = now + op->b;
    } else if (to != MODEL_NEVER) {
        to = to + op->c - 2;
    }
    if (to < now || to > 1ull << 60) {
        return;
    }
    run->model.now = to;
    run->fake.now = to;
}

static void
dispatch(struct prop_run *run, const struct prop_op *op, unsigned i)
{
    switch ((enum prop_kind)op->kind) {
    case PROP_REG_READ:
    case PROP_REG_WRITE:
    case PROP_MMIO_READ:
    case PROP_MMIO_WRITE:
    case PROP_MSR_READ:
    case PROP_MSR_WRITE:
    case PROP_MODE:
    case PROP_CR8:
    case PROP_ICR:
    case PROP_EOI:
    case PROP_TIMER:
        access_op(run, op, i);
        break;
    case PROP_POST:
    case PROP_POST_MODE:
    case PROP_LINT:
    case PROP_LOCAL:
    case PROP_MSI:
        post_op(run, op, i);
        break;
    case PROP_CLOCK:
        clock_op(run, op, i);
        break;
    case PROP_EXPIRE:
    case PROP_ENTER:
    case PROP_ACK:
    case PROP_EXIT:
    case PROP_RUN:
    case PROP_HALT:
    case PROP_BLOCK:
    case PROP_UNBLOCK:
    case PROP_REVIVE:
        prop_loop_op(run, op, i);
        break;
    case PROP_RESET:
    case PROP_SAVE:
    case PROP_RESTORE:
    case PROP_MIGRATE:
    case PROP_KVM:
    case PROP_DEADLINE_HOST:
    case PROP_TSC_OFFSET:
    case PROP_MISUSE:
        prop_state_op(run, op, i);
        break;
    case PROP_NR_KIND:
        break;
    }
}

bool
prop_run_step(struct prop_run *run, const struct prop_op *op)
{
    unsigned nr = run->config.nr_vcpus;
    unsigned i = op->vcpu % nr;

    dispatch(run, op, i);
    run->steps++;
    if (run->steps % 16 == 0) {
        prop_compare(run);
    } else {
        prop_compare_vcpu(run, i, false);
        prop_compare_vcpu(run, (unsigned)(run->steps % nr), false);
    }
    return !run->failed;
}
