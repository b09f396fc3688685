/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IOMMU's registers, each with 4- and 8-byte accesses; what the features
 * leave; the capability block; text. [IOMMU 3.4 MMIO registers]
 */

#include <errno.h>
#include <string.h>

#include "iommu_rig.h"

struct row {
    const char *name;
    uint32_t offset;
    uint64_t reset;
    uint64_t writable; /* of all ones, while its ring is stopped */
};

#define ROW(offset, reset, writable)                     \
    {                                                    \
#offset, AVICEMU_IOMMU_##offset, reset, writable \
    }
#define EFR_DEFAULT  0x00004000002000c4ull
#define CONTROL_BITS 0x080c18003e021ffdull

static const struct row rows[] = {
    ROW(DEVICE_TABLE, 0, 0x000ffffffffff1ff),
    ROW(COMMAND_BASE, 8ull << 56, 0x0f0ffffffffff000),
    ROW(EVENT_BASE, 8ull << 56, 0x0f0ffffffffff000),
    ROW(EFR, EFR_DEFAULT, 0),
    ROW(GA_BASE, 8ull << 56, 0x0f0ffffffffff000),
    ROW(GA_TAIL_WORD, 0, 0x000ffffffffffff8),
    ROW(XT_EVENT, 0, 0xff0001ffffffff04),
    ROW(XT_GA, 0, 0xff0001ffffffff04),
    ROW(EFR2, 0x100, 0),
    ROW(COMMAND_HEAD, 0, 0xff0),
    ROW(COMMAND_TAIL, 0, 0xff0),
    ROW(EVENT_HEAD, 0, 0xff0),
    ROW(EVENT_TAIL, 0, 0xff0),
    ROW(STATUS, 0, 0),
    ROW(GA_HEAD, 0, 0xff8),
    ROW(GA_TAIL, 0, 0xff8),
    { "exclusion base", 0x20, 0, 0x000ffffffffff003 },
    { "exclusion limit", 0x28, 0, 0x000ffffffffff000 },
    { "PPR log base", 0x38, 8ull << 56, 0x0f0ffffffffff000 },
    { "XT of PPR", 0x178, 0, 0xff0001ffffffff04 },
    { "PPR head", 0x2030, 0, 0x7fff0 },
    { "PPR tail", 0x2038, 0, 0x7fff0 },
    { "MSI: misc 0 and 1", 0x150, 1ull << 32, 0 },
    { "MSI: header and low address", 0x158, 0x00820005, 0xfffffffc00710000 },
    { "MSI: high address and data", 0x160, 0, 0x0000ffffffffffff },
    { "MSI mapping: not there", 0x168, 0, 0 },
    { "hardware event, high: not there", 0x40, 0, 0 },
    { "hardware event, low: not there", 0x48, 0, 0 },
    { "hardware event status: not there", 0x50, 0, 0 },
    { "PPR log B: not there", 0xf0, 0, 0 },
    { "event log B: not there", 0xf8, 0, 0 },
    { "device table segment 1: not there", 0x100, 0, 0 },
    { "device table segment 7: not there", 0x130, 0, 0 },
    { "vIOMMU status: not there", 0x190, 0, 0 },
    { "pointers of PPR log B: not there", 0x2050, 0, 0 },
    { "pointers of event log B: not there", 0x2070, 0, 0 },
    { "a page between", 0x1000, 0, 0 },
    { "the end of the region", 0x3ff8, 0, 0 },
};

static struct rig *
fresh(void **state, uint32_t features)
{
    struct avicemu_hw_iommu_config config = { .size = sizeof(config),
                                              .features = features };
    struct rig *rig;

    assert_int_equal(rig_setup(state), 0);
    rig = *state;
    avicemu_hw_iommu_destroy(rig->iommu);
    config.memory = rig->memory;
    assert_int_equal(avicemu_hw_iommu_create(&config, &rig->iommu), 0);
    return rig;
}

static uint64_t
half(struct rig *rig, uint32_t offset)
{
    uint64_t value = 0;

    assert_int_equal(avicemu_hw_iommu_read(rig->iommu, offset, 4, &value), 0);
    assert_int_equal(value >> 32, 0);
    return value;
}

