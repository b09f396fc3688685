/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts, VMs and vCPUs with AVIC come and go: what a configuration may say,
 * what a failed allocation leaves behind, VMs of up to 4096 vCPUs, and state
 * that is saved, loaded and reset while AVIC is on.
 *
 * [APM2 15.29.4.3 4096 ids], [APM2 15.29.6.1 IPI delivery], [KVM_GET_LAPIC]
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

#define X1     AVICEMU_HOST_AVIC
#define X2     (AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC)
#define X2_EXT (X2 | AVICEMU_HOST_X2AVIC_EXT)

/* ---- configuration ------------------------------------------------------ */

struct config_row {
    const char *name;
    struct avicemu_host_config host;
    uint32_t flags;
    int host_result, vm_result;
};

#define AV AVICEMU_VM_AVIC

/* clang-format off */
static struct config_row config_rows[] = {
    { "config: AVIC",                          { .avic = X1 }, AV, 0, 0 },
    { "config: all of AVIC",                   { .avic = X2_EXT | AVICEMU_HOST_EXT_LVT | AVICEMU_HOST_ERRATUM_1235 }, AV | AVICEMU_VM_NO_IPIV, 0, 0 },
    { "config: 4096 doorbell words",           { .avic = X1, .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 4096 }, AV, 0, 0 },
    { "config: 52 address bits",               { .avic = X1, .maxphyaddr = 52 }, AV, 0, 0 },
    { "config: a VM without it on silicon with it", { .avic = X1 }, 0, 0, 0 },
    { "config: a VM with it on silicon without it", { .avic = 0 }, AV, 0, -EINVAL },
    { "config: an unknown VM flag",            { .avic = X1 }, AV | 1u << 3, 0, -EINVAL },
    { "config: an unknown host bit",           { .avic = X1 | 1u << 5 }, AV, -EINVAL, 0 },
    { "config: x2AVIC without AVIC",           { .avic = AVICEMU_HOST_X2AVIC }, 0, -EINVAL, 0 },
    { "config: 4096 ids without x2AVIC",       { .avic = X1 | AVICEMU_HOST_X2AVIC_EXT }, 0, -EINVAL, 0 },
    { "config: an erratum of no AVIC",         { .avic = AVICEMU_HOST_ERRATUM_1235 }, 0, -EINVAL, 0 },
    { "config: extended LVTs of no AVIC",      { .avic = AVICEMU_HOST_EXT_LVT }, 0, -EINVAL, 0 },
    { "config: 31 address bits",               { .avic = X1, .maxphyaddr = 31 }, 0, -EINVAL, 0 },
    { "config: 53 address bits",               { .avic = X1, .maxphyaddr = 53 }, 0, -EINVAL, 0 },
    { "config: no such doorbells",             { .avic = X1, .doorbells = (enum avicemu_doorbell_mode)2 }, 0, -EINVAL, 0 },
    { "config: 4097 doorbell words",           { .avic = X1, .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 4097 }, 0, -EINVAL, 0 },
};
/* clang-format on */

static void
count_log(void *opaque, enum avicemu_log_level level, const char *text)
{
    (void)text;
    *(unsigned *)opaque += level == AVICEMU_LOG_ERROR;
}

static void
test_config(void **state)
{
    const struct config_row *row = *state;
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .flags = row->flags,
                                        .log_level = AVICEMU_LOG_ERROR };
    struct avicemu_host_config host_config = row->host;
    struct fake_vmm *vmm = calloc(1, sizeof(*vmm));
    struct avicemu_host *host = NULL;
    struct avicemu_vm *vm = NULL;
    unsigned logs = 0;

    assert_non_null(vmm);
    fake_vmm_init(vmm);
    fake_vmm_config(vmm, &config);
    host_config.size = sizeof(host_config);
    host_config.log = count_log;
    host_config.log_level = AVICEMU_LOG_ERROR;
    host_config.opaque = &logs;
    assert_int_equal(avicemu_host_create(&host_config, &host),
                     row->host_result);
    if (row->host_result != 0) {
        assert_null(host);
        assert_int_equal(logs, 1);
        free(vmm);
        return;
    }
    assert_int_equal(avicemu_vm_create(host, &config, &vm), row->vm_result);
    assert_int_equal(vm != NULL, row->vm_result == 0);
    assert_int_equal(vmm->logs, row->vm_result != 0);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    free(vmm);
}

