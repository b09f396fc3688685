/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A core with AVIC by itself: when a pending vector is delivered, what EOI and
 * TPR do, who hears a doorbell, and what a page that is not there does.
 *
 * [APM2 15.29.3.1], [APM2 15.29.8], [APM2 15.29.9.2], [APM2 16.6.4]
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
#define IRR   0x200u
#define ISR   0x100u
#define TMR   0x180u
#define TPR   0x080u
#define PPR   0x0a0u
#define AVIC  AVICEMU_INT_AVIC
#define INT   AVICEMU_VMCB_INT_CTL
#define IF    AVICEMU_CORE_IF
#define GIF   AVICEMU_CORE_GIF
#define RF_IF 0x202u

/* The rig's mode, as initial state. */
static enum rig_mode xavic = XAVIC, x2avic = X2AVIC;

/* ---- TPR ---------------------------------------------------------------- */

/* [APM2 15.29.3.1]; the page's wins at VMRUN. */
static void
test_tpr_three_views(void **state)
{
    struct rig *r = *state;

    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 1, TPR, 0x2f), AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, TPR), 0x2f);
    assert_int_equal(rig_get(r, 0, PPR), 0x2f);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 0, 0, 0),
                     AVICEMU_CORE_DONE);
    assert_int_equal(r->a.value, 2);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, INT) & 0xff, 2);

    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 1, 0, 5),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, TPR), 0x50);
    assert_int_equal(rig_get(r, 0, PPR), 0x50);
    assert_int_equal(rig_reg(r, 0, 0, TPR, 0), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.value, 0x50);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, INT) & 0xff, 5);
}

static void
test_tpr_page_wins(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TPR, 0x50);
    rig_set_bit(r, 0, IRR, 0x45);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, INT) & 0xf, 5);
}

static void
test_cr8_bad_value(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TPR, 0x30);
    rig_vmcb_put(r, 0, INT, rig_vmcb(r, 0, INT) | 3);
    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 1, 0, 16),
                     AVICEMU_CORE_GP);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 1, 0, 1ull << 63),
                     AVICEMU_CORE_GP);
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
    assert_int_equal(rig_get(r, 0, TPR), 0x30);
}

static void
test_cr8_intercept(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_INTERCEPT_CR, 1u << 24);
    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 0, 0, 0),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 1, 0, 5),
                     AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x018);
    assert_int_equal(rig_get(r, 0, TPR), 0);
}

static struct ppr_row {
    const char *name;
    uint32_t tpr;
    uint8_t isr, irr; /* 0: none */
    uint32_t ppr;     /* once the vector, if any, is in service */
    int vector;
} ppr_rows[] = {
    { "ppr: TPR 35h, ISR 41h", 0x35, 0x41, 0, 0x40, -1 },
    { "ppr: TPR 45h, ISR 41h", 0x45, 0x41, 0, 0x45, -1 },
    { "ppr: TPR 20h, ISR 2Fh", 0x20, 0x2f, 0, 0x20, -1 },
    { "ppr: TPR 20h, IRR 2Fh waits", 0x20, 0, 0x2f, 0x20, -1 },
    { "ppr: TPR 20h, IRR 30h does not", 0x20, 0, 0x30, 0x30, 0x30 },
    { "ppr: TPR F0h stops FFh", 0xf0, 0, 0xff, 0xf0, -1 },
    { "ppr: TPR EFh lets F0h through", 0xef, 0, 0xf0, 0xf0, 0xf0 },
    { "ppr: ISR 41h, IRR 4Fh waits", 0, 0x41, 0x4f, 0x40, -1 },
    { "ppr: ISR 4Fh, IRR 50h nests", 0, 0x4f, 0x50, 0x50, 0x50 },
    { "ppr: IRR 10h is the lowest", 0, 0, 0x10, 0x10, 0x10 },
};

