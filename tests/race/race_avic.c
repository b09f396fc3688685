/* SPDX-License-Identifier: BSD-2-Clause */

#include "race_avic.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "race.h"

#define PATIENCE 60 /* seconds until something counts as lost */

static const struct avicemu_cpu cpu_open = {
    .size = sizeof(cpu_open),
    .flags = AVICEMU_CPU_IF,
};

uint32_t
race_avic_dice(uint32_t *seed, uint32_t sides)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % sides;
}

void
race_avic_pause(unsigned *spins)
{
    if (++*spins % 32 == 0) {
        (void)sched_yield();
    }
}

static time_t
seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

void
race_avic_wait(struct race_avic *r, const _Atomic uint64_t *count, uint64_t n,
               const char *what)
{
    time_t end = seconds() + PATIENCE;
    unsigned spins = 0;

    while (atomic_load(count) < n && atomic_load(&r->over) == 0) {
        race_avic_pause(&spins);
        if (spins % 65536 == 0 && seconds() > end) {
            printf("%s: lost: %s\n", r->name, what);
            (void)atomic_fetch_add(&r->lost, 1);
            return;
        }
    }
}

/* ---- callbacks ---------------------------------------------------------- */

static void
on_wake(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct race_avic_cpu *c = opaque;

    (void)vcpu;
    (void)sem_post(&c->wake);
}

static void
on_kick(void *opaque, struct avicemu_vcpu *vcpu)
{
    struct race_avic_cpu *c = opaque;

    (void)vcpu;
    atomic_store(&c->kicked, 1);
}

static uint64_t
on_now(void *opaque)
{
    (void)opaque;
    return 0;
}

/* ---- accesses of the guest ---------------------------------------------- */

static void
leave(struct race_avic_cpu *c)
{
    struct avicemu_cpu cpu = cpu_open;

    cpu.cr8 = avicemu_cr8_read(c->vcpu);
    (void)avicemu_vcpu_exit(c->vcpu, &cpu);
    c->in_guest = 0;
}

/* In the guest or outside of it; after an exit the handler is run. */
void
race_avic_write(struct race_avic_cpu *c, uint32_t offset, uint64_t value)
{
    uint32_t low = (uint32_t)value;
    enum avicemu_access access =
        c->x2 ? avicemu_msr_write(c->vcpu, 0x800 + (offset >> 4), value)
              : avicemu_mmio_write(c->vcpu, 0xfee00000u + offset, 4, &low);

    if (access == AVICEMU_ACCESS_EXIT) {
        leave(c);
        (void)avicemu_vcpu_handle_exit(c->vcpu, NULL);
    }
}

static void
guest_ipi(struct race_avic_cpu *c, unsigned to, uint32_t vector)
{
    int logical = !c->x2 && race_avic_dice(&c->seed, 4) == 0;
    uint64_t dest = logical ? 1u << to : to;
    uint64_t low = vector | (logical ? 0x800u : 0);

    if (c->x2) {
        race_avic_write(c, 0x300, dest << 32 | low);
    } else {
        race_avic_write(c, 0x310, dest << 24);
        race_avic_write(c, 0x300, low);
    }
}

/* ---- the run loop ------------------------------------------------------- */

static int
is_over(const struct race_avic_cpu *c)
{
    return atomic_load(&c->r->over) != 0;
}

/* Where it runs from now on: one of two pCPUs of its own, or none. */
static void
place(struct race_avic_cpu *c)
{
    uint32_t where = race_avic_dice(&c->seed, c->r->stays ? 2 : 5);

    if (c->r->shared && c->index < 2) {
        (void)avicemu_vcpu_load(c->vcpu, 0);
    } else if (where < 2) {
        (void)avicemu_vcpu_put(c->vcpu);
        (void)avicemu_vcpu_load(c->vcpu, c->index + where * RACE_AVIC_VCPUS);
        c->ways[RACE_AVIC_MOVED]++;
        c->loaded = 1;
    } else if (where == 2) {
        (void)avicemu_vcpu_put(c->vcpu);
        c->loaded = 0;
    }
}

