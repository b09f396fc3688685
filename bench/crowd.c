/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads beside the measured one. See crowd.h.
 */

#include "crowd.h"

#include <sched.h>

#include <avicemu/avicemu.h>

#include "harness.h"

#define STOP          UINT32_MAX
#define CHANGES_A_SEC 50u /* how long a change may take: 20 ms */

static void *
member_thread(void *opaque)
{
    struct crowd_member *m = opaque;
    struct crowd *c = m->crowd;
    uint32_t last = STOP;

    bench_pin(m->n + 1); /* the measured thread is on the first CPU */
    avicemu_thread_attach();
    for (;;) {
        uint32_t what = atomic_load_explicit(&c->what, memory_order_acquire);

        if (what == STOP) {
            return NULL;
        }
        if (what != last) {
            (void)atomic_fetch_add(&c->noticed, 1);
            last = what;
        }
        c->burst(c->state, m->n, what);
    }
}

bool
crowd_start(struct crowd *c, unsigned nr, uint32_t what, crowd_fn burst,
            void *state)
{
    atomic_store(&c->what, what);
    c->burst = burst;
    c->state = state;
    for (unsigned n = 0; n < nr && n < CROWD_MAX; n++) {
        struct crowd_member *m = &c->members[n];

        *m = (struct crowd_member){ .crowd = c, .n = n };
        if (pthread_create(&m->thread, NULL, member_thread, m) != 0) {
            return false;
        }
        c->nr++;
    }
    return true;
}

void
crowd_change(struct crowd *c, uint32_t what)
{
    if (atomic_load_explicit(&c->what, memory_order_relaxed) == what) {
        return;
    }
    uint64_t end = bench_tsc() + bench_tsc_hz() / CHANGES_A_SEC;

    atomic_store(&c->noticed, 0);
    atomic_store(&c->what, what);
    while (atomic_load(&c->noticed) < c->nr && bench_tsc() < end) {
        (void)sched_yield();
    }
}

void
crowd_stop(struct crowd *c)
{
    atomic_store(&c->what, STOP);
    for (unsigned n = 0; n < c->nr; n++) {
        (void)pthread_join(c->members[n].thread, NULL);
    }
    c->nr = 0;
}
