/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guest accesses to the APIC under AVIC: what hardware completes, which exit
 * the rest causes, and what its handler makes of it. Each row is made in the
 * guest (exit, then handle) and outside (handled at once), and must leave the
 * APICs as the same access does without AVIC.
 *
 * [APM2 15.29.3.1 Table 15-22], [APM2 15.29.9 exits], [APM2 15.29.9.1],
 * [APM2 15.29.9.2], [KVM exit handlers]
 */

#include <errno.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

#define EXIT AVICEMU_ACCESS_EXIT
#define W    (1ull << 32) /* EXITINFO1 of 402h: a write */

#define X1     (RIG_X2AVIC)
#define X2     (RIG_X2AVIC | X2APIC)
#define XE     (RIG_X2AVIC | AVICEMU_HOST_EXT_LVT)
#define X2APIC (1u << 31) /* of a row: the guest is in x2APIC mode */

/* What was done before. V1 is loaded, and outside, unless a row says more. */
enum before {
    NOTHING,
    EDGE_61,  /* V0 has 61h in service, edge-triggered */
    LEVEL_61, /* likewise, level-triggered */
    IN_GUEST, /* V1 */
    PUT,      /* V1 is on no core, in no block */
    BLOCKED,  /* V1 */
};

/* Which counter goes up by one. */
enum path {
    NO_PATH,
    ACCEL,
    TRAP,
    FAULT,
    INTERCEPT,
    INCOMPLETE,
    NR_PATH,
};

struct row {
    const char *name;
    uint32_t avic; /* of the host, and X2APIC */
    enum before before;
    char what;      /* r, w: 4 bytes of the page; R, W: MSR; b: one byte */
    uint32_t at;    /* offset, or MSR */
    uint64_t value; /* of a write */
    enum path path;
    enum avicemu_access handled; /* the outcome in the end */
    /* The exit; code 0: none. */
    uint64_t code, info1, info2;
    const char *text; /* part of its description; NULL: not looked at */
};

#define C_IPI 0x401
#define C_NOA 0x402
#define C_MSR 0x07c
#define C_NPF 0x400

