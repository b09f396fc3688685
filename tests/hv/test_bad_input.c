/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What nobody should do, done: by guests (any access, any value, any message)
 * and by host programmers (configurations, arguments, orders of calls). The
 * outcome is the manual's, or an errno that its comment names; nothing is
 * lost, nothing leaks, nothing aborts.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t
next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* ---- configurations ----------------------------------------------------- */

struct notes {
    unsigned count;
    enum avicemu_log_level level;
    char text[256];
};

static void
note(void *opaque, enum avicemu_log_level level, const char *text)
{
    struct notes *notes = opaque;

    notes->count++;
    notes->level = level;
    (void)strncpy(notes->text, text, sizeof(notes->text) - 1);
}

static uint64_t
no_time(void *opaque)
{
    (void)opaque;
    return 0;
}

struct config_row {
    const char *name;
    struct avicemu_vm_config config;
    const char *field, *value, *range; /* parts of the message */
};

#define LAPIC(...)               \
    {                            \
        .lapic = { __VA_ARGS__ } \
    }
#define HUGE_HZ ((1ull << 40) + 1)

static struct config_row config_rows[] = {
    { "VM: flags", { .flags = 2 }, "flags", "2", "AVICEMU_VM_" },
    { "VM: parts", { .parts = 2 }, "parts", "2", "AVICEMU_PART_" },
    { "VM: max_vcpus", { .max_vcpus = 4097 }, "max_vcpus", "4097", "1..4096" },
    { "VM: bsp_apic_id",
      { .bsp_apic_id = 0xffffffff },
      "bsp_apic_id",
      "4294967295",
      "FFFFFFFE" },
    { "VM: personality", LAPIC(.personality = (enum avicemu_personality)7),
      "lapic.personality", "7", "avicemu_personality" },
    { "VM: features", LAPIC(.features = 1u << 20), "lapic.features", "1048576",
      "personality" },
    { "VM: maxphyaddr", LAPIC(.maxphyaddr = 60), "lapic.maxphyaddr", "60",
      "32..52" },
    { "VM: now_hz", LAPIC(.now_hz = HUGE_HZ), "lapic.now_hz", "1099511627777",
      "1..2^40" },
    { "VM: bus_hz", LAPIC(.bus_hz = HUGE_HZ), "lapic.bus_hz", "1099511627777",
      "1..2^40" },
    { "VM: tsc_hz", LAPIC(.tsc_hz = HUGE_HZ), "lapic.tsc_hz", "1099511627777",
      "1..2^40" },
    { "VM: missed_ticks", LAPIC(.missed_ticks = (enum avicemu_missed_ticks)9),
      "lapic.missed_ticks", "9", "avicemu_missed_ticks" },
    { "VM: max_burst",
      LAPIC(.missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 70000),
      "lapic.max_burst", "70000", "1..65536" },
};

/* The log names the field, what it was and what it may be. */
static void
test_config(void **state)
{
    const struct config_row *row = *state;
    struct avicemu_vm_config config = row->config;
    struct notes notes = { .count = 0 };
    struct avicemu_host *host;
    struct avicemu_vm *vm = NULL;

    config.size = sizeof(config);
    config.ops.now = no_time;
    config.ops.log = note;
    config.opaque = &notes;
    config.log_level = AVICEMU_LOG_ERROR;
    assert_int_equal(avicemu_host_create(NULL, &host), 0);
    assert_int_equal(avicemu_vm_create(host, &config, &vm), -EINVAL);
    assert_null(vm);
    assert_int_equal(notes.count, 1);
    assert_int_equal(notes.level, AVICEMU_LOG_ERROR);
    assert_non_null(strstr(notes.text, row->field));
    assert_non_null(strstr(notes.text, row->value));
    assert_non_null(strstr(notes.text, row->range));
    config.log_level = AVICEMU_LOG_NONE;
    assert_int_equal(avicemu_vm_create(host, &config, &vm), -EINVAL);
    assert_int_equal(notes.count, 1);
    assert_int_equal(avicemu_host_destroy(host), 0);
}

