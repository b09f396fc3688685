/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local APIC's hardware face: the page, the register table and the
 * register file, without hypervisor objects.
 */

#include <errno.h>
#include <string.h>

#include <avicemu/hw/lapic.h>

#include "hw/lapic.h"

struct avicemu_hw_lapic {
    struct ae_lapic_model model;
    struct ae_lapic lapic;
};

/* ---- page --------------------------------------------------------------- */

enum avicemu_post
avicemu_hw_page_post(void *page, uint8_t vector, enum avicemu_trigger trigger)
{
    if (vector < AE_FIRST_LEGAL_VECTOR) {
        return AVICEMU_POST_DROPPED;
    }
    return ae_vapic_post(page, vector, trigger);
}

int
avicemu_hw_page_pending(void *page)
{
    int vector = ae_vapic_highest(page, LAPIC_IRR);
    uint32_t ppr = ae_vapic_ppr(ae_vapic_read(page, LAPIC_TPR),
                                ae_vapic_highest(page, LAPIC_ISR));

    if (vector < 0 ||
        ae_vector_class((unsigned)vector) <= ae_vector_class(ppr)) {
        return -1;
    }
    return vector;
}

int
avicemu_hw_page_ack(void *page, uint8_t vector)
{
    return ae_vapic_ack(page, vector) ? 0 : -ENOENT;
}

int
avicemu_hw_page_eoi(void *page)
{
    int vector = ae_vapic_highest(page, LAPIC_ISR);

    if (vector >= 0) {
        ae_vapic_retire(page, (uint8_t)vector);
    }
    return vector;
}

uint32_t
avicemu_hw_ppr(uint32_t tpr, int in_service)
{
    return ae_vapic_ppr(tpr & 0xffu, in_service);
}

/* ---- register table ----------------------------------------------------- */

int
avicemu_hw_reg(const struct avicemu_lapic_config *config, uint32_t offset,
               struct avicemu_hw_reg *ret)
{
    static const struct avicemu_lapic_config defaults;
    struct ae_lapic_model model;
    uint64_t value;

    if (offset >= AE_PAGE || offset % 16 != 0 || ret == NULL ||
        ret->size < sizeof(*ret) ||
        ae_lapic_model_init(&model, config != NULL ? config : &defaults,
                            &value) != NULL) {
        return -EINVAL;
    }
    const struct ae_reg_desc *d = ae_reg_find(offset);
    const struct ae_lapic_rule *rule = &model.rules[offset >> 4];

    if (d == NULL) {
        return -ENOENT;
    }
    ret->name = d->name;
    ret->index = (offset - d->offset) / 16u;
    ret->xapic = (enum avicemu_hw_access)rule->xapic;
    ret->x2apic = (enum avicemu_hw_access)rule->x2apic;
    ret->sticks = rule->sticks;
    ret->reserved = rule->reserved;
    ret->reset = offset == LAPIC_VERSION ? model.version : rule->reset;
    return 0;
}

/* ---- register file ------------------------------------------------------ */

size_t
avicemu_hw_lapic_bytes(void)
{
    return sizeof(struct avicemu_hw_lapic);
}

int
avicemu_hw_lapic_init(void *memory, void *page,
                      const struct avicemu_lapic_config *config,
                      uint32_t apic_id, int bsp, struct avicemu_hw_lapic **ret)
{
    static const struct avicemu_lapic_config defaults;
    struct avicemu_hw_lapic *h = memory;
    struct ae_lapic_model model;
    uint64_t value;

    if (memory == NULL || page == NULL || ret == NULL ||
        (uintptr_t)memory % AVICEMU_HW_LAPIC_ALIGN != 0 ||
        (uintptr_t)page % AE_PAGE != 0 ||
        ae_lapic_model_init(&model, config != NULL ? config : &defaults,
                            &value) != NULL) {
        return -EINVAL;
    }
    h->model = model;
    memset(page, 0, AE_PAGE);
    ae_lapic_init(&h->lapic, &h->model, page, apic_id, bsp != 0);
    *ret = h;
    return 0;
}

