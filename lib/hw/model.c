/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Personalities as data. The table below holds what differs between AMD's and
 * Intel's local APIC and the one that guests of Linux KVM see, beyond the
 * columns of the register table (base/regs.h). A VM resolves both, once, into
 * one rule per slot; after that no code asks who the vendor is.
 *
 * Choices where the manuals are silent or conflict:
 *   errors     AMD raises LVT error for each newly set bit (APM is silent; Xen
 *              does the same), Intel once per arming [SDM3 10.5.3]
 *   disable    [SDM3 10.4.3]: state may be lost on EN 1 -> 0; here it is, for
 *              AMD and Intel; KVM keeps it
 *   lowest     Intel's is model specific and discouraged: the lowest TPR
 */

#include "hw/model.h"

#define FEATURES_COMMON                                      \
    (AVICEMU_LAPIC_X2APIC | AVICEMU_LAPIC_TSC_DEADLINE |     \
     AVICEMU_LAPIC_DIRECTED_EOI | AVICEMU_LAPIC_FIXED_BASE | \
     AVICEMU_LAPIC_RESET_OFF | AVICEMU_LAPIC_LINT0_OPEN)

static const struct ae_lapic_traits personalities[] = {
    /* [APM2 16.3, 16.4, 16.5, 16.6] */
    [AVICEMU_PERSONALITY_AMD] = {
        .name = "amd",
        .version = 0x10,
        .errors = true,
        .disable_resets = true,
        .id_follows_xapic = true,
        .ipi_level = true,
        .lowest_flat_only = true,
        .extint_ipi = true,
        .lint1_level = true,
        .remote_irr = true,
        .apr = AE_APR_AMD,
        .lowest = AE_LOWEST_AMD,
        .features = FEATURES_COMMON | AVICEMU_LAPIC_EXT_SPACE,
    },
    /* [SDM3 10.4, 10.5, 10.6] */
    [AVICEMU_PERSONALITY_INTEL] = {
        .name = "intel",
        .version = 0x15,
        .errors = true,
        .error_per_arming = true,
        .lvt_write_flags = true,
        .disable_resets = true,
        .perf_masks = true,
        .remote_irr = true,
        .apr = AE_APR_INTEL,
        .lowest = AE_LOWEST_INTEL,
        .features = FEATURES_COMMON | AVICEMU_LAPIC_CMCI,
    },
    /* [KVM] Linux 6.12 */
    [AVICEMU_PERSONALITY_KVM] = {
        .name = "kvm",
        .version = 0x14,
        .bsp_writable = true,
        .ipi_level = true,
        .lint1_level = true,
        .last_sipi_wins = true,
        .msi_ff_broadcast = true,
        .msi_sipi = true,
        .broadcast_lowest_is_fixed = true,
        .apr = AE_APR_NONE,
        .lowest = AE_LOWEST_HASH,
        .features = FEATURES_COMMON | AVICEMU_LAPIC_CMCI,
    },
};

static_assert(AE_ARRAY_SIZE(personalities) == AVICEMU_NR_PERSONALITY,
              "a personality without traits");

/* Resolve one row of the table into its slots. */
static void
rule_resolve(struct ae_lapic_model *m, const struct ae_reg_desc *d)
{
    unsigned vendor = 1u << m->personality;
    bool there = d->need == 0 || ae_lapic_has(m, d->need);
    struct ae_lapic_rule rule = {
        .handler = d->handler,
        .keep_on_init = d->keep_on_init,
        .sticks = d->sticks[m->personality],
        .reserved = d->reserved[m->personality],
        .reset = d->reset,
    };

    if (there && (d->xapic_vendors & vendor) != 0) {
        rule.xapic = d->xapic;
    }
    if (there && (d->x2apic_vendors & vendor) != 0 &&
        ae_lapic_has(m, AVICEMU_LAPIC_X2APIC)) {
        rule.x2apic = d->x2apic;
    }
    if (d->opt != 0 && !ae_lapic_has(m, d->opt_need)) {
        rule.sticks &= ~d->opt;
        /* KVM faults only what its column says [KVM]. */
        if (m->personality != AVICEMU_PERSONALITY_KVM) {
            rule.reserved |= d->opt;
        }
    }
    if (rule.xapic == AE_REG_NONE && rule.x2apic == AE_REG_NONE) {
        return; /* an absent register has no value either */
    }
    for (unsigned i = 0; i < d->nr_slots; i++) {
        m->rules[d->offset / 16u + i] = rule;
    }
}

