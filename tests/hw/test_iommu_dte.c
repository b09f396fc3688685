/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of one interrupt, by device table, kind and index: every way out
 * and the event that it leaves. [IOMMU 2.2.2 device table], [IOMMU 2.2.5
 * interrupt remapping tables], [IOMMU 2.5 event log]
 */

#include "iommu_rig.h"

#define V             AVICEMU_HW_POSTED /* the row's outcome, in short */
#define R             AVICEMU_HW_REMAPPED
#define F             AVICEMU_HW_FORWARDED
#define A             AVICEMU_HW_ABORTED
#define N             AVICEMU_HW_NO_REQUEST
#define REMAP         (RIG_RAM + 4 * RIG_PAGE + (2ull << 60) + (9u << 1) + 1)
#define NO_CTL        (REMAP & ~(3ull << 60))
#define REMAPPED_LOW  0x8501ull /* fixed, physical, 85h */
#define REMAPPED_HIGH 0x41ull
#define GUEST_LOW     0x00003007000085c1ull
#define GUEST_HIGH    (RIG_RAM + RIG_A * RIG_PAGE + 0x41)
#define FD            0xfffffffdf8000000ull

struct row {
    const char *name;
    uint64_t clear, set; /* of the control register */
    uint64_t dte2;
    uint64_t low, high; /* of the entry at index */
    uint32_t index;     /* of 16 bytes; 4 where GAEn is cleared */
    uint64_t address;
    uint32_t data;
    enum avicemu_hw_outcome outcome;
    uint64_t event; /* [63:32], 0: none */
    uint64_t event_address;
};

#define DOMAIN 0x55u