/* The message as the ICR value that would send it. */
static uint64_t
message_icr(const struct ae_message *m)
{
    uint32_t low = m->vector | (uint32_t)m->mode << ICR_MT_LOW |
                   (uint32_t)m->shorthand << ICR_DSH_LOW | AE_MASK(ICR_ASSERT);
    uint64_t dest = m->format == AE_FORMAT_XAPIC ? m->dest << 24 : m->dest;

    low |= m->logical ? AE_MASK(ICR_LOGICAL) : 0;
    low |= m->level ? AE_MASK(ICR_LEVEL) : 0;
    return dest << 32 | low;
}

static void
outcome(struct avicemu_hw_lapic *h, const struct ae_lapic_effects *fx,
        uint64_t deadline_before, struct avicemu_hw_outcome *ret)
{
    static const struct {
        uint32_t event, what;
    } events[] = {
        { AE_EVENT_NMI, AVICEMU_HW_NMI },
        { AE_EVENT_SMI, AVICEMU_HW_SMI },
        { AE_EVENT_INIT, AVICEMU_HW_INIT },
        { AE_EVENT_EXTINT, AVICEMU_HW_EXTINT },
    };

    if (ret == NULL) {
        return;
    }
    ret->what = 0;
    ret->what |= (fx->what & AE_DID_IPI) != 0 ? AVICEMU_HW_IPI : 0;
    ret->what |= (fx->what & AE_DID_EOI) != 0 ? AVICEMU_HW_EOI : 0;
    ret->what |= (fx->what & AE_DID_IDENT) != 0 ? AVICEMU_HW_IDENT : 0;
    for (unsigned i = 0; i < AE_ARRAY_SIZE(events); i++) {
        ret->what |= (fx->events & events[i].event) != 0 ? events[i].what : 0;
    }
    if (h->lapic.timer.deadline != deadline_before) {
        ret->what |= AVICEMU_HW_DEADLINE;
    }
    ret->vector = fx->eoi_vector;
    ret->icr = (fx->what & AE_DID_IPI) != 0 ? message_icr(&fx->ipi) : 0;
    ret->deadline = h->lapic.timer.deadline;
}

static bool
page_claims(const struct avicemu_hw_lapic *h, uint32_t offset, unsigned len)
{
    return ae_lapic_mode(&h->lapic) == AVICEMU_APIC_XAPIC && len >= 1 &&
           offset < AE_PAGE && len <= AE_PAGE - offset;
}