static void
test_ppr(void **state)
{
    const struct ppr_row *row = *state;
    struct rig r;

    rig_open(&r, XAVIC, 0, AVICEMU_LAPIC_X2APIC, 9);
    rig_put(&r, 0, TPR, row->tpr);
    rig_vmcb_put(&r, 0, INT, AVIC | row->tpr >> 4);
    rig_vmcb_put(&r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    if (row->isr) {
        rig_set_bit(&r, 0, ISR, row->isr);
    }
    if (row->irr) {
        rig_set_bit(&r, 0, IRR, row->irr);
    }
    assert_int_equal(rig_run(&r, 0), row->vector);
    assert_int_equal(rig_get(&r, 0, PPR), row->ppr);
    if (row->irr) {
        assert_int_equal(rig_bit(&r, 0, IRR, row->irr), row->vector < 0);
        assert_int_equal(rig_bit(&r, 0, ISR, row->irr), row->vector >= 0);
    }
    rig_close(&r);
}

static void
test_tpr_drop_delivers(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TPR, 0x50);
    rig_vmcb_put(r, 0, INT, rig_vmcb(r, 0, INT) | 5);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_set_bit(r, 0, IRR, 0x45);
    assert_int_equal(rig_run(r, 0), -1);
    assert_int_equal(rig_reg(r, 0, 1, TPR, 0x40), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, -1);
    assert_int_equal(rig_reg(r, 0, 1, TPR, 0x3f), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, 0x45);
    assert_int_equal(rig_get(r, 0, PPR), 0x40);
}

static void
test_cr8_drop_delivers(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TPR, 0xf0);
    rig_vmcb_put(r, 0, INT, rig_vmcb(r, 0, INT) | 15);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_set_bit(r, 0, IRR, 0xfe);
    assert_int_equal(rig_run(r, 0), -1);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_CR8, 1, 0, 14),
                     AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, 0xfe);
}

/* ---- EOI: [APM2 15.29.3.1], [APM2 15.29.9.2] ---------------------------- */

static void
test_eoi_edge(void **state)
{
    struct rig *r = *state;

    rig_set_bit(r, 0, ISR, 0x41);
    rig_set_bit(r, 0, ISR, 0x61);
    rig_set_bit(r, 0, TMR, 0x41);
    rig_set_bit(r, 0, IRR, 0x62);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    assert_int_equal(rig_reg(r, 0, 1, 0x0b0, 0), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, 0x62);
    assert_int_equal(rig_bit(r, 0, ISR, 0x61), 0);
    assert_int_equal(rig_bit(r, 0, ISR, 0x62), 1);
    assert_int_equal(rig_bit(r, 0, ISR, 0x41), 1);
    assert_int_equal(rig_reg(r, 0, 1, 0x0b0, 0), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, -1);
    assert_int_equal(rig_get(r, 0, PPR), 0x40);
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
}

/* Section 11: 402h, EXITINFO1 00000001000000B0h, EXITINFO2 61h. */
static void
test_eoi_level(void **state)
{
    struct rig *r = *state;

    rig_set_bit(r, 0, ISR, 0x41);
    rig_set_bit(r, 0, ISR, 0x61);
    rig_set_bit(r, 0, TMR, 0x61);
    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 1, 0x0b0, 0), AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x402, 0x00000001000000b0, 0x61);
    assert_int_equal(rig_bit(r, 0, ISR, 0x61), 1);
    assert_int_equal(rig_bit(r, 0, TMR, 0x61), 1);
}

static void
test_eoi_empty(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TMR, 0xffffffff);
    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 1, 0x0b0, 0), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, -1);
    assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
}

/* ---- evaluation: [APM2 15.29.8] ----------------------------------------- */

static void
test_delivery_flags(void **state)
{
    struct rig *r = *state;

    rig_set_bit(r, 0, IRR, 0x31);
    assert_int_equal(rig_run(r, 0), -1); /* IF=0 */
    assert_int_equal(
        avicemu_core_set_flags(r->core[0], IF | AVICEMU_CORE_SHADOW), -1);
    assert_int_equal(avicemu_core_set_flags(r->core[0], AVICEMU_CORE_SHADOW),
                     -1);
    assert_int_equal(rig_bit(r, 0, IRR, 0x31), 1);
    /* Without VGIF its flag says nothing. */
    assert_int_equal(avicemu_core_set_flags(r->core[0], IF), 0x31);
    assert_int_equal(rig_bit(r, 0, IRR, 0x31), 0);
    assert_int_equal(rig_bit(r, 0, ISR, 0x31), 1);
}

static void
test_delivery_latched(void **state)
{
    struct rig *r = *state;

    rig_set_bit(r, 0, IRR, 0x31);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_INT_STATE, 1);
    assert_int_equal(rig_run(r, 0), -1);
    rig_stop(r, 0);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_INT_STATE, 0);
    assert_int_equal(rig_run(r, 0), 0x31);
}

