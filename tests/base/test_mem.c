/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory map: order, overlap, ends of the address space, look-ups at every
 * border, and what a failing allocator leaves behind.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rcu.h"
#define PAGE 0x1000u

static struct ae_mem map;
static unsigned allocations, fail_at;

static void *
count_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    if (fail_at != 0 && --fail_at == 0) {
        return NULL;
    }
    allocations++;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
count_free(void *opaque, void *memory, size_t bytes)
{
    (void)opaque;
    allocations--;
    memset(memory, 0xee, bytes);
    free(memory);
}

static const struct avicemu_allocator counting = {
    .alloc = count_alloc,
    .free = count_free,
};

static int
setup(void **state)
{
    (void)state;
    fail_at = 0;
    ae_mem_init(&map, &counting);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    ae_mem_fini(&map);
    assert_int_equal(allocations, 0);
    return 0;
}

/* Host memory is never touched: any page-aligned number does. */
static void *
hva(uint64_t n)
{
    return (void *)(uintptr_t)(n * PAGE);
}

static void *
find(uint64_t address, uint64_t bytes)
{
    ae_rcu_enter();
    void *p = ae_mem_find(&map, address, bytes);

    ae_rcu_leave();
    return p;
}

static void
test_refusals(void **state)
{
    static const struct {
        uint64_t base, bytes, hva;
        int want;
    } rows[] = {
        { 0x10000, 0x2000, 0x7000, 0 },
        { 0x10000, 0x1000, 0x7000, -EEXIST },  /* its beginning */
        { 0x11000, 0x1000, 0x7000, -EEXIST },  /* its end */
        { 0xf000, 0x2000, 0x7000, -EEXIST },   /* into it */
        { 0xf000, 0x10000, 0x7000, -EEXIST },  /* around it */
        { 0x11000, 0x10000, 0x7000, -EEXIST }, /* out of it */
        { 0xf000, 0x1000, 0x7000, 0 },         /* below, touching */
        { 0x12000, 0x1000, 0x7000, 0 },        /* above, touching */
        { 0x20800, 0x1000, 0x7000, -EINVAL },
        { 0x20000, 0x1800, 0x7000, -EINVAL },
        { 0x20000, 0x1000, 0x7800, -EINVAL },
        { 0x20000, 0, 0x7000, -EINVAL },
        { 0xfffffffffffff000, 0x2000, 0x7000, -EINVAL }, /* wraps */
        { 0xfffffffffffff000, 0x1000, 0x7000, 0 },       /* ends at 2^64 */
        { 0xffffffffffffe000, 0x2000, 0x7000, -EEXIST },
        { 0, 0x1000, 0x7000, 0 },
    };

    (void)state;
    for (size_t i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        assert_int_equal(ae_mem_add(&map, rows[i].base, rows[i].bytes,
                                    (void *)(uintptr_t)rows[i].hva),
                         rows[i].want);
    }
    assert_int_equal(ae_mem_remove(&map, 0x11000), -ENOENT); /* no base */
    assert_int_equal(ae_mem_remove(&map, 0x13000), -ENOENT);
    assert_int_equal(ae_mem_remove(&map, 0x10000), 0);
    assert_int_equal(ae_mem_remove(&map, 0x10000), -ENOENT);
    assert_int_equal(ae_mem_add(&map, 0x10000, 0x2000, hva(9)), 0);
}

static void
test_whole_space(void **state)
{
    (void)state;
    /* All but the last page: 2^64 itself is no length. */
    assert_int_equal(ae_mem_add(&map, 0, 0xfffffffffffff000, hva(1)), 0);
    assert_ptr_equal(find(0, 0xfffffffffffff000), hva(1));
    assert_null(find(0xfffffffffffff000, 1));
    assert_null(find(1, UINT64_MAX));
    assert_null(find(0, UINT64_MAX));
}

