/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The books.
 *
 *   posted   what devices' calls returned: NEW, MERGED, DROPPED
 *            what the library counted at a sending vCPU: the same three
 *            what a vCPU's own sources (timer, LVT error) made: NEW, MERGED
 *   went     acked + cleared + pending, by the library at the target
 *   handled  what the guest's handlers counted, here in the mock
 *
 * For each vCPU v and vector x, and what their sums say:
 *
 *   (1) handled(v, x)                    = acked(v, x)
 *   (2) device new(v, x) + local new(v, x)
 *         + IPI new to (v, x)            = acked + cleared + pending (v, x)
 *   (3) IPI new + merged + dropped, sent by v with x
 *                                        = what v's guest expected to reach
 *   (4) NMIs handled at v                = NMIs acked at v
 *   (5) no IPI of a strict program merged, but for the NMIs
 *   (6) each device's commands           = completed + under way
 *   (7) the program's own
 *   (8) IPIs dropped, sent by v          <= probes to an APIC that INIT turned
 *                                        off (guest_boot.c); MSIs dropped: the
 *                                        library has said why
 *
 * The library tells IPIs by sender and vector, and by sender and target, not
 * by all three: so (2) is checked over all vectors of each v, over all v of
 * each x, and for each (v, x) where nobody has sent x as an IPI.
 */

#include "books.h"

#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "device.h"

#define NR_VECTORS 256u

/* One column of sums: a (v, x), all of a v, or all of an x. */
struct sums {
    uint64_t device, local, ipi; /* new */
    uint64_t acked, cleared, pending;
    uint64_t handled;
};

struct closing {
    struct avicemu_mock_host *host;
    struct avicemu_mock_vm *vm;
    struct avicemu_mock_vm_report *report;
    unsigned faults;
    struct sums vectors[NR_VECTORS];
    bool several[NR_VECTORS]; /* some MSI of it had no one target */
};

/* ---- comparing ---------------------------------------------------------- */

static void
sums_add(struct sums *to, const struct sums *from)
{
    to->device += from->device;
    to->local += from->local;
    to->ipi += from->ipi;
    to->acked += from->acked;
    to->cleared += from->cleared;
    to->pending += from->pending;
    to->handled += from->handled;
}

static bool
sums_close(const struct sums *s)
{
    return s->device + s->local + s->ipi ==
               s->acked + s->cleared + s->pending &&
           s->handled == s->acked;
}

static void
fault(struct closing *c, const char *where, const struct sums *s)
{
    c->faults++;
    am_host_fail(c->host,
                 "%s %s: posted new %llu (device %llu, IPI %llu, local %llu) "
                 "!= acked %llu + cleared %llu + pending %llu, or handled "
                 "%llu != acked",
                 c->vm->config->name, where,
                 (unsigned long long)(s->device + s->ipi + s->local),
                 (unsigned long long)s->device, (unsigned long long)s->ipi,
                 (unsigned long long)s->local, (unsigned long long)s->acked,
                 (unsigned long long)s->cleared, (unsigned long long)s->pending,
                 (unsigned long long)s->handled);
}

/* ---- collecting --------------------------------------------------------- */

static struct avicemu_vcpu_books
books_of(const struct avicemu_mock_cpu *cpu, unsigned vector)
{
    struct avicemu_vcpu_books books = { .size = sizeof(books) };

    if (avicemu_vcpu_books(cpu->vcpu, (uint8_t)vector, &books) != 0) {
        am_host_fail(cpu->vm->host, "%s vCPU %u: no books",
                     cpu->vm->config->name, cpu->index);
    }
    return books;
}

/* What all devices of the VM have posted to a row (CPU, or several). */
static struct am_posts
posts_to(const struct avicemu_mock_vm *vm, uint32_t row, unsigned vector)
{
    struct am_posts all = { 0, 0, 0 };

    for (uint32_t d = 0; d < vm->nr_devices; d++) {
        const struct am_posts *posts =
            &vm->devices[d]->posts[(size_t)row * NR_VECTORS + vector];

        all.new += posts->new;
        all.merged += posts->merged;
        all.dropped += posts->dropped;
    }
    return all;
}

static void
kinds_add(struct avicemu_mock_vm_report *report, unsigned vector,
          const struct sums *s)
{
    if (vector == AE_VECTOR_TIMER) {
        report->ticks += s->acked;
    } else if (s->device != 0) {
        report->msis += s->acked;
    } else if (s->local == 0) {
        report->ipis += s->acked;
    } else {
        report->others += s->acked;
    }
}

