/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The books see what is lost: each kind of loss, planted, on both clocks,
 * fails the run with a line that says where. And an interrupt ends a run
 * early with its books closed.
 */

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

#define MS 1000000u

struct loss {
    const char *name;
    const char *program;
    enum avicemu_mock_clock clock;
    enum avicemu_mock_plant plant;
    uint64_t after;
    const char *words[2]; /* in some failure line; the second may be NULL */
};

/* clang-format off */
static const struct loss losses[] = {
    { "virtual: an MSI that was never sent", "nvme", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_POST, 5, { "vCPU 0 vector 50h: posted new", NULL } },
    { "virtual: a vector that nobody handled", "nvme", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_HANDLER, 5, { "vector 50h: posted new", "handled" } },
    { "virtual: an answer that nobody handled", "ipi", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_HANDLER, 50, { "acked by the library", "things" } },
    { "virtual: a wake-up that was forgotten", "nvme", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_WAKE, 5, { "lost wake-up", NULL } },
    { "virtual: a kick that was forgotten", "ipi", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_KICK, 0, { "lost kick: while it ran there came", NULL } },
    { "virtual: a wake-up that a tick would hide", "nvme+ticks", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_WAKE, 5, { "lost wake-up: it sleeps on vector 50h", NULL } },
    { "virtual: a tick that was forgotten", "ticks", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_HANDLER, 3, { "vector efh: posted new", "will never happen" } },
    { "virtual: a doorbell that was forgotten", "ipi+avic", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_DOORBELL, 1, { "lost doorbell or kick: while it ran there came vector", NULL } },
    { "virtual: AVIC, a wake-up that was forgotten", "ipi+avic", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_WAKE, 5, { "lost wake-up: it sleeps on vector", NULL } },
    { "threads: AVIC, a wake-up that was forgotten", "ipi+avic", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_WAKE, 5, { "lost wake-up: it sleeps on vector", NULL } },
    { "virtual: a GA-log interrupt that was forgotten", "nvme+iommu", AVICEMU_MOCK_CLOCK_VIRTUAL,
      AVICEMU_MOCK_PLANT_GA, 5, { "lost wake-up: it sleeps on vector 50h", "drained" } },
    { "threads: a GA-log interrupt that was forgotten", "nvme+iommu", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_GA, 5, { "no progress for", NULL } },
    { "threads: an MSI that was never sent", "nvme", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_POST, 5, { "vector 50h: posted new", NULL } },
    { "threads: a vector that nobody handled", "nvme", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_HANDLER, 5, { "vector 50h: posted new", NULL } },
    { "threads: an answer that nobody handled", "ipi", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_HANDLER, 50, { "no progress for", "acked by the library" } },
    { "threads: a wake-up that was forgotten", "ipi", AVICEMU_MOCK_CLOCK_WALL,
      AVICEMU_MOCK_PLANT_WAKE, 5, { "lost wake-up: it sleeps on vector", NULL } },
};
/* clang-format on */

#define NR_LOSSES (sizeof(losses) / sizeof(losses[0]))

static struct avicemu_mock_scenario *
loss_scenario(const char *program, enum avicemu_mock_clock clock)
{
    int ticks_too = strcmp(program, "nvme+ticks") == 0;
    int iommu = strcmp(program, "nvme+iommu") == 0;
    int avic = strcmp(program, "ipi+avic") == 0 || iommu;
    uint32_t nr_vcpus = strncmp(program, "ipi", 3) == 0 ? 2 : 1;
    struct avicemu_mock_scenario *s =
        support_scenario(ticks_too || iommu ? "nvme"
                         : avic             ? "ipi"
                                            : program,
                         nr_vcpus, AVICEMU_APIC_X2APIC);

    s->avic = avic ? AVICEMU_MOCK_X2AVIC : AVICEMU_MOCK_AVIC_OFF;
    s->vms[0].avic = avic != 0;
    s->nr_iommus = (uint32_t)iommu;
    s->clock = clock;
    if (clock == AVICEMU_MOCK_CLOCK_WALL) { /* until its operations are done */
        s->duration_ns = 100000ull * MS;
        s->vms[0].operations = 500;
    } else {
        s->duration_ns = 20u * MS;
    }
    s->watchdog_ns = 1000u * MS;
    if (strncmp(program, "nvme", 4) == 0) {
        support_disk(s)->depth = 1;
    }
    if (ticks_too || strcmp(program, "ticks") == 0) {
        s->vms[0].timer = AVICEMU_MOCK_TIMER_ONESHOT;
    }
    return s;
}

static void
loss_is_seen(void **state)
{
    const struct loss *loss = *state;
    struct avicemu_mock_scenario *s = loss_scenario(loss->program, loss->clock);
    struct avicemu_mock_options options = { .size = sizeof(options),
                                            .plant = loss->plant,
                                            .plant_after = loss->after };
    struct avicemu_mock_report *report = support_run(s, &options);

    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        print_message("    %s\n", report->failures[i]);
    }
    assert_int_equal(report->closed, 0);
    for (unsigned i = 0; i < 2; i++) {
        if (loss->words[i] != NULL) {
            assert_true(support_failed_with(report, loss->words[i]));
        }
    }
    avicemu_mock_report_free(report);
    free(s);
}

