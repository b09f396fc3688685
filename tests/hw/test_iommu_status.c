/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The status register: what sets each bit, what clears it, and when a bit and
 * its enable make a signal. [IOMMU 3.4 MMIO registers]
 */

#include "iommu_rig.h"

#define WAIT_INTERRUPT (1ull << 60 | 2)
#define NO_ENTRY       9u /* index of an entry that is not present */
#define BLOCKED        5u /* of one whose vCPU blocks */
/* All that software clears, and CmdBufRun: both logs have stopped. */
#define ALL                                                         \
    (AVICEMU_STATUS_EVENT_OVERFLOW | AVICEMU_STATUS_EVENT_LOG_INT | \
     AVICEMU_STATUS_COM_WAIT_INT | AVICEMU_STATUS_GA_OVERFLOW |     \
     AVICEMU_STATUS_GA_INT | AVICEMU_STATUS_CMD_BUF_RUN)
#define RUNS                                                     \
    (AVICEMU_STATUS_EVENT_LOG_RUN | AVICEMU_STATUS_CMD_BUF_RUN | \
     AVICEMU_STATUS_GA_LOG_RUN)

static uint64_t
status(struct rig *rig)
{
    return rig_read(rig, AVICEMU_IOMMU_STATUS);
}

static void
write_half(struct rig *rig, uint32_t offset, uint64_t value)
{
    assert_int_equal(avicemu_hw_iommu_write(rig->iommu, offset, 4, value, NULL),
                     0);
}

/* ---- setting and clearing ----------------------------------------------- */

static void
set_all(struct rig *rig)
{
    rig_guest(rig, BLOCKED, RIG_A, 0, 1);
    for (unsigned i = 0; i < 512; i++) {
        (void)rig_msi(rig, RIG_FEE, NO_ENTRY);
        (void)rig_msi(rig, RIG_FEE, BLOCKED);
    }
    rig_command(rig, WAIT_INTERRUPT, 0);
    assert_int_equal(status(rig), ALL);
}

struct clear {
    const char *name;
    uint64_t value; /* written */
    uint64_t left;  /* of ALL */
};

#define CLEARS(bit)                                            \
    {                                                          \
        "1 to " #bit " clears it alone", AVICEMU_STATUS_##bit, \
            ALL & ~AVICEMU_STATUS_##bit                        \
    }

static const struct clear clears[] = {
    CLEARS(EVENT_OVERFLOW),
    CLEARS(EVENT_LOG_INT),
    CLEARS(COM_WAIT_INT),
    CLEARS(GA_OVERFLOW),
    CLEARS(GA_INT),
    { "0 clears nothing", 0, ALL },
    { "1 to a run bit does nothing", RUNS, ALL },
    { "1 to a bit of the PPR log does nothing", 0x78860, ALL },
    { "1 to a reserved bit does nothing", ~0x7ffffull, ALL },
    { "vector 6: 7FFh clears all five", 0x7ff, AVICEMU_STATUS_CMD_BUF_RUN },
};

static void
clear_test(void **state)
{
    const struct clear *c = *state;

    for (unsigned bytes = 4; bytes <= 8; bytes += 4) {
        void *opened = NULL;

        assert_int_equal(rig_setup(&opened), 0);
        struct rig *rig = opened;

        set_all(rig);
        /* The upper half has no bit; it must not act on the lower one. */
        write_half(rig, AVICEMU_IOMMU_STATUS + 4, UINT32_MAX);
        assert_int_equal(status(rig), ALL);
        assert_int_equal(avicemu_hw_iommu_write(rig->iommu,
                                                AVICEMU_IOMMU_STATUS, bytes,
                                                c->value, NULL),
                         0);
        assert_int_equal(status(rig), c->left);
        (void)rig_teardown(&opened);
    }
}

/* Rings that run still do, whatever is written. */
static void
test_runs(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(status(rig), RUNS);
    rig_write(rig, AVICEMU_IOMMU_STATUS, UINT64_MAX);
    assert_int_equal(status(rig), RUNS);
    rig_disable(rig, AVICEMU_CONTROL_CMD_BUF_EN);
    assert_int_equal(status(rig), RUNS & ~AVICEMU_STATUS_CMD_BUF_RUN);
    rig_write(rig, AVICEMU_IOMMU_STATUS, UINT64_MAX);
    assert_int_equal(status(rig), RUNS & ~AVICEMU_STATUS_CMD_BUF_RUN);
}

/* ---- signals ------------------------------------------------------------ */

struct edge {
    const char *name;
    uint64_t bit, enable;
    uint32_t signal;
};