static void
posts_report(struct avicemu_mock_vm_report *report,
             const struct avicemu_vcpu_books *books,
             const struct am_posts *posts)
{
    report->merged += posts->merged + books->local_merged + books->ipi_merged;
    report->dropped += posts->dropped + books->ipi_dropped;
    report->posted += posts->new + posts->merged + posts->dropped +
                      books->local_new + books->local_merged + books->ipi_new +
                      books->ipi_merged + books->ipi_dropped;
    report->delivered += books->acked;
    report->cleared += books->cleared;
    report->pending += books->pending;
}

/* ---- one vCPU ----------------------------------------------------------- */

static void
sender_check(struct closing *c, const struct avicemu_mock_cpu *cpu,
             unsigned vector, const struct avicemu_vcpu_books *books)
{
    uint64_t sent = books->ipi_new + books->ipi_merged + books->ipi_dropped;

    if (sent != cpu->expected[vector]) {
        c->faults++;
        am_host_fail(c->host,
                     "%s vCPU %u vector %02xh: its guest sent IPIs to %llu "
                     "targets, the library counted %llu",
                     c->vm->config->name, cpu->index, vector,
                     (unsigned long long)cpu->expected[vector],
                     (unsigned long long)sent);
    }
    if (c->vm->program == &am_program_ipi &&
        c->vm->config->ipi == AVICEMU_MOCK_IPI_STRICT &&
        books->ipi_merged != 0) {
        c->faults++;
        am_host_fail(c->host,
                     "%s vCPU %u vector %02xh: %llu IPIs merged, and the "
                     "protocol allows none",
                     c->vm->config->name, cpu->index, vector,
                     (unsigned long long)books->ipi_merged);
    }
}

static uint64_t
ipis_to(struct closing *c, struct avicemu_mock_cpu *cpu)
{
    uint64_t all = 0, one = 0;

    for (uint32_t s = 0; s < c->vm->nr_cpus; s++) {
        if (c->vm->cpus[s]->has_sent &&
            avicemu_vcpu_ipi_new_to(c->vm->cpus[s]->vcpu, cpu->vcpu, &one) ==
                0) {
            all += one;
        }
    }
    return all;
}

/* A drop needs a reason. Of a caller's own program we know none. */
static void
drops_check(struct closing *c, const struct avicemu_mock_cpu *cpu,
            uint64_t dropped)
{
    if (cpu->may_drop != 0 && dropped != 0) {
        c->report->drop_reasons |= 1u << AVICEMU_DROP_DISABLED;
    }
    if (c->vm->config->program == NULL && dropped > cpu->may_drop) {
        c->faults++;
        am_host_fail(c->host,
                     "%s vCPU %u: %llu of its IPIs were dropped, and only "
                     "%llu had a reason",
                     c->vm->config->name, cpu->index,
                     (unsigned long long)dropped,
                     (unsigned long long)cpu->may_drop);
    }
}

static void
cpu_vectors(struct closing *c, const struct avicemu_mock_cpu *cpu,
            struct sums *all)
{
    uint64_t dropped = 0;
    char where[64];

    for (unsigned x = 0; x < NR_VECTORS; x++) {
        struct avicemu_vcpu_books books = books_of(cpu, x);
        struct am_posts posts = posts_to(c->vm, cpu->index, x);
        struct sums one = { .device = posts.new,
                            .local = books.local_new,
                            .acked = books.acked,
                            .cleared = books.cleared,
                            .pending = books.pending,
                            .handled = cpu->handled[x] };

        sender_check(c, cpu, x, &books);
        posts_report(c->report, &books, &posts);
        kinds_add(c->report, x, &one);
        dropped += books.ipi_dropped;
        sums_add(all, &one);
        if (c->vectors[x].ipi == 0 && !c->several[x] && !sums_close(&one)) {
            (void)snprintf(where, sizeof(where), "vCPU %u vector %02xh",
                           cpu->index, x);
            fault(c, where, &one);
        } else if (one.handled != one.acked) {
            c->faults++;
            am_host_fail(c->host,
                         "%s vCPU %u vector %02xh: %llu acked by the library, "
                         "%llu handled by the guest",
                         c->vm->config->name, cpu->index, x,
                         (unsigned long long)one.acked,
                         (unsigned long long)one.handled);
        }
        sums_add(&c->vectors[x], &one);
    }
    drops_check(c, cpu, dropped);
}

