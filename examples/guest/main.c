/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry, command line, and the order of things.
 *
 * Command line, words "name=value" in any order:
 *   cpus=N              CPUs to boot, this one included; else those that come
 *   personality=amd|intel|kvm
 *                       whose rules the APIC follows where makers differ
 *   tsc_khz=N           rate of RDTSC
 *   bus_khz=N           rate of the APIC timer at divide-by-1, checked if set
 *   mode=xapic|x2apic   run the tests in this mode only
 *   only=TEXT           run tests whose name contains TEXT ('_' is a blank)
 *
 * Output: one line PASS, FAIL or SKIP for each test, and "guest: N passed,
 * N failed" at the end. The value written to port F4h is 0 if all passed.
 */
#include "apic.h"

#define MULTIBOOT_LOADED      0x2badb002u
#define MULTIBOOT_HAS_CMDLINE 0x4u

struct multiboot_info {
    uint32_t flags, mem_lower, mem_upper, boot_device;
    uint32_t cmdline;
};

static const struct test *const groups[] = {
    start_tests, register_tests, priority_tests, timer_tests, ipi_tests,
    nmi_tests,   error_tests,    disable_tests,  base_tests,
};

static uint32_t wanted_cpus;
static const char *only = "", *only_mode = "";

void
guest_main(uint32_t magic, const struct multiboot_info *info);

/* The text behind "name=" in the command line, or NULL. */
static const char *
option(const char *line, const char *name)
{
    for (const char *p = line; *p != '\0'; p++) {
        uint32_t i = 0;

        if (p != line && p[-1] != ' ') {
            continue;
        }
        while (name[i] != '\0' && p[i] == name[i]) {
            i++;
        }
        if (name[i] == '\0' && p[i] == '=') {
            return p + i + 1;
        }
    }
    return NULL;
}

static uint32_t
option_number(const char *line, const char *name, uint32_t otherwise)
{
    const char *p = option(line, name);
    uint32_t n = 0;

    if (p == NULL) {
        return otherwise;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (uint32_t)(*p - '0');
    }
    return n;
}

static bool
option_is(const char *text, const char *word)
{
    for (; *word != '\0'; text++, word++) {
        if (*text != *word) {
            return false;
        }
    }
    return *text == '\0' || *text == ' ';
}

static bool
contains(const char *name, const char *text)
{
    for (;; name++) {
        uint32_t i = 0;

        while (text[i] != '\0' && text[i] != ' ' &&
               name[i] == (text[i] == '_' ? ' ' : text[i])) {
            i++;
        }
        if (text[i] == '\0' || text[i] == ' ') {
            return true;
        }
        if (*name == '\0') {
            return false;
        }
    }
}

static void
options_read(const char *line)
{
    const char *who = option(line, "personality");

    wanted_cpus = option_number(line, "cpus", 0);
    tsc_khz = option_number(line, "tsc_khz", tsc_khz);
    bus_khz = option_number(line, "bus_khz", 0);
    only = option(line, "only");
    only = only ? only : "";
    only_mode = option(line, "mode");
    only_mode = only_mode ? only_mode : "";
    if (who != NULL && option_is(who, "kvm")) {
        personality = PERSONALITY_KVM;
    } else if (who != NULL && option_is(who, "intel")) {
        personality = PERSONALITY_INTEL;
    }
}

static const char *
reason_to_skip(const struct test *test)
{
    if (test->cpus > nr_cpus) {
        return "needs more CPUs";
    }
    if ((test->flags & NEEDS_DEADLINE) && !apic_has_deadline()) {
        return "no TSC-deadline mode in CPUID";
    }
    if ((test->flags & NEEDS_X2APIC) && !apic_has_x2apic()) {
        return "no x2APIC in CPUID";
    }
    return NULL;
}

static bool
applies(const struct test *test)
{
    static const uint32_t not_for[] = { NOT_AMD, NOT_INTEL, NOT_KVM };
    uint32_t wrong_mode = mode == MODE_XAPIC ? ONLY_X2APIC : ONLY_XAPIC;

    return (test->flags & (wrong_mode | not_for[personality])) == 0 &&
           contains(test->name, only);
}

static void
quiesce_here(void *arg)
{
    (void)arg;
    this_cpu()->hook = NULL;
    apic_quiesce();
}

static void
run_test(const char *mode_name, const struct test *test)
{
    const char *why = reason_to_skip(test);

    if (why != NULL) {
        verdict_skip(mode_name, test->name, why);
        return;
    }
    verdict_begin();
    records_clear();
    test->fn();
    irq_off();
    records_clear();
    if (verdict_end(mode_name, test->name)) {
        apic_quiesce();
        return;
    }
    /* What a failed test left behind must not fail the next one. */
    apic_enter_mode(mode);
    apic_quiesce();
    for (uint32_t i = 1; i < nr_cpus; i++) {
        if (!run_on(cpu_at(i), quiesce_here, NULL)) {
            (void)cpu_restart(cpu_at(i), 0);
        }
    }
}

static void
run_all(const char *mode_name)
{
    if (*only_mode != '\0' && !option_is(only_mode, mode_name)) {
        return;
    }
    for (uint32_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        for (const struct test *test = groups[g]; test->name != NULL; test++) {
            if (applies(test)) {
                run_test(mode_name, test);
            }
        }
    }
}

static void
to_x2apic(void *arg)
{
    (void)arg;
    apic_enter_mode(MODE_X2APIC);
}

/* Each CPU moves by itself; the last one is this, which told the others. */
static void
all_to_x2apic(void)
{
    for (uint32_t i = 1; i < nr_cpus; i++) {
        (void)run_on(cpu_at(i), to_x2apic, NULL);
    }
    to_x2apic(NULL);
    mode = MODE_X2APIC;
    for (uint32_t i = 0; i < nr_cpus; i++) {
        (void)run_on(cpu_at(i), quiesce_here, NULL);
    }
}

void
guest_main(uint32_t magic, const struct multiboot_info *info)
{
    if (magic == MULTIBOOT_LOADED && (info->flags & MULTIBOOT_HAS_CMDLINE)) {
        options_read((const char *)at(info->cmdline));
    }
    cpu_init_bsp();
    verdict_begin();
    cpu_boot_all(wanted_cpus);
    if (wanted_cpus != 0) {
        expect("CPUs that came", nr_cpus, wanted_cpus);
        (void)verdict_end("boot", "INIT and SIPI start every CPU");
    }
    print("guest: %u CPUs, %s rules\n", nr_cpus,
          personality == PERSONALITY_AMD     ? "AMD"
          : personality == PERSONALITY_INTEL ? "Intel"
                                             : "KVM");
    timer_calibrate();
    if (mode == MODE_XAPIC) {
        run_all("xapic");
    }
    if (apic_has_x2apic()) {
        if (mode == MODE_XAPIC) {
            all_to_x2apic();
        }
        run_all("x2apic");
    } else {
        print("SKIP x2apic: not in CPUID\n");
    }
    finish();
}
