/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shortest whole program: one vCPU, one MSI. Shows creation, a guest's
 * register write, delivery, entry and acknowledge.
 *
 * Run: build/examples/first
 * Prints: inject 41h cr8 0
 */
#include <stdio.h>

#include <avicemu/avicemu.h>

static uint64_t
now(void *opaque)
{
    (void)opaque;
    return 0;
}

int
main(void)
{
    struct avicemu_vm_config config = { .size = sizeof(config) };
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu;
    uint32_t svr = 0x1ff; /* software-enable, spurious vector FFh */
    char line[80];

    config.ops.now = now;
    if (avicemu_host_create(NULL, &host) != 0 ||
        avicemu_vm_create(host, &config, &vm) != 0 ||
        avicemu_vcpu_create(vm, 0, NULL, &vcpu) != 0) {
        return 1;
    }
    (void)avicemu_mmio_write(vcpu, 0xfee000f0, 4, &svr);
    (void)avicemu_msi(vm, 0xfee00000, 0x41, NULL);
    if (avicemu_vcpu_enter(vcpu, &cpu, &todo) != 0) {
        return 1;
    }
    (void)avicemu_describe_todo(&todo, line, sizeof(line));
    printf("%s\n", line); /* inject 41h cr8 0 */
    (void)avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector);
    (void)avicemu_vcpu_exit(vcpu, &cpu);
    return avicemu_vcpu_destroy(vcpu) != 0 || avicemu_vm_destroy(vm) != 0 ||
           avicemu_host_destroy(host) != 0;
}
