/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_ALLOC_H
#define AE_BASE_ALLOC_H

/*
 * Zeroed memory from the host's allocator hook. Set-up paths only.
 */

#include <avicemu/vm.h>

/* NULL if the hook returns NULL. align: a power of two, at most 4096. */
void *
ae_alloc(const struct avicemu_allocator *a, size_t align, size_t bytes);

/* memory may be NULL; bytes as given to ae_alloc(). */
void
ae_free(const struct avicemu_allocator *a, void *memory, size_t bytes);

/* The default hook: C11 aligned_alloc and free. */
extern const struct avicemu_allocator ae_default_allocator;

#endif