static uint32_t
version_make(const struct ae_lapic_model *m)
{
    /* Timer, thermal, perf, LINT0, LINT1, error; CMCI. [SDM3 10.4.8] */
    uint32_t max_lvt = ae_lapic_has(m, AVICEMU_LAPIC_CMCI) ? 6 : 5;
    uint32_t version = m->traits->version | max_lvt << VERSION_MAX_LVT_LOW;

    if (ae_lapic_has(m, AVICEMU_LAPIC_DIRECTED_EOI)) {
        version |= AE_MASK(VERSION_DIRECTED_EOI);
    }
    if (ae_lapic_has(m, AVICEMU_LAPIC_EXT_SPACE)) {
        version |= AE_MASK(VERSION_EXT_SPACE);
    }
    return version;
}

static uint64_t
base_reserved_make(const struct ae_lapic_model *m, uint32_t maxphyaddr)
{
    /* Bits 7:0 and 9, and all from MAXPHYADDR up. [APM2 Fig 16-31] */
    uint64_t reserved = 0x2ffu | ~(((uint64_t)1 << maxphyaddr) - 1);

    if (!ae_lapic_has(m, AVICEMU_LAPIC_X2APIC)) {
        reserved |= AE_MASK(APIC_BASE_EXTD);
    }
    return reserved;
}

static bool
rate_ok(uint64_t hz)
{
    return hz >= 1 && hz <= (uint64_t)1 << 40;
}

static uint64_t
default_u64(uint64_t value, uint64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static const char *
clock_init(struct ae_timer_clock *c, const struct avicemu_lapic_config *config,
           uint64_t *value)
{
    c->now_hz = default_u64(config->now_hz, 1000000000u);
    c->bus_hz = default_u64(config->bus_hz, 1000000000u);
    c->tsc_hz = default_u64(config->tsc_hz, c->now_hz);
    *value = c->now_hz;
    if (!rate_ok(c->now_hz)) {
        return "lapic.now_hz: 1..2^40";
    }
    *value = c->bus_hz;
    if (!rate_ok(c->bus_hz)) {
        return "lapic.bus_hz: 1..2^40";
    }
    *value = c->tsc_hz;
    if (!rate_ok(c->tsc_hz)) {
        return "lapic.tsc_hz: 1..2^40";
    }
    *value = (uint64_t)config->missed_ticks;
    if (*value > AVICEMU_MISSED_BURST) {
        return "lapic.missed_ticks: an enum avicemu_missed_ticks";
    }
    c->missed_ticks = config->missed_ticks;
    c->max_burst = config->max_burst;
    *value = config->max_burst;
    if (c->missed_ticks == AVICEMU_MISSED_BURST &&
        (config->max_burst < 1 || config->max_burst > 65536)) {
        return "lapic.max_burst: 1..65536";
    }
    c->min_period_bus = ae_scale_ceil(config->min_period, c->bus_hz, c->now_hz);
    return NULL;
}

const char *
ae_lapic_model_init(struct ae_lapic_model *m,
                    const struct avicemu_lapic_config *config, uint64_t *value)
{
    uint32_t maxphyaddr = config->maxphyaddr != 0 ? config->maxphyaddr : 48;

    *m = (struct ae_lapic_model){ .personality = config->personality };
    *value = (uint64_t)config->personality;
    if (*value >= AVICEMU_NR_PERSONALITY) {
        return "lapic.personality: an enum avicemu_personality";
    }
    m->traits = &personalities[m->personality];
    m->features =
        config->features != 0 ? config->features : AVICEMU_LAPIC_X2APIC;
    *value = m->features;
    if ((m->features & ~m->traits->features) != 0) {
        return "lapic.features: those of the personality";
    }
    *value = maxphyaddr;
    if (maxphyaddr < 32 || maxphyaddr > 52) {
        return "lapic.maxphyaddr: 32..52";
    }
    const char *wrong = clock_init(&m->clock, config, value);

    if (wrong != NULL) {
        return wrong;
    }
    m->version = version_make(m);
    m->base_reserved = base_reserved_make(m, maxphyaddr);
    for (unsigned i = 0; i < ae_nr_lapic_regs; i++) {
        rule_resolve(m, &ae_lapic_regs[i]);
    }
    return NULL;
}