/* The next question, if the last one was answered. */
static void
ask(struct race_avic_cpu *c)
{
    unsigned to = race_avic_dice(&c->seed, c->r->nr_vcpus - 1);

    if (c->waiting || c->asked >= c->r->requests || is_over(c)) {
        return;
    }
    if (c->r->strays && race_avic_dice(&c->seed, 2) == 0) {
        /* Nobody waits for it; it may merge, be dropped, or find nobody. */
        guest_ipi(c, 3, RACE_AVIC_STRAY + c->index);
    }
    c->waiting = 1;
    c->asked++;
    guest_ipi(c, to < c->index ? to : to + 1, RACE_AVIC_ASK + c->index);
}

static void
take(struct race_avic_cpu *c, uint8_t vector, enum race_avic_way way)
{
    if (avicemu_vcpu_ack(c->vcpu, AVICEMU_DO_INJECT, vector) != 0) {
        printf("%s: no ack of %xh\n", c->r->name, vector);
        (void)atomic_fetch_add(&c->r->lost, 1);
        return;
    }
    c->ways[way]++;
    race_avic_write(c, 0xb0, 0);
    if (vector >= RACE_AVIC_ASK && vector < RACE_AVIC_ASK + RACE_AVIC_VCPUS) {
        guest_ipi(c, vector - RACE_AVIC_ASK, RACE_AVIC_ANSWER + c->index);
    } else if (vector >= RACE_AVIC_ANSWER && vector < RACE_AVIC_FREE) {
        c->waiting = 0;
        if (c->asked == c->r->requests) {
            (void)sem_post(&c->r->done);
        }
    }
    (void)atomic_fetch_add(&c->acked[vector], 1);
}

/* Between instructions: what came by the doorbell; 0: nothing. */
static uint32_t
look(struct race_avic_cpu *c, enum avicemu_recheck when, uint8_t *ret_vector)
{
    struct avicemu_todo todo = { .size = sizeof(todo) };

    if (avicemu_vcpu_recheck(c->vcpu, when, &cpu_open, &todo) != 0) {
        return 0;
    }
    *ret_vector = todo.vector;
    return todo.what & AVICEMU_DO_INJECT;
}

/* In the guest, with nothing to do, until something is heard or it has had
 * enough. */
static uint32_t
stay(struct race_avic_cpu *c, unsigned spins_max, uint8_t *ret_vector)
{
    uint32_t what = 0;

    for (unsigned spins = 0; what == 0 && spins < spins_max;) {
        if (atomic_exchange(&c->kicked, 0) != 0) {
            c->ways[RACE_AVIC_KICKED]++;
            leave(c);
            return 0;
        }
        if (is_over(c)) {
            leave(c);
            return 0;
        }
        what = look(c, AVICEMU_RECHECK_DOORBELL, ret_vector);
        race_avic_pause(&spins);
    }
    return what;
}

static void
halt(struct race_avic_cpu *c)
{
    int out = race_avic_dice(&c->seed, 4) == 0;

    while (sem_trywait(&c->wake) == 0) {
        /* Meant for an earlier wait. */
    }
    for (unsigned n = race_avic_dice(&c->seed, 8); n > 0; n--) {
        (void)sched_yield(); /* the IPI may come just now */
    }
    (void)avicemu_vcpu_set_halted(c->vcpu);
    if (avicemu_vcpu_block_begin(c->vcpu) != AVICEMU_SLEEP_YES) {
        c->ways[RACE_AVIC_AWAKE]++;
        return;
    }
    if (out && c->loaded) {
        (void)avicemu_vcpu_put(c->vcpu); /* scheduled out asleep */
    }
    while (!is_over(c) && sem_wait(&c->wake) != 0) {
        /* A signal of somebody's. */
    }
    if (out && c->loaded) {
        (void)avicemu_vcpu_load(c->vcpu, c->index);
    }
    (void)avicemu_vcpu_block_end(c->vcpu);
    c->ways[RACE_AVIC_WOKEN]++;
}

