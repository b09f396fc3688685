/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that a VM's AVIC works on, as a hypervisor keeps it: the physical
 * and logical APIC id tables, MSR permission maps, backing pages.
 *
 * All of it is in the host's memory map at its own address, so that "system
 * physical address" and host pointer are the same number. Backing pages come
 * in slabs, one region each, because the map is searched on every walk.
 *
 *   region   physical table (1 or 8 pages) | logical table (1 page)
 *            | MSR map: all intercepted (2) | MSR map: x2AVIC (2)
 *
 * Invariants, when quiet
 *   physical[id].V = 1   iff a vCPU has this initial id and its APIC is
 *                        enabled: else hardware would post to one that is off
 *   physical[id].IR = 1  iff it is loaded, AVIC is active on it, it is not
 *                        blocked, IPI virtualisation is on, and a doorbell
 *                        reaches it: a word of its core, or a kick
 *   logical[i].V = 1     iff all xAPIC vCPUs are in one model and exactly one
 *                        has bit i, alone in its LDR
 *
 * The logical table follows LDR and DFR at once ([KVM] waits with a new entry
 * until LDR is written after DFR; a sender in between exits and is emulated,
 * so nothing but time differs).
 *
 * Edge (a Dekker pair; seq_cst, but that the owner's scan of IRR is relaxed
 * behind his seq_cst read of the events)
 *   running A ae_ipi_step()       IRR bit -> IsRunning read
 *           B ae_tables_stopped() IsRunning := 0 -> IRR read (hv/halt.c)
 *
 * Physical entries are written by the vCPU's owner, logical ones under the
 * map's lock; hardware reads both at any time. Wait-free but for create,
 * destroy and pages.
 */

#include "hv/tables.h"

#include <errno.h>
#include <string.h>

#include "base/rcu.h"

/* ---- MSR permission maps ------------------------------------------------ */

/*
 * What passes under x2AVIC, as [KVM] has it since it stopped passing APR and
 * TMCCT, which fault anyway: reads of registers that are plain memory, and
 * the four writes that hardware completes. Everything else is intercepted,
 * and all of 800h-8FFh is while bit 30 is 0: else the guest reaches the
 * host's own x2APIC. [APM2 15.29.10], [APM2 15.11 MSR intercepts]
 */
/* clang-format off */
static const struct {
    uint32_t first, last;
    bool read, write;
} msr_passes[] = {
    { 0x802, 0x803, true,  false },
    { 0x808, 0x808, true,  true  },
    { 0x80a, 0x80a, true,  false },
    { 0x80b, 0x80b, false, true  },
    { 0x80d, 0x80d, true,  false },
    { 0x80f, 0x80f, true,  false },
    { 0x810, 0x828, true,  false },
    { 0x82f, 0x82f, true,  false }, /* where the model has CMCI */
    { 0x830, 0x830, true,  true  },
    { 0x832, 0x838, true,  false },
    { 0x83e, 0x83e, true,  false },
    { 0x83f, 0x83f, false, true  },
};
/* clang-format on */

static void
msrpm_set(unsigned char *map, uint32_t msr, bool write, bool passes)
{
    unsigned char bit = (unsigned char)(1u << (2 * (msr % 4) + write));

    if (passes) {
        map[msr / 4] &= (unsigned char)~bit;
    } else {
        map[msr / 4] |= bit;
    }
}

bool
ae_msrpm_passes(const unsigned char *map, uint32_t msr, bool write)
{
    /* MSRs below 2000h; the map's other ranges are not the APIC's. */
    return msr < 0x2000 && (map[msr / 4] & 1u << (2 * (msr % 4) + write)) == 0;
}

static void
msrpm_init(struct ae_tables *t)
{
    memset(t->msrpm_all, 0xff, AE_MSRPM_BYTES);
    memset(t->msrpm_x2, 0xff, AE_MSRPM_BYTES);
    for (unsigned i = 0; i < AE_ARRAY_SIZE(msr_passes); i++) {
        for (uint32_t msr = msr_passes[i].first; msr <= msr_passes[i].last;
             msr++) {
            if (msr == 0x82f &&
                !ae_lapic_has(t->hw.model, AVICEMU_LAPIC_CMCI)) {
                continue;
            }
            msrpm_set(t->msrpm_x2, msr, false, msr_passes[i].read);
            msrpm_set(t->msrpm_x2, msr, true, msr_passes[i].write);
        }
    }
}