static const struct row rows[] = {
    { "a fixed MSI is remapped", 0, 0, REMAP, REMAPPED_LOW, REMAPPED_HIGH, 5,
      RIG_FEE, 5, R, 0, 0 },
    { "guest mode is posted", 0, 0, REMAP, GUEST_LOW, GUEST_HIGH, 5, RIG_FEE, 5,
      V, 0, 0 },
    { "data 1xxh is still an index below 512", 0, 0, REMAP, GUEST_LOW,
      GUEST_HIGH, 0x1ff, RIG_FEE, 0x1ff, V, 0, 0 },
    { "IommuEn 0: forwarded", AVICEMU_CONTROL_IOMMU_EN, 0, REMAP, GUEST_LOW,
      GUEST_HIGH, 5, RIG_FEE, 5, F, 0, 0 },
    { "IV 0: forwarded", 0, 0, REMAP & ~1ull, GUEST_LOW, GUEST_HIGH, 5, RIG_FEE,
      5, F, 0, 0 },
    { "IntCtl 0: aborted, INVALID_DEVICE_REQUEST type 5", 0, 0, NO_CTL, 0, 0, 0,
      RIG_FEE, 3, A, 0x8a000000, FD | 0x30000 },
    { "IntCtl 1: forwarded", 0, 0, NO_CTL | 1ull << 60, GUEST_LOW, GUEST_HIGH,
      5, RIG_FEE, 5, F, 0, 0 },
    { "IntCtl 3: bad encoding", 0, 0, NO_CTL | 3ull << 60, 0, 0, 0, RIG_FEE, 5,
      A, 0x10080000, FD | 0x50000 },
    { "IntTabLen 12: bad encoding", 0, 0, REMAP - (9u << 1) + (12u << 1), 0, 0,
      0, RIG_FEE, 5, A, 0x10080000, FD | 0x50000 },
    { "a reserved bit of the DTE", 0, 0, REMAP | 1ull << 53, 0, 0, 0, RIG_FEE,
      5, A, 0x10880000, FD | 0x50000 },
    { "a table that is not 128-byte aligned", 0, 0, REMAP | 1u << 6, 0, 0, 0,
      RIG_FEE, 5, A, 0x10880000, FD | 0x50000 },
    { "RemapEn 0: IO_PAGE_FAULT", 0, 0, REMAP, 0, 0, 5, RIG_FEE, 5, A,
      0x20080055, FD | 0x50000 },
    { "RemapEn 0 with SupIOPF: no event", 0, 0, REMAP, 2, 0, 5, RIG_FEE, 5, A,
      0, 0 },
    { "RemapEn 0 with IG: no event", 0, 0, REMAP | 1u << 5, 0, 0, 5, RIG_FEE, 5,
      A, 0, 0 },
    { "all ones but RemapEn: not present, no reserved bits", 0, 0, REMAP,
      0xfffffffffffffffe, UINT64_MAX, 5, RIG_FEE, 5, A, 0, 0 },
    { "a reserved bit of the entry: PR and RZ", 0, 0, REMAP,
      REMAPPED_LOW | 1ull << 40, REMAPPED_HIGH, 5, RIG_FEE, 5, A, 0x20980055,
      FD | 0x50000 },
    { "a reserved IntType", 0, 0, REMAP, REMAPPED_LOW | 2u << 2, REMAPPED_HIGH,
      5, RIG_FEE, 5, A, 0x20980055, FD | 0x50000 },
    { "guest mode without GAMEn", AVICEMU_CONTROL_GAM_EN, 0, REMAP, GUEST_LOW,
      GUEST_HIGH, 5, RIG_FEE, 5, A, 0x20980055, FD | 0x50000 },
    { "32 destination bits without XTEn", 0, 0, REMAP, REMAPPED_LOW | 1u << 16,
      REMAPPED_HIGH, 5, RIG_FEE, 5, A, 0x20980055, FD | 0x50000 },
    { "32 destination bits with XTEn", 0, AVICEMU_CONTROL_XT_EN, REMAP,
      REMAPPED_LOW | 1u << 16, REMAPPED_HIGH, 5, RIG_FEE, 5, R, 0, 0 },
    { "an index beyond IntTabLen", 0, 0, REMAP - (9u << 1) + (2u << 1), 0, 0, 0,
      RIG_FEE, 5, A, 0x20080055, FD | 0x50000 },
    { "the last index of IntTabLen", 0, 0, REMAP - (9u << 1) + (2u << 1),
      GUEST_LOW, GUEST_HIGH, 3, RIG_FEE, 3, V, 0, 0 },
    { "no memory where the entry is", 0, 0, REMAP + 0x100000000ull, 0, 0, 0,
      RIG_FEE, 5, A, 0x42080055,
      RIG_RAM + 4 * RIG_PAGE + 0x100000000ull + 5 * 16 },
    { "no memory where the page is", 0, 0, REMAP, GUEST_LOW,
      0x7000000000ull | 0x41, 5, RIG_FEE, 5, A, 0x42080055, 0x7000000000ull },
    { "a page beyond the physical width", 0, 0, REMAP, GUEST_LOW,
      0x8000000000000ull | 0x41, 5, RIG_FEE, 5, A, 0x42080055,
      0x8000000000000ull },
    { "an encryption bit in the table's address is cut off", 0, 0,
      REMAP | 1ull << 51, GUEST_LOW, GUEST_HIGH, 5, RIG_FEE, 5, V, 0, 0 },
    { "32-bit entries", AVICEMU_CONTROL_GA_EN, 0, REMAP, 0x00418501, 0, 0,
      RIG_FEE, 0, R, 0, 0 },
    { "a 32-bit entry with GuestMode", AVICEMU_CONTROL_GA_EN, 0, REMAP,
      0x00418581, 0, 0, RIG_FEE, 0, A, 0x20980055, FD },
    /* Kinds, by delivery mode; vector 9: NMI 4, INIT 5, ExtINT 7, SMI 2. */
    { "an SMI is forwarded", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x209, F, 0, 0 },
    { "a logical SMI is blocked", 0, 0, REMAP, 0, 0, 0, RIG_FEE | 4, 0x209, A,
      0x20080055, FD | 0x90048 },
    { "delivery mode 3 is blocked", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x309, A,
      0x20080055, FD | 0x9000c },
    { "delivery mode 6 is blocked", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x609, A,
      0x20080055, FD | 0x90018 },
    { "NMI without NMIPass", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x409, A,
      0x20080055, FD | 0x90010 },
    { "NMI with NMIPass", 0, 0, REMAP | 1ull << 58, 0, 0, 0, RIG_FEE, 0x409, F,
      0, 0 },
    { "a logical NMI with NMIPass", 0, 0, REMAP | 1ull << 58, 0, 0, 0,
      RIG_FEE | 4, 0x409, A, 0x20080055, FD | 0x90050 },
    { "NMI with the other pass bits", 0, 0, REMAP | 3ull << 56 | 3ull << 62, 0,
      0, 0, RIG_FEE, 0x409, A, 0x20080055, FD | 0x90010 },
    { "INIT without INITPass", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x509, A,
      0x20080055, FD | 0x90014 },
    { "INIT with INITPass", 0, 0, REMAP | 1ull << 56, 0, 0, 0, RIG_FEE, 0x509,
      F, 0, 0 },
    { "ExtINT without EIntPass", 0, 0, REMAP, 0, 0, 0, RIG_FEE, 0x709, A,
      0x20080055, FD | 0x9001c },
    { "ExtINT with EIntPass", 0, 0, REMAP | 1ull << 57, 0, 0, 0, RIG_FEE, 0x709,
      F, 0, 0 },
    { "a blocked kind with IG: no event", 0, 0, REMAP | 1u << 5, 0, 0, 0,
      RIG_FEE, 0x409, A, 0, 0 },
    /* HyperTransport's form. */
    { "HT: fixed, vector 5 is the index", 0, 0, REMAP, GUEST_LOW, GUEST_HIGH, 5,
      0xfdf8050000, 0, V, 0, 0 },
    { "HT: arbitrated is index 100h on", 0, 0, REMAP, GUEST_LOW, GUEST_HIGH,
      0x105, 0xfdf8050004, 0, V, 0, 0 },
    { "HT: LINT0 without Lint0Pass", 0, 0, REMAP, 0, 0, 0, 0xfdf800ff98, 0, A,
      0x20080055, 0xfffffffdf800ff98 },
    { "HT: LINT0 with Lint0Pass", 0, 0, REMAP | 1ull << 62, 0, 0, 0,
      0xfdf800ff98, 0, F, 0, 0 },
    { "HT: LINT1 with Lint1Pass", 0, 0, REMAP | 1ull << 63, 0, 0, 0,
      0xfdf800ff8c, 0, F, 0, 0 },
    { "HT: a start-up message is blocked", 0, 0, REMAP, 0, 0, 0, 0xfdf8090014,
      0, A, 0x20080055, FD | 0x90014 },
    { "HT: NMI with NMIPass", 0, 0, REMAP | 1ull << 58, 0, 0, 0, 0xfdf809000c,
      0, F, 0, 0 },
    /* 2K mode. */
    { "2K, DM 1: 400h is an index", 0, AVICEMU_CONTROL_2K,
      REMAP - (9u << 1) + (11u << 1), GUEST_LOW, GUEST_HIGH, 0x400, RIG_FEE | 4,
      0x400, V, 0, 0 },
    { "2K, DM 1: the last one", 0, AVICEMU_CONTROL_2K,
      REMAP - (9u << 1) + (11u << 1), GUEST_LOW, GUEST_HIGH, 0x7ff, RIG_FEE | 4,
      0x7ff, V, 0, 0 },
    { "2K, DM 0: 400h is an NMI", 0, AVICEMU_CONTROL_2K,
      REMAP - (9u << 1) + (11u << 1), 0, 0, 0, RIG_FEE, 0x400, A, 0x20080055,
      FD | 0x10 },
    { "512 mode: 400h is an NMI, DM or not", 0, 0,
      REMAP - (9u << 1) + (11u << 1), 0, 0, 0, RIG_FEE | 4, 0x400, A,
      0x20080055, FD | 0x50 },
    { "address bits other than 2 do not count", 0, 0, REMAP, GUEST_LOW,
      GUEST_HIGH, 5, 0xfeeffff8, 5, V, 0, 0 },
    /* No interrupts. */
    { "an address below the window", 0, 0, REMAP, 0, 0, 0, 0xfedfffff, 5, N, 0,
      0 },
    { "an address above the window", 0, 0, REMAP, 0, 0, 0, 0xfef00000, 5, N, 0,
      0 },
    { "a high address", 0, 0, REMAP, 0, 0, 0, 0x1fee00000, 5, N, 0, 0 },
};

