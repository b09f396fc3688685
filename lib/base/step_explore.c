/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The explorer: a depth-first search over schedules that keeps no states. Each
 * schedule is run from the set-up; the path of the last one is a stack of
 * nodes, one per step, and the next one differs in the deepest node that has
 * an alternative left.
 *
 * Reduction: dynamic partial-order reduction (Flanagan and Godefroid, POPL
 * 2005) with sleep sets (Godefroid, 1996). A node gets an alternative only
 * where two steps of the run depend on each other, are not ordered by what
 * lies between (vector clocks), and so could have come the other way round.
 * A choice that was explored sleeps in the node's later subtrees until a step
 * is taken that it depends on. Of all schedules that differ only in the order
 * of independent steps one is run to its end; what is found on the way to be
 * such a copy is run on without branching and counted as pruned.
 *
 * A process is a party, or a party's store buffer: a drain follows the step
 * that stored, and the drains before it.
 *
 * Two steps depend on each other if they touch the same memory and one of
 * them writes, if one's footprint is not known, or if one can make the other
 * possible: a locked operation and its party's drain, a grace period and
 * everything. A store is no step of its own with AVICEMU_STEP_TSO; its drain
 * is one.
 *
 * With a limit of preemptions, or where only named stops are places to
 * switch, there is no reduction: a schedule within the limit may have its
 * equivalent outside, and a footprint between two stops is not known.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/step_run.h"

#define DEFAULT_STEPS     20000u
#define DEFAULT_SCHEDULES 1000000u
#define NR_CHOICES        (2 * AE_STEP_PARTIES)

/* By process, the number of its last step that comes before, plus 1. */
struct clock {
    uint32_t at[NR_CHOICES];
};

/* One step of the current path. Sets are bits by choice. */
struct node {
    uint32_t enabled;
    uint32_t sleep;
    uint32_t wanted; /* alternatives, with reduction */
    uint32_t tried;
    int chosen;
    struct ae_step_footprint did;
    struct clock clock; /* of chosen, after the step */
    int before;         /* who ran before */
    uint32_t preemptions;
    const char *label; /* last stop that was passed or reached, or NULL */
};

struct explorer {
    struct ae_step_run run;
    const struct avicemu_step_test *test;
    uint32_t max_steps;
    uint64_t max_schedules;
    uint32_t max_preemptions;
    bool replay;
    bool reduce;
    struct node *nodes;
    uint32_t prefix; /* so many nodes are given */
    uint32_t depth;  /* of the current run */
    uint32_t extra;  /* steps beyond the path, while pruned */
    uint32_t sleep;
    uint32_t last[NR_CHOICES]; /* each process's last step, plus 1; 0: none */
    bool pruned;
    bool misfit;
    enum avicemu_step_outcome outcome;
    struct avicemu_step_found *found;
};

/* ---- sleep -------------------------------------------------------------- */

/* Of these choices, those that still sleep after chosen was run. */
static uint32_t
sleep_after(const struct ae_step_run *run, uint32_t set, int chosen,
            const struct ae_step_footprint *did)
{
    uint32_t left = 0;

    for (int u = 0; u < (int)NR_CHOICES; u++) {
        if ((set & 1u << u) != 0 && u != chosen) {
            const struct ae_step_footprint f = ae_step_footprint_of(run, u);

            left |= ae_step_independent(u, &f, chosen, did) ? 1u << u : 0;
        }
    }
    return left;
}

/* ---- races -------------------------------------------------------------- */

static void
clock_join(struct clock *a, const struct clock *b)
{
    for (unsigned i = 0; i < NR_CHOICES; i++) {
        a->at[i] = a->at[i] < b->at[i] ? b->at[i] : a->at[i];
    }
}

/* What comes before a process's next step whatever the schedule is: its own
 * steps; for a drain, the store; for what waits for its own drains, these. */