static void
test_delivery_vgif(void **state)
{
    struct rig *r = *state;
    uint64_t int_ctl = rig_vmcb(r, 0, INT) | AVICEMU_INT_VGIF_ENABLE;

    rig_set_bit(r, 0, IRR, 0x31);
    rig_set_bit(r, 0, IRR, 0x42);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_vmcb_put(r, 0, INT, int_ctl);
    assert_int_equal(rig_run(r, 0), -1);
    assert_int_equal(avicemu_core_set_flags(r->core[0], IF), -1);
    assert_int_equal(avicemu_core_set_flags(r->core[0], IF | GIF), 0x42);
    rig_stop(r, 0);

    rig_put(r, 0, ISR + 0x20, 0);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_vmcb_put(r, 0, INT, int_ctl | AVICEMU_INT_VGIF);
    assert_int_equal(rig_run(r, 0), 0x31);
}

static void
test_delivery_eventinj(void **state)
{
    struct rig *r = *state;

    rig_set_bit(r, 0, IRR, 0x31);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_EVENTINJ, 1u << 31 | 3u << 8 | 14);
    assert_int_equal(rig_run(r, 0), -1);
    assert_int_equal(rig_bit(r, 0, IRR, 0x31), 1);
    /* It was recognized at VMRUN, so it is taken when the block ends. */
    assert_int_equal(avicemu_core_look(r->core[0]), 0x31);
}

/* SVR[8] takes no part; vectors 0 to 15 do not exist. */
static void
test_delivery_no_svr(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, 0x0f0, 0xff);
    rig_put(r, 0, IRR, 0xffff);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    rig_stop(r, 0);
    rig_set_bit(r, 0, IRR, 0x31);
    assert_int_equal(rig_run(r, 0), 0x31);
}

static void
test_state_written_back(void **state)
{
    struct rig *r = *state;

    (void)rig_run(r, 0);
    (void)avicemu_core_set_flags(r->core[0], IF | AVICEMU_CORE_SHADOW);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_RFLAGS), RF_IF);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_INT_STATE) & 1, 1);
    (void)rig_run(r, 0);
    (void)avicemu_core_set_flags(r->core[0], 0);
    rig_stop(r, 0);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_RFLAGS), 2);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_INT_STATE) & 1, 0);
}

/* ---- section 11, in numbers --------------------------------------------- */

/* Vector 31h in IRR: 210h bit 17. FFh in ISR: 170h bit 31. */
static void
test_worked_places(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, 0x210, 1u << 17);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), 0x31);
    assert_int_equal(rig_get(r, 0, 0x210), 0);
    assert_int_equal(rig_get(r, 0, 0x110), 1u << 17);
    rig_stop(r, 0);
    rig_put(r, 0, 0x170, 1u << 31);
    rig_put(r, 0, 0x1f0, 1u << 31);
    (void)rig_run(r, 0);
    assert_int_equal(rig_get(r, 0, PPR), 0xf0);
    assert_int_equal(rig_reg(r, 0, 1, 0x0b0, 0), AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x402, 0x00000001000000b0, 0xff);
}

static void
test_worked_exits(void **state)
{
    struct rig *r = *state;

    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 1, 0x320, 0x200ec), AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x402);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO1),
                     0x0000000100000320);
    assert_int_equal(rig_get(r, 0, 0x320), 0x200ec);
    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 0, 0x390, 0), AVICEMU_CORE_EXIT);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x402);
    assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO1),
                     0x0000000000000390);
}

/* ---- doorbells: [APM2 15.29.8.2] ---------------------------------------- */

static void
test_store_is_no_event(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    rig_set_bit(r, 0, IRR, 0x51);
    assert_int_equal(avicemu_core_look(r->core[0]), -1);
    avicemu_core_ring(r->core[1], RIG_HOST);
    assert_int_equal(r->doorbells[RIG_HOST].rung, 1);
    assert_int_equal(avicemu_core_look(r->core[0]), 0x51);
    assert_int_equal(r->doorbells[RIG_HOST].rung, 0);
    assert_int_equal(avicemu_core_look(r->core[0]), -1);
}