/* One stay in the guest. 1: then it halts. */
static int
guest(struct race_avic_cpu *c, uint32_t what, uint8_t vector)
{
    enum race_avic_way way = RACE_AVIC_AT_ENTRY;

    while (c->in_guest) {
        if ((what & AVICEMU_DO_INJECT) != 0) {
            take(c, vector, way);
            way = RACE_AVIC_AFTER_EOI;
            what = c->in_guest ? look(c, AVICEMU_RECHECK_ALWAYS, &vector) : 0;
            continue;
        }
        ask(c);
        if (!c->in_guest) {
            break;
        }
        uint32_t mood = c->r->stays ? 0 : race_avic_dice(&c->seed, 4);

        if (mood >= 2) {
            leave(c);
            return mood == 2;
        }
        way = RACE_AVIC_BELL;
        what = stay(c, c->r->shared ? 200 : UINT32_MAX, &vector);
        if (what == 0 && c->in_guest) {
            leave(c); /* the end of a slice */
        }
    }
    return 0;
}

static void
turn(struct race_avic_cpu *c)
{
    struct avicemu_todo todo = { .size = sizeof(todo) };
    int shares = c->r->shared && c->index < 2;
    int halts = 0;

    if (shares) {
        (void)pthread_mutex_lock(&c->r->pcpu_0);
    }
    if (shares || race_avic_dice(&c->seed, 4) == 0) {
        place(c);
    }
    atomic_store(&c->kicked, 0);
    (void)avicemu_vcpu_enter(c->vcpu, &cpu_open, &todo);
    c->in_guest = 1;
    if ((todo.what & AVICEMU_DO_SLEEP) != 0) {
        leave(c);
        halts = 1;
    } else {
        halts = guest(c, todo.what, todo.vector);
    }
    if (shares) {
        (void)avicemu_vcpu_put(c->vcpu);
        (void)pthread_mutex_unlock(&c->r->pcpu_0);
    }
    if (halts && (c->waiting || c->asked == c->r->requests)) {
        halt(c);
    }
    if (race_avic_dice(&c->seed, 2) == 0) {
        ask(c);
    }
}

static void *
vcpu_main(void *arg)
{
    struct race_avic_cpu *c = arg;
    unsigned spins = 0;

    while (atomic_load(&c->r->start) == 0) {
        race_avic_pause(&spins);
    }
    while (!is_over(c)) {
        turn(c);
    }
    return NULL;
}

/* ---- machine ------------------------------------------------------------ */

static int
vm_make(struct race_avic *r)
{
    struct avicemu_host_config hc = {
        .size = sizeof(hc),
        .avic = AVICEMU_HOST_AVIC | AVICEMU_HOST_X2AVIC | r->avic,
        .doorbells = r->doorbells,
        .nr_pcpus = r->doorbells == AVICEMU_DOORBELL_WORD ? RACE_AVIC_PCPUS : 0,
    };
    struct avicemu_vm_config vc = {
        .size = sizeof(vc),
        .flags = AVICEMU_VM_BOOKS | AVICEMU_VM_AVIC | r->vm_flags,
        .max_vcpus = r->max_vcpus != 0 ? r->max_vcpus : r->nr_vcpus,
        .max_apic_id = r->max_apic_id,
        .ops = { .kick = on_kick, .wake = on_wake, .now = on_now },
        .opaque = r,
    };

    return avicemu_host_create(&hc, &r->host) != 0 ||
           avicemu_vm_create(r->host, &vc, &r->vm) != 0;
}