static void
row_test(void **state)
{
    const struct row *row = *state;
    void *opened = NULL;
    struct avicemu_hw_msi msi;
    uint64_t low, high = 0;

    assert_int_equal(rig_setup(&opened), 0);
    struct rig *rig = opened;

    rig_disable(rig, row->clear);
    rig_enable(rig, row->set);
    rig_dte(rig, row->dte2);
    rig_irte(rig, row->index, row->low, row->high);
    msi = rig_msi(rig, row->address, row->data);
    assert_int_equal(msi.outcome, row->outcome);
    low = rig_event(rig, &high);
    assert_int_equal(low >> 32, row->event);
    if (row->event != 0) {
        assert_int_equal(low & 0xffffffff, RIG_DEVICE);
        assert_int_equal(high, row->event_address);
        assert_int_equal(msi.fault, row->event >> 28);
        assert_int_equal(rig->signals, AVICEMU_SIGNAL_EVENT);
    }
    assert_int_equal(rig_irr(rig, RIG_A, 0x41), row->outcome == V);
    assert_int_equal(rig->bells[0x85].rung, row->outcome == V);
    (void)rig_teardown(&opened);
}

/* Every reserved length, and every legal one with its bound. */
static void
test_lengths(void **state)
{
    struct rig *rig = *state;

    rig_enable(rig, AVICEMU_CONTROL_2K);
    for (unsigned n = 0; n < 16; n++) {
        uint32_t last = (1u << n) - 1;

        rig_dte(rig, rig_dte_remap(n));
        if (n > 11) {
            assert_int_equal(rig_msi(rig, RIG_FEE | 4, 0).fault, 1);
            continue;
        }
        rig_guest(rig, last, RIG_A, 1, 0);
        assert_int_equal(rig_msi(rig, RIG_FEE | 4, last).outcome, V);
        rig_irte(rig, last, 0, 0);
        if (n < 11) {
            assert_int_equal(rig_msi(rig, RIG_FEE | 4, last + 1).fault, 2);
        }
    }
}

