/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edges drain and vcpu of the VM table: notifiers that look up and wake, beside
 * lives that are published, removed and freed. A wake touches the memory for as
 * long as the removal may take; freed memory is poisoned at once.
 *
 * A round is a life per remover. Every second one waits until a wake runs, then
 * is removed beside it. One notifier registers anew for every batch. Tags move,
 * so that the table's nodes change places.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "hv/vmtable.h"
#include "race.h"

#define LIVES    2u
#define POISON   0xdeadu
#define PATIENCE 500u
#define NR_KEPT  64u

/* Stands for a vCPU. */
struct life {
    uint32_t tag; /* POISON: freed */
    _Atomic uint32_t wakes;
};

struct remover {
    struct life *kept[NR_KEPT]; /* freed, but for the allocator */
    unsigned next;
    uint64_t written; /* wakes that came after the free */
    uint64_t errors;
    int beside_one;
};

static struct {
    struct ae_vmtable table;
    struct remover removers[LIVES];
    struct ae_drain *drain; /* of the first notifier */
    _Atomic uint32_t tags[LIVES], inside[LIVES], leaving[LIVES];
    _Atomic uint32_t ended;
    _Atomic uint64_t found, stale, errors;
} m;

/* ---- removers ----------------------------------------------------------- */

static uint32_t
tag_of(const struct race *r, unsigned n)
{
    /* Four places: two leaves of one middle node, and one of two others. */
    static const uint32_t places[] = { 0x100, 0x200, 0x80000, 0x1000000 };

    return places[(r->done + n) % 4] | n;
}

static void
keep_drop(struct remover *own, struct life **slot)
{
    if (*slot != NULL) {
        own->written += (*slot)->tag != POISON || (*slot)->wakes != 0;
        free(*slot);
        *slot = NULL;
    }
}

static void
poison(struct remover *own, struct life *life)
{
    struct life **slot = &own->kept[own->next++ % NR_KEPT];

    keep_drop(own, slot);
    life->tag = POISON; /* plain: a race, if somebody still reads it */
    life->wakes = 0;
    *slot = life;
}

static void
live(const struct race *r, unsigned n)
{
    struct remover *own = &m.removers[n];
    struct life *life = calloc(1, sizeof(*life));
    uint32_t tag = tag_of(r, n);

    if (life == NULL) {
        own->errors++;
        m.ended++;
        return;
    }
    life->tag = tag;
    own->errors += ae_vmtable_publish(&m.table, tag, (void *)life) != 0;
    m.tags[n] = tag;
    for (unsigned i = 0; r->done % 2 == 0 && i < PATIENCE && m.inside[n] == 0;
         i++) {
        (void)sched_yield();
    }
    own->beside_one = m.inside[n] != 0;
    m.leaving[n] = 1;
    ae_vmtable_remove(&m.table, tag);
    ae_vmtable_synchronize(&m.table);
    poison(own, life);
    m.ended++;
}

static void
live_0(struct race *r)
{
    live(r, 0);
}

static void
live_1(struct race *r)
{
    live(r, 1);
}

/* ---- notifiers ---------------------------------------------------------- */

static void
wake(unsigned n, uint32_t tag)
{
    struct life *life = (void *)ae_vmtable_find(&m.table, tag);

    if (life == NULL) {
        return;
    }
    m.inside[n]++;
    for (unsigned i = 0; i < PATIENCE && m.leaving[n] == 0; i++) {
        (void)sched_yield();
    }
    for (unsigned i = 0; i < 4; i++) {
        m.stale += life->tag != tag;
        life->wakes++;
        (void)sched_yield();
    }
    m.found++;
    m.inside[n]--;
}

static void
notify(struct ae_drain *d)
{
    ae_drain_begin(d);
    for (unsigned n = 0; n < LIVES; n++) {
        uint32_t tag = m.tags[n];

        if (tag != 0) {
            wake(n, tag);
        }
    }
    ae_drain_end(d);
}

static void
notifier(struct race *r)
{
    (void)r;
    while (m.ended != LIVES) {
        notify(m.drain);
        (void)sched_yield();
    }
}

static void
newcomer(struct race *r)
{
    struct ae_drain *d;

    (void)r;
    while (m.ended != LIVES) {
        if (ae_drain_create(&m.table, &d) != 0) {
            m.errors++;
            continue;
        }
        notify(d);
        ae_drain_destroy(&m.table, d);
        (void)sched_yield();
    }
}

/* ---- the test ----------------------------------------------------------- */

static void
not_yet(struct race *r)
{
    (void)r;
    m.ended = 0;
    for (unsigned n = 0; n < LIVES; n++) {
        m.leaving[n] = 0;
        m.tags[n] = 0;
    }
}

static unsigned
judge(struct race *r)
{
    (void)r;
    return m.removers[0].beside_one || m.removers[1].beside_one ? 0 : 1;
}

static void
test_drain(void **state)
{
    static struct race r;

    (void)state;
    assert_int_equal(
        ae_vmtable_init(&m.table, &ae_default_allocator, AE_TAG_24_8), 0);
    assert_int_equal(ae_drain_create(&m.table, &m.drain), 0);
    r = (struct race){
        .nr_threads = 4,
        .rounds = 4000,
        .prepare = not_yet,
        .party = { live_0, live_1, notifier, newcomer },
        .judge = judge,
        .outcomes = { "beside a wake", "alone" },
    };
    race_run(&r, "notifiers and vCPUs that come and go");
    ae_vmtable_fini(&m.table);
    for (unsigned n = 0; n < LIVES; n++) {
        for (unsigned i = 0; i < NR_KEPT; i++) {
            keep_drop(&m.removers[n], &m.removers[n].kept[i]);
        }
        m.errors += m.removers[n].errors;
        assert_int_equal(m.removers[n].written, 0);
    }
    printf("%llu wakes, %llu of freed memory\n", (unsigned long long)m.found,
           (unsigned long long)m.stale);
    assert_int_equal(r.done, r.rounds);
    assert_true(r.histogram[0] != 0);
    assert_true(m.found != 0);
    assert_int_equal(m.errors, 0);
    assert_int_equal(m.stale, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "synchronize waits for the batch that has found what was removed",
          test_drain, NULL, NULL, NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
