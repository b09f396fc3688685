/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The test's one local APIC.
 */

#include "face.h"

/* clang-format off: cmocka wants these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format on */

#include <stdlib.h>

#include <cmocka.h>

#include "hw/lapic.h"

int
bench_setup(void **state)
{
    const struct avicemu_lapic_config *config = *state;
    size_t bytes = (avicemu_hw_lapic_bytes() + 63) / 64 * 64;
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->memory = aligned_alloc(AVICEMU_HW_LAPIC_ALIGN, bytes);
    b->page = aligned_alloc(4096, 4096);
    b->out.size = sizeof(b->out);
    assert_int_equal(
        avicemu_hw_lapic_init(b->memory, b->page, config, 5, 1, &b->l), 0);
    *state = b;
    return 0;
}

int
bench_teardown(void **state)
{
    struct bench *b = *state;

    free(b->memory);
    free(b->page);
    free(b);
    return 0;
}

void
w(struct bench *b, uint32_t offset, uint32_t value)
{
    assert_int_equal(
        avicemu_hw_lapic_write(b->l, offset, 4, 0, &value, &b->out), DONE);
}

uint32_t
r(struct bench *b, uint32_t offset)
{
    uint32_t value = 0;

    assert_int_equal(avicemu_hw_lapic_read(b->l, offset, 4, 0, &value, &b->out),
                     DONE);
    return value;
}

uint32_t
esr(struct bench *b)
{
    w(b, LAPIC_ESR, 0);
    return r(b, LAPIC_ESR);
}