/* A config of another size, and what it must not hold. */
static void
test_config_size(void **state)
{
    struct {
        struct avicemu_vm_config config;
        uint8_t more[64];
    } big;
    struct avicemu_host_config host_config = { .size = sizeof(host_config) };
    struct avicemu_host *host = NULL;
    struct avicemu_vm *vm = NULL;

    (void)state;
    memset(&big, 0, sizeof(big));
    assert_int_equal(avicemu_host_create(NULL, NULL), -EINVAL);
    assert_int_equal(avicemu_host_create(NULL, &host), 0);
    assert_int_equal(avicemu_vm_create(host, &big.config, &vm), -EINVAL);
    big.config.ops.now = no_time;
    big.config.size = sizeof(big);
    assert_int_equal(avicemu_vm_create(host, &big.config, &vm), 0);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    vm = NULL;
    big.more[63] = 1; /* a field that this version does not know */
    assert_int_equal(avicemu_vm_create(host, &big.config, &vm), -EINVAL);
    big.config.size = sizeof(big.config);
    big.config.ops.now = NULL;
    assert_int_equal(avicemu_vm_create(host, &big.config, &vm), -EINVAL);
    assert_null(vm);
    assert_int_equal(avicemu_vm_create(NULL, &big.config, &vm), -EINVAL);
    assert_int_equal(avicemu_vm_create(host, NULL, &vm), -EINVAL);
    assert_int_equal(avicemu_host_destroy(host), 0);
    host = NULL;
    host_config.allocator.opaque = &big;
    host_config.allocator.free = (void (*)(void *, void *, size_t))0;
    assert_int_equal(avicemu_host_create(&host_config, &host), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
}

/* ---- an allocator that fails -------------------------------------------- */

struct pool {
    unsigned calls, fail_at; /* 0: never */
    size_t live, bytes;
};

static void *
pool_alloc(void *opaque, size_t align, size_t bytes)
{
    struct pool *pool = opaque;
    void *memory;

    if (++pool->calls == pool->fail_at) {
        return NULL;
    }
    memory = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (memory != NULL) {
        memset(memory, 0xa5, bytes); /* not zero: the library must clear */
        pool->live++;
        pool->bytes += bytes;
    }
    return memory;
}

static void
pool_free(void *opaque, void *memory, size_t bytes)
{
    struct pool *pool = opaque;

    if (memory != NULL) {
        pool->live--;
        pool->bytes -= bytes;
        free(memory);
    }
}

/* Host, VM, a mapped region and two vCPUs; what fails first. */
static int
set_up(struct pool *pool, void *region)
{
    struct avicemu_host_config host_config = {
        .size = sizeof(host_config),
        .allocator = { pool_alloc, pool_free, pool },
    };
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .flags = AVICEMU_VM_BOOKS,
                                        .ops = { .now = no_time } };
    struct avicemu_host *host = NULL;
    struct avicemu_vm *vm = NULL;
    struct avicemu_vcpu *v[2] = { NULL, NULL };
    int r = avicemu_host_create(&host_config, &host);

    if (r == 0) {
        r = avicemu_host_map(host, 0x1000, 4096, region);
    }
    if (r == 0) {
        r = avicemu_vm_create(host, &config, &vm);
    }
    for (uint32_t i = 0; i < 2 && r == 0; i++) {
        r = avicemu_vcpu_create(vm, i, NULL, &v[i]);
    }
    if (r == 0) {
        assert_int_equal(avicemu_check_invariants(vm, NULL, 0), 0);
    }
    assert_int_equal(avicemu_vcpu_destroy(v[1]), 0);
    assert_int_equal(avicemu_vcpu_destroy(v[0]), 0);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    if (host != NULL) {
        int u = avicemu_host_unmap(host, 0x1000);

        assert_true(u == 0 || u == -ENOENT || u == -ENOMEM);
        if (u == -ENOMEM) {
            assert_int_equal(avicemu_host_unmap(host, 0x1000), 0);
        }
        r = r == 0 && u == -ENOMEM ? u : r;
    }
    assert_int_equal(avicemu_host_destroy(host), 0);
    return r;
}

static void
test_allocator(void **state)
{
    void *region = aligned_alloc(4096, 4096);
    struct pool pool = { .fail_at = 0 };
    unsigned total;

    (void)state;
    assert_non_null(region);
    assert_int_equal(set_up(&pool, region), 0);
    assert_int_equal(pool.live, 0);
    assert_int_equal(pool.bytes, 0);
    total = pool.calls;
    assert_true(total >= 8);
    for (unsigned n = 1; n <= total; n++) {
        pool = (struct pool){ .fail_at = n };
        assert_int_equal(set_up(&pool, region), -ENOMEM);
        assert_int_equal(pool.live, 0);
        assert_int_equal(pool.bytes, 0);
    }
    free(region);
}

