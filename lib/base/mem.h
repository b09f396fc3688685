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
    struct ae_mem_table *spare; /* under the lock; NULL: none */
};

void
ae_mem_init(struct ae_mem *mem, const struct avicemu_allocator *a);
void
ae_mem_fini(struct ae_mem *mem);

/* 0, -EINVAL, -EEXIST, -ENOMEM. Waits for readers. */
int
ae_mem_add(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva);
/* 0, -ENOENT. Waits for readers, needs no memory. */
int
ae_mem_remove(struct ae_mem *mem, uint64_t base);
/* The same for regions of the library itself, which the VMM cannot remove. */
int
ae_mem_add_own(struct ae_mem *mem, uint64_t base, uint64_t bytes, void *hva);
int
ae_mem_remove_own(struct ae_mem *mem, uint64_t base);
bool
ae_mem_empty(struct ae_mem *mem);

/* Inside a read-side section: the memory at address, if all of bytes lie in
 * one region; else NULL. Valid until the section ends. */
void *
ae_mem_find(const struct ae_mem *mem, uint64_t address, uint64_t bytes);

/* The same for who asks for the same few regions again and again: *near, any
 * number at first, is where it was last time. The caller's own. */
void *
ae_mem_find_near(const struct ae_mem *mem, uint64_t address, uint64_t bytes,
                 uint32_t *near);

#endif
