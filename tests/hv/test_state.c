/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Saving and loading: a snapshot is an identity, damaged bytes are refused or
 * load to a state that holds, and KVM's pieces load in any order.
 * [KVM api.rst KVM_GET_LAPIC]
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define X2   AVICEMU_LAPIC_X2APIC
#define TSCD AVICEMU_LAPIC_TSC_DEADLINE

struct saved {
    uint8_t bytes[AVICEMU_SNAPSHOT_BYTES];
    size_t len;
};

static void
save(struct avicemu_vcpu *v, struct saved *s)
{
    memset(s, 0, sizeof(*s));
    assert_int_equal(
        avicemu_vcpu_snapshot(v, s->bytes, sizeof(s->bytes), &s->len), 0);
}

static uint32_t
next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33);
}

/* A bit of everything: in service, pending, level, NMI, SMI, latched ExtINT,
 * a running timer, errors in both copies, a LINT level in service. */
static void
make_rich(struct rig *rig, uint32_t i)
{
    struct avicemu_vcpu *v = rig->v[i];

    reg_w(v, R_TDCR, TDCR_BY_16);
    reg_w(v, R_LVTT, LVT_PERIODIC | 0x41);
    reg_w(v, R_TMICT, 100000);
    rig->vmm.now += 12345;
    reg_w(v, R_LINT0, ICR_LEVEL | 0x61);
    (void)avicemu_vcpu_lint(v, 0, 1);
    assert_int_equal(rig_take(rig, i), 0x61);
    (void)avicemu_post(v, 0x82, LEVEL);
    assert_int_equal(rig_take(rig, i), 0x82);
    (void)avicemu_post(v, 0x51, EDGE);
    (void)avicemu_post(v, 0x93, LEVEL);
    reg_w(v, R_TPR, 0xa5);
    reg_w(v, R_ICR, ICR_FIXED | ICR_SELF | 0x04); /* an error */
    reg_w(v, R_ESR, 0);
    reg_w(v, R_ICR, ICR_FIXED | 0x04);
    reg_w(v, R_ERROR, 0xfe);
    (void)avicemu_post_mode(v, AVICEMU_DELIVERY_EXTINT, 0);
    (void)rig_enter(rig, i, IF);
    rig_exit(rig, i, 0);
    (void)avicemu_post_mode(v, AVICEMU_DELIVERY_NMI, 0);
    (void)avicemu_post_mode(v, AVICEMU_DELIVERY_SMI, 0);
    (void)avicemu_vcpu_set_halted(v);
}

static void
test_identity(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved *s = calloc(3, sizeof(*s));
    char *dumps = calloc(2, 8192);

    assert_non_null(s);
    assert_non_null(dumps);
    for (unsigned x2 = 0; x2 < 2; x2++) {
        make_rich(rig, 0);
        save(v, &s[0]);
        assert_true(avicemu_vcpu_dump(v, dumps, 8192) < 8192);
        assert_int_equal(avicemu_vcpu_reset(v), 0);
        rig->vmm.now += 777777; /* only what remains is saved */
        assert_int_equal(avicemu_vcpu_restore(v, s[0].bytes, s[0].len), 0);
        save(v, &s[1]);
        assert_int_equal(s[0].len, s[1].len);
        assert_memory_equal(s[0].bytes, s[1].bytes, s[0].len);
        assert_true(avicemu_vcpu_dump(v, dumps + 8192, 8192) < 8192);
        assert_string_equal(dumps, dumps + 8192);
        assert_int_equal(rig_run(rig, 0, 0) & AVICEMU_DO_SMI, AVICEMU_DO_SMI);
        assert_int_equal(rig_run(rig, 0, 0) & AVICEMU_DO_NMI, AVICEMU_DO_NMI);
        assert_int_equal(rig_run(rig, 0, IF) & AVICEMU_DO_EXTINT,
                         AVICEMU_DO_EXTINT);
        reg_w(v, R_TPR, 0);
        assert_int_equal(rig_take(rig, 0), 0x93);
        eoi(v); /* 93h */
        eoi(v); /* 82h */
        assert_int_equal(rig->fake[0].last_eoi, 0x82);
        eoi(v); /* 61h: the LINT level, whose line is high; [KVM] has no RIR */
        assert_int_equal(vec_bit(v, R_IRR, 0x61),
                         (reg_peek(v, R_VERSION) & 0xff) != 0x14);
        assert_int_equal(avicemu_vcpu_reset(v), 0);
        (void)avicemu_vcpu_lint(v, 0, 0);
        reg_w(v, R_SVR, 0x1ff);
        to_x2apic(v);
    }
    free(dumps);
    free(s);
}

