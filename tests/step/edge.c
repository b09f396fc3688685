/* SPDX-License-Identifier: BSD-2-Clause */

#include "edge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/compiler.h"

#if defined(__SANITIZE_ADDRESS__)
#define EDGE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EDGE_ASAN 1
#endif
#endif
/* A sanitizer looks at each access, not at orders: the first schedules of a row
 * have them all, and the rest takes ten times as long as without. */
#define BRIEF 3000u
#ifdef EDGE_ASAN
void
__asan_poison_memory_region(void const volatile *addr, size_t size);
void
__asan_unpoison_memory_region(void const volatile *addr, size_t size);
#endif

/* Of a weakened library a store after free shall be found, not be fatal. */
static int mutant;

/* ---- memory ------------------------------------------------------------- */

static void *
edge_alloc(void *opaque, size_t align, size_t bytes)
{
    (void)opaque;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
edge_free(void *opaque, void *memory, size_t bytes)
{
    struct edge *e = opaque;

    if (e->nr_freed == EDGE_FREED) {
        free(memory);
        return;
    }
    e->freed[e->nr_freed].memory = memory;
    e->freed[e->nr_freed].bytes = bytes;
    e->freed[e->nr_freed].copy = malloc(bytes);
    memcpy(e->freed[e->nr_freed].copy, memory, bytes);
    e->nr_freed++;
#ifdef EDGE_ASAN
    if (!mutant) {
        __asan_poison_memory_region(memory, bytes);
    }
#endif
}

/* Give back what was freed; how many pieces were written after that. */
static unsigned
edge_sweep(struct edge *e)
{
    unsigned bad = 0;

    for (unsigned i = 0; i < e->nr_freed; i++) {
        void *p = e->freed[i].memory;

#ifdef EDGE_ASAN
        __asan_unpoison_memory_region(p, e->freed[i].bytes);
#endif
        bad += memcmp(p, e->freed[i].copy, e->freed[i].bytes) != 0;
        free(e->freed[i].copy);
        free(p);
    }
    e->nr_freed = 0;
    return bad;
}

/* ---- callbacks ---------------------------------------------------------- */

static void
note_call(struct edge_vcpu *v)
{
    v->late += (uint32_t)avicemu_step_load(&v->gone, 4);
}

static void
edge_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    note_call(v);
    v->wakes++;
    avicemu_step_store(&v->woken, 4, 1);
}

static void
edge_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    note_call(v);
    v->kicks++;
    avicemu_step_store(&v->kicked, 4, 1);
}

static void
edge_arm(void *opaque, struct avicemu_vcpu *vcpu, uint64_t deadline)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    v->armed = deadline;
}

static void
edge_eoi(void *opaque, struct avicemu_vcpu *vcpu, uint8_t vector)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    v->eois++;
    v->last_eoi = vector;
}

static uint8_t
edge_inta(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct edge_vcpu *v = opaque;

    (void)vcpu;
    v->intas++;
    return 0x33;
}

static uint64_t
edge_now(void *opaque)
{
    const struct edge *e = opaque;

    return e->now;
}

/* ---- set-up ------------------------------------------------------------- */

static int
vcpu_start(struct edge *e, unsigned i)
{
    uint8_t vector;
    int r = avicemu_vcpu_create(e->vm, i, &e->v[i], &e->v[i].vcpu);

    e->v[i].edge = e;
    e->v[i].armed = UINT64_MAX;
    if (r != 0) {
        return r;
    }
    if (i != 0) {
        (void)avicemu_post_mode(e->v[i].vcpu, AVICEMU_DELIVERY_SIPI, 8);
        (void)edge_take(e, i, &vector);
    }
    edge_write(e, i, 0xf0, 0x1ff);
    return 0;
}

