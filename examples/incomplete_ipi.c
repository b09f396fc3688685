/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A unit test of a hypervisor's own code: the handler of AVIC_INCOMPLETE_IPI
 * and how a vCPU blocks. Structs, tables and functions are the hypervisor's;
 * the library is the hardware around them. The IPI is made in steps; its
 * target clears IsRunning before one of them and looks at its IRR two later.
 * Whichever they are, it must not stay asleep with the vector pending.
 *
 * Run: build/examples/incomplete_ipi
 * Prints: sleeps, exit; awake, exit; awake, exit; awake, exit; awake, none
 *         401h AVIC_INCOMPLETE_IPI: a target is not running, index 1h;
 *         fixed vector 41h to physical 1h
 */
#include <stdio.h>
#include <stdlib.h>

#include <avicemu/hw/core.h>
#include <avicemu/hw/memory.h>

#define ENTRY_VALID   (1ull << 63)
#define ENTRY_RUNNING (1ull << 62)
#define RAM_BASE      0x100000ull
#define VECTOR        0x41u

/* As the hypervisor under test has it: the fields that it uses. */
struct vmcb {
    uint8_t intercepts[0x60];
    uint64_t int_ctl, int_state;
    uint64_t exit_code, exit_info_1, exit_info_2, exit_int_info;
    uint64_t nested_ctl, avic_bar, unused[8];
    uint64_t avic_page, reserved, avic_logical_table, avic_physical_table;
    uint8_t rest[4096 - 0x100];
};

/* System physical memory, at RAM_BASE; a page each. */
struct ram {
    uint32_t vapic[2][1024];
    uint64_t physical_table[512], logical_table[512];
    struct vmcb vmcb;
    struct avicemu_doorbell doorbells[64];
};

static int
vcpu_pending(const struct ram *ram, unsigned id)
{
    return ram->vapic[id][0x200 / 4 + VECTOR / 32 * 4] >> VECTOR % 32 & 1;
}

/* To block: this, then sleep unless pending. Not the other way round. */
static void
vcpu_not_running(struct ram *ram, unsigned id)
{
    ram->physical_table[id] &= ~ENTRY_RUNNING;
}

/* The vCPUs to wake, a bit each; the other failures are sent in software. */
static unsigned
handle_incomplete_ipi(const struct ram *ram)
{
    unsigned wake = 0;

    for (unsigned id = 0; id < 2 && ram->vmcb.exit_info_2 >> 32 == 1; id++) {
        wake |= vcpu_pending(ram, id) ? 1u << id : 0;
    }
    return wake;
}

/* Two running vCPUs; the core enters the first, which has set its ICR high. */
static int
start(struct ram *ram, struct avicemu_core *core)
{
    *ram = (struct ram){
        .vapic[0][0x310 / 4] = 1u << 24,
        .physical_table = { ENTRY_VALID | ENTRY_RUNNING | RAM_BASE,
                            ENTRY_VALID | ENTRY_RUNNING | RAM_BASE | 4096 | 1 },
        .vmcb = { .int_ctl = 1ull << 31,
                  .nested_ctl = 1,
                  .avic_bar = 0xfee00000,
                  .avic_page = RAM_BASE,
                  .avic_physical_table = (RAM_BASE + 2 * 4096) | 1,
                  .avic_logical_table = RAM_BASE + 3 * 4096 },
    };
    return avicemu_core_vmrun(core, &ram->vmcb, NULL) != AVICEMU_CORE_DONE;
}

/* vCPU 0 sends to 1, which blocks before that step. line: what the exit is. */
static int
run(struct ram *ram, struct avicemu_core *core, unsigned when, char line[160])
{
    struct avicemu_core_access a = {
        .size = sizeof(a), .write = 1, .at = 0xfee00300, .value = VECTOR
    };
    struct avicemu_core_op op = { .size = sizeof(op) };
    const struct vmcb *vmcb = &ram->vmcb;
    int asleep = 0, exited;

    if (avicemu_core_begin(core, &a, &op) != AVICEMU_CORE_STEPS) {
        return -1;
    }
    for (unsigned n = 0; n < 8; n++) { /* the steps are six */
        if (n == when) {
            vcpu_not_running(ram, 1);
        } else if (n == when + 2) {
            asleep = !vcpu_pending(ram, 1);
        }
        if (op.event != AVICEMU_CORE_FINISHED) {
            (void)avicemu_core_step(core, &op);
        }
    }
    exited = avicemu_core_finish(core, &a, &op) == AVICEMU_CORE_EXIT;
    printf("%s, %s", asleep ? "sleeps" : "awake", exited ? "exit; " : "none\n");
    if (!exited) {
        return asleep ||
               avicemu_core_exit(core, AVICEMU_EXIT_INTR) != AVICEMU_CORE_EXIT;
    }
    (void)avicemu_describe_exit(vmcb->exit_code, vmcb->exit_info_1,
                                vmcb->exit_info_2, line, 160);
    return asleep && !(handle_incomplete_ipi(ram) & 1u << 1);
}

int
main(void)
{
    struct ram *ram = aligned_alloc(4096, sizeof(*ram));
    size_t bytes = (avicemu_core_bytes() + 63) / 64 * 64;
    void *core_memory = aligned_alloc(AVICEMU_CORE_ALIGN, bytes);
    struct avicemu_core_config config = { .size = sizeof(config),
                                          .nr_doorbells = 2 };
    struct avicemu_hw_memory *memory = NULL;
    struct avicemu_core *core;
    char line[160] = "";
    int failed = !ram || !core_memory || avicemu_hw_memory_create(&memory);

    if (!failed) {
        config.memory = memory;
        config.doorbells = ram->doorbells;
        failed =
            avicemu_hw_memory_add(memory, RAM_BASE, sizeof(*ram), ram) != 0 ||
            avicemu_core_init(core_memory, &config, &core) != 0;
    }
    for (unsigned when = 0; !failed && when < 5; when++) {
        failed = start(ram, core) || run(ram, core, when, line);
    }
    printf("%s\n", line);
    avicemu_hw_memory_destroy(memory);
    free(core_memory);
    free(ram);
    return failed;
}
