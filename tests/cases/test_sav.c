/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind SAV: saving, loading, migrating. Not here:
 *
 *   SAV-02, 05, 07    no such cases
 *   SAV-08 (pins)     the IOAPIC's pins; the LINT lines are here
 */

#include <stdlib.h>
#include <string.h>

#include "rig.h"

struct saved {
    uint8_t bytes[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
};

static void
save(struct avicemu_vcpu *v, struct saved *s)
{
    assert_int_equal(
        avicemu_vcpu_snapshot(v, s->bytes, sizeof(s->bytes), &s->len), 0);
}

static void
load(struct avicemu_vcpu *v, const struct saved *s)
{
    assert_int_equal(avicemu_vcpu_restore(v, s->bytes, s->len), 0);
}

static void
sav_01(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, 0x71, EDGE), NEW);
    reg_w(v, R_SVR, 0xff);
    assert_int_equal(vec_bit(v, R_IRR, 0x71), 1);
    assert_int_equal(avicemu_post(v, 0x72, EDGE), DROPPED);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(rig_take(rig, 0), 0x71); /* kept */
    eoi(v);
    assert_int_equal(rig_take(rig, 0), -1); /* 72h was not accepted */
}

static void
sav_01_reset(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post(v, 0x71, EDGE), NEW);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(rig_take(rig, 0), -1);
    assert_int_equal(rig_stats(v).cleared, 1);
}

/* Through a global disable: AMD and Intel lose it, KVM keeps it. */
static void
sav_01_disable(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    int keeps = (reg_r(v, R_VERSION) & 0xff) == 0x14;

    assert_int_equal(avicemu_post(v, 0x71, EDGE), NEW);
    hw_disable(v);
    assert_int_equal(avicemu_post(v, 0x72, EDGE), DROPPED);
    hw_enable(v);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(rig_take(rig, 0), keeps ? 0x71 : -1);
    assert_int_equal(rig_stats(v).cleared, keeps ? 0 : 1);
}

/* ---- SAV-03 ------------------------------------------------------------- */

struct pieces {
    struct avicemu_kvm_lapic page;
    uint64_t base, deadline, offset;
};

static void
load_piece(struct avicemu_vcpu *v, const struct pieces *p, unsigned piece)
{
    switch (piece) {
    case 0:
        assert_int_equal(avicemu_vcpu_set_apic_base(v, p->base), 0);
        break;
    case 1:
        assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &p->page), 0);
        break;
    case 2:
        assert_int_equal(avicemu_vcpu_set_tsc_deadline(v, p->deadline), 0);
        break;
    default:
        assert_int_equal(avicemu_vcpu_set_tsc_offset(v, p->offset), 0);
        break;
    }
}

/* Load in one order into a new vCPU; nothing may depend on it. */
static void
check_order(const struct rig_setup *setup, const struct pieces *p,
            const unsigned *order)
{
    struct rig *rig = rig_open(setup);
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic again;

    rig->vmm.now = 5000;
    for (unsigned i = 0; i < 4; i++) {
        load_piece(v, p, order[i]);
    }
    assert_int_equal(msr_r(v, MSR_APIC_BASE), p->base);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), p->deadline);
    /* Guest TSC = now + offset: due when that reaches the deadline. */
    assert_int_equal(avicemu_vcpu_deadline(v), p->deadline - p->offset);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &again), 0);
    assert_memory_equal(&again, &p->page, sizeof(again));
    rig_time(rig, p->deadline - p->offset - 5000);
    assert_int_equal(rig_take(rig, 0), 0xec);
    rig_close(rig);
}

static void
orders(const struct rig_setup *setup, const struct pieces *p)
{
    for (unsigned n = 0; n < 256; n++) {
        unsigned order[4] = { n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6 };
        unsigned seen = 0;

        for (unsigned i = 0; i < 4; i++) {
            seen |= 1u << order[i];
        }
        if (seen == 15) {
            check_order(setup, p, order);
        }
    }
}

static const struct rig_setup deadline_setup = {
    P(KVM, .features = AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE),
};