/* clang-format off */
static struct row rows[] = {
    /* Reads of the page. */
    { "xAVIC: read ID",                 X1, NOTHING,  'r', 0x020, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read version",            X1, NOTHING,  'r', 0x030, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read TPR",                X1, NOTHING,  'r', 0x080, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read APR",                X1, EDGE_61,  'r', 0x090, 0, FAULT, DONE, C_NOA, 0x090, 0, "read of 090h" },
    { "xAVIC: read PPR",                X1, EDGE_61,  'r', 0x0a0, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read SVR",                X1, NOTHING,  'r', 0x0f0, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read ISR 3",              X1, EDGE_61,  'r', 0x130, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read ICR high",           X1, NOTHING,  'r', 0x310, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read LVT timer",          X1, NOTHING,  'r', 0x320, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read TMCCT",              X1, NOTHING,  'r', 0x390, 0, FAULT, DONE, C_NOA, 0x390, 0, "read of 390h" },
    { "xAVIC: read EAFR",               X1, NOTHING,  'r', 0x400, 0, FAULT, DONE, C_NOA, 0x400, 0, NULL },
    { "xAVIC: read IER 7",              X1, NOTHING,  'r', 0x4f0, 0, FAULT, DONE, C_NOA, 0x4f0, 0, NULL },
    { "xAVIC: read extended LVT 0",     X1, NOTHING,  'r', 0x500, 0, FAULT, DONE, C_NOA, 0x500, 0, NULL },
    { "xAVIC: read extended LVT 0 (ExtLvtAvicAccessChg)", XE, NOTHING, 'r', 0x500, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: read FF0h",               X1, NOTHING,  'r', 0xff0, 0, FAULT, DONE, C_NOA, 0xff0, 0, NULL },
    { "xAVIC: read one byte of TPR",    X1, NOTHING,  'b', 0x080, 0, INTERCEPT, DONE, C_NPF, 0x100000004, 0xfee00080, "read of fee00080h" },
    /* Writes to the page. */
    { "xAVIC: write ID",                X1, NOTHING,  'w', 0x020, 0, TRAP,  DONE, C_NOA, W | 0x020, 0, "write of 020h" },
    { "xAVIC: write version",           X1, NOTHING,  'w', 0x030, 1, FAULT, DONE, C_NOA, W | 0x030, 0, NULL },
    { "xAVIC: write TPR",               X1, NOTHING,  'w', 0x080, 0x35, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: write TPR, reserved bits", X1, NOTHING, 'w', 0x080, 0xffffff35, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: write APR",               X1, NOTHING,  'w', 0x090, 1, FAULT, DONE, C_NOA, W | 0x090, 0, NULL },
    { "xAVIC: write PPR",               X1, NOTHING,  'w', 0x0a0, 0xff, FAULT, DONE, C_NOA, W | 0x0a0, 0, NULL },
    { "xAVIC: EOI of nothing",          X1, NOTHING,  'w', 0x0b0, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: EOI of an edge",          X1, EDGE_61,  'w', 0x0b0, 7, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: EOI of a level",          X1, LEVEL_61, 'w', 0x0b0, 0, TRAP,  DONE, C_NOA, W | 0x0b0, 0x61, "vector 61h" },
    { "xAVIC: write remote read",       X1, NOTHING,  'w', 0x0c0, 1, TRAP,  DONE, C_NOA, W | 0x0c0, 0, NULL },
    { "xAVIC: write LDR",               X1, NOTHING,  'w', 0x0d0, 0x04000000, TRAP, DONE, C_NOA, W | 0x0d0, 0, NULL },
    { "xAVIC: write DFR",               X1, NOTHING,  'w', 0x0e0, 0x0fffffff, TRAP, DONE, C_NOA, W | 0x0e0, 0, NULL },
    { "xAVIC: write SVR",               X1, NOTHING,  'w', 0x0f0, 0x1e0, TRAP, DONE, C_NOA, W | 0x0f0, 0, NULL },
    { "xAVIC: write ISR 0",             X1, NOTHING,  'w', 0x100, 0xffffffff, FAULT, DONE, C_NOA, W | 0x100, 0, NULL },
    { "xAVIC: write TMR 7",             X1, NOTHING,  'w', 0x1f0, 0xffffffff, FAULT, DONE, C_NOA, W | 0x1f0, 0, NULL },
    { "xAVIC: write IRR 2",             X1, NOTHING,  'w', 0x220, 0xffffffff, FAULT, DONE, C_NOA, W | 0x220, 0, NULL },
    { "xAVIC: write ESR",               X1, NOTHING,  'w', 0x280, 0, TRAP,  DONE, C_NOA, W | 0x280, 0, NULL },
    { "xAVIC: write ICR high",          X1, NOTHING,  'w', 0x310, 0x07000000, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: write LVT timer",         X1, NOTHING,  'w', 0x320, 0x20044, TRAP, DONE, C_NOA, 0x100000320, 0, "write of 320h" },
    { "xAVIC: write LVT thermal",       X1, NOTHING,  'w', 0x330, 0x44, TRAP, DONE, C_NOA, W | 0x330, 0, NULL },
    { "xAVIC: write LVT perf",          X1, NOTHING,  'w', 0x340, 0x400, TRAP, DONE, C_NOA, W | 0x340, 0, NULL },
    { "xAVIC: write LINT0",             X1, NOTHING,  'w', 0x350, 0x700, TRAP, DONE, C_NOA, W | 0x350, 0, NULL },
    { "xAVIC: write LINT1",             X1, NOTHING,  'w', 0x360, 0x400, TRAP, DONE, C_NOA, W | 0x360, 0, NULL },
    { "xAVIC: write LVT error",         X1, NOTHING,  'w', 0x370, 0xfe, TRAP, DONE, C_NOA, W | 0x370, 0, NULL },
    { "xAVIC: write TMICT",             X1, NOTHING,  'w', 0x380, 1000, TRAP, DONE, C_NOA, W | 0x380, 0, NULL },
    { "xAVIC: write TMCCT",             X1, NOTHING,  'w', 0x390, 1, FAULT, DONE, C_NOA, W | 0x390, 0, NULL },
    { "xAVIC: write divider",           X1, NOTHING,  'w', 0x3e0, 0xb, TRAP, DONE, C_NOA, W | 0x3e0, 0, NULL },
    { "xAVIC: write SEOI",              X1, NOTHING,  'w', 0x420, 0x61, FAULT, DONE, C_NOA, W | 0x420, 0, NULL },
    { "xAVIC: write extended LVT 3",    X1, NOTHING,  'w', 0x530, 0x44, FAULT, DONE, C_NOA, W | 0x530, 0, NULL },
    { "xAVIC: write extended LVT 3 (ExtLvtAvicAccessChg)", XE, NOTHING, 'w', 0x530, 0x44, TRAP, DONE, C_NOA, W | 0x530, 0, NULL },
    /* IPIs. */
    { "xAVIC: self IPI",                X1, NOTHING,  'w', 0x300, ICR_SELF | 0x41, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: IPI to one in the guest", X1, IN_GUEST, 'w', 0x300, 0x41, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: IPI to one that is loaded", X1, NOTHING, 'w', 0x300, 0x41, ACCEL, DONE, 0, 0, 0, NULL },
    { "xAVIC: id 1: put",               X1, PUT,      'w', 0x300, 0x41, INCOMPLETE, DONE, C_IPI, 0x0100000000000041, 0x100000001, "not running" },
    { "xAVIC: id 1: blocked",           X1, BLOCKED,  'w', 0x300, 0x4041, INCOMPLETE, DONE, C_IPI, 0x0100000000004041, 0x100000001, "index 1h" },
    { "xAVIC: id 1: to all",            X1, BLOCKED,  'w', 0x300, ICR_ALL | 0x41, INCOMPLETE, DONE, C_IPI, 0x0100000000080041, 0x100000001, NULL },
    { "xAVIC: id 2: nobody",            X1, NOTHING,  'w', 0x300, ICR_LOGICAL | 0x41, INCOMPLETE, DONE, C_IPI, 0x0100000000000841, 0x200000000, "no valid entry" },
    { "xAVIC: id 0: NMI",               X1, NOTHING,  'w', 0x300, ICR_NMI, INCOMPLETE, DONE, C_IPI, 0x0100000000000400, 0, "no fixed edge" },
    { "xAVIC: id 0: NMI to one in the guest", X1, IN_GUEST, 'w', 0x300, ICR_NMI, INCOMPLETE, DONE, C_IPI, 0x0100000000000400, 0, NULL },
    { "xAVIC: id 0: INIT",              X1, NOTHING,  'w', 0x300, 0x4500, INCOMPLETE, DONE, C_IPI, 0x0100000000004500, 0, NULL },
    { "xAVIC: id 0: start-up",          X1, NOTHING,  'w', 0x300, 0x4610, INCOMPLETE, DONE, C_IPI, 0x0100000000004610, 0, NULL },
    { "xAVIC: id 0: lowest priority",   X1, NOTHING,  'w', 0x300, ICR_LOWEST | 0x41, INCOMPLETE, DONE, C_IPI, 0x0100000000000141, 0, NULL },
    { "xAVIC: id 0: level",             X1, NOTHING,  'w', 0x300, 0xc041, INCOMPLETE, DONE, C_IPI, 0x010000000000c041, 0, NULL },
    { "xAVIC: id 0: NMI, vector below 16", X1, NOTHING, 'w', 0x300, ICR_NMI | 2, INCOMPLETE, DONE, C_IPI, 0x0100000000000402, 0, NULL },
    { "xAVIC: id 4: illegal vector",    X1, NOTHING,  'w', 0x300, 0x0f, INCOMPLETE, DONE, C_IPI, 0x010000000000000f, 0x400000000, "illegal vector" },
    { "xAVIC: id 4: illegal self IPI",  X1, NOTHING,  'w', 0x300, ICR_SELF | 5, INCOMPLETE, DONE, C_IPI, 0x0100000000040005, 0x400000000, NULL },
    /* MSRs while AVIC is xAVIC. */
    { "xAVIC: RDMSR of an x2APIC MSR",  X1, NOTHING,  'R', 0x802, 0, INTERCEPT, GP, C_MSR, 0, 0, "RDMSR" },
    { "xAVIC: WRMSR of an x2APIC MSR",  X1, NOTHING,  'W', 0x80b, 0, INTERCEPT, GP, C_MSR, 1, 0, "WRMSR" },
    { "xAVIC: RDMSR of APIC_BASE",      X1, NOTHING,  'R', 0x01b, 0, INTERCEPT, DONE, C_MSR, 0, 0, NULL },
    /* x2AVIC. */
    { "x2AVIC: read ID",                X2, NOTHING,  'R', 0x802, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: read version",           X2, NOTHING,  'R', 0x803, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: read LDR",               X2, NOTHING,  'R', 0x80d, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: read APR",               X2, NOTHING,  'R', 0x809, 0, INTERCEPT, DONE, C_MSR, 0, 0, NULL },
    { "x2AVIC: read TMCCT",             X2, NOTHING,  'R', 0x839, 0, INTERCEPT, DONE, C_MSR, 0, 0, NULL },
    { "x2AVIC: read EOI",               X2, NOTHING,  'R', 0x80b, 0, INTERCEPT, GP, C_MSR, 0, 0, NULL },
    { "x2AVIC: read SELF IPI",          X2, NOTHING,  'R', 0x83f, 0, INTERCEPT, GP, C_MSR, 0, 0, NULL },
    { "x2AVIC: read no MSR",            X2, NOTHING,  'R', 0x831, 0, INTERCEPT, GP, C_MSR, 0, 0, NULL },
    { "x2AVIC: read ICR",               X2, NOTHING,  'R', 0x830, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: write ID",               X2, NOTHING,  'W', 0x802, 0, INTERCEPT, GP, C_MSR, 1, 0, NULL },
    { "x2AVIC: write TPR",              X2, NOTHING,  'W', 0x808, 0x35, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: write TPR, reserved bits", X2, NOTHING, 'W', 0x808, 0x135, NO_PATH, GP, 0, 0, 0, NULL },
    { "x2AVIC: write TPR, high half",   X2, NOTHING,  'W', 0x808, 1ull << 40, NO_PATH, GP, 0, 0, 0, NULL },
    { "x2AVIC: EOI of an edge",         X2, EDGE_61,  'W', 0x80b, 0, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: EOI of a level",         X2, LEVEL_61, 'W', 0x80b, 0, TRAP,  DONE, C_NOA, W | 0x0b0, 0x61, NULL },
    { "x2AVIC: EOI with a value",       X2, EDGE_61,  'W', 0x80b, 1, NO_PATH, GP, 0, 0, 0, NULL },
    { "x2AVIC: write SVR",              X2, NOTHING,  'W', 0x80f, 0x1e0, INTERCEPT, DONE, C_MSR, 1, 0, NULL },
    { "x2AVIC: write LVT timer",        X2, NOTHING,  'W', 0x832, 0x20044, INTERCEPT, DONE, C_MSR, 1, 0, NULL },
    { "x2AVIC: write TMICT",            X2, NOTHING,  'W', 0x838, 1000, INTERCEPT, DONE, C_MSR, 1, 0, NULL },
    { "x2AVIC: IPI to one in the guest", X2, IN_GUEST, 'W', 0x830, 0x100000041, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: logical IPI",            X2, NOTHING,  'W', 0x830, 0x200000841, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: id 1: blocked",          X2, BLOCKED,  'W', 0x830, 0x100000041, INCOMPLETE, DONE, C_IPI, 0x100000041, 0x100000001, NULL },
    { "x2AVIC: id 2: dest 300",         X2, NOTHING,  'W', 0x830, 0x12c00000030, INCOMPLETE, DONE, C_IPI, 0x0000012c00000030, 0x20000012c, NULL },
    { "x2AVIC: id 2: dest FFh is an id", X2, NOTHING, 'W', 0x830, 0xff00000041, INCOMPLETE, DONE, C_IPI, 0x000000ff00000041, 0x2000000ff, NULL },
    { "x2AVIC: id 4: illegal vector",   X2, NOTHING,  'W', 0x830, 0x70000000a, INCOMPLETE, DONE, C_IPI, 0x000000070000000a, 0x400000000, NULL },
    { "x2AVIC: ICR reserved bits",      X2, NOTHING,  'W', 0x830, 0x100102041, NO_PATH, GP, 0, 0, 0, NULL },
    { "x2AVIC: SELF IPI",               X2, NOTHING,  'W', 0x83f, 0x41, ACCEL, DONE, 0, 0, 0, NULL },
    { "x2AVIC: SELF IPI, illegal vector", X2, NOTHING, 'W', 0x83f, 0x05, INCOMPLETE, DONE, C_IPI, 0x0000000000040005, 0x400000000, NULL },
};
/* clang-format on */

static enum avicemu_access
touch(struct avicemu_vcpu *v, const struct row *row, uint64_t *value)
{
    uint64_t gpa = BASE_PAGE + row->at;
    uint8_t b[4] = { 0 };
    enum avicemu_access access;

    switch (row->what) {
    case 'R':
        return avicemu_msr_read(v, row->at, value);
    case 'W':
        return avicemu_msr_write(v, row->at, row->value);
    case 'w':
        for (unsigned i = 0; i < 4; i++) {
            b[i] = (uint8_t)(row->value >> (8 * i));
        }
        return avicemu_mmio_write(v, gpa, 4, b);
    default:
        access = avicemu_mmio_read(v, gpa, row->what == 'b' ? 1 : 4, b);
        if (access == DONE) {
            *value = (uint64_t)b[0] | (uint64_t)b[1] << 8 |
                     (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24;
        }
        return access;
    }
}

static struct rig *
open_before(const struct row *row, uint32_t avic)
{
    struct rig *rig = rig_open(&(struct rig_setup){
        .lapic.features = AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_EXT_SPACE,
        .avic = avic & ~X2APIC,
        .nr_vcpus = 2 });

    reg_w(rig->v[0], R_ICR2, 0x01000000);
    for (uint32_t i = 0; i < 2; i++) {
        if ((row->avic & X2APIC) != 0) {
            to_x2apic(rig->v[i]);
        }
        (void)rig_run(rig, i, IF);
    }
    if (row->before == EDGE_61 || row->before == LEVEL_61) {
        (void)avicemu_post(rig->v[0], 0x61,
                           row->before == EDGE_61 ? EDGE : LEVEL);
        assert_int_equal(rig_take(rig, 0), 0x61);
    }
    if (row->before == IN_GUEST) {
        (void)rig_enter(rig, 1, IF);
    } else if (row->before == PUT) {
        assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    } else if (row->before == BLOCKED) {
        assert_int_equal(avicemu_vcpu_set_halted(rig->v[1]), 0);
        assert_int_equal(avicemu_vcpu_block_begin(rig->v[1]),
                         AVICEMU_SLEEP_YES);
    }
    return rig;
}

static void
close_after(const struct row *row, struct rig *rig)
{
    if (row->before == IN_GUEST) {
        rig_exit(rig, 1, IF);
    } else if (row->before == BLOCKED) {
        assert_int_equal(avicemu_vcpu_block_end(rig->v[1]), 0);
    }
    rig_close(rig);
}

static void
paths(struct rig *rig, uint64_t counts[NR_PATH])
{
    struct avicemu_vcpu_stats s = rig_stats(rig->v[0]);

    counts[NO_PATH] = 0;
    counts[ACCEL] = s.avic_accelerated;
    counts[TRAP] = s.avic_trapped;
    counts[FAULT] = s.avic_faulted;
    counts[INTERCEPT] = s.avic_intercepted;
    counts[INCOMPLETE] = s.avic_incomplete;
}

static void
expect_path(const struct row *row, struct rig *rig,
            const uint64_t before[NR_PATH])
{
    uint64_t after[NR_PATH];

    paths(rig, after);
    for (unsigned p = ACCEL; p < NR_PATH; p++) {
        if (after[p] - before[p] != (p == row->path)) {
            fail_msg("path %u was taken %llu times", p,
                     (unsigned long long)(after[p] - before[p]));
        }
    }
}

static void
expect_exit(const struct row *row, struct avicemu_vcpu *v)
{
    char text[200];

    if (row->code == 0) {
        return;
    }
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITCODE), row->code);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO1), row->info1);
    assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_EXITINFO2), row->info2);
    assert_in_range(avicemu_describe_exit(rig_vmcb(v, AVICEMU_VMCB_EXITCODE),
                                          row->info1, row->info2, text,
                                          sizeof(text)),
                    1, sizeof(text) - 1);
    if (row->text != NULL && strstr(text, row->text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, row->text);
    }
}

/* Both APICs, register by register, and who was called. */
static void
expect_same(struct rig *a, struct rig *b)
{
    assert_int_equal(a->fake[1].kicks, b->fake[1].kicks);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t offset = 0; offset < 0x1000; offset += 16) {
            uint32_t x = 0, y = 0;

            assert_int_equal(avicemu_vcpu_peek(a->v[i], offset, &x),
                             avicemu_vcpu_peek(b->v[i], offset, &y));
            if (x != y) {
                fail_msg("V%u %03xh: %xh, without AVIC %xh", i, offset, x, y);
            }
        }
        assert_int_equal(rig_view(a->v[i]).nr_nmi, rig_view(b->v[i]).nr_nmi);
        assert_int_equal(a->fake[i].wakes, b->fake[i].wakes);
        assert_int_equal(a->fake[i].eois, b->fake[i].eois);
        assert_int_equal(rig_stats(a->v[i]).ipi_sent,
                         rig_stats(b->v[i]).ipi_sent);
        assert_int_equal(rig_stats(a->v[i]).ipi_new,
                         rig_stats(b->v[i]).ipi_new);
        assert_int_equal(rig_stats(a->v[i]).eoi, rig_stats(b->v[i]).eoi);
        assert_int_equal(rig_stats(a->v[i]).gp, rig_stats(b->v[i]).gp);
        assert_int_equal(avicemu_vcpu_deadline(a->v[i]),
                         avicemu_vcpu_deadline(b->v[i]));
    }
}

static void
test_row(void **state)
{
    const struct row *row = *state;
    struct rig *plain = open_before(row, 0);
    uint64_t want = 0;

    assert_int_equal(touch(plain->v[0], row, &want), row->handled);
    for (int in_guest = 0; in_guest < 2; in_guest++) {
        struct rig *rig = open_before(row, row->avic);
        struct avicemu_vcpu *v = rig->v[0];
        enum avicemu_access access;
        uint64_t before[NR_PATH];
        uint64_t value = 0;

        paths(rig, before);
        if (in_guest) {
            (void)rig_enter(rig, 0, IF);
        }
        access = touch(v, row, &value);
        if (in_guest) {
            assert_int_equal(access, row->code != 0 ? EXIT : row->handled);
            expect_exit(row, v);
            rig_exit(rig, 0, IF);
        }
        if (access == EXIT) {
            assert_int_equal(value, 0);
            access = avicemu_vcpu_handle_exit(v, &value);
        }
        assert_int_equal(access, row->handled);
        expect_exit(row, v);
        expect_path(row, rig, before);
        assert_int_equal(value, want);
        expect_same(rig, plain);
        assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), UNCLAIM);
        close_after(row, rig);
    }
    close_after(row, plain);
}

