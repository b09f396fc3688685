/* SPDX-License-Identifier: BSD-2-Clause */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000u

struct avicemu_mock_scenario *
support_scenario(const char *program, uint32_t nr_vcpus,
                 enum avicemu_apic_mode mode)
{
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));

    assert_non_null(s);
    avicemu_mock_scenario_init(s);
    s->clock = AVICEMU_MOCK_CLOCK_VIRTUAL;
    s->duration_ns = 20u * MS;
    s->slice_ns = MS / 2;
    s->nr_vms = 1;
    avicemu_mock_vm_init(&s->vms[0], "one");
    (void)snprintf(s->vms[0].program_name, sizeof(s->vms[0].program_name), "%s",
                   program);
    s->vms[0].nr_vcpus = nr_vcpus;
    s->vms[0].mode = mode;
    s->vms[0].timer = AVICEMU_MOCK_TIMER_OFF;
    s->vms[0].tick_ns = MS;
    return s;
}

struct avicemu_mock_device_config *
support_disk(struct avicemu_mock_scenario *scenario)
{
    struct avicemu_mock_device_config *disk =
        &scenario->devices[scenario->nr_devices++];

    avicemu_mock_device_init(disk, "disk");
    disk->vm = 0;
    return disk;
}

struct avicemu_mock_report *
support_run(const struct avicemu_mock_scenario *scenario,
            const struct avicemu_mock_options *options)
{
    struct avicemu_mock_report *report = NULL;
    struct avicemu_mock_host *host = NULL;

    assert_int_equal(avicemu_mock_host_create(scenario, options, &host), 0);
    assert_int_equal(avicemu_mock_host_run(host, &report), 0);
    avicemu_mock_host_destroy(host);
    assert_non_null(report);
    return report;
}

struct avicemu_mock_report *
support_run_closed(const struct avicemu_mock_scenario *scenario)
{
    struct avicemu_mock_report *report = support_run(scenario, NULL);

    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        print_error("%s\n", report->failures[i]);
    }
    assert_int_equal(report->nr_failures, 0);
    assert_int_equal(report->closed, 1);
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        assert_int_equal(vm->closed, 1);
        assert_true(vm->posted == vm->delivered + vm->merged + vm->dropped +
                                      vm->cleared + vm->pending);
    }
    return report;
}

int
support_failed_with(const struct avicemu_mock_report *report, const char *words)
{
    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        if (strstr(report->failures[i], words) != NULL) {
            return 1;
        }
    }
    return 0;
}
