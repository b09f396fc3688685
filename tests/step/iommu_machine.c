/* SPDX-License-Identifier: BSD-2-Clause */

#include "iommu_machine.h"

#include <string.h>

#define RAM    0x100000u
#define PAGE   4096u
#define LINES  4u
#define IRR    (0x200u + (MACHINE_VECTOR / 32) * 16)
#define POISON 0xa5u /* has not the vector's bit */

struct ae_iommu machine;

static struct {
    struct ae_mem map;
    struct ae_intcache_line lines[2][LINES];
    _Atomic uint32_t ga_marks[512], event_marks[256];
    AE_ALIGNED(4096) unsigned char ram[NR_MACHINE_PAGES][PAGE];
} m;

uint64_t
machine_address(enum machine_page page)
{
    return RAM + (uint64_t)page * PAGE;
}

_Atomic uint64_t *
machine_word(enum machine_page page, unsigned i)
{
    return (_Atomic uint64_t *)(void *)m.ram[page] + i;
}

static _Atomic uint32_t *
irr_word(enum machine_page page)
{
    return (_Atomic uint32_t *)(void *)&m.ram[page][IRR];
}

/* ---- accesses ----------------------------------------------------------- */

void
machine_count(struct edge *e, uint32_t signals)
{
    e->r[FOUND_EVENTS] += (signals & AE_IOMMU_SIGNAL_EVENT) != 0;
    e->r[FOUND_GAS] += (signals & AE_IOMMU_SIGNAL_GA) != 0;
}

uint64_t
machine_read(uint32_t offset)
{
    return ae_iommu_mmio_read(&machine, offset, 8);
}

void
machine_write(struct edge *e, uint32_t offset, uint64_t value)
{
    uint32_t signals = 0;

    ae_rcu_enter();
    ae_iommu_mmio_write(&machine, offset, 8, value, &signals);
    ae_rcu_leave();
    machine_count(e, signals);
}

void
machine_interrupt(struct edge *e, struct ae_msi *msi)
{
    memset(msi, 0, sizeof(*msi));
    ae_rcu_enter();
    ae_msi_begin(msi, &machine, 0, 0xfee00000u, 0);
    ae_msi_run(msi);
    ae_rcu_leave();
    machine_count(e, msi->signals);
}

struct ae_irte
machine_entry(enum machine_page page, bool run)
{
    return (struct ae_irte){
        .guest_mode = true,
        .vector = MACHINE_VECTOR,
        .ga_tag = MACHINE_TAG + page,
        .root = machine_address(page),
        .is_run = run,
        .ga_log_intr = !run,
    };
}

void
machine_retarget(enum machine_page page, bool run)
{
    struct ae_irte entry = machine_entry(page, run);

    (void)ae_irte_replace((struct ae_atomic16 *)(void *)m.ram[PAGE_TABLE],
                          ae_irte_encode(&entry));
}

int
machine_make(enum machine_caches caches, bool run, uint64_t enables)
{
    struct ae_iommu_silicon silicon = {
        .mem = &m.map,
        .maxphyaddr = 48,
        .ga_marks = m.ga_marks,
        .event_marks = m.event_marks,
        .dte_lines = caches == CACHE_BOTH ? m.lines[0] : NULL,
        .irte_lines = caches != CACHE_NONE ? m.lines[1] : NULL,
        .nr_lines = LINES,
    };
    struct edge nobody = { .nr_freed = 0 };

    memset(&m, 0, sizeof(m));
    ae_mem_init(&m.map, &ae_default_allocator);
    if (ae_mem_add(&m.map, RAM, sizeof(m.ram), m.ram) != 0) {
        return -1;
    }
    (void)ae_iommu_features(0, &silicon);
    ae_iommu_init(&machine, &silicon);
    *machine_word(PAGE_DTES, 0) = 1;
    *machine_word(PAGE_DTES, 2) =
        machine_address(PAGE_TABLE) | 3u << 1 | 2ull << 60 | 1;
    machine_retarget(PAGE_A, run);
    machine_write(&nobody, AVICEMU_IOMMU_DEVICE_TABLE,
                  machine_address(PAGE_DTES));
    machine_write(&nobody, AVICEMU_IOMMU_COMMAND_BASE,
                  machine_address(PAGE_COMMANDS) | 8ull << 56);
    machine_write(&nobody, AVICEMU_IOMMU_GA_BASE,
                  machine_address(PAGE_GA_LOG) | 8ull << 56);
    machine_write(&nobody, AVICEMU_IOMMU_CONTROL,
                  enables | AVICEMU_CONTROL_IOMMU_EN |
                      AVICEMU_CONTROL_CMD_BUF_EN |
                      AVICEMU_CONTROL_COM_WAIT_INT_EN | AVICEMU_CONTROL_GA_EN |
                      AVICEMU_CONTROL_GAM_EN | AVICEMU_CONTROL_GA_LOG_EN);
    return 0;
}

/* ---- commands ----------------------------------------------------------- */

unsigned
machine_command(enum machine_page ring, unsigned n, uint64_t low, uint64_t high)
{
    ae_store_relaxed_u64(machine_word(ring, 2 * n), low);
    ae_store_relaxed_u64(machine_word(ring, 2 * n + 1), high);
    return n + 1;
}

void
machine_tail(struct edge *e, unsigned n)
{
    machine_write(e, AVICEMU_IOMMU_COMMAND_TAIL, n * 16);
}

uint64_t
machine_wait_command(unsigned word)
{
    return 1ull << 60 | (machine_address(PAGE_WORDS) + word * 8) | 3;
}

void
machine_wait_for(unsigned word)
{
    while (ae_load_seqcst_u64(machine_word(PAGE_WORDS, word)) == 0) {
        ae_step_relax("completion");
    }
    ae_store_seqcst_u64(machine_word(PAGE_WORDS, word), 0);
}

/* ---- pages -------------------------------------------------------------- */

uint32_t
machine_irr(enum machine_page page)
{
    return ae_load_seqcst_u32(irr_word(page));
}

void
machine_poison(enum machine_page page)
{
    memset(m.ram[page], POISON, IRR);
    memset(&m.ram[page][IRR + 4], POISON, PAGE - IRR - 4);
    /* The explorer must see who else touches this one. */
    ae_store_seqcst_u32(irr_word(page), POISON * 0x01010101u);
}

bool
machine_is_poison(enum machine_page page)
{
    for (unsigned i = 0; i < PAGE; i++) {
        if (m.ram[page][i] != POISON) {
            return false;
        }
    }
    return true;
}

bool
machine_is_idle(const struct edge *e)
{
    bool is_idle = machine_read(AVICEMU_IOMMU_COMMAND_HEAD) ==
                       machine_read(AVICEMU_IOMMU_COMMAND_TAIL) &&
                   ae_load_seqcst_u32(&machine.under_way[0]) == 0 &&
                   ae_load_seqcst_u32(&machine.under_way[1]) == 0 &&
                   ae_load_seqcst_u32(&machine.engine) == 0 &&
                   ae_load_seqcst_u32(&machine.waiting) == 0 &&
                   ae_load_seqcst_u64(machine_word(PAGE_WORDS, 0)) == 0 &&
                   ae_load_seqcst_u64(machine_word(PAGE_WORDS, 1)) == 0;

    ae_mem_fini(&m.map);
    return is_idle && e->r[FOUND_WRONG] == 0;
}
