/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenario files: what a good one means, and for each bad one the exact line:
 * file, line, field, value, what is allowed.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <avicemu/mock/scenario.h>

#define VM "[vm a]\n"
#define HOST_KEYS                                           \
    "pcpus, clock, seed, slice, duration, watchdog, avic, " \
    "erratum, iommus"
#define AVIC_HOST   "[host]\navic = x2avic\n"
#define DEVICE_KEYS "vm, depth, service, jitter"

struct bad {
    const char *text;
    const char *message;
};

/* clang-format off */
static const struct bad bads[] = {
    { "", "f:0: there must be 1..32 sections [vm NAME]" },
    { "[host]\n", "f:1: there must be 1..32 sections [vm NAME]" },
    { "pcpus = 2\n" VM, "f:1: pcpus = 2: stands before the first section" },
    { "[hots]\n" VM, "f:1: [hots]: no such section; allowed are [host], [vm NAME] and [device NAME]" },
    { "[vm]\n", "f:1: [vm]: no such section; allowed are [host], [vm NAME] and [device NAME]" },
    { "[host x]\n", "f:1: [host x]: no such section; allowed are [host], [vm NAME] and [device NAME]" },
    { VM "\n[vm a]\n", "f:3: [vm a]: is in line 1 already" },
    { "[vm 0123456789012345678901234567890]\n[vm 01234567890123456789012345678901]\n",
      "f:2: [vm 01234567890123456789012345678901]: a name must have 1..31 bytes" },
    { "[host]\npcpus = 0\n" VM, "f:2: [host] pcpus = 0: must be 1..512" },
    { "[host]\npcpus = 513\n" VM, "f:2: [host] pcpus = 513: must be 1..512" },
    { "[host]\npcpus = -1\n" VM, "f:2: [host] pcpus = -1: must be 1..512" },
    { "[host]\npcpus = 2x\n" VM, "f:2: [host] pcpus = 2x: must be 1..512" },
    { "[host]\npcpus =\n" VM, "f:2: [host] pcpus = : must be 1..512" },
    { "[host]\npcpus = 99999999999999999999\n" VM, "f:2: [host] pcpus = 99999999999999999999: must be 1..512" },
    { "[host]\npcpus = 4294967297\n" VM, "f:2: [host] pcpus = 4294967297: must be 1..512" },
    { "[host]\niommus = 17\n" VM, "f:2: [host] iommus = 17: must be 0..16" },
    { "[host]\niommus = 1\n" VM, "f:2: [host] iommus = 1: they post to VMs with AVIC: set avic" },
    { "[host]\n# why\n\npcpus = 2\npcpus = 3\n" VM, "f:5: [host] pcpus = 3: is set in line 4 already" },
    { "[host]\ncpus = 2\n" VM, "f:2: [host] cpus = 2: no such key; allowed are " HOST_KEYS },
    { "[host]\nclock = sundial\n" VM, "f:2: [host] clock = sundial: must be one of wall, virtual" },
    { "[host]\nslice = 9us\n" VM, "f:2: [host] slice = 9us: must be 10us..1s" },
    { "[host]\nslice = 5\n" VM, "f:2: [host] slice = 5: must be 10us..1s" },
    { "[host]\nslice = 1 ms\n" VM, "f:2: [host] slice = 1 ms: must be 10us..1s" },
    { "[host]\nduration = 2h\n" VM, "f:2: [host] duration = 2h: must be 1ms..1h" },
    { "[host]\nduration = 18446744073709551615h\n" VM, "f:2: [host] duration = 18446744073709551615h: must be 1ms..1h" },
    { "[host]\nwatchdog = 10ms\n" VM, "f:2: [host] watchdog = 10ms: must be 1s..10m" },
    { "[host]\navic = on\n" VM, "f:2: [host] avic = on: must be one of off, avic, x2avic, x2avic-ext" },
    { "[host]\nerratum = 1234\n" VM, "f:2: [host] erratum = 1234: must be one of off, 1235" },
    { VM "vcpus = 4097\n", "f:2: [vm a] vcpus = 4097: must be 1..4096" },
    { VM "vcpus = 256\nmode = xapic\n", "f:2: [vm a] vcpus = 256: xapic has 1..255; more need x2apic" },
    { VM "vcpus = 65\nprogram = nvme\n", "f:2: [vm a] vcpus = 65: program nvme has 1..64" },
    { VM "avic = on\n", "f:2: [vm a] avic = on: needs avic = avic, x2avic or x2avic-ext in [host]" },
    { AVIC_HOST VM "avic = x2avic\n", "f:4: [vm a] avic = x2avic: must be one of off, on" },
    { AVIC_HOST VM "ipiv = off\n", "f:4: [vm a] ipiv = off: needs avic = on" },
    { AVIC_HOST VM "ipiv = maybe\n", "f:4: [vm a] ipiv = maybe: must be one of off, on" },
    { AVIC_HOST VM "toggle = 5\n", "f:4: [vm a] toggle = 5: needs avic = on" },
    { AVIC_HOST VM "toggle = 1000001\n", "f:4: [vm a] toggle = 1000001: must be 0..1000000" },
    { VM "mode = x3apic\n", "f:2: [vm a] mode = x3apic: must be one of xapic, x2apic" },
    { VM "personality = via\n", "f:2: [vm a] personality = via: must be one of amd, intel, kvm" },
    { VM "program = doom\n", "f:2: [vm a] program = doom: must be one of boot, ticks, ipi, nvme" },
    { VM "timer = hourglass\n", "f:2: [vm a] timer = hourglass: must be one of off, oneshot, periodic, deadline" },
    { VM "tick = 1us\n", "f:2: [vm a] tick = 1us: must be 20us..1s" },
    { VM "ipi = loud\n", "f:2: [vm a] ipi = loud: must be one of strict, flood" },
    { VM "destination = nowhere\n", "f:2: [vm a] destination = nowhere: must be one of physical, logical, broadcast, mixed" },
    { VM "timer = off\n", "f:1: [vm a] program = (default): needs a timer that is not off" },
    { VM "program = ipi\n", "f:2: [vm a] program = ipi: needs vcpus of 2 or more" },
    { VM "program = nvme\n", "f:2: [vm a] program = nvme: needs a [device NAME] of this VM" },
    { VM "vcpus = 64\nprogram = ipi\nmode = xapic\ndestination = logical\n",
      "f:5: [vm a] destination = logical: xapic has logical ids for vcpus of 60 or less; must be physical or broadcast" },
    { VM "[device d]\n", "f:2: [device d]: needs vm = NAME" },
    { VM "[device d]\nvm = b\n", "f:3: [device d] vm = b: must be the name of a [vm NAME]" },
    { VM "[device d]\nvm = a\n", "f:3: [device d] vm = a: must be a VM with program = nvme" },
    { VM "[device d]\nvm = a\ndepth = 0\n", "f:4: [device d] depth = 0: must be 1..1024" },
    { VM "[device d]\nvm = a\nservice = 2s\n", "f:4: [device d] service = 2s: must be 0ns..1s" },
    { VM "[device d]\nwidth = 1\n", "f:3: [device d] width = 1: no such key; allowed are " DEVICE_KEYS },
    { VM "vcpus\n", "f:2: neither KEY = VALUE nor [SECTION] nor a comment" },
    { VM "[vm b\n", "f:2: neither KEY = VALUE nor [SECTION] nor a comment" },
};
/* clang-format on */

