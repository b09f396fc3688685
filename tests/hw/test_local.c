/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What arises at the APIC itself, and what it sends: LVT entries, the LINT
 * pins, errors, software disable, the timer through its registers, ICR and
 * SELF IPI. [APM2 16.4 local interrupts], [SDM3 10.5], [SDM3 10.6]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdlib.h>

#include <cmocka.h>

#include <avicemu/hw/lapic.h>

#include "face.h"
#include "hw/lapic.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* The register file behind the face, for what only hv drives. */
static struct ae_lapic *
inner(struct bench *b)
{
    /* The face puts the model first; see api/hw_lapic.c. */
    size_t at = (sizeof(struct ae_lapic_model) + 63) / 64 * 64;

    struct ae_lapic *l = (void *)((unsigned char *)b->l + at);

    assert_ptr_equal(l->page, b->page);
    return l;
}

/* ---- software disable: [APM2 16.3.1] ------------------------------------ */

static void
test_software_disable(void **state)
{
    static const uint32_t lvts[] = { LAPIC_LVT_TIMER, LAPIC_LVT_THERMAL,
                                     LAPIC_LVT_PERF,  LAPIC_LVT_LINT0,
                                     LAPIC_LVT_LINT1, LAPIC_LVT_ERROR };
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ff);
    for (size_t i = 0; i < NR(lvts); i++) {
        w(b, lvts[i], 0x41);
        assert_int_equal(r(b, lvts[i]), 0x41);
    }
    w(b, LAPIC_SVR, 0xff);
    for (size_t i = 0; i < NR(lvts); i++) {
        assert_int_equal(r(b, lvts[i]), 0x10041);
        w(b, lvts[i], 0x42); /* the mask cannot be cleared */
        assert_int_equal(r(b, lvts[i]), 0x10042);
    }
    w(b, LAPIC_SVR, 0x1ff); /* and stays until rewritten */
    for (size_t i = 0; i < NR(lvts); i++) {
        assert_int_equal(r(b, lvts[i]), 0x10042);
    }
}

/* ---- delivery of an LVT entry ------------------------------------------- */

struct lvt_row {
    const char *name;
    uint32_t offset, lvt;
    uint32_t events; /* AE_EVENT_* */
    int vector;      /* in IRR, -1: none */
};

static struct lvt_row lvt_rows[] = {
    { "LVT: fixed", LAPIC_LVT_PERF, 0x41, 0, 0x41 },
    { "LVT: fixed, masked", LAPIC_LVT_PERF, 0x10041, 0, -1 },
    { "LVT: SMI", LAPIC_LVT_PERF, 0x200, AE_EVENT_SMI, -1 },
    { "LVT: NMI", LAPIC_LVT_THERMAL, 0x400, AE_EVENT_NMI, -1 },
    { "LVT: NMI with a vector", LAPIC_LVT_THERMAL, 0x441, AE_EVENT_NMI, -1 },
    { "LVT: NMI, masked", LAPIC_LVT_THERMAL, 0x10400, 0, -1 },
    { "LVT: ExtINT", LAPIC_LVT_LINT0, 0x700, AE_EVENT_EXTINT, -1 },
    { "LVT: INIT", LAPIC_LVT_LINT1, 0x500, AE_EVENT_INIT, -1 },
    { "LVT: a reserved mode", LAPIC_LVT_PERF, 0x341, 0, -1 },
    { "LVT: perf has no ExtINT", LAPIC_LVT_PERF, 0x741, 0, -1 },
    { "LVT: thermal has no INIT", LAPIC_LVT_THERMAL, 0x541, 0, -1 },
    { "LVT: an extended entry, fixed", LAPIC_LVT_EXT, 0x41, 0, 0x41 },
    { "LVT: an extended entry, ExtINT", LAPIC_LVT_EXT + 0x30, 0x700,
      AE_EVENT_EXTINT, -1 },
    { "LVT: an extended entry has no INIT", LAPIC_LVT_EXT, 0x541, 0, -1 },
    { "LVT: LINT1, SMI", LAPIC_LVT_LINT1, 0x200, AE_EVENT_SMI, -1 },
    { "LVT: LINT0, fixed", LAPIC_LVT_LINT0, 0x51, 0, 0x51 },
    { "LVT: timer is fixed", LAPIC_LVT_TIMER, 0x20041, 0, 0x41 },
};