/* After set-up nothing allocates: not posts, accesses, loads, entries. */
static void
test_no_allocation(void **state)
{
    struct pool pool = { .fail_at = 0 };
    struct avicemu_host_config host_config = {
        .size = sizeof(host_config),
        .allocator = { pool_alloc, pool_free, &pool },
    };
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .ops = { .now = no_time } };
    struct avicemu_cpu cpu = { .size = sizeof(cpu), .flags = IF };
    struct avicemu_todo todo = { .size = sizeof(todo) };
    uint8_t saved[AVICEMU_SNAPSHOT_BYTES];
    struct avicemu_host *host;
    struct avicemu_vcpu *v;
    struct avicemu_vm *vm;
    unsigned calls;
    size_t len;

    (void)state;
    assert_int_equal(avicemu_host_create(&host_config, &host), 0);
    assert_int_equal(avicemu_vm_create(host, &config, &vm), 0);
    assert_int_equal(avicemu_vcpu_create(vm, 0, NULL, &v), 0);
    calls = pool.calls;
    reg_w(v, R_SVR, 0x1ff);
    reg_w(v, R_LDR, 1u << 24);
    (void)avicemu_post(v, 0x51, LEVEL);
    (void)avicemu_msi(vm, 0xfeeff000, 0x61, NULL);
    (void)avicemu_msi(vm, 0xfee01004, 0x162, NULL);
    assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), 0);
    assert_int_equal(avicemu_vcpu_ack(v, AVICEMU_DO_INJECT, todo.vector), 0);
    assert_int_equal(avicemu_vcpu_exit(v, &cpu), 0);
    eoi(v);
    to_x2apic(v);
    hw_disable(v);
    assert_int_equal(avicemu_vcpu_snapshot(v, saved, sizeof(saved), &len), 0);
    assert_int_equal(avicemu_vcpu_restore(v, saved, len), 0);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    assert_int_equal(pool.calls, calls);
    assert_int_equal(avicemu_vcpu_destroy(v), 0);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    assert_int_equal(pool.live, 0);
}

/* ---- guests ------------------------------------------------------------- */

/* Every offset, with every length up to 17 and some big ones. */
static void
test_mmio(void **state)
{
    static const unsigned lens[] = {
        0,   1,   2,   3,    4,    5,    6,           7,          8,  9,
        10,  11,  12,  13,   14,   15,   16,          17,         32, 64,
        100, 255, 256, 4095, 4096, 4097, 0x80000000u, 0xffffffffu
    };
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t *data = malloc(8192);
    uint64_t seed = 1;

    assert_non_null(data);
    for (uint32_t offset = 0; offset < 4096; offset++) {
        for (size_t i = 0; i < NR(lens); i++) {
            enum avicemu_access want =
                lens[i] >= 1 && lens[i] <= 4096 - offset ? DONE : UNCLAIM;

            for (unsigned n = 0; n < 16; n++) {
                data[n] = (uint8_t)next_random(&seed);
            }
            assert_int_equal(
                avicemu_mmio_write(v, BASE_PAGE + offset, lens[i], data), want);
            assert_int_equal(
                avicemu_mmio_read(v, BASE_PAGE + offset, lens[i], data), want);
        }
        if (offset % 16 == 0) {
            rig_check(rig);
        }
    }
    free(data);
    assert_int_equal(avicemu_mmio_read(v, UINT64_MAX, 4, &seed), UNCLAIM);
    assert_int_equal(avicemu_mmio_read(v, UINT64_MAX - 3, 4, &seed), UNCLAIM);
    assert_int_equal(avicemu_mmio_write(v, 0, 4, &seed), UNCLAIM);
    assert_int_equal(avicemu_mmio_write(v, BASE_PAGE, 4, NULL), UNCLAIM);
    assert_int_equal(avicemu_mmio_read(v, BASE_PAGE | 1ull << 63, 4, &seed),
                     UNCLAIM);
}

/* Ours are 1Bh, 6E0h and 800h..8FFh; the others are unclaimed. */
static enum avicemu_access
msr_any(struct rig *rig, uint32_t msr, uint64_t value)
{
    struct avicemu_vcpu *v = rig->v[0];
    int ours = msr == 0x1b || msr == 0x6e0 || (msr >= 0x800 && msr < 0x900);
    uint64_t got = 0x1122334455667788ull;
    enum avicemu_access r = avicemu_msr_read(v, msr, &got);
    enum avicemu_access w;

    if (r != DONE) {
        assert_int_equal(got, 0x1122334455667788ull);
    } else if (msr >= 0x800 && msr != 0x830) {
        assert_int_equal(got >> 32, 0); /* EDX = 0 but for the ICR */
    }
    assert_int_equal(r == UNCLAIM, !ours);
    w = avicemu_msr_write(v, msr, value);
    assert_int_equal(w == UNCLAIM, !ours);
    return w;
}

