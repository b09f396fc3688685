/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What VMRUN with AVIC refuses, and what it ignores.
 *
 * [APM2 15.29.4.1], [APM2 15.29.4.2], [APM2 15.29.4.3], [APM2 App. B]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <errno.h>

#include <cmocka.h>

#include "core_rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define IRR   0x200u
#define TPR   0x080u
#define AVIC  AVICEMU_INT_AVIC
#define X2    (AVICEMU_INT_AVIC | AVICEMU_INT_X2AVIC)
#define RF_IF 0x202u

/* Legal, but no memory is there. */
#define NO_MEMORY 0x7000000000ull

/* The rig's mode, as initial state. */
static enum rig_mode xavic = XAVIC, x2avic = X2AVIC;

/* ---- VMRUN: [APM2 15.29.4.1] to [APM2 15.29.4.3] ------------------------ */

static struct vmrun_row {
    const char *name;
    uint32_t features;
    uint32_t maxphyaddr; /* 0: 48 */
    uint32_t offset[2];  /* fields of the VMCB that differ; 0: none */
    uint64_t value[2];
    int good;
} vmrun_rows[] = {
#define INT AVICEMU_VMCB_INT_CTL
#define NPT AVICEMU_VMCB_NESTED_CTL
#define BAR AVICEMU_VMCB_APIC_BAR
#define OWN AVICEMU_VMCB_BACKING_PAGE
#define LOG AVICEMU_VMCB_LOGICAL_TABLE
#define PHY AVICEMU_VMCB_PHYSICAL_TABLE
#define C2  AVICEMU_CORE_X2AVIC
#define C4K (AVICEMU_CORE_X2AVIC | AVICEMU_CORE_X2AVIC_EXT)
    { "vmrun: xAVIC", 0, 0, { INT }, { AVIC }, 1 },
    { "vmrun: x2AVIC", C2, 0, { INT }, { X2 }, 1 },
    { "vmrun: no AVIC", C2, 0, { 0x060 }, { 0 }, 1 },
    { "vmrun: x2AVIC bit without AVIC bit",
      C2,
      0,
      { INT },
      { AVICEMU_INT_X2AVIC },
      0 },
    { "vmrun: xAVIC without nested paging", 0, 0, { NPT }, { 0 }, 0 },
    { "vmrun: x2AVIC without nested paging",
      C2,
      0,
      { INT, NPT },
      { X2, 0 },
      0 },
    { "vmrun: neither AVIC nor nested paging",
      0,
      0,
      { INT, NPT },
      { 0, 0 },
      1 },
    { "vmrun: xAVIC, MAX_INDEX 255", 0, 0, { PHY }, { RIG_BASE | 255 }, 1 },
    { "vmrun: xAVIC, MAX_INDEX 256", 0, 0, { PHY }, { RIG_BASE | 256 }, 0 },
    { "vmrun: xAVIC, MAX_INDEX 4095", 0, 0, { PHY }, { RIG_BASE | 4095 }, 0 },
    { "vmrun: xAVIC, MAX_INDEX 256 on a core for 4096 ids",
      C4K,
      0,
      { PHY },
      { RIG_BASE | 256 },
      0 },
    { "vmrun: x2AVIC, MAX_INDEX 511",
      C2,
      0,
      { INT, PHY },
      { X2, RIG_BASE | 511 },
      1 },
    { "vmrun: x2AVIC, MAX_INDEX 512",
      C2,
      0,
      { INT, PHY },
      { X2, RIG_BASE | 512 },
      0 },
    { "vmrun: x2AVIC, MAX_INDEX 512 on a core for 4096 ids",
      C4K,
      0,
      { INT, PHY },
      { X2, RIG_BASE | 512 },
      1 },
    { "vmrun: x2AVIC, MAX_INDEX 4095 on a core for 4096 ids",
      C4K,
      0,
      { INT, PHY },
      { X2, RIG_BASE | 4095 },
      1 },
    { "vmrun: no AVIC, MAX_INDEX 4095",
      0,
      0,
      { INT, PHY },
      { 0, RIG_BASE | 4095 },
      1 },
    { "vmrun: APIC page at 2^48", 0, 0, { BAR }, { 1ull << 48 }, 0 },
    { "vmrun: backing page at 2^48", 0, 0, { OWN }, { 1ull << 48 }, 0 },
    { "vmrun: logical table at 2^48", 0, 0, { LOG }, { 1ull << 48 }, 0 },
    { "vmrun: physical table at 2^48", 0, 0, { PHY }, { 1ull << 48 }, 0 },
    { "vmrun: backing page at 2^51 of 52 bits",
      0,
      52,
      { OWN },
      { 1ull << 51 },
      1 },
    { "vmrun: backing page at 2^36 of 36 bits",
      0,
      36,
      { OWN },
      { 1ull << 36 },
      0 },
    { "vmrun: backing page at 2^35 of 36 bits",
      0,
      36,
      { OWN },
      { 1ull << 35 },
      1 },
    { "vmrun: x2AVIC, backing page at 2^48",
      C2,
      0,
      { INT, OWN },
      { X2, 1ull << 48 },
      0 },
    { "vmrun: x2AVIC, physical table at 2^48",
      C2,
      0,
      { INT, PHY },
      { X2, 1ull << 48 },
      0 },
    { "vmrun: x2AVIC, logical table at 2^48",
      C2,
      0,
      { INT, LOG },
      { X2, 1ull << 48 },
      0 },
    { "vmrun: x2AVIC, APIC page at 2^48",
      C2,
      0,
      { INT, BAR },
      { X2, 1ull << 48 },
      0 },
    { "vmrun: no AVIC, pointers at 2^48",
      C2,
      0,
      { INT, OWN },
      { 0, 1ull << 48 },
      1 },
    { "vmrun: APIC page that is no memory", 0, 0, { BAR }, { 0xfed00000 }, 1 },
    { "vmrun: x2AVIC on a core without it", 0, 0, { INT }, { X2 }, 0 },
    { "vmrun: backing page that is no memory",
      0,
      0,
      { OWN },
      { NO_MEMORY },
      0 },
    { "vmrun: logical table that is no memory",
      0,
      0,
      { LOG },
      { NO_MEMORY },
      0 },
    { "vmrun: physical table that is no memory",
      0,
      0,
      { PHY },
      { NO_MEMORY },
      0 },
    { "vmrun: x2AVIC, logical table that is no memory",
      C2,
      0,
      { INT, LOG },
      { X2, NO_MEMORY },
      1 },
    { "vmrun: physical table of which the last page is no memory",
      C4K,
      0,
      { INT, PHY },
      { X2, (RIG_BASE + (RIG_PAGES - 7) * 4096) | 4095 },
      0 },
    { "vmrun: no AVIC, nothing is memory",
      0,
      0,
      { INT, PHY },
      { 0, NO_MEMORY },
      1 },
    { "vmrun: low bits of the backing page pointer",
      0,
      0,
      { OWN },
      { RIG_BASE + RIG_VAPIC * 4096 + 0xfff },
      1 },
    { "vmrun: low bits of the logical table pointer",
      0,
      0,
      { LOG },
      { RIG_BASE + RIG_LOGICAL * 4096 + 0xfff },
      1 },
};

