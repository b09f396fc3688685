/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge irte: interrupts against changes of their entry. No reader ever sees a
 * mix of two entries, and no bit lands where neither puts it; a vCPU that
 * clears IsRun and then scans IRR, and the device that set the bit and then
 * reads IsRun, do not miss each other.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rcu.h"
#include "hw/irte.h"
#include "race.h"

#define TABLE  0x10000u
#define PAGE_A 0x20000u
#define PAGE_B 0x30000u
#define FLAGS  (AE_IRTE_GA | AE_IRTE_GUEST | AE_IRTE_XT)

static struct ae_mem mem;
static AE_ALIGNED(4096) unsigned char table[4096], page_a[4096], page_b[4096];
static struct ae_remapper remapper = { .mem = &mem };

static struct ae_atomic16 *
slot(void)
{
    return (struct ae_atomic16 *)(void *)table;
}

static struct ae_irte
entry_a(void)
{
    return (struct ae_irte){ .guest_mode = true,
                             .vector = 0x41,
                             .dest = 0xa1a1a1a1,
                             .ga_tag = 0xaaaaaaaa,
                             .root = PAGE_A,
                             .is_run = true };
}

static struct ae_irte
entry_b(void)
{
    return (struct ae_irte){ .guest_mode = true,
                             .vector = 0x42,
                             .dest = 0xb2b2b2b2,
                             .ga_tag = 0xbbbbbbbb,
                             .root = PAGE_B,
                             .ga_log_intr = true };
}

static int
machine_make(void **state)
{
    (void)state;
    remapper.way = ae_load16_choose();
    ae_mem_init(&mem, &ae_default_allocator);
    return ae_mem_add(&mem, TABLE, 4096, table) +
           ae_mem_add(&mem, PAGE_A, 4096, page_a) +
           ae_mem_add(&mem, PAGE_B, 4096, page_b);
}

static int
machine_drop(void **state)
{
    (void)state;
    ae_mem_fini(&mem);
    return 0;
}

static void
post(struct ae_remap *r)
{
    ae_remap_begin(r, &remapper, FLAGS, TABLE, NULL);
    ae_rcu_enter();
    while (ae_remap_step(r) != AE_REMAP_FINISHED) {
    }
    ae_rcu_leave();
}

/* ---- no mix ------------------------------------------------------------- */

static void
start(struct race *r)
{
    struct ae_irte a = entry_a();

    (void)ae_irte_replace(slot(), ae_irte_encode(&a));
    memset(r->r, 0, sizeof(r->r));
}

static void
change(struct race *r)
{
    struct ae_irte a = entry_a();
    struct ae_irte b = entry_b();

    for (unsigned i = 0; i < 64; i++) {
        struct ae_u128 was = ae_irte_replace(slot(), ae_irte_encode(&b));

        r->r[0] += !ae_u128_equal(was, ae_irte_encode(&a));
        was = ae_irte_replace(slot(), ae_irte_encode(&a));
        r->r[0] += !ae_u128_equal(was, ae_irte_encode(&b));
    }
}

/* By either load, whatever this machine would choose. */
static void
look(struct race *r)
{
    struct ae_irte a = entry_a();
    struct ae_irte b = entry_b();

    for (unsigned i = 0; i < 128; i++) {
        struct ae_u128 e = ae_load_seqcst_u128(
            i % 8 == 0 ? AE_LOAD16_LOCKED : remapper.way, slot());

        if (ae_u128_equal(e, ae_irte_encode(&b))) {
            r->r[1]++;
        } else {
            r->r[2] += !ae_u128_equal(e, ae_irte_encode(&a));
        }
    }
}

static void
post_many(struct race *r)
{
    struct ae_remap remap = { .near_table = 0 };

    for (unsigned i = 0; i < 64; i++) {
        post(&remap);
        r->r[3] += remap.outcome != AE_REMAP_POSTED || remap.nr_notices == 0;
        for (unsigned n = 0; n < remap.nr_notices; n++) {
            const struct ae_notice *notice = &remap.notices[n];

            r->r[3] += notice->kind == AE_NOTICE_DOORBELL
                           ? notice->dest != 0xa1a1a1a1
                           : notice->ga_tag != 0xbbbbbbbb &&
                                 notice->ga_tag != 0xaaaaaaaa;
        }
        r->r[4] += remap.nr_notices > 1;
    }
}