static void
test_lvt(void **state)
{
    const struct lvt_row *row = *state;
    void *fixture =
        &(struct avicemu_lapic_config){ .personality = AMD,
                                        .features = AVICEMU_LAPIC_EXT_SPACE };
    uint32_t events = 0;
    struct bench *b;

    assert_int_equal(bench_setup(&fixture), 0);
    b = fixture;
    w(b, LAPIC_SVR, 0x1ff);
    w(b, row->offset, row->lvt);
    if (row->offset == LAPIC_LVT_LINT0 || row->offset == LAPIC_LVT_LINT1) {
        (void)ae_lapic_lint(inner(b), row->offset == LAPIC_LVT_LINT1, true,
                            &events);
    } else {
        (void)ae_lapic_local(inner(b), row->offset, &events);
    }
    assert_int_equal(events, row->events);
    assert_int_equal(ae_lapic_pending(inner(b)), row->vector);
    assert_int_equal(r(b, row->offset), row->lvt);
    (void)bench_teardown(&fixture);
}

/* [SDM3 10.5.1]: Intel's perf entry masks itself, AMD's and KVM's do not. */
static void
test_perf_masks(void **state)
{
    struct bench *b = *state;
    int intel = (r(b, LAPIC_VERSION) & 0xff) == 0x15;
    uint32_t events = 0;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_PERF, 0x400);
    (void)ae_lapic_local(inner(b), LAPIC_LVT_PERF, &events);
    assert_int_equal(events, AE_EVENT_NMI);
    assert_int_equal(r(b, LAPIC_LVT_PERF), intel ? 0x10400 : 0x400);
    w(b, LAPIC_LVT_THERMAL, 0x400);
    (void)ae_lapic_local(inner(b), LAPIC_LVT_THERMAL, &events);
    assert_int_equal(r(b, LAPIC_LVT_THERMAL), 0x400);
}

/* ---- LINT --------------------------------------------------------------- */

static enum avicemu_post
pin(struct bench *b, unsigned n, bool high, uint32_t *events)
{
    *events = 0;
    return ae_lapic_lint(inner(b), n, high, events);
}

/* A fixed level: remote IRR until its EOI. [APM2 16.4.2] */
static void
test_lint_level(void **state)
{
    struct bench *b = *state;
    uint32_t events;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT0, 0x8041);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0xc041);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_DROPPED);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0xc041);
    w(b, LAPIC_EOI, 0); /* the line is still high */
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0xc041);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    assert_int_equal(pin(b, 0, false, &events), AVICEMU_POST_DROPPED);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0x8041);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
}

/* Between a level and its EOI an edge of the same vector empties TMR: the EOI
 * is no level's any more, but the pin's. [APM2 16.4.2] */
static void
test_lint_shared(void **state)
{
    struct bench *b = *state;
    uint32_t events;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT0, 0x8041);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    assert_int_equal(avicemu_hw_lapic_post(b->l, 0x41, AVICEMU_TRIGGER_EDGE),
                     AVICEMU_POST_NEW);
    assert_int_equal(pin(b, 0, false, &events), AVICEMU_POST_DROPPED);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(b->out.what, 0); /* TMR is 0: no broadcast */
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0x8041);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
}

/* What is written over an entry whose level is in service; the line is high or
 * low then. [APM2 16.4.2] */
struct rir_row {
    const char *name;
    uint32_t write;
    bool high;
    uint32_t lvt; /* what the entry is after the write */
    int vector;   /* pending by it, -1: none */
};

static struct rir_row rir_rows[] = {
    { "RIR: the same vector, high", 0x8041, true, 0xc041, -1 },
    { "RIR: the same vector, low", 0x8041, false, 0xc041, -1 },
    { "RIR: masked, the same vector", 0x18041, true, 0x1c041, -1 },
    { "RIR: another vector, high", 0x8051, true, 0xc051, 0x51 },
    { "RIR: another vector, low", 0x8051, false, 0x8051, -1 },
    { "RIR: masked, another vector", 0x18051, true, 0x18051, -1 },
    { "RIR: an edge has none", 0x0041, true, 0x0041, -1 },
};

static void
test_rir(void **state)
{
    const struct rir_row *row = *state;
    void *fixture = &(struct avicemu_lapic_config){ .personality = AMD };
    uint32_t events;
    struct bench *b;

    assert_int_equal(bench_setup(&fixture), 0);
    b = fixture;
    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT0, 0x8041);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    (void)pin(b, 0, row->high, &events);
    w(b, LAPIC_LVT_LINT0, row->write);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), row->lvt);
    assert_int_equal(ae_lapic_pending(inner(b)), row->vector);
    /* Whatever was written: once the line is low and all is retired, nothing
     * holds the pin off. */
    (void)pin(b, 0, false, &events);
    while (avicemu_hw_lapic_inta(b->l) != 0xff) {
        /* To the bottom of what is pending. */
    }
    w(b, LAPIC_EOI, 0);
    w(b, LAPIC_EOI, 0);
    w(b, LAPIC_LVT_LINT0, 0x8041);
    assert_int_equal(r(b, LAPIC_LVT_LINT0), 0x8041);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    (void)bench_teardown(&fixture);
}

