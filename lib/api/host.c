/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions of hosts and VMs.
 */

#include "hv/host.h"

#include "api/check.h"
#include "base/rcu.h"
#include "hv/vm.h"

int
avicemu_host_create(const struct avicemu_host_config *config,
                    struct avicemu_host **ret_host)
{
    struct avicemu_host_config copy = { .size = sizeof(copy) };

    AE_CHECK(ret_host != NULL, -EINVAL);
    if (config != NULL) {
        AE_CHECK(ae_config_copy(&copy, sizeof(copy), config), -EINVAL);
    }
    return ae_host_create(&copy, ret_host);
}

int
avicemu_host_destroy(struct avicemu_host *host)
{
    return host == NULL ? 0 : ae_host_destroy(host);
}

int
avicemu_host_map(struct avicemu_host *host, uint64_t base, uint64_t bytes,
                 void *hva)
{
    AE_CHECK(host != NULL && hva != NULL, -EINVAL);
    return ae_mem_add(&host->mem, base, bytes, hva);
}

int
avicemu_host_unmap(struct avicemu_host *host, uint64_t base)
{
    AE_CHECK(host != NULL, -EINVAL);
    return ae_mem_remove(&host->mem, base);
}

int
avicemu_vm_create(struct avicemu_host *host,
                  const struct avicemu_vm_config *config,
                  struct avicemu_vm **ret_vm)
{
    struct avicemu_vm_config copy;

    AE_CHECK(host != NULL && config != NULL && ret_vm != NULL, -EINVAL);
    AE_CHECK(ae_config_copy(&copy, sizeof(copy), config), -EINVAL);
    return ae_vm_create(host, &copy, ret_vm);
}

int
avicemu_vm_destroy(struct avicemu_vm *vm)
{
    return vm == NULL ? 0 : ae_vm_destroy(vm);
}

uint32_t
avicemu_vm_nr_vcpus(const struct avicemu_vm *vm)
{
    /* ORD none: a count that may be old when it is returned. */
    return vm == NULL ? 0 : ae_load_relaxed_u32(&vm->map.nr_vcpus);
}

uint64_t
avicemu_vm_vcpu_bytes(const struct avicemu_vm *vm)
{
    return vm == NULL ? 0 : ae_vcpu_bytes(vm);
}

void
avicemu_thread_attach(void)
{
    ae_rcu_attach();
}

int
avicemu_msi(struct avicemu_vm *vm, uint64_t address, uint32_t data,
            struct avicemu_posted *ret)
{
    struct avicemu_posted posted = { .why = 0 };

    AE_CHECK(vm != NULL, -EINVAL);
    ae_vm_msi(vm, address, data, &posted);
    if (ret != NULL) {
        *ret = posted;
    }
    return 0;
}

uint32_t
avicemu_check_invariants(struct avicemu_vm *vm, char *buf, size_t len)
{
    return vm == NULL ? 0 : ae_vm_check(vm, buf, len);
}
