/* SPDX-License-Identifier: BSD-2-Clause */

#include "race.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define RACE_DIVISOR 20
#elif defined(__SANITIZE_ADDRESS__)
#define RACE_DIVISOR 5
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACE_DIVISOR 20
#elif __has_feature(address_sanitizer)
#define RACE_DIVISOR 5
#endif
#endif
#ifndef RACE_DIVISOR
#define RACE_DIVISOR 1
#endif

uint64_t
race_rounds(uint64_t wanted)
{
    const char *text = getenv("AVICEMU_ROUNDS");

    return text != NULL ? strtoull(text, NULL, 0) : wanted / RACE_DIVISOR + 1;
}

void
race_barrier(struct race *r)
{
    uint32_t phase = atomic_load(&r->phase);
    unsigned spins = 0;

    if (atomic_fetch_add(&r->arrived, 1) + 1 == r->nr_threads) {
        atomic_store(&r->arrived, 0);
        atomic_store(&r->phase, phase + 1);
        return;
    }
    while (atomic_load(&r->phase) == phase) {
        /* The other may wait for this processor. */
        if (++spins > 2000 / RACE_DIVISOR) {
            (void)sched_yield();
        }
    }
}

struct thread {
    struct race *r;
    unsigned index;
};

static void *
thread_main(void *arg)
{
    const struct thread *t = arg;
    struct race *r = t->r;

    for (uint64_t i = 0; i < r->rounds; i++) {
        if (t->index == 0 && r->prepare != NULL) {
            r->prepare(r);
        }
        race_barrier(r);
        r->party[t->index](r);
        race_barrier(r);
        if (t->index == 0) {
            r->histogram[r->judge != NULL ? r->judge(r) : 0]++;
            r->done++;
        }
    }
    return NULL;
}

/* Only counts: posters call at the same time. */
static void
race_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct fake_vcpu *fake = opaque;

    (void)vcpu;
    fake->kicks++;
}

static void
race_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct fake_vcpu *fake = opaque;

    (void)vcpu;
    fake->wakes++;
}

static int
machine_make(struct race *r)
{
    struct avicemu_vm_config config = {
        .size = sizeof(config),
        .max_vcpus = FAKE_MAX_VCPUS,
    };

    fake_vmm_init(&r->vmm);
    fake_vmm_config(&r->vmm, &config);
    config.ops.kick = race_kick;
    config.ops.wake = race_wake;
    if (avicemu_host_create(NULL, &r->host) != 0 ||
        avicemu_vm_create(r->host, &config, &r->vm) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        if (avicemu_vcpu_create(r->vm, i, &r->vmm.vcpus[i], &r->vcpu[i]) != 0 ||
            race_enable(r, i) != 0) {
            return -1;
        }
    }
    return 0;
}

static void
machine_drop(struct race *r)
{
    const struct avicemu_cpu cpu = { .size = sizeof(cpu) };

    for (unsigned i = 0; i < FAKE_MAX_VCPUS; i++) {
        if (r->vcpu[i] != NULL) {
            (void)avicemu_vcpu_block_end(r->vcpu[i]);
            (void)avicemu_vcpu_exit(r->vcpu[i], &cpu);
            (void)avicemu_vcpu_destroy(r->vcpu[i]);
        }
    }
    (void)avicemu_vm_destroy(r->vm);
    (void)avicemu_host_destroy(r->host);
}

void
race_run(struct race *r, const char *name)
{
    struct thread threads[RACE_THREADS];
    pthread_t ids[RACE_THREADS];

    r->rounds = race_rounds(r->rounds);
    if (machine_make(r) != 0) {
        printf("%s: no machine\n", name);
        return;
    }
    for (unsigned i = 0; i < r->nr_threads; i++) {
        threads[i] = (struct thread){ .r = r, .index = i };
        if (pthread_create(&ids[i], NULL, thread_main, &threads[i]) != 0) {
            printf("%s: no thread\n", name);
            exit(1);
        }
    }
    for (unsigned i = 0; i < r->nr_threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    printf("%s, %llu rounds:", name, (unsigned long long)r->done);
    for (unsigned i = 0; i < RACE_OUTCOMES && r->outcomes[i] != NULL; i++) {
        printf(" %s %llu%s", r->outcomes[i],
               (unsigned long long)r->histogram[i],
               i + 1 < RACE_OUTCOMES && r->outcomes[i + 1] != NULL ? "," : "");
    }
    printf("\n");
    machine_drop(r);
}

/* ---- short words -------------------------------------------------------- */

uint32_t
race_read(struct race *r, unsigned vcpu, uint32_t offset)
{
    uint32_t value = 0;

    (void)avicemu_mmio_read(r->vcpu[vcpu], 0xfee00000u + offset, 4, &value);
    return value;
}

void
race_write(struct race *r, unsigned vcpu, uint32_t offset, uint32_t value)
{
    (void)avicemu_mmio_write(r->vcpu[vcpu], 0xfee00000u + offset, 4, &value);
}

int
race_bit(struct race *r, unsigned vcpu, uint32_t base, uint8_t vector)
{
    uint32_t word = 0;

    (void)avicemu_vcpu_peek(r->vcpu[vcpu], base + (vector >> 5) * 16u, &word);
    return (word >> (vector & 31) & 1) != 0;
}

uint32_t
race_take(struct race *r, unsigned vcpu, uint8_t *ret_vector)
{
    const uint32_t events = AVICEMU_DO_INJECT | AVICEMU_DO_NMI |
                            AVICEMU_DO_SMI | AVICEMU_DO_INIT | AVICEMU_DO_SIPI;
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    if (avicemu_vcpu_enter(r->vcpu[vcpu], &cpu, &todo) != 0) {
        return 0;
    }
    uint32_t what = todo.what & events;

    if (what != 0 && avicemu_vcpu_ack(r->vcpu[vcpu], (enum avicemu_do)what,
                                      todo.vector) != 0) {
        what = 0;
    }
    cpu.cr8 = todo.cr8;
    (void)avicemu_vcpu_exit(r->vcpu[vcpu], &cpu);
    *ret_vector = todo.vector;
    return what;
}

unsigned
race_drain(struct race *r, unsigned vcpu)
{
    unsigned nr = 0;
    uint8_t vector;
    uint32_t what;

    while ((what = race_take(r, vcpu, &vector)) != 0) {
        if (what == AVICEMU_DO_INJECT) {
            race_write(r, vcpu, 0xb0, 0);
            nr++;
        }
    }
    return nr;
}

int
race_enable(struct race *r, unsigned vcpu)
{
    uint8_t vector;

    if (vcpu != 0) {
        (void)avicemu_post_mode(r->vcpu[vcpu], AVICEMU_DELIVERY_SIPI, 8);
        if (race_take(r, vcpu, &vector) != AVICEMU_DO_SIPI) {
            return -1;
        }
    }
    race_write(r, vcpu, 0xf0, 0x1ff);
    return 0;
}
