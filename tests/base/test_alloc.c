/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allocator hook: what it is asked for, and what its caller gets.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/compiler.h"

struct row {
    const char *name;
    size_t align, bytes;
};

static const struct row rows[] = {
    { "one byte is aligned to a cache line", AE_CACHE_LINE, 1 },
    { "a size below its alignment is no error", AE_PAGE, 24 },
    { "a page is aligned to a page", AE_PAGE, AE_PAGE },
    { "an odd size is zeroed to its last byte", AE_CACHE_LINE, 12345 },
};

/* What the hook saw. */
struct hook {
    unsigned char *memory; /* what it gives out; NULL: it has none */
    size_t align, bytes, freed_bytes;
    void *freed;
    unsigned frees;
};

static void *
hook_alloc(void *opaque, size_t align, size_t bytes)
{
    struct hook *h = opaque;

    h->align = align;
    h->bytes = bytes;
    return h->memory;
}

static void
hook_free(void *opaque, void *memory, size_t bytes)
{
    struct hook *h = opaque;

    h->freed = memory;
    h->freed_bytes = bytes;
    h->frees++;
}

static struct avicemu_allocator
allocator_of(struct hook *h)
{
    return (struct avicemu_allocator){
        .alloc = hook_alloc,
        .free = hook_free,
        .opaque = h,
    };
}

static void
test_default(void **state)
{
    const struct row *row = *state;

    /* Twice: the second time malloc may have it from the first. */
    for (int i = 0; i < 2; i++) {
        unsigned char *p =
            ae_alloc(&ae_default_allocator, row->align, row->bytes);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % row->align, 0);
        for (size_t n = 0; n < row->bytes; n++) {
            assert_int_equal(p[n], 0);
        }
        memset(p, 0xee, row->bytes);
        ae_free(&ae_default_allocator, p, row->bytes);
    }
}

static void
test_hook(void **state)
{
    unsigned char memory[65];
    struct hook h = { .memory = memory };
    const struct avicemu_allocator a = allocator_of(&h);

    (void)state;
    memset(memory, 0xee, sizeof(memory));
    assert_ptr_equal(ae_alloc(&a, 64, 64), memory);
    assert_int_equal(h.align, 64);
    assert_int_equal(h.bytes, 64);
    assert_int_equal(memory[0], 0);
    assert_int_equal(memory[63], 0);
    assert_int_equal(memory[64], 0xee);
    ae_free(&a, memory, 64);
    assert_ptr_equal(h.freed, memory);
    assert_int_equal(h.freed_bytes, 64);
    assert_int_equal(h.frees, 1);
}

static void
test_no_memory(void **state)
{
    struct hook h = { .memory = NULL };
    const struct avicemu_allocator a = allocator_of(&h);

    (void)state;
    assert_null(ae_alloc(&a, 64, 100));
    assert_int_equal(h.bytes, 100);
}

static void
test_free_null(void **state)
{
    struct hook h = { .memory = NULL };
    const struct avicemu_allocator a = allocator_of(&h);

    (void)state;
    ae_free(&a, NULL, 100);
    assert_int_equal(h.frees, 0);
}

int
main(void)
{
    struct CMUnitTest tests[AE_ARRAY_SIZE(rows) + 3] = {
        { "the hook gets size and alignment, the caller zeros", test_hook, NULL,
          NULL, NULL },
        { "a hook without memory yields NULL", test_no_memory, NULL, NULL,
          NULL },
        { "free of NULL does not reach the hook", test_free_null, NULL, NULL,
          NULL },
    };

    for (size_t i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        tests[3 + i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = test_default,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