/* What the library maps for itself is not the VMM's to remove or to cover. */
static void
test_regions(void **state)
{
    struct rig *rig = *state;
    static const uint32_t pointers[] = { AVICEMU_VMCB_BACKING_PAGE,
                                         AVICEMU_VMCB_PHYSICAL_TABLE,
                                         AVICEMU_VMCB_LOGICAL_TABLE };
    void *memory = aligned_alloc(4096, 4096);

    assert_non_null(memory);
    for (size_t i = 0; i < NR(pointers); i++) {
        uint64_t at = rig_vmcb(rig->v[0], pointers[i]) & ~0xfffull;

        assert_int_equal(avicemu_host_unmap(rig->host, at), -ENOENT);
        assert_int_equal(avicemu_host_map(rig->host, at, 4096, memory),
                         -EEXIST);
    }
    assert_int_equal(avicemu_host_map(rig->host, 0, 4096, memory), 0);
    assert_int_equal(avicemu_host_unmap(rig->host, 0), 0);
    free(memory);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51); /* all still there */
    assert_int_equal(rig_irr_mask(rig, 0x51), 2);
    assert_int_equal(rig_stats(rig->v[0]).avic_incomplete, 0);
}

/* A backing page is given to the next vCPU as a new one. */
static void
test_page_again(void **state)
{
    struct rig *rig = *state;
    uint64_t page = rig_vmcb(rig->v[1], AVICEMU_VMCB_BACKING_PAGE);
    uint32_t value = 1;

    assert_int_equal(rig_physical(rig->v[0], 1) >> 62, 3);
    reg_w(rig->v[1], R_LDR, 0x02000000);
    reg_w(rig->v[1], R_TPR, 0xff);
    reg_w(rig->v[1], 0x040, 0x12345678); /* under AVIC plain memory */
    assert_int_equal(reg_r(rig->v[1], 0x040), 0x12345678);
    (void)avicemu_post(rig->v[1], 0x41, LEVEL);
    assert_int_equal(avicemu_vcpu_destroy(rig->v[1]), 0);
    rig->nr_vcpus--;
    assert_int_equal(rig_physical(rig->v[0], 1), 0);
    assert_int_equal(rig_logical(rig->v[0], 1), 0);
    assert_int_equal(rig_add(rig, 7), 1);
    assert_int_equal(rig_vmcb(rig->v[1], AVICEMU_VMCB_BACKING_PAGE), page);
    assert_int_equal(rig_physical(rig->v[0], 1), 0);
    for (uint32_t offset = R_LDR; offset <= R_TMCCT; offset += 16) {
        if (offset == R_DFR || offset == R_SVR || offset >= R_CMCI) {
            continue;
        }
        (void)avicemu_vcpu_peek(rig->v[1], offset, &value);
        assert_int_equal(value, 0);
    }
    assert_int_equal(reg_r(rig->v[1], R_TPR), 0);
    assert_int_equal(reg_r(rig->v[1], 0x040), 0);
    icr_send(rig->v[0], 1, ICR_FIXED | 0x51); /* nobody's any more */
    assert_int_equal(rig_irr_mask(rig, 0x51), 0);
    icr_send(rig->v[0], 7, ICR_FIXED | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 2);
}

/* ---- allocation --------------------------------------------------------- */

struct heap {
    unsigned fail_at; /* this one, counted from 1; 0: none */
    unsigned asked, live;
    size_t bytes;
};

static void *
heap_alloc(void *opaque, size_t align, size_t bytes)
{
    struct heap *heap = opaque;
    void *memory;

    if (++heap->asked == heap->fail_at) {
        return NULL;
    }
    memory = aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
    heap->live += memory != NULL;
    heap->bytes += bytes;
    return memory;
}

static void
heap_free(void *opaque, void *memory, size_t bytes)
{
    struct heap *heap = opaque;

    heap->live--;
    heap->bytes -= bytes;
    memset(memory, 0xee, bytes);
    free(memory);
}

#define FEW 3u

