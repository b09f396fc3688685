/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge pin: senders against a vCPU that comes and goes. The kick touches the
 * vCPU for as long as its destruction may take; freed memory is poisoned, kept
 * for a while, and must still be poison when it leaves.
 *
 * A round is a life. Every second one waits until a kick runs, then ends beside
 * it; the others are cut off at a random moment.
 */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "race.h"

#define APIC_ID  1u
#define VECTOR   0x41u
#define POISON   0xffu
#define NR_KEPT  64u
#define PATIENCE 1000u /* yields until a kick is given up */

struct kept {
    unsigned char *memory;
    size_t bytes;
};

/* The owner's, but for what is atomic. */
struct pin {
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    uint64_t random;
    int beside_one;   /* destroyed while its kick ran */
    uint64_t errors;  /* calls that failed */
    uint64_t written; /* freed memory that somebody wrote to */
    struct kept kept[NR_KEPT];
    unsigned next;
    _Atomic uint32_t inside;  /* kicks that run */
    _Atomic uint32_t leaving; /* the owner destroys */
    _Atomic uint32_t stop;
    _Atomic uint64_t gone;  /* lives that are over */
    _Atomic uint64_t stale; /* kicks that saw another vCPU, or poison */
    _Atomic uint64_t late;  /* kicks that ran when destroy had returned */
    _Atomic uint64_t sent;
};

static struct pin pin;

/* ---- memory ------------------------------------------------------------- */

static void *
keep_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
keep_drop(struct kept *k)
{
    for (size_t i = 0; i < k->bytes; i++) {
        if (k->memory[i] != POISON) {
            pin.written++;
            break;
        }
    }
    free(k->memory);
    *k = (struct kept){ .memory = NULL };
}

static void
keep_free(void *opaque, void *memory, size_t bytes)
{
    struct kept *k = &pin.kept[pin.next++ % NR_KEPT];

    (void)opaque;
    keep_drop(k);
    memset(memory, POISON, bytes);
    *k = (struct kept){ .memory = memory, .bytes = bytes };
}

/* ---- callbacks ---------------------------------------------------------- */

static int
is_stale(void *opaque, const struct avicemu_vcpu *vcpu)
{
    return avicemu_vcpu_apic_id(vcpu) != APIC_ID ||
           avicemu_vcpu_opaque(vcpu) != opaque;
}

static void
touching_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    uint64_t gone = pin.gone;
    int stale = is_stale(opaque, vcpu);

    pin.inside++;
    for (unsigned i = 0; i < PATIENCE && pin.leaving == 0; i++) {
        (void)sched_yield();
    }
    for (unsigned i = 0; i < 8; i++) {
        (void)sched_yield();
        stale |= is_stale(opaque, vcpu);
    }
    pin.stale += stale != 0;
    pin.late += gone != pin.gone;
    pin.inside--;
}

static uint64_t
no_time(void *opaque)
{
    (void)opaque;
    return 0;
}

/* ---- parties ------------------------------------------------------------ */

static void
in_guest(struct avicemu_vcpu *vcpu)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = 0 };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int waits = pin.gone % 2 == 0;

    pin.errors += avicemu_vcpu_enter(vcpu, &cpu, &todo) != 0;
    if ((todo.what & AVICEMU_DO_NMI) != 0) {
        /* Room for another one, which is new and kicks. */
        pin.errors += avicemu_vcpu_ack(vcpu, AVICEMU_DO_NMI, 0) != 0;
    }
    for (unsigned i = 0; waits && i < PATIENCE && pin.inside == 0; i++) {
        (void)sched_yield();
    }
    pin.random = pin.random * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t left = pin.random >> 54; !waits && left != 0; left--) {
        atomic_signal_fence(memory_order_seq_cst);
    }
    pin.errors += avicemu_vcpu_exit(vcpu, &cpu) != 0;
}

static void
not_yet(struct race *r)
{
    (void)r;
    pin.leaving = 0;
    pin.stop = 0;
}

static void
live_and_die(struct race *r)
{
    const uint32_t svr = 0x1ff;
    struct avicemu_vcpu *vcpu = NULL;

    (void)r;
    if (avicemu_vcpu_create(pin.vm, APIC_ID, &pin, &vcpu) == 0) {
        (void)avicemu_mmio_write(vcpu, 0xfee000f0u, 4, &svr);
        in_guest(vcpu);
        pin.beside_one = pin.inside != 0;
        pin.leaving = 1;
        pin.errors += avicemu_vcpu_destroy(vcpu) != 0;
        pin.gone++;
    } else {
        pin.errors++;
    }
    pin.stop = 1;
}

static unsigned
judge(struct race *r)
{
    (void)r;
    return pin.beside_one ? 0 : 1;
}

static void
send_many(uint64_t address, uint32_t data)
{
    while (pin.stop == 0) {
        for (unsigned i = 0; i < 8; i++) {
            (void)avicemu_msi(pin.vm, address, data, NULL);
        }
        pin.sent += 8;
        /* Here, so that it is seldom inside a section that the processor is
         * taken away: the owner would wait for it. */
        (void)sched_yield();
    }
}

static void
send_nmis(struct race *r)
{
    (void)r;
    send_many(0xfee01000u, 0x400);
}

static void
send_to_all(struct race *r)
{
    (void)r;
    send_many(0xfeeff000u, VECTOR);
}

/* ---- the test ----------------------------------------------------------- */

static void
machine(void)
{
    const struct avicemu_host_config host = {
        .size = sizeof(host),
        .allocator = { .alloc = keep_alloc, .free = keep_free },
    };
    const struct avicemu_vm_config vm = {
        .size = sizeof(vm),
        .max_vcpus = 4,
        .bsp_apic_id = APIC_ID,
        .ops = { .kick = touching_kick, .now = no_time },
    };

    assert_int_equal(avicemu_host_create(&host, &pin.host), 0);
    assert_int_equal(avicemu_vm_create(pin.host, &vm, &pin.vm), 0);
}

static void
test_pin(void **state)
{
    static struct race r;

    (void)state;
    machine();
    r = (struct race){
        .nr_threads = 3,
        .rounds = 6000,
        .prepare = not_yet,
        .party = { live_and_die, send_nmis, send_to_all },
        .judge = judge,
        .outcomes = { "beside a kick", "alone" },
    };
    race_run(&r, "senders and a vCPU that comes and goes");
    assert_int_equal(avicemu_vm_destroy(pin.vm), 0);
    assert_int_equal(avicemu_host_destroy(pin.host), 0);
    for (unsigned i = 0; i < NR_KEPT; i++) {
        keep_drop(&pin.kept[i]);
    }
    printf("%llu messages; stale %llu, late %llu, written when free %llu\n",
           (unsigned long long)pin.sent, (unsigned long long)pin.stale,
           (unsigned long long)pin.late, (unsigned long long)pin.written);
    assert_int_equal(r.done, r.rounds);
    assert_true(r.histogram[0] != 0);
    assert_int_equal(pin.errors, 0);
    assert_int_equal(pin.stale, 0);
    assert_int_equal(pin.late, 0);
    assert_int_equal(pin.written, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "destroy waits for the kick of whom it destroys", test_pin, NULL,
          NULL, NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