/* ---- handlers ----------------------------------------------------------- */

static void
test_no_exit(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t value = 5;

    assert_int_equal(avicemu_vcpu_handle_exit(NULL, &value), UNCLAIM);
    assert_int_equal(avicemu_vcpu_handle_exit(v, &value), UNCLAIM);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + R_TMCCT, 4, &value),
                     EXIT);
    assert_int_equal(avicemu_vcpu_handle_exit(v, &value), UNCLAIM); /* in it */
    assert_int_equal(value, 5);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, &value), DONE);
    assert_int_equal(value, 0);
    /* Not the APIC's: no exit of AVIC. */
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_mmio_read(v, 0xfed00000, 4, &value), UNCLAIM);
    assert_int_equal(avicemu_msr_read(v, 0x10, &value), UNCLAIM);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, &value), UNCLAIM);
}

/* An exit is handled once, an incomplete IPI too. */
static void
test_once(void **state)
{
    static const uint32_t icrs[] = { 0x41, ICR_NMI, 0x08, ICR_LOGICAL | 0x41 };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    reg_w(v, R_ICR2, 0x01000000);
    for (size_t i = 0; i < NR(icrs); i++) {
        struct avicemu_vcpu_stats before;

        (void)rig_enter(rig, 0, IF);
        assert_int_equal(reg_try(v, R_ICR, icrs[i]), EXIT);
        rig_exit(rig, 0, IF);
        assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
        before = rig_stats(v);
        assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), UNCLAIM);
        assert_int_equal(rig_stats(v).ipi_software, before.ipi_software);
        assert_int_equal(rig_stats(v).ipi_sent, before.ipi_sent);
    }
}