/* A level that rose while the entry was masked is served by the unmask. */
static void
test_lint_unmask(void **state)
{
    struct bench *b = *state;
    uint32_t events;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT0, 0x18041);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_DROPPED);
    w(b, LAPIC_LVT_LINT0, 0x8041);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    (void)pin(b, 1, true, &events);
    w(b, LAPIC_LVT_LINT1, 0x51); /* an edge is not made up for */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
}

/* Edges, and modes for which the trigger bit does not count. */
static void
test_lint_edges(void **state)
{
    struct bench *b = *state;
    uint32_t events;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT0, 0x41);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_DROPPED);
    assert_int_equal(pin(b, 0, false, &events), AVICEMU_POST_DROPPED);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_MERGED);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(b->out.what, 0); /* TMR is 0 */
    w(b, LAPIC_LVT_LINT1, 0x8400);    /* NMI: an edge, whatever TGM */
    assert_int_equal(pin(b, 1, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(events, AE_EVENT_NMI);
    assert_int_equal(pin(b, 1, true, &events), AVICEMU_POST_DROPPED);
    assert_int_equal(events, 0);
    assert_int_equal(r(b, LAPIC_LVT_LINT1), 0x8400); /* no remote IRR */
}

/* LINT1 as a level: Intel's parts do not have it. [SDM3 10.5.1] */
static void
test_lint1_level(void **state)
{
    struct bench *b = *state;
    int intel = (r(b, LAPIC_VERSION) & 0xff) == 0x15;
    uint32_t events;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_LINT1, 0x8041);
    assert_int_equal(pin(b, 1, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(b->out.what, intel ? 0 : AVICEMU_HW_EOI);
}

/* With the APIC off, the pins are INTR and NMI. [SDM3 10.4.3] */
static void
test_lint_off(void **state)
{
    struct bench *b = *state;
    uint32_t events;

    assert_int_equal(avicemu_hw_lapic_wrmsr(b->l, 0x1b, 0, 0xfee00100, &b->out),
                     DONE);
    assert_int_equal(pin(b, 0, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(events, AE_EVENT_EXTINT);
    assert_true(ae_lapic_extint(inner(b)));
    assert_true(ae_lapic_accepts_pic(inner(b)));
    assert_int_equal(pin(b, 1, true, &events), AVICEMU_POST_NEW);
    assert_int_equal(events, AE_EVENT_NMI);
    (void)pin(b, 0, false, &events);
    assert_false(ae_lapic_extint(inner(b)));
}

/* ---- errors: [APM2 16.4.6], [SDM3 10.5.3] ------------------------------- */

/* Raised per new bit (AMD), once per arming (Intel), never (KVM). */
static void
test_error_interrupt(void **state)
{
    struct bench *b = *state;
    uint32_t number = r(b, LAPIC_VERSION) & 0xff;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_ERROR, 0xfe);
    (void)r(b, 0x000); /* bit 7 */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), number == 0x14 ? 0xff : 0xfe);
    w(b, LAPIC_EOI, 0);
    (void)r(b, 0x010); /* bit 7 again: not new */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    w(b, LAPIC_ICR_LOW, 0x05); /* bit 5 */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), number == 0x10 ? 0xfe : 0xff);
    w(b, LAPIC_EOI, 0);
    assert_int_equal(r(b, LAPIC_ESR), 0);
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), number == 0x14 ? 0 : 0xa0);
    (void)r(b, 0x010); /* armed again */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), number == 0x14 ? 0xff : 0xfe);
    w(b, LAPIC_EOI, 0);
    w(b, LAPIC_LVT_ERROR, 0x100fe);
    w(b, LAPIC_ESR, 0);
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), 0);
    (void)r(b, 0x010); /* masked: still logged */
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), number == 0x14 ? 0 : 0x80);
}

/* [SDM3 10.5.2]: Intel flags a fixed LVT vector below 16 when written. */
static void
test_illegal_lvt(void **state)
{
    struct bench *b = *state;
    int intel = (r(b, LAPIC_VERSION) & 0xff) == 0x15;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_LVT_THERMAL, 0x1000f);
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), intel ? 0x40 : 0);
    w(b, LAPIC_LVT_THERMAL, 0x1040f); /* not fixed */
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), 0);
    w(b, LAPIC_LVT_THERMAL, 0x10010); /* legal in the APIC */
    w(b, LAPIC_ESR, 0);
    assert_int_equal(r(b, LAPIC_ESR), 0);
}

