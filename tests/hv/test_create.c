/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lives of hosts, VMs and vCPUs: who may be destroyed when, hot-add and
 * destruction beside senders, and VMs of 1 to 4096 vCPUs, whose creation time
 * and bytes per vCPU are printed.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rig.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* ---- lives -------------------------------------------------------------- */

static void
test_destroy_order(void **state)
{
    struct avicemu_vm_config config = { .size = sizeof(config) };
    struct fake_vmm *vmm = calloc(1, sizeof(*vmm));
    struct avicemu_host *host;
    struct avicemu_vcpu *v;
    struct avicemu_vm *vm;

    (void)state;
    assert_non_null(vmm);
    fake_vmm_init(vmm);
    fake_vmm_config(vmm, &config);
    assert_int_equal(avicemu_host_create(NULL, &host), 0);
    assert_int_equal(avicemu_vm_create(host, &config, &vm), 0);
    assert_int_equal(avicemu_vcpu_create(vm, 5, &vmm->vcpus[0], &v), 0);
    assert_int_equal(avicemu_vcpu_apic_id(v), 5);
    assert_ptr_equal(avicemu_vcpu_opaque(v), &vmm->vcpus[0]);
    assert_int_equal(avicemu_host_destroy(host), -EBUSY);
    assert_int_equal(avicemu_vm_destroy(vm), -EBUSY);
    assert_int_equal(avicemu_vm_nr_vcpus(vm), 1);
    assert_int_equal(avicemu_vcpu_destroy(v), 0);
    assert_int_equal(avicemu_vm_nr_vcpus(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), -EBUSY);
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    free(vmm);
}