/* ---- life --------------------------------------------------------------- */

static uint32_t
core_features(uint32_t host)
{
    uint32_t core = 0;

    core |= (host & AVICEMU_HOST_X2AVIC) != 0 ? AVICEMU_CORE_X2AVIC : 0;
    core |= (host & AVICEMU_HOST_X2AVIC_EXT) != 0 ? AVICEMU_CORE_X2AVIC_EXT : 0;
    core |= (host & AVICEMU_HOST_EXT_LVT) != 0 ? AVICEMU_CORE_EXT_LVT : 0;
    core |=
        (host & AVICEMU_HOST_ERRATUM_1235) != 0 ? AVICEMU_CORE_ERRATUM_1235 : 0;
    return core;
}

static uint32_t
physical_entries(uint32_t features)
{
    if ((features & AVICEMU_CORE_X2AVIC) == 0) {
        return AE_MAX_INDEX_XAVIC; /* FFh is the broadcast */
    }
    return 1 + ((features & AVICEMU_CORE_X2AVIC_EXT) != 0
                    ? AE_MAX_INDEX_X2AVIC_EXT
                    : AE_MAX_INDEX_X2AVIC);
}

/* Is all of it below the physical width? */
static bool
address_legal(const struct ae_tables *t, const void *memory, uint64_t bytes)
{
    return ((ae_hpa(memory) + bytes - 1) & t->hw.address_reserved) == 0;
}

static int
region_add(struct ae_tables *t, void *memory, uint64_t bytes)
{
    return address_legal(t, memory, bytes)
               ? ae_mem_add_own(&t->host->mem, ae_hpa(memory), bytes, memory)
               : -EINVAL;
}

static int
tables_memory(struct ae_tables *t)
{
    uint64_t physical =
        (t->nr_physical * sizeof(uint64_t) + AE_PAGE - 1) & ~(AE_PAGE - 1ull);

    t->bytes = physical + AE_PAGE + 2 * AE_MSRPM_BYTES;
    t->memory = ae_alloc(&t->host->allocator, AE_PAGE, t->bytes);
    if (t->memory == NULL) {
        return -ENOMEM;
    }
    t->physical = (void *)t->memory;
    t->logical = (void *)(t->memory + physical);
    t->msrpm_all = t->memory + physical + AE_PAGE;
    t->msrpm_x2 = t->msrpm_all + AE_MSRPM_BYTES;
    msrpm_init(t);
    int r = region_add(t, t->memory, t->bytes);

    if (r == -EINVAL) {
        AE_LOG(&t->host->log, AVICEMU_LOG_ERROR,
               "host config: maxphyaddr: too narrow for this memory; %llxh",
               (unsigned long long)ae_hpa(t->memory));
    }
    return r;
}

int
ae_tables_create(struct avicemu_vm *vm, const struct avicemu_vm_config *config,
                 struct ae_tables **ret)
{
    struct avicemu_host *host = vm->host;
    const struct avicemu_allocator *a = &host->allocator;
    struct ae_tables *t = ae_alloc(a, AE_CACHE_LINE, sizeof(*t));

    if (t == NULL) {
        return -ENOMEM;
    }
    t->host = host;
    ae_avic_hw_init(&t->hw, &vm->model, &host->mem, core_features(host->avic),
                    host->maxphyaddr);
    t->hw.bells.at = host->doorbells;
    t->hw.bells.nr = host->nr_pcpus;
    t->words = host->doorbell_mode == AVICEMU_DOORBELL_WORD;
    t->nr_physical = physical_entries(t->hw.features);
    t->max_apic_id =
        config->max_apic_id != 0 ? config->max_apic_id : UINT32_MAX;
    t->ipiv = (config->flags & AVICEMU_VM_NO_IPIV) == 0 &&
              (host->avic & AVICEMU_HOST_ERRATUM_1235) == 0;
    ae_lock_init(&t->lock);
    int r = tables_memory(t);

    if (r != 0) {
        ae_lock_fini(&t->lock);
        ae_free(a, t->memory, t->bytes);
        ae_free(a, t, sizeof(*t));
        return r;
    }
    *ret = t;
    return 0;
}

