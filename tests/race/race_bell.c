/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge bell: who makes a vector pending and rings the word, against a runner
 * that takes the word and then scans. The runners stay in the guest and hear
 * of nothing but doorbells: what stays pending unheard is never acked. No kick
 * is needed, and none comes. Likewise with two vCPUs that take turns on one
 * pCPU, where a doorbell may be heard by the wrong one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "race_avic.h"

#define REQUESTS 30000
#define VECTORS  3

/* A device: one to three vectors, then it waits until all are taken. */
static void
post(struct race_avic *r)
{
    struct race_avic_cpu *target = &r->cpu[0];
    uint64_t sent[VECTORS] = { 0 };
    uint32_t seed = 77;

    while (atomic_load(&r->over) == 0) {
        unsigned nr = 1 + race_avic_dice(&seed, VECTORS);

        for (unsigned i = 0; i < nr; i++) {
            uint8_t vector = (uint8_t)(RACE_AVIC_FREE + 16 * i);

            if (avicemu_post(target->vcpu, vector, AVICEMU_TRIGGER_EDGE) ==
                AVICEMU_POST_NEW) {
                sent[i]++;
                (void)atomic_fetch_add(&r->posted, 1);
            }
        }
        for (unsigned i = 0; i < nr; i++) {
            race_avic_wait(r, &target->acked[RACE_AVIC_FREE + 16 * i], sent[i],
                           "a post");
        }
    }
}

static void
test_stay(void **state)
{
    static struct race_avic r;

    (void)state;
    for (int x2 = 0; x2 < 2; x2++) {
        r = (struct race_avic){
            .name = x2 ? "bell, x2AVIC" : "bell",
            .doorbells = AVICEMU_DOORBELL_WORD,
            .nr_vcpus = 2,
            .x2 = x2,
            .stays = 1,
            .requests = REQUESTS,
            .extra = { post },
        };
        assert_int_equal(race_avic_run(&r), 0);
        assert_int_equal(race_avic_count(&r, RACE_AVIC_KICKED), 0);
        printf("posts that were NEW: %llu\n",
               (unsigned long long)atomic_load(&r.posted));
    }
}

static void
test_shared(void **state)
{
    static struct race_avic r;

    (void)state;
    r = (struct race_avic){
        .name = "bell, two vCPUs on one pCPU",
        .doorbells = AVICEMU_DOORBELL_WORD,
        .nr_vcpus = 3,
        .shared = 1,
        .requests = REQUESTS / 3,
        .extra = { post },
    };
    assert_int_equal(race_avic_run(&r), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stay),
        cmocka_unit_test(test_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
