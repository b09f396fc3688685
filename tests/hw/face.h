/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_HW_FACE_H
#define TESTS_HW_FACE_H

/*
 * One local APIC through the hardware face, in memory of the test's own, and
 * register accesses that must succeed.
 */

#include <avicemu/hw/lapic.h>

#define AMD   AVICEMU_PERSONALITY_AMD
#define INTEL AVICEMU_PERSONALITY_INTEL
#define KVM   AVICEMU_PERSONALITY_KVM
#define X2    AVICEMU_LAPIC_X2APIC
#define DONE  AVICEMU_ACCESS_DONE

struct bench {
    struct avicemu_hw_lapic *l;
    struct avicemu_hw_outcome out;
    void *memory, *page;
};

/* *state: in, a struct avicemu_lapic_config; out, a struct bench. */
int
bench_setup(void **state);
int
bench_teardown(void **state);

/* xAPIC register write and read; ESR: latched, then read. */
void
w(struct bench *b, uint32_t offset, uint32_t value);
uint32_t
r(struct bench *b, uint32_t offset);
uint32_t
esr(struct bench *b);

#endif
