/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking for the highest pending vector: the function itself, on an APIC page
 * of its own. scan-random changes the position, so branches mispredict, and the
 * baseline does the same store to move it.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "hw/vapic.h"

#define NR_KEYS 1024u

struct scan {
    _Alignas(4096) unsigned char page[4096];
    uint32_t words[8]; /* packed, for the plain loop */
    uint8_t keys[NR_KEYS];
    uint64_t found;
};

static int
scan_open(const struct bench *b, uint32_t objects, void **ret)
{
    struct scan *s = aligned_alloc(4096, sizeof(*s));

    (void)b;
    (void)objects;
    if (s == NULL) {
        return bench_fail("no memory");
    }
    memset(s, 0, sizeof(*s));
    srand(1);
    for (unsigned i = 0; i < NR_KEYS; i++) {
        s->keys[i] = (uint8_t)(16 + rand() % 240);
    }
    *ret = s;
    return 0;
}

static void
empty_run(void *state, uint64_t n)
{
    struct scan *s = state;

    for (uint64_t i = 0; i < n; i++) {
        int v = ae_vapic_highest(s->page, LAPIC_IRR);

        bench_use((uint64_t)(int64_t)v);
        s->found += v < 0;
    }
}

static int
highest_plain(const uint32_t words[8])
{
    for (int i = 7; i >= 0; i--) {
        uint32_t word = *(const volatile uint32_t *)&words[i];

        if (word != 0) {
            return i * 32 + 31 - __builtin_clz(word);
        }
    }
    return -1;
}

static void
empty_plain(void *state, uint64_t n)
{
    const struct scan *s = state;

    for (uint64_t i = 0; i < n; i++) {
        bench_use((uint64_t)(int64_t)highest_plain(s->words));
    }
}

static void
random_run(void *state, uint64_t n)
{
    struct scan *s = state;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t key = s->keys[i % NR_KEYS];

        ae_vapic_write(s->page, LAPIC_IRR + ae_vector_offset(key),
                       ae_vector_bit(key));
        s->found += ae_vapic_highest(s->page, LAPIC_IRR) == key;
        ae_vapic_write(s->page, LAPIC_IRR + ae_vector_offset(key), 0);
    }
}

static void
random_plain(void *state, uint64_t n)
{
    struct scan *s = state;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t key = s->keys[i % NR_KEYS];

        s->words[key / 32] = 1u << key % 32;
        bench_use((uint64_t)(int64_t)highest_plain(s->words));
        s->words[key / 32] = 0;
    }
}

static bool
scan_check(void *state, uint64_t nr_ops)
{
    return ((struct scan *)state)->found == nr_ops;
}

const struct bench bench_scan[] = {
    { .name = "scan",
      .what = "look for the highest pending vector; there is none",
      .baseline = "one load",
      .open = scan_open,
      .run = empty_run,
      .base = bench_raw_load,
      .check = scan_check,
      .close = free },
    { .name = "scan-plain",
      .what = "the same",
      .baseline = "plain loop of 8 words",
      .goal = 1.2,
      .open = scan_open,
      .run = empty_run,
      .base = empty_plain,
      .check = scan_check,
      .close = free },
    { .name = "scan-random",
      .what = "find one pending vector, at another place each time",
      .baseline = "plain loop of 8 words",
      .goal = 1.2,
      .open = scan_open,
      .run = random_run,
      .base = random_plain,
      .check = scan_check,
      .close = free },
    { .name = NULL },
};