static struct clock
clock_before(const struct explorer *e, int choice,
             const struct ae_step_footprint *f)
{
    struct clock c = { { 0 } };
    const int party = choice % AE_STEP_DRAIN;

    if (e->last[choice] != 0) {
        c = e->nodes[e->last[choice] - 1].clock;
    }
    if (choice >= AE_STEP_DRAIN) {
        uint32_t step = e->run.party[party].stores[0].step;

        clock_join(&c, &e->nodes[step - 1].clock);
    }
    if ((f->op.drained || f->op.all_drained) &&
        e->last[party + AE_STEP_DRAIN] != 0) {
        clock_join(&c, &e->nodes[e->last[party + AE_STEP_DRAIN] - 1].clock);
    }
    return c;
}

/*
 * The next step of choice could have come before step i. Who can be first in
 * a run that has all that does not come after i, then that step? One of them
 * must be tried at node i. after: the next step's clock so far.
 */
static void
race_note(struct explorer *e, uint32_t i, int choice, const struct clock *after)
{
    struct node *n = &e->nodes[i];
    uint32_t first[NR_CHOICES] = { 0 }; /* plus 1, 0: none */
    uint32_t fit = 0;

    for (uint32_t k = i + 1; k <= e->depth; k++) {
        const struct clock *c = k < e->depth ? &e->nodes[k].clock : after;
        int who = k < e->depth ? e->nodes[k].chosen : choice;
        bool initial = first[who] == 0;

        if (k < e->depth && (c->at[n->chosen] > i || !initial)) {
            continue;
        }
        for (unsigned r = 0; r < NR_CHOICES; r++) {
            initial = initial && (first[r] == 0 || c->at[r] < first[r]);
        }
        first[who] = first[who] == 0 ? k + 1 : first[who];
        fit |= initial ? 1u << who : 0;
    }
    fit &= n->enabled;
    if (fit == 0) {
        n->wanted |= n->enabled;
    } else if ((fit & n->wanted) == 0) {
        n->wanted |= (fit & 1u << choice) != 0 ? 1u << choice : fit & -fit;
    }
}

/* Races of a process's next step with the path. Its clock after it, for the
 * case that it is taken now. */
static struct clock
races_find(struct explorer *e, int choice, const struct ae_step_footprint *f)
{
    const struct clock before = clock_before(e, choice, f);
    struct clock after = before;
    /* What may have had to wait can have come before a step that is not the
     * last one it depends on: no order is taken for granted there. */
    const bool waits = f->op.wait != AE_STEP_NOW || f->op.all_drained;

    for (uint32_t i = e->depth; i-- > 0;) {
        const struct node *n = &e->nodes[i];

        if (before.at[n->chosen] > i ||
            ae_step_independent(n->chosen, &n->did, choice, f)) {
            continue;
        }
        if (waits) {
            e->nodes[i].wanted |= n->enabled;
        } else if (after.at[n->chosen] <= i) {
            race_note(e, i, choice, &after);
        }
        clock_join(&after, &n->clock);
    }
    after.at[choice] = e->depth + 1;
    return after;
}

/* The path ends here: races of all that would have come. */
static void
races_find_all(struct explorer *e)
{
    for (int c = 0; c < (int)NR_CHOICES && e->reduce; c++) {
        const struct ae_step_party *p = &e->run.party[c % AE_STEP_DRAIN];

        if (c % AE_STEP_DRAIN < (int)e->run.nr &&
            (c < AE_STEP_DRAIN ? p->status == AE_STEP_PARKED
                               : p->nr_stores != 0)) {
            const struct ae_step_footprint f = ae_step_footprint_of(&e->run, c);

            (void)races_find(e, c, &f);
        }
    }
}

/* ---- choosing ----------------------------------------------------------- */

static uint32_t
enabled_now(struct ae_step_run *run)
{
    uint32_t set = 0;

    for (uint32_t i = 0; i < run->nr; i++) {
        const struct ae_step_party *p = &run->party[i];

        set |= ae_step_enabled(run, p) ? 1u << i : 0;
        set |= p->nr_stores != 0 ? 1u << (i + AE_STEP_DRAIN) : 0;
    }
    return set;
}

/* Who ran goes on where he can, then his stores, then others. */
static int
pick(uint32_t set, int current)
{
    if (current >= 0 && (set & 1u << current) != 0) {
        return current;
    }
    if (current >= 0 && (set & 1u << (current + AE_STEP_DRAIN)) != 0) {
        return current + AE_STEP_DRAIN;
    }
    return __builtin_ctz(set);
}

