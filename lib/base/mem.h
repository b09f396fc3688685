/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_MEM_H
#define AE_BASE_MEM_H

/*
 * The memory map: what hardware calls a system physical address, as host
 * memory. See mem.c.
 */

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/lock.h"

struct ae_mem_table;

struct ae_mem {
    const struct avicemu_allocator *allocator;
    struct ae_lock lock; /* serialises writers */
    /* Written under the lock, read inside read-side sections. NULL: empty. */
    _Atomic(struct ae_mem_table *) table;
};

void
ae_mem_init(struct ae_mem *mem, const struct avicemu_allocator *a);
void
ae_mem_fini(struct ae_mem *mem);

/* 0, -EINVAL, -EEXIST, -ENOMEM. Waits for readers. */
int
ae_mem_add(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva);
/* 0, -ENOENT, -ENOMEM. Waits for readers. */
int
ae_mem_remove(struct ae_mem *mem, uint64_t base);
bool
ae_mem_empty(struct ae_mem *mem);

/* Inside a read-side section: the memory at address, if all of bytes lie in
 * one region; else NULL. Valid until the section ends. */
void *
ae_mem_find(const struct ae_mem *mem, uint64_t address, uint64_t bytes);

#endif