/* Ticks that are owed travel, too. */
static void
test_backlog(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved s;
    unsigned ticks = 0;

    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_LVTT, LVT_PERIODIC | 0x41);
    reg_w(v, R_TMICT, 1000000);
    rig_time(rig, 5 * 1000000);
    (void)rig_run(rig, 0, 0);
    save(v, &s);
    assert_int_equal(avicemu_vcpu_reset(v), 0);
    assert_int_equal(avicemu_vcpu_restore(v, s.bytes, s.len), 0);
    while (rig_take(rig, 0) == 0x41) {
        ticks++;
        eoi(v);
    }
    assert_int_equal(ticks, 5);
}

/* ---- damage ------------------------------------------------------------- */

static void
test_truncated(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved s, after;
    uint8_t *exact;

    make_rich(rig, 0);
    save(v, &s);
    for (size_t len = 0; len < s.len; len++) {
        exact = malloc(len + 1); /* so that a sanitiser sees a long read */
        assert_non_null(exact);
        memcpy(exact, s.bytes, len);
        assert_int_equal(avicemu_vcpu_restore(v, exact, len), -EPROTO);
        free(exact);
    }
    assert_int_equal(avicemu_vcpu_restore(v, s.bytes, sizeof(s.bytes)),
                     -EPROTO); /* longer than it says */
    save(v, &after);
    assert_memory_equal(s.bytes, after.bytes, s.len);
    for (size_t room = 0; room < s.len; room++) {
        size_t len = 99;

        assert_int_equal(avicemu_vcpu_snapshot(v, after.bytes, room, &len),
                         -EINVAL);
        assert_int_equal(len, 99);
    }
}

/* After a load of damaged bytes the vCPU must work like any other. */
static void
exercise(struct rig *rig)
{
    struct avicemu_vcpu *v = rig->v[0];
    uint8_t data[4] = { 0xff, 0x01, 0, 0 };

    rig->vmm.now += 1000000;
    (void)avicemu_vcpu_expire(v);
    (void)avicemu_mmio_write(v, BASE_PAGE + R_SVR, 4, data);
    (void)avicemu_post(v, 0x77, LEVEL);
    (void)rig_run(rig, 0, IF);
    (void)rig_run(rig, 0, IF);
    (void)avicemu_mmio_write(v, BASE_PAGE + R_EOI, 4, data);
    (void)avicemu_mmio_read(v, BASE_PAGE + R_TMCCT, 4, data);
}

/* Each byte with each other value: refused and nothing changed, or loaded and
 * the invariants hold. */
static void
test_mutations(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved good, bad, after;
    uint32_t refused = 0;
    uint32_t loaded = 0;

    make_rich(rig, 0);
    save(v, &good);
    bad = good;
    for (size_t at = 0; at < good.len; at++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            int r;

            bad.bytes[at] = (uint8_t)(good.bytes[at] ^ flip);
            r = avicemu_vcpu_restore(v, bad.bytes, bad.len);
            assert_true(r == 0 || r == -EPROTO);
            if (r == 0) {
                uint64_t base = msr_r(v, MSR_APIC_BASE);

                loaded++;
                assert_true((base & (BASE_EN | BASE_EXTD)) != BASE_EXTD);
                rig_check(rig);
                exercise(rig);
                rig_check(rig);
                assert_int_equal(avicemu_vcpu_restore(v, good.bytes, good.len),
                                 0);
            } else {
                refused++;
            }
        }
        bad.bytes[at] = good.bytes[at];
        save(v, &after);
        assert_memory_equal(good.bytes, after.bytes, good.len);
    }
    print_message("%zu bytes: %u mutations refused, %u loaded\n", good.len,
                  refused, loaded);
}

static void
test_noise(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct saved good, bad;
    uint64_t seed = 42;

    make_rich(rig, 0);
    save(v, &good);
    for (unsigned round = 0; round < 20000; round++) {
        bad = good;
        for (unsigned n = next_random(&seed) % 8 + 2; n > 0; n--) {
            bad.bytes[next_random(&seed) % bad.len] =
                (uint8_t)next_random(&seed);
        }
        if (avicemu_vcpu_restore(v, bad.bytes, bad.len) == 0) {
            exercise(rig);
            rig_check(rig);
        }
    }
}