/* Make it all; 1 if it worked. Whatever was made is destroyed. */
static int
make_all(struct heap *heap, struct fake_vmm *vmm)
{
    struct avicemu_host_config host_config = {
        .size = sizeof(host_config),
        .allocator = { heap_alloc, heap_free, heap },
        .avic = X2_EXT,
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_pcpus = 8
    };
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .flags = AV | AVICEMU_VM_BOOKS };
    struct avicemu_vcpu *v[FEW] = { NULL };
    struct avicemu_host *host = NULL;
    struct avicemu_vm *vm = NULL;
    int r = avicemu_host_create(&host_config, &host);

    fake_vmm_config(vmm, &config);
    if (r == 0) {
        r = avicemu_vm_create(host, &config, &vm);
        assert_int_equal(vm == NULL, r != 0);
    } else {
        assert_null(host);
    }
    for (uint32_t i = 0; i < FEW && r == 0; i++) {
        r = avicemu_vcpu_create(vm, i, &vmm->vcpus[i], &v[i]);
        assert_int_equal(v[i] == NULL, r != 0);
        assert_int_equal(avicemu_vm_nr_vcpus(vm), i + (r == 0));
        assert_int_equal(avicemu_vm_inhibits(vm), 0);
    }
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(v[i] == NULL ? 0 : avicemu_vcpu_destroy(v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    assert_true(r == 0 || r == -ENOMEM);
    return r == 0;
}

/* Also where it is destruction that asks. */
static void
test_no_memory(void **state)
{
    struct fake_vmm *vmm = calloc(1, sizeof(*vmm));
    struct heap heap = { .asked = 1 };
    unsigned fail_at = 0;

    (void)state;
    assert_non_null(vmm);
    fake_vmm_init(vmm);
    while (heap.asked >= fail_at) {
        heap = (struct heap){ .fail_at = ++fail_at };
        if (!make_all(&heap, vmm)) {
            assert_true(heap.asked >= fail_at);
        }
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.bytes, 0);
    }
    assert_in_range(fail_at, 12, 100);
    free(vmm);
}

/* ---- sizes -------------------------------------------------------------- */

struct size_row {
    const char *name;
    uint32_t avic, nr, stride, max_apic_id;
};

static struct size_row size_rows[] = {
    { "512 vCPUs, all ids of x2AVIC", X2, 512, 1, 0 },
    { "100 vCPUs, sparse ids to 4059", X2_EXT, 100, 41, 0 },
    { "100 vCPUs, sparse ids, the table as long as needed", X2_EXT, 100, 41,
      4059 },
    { "4096 vCPUs, all ids of x2AVIC_EXT", X2_EXT, 4096, 1, 4095 },
};

struct big {
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    struct avicemu_vcpu **v;
    struct fake_vmm *vmm;
    uint32_t nr;
};

static void
big_follow(struct big *b)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    for (uint32_t i = 0; i < b->nr; i++) {
        assert_int_equal(avicemu_vcpu_enter(b->v[i], &cpu, &todo), 0);
        assert_int_equal(avicemu_vcpu_exit(b->v[i], &cpu), 0);
    }
}

static void
big_open(struct big *b, const struct size_row *row)
{
    struct avicemu_host_config host_config = { .size = sizeof(host_config),
                                               .avic = row->avic };
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .flags = AV,
                                        .max_apic_id = row->max_apic_id,
                                        .max_vcpus = row->nr };

    b->nr = row->nr;
    b->vmm = calloc(1, sizeof(*b->vmm));
    b->v = calloc(row->nr, sizeof(struct avicemu_vcpu *));
    assert_non_null(b->vmm);
    assert_non_null(b->v);
    fake_vmm_init(b->vmm);
    fake_vmm_config(b->vmm, &config);
    assert_int_equal(avicemu_host_create(&host_config, &b->host), 0);
    assert_int_equal(avicemu_vm_create(b->host, &config, &b->vm), 0);
    for (uint32_t i = 0; i < row->nr; i++) {
        assert_int_equal(avicemu_vcpu_create(b->vm, i * row->stride,
                                             &b->vmm->vcpus[0], &b->v[i]),
                         0);
    }
    for (uint32_t i = 0; i < row->nr; i++) {
        to_x2apic(b->v[i]);
        reg_w(b->v[i], R_SVR, 0x1ff);
        assert_int_equal(avicemu_vcpu_load(b->v[i], i % 4096), 0);
    }
    big_follow(b);
}

