/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The step build's threads: parties, places to switch, and scripts.
 *
 * A party parks at a place to switch by saying what it does next and asking
 * the chooser who goes on; usually that is itself, so a run costs one thread
 * switch for each switch of parties, not for each step.
 *
 *   PARKED --chosen--> RUNNING --ae_step_point()--> PARKED ... --> DONE
 *
 * Places: each atomic access (atomic_step.c) where the run says so; else named
 * stops; locks, grace periods and polling loops always, for only there the
 * chooser can know that a party cannot go on: a lock is tried without effect,
 * a grace period counts the sections that were open at its beginning, and a
 * polling loop goes on when a value that it loaded has changed.
 *
 * Threads that are no parties have self = NULL and pass through everything.
 */

#include "base/step.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/step_run.h"

static _Thread_local struct ae_step_party *self;

/* Stands for the read-side sections as a whole. */
static const char rcu_object;

struct ae_step_party *
ae_step_self(void)
{
    return self;
}

/* ---- the baton ---------------------------------------------------------- */

static void
baton_wait(sem_t *baton)
{
    while (sem_wait(baton) != 0) {
        /* A signal: wait on. */
    }
}

static int
index_of(const struct ae_step_party *p)
{
    return (int)(p - p->run->party);
}

/* Choose; true if the baton went to another thread. me: NULL if it cannot go
 * on itself. */
static bool
baton_pass(struct ae_step_run *run, const struct ae_step_party *me)
{
    int to = run->choose(run);

    while (to >= AE_STEP_DRAIN) {
        ae_step_drain_one(&run->party[to - AE_STEP_DRAIN]);
        to = run->choose(run);
    }
    if (to == AE_STEP_CONTROLLER) {
        (void)sem_post(&run->controller);
        return true;
    }
    run->current = to;
    if (me != NULL && to == index_of(me)) {
        return false;
    }
    (void)sem_post(&run->party[to].baton);
    return true;
}

void
ae_step_point(struct ae_step_party *me, const struct ae_step_op *op)
{
    me->op = *op;
    me->status = AE_STEP_PARKED;
    if (baton_pass(me->run, me)) {
        baton_wait(&me->baton);
        if (me->run->abandoned) {
            pthread_exit(NULL);
        }
    }
    me->status = AE_STEP_RUNNING;
    me->label = NULL;
}

static void *
party_main(void *arg)
{
    struct ae_step_party *me = arg;

    self = me;
    for (;;) {
        baton_wait(&me->baton);
        if (me->run->abandoned) {
            return NULL;
        }
        me->status = AE_STEP_RUNNING;
        me->fn(me->arg);
        me->status = AE_STEP_DONE;
        (void)baton_pass(me->run, NULL);
    }
}

/* ---- who can go on ------------------------------------------------------ */

static bool
all_drained(const struct ae_step_run *run)
{
    for (uint32_t i = 0; i < run->nr; i++) {
        if (run->party[i].nr_stores != 0) {
            return false;
        }
    }
    return true;
}

static bool
grace_over(const struct ae_step_run *run, const struct ae_step_party *p)
{
    for (uint32_t i = 0; i < run->nr; i++) {
        if (p->grace[i] != 0 && run->party[i].nesting != 0 &&
            run->party[i].sections == p->grace[i]) {
            return false;
        }
    }
    return true;
}

bool
ae_step_enabled(struct ae_step_run *run, const struct ae_step_party *p)
{
    if (p->status != AE_STEP_PARKED || (p->op.drained && p->nr_stores != 0) ||
        (p->op.all_drained && !all_drained(run))) {
        return false;
    }
    switch (p->op.wait) {
    case AE_STEP_LOCK:
        return p->op.is_free(p->op.lock);
    case AE_STEP_WATCH:
        return ae_step_watch_changed(p);
    case AE_STEP_GRACE:
        return grace_over(run, p);
    case AE_STEP_NOW:
    default:
        return true;
    }
}

/* ---- what a step touches ------------------------------------------------ */

struct ae_step_footprint
ae_step_footprint_of(const struct ae_step_run *run, int choice)
{
    struct ae_step_footprint f = { .nr_watched = 0 };

    if (choice >= AE_STEP_DRAIN) {
        const struct ae_step_store *s =
            &run->party[choice - AE_STEP_DRAIN].stores[0];

        f.op = (struct ae_step_op){
            .what = "drain",
            .address = s->address,
            .bytes = s->bytes,
            .effect = AE_STEP_WRITE,
        };
        return f;
    }
    const struct ae_step_party *p = &run->party[choice];

    f.op = p->op;
    f.nr_watched = p->nr_watched;
    for (uint32_t i = 0; i < p->nr_watched && i < AE_STEP_FOOTPRINT; i++) {
        f.watched[i] = p->watched[i].address;
    }
    return f;
}