static void
half_set(struct rig *rig, uint32_t offset, uint64_t value)
{
    assert_int_equal(avicemu_hw_iommu_write(rig->iommu, offset, 4, value, NULL),
                     0);
}

/* Reset; all ones; each half alone. */
static void
row_test(void **state)
{
    const struct row *row = *state;
    void *opened = NULL;
    struct rig *rig = fresh(&opened, 0);
    uint64_t kept = row->reset & ~row->writable;

    assert_int_equal(rig_read(rig, row->offset), row->reset);
    rig_write(rig, row->offset, UINT64_MAX);
    /* Pointers are cut to the ring, here of 256 entries. */
    assert_int_equal(rig_read(rig, row->offset), row->writable | kept);
    rig_write(rig, row->offset, 0);
    half_set(rig, row->offset, UINT32_MAX);
    assert_int_equal(rig_read(rig, row->offset) & UINT32_MAX,
                     (row->writable | kept) & UINT32_MAX);
    assert_int_equal(half(rig, row->offset),
                     rig_read(rig, row->offset) & UINT32_MAX);
    assert_int_equal(half(rig, row->offset + 4),
                     rig_read(rig, row->offset) >> 32);
    half_set(rig, row->offset, 0);
    half_set(rig, row->offset + 4, UINT32_MAX);
    assert_int_equal(rig_read(rig, row->offset) >> 32,
                     (row->writable | kept) >> 32);
    (void)rig_teardown(&opened);
}

static void
test_accesses(void **state)
{
    struct rig *rig = *state;
    uint64_t value = 7;

    for (unsigned bytes = 0; bytes < 17; bytes++) {
        for (uint32_t offset = 0x18; offset < 0x20; offset++) {
            int good = (bytes == 4 || bytes == 8) && offset % bytes == 0;

            assert_int_equal(
                avicemu_hw_iommu_read(rig->iommu, offset, bytes, &value),
                good ? 0 : -EINVAL);
        }
    }
    assert_int_equal(avicemu_hw_iommu_read(rig->iommu, 0x4000, 8, &value),
                     -EINVAL);
    assert_int_equal(avicemu_hw_iommu_write(rig->iommu, 0x4000, 8, 0, NULL),
                     -EINVAL);
    assert_int_equal(avicemu_hw_iommu_read(NULL, 0, 8, &value), -EINVAL);
    assert_int_equal(avicemu_hw_iommu_read(rig->iommu, 0, 8, NULL), -EINVAL);
}

/* Control bits exist with their features. */
static void
test_features(void **state)
{
    static const struct {
        uint32_t features;
        uint64_t control;
    } cases[] = {
        { 0, CONTROL_BITS },
        { AVICEMU_IOMMU_BARE, 0x0800000000001ffd },
        { AVICEMU_IOMMU_GA, 0x0800000000021ffd },
        { AVICEMU_IOMMU_GA | AVICEMU_IOMMU_GAM, 0x080000003e021ffd },
        { AVICEMU_IOMMU_XT, 0x080c000000001ffd },
        { AVICEMU_IOMMU_2K, 0x0800180000001ffd },
        { AVICEMU_IOMMU_GAPPI, 0x0880000000001ffd },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *opened = NULL;
        struct rig *rig = fresh(&opened, cases[i].features);

        rig_write(rig, AVICEMU_IOMMU_CONTROL, UINT64_MAX);
        /* HtTunEn (bit 1) is not modelled. */
        assert_int_equal(rig_read(rig, AVICEMU_IOMMU_CONTROL),
                         cases[i].control);
        (void)rig_teardown(&opened);
    }
}

/* So do registers: without it one reads 0 and keeps nothing. */
static void
test_registers_by_feature(void **state)
{
    static const struct {
        uint32_t offset, feature;
    } cases[] = {
        { AVICEMU_IOMMU_GA_BASE, AVICEMU_IOMMU_GAM },
        { AVICEMU_IOMMU_GA_TAIL_WORD, AVICEMU_IOMMU_GAM },
        { AVICEMU_IOMMU_GA_HEAD, AVICEMU_IOMMU_GAM },
        { AVICEMU_IOMMU_GA_TAIL, AVICEMU_IOMMU_GAM },
        { AVICEMU_IOMMU_XT_EVENT, AVICEMU_IOMMU_XT },
        { AVICEMU_IOMMU_XT_GA, AVICEMU_IOMMU_XT },
        { 0x178, AVICEMU_IOMMU_XT },
        { 0x158, AVICEMU_IOMMU_MSI_MMIO },
        { 0x160, AVICEMU_IOMMU_MSI_MMIO },
    };

    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        void *opened = NULL;
        uint32_t without = AVICEMU_IOMMU_DEFAULT & ~cases[i / 2].feature;
        struct rig *rig =
            fresh(&opened, i % 2 == 0 ? cases[i / 2].feature : without);

        rig_write(rig, cases[i / 2].offset, UINT64_MAX);
        assert_int_equal(rig_read(rig, cases[i / 2].offset) != 0, i % 2 == 0);
        (void)rig_teardown(&opened);
    }
}

