/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Messages in the model: acceptance by one APIC, destination match, IPIs,
 * MSIs, lowest-priority arbitration, local sources and the two pins.
 */

#include "model_lapic.h"

static bool
is_kvm(const struct model_vcpu *v)
{
    return model_is(v, AVICEMU_PERSONALITY_KVM);
}

/* Something arrived: what must the library's kick and wake have done? */
void
model_notify(struct model_vcpu *v, bool matters)
{
    if (v->phase == M_ENTERED) {
        v->calls.may_kick = true;
        v->calls.must_kick |= matters;
    } else if (v->phase == M_BLOCKED) {
        v->calls.may_wake = true;
        v->calls.must_wake |= model_runnable(v);
    }
}

enum avicemu_post
model_accept(struct model_vcpu *v, uint8_t vector, bool level,
             enum avicemu_drop *why)
{
    bool pending;

    if (!model_software_enabled(v)) {
        *why = AVICEMU_DROP_DISABLED;
        return AVICEMU_POST_DROPPED;
    }
    if (vector < 16) {
        *why = AVICEMU_DROP_ILLEGAL;
        model_error(v, M_ESR_RECV_ILLEGAL);
        v->poked = true;
        model_notify(v, false);
        return AVICEMU_POST_DROPPED;
    }
    pending = v->irr[vector];
    v->tmr[vector] = level;
    v->irr[vector] = 1;
    model_notify(v, !pending && model_deliverable(v) == vector);
    return pending ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

static enum avicemu_post
flag_event(struct model_vcpu *v, bool *flag)
{
    bool was = *flag;

    *flag = true;
    model_notify(v, !was && !v->wait_for_sipi);
    return was ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

static enum avicemu_post
accept_nmi(struct model_vcpu *v)
{
    if (v->nr_nmi == 2) {
        return AVICEMU_POST_MERGED;
    }
    v->nr_nmi++;
    model_notify(v, v->nr_nmi == 1 && !v->wait_for_sipi);
    return AVICEMU_POST_NEW;
}

static enum avicemu_post
accept_init(struct model_vcpu *v)
{
    bool was = v->init;

    v->init = true;
    v->sipi = false;
    model_notify(v, !was);
    return was ? AVICEMU_POST_MERGED : AVICEMU_POST_NEW;
}

static enum avicemu_post
accept_sipi(struct model_vcpu *v, uint8_t vector, enum avicemu_drop *why)
{
    if (!v->wait_for_sipi && !v->init) {
        *why = AVICEMU_DROP_NOT_WAITING;
        return AVICEMU_POST_DROPPED;
    }
    if (v->sipi) {
        if (is_kvm(v)) {
            v->sipi_vector = vector;
        }
        return AVICEMU_POST_MERGED;
    }
    v->sipi = true;
    v->sipi_vector = vector;
    model_notify(v, true);
    return AVICEMU_POST_NEW;
}

static enum avicemu_post
accept_extint(struct model_vcpu *v, enum avicemu_drop *why)
{
    if (!model_software_enabled(v)) {
        *why = AVICEMU_DROP_DISABLED;
        return AVICEMU_POST_DROPPED;
    }
    return flag_event(v, &v->extint);
}

/* A message of any kind at one APIC that it was sent to. */
static enum avicemu_post
accept_mode(struct model_vcpu *v, const struct model_message *m,
            enum avicemu_drop *why)
{
    if (model_mode(v) == AVICEMU_APIC_DISABLED) {
        *why = AVICEMU_DROP_DISABLED;
        return AVICEMU_POST_DROPPED;
    }
    switch (m->mode) {
    case AVICEMU_DELIVERY_FIXED:
    case AVICEMU_DELIVERY_LOWEST:
        return model_accept(v, m->vector, m->level, why);
    case AVICEMU_DELIVERY_SMI:
        return flag_event(v, &v->smi);
    case AVICEMU_DELIVERY_NMI:
        return accept_nmi(v);
    case AVICEMU_DELIVERY_INIT:
        return accept_init(v);
    case AVICEMU_DELIVERY_SIPI:
        return accept_sipi(v, m->vector, why);
    case AVICEMU_DELIVERY_EXTINT:
        return accept_extint(v, why);
    case AVICEMU_DELIVERY_REMOTE_READ:
        break;
    }
    *why = AVICEMU_DROP_MODE;
    return AVICEMU_POST_DROPPED;
}

enum avicemu_post
model_post_mode(struct model_vcpu *v, enum avicemu_delivery mode,
                uint8_t vector)
{
    struct model_message m = { .mode = mode, .vector = vector };
    enum avicemu_drop why;

    return accept_mode(v, &m, &why);
}

/* ---- destination match, sheet 7.3 --------------------------------------- */

static bool
match_logical(const struct model_vcpu *v, uint32_t dest)
{
    uint32_t ldr = model_get(v, M_LDR);
    uint32_t model = model_get(v, M_DFR) >> 28;

    if (model_mode(v) == AVICEMU_APIC_X2APIC) {
        return dest >> 16 == ldr >> 16 && (dest & ldr & 0xffff) != 0;
    }
    ldr >>= 24;
    if (dest == 0xff) {
        return true;
    }
    if (model == 0xf) {
        return (dest & ldr) != 0;
    }
    return model == 0 && dest >> 4 != 15 /* reserved */ &&
           dest >> 4 == ldr >> 4 && (dest & ldr & 15) != 0;
}

static bool
match(const struct model_vcpu *v, const struct model_message *m)
{
    bool x2 = model_mode(v) == AVICEMU_APIC_X2APIC;

    if (x2 && (m->dest == 0xffffffff ||
               (is_kvm(v) && m->from_msi && m->dest == 0xff))) {
        return true;
    }
    if (m->logical) {
        return match_logical(v, m->dest);
    }
    if (x2) {
        return m->dest == v->x2_id;
    }
    if (m->dest > 0xff) {
        return m->dest == v->initial_id;
    }
    return m->dest == 0xff || m->dest == model_get(v, M_ID) >> 24;
}

/* ---- delivery to a set -------------------------------------------------- */

struct avicemu_posted
model_none(enum avicemu_drop why)
{
    struct avicemu_posted p = { .nr_dropped = 1, .why = 1u << why };

    return p;
}

static void
deliver(struct model_vcpu *v, const struct model_message *m,
        struct avicemu_posted *ret)
{
    enum avicemu_drop why = AVICEMU_DROP_NO_TARGET;

    switch (accept_mode(v, m, &why)) {
    case AVICEMU_POST_NEW:
        ret->nr_new++;
        break;
    case AVICEMU_POST_MERGED:
        ret->nr_merged++;
        break;
    case AVICEMU_POST_DROPPED:
        ret->nr_dropped++;
        ret->why |= 1u << why;
        break;
    }
}

static uint32_t
current_id(const struct model_vcpu *v)
{
    return model_mode(v) == AVICEMU_APIC_X2APIC ? v->x2_id
                                                : model_get(v, M_ID) >> 24;
}

static bool
focus(const struct model_vcpu *v, uint8_t vector)
{
    return model_is(v, AVICEMU_PERSONALITY_AMD) &&
           !(model_get(v, M_SVR) & M_SVR_FOCUS_OFF) &&
           (v->irr[vector] || v->isr[vector]);
}

/* Whose bid is better? The candidate that a takes over b. */
static bool
beats(const struct model_vcpu *a, const struct model_vcpu *b, uint8_t vector)
{
    if (model_is(a, AVICEMU_PERSONALITY_INTEL)) {
        return model_get(a, M_TPR) < model_get(b, M_TPR);
    }
    if (focus(a, vector) != focus(b, vector)) {
        return focus(a, vector);
    }
    if (model_apr_amd(a) != model_apr_amd(b)) {
        return model_apr_amd(a) < model_apr_amd(b);
    }
    return current_id(a) > current_id(b);
}

static struct model_vcpu *
arbitrate(struct model_vm *vm, const bool *in, uint8_t vector)
{
    struct model_vcpu *cand[MODEL_MAX_VCPUS];
    struct model_vcpu *best;
    unsigned n = 0;

    for (unsigned i = 0; i < vm->nr_vcpus; i++) {
        if (in[i] && model_software_enabled(&vm->vcpus[i])) {
            cand[n++] = &vm->vcpus[i];
        }
    }
    if (n == 0) {
        return NULL;
    }
    if (is_kvm(cand[0])) {
        return cand[vector % n];
    }
    best = cand[0];
    for (unsigned i = 0; i < n; i++) {
        if (beats(cand[i], best, vector)) {
            best = cand[i];
        }
    }
    return best;
}

static struct avicemu_posted
deliver_set(struct model_vm *vm, const bool *in, const struct model_message *m)
{
    struct avicemu_posted ret = { 0 };
    bool lowest = m->mode == AVICEMU_DELIVERY_LOWEST ||
                  (m->mode == AVICEMU_DELIVERY_FIXED && m->hint && m->logical);
    unsigned n = 0;

    for (unsigned i = 0; i < vm->nr_vcpus; i++) {
        n += in[i];
    }
    if (n == 0) {
        return model_none(AVICEMU_DROP_NO_TARGET);
    }
    if (lowest) {
        struct model_vcpu *v = arbitrate(vm, in, m->vector);

        if (v == NULL) {
            return model_none(AVICEMU_DROP_DISABLED);
        }
        deliver(v, m, &ret);
        return ret;
    }
    for (unsigned i = 0; i < vm->nr_vcpus; i++) {
        if (in[i]) {
            deliver(&vm->vcpus[i], m, &ret);
        }
    }
    return ret;
}

static struct avicemu_posted
route(struct model_vm *vm, const struct model_message *m)
{
    bool in[MODEL_MAX_VCPUS] = { false };

    for (unsigned i = 0; i < vm->nr_vcpus; i++) {
        in[i] = model_mode(&vm->vcpus[i]) != AVICEMU_APIC_DISABLED &&
                match(&vm->vcpus[i], m);
    }
    return deliver_set(vm, in, m);
}

/* KVM makes this a fixed interrupt for everybody. */
static bool
lowest_to_all(const struct model_message *m)
{
    return m->mode == AVICEMU_DELIVERY_LOWEST && !m->logical && m->dest == 0xff;
}

struct avicemu_posted
model_msi(struct model_vm *vm, uint64_t address, uint32_t data)
{
    struct model_message m = {
        .mode = (enum avicemu_delivery)(data >> 8 & 7),
        .vector = (uint8_t)data,
        .level = data >> 15 & 1,
        .assert_ = data >> 14 & 1,
        .logical = address >> 2 & 1,
        .hint = address >> 3 & 1,
        .from_msi = true,
        .dest = (uint32_t)((address >> 12 & 0xff) | (address >> 40 & 0xffffff)
                                                        << 8),
    };
    bool fixed =
        m.mode == AVICEMU_DELIVERY_FIXED || m.mode == AVICEMU_DELIVERY_LOWEST;

    if ((address & 0xfff00000) != 0xfee00000 || (address >> 32 & 0xff)) {
        return model_none(AVICEMU_DROP_ADDRESS);
    }
    if (m.level && !m.assert_ && (fixed || m.mode == AVICEMU_DELIVERY_INIT)) {
        return model_none(AVICEMU_DROP_DEASSERT);
    }
    if (m.mode == AVICEMU_DELIVERY_REMOTE_READ ||
        (m.mode == AVICEMU_DELIVERY_SIPI && !is_kvm(&vm->vcpus[0]))) {
        return model_none(AVICEMU_DROP_MODE);
    }
    if (is_kvm(&vm->vcpus[0]) && lowest_to_all(&m)) {
        m.mode = AVICEMU_DELIVERY_FIXED;
    }
    return route(vm, &m);
}

/* ---- IPIs --------------------------------------------------------------- */

static bool
lowest_allowed(const struct model_vcpu *s, const struct model_message *m,
               unsigned shorthand)
{
    return !model_is(s, AVICEMU_PERSONALITY_AMD) || shorthand == 1 ||
           shorthand == 3 ||
           (model_mode(s) == AVICEMU_APIC_XAPIC && m->logical &&
            shorthand == 0 && model_get(s, M_DFR) >> 28 == 0xf);
}

static bool
mode_allowed(const struct model_vcpu *s, const struct model_message *m,
             unsigned shorthand)
{
    if (m->mode == AVICEMU_DELIVERY_LOWEST) {
        return lowest_allowed(s, m, shorthand);
    }
    if (m->mode == AVICEMU_DELIVERY_EXTINT) {
        return model_is(s, AVICEMU_PERSONALITY_AMD) &&
               model_mode(s) == AVICEMU_APIC_XAPIC;
    }
    return m->mode != AVICEMU_DELIVERY_REMOTE_READ;
}

static struct avicemu_posted
send_shorthand(struct model_vcpu *s, struct model_message *m,
               unsigned shorthand)
{
    bool in[MODEL_MAX_VCPUS] = { false };
    struct model_vm *vm = s->vm;

    for (unsigned i = 0; i < vm->nr_vcpus; i++) {
        bool self = i == s->index;

        in[i] = (self ? shorthand != 3 : shorthand != 1) &&
                model_mode(&vm->vcpus[i]) != AVICEMU_APIC_DISABLED;
    }
    return deliver_set(vm, in, m);
}

static struct avicemu_posted
send(struct model_vcpu *s, struct model_message *m, unsigned shorthand)
{
    bool fixed =
        m->mode == AVICEMU_DELIVERY_FIXED || m->mode == AVICEMU_DELIVERY_LOWEST;

    if (fixed && m->vector < 16) {
        model_error(s, M_ESR_SEND_ILLEGAL);
        if (shorthand == 1 && model_software_enabled(s)) {
            model_error(s, M_ESR_RECV_ILLEGAL);
        }
        return model_none(AVICEMU_DROP_ILLEGAL);
    }
    if (!mode_allowed(s, m, shorthand)) {
        return model_none(AVICEMU_DROP_MODE);
    }
    if (fixed && model_is(s, AVICEMU_PERSONALITY_INTEL)) {
        m->level = false;
    }
    if (m->level && !m->assert_ &&
        (fixed || m->mode == AVICEMU_DELIVERY_INIT)) {
        return model_none(AVICEMU_DROP_DEASSERT);
    }
    if (is_kvm(s) && shorthand == 0 && lowest_to_all(m)) {
        m->mode = AVICEMU_DELIVERY_FIXED;
    }
    return shorthand ? send_shorthand(s, m, shorthand) : route(s->vm, m);
}

static void
count_ipi(struct model_vcpu *s, struct avicemu_posted p)
{
    s->counts.ipi_sent++;
    s->counts.ipi_new += p.nr_new;
    s->counts.ipi_merged += p.nr_merged;
    s->counts.ipi_dropped += p.nr_dropped;
}

void
model_send_icr(struct model_vcpu *s, uint32_t low, uint32_t dest)
{
    struct model_message m = {
        .mode = (enum avicemu_delivery)(low >> 8 & 7),
        .vector = (uint8_t)low,
        .level = low >> 15 & 1,
        .assert_ = low >> 14 & 1,
        .logical = low >> 11 & 1,
        .dest = dest,
    };

    count_ipi(s, send(s, &m, low >> 18 & 3));
}

void
model_self_ipi(struct model_vcpu *s, uint8_t vector)
{
    struct model_message m = { .vector = vector };

    count_ipi(s, send(s, &m, 1));
}

/* ---- local sources ------------------------------------------------------ */

enum avicemu_post
model_lvt_deliver(struct model_vcpu *v, uint32_t offset, bool level)
{
    uint32_t lvt = model_get(v, offset);
    bool pin = offset == M_LINT0 || offset == M_LINT1;
    bool ext = offset >= M_EXT_LVT;
    struct model_message m = { .vector = (uint8_t)lvt, .level = level };

    m.mode = (enum avicemu_delivery)(lvt >> 8 & 7);
    if (model_mode(v) == AVICEMU_APIC_DISABLED || (lvt & M_LVT_MASK)) {
        return AVICEMU_POST_DROPPED;
    }
    switch (m.mode) {
    case AVICEMU_DELIVERY_FIXED:
    case AVICEMU_DELIVERY_SMI:
    case AVICEMU_DELIVERY_NMI:
        break;
    case AVICEMU_DELIVERY_INIT:
        if (!pin) {
            return AVICEMU_POST_DROPPED;
        }
        break;
    case AVICEMU_DELIVERY_EXTINT:
        if (!ext) {
            return AVICEMU_POST_DROPPED;
        }
        break;
    case AVICEMU_DELIVERY_LOWEST:
    case AVICEMU_DELIVERY_REMOTE_READ:
    case AVICEMU_DELIVERY_SIPI:
        return AVICEMU_POST_DROPPED;
    }
    return accept_mode(v, &m, &(enum avicemu_drop){ 0 });
}

enum avicemu_post
model_local(struct model_vcpu *v, enum avicemu_lvt source)
{
    static const uint32_t offset[AVICEMU_NR_LVT] = {
        M_CMCI,           M_THERMAL,        M_PERF,           M_EXT_LVT,
        M_EXT_LVT + 0x10, M_EXT_LVT + 0x20, M_EXT_LVT + 0x30,
    };
    uint32_t lvt = offset[source];
    uint32_t unused;
    enum avicemu_post ret;

    if (!model_peek(v, lvt, &unused)) {
        return AVICEMU_POST_DROPPED;
    }
    ret = model_lvt_deliver(v, lvt, false);
    if (source == AVICEMU_LVT_PERF && model_is(v, AVICEMU_PERSONALITY_INTEL) &&
        ret != AVICEMU_POST_DROPPED) {
        model_set(v, lvt, model_get(v, lvt) | M_LVT_MASK);
    }
    return ret;
}

static bool
level_pin(const struct model_vcpu *v, unsigned pin)
{
    uint32_t lvt = model_get(v, M_LINT0 + 0x10 * pin);

    return (lvt & M_LVT_LEVEL) && !(lvt & 0x700) &&
           !(pin == 1 && model_is(v, AVICEMU_PERSONALITY_INTEL));
}

/* A level that is high and not served yet is offered. */
static enum avicemu_post
offer_level(struct model_vcpu *v, unsigned pin)
{
    uint32_t offset = M_LINT0 + 0x10 * pin;
    enum avicemu_post ret;

    if (!v->pin[pin] || (!is_kvm(v) && (model_get(v, offset) & M_LVT_RIR))) {
        return AVICEMU_POST_DROPPED;
    }
    ret = model_lvt_deliver(v, offset, true);
    if (ret != AVICEMU_POST_DROPPED && !is_kvm(v)) {
        model_set(v, offset, model_get(v, offset) | M_LVT_RIR);
    }
    return ret;
}

/* Something about the pin's LVT entry changed, the pin did not. */
void
model_lint_evaluate(struct model_vcpu *v, unsigned pin)
{
    if (model_mode(v) != AVICEMU_APIC_DISABLED && level_pin(v, pin) &&
        !is_kvm(v)) {
        (void)offer_level(v, pin);
    }
}

static enum avicemu_post
intr_line(struct model_vcpu *v, bool rising)
{
    if (rising) {
        model_notify(v, !v->wait_for_sipi);
    }
    return rising ? AVICEMU_POST_NEW : AVICEMU_POST_DROPPED;
}

enum avicemu_post
model_lint(struct model_vcpu *v, unsigned pin, bool level)
{
    uint32_t offset = M_LINT0 + 0x10 * pin;
    uint32_t lvt = model_get(v, offset);
    bool rising = level && !v->pin[pin];

    v->pin[pin] = level;
    if (model_mode(v) == AVICEMU_APIC_DISABLED) {
        if (pin == 0) {
            return intr_line(v, rising);
        }
        if (!rising) {
            return AVICEMU_POST_DROPPED;
        }
        return accept_nmi(v);
    }
    if (!(lvt & M_LVT_MASK) && (lvt & 0x700) == 0x700) {
        return intr_line(v, rising);
    }
    if (level_pin(v, pin) && (rising || !is_kvm(v))) {
        return offer_level(v, pin);
    }
    return rising ? model_lvt_deliver(v, offset, false) : AVICEMU_POST_DROPPED;
}
