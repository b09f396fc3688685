/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hypervisors that are not the library's, on the hardware face alone: their
 * own tables, their own block, their own handler of exit 401h. The core's IPI
 * engine sends, store buffers included.
 *
 *   fenced   IsRunning := 0, full barrier, IRR read, sleep        right
 *   plain    without the barrier                                  loses
 *   late     IRR read, then IsRunning := 0                        loses
 *   erratum  fenced, on silicon with erratum 1235, which reads
 *            IsRunning before the IRR bit is visible              loses
 *   off      the same, its table never says IsRunning             right
 *
 * Without arguments the right ones are explored; "mutant" and a name explore
 * that one, which must lose: its sleeper waits for ever.
 */

#include <stdlib.h>
#include <string.h>

#include <avicemu/hw/core.h>

#include "edge.h"

#define VECTOR  0x41u
#define PAGE    4096u
#define BASE    0x40000000ull
#define NR      2u /* vCPUs; the core with the number runs it */
#define SLEEPER 0u
#define SENDER  1u

enum page {
    PHYSICAL,
    LOGICAL,
    BACKING, /* of vCPU 0; that of vCPU 1 follows */
    NR_PAGES = BACKING + NR,
};

static struct {
    _Alignas(PAGE) unsigned char ram[NR_PAGES][PAGE];
    _Alignas(PAGE) unsigned char vmcb[PAGE];
    _Alignas(64) struct avicemu_doorbell bells[NR];
    struct avicemu_hw_memory *memory;
    void *core_memory;
    struct avicemu_core *core; /* the sender's */
} rival;

/* ---- the hypervisor ----------------------------------------------------- */

static void
field(uint32_t offset, uint64_t value)
{
    memcpy(rival.vmcb + offset, &value, sizeof(value));
}

static uint64_t
entry_of(unsigned vcpu, uint64_t running)
{
    return AVICEMU_PHYSICAL_VALID | running |
           (BASE + (BACKING + (uint64_t)vcpu) * PAGE) | vcpu;
}

static uint64_t *
entry_at(unsigned vcpu)
{
    return (uint64_t *)(void *)rival.ram[PHYSICAL] + vcpu;
}

static int
core_start(uint32_t features)
{
    struct avicemu_core_config config = {
        .size = sizeof(config),
        .memory = rival.memory,
        .features = features,
        .host_apic_id = SENDER,
        .nr_doorbells = NR,
        .doorbells = rival.bells,
    };
    int r = avicemu_core_init(rival.core_memory, &config, &rival.core);

    field(AVICEMU_VMCB_INT_CTL, AVICEMU_INT_AVIC);
    field(AVICEMU_VMCB_NESTED_CTL, 1);
    field(AVICEMU_VMCB_APIC_BAR, 0xfee00000u);
    field(AVICEMU_VMCB_BACKING_PAGE, BASE + (BACKING + SENDER) * PAGE);
    field(AVICEMU_VMCB_LOGICAL_TABLE, BASE + LOGICAL * PAGE);
    field(AVICEMU_VMCB_PHYSICAL_TABLE, (BASE + PHYSICAL * PAGE) | (NR - 1));
    return r != 0 || avicemu_core_vmrun(rival.core, rival.vmcb, NULL) ==
                         AVICEMU_CORE_DONE
               ? r
               : -1;
}

static int
open_with(uint32_t features, uint64_t running)
{
    if (rival.memory == NULL) {
        size_t bytes = (avicemu_core_bytes() + 63) & ~(size_t)63;

        rival.core_memory = aligned_alloc(AVICEMU_CORE_ALIGN, bytes);
        if (rival.core_memory == NULL ||
            avicemu_hw_memory_create(&rival.memory) != 0 ||
            avicemu_hw_memory_add(rival.memory, BASE, sizeof(rival.ram),
                                  rival.ram) != 0) {
            return -1;
        }
    }
    memset(rival.ram, 0, sizeof(rival.ram));
    memset(rival.vmcb, 0, sizeof(rival.vmcb));
    memset(rival.bells, 0, sizeof(rival.bells));
    for (unsigned i = 0; i < NR; i++) {
        *entry_at(i) = entry_of(i, running);
    }
    return core_start(features);
}