/* Writes of a base and of hardware's pointer while the ring runs. */
static void
test_running(void **state)
{
    static const uint32_t ignored[] = {
        AVICEMU_IOMMU_COMMAND_BASE, AVICEMU_IOMMU_EVENT_BASE,
        AVICEMU_IOMMU_GA_BASE,      AVICEMU_IOMMU_GA_TAIL_WORD,
        AVICEMU_IOMMU_COMMAND_HEAD, AVICEMU_IOMMU_EVENT_TAIL,
        AVICEMU_IOMMU_GA_TAIL,
    };
    struct rig *rig = *state;

    for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        uint64_t was = rig_read(rig, ignored[i]);

        rig_write(rig, ignored[i], 0x100);
        assert_int_equal(rig_read(rig, ignored[i]), was);
    }
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_STATUS),
                     AVICEMU_STATUS_EVENT_LOG_RUN | AVICEMU_STATUS_CMD_BUF_RUN |
                         AVICEMU_STATUS_GA_LOG_RUN);
    rig_disable(rig, AVICEMU_CONTROL_EVENT_LOG_EN | AVICEMU_CONTROL_CMD_BUF_EN |
                         AVICEMU_CONTROL_GA_LOG_EN);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_STATUS), 0);
    rig_write(rig, AVICEMU_IOMMU_GA_TAIL, 0x100);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0x100);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, 0x5000 | 8ull << 56);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_GA_TAIL), 0);
}

/* vector 6: software can set no bit of the status register. */
static void
test_status(void **state)
{
    void *opened = NULL;
    struct rig *rig = fresh(&opened, 0);

    (void)state;
    rig_write(rig, AVICEMU_IOMMU_STATUS, 0x7ff);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_STATUS), 0);
    rig_write(rig, AVICEMU_IOMMU_STATUS, UINT64_MAX);
    assert_int_equal(rig_read(rig, AVICEMU_IOMMU_STATUS), 0);
    (void)rig_teardown(&opened);
}