static void
paths_add(struct avicemu_mock_paths *paths,
          const struct avicemu_vcpu_stats *stats)
{
    paths->accelerated += stats->avic_accelerated;
    paths->trapped += stats->avic_trapped;
    paths->faulted += stats->avic_faulted;
    paths->intercepted += stats->avic_intercepted;
    paths->incomplete += stats->avic_incomplete;
    paths->doorbells += stats->doorbells;
    paths->ipi_wakes += stats->ipi_wakes;
    paths->ipi_software += stats->ipi_software;
    paths->flips += stats->avic_flips;
}

static void
cpu_counts(struct closing *c, const struct avicemu_mock_cpu *cpu)
{
    struct avicemu_vcpu_stats stats = { .size = sizeof(stats) };

    (void)avicemu_vcpu_stats(cpu->vcpu, &stats);
    c->report->nmis += stats.nmi;
    c->report->inits += stats.init;
    c->report->sipis += stats.sipi;
    c->report->entries += stats.entries;
    c->report->halts += cpu->halts;
    c->report->slices += cpu->slices;
    c->report->kicks += cpu->kicks;
    c->report->wakes += cpu->wakes;
    c->report->paths.in_guest += cpu->in_guest;
    paths_add(&c->report->paths, &stats);
    if (stats.nmi != cpu->nmi_handled || stats.ipi_sent != cpu->icr_writes) {
        c->faults++;
        am_host_fail(c->host,
                     "%s vCPU %u: NMIs: %llu handled, %llu acked; ICR "
                     "writes: %llu by the guest, %llu counted",
                     c->vm->config->name, cpu->index,
                     (unsigned long long)cpu->nmi_handled,
                     (unsigned long long)stats.nmi,
                     (unsigned long long)cpu->icr_writes,
                     (unsigned long long)stats.ipi_sent);
    }
}

static void
cpu_close(struct closing *c, struct avicemu_mock_cpu *cpu)
{
    struct sums all = { .ipi = ipis_to(c, cpu) };
    char where[64];
    unsigned before = c->faults;
    bool several = false;

    cpu_vectors(c, cpu, &all);
    cpu_counts(c, cpu);
    for (unsigned x = 0; x < NR_VECTORS; x++) {
        several |= c->several[x];
    }
    /* One line for one fault: a vector of this vCPU has told it already. */
    if (!several && c->faults == before && !sums_close(&all)) {
        (void)snprintf(where, sizeof(where), "vCPU %u, all vectors",
                       cpu->index);
        fault(c, where, &all);
    }
}

/* ---- one VM ------------------------------------------------------------- */

/* Before the vCPUs: who has sent what to nobody in particular. */
static void
vectors_begin(struct closing *c)
{
    for (unsigned x = 0; x < NR_VECTORS; x++) {
        struct am_posts posts = posts_to(c->vm, c->vm->nr_cpus, x);

        c->vectors[x].device = posts.new;
        c->several[x] = posts.new != 0;
        c->report->posted += posts.new + posts.merged + posts.dropped;
        c->report->merged += posts.merged;
        c->report->dropped += posts.dropped;
        for (uint32_t v = 0; v < c->vm->nr_cpus; v++) {
            uint64_t new = books_of(c->vm->cpus[v], x).ipi_new;

            c->vectors[x].ipi += new;
            c->vm->cpus[v]->has_sent |= new != 0;
        }
    }
}

static void
vectors_end(struct closing *c)
{
    char where[64];

    for (unsigned x = 0; x < NR_VECTORS && c->faults == 0; x++) {
        if (!sums_close(&c->vectors[x])) {
            (void)snprintf(where, sizeof(where), "all vCPUs vector %02xh", x);
            fault(c, where, &c->vectors[x]);
        }
    }
}

/* Every MSI that the library has dropped has a reason. */
static void
device_drops(struct closing *c, const struct am_device *device)
{
    uint64_t dropped = 0;

    for (size_t i = 0; i < (size_t)(c->vm->nr_cpus + 1) * NR_VECTORS; i++) {
        dropped += device->posts[i].dropped;
    }
    c->report->drop_reasons |= device->why;
    if (dropped != 0 && device->why == 0) {
        c->faults++;
        am_host_fail(c->host,
                     "%s device %s: %llu MSIs dropped without a reason",
                     c->vm->config->name, device->config->name,
                     (unsigned long long)dropped);
    }
}