/* ---- interrupts ---------------------------------------------------------- */

static struct avicemu_mock_host *interruptible;

static void
on_signal(int number)
{
    (void)number;
    avicemu_mock_host_interrupt(interruptible);
}

static void
raise_once(void *opaque, uint64_t now_ns, uint64_t total_ns)
{
    int *raised = opaque;

    (void)total_ns;
    if (now_ns > MS && !*raised) {
        *raised = 1;
        (void)raise(SIGINT);
    }
}

static void
interrupt_with(enum avicemu_mock_clock clock)
{
    struct avicemu_mock_scenario *s = loss_scenario("nvme", clock);
    int raised = 0;
    struct avicemu_mock_options options = { .size = sizeof(options),
                                            .progress = raise_once,
                                            .opaque = &raised };
    struct sigaction action = { .sa_handler = on_signal }, before;
    struct avicemu_mock_report *report = NULL;

    s->vms[0].operations = 0;
    s->duration_ns = 3600000ull * MS;
    if (clock == AVICEMU_MOCK_CLOCK_VIRTUAL) {
        s->duration_ns = 1000u * MS; /* told every 50 ms */
    }
    assert_int_equal(avicemu_mock_host_create(s, &options, &interruptible), 0);
    assert_int_equal(sigaction(SIGINT, &action, &before), 0);
    assert_int_equal(avicemu_mock_host_run(interruptible, &report), 0);
    assert_int_equal(sigaction(SIGINT, &before, NULL), 0);
    assert_int_equal(report->interrupted, 1);
    assert_int_equal(report->closed, 1);
    assert_true(report->elapsed_ns < s->duration_ns);
    assert_int_equal(report->vms[0].submitted, report->vms[0].completed);
    avicemu_mock_host_destroy(interruptible);
    avicemu_mock_report_free(report);
    free(s);
}

static void
interrupt_closes_books_of_threads(void **state)
{
    (void)state;
    interrupt_with(AVICEMU_MOCK_CLOCK_WALL);
}

static void
interrupt_closes_books_of_virtual_run(void **state)
{
    (void)state;
    interrupt_with(AVICEMU_MOCK_CLOCK_VIRTUAL);
}

/* Two interrupts: not even what is under way is finished, and still the books
 * say where all of it is. */
static void
second_interrupt_does_not_wait(void **state)
{
    struct avicemu_mock_scenario *s =
        loss_scenario("nvme", AVICEMU_MOCK_CLOCK_WALL);
    struct avicemu_mock_report *report = NULL;
    struct avicemu_mock_host *host = NULL;

    (void)state;
    s->devices[0].service_ns = 1000u * MS;
    assert_int_equal(avicemu_mock_host_create(s, NULL, &host), 0);
    avicemu_mock_host_interrupt(host);
    avicemu_mock_host_interrupt(host);
    assert_int_equal(avicemu_mock_host_run(host, &report), 0);
    assert_int_equal(report->interrupted, 1);
    assert_int_equal(report->closed, 1);
    assert_int_equal(avicemu_mock_host_run(host, &report), -16); /* EBUSY */
    avicemu_mock_host_destroy(host);
    avicemu_mock_report_free(report);
    free(s);
}

/* ---- the report ---------------------------------------------------------- */

static void
json_says_what_the_report_says(void **state)
{
    struct avicemu_mock_scenario *s =
        loss_scenario("nvme", AVICEMU_MOCK_CLOCK_VIRTUAL);
    struct avicemu_mock_report *report = support_run_closed(s);
    FILE *file = tmpfile();
    json_t *root, *vm;

    (void)state;
    assert_non_null(file);
    assert_int_equal(avicemu_mock_report_json(report, file), 0);
    rewind(file);
    root = json_loadf(file, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "closed")));
    vm = json_array_get(json_object_get(root, "vms"), 0);
    assert_int_equal(json_integer_value(json_object_get(vm, "posted")),
                     report->vms[0].posted);
    assert_int_equal(json_integer_value(json_object_get(vm, "msis")),
                     report->vms[0].msis);
    assert_string_equal(json_string_value(json_object_get(vm, "name")), "one");
    json_decref(root);
    (void)fclose(file);
    avicemu_mock_report_free(report);
    free(s);
}

int
main(void)
{
    struct CMUnitTest tests[NR_LOSSES + 4] = {
        { "SIGINT closes the books of threads over what ran",
          interrupt_closes_books_of_threads, NULL, NULL, NULL },
        { "SIGINT closes the books of a virtual run over what ran",
          interrupt_closes_books_of_virtual_run, NULL, NULL, NULL },
        { "a second interrupt does not wait", second_interrupt_does_not_wait,
          NULL, NULL, NULL },
        { "JSON says what the report says", json_says_what_the_report_says,
          NULL, NULL, NULL },
    };

    for (size_t i = 0; i < NR_LOSSES; i++) {
        tests[4 + i] =
            (struct CMUnitTest){ losses[i].name, loss_is_seen, NULL, NULL,
                                 (void *)(uintptr_t)&losses[i] };
    }
    return cmocka_run_group_tests_name("mock books", tests, NULL, NULL);
}