/* Of another model, another id, another VM's features. */
static void
test_foreign(void **state)
{
    static const struct rig_setup others[] = {
        { P(KVM) },
        { P(INTEL) },
        { P(AMD, .features = X2 | TSCD) },
        { P(AMD), .nr_ids = 1, .ids = { 7 } },
    };
    struct rig *rig = *state;
    struct saved s;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct rig *other = rig_open(&others[i]);

        save(other->v[0], &s);
        assert_int_equal(avicemu_vcpu_restore(rig->v[0], s.bytes, s.len),
                         -EPROTO);
        rig_close(other);
    }
    save(rig->v[0], &s);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_restore(rig->v[0], s.bytes, s.len), -EBUSY);
    assert_int_equal(
        avicemu_vcpu_snapshot(rig->v[0], s.bytes, sizeof(s.bytes), &s.len),
        -EBUSY);
    rig_exit(rig, 0, IF);
}

/* ---- KVM's format ------------------------------------------------------- */

static void
kvm_piece(struct avicemu_vcpu *v, const struct avicemu_kvm_lapic *page,
          uint64_t base, unsigned piece)
{
    switch (piece) {
    case 0:
        assert_int_equal(avicemu_vcpu_set_apic_base(v, base), 0);
        break;
    case 1:
        assert_int_equal(avicemu_vcpu_import_kvm(v, 0, page), 0);
        break;
    default:
        assert_int_equal(avicemu_vcpu_set_tsc_deadline(v, 0), 0);
        break;
    }
}

/* A periodic count and interrupts, in all six orders of the three pieces. */
static void
kvm_orders(const struct rig_setup *setup, unsigned x2)
{
    static const uint8_t orders[6][3] = {
        { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
        { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
    };
    struct avicemu_kvm_lapic page, again;
    struct rig *rig = rig_open(setup);
    uint64_t base;

    if (x2) {
        to_x2apic(rig->v[0]);
    } else {
        reg_w(rig->v[0], R_ID, 0x5u << 24); /* Intel's stays */
        reg_w(rig->v[0], R_LDR, 0x2u << 24);
    }
    make_rich(rig, 0);
    base = msr_r(rig->v[0], MSR_APIC_BASE);
    assert_int_equal(avicemu_vcpu_export_kvm(rig->v[0], 0, &page), 0);
    rig_close(rig);
    for (unsigned i = 0; i < 12; i++) {
        struct rig *other = rig_open(setup);
        struct avicemu_vcpu *v = other->v[0];

        if (i >= 6) {
            to_x2apic(v); /* whatever it was before */
        }
        other->vmm.now = 1000;
        for (unsigned n = 0; n < 3; n++) {
            kvm_piece(v, &page, base, orders[i % 6][n]);
        }
        assert_int_equal(msr_r(v, MSR_APIC_BASE), base);
        assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &again), 0);
        assert_memory_equal(&page, &again, sizeof(page));
        assert_int_equal(vec_bit(v, R_IRR, 0x93), 1);
        assert_int_equal(vec_bit(v, R_TMR, 0x93), 1);
        assert_int_equal(vec_bit(v, R_ISR, 0x82), 1);
        assert_int_equal(reg_r(v, R_PPR), 0xa5);
        assert_true(avicemu_vcpu_deadline(v) > 1000 &&
                    avicemu_vcpu_deadline(v) <= 1000 + 16 * 100000);
        rig_close(other);
    }
}

static void
test_kvm_orders(void **state)
{
    static const struct rig_setup setups[] = {
        { P(AMD, .features = X2 | TSCD) },
        { P(INTEL, .features = X2 | TSCD | AVICEMU_LAPIC_CMCI) },
        { P(KVM, .features = X2 | TSCD), .nr_ids = 1, .ids = { 0x25 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
        kvm_orders(&setups[i], 0);
        kvm_orders(&setups[i], 1);
    }
}

/* A deadline waits, over pages of other modes, for the one that has its mode.
 */
static void
test_waiting_deadline(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic one_shot, deadline;
    uint64_t value = 0;

    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &one_shot), 0);
    deadline = one_shot;
    deadline.regs[R_LVTT] = 0x41;
    deadline.regs[R_LVTT + 2] = 4; /* bit 18, not masked */
    assert_int_equal(avicemu_vcpu_set_tsc_deadline(v, 5000), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &one_shot), 0);
    assert_int_equal(avicemu_vcpu_get_tsc_deadline(v, &value), 0);
    assert_int_equal(value, 5000);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &deadline), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), 5000);
    assert_int_equal(msr_r(v, MSR_TSC_DEADLINE), 5000);
    rig_time(rig, 5000);
    assert_int_equal(rig_take(rig, 0), 0x41);
    assert_int_equal(avicemu_vcpu_get_tsc_deadline(v, &value), 0);
    assert_int_equal(value, 0);
}

