/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge vcpu, of targets, devices, routes and irqfds; and the drains of three
 * notifiers, against a host that is never quiet:
 *
 *   teardown   VMs whose vCPUs sleep come and go, their devices' entries with
 *              them, while devices post and notifiers drain. Freed memory is
 *              poisoned, and a notifier dawdles between look-up and wake
 *   overflow   64 devices fill a log of 512 entries, the notifier comes late:
 *              who has a bit is awake in the end, each time
 */

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "race.h"

#define IOMMUS   3u
#define DEVICES  64u
#define VCPUS    8u
#define VECTOR   0x51u
#define ALIVE    0xa11fe11fu
#define POISON   0xdd
#define PATIENCE 100000u /* yields */

struct sleeper {
    _Atomic uint32_t alive;
    _Atomic uint32_t wakes;
};

struct torture {
    struct avicemu_host *host;
    struct avicemu_iommu *iommu[IOMMUS];
    _Atomic uint32_t over, bad, ga[IOMMUS];
    _Atomic uint64_t msis, went, woken, looked;
    uint64_t rounds;
    pthread_t threads[8];
    unsigned nr_threads;
};

/* ---- the VMM ------------------------------------------------------------ */

static void *
poison_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
poison_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    memset(memory, POISON, bytes);
    free(memory);
}

static void
on_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct sleeper *s = opaque;

    (void)vcpu;
    /* Poisoned: its vCPU was destroyed before this call. */
    if (atomic_load(&s->alive) == ALIVE) {
        (void)atomic_fetch_add(&s->wakes, 1);
    } else {
        abort();
    }
}

static uint64_t
on_now(void *opaque)
{
    (void)opaque;
    return 0;
}

static void
on_ga(void *opaque, struct avicemu_iommu *iommu)
{
    _Atomic uint32_t *word = avicemu_iommu_opaque(iommu);

    (void)opaque;
    atomic_store(word, 1);
}

/* The vCPU has been found; dawdle before it is woken. */
static void
on_lookup(void *opaque, struct avicemu_iommu *iommu, int begins)
{
    struct torture *t = opaque;

    (void)iommu;
    if (!begins && atomic_fetch_add(&t->looked, 1) % 61 == 0) {
        (void)sched_yield();
    }
}

static void
host_open(struct torture *t, unsigned nr_iommus, uint32_t devices)
{
    struct avicemu_host_config hc = {
        .size = sizeof(hc),
        .allocator = { poison_alloc, poison_free, NULL },
        .avic = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC,
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_pcpus = 8,
        .ops = { .ga_interrupt = on_ga, .ga_lookup = on_lookup },
        .opaque = t,
    };

    assert_int_equal(avicemu_host_create(&hc, &t->host), 0);
    for (unsigned i = 0; i < nr_iommus; i++) {
        const struct avicemu_iommu_config c = {
            .size = sizeof(c),
            .max_devices = devices,
            .irqs_per_device = 1,
            .features =
                i == 1 ? AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_CACHE : 0,
            .opaque = &t->ga[i],
        };

        assert_int_equal(avicemu_iommu_create(t->host, &c, &t->iommu[i]), 0);
        for (uint32_t d = 0; d < devices; d++) {
            assert_int_equal(
                avicemu_iommu_add_device(t->iommu[i], (uint16_t)d, 1), 0);
        }
    }
}

static void
host_close(struct torture *t, unsigned nr_iommus, uint32_t devices)
{
    for (unsigned i = 0; i < nr_iommus; i++) {
        for (uint32_t d = 0; d < devices; d++) {
            assert_int_equal(
                avicemu_iommu_remove_device(t->iommu[i], (uint16_t)d), 0);
        }
        assert_int_equal(avicemu_iommu_destroy(t->iommu[i]), 0);
    }
    assert_int_equal(avicemu_host_destroy(t->host), 0);
}

/* ---- a VM whose vCPUs sleep --------------------------------------------- */

struct guest {
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu[VCPUS];
    struct sleeper *sleeper[VCPUS];
};

