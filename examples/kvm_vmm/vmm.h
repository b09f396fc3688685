/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small VMM on /dev/kvm whose interrupt controllers are libavicemu's.
 *
 * KVM runs guest code and nothing else: no KVM_CREATE_IRQCHIP, no split
 * irqchip. Whatever concerns an APIC comes out as an exit, goes to the
 * library, and comes back as an injection. This is the example to copy from;
 * read in this order:
 *
 *   vcpu.c   the loop of one vCPU: enter, inject, run, exit, handle. All rules
 *            about injection are there
 *   exits.c  what each exit of KVM becomes
 *   clock.c  one thread that calls avicemu_vcpu_expire() at deadlines
 *   kvm.c    descriptors, capabilities, CPUID, MSR filter: what KVM must be
 *            told when it has no irqchip
 *   load.c   guest images: multiboot ELF, multiboot with addresses, flat
 *   ports.c  serial console, exit port, two registers of QEMU's fw_cfg
 *   main.c   options, start, stop, books
 *
 * Threads: one per vCPU, one for the clock, main. Each field of struct vcpu is
 * the vCPU thread's own, but for those that a comment gives to others.
 */
#ifndef VMM_H
#define VMM_H

#include <linux/kvm.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <avicemu/avicemu.h>

#define MAX_VCPUS   64u
#define NO_DEADLINE UINT64_MAX

/* Exit status: what the guest wrote to port F4h, or one of these. */
enum status {
    STATUS_RESET = 122,  /* the guest reset or shut down by itself */
    STATUS_BROKEN = 123, /* KVM or the library refused something */
    STATUS_TIMEOUT = 124,
    STATUS_USAGE = 125,
};

struct vm;

struct vcpu {
    struct vm *vm;
    uint32_t index;
    uint32_t apic_id;
    int fd;
    struct kvm_run *run; /* shared with KVM; immediate_exit also with kickers */
    struct avicemu_vcpu *apic;
    pthread_t thread;
    sem_t wake; /* posted by anyone, waited for by the vCPU's thread */

    /*
     * KVM finishes the instruction behind an MMIO, port or MSR exit at the
     * next KVM_RUN. Until then its registers may not be replaced.
     */
    bool unfinished;
    bool nmi_handed;  /* an NMI was given to KVM; it may still pend there */
    bool nmi_blocked; /* halted inside an NMI handler */

    uint64_t deadline;     /* in ticks of now(); under the clock's lock */
    uint64_t nr_exits[64]; /* by KVM_EXIT_*; read by main after the join */
};

struct clock {
    pthread_t thread;
    pthread_mutex_t lock; /* deadlines of all vCPUs, next, stop */
    pthread_cond_t changed;
    uint64_t next; /* what the thread sleeps for */
    bool stop;
};

struct vm {
    int kvm_fd, fd;
    size_t run_bytes;
    uint8_t *memory; /* guest physical 0 .. memory_bytes */
    size_t memory_bytes;
    uint64_t tsc_hz;
    uint64_t bus_hz;
    enum avicemu_personality personality;
    uint32_t lapic_features;
    uint32_t entry; /* where vCPU 0 starts, and its EBX */
    uint32_t boot_info;
    uint32_t multiboot_magic; /* its EAX */
    uint32_t timeout_s;

    struct avicemu_host *host;
    struct avicemu_vm *apics;
    uint32_t nr_vcpus;
    struct vcpu vcpus[MAX_VCPUS];
    struct clock clock;

    atomic_int status; /* -1 while the guest runs; first writer wins */
    sem_t stopped;     /* posted once, by that writer */
    struct {
        uint16_t selector;
        uint32_t offset;
    } fw_cfg; /* under ports.c's lock */
};

/* main.c */
void
say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void
vm_stop(struct vm *vm, int status);
bool
vm_stopping(struct vm *vm);

/* kvm.c: 0, or -1 after having said what is wrong and what to do. */
int
kvm_open(struct vm *vm);
int
kvm_vm_create(struct vm *vm);
int
kvm_vcpu_create(struct vcpu *vcpu);
int
kvm_apic_base_set(struct vcpu *vcpu, uint64_t value);
void
kvm_vm_close(struct vm *vm);

/* load.c */
int
image_load(struct vm *vm, const char *path, const char *cmdline);

/* clock.c */
uint64_t
clock_now(void *opaque);
void
clock_arm(void *opaque, struct avicemu_vcpu *apic, uint64_t deadline);
uint64_t
clock_to_ns(const struct vm *vm, uint64_t ticks);
int
clock_start(struct vm *vm);
void
clock_stop(struct vm *vm);

/* vcpu.c */
int
vcpu_signals_init(void);
void *
vcpu_thread(void *opaque);
void
vcpu_kick(void *opaque, struct avicemu_vcpu *apic);
void
vcpu_wake(void *opaque, struct avicemu_vcpu *apic);
void
vcpu_block(void *opaque, struct avicemu_vcpu *apic, uint64_t deadline);
int
vcpu_halt(struct vcpu *vcpu);

/* exits.c */
int
exit_handle(struct vcpu *vcpu);

/* ports.c */
void
port_write(struct vm *vm, uint16_t port, const uint8_t *data, unsigned len);
void
port_read(struct vm *vm, uint16_t port, uint8_t *data, unsigned len);

#endif