static void
sav_03(void **state)
{
    const int *x2 = *state;
    struct rig *rig = rig_open(&deadline_setup);
    struct avicemu_vcpu *v = rig->v[0];
    struct pieces p = { .deadline = 1009000, .offset = 1000000 };

    if (*x2) {
        to_x2apic(v);
    } else {
        reg_w(v, R_ID, 0x5u << 24);
        reg_w(v, R_LDR, 0x2u << 24);
        reg_w(v, R_ICR2, 0x7u << 24);
    }
    reg_w(v, R_LVTT, LVT_DEADLINE | 0xec);
    reg_w(v, R_TPR, 0x20);
    assert_int_equal(avicemu_vcpu_set_tsc_offset(v, p.offset), 0);
    msr_w(v, MSR_TSC_DEADLINE, p.deadline);
    p.base = msr_r(v, MSR_APIC_BASE);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &p.page), 0);
    rig_close(rig);
    orders(&deadline_setup, &p);
}

/* ---- SAV-04 ------------------------------------------------------------- */

static void
sav_04(void **state)
{
    struct rig *rig = *state;
    struct rig *other;
    struct saved s;
    struct rig_setup setup = { .nr_vcpus = 2 };

    icr_send(rig->v[0], 1, ICR_INIT | ICR_ASSERT);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_INIT);
    save(rig->v[1], &s);
    other = rig_open(&setup);
    load(other->v[1], &s);
    assert_int_equal(rig_view(other->v[1]).wait_for_sipi, 1);
    assert_int_equal(rig_run(other, 1, IF), AVICEMU_DO_SLEEP);
    icr_send(other->v[0], 1, ICR_SIPI | 0x42);
    save(other->v[1], &s); /* with the SIPI pending */
    rig_close(other);
    load(rig->v[1], &s);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x42);
}

/* Pending INIT behind a SIPI, two NMIs and an SMI travel, too. */
static void
sav_04_events(void **state)
{
    struct rig *rig = *state;
    struct saved s;

    icr_send(rig->v[0], 1, ICR_NMI);
    icr_send(rig->v[0], 1, ICR_NMI);
    icr_send(rig->v[0], 1, ICR_SMI);
    save(rig->v[1], &s);
    assert_int_equal(avicemu_vcpu_reset(rig->v[1]), 0);
    load(rig->v[1], &s);
    assert_int_equal(rig_view(rig->v[1]).nr_nmi, 2);
    assert_int_equal(rig_run(rig, 1, 0),
                     AVICEMU_DO_SMI | AVICEMU_DO_NMI_WINDOW);
    icr_send(rig->v[0], 1, ICR_INIT | ICR_ASSERT);
    icr_send(rig->v[0], 1, ICR_SIPI | 0x33);
    save(rig->v[1], &s);
    assert_int_equal(avicemu_vcpu_reset(rig->v[1]), 0);
    load(rig->v[1], &s);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x33);
}

#define MANY 288

/* 288 vCPUs, every third in x2APIC mode, into another VM and compared. */
static void
sav_04_many(void **state)
{
    struct rig rig[2];
    struct avicemu_vcpu **v[2];
    struct saved s, t;

    (void)state;
    for (unsigned side = 0; side < 2; side++) {
        struct avicemu_vm_config config = { .size = sizeof(config) };

        memset(&rig[side], 0, sizeof(rig[side]));
        v[side] = calloc(MANY, sizeof(*v[side]));
        assert_non_null(v[side]);
        fake_vmm_init(&rig[side].vmm);
        fake_vmm_config(&rig[side].vmm, &config);
        config.max_vcpus = MANY;
        assert_int_equal(avicemu_host_create(NULL, &rig[side].host), 0);
        assert_int_equal(
            avicemu_vm_create(rig[side].host, &config, &rig[side].vm), 0);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(avicemu_vcpu_create(rig[side].vm, i,
                                                 &rig[side].vmm.vcpus[0],
                                                 &v[side][i]),
                             0);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 3 == 0) {
            to_x2apic(v[0][i]);
        }
        save(v[0][i], &s);
        load(v[1][i], &s);
        save(v[1][i], &t);
        assert_int_equal(s.len, t.len);
        assert_memory_equal(s.bytes, t.bytes, s.len);
        assert_int_equal(rig_view(v[1][i]).mode,
                         i % 3 ? AVICEMU_APIC_XAPIC : AVICEMU_APIC_X2APIC);
        assert_int_equal(reg_r(v[1][i], R_ID), i % 3 ? i << 24 : i);
        assert_int_not_equal(
            avicemu_vcpu_restore(v[1][(i + 256) % MANY], s.bytes, s.len), 0);
    }
    for (unsigned side = 0; side < 2; side++) {
        rig_check(&rig[side]);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(avicemu_vcpu_destroy(v[side][i]), 0);
        }
        assert_int_equal(avicemu_vm_destroy(rig[side].vm), 0);
        assert_int_equal(avicemu_host_destroy(rig[side].host), 0);
        free(v[side]);
    }
}

