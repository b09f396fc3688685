/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge vcpu: two senders against the vCPU that is being added. They begin
 * before it exists and end when they have found it, so each round meets the
 * moment of its publication. Who found it finds it again; a message sent after
 * create has returned finds it; and each NMI that was accepted is there.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race.h"

#define NMI      0x400u
#define PATIENCE 100000000u

enum {
    EARLY,  /* found before create had returned */
    LATE,   /* only afterwards */
    MISSED, /* not found although it was there */
    WRONG,  /* create failed, or the NMIs do not add up */
};

/* Of each sender; the judge reads them behind the barrier. */
struct sender {
    uint64_t accepted;
    int early, missed;
};

static struct sender senders[2];
static _Atomic uint32_t begun, added;
static int create_error;

static void
nobody_yet(struct race *r)
{
    (void)r;
    begun = 0;
    added = 0;
}

/* Beside somebody who is sending, not before. */
static void
add(struct race *r)
{
    for (unsigned i = 0; i < PATIENCE && begun == 0; i++) {
        (void)sched_yield();
    }
    create_error = avicemu_vcpu_create(r->vm, 1, &r->vmm.vcpus[1], &r->vcpu[1]);
    added = 1;
}

static void
send_until_found(struct race *r, unsigned who, uint64_t address, uint32_t all)
{
    struct sender s = { .accepted = 0 };
    unsigned found = 0;

    for (unsigned i = 0; i < PATIENCE && found < 2 && !s.missed; i++) {
        struct avicemu_posted posted = { .why = 0 };
        uint32_t there = added;

        (void)avicemu_msi(r->vm, address, NMI, &posted);
        s.accepted += posted.nr_new;
        if (posted.nr_new + posted.nr_merged == all) {
            s.early |= there == 0;
            found++;
            continue;
        }
        s.missed = there != 0 || found != 0;
        begun = 1;
        if (i % 64 == 63) {
            (void)sched_yield();
        }
    }
    s.missed |= found != 2;
    senders[who] = s;
}

static void
send_physical(struct race *r)
{
    send_until_found(r, 0, 0xfee01000u, 1);
}

/* vCPU 0 always gets it, too. */
static void
send_broadcast(struct race *r)
{
    send_until_found(r, 1, 0xfeeff000u, 2);
}

static unsigned
judge(struct race *r)
{
    uint64_t there = 0;
    int wrong = create_error != 0;

    for (unsigned i = 0; i < 2; i++) {
        struct avicemu_vcpu_view view = { .size = sizeof(view) };

        wrong |= avicemu_vcpu_view(r->vcpu[i], &view) != 0;
        there += view.nr_nmi;
    }
    wrong |= there != senders[0].accepted + senders[1].accepted;
    wrong |= avicemu_vcpu_apic_id(r->vcpu[1]) != 1;
    wrong |= avicemu_vcpu_destroy(r->vcpu[1]) != 0;
    r->vcpu[1] = NULL;
    (void)race_drain(r, 0);
    if (senders[0].missed || senders[1].missed) {
        return MISSED;
    }
    return wrong ? WRONG : senders[0].early || senders[1].early ? EARLY : LATE;
}

static void
test_vcpu(void **state)
{
    static struct race r;

    (void)state;
    r = (struct race){
        .nr_threads = 3,
        .rounds = 10000,
        .prepare = nobody_yet,
        .party = { add, send_physical, send_broadcast },
        .judge = judge,
        .outcomes = { "found early", "found late", "missed", "wrong" },
        .nr_vcpus = 1,
    };
    race_run(&r, "hot-add");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[MISSED], 0);
    assert_int_equal(r.histogram[WRONG], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "a vCPU that is being added is found whole, and then always",
          test_vcpu, NULL, NULL, NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