static void
core_with(const struct rig *r, uint32_t features, uint32_t maxphyaddr,
          void *memory, struct avicemu_core **ret)
{
    struct avicemu_core_config config = {
        .size = sizeof(config),
        .memory = r->memory,
        .features = features,
        .maxphyaddr = maxphyaddr,
        .host_apic_id = RIG_HOST,
        .nr_doorbells = RIG_BELLS,
        .doorbells = r->doorbells,
    };

    assert_int_equal(avicemu_core_init(memory, &config, ret), 0);
}

/* Pages that are there although they are beyond the width of some core. */
static const uint64_t high[] = { 1ull << 35, 1ull << 36, 1ull << 48,
                                 1ull << 51 };

static void
test_vmrun(void **state)
{
    const struct vmrun_row *row = *state;
    struct avicemu_core *core;
    struct rig r;
    int vector = -2;

    rig_open(&r, XAVIC, 0, AVICEMU_LAPIC_X2APIC, 9);
    for (unsigned n = 0; n < NR(high); n++) {
        assert_int_equal(avicemu_hw_memory_add(r.memory, high[n], 4096,
                                               r.ram + RIG_VAPIC * 4096),
                         0);
    }
    core_with(&r, row->features, row->maxphyaddr, r.core_memory[0], &core);
    for (unsigned i = 0; i < 2 && row->offset[i] != 0; i++) {
        rig_vmcb_put(&r, 0, row->offset[i], row->value[i]);
    }
    rig_vmcb_put(&r, 0, AVICEMU_VMCB_EXITCODE, 0x1234);
    assert_int_equal(avicemu_core_vmrun(core, r.vmcb[0], &vector),
                     row->good ? AVICEMU_CORE_DONE : AVICEMU_CORE_EXIT);
    assert_int_equal(avicemu_core_in_guest(core), row->good);
    assert_int_equal(rig_vmcb(&r, 0, AVICEMU_VMCB_EXITCODE),
                     row->good ? 0x1234 : UINT64_MAX);
    rig_close(&r);
}