/* ---- SAV-06, SAV-08 ----------------------------------------------------- */

static void
sav_06(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved s;

    reg_w(v, R_LVTT, LVT_PERIODIC | 0xec);
    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_TMICT, 1000);
    reg_w(v, R_TPR, 0x2f);
    rig_time(rig, 1000);
    assert_int_equal(rig_take(rig, 0), 0xec);
    rig_time(rig, 300);
    save(v, &s);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    rig_time(rig, 1000000); /* elsewhere, later */
    load(v, &s);
    assert_int_equal(vec_bit(v, R_ISR, 0xec), 1);
    assert_int_equal(reg_r(v, R_LVTT), LVT_PERIODIC | 0xec);
    assert_int_equal(reg_r(v, R_TPR), 0x2f);
    assert_int_equal(avicemu_cr8_read(v), 2);
    assert_int_equal(reg_r(v, R_PPR), 0xe0);
    assert_int_equal(reg_r(v, R_TMCCT), 700);
    rig_time(rig, 700);
    assert_int_equal(rig_take(rig, 0), -1); /* in service */
    eoi(v);
    assert_int_equal(rig_take(rig, 0), 0xec);
    eoi(v);
    rig_time(rig, 1000);
    assert_int_equal(rig_take(rig, 0), 0xec);
}

static void
sav_08(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved s;

    /* The shadow is the core's: the host says it at each entry. */
    assert_int_equal(avicemu_post(v, 0x41, EDGE), NEW);
    assert_int_equal(rig_run(rig, 0, IF | AVICEMU_CPU_SHADOW),
                     AVICEMU_DO_WINDOW);
    save(v, &s);
    load(v, &s);
    assert_int_equal(rig_run(rig, 0, IF | AVICEMU_CPU_SHADOW),
                     AVICEMU_DO_WINDOW);
    assert_int_equal(rig_take(rig, 0), 0x41);
    eoi(v);

    /* The pins' levels are the APIC's. */
    reg_w(v, R_LINT0, ICR_EXTINT);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), NEW);
    save(v, &s);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 0), DROPPED);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    load(v, &s);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 0), DROPPED);
    assert_int_equal(rig_run(rig, 0, IF), 0);
}

int
main(void)
{
    static int xapic = 0;
    static int x2apic = 1;
    const struct CMUnitTest tests[] = {
        RIG_EACH("SAV-01 pending across a software disable", sav_01,
                 .nr_vcpus = 1),
        RIG_EACH("SAV-01 pending across a reset", sav_01_reset, .nr_vcpus = 1),
        RIG_EACH("SAV-01 pending across a global disable", sav_01_disable,
                 .nr_vcpus = 1),
        { .name = "SAV-03 base, page, deadline, TSC in any order (xAPIC)",
          .test_func = sav_03,
          .initial_state = &xapic },
        { .name = "SAV-03 base, page, deadline, TSC in any order (x2APIC)",
          .test_func = sav_03,
          .initial_state = &x2apic },
        RIG_TEST("SAV-04 wait-for-SIPI and a pending SIPI are saved", sav_04,
                 .nr_vcpus = 2),
        RIG_TEST("SAV-04 NMIs, SMI and INIT with SIPI are saved", sav_04_events,
                 .nr_vcpus = 2),
        { .name = "SAV-04 288 vCPUs, ids in 32 bits",
          .test_func = sav_04_many },
        RIG_EACH("SAV-06 timer vector, ISR and TPR agree after a load", sav_06,
                 .nr_vcpus = 1),
        RIG_EACH("SAV-08 shadow by the host, LINT lines by the snapshot",
                 sav_08, .nr_vcpus = 1),
        RIG_EACH_AVIC("SAV-01 pending across a software disable", sav_01,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("SAV-01 pending across a reset", sav_01_reset,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("SAV-01 pending across a global disable", sav_01_disable,
                      .nr_vcpus = 1),
        RIG_EACH_AVIC("SAV-06 timer vector, ISR and TPR agree after a load",
                      sav_06, .nr_vcpus = 1),
    };

    return cmocka_run_group_tests_name("cases SAV", tests, NULL, NULL) != 0;
}
