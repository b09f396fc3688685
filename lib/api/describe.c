/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line of text about a command, a message, a register or a todo. Register
 * names come from the register table, fields from the field table.
 */

#include <avicemu/vcpu.h>

#include "base/regs.h"
#include "base/text.h"

static const char *const delivery_names[8] = {
    "fixed", "lowest", "SMI", "remote-read", "NMI", "INIT", "SIPI", "ExtINT",
};

static const char *const shorthand_names[4] = { "", "self", "all",
                                                "all-but-self" };

static void
describe_command(struct ae_text *t, uint32_t low)
{
    ae_text_add(t, "%s vector %02xh", delivery_names[AE_GET(low, ICR_MT)],
                AE_GET(low, ICR_VECTOR));
    if ((low & AE_MASK(ICR_LEVEL)) != 0) {
        ae_text_add(t, " level %s",
                    (low & AE_MASK(ICR_ASSERT)) != 0 ? "assert" : "deassert");
    }
}

int
avicemu_describe_icr(uint64_t icr, enum avicemu_apic_mode mode, char *buf,
                     size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);
    uint32_t low = (uint32_t)icr;
    uint32_t high = (uint32_t)(icr >> 32);
    uint32_t dsh = AE_GET(low, ICR_DSH);

    describe_command(&t, low);
    if (dsh != AE_DSH_NONE) {
        ae_text_add(&t, " to %s", shorthand_names[dsh]);
    } else {
        ae_text_add(&t, " to %s %xh",
                    (low & AE_MASK(ICR_LOGICAL)) != 0 ? "logical" : "physical",
                    mode == AVICEMU_APIC_X2APIC
                        ? high
                        : AE_GET(high, ICR_HIGH_XAPIC_DEST));
    }
    return (int)t.used;
}

int
avicemu_describe_msi(uint64_t address, uint32_t data, char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);

    if ((address >> 20 & 0xfffu) != 0xfee || (address >> 32 & 0xffu) != 0) {
        ae_text_add(&t, "not an MSI: address %llxh",
                    (unsigned long long)address);
        return (int)t.used;
    }
    /* The data word has the layout of ICR low in 15:0. */
    describe_command(&t, data & 0xc7ffu);
    ae_text_add(
        &t, " to %s %xh%s", (address & 4u) != 0 ? "logical" : "physical",
        (uint32_t)(address >> 12 & 0xffu) | (uint32_t)(address >> 40) << 8,
        (address & 8u) != 0 ? " (one of them)" : "");
    return (int)t.used;
}

struct field_row {
    uint16_t offset;
    uint8_t high, low;
    const char *name;
};

/* clang-format off */
#define FIELD_OF(reg, at) \
    static const uint16_t field_at_##reg = (at)
FIELD_OF(APIC_BASE, 0xffff); /* an MSR, not in the page */
FIELD_OF(VERSION, LAPIC_VERSION);
FIELD_OF(SVR, LAPIC_SVR);
FIELD_OF(LVT, LAPIC_LVT_TIMER);
FIELD_OF(ICR, LAPIC_ICR_LOW);
FIELD_OF(ICR_HIGH, LAPIC_ICR_HIGH);
FIELD_OF(ID, LAPIC_ID);
FIELD_OF(LDR, LAPIC_LDR);
FIELD_OF(DFR, LAPIC_DFR);
FIELD_OF(EACR, LAPIC_EACR);
/* clang-format on */

static void
describe_field(struct ae_text *t, uint32_t offset, uint32_t value,
               const struct field_row *row)
{
    if (row->offset == offset) {
        ae_text_add(t, " %s=%x", row->name,
                    (uint32_t)ae_field_get(value, row->high, row->low));
    }
}

int
avicemu_describe_reg(uint32_t offset, uint32_t value, char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);
    const struct ae_reg_desc *d =
        offset < AE_PAGE && offset % 16 == 0 ? ae_reg_find(offset) : NULL;

    if (d == NULL) {
        ae_text_add(&t, "%03xh: no register", offset);
        return (int)t.used;
    }
    ae_text_add(&t, "%s", d->name);
    if (d->nr_slots > 1) {
        ae_text_add(&t, "[%u]", (offset - d->offset) / 16u);
    }
    ae_text_add(&t, " = %08xh", value);
    /* All LVT entries have the timer's fields. */
    uint32_t like = d->handler == AE_REG_LVT || d->handler == AE_REG_LVT_LINT
                        ? (uint32_t)LAPIC_LVT_TIMER
                        : offset;
#define FIELD_ROW(reg, field, high_, low_)                              \
    describe_field(&t, like, value,                                     \
                   &(const struct field_row){ .offset = field_at_##reg, \
                                              .high = (high_),          \
                                              .low = (low_),            \
                                              .name = #field });
    LAPIC_FIELDS(FIELD_ROW)
    return (int)t.used;
}

int
avicemu_describe_todo(const struct avicemu_todo *todo, char *buf, size_t len)
{
    static const struct {
        enum avicemu_do what;
        const char *name;
    } names[] = {
        { AVICEMU_DO_INJECT, "inject" },
        { AVICEMU_DO_EXTINT, "extint" },
        { AVICEMU_DO_NMI, "nmi" },
        { AVICEMU_DO_SMI, "smi" },
        { AVICEMU_DO_INIT, "init" },
        { AVICEMU_DO_SIPI, "sipi" },
        { AVICEMU_DO_SLEEP, "sleep" },
        { AVICEMU_DO_WINDOW, "window" },
        { AVICEMU_DO_NMI_WINDOW, "nmi-window" },
    };
    const uint32_t vectored =
        AVICEMU_DO_INJECT | AVICEMU_DO_EXTINT | AVICEMU_DO_SIPI;
    struct ae_text t = ae_text_begin(buf, len);

    if (todo->what == 0) {
        ae_text_add(&t, "run");
    }
    for (unsigned i = 0; i < AE_ARRAY_SIZE(names); i++) {
        if ((todo->what & names[i].what) != 0) {
            ae_text_add(&t, "%s%s", t.used != 0 ? "+" : "", names[i].name);
        }
    }
    if ((todo->what & vectored) != 0) {
        ae_text_add(&t, " %02xh", todo->vector);
    }
    ae_text_add(&t, " cr8 %u", todo->cr8);
    if (todo->tpr_threshold != 0) {
        ae_text_add(&t, " below %u", todo->tpr_threshold);
    }
    if (todo->deadline != UINT64_MAX) {
        ae_text_add(&t, " deadline %llu", (unsigned long long)todo->deadline);
    }
    return (int)t.used;
}
