/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all AVIC cores of a host share: which guest accesses hardware completes
 * (the access filter), doorbells, and the question which vector a backing page
 * lets through. A core is in avic_core.c, the IPI engine in avic_ipi.c.
 *
 * The filter [APM2 15.29.3.1 Table 15-22] is one table of rows. It is expanded
 * once per ae_avic_hw, with the model's register rules, into a byte per mode,
 * direction and 16-byte slot; after that an access is one load.
 *
 *   xAVIC    the row; an offset in no row is plain memory
 *   x2AVIC   GP where the model has no such MSR, or not in that direction; then
 *            the row. Hardware's own list of #GP checks is not published
 *            (unverified): here, the local APIC's, in full
 *
 * A doorbell is one word per core: 1 is rung. Hardware's is an edge; a word
 * that is taken between instructions differs only in that a ring in host mode
 * would be kept, so VMRUN throws it away before it reads IRR.
 *
 * Edge (a Dekker pair: all four accesses seq_cst, since a word that is 1 is not
 * written again)
 *   bell   A ae_bells_ring()     IRR bit -> doorbell word read, then set
 *          B ae_bells_rung()     exchange to 0 -> IRR scan (ae_avic_above())
 *
 * May overlap: all of it; init with nothing. Wait-free.
 */

#include "hw/avic.h"

#include "base/step.h"

/*
 * [APM2 15.29.3.1 Table 15-22] rev 3.44. A later row wins over an earlier one.
 *
 * first, last   byte offsets of slots; the MSR is 800h + offset / 16
 * read, write   enum avicemu_avic_access. EOI and ICR are ACCEL: the vector in
 *               service, or the IPI, decides whether they exit
 * modes         x2AVIC faults what is not its own by the model's rules; only
 *               SELF IPI needs to be told apart
 * need          feature of the core; 0: none
 *
 * APR, and TMCCT's read, fault: software must compute them. Remote Read traps
 * although it is read-only. CMCI (2F0h) is in no row, so it does not exit. EOI
 * is a trap where the vector is level-triggered; [APM2 15.29.9.2] calls that
 * exit a fault, Table 15-22 and [KVM] a trap.
 */
/* clang-format off */
#define AVIC_ROWS(X) \
/* first  last   read   write  modes   need */ \
X(0x020, 0x020, ALLOW, TRAP,  BOTH,   0)                         /* ID */ \
X(0x030, 0x030, ALLOW, FAULT, BOTH,   0)                         /* version */ \
X(0x080, 0x080, ALLOW, ACCEL, BOTH,   0)                         /* TPR */ \
X(0x090, 0x090, FAULT, FAULT, BOTH,   0)                         /* APR */ \
X(0x0a0, 0x0a0, ALLOW, FAULT, BOTH,   0)                         /* PPR */ \
X(0x0b0, 0x0b0, ALLOW, ACCEL, BOTH,   0)                         /* EOI */ \
X(0x0c0, 0x0c0, ALLOW, TRAP,  XAVIC,  0)                         /* RRR */ \
X(0x0d0, 0x0d0, ALLOW, TRAP,  BOTH,   0)                         /* LDR */ \
X(0x0e0, 0x0e0, ALLOW, TRAP,  XAVIC,  0)                         /* DFR */ \
X(0x0f0, 0x0f0, ALLOW, TRAP,  BOTH,   0)                         /* SVR */ \
X(0x100, 0x270, ALLOW, FAULT, BOTH,   0)               /* ISR, TMR, IRR */ \
X(0x280, 0x280, ALLOW, TRAP,  BOTH,   0)                         /* ESR */ \
X(0x300, 0x300, ALLOW, ACCEL, BOTH,   0)                     /* ICR low */ \
X(0x310, 0x310, ALLOW, ALLOW, XAVIC,  0)                    /* ICR high */ \
X(0x320, 0x370, ALLOW, TRAP,  BOTH,   0)                        /* LVTs */ \
X(0x380, 0x380, ALLOW, TRAP,  BOTH,   0)                       /* TMICT */ \
X(0x390, 0x390, FAULT, FAULT, BOTH,   0)                       /* TMCCT */ \
X(0x3e0, 0x3e0, ALLOW, TRAP,  BOTH,   0)                        /* TDCR */ \
X(0x3f0, 0x3f0, ALLOW, ACCEL, X2AVIC, 0)                    /* SELF IPI */ \
X(0x400, 0x420, FAULT, FAULT, BOTH,   0)            /* EAFR, EACR, SEOI */ \
X(0x480, 0x4f0, FAULT, FAULT, BOTH,   0)                         /* IER */ \
X(0x500, 0x530, FAULT, FAULT, BOTH,   0)               /* extended LVTs */ \
X(0x500, 0x530, ALLOW, TRAP,  BOTH,   AVICEMU_CORE_EXT_LVT)               \
X(0x540, 0xff0, FAULT, FAULT, BOTH,   0)                    /* reserved */ \
X(0x540, 0xff0, ALLOW, ALLOW, BOTH,   AVICEMU_CORE_HIGH_ALLOWED)
/* clang-format on */

#define MODES_XAVIC  1u
#define MODES_X2AVIC 2u
#define MODES_BOTH   3u

