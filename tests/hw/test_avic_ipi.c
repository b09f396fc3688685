/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPI engine, a row per command: who gets the IRR bit, whose doorbell is
 * rung, which exit with which bits. Every failure id, which of two wins, who
 * is left out of a broadcast, and where an entry can be wrong.
 *
 * [APM2 15.29.5], [APM2 15.29.6.1], [APM2 15.29.9.1 Tables 15-25 to 15-27]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <errno.h>

#include <cmocka.h>

#include "core_rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define V     AVICEMU_PHYSICAL_VALID
#define R     AVICEMU_PHYSICAL_RUNNING
#define LV    AVICEMU_LOGICAL_VALID
#define IRR   0x200u
#define TMR   0x180u

/*
 * The tables of all rows. The sender is id 0.
 *
 *   id   vAPIC  running  what
 *   0    0      yes      the sender
 *   1    1      yes      software-disabled, which nobody looks at
 *   2    2      yes
 *   3    3      no
 *   4    -               not valid, though it names a page and runs
 *   5    5      yes
 *   6    6      no
 *   7    -      yes      BAD only: page that is no memory; else not valid
 *   8    -      yes      BAD only: page beyond MAXPHYADDR; else not valid
 *   9    9      yes      reserved bits 61:52 set
 *   10   10     yes      beyond MAX_INDEX in xAVIC
 *   20h  11     yes      x2AVIC only
 *   25h  12     yes      x2AVIC only
 *
 *   logical index  id   logical entry
 *   0              1
 *   1              2    reserved bits 30:8 set
 *   2              3
 *   3              1    not valid
 *   4              4    its physical entry is not
 *   5              7
 *   6              10   beyond MAX_INDEX
 *   7              6
 *   10             5    24h of cluster mode
 *   59             2    E8h of cluster mode
 */
enum {
    FLAT,
    CLUSTER,
    NEITHER, /* a DFR that is neither */
    MODEL = 3,
    BAD = 4, /* entries 7 and 8 are valid */
};

static void
tables(struct rig *r, unsigned how)
{
    static const uint32_t dfr[] = { 0xffffffff, 0x0fffffff, 0x5fffffff };

    rig_put(r, 0, 0x0e0, dfr[how & MODEL]);
    rig_put(r, 1, 0x0f0, 0xff);
    for (uint32_t id = 0; id <= 10; id++) {
        rig_entry(r, id, id == 3 || id == 6 ? V : V | R, id);
    }
    rig_entry(r, 4, R, 4);
    rig_entry(r, 9, V | R | 0x3ff0000000000000, 9);
    rig_entry_raw(r, 7, (how & BAD ? V : 0) | R | 0x7ffffffff000 | 0x47);
    rig_entry_raw(r, 8, (how & BAD ? V : 0) | R | 0xf000000000000 | 0x48);
    if (r->mode == X2AVIC) {
        rig_entry(r, 0x20, V | R, 11);
        rig_entry(r, 0x25, V | R, 12);
    }
    rig_logical(r, 0, LV | 1);
    rig_logical(r, 1, LV | 0x7fffff00 | 2);
    rig_logical(r, 2, LV | 3);
    rig_logical(r, 3, 1);
    rig_logical(r, 4, LV | 4);
    rig_logical(r, 5, LV | 7);
    rig_logical(r, 6, LV | 10);
    rig_logical(r, 7, LV | 6);
    rig_logical(r, 10, LV | 5);
    rig_logical(r, 59, LV | 2);
}

/* info2 of an exit 401h. */
#define NONE      UINT64_MAX /* no exit */
#define WHY(i, x) ((uint64_t)(i) << 32 | (x))
#define TYPE      WHY(0, 0)
#define ASLEEP(x) WHY(1, x)
#define TARGET(x) WHY(2, x)
#define PAGE(x)   WHY(3, x)
#define VECTOR    WHY(4, 0)
/* Bits of vAPIC numbers. */
#define B(n) (1u << (n))