static unsigned
mix_judge(struct race *r)
{
    /* Vector 41h in A, 42h in B, nothing else. */
    bool bad = (page_a[0x220] & ~0x02) != 0 || (page_b[0x220] & ~0x04) != 0;

    if (bad || r->r[0] != 0 || r->r[2] != 0 || r->r[3] != 0) {
        return 3;
    }
    return r->r[4] != 0 ? 2 : r->r[1] != 0 ? 1 : 0;
}

static void
test_mix(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 20000,
        .prepare = start,
        .party = { change, look, post_many },
        .judge = mix_judge,
        .outcomes = { "one seen", "both seen", "changed under a post", "mix" },
    };
    race_run(&r, "irte, no mix");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[3], 0);
}

/* ---- block -------------------------------------------------------------- */

static void
run_a(struct race *r)
{
    (void)r;
    start(r);
    memset(page_a, 0, sizeof(page_a));
}

static void
post_one(struct race *r)
{
    struct ae_remap remap = { .near_table = 0 };

    post(&remap);
    r->r[0] = remap.nr_notices == 1 && remap.notices[0].kind == AE_NOTICE_LOG;
    r->r[1] =
        remap.nr_notices == 1 && remap.notices[0].kind == AE_NOTICE_DOORBELL;
}

static void
block(struct race *r)
{
    const struct ae_irte blocked = { .ga_log_intr = true };

    r->r[3] =
        !ae_irte_update(slot(), AE_IRTE_SET_RUN | AE_IRTE_SET_LOG, &blocked);
    r->r[2] = (ae_load_seqcst_u32(ae_vapic_word(page_a, 0x220)) & 2) != 0;
}

static unsigned
block_judge(struct race *r)
{
    if (r->r[3] != 0 || r->r[0] + r->r[1] != 1) {
        return 3;
    }
    if (r->r[0] == 0 && r->r[2] == 0) {
        return 2;
    }
    return r->r[0] != 0 ? 0 : 1;
}

static void
test_block(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 200000,
        .prepare = run_a,
        .party = { post_one, block },
        .judge = block_judge,
        .outcomes = { "logged", "seen by the scan", "asleep on it", "wrong" },
    };
    race_run(&r, "irte, block");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[2] + r.histogram[3], 0);
}

/* ---- updates do not lose each other's fields ---------------------------- */

static void
update_run(struct race *r)
{
    struct ae_irte e = { .is_run = false };

    for (unsigned i = 0; i < 64; i++) {
        e.is_run = (i & 1) == 0;
        e.dest = i | 0x1000000;
        r->r[0] +=
            !ae_irte_update(slot(), AE_IRTE_SET_RUN | AE_IRTE_SET_DEST, &e);
    }
}

static void
update_tag(struct race *r)
{
    struct ae_irte e = { .is_run = false };

    for (unsigned i = 0; i < 64; i++) {
        e.ga_tag = i;
        e.ga_log_intr = (i & 1) != 0;
        r->r[1] +=
            !ae_irte_update(slot(), AE_IRTE_SET_TAG | AE_IRTE_SET_LOG, &e);
    }
}

static unsigned
update_judge(struct race *r)
{
    struct ae_irte e;
    struct ae_u128 raw = ae_load_seqcst_u128(remapper.way, slot());

    if (ae_irte_decode(FLAGS, raw, &e) != AE_IRTE_GOOD || r->r[0] != 0 ||
        r->r[1] != 0) {
        return 1;
    }
    return e.is_run || e.dest != 0x100003f || e.ga_tag != 63 ||
           !e.ga_log_intr || e.vector != 0x41 || e.root != PAGE_A;
}

static void
test_update(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 2,
        .rounds = 10000,
        .prepare = start,
        .party = { update_run, update_tag },
        .judge = update_judge,
        .outcomes = { "both", "lost" },
    };
    race_run(&r, "irte, two updates");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[1], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mix, machine_make, machine_drop),
        cmocka_unit_test_setup_teardown(test_block, machine_make, machine_drop),
        cmocka_unit_test_setup_teardown(test_update, machine_make,
                                        machine_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