static void
big_close(struct big *b)
{
    char line[256] = "";

    if (avicemu_check_invariants(b->vm, line, sizeof(line)) != 0) {
        fail_msg("%s", line);
    }
    for (uint32_t i = 0; i < b->nr; i++) {
        assert_int_equal(avicemu_vcpu_destroy(b->v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(b->vm), 0);
    assert_int_equal(avicemu_host_destroy(b->host), 0);
    free(b->v);
    free(b->vmm);
}

/* A broadcast and 64 senders; all by hardware. */
static void
test_size(void **state)
{
    const struct size_row *row = *state;
    struct avicemu_vcpu_stats stats;
    uint32_t seed = 1;
    struct big b;

    big_open(&b, row);
    assert_int_equal(avicemu_vm_inhibits(b.vm), 0);
    assert_in_range(avicemu_vm_vcpu_bytes(b.vm), 4096, 2 * 4096 + 1024);
    print_message("%s: %llu bytes per vCPU\n", row->name,
                  (unsigned long long)avicemu_vm_vcpu_bytes(b.vm));
    msr_w(b.v[0], 0x830, ICR_OTHERS | 0x51);
    for (uint32_t i = 0; i < b.nr; i++) {
        assert_int_equal(avicemu_vcpu_avic(b.v[i]), AVICEMU_AVIC_X2AVIC);
        assert_int_equal(vec_bit(b.v[i], R_IRR, 0x51), i != 0);
    }
    stats = rig_stats(b.v[0]);
    assert_int_equal(stats.ipi_new, b.nr - 1);
    assert_int_equal(stats.doorbells, b.nr - 1);
    assert_int_equal(stats.avic_incomplete, 0);
    for (unsigned n = 0; n < 64; n++) {
        seed = seed * 1664525u + 1013904223u;
        struct avicemu_vcpu *from = b.v[(seed >> 8) % b.nr];
        uint32_t to = (seed >> 20) % b.nr;
        uint8_t vector = (uint8_t)(0x60 + n);
        uint32_t id = to * row->stride;

        msr_w(from, 0x830,
              n % 2 ? (uint64_t)id << 32 | vector
                    : (uint64_t)((id >> 4) << 16 | 1u << (id & 15)) << 32 |
                          ICR_LOGICAL | vector);
        assert_int_equal(vec_bit(b.v[to], R_IRR, vector), 1);
        assert_int_equal(rig_stats(from).avic_incomplete, 0);
    }
    msr_w(b.v[0], 0x830, 0xffffffffull << 32 | 0x52);
    for (uint32_t i = 0; i < b.nr; i++) {
        assert_int_equal(vec_bit(b.v[i], R_IRR, 0x52), 1);
    }
    big_close(&b);
}

/* ---- state -------------------------------------------------------------- */

struct state_row {
    const char *name;
    uint32_t from, to; /* AVICEMU_HOST_* */
    int x2apic, kvm;
};

static struct state_row state_rows[] = {
    { "snapshot: xAVIC to no AVIC", X2, 0, 0, 0 },
    { "snapshot: no AVIC to xAVIC", 0, X2, 0, 0 },
    { "snapshot: xAVIC to xAVIC", X2, X2, 0, 0 },
    { "snapshot: x2AVIC to no AVIC", X2, 0, 1, 0 },
    { "snapshot: no AVIC to x2AVIC", 0, X2, 1, 0 },
    { "snapshot: x2AVIC to hybrid", X2, X1, 1, 0 },
    { "KVM page: xAVIC to no AVIC", X2, 0, 0, 1 },
    { "KVM page: no AVIC to x2AVIC", 0, X2, 1, 1 },
    { "KVM page: hybrid to x2AVIC", X1, X2, 1, 1 },
};

static struct rig *
state_open(uint32_t avic)
{
    return rig_open(&(struct rig_setup){ P(KVM), .avic = avic, .nr_vcpus = 2 });
}

static struct rig *
state_open_amd(uint32_t avic)
{
    return rig_open(&(struct rig_setup){ P(AMD), .avic = avic, .nr_vcpus = 2 });
}

static void
move_state(const struct state_row *row, struct avicemu_vcpu *from,
           struct avicemu_vcpu *to)
{
    uint8_t buf[AVICEMU_SNAPSHOT_BYTES];
    struct avicemu_kvm_lapic page;
    size_t len;

    if (!row->kvm) {
        assert_int_equal(avicemu_vcpu_snapshot(from, buf, sizeof(buf), &len),
                         0);
        assert_int_equal(avicemu_vcpu_restore(to, buf, len), 0);
        return;
    }
    assert_int_equal(avicemu_vcpu_set_apic_base(to, rig_view(from).apic_base),
                     0);
    assert_int_equal(
        avicemu_vcpu_export_kvm(from, AVICEMU_KVM_32BIT_IDS, &page), 0);
    assert_int_equal(avicemu_vcpu_import_kvm(to, AVICEMU_KVM_32BIT_IDS, &page),
                     0);
}

static void
expect_registers(struct avicemu_vcpu *a, struct avicemu_vcpu *b)
{
    for (uint32_t offset = 0; offset < 0x400; offset += 16) {
        uint32_t x = 0, y = 0;

        assert_int_equal(avicemu_vcpu_peek(a, offset, &x),
                         avicemu_vcpu_peek(b, offset, &y));
        if (x != y) {
            fail_msg("%03xh: %xh became %xh", offset, x, y);
        }
    }
}

/* One vector in service, two pending, TPR set, a logical id, an ICR. */
static void
test_state(void **state)
{
    const struct state_row *row = *state;
    struct rig *a = state_open(row->from);
    struct rig *b = state_open(row->to);

    if (row->x2apic) {
        to_x2apic(a->v[0]);
    } else {
        reg_w(a->v[0], R_LDR, 0x04000000);
    }
    (void)avicemu_post(a->v[0], 0x61, LEVEL);
    assert_int_equal(rig_take(a, 0), 0x61);
    (void)avicemu_post(a->v[0], 0x41, EDGE);
    (void)avicemu_post(a->v[0], 0x71, EDGE);
    reg_w(a->v[0], R_TPR, 0x30);
    icr_send(a->v[0], 0, ICR_SELF | 0x51);
    move_state(row, a->v[0], b->v[0]);
    expect_registers(a->v[0], b->v[0]);
    assert_int_equal(rig_take(b, 0), 0x71);
    if (row->to != 0) {
        assert_int_equal(rig_vmcb(b->v[0], AVICEMU_VMCB_INT_CTL) & 0xf, 3);
        assert_int_equal(rig_avic(b, 0), !row->x2apic  ? AVICEMU_AVIC_XAVIC
                                         : row->to & 2 ? AVICEMU_AVIC_X2AVIC
                                                       : AVICEMU_AVIC_HYBRID);
    }
    if (row->to != 0 && !row->x2apic) {
        assert_int_equal(rig_logical(b->v[0], 2), AVICEMU_LOGICAL_VALID);
    }
    eoi(b->v[0]);
    eoi(b->v[0]);
    assert_int_equal(b->fake[0].eois, 1); /* 61h was a level */
    assert_int_equal(rig_take(b, 0), 0x51);
    eoi(b->v[0]);
    assert_int_equal(rig_take(b, 0), 0x41);
    rig_close(a);
    rig_close(b);
}

/* What AVIC let a guest store raw must not keep its VM from migrating. */
struct raw_row {
    const char *name;
    uint32_t offset, value;
};

static struct raw_row raw_rows[] = {
    { "snapshot: reserved bits of ICR low", R_ICR, 0xfff12041 | ICR_SELF },
    { "snapshot: delivery status", R_ICR, ICR_SELF | ICR_BUSY | 0x41 },
    { "snapshot: reserved bits of ICR high", R_ICR2, 0xffffffff },
    { "snapshot: reserved bits of TPR", R_TPR, 0xffffff00 },
    { "snapshot: a register that is not there, 040h", 0x040, 0xffffffff },
    { "snapshot: a register that is not there, 2F0h", R_CMCI, 0xffffffff },
    { "snapshot: a register that is not there, 430h", 0x430, 0xffffffff },
};

static void
raw_moves(const struct raw_row *row, struct rig *(*open)(uint32_t avic))
{
    const uint32_t to[] = { 0, X2 };
    uint8_t buf[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
    struct rig *a = open(X2);

    (void)rig_enter(a, 0, 0);
    assert_int_equal(reg_try(a->v[0], row->offset, row->value), DONE);
    rig_exit(a, 0, 0);
    assert_int_equal(avicemu_vcpu_snapshot(a->v[0], buf, sizeof(buf), &len), 0);
    for (size_t i = 0; i < NR(to); i++) {
        struct rig *b = open(to[i]);

        assert_int_equal(avicemu_vcpu_restore(b->v[0], buf, len), 0);
        rig_close(b);
    }
    rig_close(a);
}

static void
test_raw(void **state)
{
    raw_moves(*state, state_open);
    raw_moves(*state, state_open_amd);
}

static void
test_reset(void **state)
{
    struct rig *rig = *state;
    struct rig *plain = state_open(0);
    struct avicemu_vcpu *v = rig->v[1];

    for (int init = 0; init < 2; init++) {
        reg_w(v, R_TPR, 0x50);
        reg_w(v, R_LDR, 0x02000000);
        (void)avicemu_post(v, 0x41, EDGE);
        assert_int_equal(rig_logical(v, 1), AVICEMU_LOGICAL_VALID | 1);
        if (init) {
            (void)avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0);
            (void)avicemu_post_mode(plain->v[1], AVICEMU_DELIVERY_INIT, 0);
            assert_int_equal(rig_run(rig, 1, 0), AVICEMU_DO_INIT);
            assert_int_equal(rig_run(plain, 1, 0), AVICEMU_DO_INIT);
        } else {
            assert_int_equal(avicemu_vcpu_reset(v), 0);
            assert_int_equal(avicemu_vcpu_reset(plain->v[1]), 0);
        }
        expect_registers(v, plain->v[1]);
        assert_int_equal(rig_logical(v, 1), 0);
        assert_int_equal(rig_view(v).wait_for_sipi, 1);
        (void)avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1);
        assert_int_equal(rig_run(rig, 1, IF), AVICEMU_DO_SIPI);
        assert_int_equal(rig_avic(rig, 1), AVICEMU_AVIC_XAVIC);
        assert_int_equal(rig_vmcb(v, AVICEMU_VMCB_INT_CTL) & 0xf, 0);
        assert_int_equal(rig_physical(v, 1) >> 62, 3);
        assert_int_equal(rig_take(rig, 1), -1);
        reg_w(v, R_SVR, 0x1ff);
    }
    rig_close(plain);
}

/* INIT keeps x2APIC mode, RESET does not; AVIC follows. */
static void
test_reset_x2apic(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];

    to_x2apic(v);
    (void)avicemu_post_mode(v, AVICEMU_DELIVERY_INIT, 0);
    assert_int_equal(rig_run(rig, 0, IF), AVICEMU_DO_INIT);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_X2AVIC);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    assert_int_equal(rig_run(rig, 0, IF), 0);
    assert_int_equal(rig_avic(rig, 0), AVICEMU_AVIC_XAVIC);
    assert_int_equal(avicemu_vcpu_msr_passes(v, 0x808, 0), 0);
}