static void
test_doorbell_of_another(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    assert_int_equal(rig_run(r, 0), -1);
    rig_set_bit(r, 0, IRR, 0x51);
    avicemu_core_ring(r->core[0], RIG_HOST + 1);
    avicemu_core_ring(r->core[0], RIG_BELLS); /* nobody's */
    avicemu_core_ring(r->core[0], UINT32_MAX);
    assert_int_equal(r->doorbells[RIG_HOST + 1].rung, 1);
    assert_int_equal(avicemu_core_look(r->core[0]), -1);
    assert_int_equal(rig_bit(r, 0, IRR, 0x51), 1);
}

static void
test_doorbell_in_host_mode(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, RF_IF);
    rig_set_bit(r, 0, IRR, 0x51);
    avicemu_core_ring(r->core[1], RIG_HOST);
    assert_int_equal(avicemu_core_look(r->core[0]), -1);
    assert_int_equal(rig_bit(r, 0, IRR, 0x51), 1);
    assert_int_equal(rig_run(r, 0), 0x51);
}

/* Recognised while IF is 0, taken when it is 1 again. */
static void
test_doorbell_remembered(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_run(r, 0), -1);
    rig_set_bit(r, 0, IRR, 0x51);
    avicemu_core_ring(r->core[1], RIG_HOST);
    assert_int_equal(avicemu_core_look(r->core[0]), -1);
    assert_int_equal(r->doorbells[RIG_HOST].rung, 0);
    assert_int_equal(avicemu_core_set_flags(r->core[0], IF), 0x51);
}

/* ---- pages that are not there ------------------------------------------- */

static void
test_apic_page_unmapped(void **state)
{
    struct rig *r = *state;

    for (int write = 0; write < 2; write++) {
        avicemu_core_map_apic(r->core[0], 0);
        (void)rig_run(r, 0);
        assert_int_equal(
            rig_access(r, 0, AVICEMU_CORE_MMIO, write, RIG_BAR + 0x300, 0x41),
            AVICEMU_CORE_EXIT);
        assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x400);
        /* [APM2 15.25.6]: not present, of the guest's final address. */
        assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO1),
                         1ull << 32 | (write ? 6 : 4));
        assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO2),
                         RIG_BAR + 0x300);
        assert_int_equal(rig_get(r, 0, 0x300), 0);
    }
    avicemu_core_map_apic(r->core[0], 1);
    (void)rig_run(r, 0);
    assert_int_equal(rig_reg(r, 0, 0, TPR, 0), AVICEMU_CORE_DONE);
}

static void
test_other_memory(void **state)
{
    struct rig *r = *state;
    uint64_t bar = 0xfed00000;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_APIC_BAR, bar);
    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MMIO, 0, RIG_BAR + TPR, 0),
                     AVICEMU_CORE_MEMORY);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MMIO, 1, bar + 0x1000, 0),
                     AVICEMU_CORE_MEMORY);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MMIO, 1, bar - 16, 0),
                     AVICEMU_CORE_MEMORY);
    assert_int_equal(
        rig_access(r, 0, AVICEMU_CORE_MMIO, 1, bar + TPR + (1ull << 40), 0),
        AVICEMU_CORE_MEMORY);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MMIO, 1, bar + TPR, 0x30),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, TPR), 0x30);
}

static void
test_no_redirection(void **state)
{
    struct rig *r = *state;

    (void)rig_run(r, 0);
    assert_int_equal(
        rig_access(r, 0, AVICEMU_CORE_MMIO, 1, RIG_BAR + TPR, 0x30),
        AVICEMU_CORE_MEMORY);
    assert_int_equal(rig_get(r, 0, TPR), 0);
    rig_stop(r, 0);
    rig_vmcb_put(r, 0, INT, 0);
    (void)rig_run(r, 0);
    assert_int_equal(
        rig_access(r, 0, AVICEMU_CORE_MMIO, 1, RIG_BAR + TPR, 0x30),
        AVICEMU_CORE_MEMORY);
}

static void
test_own_page_gone(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, TPR, 0x20);
    (void)rig_run(r, 0);
    assert_int_equal(avicemu_hw_memory_remove(r->memory, rig_pa(RIG_VAPIC)), 0);
    assert_int_equal(rig_reg(r, 0, 0, 0x200, 0), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.value, 0xffffffff);
    assert_int_equal(rig_reg(r, 0, 1, TPR, 0x30), AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, TPR), 0x20);
    (void)rig_reg(r, 0, 1, 0x0b0, 0);
    if (avicemu_core_in_guest(r->core[0])) {
        (void)rig_icr(r, 0, 0, 0x41);
    }
    rig_stop(r, 0);
    assert_int_equal(rig_get(r, 0, 0x200 + 0x20), 0);
    (void)avicemu_core_vmrun(r->core[0], r->vmcb[0], NULL);
}

