/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvm_vmm: run a guest on /dev/kvm with libavicemu's APICs.
 *
 *     kvm_vmm --cpus 4 guest.elf
 *
 * prints what the guest writes to its serial port, then the books of each
 * vCPU, and exits with what the guest wrote to port F4h.
 *
 * Order of set-up: KVM's VM and vCPUs first (they tell the TSC's rate), then
 * the library's, then the image, then threads. Order of the end: the first
 * vm_stop() wins, everybody is kicked and woken, main joins and counts.
 */
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm.h"

#define TSC_PER_BUS_CLOCK 64u /* default bus clock: slow, see --bus-hz */

struct options {
    const char *image;
    const char *cmdline;
    uint64_t cpus, id_step, memory_mib, bus_hz, timeout_s;
    enum avicemu_personality personality;
    bool plain;
};

static const char *const personality_names[] = {
    [AVICEMU_PERSONALITY_AMD] = "amd",
    [AVICEMU_PERSONALITY_INTEL] = "intel",
    [AVICEMU_PERSONALITY_KVM] = "kvm",
};

void
say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    flockfile(stderr);
    (void)fputs("kvm_vmm: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    funlockfile(stderr);
    va_end(args);
}

bool
vm_stopping(struct vm *vm)
{
    return atomic_load(&vm->status) >= 0;
}

/* Any thread; main then kicks and wakes everybody, as only it may join. */
void
vm_stop(struct vm *vm, int status)
{
    int running = -1;

    if (atomic_compare_exchange_strong(&vm->status, &running, status)) {
        (void)sem_post(&vm->stopped);
    }
}

/* ---- options ------------------------------------------------------------- */

enum {
    KEY_ID_STEP = 256,
    KEY_TIMEOUT,
    KEY_PLAIN
};

static const struct argp_option option_rows[] = {
    { "cpus", 'c', "N", 0, "vCPUs, 1 to 64 (default 1)", 0 },
    { "cmdline", 'a', "STR", 0, "the guest's command line", 0 },
    { "personality", 'p', "NAME", 0, "whose APIC: amd (default), intel or kvm",
      0 },
    { "bus-hz", 'b', "HZ", 0,
      "APIC timer clock at divide-by-1 (default: TSC rate / 64; guests with "
      "short timer windows need it low where KVM is slow)",
      0 },
    { "memory", 'm', "MIB", 0, "guest memory, 2 to 2048 (default 64)", 0 },
    { "id-step", KEY_ID_STEP, "N", 0,
      "APIC ids 0, N, 2N ... (default 1; 16 gives each vCPU a cluster of its "
      "own in x2APIC mode)",
      0 },
    { "plain", KEY_PLAIN, NULL, 0,
      "leave the command line alone; else cpus=, personality=, tsc_khz= and "
      "bus_khz= are added",
      0 },
    { "timeout", KEY_TIMEOUT, "S", 0,
      "stop after S seconds with status 124 (default 0: never)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 },
};

static uint64_t
number(struct argp_state *state, const char *name, const char *text,
       uint64_t low, uint64_t high)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' ||
        value < low || value > high) {
        argp_error(state, "--%s %s: a number from %llu to %llu is wanted", name,
                   text, (unsigned long long)low, (unsigned long long)high);
    }
    return value;
}

static enum avicemu_personality
personality_of(struct argp_state *state, const char *text)
{
    for (unsigned i = 0; i < AVICEMU_NR_PERSONALITY; i++) {
        if (strcmp(text, personality_names[i]) == 0) {
            return (enum avicemu_personality)i;
        }
    }
    argp_error(state, "--personality %s: amd, intel or kvm is wanted", text);
    return AVICEMU_PERSONALITY_AMD;
}