struct ipi_row {
    const char *name;
    unsigned how;
    uint32_t icrh, icrl;
    uint64_t info2;
    uint32_t irr;   /* vAPICs that have the bit afterwards */
    uint32_t bells; /* of these; the sender's own is not looked at */
    uint64_t info1; /* 0: what was written */
};

/* clang-format off */
static struct ipi_row xavic_rows[] = {
    /* Section 11 */
    { "level trigger, dest 3", FLAT, 0x03000000, 0xc040, TYPE, 0, 0, 0 },
    { "worked: vector 40h, dest 3, asleep", FLAT, 0x03000000, 0x4040, ASLEEP(3), B(3), 0, 0x0300000000004040 },
    { "worked: INIT, dest 1", FLAT, 0x01000000, 0x4500, TYPE, 0, 0, 0x0100000000004500 },
    /* Message types */
    { "lowest priority", FLAT, 0x01000000, 0x141, TYPE, 0, 0, 0 },
    { "SMI", FLAT, 0x01000000, 0x200, TYPE, 0, 0, 0 },
    { "remote read", FLAT, 0x01000000, 0x300, TYPE, 0, 0, 0 },
    { "NMI", FLAT, 0x01000000, 0x400, TYPE, 0, 0, 0 },
    { "SIPI", FLAT, 0x01000000, 0x69a, TYPE, 0, 0, 0 },
    { "ExtINT", FLAT, 0x01000000, 0x741, TYPE, 0, 0, 0 },
    { "level", FLAT, 0x01000000, 0x8041, TYPE, 0, 0, 0 },
    { "self, but level", FLAT, 0, 0x48041, TYPE, 0, 0, 0 },
    { "self, but NMI", FLAT, 0, 0x40441, TYPE, 0, 0, 0 },
    /* Vectors */
    { "AVT-04: vector 08h", FLAT, 0x01000000, 0x008, VECTOR, 0, 0, 0 },
    { "vector 0Fh", FLAT, 0x01000000, 0x00f, VECTOR, 0, 0, 0 },
    { "vector 10h", FLAT, 0x01000000, 0x010, NONE, B(1), B(1), 0 },
    { "vector FFh", FLAT, 0x01000000, 0x0ff, NONE, B(1), B(1), 0 },
    { "self, vector 0Ah", FLAT, 0, 0x4000a, VECTOR, 0, 0, 0 },
    { "broadcast, vector 0Ah", FLAT, 0xff000000, 0x00a, VECTOR, 0, 0, 0 },
    /* Which of two wins */
    { "type before vector", FLAT, 0x01000000, 0x408, TYPE, 0, 0, 0 },
    { "level before vector", FLAT, 0x01000000, 0x8008, TYPE, 0, 0, 0 },
    { "type before target", FLAT, 0x04000000, 0x441, TYPE, 0, 0, 0 },
    { "vector before target", FLAT, 0x04000000, 0x008, VECTOR, 0, 0, 0 },
    { "vector before page", BAD, 0x07000000, 0x008, VECTOR, 0, 0, 0 },
    { "target before asleep", FLAT, 0x0c000000, 0x841, TARGET(3), 0, 0, 0 },
    { "page before asleep", BAD, 0x24000000, 0x841, PAGE(5), 0, 0, 0 },
    { "the lower bit's target before the higher bit's page", BAD, 0x28000000, 0x841, TARGET(3), 0, 0, 0 },
    { "the lower bit's page before the higher bit's target", BAD, 0x60000000, 0x841, PAGE(5), 0, 0, 0 },
    /* Physical */
    { "running", FLAT, 0x01000000, 0x041, NONE, B(1), B(1), 0 },
    { "asleep", FLAT, 0x06000000, 0x041, ASLEEP(6), B(6), 0, 0 },
    { "oneself by id", FLAT, 0, 0x041, NONE, B(0), 0, 0 },
    { "not valid", FLAT, 0x04000000, 0x041, TARGET(4), 0, 0, 0 },
    { "beyond MAX_INDEX", FLAT, 0x0a000000, 0x041, TARGET(10), 0, 0, 0 },
    { "FEh", FLAT, 0xfe000000, 0x041, TARGET(0xfe), 0, 0, 0 },
    { "no memory", BAD, 0x07000000, 0x041, PAGE(7), 0, 0, 0 },
    { "beyond MAXPHYADDR", BAD, 0x08000000, 0x041, PAGE(8), 0, 0, 0 },
    { "reserved bits of the entry", FLAT, 0x09000000, 0x041, NONE, B(9), B(9), 0 },
    { "low bits of ICR high", FLAT, 0x01ffffff, 0x041, NONE, B(1), B(1), 0 },
    { "edge with assert", FLAT, 0x01000000, 0x4041, NONE, B(1), B(1), 0 },
    /* Flat */
    { "flat: one", FLAT, 0x01000000, 0x841, NONE, B(1), B(1), 0 },
    { "flat: two", FLAT, 0x03000000, 0x841, NONE, B(1) | B(2), B(1) | B(2), 0 },
    { "flat: AVT-01: one good, one without entry", FLAT, 0x09000000, 0x841, TARGET(3), 0, 0, 0 },
    { "flat: AVT-01: one without entry, one good", FLAT, 0x88000000, 0x841, TARGET(3), 0, 0, 0 },
    { "flat: physical entry not valid", FLAT, 0x11000000, 0x841, TARGET(4), 0, 0, 0 },
    { "flat: physical entry beyond MAX_INDEX", FLAT, 0x41000000, 0x841, TARGET(6), 0, 0, 0 },
    { "flat: no memory", BAD, 0x21000000, 0x841, PAGE(5), 0, 0, 0 },
    { "flat: two awake, two asleep", FLAT, 0x87000000, 0x841, ASLEEP(2), B(1) | B(2) | B(3) | B(6), B(1) | B(2), 0 },
    { "flat: the last one asleep", FLAT, 0x82000000, 0x841, ASLEEP(7), B(2) | B(6), B(2), 0 },
    { "flat: nobody", FLAT, 0, 0x841, NONE, 0, 0, 0 },
    { "flat: FFh is a broadcast", FLAT, 0xff000000, 0x841, ASLEEP(3), 0x26f, 0x226, 0 },
    /* Cluster */
    { "cluster: 02h", CLUSTER, 0x02000000, 0x841, NONE, B(2), B(2), 0 },
    { "cluster: 24h is index 10", CLUSTER, 0x24000000, 0x841, NONE, B(5), B(5), 0 },
    { "cluster: E8h is index 59", CLUSTER, 0xe8000000, 0x841, NONE, B(2), B(2), 0 },
    { "cluster: 03h", CLUSTER, 0x03000000, 0x841, NONE, B(1) | B(2), B(1) | B(2), 0 },
    { "cluster: 18h", CLUSTER, 0x18000000, 0x841, ASLEEP(7), B(6), 0, 0 },
    { "cluster: AVT-01: 26h, one without entry", CLUSTER, 0x26000000, 0x841, TARGET(9), 0, 0, 0 },
    { "cluster: 20h, nobody", CLUSTER, 0x20000000, 0x841, NONE, 0, 0, 0 },
    { "cluster: FFh is a broadcast", CLUSTER, 0xff000000, 0x841, ASLEEP(3), 0x26f, 0x226, 0 },
    { "a DFR that is neither", NEITHER, 0x02000000, 0x841, TARGET(0), 0, 0, 0 },
    { "a DFR that is neither, physical", NEITHER, 0x02000000, 0x041, NONE, B(2), B(2), 0 },
    { "a DFR that is neither, FFh", NEITHER, 0xff000000, 0x841, ASLEEP(3), 0x26f, 0x226, 0 },
    /* Broadcast */
    { "broadcast: FFh skips what is not valid", FLAT, 0xff000000, 0x041, ASLEEP(3), 0x26f, 0x226, 0 },
    { "broadcast: all with self", FLAT, 0, 0x80041, ASLEEP(3), 0x26f, 0x226, 0 },
    { "broadcast: all without self", FLAT, 0, 0xc0041, ASLEEP(3), 0x26e, 0x226, 0 },
    { "broadcast: the shorthand hides the destination", FLAT, 0x04000000, 0xc0041, ASLEEP(3), 0x26e, 0x226, 0 },
    { "broadcast: the shorthand hides the mode", NEITHER, 0x30000000, 0x80841, ASLEEP(3), 0x26f, 0x226, 0 },
    { "broadcast: no memory, others are served", BAD, 0xff000000, 0x041, PAGE(7), 0x26f, 0x226, 0 },
    { "broadcast: no memory, all without self", BAD, 0, 0xc0041, PAGE(7), 0x26e, 0x226, 0 },
    /* Self */
    { "self", FLAT, 0x04000000, 0x40041, NONE, B(0), 0, 0 },
    { "self hides mode and destination", NEITHER, 0xff000000, 0x40841, NONE, B(0), 0, 0 },
};