/* ---- the list ----------------------------------------------------------- */

#define IN(mode, fn, name)                       \
    {                                            \
        name, fn, rig_setup, rig_teardown, &mode \
    }

static const struct CMUnitTest plain[] = {
    IN(xavic, test_tpr_three_views, "xAVIC: TPR, CR8 and V_TPR are one"),
    IN(x2avic, test_tpr_three_views, "x2AVIC: TPR, CR8 and V_TPR are one"),
    IN(xavic, test_tpr_page_wins, "at vmrun the page's TPR wins"),
    IN(xavic, test_cr8_bad_value, "CR8 above 15 is #GP and changes nothing"),
    IN(xavic, test_cr8_intercept, "an intercepted CR8 write exits unchanged"),
    IN(xavic, test_tpr_drop_delivers, "xAVIC: a lower TPR delivers"),
    IN(x2avic, test_tpr_drop_delivers, "x2AVIC: a lower TPR delivers"),
    IN(xavic, test_cr8_drop_delivers, "a lower CR8 delivers"),
    IN(xavic, test_eoi_edge, "xAVIC: edge EOI is done in hardware"),
    IN(x2avic, test_eoi_edge, "x2AVIC: edge EOI is done in hardware"),
    IN(xavic, test_eoi_level, "xAVIC: level EOI exits, still in service"),
    IN(x2avic, test_eoi_level, "x2AVIC: level EOI exits, still in service"),
    IN(xavic, test_eoi_empty, "xAVIC: EOI with nothing in service"),
    IN(x2avic, test_eoi_empty, "x2AVIC: EOI with nothing in service"),
    IN(xavic, test_delivery_flags, "IF and the shadow hold delivery back"),
    IN(xavic, test_delivery_latched, "vmrun takes the shadow from the VMCB"),
    IN(xavic, test_delivery_vgif, "VGIF holds delivery back when enabled"),
    IN(xavic, test_delivery_eventinj, "an injected event goes first"),
    IN(xavic, test_delivery_no_svr, "SVR and vectors below 16 take no part"),
    IN(xavic, test_state_written_back, "an exit writes IF and shadow back"),
    IN(xavic, test_worked_places, "xAVIC: worked places of vectors"),
    IN(x2avic, test_worked_places, "x2AVIC: worked places of vectors"),
    IN(xavic, test_worked_exits, "AVT-09: xAVIC: worked exits 402h"),
    IN(x2avic, test_worked_exits, "AVT-09: x2AVIC: worked exits 402h"),
    IN(xavic, test_store_is_no_event, "a store to IRR needs a doorbell"),
    IN(xavic, test_doorbell_of_another, "a doorbell of another rings there"),
    IN(xavic, test_doorbell_in_host_mode,
       "a doorbell in host mode is lost, vmrun evaluates"),
    IN(xavic, test_doorbell_remembered, "a doorbell heard with IF=0 counts"),
    IN(xavic, test_apic_page_unmapped, "an unmapped APIC page is an NPF"),
    IN(xavic, test_other_memory, "only the page at the base is redirected"),
    IN(x2avic, test_no_redirection, "x2AVIC does not redirect the page"),
    IN(xavic, test_own_page_gone, "xAVIC: the own page is gone"),
    IN(x2avic, test_own_page_gone, "x2AVIC: the own page is gone"),
};

static struct CMUnitTest tests[NR(plain) + NR(ppr_rows)];

int
main(void)
{
    size_t at = 0;

    for (size_t i = 0; i < NR(plain); i++) {
        tests[at++] = plain[i];
    }
    for (size_t i = 0; i < NR(ppr_rows); i++) {
        tests[at++] = (struct CMUnitTest){ .name = ppr_rows[i].name,
                                           .test_func = test_ppr,
                                           .initial_state = &ppr_rows[i] };
    }
    return _cmocka_run_group_tests("avic_core", tests, at, NULL, NULL) != 0;
}