/* Only who can take it is woken: the IRR bit stays for the others. */
static void
test_wakes(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(rig->v[2], R_TPR, 0x50);
    for (uint32_t i = 1; i < 4; i++) {
        (void)rig_run(rig, i, i == 3 ? 0 : IF);
        assert_int_equal(avicemu_vcpu_set_halted(rig->v[i]), 0);
        assert_int_equal(avicemu_vcpu_block_begin(rig->v[i]),
                         AVICEMU_SLEEP_YES);
    }
    icr_send(v, 0, ICR_OTHERS | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 0xe);
    assert_int_equal(rig->fake[1].wakes, 1);
    assert_int_equal(rig->fake[2].wakes, 0); /* held back by its TPR */
    assert_int_equal(rig->fake[3].wakes, 0); /* IF = 0 */
    assert_int_equal(rig_stats(v).ipi_wakes, 1);
    icr_send(v, 0, ICR_OTHERS | 0x61);
    assert_int_equal(rig->fake[1].wakes, 1); /* once per block */
    assert_int_equal(rig->fake[2].wakes, 1);
    icr_send(v, 3, ICR_NMI);
    assert_int_equal(rig->fake[3].wakes, 1);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(avicemu_vcpu_block_end(rig->v[i]), 0);
    }
}

/* Delivery status reads idle once the IPI is sent, whatever was written. */
static void
test_busy(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    icr_send(v, 1, ICR_BUSY | 0x41); /* running */
    assert_int_equal(reg_r(v, R_ICR), 0x41);
    assert_int_equal(avicemu_vcpu_put(rig->v[1]), 0);
    icr_send(v, 1, ICR_BUSY | 0x42);
    assert_int_equal(reg_r(v, R_ICR), 0x42);
    icr_send(v, 9, ICR_BUSY | 0x43); /* nobody: by software */
    assert_int_equal(reg_r(v, R_ICR), 0x43);
}