static struct ipi_row x2avic_rows[] = {
    /* Section 11 */
    { "worked: vector 0Ah, dest 7", FLAT, 7, 0x0a, VECTOR, 0, 0, 0x000000070000000a },
    { "worked: dest 12Ch, no entry", FLAT, 0x12c, 0x30, TARGET(0x12c), 0, 0, 0x0000012c00000030 },
    { "worked: dest 00020021h, ids 20h and 25h", FLAT, 0x00020021, 0x841, NONE, B(11) | B(12), B(11) | B(12), 0 },
    { "type before vector", FLAT, 1, 0x408, TYPE, 0, 0, 0 },
    { "vector before target", FLAT, 4, 0x008, VECTOR, 0, 0, 0 },
    { "level", FLAT, 1, 0x8041, TYPE, 0, 0, 0 },
    { "NMI", FLAT, 1, 0x400, TYPE, 0, 0, 0 },
    { "running", FLAT, 1, 0x041, NONE, B(1), B(1), 0 },
    { "asleep", FLAT, 3, 0x041, ASLEEP(3), B(3), 0, 0 },
    { "not valid", FLAT, 4, 0x041, TARGET(4), 0, 0, 0 },
    { "oneself by id", FLAT, 0, 0x041, NONE, B(0), 0, 0 },
    { "all 32 bits are the id", FLAT, 0x01000000, 0x041, TARGET(0), 0, 0, 0 },
    { "beyond MAX_INDEX", FLAT, 0x200, 0x041, TARGET(0x200), 0, 0, 0 },
    { "FFh is an id", FLAT, 0xff, 0x041, TARGET(0xff), 0, 0, 0 },
    { "FFh is 8 logical ids", FLAT, 0xff, 0x841, TARGET(4), 0, 0, 0 },
    { "no memory", BAD, 7, 0x041, PAGE(7), 0, 0, 0 },
    { "beyond MAXPHYADDR", BAD, 8, 0x041, PAGE(8), 0, 0, 0 },
    { "reserved bits of the entry", FLAT, 9, 0x041, NONE, B(9), B(9), 0 },
    { "logical: ids 1 and 2", FLAT, 0x06, 0x841, NONE, B(1) | B(2), B(1) | B(2), 0 },
    { "logical: the sender and id 9", FLAT, 0x201, 0x841, NONE, B(0) | B(9), B(9), 0 },
    { "logical: AVT-01: ids 1 and 4", FLAT, 0x12, 0x841, TARGET(4), 0, 0, 0 },
    { "logical: asleep among others", FLAT, 0x4e, 0x841, ASLEEP(3), B(1) | B(2) | B(3) | B(6), B(1) | B(2), 0 },
    { "logical: page before target", BAD, 0x00000882, 0x841, PAGE(7), 0, 0, 0 },
    { "logical: no memory", BAD, 0x82, 0x841, PAGE(7), 0, 0, 0 },
    { "logical: target before asleep", FLAT, 0x18, 0x841, TARGET(4), 0, 0, 0 },
    { "logical: nobody", FLAT, 0x00020000, 0x841, NONE, 0, 0, 0 },
    { "logical: zero", FLAT, 0, 0x841, NONE, 0, 0, 0 },
    { "logical: beyond MAX_INDEX", FLAT, 0x00200001, 0x841, TARGET(0x200), 0, 0, 0 },
    { "the logical table and DFR are not used", NEITHER, 0x20, 0x841, NONE, B(5), B(5), 0 },
    { "broadcast: FFFFFFFFh", FLAT, 0xffffffff, 0x041, ASLEEP(3), 0x1e6f, 0x1e26, 0 },
    { "broadcast: FFFFFFFFh, logical", FLAT, 0xffffffff, 0x841, ASLEEP(3), 0x1e6f, 0x1e26, 0 },
    { "broadcast: all with self", FLAT, 0, 0x80041, ASLEEP(3), 0x1e6f, 0x1e26, 0 },
    { "broadcast: all without self", FLAT, 4, 0xc0041, ASLEEP(3), 0x1e6e, 0x1e26, 0 },
    { "broadcast: no memory, others are served", BAD, 0, 0x80041, PAGE(7), 0x1e6f, 0x1e26, 0 },
    { "self", FLAT, 4, 0x40041, NONE, B(0), 0, 0 },
};
/* clang-format on */

