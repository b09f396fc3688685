/* SPDX-License-Identifier: BSD-2-Clause */

/* Tables, commands, messages and register values: mostly sense, with a bit
 * wrong now and then, and now and then none at all. */

#include "prop_iommu.h"

uint64_t
gen_u64(struct gen *g)
{
    uint64_t z = g->x += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint32_t
gen_below(struct gen *g, uint32_t n)
{
    return (uint32_t)(gen_u64(g) % n);
}

uint64_t
gen_bit(struct gen *g)
{
    return 1ull << gen_below(g, 64);
}

/* A page of memory; one in bad_in is none, or may be none. */
static uint64_t
page_of(struct gen *g, uint32_t bad_in)
{
    if (gen_below(g, bad_in) != 0) {
        return AT(gen_below(g, RAM_PAGES));
    }
    switch (gen_below(g, 4)) {
    case 0:
        return 0;
    case 1:
        return AT(RAM_PAGES);
    case 2:
        return RAM | 1ull << (48 + gen_below(g, 4));
    default:
        return HIGH + (uint64_t)gen_below(g, HIGH_PAGES) * MODEL_PAGE;
    }
}

uint32_t
gen_features(struct gen *g)
{
    static const uint32_t choices[] = {
        AVICEMU_IOMMU_DEFAULT,
        AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_GAPPI | AVICEMU_IOMMU_GAPPI_DIS,
        AVICEMU_IOMMU_GA | AVICEMU_IOMMU_GAM,
        AVICEMU_IOMMU_BARE,
    };
    uint32_t n = gen_below(g, 8);

    return choices[n < 4 ? n : 0];
}

uint64_t
gen_dte2(struct gen *g)
{
    uint64_t length =
        gen_below(g, 8) != 0 ? 9 + gen_below(g, 3) : gen_below(g, 16);
    uint64_t root = gen_below(g, 16) != 0 ? AT(TABLE) : page_of(g, 4);
    uint64_t ctl = gen_below(g, 8) != 0 ? 2 : gen_below(g, 4);
    uint64_t word = root | length << 1 | 1 | ctl << 60;

    /* IG and the pass bits. */
    word |= gen_below(g, 2) != 0 ? gen_u64(g) & 0xc700000000000020 : 0;
    return gen_below(g, 16) != 0 ? word : word ^ gen_bit(g);
}

void
gen_irte(struct gen *g, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t low = (uint64_t)gen_below(g, 256) << 8 | 1;
    uint64_t high = gen_below(g, 256);

    if (gen_below(g, 4) != 0) { /* guest mode: tag, IsRun, GALogIntr, page */
        low |= gen_u64(g) << 32 | 0x80 | (gen_u64(g) & 0x44);
        high |=
            gen_below(g, 8) != 0 ? AT(PAGES + gen_below(g, 8)) : page_of(g, 3);
    } else {
        low |= gen_u64(g) & 0x64;
    }
    low ^= gen_below(g, 16) != 0 ? 0 : 1;
    low ^= gen_below(g, 16) != 0 ? 0 : gen_bit(g);
    high ^= gen_below(g, 16) != 0 ? 0 : gen_bit(g);
    *ret_low = low;
    *ret_high = high;
}

void
gen_command(struct gen *g, uint64_t *ret_low, uint64_t *ret_high)
{
    static const uint64_t ops[] = { 1, 1, 1, 2, 5, 8, 3, 7 };
    uint64_t op = ops[gen_below(g, 8)];

    *ret_low = op << 60;
    *ret_high = op == 1 ? gen_u64(g) : 0;
    if (op == 1) {
        *ret_low |= (AT(WORDS) + gen_below(g, 64) * 8) | gen_below(g, 8);
    } else if (op != 8) {
        *ret_low |= gen_below(g, 512);
    }
    *ret_low ^= gen_below(g, 32) != 0 ? 0 : gen_bit(g);
}

void
gen_message(struct gen *g, uint16_t *ret_device, uint64_t *ret_address,
            uint32_t *ret_data)
{
    *ret_device =
        (uint16_t)(gen_below(g, 16) != 0 ? gen_below(g, 16) : gen_u64(g));
    *ret_data =
        gen_below(g, 8) != 0 ? gen_below(g, 64) : (uint32_t)gen_u64(g) & 0xffff;
    if (gen_below(g, 8) != 0) {
        *ret_address = 0xfee00000 | gen_below(g, 2) * 4 |
                       (gen_below(g, 4) != 0 ? 0 : gen_u64(g) & 0xfffff);
    } else if (gen_below(g, 4) != 0) {
        *ret_address =
            0xfdf8000000 | (uint64_t)gen_below(g, 64) << 16 |
            (gen_below(g, 8) != 0 ? gen_below(g, 32) : gen_u64(g) & 0xffff) |
            (gen_below(g, 8) != 0 ? 0 : 0x98);
    } else {
        *ret_address = gen_u64(g) >> gen_below(g, 64);
    }
}

uint64_t
gen_value(struct gen *g, uint32_t offset, uint64_t control)
{
    uint64_t length = gen_below(g, 3) != 0 ? 8 : gen_below(g, 16);

    switch (offset) {
    case 0x0000:
        return gen_below(g, 2) != 0 ? RAM | 3 : page_of(g, 8) | gen_below(g, 8);
    case 0x0008:
    case 0x0010:
    case 0x00e0:
        return page_of(g, 8) | length << 56;
    case 0x0018:
        return gen_below(g, 8) != 0 ? control ^ gen_bit(g) : gen_u64(g);
    case 0x00e8:
        return page_of(g, 8) + gen_below(g, 512) * 8;
    case 0x2000:
    case 0x2008:
    case 0x2010:
    case 0x2018:
    case 0x2040:
    case 0x2048:
        return gen_u64(g) & 0xfff;
    default:
        return gen_u64(g);
    }
}
