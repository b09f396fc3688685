/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: the table of keys, the defaults, and what must fit together.
 */

#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <avicemu/mock/guest.h>

#define US 1000u
#define MS 1000000u
#define S  1000000000u

#define HOST(field)   offsetof(struct avicemu_mock_scenario, field)
#define VM(field)     offsetof(struct avicemu_mock_vm_config, field)
#define DEVICE(field) offsetof(struct avicemu_mock_device_config, field)

_Static_assert(sizeof(enum avicemu_mock_clock) == sizeof(uint32_t) &&
                   sizeof(enum avicemu_mock_avic) == sizeof(uint32_t) &&
                   sizeof(enum avicemu_apic_mode) == sizeof(uint32_t) &&
                   sizeof(enum avicemu_personality) == sizeof(uint32_t),
               "a choice is stored as 32 bits");

/* clang-format off */
const struct am_key am_keys[] = {
    /* section, name, type, offset, min, max, default, choices */
    { AE_SECTION_HOST, "pcpus",    AE_KEY_U32,  HOST(nr_pcpus),    1, 512, 2, { NULL } },
    { AE_SECTION_HOST, "clock",    AE_KEY_CHOICE, HOST(clock),     0, 1, 0, { "wall", "virtual" } },
    { AE_SECTION_HOST, "seed",     AE_KEY_U64,  HOST(seed),        0, UINT64_MAX, 1, { NULL } },
    { AE_SECTION_HOST, "slice",    AE_KEY_TIME, HOST(slice_ns),    10u * US, S, 2u * MS, { NULL } },
    { AE_SECTION_HOST, "duration", AE_KEY_TIME, HOST(duration_ns), MS, 3600ull * S, 8ull * S, { NULL } },
    { AE_SECTION_HOST, "watchdog", AE_KEY_TIME, HOST(watchdog_ns), S, 600ull * S, 10ull * S, { NULL } },
    { AE_SECTION_HOST, "avic",     AE_KEY_CHOICE, HOST(avic),      0, 3, 0, { "off", "avic", "x2avic", "x2avic-ext" } },
    { AE_SECTION_HOST, "erratum",  AE_KEY_CHOICE, HOST(erratum_1235), 0, 1, 0, { "off", "1235" } },
    { AE_SECTION_HOST, "iommus",   AE_KEY_U32,  HOST(nr_iommus),   0, 16, 0, { NULL } },

    { AE_SECTION_VM, "vcpus",       AE_KEY_U32,     VM(nr_vcpus), 1, AVICEMU_MOCK_MAX_VCPUS, 1, { NULL } },
    { AE_SECTION_VM, "mode",        AE_KEY_CHOICE,  VM(mode), 1, 2, 2, { "xapic", "x2apic" } },
    { AE_SECTION_VM, "personality", AE_KEY_CHOICE,  VM(personality), 0, 2, 0, { "amd", "intel", "kvm" } },
    { AE_SECTION_VM, "program",     AE_KEY_PROGRAM, VM(program_name), 0, 3, 1, { "boot", "ticks", "ipi", "nvme" } },
    { AE_SECTION_VM, "operations",  AE_KEY_U64,     VM(operations), 0, UINT64_MAX, 0, { NULL } },
    { AE_SECTION_VM, "timer",       AE_KEY_CHOICE,  VM(timer), 0, 3, 2, { "off", "oneshot", "periodic", "deadline" } },
    { AE_SECTION_VM, "tick",        AE_KEY_TIME,    VM(tick_ns), 20u * US, S, 4u * MS, { NULL } },
    { AE_SECTION_VM, "ipi",         AE_KEY_CHOICE,  VM(ipi), 0, 1, 0, { "strict", "flood" } },
    { AE_SECTION_VM, "destination", AE_KEY_CHOICE,  VM(destination), 0, 3, 3, { "physical", "logical", "broadcast", "mixed" } },
    { AE_SECTION_VM, "nmi",         AE_KEY_U32,     VM(nmi_every), 0, 1000000, 0, { NULL } },
    { AE_SECTION_VM, "avic",        AE_KEY_CHOICE,  VM(avic), 0, 1, 0, { "off", "on" } },
    { AE_SECTION_VM, "ipiv",        AE_KEY_CHOICE,  VM(ipiv), 0, 1, 1, { "off", "on" } },
    { AE_SECTION_VM, "toggle",      AE_KEY_U32,     VM(toggle), 0, 1000000, 0, { NULL } },

    { AE_SECTION_DEVICE, "vm",      AE_KEY_VM,   DEVICE(vm), 0, AVICEMU_MOCK_MAX_VMS - 1, 0, { NULL } },
    { AE_SECTION_DEVICE, "depth",   AE_KEY_U32,  DEVICE(depth), 1, 1024, 16, { NULL } },
    { AE_SECTION_DEVICE, "service", AE_KEY_TIME, DEVICE(service_ns), 0, S, 50u * US, { NULL } },
    { AE_SECTION_DEVICE, "jitter",  AE_KEY_TIME, DEVICE(jitter_ns), 0, S, 10u * US, { NULL } },
};
/* clang-format on */