/* Any length and alignment, in the guest: it comes out, and does what it does
 * without AVIC. */
static void
test_odd(void **state)
{
    static const struct {
        uint32_t offset, len;
    } shapes[] = {
        { 0x080, 1 }, { 0x080, 2 }, { 0x080, 8 },  { 0x081, 4 },
        { 0x083, 2 }, { 0x084, 4 }, { 0x0f0, 32 }, { 0x000, 4096 },
        { 0xfff, 1 }, { 0xff8, 8 },
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t data[4096];
    uint64_t value;

    reg_w(v, R_TPR, 0x35);
    memset(data, 0x77, sizeof(data));
    for (size_t i = 0; i < NR(shapes); i++) {
        uint64_t at = BASE_PAGE + shapes[i].offset;

        (void)rig_enter(rig, 0, 0);
        assert_int_equal(avicemu_mmio_write(v, at, shapes[i].len, data), EXIT);
        rig_exit(rig, 0, 0);
        assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
        assert_int_equal(rig_stats(v).mmio_odd, i + 1);
        (void)rig_enter(rig, 0, 0);
        assert_int_equal(avicemu_mmio_read(v, at, shapes[i].len, data), EXIT);
        rig_exit(rig, 0, 0);
        assert_int_equal(avicemu_vcpu_handle_exit(v, &value), DONE);
        assert_int_equal(value & 0xff, shapes[i].offset == 0x080   ? 0x35
                                       : shapes[i].offset == 0x0f0 ? 0xff
                                                                   : 0);
        assert_int_equal(data[0], 0x77); /* the value is the handler's */
    }
    assert_int_equal(reg_r(v, R_TPR), 0x35);
    (void)rig_enter(rig, 0, 0);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + 0xffe, 4, data), UNCLAIM);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + R_TMCCT, 4, data), EXIT);
    rig_exit(rig, 0, 0);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
}

