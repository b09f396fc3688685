/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report for people: a table of what was delivered and how vCPUs were
 * told, one of the work that was done, one of the books; one line that says
 * whether they close, and what is wrong if not.
 */

#include <errno.h>
#include <inttypes.h>

#include <avicemu/mock/host.h>

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

/* All tables fit a terminal of 80 columns as long as names are short. */
static void
deliveries_print(const struct avicemu_mock_report *report, FILE *file)
{
    (void)fprintf(file, "\n%-9s %-7s %5s %8s %7s %8s %5s %7s %7s %7s\n",
                  "delivered", "program", "vCPUs", "IPIs", "ticks", "MSIs",
                  "NMIs", "kicks", "wakes", "halts");
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        (void)fprintf(file,
                      "%-9s %-7s %5" PRIu32 " %8" PRIu64 " %7" PRIu64
                      " %8" PRIu64 " %5" PRIu64 " %7" PRIu64 " %7" PRIu64
                      " %7" PRIu64 "\n",
                      vm->name, vm->program, vm->nr_vcpus, vm->ipis, vm->ticks,
                      vm->msis, vm->nmis, vm->kicks, vm->wakes, vm->halts);
    }
}

static void
work_print(const struct avicemu_mock_report *report, FILE *file)
{
    (void)fprintf(file, "\n%-9s %12s %13s %10s %10s %10s %9s\n", "work",
                  "operations", "operations/s", "commands", "completed",
                  "entries", "slices");
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        (void)fprintf(file,
                      "%-9s %12" PRIu64 " %13.0f %10" PRIu64 " %10" PRIu64
                      " %10" PRIu64 " %9" PRIu64 "\n",
                      vm->name, vm->operations, rate(report, vm->operations),
                      vm->submitted, vm->completed, vm->entries, vm->slices);
    }
}

static void
paths_add(struct avicemu_mock_paths *all, const struct avicemu_mock_paths *one)
{
    all->accelerated += one->accelerated;
    all->trapped += one->trapped;
    all->faulted += one->faulted;
    all->intercepted += one->intercepted;
    all->incomplete += one->incomplete;
    all->doorbells += one->doorbells;
    all->ipi_wakes += one->ipi_wakes;
    all->ipi_software += one->ipi_software;
}

static void
path_line(const char *name, const struct avicemu_mock_paths *p, FILE *file)
{
    (void)fprintf(file,
                  "%-9s %9" PRIu64 " %7" PRIu64 " %7" PRIu64 " %9" PRIu64
                  " %8" PRIu64 " %8" PRIu64 " %7" PRIu64 " %8" PRIu64 "\n",
                  name, p->accelerated, p->trapped, p->faulted, p->intercepted,
                  p->incomplete, p->doorbells, p->ipi_wakes, p->ipi_software);
}

/* Only where some VM has AVIC. */
static void
paths_print(const struct avicemu_mock_report *report, FILE *file)
{
    struct avicemu_mock_paths all = { 0 };
    uint32_t nr = 0;

    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        if (vm->avic == 0) {
            continue;
        }
        if (nr++ == 0) {
            (void)fprintf(file, "\n%-9s %9s %7s %7s %9s %8s %8s %7s %8s\n",
                          "AVIC", "accel", "trapped", "faulted", "intercept",
                          "incompl", "bells", "wakes", "software");
        }
        path_line(vm->name, &vm->paths, file);
        paths_add(&all, &vm->paths);
    }
    if (nr != 0) {
        path_line("total", &all, file);
    }
}

/* Only where there is one. */
static void
iommu_print(const struct avicemu_mock_report *report, FILE *file)
{
    const struct avicemu_mock_iommu_report *r = &report->iommu;

    if (r->nr_iommus == 0) {
        return;
    }
    (void)fprintf(file, "\n%-9s %9s %9s %9s %9s %8s %8s %8s\n", "IOMMUs",
                  "posted", "injected", "doorbells", "GA-log", "its IRQs",
                  "wakes", "overflow");
    (void)fprintf(file,
                  "%-9" PRIu32 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
                  " %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n",
                  r->nr_iommus, r->posted, r->injected, r->doorbells, r->logged,
                  r->interrupts, r->wakes, r->overflows);
    (void)fprintf(file,
                  "GA tag to vCPU: %" PRIu64 " look-ups, mean %.1f ns, p50 "
                  "%.1f, p99 %.1f; %" PRIu64 " overlapped\n",
                  r->lookups, r->mean, r->p50, r->p99, r->overlaps);
}

static void
book_line(const struct avicemu_mock_vm_report *vm, FILE *file)
{
    (void)fprintf(file,
                  "%-9s %9" PRIu64 " = %9" PRIu64 " + %8" PRIu64 " + %7" PRIu64
                  " + %7" PRIu64 " + %7" PRIu64 " %6s\n",
                  vm->name, vm->posted, vm->delivered, vm->merged, vm->dropped,
                  vm->cleared, vm->pending, vm->closed ? "yes" : "NO");
}

static void
books_print(const struct avicemu_mock_report *report, FILE *file)
{
    struct avicemu_mock_vm_report all = { .name = "total", .closed = 1 };

    (void)fprintf(file, "\n%-9s %9s = %9s + %8s + %7s + %7s + %7s %6s\n",
                  "books", "posted", "delivered", "merged", "dropped",
                  "cleared", "pending", "closed");
    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];

        book_line(vm, file);
        all.posted += vm->posted;
        all.delivered += vm->delivered;
        all.merged += vm->merged;
        all.dropped += vm->dropped;
        all.cleared += vm->cleared;
        all.pending += vm->pending;
        all.closed &= vm->closed;
    }
    book_line(&all, file);
}

static void
reasons_print(const struct avicemu_mock_report *report, FILE *file)
{
    static const char *const reasons[AVICEMU_NR_DROP] = {
        [AVICEMU_DROP_NO_TARGET] = "no APIC has the destination",
        [AVICEMU_DROP_DISABLED] = "the APIC is off",
        [AVICEMU_DROP_ILLEGAL] = "illegal vector",
        [AVICEMU_DROP_MODE] = "delivery mode",
        [AVICEMU_DROP_DEASSERT] = "de-assertion",
        [AVICEMU_DROP_NOT_WAITING] = "no wait for a SIPI",
        [AVICEMU_DROP_MASKED] = "masked",
        [AVICEMU_DROP_ADDRESS] = "no interrupt address",
    };

    for (uint32_t i = 0; i < report->nr_vms; i++) {
        const struct avicemu_mock_vm_report *vm = &report->vms[i];
        const char *sep = " dropped because:";

        if (vm->dropped == 0) {
            continue;
        }
        (void)fputs(vm->name, file);
        for (unsigned r = 0; r < AVICEMU_NR_DROP; r++) {
            if ((vm->drop_reasons & (1u << r)) != 0) {
                (void)fprintf(file, "%s %s", sep, reasons[r]);
                sep = ",";
            }
        }
        (void)fputc('\n', file);
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
    work_print(report, file);
    paths_print(report, file);
    iommu_print(report, file);
    books_print(report, file);
    (void)fputc('\n', file);
    reasons_print(report, file);
    verdict_print(report, file);
    return fflush(file) == 0 && ferror(file) == 0 ? 0 : -EIO;
}