const unsigned am_nr_keys = sizeof(am_keys) / sizeof(am_keys[0]);

/* ---- fields ------------------------------------------------------------- */

void *
am_section_of(struct avicemu_mock_scenario *s, enum am_section section,
              uint32_t index)
{
    switch (section) {
    case AE_SECTION_VM:
        return &s->vms[index];
    case AE_SECTION_DEVICE:
        return &s->devices[index];
    case AE_SECTION_HOST:
    case AE_NR_SECTION:
        break;
    }
    return s;
}

static uint64_t
program_index(const struct am_key *key, const char *name)
{
    uint64_t i = 0;

    while (key->choices[i] != NULL && strcmp(key->choices[i], name) != 0) {
        i++;
    }
    return i;
}

uint64_t
am_key_get(const struct am_key *key, const void *section)
{
    const char *field = (const char *)section + key->offset;
    uint64_t wide = 0;
    uint32_t narrow = 0;

    switch (key->type) {
    case AE_KEY_PROGRAM:
        return program_index(key, field);
    case AE_KEY_U64:
    case AE_KEY_TIME:
        memcpy(&wide, field, sizeof(wide));
        return wide;
    case AE_KEY_U32:
    case AE_KEY_CHOICE:
    case AE_KEY_VM:
        break;
    }
    memcpy(&narrow, field, sizeof(narrow));
    return narrow;
}

void
am_key_set(const struct am_key *key, void *section, uint64_t value)
{
    char *field = (char *)section + key->offset;
    uint32_t narrow = (uint32_t)value;

    switch (key->type) {
    case AE_KEY_PROGRAM:
        (void)snprintf(field, AVICEMU_MOCK_NAME_BYTES, "%s",
                       key->choices[value]);
        break;
    case AE_KEY_U64:
    case AE_KEY_TIME:
        memcpy(field, &value, sizeof(value));
        break;
    case AE_KEY_U32:
    case AE_KEY_CHOICE:
    case AE_KEY_VM:
        memcpy(field, &narrow, sizeof(narrow));
        break;
    }
}

/* The largest unit that shows a time as an integer. */
static void
time_text(uint64_t ns, char *buf, size_t len)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "h", 3600ull * S }, { "m", 60ull * S }, { "s", S },
                  { "ms", MS },         { "us", US },       { "ns", 1 } };
    unsigned i = 0;

    while (ns == 0 ? i < 5 : ns % units[i].ns != 0) {
        i++;
    }
    (void)snprintf(buf, len, "%llu%s", (unsigned long long)(ns / units[i].ns),
                   units[i].name);
}

