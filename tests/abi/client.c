/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger's first program, built against the installed library. */
#include <stdio.h>

#include <avicemu/avicemu.h>

static uint64_t
now(void *opaque)
{
    return *(uint64_t *)opaque;
}

int
main(void)
{
    uint64_t ns = 0;
    const uint32_t svr = 0x1ff; /* software enable, spurious vector FFh */
    const struct avicemu_vm_config config = { .size = sizeof(config),
                                              .ops = { .now = now },
                                              .opaque = &ns };
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = AVICEMU_CPU_IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu *vcpu;

    if (avicemu_host_create(NULL, &host) ||
        avicemu_vm_create(host, &config, &vm) ||
        avicemu_vcpu_create(vm, 0, NULL, &vcpu))
        return 1;
    avicemu_mmio_write(vcpu, 0xfee000f0, 4, &svr);
    avicemu_post(vcpu, 0x41, AVICEMU_TRIGGER_EDGE);
    if (avicemu_vcpu_enter(vcpu, &cpu, &todo) ||
        avicemu_vcpu_ack(vcpu, AVICEMU_DO_INJECT, todo.vector) ||
        avicemu_vcpu_exit(vcpu, &cpu))
        return 1;
    printf("the vCPU takes vector %02xh\n", todo.vector);
    return avicemu_vcpu_destroy(vcpu) || avicemu_vm_destroy(vm) ||
           avicemu_host_destroy(host);
}