/* Nothing but bit v of these vAPICs; v's TMR bit is 0 there. */
static void
assert_irr(struct rig *r, uint8_t v, uint32_t wanted)
{
    for (unsigned n = 0; n < RIG_VAPICS; n++) {
        uint32_t has = wanted >> n & 1;

        for (unsigned word = 0; word < 8; word++) {
            uint32_t bits = has && word == v / 32u ? 1u << v % 32 : 0;

            if (rig_get(r, n, IRR + word * 16) != bits) {
                fail_msg("vAPIC %u: IRR word %u is %08x, wanted %08x", n, word,
                         rig_get(r, n, IRR + word * 16), bits);
            }
        }
        assert_int_equal(rig_bit(r, n, TMR, v), !has);
    }
}

static void
assert_bells(struct rig *r, uint32_t wanted)
{
    for (uint32_t n = 1; n < RIG_VAPICS; n++) {
        if (r->doorbells[RIG_HOST + n].rung != (wanted >> n & 1)) {
            fail_msg("doorbell %u: %u", n, r->doorbells[RIG_HOST + n].rung);
        }
    }
    for (uint32_t n = 0; n < RIG_BELLS; n++) {
        assert_true(r->doorbells[n].rung == 0 ||
                    (n >= RIG_HOST && n < RIG_HOST + RIG_VAPICS));
    }
}

