/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line of text about an AVIC exit. Register names come from the register
 * table, fields from the field table.
 */

#include <avicemu/hw/core.h>
#include <avicemu/vcpu.h>

#include "base/regs.h"
#include "base/text.h"

static const char *const failure_names[] = {
    [AVICEMU_IPI_TYPE] = "no fixed edge",
    [AVICEMU_IPI_NOT_RUNNING] = "a target is not running",
    [AVICEMU_IPI_TARGET] = "no valid entry",
    [AVICEMU_IPI_BACKING] = "bad backing page",
    [AVICEMU_IPI_VECTOR] = "illegal vector",
};

/* The exit does not say which mode wrote the ICR. x2APIC ids of a guest are
 * small, so something in bits 23:0 means one. */
static enum avicemu_apic_mode
icr_mode(uint64_t icr)
{
    return (icr >> 32 & 0xffffffu) != 0 ? AVICEMU_APIC_X2APIC
                                        : AVICEMU_APIC_XAPIC;
}

static void
describe_ipi(struct ae_text *t, uint64_t info1, uint64_t info2)
{
    uint32_t failure = AE_GET(info2, IPI_INFO2_FAILURE);
    char icr[64];

    (void)avicemu_describe_icr(info1, icr_mode(info1), icr, sizeof(icr));
    ae_text_add(t, "AVIC_INCOMPLETE_IPI: ");
    if (failure < AE_ARRAY_SIZE(failure_names)) {
        ae_text_add(t, "%s", failure_names[failure]);
    } else {
        ae_text_add(t, "reserved id %u", failure);
    }
    if (failure >= AVICEMU_IPI_NOT_RUNNING && failure <= AVICEMU_IPI_BACKING) {
        ae_text_add(t, ", index %xh", AE_GET(info2, IPI_INFO2_INDEX));
    }
    ae_text_add(t, "; %s", icr);
}

static void
describe_register(struct ae_text *t, uint64_t info1, uint64_t info2)
{
    bool write = AE_GET(info1, NOACCEL_INFO1_WRITE) != 0;
    uint32_t offset = AE_GET(info1, NOACCEL_INFO1_OFFSET) << 4;
    const struct ae_reg_desc *d = ae_reg_find(offset);

    ae_text_add(t, "AVIC_NOACCEL: %s of %03xh", write ? "write" : "read",
                offset);
    if (d != NULL && d->nr_slots > 1) {
        ae_text_add(t, " %s[%u]", d->name, (offset - d->offset) / 16u);
    } else if (d != NULL) {
        ae_text_add(t, " %s", d->name);
    }
    if (write && offset == LAPIC_EOI) {
        ae_text_add(t, ", vector %02xh", AE_GET(info2, NOACCEL_INFO2_VECTOR));
    }
}

static void
describe_fault(struct ae_text *t, uint64_t info1, uint64_t info2)
{
    ae_text_add(t, "NPF: %s of %llxh, %s",
                AE_GET(info1, NPF_INFO1_WRITE) != 0 ? "write" : "read",
                (unsigned long long)info2,
                AE_GET(info1, NPF_INFO1_PRESENT) != 0 ? "not permitted"
                                                      : "not present");
}

int
avicemu_describe_exit(uint64_t exitcode, uint64_t exitinfo1, uint64_t exitinfo2,
                      char *buf, size_t len)
{
    struct ae_text t = ae_text_begin(buf, len);

    if (exitcode == AVICEMU_EXIT_INVALID) {
        ae_text_add(&t, "INVALID: VMRUN refused the VMCB");
        return (int)t.used;
    }
    ae_text_add(&t, "%03llxh", (unsigned long long)exitcode);
    switch (exitcode) {
    case AVICEMU_EXIT_CR8_WRITE:
        ae_text_add(&t, " CR8 write");
        break;
    case AVICEMU_EXIT_INTR:
        ae_text_add(&t, " INTR: interrupt to the host");
        break;
    case AVICEMU_EXIT_MSR:
        ae_text_add(&t, " MSR: %s", exitinfo1 != 0 ? "WRMSR" : "RDMSR");
        break;
    case AVICEMU_EXIT_NPF:
        ae_text_add(&t, " ");
        describe_fault(&t, exitinfo1, exitinfo2);
        break;
    case AVICEMU_EXIT_INCOMPLETE_IPI:
        ae_text_add(&t, " ");
        describe_ipi(&t, exitinfo1, exitinfo2);
        break;
    case AVICEMU_EXIT_NOACCEL:
        ae_text_add(&t, " ");
        describe_register(&t, exitinfo1, exitinfo2);
        break;
    default:
        ae_text_add(&t, " no exit of an AVIC core");
        break;
    }
    return (int)t.used;
}
