/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge running: accelerated IPIs (IRR bit, then IsRunning) against vCPUs that
 * run, block, move to another pCPU or run on none (IsRunning := 0, then IRR).
 * Every IPI is acked, nobody sleeps on a pending vector, the books close; with
 * doorbells as words and as kicks, in both modes, on silicon with erratum 1235
 * (IPI virtualisation is off), and without IPI virtualisation.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race_avic.h"

#define REQUESTS 20000

static void
running(const char *name, enum avicemu_doorbell_mode doorbells, int x2,
        uint32_t avic, uint32_t vm_flags)
{
    static struct race_avic r;

    r = (struct race_avic){
        .name = name,
        .avic = avic,
        .vm_flags = vm_flags,
        .doorbells = doorbells,
        .nr_vcpus = 3,
        .x2 = x2,
        .requests = REQUESTS,
    };
    assert_int_equal(race_avic_run(&r), 0);
}

static void
test_word(void **state)
{
    (void)state;
    running("running, words", AVICEMU_DOORBELL_WORD, 0, 0, 0);
    running("running, words, x2AVIC", AVICEMU_DOORBELL_WORD, 1, 0, 0);
}

static void
test_kick(void **state)
{
    (void)state;
    running("running, kicks", AVICEMU_DOORBELL_KICK, 0, 0, 0);
    running("running, kicks, x2AVIC", AVICEMU_DOORBELL_KICK, 1, 0, 0);
}

static void
test_erratum(void **state)
{
    (void)state;
    running("running, words, erratum 1235", AVICEMU_DOORBELL_WORD, 0,
            AVICEMU_HOST_ERRATUM_1235, 0);
    running("running, kicks, erratum 1235", AVICEMU_DOORBELL_KICK, 1,
            AVICEMU_HOST_ERRATUM_1235, 0);
}

static void
test_no_ipiv(void **state)
{
    (void)state;
    running("running, words, no IPI virtualisation", AVICEMU_DOORBELL_WORD, 1,
            0, AVICEMU_VM_NO_IPIV);
    running("running, kicks, no IPI virtualisation", AVICEMU_DOORBELL_KICK, 0,
            0, AVICEMU_VM_NO_IPIV);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_word),
        cmocka_unit_test(test_kick),
        cmocka_unit_test(test_erratum),
        cmocka_unit_test(test_no_ipiv),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