static void
test_receive_illegal(void **state)
{
    struct bench *b = *state;
    uint32_t want = (r(b, LAPIC_VERSION) & 0xff) == 0x14 ? 0 : 0x40;

    w(b, LAPIC_SVR, 0x1ff);
    for (unsigned v = 0; v < 16; v++) {
        assert_int_equal(
            avicemu_hw_lapic_post(b->l, (uint8_t)v, AVICEMU_TRIGGER_EDGE),
            AVICEMU_POST_DROPPED);
        w(b, LAPIC_ESR, 0);
        assert_int_equal(r(b, LAPIC_ESR), want);
    }
    assert_int_equal(r(b, LAPIC_IRR), 0);
}

/* ---- commands: [APM2 16.5], [APM2 Table 16-4], [SDM3 Tables 10-3] ------- */

struct icr_row {
    const char *name;
    uint32_t icr;
    uint8_t sent[3]; /* AMD, Intel, KVM */
    uint8_t esr[3];
};

/* clang-format off */
static struct icr_row icr_rows[] = {
    { "ICR: fixed",                            0x00051, { 1, 1, 1 }, { 0 } },
    { "ICR: fixed, vector 15",                 0x0000f, { 0, 0, 0 }, { 0x20, 0x20, 0 } },
    { "ICR: fixed, vector 16",                 0x00010, { 1, 1, 1 }, { 0 } },
    { "ICR: fixed to self, vector 15",         0x4000f, { 0, 0, 0 }, { 0x60, 0x60, 0 } },
    { "ICR: lowest, vector 15",                0x0090f, { 0, 0, 0 }, { 0x20, 0x20, 0 } },
    { "ICR: fixed, level, assert",             0x0c051, { 1, 1, 1 }, { 0 } },
    { "ICR: fixed, level, de-assert",          0x08051, { 0, 1, 0 }, { 0 } },
    { "ICR: lowest, logical, flat",            0x00951, { 1, 1, 1 }, { 0 } },
    { "ICR: lowest, physical",                 0x00151, { 0, 1, 1 }, { 0 } },
    { "ICR: lowest, all but self",             0xc0151, { 1, 1, 1 }, { 0 } },
    { "ICR: lowest, all",                      0x80151, { 0, 1, 1 }, { 0 } },
    { "ICR: SMI",                              0x00200, { 1, 1, 1 }, { 0 } },
    { "ICR: remote read",                      0x00300, { 0, 0, 0 }, { 0 } },
    { "ICR: NMI",                              0x00400, { 1, 1, 1 }, { 0 } },
    { "ICR: NMI, vector below 16",             0x00405, { 1, 1, 1 }, { 0 } },
    { "ICR: NMI, level, de-assert",            0x08400, { 1, 1, 1 }, { 0 } },
    { "ICR: INIT",                             0x00500, { 1, 1, 1 }, { 0 } },
    { "ICR: INIT, level, assert",              0x0c500, { 1, 1, 1 }, { 0 } },
    { "ICR: INIT, level, de-assert",           0x08500, { 0, 0, 0 }, { 0 } },
    { "ICR: INIT de-assert to all",            0x88500, { 0, 0, 0 }, { 0 } },
    { "ICR: SIPI",                             0x00608, { 1, 1, 1 }, { 0 } },
    { "ICR: SIPI, level, de-assert",           0x08608, { 1, 1, 1 }, { 0 } },
    { "ICR: ExtINT",                           0x00700, { 1, 0, 0 }, { 0 } },
};
/* clang-format on */

static void
test_icr(void **state)
{
    const struct icr_row *row = *state;

    for (unsigned p = 0; p < AVICEMU_NR_PERSONALITY; p++) {
        void *fixture =
            &(struct avicemu_lapic_config){ .personality =
                                                (enum avicemu_personality)p };
        struct bench *b;

        assert_int_equal(bench_setup(&fixture), 0);
        b = fixture;
        w(b, LAPIC_SVR, 0x1ff);
        w(b, LAPIC_ICR_HIGH, 0x09000000);
        w(b, LAPIC_ICR_LOW, row->icr);
        assert_int_equal(b->out.what, row->sent[p] ? AVICEMU_HW_IPI : 0);
        if (row->sent[p]) {
            assert_int_equal(b->out.icr >> 56, 9);
            assert_int_equal(b->out.icr & 0xc0fff, row->icr & 0xc0fff);
        }
        assert_int_equal(esr(b), row->esr[p]);
        (void)bench_teardown(&fixture);
    }
}