static void
assert_outcome(struct rig *r, const struct ipi_row *row,
               enum avicemu_core_result result)
{
    uint64_t info1 = (uint64_t)row->icrh << 32 | row->icrl;

    assert_irr(r, (uint8_t)row->icrl, row->irr);
    assert_bells(r, row->bells);
    assert_int_equal(rig_get(r, 0, 0x300), row->icrl);
    assert_int_equal(rig_get(r, 0, 0x310), row->icrh);
    if (row->info2 == NONE) {
        assert_int_equal(result, AVICEMU_CORE_DONE);
        assert_int_equal(r->a.vector, -1);
        assert_int_equal(avicemu_core_in_guest(r->core[0]), 1);
        return;
    }
    assert_int_equal(result, AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, row->info1 ? row->info1 : info1, row->info2);
}

static void
row_open(struct rig *r, enum rig_mode mode, const struct ipi_row *row)
{
    rig_open(r, mode, AVICEMU_CORE_X2AVIC, AVICEMU_LAPIC_X2APIC,
             mode == X2AVIC ? 0x1ff : 9);
    tables(r, row->how);
    for (unsigned n = 0; n < RIG_VAPICS; n++) {
        rig_set_bit(r, n, TMR, (uint8_t)row->icrl);
    }
    (void)rig_run(r, 0);
}

static void
row_test(enum rig_mode mode, const struct ipi_row *row)
{
    enum avicemu_core_result result;
    struct rig r;

    row_open(&r, mode, row);
    result = rig_icr(&r, 0, row->icrh, row->icrl);
    assert_outcome(&r, row, result);
    rig_close(&r);

    row_open(&r, mode, row);
    result = rig_icr_begin(&r, 0, row->icrh, row->icrl);
    if (result == AVICEMU_CORE_STEPS) {
        while (rig_step(&r, 0) != AVICEMU_CORE_FINISHED) {
        }
        result = avicemu_core_finish(r.core[0], &r.a, &r.op);
    }
    assert_outcome(&r, row, result);
    rig_close(&r);
}