static int
guest_open(struct torture *t, struct guest *g)
{
    const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                     .flags = AVICEMU_CPU_IF };
    struct avicemu_vm_config vc = {
        .size = sizeof(vc),
        .flags = AVICEMU_VM_AVIC,
        .max_vcpus = VCPUS,
        .ops = { .wake = on_wake, .now = on_now },
    };
    int r = avicemu_vm_create(t->host, &vc, &g->vm);

    for (uint32_t i = 0; i < VCPUS && r == 0; i++) {
        struct avicemu_todo todo = { .size = sizeof(todo) };
        uint32_t svr = 0x1ff;

        g->sleeper[i] = calloc(1, sizeof(struct sleeper));
        atomic_store(&g->sleeper[i]->alive, ALIVE);
        r = avicemu_vcpu_create(g->vm, i, g->sleeper[i], &g->vcpu[i]);
        (void)avicemu_vcpu_load(g->vcpu[i], i);
        if (i != 0) {
            (void)avicemu_post_mode(g->vcpu[i], AVICEMU_DELIVERY_SIPI, 1);
        }
        (void)avicemu_vcpu_enter(g->vcpu[i], &cpu, &todo);
        if (i != 0) {
            (void)avicemu_vcpu_ack(g->vcpu[i], AVICEMU_DO_SIPI, 1);
        }
        (void)avicemu_vcpu_exit(g->vcpu[i], &cpu);
        (void)avicemu_mmio_write(g->vcpu[i], 0xfee000f0, 4, &svr);
        (void)avicemu_vcpu_set_halted(g->vcpu[i]);
    }
    return r;
}

static int
guest_close(struct guest *g)
{
    int r = 0;

    for (uint32_t i = 0; i < VCPUS; i++) {
        (void)avicemu_vcpu_block_end(g->vcpu[i]);
        r |= avicemu_vcpu_destroy(g->vcpu[i]);
        atomic_store(&g->sleeper[i]->alive, 0);
        free(g->sleeper[i]);
    }
    return r | avicemu_vm_destroy(g->vm);
}

/* Empty the IRR, as a guest that handles what it has. */
static void
guest_handle(struct guest *g, uint32_t i)
{
    const struct avicemu_cpu cpu = { .size = sizeof(cpu),
                                     .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint32_t zero = 0;

    (void)avicemu_vcpu_enter(g->vcpu[i], &cpu, &todo);
    if ((todo.what & AVICEMU_DO_INJECT) != 0) {
        (void)avicemu_vcpu_ack(g->vcpu[i], AVICEMU_DO_INJECT, todo.vector);
    }
    (void)avicemu_vcpu_exit(g->vcpu[i], &cpu);
    (void)avicemu_mmio_write(g->vcpu[i], 0xfee000b0, 4, &zero);
    (void)avicemu_vcpu_set_halted(g->vcpu[i]);
}

/* ---- parties ------------------------------------------------------------ */

static void
raise_one(struct torture *t, unsigned iommu, uint32_t device)
{
    struct avicemu_iommu_posted p;
    uint64_t address = 0xfee00004;
    uint32_t data = 0;

    (void)avicemu_iommu_msi(t->iommu[iommu], (uint16_t)device, address, data,
                            &p);
    (void)atomic_fetch_add(&t->msis, 1);
    (void)atomic_fetch_add(&t->went, p.posted.nr_new + p.posted.nr_merged +
                                         p.posted.nr_dropped);
}

struct party {
    struct torture *t;
    unsigned n;
};

static void *
device_thread(void *arg)
{
    struct party *p = arg;
    uint32_t seed = 7 + p->n, burst = 0;

    while (!atomic_load(&p->t->over)) {
        seed = seed * 1664525u + 1013904223u;
        raise_one(p->t, seed >> 8 & 1 ? p->n % IOMMUS : 2,
                  seed >> 16 & (DEVICES - 1));
        if (++burst % 64 == 0) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void *
notifier_thread(void *arg)
{
    struct party *p = arg;

    while (!atomic_load(&p->t->over)) {
        if (atomic_exchange(&p->t->ga[p->n], 0) != 0) {
            (void)avicemu_iommu_notify(p->t->iommu[p->n]);
        } else {
            (void)sched_yield();
        }
    }
    return NULL;
}

static uint64_t
guest_wakes(const struct guest *g)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < VCPUS; i++) {
        n += atomic_load(&g->sleeper[i]->wakes);
    }
    return n;
}

/* VMs come, take all entries, sleep, and go; every second one not before
 * somebody was woken. */
static void
churn(struct torture *t)
{
    for (uint64_t round = 0; round < t->rounds; round++) {
        struct guest g;

        memset(&g, 0, sizeof(g));
        if (guest_open(t, &g) != 0) {
            (void)atomic_fetch_add(&t->bad, 1);
        }
        for (uint32_t i = 0; i < VCPUS; i++) {
            (void)avicemu_vcpu_block_begin(g.vcpu[i]);
        }
        for (uint32_t i = 0; i < VCPUS * IOMMUS; i++) {
            uint32_t device = (uint32_t)(round * 5 + i) % DEVICES;

            if (avicemu_iommu_route(t->iommu[i % IOMMUS], (uint16_t)device, 0,
                                    g.vcpu[i % VCPUS], VECTOR) != 0) {
                (void)atomic_fetch_add(&t->bad, 1);
            }
        }
        for (uint32_t i = 0;
             round % 2 == 0 && i < PATIENCE && guest_wakes(&g) == 0; i++) {
            (void)sched_yield();
        }
        (void)atomic_fetch_add(&t->woken, guest_wakes(&g));
        if (guest_close(&g) != 0) {
            (void)atomic_fetch_add(&t->bad, 1);
        }
    }
}

static void
test_teardown(void **state)
{
    static struct torture t;
    static struct party parties[8];
    pthread_t threads[5];

    (void)state;
    t.rounds = race_rounds(600);
    host_open(&t, IOMMUS, DEVICES);
    for (unsigned i = 0; i < 5; i++) {
        parties[i] = (struct party){ &t, i % IOMMUS };
        assert_int_equal(
            pthread_create(&threads[i], NULL,
                           i < IOMMUS ? notifier_thread : device_thread,
                           &parties[i]),
            0);
    }
    churn(&t);
    atomic_store(&t.over, 1);
    for (unsigned i = 0; i < 5; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    printf("teardown, %llu VMs: %llu interrupts, %llu look-ups, %llu wakes\n",
           (unsigned long long)t.rounds,
           (unsigned long long)atomic_load(&t.msis),
           (unsigned long long)atomic_load(&t.looked),
           (unsigned long long)atomic_load(&t.woken));
    assert_int_equal(atomic_load(&t.bad), 0);
    assert_int_equal(atomic_load(&t.went), atomic_load(&t.msis));
    assert_true(atomic_load(&t.woken) != 0);
    host_close(&t, IOMMUS, DEVICES);
}

/* ---- overflow ----------------------------------------------------------- */

#define EACH 400u /* interrupts of a thread: both overflow the log */

static void *
burst_thread(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < EACH; i++) {
        raise_one(p->t, 0, (i * 7 + p->n * 3) % DEVICES);
    }
    return NULL;
}

/* Is somebody asleep with a bit that nobody woke him for? */
static uint32_t
oversleepers(struct guest *g)
{
    uint32_t nr = 0;

    for (uint32_t i = 0; i < VCPUS; i++) {
        uint32_t word = 0;

        (void)avicemu_vcpu_peek(g->vcpu[i], 0x200 + VECTOR / 32 * 16, &word);
        nr += (word >> VECTOR % 32 & 1) != 0 &&
              atomic_load(&g->sleeper[i]->wakes) == 0;
    }
    return nr;
}

static void
overflow_round(struct torture *t, struct guest *g, int late)
{
    struct party parties[2] = { { t, 0 }, { t, 1 } };
    pthread_t threads[2];

    for (uint32_t i = 0; i < VCPUS; i++) {
        atomic_store(&g->sleeper[i]->wakes, 0);
        assert_int_equal(avicemu_vcpu_block_begin(g->vcpu[i]),
                         AVICEMU_SLEEP_YES);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, burst_thread, &parties[i]), 0);
    }
    if (!late) {
        (void)avicemu_iommu_notify(t->iommu[0]);
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (atomic_exchange(&t->ga[0], 0) != 0) {
        (void)avicemu_iommu_notify(t->iommu[0]);
    }
    assert_int_equal(oversleepers(g), 0);
    for (uint32_t i = 0; i < VCPUS; i++) {
        (void)avicemu_vcpu_block_end(g->vcpu[i]);
        guest_handle(g, i);
    }
}