static void
page_id(struct avicemu_kvm_lapic *page, uint32_t id)
{
    for (unsigned i = 0; i < 4; i++) {
        page->regs[R_ID + i] = (uint8_t)(id >> (8 * i));
    }
}

static void
test_kvm_ids(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic page;

    to_x2apic(v);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &page), 0);
    assert_int_equal(page.regs[R_ID + 3], 0x23);
    assert_int_equal(page.regs[R_ID], 0);
    page_id(&page, 0x99u << 24); /* without 32-bit ids: ignored */
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &page), 0);
    assert_int_equal(reg_r(v, R_ID), 0x123);
    assert_int_equal(avicemu_vcpu_export_kvm(v, AVICEMU_KVM_32BIT_IDS, &page),
                     0);
    assert_int_equal(page.regs[R_ID], 0x23);
    assert_int_equal(page.regs[R_ID + 1], 0x01);
    assert_int_equal(page.regs[R_ID + 3], 0);
    page_id(&page, 0x124); /* with them it must be the id */
    assert_int_equal(avicemu_vcpu_import_kvm(v, AVICEMU_KVM_32BIT_IDS, &page),
                     -EINVAL);
    page_id(&page, 0x123);
    memset(page.regs + R_LDR, 0xff, 4); /* recomputed, as is the version */
    memset(page.regs + R_VERSION, 0xff, 4);
    memset(page.regs + R_PPR, 0xff, 4);
    assert_int_equal(avicemu_vcpu_import_kvm(v, AVICEMU_KVM_32BIT_IDS, &page),
                     0);
    assert_int_equal(reg_r(v, R_LDR), 0x00120008);
    assert_int_equal(reg_r(v, R_VERSION), 0x00050014);
    assert_int_equal(reg_r(v, R_PPR), 0);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 2, &page), -EINVAL);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, NULL), -EINVAL);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, NULL), -EINVAL);
}

/* Any page at all: what it leaves holds. */
static void
test_kvm_noise(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic page;
    uint64_t seed = 7;

    for (unsigned round = 0; round < 3000; round++) {
        for (size_t i = 0; i < sizeof(page.regs); i++) {
            page.regs[i] = (uint8_t)next_random(&seed);
        }
        assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &page), 0);
        rig_check(rig);
        exercise(rig);
        rig_check(rig);
        if (round % 64 == 0) {
            (void)avicemu_vcpu_set_apic_base(
                v, BASE_PAGE | (next_random(&seed) & 0xd00u));
            rig_check(rig);
        }
    }
}

static void
test_host_base(void **state)
{
    static const struct {
        uint64_t value;
        int r;
    } rows[] = {
        { BASE_PAGE | BASE_EN, 0 },
        { BASE_PAGE | BASE_EN | BASE_EXTD, 0 },
        { BASE_PAGE | BASE_EN, 0 }, /* X2 -> X: the host may */
        { BASE_PAGE, 0 },
        { BASE_PAGE | BASE_EN | BASE_EXTD, 0 }, /* D -> X2, too */
        { BASE_PAGE | BASE_EXTD, -EINVAL },
        { BASE_PAGE | BASE_EN | 0x200, -EINVAL },
        { BASE_PAGE | BASE_EN | 1, -EINVAL },
        { BASE_PAGE | BASE_EN | 1ull << 48, -EINVAL },
        { 0x12345000 | BASE_EN, 0 },
    };
    struct rig *rig = *state;
    uint64_t value = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(avicemu_vcpu_set_apic_base(rig->v[0], rows[i].value),
                         rows[i].r);
        if (rows[i].r == 0) {
            assert_int_equal(msr_r(rig->v[0], MSR_APIC_BASE), rows[i].value);
        }
        if (i == 2) {
            /* Of the x2APIC state only the id is kept; [KVM] lets LDR be. */
            assert_int_equal(reg_r(rig->v[0], R_LDR),
                             (reg_r(rig->v[0], R_VERSION) & 0xff) == 0x14);
        }
        rig_check(rig);
    }
    assert_int_equal(avicemu_vcpu_set_tsc_deadline(rig->v[0], 1), -EOPNOTSUPP);
    assert_int_equal(avicemu_vcpu_get_tsc_deadline(rig->v[0], &value), 0);
    assert_int_equal(value, 0);
    (void)rig_enter(rig, 0, IF);
    assert_int_equal(avicemu_vcpu_set_apic_base(rig->v[0], BASE_PAGE), -EBUSY);
    assert_int_equal(avicemu_vcpu_set_tsc_offset(rig->v[0], 1), -EBUSY);
    rig_exit(rig, 0, IF);
}

