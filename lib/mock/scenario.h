/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_SCENARIO_H
#define AE_MOCK_SCENARIO_H

/*
 * The keys of a scenario as one table: name, place, type and allowed range.
 * The reader of files, the defaults and the check of scenarios filled by hand
 * all go by it.
 */

#include <stdbool.h>

#include <avicemu/mock/scenario.h>

enum am_section {
    AE_SECTION_HOST,
    AE_SECTION_VM,
    AE_SECTION_DEVICE,
    AE_NR_SECTION,
};

enum am_key_type {
    AE_KEY_U32,
    AE_KEY_U64,
    AE_KEY_TIME,    /* uint64_t, ns */
    AE_KEY_CHOICE,  /* an enum: min + index in choices */
    AE_KEY_PROGRAM, /* a name among choices */
    AE_KEY_VM,      /* the name of a VM: resolved when all are known */
};

#define AE_MAX_CHOICES 4

struct am_key {
    enum am_section section;
    const char *name;
    enum am_key_type type;
    size_t offset; /* in the section's struct */
    uint64_t min, max;
    uint64_t def;
    const char *choices[AE_MAX_CHOICES + 1];
};

extern const struct am_key am_keys[];
extern const unsigned am_nr_keys;

/* What an error is about; line numbers are the file reader's. */
struct am_fault {
    enum am_section section;
    uint32_t index;
    const char *key; /* NULL: the section as a whole */
    char why[160];
};

/* The struct of section number index. */
void *
am_section_of(struct avicemu_mock_scenario *s, enum am_section section,
              uint32_t index);

uint64_t
am_key_get(const struct am_key *key, const void *section);
void
am_key_set(const struct am_key *key, void *section, uint64_t value);

/* "must be 1..64", "must be one of wall, virtual" */
void
am_key_allowed(const struct am_key *key, char *buf, size_t len);

/* Ranges, and what must fit together. True: all is well. */
bool
am_scenario_fits(const struct avicemu_mock_scenario *s, struct am_fault *ret);

#endif
