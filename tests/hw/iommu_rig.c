/* SPDX-License-Identifier: BSD-2-Clause */

#include "iommu_rig.h"

#include <stdlib.h>
#include <string.h>

uint64_t
rig_address(enum rig_page page)
{
    return RIG_RAM + (uint64_t)page * RIG_PAGE;
}

uint64_t *
rig_word(struct rig *rig, enum rig_page page, unsigned i)
{
    return (uint64_t *)(void *)(rig->ram + (size_t)page * RIG_PAGE) + i;
}

/* ---- set-up ------------------------------------------------------------- */

static void
bring_up(struct rig *rig)
{
    uint64_t *dte = rig_word(rig, RIG_DTES, RIG_DEVICE * 4);

    dte[0] = 1;
    dte[1] = 0x55; /* domain */
    dte[2] = rig_dte_remap(9);
    rig_write(rig, AVICEMU_IOMMU_DEVICE_TABLE, rig_address(RIG_DTES) | 3);
    rig_write(rig, AVICEMU_IOMMU_COMMAND_BASE,
              rig_address(RIG_COMMANDS) | 9ull << 56);
    rig_write(rig, AVICEMU_IOMMU_EVENT_BASE,
              rig_address(RIG_EVENTS) | 9ull << 56);
    rig_write(rig, AVICEMU_IOMMU_GA_BASE, rig_address(RIG_GA_LOG) | 8ull << 56);
    rig_write(rig, AVICEMU_IOMMU_GA_TAIL_WORD, rig_address(RIG_WORDS) + 0x800);
    rig_enable(rig, AVICEMU_CONTROL_IOMMU_EN | AVICEMU_CONTROL_CMD_BUF_EN |
                        AVICEMU_CONTROL_GA_EN | AVICEMU_CONTROL_GAM_EN |
                        AVICEMU_CONTROL_EVENT_LOG_EN |
                        AVICEMU_CONTROL_EVENT_INT_EN |
                        AVICEMU_CONTROL_GA_INT_EN | AVICEMU_CONTROL_GA_LOG_EN);
}

int
rig_open(void **state, uint32_t features)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct avicemu_hw_iommu_config config = { .size = sizeof(config),
                                              .features = features,
                                              .nr_doorbells = RIG_BELLS };

    if (rig == NULL) {
        return -1;
    }
    rig->ram = aligned_alloc(RIG_PAGE, (size_t)RIG_NR_PAGES * RIG_PAGE);
    rig->bells = aligned_alloc(64, RIG_BELLS * sizeof(rig->bells[0]));
    if (rig->ram == NULL || rig->bells == NULL ||
        avicemu_hw_memory_create(&rig->memory) != 0 ||
        avicemu_hw_memory_add(rig->memory, RIG_RAM,
                              (uint64_t)RIG_NR_PAGES * RIG_PAGE,
                              rig->ram) != 0) {
        return -1;
    }
    memset(rig->ram, 0, (size_t)RIG_NR_PAGES * RIG_PAGE);
    memset(rig->bells, 0, RIG_BELLS * sizeof(rig->bells[0]));
    config.memory = rig->memory;
    config.doorbells = rig->bells;
    if (avicemu_hw_iommu_create(&config, &rig->iommu) != 0) {
        return -1;
    }
    bring_up(rig);
    rig->signals = 0;
    *state = rig;
    return 0;
}

int
rig_setup(void **state)
{
    return rig_open(state, 0);
}

int
rig_teardown(void **state)
{
    struct rig *rig = *state;

    avicemu_hw_iommu_destroy(rig->iommu);
    avicemu_hw_memory_destroy(rig->memory);
    free(rig->ram);
    free(rig->bells);
    free(rig);
    return 0;
}

/* ---- registers ---------------------------------------------------------- */

uint64_t
rig_read(struct rig *rig, uint32_t offset)
{
    uint64_t value = 0;

    assert_int_equal(avicemu_hw_iommu_read(rig->iommu, offset, 8, &value), 0);
    return value;
}

void
rig_write(struct rig *rig, uint32_t offset, uint64_t value)
{
    uint32_t signals = 0;

    assert_int_equal(
        avicemu_hw_iommu_write(rig->iommu, offset, 8, value, &signals), 0);
    rig->signals |= signals;
}

void
rig_enable(struct rig *rig, uint64_t bits)
{
    rig_write(rig, AVICEMU_IOMMU_CONTROL,
              rig_read(rig, AVICEMU_IOMMU_CONTROL) | bits);
}

void
rig_disable(struct rig *rig, uint64_t bits)
{
    rig_write(rig, AVICEMU_IOMMU_CONTROL,
              rig_read(rig, AVICEMU_IOMMU_CONTROL) & ~bits);
}

/* ---- tables ------------------------------------------------------------- */

void
rig_dte(struct rig *rig, uint64_t word)
{
    *rig_word(rig, RIG_DTES, RIG_DEVICE * 4 + 2) = word;
}

uint64_t
rig_dte_remap(unsigned length)
{
    return rig_address(RIG_TABLE) | 2ull << 60 | (uint64_t)length << 1 | 1;
}

void
rig_irte(struct rig *rig, unsigned i, uint64_t low, uint64_t high)
{
    *rig_word(rig, RIG_TABLE, 2 * i) = low;
    *rig_word(rig, RIG_TABLE, 2 * i + 1) = high;
}

void
rig_guest(struct rig *rig, unsigned i, enum rig_page page, int run, int log)
{
    rig_irte(rig, i,
             0x0000300700008581ull | (run ? 0x40u : 0u) | (log ? 4u : 0u),
             rig_address(page) | 0x41);
}

struct avicemu_hw_msi
rig_msi(struct rig *rig, uint64_t address, uint32_t data)
{
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };

    assert_int_equal(
        avicemu_hw_iommu_msi(rig->iommu, RIG_DEVICE, address, data, &msi), 0);
    rig->signals |= msi.signals;
    return msi;
}

int
rig_irr(struct rig *rig, enum rig_page page, uint8_t vector)
{
    const unsigned char *word =
        rig->ram + (size_t)page * RIG_PAGE + 0x200 + (size_t)(vector / 32) * 16;

    return word[vector % 32 / 8] >> (vector % 8) & 1;
}

/* ---- rings -------------------------------------------------------------- */

void
rig_command(struct rig *rig, uint64_t low, uint64_t high)
{
    uint64_t tail = rig_read(rig, AVICEMU_IOMMU_COMMAND_TAIL);

    *rig_word(rig, RIG_COMMANDS, (unsigned)tail / 8) = low;
    *rig_word(rig, RIG_COMMANDS, (unsigned)tail / 8 + 1) = high;
    rig_write(rig, AVICEMU_IOMMU_COMMAND_TAIL, (tail + 16) % 8192);
}

void
rig_wait(struct rig *rig, unsigned i, uint64_t data)
{
    rig_command(rig, 1ull << 60 | (rig_address(RIG_WORDS) + i * 8) | 1, data);
}

uint64_t
rig_event(struct rig *rig, uint64_t *ret_high)
{
    uint64_t tail = rig_read(rig, AVICEMU_IOMMU_EVENT_TAIL);

    if (tail == rig_read(rig, AVICEMU_IOMMU_EVENT_HEAD)) {
        return 0;
    }
    unsigned at = (unsigned)((tail - 16) % 8192) / 8;

    *ret_high = *rig_word(rig, RIG_EVENTS, at + 1);
    return *rig_word(rig, RIG_EVENTS, at);
}
