/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The generator. Values are drawn so that things meet: few vectors, few ids,
 * well-formed registers most of the time, and every illegal form now and then.
 */

#include "prop.h"

/* ---- randomness --------------------------------------------------------- */

static uint8_t
next_byte(struct prop_random *r)
{
    if (r->left == 0) {
        return 0;
    }
    r->left--;
    return *r->bytes++;
}

uint64_t
prop_u64(struct prop_random *r)
{
    uint64_t z = 0;

    if (r->bytes != NULL) {
        for (unsigned i = 0; i < 8; i++) {
            z = z << 8 | next_byte(r);
        }
        return z;
    }
    z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint32_t
prop_below(struct prop_random *r, uint32_t n)
{
    if (r->bytes != NULL && n <= 256) {
        return next_byte(r) % n;
    }
    return (uint32_t)((prop_u64(r) >> 32) * n >> 32);
}

bool
prop_chance(struct prop_random *r, uint32_t one_in)
{
    return prop_below(r, one_in) == 0;
}

/* ---- the VM ------------------------------------------------------------- */

static uint32_t
random_features(struct prop_random *r, enum avicemu_personality who)
{
    uint32_t features = 0;

    if (!prop_chance(r, 8)) {
        features |= AVICEMU_LAPIC_X2APIC;
    }
    if (prop_chance(r, 2)) {
        features |= AVICEMU_LAPIC_TSC_DEADLINE;
    }
    if (prop_chance(r, 4)) {
        features |= AVICEMU_LAPIC_DIRECTED_EOI;
    }
    if (prop_chance(r, 8)) {
        features |= AVICEMU_LAPIC_FIXED_BASE;
    }
    if (prop_chance(r, 16)) {
        features |= AVICEMU_LAPIC_RESET_OFF;
    }
    if (who == AVICEMU_PERSONALITY_AMD && prop_chance(r, 2)) {
        features |= AVICEMU_LAPIC_EXT_SPACE;
    }
    if (who != AVICEMU_PERSONALITY_AMD && prop_chance(r, 2)) {
        features |= AVICEMU_LAPIC_CMCI;
    }
    if (who == AVICEMU_PERSONALITY_KVM && prop_chance(r, 2)) {
        features |= AVICEMU_LAPIC_LINT0_OPEN;
    }
    return features ? features : AVICEMU_LAPIC_X2APIC;
}

void
prop_config_random(struct prop_random *r, struct prop_config *ret)
{
    static const uint32_t ids[][MODEL_MAX_VCPUS] = {
        { 0, 1, 2, 3 },        { 0, 1, 2, 3 },        { 0, 1, 0x10, 0x25 },
        { 0, 1, 0x101, 0xfe }, { 0, 5, 0xff, 0x123 }, { 3, 0x12345, 7, 15 },
    };
    static const uint64_t bus[] = { 1000000000, 250000000, 100000000 };
    static const uint8_t favourites[] = { 0x10, 0x1f, 0x20, 0x31, 0x3f, 0x41,
                                          0x42, 0x80, 0xef, 0xf0, 0xff };
    struct avicemu_lapic_config *l = &ret->model.lapic;
    uint32_t set = prop_below(r, sizeof(ids) / sizeof(ids[0]));

    *ret = (struct prop_config){ .nr_vcpus = 2 + prop_below(r, 3) };
    for (unsigned i = 0; i < MODEL_MAX_VCPUS; i++) {
        ret->ids[i] = ids[set][i];
        ret->vectors[i] = favourites[prop_below(r, sizeof(favourites))];
    }
    l->personality = (enum avicemu_personality)prop_below(r, 3);
    l->features = random_features(r, l->personality);
    l->maxphyaddr = prop_chance(r, 2) ? 48 : 36 + prop_below(r, 17);
    l->now_hz = 1000000000;
    l->bus_hz = bus[prop_below(r, 3)];
    l->tsc_hz = l->now_hz * (1 + prop_below(r, 3));
    l->missed_ticks = (enum avicemu_missed_ticks)prop_below(r, 3);
    l->max_burst =
        l->missed_ticks == AVICEMU_MISSED_BURST ? 1 + prop_below(r, 5) : 0;
    ret->model.bsp_apic_id = ret->ids[prop_chance(r, 4)];
    ret->model.has_inta = true;
}

/* ---- values ------------------------------------------------------------- */

static uint8_t
random_vector(struct prop_random *r, const struct prop_config *config)
{
    switch (prop_below(r, 16)) {
    case 0:
        return (uint8_t)prop_below(r, 16);
    case 1:
    case 2:
    case 3:
        return (uint8_t)prop_below(r, 256);
    default:
        return config->vectors[prop_below(r, 4)];
    }
}

static uint32_t
random_delivery(struct prop_random *r)
{
    static const uint8_t usual[] = { 0, 0, 0, 0, 0, 1, 1, 2, 4, 4, 5, 6, 7 };

    return prop_chance(r, 10) ? prop_below(r, 8)
                              : usual[prop_below(r, sizeof(usual))];
}

static uint32_t
random_dest(struct prop_random *r, const struct prop_config *config)
{
    static const uint32_t special[] = { 0xff, 0xffffffff, 0, 0x100, 0x1ff };
    uint32_t id = config->ids[prop_below(r, config->nr_vcpus)];

    switch (prop_below(r, 8)) {
    case 0:
        return special[prop_below(r, 5)];
    case 1:
        return 1u << prop_below(r, 8);
    case 2:
        return prop_below(r, 256);
    case 3:
        return (id >> 4 & 0xffff) << 16 | 1u << (id & 15) | prop_below(r, 16);
    case 4:
        return (uint32_t)prop_u64(r);
    default:
        return id;
    }
}

static uint64_t
random_lvt(struct prop_random *r, const struct prop_config *config)
{
    uint32_t value = random_vector(r, config);

    if (prop_chance(r, 3)) {
        value |= prop_below(r, 8) << 8;
    }
    if (prop_chance(r, 3)) {
        value |= M_LVT_LEVEL;
    }
    if (prop_chance(r, 4)) {
        value |= M_LVT_MASK;
    }
    if (prop_chance(r, 12)) {
        value |= 1u << prop_below(r, 32);
    }
    return value;
}

/* Vector and mode; [18:17] = 3 is reserved and left out. */
static uint64_t
random_lvtt(struct prop_random *r, const struct prop_config *config)
{
    uint32_t value = random_vector(r, config) | prop_below(r, 3) << 17;

    return prop_chance(r, 4) ? value | M_LVT_MASK : value;
}

static uint64_t
random_count(struct prop_random *r)
{
    switch (prop_below(r, 8)) {
    case 0:
        return 0;
    case 1:
        return 0xffffffff;
    case 2:
        return (uint32_t)prop_u64(r);
    default:
        return 1 + prop_below(r, 200);
    }
}

static uint64_t
random_svr(struct prop_random *r)
{
    uint32_t value = prop_below(r, 256);

    if (!prop_chance(r, 6)) {
        value |= M_SVR_ENABLE;
    }
    if (prop_chance(r, 2)) {
        value |= M_SVR_FOCUS_OFF;
    }
    return prop_chance(r, 6) ? value | M_SVR_DIRECTED : value;
}

/* A value that suits the register. */
static uint64_t
random_value(struct prop_random *r, const struct prop_config *config,
             uint32_t offset)
{
    if (offset == M_LVTT) {
        return random_lvtt(r, config);
    }
    if (offset == M_CMCI || (offset >= M_THERMAL && offset <= M_LVTERR) ||
        (offset >= M_EXT_LVT && offset < M_EXT_LVT + 0x40)) {
        return random_lvt(r, config);
    }
    switch (offset) {
    case M_TPR:
        return prop_chance(r, 2) ? 0 : prop_below(r, 256);
    case M_ID:
        return (uint64_t)prop_below(r, 16) << 24;
    case M_LDR:
        return (uint64_t)(prop_below(r, 4) << 4 | 1u << prop_below(r, 4)) << 24;
    case M_DFR:
        return prop_chance(r, 8)   ? prop_u64(r) & 0xffffffff
               : prop_chance(r, 2) ? 0
                                   : 0xffffffff;
    case M_SVR:
        return random_svr(r);
    case M_TMICT:
        return random_count(r);
    case M_TDCR:
        return prop_below(r, 4) | prop_below(r, 2) << 3;
    case M_ESR:
    case M_EOI:
        return prop_chance(r, 4) ? 1 : 0;
    case M_EACR:
        return prop_below(r, 8);
    case M_SELF_IPI:
    case M_SEOI:
        return random_vector(r, config);
    default:
        return prop_u64(r) & 0xffffffff;
    }
}

static uint32_t
random_offset(struct prop_random *r)
{
    static const uint32_t usual[] = {
        M_ID,         M_TPR,      M_TPR,    M_LDR,   M_LDR,   M_DFR,
        M_SVR,        M_SVR,      M_ESR,    M_ESR,   M_LVTT,  M_LVTT,
        M_LVTT,       M_THERMAL,  M_PERF,   M_LINT0, M_LINT0, M_LINT1,
        M_LINT1,      M_LVTERR,   M_LVTERR, M_TMICT, M_TMICT, M_TMICT,
        M_TDCR,       M_TMCCT,    M_CMCI,   M_EACR,  M_SEOI,  M_IER,
        M_EXT_LVT,    M_SELF_IPI, M_ICR2,   M_ICR,   M_ICR,   M_APR,
        M_IER + 0x10,
    };

    return prop_chance(r, 8) ? prop_below(r, 256) << 4
                             : usual[prop_below(r, sizeof(usual) / 4)];
}

/* Now and then a bit too many. */
static uint64_t
spoil(struct prop_random *r, uint64_t value)
{
    if (prop_chance(r, 12)) {
        value ^= 1ull << prop_below(r, 64);
    }
    return value;
}

/* ---- operations --------------------------------------------------------- */

static void
random_access(struct prop_random *r, const struct prop_config *config,
              struct prop_op *op)
{
    static const uint32_t lengths[] = { 1, 2, 4, 4, 4, 8, 16, 3, 64, 4096 };

    op->a = random_offset(r);
    switch (op->kind) {
    case PROP_REG_WRITE:
        op->b = spoil(r, random_value(r, config, op->a));
        break;
    case PROP_MMIO_READ:
    case PROP_MMIO_WRITE:
        op->a += prop_chance(r, 2) ? prop_below(r, 16) : 0;
        op->c = lengths[prop_below(r, 10)];
        op->b = op->kind == PROP_MMIO_WRITE ? prop_u64(r)
                : prop_chance(r, 8)         ? 0x1000
                                            : 0;
        break;
    case PROP_MSR_READ:
    case PROP_MSR_WRITE:
        op->a = prop_chance(r, 4)   ? 0x6e0
                : prop_chance(r, 8) ? 0x1b
                                    : 0x800 + (op->a >> 4);
        op->b = op->a == 0x6e0 ? prop_u64(r) >> prop_below(r, 64)
                : op->a == 0x1b
                    ? spoil(r, 0xfee00000 | prop_below(r, 16) << 8)
                    : spoil(r, random_value(r, config, (op->a & 0xff) << 4));
        break;
    default:
        break;
    }
}

static void
random_message(struct prop_random *r, const struct prop_config *config,
               struct prop_op *op)
{
    uint32_t dest = random_dest(r, config);

    op->a = random_vector(r, config) | random_delivery(r) << 8;
    if (prop_chance(r, 3)) {
        op->a |= prop_below(r, 4) << 14;
    }
    if (op->kind == PROP_ICR) {
        static const uint8_t shorthand[] = { 0, 0, 0, 0, 1, 2, 3, 3 };

        if (prop_chance(r, 8)) { /* what lowest priority is for */
            op->a = (op->a & 0xff) | 0x900;
            op->b = prop_chance(r, 2) ? 0xff : 1 + prop_below(r, 15);
            return;
        }
        op->a |= prop_chance(r, 3) ? 0x800 : 0;
        op->a |= (uint32_t)shorthand[prop_below(r, 8)] << 18;
        op->a = (uint32_t)spoil(r, op->a);
        op->b = dest;
        return;
    }
    op->b = 0xfee00000 | (uint64_t)(dest & 0xff) << 12 |
            (uint64_t)prop_below(r, 4) << 2;
    if (dest > 0xff && prop_chance(r, 2)) {
        op->b |= (uint64_t)(dest >> 8) << 40;
    }
    op->b = spoil(r, op->b);
}

static uint32_t
random_flags(struct prop_random *r)
{
    uint32_t flags = prop_chance(r, 4) ? 0 : AVICEMU_CPU_IF;

    return prop_chance(r, 3) ? flags ^ 1u << prop_below(r, 6) : flags;
}

static void
random_clock(struct prop_random *r, struct prop_op *op)
{
    op->c = prop_below(r, 4);
    if (op->c == 0) {
        op->b = prop_chance(r, 16) ? prop_u64(r) >> (8 + prop_below(r, 40))
                                   : prop_below(r, 5000);
    }
}

static enum prop_kind
random_kind(struct prop_random *r)
{
    static const struct {
        enum prop_kind kind;
        uint8_t weight;
    } table[] = {
        { PROP_REG_READ, 10 },  { PROP_REG_WRITE, 30 },
        { PROP_MMIO_READ, 6 },  { PROP_MMIO_WRITE, 4 },
        { PROP_MSR_READ, 6 },   { PROP_MSR_WRITE, 10 },
        { PROP_MODE, 4 },       { PROP_CR8, 4 },
        { PROP_ICR, 24 },       { PROP_EOI, 14 },
        { PROP_TIMER, 8 },      { PROP_POST, 20 },
        { PROP_POST_MODE, 6 },  { PROP_LINT, 8 },
        { PROP_LOCAL, 5 },      { PROP_MSI, 12 },
        { PROP_CLOCK, 16 },     { PROP_EXPIRE, 8 },
        { PROP_ENTER, 16 },     { PROP_ACK, 8 },
        { PROP_EXIT, 8 },       { PROP_RUN, 20 },
        { PROP_HALT, 4 },       { PROP_BLOCK, 6 },
        { PROP_UNBLOCK, 3 },    { PROP_REVIVE, 10 },
        { PROP_SAVE, 2 },       { PROP_RESTORE, 2 },
        { PROP_KVM, 2 },        { PROP_DEADLINE_HOST, 1 },
        { PROP_TSC_OFFSET, 1 }, { PROP_MISUSE, 2 },
    };
    uint32_t total = 0;
    uint32_t at;

    if (prop_chance(r, 200)) {
        return prop_chance(r, 4) ? PROP_MIGRATE : PROP_RESET;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        total += table[i].weight;
    }
    at = prop_below(r, total);
    for (size_t i = 0;; i++) {
        if (at < table[i].weight) {
            return table[i].kind;
        }
        at -= table[i].weight;
    }
}

void /* table-driven */
prop_op_random(struct prop_random *r, const struct prop_config *config,
               struct prop_op *ret)
{
    *ret = (struct prop_op){ .kind = (uint8_t)random_kind(r),
                             .vcpu = (uint8_t)prop_below(r, config->nr_vcpus) };
    switch ((enum prop_kind)ret->kind) {
    case PROP_REG_READ:
    case PROP_REG_WRITE:
    case PROP_MMIO_READ:
    case PROP_MMIO_WRITE:
    case PROP_MSR_READ:
    case PROP_MSR_WRITE:
        random_access(r, config, ret);
        break;
    case PROP_ICR:
    case PROP_MSI:
        random_message(r, config, ret);
        break;
    case PROP_POST:
        ret->a = random_vector(r, config);
        ret->c = prop_chance(r, 4);
        break;
    case PROP_POST_MODE:
        ret->a = random_delivery(r);
        ret->b = random_vector(r, config);
        break;
    case PROP_CLOCK:
        random_clock(r, ret);
        break;
    case PROP_ENTER:
    case PROP_EXIT:
        ret->a = random_flags(r);
        ret->b = prop_chance(r, 4) ? prop_below(r, 16) : 255;
        ret->c = prop_chance(r, 2);
        break;
    case PROP_TIMER:
        ret->a = random_vector(r, config);
        ret->c = prop_below(r, 3);
        ret->b = random_count(r);
        break;
    case PROP_CR8:
        ret->b = prop_chance(r, 8) ? prop_u64(r) : prop_below(r, 16);
        break;
    case PROP_TSC_OFFSET:
    case PROP_DEADLINE_HOST:
        ret->b = prop_u64(r) >> prop_below(r, 64);
        break;
    case PROP_MODE:
    case PROP_LINT:
    case PROP_LOCAL:
    case PROP_EOI:
    case PROP_EXPIRE:
    case PROP_ACK:
    case PROP_RUN:
    case PROP_HALT:
    case PROP_BLOCK:
    case PROP_UNBLOCK:
    case PROP_REVIVE:
    case PROP_RESET:
    case PROP_SAVE:
    case PROP_RESTORE:
    case PROP_MIGRATE:
    case PROP_KVM:
    case PROP_MISUSE:
    case PROP_NR_KIND:
        ret->a = prop_below(r, 256);
        ret->c = prop_below(r, 24);
        ret->b = prop_below(r, 2);
        break;
    }
}

size_t
prop_prologue(const struct prop_config *config, struct prop_op *ret)
{
    size_t n = 0;

    for (unsigned i = 0; i < config->nr_vcpus; i++) {
        ret[n++] = (struct prop_op){ .kind = PROP_REVIVE, .vcpu = (uint8_t)i };
        ret[n++] = (struct prop_op){ .kind = PROP_REG_WRITE,
                                     .vcpu = (uint8_t)i,
                                     .a = M_LDR,
                                     .b = 1ull << (24 + i) };
    }
    return n;
}
