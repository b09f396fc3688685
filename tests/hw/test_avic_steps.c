/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPIs step by step: the order in which others see what the engine does, and
 * what it makes of memory that changes under it. The steps of one core are
 * interleaved with another's, and with the test's own stores, by hand.
 *
 * [APM2 15.29.6.1], [APM2 15.29.9.1], erratum 1235 [KVM]
 */

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <cmocka.h>

#include "core_rig.h"

#define V   AVICEMU_PHYSICAL_VALID
#define R   AVICEMU_PHYSICAL_RUNNING
#define LV  AVICEMU_LOGICAL_VALID
#define IRR 0x200u
#define ISR 0x100u

static enum rig_mode xavic = XAVIC, x2avic = X2AVIC;

/* The destination field of one id, as the mode has it. */
static uint32_t
dest(const struct rig *r, uint32_t id)
{
    return r->mode == X2AVIC ? id : id << 24;
}

/* Ids 0 and 1 are the cores'; 2 runs, 3 does not. */
static void
tables(struct rig *r)
{
    for (uint32_t id = 0; id < 4; id++) {
        rig_entry(r, id, id == 3 ? V : V | R, id);
        rig_logical(r, id, LV | id);
    }
}

static void
begin(struct rig *r, uint32_t icrh, uint32_t icrl)
{
    assert_int_equal(rig_icr_begin(r, 0, icrh, icrl), AVICEMU_CORE_STEPS);
}

static void
expect(struct rig *r, enum avicemu_core_event event)
{
    assert_int_equal(rig_step(r, 0), event);
}

static void
expect_irr(struct rig *r, uint32_t id)
{
    expect(r, AVICEMU_CORE_IRR);
    assert_int_equal(r->op.guest_id, id);
    assert_int_equal(r->op.posted, AVICEMU_POST_NEW);
}

static void
expect_running(struct rig *r, uint32_t id, int is_running)
{
    expect(r, AVICEMU_CORE_RUNNING);
    assert_int_equal(r->op.guest_id, id);
    assert_int_equal(r->op.is_running, is_running);
    if (is_running) {
        assert_int_equal(r->op.host_id, RIG_HOST + id);
    }
}

static void
expect_rang(struct rig *r, uint32_t id)
{
    expect(r, AVICEMU_CORE_RANG);
    assert_int_equal(r->op.guest_id, id);
    assert_int_equal(r->op.host_id, RIG_HOST + id);
}

static void
finish(struct rig *r, enum avicemu_core_result wanted)
{
    expect(r, AVICEMU_CORE_FINISHED);
    assert_int_equal(avicemu_core_finish(r->core[0], &r->a, &r->op), wanted);
}

/* ---- order -------------------------------------------------------------- */

/* Each event is seen at its step, and not before. */
static void
test_order_one(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 2), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    assert_int_equal(rig_get(r, 0, 0x300), 0x41);
    assert_int_equal(rig_get(r, 0, 0x310), dest(r, 2));
    expect(r, AVICEMU_CORE_RESOLVED);
    assert_int_equal(rig_bit(r, 2, IRR, 0x41), 0);
    expect_irr(r, 2);
    assert_int_equal(rig_bit(r, 2, IRR, 0x41), 1);
    expect_running(r, 2, 1);
    assert_int_equal(r->doorbells[RIG_HOST + 2].rung, 0);
    expect_rang(r, 2);
    assert_int_equal(r->doorbells[RIG_HOST + 2].rung, 1);
    finish(r, AVICEMU_CORE_DONE);
}

/* All targets are looked up before the first bit is set. */
static void
test_order_several(void **state)
{
    struct rig *r = *state;
    uint32_t mask = r->mode == X2AVIC ? 0xc : 0x0c000000;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, mask, 0x841);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    expect_irr(r, 2);
    expect_running(r, 2, 1);
    expect_rang(r, 2);
    assert_int_equal(rig_bit(r, 3, IRR, 0x41), 0);
    expect_irr(r, 3);
    expect_running(r, 3, 0);
    finish(r, AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, (uint64_t)mask << 32 | 0x841, 1ull << 32 | 3);
}

/* A broadcast looks at an entry when its turn comes. */
static void
test_order_broadcast(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, 0, 0xc0041);
    expect(r, AVICEMU_CORE_STORED);
    expect_irr(r, 1);
    expect_running(r, 1, 1);
    expect_rang(r, 1);
    rig_entry(r, 2, 0, 2);
    rig_entry(r, 3, V | R, 3);
    expect_irr(r, 3);
    expect_running(r, 3, 1);
    expect_rang(r, 3);
    finish(r, AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(r, 2, IRR, 0x41), 0);
}