/* Beyond the device table; and V 0, and no memory there. */
static void
test_device_table(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi = { .size = sizeof(msi) };
    uint64_t high = 0;

    (void)avicemu_hw_iommu_msi(rig->iommu, 0x200, RIG_FEE, 5, &msi);
    assert_int_equal(msi.fault, 1);
    assert_int_equal(rig_event(rig, &high), 0x1008000000000200ull);
    (void)avicemu_hw_iommu_msi(rig->iommu, 0x1ff, RIG_FEE | 0x7f000, 0x5a,
                               &msi);
    assert_int_equal(msi.outcome, AVICEMU_HW_FORWARDED);
    assert_int_equal(msi.message.vector, 0x5a);
    assert_int_equal(msi.message.dest, 0x7f);
    rig_write(rig, AVICEMU_IOMMU_DEVICE_TABLE, 0x900000000ull | 0x1ff);
    (void)avicemu_hw_iommu_msi(rig->iommu, 0xffff, RIG_FEE, 5, &msi);
    assert_int_equal(msi.fault, 3);
    assert_int_equal(rig_event(rig, &high), 0x320800000000ffffull);
    assert_int_equal(high, 0x900000000ull + 0xffffull * 32);
}

/* HyperTransport's types, not remapped: as MSIs have them, and always one that
 * the public enum has. */
static void
test_ht_forwarded(void **state)
{
    static const enum avicemu_delivery modes[8] = {
        AVICEMU_DELIVERY_FIXED,  AVICEMU_DELIVERY_LOWEST,
        AVICEMU_DELIVERY_SMI,    AVICEMU_DELIVERY_NMI,
        AVICEMU_DELIVERY_INIT,   AVICEMU_DELIVERY_SIPI,
        AVICEMU_DELIVERY_EXTINT, AVICEMU_DELIVERY_REMOTE_READ,
    };
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_IOMMU_EN);
    for (unsigned type = 0; type < 8; type++) {
        struct avicemu_hw_msi msi =
            rig_msi(rig, 0xfdf8a57f60 | (uint64_t)type << 2, 0);

        assert_int_equal(msi.outcome, F);
        assert_int_equal(msi.message.mode, modes[type]);
        assert_int_equal(msi.message.vector, 0xa5);
        assert_int_equal(msi.message.dest, 0x7f);
        assert_int_equal(msi.message.logical, 1);
        assert_int_equal(msi.message.level, 1);
    }
}

/* The message of a remapped entry. */
static void
test_remapped(void **state)
{
    struct rig *rig = *state;
    struct avicemu_hw_msi msi;

    rig_enable(rig, AVICEMU_CONTROL_XT_EN);
    rig_irte(rig, 5, 0x8545, 0x0100000000000041ull);
    msi = rig_msi(rig, RIG_FEE, 5);
    assert_int_equal(msi.outcome, R);
    assert_int_equal(msi.message.dest, 0x1000085);
    assert_int_equal(msi.message.vector, 0x41);
    assert_int_equal(msi.message.mode, AVICEMU_DELIVERY_LOWEST);
    assert_int_equal(msi.message.logical, 1);
}

int
main(void)
{
    enum {
        NR = sizeof(rows) / sizeof(rows[0])
    };
    static struct CMUnitTest tests[NR];
    const struct CMUnitTest more[] = {
        cmocka_unit_test_setup_teardown(test_lengths, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_device_table, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_ht_forwarded, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_remapped, rig_setup, rig_teardown),
    };

    for (unsigned i = 0; i < NR; i++) {
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = row_test,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    return r + cmocka_run_group_tests(more, NULL, NULL);
}