static unsigned char *
slab_pages(const struct ae_tables *t, uint32_t i)
{
    /* ORD vcpu.B: the slab, then its owners; they were written before the table
     * or the map named the page. Partner: vcpu.A. If weaker: a page without an
     * owner. Test: race_books. */
    return ae_load_acquire_ptr(&t->slabs[i].pages);
}

void
ae_tables_destroy(struct ae_tables *t)
{
    if (t == NULL) {
        return;
    }
    const struct avicemu_allocator *a = &t->host->allocator;

    for (uint32_t i = 0; i < AE_SLABS; i++) {
        unsigned char *pages = slab_pages(t, i);

        if (pages != NULL) {
            (void)ae_mem_remove_own(&t->host->mem, ae_hpa(pages));
            ae_free(a, pages, AE_SLAB_PAGES * (size_t)AE_PAGE);
        }
    }
    (void)ae_mem_remove_own(&t->host->mem, ae_hpa(t->memory));
    ae_free(a, t->memory, t->bytes);
    ae_lock_fini(&t->lock);
    ae_free(a, t, sizeof(*t));
}

/* ---- backing pages ------------------------------------------------------ */

static bool
slab_make_locked(struct ae_tables *t, uint32_t i)
{
    const struct avicemu_allocator *a = &t->host->allocator;
    const size_t bytes = AE_SLAB_PAGES * (size_t)AE_PAGE;
    unsigned char *pages = ae_alloc(a, AE_PAGE, bytes);

    if (pages == NULL) {
        return false;
    }
    if (region_add(t, pages, bytes) != 0) {
        ae_free(a, pages, bytes);
        return false;
    }
    /* ORD vcpu.A: the slab, before any of its pages is named. Partner: vcpu.B
     * in slab_pages(). If weaker: see there. Test: race_books. */
    ae_store_release_ptr(&t->slabs[i].pages, pages);
    return true;
}

static void *
slab_take_locked(struct ae_tables *t, uint32_t i, struct avicemu_vcpu *owner)
{
    if (slab_pages(t, i) == NULL && !slab_make_locked(t, i)) {
        return NULL;
    }
    uint32_t n = ae_lowest_bit32(~t->slabs[i].used);

    t->slabs[i].used |= ae_bit32(n);
    t->slabs[i].owners[n] = owner;
    return slab_pages(t, i) + n * (size_t)AE_PAGE;
}

void *
ae_tables_page_get(struct ae_tables *t, struct avicemu_vcpu *owner)
{
    void *page = NULL;

    ae_lock(&t->lock);
    for (uint32_t i = 0; i < AE_SLABS; i++) {
        if (~t->slabs[i].used != 0) {
            page = slab_take_locked(t, i, owner);
            break;
        }
    }
    ae_unlock(&t->lock);
    if (page != NULL) {
        memset(page, 0, AE_PAGE);
    }
    return page;
}

/* The slab that holds a page, and which of its pages; false: none. */
static bool
slab_find(const struct ae_tables *t, uint64_t hpa, uint32_t *slab, uint32_t *n)
{
    for (uint32_t i = 0; i < AE_SLABS; i++) {
        const unsigned char *pages = slab_pages(t, i);
        uint64_t offset = hpa - ae_hpa(pages);

        if (pages != NULL && offset < AE_SLAB_PAGES * (uint64_t)AE_PAGE) {
            *slab = i;
            *n = (uint32_t)(offset / AE_PAGE);
            return true;
        }
    }
    return false;
}

void
ae_tables_page_put(struct ae_tables *t, void *page)
{
    uint32_t slab, n;

    ae_lock(&t->lock);
    if (slab_find(t, ae_hpa(page), &slab, &n)) {
        t->slabs[slab].used &= ~ae_bit32(n);
    }
    ae_unlock(&t->lock);
}

struct avicemu_vcpu *
ae_tables_owner(const struct ae_tables *t, uint64_t page_hpa)
{
    uint32_t slab, n;

    return slab_find(t, page_hpa, &slab, &n) ? t->slabs[slab].owners[n] : NULL;
}

/* ---- physical table ----------------------------------------------------- */