/* The same identities with AVIC and without, and a logical IPI to dest. */
static void
dfr_compare(struct rig *rig, struct rig *plain, const uint32_t dfrs[2],
            uint32_t dest)
{
    struct rig *both[] = { rig, plain };

    for (size_t n = 0; n < NR(both); n++) {
        for (uint32_t i = 0; i < 2; i++) {
            reg_w(both[n]->v[i], R_DFR, dfrs[i]);
            reg_w(both[n]->v[i], R_LDR, (0x11u << i) << 24);
        }
        (void)rig_run(both[n], 0, 0);
        icr_send(both[n]->v[0], dest, ICR_LOGICAL | 0x51);
    }
    if (rig_irr_mask(rig, 0x51) != rig_irr_mask(plain, 0x51)) {
        fail_msg("DFRs %xh, %xh, destination %xh", dfrs[0], dfrs[1], dest);
    }
    rig_drain(rig);
    rig_drain(plain);
}

#define FLAT    0xffffffffu
#define CLUSTER 0x0fffffffu
#define NEITHER 0x5fffffffu

/* Who gets a logical IPI is what software says, in mixed models, too. */
static void
test_dfr(void **state)
{
    static const uint32_t dfrs[][2] = {
        { FLAT, FLAT },       { FLAT, CLUSTER },    { CLUSTER, FLAT },
        { CLUSTER, CLUSTER }, { NEITHER, NEITHER }, { NEITHER, FLAT },
        { FLAT, NEITHER },    { CLUSTER, NEITHER }, { NEITHER, CLUSTER },
    };
    struct rig *rig = *state;
    struct rig *plain = rig_open(&(struct rig_setup){ .nr_vcpus = 2 });

    for (size_t n = 0; n < NR(dfrs); n++) {
        for (uint32_t dest = 0; dest < 0xff; dest++) {
            dfr_compare(rig, plain, dfrs[n], dest);
        }
    }
    rig_close(plain);
}

