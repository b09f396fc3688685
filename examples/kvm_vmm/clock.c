/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time: the library reads no clock, so the VMM owns both halves.
 *
 * now()     the host's TSC. Guests run with TSC offset 0 (kvm.c), so it is the
 *           guest's TSC too, and a TSC deadline needs no conversion
 * arm()     a vCPU's next deadline has changed
 * thread    sleeps until the earliest deadline, then calls expire, which makes
 *           the library kick or wake the vCPU. Too early is harmless
 *
 * One lock for all deadlines: arm is called once per timer programming, after
 * an exit that cost far more. A VMM with thousands of timers would take a
 * heap, or one timerfd per vCPU; the contract with the library is the same.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "vmm.h"

uint64_t
clock_now(void *opaque)
{
    (void)opaque;
    return __rdtsc();
}

uint64_t
clock_to_ns(const struct vm *vm, uint64_t ticks)
{
    /* Longer than a day is as good as a day: the sleeper looks again then. */
    uint64_t day = vm->tsc_hz * 86400u;

    ticks = ticks < day ? ticks : day;
    return ticks / vm->tsc_hz * 1000000000u +
           ticks % vm->tsc_hz * 1000000000u / vm->tsc_hz;
}

void
clock_arm(void *opaque, struct avicemu_vcpu *apic, uint64_t deadline)
{
    struct vcpu *vcpu = opaque;
    struct clock *clock = &vcpu->vm->clock;

    (void)apic;
    (void)pthread_mutex_lock(&clock->lock);
    vcpu->deadline = deadline;
    if (deadline < clock->next) { /* later ones it finds by itself */
        (void)pthread_cond_signal(&clock->changed);
    }
    (void)pthread_mutex_unlock(&clock->lock);
}

/* With the lock held; drops it around expire, which calls kick or wake. */
static void
expire_due(struct vm *vm, uint64_t now)
{
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        struct vcpu *vcpu = &vm->vcpus[i];

        if (vcpu->deadline <= now) {
            vcpu->deadline = NO_DEADLINE; /* the library arms the next one */
            (void)pthread_mutex_unlock(&vm->clock.lock);
            (void)avicemu_vcpu_expire(vcpu->apic);
            (void)pthread_mutex_lock(&vm->clock.lock);
        }
    }
}

static uint64_t
earliest(const struct vm *vm)
{
    uint64_t next = NO_DEADLINE;

    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        next = vm->vcpus[i].deadline < next ? vm->vcpus[i].deadline : next;
    }
    return next;
}

static void *
clock_thread(void *opaque)
{
    struct vm *vm = opaque;
    struct clock *clock = &vm->clock;

    avicemu_thread_attach();
    (void)pthread_mutex_lock(&clock->lock);
    while (!clock->stop) {
        uint64_t now = clock_now(vm);

        expire_due(vm, now);
        clock->next = earliest(vm);
        if (clock->next == NO_DEADLINE) {
            (void)pthread_cond_wait(&clock->changed, &clock->lock);
            continue;
        }
        if (clock->next > now) {
            struct timespec until;
            uint64_t ns = clock_to_ns(vm, clock->next - now);

            (void)clock_gettime(CLOCK_MONOTONIC, &until);
            ns += (uint64_t)until.tv_nsec;
            until.tv_sec += (time_t)(ns / 1000000000u);
            until.tv_nsec = (long)(ns % 1000000000u);
            (void)pthread_cond_timedwait(&clock->changed, &clock->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&clock->lock);
    return NULL;
}

int
clock_start(struct vm *vm)
{
    struct clock *clock = &vm->clock;
    pthread_condattr_t monotonic;

    clock->next = NO_DEADLINE;
    (void)pthread_mutex_init(&clock->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&clock->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    int err = pthread_create(&clock->thread, NULL, clock_thread, vm);
    if (err != 0) {
        say("cannot start the clock thread: %s", strerror(err));
        return -1;
    }
    return 0;
}

void
clock_stop(struct vm *vm)
{
    (void)pthread_mutex_lock(&vm->clock.lock);
    vm->clock.stop = true;
    (void)pthread_cond_signal(&vm->clock.changed);
    (void)pthread_mutex_unlock(&vm->clock.lock);
    (void)pthread_join(vm->clock.thread, NULL);
    (void)pthread_cond_destroy(&vm->clock.changed);
    (void)pthread_mutex_destroy(&vm->clock.lock);
}
