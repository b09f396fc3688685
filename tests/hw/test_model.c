/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolving a configuration: what is refused and why, the version register,
 * the table's public face. [APM2 16.3, 16.4, 16.5, 16.6], [SDM3 10.4, 10.4.8],
 * [APM2 Fig 16-31]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/hw/lapic.h>

#include "hw/model.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define AMD   AVICEMU_PERSONALITY_AMD
#define INTEL AVICEMU_PERSONALITY_INTEL
#define KVM   AVICEMU_PERSONALITY_KVM
#define X2    AVICEMU_LAPIC_X2APIC

struct config_row {
    const char *name;
    struct avicemu_lapic_config config;
    const char *field; /* that is refused; NULL: none */
    uint64_t value;
};

static struct config_row config_rows[] = {
    { "config: all zeros are the defaults", { .personality = AMD }, NULL, 0 },
    { "config: no such personality",
      { .personality = AVICEMU_NR_PERSONALITY },
      "lapic.personality",
      3 },
    { "config: AMD has no CMCI",
      { .features = X2 | AVICEMU_LAPIC_CMCI },
      "lapic.features",
      5 },
    { "config: Intel has no extended space",
      { .personality = INTEL, .features = AVICEMU_LAPIC_EXT_SPACE },
      "lapic.features",
      8 },
    { "config: KVM has no extended space",
      { .personality = KVM, .features = AVICEMU_LAPIC_EXT_SPACE },
      "lapic.features",
      8 },
    { "config: no such feature",
      { .features = 1u << 31 },
      "lapic.features",
      1u << 31 },
    { "config: MAXPHYADDR 31", { .maxphyaddr = 31 }, "lapic.maxphyaddr", 31 },
    { "config: MAXPHYADDR 32", { .maxphyaddr = 32 }, NULL, 0 },
    { "config: MAXPHYADDR 52", { .maxphyaddr = 52 }, NULL, 0 },
    { "config: MAXPHYADDR 53", { .maxphyaddr = 53 }, "lapic.maxphyaddr", 53 },
    { "config: now at 2^40 Hz", { .now_hz = 1ull << 40 }, NULL, 0 },
    { "config: now above 2^40 Hz",
      { .now_hz = (1ull << 40) + 1 },
      "lapic.now_hz",
      (1ull << 40) + 1 },
    { "config: bus above 2^40 Hz",
      { .bus_hz = UINT64_MAX },
      "lapic.bus_hz",
      UINT64_MAX },
    { "config: TSC above 2^40 Hz",
      { .tsc_hz = 1ull << 41 },
      "lapic.tsc_hz",
      1ull << 41 },
    { "config: no such policy",
      { .missed_ticks = (enum avicemu_missed_ticks)3 },
      "lapic.missed_ticks",
      3 },
    { "config: burst of none",
      { .missed_ticks = AVICEMU_MISSED_BURST },
      "lapic.max_burst",
      0 },
    { "config: burst of 65536",
      { .missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 65536 },
      NULL,
      0 },
    { "config: burst of 65537",
      { .missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 65537 },
      "lapic.max_burst",
      65537 },
    { "config: a longest shortest period",
      { .min_period = UINT64_MAX },
      NULL,
      0 },
};

static void
test_config(void **state)
{
    const struct config_row *row = *state;
    struct ae_lapic_model model;
    uint64_t value = 0;
    const char *wrong = ae_lapic_model_init(&model, &row->config, &value);

    if (row->field == NULL) {
        assert_null(wrong);
        return;
    }
    assert_non_null(wrong);
    assert_memory_equal(wrong, row->field, strlen(row->field));
    assert_non_null(strchr(wrong, ':')); /* and what it may be */
    assert_int_equal(value, row->value);
}