enum avicemu_access
avicemu_hw_lapic_read(struct avicemu_hw_lapic *lapic, uint32_t offset,
                      unsigned len, uint64_t now, void *data,
                      struct avicemu_hw_outcome *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint64_t before = lapic->lapic.timer.deadline;

    if (!page_claims(lapic, offset, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    ae_lapic_mmio_read(&lapic->lapic, offset, len, now, data, &fx);
    outcome(lapic, &fx, before, ret);
    return AVICEMU_ACCESS_DONE;
}

enum avicemu_access
avicemu_hw_lapic_write(struct avicemu_hw_lapic *lapic, uint32_t offset,
                       unsigned len, uint64_t now, const void *data,
                       struct avicemu_hw_outcome *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint64_t before = lapic->lapic.timer.deadline;
    const uint8_t *b = data;

    if (!page_claims(lapic, offset, len)) {
        return AVICEMU_ACCESS_UNCLAIMED;
    }
    if (len == 4 && offset % 16 == 0) {
        ae_lapic_mmio_write(&lapic->lapic, offset,
                            (uint32_t)b[0] | (uint32_t)b[1] << 8 |
                                (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24,
                            now, &fx);
    }
    outcome(lapic, &fx, before, ret);
    return AVICEMU_ACCESS_DONE;
}

static bool
has_deadline(const struct avicemu_hw_lapic *h)
{
    return ae_lapic_has(&h->model, AVICEMU_LAPIC_TSC_DEADLINE);
}

enum avicemu_access
avicemu_hw_lapic_rdmsr(struct avicemu_hw_lapic *lapic, uint32_t msr,
                       uint64_t now, uint64_t *value,
                       struct avicemu_hw_outcome *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    struct ae_lapic *l = &lapic->lapic;
    uint64_t before = l->timer.deadline;
    enum avicemu_access access = AVICEMU_ACCESS_GP;

    if (msr == AE_MSR_APIC_BASE) {
        *value = l->base;
        access = AVICEMU_ACCESS_DONE;
    } else if (msr == AE_MSR_TSC_DEADLINE && has_deadline(lapic)) {
        ae_lapic_timer_sync(l, now, &fx);
        *value = l->timer.tsc_deadline;
        access = AVICEMU_ACCESS_DONE;
    } else if (msr < AE_MSR_X2APIC_FIRST || msr > AE_MSR_X2APIC_LAST) {
        return AVICEMU_ACCESS_UNCLAIMED;
    } else if (ae_lapic_mode(l) == AVICEMU_APIC_X2APIC) {
        access =
            ae_lapic_msr_read(l, msr - AE_MSR_X2APIC_FIRST, now, value, &fx);
    }
    outcome(lapic, &fx, before, ret);
    return access;
}

enum avicemu_access
avicemu_hw_lapic_wrmsr(struct avicemu_hw_lapic *lapic, uint32_t msr,
                       uint64_t now, uint64_t value,
                       struct avicemu_hw_outcome *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    struct ae_lapic *l = &lapic->lapic;
    uint64_t before = l->timer.deadline;
    enum avicemu_access access = AVICEMU_ACCESS_GP;

    if (msr == AE_MSR_APIC_BASE) {
        access = ae_lapic_base_write(l, value, AE_BASE_GUEST, now, &fx);
    } else if (msr == AE_MSR_TSC_DEADLINE && has_deadline(lapic)) {
        ae_timer_set_deadline(&lapic->model.clock, &l->timer, now, value);
        access = AVICEMU_ACCESS_DONE;
    } else if (msr < AE_MSR_X2APIC_FIRST || msr > AE_MSR_X2APIC_LAST) {
        return AVICEMU_ACCESS_UNCLAIMED;
    } else if (ae_lapic_mode(l) == AVICEMU_APIC_X2APIC) {
        access =
            ae_lapic_msr_write(l, msr - AE_MSR_X2APIC_FIRST, now, value, &fx);
    }
    outcome(lapic, &fx, before, ret);
    return access;
}

enum avicemu_post
avicemu_hw_lapic_post(struct avicemu_hw_lapic *lapic, uint8_t vector,
                      enum avicemu_trigger trigger)
{
    enum avicemu_drop why;
    bool error;

    return ae_lapic_accept(&lapic->lapic, vector, trigger, &why, &error);
}

void
avicemu_hw_lapic_tick(struct avicemu_hw_lapic *lapic, uint64_t now,
                      struct avicemu_hw_outcome *ret)
{
    struct ae_lapic_effects fx = { .what = 0 };
    uint64_t before = lapic->lapic.timer.deadline;

    ae_lapic_timer_sync(&lapic->lapic, now, &fx);
    ae_lapic_error_sync(&lapic->lapic, &fx);
    outcome(lapic, &fx, before, ret);
}

uint8_t
avicemu_hw_lapic_inta(struct avicemu_hw_lapic *lapic)
{
    struct ae_lapic_effects fx = { .what = 0 };

    return ae_lapic_inta(&lapic->lapic, &fx);
}

void
avicemu_hw_lapic_signal_init(struct avicemu_hw_lapic *lapic)
{
    struct ae_lapic_effects fx = { .what = 0 };

    ae_lapic_init_signal(&lapic->lapic, &fx);
}

void
avicemu_hw_lapic_signal_reset(struct avicemu_hw_lapic *lapic)
{
    struct ae_lapic_effects fx = { .what = 0 };

    ae_lapic_reset(&lapic->lapic, &fx);
}
