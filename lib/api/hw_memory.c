/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hardware face's memory: a memory map without a host.
 */

#include "api/hw_memory.h"

#include "api/check.h"

int
avicemu_hw_memory_create(struct avicemu_hw_memory **ret_memory)
{
    AE_CHECK(ret_memory != NULL, -EINVAL);
    struct avicemu_hw_memory *m =
        ae_alloc(&ae_default_allocator, AE_CACHE_LINE, sizeof(*m));

    AE_CHECK(m != NULL, -ENOMEM);
    ae_mem_init(&m->mem, &ae_default_allocator);
    *ret_memory = m;
    return 0;
}

void
avicemu_hw_memory_destroy(struct avicemu_hw_memory *memory)
{
    if (memory != NULL) {
        ae_mem_fini(&memory->mem);
        ae_free(&ae_default_allocator, memory, sizeof(*memory));
    }
}

int
avicemu_hw_memory_add(struct avicemu_hw_memory *memory, uint64_t base,
                      uint64_t bytes, void *hva)
{
    AE_CHECK(memory != NULL && hva != NULL, -EINVAL);
    return ae_mem_add(&memory->mem, base, bytes, hva);
}

int
avicemu_hw_memory_remove(struct avicemu_hw_memory *memory, uint64_t base)
{
    AE_CHECK(memory != NULL, -ENOENT);
    return ae_mem_remove(&memory->mem, base);
}