static void
test_borders(void **state)
{
    (void)state;
    assert_true(ae_mem_empty(&map));
    assert_null(find(0, 1));
    assert_int_equal(ae_mem_add(&map, 0x3000, 0x2000, hva(0x100)), 0);
    assert_int_equal(ae_mem_add(&map, 0x5000, 0x1000, hva(0x200)), 0);
    assert_int_equal(ae_mem_add(&map, 0xfffffffffffff000, 0x1000, hva(0x300)),
                     0);
    assert_false(ae_mem_empty(&map));
    assert_ptr_equal(find(0x3000, 1), hva(0x100));
    assert_ptr_equal(find(0x4fff, 1), (char *)hva(0x101) + 0xfff);
    assert_ptr_equal(find(0x3000, 0x2000), hva(0x100));
    assert_null(find(0x2fff, 1));
    assert_null(find(0x2fff, 2));
    assert_null(find(0x3000, 0x2001));
    assert_null(find(0x4fff, 2)); /* never across two regions */
    assert_null(find(0x3000, 0));
    assert_null(find(0x3001, UINT64_MAX));
    assert_ptr_equal(find(0x5000, 0x1000), hva(0x200));
    assert_null(find(0x6000, 1));
    assert_ptr_equal(find(UINT64_MAX, 1), (char *)hva(0x300) + 0xfff);
    assert_null(find(UINT64_MAX, 2));
}

/* Against an array of pages: what is where. */
static void
test_model(void **state)
{
    enum {
        PAGES = 64,
        STEPS = 4000
    };
    uint32_t owner[PAGES] = { 0 }; /* first page of its region, plus 1 */
    uint32_t length[PAGES] = { 0 };
    uint32_t random = 12345;

    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        uint32_t at = random >> 8 & (PAGES - 1);
        uint32_t n = 1 + (random >> 20 & 7u);
        int want = 0;

        if ((random >> 28 & 1u) != 0) {
            want = owner[at] == at + 1 ? 0 : -ENOENT;
            assert_int_equal(ae_mem_remove(&map, (uint64_t)at * PAGE), want);
            for (uint32_t i = 0; want == 0 && i < length[at]; i++) {
                owner[at + i] = 0;
            }
        } else {
            n = at + n > PAGES ? PAGES - at : n;
            for (uint32_t i = 0; i < n; i++) {
                want = owner[at + i] != 0 ? -EEXIST : want;
            }
            assert_int_equal(ae_mem_add(&map, (uint64_t)at * PAGE,
                                        (uint64_t)n * PAGE, hva(1000 + at)),
                             want);
            length[at] = want == 0 ? n : length[at];
            for (uint32_t i = 0; want == 0 && i < n; i++) {
                owner[at + i] = at + 1;
            }
        }
        for (uint32_t i = 0; i < PAGES; i++) {
            void *p = owner[i] != 0 ? hva(1000 + i) : NULL;

            assert_ptr_equal(find((uint64_t)i * PAGE, PAGE), p);
        }
    }
}

static void
test_no_memory(void **state)
{
    (void)state;
    fail_at = 1;
    assert_int_equal(ae_mem_add(&map, 0, PAGE, hva(1)), -ENOMEM);
    assert_int_equal(ae_mem_add(&map, 0, PAGE, hva(1)), 0);
    assert_int_equal(allocations, 1);
}

/* What was added can be removed without memory, in any order. */
static void
test_remove_needs_none(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(ae_mem_add(&map, i * PAGE, PAGE, hva(1 + i)), 0);
    }
    fail_at = 1;
    for (uint64_t i = 0; i < 9; i++) {
        uint64_t page = i * 5 % 9;

        assert_int_equal(ae_mem_remove(&map, page * PAGE), 0);
        assert_ptr_equal(find(page * PAGE, PAGE), NULL);
    }
    assert_true(ae_mem_empty(&map));
    assert_int_equal(fail_at, 1);
    assert_int_equal(ae_mem_add(&map, 0, PAGE, hva(1)), 0);
    fail_at = 0;
}

/* The library's own regions and the VMM's are each their owner's to remove. */
static void
test_owners(void **state)
{
    (void)state;
    assert_int_equal(ae_mem_add_own(&map, 0, PAGE, hva(1)), 0);
    assert_int_equal(ae_mem_add(&map, PAGE, PAGE, hva(2)), 0);
    assert_int_equal(ae_mem_remove(&map, 0), -ENOENT);
    assert_int_equal(ae_mem_remove_own(&map, PAGE), -ENOENT);
    assert_int_equal(ae_mem_remove_own(&map, 0), 0);
    assert_int_equal(ae_mem_remove(&map, PAGE), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_space, setup, teardown),
        cmocka_unit_test_setup_teardown(test_borders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_needs_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
