/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run loop: which event comes first, which window is asked for, what ack
 * and exit change, when a vCPU may sleep, and the ExtINT latch.
 * [APM2 8.5 priorities], [APM2 16.6.4 TPR]
 */

#include <errno.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* What is pending at a running AP, as a set. */
#define FIX  1u /* vector 51h */
#define EXTI 2u
#define NMI1 4u
#define NMI2 8u /* two of them */
#define SMI  16u
#define INIT 32u
#define SIPI 64u /* behind the INIT */

#define SHADOW  AVICEMU_CPU_SHADOW
#define NMI_BLK AVICEMU_CPU_NMI_BLOCKED
#define SMI_BLK AVICEMU_CPU_SMI_BLOCKED
#define NO_GIF  AVICEMU_CPU_GIF_CLEAR
#define BUSY    AVICEMU_CPU_BUSY

#define D_INJ  AVICEMU_DO_INJECT
#define D_EXT  AVICEMU_DO_EXTINT
#define D_NMI  AVICEMU_DO_NMI
#define D_SMI  AVICEMU_DO_SMI
#define D_INIT AVICEMU_DO_INIT
#define D_WIN  AVICEMU_DO_WINDOW
#define D_NWIN AVICEMU_DO_NMI_WINDOW

struct choice_row {
    const char *name;
    uint32_t pending, flags, what;
};

/* clang-format off */
static struct choice_row choice_rows[] = {
    { "entry: nothing",                                0,                       IF,           0 },
    { "entry: a vector",                               FIX,                     IF,           D_INJ },
    { "entry: a vector, IF = 0",                       FIX,                     0,            D_WIN },
    { "entry: a vector in a shadow",                   FIX,                     IF | SHADOW,  D_WIN },
    { "entry: a vector while an NMI is in service",    FIX,                     IF | NMI_BLK, D_INJ },
    { "entry: a vector behind an event",               FIX,                     IF | BUSY,    D_WIN },
    { "entry: a vector, GIF = 0",                      FIX,                     IF | NO_GIF,  D_WIN },
    { "entry: ExtINT comes before a vector",           FIX | EXTI,              IF,           D_EXT | D_WIN },
    { "entry: ExtINT alone",                           EXTI,                    IF,           D_EXT },
    { "entry: ExtINT, IF = 0",                         EXTI,                    0,            D_WIN },
    { "entry: NMI comes before ExtINT",                FIX | EXTI | NMI1,       IF,           D_NMI | D_WIN },
    { "entry: NMI, IF = 0",                            NMI1,                    0,            D_NMI },
    { "entry: NMI while one is in service",            NMI1,                    IF | NMI_BLK, D_NWIN },
    { "entry: NMI in a shadow",                        NMI1,                    IF | SHADOW,  D_NWIN },
    { "entry: NMI behind an event",                    NMI1,                    IF | BUSY,    D_NWIN },
    { "entry: two NMIs",                               NMI2,                    IF,           D_NMI | D_NWIN },
    { "entry: a blocked NMI lets a vector through",    FIX | NMI1,              IF | NMI_BLK, D_INJ | D_NWIN },
    { "entry: SMI comes before NMI",                   FIX | NMI1 | SMI,        IF,           D_SMI | D_NWIN | D_WIN },
    { "entry: SMI in a shadow",                        SMI,                     IF | SHADOW,  D_SMI },
    { "entry: SMI in SMM",                             FIX | SMI,               IF | SMI_BLK, D_INJ },
    { "entry: INIT comes before all",                  FIX | NMI1 | SMI | INIT, IF,           D_INIT },
    { "entry: INIT, IF = 0",                           INIT,                    0,            D_INIT },
    { "entry: INIT before the SIPI behind it",         INIT | SIPI,             IF,           D_INIT },
    { "entry: INIT in SMM is held back",               FIX | INIT,              IF | SMI_BLK, D_INJ },
    { "entry: INIT, GIF = 0, is held back",            INIT,                    IF | NO_GIF,  0 },
    { "entry: everything, GIF = 0",                    FIX | NMI1 | SMI,        IF | NO_GIF,  D_WIN | D_NWIN },
};
/* clang-format on */

static void
make_pending(struct rig *rig, uint32_t i, uint32_t pending)
{
    struct avicemu_vcpu *v = rig->v[i];

    if (pending & FIX) {
        assert_int_equal(avicemu_post(v, 0x51, EDGE), NEW);
    }
    for (unsigned n = 0; n < ((pending & NMI2) ? 2 : (pending & NMI1) / NMI1);
         n++) {
        assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0), NEW);
    }
    if (pending & EXTI) {
        assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0), NEW);
    }
    if (pending & SMI) {
        assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SMI, 0), NEW);
    }
    if (pending & INIT) {
        assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0), NEW);
    }
    if (pending & SIPI) {
        assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 9), NEW);
    }
}