/* A logical FFh is everybody, whatever DFR says. [KVM
 * kvm_apic_match_logical_addr] */
static void
test_dfr_all(void **state)
{
    static const uint32_t dfrs[][2] = {
        { FLAT, FLAT },
        { CLUSTER, CLUSTER },
        { FLAT, CLUSTER },
        { NEITHER, NEITHER },
    };
    struct rig *rig = *state;
    struct rig *plain = rig_open(&(struct rig_setup){ .nr_vcpus = 2 });

    for (size_t n = 0; n < NR(dfrs); n++) {
        dfr_compare(rig, plain, dfrs[n], 0xff);
    }
    rig_close(plain);
}

/* While AVIC is inhibited the guest's accesses come out as well. */
static void
test_inhibited(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t before = rig_stats(v).avic_trapped + rig_stats(v).avic_faulted;
    uint64_t value = 0;

    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 1), 0);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(reg_try(v, R_TPR, 0x25), EXIT);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE + R_TPR, 4, &value), EXIT);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, &value), DONE);
    assert_int_equal(value, 0x25);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_cr8_write(v, 7), EXIT); /* intercepted again */
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), DONE);
    assert_int_equal(reg_r(v, R_TPR), 0x70);
    assert_int_equal(avicemu_cr8_write(v, 16), GP);
    assert_int_equal(rig_stats(v).avic_trapped + rig_stats(v).avic_faulted,
                     before);
}

