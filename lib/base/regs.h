/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_REGS_H
#define AE_BASE_REGS_H

/*
 * Every register of the local APIC as one table, and every field position.
 * The descriptor array, the model of each personality, reset, INIT, snapshot,
 * dump and the generated test rows all come from it.
 */

#include "base/bits.h"

/* Vendors of a column; the bit is 1 << enum avicemu_personality. */
#define LAPIC_AMD   1u
#define LAPIC_INTEL 2u
#define LAPIC_KVM   4u
#define LAPIC_ALL   7u
#define LAPIC_NO    0u

/* What a guest may do to a register in one mode. */
enum ae_reg_access {
    AE_REG_NONE, /* xAPIC: absent offset. x2APIC: #GP */
    AE_REG_RO,
    AE_REG_WO,
    AE_REG_RW,
};

/* Which code a write (and for PPR, APR, TMCCT a read) runs. */
enum ae_reg_handler {
    AE_REG_PLAIN, /* the value that sticks is stored, no more */
    AE_REG_ID,
    AE_REG_TPR,
    AE_REG_APR,
    AE_REG_PPR,
    AE_REG_EOI,
    AE_REG_LDR,
    AE_REG_DFR,
    AE_REG_SVR,
    AE_REG_ESR,
    AE_REG_LVT,
    AE_REG_LVT_TIMER,
    AE_REG_LVT_LINT,
    AE_REG_ICR_LOW,
    AE_REG_TMICT,
    AE_REG_TMCCT,
    AE_REG_TDCR,
    AE_REG_SELF_IPI,
    AE_REG_SEOI,
    AE_REG_IER,
};

/*
 * [APM2 16.3.2 Table 16-2], [APM2 16.11 Table 16-6] rev 3.44; [SDM3 10 Tables
 * 10-1, 10-6]; KVM as Linux 6.12.
 *
 * off, n     byte offset in the xAPIC page, number of 16-byte slots
 * xAPIC,     access, and whose APIC has it in that mode
 * x2APIC     (the MSR is 800h + offset / 16)
 * need       feature without which it is absent (0: none)
 * sticks     bits of a written value that are kept, per vendor; read-only
 *            status bits (DS, remote IRR) are not among them, but for KVM,
 *            which stores them as data
 * #GP        reserved bits that fault an x2APIC write, per vendor
 * opt        bits of sticks that exist with feature opt_need only; else they
 *            are dropped, and reserved in x2APIC
 * reset      after RESET and INIT
 * init       what INIT does: RST to the reset value, KEEP, CALC recomputed
 *
 * Choices where sources conflict: extended LVTs reset masked (the PPR's
 * 00010000h; APM says 0); DFR resets to all ones (APM; the PPR says
 * F0000000h); a TSC-deadline mode bit exists in AMD's LVT timer only with the
 * feature, which no APM lists.
 */