#define NR_BADS (sizeof(bads) / sizeof(bads[0]))

static void
bad_file_is_named_exactly(void **state)
{
    const struct bad *bad = *state;
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    char error[512] = "";

    assert_non_null(s);
    memset(s, 0x5a, sizeof(*s));
    assert_int_equal(
        avicemu_mock_scenario_parse("f", bad->text, s, error, sizeof(error)),
        -EINVAL);
    assert_string_equal(error, bad->message);
    assert_int_equal(s->nr_pcpus, 0x5a5a5a5a); /* untouched */
    free(s);
}

static void
long_line_is_named(void **state)
{
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    char text[400], error[512] = "";

    (void)state;
    assert_non_null(s);
    memset(text, '#', sizeof(text));
    memcpy(text, VM, strlen(VM));
    text[sizeof(text) - 2] = '\n';
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(
        avicemu_mock_scenario_parse("f", text, s, error, sizeof(error)),
        -EINVAL);
    assert_non_null(strstr(error, "f:2: a line must have 0.."));
    free(s);
}

static void
missing_file_is_named(void **state)
{
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    char error[512] = "";

    (void)state;
    assert_non_null(s);
    assert_int_equal(
        avicemu_mock_scenario_load("no/such.ini", s, error, sizeof(error)),
        -ENOENT);
    assert_string_equal(
        error, "no/such.ini: cannot be read: No such file or directory");
    free(s);
}

