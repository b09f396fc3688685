/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AVIC tests' cores, tables and pages.
 */

#include "core_rig.h"

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE 4096u

static void *
pages(size_t nr)
{
    void *p = aligned_alloc(PAGE, nr * PAGE);

    assert_non_null(p);
    memset(p, 0, nr * PAGE);
    return p;
}

static void
memory_open(struct rig *r)
{
    r->ram = pages(RIG_PAGES);
    assert_int_equal(avicemu_hw_memory_create(&r->memory), 0);
    assert_int_equal(
        avicemu_hw_memory_add(r->memory, RIG_BASE, RIG_VAPIC * PAGE, r->ram),
        0);
    for (unsigned n = RIG_VAPIC; n < RIG_PAGES; n++) {
        assert_int_equal(avicemu_hw_memory_add(r->memory, rig_pa(n), PAGE,
                                               r->ram + (size_t)n * PAGE),
                         0);
    }
}

static void
vmcb_fill(struct rig *r, unsigned core, uint32_t max_index)
{
    uint64_t int_ctl = AVICEMU_INT_AVIC;

    r->vmcb[core] = pages(1);
    int_ctl |= r->mode == X2AVIC ? AVICEMU_INT_X2AVIC : 0;
    rig_vmcb_put(r, core, AVICEMU_VMCB_INTERCEPT_MISC, 1u << 28);
    rig_vmcb_put(r, core, AVICEMU_VMCB_MSRPM, rig_pa(RIG_MSRPM));
    rig_vmcb_put(r, core, AVICEMU_VMCB_INT_CTL, int_ctl);
    rig_vmcb_put(r, core, AVICEMU_VMCB_NESTED_CTL, 1);
    rig_vmcb_put(r, core, AVICEMU_VMCB_APIC_BAR, RIG_BAR);
    rig_vmcb_put(r, core, AVICEMU_VMCB_BACKING_PAGE, rig_pa(RIG_VAPIC + core));
    rig_vmcb_put(r, core, AVICEMU_VMCB_LOGICAL_TABLE, rig_pa(RIG_LOGICAL));
    rig_vmcb_put(r, core, AVICEMU_VMCB_PHYSICAL_TABLE,
                 rig_pa(RIG_PHYSICAL) | max_index);
    rig_vmcb_put(r, core, AVICEMU_VMCB_RFLAGS, 2);
}

void
rig_open(struct rig *r, enum rig_mode mode, uint32_t features,
         uint32_t lapic_features, uint32_t max_index)
{
    struct avicemu_core_config config = {
        .size = sizeof(config),
        .features = features,
        .nr_doorbells = RIG_BELLS,
        .lapic = { .features = lapic_features },
    };
    size_t bytes = (avicemu_core_bytes() + 63) / 64 * 64;

    memset(r, 0, sizeof(*r));
    r->mode = mode;
    memory_open(r);
    r->doorbells = aligned_alloc(64, RIG_BELLS * sizeof(*r->doorbells));
    assert_non_null(r->doorbells);
    memset(r->doorbells, 0, RIG_BELLS * sizeof(*r->doorbells));
    config.memory = r->memory;
    config.doorbells = r->doorbells;
    for (unsigned c = 0; c < RIG_CORES; c++) {
        config.host_apic_id = RIG_HOST + c;
        r->core_memory[c] = aligned_alloc(AVICEMU_CORE_ALIGN, bytes);
        assert_non_null(r->core_memory[c]);
        assert_int_equal(
            avicemu_core_init(r->core_memory[c], &config, &r->core[c]), 0);
        vmcb_fill(r, c, max_index);
    }
    for (unsigned n = 0; n < RIG_VAPICS; n++) {
        rig_put(r, n, 0x0e0, 0xffffffff);
        rig_put(r, n, 0x0f0, 0x1ff);
    }
}

void
rig_close(struct rig *r)
{
    for (unsigned c = 0; c < RIG_CORES; c++) {
        free(r->core_memory[c]);
        free(r->vmcb[c]);
    }
    avicemu_hw_memory_destroy(r->memory);
    free(r->doorbells);
    free(r->ram);
}

int
rig_setup(void **state)
{
    const enum rig_mode *mode = *state;
    struct rig *r = malloc(sizeof(*r));

    assert_non_null(r);
    rig_open(r, *mode,
             AVICEMU_CORE_X2AVIC | AVICEMU_CORE_EXT_LVT |
                 AVICEMU_CORE_HIGH_ALLOWED,
             AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_EXT_SPACE,
             *mode == X2AVIC ? 0x1ff : 9);
    *state = r;
    return 0;
}

int
rig_teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

uint64_t
rig_pa(unsigned n)
{
    return RIG_BASE + (uint64_t)n * PAGE;
}

/* ---- memory ------------------------------------------------------------- */

static unsigned char *
word_at(const struct rig *r, unsigned vapic, uint32_t offset)
{
    return r->ram + (size_t)(RIG_VAPIC + vapic) * PAGE + offset;
}

uint32_t
rig_get(const struct rig *r, unsigned vapic, uint32_t offset)
{
    uint32_t value;

    memcpy(&value, word_at(r, vapic, offset), sizeof(value));
    return value;
}

void
rig_put(struct rig *r, unsigned vapic, uint32_t offset, uint32_t value)
{
    memcpy(word_at(r, vapic, offset), &value, sizeof(value));
}

int
rig_bit(const struct rig *r, unsigned vapic, uint32_t map, uint8_t vector)
{
    return rig_get(r, vapic, map + vector / 32 * 16u) >> (vector % 32) & 1;
}