/* clang-format off */
#define LAPIC_REGS(X) \
/* name       off    n  xAPIC            x2APIC           need                         sticks: AMD  INTEL       KVM         #GP: AMD               INTEL                  KVM                    opt         opt_need                      reset        init  handler */ \
X(ID,         0x020, 1, RW, ALL,         RO, ALL,         0,                           0xff000000, 0x00000000, 0xff000000, 0,                     0,                     0,                     0,          0,                            0x00000000,  KEEP, ID)        \
X(VERSION,    0x030, 1, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  KEEP, PLAIN)     \
X(TPR,        0x080, 1, RW, ALL,         RW, ALL,         0,                           0x000000ff, 0x000000ff, 0x000000ff, 0xffffffffffffff00ull, 0xffffffffffffff00ull, 0xffffffff00000000ull, 0,          0,                            0x00000000,  RST,  TPR)       \
X(APR,        0x090, 1, RO, ALL,         RO, AMD,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  APR)       \
X(PPR,        0x0a0, 1, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PPR)       \
X(EOI,        0x0b0, 1, WO, ALL,         WO, ALL,         0,                           0,          0,          0,          0xffffffffffffffffull, 0xffffffffffffffffull, 0xffffffff00000000ull, 0,          0,                            0x00000000,  RST,  EOI)       \
X(RRR,        0x0c0, 1, RO, ALL,         NONE, NO,        0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(LDR,        0x0d0, 1, RW, ALL,         RO, ALL,         0,                           0xff000000, 0xff000000, 0xff000000, 0,                     0,                     0,                     0,          0,                            0x00000000,  CALC, LDR)       \
X(DFR,        0x0e0, 1, RW, ALL,         NONE, NO,        0,                           0xf0000000, 0xf0000000, 0xf0000000, 0,                     0,                     0,                     0,          0,                            0xffffffff,  RST,  DFR)       \
X(SVR,        0x0f0, 1, RW, ALL,         RW, ALL,         0,                           0x000013ff, 0x000013ff, 0x000013ff, 0xffffffffffffec00ull, 0xffffffffffffec00ull, 0xffffffff00000000ull, 0x00001000, AVICEMU_LAPIC_DIRECTED_EOI,   0x000000ff,  RST,  SVR)       \
X(ISR,        0x100, 8, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(TMR,        0x180, 8, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(IRR,        0x200, 8, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(ESR,        0x280, 1, RW, ALL,         RW, ALL,         0,                           0,          0,          0,          0xffffffffffffffffull, 0xffffffffffffffffull, 0xffffffffffffffffull, 0,          0,                            0x00000000,  RST,  ESR)       \
X(LVT_CMCI,   0x2f0, 1, RW, INTEL_KVM,   RW, INTEL_KVM,   AVICEMU_LAPIC_CMCI,          0,          0x000107ff, 0x000117ff, 0,                     0xfffffffffffee800ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT)       \
X(ICR_LOW,    0x300, 1, RW, ALL,         RW, ALL,         0,                           0x000ccfff, 0x000ccfff, 0xffffefff, 0x00000000fff33000ull, 0x00000000fff32000ull, 0x00000000fff32000ull, 0,          0,                            0x00000000,  RST,  ICR_LOW)   \
X(ICR_HIGH,   0x310, 1, RW, ALL,         NONE, NO,        0,                           0xff000000, 0xff000000, 0xff000000, 0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(LVT_TIMER,  0x320, 1, RW, ALL,         RW, ALL,         0,                           0x000700ff, 0x000700ff, 0x000710ff, 0xfffffffffff8ef00ull, 0xfffffffffff8ef00ull, 0xffffffff00000000ull, 0x00040000, AVICEMU_LAPIC_TSC_DEADLINE,   0x00010000,  RST,  LVT_TIMER) \
X(LVT_THERMAL,0x330, 1, RW, ALL,         RW, ALL,         0,                           0x000107ff, 0x000107ff, 0x000117ff, 0xfffffffffffee800ull, 0xfffffffffffee800ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT)       \
X(LVT_PERF,   0x340, 1, RW, ALL,         RW, ALL,         0,                           0x000107ff, 0x000107ff, 0x000117ff, 0xfffffffffffee800ull, 0xfffffffffffee800ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT)       \
X(LVT_LINT0,  0x350, 1, RW, ALL,         RW, ALL,         0,                           0x000187ff, 0x0001a7ff, 0x0001f7ff, 0xfffffffffffe2800ull, 0xfffffffffffe0800ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT_LINT)  \
X(LVT_LINT1,  0x360, 1, RW, ALL,         RW, ALL,         0,                           0x000187ff, 0x0001a7ff, 0x0001f7ff, 0xfffffffffffe2800ull, 0xfffffffffffe0800ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT_LINT)  \
X(LVT_ERROR,  0x370, 1, RW, ALL,         RW, ALL,         0,                           0x000107ff, 0x000100ff, 0x000110ff, 0xfffffffffffee800ull, 0xfffffffffffeef00ull, 0xffffffff00000000ull, 0,          0,                            0x00010000,  RST,  LVT)       \
X(TMICT,      0x380, 1, RW, ALL,         RW, ALL,         0,                           0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff00000000ull, 0xffffffff00000000ull, 0xffffffff00000000ull, 0,          0,                            0x00000000,  RST,  TMICT)     \
X(TMCCT,      0x390, 1, RO, ALL,         RO, ALL,         0,                           0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00000000,  RST,  TMCCT)     \
X(TDCR,       0x3e0, 1, RW, ALL,         RW, ALL,         0,                           0x0000000b, 0x0000000b, 0x0000000b, 0xfffffffffffffff4ull, 0xfffffffffffffff4ull, 0xffffffff00000000ull, 0,          0,                            0x00000000,  RST,  TDCR)      \
X(SELF_IPI,   0x3f0, 1, NONE, NO,        WO, ALL,         0,                           0,          0,          0,          0xffffffffffffff00ull, 0xffffffffffffff00ull, 0xffffffffffffff00ull, 0,          0,                            0x00000000,  RST,  SELF_IPI)  \
X(EAFR,       0x400, 1, RO, AMD,         RO, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0,          0,          0,          0,                     0,                     0,                     0,          0,                            0x00040007,  RST,  PLAIN)     \
X(EACR,       0x410, 1, RW, AMD,         RW, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0x00000007, 0,          0,          0xfffffffffffffff8ull, 0,                     0,                     0,          0,                            0x00000000,  RST,  PLAIN)     \
X(SEOI,       0x420, 1, RW, AMD,         RW, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0x000000ff, 0,          0,          0xffffffffffffff00ull, 0,                     0,                     0,          0,                            0x00000000,  RST,  SEOI)      \
X(IER0,       0x480, 1, RW, AMD,         RW, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0xffff0000, 0,          0,          0xffffffff0000ffffull, 0,                     0,                     0,          0,                            0xffffffff,  RST,  IER)       \
X(IER,        0x490, 7, RW, AMD,         RW, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0xffffffff, 0,          0,          0xffffffff00000000ull, 0,                     0,                     0,          0,                            0xffffffff,  RST,  IER)       \
X(LVT_EXT,    0x500, 4, RW, AMD,         RW, AMD,         AVICEMU_LAPIC_EXT_SPACE,     0x000107ff, 0,          0,          0xfffffffffffee800ull, 0,                     0,                     0,          0,                            0x00010000,  RST,  LVT)

/*
 * Fields: F(register, field, high, low). [APM2 Figs 16-2 to 16-36]
 */
#define LAPIC_FIELDS(F) \
F(APIC_BASE, BSP,            8,  8) \
F(APIC_BASE, EXTD,          10, 10) \
F(APIC_BASE, EN,            11, 11) \
F(VERSION,   NUMBER,         7,  0) \
F(VERSION,   MAX_LVT,       23, 16) \
F(VERSION,   DIRECTED_EOI,  24, 24) \
F(VERSION,   EXT_SPACE,     31, 31) \
F(SVR,       VECTOR,         7,  0) \
F(SVR,       ENABLE,         8,  8) \
F(SVR,       FOCUS_OFF,      9,  9) \
F(SVR,       DIRECTED_EOI,  12, 12) \
F(LVT,       VECTOR,         7,  0) \
F(LVT,       MT,            10,  8) \
F(LVT,       RIR,           14, 14) \
F(LVT,       LEVEL,         15, 15) \
F(LVT,       MASK,          16, 16) \
F(LVT,       TIMER_MODE,    18, 17) \
F(ICR,       VECTOR,         7,  0) \
F(ICR,       MT,            10,  8) \
F(ICR,       LOGICAL,       11, 11) \
F(ICR,       DS,            12, 12) \
F(ICR,       ASSERT,        14, 14) \
F(ICR,       LEVEL,         15, 15) \
F(ICR,       DSH,           19, 18) \
F(ICR_HIGH,  XAPIC_DEST,    31, 24) \
F(ID,        XAPIC,         31, 24) \
F(LDR,       XAPIC,         31, 24) \
F(DFR,       MODEL,         31, 28) \
F(EACR,      IERN,           0,  0) \
F(EACR,      SN,             1,  1) \
F(EACR,      XAIDN,          2,  2)

/*
 * The words of AVIC: table entries [APM2 15.29.5 Tables 15-23, 15-24], VMCB
 * fields [APM2 App. B], exit information [APM2 15.29.9.1 Tables 15-25 to
 * 15-27, 15.29.9.2 Tables 15-28, 15-29]. MAX_INDEX stands in the low bits of
 * the VMCB's pointer to the physical table.
 */
#define AVIC_FIELDS(F) \
F(PHYSICAL,            V,            63, 63) \
F(PHYSICAL,            RUNNING,      62, 62) \
F(PHYSICAL,            PAGE,         51, 12) \
F(PHYSICAL,            HOST_ID,      11,  0) \
F(LOGICAL,             V,            31, 31) \
F(LOGICAL,             ID,            7,  0) \
F(VMCB_INTERCEPT_CR,   WRITE_CR8,    24, 24) \
F(VMCB_INTERCEPT_MISC, MSR,          28, 28) \
F(VMCB_INT_CTL,        V_TPR,         3,  0) \
F(VMCB_INT_CTL,        VGIF,          9,  9) \
F(VMCB_INT_CTL,        V_INTR_MASK,  24, 24) \
F(VMCB_INT_CTL,        VGIF_ENABLE,  25, 25) \
F(VMCB_INT_CTL,        X2AVIC,       30, 30) \
F(VMCB_INT_CTL,        AVIC,         31, 31) \
F(VMCB_INT_STATE,      SHADOW,        0,  0) \
F(VMCB_NESTED_CTL,     NP,            0,  0) \
F(VMCB_EVENTINJ,       V,            31, 31) \
F(VMCB_PHYSICAL_TABLE, MAX_INDEX,    11,  0) \
F(VMCB_RFLAGS,         IF,            9,  9) \
F(MAX_INDEX,           PAGE,         11,  9) \
F(NPF_INFO1,           PRESENT,       0,  0) \
F(NPF_INFO1,           WRITE,         1,  1) \
F(NPF_INFO1,           USER,          2,  2) \
F(NPF_INFO1,           FINAL,        32, 32) \
F(IPI_INFO2,           INDEX,        11,  0) \
F(IPI_INFO2,           FAILURE,      63, 32) \
F(NOACCEL_INFO1,       OFFSET,       11,  4) \
F(NOACCEL_INFO1,       WRITE,        32, 32) \
F(NOACCEL_INFO2,       VECTOR,        7,  0)

/*
 * The IOMMU's interrupt path. IRTE32: the 32-bit entry. Of the 128-bit one,
 * IRTE is the low half of both forms, IRTE_REMAP and IRTE_GUEST what is only
 * in one; IRTE_HIGH is the high half, where the pointer to the backing page
 * stands at its natural place. DEST_LOW and DEST_HIGH make one 32-bit id with
 * XTEn; else only DEST8 counts. GA_ENTRY: an entry of the GA log. LOG_BASE:
 * the base register of any log. DTEn: 64-bit word n of a device table entry.
 * COMMAND, EVENT: the first word of their 16 bytes. XT: the registers of the
 * IOMMU's own interrupts. MSI: of the mirrored capability's header.
 * MSI_ADDRESS, MSI_DATA: a device's message; DEST_HIGH is [KVM]'s extension.
 * HT: the same at FD_F8xx_xxxxh. [IOMMU 2.2.2 device table], [IOMMU 2.2.5
 * interrupt remapping tables], [IOMMU 3.4 MMIO registers]
 */
#define IOMMU_FIELDS(F) \
F(IRTE32,              REMAP_EN,      0,  0) \
F(IRTE32,              SUP_IOPF,      1,  1) \
F(IRTE32,              INT_TYPE,      4,  2) \
F(IRTE32,              RQ_EOI,        5,  5) \
F(IRTE32,              DM,            6,  6) \
F(IRTE32,              GUEST_MODE,    7,  7) \
F(IRTE32,              DEST,         15,  8) \
F(IRTE32,              VECTOR,       23, 16) \
F(IRTE32,              RESERVED,     31, 24) \
F(IRTE,                REMAP_EN,      0,  0) \
F(IRTE,                SUP_IOPF,      1,  1) \
F(IRTE,                GUEST_MODE,    7,  7) \
F(IRTE,                DEST8,        15,  8) \
F(IRTE,                DEST_XT,      31, 16) \
F(IRTE,                DEST_LOW,     31,  8) \
F(IRTE_REMAP,          INT_TYPE,      4,  2) \
F(IRTE_REMAP,          RQ_EOI,        5,  5) \
F(IRTE_REMAP,          DM,            6,  6) \
F(IRTE_REMAP,          RESERVED,     63, 32) \
F(IRTE_GUEST,          GA_LOG_INTR,   2,  2) \
F(IRTE_GUEST,          RESERVED,      4,  3) \
F(IRTE_GUEST,          GAPPI_DIS,     5,  5) \
F(IRTE_GUEST,          IS_RUN,        6,  6) \
F(IRTE_GUEST,          GA_TAG,       63, 32) \
F(IRTE_HIGH,           VECTOR,        7,  0) \
F(IRTE_HIGH,           RESERVED_LOW, 11,  8) \
F(IRTE_HIGH,           ROOT,         51, 12) \
F(IRTE_HIGH,           RESERVED,     55, 52) \
F(IRTE_HIGH,           DEST_HIGH,    63, 56) \
F(GA_ENTRY,            GA_TAG,       31,  0) \
F(GA_ENTRY,            DEVICE_ID,    47, 32) \
F(GA_ENTRY,            RESERVED,     59, 48) \
F(GA_ENTRY,            TYPE,         63, 60) \
F(LOG_BASE,            PAGE,         51, 12) \
F(LOG_BASE,            LENGTH,       59, 56) \
F(LOG_TAIL_WORD,       ADDRESS,      51,  3) \
F(DTE0,                V,             0,  0) \
F(DTE1,                DOMAIN_ID,    15,  0) \
F(DTE2,                IV,            0,  0) \
F(DTE2,                INT_TAB_LEN,   4,  1) \
F(DTE2,                IG,            5,  5) \
F(DTE2,                INT_TAB_ROOT, 51,  6) \
F(DTE2,                ROOT_ALIGN,    6,  6) \
F(DTE2,                RESERVED,     53, 52) \
F(DTE2,                INIT_PASS,    56, 56) \
F(DTE2,                EINT_PASS,    57, 57) \
F(DTE2,                NMI_PASS,     58, 58) \
F(DTE2,                INT_CTL,      61, 60) \
F(DTE2,                LINT0_PASS,   62, 62) \
F(DTE2,                LINT1_PASS,   63, 63) \
F(COMMAND,             OPCODE,       63, 60) \
F(COMMAND,             DEVICE_ID,    15,  0) \
F(COMMAND_WAIT,        STORE,         0,  0) \
F(COMMAND_WAIT,        INTERRUPT,     1,  1) \
F(COMMAND_WAIT,        FLUSH,         2,  2) \
F(COMMAND_WAIT,        ADDRESS,      51,  3) \
F(EVENT,               DEVICE_ID,    15,  0) \
F(EVENT,               DOMAIN_ID,    47, 32) \
F(EVENT,               I,            51, 51) \
F(EVENT,               PR,           52, 52) \
F(EVENT,               RZ,           55, 55) \
F(EVENT,               HW_TYPE,      58, 57) \
F(EVENT,               TYPE,         59, 57) \
F(EVENT,               CODE,         63, 60) \
F(DEVICE_TABLE,        SIZE,          8,  0) \
F(DEVICE_TABLE,        BASE,         51, 12) \
F(EFR,                 XT,            2,  2) \
F(EFR,                 GAPPI,         5,  5) \
F(EFR,                 IA,            6,  6) \
F(EFR,                 GA,            7,  7) \
F(EFR,                 GAM,          23, 21) \
F(EFR,                 MSI_CAP_MMIO, 46, 46) \
F(EFR2,                GAPPI_DIS,     4,  4) \
F(EFR2,                NUM_INT_REMAP, 9,  8) \
F(CONTROL,             IOMMU_EN,      0,  0) \
F(CONTROL,             EVENT_LOG_EN,  2,  2) \
F(CONTROL,             EVENT_INT_EN,  3,  3) \
F(CONTROL,             COM_WAIT_INT_EN, 4, 4) \
F(CONTROL,             PLAIN,        11,  5) \
F(CONTROL,             CMD_BUF_EN,   12, 12) \
F(CONTROL,             GA_EN,        17, 17) \
F(CONTROL,             GAM_EN,       27, 25) \
F(CONTROL,             GA_LOG_EN,    28, 28) \
F(CONTROL,             GA_INT_EN,    29, 29) \
F(CONTROL,             NUM_INT_REMAP_MODE, 44, 43) \
F(CONTROL,             XT_EN,        50, 50) \
F(CONTROL,             INT_CAP_XT_EN, 51, 51) \
F(CONTROL,             GAPPI_EN,     55, 55) \
F(CONTROL,             IRT_CACHE_DIS, 59, 59) \
F(STATUS,              EVENT_OVERFLOW, 0, 0) \
F(STATUS,              EVENT_LOG_INT, 1,  1) \
F(STATUS,              COM_WAIT_INT,  2,  2) \
F(STATUS,              EVENT_LOG_RUN, 3,  3) \
F(STATUS,              CMD_BUF_RUN,   4,  4) \
F(STATUS,              GA_LOG_RUN,    8,  8) \
F(STATUS,              GA_OVERFLOW,   9,  9) \
F(STATUS,              GA_INT,       10, 10) \
F(XT,                  LOGICAL,       2,  2) \
F(XT,                  DEST_LOW,     31,  8) \
F(XT,                  VECTOR,       39, 32) \
F(XT,                  ARBITRATED,   40, 40) \
F(XT,                  DEST_HIGH,    63, 56) \
F(MSI,                 ENABLE,       16, 16) \
F(MSI,                 MULTIPLE,     22, 20) \
F(MSI_ADDRESS,         WINDOW,       31, 20) \
F(MSI_ADDRESS,         DEST,         19, 12) \
F(MSI_ADDRESS,         REDIRECT,      3,  3) \
F(MSI_ADDRESS,         DM,            2,  2) \
F(MSI_ADDRESS,         DEST_HIGH,    63, 40) \
F(MSI_DATA,            VECTOR,        7,  0) \
F(MSI_DATA,            MODE,         10,  8) \
F(MSI_DATA,            INDEX,        10,  0) \
F(MSI_DATA,            INDEX_512,     8,  0) \
F(MSI_DATA,            ASSERT,       14, 14) \
F(MSI_DATA,            LEVEL,        15, 15) \
F(HT,                  VECTOR,       23, 16) \
F(HT,                  DEST,         15,  8) \
F(HT,                  LOW,           7,  0) \
F(HT,                  DM,            6,  6) \
F(HT,                  LEVEL,         5,  5) \
F(HT,                  MT,            4,  2)

/*
 * MMIO registers of the interrupt path, 8 bytes each: offset, the feature that
 * it needs, what a write does, and which bits it can change. What is in no row,
 * or lacks its feature, reads 0. The PPR log is there to be initialised, and
 * never runs. [IOMMU 3.4 MMIO registers]
 */
#define IOMMU_REGS(X) \
/* name         offset  needs         write         writable */ \
X(DEVICE_TABLE, 0x0000, NOTHING,      PLAIN,        0x000ffffffffff1ff) \
X(COMMAND_BASE, 0x0008, NOTHING,      COMMAND_BASE, 0x0f0ffffffffff000) \
X(EVENT_BASE,   0x0010, NOTHING,      EVENT_BASE,   0x0f0ffffffffff000) \
X(CONTROL,      0x0018, NOTHING,      CONTROL,      0) \
X(EXCL_BASE,    0x0020, NOTHING,      PLAIN,        0x000ffffffffff003) \
X(EXCL_LIMIT,   0x0028, NOTHING,      PLAIN,        0x000ffffffffff000) \
X(EFR,          0x0030, NOTHING,      READ_ONLY,    0) \
X(PPR_BASE,     0x0038, NOTHING,      PLAIN,        0x0f0ffffffffff000) \
X(GA_BASE,      0x00e0, GAM,          GA_BASE,      0x0f0ffffffffff000) \
X(GA_TAIL_WORD, 0x00e8, GAM,          GA_TAIL_WORD, 0x000ffffffffffff8) \
X(MISC,         0x0150, MSI_CAP_MMIO, READ_ONLY,    0) \
X(MSI_CAP,      0x0158, MSI_CAP_MMIO, PLAIN,        0xfffffffc00710000) \
X(MSI_DATA,     0x0160, MSI_CAP_MMIO, PLAIN,        0x0000ffffffffffff) \
X(XT_EVENT,     0x0170, XT,           PLAIN,        0xff0001ffffffff04) \
X(XT_PPR,       0x0178, XT,           PLAIN,        0xff0001ffffffff04) \
X(XT_GA,        0x0180, XT,           PLAIN,        0xff0001ffffffff04) \
X(EFR2,         0x01a0, NOTHING,      READ_ONLY,    0) \
X(COMMAND_HEAD, 0x2000, NOTHING,      COMMAND_HEAD, 0x7fff0) \
X(COMMAND_TAIL, 0x2008, NOTHING,      COMMAND_TAIL, 0x7fff0) \
X(EVENT_HEAD,   0x2010, NOTHING,      EVENT_HEAD,   0x7fff0) \
X(EVENT_TAIL,   0x2018, NOTHING,      EVENT_TAIL,   0x7fff0) \
X(STATUS,       0x2020, NOTHING,      STATUS,       0) \
X(PPR_HEAD,     0x2030, NOTHING,      PLAIN,        0x7fff0) \
X(PPR_TAIL,     0x2038, NOTHING,      PLAIN,        0x7fff0) \
X(GA_HEAD,      0x2040, GAM,          GA_HEAD,      0x7fff8) \
X(GA_TAIL,      0x2048, GAM,          GA_TAIL,      0x7fff8)
/* clang-format on */

/* Bytes of the MMIO region. */
#define AE_IOMMU_MMIO_BYTES 0x4000u

/* EVENT_CODE. [IOMMU 2.5 event log] */
enum ae_iommu_event_code {
    AE_IOMMU_EVENT_BAD_DTE = 1,
    AE_IOMMU_EVENT_PAGE_FAULT = 2,
    AE_IOMMU_EVENT_DTE_HARDWARE = 3,
    AE_IOMMU_EVENT_TABLE_HARDWARE = 4,
    AE_IOMMU_EVENT_BAD_COMMAND = 5,
    AE_IOMMU_EVENT_COMMAND_HARDWARE = 6,
    AE_IOMMU_EVENT_BAD_REQUEST = 8,
};

/* COMMAND_OPCODE. [IOMMU 2.4 commands] */
enum ae_command {
    AE_COMMAND_COMPLETION_WAIT = 1,
    AE_COMMAND_INVALIDATE_DEVTAB = 2,
    AE_COMMAND_INVALIDATE_PAGES = 3,
    AE_COMMAND_INVALIDATE_IOTLB = 4,
    AE_COMMAND_INVALIDATE_INTERRUPTS = 5,
    AE_COMMAND_PREFETCH_PAGES = 6,
    AE_COMMAND_COMPLETE_PPR = 7,
    AE_COMMAND_INVALIDATE_ALL = 8,
};

#define AE_FIELD_ENUM(reg, field, high, low) \
    reg##_##field##_HIGH = (high), reg##_##field##_LOW = (low),
enum ae_lapic_field {
    LAPIC_FIELDS(AE_FIELD_ENUM) AE_LAPIC_FIELD_END
};
enum ae_avic_field {
    AVIC_FIELDS(AE_FIELD_ENUM) AE_AVIC_FIELD_END
};
enum ae_iommu_field {
    IOMMU_FIELDS(AE_FIELD_ENUM) AE_IOMMU_FIELD_END
};
#undef AE_FIELD_ENUM

#define AE_IOMMU_REG_ENUM(name, offset, needs, write, writable) AE_IOMMU_##name,
enum ae_iommu_reg {
    IOMMU_REGS(AE_IOMMU_REG_ENUM) AE_NR_IOMMU_REGS
};
#undef AE_IOMMU_REG_ENUM

/* Value of a field of a register value, and a value placed into the field. */
#define AE_GET(value, field) \
    ((uint32_t)ae_field_get((value), field##_HIGH, field##_LOW))
#define AE_MASK(field)                                                \
    ((uint32_t)(ae_field_get(~(uint64_t)0, field##_HIGH, field##_LOW) \
                << field##_LOW))
/* The same for a 64-bit word; a constant expression. */
#define AE_MASK64(field) \
    (~(uint64_t)0 >> (63 - field##_HIGH) & ~(uint64_t)0 << field##_LOW)

#define AE_REG_ENUM(name, off, n, ...) LAPIC_##name = (off),
enum ae_lapic_offset {
    LAPIC_REGS(AE_REG_ENUM) LAPIC_PAGE_BYTES = 4096
};
#undef AE_REG_ENUM

/* Errors in the ESR. [APM2 16.4.6 Fig 16-9], [SDM3 10.5.3] */
#define LAPIC_ESR_SEND_ILLEGAL     0x20u
#define LAPIC_ESR_RECEIVE_ILLEGAL  0x40u
#define LAPIC_ESR_ILLEGAL_REGISTER 0x80u

/* LVT timer modes, bits 18:17. [SDM3 10.5.4] */
enum ae_timer_mode {
    AE_TIMER_ONE_SHOT,
    AE_TIMER_PERIODIC,
    AE_TIMER_DEADLINE,
    AE_TIMER_RESERVED,
};

/* GA_ENTRY_TYPE: the vCPU is not running. Other codes are undefined. */
#define AE_GA_GUEST_NR 1u

/* ICR destination shorthands. [APM2 16.5] */
enum ae_shorthand {
    AE_DSH_NONE,
    AE_DSH_SELF,
    AE_DSH_ALL,
    AE_DSH_OTHERS,
};

#define AE_APIC_DEFAULT_BASE 0xfee00000ull
#define AE_XAPIC_BROADCAST   0xffu
#define AE_X2APIC_BROADCAST  0xffffffffu
#define AE_MSR_APIC_BASE     0x1bu
#define AE_MSR_TSC_DEADLINE  0x6e0u
#define AE_MSR_X2APIC_FIRST  0x800u
#define AE_MSR_X2APIC_LAST   0x8ffu
#define AE_MAX_SLOTS         256u

/* One row of the table, as it stands above. */
struct ae_reg_desc {
    const char *name;
    uint16_t offset;
    uint8_t nr_slots;
    uint8_t xapic, xapic_vendors;   /* enum ae_reg_access, LAPIC_* */
    uint8_t x2apic, x2apic_vendors; /* likewise */
    uint32_t need;
    uint32_t sticks[3];   /* by enum avicemu_personality */
    uint64_t reserved[3]; /* likewise */
    uint32_t opt, opt_need;
    uint32_t reset;
    uint8_t keep_on_init;
    uint8_t handler; /* enum ae_reg_handler */
};

extern const struct ae_reg_desc ae_lapic_regs[];
extern const unsigned ae_nr_lapic_regs;

/* The row that covers a byte offset (multiple of 16), or NULL. */
const struct ae_reg_desc *
ae_reg_find(uint32_t offset);

#endif
