/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases of kind IPI: who gets an interprocessor interrupt. Not here:
 *
 *   IPI-03, 05, 08, 11   no such cases
 *   IPI-13               needs the IOAPIC
 */

#include "rig.h"

/* [APM2 16.5], [APM2 Table 16-4] */
static void
shorthands(struct rig *rig)
{
    static const struct {
        uint32_t shorthand, targets;
    } rows[] = {
        { ICR_SELF, 0x2 },
        { ICR_ALL, 0xf },
        { ICR_OTHERS, 0xd },
        { ICR_SELF | ICR_LOGICAL, 0x2 },
        { ICR_ALL | ICR_LOGICAL, 0xf },
        { ICR_OTHERS | ICR_LOGICAL, 0xd },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        icr_send(rig->v[1], 3, rows[i].shorthand | ICR_FIXED | 0x51);
        assert_int_equal(rig_irr_mask(rig, 0x51), rows[i].targets);
        rig_drain(rig);
    }
}

static void
ipi_01(void **state)
{
    struct rig *rig = *state;

    shorthands(rig);
    for (uint32_t i = 0; i < 4; i++) {
        to_x2apic(rig->v[i]);
    }
    shorthands(rig);
}

static void
ipi_02(void **state)
{
    struct rig *rig = *state;

    icr_send(rig->v[0], 0x77, ICR_FIXED | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0);
    assert_int_equal(rig_stats(rig->v[0]).ipi_dropped, 1);
    icr_send(rig->v[0], 1, ICR_REMOTE | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0);
    assert_int_equal(rig_stats(rig->v[0]).ipi_dropped, 2);
    assert_int_equal(rig_run(rig, 1, IF), 0);
    icr_send(rig->v[0], 1, ICR_INIT | ICR_ASSERT);
    for (uint32_t map = R_IRR; map < R_IRR + 0x80; map += 0x10) {
        assert_int_equal(reg_peek(rig->v[1], map), 0);
    }
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_view(rig->v[1]).wait_for_sipi, 1);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_SLEEP);
}

/* [APM2 16.6.1], [SDM3 10.6.2] */
static void
ipi_04(void **state)
{
    static const uint8_t ldrs[] = { 0x11, 0x21, 0x42 };
    struct rig *rig = *state;

    for (unsigned flat = 0; flat < 2; flat++) {
        for (uint32_t i = 0; i < 3; i++) {
            reg_w(rig->v[i], R_DFR, flat ? 0xffffffff : 0x0fffffff);
            reg_w(rig->v[i], R_LDR, (uint32_t)ldrs[i] << 24);
        }
        icr_send(rig->v[0], 0xff, ICR_FIXED | ICR_LOGICAL | 0x51);
        assert_int_equal(rig_irr_mask(rig, 0x51), 0x7);
        rig_drain(rig);
        icr_send(rig->v[0], 0x21, ICR_FIXED | ICR_LOGICAL | 0x51);
        assert_int_equal(rig_irr_mask(rig, 0x51), flat ? 0x3 : 0x2);
        rig_drain(rig);
    }
}