static error_t
option_parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'c':
        options->cpus = number(state, "cpus", arg, 1, MAX_VCPUS);
        return 0;
    case 'a':
        options->cmdline = arg;
        return 0;
    case 'p':
        options->personality = personality_of(state, arg);
        return 0;
    case 'b':
        options->bus_hz = number(state, "bus-hz", arg, 1, 1ull << 40);
        return 0;
    case 'm':
        options->memory_mib = number(state, "memory", arg, 2, 2048);
        return 0;
    case KEY_ID_STEP:
        options->id_step = number(state, "id-step", arg, 1, 1u << 16);
        return 0;
    case KEY_PLAIN:
        options->plain = true;
        return 0;
    case KEY_TIMEOUT:
        options->timeout_s = number(state, "timeout", arg, 0, 86400);
        return 0;
    case ARGP_KEY_ARG:
        if (options->image != NULL) {
            argp_error(state, "one image is enough: %s or %s?", options->image,
                       arg);
        }
        options->image = arg;
        return 0;
    case ARGP_KEY_END:
        if (options->image == NULL) {
            argp_error(state, "which guest? Name a multiboot ELF or flat file");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- set-up -------------------------------------------------------------- */

static void
on_log(void *opaque, enum avicemu_log_level level, const char *message)
{
    (void)opaque;
    (void)level;
    say("library: %s", message);
}

static int
library_failed(const char *what, int err)
{
    say("%s: %s", what, strerror(-err));
    return -1;
}

static int
apics_create(struct vm *vm)
{
    const struct avicemu_vm_config config = {
        .size = sizeof(config),
        .max_vcpus = vm->nr_vcpus,
        .bsp_apic_id = vm->vcpus[0].apic_id,
        .lapic = {
            .personality = vm->personality,
            .features = vm->lapic_features,
            .now_hz = vm->tsc_hz,
            .bus_hz = vm->bus_hz,
        },
        .ops = {
            .kick = vcpu_kick,
            .wake = vcpu_wake,
            .block = vcpu_block,
            .arm = clock_arm,
            .now = clock_now,
            .log = on_log,
        },
        .opaque = vm,
        .log_level = AVICEMU_LOG_WARN,
    };
    const struct avicemu_host_config host_config = {
        .size = sizeof(host_config),
        .log = on_log,
        .log_level = AVICEMU_LOG_WARN,
    };
    int err = avicemu_host_create(&host_config, &vm->host);

    if (err != 0) {
        return library_failed("avicemu_host_create", err);
    }
    err = avicemu_vm_create(vm->host, &config, &vm->apics);
    if (err != 0) {
        return library_failed("avicemu_vm_create", err);
    }
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        struct vcpu *vcpu = &vm->vcpus[i];

        err = avicemu_vcpu_create(vm->apics, vcpu->apic_id, vcpu, &vcpu->apic);
        if (err != 0) {
            return library_failed("avicemu_vcpu_create", err);
        }
        uint64_t base;
        if (avicemu_msr_read(vcpu->apic, 0x1b, &base) != AVICEMU_ACCESS_DONE ||
            kvm_apic_base_set(vcpu, base) != 0) {
            return -1;
        }
    }
    return 0;
}

static int
vm_create(struct vm *vm, const struct options *options)
{
    char cmdline[4096];

    vm->kvm_fd = vm->fd = -1;
    vm->nr_vcpus = (uint32_t)options->cpus;
    vm->memory_bytes = (size_t)options->memory_mib << 20;
    vm->personality = options->personality;
    vm->lapic_features = AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE;
    if (vm->personality == AVICEMU_PERSONALITY_AMD) {
        vm->lapic_features |= AVICEMU_LAPIC_EXT_SPACE;
    }
    atomic_init(&vm->status, -1);
    (void)sem_init(&vm->stopped, 0, 0);
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        struct vcpu *vcpu = &vm->vcpus[i];

        vcpu->vm = vm;
        vcpu->index = i;
        vcpu->apic_id = i * (uint32_t)options->id_step;
        vcpu->fd = -1;
        vcpu->deadline = NO_DEADLINE;
        (void)sem_init(&vcpu->wake, 0, 0);
    }
    if (kvm_open(vm) != 0 || kvm_vm_create(vm) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        if (kvm_vcpu_create(&vm->vcpus[i]) != 0) {
            return -1;
        }
    }
    vm->bus_hz =
        options->bus_hz ? options->bus_hz : vm->tsc_hz / TSC_PER_BUS_CLOCK;
    int len = options->plain
                  ? snprintf(cmdline, sizeof(cmdline), "%s", options->cmdline)
                  : snprintf(cmdline, sizeof(cmdline),
                             "%s%scpus=%u personality=%s tsc_khz=%llu "
                             "bus_khz=%llu",
                             options->cmdline, *options->cmdline ? " " : "",
                             vm->nr_vcpus, personality_names[vm->personality],
                             (unsigned long long)vm->tsc_hz / 1000,
                             (unsigned long long)vm->bus_hz / 1000);
    if (len < 0 || (size_t)len >= sizeof(cmdline)) {
        say("the command line is too long: %d bytes", len);
        return -1;
    }
    return image_load(vm, options->image, cmdline);
}

/* ---- run, stop, books ---------------------------------------------------- */

static void
wait_for_stop(struct vm *vm, uint64_t timeout_s)
{
    struct timespec until;
    int err;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)timeout_s;
    do {
        err = timeout_s == 0
                  ? sem_wait(&vm->stopped)
                  : sem_clockwait(&vm->stopped, CLOCK_MONOTONIC, &until);
    } while (err != 0 && errno == EINTR);
    if (err != 0) {
        say("no end after %llu seconds: stopped",
            (unsigned long long)timeout_s);
        vm_stop(vm, STATUS_TIMEOUT);
    }
}

