/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind SEC: accesses that read or write where they must not. Not
 * here:
 *
 *   SEC-03, 06, 09   no such cases
 *   SEC-04, 05       need the IOAPIC
 *   SEC-08 (ports)   needs the PIT and the PIC; the APIC page is here
 *   SEC-11           HPET, which the library does not have
 */

#include <pthread.h>
#include <string.h>

#include "rig.h"

static void
sec_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t data[16];
    uint64_t value = 0x5a;

    memset(data, 0xa5, sizeof(data));
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + 0xffc, 4, data), DONE);
    assert_int_equal(data[0] | data[1] | data[2] | data[3], 0);
    for (unsigned len = 5; len <= 16; len++) {
        assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + 0xffc, len, data),
                         UNCLAIM);
        assert_int_equal(avicemu_mmio_write(v, BASE_PAGE + 0xffc, len, data),
                         UNCLAIM);
    }
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + 0x1000, 4, data),
                     UNCLAIM);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE - 1, 2, data), UNCLAIM);
    to_x2apic(v);
    for (uint32_t msr = 0x83f; msr < 0xc00; msr++) {
        enum avicemu_access want = msr < 0x900 ? GP : UNCLAIM;

        assert_int_equal(avicemu_msr_read(v, msr, &value), want);
        assert_int_equal(value, 0x5a);
        if (msr != 0x83f) {
            assert_int_equal(avicemu_msr_write(v, msr, 0), want);
        }
    }
}

/* ---- SEC-02 ------------------------------------------------------------- */

#define TOGGLES 3000

struct toggler {
    struct avicemu_vcpu *v;
    _Atomic int stop;
};

static void *
toggle_modes(void *opaque)
{
    struct toggler *t = opaque;

    for (unsigned i = 0; i < TOGGLES; i++) {
        (void)avicemu_msr_write(t->v, MSR_APIC_BASE,
                                BASE_PAGE | BASE_EN | BASE_EXTD);
        (void)avicemu_msr_write(t->v, MSR_APIC_BASE, BASE_PAGE);
        (void)avicemu_msr_write(t->v, MSR_APIC_BASE, BASE_PAGE | BASE_EN);
    }
    t->stop = 1;
    return NULL;
}

static void
sec_02(void **state)
{
    struct rig *rig = *state;
    struct toggler t = { .v = rig->v[2], .stop = 0 };
    struct avicemu_posted posted;
    uint64_t lost = 0;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, toggle_modes, &t), 0);
    for (uint32_t i = 0; i < 1000 || !t.stop; i++) {
        (void)reg_try(rig->v[0], R_LDR, (i & 0xffu) << 24);
        icr_send(rig->v[0], 1, ICR_FIXED | 0x51);
        lost += !vec_bit(rig->v[1], R_IRR, 0x51);
        (void)avicemu_msi(rig->vm, 0xfee00000ull | (i & 0xffu) << 12 | 4, 0x61,
                          &posted);
        (void)avicemu_msi(rig->vm, 0xfee00000ull | 0xffull << 40 | 0xf0000,
                          0x62, &posted);
        rig_drain(&(struct rig){
            .vm = rig->vm, .nr_vcpus = 2, .v = { rig->v[0], rig->v[1] } });
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(lost, 0); /* V1 never changed: all must arrive */
}

/* ---- SEC-07 ------------------------------------------------------------- */

static int
xapic_matches(uint32_t dfr, uint32_t ldr, uint32_t dest)
{
    if (dest == 0xff) {
        return 1; /* a broadcast in every model */
    }
    if (dfr != 0xf && dfr != 0) {
        return 0; /* undefined models match nobody */
    }
    if (dfr == 0xf) {
        return (ldr & dest) != 0;
    }
    return ldr >> 4 == dest >> 4 && dest >> 4 != 15 && (ldr & dest & 15) != 0;
}

static void
sec_07_xapic(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[1];

    for (uint32_t dfr = 0; dfr < 16; dfr++) {
        for (uint32_t ldr = 0; ldr < 256; ldr += dfr % 15 ? 7 : 1) {
            reg_w(v, R_DFR, dfr << 28);
            reg_w(v, R_LDR, ldr << 24);
            for (uint32_t dest = 0; dest < 256; dest += 3) {
                icr_send(rig->v[0], dest, ICR_FIXED | ICR_LOGICAL | 0x51);
                assert_int_equal(vec_bit(v, R_IRR, 0x51),
                                 xapic_matches(dfr, ldr, dest));
                rig_drain(rig);
            }
        }
    }
}