static void
good_file_means_what_it_says(void **state)
{
    static const char text[] = "; a comment\r\n"
                               "[host]\n"
                               "  pcpus = 3   ; indented\n"
                               "clock=virtual\n"
                               "avic = x2avic-ext\n"
                               "erratum = 1235\n"
                               "seed = 18446744073709551615\n"
                               "[device d]\n"
                               "vm = b\n"
                               "service = 0s\n"
                               "[vm a]\n"
                               "[vm b]\n"
                               "vcpus = 2\n"
                               "program = nvme\n"
                               "mode = xapic\n"
                               "avic = on\n"
                               "ipiv = off\n"
                               "toggle = 1000\n"
                               "tick = 3ms";
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    char error[512] = "";

    (void)state;
    assert_non_null(s);
    assert_int_equal(
        avicemu_mock_scenario_parse("f", text, s, error, sizeof(error)), 0);
    assert_int_equal(s->nr_pcpus, 3);
    assert_int_equal(s->clock, AVICEMU_MOCK_CLOCK_VIRTUAL);
    assert_true(s->seed == UINT64_MAX);
    assert_int_equal(s->duration_ns, 8000000000);
    assert_int_equal(s->nr_vms, 2);
    assert_int_equal(s->vms[0].nr_vcpus, 1);
    assert_string_equal(s->vms[0].program_name, "ticks");
    assert_string_equal(s->vms[1].name, "b");
    assert_int_equal(s->vms[1].mode, AVICEMU_APIC_XAPIC);
    assert_int_equal(s->vms[1].tick_ns, 3000000);
    assert_int_equal(s->avic, AVICEMU_MOCK_X2AVIC_EXT);
    assert_int_equal(s->erratum_1235, 1);
    assert_int_equal(s->vms[0].avic, 0);
    assert_int_equal(s->vms[0].ipiv, 1);
    assert_int_equal(s->vms[1].avic, 1);
    assert_int_equal(s->vms[1].ipiv, 0);
    assert_int_equal(s->vms[1].toggle, 1000);
    assert_int_equal(s->nr_devices, 1);
    assert_int_equal(s->devices[0].vm, 1);
    assert_int_equal(s->devices[0].service_ns, 0);
    assert_int_equal(s->devices[0].depth, 16);
    free(s);
}

static void
filled_by_hand_is_checked_too(void **state)
{
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    char error[512] = "";

    (void)state;
    assert_non_null(s);
    avicemu_mock_scenario_init(s);
    s->nr_vms = 1;
    avicemu_mock_vm_init(&s->vms[0], "a");
    assert_int_equal(avicemu_mock_scenario_check(s, error, sizeof(error)), 0);
    s->vms[0].nr_vcpus = 0;
    assert_int_equal(avicemu_mock_scenario_check(s, error, sizeof(error)),
                     -EINVAL);
    assert_string_equal(error, "[vm] number 0, vcpus: must be 1..4096");
    s->size = 1;
    assert_int_equal(avicemu_mock_scenario_check(s, NULL, 0), -EINVAL);
    free(s);
}

/* Any bytes: a scenario or an error, never more. */
static void
noise_is_refused_or_read(void **state)
{
    static const char alphabet[] = "[]=;# \n\r\tavmhost123cpuse";
    struct avicemu_mock_scenario *s = malloc(sizeof(*s));
    uint64_t seed = 1;

    (void)state;
    assert_non_null(s);
    for (unsigned round = 0; round < 3000; round++) {
        char text[160], error[512];

        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
        }
        text[sizeof(text) - 1] = '\0';
        error[0] = '\0';
        if (avicemu_mock_scenario_parse("f", text, s, error, sizeof(error)) !=
            0) {
            assert_true(strncmp(error, "f:", 2) == 0);
        }
    }
    free(s);
}

int
main(void)
{
    struct CMUnitTest tests[NR_BADS + 5] = {
        { "a good file means what it says", good_file_means_what_it_says, NULL,
          NULL, NULL },
        { "a scenario filled by hand is checked, too",
          filled_by_hand_is_checked_too, NULL, NULL, NULL },
        { "a line that is too long is named", long_line_is_named, NULL, NULL,
          NULL },
        { "a file that is missing is named", missing_file_is_named, NULL, NULL,
          NULL },
        { "noise is refused or read", noise_is_refused_or_read, NULL, NULL,
          NULL },
    };

    for (size_t i = 0; i < NR_BADS; i++) {
        tests[5 + i] =
            (struct CMUnitTest){ bads[i].message, bad_file_is_named_exactly,
                                 NULL, NULL, (void *)(uintptr_t)&bads[i] };
    }
    return cmocka_run_group_tests_name("mock scenario", tests, NULL, NULL);
}