void
am_key_allowed(const struct am_key *key, char *buf, size_t len)
{
    char low[32], high[32];
    int at;

    switch (key->type) {
    case AE_KEY_CHOICE:
    case AE_KEY_PROGRAM:
        at = snprintf(buf, len, "must be one of");
        for (unsigned i = 0; key->choices[i] != NULL && (size_t)at < len; i++) {
            at += snprintf(buf + at, len - (size_t)at, "%s %s",
                           i == 0 ? "" : ",", key->choices[i]);
        }
        return;
    case AE_KEY_TIME:
        time_text(key->min, low, sizeof(low));
        time_text(key->max, high, sizeof(high));
        (void)snprintf(buf, len, "must be %s..%s", low, high);
        return;
    case AE_KEY_VM:
        (void)snprintf(buf, len, "must be the name of a [vm NAME]");
        return;
    case AE_KEY_U32:
    case AE_KEY_U64:
        break;
    }
    (void)snprintf(buf, len, "must be %llu..%llu", (unsigned long long)key->min,
                   (unsigned long long)key->max);
}

/* ---- defaults ----------------------------------------------------------- */

static void
section_defaults(enum am_section section, void *fields)
{
    for (unsigned i = 0; i < am_nr_keys; i++) {
        if (am_keys[i].section == section) {
            am_key_set(&am_keys[i], fields, am_keys[i].def);
        }
    }
}

void
avicemu_mock_scenario_init(struct avicemu_mock_scenario *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    section_defaults(AE_SECTION_HOST, ret);
}

void
avicemu_mock_vm_init(struct avicemu_mock_vm_config *ret, const char *name)
{
    memset(ret, 0, sizeof(*ret));
    section_defaults(AE_SECTION_VM, ret);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
}

void
avicemu_mock_device_init(struct avicemu_mock_device_config *ret,
                         const char *name)
{
    memset(ret, 0, sizeof(*ret));
    section_defaults(AE_SECTION_DEVICE, ret);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
}

/* ---- what must fit together --------------------------------------------- */

static bool
refuse(struct am_fault *fault, const char *key, const char *why)
{
    fault->key = key;
    (void)snprintf(fault->why, sizeof(fault->why), "%s", why);
    return false;
}

static bool
ranges_fit(const void *fields, struct am_fault *fault)
{
    for (unsigned i = 0; i < am_nr_keys; i++) {
        const struct am_key *key = &am_keys[i];
        const struct avicemu_mock_vm_config *vm = fields;
        uint64_t value;

        if (key->section != fault->section ||
            (key->type == AE_KEY_PROGRAM && vm->program != NULL)) {
            continue;
        }
        value = am_key_get(key, fields);
        if (value < key->min || value > key->max) {
            am_key_allowed(key, fault->why, sizeof(fault->why));
            fault->key = key->name;
            return false;
        }
    }
    return true;
}

static bool
program_is(const struct avicemu_mock_vm_config *vm, const char *name)
{
    return vm->program == NULL && strcmp(vm->program_name, name) == 0;
}

static bool
vm_has_device(const struct avicemu_mock_scenario *s, uint32_t vm)
{
    for (uint32_t d = 0; d < s->nr_devices; d++) {
        if (s->devices[d].vm == vm) {
            return true;
        }
    }
    return false;
}

/* Ids of 8 bits in the xAPIC; queues of a device have 32 KiB of registers, and
 * MSI addresses 8 bits of destination. */
static bool
vm_size_fits(const struct avicemu_mock_vm_config *vm, struct am_fault *fault)
{
    if (vm->mode == AVICEMU_APIC_XAPIC && vm->nr_vcpus > 255) {
        return refuse(fault, "vcpus", "xapic has 1..255; more need x2apic");
    }
    if (program_is(vm, "nvme") && vm->nr_vcpus > 64) {
        return refuse(fault, "vcpus", "program nvme has 1..64");
    }
    return true;
}

static bool
avic_fits(const struct avicemu_mock_scenario *s,
          const struct avicemu_mock_vm_config *vm, struct am_fault *fault)
{
    if (vm->avic != 0 && s->avic == AVICEMU_MOCK_AVIC_OFF) {
        return refuse(fault, "avic",
                      "needs avic = avic, x2avic or x2avic-ext in [host]");
    }
    if (vm->ipiv == 0 && vm->avic == 0) {
        return refuse(fault, "ipiv", "needs avic = on");
    }
    if (vm->toggle != 0 && vm->avic == 0) {
        return refuse(fault, "toggle", "needs avic = on");
    }
    return true;
}