static int
run(struct vm *vm, uint64_t timeout_s)
{
    uint32_t nr_started = 0;

    for (; nr_started < vm->nr_vcpus; nr_started++) {
        struct vcpu *vcpu = &vm->vcpus[nr_started];
        int err = pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu);

        if (err != 0) {
            say("cannot start the thread of vCPU %u: %s", nr_started,
                strerror(err));
            vm_stop(vm, STATUS_BROKEN);
            break;
        }
    }
    /* A thread may be kicked from its first entry on: its id must be known. */
    for (uint32_t i = 0; i < nr_started; i++) {
        (void)sem_post(&vm->vcpus[i].wake);
    }
    wait_for_stop(vm, timeout_s);
    for (uint32_t i = 0; i < nr_started; i++) {
        vcpu_kick(&vm->vcpus[i], vm->vcpus[i].apic);
        vcpu_wake(&vm->vcpus[i], vm->vcpus[i].apic);
    }
    for (uint32_t i = 0; i < nr_started; i++) {
        (void)pthread_join(vm->vcpus[i].thread, NULL);
    }
    return atomic_load(&vm->status);
}

static void
print_books(struct vm *vm)
{
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        struct vcpu *vcpu = &vm->vcpus[i];
        struct avicemu_vcpu_stats s = { .size = sizeof(s) };

        if (avicemu_vcpu_stats(vcpu->apic, &s) != 0) {
            continue;
        }
        (void)printf(
            "vcpu %u: entries %llu, injected %llu, eoi %llu, nmi %llu, "
            "init %llu, sipi %llu, ipi sent %llu (new %llu, merged "
            "%llu, dropped %llu), timer %llu, blocks %llu, #GP %llu; "
            "exits: mmio %llu, msr %llu, port %llu, hlt %llu, window "
            "%llu\n",
            i, (unsigned long long)s.entries, (unsigned long long)s.injected,
            (unsigned long long)s.eoi, (unsigned long long)s.nmi,
            (unsigned long long)s.init, (unsigned long long)s.sipi,
            (unsigned long long)s.ipi_sent, (unsigned long long)s.ipi_new,
            (unsigned long long)s.ipi_merged, (unsigned long long)s.ipi_dropped,
            (unsigned long long)s.timer_ticks, (unsigned long long)s.blocks,
            (unsigned long long)s.gp,
            (unsigned long long)vcpu->nr_exits[KVM_EXIT_MMIO],
            (unsigned long long)vcpu->nr_exits[KVM_EXIT_X86_RDMSR] +
                (unsigned long long)vcpu->nr_exits[KVM_EXIT_X86_WRMSR],
            (unsigned long long)vcpu->nr_exits[KVM_EXIT_IO],
            (unsigned long long)vcpu->nr_exits[KVM_EXIT_HLT],
            (unsigned long long)vcpu->nr_exits[KVM_EXIT_IRQ_WINDOW_OPEN]);
    }
}

/* What must always hold, looked at now that nobody moves. */
static bool
invariants_hold(struct vm *vm)
{
    char why[256] = "";

    if (avicemu_check_invariants(vm->apics, why, sizeof(why)) == 0) {
        return true;
    }
    say("the library's state is wrong: %s", why);
    return false;
}

static void
vm_destroy(struct vm *vm)
{
    for (uint32_t i = 0; i < vm->nr_vcpus; i++) {
        (void)avicemu_vcpu_destroy(vm->vcpus[i].apic);
        (void)sem_destroy(&vm->vcpus[i].wake);
    }
    (void)avicemu_vm_destroy(vm->apics);
    (void)avicemu_host_destroy(vm->host);
    kvm_vm_close(vm);
    (void)sem_destroy(&vm->stopped);
}

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_rows,
        .parser = option_parse,
        .args_doc = "IMAGE",
        .doc = "Run a guest on /dev/kvm with APICs from libavicemu."
               "\vExit status: what the guest writes to port 0xf4; 122 if it "
               "resets, 123 if KVM refuses something, 124 after --timeout, 125 "
               "for wrong options.",
    };
    static struct vm vm;
    struct options options = {
        .cmdline = "", .cpus = 1, .id_step = 1, .memory_mib = 64
    };
    int status = STATUS_BROKEN;

    argp_err_exit_status = STATUS_USAGE;
    (void)argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (vm_create(&vm, &options) == 0 && vcpu_signals_init() == 0 &&
        clock_start(&vm) == 0) {
        if (apics_create(&vm) == 0) {
            status = run(&vm, options.timeout_s);
        }
        clock_stop(&vm);
        if (vm.apics != NULL) {
            print_books(&vm);
            status = invariants_hold(&vm) ? status : STATUS_BROKEN;
        }
    }
    vm_destroy(&vm);
    return status;
}