static bool
is_preemption(const struct node *n, int choice)
{
    return n->before >= 0 && choice != n->before &&
           (n->enabled & 1u << n->before) != 0;
}

/* What may be tried at this node. */
static uint32_t
candidates(const struct explorer *e, const struct node *n)
{
    uint32_t set = n->enabled & ~n->sleep & ~n->tried;

    if (e->reduce) {
        set &= n->wanted;
    }
    if (e->max_preemptions == 0 || n->preemptions < e->max_preemptions) {
        return set;
    }
    for (int c = 0; c < (int)NR_CHOICES; c++) {
        if (is_preemption(n, c)) {
            set &= ~(1u << c);
        }
    }
    return set;
}

static void
note_label(struct explorer *e)
{
    if (e->depth == 0 || e->run.current < 0) {
        return;
    }
    struct node *n = &e->nodes[e->depth - 1];
    const struct ae_step_party *p = &e->run.party[e->run.current];

    if (n->chosen == e->run.current) {
        n->label = p->label;
        if (p->status == AE_STEP_PARKED && p->op.stop) {
            n->label = p->op.what;
        }
    }
}

static int
stop_with(struct explorer *e, enum avicemu_step_outcome outcome)
{
    e->outcome = outcome;
    return AE_STEP_CONTROLLER;
}

/* Fill in a node that is not on the given path. false: all of it sleeps. */
static bool
node_new(struct explorer *e, struct node *n, uint32_t enabled)
{
    const struct node *parent = e->depth != 0 ? n - 1 : NULL;

    *n = (struct node){
        .enabled = enabled,
        .sleep = e->sleep,
        .wanted = enabled,
        .before = e->run.current,
    };
    if (parent != NULL) {
        n->preemptions =
            parent->preemptions + is_preemption(parent, parent->chosen);
    }
    uint32_t set = candidates(e, n);

    if (set == 0) {
        return false;
    }
    n->chosen = pick(set, e->run.current);
    n->wanted = 1u << n->chosen;
    return true;
}

/* The node's choice is made: what it does, and what it means for others. */
static void
step_take(struct explorer *e, struct node *n)
{
    n->did = ae_step_footprint_of(&e->run, n->chosen);
    n->label = NULL;
    if (e->reduce) {
        n->clock = races_find(e, n->chosen, &n->did);
        e->sleep =
            sleep_after(&e->run, n->sleep | n->tried, n->chosen, &n->did);
    }
    e->depth++;
    e->last[n->chosen] = e->depth;
    e->run.steps = e->depth;
}

static int
choose(struct ae_step_run *run)
{
    struct explorer *e = run->chooser;
    uint32_t enabled = enabled_now(run);
    struct node *n = &e->nodes[e->depth];

    note_label(e);
    if (enabled == 0) {
        bool done = true;

        for (uint32_t i = 0; i < run->nr; i++) {
            done = done && run->party[i].status == AE_STEP_DONE;
        }
        return stop_with(e, done ? AVICEMU_STEP_OK : AVICEMU_STEP_DEADLOCK);
    }
    if (e->depth + e->extra >= e->max_steps) {
        return stop_with(e, AVICEMU_STEP_LIVELOCK);
    }
    e->found->steps++;
    if (e->pruned) {
        e->extra++;
        return pick(enabled, run->current);
    }
    if (e->depth >= e->prefix) {
        if (!node_new(e, n, enabled)) {
            races_find_all(e);
            e->pruned = true;
            e->extra++;
            return pick(enabled, run->current);
        }
    } else if (e->replay) {
        n->enabled = enabled;
        if ((enabled & 1u << n->chosen) == 0) {
            e->misfit = true;
            return AE_STEP_CONTROLLER;
        }
    } else if (n->enabled != enabled) {
        return stop_with(e, AVICEMU_STEP_NONDETERMINISTIC);
    }
    step_take(e, n);
    return n->chosen;
}