static void
test_version(void **state)
{
    static const struct {
        enum avicemu_personality personality;
        uint32_t features, version;
    } rows[] = {
        { AMD, 0, 0x00050010 },
        { AMD, X2 | AVICEMU_LAPIC_EXT_SPACE, 0x80050010 },
        { AMD, AVICEMU_LAPIC_DIRECTED_EOI, 0x01050010 },
        { INTEL, 0, 0x00050015 },
        { INTEL, X2 | AVICEMU_LAPIC_CMCI, 0x00060015 },
        { INTEL, X2 | AVICEMU_LAPIC_DIRECTED_EOI, 0x01050015 },
        { KVM, 0, 0x00050014 },
        { KVM, X2 | AVICEMU_LAPIC_CMCI, 0x00060014 },
    };

    (void)state;
    for (size_t i = 0; i < NR(rows); i++) {
        struct avicemu_lapic_config config = {
            .personality = rows[i].personality,
            .features = rows[i].features,
        };
        struct avicemu_hw_reg reg = { .size = sizeof(reg) };

        assert_int_equal(avicemu_hw_reg(&config, 0x030, &reg), 0);
        assert_string_equal(reg.name, "VERSION");
        assert_int_equal(reg.reset, rows[i].version);
    }
}

static void
test_reg(void **state)
{
    struct avicemu_hw_reg reg = { .size = sizeof(reg) };
    struct avicemu_hw_reg small = { .size = sizeof(reg) - 1 };
    struct avicemu_lapic_config bad = { .maxphyaddr = 1 };

    (void)state;
    assert_int_equal(avicemu_hw_reg(NULL, 0x270, &reg), 0);
    assert_string_equal(reg.name, "IRR");
    assert_int_equal(reg.index, 7);
    assert_int_equal(reg.xapic, AVICEMU_HW_RO);
    assert_int_equal(avicemu_hw_reg(NULL, 0x0b0, &reg), 0);
    assert_int_equal(reg.xapic, AVICEMU_HW_WO);
    assert_int_equal(avicemu_hw_reg(NULL, 0x3f0, &reg), 0);
    assert_int_equal(reg.xapic, AVICEMU_HW_NONE);
    assert_int_equal(reg.x2apic, AVICEMU_HW_WO);
    assert_int_equal(avicemu_hw_reg(NULL, 0x000, &reg), -ENOENT);
    assert_int_equal(avicemu_hw_reg(NULL, 0xff0, &reg), -ENOENT);
    assert_int_equal(avicemu_hw_reg(NULL, 0x088, &reg), -EINVAL);
    assert_int_equal(avicemu_hw_reg(NULL, 0x1000, &reg), -EINVAL);
    assert_int_equal(avicemu_hw_reg(NULL, 0x080, NULL), -EINVAL);
    assert_int_equal(avicemu_hw_reg(NULL, 0x080, &small), -EINVAL);
    assert_int_equal(avicemu_hw_reg(&bad, 0x080, &reg), -EINVAL);
}

/* Bits 7:0, 9 and from MAXPHYADDR up; EXTD without x2APIC. */
static void
test_base_reserved(void **state)
{
    static const struct {
        uint32_t features, maxphyaddr;
        uint64_t reserved;
    } rows[] = {
        { X2, 0, 0xffff0000000002ffull },
        { X2, 32, 0xffffffff000002ffull },
        { X2, 52, 0xfff00000000002ffull },
        { AVICEMU_LAPIC_EXT_SPACE, 40, 0xffffff00000006ffull },
    };

    (void)state;
    for (size_t i = 0; i < NR(rows); i++) {
        struct avicemu_lapic_config config = {
            .features = rows[i].features,
            .maxphyaddr = rows[i].maxphyaddr,
        };
        struct ae_lapic_model model;
        uint64_t value;

        assert_null(ae_lapic_model_init(&model, &config, &value));
        assert_int_equal(model.base_reserved, rows[i].reserved);
    }
}

int
main(void)
{
    struct CMUnitTest tests[3 + NR(config_rows)];
    size_t n = 0;

    tests[n++] = (struct CMUnitTest){ .name = "the version register",
                                      .test_func = test_version };
    tests[n++] = (struct CMUnitTest){ .name = "the table's public face",
                                      .test_func = test_reg };
    tests[n++] = (struct CMUnitTest){ .name = "reserved bits of APIC_BASE",
                                      .test_func = test_base_reserved };
    for (size_t i = 0; i < NR(config_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = config_rows[i].name,
                                          .test_func = test_config,
                                          .initial_state = &config_rows[i] };
    }
    return cmocka_run_group_tests_name("model", tests, NULL, NULL) != 0;
}