int
race_avic_cpu_make(struct race_avic *r, unsigned i)
{
    struct avicemu_todo todo = { .size = sizeof(todo) };
    struct race_avic_cpu *c = &r->cpu[i];

    c->r = r;
    c->index = i;
    c->seed = i + 1;
    if (avicemu_vcpu_create(r->vm, i, c, &c->vcpu) != 0) {
        return 1;
    }
    if (i != 0) {
        (void)avicemu_post_mode(c->vcpu, AVICEMU_DELIVERY_SIPI, 8);
        (void)avicemu_vcpu_enter(c->vcpu, &cpu_open, &todo);
        (void)avicemu_vcpu_ack(c->vcpu, AVICEMU_DO_SIPI, todo.vector);
        leave(c);
    }
    if (r->x2) {
        uint64_t base = 0;

        (void)avicemu_msr_read(c->vcpu, 0x1b, &base);
        (void)avicemu_msr_write(c->vcpu, 0x1b, base | 0xc00);
        c->x2 = 1;
    }
    race_avic_write(c, 0xf0, 0x1ff);
    if (!r->x2) {
        race_avic_write(c, 0xd0, 0x01000000u << i);
    }
    (void)avicemu_vcpu_load(c->vcpu, i);
    c->loaded = 1;
    return 0;
}

/* All NEW to this vCPU, against what it took, lost to an INIT, and has. */
static unsigned
books(struct race_avic *r, unsigned i)
{
    struct avicemu_vcpu *vcpu = r->cpu[i].vcpu;
    struct avicemu_vcpu_books b = { .size = sizeof(b) };
    uint64_t in = i == 0 ? atomic_load(&r->posted) : 0;
    uint64_t out = 0;
    uint64_t n;

    for (unsigned s = 0; s <= r->nr_vcpus; s++) {
        (void)avicemu_vcpu_ipi_new_to(s < r->nr_vcpus ? r->cpu[s].vcpu : NULL,
                                      vcpu, &n);
        in += n;
    }
    for (unsigned v = 16; v < 256; v++) {
        (void)avicemu_vcpu_books(vcpu, (uint8_t)v, &b);
        in += b.local_new;
        out += b.acked + b.cleared + b.pending;
    }
    if (in != out) {
        printf("%s: vCPU %u: NEW %llu, taken %llu\n", r->name, i,
               (unsigned long long)in, (unsigned long long)out);
    }
    return in != out;
}

/* What is left, and what the VM is left with. */
static unsigned
machine_drop(struct race_avic *r)
{
    char text[160] = "";
    unsigned bad = avicemu_check_invariants(r->vm, text, sizeof(text));

    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        bad += books(r, i);
    }

    if (bad != 0) {
        printf("%s: %s\n", r->name, text);
    }
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        bad += avicemu_vcpu_destroy(r->cpu[i].vcpu) != 0;
    }
    bad += avicemu_vm_destroy(r->vm) != 0;
    bad += avicemu_host_destroy(r->host) != 0;
    return bad;
}

uint64_t
race_avic_count(const struct race_avic *r, enum race_avic_way way)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        n += r->cpu[i].ways[way];
    }
    return n;
}

static void
print(struct race_avic *r)
{
    static const char *const names[] = { "at entry", "by bell", "after EOI",
                                         "kicked",   "woken",   "awake",
                                         "moved" };
    struct avicemu_vcpu_stats sum = { .size = 0 };

    printf("%s, %llu requests each:", r->name, (unsigned long long)r->requests);
    for (unsigned w = 0; w < RACE_AVIC_WAYS; w++) {
        printf(" %s %llu,", names[w],
               (unsigned long long)race_avic_count(r, (enum race_avic_way)w));
    }
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        struct avicemu_vcpu_stats s = { .size = sizeof(s) };

        (void)avicemu_vcpu_stats(r->cpu[i].vcpu, &s);
        sum.doorbells += s.doorbells;
        sum.avic_incomplete += s.avic_incomplete;
        sum.ipi_wakes += s.ipi_wakes;
        sum.ipi_software += s.ipi_software;
        sum.ipi_merged += s.ipi_merged;
        sum.avic_flips += s.avic_flips;
    }
    printf(" doorbells %llu, exits 401h %llu, called by them %llu, "
           "software %llu, flips %llu, lost %u\n",
           (unsigned long long)sum.doorbells,
           (unsigned long long)sum.avic_incomplete,
           (unsigned long long)sum.ipi_wakes,
           (unsigned long long)sum.ipi_software,
           (unsigned long long)sum.avic_flips, atomic_load(&r->lost));
}