#define ROWS(rows_, fn_)                                                \
    for (size_t i = 0; i < NR(rows_); i++) {                            \
        tests[n++] = (struct CMUnitTest){ .name = rows_[i].name,        \
                                          .test_func = (fn_),           \
                                          .initial_state = &rows_[i] }; \
    }

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        RIG_TEST("regions of the library stay", test_regions, .avic = X2_EXT,
                 .nr_vcpus = 2),
        RIG_TEST("a backing page is used again, as a new one", test_page_again,
                 .avic = X2_EXT, .nr_vcpus = 2),
        { .name = "no memory, at every allocation",
          .test_func = test_no_memory },
        RIG_TEST("RESET and INIT with AVIC on", test_reset, P(KVM), .avic = X2,
                 .nr_vcpus = 2),
        RIG_TEST("RESET and INIT in x2APIC mode", test_reset_x2apic,
                 .avic = X2),
    };
    struct CMUnitTest tests[NR(fixed) + NR(config_rows) + NR(size_rows) +
                            NR(state_rows) + NR(raw_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    ROWS(config_rows, test_config)
    ROWS(size_rows, test_size)
    ROWS(state_rows, test_state)
    ROWS(raw_rows, test_raw)
    return cmocka_run_group_tests_name("AVIC lives", tests, NULL, NULL) != 0;
}
