/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_MOCK_SUPPORT_H
#define TESTS_MOCK_SUPPORT_H

/* Short ways to make a scenario, run it, and say why its books are open. */

#include <avicemu/mock/host.h>

/* One VM that runs a program, with the virtual clock and a short duration. */
struct avicemu_mock_scenario *
support_scenario(const char *program, uint32_t nr_vcpus,
                 enum avicemu_apic_mode mode);

/* One more device at the first VM. */
struct avicemu_mock_device_config *
support_disk(struct avicemu_mock_scenario *scenario);

/* Run it; the caller frees the report. Fails the test if it does not run. */
struct avicemu_mock_report *
support_run(const struct avicemu_mock_scenario *scenario,
            const struct avicemu_mock_options *options);

/* Run it, and assert that the books close; prints what is open. */
struct avicemu_mock_report *
support_run_closed(const struct avicemu_mock_scenario *scenario);

/* 1: some failure line has the words. */
int
support_failed_with(const struct avicemu_mock_report *report,
                    const char *words);

#endif
