/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that post through IOMMUs: every run closes its books, the virtual
 * clock repeats, and look-ups are counted. And the histogram that holds them.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "histogram.h"
#include "support.h"

struct row {
    const char *name;
    enum avicemu_mock_clock clock;
    uint32_t iommus, vcpus, pcpus, toggle;
    enum avicemu_mock_avic avic;
};

static const struct row rows[] = {
    { "virtual, one IOMMU", AVICEMU_MOCK_CLOCK_VIRTUAL, 1, 4, 2, 0,
      AVICEMU_MOCK_X2AVIC },
    { "virtual, AVIC off and on", AVICEMU_MOCK_CLOCK_VIRTUAL, 2, 4, 3, 2000,
      AVICEMU_MOCK_X2AVIC },
    { "virtual, hybrid", AVICEMU_MOCK_CLOCK_VIRTUAL, 2, 4, 4, 0,
      AVICEMU_MOCK_AVIC },
    { "threads", AVICEMU_MOCK_CLOCK_WALL, 2, 4, 4, 0, AVICEMU_MOCK_X2AVIC },
    { "threads, AVIC off and on", AVICEMU_MOCK_CLOCK_WALL, 2, 4, 2, 500,
      AVICEMU_MOCK_X2AVIC },
};

static struct avicemu_mock_report *
run(const struct row *row)
{
    struct avicemu_mock_scenario *s =
        support_scenario("nvme", row->vcpus, AVICEMU_APIC_X2APIC);
    struct avicemu_mock_report *report;

    s->clock = row->clock;
    s->avic = row->avic;
    s->nr_iommus = row->iommus;
    s->nr_pcpus = row->pcpus;
    s->duration_ns = 100000000;
    s->vms[0].avic = 1;
    s->vms[0].toggle = row->toggle;
    (void)support_disk(s);
    (void)support_disk(s);
    report = support_run(s, NULL);
    free(s);
    return report;
}

static void
test_row(void **state)
{
    const struct row *row = *state;
    struct avicemu_mock_report *report = run(row);
    const struct avicemu_mock_iommu_report *r = &report->iommu;

    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        print_message("    %s\n", report->failures[i]);
    }
    assert_int_equal(report->closed, 1);
    assert_int_equal(r->nr_iommus, row->iommus);
    assert_true(r->posted > 0);
    assert_int_equal(r->injected != 0, row->toggle != 0);
    assert_int_equal(r->logged, r->drained);
    assert_int_equal(r->lookups, r->drained);
    assert_true(r->logged > 0 && r->interrupts <= r->logged);
    if (row->clock == AVICEMU_MOCK_CLOCK_VIRTUAL) {
        struct avicemu_mock_report *again = run(row);

        assert_int_equal(again->trace_hash, report->trace_hash);
        assert_int_equal(again->iommu.logged, r->logged);
        avicemu_mock_report_free(again);
    }
    avicemu_mock_report_free(report);
}

static void
test_histogram(void **state)
{
    static struct am_histogram h, other;

    (void)state;
    assert_true(am_histogram_quantile(&h, 0.5) == 0);
    assert_true(am_histogram_mean(&h) == 0);
    for (uint64_t v = 1; v <= 1000; v++) {
        am_histogram_add(&h, v);
    }
    am_histogram_add(&other, UINT64_MAX);
    assert_true(am_histogram_mean(&h) == 500.5);
    /* Right to 6 %. */
    assert_true(am_histogram_quantile(&h, 0.5) > 470 &&
                am_histogram_quantile(&h, 0.5) < 530);
    assert_true(am_histogram_quantile(&h, 0.99) > 930 &&
                am_histogram_quantile(&h, 0.99) < 1050);
    assert_true(am_histogram_quantile(&h, 0) == 1);
    am_histogram_merge(&h, &other);
    assert_true(am_histogram_quantile(&h, 1) > 1e19);
    for (uint64_t v = 0; v < 16; v++) {
        static struct am_histogram one;

        one = (struct am_histogram){ .nr = 0 };
        am_histogram_add(&one, v);
        assert_true(am_histogram_quantile(&one, 0.5) == (double)v);
    }
}

int
main(void)
{
    enum {
        NR = sizeof(rows) / sizeof(rows[0])
    };
    static struct CMUnitTest tests[NR + 1];

    for (unsigned i = 0; i < NR; i++) {
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = test_row,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    tests[NR] = (struct CMUnitTest)cmocka_unit_test(test_histogram);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