static int
edge_setup(void *opaque)
{
    struct edge *e = opaque;
    struct avicemu_host_config host = {
        .size = sizeof(host),
        .allocator = { edge_alloc, edge_free, e },
    };
    struct avicemu_vm_config vm = {
        .size = sizeof(vm),
        .flags = AVICEMU_VM_BOOKS, /* for avicemu_check_invariants() */
        .max_vcpus = EDGE_VCPUS,
        .ops = { .kick = edge_kick,
                 .wake = edge_wake,
                 .arm = edge_arm,
                 .eoi = edge_eoi,
                 .inta = edge_inta,
                 .now = edge_now },
        .opaque = e,
    };

    memset(e->v, 0, sizeof(e->v));
    memset(e->r, 0, sizeof(e->r));
    e->now = 1000;
    int r = avicemu_host_create(&host, &e->host);

    r = r != 0 ? r : avicemu_vm_create(e->host, &vm, &e->vm);
    for (unsigned i = 0; r == 0 && i < e->row->nr_vcpus; i++) {
        r = vcpu_start(e, i);
    }
    return r == 0 && e->row->prepare != NULL ? e->row->prepare(e) : r;
}

static int
edge_check(void *opaque)
{
    struct edge *e = opaque;
    char text[120] = "";
    uint32_t bad = 0;

    for (unsigned i = 0; i < EDGE_VCPUS; i++) {
        bad += e->v[i].late;
    }
    if (bad != 0) {
        printf("a callback ran after destroy\n");
    } else if (avicemu_check_invariants(e->vm, text, sizeof(text)) != 0) {
        printf("%s\n", text);
        bad = 1;
    } else {
        bad = e->row->verify != NULL && e->row->verify(e) != 0;
    }
    /* Before the rest goes: what was freed by the parties. */
    unsigned written = edge_sweep(e);

    if (written != 0) {
        printf("%u pieces of memory were written after their free\n", written);
    }
    return bad != 0 || written != 0;
}

static void
edge_teardown(void *opaque)
{
    struct edge *e = opaque;

    for (unsigned i = 0; i < EDGE_VCPUS; i++) {
        if (e->v[i].vcpu != NULL) {
            (void)avicemu_vcpu_block_end(e->v[i].vcpu);
            edge_exit(e, i);
            (void)avicemu_vcpu_destroy(e->v[i].vcpu);
        }
    }
    (void)avicemu_vm_destroy(e->vm);
    (void)avicemu_host_destroy(e->host);
    (void)edge_sweep(e);
}

/* ---- exploring ---------------------------------------------------------- */

static const char *
outcome_name(enum avicemu_step_outcome outcome)
{
    static const char *const names[] = { "ok", "check failed", "deadlock",
                                         "livelock", "not deterministic" };

    return names[outcome];
}