static bool
overlap(const volatile void *a, uint32_t bytes, const struct ae_step_op *b)
{
    uintptr_t x = (uintptr_t)a;
    uintptr_t y = (uintptr_t)b->address;

    return x < y + b->bytes && y < x + bytes;
}

/* Does a polling loop go by what the other step writes? */
static bool
watches(const struct ae_step_footprint *f, const struct ae_step_op *b)
{
    if (f->nr_watched == 0 || f->nr_watched > AE_STEP_FOOTPRINT) {
        return true;
    }
    for (uint32_t i = 0; i < f->nr_watched; i++) {
        if (overlap(f->watched[i], 8, b)) {
            return true;
        }
    }
    return false;
}

bool
ae_step_independent(int u, const struct ae_step_footprint *fu, int v,
                    const struct ae_step_footprint *fv)
{
    const struct ae_step_op *a = &fu->op;
    const struct ae_step_op *b = &fv->op;

    if ((u - v) % AE_STEP_DRAIN == 0) {
        /* A party and its own drain: loads do not mind, for what is in the
         * buffer is forwarded. */
        return u != v && !a->drained && !b->drained && !a->all_drained &&
               !b->all_drained;
    }
    if (a->all_drained || b->all_drained) {
        /* Any step may end in a store that is not visible yet. */
        return false;
    }
    if (a->effect == AE_STEP_LOCAL || b->effect == AE_STEP_LOCAL) {
        return true;
    }
    if (a->effect == AE_STEP_ANY || b->effect == AE_STEP_ANY) {
        return false;
    }
    if (a->effect == AE_STEP_READ && b->effect == AE_STEP_READ) {
        return true;
    }
    if (a->wait == AE_STEP_WATCH || b->wait == AE_STEP_WATCH) {
        return a->wait == AE_STEP_WATCH ? !watches(fu, b) : !watches(fv, a);
    }
    return !overlap(a->address, a->bytes, b);
}

/* ---- seams -------------------------------------------------------------- */

/* A place where the party may have to wait. Without switching at accesses its
 * own stores, or everybody's, become visible at once. */
static void
wait_point(struct ae_step_party *me, const struct ae_step_op *op)
{
    struct ae_step_run *run = me->run;

    if (!run->accesses && (op->drained || op->all_drained)) {
        ae_step_drain_all(me);
    }
    for (uint32_t i = 0; i < run->nr && op->all_drained && !run->accesses;
         i++) {
        ae_step_drain_all(&run->party[i]);
    }
    if (run->script) {
        me->op = *op;
        me->status = AE_STEP_PARKED;
        if (ae_step_enabled(run, me)) {
            me->status = AE_STEP_RUNNING;
            return;
        }
    }
    ae_step_point(me, op);
}

void
ae_step_stop(const char *label)
{
    if (self == NULL) {
        return;
    }
    if (self->run->accesses) {
        self->label = label;
        return;
    }
    avicemu_step_here(label);
}

void
avicemu_step_here(const char *label)
{
    const struct ae_step_op op = {
        .what = label,
        .effect = AE_STEP_ANY,
        .stop = true,
    };

    if (self != NULL) {
        ae_step_point(self, &op);
    }
}

void
ae_step_relax(const char *label)
{
    const struct ae_step_op op = {
        .what = label,
        .effect = AE_STEP_READ,
        .wait = AE_STEP_WATCH,
    };

    if (self == NULL) {
        (void)sched_yield();
        return;
    }
    wait_point(self, &op);
    self->nr_watched = 0;
}

void
avicemu_step_relax(const char *label)
{
    ae_step_relax(label);
}

void
ae_step_lock(void *lock, bool (*is_free)(void *lock))
{
    const struct ae_step_op op = {
        .what = "lock",
        .address = lock,
        .bytes = 1,
        .effect = AE_STEP_WRITE,
        .wait = AE_STEP_LOCK,
        .drained = true,
        .lock = lock,
        .is_free = is_free,
    };

    if (self != NULL) {
        wait_point(self, &op);
    }
}

