/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scripts: the chooser is the test, which says who runs until where.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/step_run.h"

struct avicemu_step {
    struct ae_step_run run;
    uint32_t party;    /* who runs */
    const char *label; /* until where; NULL: any stop */
    bool begun;        /* it has left the place where it stood */
    enum avicemu_step_end end;
};

static bool
arrived(const struct avicemu_step *s, const struct ae_step_party *p)
{
    return s->begun && p->op.stop &&
           (s->label == NULL || strcmp(s->label, p->op.what) == 0);
}

static int
script_choose(struct ae_step_run *run)
{
    struct avicemu_step *s = run->chooser;
    const struct ae_step_party *p = &run->party[s->party];

    if (p->status == AE_STEP_DONE) {
        s->end = AVICEMU_STEP_DONE;
    } else if (!ae_step_enabled(run, p)) {
        s->end = AVICEMU_STEP_BLOCKED;
    } else if (arrived(s, p)) {
        s->end = AVICEMU_STEP_AT;
    } else {
        s->begun = true;
        return (int)s->party;
    }
    return AE_STEP_CONTROLLER;
}

int
avicemu_step_create(uint32_t flags, struct avicemu_step **ret_step)
{
    if (ret_step == NULL || (flags & ~AVICEMU_STEP_TSO) != 0) {
        return -EINVAL;
    }
    struct avicemu_step *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return -ENOMEM;
    }
    int r = ae_step_run_init(&s->run, flags);

    if (r != 0) {
        free(s);
        return r;
    }
    s->run.script = true;
    s->run.choose = script_choose;
    s->run.chooser = s;
    *ret_step = s;
    return 0;
}

int
avicemu_step_party(struct avicemu_step *step, const char *name,
                   avicemu_step_fn fn, void *arg, unsigned *ret_party)
{
    if (step == NULL || name == NULL || fn == NULL || ret_party == NULL ||
        strpbrk(name, " :*") != NULL) {
        return -EINVAL;
    }
    int r = ae_step_run_add(&step->run, name, fn, arg);

    if (r == 0) {
        *ret_party = step->run.nr - 1;
    }
    return r;
}

enum avicemu_step_end
avicemu_step_run(struct avicemu_step *step, unsigned party, const char *label)
{
    step->party = party;
    step->label = label;
    step->begun = false;
    ae_step_run_go(&step->run);
    return step->end;
}

const char *
avicemu_step_where(const struct avicemu_step *step, unsigned party)
{
    const struct ae_step_party *p = &step->run.party[party];

    return p->status == AE_STEP_DONE ? "done" : p->op.what;
}

int
avicemu_step_drain(struct avicemu_step *step, unsigned party)
{
    struct ae_step_party *p = &step->run.party[party];

    if (p->nr_stores == 0) {
        return -ENOENT;
    }
    ae_step_drain_one(p);
    return (int)p->nr_stores;
}

/* Each party as far as it comes. How many steps that were, and who is left. */
static unsigned
finish_round(struct avicemu_step *step, unsigned *left)
{
    unsigned moved = 0;

    *left = 0;
    for (uint32_t i = 0; i < step->run.nr; i++) {
        const struct ae_step_party *p = &step->run.party[i];

        if (p->status != AE_STEP_DONE) {
            /* No stop has this name. */
            enum avicemu_step_end end = avicemu_step_run(step, i, "");

            moved += step->begun;
            *left += end != AVICEMU_STEP_DONE;
        }
        moved += p->nr_stores;
        ae_step_drain_all(&step->run.party[i]);
    }
    return moved;
}

int
avicemu_step_finish(struct avicemu_step *step)
{
    unsigned left = 0;

    while (finish_round(step, &left) != 0) {
        /* Somebody came further. */
    }
    return left == 0 ? 0 : -EBUSY;
}

void
avicemu_step_destroy(struct avicemu_step *step)
{
    if (step == NULL) {
        return;
    }
    ae_step_run_fini(&step->run);
    free(step);
}