struct row {
    uint16_t first, last;
    uint8_t read, write; /* enum avicemu_avic_access */
    uint8_t modes;       /* MODES_* */
    uint32_t need;       /* AVICEMU_CORE_* */
};

#define ROW(first_, last_, read_, write_, modes_, need_) \
    { .first = (first_),                                 \
      .last = (last_),                                   \
      .read = AVICEMU_AVIC_##read_,                      \
      .write = AVICEMU_AVIC_##write_,                    \
      .modes = MODES_##modes_,                           \
      .need = (need_) },

static const struct row rows[] = { AVIC_ROWS(ROW) };

#define ROW_ASSERT(first, last, ...)                                   \
    static_assert(((first) | (last)) % 16 == 0 && (first) <= (last) && \
                      (last) < LAPIC_PAGE_BYTES,                       \
                  #first " is no range of slots");
AVIC_ROWS(ROW_ASSERT)

/* ---- filter ------------------------------------------------------------- */

static void
filter_row(struct ae_avic_hw *hw, const struct row *row)
{
    for (unsigned x2avic = 0; x2avic < 2; x2avic++) {
        if ((row->modes & 1u << x2avic) == 0) {
            continue;
        }
        for (unsigned slot = row->first / 16u; slot <= row->last / 16u;
             slot++) {
            hw->filter[x2avic][false][slot] = row->read;
            hw->filter[x2avic][true][slot] = row->write;
        }
    }
}

/* x2AVIC asks the model first. [APM2 15.29.10] */
static void
filter_msr(struct ae_avic_hw *hw, uint32_t slot)
{
    uint8_t access = hw->model->rules[slot].x2apic;

    if (access != AE_REG_RO && access != AE_REG_RW) {
        hw->filter[true][false][slot] = AVICEMU_AVIC_GP;
    }
    if (access != AE_REG_WO && access != AE_REG_RW) {
        hw->filter[true][true][slot] = AVICEMU_AVIC_GP;
    }
}

void
ae_avic_hw_init(struct ae_avic_hw *hw, const struct ae_lapic_model *model,
                const struct ae_mem *mem, uint32_t features,
                uint32_t maxphyaddr)
{
    *hw = (struct ae_avic_hw){
        .model = model,
        .mem = mem,
        .address_reserved = ~(((uint64_t)1 << maxphyaddr) - 1),
        .features = features,
    };
    static_assert(AVICEMU_AVIC_ALLOW == 0, "what is in no row is allowed");
    for (unsigned i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        if ((rows[i].need & ~features) == 0) {
            filter_row(hw, &rows[i]);
        }
    }
    for (uint32_t slot = 0; slot < AE_MAX_SLOTS; slot++) {
        filter_msr(hw, slot);
    }
}

/* ---- doorbell ----------------------------------------------------------- */

void
ae_bells_ring(const struct ae_bells *bells, uint32_t host_apic_id)
{
    _Atomic uint32_t *bell = ae_bells_at(bells, host_apic_id);

    if (bell == NULL) {
        return;
    }
    /*
     * ORD bell.A: the IRR bit, then the doorbell. Partner: bell.B in
     * ae_bells_rung(), ae_avic_above(). If weaker: a word seen as 1 was
     * already exchanged by a core whose scan missed the bit, and the vector
     * waits for the next doorbell. Test: race_bell.
     */
    if (ae_load_seqcst_u32(bell) == 0) {
        AE_STEP(bell_a);
        ae_store_seqcst_u32(bell, 1);
    }
}

bool
ae_bells_rung(const struct ae_bells *bells, uint32_t host_apic_id)
{
    _Atomic uint32_t *bell = ae_bells_at(bells, host_apic_id);

    /* ORD none: a ring that is not seen yet is there at the next look. */
    if (bell == NULL || ae_load_relaxed_u32(bell) == 0) {
        return false;
    }
    /* ORD bell.B: the doorbell to 0, then the IRR scan. Partner: bell.A in
     * ae_bells_ring(). If weaker: see there. Test: race_bell. */
    bool rung = ae_exchange_seqcst_u32(bell, 0) != 0;

    AE_STEP(bell_b);
    return rung;
}

/* ---- page --------------------------------------------------------------- */

int
ae_avic_requested(void *page)
{
    for (uint32_t i = AE_VECTOR_WORDS; i-- > 0;) {
        /* ORD bell.B: the doorbell was taken (IsRunning cleared), then IRR.
         * Partner: bell.A in ae_bells_ring(). If weaker: see there. Test:
         * race_bell. */
        uint32_t word =
            ae_load_seqcst_u32(ae_vapic_word(page, LAPIC_IRR + (i << 4)));

        if (word != 0) {
            return (int)(i * 32u) + ae_highest_bit32(word);
        }
    }
    return -1;
}

int
ae_avic_above(void *page, uint32_t ppr)
{
    int vector = ae_avic_requested(page);

    /* A vector below 16 has class 0 and never passes. */
    if (vector < 0 ||
        ae_vector_class((unsigned)vector) <= ae_vector_class(ppr)) {
        return -1;
    }
    return vector;
}

uint32_t
ae_avic_ppr(void *page)
{
    return ae_vapic_ppr(ae_vapic_read(page, LAPIC_TPR) & 0xffu,
                        ae_vapic_highest(page, LAPIC_ISR));
}