static void
test_msr(void **state)
{
    struct rig *rig = *state;
    uint64_t seed = 3;

    for (unsigned mode = 0; mode < 3; mode++) {
        for (uint32_t msr = 0; msr < 0x1000; msr++) {
            for (unsigned n = 0; n < 8; n++) {
                uint64_t value = next_random(&seed);

                value = n < 2 ? n : n < 4 ? value & 0xffffffff : value;
                (void)msr_any(rig, msr, value);
            }
            (void)avicemu_vcpu_set_apic_base(
                rig->v[0], BASE_PAGE | (mode == 0 ? 0 : BASE_EN) |
                               (mode == 2 ? BASE_EXTD : 0));
            rig_check(rig);
        }
    }
    for (unsigned n = 0; n < 100000; n++) {
        (void)msr_any(rig, (uint32_t)next_random(&seed), next_random(&seed));
    }
    (void)msr_any(rig, 0xffffffff, 0);
    (void)msr_any(rig, 0x7ff, 0);
    (void)msr_any(rig, 0x900, 0);
}

/* What was refused is counted. */
static void
test_counted(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t value = 0;

    (void)avicemu_mmio_write(v, BASE_PAGE + R_TPR, 1, &value);
    (void)avicemu_mmio_write(v, BASE_PAGE + R_TPR, 8, &value);
    (void)avicemu_mmio_write(v, BASE_PAGE + R_TPR + 4, 4, &value);
    assert_int_equal(rig_stats(v).mmio_odd, 3);
    assert_int_equal(avicemu_msr_read(v, 0x808, &value), GP);
    assert_int_equal(avicemu_msr_write(v, MSR_APIC_BASE, 1), GP);
    assert_int_equal(avicemu_cr8_write(v, 16), GP);
    to_x2apic(v);
    assert_int_equal(avicemu_msr_write(v, 0x828, 1), GP);
    assert_int_equal(rig_stats(v).gp, 4);
    assert_int_equal(rig_stats(v).mmio_odd, 3);
}

/* Every address class: each bit of the address, each bit of the data. */
static void
test_msi(void **state)
{
    struct rig *rig = *state;
    struct avicemu_posted p;
    uint64_t seed = 5;

    for (unsigned i = 0; i < 64; i++) {
        for (unsigned k = 0; k < 32; k++) {
            assert_int_equal(avicemu_msi(rig->vm, 0xfee00000 ^ 1ull << i,
                                         0x51 ^ 1u << k, &p),
                             0);
            assert_true(p.nr_new + p.nr_merged + p.nr_dropped >= 1);
            assert_int_equal(p.why == 0, p.nr_dropped == 0);
        }
    }
    for (unsigned n = 0; n < 200000; n++) {
        uint64_t address = next_random(&seed);

        if (n % 4 != 0) {
            address = 0xfee00000 | (address & 0xfffff);
        }
        assert_int_equal(
            avicemu_msi(rig->vm, address, (uint32_t)next_random(&seed), &p), 0);
        assert_true(p.nr_new + p.nr_merged + p.nr_dropped >= 1);
        assert_true(p.nr_new + p.nr_merged + p.nr_dropped <= 3);
        assert_int_equal(p.why == 0, p.nr_dropped == 0);
        assert_true(p.why < 1u << AVICEMU_NR_DROP);
    }
    assert_int_equal(avicemu_msi(rig->vm, 0xfee00000, 0x51, NULL), 0);
    assert_int_equal(avicemu_msi(NULL, 0xfee00000, 0x51, &p), -EINVAL);
    rig_check(rig);
}

/* Guests and devices at random, in every mode. */
static void
storm_step(struct rig *rig, uint64_t *seed)
{
    uint64_t x = next_random(seed);
    uint64_t value = next_random(seed);
    uint32_t i = (uint32_t)(x >> 8) % rig->nr_vcpus;
    struct avicemu_vcpu *v = rig->v[i];

    switch (x % 8) {
    case 0:
        (void)avicemu_mmio_write(v, BASE_PAGE + ((x >> 16) & 0xff0), 4, &value);
        break;
    case 1:
        (void)avicemu_msr_write(v, 0x800 + ((uint32_t)(x >> 16) & 0xff),
                                x & 0x1000 ? value & 0xfffff : value);
        break;
    case 2:
        (void)avicemu_msr_write(v, MSR_APIC_BASE, BASE_PAGE | (value & 0xd00));
        break;
    case 3:
        (void)avicemu_post_mode(v, (enum avicemu_delivery)(value & 7),
                                (uint8_t)(value >> 8));
        break;
    case 4:
        (void)avicemu_vcpu_lint(v, value & 1, (value & 2) != 0);
        (void)avicemu_vcpu_local(v, (enum avicemu_lvt)(value >> 8 & 7));
        break;
    case 5:
        rig->vmm.now += value & 0xffff;
        (void)avicemu_vcpu_expire(v);
        break;
    case 6:
        (void)avicemu_cr8_write(v, value & 15);
        (void)reg_try(v, R_EOI, 0);
        break;
    default:
        (void)rig_run(rig, i, (uint32_t)value & 0x3f);
        break;
    }
}

