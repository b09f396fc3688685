/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line of text about what an IOMMU reads and writes. Fields come from the
 * field table.
 */

#include <avicemu/hw/iommu.h>

#include "base/regs.h"
#include "base/text.h"

static bool
has(uint64_t word, uint64_t mask)
{
    return (word & mask) != 0;
}

static void
describe_guest(struct ae_text *t, uint64_t low, uint64_t high)
{
    ae_text_add(t, "guest vector %02xh in page %llxh, tag %08xh, ",
                AE_GET(high, IRTE_HIGH_VECTOR),
                (unsigned long long)(high & AE_MASK64(IRTE_HIGH_ROOT)),
                AE_GET(low, IRTE_GUEST_GA_TAG));
    ae_text_add(t, "%s",
                has(low, AE_MASK64(IRTE_GUEST_IS_RUN)) ? "runs on "
                                                       : "last on ");
    ae_text_add(t, "%xh%s",
                AE_GET(high, IRTE_HIGH_DEST_HIGH) << 24 |
                    AE_GET(low, IRTE_DEST_LOW),
                has(low, AE_MASK64(IRTE_GUEST_GA_LOG_INTR)) ? ", logs" : "");
}

static void
describe_remapped(struct ae_text *t, uint64_t low, uint64_t high)
{
    static const char *const types[8] = { "fixed",  "arbitrated", "type 2",
                                          "type 3", "type 4",     "type 5",
                                          "type 6", "type 7" };

    ae_text_add(
        t, "%s vector %02xh to %s %xh%s",
        types[AE_GET(low, IRTE_REMAP_INT_TYPE)], AE_GET(high, IRTE_HIGH_VECTOR),
        has(low, AE_MASK64(IRTE_REMAP_DM)) ? "logical" : "physical",
        AE_GET(high, IRTE_HIGH_DEST_HIGH) << 24 | AE_GET(low, IRTE_DEST_LOW),
        has(low, AE_MASK64(IRTE_REMAP_RQ_EOI)) ? ", EOI" : "");
}

int
avicemu_describe_irte(uint64_t low, uint64_t high, char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);

    if (!has(low, AE_MASK64(IRTE_REMAP_EN))) {
        ae_text_add(&t, "not present");
    } else if (has(low, AE_MASK64(IRTE_GUEST_MODE))) {
        describe_guest(&t, low, high);
    } else {
        describe_remapped(&t, low, high);
    }
    if (has(low, AE_MASK64(IRTE_SUP_IOPF))) {
        ae_text_add(&t, ", faults suppressed");
    }
    return (int)t.used;
}

int
avicemu_describe_ga_entry(uint64_t entry, char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);
    uint32_t type = AE_GET(entry, GA_ENTRY_TYPE);

    if (type == AE_GA_GUEST_NR) {
        ae_text_add(&t, "GUEST_NR: tag %08xh, device %04xh",
                    AE_GET(entry, GA_ENTRY_GA_TAG),
                    AE_GET(entry, GA_ENTRY_DEVICE_ID));
    } else {
        ae_text_add(&t, "reserved type %u: %016llxh", type,
                    (unsigned long long)entry);
    }
    return (int)t.used;
}

/* All that have a name, for a log that comes from silicon: those that are not
 * modelled by their number. */
static const char *const event_names[16] = {
    [AE_IOMMU_EVENT_BAD_DTE] = "ILLEGAL_DEV_TABLE_ENTRY",
    [AE_IOMMU_EVENT_PAGE_FAULT] = "IO_PAGE_FAULT",
    [AE_IOMMU_EVENT_DTE_HARDWARE] = "DEV_TAB_HARDWARE_ERROR",
    [AE_IOMMU_EVENT_TABLE_HARDWARE] = "PAGE_TAB_HARDWARE_ERROR",
    [AE_IOMMU_EVENT_BAD_COMMAND] = "ILLEGAL_COMMAND_ERROR",
    [AE_IOMMU_EVENT_COMMAND_HARDWARE] = "COMMAND_HARDWARE_ERROR",
    [7] = "IOTLB_INV_TIMEOUT",
    [AE_IOMMU_EVENT_BAD_REQUEST] = "INVALID_DEVICE_REQUEST",
    [9] = "INVALID_PPR_REQUEST",
    [10] = "EVENT_COUNTER_ZERO",
    [11] = "GUEST_EVENT_FAULT",
    [13] = "RMP_PAGE_FAULT",
    [14] = "RMP_HARDWARE_ERROR",
};

int
avicemu_describe_event(uint64_t low, uint64_t high, char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);
    const char *name = event_names[AE_GET(low, EVENT_CODE)];

    ae_text_add(&t, "%s device %04xh domain %04xh flags %04xh address %llxh",
                name != NULL ? name : "reserved event",
                AE_GET(low, EVENT_DEVICE_ID), AE_GET(low, EVENT_DOMAIN_ID),
                (unsigned)(low >> 48 & 0xfffu), (unsigned long long)high);
    return (int)t.used;
}

int
avicemu_describe_iommu_status(uint64_t status, char *buf, size_t len)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } names[] = {
        { AE_MASK64(STATUS_EVENT_OVERFLOW), "EventOverflow" },
        { AE_MASK64(STATUS_EVENT_LOG_INT), "EventLogInt" },
        { AE_MASK64(STATUS_COM_WAIT_INT), "ComWaitInt" },
        { AE_MASK64(STATUS_EVENT_LOG_RUN), "EventLogRun" },
        { AE_MASK64(STATUS_CMD_BUF_RUN), "CmdBufRun" },
        { AE_MASK64(STATUS_GA_LOG_RUN), "GALogRun" },
        { AE_MASK64(STATUS_GA_OVERFLOW), "GALOverflow" },
        { AE_MASK64(STATUS_GA_INT), "GAInt" },
    };
    struct ae_text t = ae_text_begin(buf, len);

    for (unsigned i = 0; i < AE_ARRAY_SIZE(names); i++) {
        if (has(status, names[i].bit)) {
            ae_text_add(&t, "%s%s", t.used != 0 ? " " : "", names[i].name);
        }
    }
    if (t.used == 0) {
        ae_text_add(&t, "nothing");
    }
    return (int)t.used;
}
