/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPI storms with AVIC: every vCPU to every other one over few and many pCPU
 * tokens; more threads than any machine has cores, on small stacks; and
 * thousands of vCPUs on one thread. Books closed, no wake-up lost, and the
 * memory of a vCPU printed.
 *
 * All are bounded by operations, not by time; under sanitizers there are fewer
 * of them, fewer vCPUs, and larger stacks.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/avic.h>
#include <avicemu/vm.h>

#include "support.h"

#define MS 1000000u

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

/* The library and the guest's programs need less; a sanitizer's frames and
 * its own bookkeeping need much more. */
#define SMALL_STACK (SLOW ? 1024u * 1024u : 64u * 1024u)

#define XAPIC    AVICEMU_APIC_XAPIC
#define X2APIC   AVICEMU_APIC_X2APIC
#define AVIC     AVICEMU_MOCK_AVIC
#define X2AVIC   AVICEMU_MOCK_X2AVIC
#define EXT      AVICEMU_MOCK_X2AVIC_EXT
#define STRICT   AVICEMU_MOCK_IPI_STRICT
#define FLOOD    AVICEMU_MOCK_IPI_FLOOD
#define VIRTUAL  AVICEMU_MOCK_CLOCK_VIRTUAL
#define WALL     AVICEMU_MOCK_CLOCK_WALL
#define MIXED    AVICEMU_MOCK_DESTINATION_MIXED
#define PHYSICAL AVICEMU_MOCK_DESTINATION_PHYSICAL

struct row {
    const char *name;
    enum avicemu_mock_clock clock;
    enum avicemu_mock_avic avic;
    enum avicemu_apic_mode mode;
    enum avicemu_mock_ipi ipi;
    enum avicemu_mock_destination destination;
    uint32_t nr_vcpus, nr_pcpus;
    uint32_t ipiv, erratum, toggle;
    uint32_t stack_bytes;
    uint64_t operations, slow_operations;
};

/* clang-format off */
static const struct row rows[] = {
    { "32 vCPUs, 2 tokens",            WALL, X2AVIC, X2APIC, STRICT, MIXED,    32,  2, 1, 0, 0, 0, 60000, 6000 },
    { "32 vCPUs, 8 tokens",            WALL, X2AVIC, X2APIC, STRICT, MIXED,    32,  8, 1, 0, 0, 0, 60000, 6000 },
    { "32 vCPUs, 32 tokens",           WALL, X2AVIC, X2APIC, STRICT, MIXED,    32, 32, 1, 0, 0, 0, 60000, 6000 },
    { "32 vCPUs, 8 tokens, xAPIC",     WALL, AVIC,   XAPIC,  STRICT, MIXED,    32,  8, 1, 0, 0, 0, 60000, 6000 },
    { "32 vCPUs, 8 tokens, hybrid",    WALL, AVIC,   X2APIC, STRICT, MIXED,    32,  8, 1, 0, 0, 0, 30000, 3000 },
    { "32 vCPUs, 8 tokens, flood",     WALL, X2AVIC, X2APIC, FLOOD,  MIXED,    32,  8, 1, 0, 0, 0, 200000, 20000 },
    { "32 vCPUs, 8 tokens, ipiv off",  WALL, X2AVIC, X2APIC, STRICT, MIXED,    32,  8, 0, 0, 0, 0, 30000, 3000 },
    { "32 vCPUs, 8 tokens, erratum",   WALL, X2AVIC, X2APIC, STRICT, MIXED,    32,  8, 1, 1, 0, 0, 30000, 3000 },
    { "32 vCPUs, 8 tokens, toggled",   WALL, X2AVIC, X2APIC, STRICT, MIXED,    32,  8, 1, 0, 5000, 0, 120000, 60000 },
    { "512 threads, small stacks",     WALL, EXT,    X2APIC, STRICT, MIXED,   512,  8, 1, 0, 0, SMALL_STACK, 60000, 6000 },
    { "512 vCPUs, one thread",         VIRTUAL, X2AVIC, X2APIC, STRICT, MIXED,   512, 32, 1, 0, 0, 0, 80000, 10000 },
    { "4096 vCPUs, one thread",        VIRTUAL, EXT,    X2APIC, STRICT, MIXED,  4096, 64, 1, 0, 0, 0, 200000, 5000 },
    { "4096 vCPUs, too few table entries", VIRTUAL, X2AVIC, X2APIC, STRICT, PHYSICAL, 4096, 64, 1, 0, 0, 0, 2000, 500 },
};
/* clang-format on */

#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t
row_vcpus(const struct row *row)
{
    return SLOW && row->nr_vcpus > 1024 ? 1024 : row->nr_vcpus;
}

static struct avicemu_mock_scenario *
row_scenario(const struct row *row)
{
    struct avicemu_mock_scenario *s =
        support_scenario("ipi", row_vcpus(row), row->mode);

    s->clock = row->clock;
    s->nr_pcpus = row->nr_pcpus;
    s->avic = row->avic;
    s->erratum_1235 = row->erratum;
    s->duration_ns = 3600000ull * MS;
    s->watchdog_ns = 120000ull * MS; /* a busy machine is no failure */
    s->vms[0].operations = SLOW ? row->slow_operations : row->operations;
    s->vms[0].ipi = row->ipi;
    s->vms[0].destination = row->destination;
    s->vms[0].nmi_every = 50;
    s->vms[0].avic = 1;
    s->vms[0].ipiv = row->ipiv;
    s->vms[0].toggle = row->toggle;
    return s;
}