static void
test_capability(void **state)
{
    struct rig *rig = *state;
    uint32_t value = 0;

    assert_int_equal(avicemu_hw_iommu_config_read(rig->iommu, 0, &value), 0);
    assert_int_equal(value & 0xff, 0x0f);
    assert_int_equal(value >> 16 & 7, 3);
    assert_int_equal(value >> 27 & 1, 1); /* EFRSup */
    (void)avicemu_hw_iommu_config_write(rig->iommu, 4, 0xfeb80000);
    (void)avicemu_hw_iommu_config_write(rig->iommu, 8, 0x12);
    (void)avicemu_hw_iommu_config_write(rig->iommu, 4, 0xfeb83fff);
    (void)avicemu_hw_iommu_config_read(rig->iommu, 4, &value);
    assert_int_equal(value, 0xfeb80001);
    /* Locked from now on. */
    (void)avicemu_hw_iommu_config_write(rig->iommu, 4, 0);
    (void)avicemu_hw_iommu_config_write(rig->iommu, 8, 0);
    (void)avicemu_hw_iommu_config_read(rig->iommu, 4, &value);
    assert_int_equal(value, 0xfeb80001);
    (void)avicemu_hw_iommu_config_read(rig->iommu, 8, &value);
    assert_int_equal(value, 0x12);
    (void)avicemu_hw_iommu_config_read(rig->iommu, 0x14, &value);
    assert_int_equal(value, 1); /* MsiNumGA */
    assert_int_equal(avicemu_hw_iommu_config_read(rig->iommu, 0x18, &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(avicemu_hw_iommu_config_read(rig->iommu, 2, &value),
                     -EINVAL);
}

static void
test_create(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_iommu *iommu = NULL;
    const struct avicemu_hw_iommu_config good = { .size = sizeof(good),
                                                  .memory = rig->memory };
    struct avicemu_hw_iommu_config c = good;

    c.memory = NULL;
    assert_int_equal(avicemu_hw_iommu_create(&c, &iommu), -EINVAL);
    c = good;
    c.features = 1u << 20;
    assert_int_equal(avicemu_hw_iommu_create(&c, &iommu), -EINVAL);
    c = good;
    c.maxphyaddr = 31;
    assert_int_equal(avicemu_hw_iommu_create(&c, &iommu), -EINVAL);
    c = good;
    c.nr_doorbells = 1;
    assert_int_equal(avicemu_hw_iommu_create(&c, &iommu), -EINVAL);
    c = good;
    c.nr_cached = 3;
    assert_int_equal(avicemu_hw_iommu_create(&c, &iommu), -EINVAL);
    assert_null(iommu);
    assert_int_equal(avicemu_hw_iommu_create(&good, &iommu), 0);
    avicemu_hw_iommu_destroy(iommu);
    avicemu_hw_iommu_destroy(NULL);
}

static void
test_describe(void **state)
{
    char line[160];

    (void)state;
    (void)avicemu_describe_irte(0x00003007000085c1, 0x0000012345678041, line,
                                sizeof(line));
    assert_string_equal(line, "guest vector 41h in page 12345678000h, tag "
                              "00003007h, runs on 85h");
    (void)avicemu_describe_irte(0x0000300700008585, 0x0000012345678041, line,
                                sizeof(line));
    assert_string_equal(line, "guest vector 41h in page 12345678000h, tag "
                              "00003007h, last on 85h, logs");
    (void)avicemu_describe_irte(0x8545, 0x0100000000000041, line, sizeof(line));
    assert_string_equal(line, "arbitrated vector 41h to logical 1000085h");
    (void)avicemu_describe_irte(2, 0, line, sizeof(line));
    assert_string_equal(line, "not present, faults suppressed");
    (void)avicemu_describe_ga_entry(0x1000012300003007, line, sizeof(line));
    assert_string_equal(line, "GUEST_NR: tag 00003007h, device 0123h");
    (void)avicemu_describe_ga_entry(0x2000012300003007, line, sizeof(line));
    assert_string_equal(line, "reserved type 2: 2000012300003007h");
    (void)avicemu_describe_event(0x2008005500000123, 0xfffffffdf8050000, line,
                                 sizeof(line));
    assert_string_equal(line, "IO_PAGE_FAULT device 0123h domain 0055h flags "
                              "0008h address fffffffdf8050000h");
    for (uint64_t code = 0; code < 16; code++) {
        (void)avicemu_describe_event(code << 60, 0, line, sizeof(line));
        assert_int_equal(strstr(line, "reserved event") != NULL,
                         code == 0 || code == 12 || code == 15);
    }
    (void)avicemu_describe_event(0x7000000000000123, 0, line, sizeof(line));
    assert_string_equal(line, "IOTLB_INV_TIMEOUT device 0123h domain 0000h "
                              "flags 0000h address 0h");
    (void)avicemu_describe_iommu_status(0x710, line, sizeof(line));
    assert_string_equal(line, "CmdBufRun GALogRun GALOverflow GAInt");
    assert_int_equal(avicemu_describe_iommu_status(0, line, 4), 7);
    assert_string_equal(line, "not");
}

int
main(void)
{
    enum {
        NR = sizeof(rows) / sizeof(rows[0])
    };
    static struct CMUnitTest tests[NR];
    const struct CMUnitTest more[] = {
        cmocka_unit_test_setup_teardown(test_accesses, rig_setup, rig_teardown),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_registers_by_feature),
        cmocka_unit_test_setup_teardown(test_running, rig_setup, rig_teardown),
        cmocka_unit_test(test_status),
        cmocka_unit_test_setup_teardown(test_capability, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_create, rig_setup, rig_teardown),
        cmocka_unit_test(test_describe),
    };

    for (unsigned i = 0; i < NR; i++) {
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = row_test,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    return r + cmocka_run_group_tests(more, NULL, NULL);
}