/* [APM2 16.3.1], [SDM3 10.4.7] */
static void
ipi_06(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v0 = rig->v[0];
    struct avicemu_vcpu *v1 = rig->v[1];

    reg_w(v1, R_LDR, 0x02u << 24);
    assert_int_equal(avicemu_post(v1, 0x71, EDGE), NEW);
    reg_w(v1, R_SVR, 0xff);
    icr_send(v0, 2, ICR_FIXED | ICR_LOGICAL | 0x51);
    icr_send(v0, 1, ICR_FIXED | 0x52);
    icr_send(v0, 2, ICR_LOWEST | ICR_LOGICAL | 0x53);
    assert_int_equal(rig_stats(v0).ipi_dropped, 3);
    icr_send(v0, 1, ICR_NMI);
    assert_int_equal(rig_view(v1).nr_nmi, 1);
    assert_int_equal(rig_run(rig, 1, IF) & AVICEMU_DO_NMI, AVICEMU_DO_NMI);
    icr_send(v0, 1, ICR_SMI);
    assert_int_equal(rig_run(rig, 1, IF) & AVICEMU_DO_SMI, AVICEMU_DO_SMI);
    reg_w(v1, R_SVR, 0x1ff);
    assert_int_equal(rig_irr_mask(rig, 0x51) | rig_irr_mask(rig, 0x52) |
                         rig_irr_mask(rig, 0x53),
                     0);
    assert_int_equal(rig_take(rig, 1), 0x71); /* from before: kept */
    reg_w(v1, R_SVR, 0xff);
    assert_int_equal(vec_bit(v1, R_ISR, 0x71), 1);
    icr_send(v0, 1, ICR_INIT | ICR_ASSERT);
    icr_send(v0, 1, ICR_SIPI | 0x9a);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x9a);
}

/*
 * An xAPIC vCPU with a big id answers to its whole id; 23h is somebody else.
 * (Once it is software-enabled it also has the 8-bit id 23h: aliases all
 * receive, as two real APICs with one id would.)
 */
static void
ipi_07(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *plugged;

    to_x2apic(rig->v[0]);
    assert_int_equal(
        avicemu_vcpu_create(rig->vm, 0x123, &rig->fake[2], &plugged), 0);
    icr_send(rig->v[0], 0x123, ICR_INIT | ICR_ASSERT);
    icr_send(rig->v[0], 0x123, ICR_SIPI | 0x12);
    icr_send(rig->v[0], 0x23, ICR_FIXED | 0x51);
    rig->v[rig->nr_vcpus++] = plugged;
    assert_int_equal(rig_irr_mask(rig, 0x51), 0x2);
    assert_int_equal(rig_take(rig, 1), 0x51);
    assert_int_equal(rig_run(rig, 1, IF), 0); /* no INIT for 23h */
    assert_int_equal(rig_run(rig, 2, 0), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 2, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x12);
    reg_w(plugged, R_SVR, 0x1ff);
    icr_send(rig->v[0], 0x123, ICR_FIXED | 0x52);
    assert_int_equal(rig_irr_mask(rig, 0x52), 0x4);
}

static void
ipi_09(void **state)
{
    struct rig *rig = *state;

    icr_send(rig->v[1], 0, ICR_SIPI | 0x11);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    icr_send(rig->v[0], 1, ICR_SIPI | 0x12);
    assert_int_equal(rig_run(rig, 1, IF), 0);
    assert_int_equal(rig_stats(rig->v[0]).ipi_dropped, 1);
    icr_send(rig->v[0], 1, ICR_INIT | ICR_ASSERT);
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
    icr_send(rig->v[0], 1, ICR_SIPI | 0x9f);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SIPI);
    assert_int_equal(rig->todo.vector, 0x9f); /* CS base 9F000h */
    icr_send(rig->v[0], 1, ICR_SIPI | 0x13);
    assert_int_equal(rig_run(rig, 1, IF), 0);
    assert_int_equal(rig_stats(rig->v[0]).ipi_dropped, 2);
    assert_int_equal(rig_stats(rig->v[1]).sipi, 2); /* one by the rig */
}

static void
ipi_10(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(rig_run(rig, 1, 0), 0);
    assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
    assert_int_equal(avicemu_post(rig->v[1], 0x51, EDGE), NEW);
    assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]), AVICEMU_SLEEP_YES);
    assert_int_equal(avicemu_post(rig->v[1], 0x61, EDGE), NEW);
    assert_int_equal(rig->fake[1].wakes, 0); /* IF = 0 */
    icr_send(rig->v[0], 1, ICR_NMI);
    assert_int_equal(rig->fake[1].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_NMI | AVICEMU_DO_WINDOW);
    icr_send(rig->v[0], 1, ICR_NMI);
    assert_int_equal(rig_run(rig, 1, AVICEMU_CPU_NMI_BLOCKED),
                     AVICEMU_DO_NMI_WINDOW | AVICEMU_DO_WINDOW);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_NMI | AVICEMU_DO_WINDOW);
    icr_send(rig->v[0], 1, ICR_SMI);
    assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_SMI | AVICEMU_DO_WINDOW);
}

