/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whom an MSR access reaches: the permission map, then #GP, then the table of
 * AVIC, in that order; and the host's own x2APIC when AVIC is on, x2AVIC is
 * off and nobody intercepts (CVE-2023-5090).
 *
 * [APM2 15.11 MSR intercepts], [APM2 15.29.10]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <cmocka.h>

#include "core_rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

static enum rig_mode xavic = XAVIC, x2avic = X2AVIC;

static enum avicemu_core_result
msr(struct rig *r, int write, uint32_t number, uint64_t value)
{
    return rig_access(r, 0, AVICEMU_CORE_MSR, write, number, value);
}

static void
assert_intercepted(struct rig *r, int write, uint32_t number)
{
    (void)rig_run(r, 0);
    assert_int_equal(msr(r, write, number, 0x1234), AVICEMU_CORE_EXIT);
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 0);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x07c);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO1), write);
}

/* Not at all intercepted: whatever else it is, there is no exit 7Ch. */
static enum avicemu_core_result
assert_passed(struct rig *r, int write, uint32_t number)
{
    enum avicemu_core_result result;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_EXITCODE, 0);
    (void)rig_run(r, 0);
    result = msr(r, write, number, 0);
    assert_int_not_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x07c);
    rig_stop(r, 0);
    return result;
}

/* Bit 30 off, and the map lets everything through. */
static void
test_host_reached(void **state)
{
    struct rig *r = *state;
    unsigned char *page = r->ram + RIG_VAPIC * 4096;

    rig_put(r, 0, 0x080, 0x20);
    for (uint32_t n = 0x800; n <= 0x8ff; n++) {
        for (int write = 0; write < 2; write++) {
            assert_int_equal(assert_passed(r, write, n), AVICEMU_CORE_HOST);
        }
    }
    assert_int_equal(page[0x080], 0x20);
}

static void
test_all_intercepted(void **state)
{
    struct rig *r = *state;

    rig_msrpm_all(r, 1);
    for (uint32_t n = 0x800; n <= 0x8ff; n++) {
        for (int write = 0; write < 2; write++) {
            assert_intercepted(r, write, n);
        }
    }
}

/* Each bit of the map is one MSR in one direction. */
static void
test_map_bits(void **state)
{
    struct rig *r = *state;

    for (uint32_t n = 0x800; n <= 0x8ff; n++) {
        for (int write = 0; write < 2; write++) {
            rig_msrpm(r, n, write, 1);
            assert_intercepted(r, write, n);
            (void)assert_passed(r, !write, n);
            (void)assert_passed(r, write, n ^ 1);
            (void)assert_passed(r, write, n ^ 4);
            rig_msrpm(r, n, write, 0);
        }
    }
}

/* 832h: byte 20Ch of the map, bits 4 and 5. */
static void
test_map_worked_value(void **state)
{
    struct rig *r = *state;
    unsigned char *map = r->ram + RIG_MSRPM * 4096;

    map[0x20c] = 0x10;
    assert_intercepted(r, 0, 0x832);
    (void)assert_passed(r, 1, 0x832);
    map[0x20c] = 0x20;
    assert_intercepted(r, 1, 0x832);
    (void)assert_passed(r, 0, 0x832);
}

/* MSRs outside the map's three ranges are always intercepted. */
static void
test_map_ranges(void **state)
{
    struct rig *r = *state;
    unsigned char *map = r->ram + RIG_MSRPM * 4096;

    assert_int_equal(assert_passed(r, 0, 0x1b), AVICEMU_CORE_HOST);
    assert_int_equal(assert_passed(r, 0, 0x1fff), AVICEMU_CORE_HOST);
    assert_int_equal(assert_passed(r, 0, 0xc0000080), AVICEMU_CORE_HOST);
    assert_int_equal(assert_passed(r, 1, 0xc001011b), AVICEMU_CORE_HOST);
    assert_intercepted(r, 0, 0x2000);
    assert_intercepted(r, 1, 0xc0002000);
    assert_intercepted(r, 1, 0xffffffff);
    map[0x800 + 0x80 / 4] = 0x02;
    assert_intercepted(r, 1, 0xc0000080);
    map[0x1000 + 0x11b / 4] = 0x80;
    assert_intercepted(r, 1, 0xc001011b);
}

static void
test_intercept_off(void **state)
{
    struct rig *r = *state;

    rig_msrpm_all(r, 1);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_INTERCEPT_MISC, 0);
    assert_int_equal(assert_passed(r, 0, 0x808),
                     r->mode == X2AVIC ? AVICEMU_CORE_DONE : AVICEMU_CORE_HOST);
}

static void
test_map_no_memory(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_MSRPM, RIG_BASE - 0x10000);
    for (int write = 0; write < 2; write++) {
        assert_intercepted(r, write, 0x808);
        assert_intercepted(r, write, 0x8ff);
    }
}

/* The map, then #GP, then the table. */
static void
test_order(void **state)
{
    struct rig *r = *state;

    assert_int_equal(assert_passed(r, 0, 0x8ff), AVICEMU_CORE_GP);
    assert_int_equal(assert_passed(r, 1, 0x839), AVICEMU_CORE_GP);
    assert_int_equal(assert_passed(r, 0, 0x839), AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x402);
    rig_msrpm_all(r, 1);
    assert_intercepted(r, 0, 0x8ff);
    assert_intercepted(r, 1, 0x839);
    assert_intercepted(r, 0, 0x839);
    assert_intercepted(r, 1, 0x808);
    assert_int_equal(rig_get(r, 0, 0x080), 0);
}

/* An MSR that AVIC does not own. */
static void
test_not_ours(void **state)
{
    struct rig *r = *state;

    assert_int_equal(assert_passed(r, 0, 0x7ff), AVICEMU_CORE_HOST);
    assert_int_equal(assert_passed(r, 1, 0x900), AVICEMU_CORE_HOST);
}

#define IN(mode, fn, name)                       \
    {                                            \
        name, fn, rig_setup, rig_teardown, &mode \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN(xavic, test_host_reached,
           "CVE-2023-5090: x2AVIC off, no intercept: the host's APIC"),
        IN(xavic, test_all_intercepted,
           "CVE-2023-5090: x2AVIC off, all intercepted: exit 7Ch"),
        IN(x2avic, test_all_intercepted, "x2AVIC on, all intercepted: 7Ch"),
        IN(xavic, test_map_bits, "xAVIC: a bit is one MSR in one direction"),
        IN(x2avic, test_map_bits, "x2AVIC: a bit is one MSR in one direction"),
        IN(xavic, test_map_worked_value, "xAVIC: 832h is in byte 20Ch"),
        IN(x2avic, test_map_worked_value, "x2AVIC: 832h is in byte 20Ch"),
        IN(xavic, test_map_ranges, "the map has three ranges"),
        IN(xavic, test_intercept_off, "xAVIC: the map counts if bit 28 is set"),
        IN(x2avic, test_intercept_off,
           "x2AVIC: the map counts if bit 28 is set"),
        IN(xavic, test_map_no_memory, "xAVIC: no map in memory intercepts"),
        IN(x2avic, test_map_no_memory, "x2AVIC: no map in memory intercepts"),
        IN(x2avic, test_order, "x2AVIC: the map, then #GP, then the table"),
        IN(xavic, test_not_ours, "xAVIC: 7FFh and 900h are the host's"),
        IN(x2avic, test_not_ours, "x2AVIC: 7FFh and 900h are the host's"),
    };

    return cmocka_run_group_tests_name("avic_msr", tests, NULL, NULL);
}