/* All were answered, or nobody could be any more. */
static void
await_all(struct race_avic *r)
{
    struct timespec end;

    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE;
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        while (sem_timedwait(&r->done, &end) != 0) {
            if (errno == ETIMEDOUT) {
                printf("%s: lost: a vCPU waits for ever\n", r->name);
                (void)atomic_fetch_add(&r->lost, 1);
                return;
            }
        }
    }
}

struct extra {
    struct race_avic *r;
    void (*fn)(struct race_avic *r);
};

static void *
extra_main(void *arg)
{
    const struct extra *x = arg;
    unsigned spins = 0;

    while (atomic_load(&x->r->start) == 0) {
        race_avic_pause(&spins);
    }
    x->fn(x->r);
    return NULL;
}

static unsigned
threads_run(struct race_avic *r)
{
    pthread_t ids[RACE_AVIC_VCPUS + RACE_AVIC_EXTRA];
    struct extra extra[RACE_AVIC_EXTRA];
    unsigned nr = 0, bad = 0;

    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        bad += pthread_create(&ids[nr], NULL, vcpu_main, &r->cpu[i]) != 0;
        nr += bad == 0;
    }
    for (unsigned i = 0; i < RACE_AVIC_EXTRA && r->extra[i] != NULL; i++) {
        extra[i] = (struct extra){ r, r->extra[i] };
        bad += pthread_create(&ids[nr], NULL, extra_main, &extra[i]) != 0;
        nr += bad == 0;
    }
    atomic_store(&r->over, bad != 0);
    atomic_store(&r->start, 1);
    if (bad == 0) {
        await_all(r);
    }
    atomic_store(&r->over, 1);
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        (void)sem_post(&r->cpu[i].wake);
    }
    for (unsigned i = 0; i < nr; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return bad;
}

void
race_avic_cpu_drain(struct race_avic_cpu *c)
{
    struct avicemu_todo todo = { .size = sizeof(todo) };

    do {
        (void)avicemu_vcpu_enter(c->vcpu, &cpu_open, &todo);
        leave(c);
        if ((todo.what & AVICEMU_DO_INJECT) != 0) {
            (void)avicemu_vcpu_ack(c->vcpu, AVICEMU_DO_INJECT, todo.vector);
            race_avic_write(c, 0xb0, 0);
        }
    } while ((todo.what & AVICEMU_DO_INJECT) != 0);
}

/* After it is over all follow the inhibit word at one entry. */
static unsigned
follow(struct race_avic_cpu *c)
{
    int off = avicemu_vm_inhibits(c->r->vm) != 0;

    race_avic_cpu_drain(c);
    unsigned bad = (avicemu_vcpu_avic(c->vcpu) == AVICEMU_AVIC_OFF) != off;

    if (bad != 0) {
        printf("%s: vCPU %u does not follow\n", c->r->name, c->index);
    }
    return bad;
}

unsigned
race_avic_run(struct race_avic *r)
{
    unsigned bad = 0;

    r->requests = race_rounds(r->requests);
    (void)sem_init(&r->done, 0, 0);
    (void)pthread_mutex_init(&r->pcpu_0, NULL);
    bad += (unsigned)vm_make(r);
    for (unsigned i = 0; i < RACE_AVIC_VCPUS; i++) {
        (void)sem_init(&r->cpu[i].wake, 0, 0);
    }
    for (unsigned i = 0; bad == 0 && i < r->nr_vcpus; i++) {
        bad += (unsigned)race_avic_cpu_make(r, i);
    }
    if (bad != 0) {
        printf("%s: no machine\n", r->name);
        return bad;
    }
    bad += threads_run(r);
    for (unsigned i = 0; i < r->nr_vcpus; i++) {
        bad += follow(&r->cpu[i]);
    }
    print(r);
    bad += machine_drop(r) + atomic_load(&r->lost);
    for (unsigned i = 0; i < RACE_AVIC_VCPUS; i++) {
        (void)sem_destroy(&r->cpu[i].wake);
    }
    (void)sem_destroy(&r->done);
    (void)pthread_mutex_destroy(&r->pcpu_0);
    return bad;
}