/* To the deepest node with an alternative. false: there is none. */
static bool
backtrack(struct explorer *e)
{
    for (uint32_t d = e->depth; d-- > 0;) {
        struct node *n = &e->nodes[d];

        n->tried |= 1u << n->chosen;
        uint32_t set = candidates(e, n);

        if (set != 0) {
            n->chosen = pick(set, n->before);
            e->prefix = d + 1;
            return true;
        }
    }
    return false;
}

/* ---- schedules as text -------------------------------------------------- */

/* Append "name:label*n"; false: it does not fit. */
static bool
text_add(struct avicemu_step_found *f, size_t *used, const char *name,
         const char *label, unsigned n)
{
    size_t room = sizeof(f->schedule) - *used;
    int len = n == 1 ? snprintf(f->schedule + *used, room, "%s%s:%s",
                                *used != 0 ? " " : "", name, label)
                     : snprintf(f->schedule + *used, room, "%s%s:%s*%u",
                                *used != 0 ? " " : "", name, label, n);

    /* Room for " ..." must stay. */
    if (len < 0 || (size_t)len + 5 > room) {
        memcpy(f->schedule + *used, " ...", 5);
        return false;
    }
    *used += (size_t)len;
    return true;
}

static void
schedule_write(struct explorer *e)
{
    size_t used = 0;

    for (uint32_t i = 0; i < e->depth;) {
        const struct node *n = &e->nodes[i];
        const char *label = NULL;
        uint32_t k = i;

        for (; k < e->depth && e->nodes[k].chosen == n->chosen; k++) {
            label = e->nodes[k].label != NULL ? e->nodes[k].label : label;
        }
        label = label != NULL ? label : e->nodes[k - 1].did.op.what;
        if (!text_add(e->found, &used,
                      e->run.party[n->chosen % AE_STEP_DRAIN].name, label,
                      k - i)) {
            return;
        }
        i = k;
    }
}