void
ae_tables_publish(struct avicemu_vcpu *vcpu)
{
    struct ae_tables *t = vcpu->vm->tables;
    const struct ae_vcpu_avic *v = &vcpu->avic;

    if (!ae_tables_fits(t, vcpu->lapic.initial_id)) {
        return;
    }
    bool running = v->active && v->loaded && !v->blocked && t->ipiv &&
                   (v->word != NULL || !v->words);
    /* ORD none: the owner's own store. */
    uint32_t pcpu = ae_load_relaxed_u32(&vcpu->pcpu);
    uint64_t entry = ae_physical_entry(ae_hpa(vcpu->lapic.page), pcpu, running);

    /*
     * ORD running.B: the page is a vCPU's, then the entry; and IsRunning := 0,
     * then IRR is read. Partner: running.A in ae_ipi_step(). If weaker: see
     * ae_tables_stopped(). One store: the owner is the only writer.
     * Test: race_running.
     */
    ae_store_seqcst_u64(&t->physical[vcpu->lapic.initial_id],
                        ae_lapic_enabled(&vcpu->lapic) ? entry : 0);
    AE_STEP(running_b);
}

void
ae_tables_unpublish(struct avicemu_vcpu *vcpu)
{
    struct ae_tables *t = vcpu->vm->tables;

    if (ae_tables_fits(t, vcpu->lapic.initial_id)) {
        /* ORD running.B: the entry goes, then the grace period. Partner:
         * running.A, in a read-side section. If weaker: a bit is set in the
         * page of another vCPU. Test: race_running. */
        ae_store_seqcst_u64(&t->physical[vcpu->lapic.initial_id], 0);
    }
}

void
ae_tables_stopped(struct avicemu_vcpu *vcpu)
{
    vcpu->avic.blocked = true;
    if (vcpu->avic.active && vcpu->avic.loaded) {
        /* ORD running.B: IsRunning := 0, then (in halt.c) IRR is read. Partner:
         * running.A in ae_ipi_step(). If weaker: the sender reads IsRunning =
         * 1 and rings a core that has left, we read an empty IRR, and sleep on
         * a pending vector: erratum 1235. Test: race_running. */
        ae_tables_publish(vcpu);
    }
}

void
ae_tables_resumed(struct avicemu_vcpu *vcpu)
{
    vcpu->avic.blocked = false;
    if (vcpu->avic.active && vcpu->avic.loaded) {
        ae_tables_publish(vcpu);
    }
}

/* ---- logical table ------------------------------------------------------ */

void
ae_tables_logical(struct ae_tables *t, const uint32_t *ids, uint32_t nr)
{
    for (uint32_t i = 0; i < AE_LOGICAL_CLUSTER; i++) {
        uint32_t entry = 0;

        if (i < nr && ids[i] != 0 && ids[i] - 1 < AE_XAPIC_BROADCAST &&
            ae_tables_fits(t, ids[i] - 1)) {
            entry = AVICEMU_LOGICAL_VALID | (ids[i] - 1);
        }
        /* ORD none: only writers, under the map's lock, read it here. */
        if (ae_load_relaxed_u32(&t->logical[i]) != entry) {
            /* ORD ident.A: identity, then the entry. Partner: ident.B, a
             * sender's walk. If weaker: an IPI after the LDR write goes where
             * the bit was before. Test: race_ident. */
            ae_store_seqcst_u32(&t->logical[i], entry);
        }
    }
}

/* ---- inhibits ----------------------------------------------------------- */

bool
ae_tables_inhibit(struct ae_tables *t, uint32_t mask, uint32_t value)
{
    /* ORD none: the first guess of the exchange below. */
    uint32_t old = ae_load_relaxed_u32(&t->inhibits);
    uint32_t next;

    do {
        next = (old & ~mask) | (value & mask);
        if (next == old) {
            return false;
        }
        /*
         * ORD inhibit.A: the word, then the states of all vCPUs. Partner:
         * inhibit.B in state_enter(). If weaker: we read "outside" and do not
         * kick, it reads the old word, and runs on it. Test: race_inhibit.
         */
    } while (!ae_cas_seqcst_u32(&t->inhibits, &old, next));
    AE_STEP(inhibit_a);
    return (old == 0) != (next == 0);
}