static void
test_xavic_row(void **state)
{
    row_test(XAVIC, *state);
}

static void
test_x2avic_row(void **state)
{
    row_test(X2AVIC, *state);
}

/* ---- self IPI and the ICR registers ------------------------------------- */

/* The choice of an image for 83Fh; the ICR of the page is not its business. */
static void
test_self_ipi_msr(void **state)
{
    struct rig *r = *state;

    rig_put(r, 0, 0x300, 0x123);
    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MSR, 1, 0x83f, 0x41),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(r, 0, IRR, 0x41), 1);
    assert_int_equal(r->a.vector, -1);
    assert_int_equal(rig_get(r, 0, 0x300), 0x123);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MSR, 1, 0x83f, 0x0a),
                     AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, 0x0004000a, VECTOR);
}

static void
test_self_delivers(void **state)
{
    struct rig *r = *state;

    rig_vmcb_put(r, 0, AVICEMU_VMCB_RFLAGS, 0x202);
    (void)rig_run(r, 0);
    assert_int_equal(rig_icr(r, 0, 0, 0x40041), AVICEMU_CORE_DONE);
    assert_int_equal(r->a.vector, 0x41);
    assert_int_equal(rig_bit(r, 0, IRR, 0x41), 0);
    assert_int_equal(rig_bit(r, 0, 0x100, 0x41), 1);
}

/* AVT-05: the two halves are two registers of the page, in both modes. */
static void
test_icr_split(void **state)
{
    struct rig *r = *state;
    uint64_t icr = 5ull << 32 | 0x51;

    tables(r, FLAT);
    (void)rig_run(r, 0);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MSR, 1, 0x830, icr),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, 0x300), 0x51);
    assert_int_equal(rig_get(r, 0, 0x304), 0);
    assert_int_equal(rig_get(r, 0, 0x310), 5);
    assert_int_equal(rig_access(r, 0, AVICEMU_CORE_MSR, 0, 0x830, 0),
                     AVICEMU_CORE_DONE);
    assert_int_equal(r->a.value, icr);
    assert_int_equal(rig_bit(r, 5, IRR, 0x51), 1);
}

/* A write of ICR high sends nothing; the same ICR low sends again. */
static void
test_icr_high_sends_nothing(void **state)
{
    struct rig *r = *state;

    tables(r, FLAT);
    (void)rig_run(r, 0);
    rig_put(r, 0, 0x300, 0x41);
    assert_int_equal(rig_reg(r, 0, 1, 0x310, 0x01000000), AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(r, 1, IRR, 0x41), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(rig_reg(r, 0, 1, 0x300, 0x41), AVICEMU_CORE_DONE);
        assert_int_equal(rig_bit(r, 1, IRR, 0x41), 1);
        assert_int_equal(r->doorbells[RIG_HOST + 1].rung, 1);
        rig_put(r, 1, IRR + 0x20, 0);
        r->doorbells[RIG_HOST + 1].rung = 0;
    }
}

/* All eight pages of a large table. */
static void
test_large_table(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, X2AVIC, AVICEMU_CORE_X2AVIC | AVICEMU_CORE_X2AVIC_EXT,
             AVICEMU_LAPIC_X2APIC, 0xffe);
    for (uint32_t n = 1; n < 8; n++) {
        rig_entry(&r, n * 512 + 511, V | R, n);
        rig_entry(&r, n * 512, V | R, n + 8);
    }
    (void)rig_run(&r, 0);
    for (uint32_t n = 1; n < 8; n++) {
        assert_int_equal(rig_icr(&r, 0, n * 512, 0x41), AVICEMU_CORE_DONE);
        assert_int_equal(rig_bit(&r, n + 8, IRR, 0x41), 1);
    }
    for (uint32_t n = 1; n < 7; n++) {
        assert_int_equal(rig_icr(&r, 0, n * 512 + 511, 0x41),
                         AVICEMU_CORE_DONE);
        assert_int_equal(rig_bit(&r, n, IRR, 0x41), 1);
    }
    /* FFFh is beyond MAX_INDEX. */
    assert_int_equal(rig_icr(&r, 0, 0xfff, 0x41), AVICEMU_CORE_EXIT);
    rig_assert_exit(&r, 0, 0x401, 0xfff00000041, TARGET(0xfff));
    assert_int_equal(rig_bit(&r, 7, IRR, 0x41), 0);
    rig_close(&r);
}