static void
test_mapped_host(void **state)
{
    struct avicemu_host *host;
    void *memory = aligned_alloc(4096, 4096);

    (void)state;
    assert_non_null(memory);
    assert_int_equal(avicemu_host_create(NULL, &host), 0);
    assert_int_equal(avicemu_host_map(host, 0, 4096, memory), 0);
    assert_int_equal(avicemu_host_destroy(host), -EBUSY);
    assert_int_equal(avicemu_host_unmap(host, 0), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    free(memory);
}

static void
test_ids(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = NULL;

    assert_int_equal(avicemu_vcpu_create(rig->vm, 0xffffffff, NULL, &v),
                     -EINVAL);
    assert_int_equal(avicemu_vcpu_create(rig->vm, 0, NULL, &v), -EEXIST);
    assert_int_equal(avicemu_vcpu_create(rig->vm, 0x25, NULL, &v), -EEXIST);
    assert_int_equal(avicemu_vcpu_create(NULL, 1, NULL, &v), -EINVAL);
    assert_int_equal(avicemu_vcpu_create(rig->vm, 1, NULL, NULL), -EINVAL);
    assert_null(v);
    while (rig->nr_vcpus < FAKE_MAX_VCPUS) { /* the rig's max_vcpus */
        (void)rig_add(rig, 0x1000000u * rig->nr_vcpus + 3);
    }
    assert_int_equal(avicemu_vcpu_create(rig->vm, 1, NULL, &v), -EBUSY);
    assert_null(v);
    /* A place that was given up can be taken, by the same id or another. */
    assert_int_equal(avicemu_vcpu_destroy(rig->v[1]), 0);
    rig->nr_vcpus--;
    rig->v[1] = rig->v[rig->nr_vcpus];
    assert_int_equal(rig_add(rig, 0x25), FAKE_MAX_VCPUS - 1);
    icr_send(rig->v[0], 0x25, ICR_FIXED | 0x51);
    assert_int_equal(rig_irr_mask(rig, 0x51), 1u << (FAKE_MAX_VCPUS - 1));
}

/* Ids come and go in any order; each one that is there is found. */
static void
test_churn(void **state)
{
    struct rig *rig = *state;
    uint32_t seed = 1;

    while (rig->nr_vcpus < 12) {
        (void)rig_add(rig, rig->nr_vcpus);
    }
    for (unsigned n = 0; n < 4000; n++) {
        uint32_t i, id;

        seed = seed * 1664525u + 1013904223u;
        i = 1 + (seed >> 8) % (rig->nr_vcpus - 1);
        id = (seed >> 16) % 40;
        for (uint32_t k = 0; k < rig->nr_vcpus; k++) {
            id = avicemu_vcpu_apic_id(rig->v[k]) == id ? UINT32_MAX : id;
        }
        if (id == UINT32_MAX) {
            continue;
        }
        assert_int_equal(avicemu_vcpu_destroy(rig->v[i]), 0);
        assert_int_equal(
            avicemu_vcpu_create(rig->vm, id, &rig->fake[i], &rig->v[i]), 0);
        rig_check(rig);
    }
}

/* ---- destroy from a callback -------------------------------------------- */

static _Atomic int destroy_result;

static void
destroy_in_eoi(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    (void)opaque;
    (void)vector;
    destroy_result = avicemu_vcpu_destroy(vcpu);
}

static void
test_destroy_in_callback(void **state)
{
    struct rig *rig = *state;

    destroy_result = 0;
    (void)avicemu_post(rig->v[0], 0x51, LEVEL);
    assert_int_equal(rig_take(rig, 0), 0x51);
    eoi(rig->v[0]);
    assert_int_equal(destroy_result, -EBUSY);
    assert_int_equal(avicemu_vm_nr_vcpus(rig->vm), 1);
}

/* ---- beside senders ----------------------------------------------------- */

#define PLUGS 400

struct sender {
    struct avicemu_vm *vm;
    uint32_t first, last;       /* destinations, by turns */
    _Atomic uint64_t posted[4]; /* new, merged, dropped, wrong */
    _Atomic int stop;
};

static void *
send_msis(void *opaque)
{
    struct sender *s = opaque;

    avicemu_thread_attach();
    for (uint32_t n = 0; !s->stop; n++) {
        uint32_t dest = s->first + n % (s->last - s->first + 1);
        struct avicemu_posted p;

        (void)avicemu_msi(s->vm,
                          0xfee00000 | (dest & 0xff) << 12 |
                              (uint64_t)(dest >> 8) << 40,
                          0x51 + n % 100, &p);
        s->posted[0] += p.nr_new;
        s->posted[1] += p.nr_merged;
        s->posted[2] += p.nr_dropped;
        s->posted[3] += p.nr_new + p.nr_merged + p.nr_dropped != 1;
    }
    return NULL;
}

/* Has each sender been at work for a while? */
static int
both_sent(struct sender *s)
{
    return s[0].posted[0] + s[0].posted[1] + s[0].posted[2] > 1000 &&
           s[1].posted[0] + s[1].posted[1] > 1000;
}

/* vCPUs come and go while two threads send to them and to one who stays: what
 * he accepted is delivered, each once. */
static void
test_hot_add(void **state)
{
    struct rig *rig = *state;
    struct sender s[2] = {
        { .vm = rig->vm, .first = 2, .last = 9 },
        { .vm = rig->vm, .first = 1, .last = 1 }, /* always there */
    };
    pthread_t threads[2];
    uint64_t taken = 0;

    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_msis, &s[i]),
                         0);
    }
    for (unsigned n = 0; n < PLUGS || !both_sent(s); n++) {
        uint32_t i = rig_add(rig, 2 + n % 6);

        taken += rig_take(rig, 1) >= 0;
        (void)reg_try(rig->v[1], R_EOI, 0);
        (void)rig_enter(rig, i, 0);
        rig_exit(rig, i, 0);
        assert_int_equal(avicemu_vcpu_destroy(rig->v[i]), 0);
        rig->nr_vcpus--;
    }
    s[0].stop = s[1].stop = 1;
    for (unsigned i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(s[i].posted[3], 0); /* one target or none */
    }
    assert_int_equal(s[1].posted[2], 0); /* V1 was always there */
    while (rig_take(rig, 1) >= 0) {
        taken++;
        eoi(rig->v[1]);
    }
    assert_int_equal(taken, s[1].posted[0]);
}

/* ---- sizes -------------------------------------------------------------- */

struct size_row {
    const char *name;
    uint32_t vcpus;
};

static struct size_row size_rows[] = {
    { "a VM of 1 vCPU", 1 },
    { "a VM of 64 vCPUs", 64 },
    { "a VM of 1024 vCPUs", 1024 },
    { "a VM of 4096 vCPUs", 4096 },
};

static uint64_t
cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
start_ap(struct avicemu_vcpu *v)
{
    struct avicemu_cpu cpu = { .size = sizeof(cpu) };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    if (rig_view(v).wait_for_sipi) {
        (void)avicemu_post_mode(v, AVICEMU_DELIVERY_SIPI, 1);
        assert_int_equal(avicemu_vcpu_enter(v, &cpu, &todo), 0);
        assert_int_equal(avicemu_vcpu_ack(v, AVICEMU_DO_SIPI, 1), 0);
        assert_int_equal(avicemu_vcpu_exit(v, &cpu), 0);
    }
    reg_w(v, R_SVR, 0x1ff);
}

static void
expect_sent(struct avicemu_vcpu *from, uint64_t icr, struct avicemu_vcpu *to,
            uint64_t targets)
{
    uint64_t before = rig_stats(from).ipi_new;

    msr_w(from, 0x830, icr);
    assert_int_equal(rig_stats(from).ipi_new - before, targets);
    assert_int_equal(vec_bit(to, R_IRR, (uint8_t)icr), 1);
}

