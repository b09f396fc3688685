/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest's objects, and the library's callbacks.
 *
 * kick rings the doorbell of the pCPU where the vCPU is; wake ends a sleep, in
 * either of the two ways in which a run is driven; block sleeps (the wall
 * clock alone: with the virtual one nobody may wait).
 *
 * Edge wake: woken is set and read under sleep_lock, so a wake that comes
 * before its sleeper sleeps is remembered.
 */

#include "vm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <avicemu/avic.h>

#include "cpu.h"
#include "random.h"
#include "virtual.h"

#define NS_PER_S 1000000000u

/* ---- callbacks ---------------------------------------------------------- */

static void
on_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct avicemu_mock_cpu *cpu = opaque;
    struct am_pcpu *pcpu = atomic_load(&cpu->pcpu);

    (void)vcpu;
    (void)atomic_fetch_add_explicit(&cpu->kicks, 1, memory_order_relaxed);
    if (am_host_plant(cpu->vm->host, AVICEMU_MOCK_PLANT_KICK)) {
        return;
    }
    /* NULL: it came out and gave its pCPU back since the library looked. */
    if (pcpu != NULL) {
        atomic_store(&pcpu->doorbell, 1);
    }
}

static void
on_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct avicemu_mock_cpu *cpu = opaque;
    struct avicemu_mock_host *host = cpu->vm->host;

    (void)vcpu;
    (void)atomic_fetch_add_explicit(&cpu->wakes, 1, memory_order_relaxed);
    if (am_host_plant(host, AVICEMU_MOCK_PLANT_WAKE)) {
        return;
    }
    if (host->sim != NULL) {
        am_virtual_wake(host->sim, cpu);
        return;
    }
    (void)pthread_mutex_lock(&cpu->sleep_lock);
    cpu->woken = true;
    atomic_store(&cpu->asleep, 0);
    (void)pthread_cond_signal(&cpu->sleep_cond);
    (void)pthread_mutex_unlock(&cpu->sleep_lock);
}

static void
awake_add(struct avicemu_mock_host *host, bool awake)
{
    (void)pthread_mutex_lock(&host->lock);
    host->nr_awake += awake ? 1u : UINT32_MAX;
    if (host->nr_awake == 0) {
        (void)pthread_cond_signal(&host->parked);
    }
    (void)pthread_mutex_unlock(&host->lock);
}

/* Under sleep_lock. True: the deadline has come. */
static bool
sleep_once(struct avicemu_mock_cpu *cpu, uint64_t deadline_ns)
{
    uint64_t at = cpu->vm->host->start_ns + deadline_ns;
    struct timespec until = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) };

    if (deadline_ns >= UINT64_MAX / 4) { /* none, or centuries away */
        (void)pthread_cond_wait(&cpu->sleep_cond, &cpu->sleep_lock);
        return false;
    }
    (void)pthread_cond_timedwait(&cpu->sleep_cond, &cpu->sleep_lock, &until);
    return am_host_now(cpu->vm->host) >= deadline_ns;
}

/* Nobody posts any more. Is there work that nobody woke this sleeper for? */
static void
sleep_lost(struct avicemu_mock_cpu *cpu)
{
    if (avicemu_vcpu_runnable(cpu->vcpu)) {
        am_cpu_lost(cpu, "wake-up: it sleeps on");
    }
}

void
am_cpu_sleep(struct avicemu_mock_cpu *cpu, uint64_t deadline)
{
    struct avicemu_mock_host *host = cpu->vm->host;
    bool expired = false, woken;

    awake_add(host, false);
    (void)pthread_mutex_lock(&cpu->sleep_lock);
    atomic_store(&cpu->asleep, 1);
    while (!cpu->woken && !expired &&
           atomic_load(&host->stop) != AE_STOP_LEAVE) {
        expired = sleep_once(cpu, deadline);
        /* A CPU whose timer runs out while the others end need not tick. */
        expired = expired && atomic_load(&host->stop) == AE_STOP_NO;
        deadline =
            atomic_load(&host->stop) == AE_STOP_NO ? deadline : UINT64_MAX;
    }
    woken = cpu->woken;
    cpu->woken = false;
    atomic_store(&cpu->asleep, 0);
    (void)pthread_mutex_unlock(&cpu->sleep_lock);
    awake_add(host, true);
    if (expired) {
        (void)avicemu_vcpu_expire(cpu->vcpu);
    } else if (!woken) {
        sleep_lost(cpu);
    }
}

static void
on_block(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    (void)vcpu;
    am_cpu_sleep(opaque, deadline);
}

static uint64_t
on_now(void *opaque)
{
    struct avicemu_mock_vm *vm = opaque;

    return am_host_now(vm->host);
}

/* The deadline of a vCPU that runs is what its runner looks at. */
static void
on_arm(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    struct avicemu_mock_cpu *cpu = opaque;

    (void)vcpu;
    cpu->deadline_ns = deadline;
}

static void
on_log(void *opaque, enum avicemu_log_level level, const char *text)
{
    struct avicemu_mock_vm *vm = opaque;

    (void)level;
    am_host_fail(vm->host, "%s: library: %s", vm->config->name, text);
}

/* ---- AVIC off and on ---------------------------------------------------- */

