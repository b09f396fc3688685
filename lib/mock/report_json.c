/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report as one JSON object: the members have the names of the structs'.
 * 64-bit numbers that may be above 2^53, the hash and the seed, are strings.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include <avicemu/mock/host.h>

static json_t *
number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

struct count {
    const char *name;
    uint64_t n;
};

static int
counts_set(json_t *object, const struct count *counts, size_t nr)
{
    int rc = 0;

    for (size_t i = 0; i < nr; i++) {
        rc |= json_object_set_new(object, counts[i].name, number(counts[i].n));
    }
    return rc;
}

static int
vm_paths(json_t *object, const struct avicemu_mock_paths *paths)
{
    const struct count counts[] = {
        { "accelerated", paths->accelerated },
        { "trapped", paths->trapped },
        { "faulted", paths->faulted },
        { "intercepted", paths->intercepted },
        { "incomplete", paths->incomplete },
        { "doorbells", paths->doorbells },
        { "ipi_wakes", paths->ipi_wakes },
        { "ipi_software", paths->ipi_software },
        { "in_guest", paths->in_guest },
        { "flips", paths->flips },
        { "toggles", paths->toggles },
    };

    return counts_set(object, counts, sizeof(counts) / sizeof(counts[0]));
}

static int
vm_counts(json_t *object, const struct avicemu_mock_vm_report *vm)
{
    const struct count counts[] = {
        { "nr_vcpus", vm->nr_vcpus },
        { "avic", vm->avic },
        { "vcpu_bytes", vm->vcpu_bytes },
        { "posted", vm->posted },
        { "delivered", vm->delivered },
        { "merged", vm->merged },
        { "dropped", vm->dropped },
        { "cleared", vm->cleared },
        { "pending", vm->pending },
        { "ipis", vm->ipis },
        { "drop_reasons", vm->drop_reasons },
        { "ticks", vm->ticks },
        { "msis", vm->msis },
        { "others", vm->others },
        { "nmis", vm->nmis },
        { "kicks", vm->kicks },
        { "wakes", vm->wakes },
        { "halts", vm->halts },
        { "entries", vm->entries },
        { "slices", vm->slices },
        { "inits", vm->inits },
        { "sipis", vm->sipis },
        { "operations", vm->operations },
        { "submitted", vm->submitted },
        { "completed", vm->completed },
    };

    return counts_set(object, counts, sizeof(counts) / sizeof(counts[0]));
}

static json_t *
vm_json(const struct avicemu_mock_vm_report *vm)
{
    json_t *object = json_object();
    int rc = json_object_set_new(object, "name", json_string(vm->name));

    rc |= json_object_set_new(object, "program", json_string(vm->program));
    rc |= json_object_set_new(object, "closed", json_boolean(vm->closed));
    rc |= vm_counts(object, vm);
    rc |= json_object_set_new(object, "paths", json_object());
    rc |= vm_paths(json_object_get(object, "paths"), &vm->paths);
    if (rc != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *
iommu_json(const struct avicemu_mock_iommu_report *r)
{
    const struct count counts[] = {
        { "nr_iommus", r->nr_iommus },   { "posted", r->posted },
        { "injected", r->injected },     { "to_host", r->to_host },
        { "aborted", r->aborted },       { "doorbells", r->doorbells },
        { "logged", r->logged },         { "overflows", r->overflows },
        { "interrupts", r->interrupts }, { "drained", r->drained },
        { "unknown", r->unknown },       { "wakes", r->wakes },
        { "routes", r->routes },         { "commands", r->commands },
        { "lookups", r->lookups },       { "overlaps", r->overlaps },
    };
    json_t *object = json_object();
    int rc = counts_set(object, counts, sizeof(counts) / sizeof(counts[0]));

    rc |= json_object_set_new(object, "mean", json_real(r->mean));
    rc |= json_object_set_new(object, "p50", json_real(r->p50));
    rc |= json_object_set_new(object, "p99", json_real(r->p99));
    if (rc != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static int
run_json(json_t *root, const struct avicemu_mock_report *report)
{
    char text[32];
    int rc;

    rc = json_object_set_new(root, "closed", json_boolean(report->closed));
    rc |= json_object_set_new(root, "interrupted",
                              json_boolean(report->interrupted));
    rc |= json_object_set_new(root, "elapsed_ns", number(report->elapsed_ns));
    (void)snprintf(text, sizeof(text), "%" PRIu64, report->seed);
    rc |= json_object_set_new(root, "seed", json_string(text));
    (void)snprintf(text, sizeof(text), "%016" PRIx64, report->trace_hash);
    rc |= json_object_set_new(root, "trace_hash", json_string(text));
    rc |=
        json_object_set_new(root, "trace_events", number(report->trace_events));
    rc |= json_object_set_new(root, "nr_failures", number(report->nr_failures));
    return rc;
}

static int
lists_json(json_t *root, const struct avicemu_mock_report *report)
{
    json_t *vms = json_array(), *failures = json_array();
    int rc = 0;

    for (uint32_t i = 0; i < report->nr_vms; i++) {
        rc |= json_array_append_new(vms, vm_json(&report->vms[i]));
    }
    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        rc |= json_array_append_new(failures, json_string(report->failures[i]));
    }
    rc |= json_object_set_new(root, "vms", vms);
    rc |= json_object_set_new(root, "iommu", iommu_json(&report->iommu));
    rc |= json_object_set_new(root, "failures", failures);
    return rc;
}

int
avicemu_mock_report_json(const struct avicemu_mock_report *report, FILE *file)
{
    json_t *root = json_object();
    int rc = run_json(root, report) | lists_json(root, report);

    if (rc != 0) {
        json_decref(root);
        return -ENOMEM;
    }
    rc = json_dumpf(root, file, JSON_INDENT(2));
    json_decref(root);
    return rc == 0 && fputc('\n', file) != EOF && fflush(file) == 0 ? 0 : -EIO;
}
