/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_HW_CORE_RIG_H
#define TESTS_HW_CORE_RIG_H

/*
 * Two AVIC cores in memory of the test's own: tables, a permission map, a
 * VMCB per core and a row of backing pages, each page a region of its own.
 *
 * vAPIC page n has host id RIG_HOST + n when rig_entry() makes its entry. Core
 * c runs vAPIC c and is host id RIG_HOST + c.
 */

#include <avicemu/hw/core.h>

#define RIG_BASE   0x40000000ull /* system physical address of page 0 */
#define RIG_BAR    0xfee00000ull
#define RIG_HOST   0x40u
#define RIG_BELLS  0x80u
#define RIG_CORES  2u
#define RIG_VAPICS 20u

/* Pages of the memory. */
enum {
    RIG_PHYSICAL = 0, /* eight of them */
    RIG_LOGICAL = 8,
    RIG_MSRPM = 9, /* two */
    RIG_VAPIC = 16,
    RIG_PAGES = RIG_VAPIC + RIG_VAPICS,
};

enum rig_mode {
    XAVIC,
    X2AVIC
};

struct rig {
    struct avicemu_hw_memory *memory;
    unsigned char *ram, *vmcb[RIG_CORES];
    struct avicemu_doorbell *doorbells;
    void *core_memory[RIG_CORES];
    struct avicemu_core *core[RIG_CORES];
    struct avicemu_core_access a; /* the last one */
    struct avicemu_core_op op;
    enum rig_mode mode;
};

/* Make the cores; VMCBs allow VMRUN with IF=0, and intercept nothing. */
void
rig_open(struct rig *r, enum rig_mode mode, uint32_t features,
         uint32_t lapic_features, uint32_t max_index);
void
rig_close(struct rig *r);

/* *state: in, an enum rig_mode *; out, a struct rig. MAX_INDEX is 9 in xAVIC,
 * 1FFh in x2AVIC; all features but the erratum. */
int
rig_setup(void **state);
int
rig_teardown(void **state);

/* System physical address of page n. */
uint64_t
rig_pa(unsigned n);

/* Registers in backing page n. */
uint32_t
rig_get(const struct rig *r, unsigned vapic, uint32_t offset);
void
rig_put(struct rig *r, unsigned vapic, uint32_t offset, uint32_t value);
int
rig_bit(const struct rig *r, unsigned vapic, uint32_t map, uint8_t vector);
void
rig_set_bit(struct rig *r, unsigned vapic, uint32_t map, uint8_t vector);

/* Fields of a core's VMCB, eight bytes. */
uint64_t
rig_vmcb(const struct rig *r, unsigned core, uint32_t offset);
void
rig_vmcb_put(struct rig *r, unsigned core, uint32_t offset, uint64_t value);

/* Entries of the tables. */
void
rig_entry(struct rig *r, uint32_t id, uint64_t flags, unsigned vapic);
void
rig_entry_raw(struct rig *r, uint32_t id, uint64_t entry);
void
rig_logical(struct rig *r, unsigned index, uint32_t entry);

/* Permission map: intercept (1) or not. */
void
rig_msrpm(struct rig *r, uint32_t msr, int write, int intercept);
void
rig_msrpm_all(struct rig *r, int intercept);

/* VMRUN that must succeed. The vector, or -1. */
int
rig_run(struct rig *r, unsigned core);
/* Out, if in. */
void
rig_stop(struct rig *r, unsigned core);

/* An access, and one to a register in the rig's mode. */
enum avicemu_core_result
rig_access(struct rig *r, unsigned core, enum avicemu_core_kind kind, int write,
           uint64_t at, uint64_t value);
enum avicemu_core_result
rig_reg(struct rig *r, unsigned core, int write, uint32_t offset,
        uint64_t value);
/* Writes the ICR: in xAVIC the high half first. */
enum avicemu_core_result
rig_icr(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl);

/* Everything before the write that sends; that one is in r->a. */
void
rig_icr_prepare(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl);

/* The same up to the first step; steps past events that others cannot see. */
enum avicemu_core_result
rig_icr_begin(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl);
enum avicemu_core_event
rig_step(struct rig *r, unsigned core);

/* The VMCB of a core that is out says this. */
void
rig_assert_exit(const struct rig *r, unsigned core, uint64_t code,
                uint64_t info1, uint64_t info2);

#endif