/* What is only a place to switch where every access is one. */
static void
access_point(const struct ae_step_op *op)
{
    if (self == NULL) {
        return;
    }
    if (self->run->accesses) {
        ae_step_point(self, op);
    } else if (op->drained) {
        ae_step_drain_all(self);
    }
}

void
ae_step_unlock(void *lock)
{
    const struct ae_step_op op = {
        .what = "unlock",
        .address = lock,
        .bytes = 1,
        .effect = AE_STEP_WRITE,
        .drained = true,
    };

    access_point(&op);
}

void
ae_step_free(void *memory, size_t bytes)
{
    const struct ae_step_op op = {
        .what = "free",
        .address = memory,
        .bytes = (uint32_t)bytes,
        .effect = AE_STEP_WRITE,
        .drained = true,
    };

    access_point(&op);
}

/* ---- read-side sections ------------------------------------------------- */

static void
rcu_point(const char *what)
{
    const struct ae_step_op op = {
        .what = what,
        .address = &rcu_object,
        .bytes = 1,
        .effect = AE_STEP_READ,
    };

    access_point(&op);
}

bool
ae_step_rcu_enter(void)
{
    if (self == NULL) {
        return false;
    }
    rcu_point("enter");
    if (self->nesting++ == 0) {
        self->sections++;
    }
    return true;
}

bool
ae_step_rcu_leave(void)
{
    if (self == NULL) {
        return false;
    }
    rcu_point("leave");
    self->nesting--;
    return true;
}

bool
ae_step_rcu_inside(void)
{
    return self != NULL && self->nesting != 0;
}

void
ae_step_rcu_synchronize(void)
{
    struct ae_step_op op = {
        .what = "synchronize",
        .effect = AE_STEP_ANY,
        .all_drained = true,
    };

    if (self == NULL) {
        return;
    }
    wait_point(self, &op);
    for (uint32_t i = 0; i < self->run->nr; i++) {
        const struct ae_step_party *other = &self->run->party[i];

        self->grace[i] = other->nesting != 0 ? other->sections : 0;
    }
    op.what = "grace";
    op.wait = AE_STEP_GRACE;
    wait_point(self, &op);
}

/* ---- runs --------------------------------------------------------------- */

int
ae_step_run_init(struct ae_step_run *run, uint32_t flags)
{
    memset(run, 0, sizeof(*run));
    run->flags = flags;
    run->current = AE_STEP_CONTROLLER;
    return sem_init(&run->controller, 0, 0) == 0 ? 0 : -ENOMEM;
}

static void
party_restart(struct ae_step_party *p)
{
    p->status = AE_STEP_PARKED;
    p->op = (struct ae_step_op){ .what = "start" };
    p->label = NULL;
    p->nr_stores = 0;
    p->nr_watched = 0;
    p->nesting = 0;
    p->sections = 0;
}

int
ae_step_run_add(struct ae_step_run *run, const char *name, avicemu_step_fn fn,
                void *arg)
{
    struct ae_step_party *p = &run->party[run->nr];

    if (run->nr == AE_STEP_PARTIES) {
        return -EBUSY;
    }
    p->run = run;
    p->name = name;
    p->fn = fn;
    p->arg = arg;
    party_restart(p);
    if (sem_init(&p->baton, 0, 0) != 0) {
        return -ENOMEM;
    }
    if (pthread_create(&p->thread, NULL, party_main, p) != 0) {
        (void)sem_destroy(&p->baton);
        return -ENOMEM;
    }
    run->nr++;
    return 0;
}

void
ae_step_run_restart(struct ae_step_run *run)
{
    for (uint32_t i = 0; i < run->nr; i++) {
        party_restart(&run->party[i]);
    }
    run->current = AE_STEP_CONTROLLER;
    run->steps = 0;
}

void
ae_step_run_go(struct ae_step_run *run)
{
    /* Where the chooser wants nobody to run, it is the controller's post that
     * is waited for. */
    (void)baton_pass(run, NULL);
    baton_wait(&run->controller);
}

void
ae_step_run_fini(struct ae_step_run *run)
{
    run->abandoned = true;
    for (uint32_t i = 0; i < run->nr; i++) {
        (void)sem_post(&run->party[i].baton);
        (void)pthread_join(run->party[i].thread, NULL);
        (void)sem_destroy(&run->party[i].baton);
    }
    (void)sem_destroy(&run->controller);
}