static const struct edge edges[] = {
    { "EventLogInt signals at its edge", AVICEMU_STATUS_EVENT_LOG_INT,
      AVICEMU_CONTROL_EVENT_INT_EN, AVICEMU_SIGNAL_EVENT },
    { "ComWaitInt signals at its edge", AVICEMU_STATUS_COM_WAIT_INT,
      AVICEMU_CONTROL_COM_WAIT_INT_EN, AVICEMU_SIGNAL_EVENT },
    { "GAInt signals at its edge", AVICEMU_STATUS_GA_INT,
      AVICEMU_CONTROL_GA_INT_EN, AVICEMU_SIGNAL_GA },
};

/* Signals since the last call. */
static uint32_t
signals(struct rig *rig)
{
    uint32_t is = rig->signals;

    rig->signals = 0;
    return is;
}

/* What sets the bit, once. */
static void
cause(struct rig *rig, const struct edge *e)
{
    if (e->bit == AVICEMU_STATUS_EVENT_LOG_INT) {
        (void)rig_msi(rig, RIG_FEE, NO_ENTRY);
    } else if (e->bit == AVICEMU_STATUS_GA_INT) {
        (void)rig_msi(rig, RIG_FEE, BLOCKED);
    } else {
        rig_command(rig, WAIT_INTERRUPT, 0);
    }
    assert_int_equal(status(rig) & e->bit, e->bit);
}

static void
edge_test(void **state)
{
    const struct edge *e = *state;
    void *opened = NULL;

    assert_int_equal(rig_setup(&opened), 0);
    struct rig *rig = opened;

    rig_guest(rig, BLOCKED, RIG_A, 0, 1);
    /* Only this enable, so that no other bit can be taken for it. */
    rig_disable(rig, AVICEMU_CONTROL_EVENT_INT_EN | AVICEMU_CONTROL_GA_INT_EN);
    rig_enable(rig, e->enable);
    assert_int_equal(signals(rig), 0);
    cause(rig, e);
    assert_int_equal(signals(rig), e->signal);
    cause(rig, e);
    assert_int_equal(signals(rig), 0);
    /* The same enable written again is no edge. */
    rig_enable(rig, e->enable);
    assert_int_equal(signals(rig), 0);
    /* Clearing is none, the next cause is. */
    rig_write(rig, AVICEMU_IOMMU_STATUS, e->bit);
    assert_int_equal(signals(rig), 0);
    cause(rig, e);
    assert_int_equal(signals(rig), e->signal);
    /* Falling is none; rising with the bit set is. */
    rig_disable(rig, e->enable);
    assert_int_equal(signals(rig), 0);
    rig_enable(rig, e->enable);
    assert_int_equal(signals(rig), e->signal);
    /* The bit is set whatever the enable is, and asks it only then. */
    rig_disable(rig, e->enable);
    rig_write(rig, AVICEMU_IOMMU_STATUS, e->bit);
    cause(rig, e);
    assert_int_equal(signals(rig), 0);
    rig_write(rig, AVICEMU_IOMMU_STATUS, e->bit);
    rig_enable(rig, e->enable);
    assert_int_equal(signals(rig), 0);
    (void)rig_teardown(&opened);
}

/* Both of the event signal's sources by one write of control: one signal. */
static void
test_both(void **state)
{
    struct rig *rig = *state;

    rig_disable(rig, AVICEMU_CONTROL_EVENT_INT_EN);
    (void)rig_msi(rig, RIG_FEE, NO_ENTRY);
    rig_command(rig, WAIT_INTERRUPT, 0);
    assert_int_equal(signals(rig), 0);
    rig_enable(rig,
               AVICEMU_CONTROL_EVENT_INT_EN | AVICEMU_CONTROL_COM_WAIT_INT_EN);
    assert_int_equal(signals(rig), AVICEMU_SIGNAL_EVENT);
}

int
main(void)
{
    enum {
        NR_CLEARS = sizeof(clears) / sizeof(clears[0]),
        NR_EDGES = sizeof(edges) / sizeof(edges[0])
    };
    static struct CMUnitTest tests[NR_CLEARS + NR_EDGES];
    const struct CMUnitTest more[] = {
        cmocka_unit_test_setup_teardown(test_runs, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_both, rig_setup, rig_teardown),
    };

    for (unsigned i = 0; i < NR_CLEARS; i++) {
        tests[i] = (struct CMUnitTest){
            .name = clears[i].name,
            .test_func = clear_test,
            .initial_state = (void *)(uintptr_t)&clears[i],
        };
    }
    for (unsigned i = 0; i < NR_EDGES; i++) {
        tests[NR_CLEARS + i] = (struct CMUnitTest){
            .name = edges[i].name,
            .test_func = edge_test,
            .initial_state = (void *)(uintptr_t)&edges[i],
        };
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    return r + cmocka_run_group_tests(more, NULL, NULL);
}