static int
open_plain(struct edge *e)
{
    (void)e;
    return open_with(0, AVICEMU_PHYSICAL_RUNNING);
}

static int
open_erratum(struct edge *e)
{
    (void)e;
    return open_with(AVICEMU_CORE_ERRATUM_1235, AVICEMU_PHYSICAL_RUNNING);
}

static int
open_off(struct edge *e)
{
    (void)e;
    return open_with(AVICEMU_CORE_ERRATUM_1235, 0);
}

/* ---- the sender --------------------------------------------------------- */

static enum avicemu_core_result
guest_store(uint32_t offset, uint32_t value)
{
    struct avicemu_core_access a = {
        .size = sizeof(a),
        .kind = AVICEMU_CORE_MMIO,
        .write = 1,
        .at = 0xfee00000u + offset,
        .value = value,
    };

    return avicemu_core_access(rival.core, &a);
}

/* The engine; its exit 401h id 1 wakes. */
static void
send(void *opaque)
{
    struct edge *e = opaque;
    uint64_t info2;

    (void)guest_store(0x310, SLEEPER << 24);
    if (guest_store(0x300, VECTOR) != AVICEMU_CORE_EXIT) {
        return;
    }
    memcpy(&info2, rival.vmcb + AVICEMU_VMCB_EXITINFO2, sizeof(info2));
    if (info2 >> 32 == AVICEMU_IPI_NOT_RUNNING) {
        avicemu_step_store(&e->v[SLEEPER].woken, 4, 1);
    }
}

/* ---- the sleeper -------------------------------------------------------- */

static int
pending(void)
{
    uint32_t offset = 0x200u + (VECTOR >> 5) * 16u;
    uint64_t word = avicemu_step_load(&rival.ram[BACKING][offset], 4);

    return (word >> (VECTOR & 31u) & 1u) != 0;
}

static void
stop_running(void)
{
    avicemu_step_store(entry_at(SLEEPER), 8, entry_of(SLEEPER, 0));
}

static void
asleep(struct edge *e)
{
    while (avicemu_step_load(&e->v[SLEEPER].woken, 4) == 0) {
        avicemu_step_relax("asleep");
    }
}

static void
block_fenced(void *opaque)
{
    stop_running();
    avicemu_step_fence();
    if (!pending()) {
        asleep(opaque);
    }
}

static void
block_plain(void *opaque)
{
    stop_running();
    if (!pending()) {
        asleep(opaque);
    }
}

static void
block_late(void *opaque)
{
    int was = pending();

    stop_running();
    avicemu_step_fence();
    if (!was) {
        asleep(opaque);
    }
}

/* ---- tests -------------------------------------------------------------- */

static int
is_pending(struct edge *e)
{
    (void)e;
    return !pending();
}

static const struct edge_row right[] = {
    { "rival: fenced", 0, open_plain, is_pending, 2, { send, block_fenced } },
    { "rival: erratum 1235, IsRunning never told",
      0,
      open_off,
      is_pending,
      2,
      { send, block_fenced } },
};

static const struct edge_row wrong[] = {
    { "rival: plain store", 0, open_plain, NULL, 2, { send, block_plain } },
    { "rival: IRR read first", 0, open_plain, NULL, 2, { send, block_late } },
    { "rival: erratum 1235, IsRunning told",
      0,
      open_erratum,
      NULL,
      2,
      { send, block_fenced } },
};

int
main(int argc, char **argv)
{
    int r =
        argc > 1
            ? edge_main(wrong, sizeof(wrong) / sizeof(wrong[0]), argc, argv)
            : edge_main(right, sizeof(right) / sizeof(right[0]), argc, argv);

    avicemu_hw_memory_destroy(rival.memory);
    free(rival.core_memory);
    return r;
}