void
rig_set_bit(struct rig *r, unsigned vapic, uint32_t map, uint8_t vector)
{
    uint32_t offset = map + vector / 32 * 16u;

    rig_put(r, vapic, offset, rig_get(r, vapic, offset) | 1u << (vector % 32));
}

uint64_t
rig_vmcb(const struct rig *r, unsigned core, uint32_t offset)
{
    uint64_t value;

    memcpy(&value, r->vmcb[core] + offset, sizeof(value));
    return value;
}

void
rig_vmcb_put(struct rig *r, unsigned core, uint32_t offset, uint64_t value)
{
    memcpy(r->vmcb[core] + offset, &value, sizeof(value));
}

void
rig_entry_raw(struct rig *r, uint32_t id, uint64_t entry)
{
    memcpy(r->ram + RIG_PHYSICAL * PAGE + (size_t)id * 8, &entry,
           sizeof(entry));
}

void
rig_entry(struct rig *r, uint32_t id, uint64_t flags, unsigned vapic)
{
    rig_entry_raw(r, id,
                  flags | rig_pa(RIG_VAPIC + vapic) | (RIG_HOST + vapic));
}

void
rig_logical(struct rig *r, unsigned index, uint32_t entry)
{
    memcpy(r->ram + RIG_LOGICAL * PAGE + (size_t)index * 4, &entry,
           sizeof(entry));
}

void
rig_msrpm(struct rig *r, uint32_t msr, int write, int intercept)
{
    unsigned char *byte = r->ram + RIG_MSRPM * PAGE + msr / 4;
    unsigned bit = 1u << (2 * (msr % 4) + (write ? 1 : 0));

    *byte = (unsigned char)(intercept ? *byte | bit : *byte & ~bit);
}

void
rig_msrpm_all(struct rig *r, int intercept)
{
    memset(r->ram + RIG_MSRPM * PAGE, intercept ? 0xff : 0, 2 * PAGE);
}

/* ---- the cores ---------------------------------------------------------- */

int
rig_run(struct rig *r, unsigned core)
{
    int vector = -2;

    assert_int_equal(avicemu_core_vmrun(r->core[core], r->vmcb[core], &vector),
                     AVICEMU_CORE_DONE);
    assert_int_equal(avicemu_core_in_guest(r->core[core]), 1);
    return vector;
}

void
rig_stop(struct rig *r, unsigned core)
{
    if (avicemu_core_in_guest(r->core[core])) {
        assert_int_equal(avicemu_core_exit(r->core[core], AVICEMU_EXIT_INTR),
                         AVICEMU_CORE_EXIT);
    }
}

static void
access_fill(struct rig *r, enum avicemu_core_kind kind, int write, uint64_t at,
            uint64_t value)
{
    r->a = (struct avicemu_core_access){
        .size = sizeof(r->a),
        .kind = kind,
        .write = write,
        .at = at,
        .value = value,
        .vector = -2,
    };
}

enum avicemu_core_result
rig_access(struct rig *r, unsigned core, enum avicemu_core_kind kind, int write,
           uint64_t at, uint64_t value)
{
    access_fill(r, kind, write, at, value);
    return avicemu_core_access(r->core[core], &r->a);
}

enum avicemu_core_result
rig_reg(struct rig *r, unsigned core, int write, uint32_t offset,
        uint64_t value)
{
    if (r->mode == X2AVIC) {
        return rig_access(r, core, AVICEMU_CORE_MSR, write, 0x800 + offset / 16,
                          value);
    }
    return rig_access(r, core, AVICEMU_CORE_MMIO, write, RIG_BAR + offset,
                      value);
}

void
rig_icr_prepare(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl)
{
    if (r->mode == X2AVIC) {
        access_fill(r, AVICEMU_CORE_MSR, 1, 0x830, (uint64_t)icrh << 32 | icrl);
        return;
    }
    assert_int_equal(rig_reg(r, core, 1, 0x310, icrh), AVICEMU_CORE_DONE);
    access_fill(r, AVICEMU_CORE_MMIO, 1, RIG_BAR + 0x300, icrl);
}

enum avicemu_core_result
rig_icr(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl)
{
    rig_icr_prepare(r, core, icrh, icrl);
    return avicemu_core_access(r->core[core], &r->a);
}

enum avicemu_core_result
rig_icr_begin(struct rig *r, unsigned core, uint32_t icrh, uint32_t icrl)
{
    rig_icr_prepare(r, core, icrh, icrl);
    r->op = (struct avicemu_core_op){ .size = sizeof(r->op) };
    return avicemu_core_begin(r->core[core], &r->a, &r->op);
}

enum avicemu_core_event
rig_step(struct rig *r, unsigned core)
{
    enum avicemu_core_event event;

    do {
        event = avicemu_core_step(r->core[core], &r->op);
        assert_int_equal(event, r->op.event);
    } while (event == AVICEMU_CORE_NOTHING);
    return event;
}

void
rig_assert_exit(const struct rig *r, unsigned core, uint64_t code,
                uint64_t info1, uint64_t info2)
{
    assert_int_equal(avicemu_core_in_guest(r->core[core]), 0);
    assert_int_equal(rig_vmcb(r, core, AVICEMU_VMCB_EXITCODE), code);
    assert_int_equal(rig_vmcb(r, core, AVICEMU_VMCB_EXITINFO1), info1);
    assert_int_equal(rig_vmcb(r, core, AVICEMU_VMCB_EXITINFO2), info2);
}