static void
test_storm(void **state)
{
    struct rig *rig = *state;
    uint64_t seed = 11;

    for (unsigned n = 0; n < 300000; n++) {
        storm_step(rig, &seed);
        if (n % 64 == 0) {
            rig_check(rig);
        }
    }
}

/* ---- arguments ---------------------------------------------------------- */

static void
test_arguments(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_vcpu_view view = { .size = 1 };
    struct avicemu_vcpu_stats stats = { .size = 1 };
    struct avicemu_vcpu_books books = { .size = 1 };
    uint32_t value = 77;

    assert_int_equal(avicemu_vcpu_view(v, &view), -EINVAL);
    assert_int_equal(avicemu_vcpu_view(v, NULL), -EINVAL);
    assert_int_equal(avicemu_vcpu_stats(v, &stats), -EINVAL);
    assert_int_equal(avicemu_vcpu_books(v, 0x51, &books), -EINVAL);
    assert_int_equal(avicemu_vcpu_peek(v, 0x1000, &value), -EINVAL);
    assert_int_equal(avicemu_vcpu_peek(v, 0x21, &value), -EINVAL);
    assert_int_equal(avicemu_vcpu_peek(v, 0x40, &value), -ENOENT);
    assert_int_equal(avicemu_vcpu_peek(v, 0x20, NULL), -EINVAL);
    assert_int_equal(value, 77);
    assert_int_equal(avicemu_vcpu_reset(NULL), -EINVAL);
    assert_int_equal(avicemu_vcpu_expire(NULL), -EINVAL);
    assert_int_equal(avicemu_vcpu_destroy(NULL), 0);
    assert_int_equal(avicemu_vm_destroy(NULL), 0);
    assert_int_equal(avicemu_host_destroy(NULL), 0);
    assert_int_equal(avicemu_vm_nr_vcpus(rig->vm), 1);
    assert_int_equal(avicemu_cr8_write(v, UINT64_MAX), GP);
}

static void
test_map_arguments(void **state)
{
    struct rig *rig = *state;
    uint8_t *m = aligned_alloc(4096, 8192);

    assert_non_null(m);
    assert_int_equal(avicemu_host_map(rig->host, 1, 4096, m), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, 0, 0, m), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, 0, 100, m), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, 0, 4096, m + 8), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, 0, 4096, NULL), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, ~0xfffull, 8192, m), -EINVAL);
    assert_int_equal(avicemu_host_map(rig->host, 0x1000, 8192, m), 0);
    assert_int_equal(avicemu_host_map(rig->host, 0x2000, 4096, m), -EEXIST);
    assert_int_equal(avicemu_host_unmap(rig->host, 0x2000), -ENOENT);
    assert_int_equal(avicemu_host_unmap(rig->host, 0x1000), 0);
    free(m);
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        { .name = "configs of another size", .test_func = test_config_size },
        { .name = "every n-th allocation fails", .test_func = test_allocator },
        { .name = "nothing allocates after set-up",
          .test_func = test_no_allocation },
        RIG_EACH("any MMIO offset and length", test_mmio, .nr_vcpus = 1),
        RIG_EACH("any MSR and value", test_msr, .nr_vcpus = 1),
        RIG_EACH("what is refused is counted", test_counted, .nr_vcpus = 1),
        RIG_EACH("any MSI address and data", test_msi, .nr_vcpus = 3),
        RIG_EACH("guests and devices at random", test_storm, .nr_vcpus = 3),
        RIG_TEST("arguments out of range", test_arguments, .nr_vcpus = 1),
        RIG_TEST("regions that cannot be mapped", test_map_arguments,
                 .nr_vcpus = 1),
    };
    struct CMUnitTest tests[NR(fixed) + NR(config_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(config_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = config_rows[i].name,
                                          .test_func = test_config,
                                          .initial_state = &config_rows[i] };
    }
    return cmocka_run_group_tests_name("bad input", tests, NULL, NULL) != 0;
}
