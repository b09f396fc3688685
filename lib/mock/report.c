/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report for people: one table of who was told what and how, one of the
 * books, one line that says whether they close, and what is wrong if not.
 */

#include <avicemu/mock/host.h>

#include <errno.h>
#include <inttypes.h>

static double
seconds(const struct avicemu_mock_report *report)
{
    return (double)report->elapsed_ns / 1e9;
}

static double
rate(const struct avicemu_mock_report *report, uint64_t n)
{
    return report->elapsed_ns == 0 ? 0 : (double)n / seconds(report);
}

static void
deliveries_print(const struct avicemu_mock_report *report, FILE *file)
{
    (void)fprintf(file,
                  "\n%-12s %-8s %5s %10s %10s %10s %8s %10s %10s %10s\n", "VM",
                  "program", "vCPUs", "IPIs", "ticks", "MSIs", "NMIs",
                  "by kick", "by wake", "halts");
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        (void)fprintf(file,
                      "%-12s %-8s %5" PRIu32 " %10" PRIu64 " %10" PRIu64
                      " %10" PRIu64 " %8" PRIu64 " %10" PRIu64 " %10" PRIu64
                      " %10" PRIu64 "\n",
                      vm->name, vm->program, vm->nr_vcpus, vm->ipis, vm->ticks,
                      vm->msis, vm->nmis, vm->kicks, vm->wakes, vm->halts);
    }
}

static void
books_print(const struct avicemu_mock_report *report, FILE *file)
{
    (void)fprintf(file, "\n%-12s %10s = %10s + %9s + %7s + %7s + %7s %7s %12s\n",
                  "VM", "posted", "delivered", "merged", "dropped", "cleared",
                  "pending", "closed", "operations/s");
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        (void)fprintf(file,
                      "%-12s %10" PRIu64 " = %10" PRIu64 " + %9" PRIu64
                      " + %7" PRIu64 " + %7" PRIu64 " + %7" PRIu64
                      " %7s %12.0f\n",
                      vm->name, vm->posted, vm->delivered, vm->merged,
                      vm->dropped, vm->cleared, vm->pending,
                      vm->closed ? "yes" : "NO", rate(report, vm->operations));
    }
}

static void
devices_print(const struct avicemu_mock_report *report, FILE *file)
{
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        if (vm->submitted != 0) {
            (void)fprintf(file,
                          "%s: %" PRIu64 " commands submitted, %" PRIu64
                          " completed, %.0f completions/s\n",
                          vm->name, vm->submitted, vm->completed,
                          rate(report, vm->completed));
        }
    }
}

static void
verdict_print(const struct avicemu_mock_report *report, FILE *file)
{
    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        (void)fprintf(file, "FAILED: %s\n", report->failures[i]);
    }
    if (report->nr_failures > 16) {
        (void)fprintf(file, "FAILED: and %" PRIu32 " more\n",
                      report->nr_failures - 16);
    }
    if (report->interrupted) {
        (void)fprintf(file, "Interrupted: the books are closed over what "
                            "ran.\n");
    }
    if (report->trace_events != 0) {
        (void)fprintf(file,
                      "Trace: %" PRIu64 " events, hash %016" PRIx64
                      ", seed %" PRIu64 "\n",
                      report->trace_events, report->trace_hash, report->seed);
    }
    (void)fprintf(file, "Books %s after %.2f s.\n",
                  report->closed ? "closed" : "NOT CLOSED", seconds(report));
}

int
avicemu_mock_report_print(const struct avicemu_mock_report *report, FILE *file)
{
    deliveries_print(report, file);
    books_print(report, file);
    (void)fputc('\n', file);
    devices_print(report, file);
    verdict_print(report, file);
    return fflush(file) == 0 && ferror(file) == 0 ? 0 : -EIO;
}