static void
test_choice(void **state)
{
    const struct choice_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){ .nr_vcpus = 2 });

    make_pending(rig, 1, row->pending);
    assert_int_equal(rig_enter(rig, 1, row->flags), row->what);
    rig_exit(rig, 1, row->flags);
    /* Not acked: asked for again. */
    assert_int_equal(rig_enter(rig, 1, row->flags), row->what);
    rig_exit(rig, 1, row->flags);
    rig_close(rig);
}

/* ---- halt --------------------------------------------------------------- */

struct halt_row {
    const char *name;
    uint32_t pending, flags;
    uint32_t tpr;
    int sleeps; /* with it pending before; and it then wakes a sleeper */
};

static struct halt_row halt_rows[] = {
    { "halted: nothing", 0, IF, 0, 1 },
    { "halted: a vector, IF = 1", FIX, IF, 0, 0 },
    { "halted: a vector, IF = 0", FIX, 0, 0, 1 },
    { "halted: a vector below TPR", FIX, IF, 0x50, 1 },
    { "halted: a vector just above TPR", FIX, IF, 0x4f, 0 },
    { "halted: ExtINT, IF = 1", EXTI, IF, 0xf0, 0 },
    { "halted: ExtINT, IF = 0", EXTI, 0, 0, 1 },
    { "halted: NMI, IF = 0", NMI1, 0, 0xf0, 0 },
    { "halted: NMI, blocked", NMI1, IF | NMI_BLK, 0, 1 },
    { "halted: SMI, IF = 0", SMI, 0, 0xf0, 0 },
    { "halted: SMI, blocked", SMI, IF | SMI_BLK, 0, 1 },
    { "halted: INIT, IF = 0", INIT, 0, 0xf0, 0 },
};

static void
test_halt(void **state)
{
    const struct halt_row *row = *state;
    struct rig *rig = rig_open(&(struct rig_setup){ .nr_vcpus = 2 });
    struct avicemu_vcpu *v = rig->v[1];

    reg_w(v, R_TPR, row->tpr);
    (void)rig_enter(rig, 1, row->flags);
    rig_exit(rig, 1, row->flags);
    assert_int_equal(avicemu_vcpu_set_halted(v), 0);
    assert_int_equal(avicemu_vcpu_runnable(v), 0);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
    make_pending(rig, 1, row->pending);
    if (!row->sleeps) {
        assert_int_equal(rig->fake[1].wakes, 1);
    }
    assert_int_equal(avicemu_vcpu_runnable(v), !row->sleeps);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
    assert_int_equal(avicemu_vcpu_block_begin(v),
                     row->sleeps ? AVICEMU_SLEEP_YES : AVICEMU_SLEEP_NO);
    if (row->sleeps) {
        assert_int_equal(avicemu_vcpu_block_end(v), 0);
    }
    assert_int_equal(rig_view(v).halted, 1);
    assert_int_equal((rig_enter(rig, 1, row->flags) & AVICEMU_DO_SLEEP) != 0,
                     row->sleeps);
    assert_int_equal(rig_view(v).halted, row->sleeps);
    rig_exit(rig, 1, row->flags);
    rig_close(rig);
}

/* Woken only for what ends the wait: no call for what does not. */
static void
test_no_vain_wakes(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TPR, 0x70);
    (void)rig_run(rig, 0, IF);
    (void)avicemu_vcpu_set_halted(v);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
    for (unsigned vector = 0x10; vector < 0x80; vector++) {
        (void)avicemu_post(v, (uint8_t)vector, EDGE);
    }
    assert_int_equal(rig->fake[0].wakes, 0);
    (void)avicemu_post(v, 0x80, EDGE);
    assert_int_equal(rig->fake[0].wakes, 1);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
}

/* halt() in one: the fake VMM's clock jumps to the deadline. */
static void
test_halt_in_one(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_LVTT, 0x41);
    reg_w(v, R_TMICT, 1000);
    (void)rig_run(rig, 0, IF);
    (void)avicemu_vcpu_set_halted(v);
    assert_int_equal(avicemu_vcpu_halt(v), 0);
    assert_int_equal(rig->fake[0].blocks, 1);
    assert_int_equal(rig->vmm.now, 1000);
    assert_int_equal(avicemu_vcpu_expire(v), 0);
    assert_int_equal(avicemu_vcpu_halt(v), 0); /* there is work */
    assert_int_equal(rig->fake[0].blocks, 1);
    assert_int_equal(rig_take(rig, 0), 0x41);
    assert_int_equal(rig_stats(v).blocks, 1);
}