static void
test_failure_steps(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 5), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    finish(r, AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, (uint64_t)dest(r, 5) << 32 | 0x41,
                    2ull << 32 | 5);
}

static void
test_merged(void **state)
{
    struct rig *r = *state;

    tables(r);
    rig_set_bit(r, 2, IRR, 0x41);
    (void)rig_run(r, 0);
    begin(r, dest(r, 2), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    expect(r, AVICEMU_CORE_IRR);
    assert_int_equal(r->op.posted, AVICEMU_POST_MERGED);
    expect_running(r, 2, 1);
    expect_rang(r, 2);
    finish(r, AVICEMU_CORE_DONE);
}

static void
erratum_open(struct rig *r, enum rig_mode mode)
{
    rig_open(r, mode, AVICEMU_CORE_X2AVIC | AVICEMU_CORE_ERRATUM_1235,
             AVICEMU_LAPIC_X2APIC, 9);
    tables(r);
    (void)rig_run(r, 0);
}

/* AVT-07: IsRunning is read first; the target that blocks in between clears
 * it, finds no bit, and sleeps: no exit, a doorbell that nobody hears. */
static void
test_erratum_1235(void **state)
{
    const enum rig_mode *mode = *state;
    struct rig r;

    erratum_open(&r, *mode);
    begin(&r, dest(&r, 2), 0x41);
    expect(&r, AVICEMU_CORE_STORED);
    expect(&r, AVICEMU_CORE_RESOLVED);
    expect_running(&r, 2, 1);
    rig_entry(&r, 2, V, 2);
    assert_int_equal(rig_bit(&r, 2, IRR, 0x41), 0);
    expect_irr(&r, 2);
    expect_rang(&r, 2);
    finish(&r, AVICEMU_CORE_DONE);
    assert_int_equal(rig_bit(&r, 2, IRR, 0x41), 1);
    rig_close(&r);
}

/* The workaround: IsRunning is never set, every IPI but a self IPI exits. */
static void
test_erratum_workaround(void **state)
{
    const enum rig_mode *mode = *state;
    struct rig r;

    erratum_open(&r, *mode);
    for (uint32_t id = 0; id < 4; id++) {
        rig_entry(&r, id, V, id);
    }
    for (uint32_t id = 0; id < 4; id++) {
        assert_int_equal(rig_icr(&r, 0, dest(&r, id), 0x41), AVICEMU_CORE_EXIT);
        assert_int_equal(rig_vmcb(&r, 0, AVICEMU_VMCB_EXITINFO2),
                         1ull << 32 | id);
        (void)rig_run(&r, 0);
    }
    assert_int_equal(rig_icr(&r, 0, 0, 0x40042), AVICEMU_CORE_DONE);
    rig_close(&r);
}

/* ---- the wake-up race, all ways ----------------------------------------- */

/* T0 sends in steps; before step n, T1 blocks: IsRunning 0, then a look at its
 * IRR. One of the two must notice. */
static void
test_wake(void **state)
{
    struct rig *r = *state;
    unsigned caught = 0;

    tables(r);
    for (unsigned when = 0; when < 7; when++) {
        enum avicemu_core_result result;
        unsigned at = 0;
        int saw = 0;

        rig_entry(r, 2, V | R, 2);
        rig_put(r, 2, IRR + 0x20, 0);
        if (!avicemu_core_in_guest(r->core[0])) {
            (void)rig_run(r, 0);
        }
        begin(r, dest(r, 2), 0x41);
        do {
            if (at++ == when) {
                rig_entry(r, 2, V, 2);
                saw = rig_bit(r, 2, IRR, 0x41);
            }
        } while (rig_step(r, 0) != AVICEMU_CORE_FINISHED);
        result = avicemu_core_finish(r->core[0], &r->a, &r->op);
        if (at > when) {
            assert_true(saw || result == AVICEMU_CORE_EXIT);
            caught++;
        }
    }
    assert_in_range(caught, 5, 7);
}

/* ---- two cores ---------------------------------------------------------- */

/* Each sends to the other; all interleavings of their steps. Order is a mask,
 * bit n: whose turn the nth step is. */
static void
send_both(struct rig *r, unsigned order)
{
    struct avicemu_core_access a[2];
    struct avicemu_core_op op[2];
    int done[2] = { 0, 0 };

    for (unsigned c = 0; c < 2; c++) {
        rig_icr_prepare(r, c, dest(r, !c), 0x41 + 0x10 * c);
        a[c] = r->a;
        op[c] = (struct avicemu_core_op){ .size = sizeof(op[c]) };
        assert_int_equal(avicemu_core_begin(r->core[c], &a[c], &op[c]),
                         AVICEMU_CORE_STEPS);
    }
    while (!done[0] || !done[1]) {
        unsigned c = done[order & 1] ? !(order & 1) : order & 1;

        order >>= 1;
        done[c] =
            avicemu_core_step(r->core[c], &op[c]) == AVICEMU_CORE_FINISHED;
    }
    for (unsigned c = 0; c < 2; c++) {
        assert_int_equal(avicemu_core_finish(r->core[c], &a[c], &op[c]),
                         AVICEMU_CORE_DONE);
        if (a[c].vector < 0) {
            a[c].vector = avicemu_core_look(r->core[c]);
        }
        assert_int_equal(a[c].vector, c ? 0x41 : 0x51);
        rig_put(r, c, ISR + 0x20, 0);
        (void)avicemu_core_set_flags(r->core[c], AVICEMU_CORE_IF);
    }
}

static void
test_two_senders(void **state)
{
    struct rig *r = *state;

    tables(r);
    for (unsigned c = 0; c < 2; c++) {
        rig_vmcb_put(r, c, AVICEMU_VMCB_RFLAGS, 0x202);
        assert_int_equal(rig_run(r, c), -1);
    }
    for (unsigned order = 0; order < 1u << 12; order++) {
        send_both(r, order);
    }
}

/* ---- memory that changes ------------------------------------------------ */

/* The command is read once: what the page says later is of no account. */
static void
test_icr_changed(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 3), 0x41);
    do {
        rig_put(r, 0, 0x300, 0x4c0099);
        rig_put(r, 0, 0x310, 0xffffffff);
    } while (rig_step(r, 0) != AVICEMU_CORE_FINISHED);
    assert_int_equal(avicemu_core_finish(r->core[0], &r->a, &r->op),
                     AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, (uint64_t)dest(r, 3) << 32 | 0x41,
                    1ull << 32 | 3);
    assert_int_equal(rig_bit(r, 3, IRR, 0x41), 1);
    assert_int_equal(rig_bit(r, 3, IRR, 0x99), 0);
    assert_int_equal(rig_bit(r, 2, IRR, 0x99), 0);
}