static void
test_vmrun_modes(void **state)
{
    struct rig *r = *state;

    assert_int_equal(avicemu_core_in_guest(r->core[0]), 0);
    assert_int_equal(avicemu_core_exit(r->core[0], AVICEMU_EXIT_INTR),
                     AVICEMU_CORE_MODE);
    assert_int_equal(rig_reg(r, 0, 0, TPR, 0), AVICEMU_CORE_MODE);
    assert_int_equal(avicemu_core_vmrun(r->core[0], r->vmcb[0], NULL),
                     AVICEMU_CORE_DONE);
    assert_int_equal(avicemu_core_vmrun(r->core[0], r->vmcb[0], NULL),
                     AVICEMU_CORE_MODE);
    assert_int_equal(avicemu_core_exit(r->core[0], AVICEMU_EXIT_INTR),
                     AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x060);
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 0);
}

static void
test_init_arguments(void **state)
{
    struct rig *r = *state;
    struct avicemu_core_config good = {
        .size = sizeof(good),
        .memory = r->memory,
        .nr_doorbells = RIG_BELLS,
        .doorbells = r->doorbells,
    };
    struct avicemu_core_config bad[5] = { good, good, good, good, good };
    struct avicemu_core *core = NULL;
    void *memory = r->core_memory[1];

    bad[0].size = 0;
    bad[1].memory = NULL;
    bad[2].maxphyaddr = 31;
    bad[3].maxphyaddr = 53;
    bad[4].host_apic_id = 4096;
    for (size_t i = 0; i < NR(bad); i++) {
        assert_int_equal(avicemu_core_init(memory, &bad[i], &core), -EINVAL);
    }
    assert_int_equal(avicemu_core_init(NULL, &good, &core), -EINVAL);
    assert_int_equal(avicemu_core_init(memory, NULL, &core), -EINVAL);
    assert_int_equal(avicemu_core_init(memory, &good, NULL), -EINVAL);
    assert_null(core);
    assert_int_equal(avicemu_core_init(memory, &good, &core), 0);
    assert_non_null(core);
}

/* [APM2 App. B]: 60h, with AVIC on. */
static void
test_v_irq_ignored(void **state)
{
    struct rig *r = *state;
    uint64_t junk = 1ull << 8 | 0xfull << 16 | 1ull << 20 | 0x99ull << 32;
    uint64_t int_ctl = rig_vmcb(r, 0, INT) | junk;

    rig_vmcb_put(r, 0, INT, int_ctl);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, INT), int_ctl);

    /* V_IGN_TPR does not help a vector that TPR holds back. */
    rig_put(r, 0, TPR, 0x50);
    rig_vmcb_put(r, 0, INT, int_ctl | 5);
    rig_set_bit(r, 0, IRR, 0x5f);
    assert_int_equal(rig_run(r, 0), -1);
    rig_stop(r, 0);

    /* Nor does V_INTR_PRIO stop one. */
    rig_set_bit(r, 0, IRR, 0x61);
    assert_int_equal(rig_run(r, 0), 0x61);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, INT), int_ctl | 5);
}

/* ---- the list ----------------------------------------------------------- */

#define IN(mode, fn, name)                       \
    {                                            \
        name, fn, rig_setup, rig_teardown, &mode \
    }

static const struct CMUnitTest plain[] = {
    IN(xavic, test_vmrun_modes, "host and guest mode, and calls in the wrong"),
    IN(xavic, test_init_arguments, "arguments of init are checked"),
    IN(xavic, test_v_irq_ignored, "xAVIC: V_IRQ and its fields are ignored"),
    IN(x2avic, test_v_irq_ignored, "x2AVIC: V_IRQ and its fields are ignored"),
};

static struct CMUnitTest tests[NR(plain) + NR(vmrun_rows)];

int
main(void)
{
    size_t at = 0;

    for (size_t i = 0; i < NR(plain); i++) {
        tests[at++] = plain[i];
    }
    for (size_t i = 0; i < NR(vmrun_rows); i++) {
        tests[at++] = (struct CMUnitTest){ .name = vmrun_rows[i].name,
                                           .test_func = test_vmrun,
                                           .initial_state = &vmrun_rows[i] };
    }
    return _cmocka_run_group_tests("avic_vmrun", tests, at, NULL, NULL) != 0;
}