/* ---- phases ------------------------------------------------------------- */

static void
test_phases(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    assert_int_equal(avicemu_vcpu_exit(v, &cpu), -EBUSY);
    assert_int_equal(avicemu_vcpu_block_end(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), 0);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), -EBUSY);
    assert_int_equal(avicemu_vcpu_set_halted(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_reset(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_halt(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_destroy(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_NO);
    cpu.cr8 = 16;
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), -EINVAL);
    cpu.cr8 = 0;
    cpu.size = 4;
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), -EINVAL);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), -EINVAL);
    cpu.size = sizeof(cpu);
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), 0);
    todo.size = sizeof(todo) - 1;
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), -EINVAL);
    todo.size = sizeof(todo);
    assert_int_equal(avicemu_vcpu_enter(NULL, &cpu, &todo), -EINVAL);
    assert_int_equal(avicemu_vcpu_enter(v, NULL, &todo), -EINVAL);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, NULL), -EINVAL);
    (void)avicemu_vcpu_set_halted(v);
    assert_int_equal(avicemu_vcpu_block_begin(v), AVICEMU_SLEEP_YES);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), -EBUSY);
    assert_int_equal(avicemu_vcpu_destroy(v), -EBUSY);
    assert_int_equal(avicemu_vcpu_block_end(v), 0);
}

static void
test_ack(void **state)
{
    static const enum avicemu_do acked[] = {
        AVICEMU_DO_INJECT, AVICEMU_DO_EXTINT, AVICEMU_DO_NMI,
        AVICEMU_DO_SMI,    AVICEMU_DO_INIT,   AVICEMU_DO_SIPI,
    };
    static const enum avicemu_do never[] = { AVICEMU_DO_WINDOW,
                                             AVICEMU_DO_NMI_WINDOW,
                                             AVICEMU_DO_SLEEP,
                                             (enum avicemu_do)0 };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (size_t i = 0; i < NR(acked); i++) {
        assert_int_equal(avicemu_vcpu_ack(v, acked[i], 0x51), -ENOENT);
    }
    for (size_t i = 0; i < NR(never); i++) {
        assert_int_equal(avicemu_vcpu_ack(v, never[i], 0), -EINVAL);
    }
    assert_int_equal(avicemu_vcpu_ack(NULL, AVICEMU_DO_NMI, 0), -EINVAL);
    (void)avicemu_post(v, 0x51, EDGE);
    assert_int_equal(avicemu_vcpu_ack(v, AVICEMU_DO_INJECT, 0x52), -ENOENT);
    assert_int_equal(vec_bit(v, R_IRR, 0x51), 1);
    assert_int_equal(avicemu_vcpu_ack(v, AVICEMU_DO_INJECT, 0x51), 0);
    assert_int_equal(vec_bit(v, R_ISR, 0x51), 1);
    assert_int_equal(rig_stats(v).injected, 1);
}

/* ---- CR8 ---------------------------------------------------------------- */

static void
test_cr8(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };

    reg_w(v, R_TPR, 0x2f);
    assert_int_equal(avicemu_cr8_write(v, 5), DONE);
    assert_int_equal(reg_r(v, R_TPR), 0x50);
    reg_w(v, R_TPR, 0x5a);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(rig->todo.cr8, 5);
    cpu.cr8 = 5; /* the class did not change: the sub-class stays */
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), 0);
    assert_int_equal(reg_r(v, R_TPR), 0x5a);
    (void)rig_enter(rig, 0, IF);
    cpu.cr8 = 9;
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), 0);
    assert_int_equal(reg_r(v, R_TPR), 0x90);
    assert_int_equal(reg_r(v, R_PPR), 0x90);
    hw_disable(v); /* CR8 lives on */
    assert_int_equal(avicemu_cr8_read(v), 9);
    assert_int_equal(avicemu_cr8_write(v, 3), DONE);
    assert_int_equal(avicemu_cr8_read(v), 3);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(rig->todo.cr8, 3);
    rig_exit(rig, 0, IF);
    hw_enable(v);
    assert_int_equal(reg_r(v, R_TPR), 0x30);
}