/* ---- bad input ---------------------------------------------------------- */

/* Tables that are removed under a running core. Which ID that gives is nobody's
 * rule; that nothing is written, and that a directed IPI fails, is ours. */
static void
test_tables_gone(void **state)
{
    static const uint32_t icrl[] = { 0x41, 0x841, 0x80041, 0xc0041 };
    struct rig *r = *state;

    tables(r, FLAT);
    rig_vmcb_put(r, 0, AVICEMU_VMCB_INTERCEPT_MISC, 0);
    for (unsigned n = 0; n < NR(icrl); n++) {
        enum avicemu_core_result result;

        (void)rig_run(r, 0);
        assert_int_equal(
            avicemu_hw_memory_remove(r->memory, rig_pa(RIG_PHYSICAL)), 0);
        result = rig_icr(r, 0, 0x01000001, icrl[n]);
        assert_true(result == AVICEMU_CORE_EXIT || n >= 2);
        for (unsigned vapic = 1; vapic < RIG_VAPICS; vapic++) {
            assert_int_equal(rig_bit(r, vapic, IRR, 0x41), 0);
        }
        rig_stop(r, 0);
        assert_int_equal(avicemu_hw_memory_add(r->memory, rig_pa(RIG_PHYSICAL),
                                               RIG_VAPIC * 4096, r->ram),
                         0);
    }
}

/* Cluster 15: ID 2, whatever the index. */
static void
test_cluster_15(void **state)
{
    struct rig *r = *state;

    tables(r, CLUSTER);
    for (unsigned n = 0; n < 1024; n++) {
        rig_logical(r, n, LV | 1);
    }
    for (uint32_t bits = 1; bits < 15; bits++) {
        (void)rig_run(r, 0);
        assert_int_equal(rig_icr(r, 0, (0xf0 | bits) << 24, 0x841),
                         AVICEMU_CORE_EXIT);
        assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO2) >> 32, 2);
        assert_int_equal(rig_bit(r, 1, IRR, 0x41), 0);
    }
}

/* A host id without a doorbell rings nowhere, and that is no failure. */
static void
test_no_such_host(void **state)
{
    struct rig *r = *state;

    tables(r, FLAT);
    rig_entry_raw(r, 1, V | R | rig_pa(RIG_VAPIC + 1) | 0xfff);
    rig_entry_raw(r, 2, V | R | rig_pa(RIG_VAPIC + 2) | RIG_BELLS);
    (void)rig_run(r, 0);
    assert_int_equal(rig_icr(r, 0, 0x03000000, 0x841), AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(r, 1, IRR, 0x41), 1);
    assert_int_equal(rig_bit(r, 2, IRR, 0x41), 1);
    assert_bells(r, 0);
}

/* "All without self" leaves out by page, not by id. */
static void
test_excluded_by_page(void **state)
{
    struct rig *r = *state;

    tables(r, FLAT);
    rig_entry(r, 0, V | R, 13);
    rig_entry(r, 3, V, 0); /* the sender's page, not running */
    rig_entry(r, 6, 0, 6);
    (void)rig_run(r, 0);
    assert_int_equal(rig_icr(r, 0, 0, 0xc0041), AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(r, 0, IRR, 0x41), 0);
    assert_int_equal(rig_bit(r, 13, IRR, 0x41), 1);
}

/* ---- helpers of the face: section 11, AVT-08 ---------------------------- */