/* Fixed by level and trigger; a choice: level with de-assert is dropped
 * where level-triggered IPIs exist, else sent as an edge. */
static void
ipi_12(void **state)
{
    static const struct {
        uint32_t bits;
        int arrives[2], tmr[2]; /* without, with level-triggered IPIs */
    } rows[] = {
        { 0, { 1, 1 }, { 0, 0 } },
        { ICR_LEVEL, { 1, 0 }, { 0, 0 } },
        { ICR_ASSERT, { 1, 1 }, { 0, 0 } },
        { ICR_ASSERT | ICR_LEVEL, { 1, 1 }, { 0, 1 } },
    };
    struct rig *rig = *state;
    int level = (reg_r(rig->v[0], R_VERSION) & 0xff) != 0x15; /* Intel: no */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        icr_send(rig->v[0], 1, ICR_FIXED | rows[i].bits | 0x51);
        assert_int_equal(vec_bit(rig->v[1], R_IRR, 0x51),
                         rows[i].arrives[level]);
        assert_int_equal(vec_bit(rig->v[1], R_TMR, 0x51), rows[i].tmr[level]);
        rig_drain(rig);
    }
    icr_send(rig->v[0], 1, ICR_INIT | ICR_LEVEL); /* de-assert: no reset */
    assert_int_equal(rig_run(rig, 1, IF), 0);
    icr_send(rig->v[0], 1, ICR_INIT); /* an edge, whatever the level bit */
    assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_INIT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_EACH("IPI-01 shorthands ignore the destination", ipi_01,
                 .nr_vcpus = 4),
        RIG_EACH("IPI-02 no target is no target, INIT is no vector", ipi_02,
                 .nr_vcpus = 2),
        RIG_EACH("IPI-04 logical FFh is everybody in every model", ipi_04,
                 .nr_vcpus = 3),
        RIG_EACH("IPI-06 a software-disabled target", ipi_06, .nr_vcpus = 2),
        RIG_EACH("IPI-07 an id above 255 at hot-plug", ipi_07, .nr_vcpus = 2,
                 .nr_ids = 2, .ids = { 0, 0x23 }),
        RIG_EACH("IPI-09 SIPI is for those who wait", ipi_09, .nr_vcpus = 2),
        RIG_EACH("IPI-10 an NMI wakes a CPU halted with IF = 0", ipi_10,
                 .nr_vcpus = 2),
        RIG_EACH("IPI-12 level and trigger bits", ipi_12, .nr_vcpus = 2),
        RIG_EACH_AVIC("IPI-01 shorthands ignore the destination", ipi_01,
                      .nr_vcpus = 4),
        RIG_EACH_AVIC("IPI-02 no target is no target, INIT is no vector",
                      ipi_02, .nr_vcpus = 2),
        RIG_EACH_AVIC("IPI-04 logical FFh is everybody in every model", ipi_04,
                      .nr_vcpus = 3),
        RIG_EACH_AVIC("IPI-07 an id above 255 at hot-plug", ipi_07,
                      .nr_vcpus = 2, .nr_ids = 2, .ids = { 0, 0x23 }),
        RIG_EACH_AVIC("IPI-09 SIPI is for those who wait", ipi_09,
                      .nr_vcpus = 2),
        RIG_EACH_AVIC("IPI-10 an NMI wakes a CPU halted with IF = 0", ipi_10,
                      .nr_vcpus = 2),
        RIG_EACH_AVIC("IPI-12 level and trigger bits", ipi_12, .nr_vcpus = 2),
    };

    return cmocka_run_group_tests_name("cases IPI", tests, NULL, NULL) != 0;
}