/* IPIs of every kind reach the last one; and all of them. */
static void
reach_last(struct avicemu_vm *vm, struct avicemu_vcpu **v, uint32_t n)
{
    uint32_t id = n - 1;
    struct avicemu_vcpu *last = v[n - 1];
    struct avicemu_posted p;

    expect_sent(v[0], (uint64_t)id << 32 | 0x51, last, 1);
    expect_sent(v[0],
                (uint64_t)((id >> 4) << 16 | 1u << (id & 15)) << 32 |
                    ICR_LOGICAL | 0x52,
                last, 1);
    expect_sent(v[0], ICR_ALL | 0x53, last, n);
    expect_sent(v[0], 0xffffffffull << 32 | 0x54, last, n);
    expect_sent(v[0],
                (uint64_t)((id >> 4) << 16 | 0xffff) << 32 | ICR_LOGICAL | 0x55,
                last, n < 16 ? n : 16);
    assert_int_equal(
        avicemu_msi(vm,
                    0xfee00000 | (id & 0xff) << 12 | (uint64_t)(id >> 8) << 40,
                    0x56, &p),
        0);
    assert_int_equal(p.nr_new, 1);
    assert_int_equal(vec_bit(last, R_IRR, 0x56), 1);
    if (n > 1) {
        expect_sent(v[0], ICR_OTHERS | 0x57, last, n - 1);
        assert_int_equal(vec_bit(v[0], R_IRR, 0x57), 0);
    }
}

static void
test_size(void **state)
{
    const struct size_row *row = *state;
    struct avicemu_vm_config config = { .size = sizeof(config),
                                        .max_vcpus = row->vcpus };
    struct fake_vmm *vmm = calloc(1, sizeof(*vmm));
    struct avicemu_vcpu **v = calloc(row->vcpus, sizeof(*v));
    struct avicemu_host *host;
    struct avicemu_vm *vm;
    uint64_t start;
    char line[256] = "";

    assert_non_null(vmm);
    assert_non_null(v);
    fake_vmm_init(vmm);
    fake_vmm_config(vmm, &config);
    start = cpu_ns();
    assert_int_equal(avicemu_host_create(NULL, &host), 0);
    assert_int_equal(avicemu_vm_create(host, &config, &vm), 0);
    for (uint32_t i = 0; i < row->vcpus; i++) {
        assert_int_equal(avicemu_vcpu_create(vm, i, &vmm->vcpus[0], &v[i]), 0);
    }
    print_message("%s: created in %.3f ms, %llu bytes per vCPU\n", row->name,
                  (double)(cpu_ns() - start) / 1e6,
                  (unsigned long long)avicemu_vm_vcpu_bytes(vm));
    assert_int_equal(avicemu_vm_nr_vcpus(vm), row->vcpus);
    assert_in_range(avicemu_vm_vcpu_bytes(vm), 4096, 65536);
    for (uint32_t i = 0; i < row->vcpus; i++) {
        start_ap(v[i]);
        to_x2apic(v[i]);
    }
    reach_last(vm, v, row->vcpus);
    if (avicemu_check_invariants(vm, line, sizeof(line)) != 0) {
        fail_msg("%s", line);
    }
    for (uint32_t i = 0; i < row->vcpus; i++) {
        assert_int_equal(avicemu_vcpu_destroy(v[i]), 0);
    }
    assert_int_equal(avicemu_vm_destroy(vm), 0);
    assert_int_equal(avicemu_host_destroy(host), 0);
    free(v);
    free(vmm);
}

int
main(void)
{
    const struct CMUnitTest fixed[] = {
        { .name = "children go before parents",
          .test_func = test_destroy_order },
        { .name = "a host with a mapped region is busy",
          .test_func = test_mapped_host },
        RIG_TEST("ids are unique, places are finite", test_ids, .nr_vcpus = 2,
                 .nr_ids = 2, .ids = { 0, 0x25 }),
        RIG_TEST("every id is found, whoever came and went", test_churn,
                 .nr_vcpus = 1),
        RIG_TEST("nothing is destroyed from a callback",
                 test_destroy_in_callback, .eoi = destroy_in_eoi),
        RIG_TEST("vCPUs come and go beside senders", test_hot_add,
                 .nr_vcpus = 2),
    };
    struct CMUnitTest tests[NR(fixed) + NR(size_rows)];
    size_t n = 0;

    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    for (size_t i = 0; i < NR(size_rows); i++) {
        tests[n++] = (struct CMUnitTest){ .name = size_rows[i].name,
                                          .test_func = test_size,
                                          .initial_state = &size_rows[i] };
    }
    return cmocka_run_group_tests_name("create", tests, NULL, NULL) != 0;
}
