/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Books of IPIs beside vCPUs that come and go: two that stay and two that are
 * replaced all the time, in each other's places, all send to each other. When
 * it is quiet, what each one got from all, those that are gone included, is
 * what it took, lost and has.
 *
 * The posts race with resets, too, so that an IRR that INIT or RESET made void
 * has to keep its books.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "race.h"

#define NR_VCPUS 4u
#define NR_STAY  2u
#define SENDS    24u
#define LIVES    3u
#define OTHERS   0xc0000u

struct machine {
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    /* Each its party's. */
    struct avicemu_vcpu *v[NR_VCPUS];
    uint64_t random[NR_VCPUS];
    uint64_t errors[NR_VCPUS];
    uint64_t gone; /* IPIs from or to such, as the judge saw them last */
};

static struct machine m;

static uint32_t
any(unsigned who, uint32_t below)
{
    m.random[who] = m.random[who] * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m.random[who] >> 33) % below;
}

static void
write_register(unsigned who, uint32_t offset, uint32_t value)
{
    m.errors[who] += avicemu_mmio_write(m.v[who], 0xfee00000u + offset, 4,
                                        &value) != AVICEMU_ACCESS_DONE;
}

/* An IPI to one of the four, or to all others. */
static void
send(unsigned who)
{
    uint32_t vector = 0x40 + any(who, 32);

    if (any(who, 4) == 0) {
        write_register(who, 0x300, OTHERS | vector);
    } else {
        write_register(who, 0x310, any(who, NR_VCPUS) << 24);
        write_register(who, 0x300, vector);
    }
}

static void
take_all(unsigned who)
{
    const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                     .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    do {
        m.errors[who] += avicemu_vcpu_enter(m.v[who], &cpu, &todo) != 0;
        if ((todo.what & AVICEMU_DO_INJECT) != 0) {
            m.errors[who] +=
                avicemu_vcpu_ack(m.v[who], AVICEMU_DO_INJECT, todo.vector) != 0;
        }
        m.errors[who] += avicemu_vcpu_exit(m.v[who], &cpu) != 0;
        write_register(who, 0xb0, 0);
    } while ((todo.what & AVICEMU_DO_INJECT) != 0);
}

static void
restart(unsigned who)
{
    m.errors[who] += avicemu_vcpu_reset(m.v[who]) != 0;
    write_register(who, 0xf0, 0x1ff);
}

static void
replace(unsigned who)
{
    m.errors[who] += avicemu_vcpu_destroy(m.v[who]) != 0;
    m.errors[who] += avicemu_vcpu_create(m.vm, who, NULL, &m.v[who]) != 0;
    write_register(who, 0xf0, 0x1ff);
}

static void
stay(unsigned who)
{
    for (unsigned i = 0; i < SENDS; i++) {
        send(who);
        if (any(who, 4) != 0) {
            continue;
        }
        if (who == 0) {
            take_all(who);
        } else {
            restart(who); /* it waits for a SIPI, and takes nothing */
        }
    }
}

static void
come_and_go(unsigned who)
{
    for (unsigned life = 0; life < LIVES; life++) {
        replace(who);
        for (unsigned i = 0; i < SENDS / 4; i++) {
            send(who);
        }
        restart(who);
        send(who);
    }
}

static void
party_0(struct race *r)
{
    (void)r;
    stay(0);
}

static void
party_1(struct race *r)
{
    (void)r;
    stay(1);
}

static void
party_2(struct race *r)
{
    (void)r;
    come_and_go(2);
}

static void
party_3(struct race *r)
{
    (void)r;
    come_and_go(3);
}

static uint64_t
new_to(struct avicemu_vcpu *sender, struct avicemu_vcpu *target)
{
    uint64_t n = 0;

    m.errors[0] += avicemu_vcpu_ipi_new_to(sender, target, &n) != 0;
    return n;
}

static int
books_open(unsigned who)
{
    struct avicemu_vcpu_books b = { .size = sizeof(b) };
    uint64_t sent = new_to(NULL, m.v[who]);
    uint64_t had = 0;

    m.gone += sent + new_to(m.v[who], NULL);
    for (unsigned s = 0; s < NR_VCPUS; s++) {
        sent += new_to(m.v[s], m.v[who]);
    }
    for (unsigned x = 0; x < 256; x++) {
        m.errors[0] += avicemu_vcpu_books(m.v[who], (uint8_t)x, &b) != 0;
        had += b.acked + b.cleared + b.pending;
    }
    return sent != had;
}

static unsigned
judge(struct race *r)
{
    char line[120];

    (void)r;
    m.gone = 0;
    for (unsigned i = 0; i < NR_VCPUS; i++) {
        if (books_open(i)) {
            return 1;
        }
    }
    if (avicemu_check_invariants(m.vm, line, sizeof(line)) != 0) {
        printf("%s\n", line);
        return 2;
    }
    return 0;
}

static uint64_t
no_time(void *opaque)
{
    (void)opaque;
    return 0;
}

static void
machine(void)
{
    const struct avicemu_vm_config vm = {
        .size = sizeof(vm),
        .max_vcpus = NR_VCPUS, /* no place but those that are given up */
        .flags = AVICEMU_VM_BOOKS,
        .ops = { .now = no_time },
    };

    assert_int_equal(avicemu_host_create(NULL, &m.host), 0);
    assert_int_equal(avicemu_vm_create(m.host, &vm, &m.vm), 0);
    for (unsigned i = 0; i < NR_VCPUS; i++) {
        m.random[i] = i + 1;
        assert_int_equal(avicemu_vcpu_create(m.vm, i, NULL, &m.v[i]), 0);
        write_register(i, 0xf0, 0x1ff);
    }
}

static void
test_books(void **state)
{
    static struct race r;

    (void)state;
    machine();
    r = (struct race){
        .nr_threads = 4,
        .rounds = 3000,
        .party = { party_0, party_1, party_2, party_3 },
        .judge = judge,
        .outcomes = { "closed", "open", "invariant" },
    };
    race_run(&r, "books beside vCPUs that come and go");
    assert_int_equal(r.done, r.rounds);
    assert_int_equal(r.histogram[0], r.rounds);
    assert_true(m.gone != 0);
    for (unsigned i = 0; i < NR_VCPUS; i++) {
        assert_int_equal(m.errors[i], 0);
        assert_int_equal(avicemu_vcpu_destroy(m.v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(m.vm), 0);
    assert_int_equal(avicemu_host_destroy(m.host), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "books close over vCPUs that come and go", test_books, NULL, NULL,
          NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