/* [APM2 16.14] */
static void
sec_07_x2apic(void **state)
{
    static const struct {
        uint32_t dest, targets;
    } rows[] = {
        { 0xffff0001, 0 },   { 0xffffffff, 0x7 }, { 0x00000001, 0x1 },
        { 0x00020020, 0x2 }, { 0x00020021, 0x2 }, { 0x0fff8000, 0 },
        { 0xffff8000, 0x4 }, { 0xfffe8000, 0 },   { 0x00010001, 0 },
        { 0x80000001, 0 },   { 0x7fff0001, 0 },   { 0, 0 },
    };
    struct rig *rig = *state;

    for (uint32_t i = 0; i < 3; i++) {
        to_x2apic(rig->v[i]);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        icr_send(rig->v[0], rows[i].dest, ICR_FIXED | ICR_LOGICAL | 0x51);
        assert_int_equal(rig_irr_mask(rig, 0x51), rows[i].targets);
        rig_drain(rig);
    }
    for (uint32_t cluster = 0; cluster < 0x10000; cluster += 0x101) {
        icr_send(rig->v[0], cluster << 16 | 0xffff,
                 ICR_FIXED | ICR_LOGICAL | 0x52);
    }
    rig_drain(rig);
}

/* ---- SEC-08, SEC-10 ----------------------------------------------------- */

static void
sec_08(void **state)
{
    static const unsigned lens[] = { 1, 2, 4, 8, 16 };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t data[16];

    for (uint32_t offset = 0; offset < 0x1000; offset++) {
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
            int inside = offset + lens[i] <= 0x1000;

            memset(data, 0xff, sizeof(data));
            assert_int_equal(
                avicemu_mmio_write(v, BASE_PAGE + offset, lens[i], data),
                inside ? DONE : UNCLAIM);
            assert_int_equal(
                avicemu_mmio_read(v, BASE_PAGE + offset, lens[i], data),
                inside ? DONE : UNCLAIM);
        }
    }
    rig_check(rig);
    /* Numbers out of range at the API are refused, not used. */
    assert_int_equal(avicemu_vcpu_lint(v, 2, 1), DROPPED);
    assert_int_equal(avicemu_vcpu_local(v, AVICEMU_NR_LVT), DROPPED);
    assert_int_equal(avicemu_post_mode(v, (enum avicemu_delivery)9, 0x41),
                     DROPPED);
}

/* Outputs are written whole: whatever was there before does not shine
 * through. */
static void
sec_10(void **state)
{
    struct rig *rig = *state;
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };
    struct avicemu_vcpu_view a, b;
    struct avicemu_todo s, t;
    struct avicemu_posted p, q;

    memset(&s, 0xaa, sizeof(s));
    memset(&t, 0x55, sizeof(t));
    s.size = t.size = sizeof(s);
    assert_int_equal(avicemu_vcpu_enter(rig->v[0], &cpu, &s), 0);
    assert_int_equal(avicemu_vcpu_exit(rig->v[0], &cpu), 0);
    assert_int_equal(avicemu_vcpu_enter(rig->v[0], &cpu, &t), 0);
    assert_int_equal(avicemu_vcpu_exit(rig->v[0], &cpu), 0);
    assert_int_equal(s.what, t.what);
    assert_int_equal(s.vector, t.vector);
    assert_int_equal(s.cr8, t.cr8);
    assert_int_equal(s.tpr_threshold, t.tpr_threshold);
    assert_int_equal(s.deadline, t.deadline);

    memset(&a, 0xaa, sizeof(a));
    memset(&b, 0x55, sizeof(b));
    a.size = b.size = sizeof(a);
    assert_int_equal(avicemu_vcpu_view(rig->v[0], &a), 0);
    assert_int_equal(avicemu_vcpu_view(rig->v[0], &b), 0);
    assert_int_equal(a.pending, b.pending);
    assert_int_equal(a.nr_nmi, b.nr_nmi);
    assert_int_equal(a.halted, b.halted);
    assert_int_equal(a.accepts_pic, b.accepts_pic);
    assert_int_equal(a.wait_for_sipi, b.wait_for_sipi);
    assert_int_equal(a.deadline, b.deadline);

    memset(&p, 0xaa, sizeof(p));
    memset(&q, 0x55, sizeof(q));
    assert_int_equal(avicemu_msi(rig->vm, 0xfee77000, 0x51, &p), 0);
    assert_int_equal(avicemu_msi(rig->vm, 0xfee77000, 0x51, &q), 0);
    assert_memory_equal(&p, &q, sizeof(p));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_EACH("SEC-01 nothing beyond the register page", sec_01,
                 .nr_vcpus = 1),
        RIG_TEST("SEC-02 map updates race with mode changes", sec_02,
                 .nr_vcpus = 3, .nr_ids = 3, .ids = { 0, 1, 0xfff0 }),
        RIG_EACH("SEC-07 any DFR, LDR and destination", sec_07_xapic,
                 .nr_vcpus = 2),
        RIG_EACH("SEC-07 clusters that do not exist", sec_07_x2apic,
                 .nr_vcpus = 3, .nr_ids = 3, .ids = { 0, 0x25, 0xfffff }),
        RIG_EACH("SEC-08 every offset of the page", sec_08, .nr_vcpus = 1),
        RIG_TEST("SEC-10 outputs are written whole", sec_10, .nr_vcpus = 1),
    };

    return cmocka_run_group_tests_name("cases SEC", tests, NULL, NULL) != 0;
}
