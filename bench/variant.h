/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_VARIANT_H
#define BENCH_VARIANT_H

/*
 * Designs of a block, loaded (variant.c), and the faces by which their measured
 * loops and checks are called. The loop itself is compiled into the variant, so
 * that a look-up is as direct in a rival as it is in the library.
 */

#include <stdbool.h>
#include <stdint.h>

#include <avicemu/mock/variant.h>

#include "rivals/vmtable/keys.h"

/* Block vmtable: variant_vmtable.c. */
struct variant_vmtable {
    /* A table, and a reader of it; NULL: no memory. */
    void *(*create)(void);
    void (*destroy)(void *table);
    void *(*reader)(void *table);
    void (*reader_end)(void *table, void *reader);
    /* A tag of keys_who(). */
    bool (*publish)(void *table, uint32_t tag);
    void (*remove)(void *table, uint32_t tag);
    void (*synchronize)(void *table);
    /* n look-ups, in batches of a drain each; how many found whom they should.
     */
    uint64_t (*find)(void *table, void *reader, struct keys *keys, uint64_t n);
    /* Its tests, invariants and races. NULL: all is well; else what is not. */
    const char *(*check)(void);
};

/* The variant; the reason goes to stderr where there is none. */
const struct avicemu_mock_variant *
variant_load(const char *block, const char *name);

/* What is wrong with a design of the VM table, by its check, which is run the
 * first time; NULL: nothing. */
const char *
variant_fault(const struct avicemu_mock_variant *v);

/* Names of the designs of a block that were built; NULL ends them. */
extern const char *const variant_vmtable_names[];

#endif