/* CR8 below which something could be taken. */
static void
test_tpr_threshold(void **state)
{
    static const struct {
        uint32_t tpr;
        uint8_t irr, isr; /* 0: none */
        uint8_t threshold;
    } rows[] = {
        { 0x00, 0, 0, 0 },       { 0x80, 0x51, 0, 5 },
        { 0x50, 0x51, 0, 5 },    { 0x40, 0x51, 0, 0 }, /* deliverable */
        { 0x80, 0x51, 0x51, 0 }, /* the one in service holds it back */
        { 0x80, 0x61, 0x51, 6 }, { 0xf0, 0xff, 0, 15 },
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    for (size_t i = 0; i < NR(rows); i++) {
        assert_int_equal(avicemu_vcpu_reset(v), 0);
        reg_w(v, R_SVR, 0x1ff);
        if (rows[i].isr != 0) {
            (void)avicemu_post(v, rows[i].isr, EDGE);
            assert_int_equal(rig_take(rig, 0), rows[i].isr);
        }
        reg_w(v, R_TPR, rows[i].tpr);
        if (rows[i].irr != 0) {
            (void)avicemu_post(v, rows[i].irr, EDGE);
        }
        (void)rig_enter(rig, 0, 0);
        assert_int_equal(rig->todo.tpr_threshold, rows[i].threshold);
        rig_exit(rig, 0, 0);
    }
}

/* ---- ExtINT ------------------------------------------------------------- */

static uint8_t
counting_vector(uint64_t n)
{
    return (uint8_t)(0x30 + n);
}

/* One INTA per ExtINT, however often its injection fails. */
static void
test_extint_latch(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    rig->vmm.inta_vector = counting_vector;
    reg_w(v, R_LINT0, ICR_EXTINT);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), NEW);
    assert_int_equal(rig_enter(rig, 0, 0), AVICEMU_DO_WINDOW);
    assert_int_equal(rig->fake[0].intas, 0); /* not before it is taken */
    rig_exit(rig, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig_enter(rig, 0, IF), AVICEMU_DO_EXTINT);
        assert_int_equal(rig->todo.vector, 0x30);
        assert_int_equal(rig->fake[0].intas, 1);
        assert_ptr_equal(rig->fake[0].vcpu, v);
        rig_exit(rig, 0, IF);
    }
    (void)avicemu_vcpu_lint(v, 0, 0); /* the PIC's line falls at INTA */
    assert_int_equal(avicemu_vcpu_ack(v, AVICEMU_DO_EXTINT, 0x31), -ENOENT);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), NEW);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_EXTINT);
    assert_int_equal(rig->todo.vector, 0x31);
    assert_int_equal(rig->fake[0].intas, 2);
    assert_int_equal(rig_stats(v).extint, 2);
    assert_int_equal(vec_bit(v, R_ISR, 0x31), 0); /* no EOI at the APIC */
}

/* A latched vector is lost to a reset, and counted. */
static void
test_extint_cleared(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0), NEW);
    assert_int_equal(rig_enter(rig, 0, IF), AVICEMU_DO_EXTINT);
    rig_exit(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig_stats(v).extint_cleared, 1);
    reg_w(v, R_SVR, 0x1ff);
    assert_int_equal(avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0), NEW);
    hw_disable(v); /* one that came by message goes with its APIC */
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig_stats(v).extint_cleared, 2);
    assert_int_equal(rig_stats(v).extint, 0);
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("no call for what does not end the wait", test_no_vain_wakes,
                 .nr_vcpus = 1),
        RIG_TEST("halt in one call", test_halt_in_one, .nr_vcpus = 1),
        RIG_TEST("calls in the wrong phase", test_phases, .nr_vcpus = 1),
        RIG_TEST("ack of what is not pending", test_ack, .nr_vcpus = 1),
        RIG_EACH("CR8 between guest and TPR", test_cr8, .nr_vcpus = 1),
        RIG_TEST("the TPR threshold", test_tpr_threshold, .nr_vcpus = 1),
        RIG_EACH("one INTA cycle per ExtINT", test_extint_latch, .nr_vcpus = 1),
        RIG_TEST("a latched ExtINT and a reset", test_extint_cleared,
                 .nr_vcpus = 1),
    };
    struct CMUnitTest tests[NR(fixed) + NR(choice_rows) + NR(halt_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(choice_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = choice_rows[i].name,
                                          .test_func = test_choice,
                                          .initial_state = &choice_rows[i] };
    }
    for (size_t i = 0; i < NR(halt_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = halt_rows[i].name,
                                          .test_func = test_halt,
                                          .initial_state = &halt_rows[i] };
    }
    return cmocka_run_group_tests_name("entry", tests, NULL, NULL) != 0;
}