static int
party_by_name(const struct explorer *e, const char *name, size_t len)
{
    for (uint32_t i = 0; i < e->run.nr; i++) {
        if (strlen(e->run.party[i].name) == len &&
            memcmp(e->run.party[i].name, name, len) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Fill the path from a text. 0 or -EINVAL. */
static int
schedule_read(struct explorer *e, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        const char *colon = memchr(text, ':', len);
        const char *star = memchr(text, '*', len);
        int party =
            colon != NULL ? party_by_name(e, text, (size_t)(colon - text)) : -1;
        unsigned long times = star != NULL ? strtoul(star + 1, NULL, 10) : 1;

        if (party < 0 || times > e->max_steps - e->prefix) {
            return -EINVAL;
        }
        if (strncmp(colon + 1, "drain", 5) == 0 &&
            (size_t)(colon - text) + 6 ==
                (star != NULL ? (size_t)(star - text) : len)) {
            party += AE_STEP_DRAIN;
        }
        for (; times != 0; times--) {
            e->nodes[e->prefix++] = (struct node){ .chosen = party };
        }
        text += len + (text[len] == ' ');
    }
    return 0;
}

/* ---- runs --------------------------------------------------------------- */

static int
run_once(struct explorer *e)
{
    const struct avicemu_step_test *t = e->test;
    int r = t->setup != NULL ? t->setup(t->opaque) : 0;

    if (r != 0) {
        return r;
    }
    e->depth = 0;
    e->extra = 0;
    e->sleep = 0;
    e->pruned = false;
    memset(e->last, 0, sizeof(e->last));
    ae_step_run_restart(&e->run);
    ae_step_run_go(&e->run);
    if (e->misfit) {
        return -EINVAL;
    }
    e->found->schedules += !e->pruned;
    e->found->pruned += e->pruned;
    if (e->depth > e->found->longest) {
        e->found->longest = e->depth;
    }
    if (e->outcome == AVICEMU_STEP_OK) {
        if (t->check != NULL && t->check(t->opaque) != 0) {
            e->outcome = AVICEMU_STEP_FAILED;
        }
        if (t->teardown != NULL) {
            t->teardown(t->opaque);
        }
    }
    return 0;
}

static int
run_all(struct explorer *e)
{
    struct avicemu_step_found *f = e->found;
    int r;

    do {
        r = run_once(e);
        if (r != 0) {
            return r;
        }
        if (e->outcome != AVICEMU_STEP_OK) {
            schedule_write(e);
            return 0;
        }
        if (e->replay || f->schedules + f->pruned >= e->max_schedules) {
            return 0;
        }
    } while (backtrack(e));
    f->complete = 1;
    return 0;
}

static bool
test_valid(const struct avicemu_step_test *t)
{
    if (t == NULL || t->size < sizeof(*t) || t->nr_parties == 0 ||
        t->nr_parties > AE_STEP_PARTIES) {
        return false;
    }
    for (uint32_t i = 0; i < t->nr_parties; i++) {
        if (t->names[i] == NULL || t->fns[i] == NULL ||
            strpbrk(t->names[i], " :*") != NULL) {
            return false;
        }
    }
    return true;
}

static void
found_clear(struct avicemu_step_found *f)
{
    size_t size = f->size;

    memset(f, 0, sizeof(*f));
    f->size = size;
}

/* Explore, or replay the schedule if there is one. */
static int
explore(const struct avicemu_step_test *test,
        const struct avicemu_step_limits *l, const char *schedule,
        struct avicemu_step_found *ret)
{
    struct explorer *e = calloc(1, sizeof(*e));

    if (e == NULL) {
        return -ENOMEM;
    }
    e->test = test;
    e->max_steps = l->max_steps != 0 ? l->max_steps : DEFAULT_STEPS;
    e->max_schedules =
        l->max_schedules != 0 ? l->max_schedules : DEFAULT_SCHEDULES;
    e->max_preemptions = l->max_preemptions;
    e->replay = schedule != NULL;
    e->found = ret;
    e->nodes = calloc((size_t)e->max_steps + 1, sizeof(*e->nodes));
    int r = e->nodes != NULL ? ae_step_run_init(&e->run, l->flags) : -ENOMEM;

    if (r != 0) {
        free(e->nodes);
        free(e);
        return r;
    }
    e->run.accesses = (l->flags & AVICEMU_STEP_NAMED) == 0;
    e->reduce = e->run.accesses && e->max_preemptions == 0 && !e->replay;
    e->run.choose = choose;
    e->run.chooser = e;
    found_clear(ret);
    for (uint32_t i = 0; r == 0 && i < test->nr_parties; i++) {
        r = ae_step_run_add(&e->run, test->names[i], test->fns[i],
                            test->opaque);
    }
    if (r == 0 && schedule != NULL) {
        r = schedule_read(e, schedule);
    }
    if (r == 0) {
        r = run_all(e);
    }
    ret->outcome = e->outcome;
    ae_step_run_fini(&e->run);
    free(e->nodes);
    free(e);
    return r;
}

int
avicemu_step_explore(const struct avicemu_step_test *test,
                     const struct avicemu_step_limits *limits,
                     struct avicemu_step_found *ret)
{
    const struct avicemu_step_limits defaults = {
        .size = sizeof(defaults),
        .flags = AVICEMU_STEP_TSO,
    };

    limits = limits != NULL ? limits : &defaults;
    if (!test_valid(test) || ret == NULL || ret->size < sizeof(*ret) ||
        limits->size < sizeof(*limits) ||
        (limits->flags & ~(AVICEMU_STEP_TSO | AVICEMU_STEP_NAMED)) != 0) {
        return -EINVAL;
    }
    return explore(test, limits, NULL, ret);
}

int
avicemu_step_replay(const struct avicemu_step_test *test, const char *schedule,
                    uint32_t flags, struct avicemu_step_found *ret)
{
    const struct avicemu_step_limits limits = {
        .size = sizeof(limits),
        .flags = flags,
    };

    if (!test_valid(test) || schedule == NULL || ret == NULL ||
        ret->size < sizeof(*ret) ||
        (flags & ~(AVICEMU_STEP_TSO | AVICEMU_STEP_NAMED)) != 0) {
        return -EINVAL;
    }
    return explore(test, &limits, schedule, ret);
}