/* Off by the host: no deadline, but the count goes on. */
static void
test_host_pause(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    uint64_t base = msr_r(v, MSR_APIC_BASE);

    reg_w(v, R_TDCR, TDCR_BY_1);
    reg_w(v, R_LVTT, 0x41);
    reg_w(v, R_TMICT, 1000);
    assert_int_equal(avicemu_vcpu_set_apic_base(v, base & ~BASE_EN), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), UINT64_MAX);
    rig->vmm.now += 400;
    assert_int_equal(avicemu_vcpu_set_apic_base(v, base), 0);
    assert_int_equal(avicemu_vcpu_deadline(v), 1000);
    assert_int_equal(reg_r(v, R_TMCCT), 600);
}

/* A page counts for the APIC_BASE that is loaded with it, not for a later one
 * once the guest has run. */
static void
test_import_ends(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic page;
    uint64_t base = msr_r(v, MSR_APIC_BASE);

    reg_w(v, R_LDR, 0x02u << 24);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &page), 0);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &page), 0);
    (void)rig_run(rig, 0, IF);
    reg_w(v, R_LDR, 0x04u << 24);
    assert_int_equal(avicemu_vcpu_set_apic_base(v, base & ~BASE_EN), 0);
    assert_int_equal(avicemu_vcpu_set_apic_base(v, base), 0);
    assert_int_equal(reg_r(v, R_LDR), 0x04u << 24);
}

/* The pins are not in the page: a level that is high is offered anew. */
static void
test_import_lint(void **state)
{
    struct rig *rig = *state;
    struct avicemu_vcpu *v = rig->v[0];
    struct avicemu_kvm_lapic page;

    reg_w(v, R_LINT0, ICR_LEVEL | 0x61);
    assert_int_equal(avicemu_vcpu_export_kvm(v, 0, &page), 0);
    reg_w(v, R_LINT0, LVT_MASKED);
    assert_int_equal(avicemu_vcpu_lint(v, 0, 1), DROPPED);
    assert_int_equal(avicemu_vcpu_import_kvm(v, 0, &page), 0);
    assert_int_equal(rig_take(rig, 0), 0x61);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_EACH("snapshot and restore are an identity", test_identity,
                 .nr_vcpus = 1),
        RIG_TEST("missed ticks that are owed are saved", test_backlog,
                 P(AMD, .missed_ticks = AVICEMU_MISSED_BURST, .max_burst = 16)),
        RIG_TEST("a truncated snapshot is refused", test_truncated, P(AMD)),
        RIG_EACH("a snapshot with any one byte changed", test_mutations,
                 .nr_vcpus = 1),
        RIG_EACH("a snapshot with several bytes changed", test_noise,
                 .nr_vcpus = 1),
        RIG_TEST("a snapshot of another model or id", test_foreign, P(AMD)),
        { .name = "KVM's three pieces load in any order",
          .test_func = test_kvm_orders },
        RIG_TEST("a deadline waits for its mode", test_waiting_deadline,
                 P(KVM, .features = X2 | TSCD)),
        RIG_TEST("ids of 8 and 32 bits in KVM's page", test_kvm_ids, P(KVM),
                 .nr_ids = 1, .ids = { 0x123 }),
        RIG_EACH("any 1 KiB as KVM's page", test_kvm_noise, .nr_vcpus = 1),
        RIG_EACH("a timer that the host pauses", test_host_pause,
                 .nr_vcpus = 1),
        RIG_EACH("a page is over once the guest ran", test_import_ends,
                 .nr_vcpus = 1),
        RIG_TEST("a page meets a LINT level", test_import_lint, P(AMD)),
        RIG_EACH("APIC_BASE by the host", test_host_base, .nr_vcpus = 1),
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL) != 0;
}
