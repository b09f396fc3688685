/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PROP_IOMMU_H
#define PROP_IOMMU_H

/* What the property test of the IOMMU makes up: see prop_iommu.c. */

#include "model_iommu.h"

#define RAM        0x140000000ull
#define RAM_PAGES  24u
#define HIGH       0x7fff00000000ull
#define HIGH_PAGES 4u

/* Page numbers in RAM of a world as it is brought up. */
#define TABLE    4u
#define COMMANDS 12u
#define EVENTS   13u
#define GA_LOG   14u
#define WORDS    15u
#define PAGES    16u /* backing pages from here */

/* The address of one of them; and with the length code of a 4 KB ring. */
#define AT(page)   (RAM + (uint64_t)(page)*MODEL_PAGE)
#define RING(page) (AT(page) | 8ull << 56)

struct gen {
    uint64_t x; /* random state */
};

uint64_t
gen_u64(struct gen *g);
uint32_t
gen_below(struct gen *g, uint32_t n);
/* One bit of 64. */
uint64_t
gen_bit(struct gen *g);

uint32_t
gen_features(struct gen *g);
/* Word 2 of a device table entry. */
uint64_t
gen_dte2(struct gen *g);
/* A 128-bit entry, of either mode. */
void
gen_irte(struct gen *g, uint64_t *ret_low, uint64_t *ret_high);
void
gen_command(struct gen *g, uint64_t *ret_low, uint64_t *ret_high);
void
gen_message(struct gen *g, uint16_t *ret_device, uint64_t *ret_address,
            uint32_t *ret_data);
/* A value for a register that does something, mostly; control as it is. */
uint64_t
gen_value(struct gen *g, uint32_t offset, uint64_t control);

#endif