/* The paths that there must be, and those that there must not be. */
static void
paths_fit(const struct row *row, const struct avicemu_mock_vm_report *vm)
{
    const struct avicemu_mock_paths *p = &vm->paths;
    int x2avic = row->mode == XAPIC || row->avic != AVIC;
    int ids_fit = row->nr_vcpus <= 512 || row->avic == EXT;

    print_message(
        "    %llu accelerated, %llu trapped, %llu faulted, %llu "
        "intercepted, %llu incomplete, %llu doorbells, %llu wakes, "
        "%llu software IPIs, %llu taken in the guest, %llu flips\n",
        (unsigned long long)p->accelerated, (unsigned long long)p->trapped,
        (unsigned long long)p->faulted, (unsigned long long)p->intercepted,
        (unsigned long long)p->incomplete, (unsigned long long)p->doorbells,
        (unsigned long long)p->ipi_wakes, (unsigned long long)p->ipi_software,
        (unsigned long long)p->in_guest, (unsigned long long)p->flips);
    if (row->toggle != 0) {
        return; /* how long it was off is the machine's affair */
    }
    if (!ids_fit) {
        assert_int_equal(p->accelerated, 0);
        assert_int_equal(p->doorbells, 0);
        return;
    }
    assert_true(row->mode == XAPIC ? p->trapped > 0       /* SVR */
                                   : p->intercepted > 0); /* APIC_BASE */
    if (!x2avic) { /* hybrid: the hypervisor sends them */
        assert_int_equal(p->incomplete, 0);
        return;
    }
    assert_true(p->accelerated > 0);
    assert_true(p->incomplete > 0);
    if (row->ipiv == 0 || row->erratum != 0) {
        assert_int_equal(p->doorbells, 0);
    } else if (row->clock == VIRTUAL) {
        assert_true(p->doorbells > 0);
        assert_true(p->in_guest > 0);
    }
}

/* The same VM without the mock's books. */
static uint64_t
vcpu_bytes(const struct row *row, const struct avicemu_vm_config *like)
{
    struct avicemu_host_config host_config = {
        .size = sizeof(host_config),
        .avic = AVICEMU_HOST_AVIC |
                (row->avic != AVIC ? AVICEMU_HOST_X2AVIC : 0) |
                (row->avic == EXT ? AVICEMU_HOST_X2AVIC_EXT : 0),
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_pcpus = row->nr_pcpus,
    };
    struct avicemu_host *host = NULL;
    struct avicemu_vm *vm = NULL;
    uint64_t bytes;

    assert_int_equal(avicemu_host_create(&host_config, &host), 0);
    assert_int_equal(avicemu_vm_create(host, like, &vm), 0);
    bytes = avicemu_vm_vcpu_bytes(vm);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    return bytes;
}

static uint64_t
never(void *opaque)
{
    (void)opaque;
    return 0;
}

static void
memory_print(const struct row *row, const struct avicemu_mock_vm_report *vm)
{
    struct avicemu_vm_config config = {
        .size = sizeof(config),
        .flags = AVICEMU_VM_AVIC,
        .max_vcpus = row_vcpus(row),
        .max_apic_id = row_vcpus(row) - 1,
        .ops = { .now = never },
    };
    uint64_t bytes = vcpu_bytes(row, &config);

    print_message("    %llu bytes per vCPU, %llu with the books\n",
                  (unsigned long long)bytes,
                  (unsigned long long)vm->vcpu_bytes);
    /* Backing page and VMCB, and what the library itself keeps. */
    assert_true(bytes <= 3u * 4096u);
}

static void
storm_closes_its_books(void **state)
{
    const struct row *row = *state;
    struct avicemu_mock_scenario *s = row_scenario(row);
    struct avicemu_mock_options options = { .size = sizeof(options),
                                            .stack_bytes = row->stack_bytes };
    struct avicemu_mock_report *report = support_run(s, &options);
    const struct avicemu_mock_vm_report *vm = &report->vms[0];

    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        print_error("%s\n", report->failures[i]);
    }
    assert_int_equal(report->closed, 1);
    assert_int_equal(vm->avic, 1);
    assert_true(vm->operations >= s->vms[0].operations);
    assert_int_equal(vm->dropped, 0);
    paths_fit(row, vm);
    memory_print(row, vm);
    avicemu_mock_report_free(report);
    free(s);
}

int
main(void)
{
    struct CMUnitTest tests[NR_ROWS];

    for (size_t i = 0; i < NR_ROWS; i++) {
        tests[i] =
            (struct CMUnitTest){ rows[i].name, storm_closes_its_books, NULL,
                                 NULL, (void *)(uintptr_t)&rows[i] };
    }
    return cmocka_run_group_tests_name("IPI storms", tests, NULL, NULL);
}