static void
test_worked_entries(void **state)
{
    (void)state;
    assert_int_equal(V | R | 0x123456000 | 0x42, 0xc000000123456042);
    assert_int_equal(0xc000000123456042 & AVICEMU_PHYSICAL_PAGE, 0x123456000);
    assert_int_equal(0xc000000123456042 & AVICEMU_PHYSICAL_HOST_ID, 0x42);
    assert_int_equal(avicemu_hw_physical_pages(0), 1);
    assert_int_equal(avicemu_hw_physical_pages(0x1ff), 1);
    assert_int_equal(avicemu_hw_physical_pages(0x200), 2);
    assert_int_equal(avicemu_hw_physical_pages(0x3ff), 2);
    assert_int_equal(avicemu_hw_physical_pages(0xfff), 8);
}

static void
test_logical_index(void **state)
{
    (void)state;
    assert_int_equal(avicemu_hw_logical_index(0xffffffff, 0x10), 4);
    assert_int_equal(avicemu_hw_logical_index(0x0fffffff, 0x24), 10);
    assert_int_equal(avicemu_hw_logical_index(0x0fffffff, 0xe8), 59);
    assert_int_equal(avicemu_hw_logical_index(0xf0000000, 0x10), 4);
    for (unsigned ldr = 0; ldr < 256; ldr++) {
        int flat = -ENOENT, cluster = -ENOENT;

        for (int bit = 0; bit < 8; bit++) {
            flat = ldr == 1u << bit ? bit : flat;
        }
        for (unsigned bit = 0; bit < 4; bit++) {
            if ((ldr & 15) == 1u << bit && ldr >> 4 != 15) {
                cluster = (int)(4 * (ldr >> 4) + bit);
            }
        }
        assert_int_equal(avicemu_hw_logical_index(0xffffffff, (uint8_t)ldr),
                         flat);
        assert_int_equal(avicemu_hw_logical_index(0x0fffffff, (uint8_t)ldr),
                         cluster);
        assert_int_equal(avicemu_hw_logical_index(0x7fffffff, (uint8_t)ldr),
                         -ENOENT);
    }
}

/* ---- the list ----------------------------------------------------------- */

static enum rig_mode xavic = XAVIC, x2avic = X2AVIC;

#define IN(mode, fn, name)                       \
    {                                            \
        name, fn, rig_setup, rig_teardown, &mode \
    }

static const struct CMUnitTest plain[] = {
    IN(x2avic, test_self_ipi_msr, "self IPI register: image, and ICR kept"),
    IN(xavic, test_self_delivers, "xAVIC: a self IPI is delivered at once"),
    IN(x2avic, test_self_delivers, "x2AVIC: a self IPI is delivered at once"),
    IN(x2avic, test_icr_split, "AVT-05: x2AVIC splits the ICR in the page"),
    IN(xavic, test_icr_high_sends_nothing, "only ICR low sends, and again"),
    IN(xavic, test_tables_gone, "xAVIC: tables that are no memory"),
    IN(x2avic, test_tables_gone, "x2AVIC: tables that are no memory"),
    IN(xavic, test_cluster_15, "cluster 15 is reserved"),
    IN(xavic, test_no_such_host, "a host id without a core"),
    IN(xavic, test_excluded_by_page, "all without self goes by the page"),
    cmocka_unit_test(test_large_table),
    cmocka_unit_test(test_worked_entries),
    cmocka_unit_test(test_logical_index),
};

static struct CMUnitTest tests[NR(plain) + NR(xavic_rows) + NR(x2avic_rows)];

int
main(void)
{
    size_t at = 0;

    for (size_t i = 0; i < NR(plain); i++) {
        tests[at++] = plain[i];
    }
    for (size_t i = 0; i < NR(xavic_rows); i++) {
        tests[at++] = (struct CMUnitTest){ .name = xavic_rows[i].name,
                                           .test_func = test_xavic_row,
                                           .initial_state = &xavic_rows[i] };
    }
    for (size_t i = 0; i < NR(x2avic_rows); i++) {
        tests[at++] = (struct CMUnitTest){ .name = x2avic_rows[i].name,
                                           .test_func = test_x2avic_row,
                                           .initial_state = &x2avic_rows[i] };
    }
    return _cmocka_run_group_tests("avic_ipi", tests, at, NULL, NULL) != 0;
}