static void
test_overflow(void **state)
{
    static struct torture t;
    struct avicemu_iommu_stats stats = { .size = sizeof(stats) };
    struct guest g;

    (void)state;
    memset(&g, 0, sizeof(g));
    t.rounds = race_rounds(600);
    host_open(&t, 1, DEVICES);
    assert_int_equal(guest_open(&t, &g), 0);
    for (uint32_t d = 0; d < DEVICES; d++) {
        assert_int_equal(avicemu_iommu_route(t.iommu[0], (uint16_t)d, 0,
                                             g.vcpu[d % VCPUS], VECTOR),
                         0);
    }
    for (uint64_t round = 0; round < t.rounds; round++) {
        overflow_round(&t, &g, round % 2 == 0);
    }
    (void)avicemu_iommu_stats(t.iommu[0], &stats);
    printf("overflow, %llu rounds: %llu entries, %llu overflows, %llu wakes\n",
           (unsigned long long)t.rounds, (unsigned long long)stats.entries,
           (unsigned long long)stats.overflows,
           (unsigned long long)stats.wakes);
    assert_true(stats.overflows >= t.rounds / 2);
    assert_int_equal(atomic_load(&t.went), atomic_load(&t.msis));
    assert_int_equal(guest_close(&g), 0);
    host_close(&t, 1, DEVICES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teardown),
        cmocka_unit_test(test_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
