/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Edge inhibit: reasons that come and go at random, against vCPUs that send,
 * enter and block; beside them a vCPU that changes its LDR and its mode, and
 * one that comes and goes. When all is quiet each vCPU follows the inhibit
 * word at one entry; no interrupt is lost, the books close.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "race_avic.h"

#define REQUESTS  6000
#define DECOY     3
#define TOO_BIG   40
#define TOO_LATE  1000 /* hot-adds until an id is too big */
#define BASE_MSR  0x1bu
#define BASE_EN   0x800u
#define BASE_EXTD 0x400u

/* ---- reasons ------------------------------------------------------------ */

static void
flip(struct race_avic *r)
{
    static const enum avicemu_inhibit reasons[] = { AVICEMU_INHIBIT_HYPERV,
                                                    AVICEMU_INHIBIT_BLOCKIRQ,
                                                    AVICEMU_INHIBIT_IRQWIN,
                                                    AVICEMU_INHIBIT_PIT_REINJ };
    uint32_t seed = 5;
    unsigned spins = 0;

    while (atomic_load(&r->over) == 0) {
        uint32_t i = race_avic_dice(&seed, 4);
        uint32_t n = race_avic_dice(&seed, 64);

        /* Cleared more often than set: AVIC is on now and then. */
        (void)avicemu_vm_inhibit(r->vm, reasons[i],
                                 race_avic_dice(&seed, 3) == 0);
        while (n-- > 0) {
            race_avic_pause(&spins);
        }
    }
}

/* Likewise, and in the end nothing is left of it. */
static void
flip_and_clear(struct race_avic *r)
{
    flip(r);
    for (unsigned i = 0; i < AVICEMU_NR_INHIBIT; i++) {
        (void)avicemu_vm_inhibit(r->vm, (enum avicemu_inhibit)i, 0);
    }
}

/* ---- a vCPU that changes ------------------------------------------------ */

static void
base_write(struct race_avic_cpu *c, uint64_t bits)
{
    uint64_t base = 0;

    (void)avicemu_msr_read(c->vcpu, BASE_MSR, &base);
    base &= ~(uint64_t)(BASE_EN | BASE_EXTD);
    (void)avicemu_msr_write(c->vcpu, BASE_MSR, base | bits);
}

static void
mode_change(struct race_avic_cpu *c)
{
    if (!c->x2) {
        base_write(c, BASE_EN | BASE_EXTD);
        c->x2 = 1;
    } else {
        base_write(c, 0);
        base_write(c, BASE_EN);
        c->x2 = 0;
        race_avic_write(c, 0xf0, 0x1ff);
    }
}

/* The last one is vCPU 0's, too. */
static void
ldr_change(struct race_avic_cpu *c)
{
    static const uint32_t ldrs[] = { 0x08000000u, 0x10000000u, 0x28000000u,
                                     0x01000000u };

    if (!c->x2) {
        race_avic_write(c, 0xd0, ldrs[race_avic_dice(&c->seed, 4)]);
    }
}

static void
decoy_live(struct race_avic_cpu *c, unsigned changes)
{
    unsigned spins = 0;

    while (changes-- > 0 && atomic_load(&c->r->over) == 0) {
        switch (race_avic_dice(&c->seed, 4)) {
        case 0:
            mode_change(c);
            break;
        case 1:
            (void)avicemu_vcpu_put(c->vcpu);
            break;
        case 2:
            (void)avicemu_vcpu_load(c->vcpu, DECOY);
            break;
        default:
            ldr_change(c);
            break;
        }
        race_avic_cpu_drain(c);
        race_avic_pause(&spins);
    }
}

/* Lives until all is over. */
static void
decoy(struct race_avic *r)
{
    struct race_avic_cpu *c = &r->cpu[DECOY];

    if (race_avic_cpu_make(r, DECOY) != 0) {
        (void)atomic_fetch_add(&r->lost, 1);
        return;
    }
    while (atomic_load(&r->over) == 0) {
        decoy_live(c, 100);
    }
    (void)avicemu_vcpu_destroy(c->vcpu);
}

/* Comes and goes; of so many one has an id without an entry. */
static void
come_and_go(struct race_avic *r, unsigned too_late)
{
    struct race_avic_cpu *c = &r->cpu[DECOY];
    unsigned lives = 0;

    while (atomic_load(&r->over) == 0) {
        int big = ++lives == too_late;
        int bad = big ? avicemu_vcpu_create(r->vm, TOO_BIG, c, &c->vcpu)
                      : race_avic_cpu_make(r, DECOY);

        if (bad != 0) {
            (void)atomic_fetch_add(&r->lost, 1);
            return;
        }
        if (!big) {
            decoy_live(c, 1 + race_avic_dice(&c->seed, 8));
        }
        if (avicemu_vcpu_destroy(c->vcpu) != 0) {
            (void)atomic_fetch_add(&r->lost, 1);
            return;
        }
    }
}

static void
hotadd(struct race_avic *r)
{
    come_and_go(r, 0);
}

static void
hotadd_too_big(struct race_avic *r)
{
    come_and_go(r, TOO_LATE);
}

/* ---- tests -------------------------------------------------------------- */

static void
inhibit(const char *name, enum avicemu_doorbell_mode doorbells,
        void (*first)(struct race_avic *), void (*second)(struct race_avic *))
{
    static struct race_avic r;

    r = (struct race_avic){
        .name = name,
        .doorbells = doorbells,
        .nr_vcpus = DECOY,
        .strays = second != NULL,
        .requests = REQUESTS,
        .max_vcpus = RACE_AVIC_VCPUS,
        .max_apic_id = TOO_BIG - 1,
        .extra = { first, second },
    };
    assert_int_equal(race_avic_run(&r), 0);
}

static void
test_reasons(void **state)
{
    (void)state;
    inhibit("inhibit, words", AVICEMU_DOORBELL_WORD, flip, NULL);
    inhibit("inhibit, kicks", AVICEMU_DOORBELL_KICK, flip_and_clear, NULL);
    inhibit("inhibit, two writers", AVICEMU_DOORBELL_WORD, flip,
            flip_and_clear);
}

static void
test_identity(void **state)
{
    (void)state;
    inhibit("inhibit, LDR and mode, words", AVICEMU_DOORBELL_WORD,
            flip_and_clear, decoy);
    inhibit("inhibit, LDR and mode, kicks", AVICEMU_DOORBELL_KICK, decoy, flip);
}

static void
test_hotadd(void **state)
{
    (void)state;
    inhibit("inhibit, hot-add, words", AVICEMU_DOORBELL_WORD, flip_and_clear,
            hotadd);
    inhibit("inhibit, hot-add, kicks", AVICEMU_DOORBELL_KICK, hotadd, flip);
    inhibit("inhibit, hot-add, an id too big", AVICEMU_DOORBELL_WORD,
            flip_and_clear, hotadd_too_big);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_hotadd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