/* [APM2 16.15] */
static void
test_self_ipi(void **state)
{
    struct bench *b = *state;

    w(b, LAPIC_SVR, 0x1ff);
    assert_int_equal(avicemu_hw_lapic_wrmsr(b->l, 0x1b, 0, 0xfee00d00, &b->out),
                     DONE);
    assert_int_equal(avicemu_hw_lapic_wrmsr(b->l, 0x83f, 0, 0x60, &b->out),
                     DONE);
    assert_int_equal(b->out.what, AVICEMU_HW_IPI);
    assert_int_equal((uint32_t)b->out.icr & 0xc0fff, 0x40060);
    assert_int_equal(avicemu_hw_lapic_wrmsr(b->l, 0x83f, 0, 0x0f, &b->out),
                     DONE); /* an error, no fault */
    assert_int_equal(b->out.what, 0);
}

/* ---- the timer through its registers ------------------------------------ */

static void
test_timer(void **state)
{
    struct bench *b = *state;
    uint32_t count = 1000;

    w(b, LAPIC_SVR, 0x1ff);
    w(b, LAPIC_TDCR, 0xb);
    w(b, LAPIC_LVT_TIMER, 0x20041);
    assert_int_equal(
        avicemu_hw_lapic_write(b->l, LAPIC_TMICT, 4, 500, &count, &b->out),
        DONE);
    assert_int_equal(b->out.what, AVICEMU_HW_DEADLINE);
    assert_int_equal(b->out.deadline, 1500);
    assert_int_equal(
        avicemu_hw_lapic_read(b->l, LAPIC_TMCCT, 4, 900, &count, &b->out),
        DONE);
    assert_int_equal(count, 600);
    avicemu_hw_lapic_tick(b->l, 1499, &b->out);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    avicemu_hw_lapic_tick(b->l, 1500, &b->out);
    assert_int_equal(b->out.deadline, 2500);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0x41);
    w(b, LAPIC_EOI, 0);
    w(b, LAPIC_LVT_TIMER, 0x30041); /* masked: counts, and is silent */
    avicemu_hw_lapic_tick(b->l, 2500, &b->out);
    assert_int_equal(b->out.deadline, 3500);
    assert_int_equal(avicemu_hw_lapic_inta(b->l), 0xff);
    w(b, LAPIC_SVR, 0xff); /* software-disabled: counts on */
    assert_int_equal(b->out.deadline, 3500);
}

#define CONFIG(p, f)                        \
    &(struct avicemu_lapic_config)          \
    {                                       \
        .personality = (p), .features = (f) \
    }
#define TEST(name_, fn_, p)                                             \
    {                                                                   \
        .name = (name_), .test_func = (fn_), .setup_func = bench_setup, \
        .teardown_func = bench_teardown, .initial_state = CONFIG(p, X2) \
    }
#define EACH(name_, fn_)                                                \
    TEST(name_ " (AMD)", fn_, AMD), TEST(name_ " (Intel)", fn_, INTEL), \
        TEST(name_ " (KVM)", fn_, KVM)

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        EACH("software disable masks every LVT entry", test_software_disable),
        EACH("who masks the perf entry at delivery", test_perf_masks),
        TEST("a LINT level is in service until its EOI", test_lint_level, AMD),
        TEST("an EOI ends a level whose vector an edge shares",
             test_lint_shared, AMD),
        TEST("an unmask serves a level that waits", test_lint_unmask, AMD),
        EACH("LINT edges", test_lint_edges),
        EACH("LINT1 as a level", test_lint1_level),
        EACH("the pins of a disabled APIC", test_lint_off),
        EACH("when the error interrupt is raised", test_error_interrupt),
        EACH("an illegal vector written to an LVT", test_illegal_lvt),
        EACH("an illegal vector received", test_receive_illegal),
        EACH("SELF IPI", test_self_ipi),
        EACH("the timer through its registers", test_timer),
    };
    struct CMUnitTest
        tests[NR(fixed) + NR(lvt_rows) + NR(rir_rows) + NR(icr_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(lvt_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = lvt_rows[i].name,
                                          .test_func = test_lvt,
                                          .initial_state = &lvt_rows[i] };
    }
    for (size_t i = 0; i < NR(rir_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = rir_rows[i].name,
                                          .test_func = test_rir,
                                          .initial_state = &rir_rows[i] };
    }
    for (size_t i = 0; i < NR(icr_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = icr_rows[i].name,
                                          .test_func = test_icr,
                                          .initial_state = &icr_rows[i] };
    }
    return cmocka_run_group_tests_name("local", tests, NULL, NULL) != 0;
}
