/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * G1 and G2: a notifier that has found a VM, or its vCPU, while somebody else
 * tears both down. Built once with the library's VM table and once with the
 * kernel's patch in its place, with the address sanitizer; the schedule is
 * stepped by hand, the same for both.
 *
 *   G1   the notifier stops inside its look-up, the VM's node is freed
 *   G2   it stops behind the look-up, before the wake, the vCPU is freed
 *
 *     teardown g1|g2
 *
 * The library's remover is blocked until the batch has ended, and the program
 * says so and ends with 0. The patch frees, and the sanitizer reports.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <avicemu/step.h>

#include "base/alloc.h"
#include "hv/vmtable.h"

#define TAG 0x307u

struct vcpu {
    unsigned woken;
};

struct scene {
    struct ae_vmtable table;
    struct ae_drain *drain;
    struct vcpu *vcpu;
    unsigned stop_in_lookup;
};

/* A batch of one: look up, wake. */
static void
notify(void *opaque)
{
    struct scene *s = opaque;

    ae_drain_begin(s->drain);
    struct vcpu *vcpu = (void *)ae_vmtable_find(&s->table, TAG);

    avicemu_step_here("found");
    if (vcpu != NULL) {
        vcpu->woken++;
    }
    ae_drain_end(s->drain);
}

/* The VM's last vCPU goes. */
static void
tear_down(void *opaque)
{
    struct scene *s = opaque;

    ae_vmtable_remove(&s->table, TAG);
    ae_vmtable_synchronize(&s->table);
    free(s->vcpu);
    s->vcpu = NULL;
}

int
main(int argc, char **argv)
{
    static struct scene s;
    const char *stop =
        argc == 2 && strcmp(argv[1], "g1") == 0 ? STOP_G1 : "found";
    struct avicemu_step *step = NULL;
    unsigned notifier, remover;

    s.vcpu = malloc(sizeof(*s.vcpu));
    if (s.vcpu == NULL ||
        ae_vmtable_init(&s.table, &ae_default_allocator, AE_TAG_24_8) != 0 ||
        ae_drain_create(&s.table, &s.drain) != 0 ||
        ae_vmtable_publish(&s.table, TAG, (void *)s.vcpu) != 0 ||
        avicemu_step_create(0, &step) != 0 ||
        avicemu_step_party(step, "notifier", notify, &s, &notifier) != 0 ||
        avicemu_step_party(step, "remover", tear_down, &s, &remover) != 0 ||
        avicemu_step_run(step, notifier, stop) != AVICEMU_STEP_AT) {
        return 2;
    }
    enum avicemu_step_end end = avicemu_step_run(step, remover, "no such stop");

    printf("%s: the remover is %s\n", stop,
           end == AVICEMU_STEP_BLOCKED ? "blocked" : "done");
    (void)fflush(stdout);
    if (avicemu_step_finish(step) != 0) {
        return 2;
    }
    avicemu_step_destroy(step);
    ae_drain_destroy(&s.table, s.drain);
    ae_vmtable_fini(&s.table);
    return end == AVICEMU_STEP_BLOCKED ? 0 : 3;
}