/* The logical table was read when the targets were resolved. */
static void
test_logical_changed(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, 0x0c000000, 0x841);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    rig_logical(r, 2, 0);
    rig_logical(r, 3, LV | 0xff);
    rig_put(r, 0, 0x0e0, 0x5fffffff);
    expect_irr(r, 2);
    expect_running(r, 2, 1);
    expect_rang(r, 2);
    expect_irr(r, 3);
    expect_running(r, 3, 0);
    finish(r, AVICEMU_CORE_EXIT);
}

/* IsRunning is read after the bit was set, and a lost V is "not running". */
static void
entry_changed(struct rig *r, uint64_t flags)
{
    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 2), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    expect_irr(r, 2);
    rig_entry(r, 2, flags, 2);
    expect_running(r, 2, 0);
    finish(r, AVICEMU_CORE_EXIT);
    rig_assert_exit(r, 0, 0x401, (uint64_t)dest(r, 2) << 32 | 0x41,
                    1ull << 32 | 2);
    assert_int_equal(r->doorbells[RIG_HOST + 2].rung, 0);
}

static void
test_running_lost(void **state)
{
    entry_changed(*state, V);
}

static void
test_valid_lost(void **state)
{
    entry_changed(*state, R);
}

/* A target that moved to another core is rung there. */
static void
test_host_moved(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 3), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    expect_irr(r, 3);
    rig_entry_raw(r, 3, V | R | rig_pa(RIG_VAPIC + 3) | (RIG_HOST + 9));
    expect(r, AVICEMU_CORE_RUNNING);
    assert_int_equal(r->op.is_running, 1);
    assert_int_equal(r->op.host_id, RIG_HOST + 9);
    expect(r, AVICEMU_CORE_RANG);
    assert_int_equal(r->doorbells[RIG_HOST + 9].rung, 1);
    finish(r, AVICEMU_CORE_DONE);
}

/* Garbage in every table and the own page before every step: whatever comes
 * out, the engine ends, and its exit is one of those there are. */
