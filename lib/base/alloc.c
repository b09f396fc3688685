/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allocator hook and its default.
 */

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/step.h"

static void *
default_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    /* C11 wants a size that is a multiple of the alignment. */
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
default_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    (void)bytes;
    free(memory);
}

const struct avicemu_allocator ae_default_allocator = {
    .alloc = default_alloc,
    .free = default_free,
    .opaque = NULL,
};

void *
ae_alloc(const struct avicemu_allocator *a, size_t align, size_t bytes)
{
    void *memory = a->alloc(a->opaque, align, bytes);

    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void
ae_free(const struct avicemu_allocator *a, void *memory, size_t bytes)
{
    if (memory != NULL) {
#ifdef AE_STEP_BUILD
        ae_step_free(memory, bytes);
#endif
        a->free(a->opaque, memory, bytes);
    }
}