/* On average as often as asked for, at random points. */
static uint64_t
toggle_next(struct avicemu_mock_vm *vm, uint64_t now_ns)
{
    uint32_t often = vm->config->toggle;

    return often == 0 ? UINT64_MAX
                      : now_ns + 1 +
                            am_random_next(&vm->toggle_random) %
                                (2 * (uint64_t)NS_PER_S / often);
}

uint64_t
am_vm_toggle(struct avicemu_mock_vm *vm, uint64_t now_ns)
{
    int rc;

    if (vm->config->toggle == 0 || atomic_load(&vm->phase) != AE_PHASE_RUN) {
        return UINT64_MAX;
    }
    if (now_ns < vm->toggle_ns) {
        return vm->toggle_ns;
    }
    vm->toggle_ns = toggle_next(vm, now_ns);
    vm->toggled = !vm->toggled;
    vm->toggles++;
    rc = avicemu_vm_inhibit(vm->vm, AVICEMU_INHIBIT_BLOCKIRQ, vm->toggled);
    if (rc != 0) {
        am_host_fail(vm->host, "%s: avicemu_vm_inhibit returned %d",
                     vm->config->name, rc);
    }
    return vm->toggle_ns;
}

/* ---- making one --------------------------------------------------------- */

const struct avicemu_mock_program *
am_program_of(const char *name)
{
    static const struct avicemu_mock_program *const programs[] = {
        &am_program_boot, &am_program_ticks, &am_program_ipi, &am_program_nvme
    };

    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (strcmp(programs[i]->name, name) == 0) {
            return programs[i];
        }
    }
    return NULL;
}

static int
library_vm_create(struct avicemu_mock_vm *vm)
{
    struct avicemu_vm_config config = {
        .size = sizeof(config),
        .flags = AVICEMU_VM_BOOKS,
        .max_vcpus = vm->nr_cpus,
        .max_apic_id = vm->avic ? vm->nr_cpus - 1 : 0,
        .lapic = {
            .personality = vm->config->personality,
            .features = AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE,
        },
        .ops = {
            .kick = on_kick,
            .wake = on_wake,
            .block = on_block,
            .now = on_now,
            .arm = on_arm,
            .log = on_log,
        },
        .opaque = vm,
        .log_level = AVICEMU_LOG_ERROR,
    };

    if (vm->avic) {
        config.flags |= AVICEMU_VM_AVIC;
        config.flags |= vm->config->ipiv == 0 ? AVICEMU_VM_NO_IPIV : 0;
    }
    return avicemu_vm_create(vm->host->host, &config, &vm->vm);
}

static int
vm_fill(struct avicemu_mock_vm *vm)
{
    int rc = library_vm_create(vm);

    vm->cpus = calloc(vm->nr_cpus, sizeof(*vm->cpus));
    if (rc != 0 || vm->cpus == NULL) {
        return rc != 0 ? rc : -ENOMEM;
    }
    for (uint32_t i = 0; i < vm->nr_cpus && rc == 0; i++) {
        rc = am_cpu_create(vm, i, &vm->cpus[i]);
    }
    if (rc == 0) {
        vm->state = vm->program->create(vm);
        rc = vm->state == NULL ? -ENOMEM : 0;
    }
    return rc;
}

int
am_vm_create(struct avicemu_mock_host *host, uint32_t index,
             struct avicemu_mock_vm **ret)
{
    size_t bytes = (sizeof(struct avicemu_mock_vm) + 63u) & ~(size_t)63u;
    struct avicemu_mock_vm *vm = aligned_alloc(64, bytes);
    int rc;

    if (vm == NULL) {
        return -ENOMEM;
    }
    *vm = (struct avicemu_mock_vm){
        .host = host,
        .config = &host->scenario.vms[index],
        .nr_cpus = host->scenario.vms[index].nr_vcpus,
        .first_who = index * AVICEMU_MOCK_MAX_VCPUS,
    };
    (void)pthread_mutex_init(&vm->route_lock, NULL);
    vm->avic = vm->config->avic != 0;
    vm->toggle_random = am_random_start(host->scenario.seed, ~(uint64_t)index);
    vm->toggle_ns = toggle_next(vm, 0);
    vm->program = vm->config->program != NULL
                      ? vm->config->program
                      : am_program_of(vm->config->program_name);
    rc = vm_fill(vm);
    if (rc != 0) {
        am_vm_destroy(vm);
        return rc;
    }
    *ret = vm;
    return 0;
}

void
am_vm_destroy(struct avicemu_mock_vm *vm)
{
    if (vm == NULL) {
        return;
    }
    if (vm->state != NULL) {
        vm->program->destroy(vm->state);
    }
    for (uint32_t i = 0; vm->cpus != NULL && i < vm->nr_cpus; i++) {
        am_cpu_destroy(vm->cpus[i]);
    }
    free(vm->cpus);
    (void)avicemu_vm_destroy(vm->vm);
    (void)pthread_mutex_destroy(&vm->route_lock);
    free(vm);
}

struct avicemu_mock_cpu *
am_vm_cpu_of(struct avicemu_mock_vm *vm, uint32_t apic_id)
{
    return apic_id < vm->nr_cpus ? vm->cpus[apic_id] : NULL;
}