static void
devices_close(struct closing *c)
{
    for (uint32_t d = 0; d < c->vm->nr_devices; d++) {
        struct am_device *device = c->vm->devices[d];
        uint64_t under_way = device->heap.nr_items, unfetched = 0;

        for (uint32_t q = 0; q < device->nr_queues; q++) {
            unfetched += am_ring_count(device->queues[q].sq);
        }
        device_drops(c, device);
        c->report->submitted += device->fetched + unfetched;
        c->report->completed += device->completed;
        if (device->fetched != device->completed + under_way) {
            c->faults++;
            am_host_fail(c->host,
                         "%s device %s: %llu commands fetched, %llu "
                         "completed, %llu under way",
                         c->vm->config->name, device->config->name,
                         (unsigned long long)device->fetched,
                         (unsigned long long)device->completed,
                         (unsigned long long)under_way);
        }
    }
}

static void
program_close(struct closing *c)
{
    char line[160] = "";
    unsigned faults = 0;

    if (c->vm->program->check != NULL) {
        faults = c->vm->program->check(c->vm, c->vm->state, line, sizeof(line));
    }
    if (faults != 0) {
        am_host_fail(c->host, "%s: %u faults in the driver's books: %s",
                     c->vm->config->name, faults, line);
    }
    c->faults += faults;
    faults = avicemu_check_invariants(c->vm->vm, line, sizeof(line));
    if (faults != 0) {
        am_host_fail(c->host, "%s: %u invariants do not hold: %s",
                     c->vm->config->name, faults, line);
    }
    c->faults += faults;
}

static void
vm_close(struct closing *c)
{
    memset(c->vectors, 0, sizeof(c->vectors));
    memset(c->several, 0, sizeof(c->several));
    c->faults = 0;
    (void)snprintf(c->report->name, sizeof(c->report->name), "%s",
                   c->vm->config->name);
    (void)snprintf(c->report->program, sizeof(c->report->program), "%s",
                   c->vm->program->name);
    c->report->nr_vcpus = c->vm->nr_cpus;
    c->report->operations = c->vm->operations;
    c->report->avic = c->vm->avic;
    c->report->vcpu_bytes = avicemu_vm_vcpu_bytes(c->vm->vm);
    c->report->paths.toggles = c->vm->toggles;
    vectors_begin(c);
    for (uint32_t v = 0; v < c->vm->nr_cpus; v++) {
        cpu_close(c, c->vm->cpus[v]);
    }
    vectors_end(c);
    devices_close(c);
    program_close(c);
    c->report->closed = c->faults == 0;
}

/* ---- all ---------------------------------------------------------------- */

static bool
report_fill(struct avicemu_mock_report *report, struct avicemu_mock_host *host)
{
    uint32_t lines = host->nr_failures < AE_MAX_FAILURES ? host->nr_failures
                                                         : AE_MAX_FAILURES;

    report->seed = host->scenario.seed;
    report->interrupted = host->interrupts != 0;
    report->trace_hash = host->sim != NULL ? host->trace_hash : 0;
    report->trace_events = host->trace_events;
    report->nr_failures = host->nr_failures;
    report->closed = host->nr_failures == 0;
    report->failures = calloc(lines + 1u, sizeof(*report->failures));
    if (report->failures == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < lines; i++) {
        report->failures[i] = host->failures[i];
        host->failures[i] = NULL;
    }
    return true;
}

struct avicemu_mock_report *
am_books_close(struct avicemu_mock_host *host)
{
    struct avicemu_mock_report *report = calloc(1, sizeof(*report));
    struct closing *closing = calloc(1, sizeof(*closing));
    bool ok = report != NULL && closing != NULL;

    if (ok) {
        report->vms = calloc(host->nr_vms, sizeof(*report->vms));
        ok = report->vms != NULL;
    }
    if (ok) {
        report->nr_vms = host->nr_vms;
        closing->host = host;
        for (uint32_t i = 0; i < host->nr_vms; i++) {
            closing->vm = host->vms[i];
            closing->report = &report->vms[i];
            vm_close(closing);
        }
        am_books_iommu(&report->iommu, host);
        ok = report_fill(report, host);
    }
    free(closing);
    if (!ok) {
        avicemu_mock_report_free(report);
        return NULL;
    }
    return report;
}

void
avicemu_mock_report_free(struct avicemu_mock_report *report)
{
    if (report == NULL) {
        return;
    }
    for (uint32_t i = 0; report->failures != NULL && i < report->nr_failures &&
                         i < AE_MAX_FAILURES;
         i++) {
        free(report->failures[i]);
    }
    free(report->failures);
    free(report->vms);
    free(report);
}
