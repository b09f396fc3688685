/* SPDX-License-Identifier: BSD-2-Clause */

/* Operations and configurations in words, for the trace of a failing run. */

#include <inttypes.h>
#include <stdio.h>

#include "prop.h"

static const char *const names[PROP_NR_KIND] = {
    [PROP_REG_READ] = "read register",
    [PROP_REG_WRITE] = "write register",
    [PROP_MMIO_READ] = "read page",
    [PROP_MMIO_WRITE] = "write page",
    [PROP_MSR_READ] = "rdmsr",
    [PROP_MSR_WRITE] = "wrmsr",
    [PROP_MODE] = "change mode (0 off, 1 xAPIC, 2 x2APIC)",
    [PROP_CR8] = "write CR8",
    [PROP_ICR] = "send ICR",
    [PROP_EOI] = "EOI",
    [PROP_TIMER] = "start timer",
    [PROP_POST] = "post",
    [PROP_POST_MODE] = "post mode",
    [PROP_LINT] = "LINT pin",
    [PROP_LOCAL] = "local source",
    [PROP_MSI] = "MSI",
    [PROP_CLOCK] = "clock",
    [PROP_EXPIRE] = "expire",
    [PROP_ENTER] = "enter",
    [PROP_ACK] = "ack",
    [PROP_EXIT] = "exit",
    [PROP_RUN] = "run",
    [PROP_HALT] = "set halted",
    [PROP_BLOCK] = "block begin",
    [PROP_UNBLOCK] = "block end",
    [PROP_REVIVE] = "revive",
    [PROP_RESET] = "RESET",
    [PROP_SAVE] = "snapshot",
    [PROP_RESTORE] = "restore",
    [PROP_MIGRATE] = "migrate the VM",
    [PROP_KVM] = "KVM page round trip",
    [PROP_DEADLINE_HOST] = "host sets TSC_DEADLINE",
    [PROP_TSC_OFFSET] = "host sets TSC offset",
    [PROP_MISUSE] = "misuse",
};

void
prop_op_print(const struct prop_op *op)
{
    printf("vcpu %u: %s a=%" PRIx32 " b=%" PRIx64 " c=%" PRIx32 "\n", op->vcpu,
           names[op->kind], op->a, op->b, op->c);
}

void
prop_config_print(const struct prop_config *config)
{
    static const char *const who[] = { "AMD", "Intel", "KVM" };
    const struct avicemu_lapic_config *l = &config->model.lapic;

    printf("%s, features %" PRIx32 ", maxphyaddr %" PRIu32 ", bus %" PRIu64
           " Hz, TSC %" PRIu64 " Hz, missed ticks %d burst %" PRIu32
           ", BSP %" PRIx32 ", ids",
           who[l->personality], l->features, l->maxphyaddr, l->bus_hz,
           l->tsc_hz, (int)l->missed_ticks, l->max_burst,
           config->model.bsp_apic_id);
    for (unsigned i = 0; i < config->nr_vcpus; i++) {
        printf(" %" PRIx32, config->ids[i]);
    }
    printf("\n");
}