/* A VM without AVIC knows none of this. */
static void
test_without(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_null(avicemu_vcpu_vmcb(v));
    assert_null(avicemu_vcpu_vmcb(NULL));
    assert_int_equal(avicemu_vcpu_avic(v), AVICEMU_AVIC_OFF);
    assert_int_equal(avicemu_vcpu_msr_passes(v, 0x808, 1), 0);
    assert_int_equal(avicemu_vcpu_load(v, 3), 0);
    assert_int_equal(avicemu_vcpu_put(v), 0);
    assert_int_equal(avicemu_vcpu_handle_exit(v, NULL), UNCLAIM);
    assert_int_equal(avicemu_vm_inhibit(rig->vm, AVICEMU_INHIBIT_HYPERV, 1),
                     -EOPNOTSUPP);
    assert_int_equal(avicemu_vm_inhibits(rig->vm), 0);
    reg_w(v, R_TPR, 0x20);
    assert_int_equal(rig_stats(v).avic_accelerated, 0);
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("no exit, nothing to handle", test_no_exit,
                 .avic = RIG_X2AVIC),
        RIG_TEST("an exit is handled once", test_once, .avic = RIG_X2AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("id 1 wakes whom the vector can interrupt", test_wakes,
                 .avic = RIG_X2AVIC, .nr_vcpus = 4),
        RIG_TEST("delivery status reads idle", test_busy, .avic = RIG_X2AVIC,
                 .nr_vcpus = 2),
        RIG_TEST("any length and alignment comes out", test_odd,
                 .avic = RIG_X2AVIC),
        RIG_TEST("any DFR: logical IPIs go where software sends them", test_dfr,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("any DFR: a logical FFh goes to all", test_dfr_all,
                 .avic = RIG_X2AVIC, .nr_vcpus = 2),
        RIG_TEST("inhibited: every access comes out", test_inhibited,
                 .avic = RIG_X2AVIC),
        RIG_TEST("a VM without AVIC", test_without, .nr_vcpus = 1),
    };
    struct CMUnitTest tests[NR(fixed) + NR(rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = rows[i].name,
                                          .test_func = test_row,
                                          .initial_state = &rows[i] };
    }
    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    return cmocka_run_group_tests_name("AVIC exits", tests, NULL, NULL) != 0;
}