static bool
vm_fits(const struct avicemu_mock_scenario *s, uint32_t index,
        struct am_fault *fault)
{
    const struct avicemu_mock_vm_config *vm = &s->vms[index];

    if (!vm_size_fits(vm, fault) || !avic_fits(s, vm, fault)) {
        return false;
    }
    if (vm->nr_vcpus < 2 && (program_is(vm, "ipi") || program_is(vm, "boot"))) {
        return refuse(fault, "program", "needs vcpus of 2 or more");
    }
    if (program_is(vm, "ticks") && vm->timer == AVICEMU_MOCK_TIMER_OFF) {
        return refuse(fault, "program", "needs a timer that is not off");
    }
    if (program_is(vm, "nvme") && !vm_has_device(s, index)) {
        return refuse(fault, "program", "needs a [device NAME] of this VM");
    }
    if (program_is(vm, "ipi") && vm->mode == AVICEMU_APIC_XAPIC &&
        vm->nr_vcpus > 60 &&
        vm->destination != AVICEMU_MOCK_DESTINATION_PHYSICAL &&
        vm->destination != AVICEMU_MOCK_DESTINATION_BROADCAST) {
        return refuse(fault, "destination",
                      "xapic has logical ids for vcpus of 60 or less; must "
                      "be physical or broadcast");
    }
    return true;
}

static bool
device_fits(const struct avicemu_mock_scenario *s, uint32_t index,
            struct am_fault *fault)
{
    uint32_t vm = s->devices[index].vm;

    if (vm >= s->nr_vms) {
        return refuse(fault, "vm", "must be the name of a [vm NAME]");
    }
    if (s->vms[vm].program == NULL && !program_is(&s->vms[vm], "nvme")) {
        return refuse(fault, "vm", "must be a VM with program = nvme");
    }
    return true;
}

bool
am_scenario_fits(const struct avicemu_mock_scenario *s, struct am_fault *ret)
{
    *ret = (struct am_fault){ .section = AE_SECTION_HOST };
    if (s->nr_vms == 0 || s->nr_vms > AVICEMU_MOCK_MAX_VMS) {
        return refuse(ret, NULL, "there must be 1..32 sections [vm NAME]");
    }
    if (s->nr_devices > AVICEMU_MOCK_MAX_DEVICES) {
        return refuse(ret, NULL, "there must be 0..64 sections [device NAME]");
    }
    if (!ranges_fit(s, ret)) {
        return false;
    }
    if (s->nr_iommus != 0 && s->avic == AVICEMU_MOCK_AVIC_OFF) {
        return refuse(ret, "iommus", "they post to VMs with AVIC: set avic");
    }
    ret->section = AE_SECTION_VM;
    for (ret->index = 0; ret->index < s->nr_vms; ret->index++) {
        if (!ranges_fit(&s->vms[ret->index], ret) ||
            !vm_fits(s, ret->index, ret)) {
            return false;
        }
    }
    ret->section = AE_SECTION_DEVICE;
    for (ret->index = 0; ret->index < s->nr_devices; ret->index++) {
        if (!ranges_fit(&s->devices[ret->index], ret) ||
            !device_fits(s, ret->index, ret)) {
            return false;
        }
    }
    return true;
}

int
avicemu_mock_scenario_check(const struct avicemu_mock_scenario *scenario,
                            char *error, size_t len)
{
    static const char *const kinds[] = { "host", "vm", "device" };
    struct am_fault fault = { .section = AE_SECTION_HOST };

    if (scenario == NULL || scenario->size != sizeof(*scenario)) {
        if (error != NULL) {
            (void)snprintf(error, len, "scenario: size is wrong");
        }
        return -EINVAL;
    }
    if (am_scenario_fits(scenario, &fault)) {
        return 0;
    }
    if (error != NULL) {
        (void)snprintf(error, len, "[%s] number %u, %s: %s",
                       kinds[fault.section], fault.index,
                       fault.key != NULL ? fault.key : "as a whole", fault.why);
    }
    return -EINVAL;
}