static void
test_everything_changes(void **state)
{
    struct rig *r = *state;
    uint64_t x = 0x9e3779b97f4a7c15;

    for (unsigned round = 0; round < 2000; round++) {
        static const uint32_t icrls[] = { 0x41, 0x841, 0x80041, 0xc0041 };
        unsigned steps = 0;

        tables(r);
        if (!avicemu_core_in_guest(r->core[0])) {
            (void)rig_run(r, 0);
        }
        begin(r, dest(r, round % 4 + round % 3), icrls[round % 4]);
        do {
            for (uint32_t id = 0; id < 10; id++) {
                x = x * 6364136223846793005 + 1442695040888963407;
                rig_entry_raw(r, id, x >> 7 ^ x << 40);
                rig_logical(r, id, (uint32_t)(x >> 20));
            }
            assert_in_range(steps++, 0, 2000);
        } while (rig_step(r, 0) != AVICEMU_CORE_FINISHED);
        if (avicemu_core_finish(r->core[0], &r->a, &r->op) ==
            AVICEMU_CORE_EXIT) {
            assert_int_equal(rig_vmcb(r, 0, AVICEMU_VMCB_EXITCODE), 0x401);
            assert_in_range(rig_vmcb(r, 0, AVICEMU_VMCB_EXITINFO2) >> 32, 1, 3);
        }
    }
}

/* A page that is removed between two steps is not written to. */
static void
test_target_page_removed(void **state)
{
    struct rig *r = *state;

    tables(r);
    (void)rig_run(r, 0);
    begin(r, dest(r, 2), 0x41);
    expect(r, AVICEMU_CORE_STORED);
    expect(r, AVICEMU_CORE_RESOLVED);
    assert_int_equal(avicemu_hw_memory_remove(r->memory, rig_pa(RIG_VAPIC + 2)),
                     0);
    while (rig_step(r, 0) != AVICEMU_CORE_FINISHED) {
    }
    (void)avicemu_core_finish(r->core[0], &r->a, &r->op);
    assert_int_equal(rig_bit(r, 2, IRR, 0x41), 0);
}

/* What has no steps is done at once. */
static void
test_begin_at_once(void **state)
{
    struct rig *r = *state;

    r->a = (struct avicemu_core_access){
        .size = sizeof(r->a), .kind = AVICEMU_CORE_CR8, .write = 1, .value = 3
    };
    r->op = (struct avicemu_core_op){ .size = sizeof(r->op) };
    assert_int_equal(avicemu_core_begin(r->core[0], &r->a, &r->op),
                     AVICEMU_CORE_MODE);
    (void)rig_run(r, 0);
    assert_int_equal(avicemu_core_begin(r->core[0], &r->a, &r->op),
                     AVICEMU_CORE_DONE);
    assert_int_equal(rig_get(r, 0, 0x080), 0x30);
}

#define IN(mode, fn, name)                       \
    {                                            \
        name, fn, rig_setup, rig_teardown, &mode \
    }
#define BOTH(fn, name) \
    IN(xavic, fn, "xAVIC: " name), IN(x2avic, fn, "x2AVIC: " name)
#define OWN(mode, fn, name)         \
    {                               \
        name, fn, NULL, NULL, &mode \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_order_one, "stored, resolved, IRR, IsRunning, doorbell"),
        BOTH(test_order_several, "all targets are resolved first"),
        BOTH(test_order_broadcast, "a broadcast reads entries in their turn"),
        BOTH(test_failure_steps, "a failed look-up sets nothing"),
        BOTH(test_merged, "a bit that is set already is merged"),
        OWN(xavic, test_erratum_1235, "xAVIC: erratum 1235 loses a wake-up"),
        OWN(x2avic, test_erratum_1235, "x2AVIC: erratum 1235 loses a wake-up"),
        OWN(xavic, test_erratum_workaround, "xAVIC: erratum 1235, workaround"),
        OWN(x2avic, test_erratum_workaround,
            "x2AVIC: erratum 1235, workaround"),
        BOTH(test_wake, "AVT-07: whoever blocks is noticed, or notices"),
        BOTH(test_two_senders, "two cores send to each other"),
        BOTH(test_icr_changed, "the command is read once"),
        IN(xavic, test_logical_changed, "the logical table is read once"),
        BOTH(test_running_lost, "IsRunning is read after the bit is set"),
        BOTH(test_valid_lost, "a valid bit that is lost: not running"),
        BOTH(test_host_moved, "the doorbell goes where the target runs now"),
        BOTH(test_everything_changes, "garbage before every step"),
        BOTH(test_target_page_removed, "a page is removed between two steps"),
        BOTH(test_begin_at_once, "what has no steps is done at once"),
    };

    return cmocka_run_group_tests_name("avic_steps", tests, NULL, NULL);
}