static void
row_explore(void **state)
{
    static const char *const names[] = { "A", "B", "C" };
    static struct edge e;
    struct avicemu_step_test test = {
        .size = sizeof(test),
        .opaque = &e,
        .setup = edge_setup,
        .check = edge_check,
        .teardown = edge_teardown,
    };
    struct avicemu_step_found found = { .size = sizeof(found) };
    struct avicemu_step_limits limits = {
        .size = sizeof(limits),
        .flags = AVICEMU_STEP_TSO,
        .max_schedules = AE_SANITIZED && !mutant ? BRIEF : 0,
    };
    struct timespec t0, t1;

    memset(&e, 0, sizeof(e));
    e.row = *state;
    test.nr_parties = e.row->nr_parties;
    for (uint32_t i = 0; i < test.nr_parties; i++) {
        test.names[i] = names[i];
        test.fns[i] = e.row->fns[i];
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &t0);
    assert_int_equal(avicemu_step_explore(&test, &limits, &found), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("%s: %s, %s; %llu schedules, %llu pruned, %llu steps, longest %u, "
           "%lld ms\n",
           e.row->name, outcome_name(found.outcome),
           found.complete ? "complete" : "not complete",
           (unsigned long long)found.schedules,
           (unsigned long long)found.pruned, (unsigned long long)found.steps,
           found.longest,
           (long long)(t1.tv_sec - t0.tv_sec) * 1000 +
               (t1.tv_nsec - t0.tv_nsec) / 1000000);
    if (found.outcome != AVICEMU_STEP_OK) {
        printf("schedule: %s\n", found.schedule);
    }
    if (mutant) {
        assert_int_not_equal(found.outcome, AVICEMU_STEP_OK);
        assert_int_not_equal(found.outcome, AVICEMU_STEP_NONDETERMINISTIC);
    } else {
        assert_int_equal(found.outcome, AVICEMU_STEP_OK);
        assert_true(found.complete || found.schedules + found.pruned == BRIEF);
        assert_true(!found.complete || (e.seen & e.must) == e.must);
    }
}

int
edge_main(const struct edge_row *rows, size_t nr, int argc, char **argv)
{
    struct CMUnitTest *tests = calloc(nr, sizeof(*tests));
    size_t used = 0;

    mutant = argc == 3 && strcmp(argv[1], "mutant") == 0;
    for (size_t i = 0; tests != NULL && i < nr; i++) {
        if (mutant && strcmp(argv[2], rows[i].name) != 0) {
            continue;
        }
        tests[used++] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = row_explore,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    if (used == 0) {
        printf("no such test\n");
        free(tests);
        return 1;
    }
    int r = _cmocka_run_group_tests("edges", tests, used, NULL, NULL);

    free(tests);
    return r;
}

/* ---- short words -------------------------------------------------------- */

uint32_t
edge_read(struct edge *e, unsigned vcpu, uint32_t offset)
{
    uint32_t value = 0;

    (void)avicemu_mmio_read(e->v[vcpu].vcpu, 0xfee00000u + offset, 4, &value);
    return value;
}

void
edge_write(struct edge *e, unsigned vcpu, uint32_t offset, uint32_t value)
{
    (void)avicemu_mmio_write(e->v[vcpu].vcpu, 0xfee00000u + offset, 4, &value);
}

int
edge_bit(struct edge *e, unsigned vcpu, uint32_t base, uint8_t vector)
{
    uint32_t word = 0;

    (void)avicemu_vcpu_peek(e->v[vcpu].vcpu, base + (vector >> 5) * 16u, &word);
    return (word >> (vector & 31) & 1) != 0;
}

uint32_t
edge_enter(struct edge *e, unsigned vcpu, uint8_t *ret_vector)
{
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };
    struct avicemu_todo todo = { .size = sizeof(todo) };

    if (avicemu_vcpu_enter(e->v[vcpu].vcpu, &cpu, &todo) != 0) {
        return 0;
    }
    *ret_vector = todo.vector;
    return todo.what;
}

void
edge_exit(struct edge *e, unsigned vcpu)
{
    const struct avicemu_cpu cpu = {
        .size = sizeof(cpu),
        .flags = AVICEMU_CPU_IF,
    };

    (void)avicemu_vcpu_exit(e->v[vcpu].vcpu, &cpu);
}

uint32_t
edge_take(struct edge *e, unsigned vcpu, uint8_t *ret_vector)
{
    const uint32_t events = AVICEMU_DO_INJECT | AVICEMU_DO_NMI |
                            AVICEMU_DO_SMI | AVICEMU_DO_INIT | AVICEMU_DO_SIPI;
    uint32_t what = edge_enter(e, vcpu, ret_vector) & events;

    if (what != 0 && avicemu_vcpu_ack(e->v[vcpu].vcpu, (enum avicemu_do)what,
                                      *ret_vector) != 0) {
        what = 0;
    }
    edge_exit(e, vcpu);
    return what;
}

int
edge_halt(struct edge *e, unsigned vcpu)
{
    struct edge_vcpu *v = &e->v[vcpu];

    if (avicemu_vcpu_block_begin(v->vcpu) != AVICEMU_SLEEP_YES) {
        return 0;
    }
    while (avicemu_step_load(&v->woken, 4) == 0) {
        avicemu_step_relax("asleep");
    }
    avicemu_step_store(&v->woken, 4, 0);
    (void)avicemu_vcpu_block_end(v->vcpu);
    return 1;
}

uint64_t
edge_msi_address(uint32_t dest)
{
    return 0xfee00000u | (uint64_t)dest << 12;
}
