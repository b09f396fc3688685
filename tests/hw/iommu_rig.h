/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef IOMMU_RIG_H
#define IOMMU_RIG_H

/*
 * An IOMMU through the public hardware face, with its memory: one region from
 * RIG_RAM on, a page for each thing. All is set up as a driver would, with one
 * device whose table has 512 entries of 128 bits; a test changes what it is
 * about.
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <cmocka.h>

#include <avicemu/hw/iommu.h>

#define RIG_RAM    0x140000000ull
#define RIG_PAGE   4096u
#define RIG_DEVICE 0x0123u
#define RIG_BELLS  0x100u
#define RIG_FEE    0xfee00000ull

enum rig_page {
    RIG_DTES,          /* 4 pages: 512 devices */
    RIG_TABLE = 4,     /* 8 pages: 2048 entries */
    RIG_COMMANDS = 12, /* 2 pages: 512 commands */
    RIG_EVENTS = 14,   /* 2 pages */
    RIG_GA_LOG = 16,   /* 2 pages: 1024 entries */
    RIG_WORDS = 18,    /* completion and tail words */
    RIG_A,             /* backing pages */
    RIG_B,
    RIG_NR_PAGES,
};

struct rig {
    struct avicemu_hw_memory *memory;
    struct avicemu_hw_iommu *iommu;
    unsigned char *ram;
    struct avicemu_doorbell *bells;
    uint32_t signals; /* of all writes and interrupts */
};

/* cmocka's: *state is the rig, with these features; 0: the default ones. */
int
rig_open(void **state, uint32_t features);
int
rig_setup(void **state);
int
rig_teardown(void **state);

uint64_t
rig_address(enum rig_page page);
/* Word i, of 8 bytes, of a page and those that follow. */
uint64_t *
rig_word(struct rig *rig, enum rig_page page, unsigned i);

uint64_t
rig_read(struct rig *rig, uint32_t offset);
void
rig_write(struct rig *rig, uint32_t offset, uint64_t value);
/* Set bits of the control register, or clear them. */
void
rig_enable(struct rig *rig, uint64_t bits);
void
rig_disable(struct rig *rig, uint64_t bits);

/* The device's DTE, word 2. */
void
rig_dte(struct rig *rig, uint64_t word);
/* The usual one: 2^length entries, remap. */
uint64_t
rig_dte_remap(unsigned length);
/* Entry i of 128 bits. */
void
rig_irte(struct rig *rig, unsigned i, uint64_t low, uint64_t high);
/* A guest-mode one: vector 41h, tag 3007h, Destination 85h. */
void
rig_guest(struct rig *rig, unsigned i, enum rig_page page, int run, int log);

/* An MSI of the device. */
struct avicemu_hw_msi
rig_msi(struct rig *rig, uint64_t address, uint32_t data);
/* The IRR bit of a vector. */
int
rig_irr(struct rig *rig, enum rig_page page, uint8_t vector);

/* Put a command in and ring the tail. */
void
rig_command(struct rig *rig, uint64_t low, uint64_t high);
/* COMPLETION_WAIT that stores data into word i. */
void
rig_wait(struct rig *rig, unsigned i, uint64_t data);

/* The last event; 0: there is none. */
uint64_t
rig_event(struct rig *rig, uint64_t *ret_high);

/* Rows of a suite: by the function's name, or by one of their own. */
#define RIG_TEST(fn, setup) \
    cmocka_unit_test_setup_teardown(fn, setup, rig_teardown)
#define RIG_ROW(name, fn, setup)            \
    {                                       \
        name, fn, setup, rig_teardown, NULL \
    }

#endif
