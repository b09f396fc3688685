/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AVIC core's hardware face. Each call, and each step, is one read-side
 * section, so that memory may be removed between any two steps.
 *
 * A null or misaligned VMCB, a struct of a smaller size and an unknown kind of
 * access are the host programmer's errors: MODE, nothing done.
 */

#include <string.h>

#include <avicemu/hw/core.h>

#include "api/check.h"
#include "api/hw_memory.h"
#include "base/rcu.h"
#include "hw/avic.h"

#define CORE_FEATURES                                                       \
    (AVICEMU_CORE_X2AVIC | AVICEMU_CORE_X2AVIC_EXT | AVICEMU_CORE_EXT_LVT | \
     AVICEMU_CORE_ERRATUM_1235 | AVICEMU_CORE_HIGH_ALLOWED)
#define CORE_FLAGS (AVICEMU_CORE_IF | AVICEMU_CORE_SHADOW | AVICEMU_CORE_GIF)

struct avicemu_core {
    struct ae_core core;
    struct ae_avic_hw hw;
    struct ae_lapic_model model;
};

static_assert(alignof(struct avicemu_core) <= AVICEMU_CORE_ALIGN,
              "more than the caller was told");
static_assert(sizeof(struct ae_core_op) <=
                  sizeof(((struct avicemu_core_op *)NULL)->state),
              "the engine's state must fit");
static_assert(sizeof(struct avicemu_doorbell) == AE_CACHE_LINE,
              "doorbells share no line");

/* ---- tables ------------------------------------------------------------- */

int
avicemu_hw_logical_index(uint32_t dfr, uint8_t ldr)
{
    int index = ae_logical_index(dfr, ldr);

    return index >= 0 ? index : -ENOENT;
}

unsigned
avicemu_hw_physical_pages(uint32_t max_index)
{
    return ae_physical_pages(max_index);
}

/* ---- life --------------------------------------------------------------- */

/* Resolve what silicon it is; false: a field is out of range. */
static bool
silicon_make(const struct avicemu_core_config *config, struct ae_avic_hw *hw,
             struct ae_lapic_model *model, const struct ae_mem *mem)
{
    uint32_t maxphyaddr = config->maxphyaddr != 0 ? config->maxphyaddr : 48;
    uint64_t value;

    if ((config->features & ~CORE_FEATURES) != 0 || maxphyaddr < 32 ||
        maxphyaddr > 52 ||
        ae_lapic_model_init(model, &config->lapic, &value) != NULL) {
        return false;
    }
    ae_avic_hw_init(hw, model, mem, config->features, maxphyaddr);
    return true;
}

static bool
doorbells_ok(const struct avicemu_core_config *config)
{
    return config->nr_doorbells == 0 ||
           (config->doorbells != NULL &&
            (uintptr_t)config->doorbells % AE_CACHE_LINE == 0);
}

size_t
avicemu_core_bytes(void)
{
    return sizeof(struct avicemu_core);
}

int
avicemu_core_init(void *memory, const struct avicemu_core_config *config,
                  struct avicemu_core **ret_core)
{
    struct avicemu_core_config c;
    struct ae_lapic_model model;
    struct ae_avic_hw hw;
    struct avicemu_core *core = memory;

    AE_CHECK(memory != NULL && config != NULL && ret_core != NULL, -EINVAL);
    AE_CHECK((uintptr_t)memory % AVICEMU_CORE_ALIGN == 0, -EINVAL);
    AE_CHECK(ae_config_copy(&c, sizeof(c), config), -EINVAL);
    AE_CHECK(c.memory != NULL && doorbells_ok(&c), -EINVAL);
    AE_CHECK(c.host_apic_id <= AE_MASK64(PHYSICAL_HOST_ID), -EINVAL);
    AE_CHECK(silicon_make(&c, &hw, &model, &c.memory->mem), -EINVAL);
    *core = (struct avicemu_core){ .hw = hw, .model = model };
    core->hw.model = &core->model;
    core->hw.bells.at = c.doorbells;
    core->hw.bells.nr = c.nr_doorbells;
    core->core.hw = &core->hw;
    core->core.host_apic_id = c.host_apic_id;
    *ret_core = core;
    return 0;
}

/* ---- modes -------------------------------------------------------------- */

enum avicemu_core_result
avicemu_core_vmrun(struct avicemu_core *core, void *vmcb, int *vector)
{
    struct ae_core *c = &core->core;
    int delivered = -1;

    AE_CHECK(!c->guest && vmcb != NULL && (uintptr_t)vmcb % AE_PAGE == 0,
             AVICEMU_CORE_MODE);
    ae_rcu_enter();
    c->vmcb = vmcb;
    if (ae_core_latch(c)) {
        /* A ring in host mode was unheard; what it told of is seen now. */
        (void)ae_bells_rung(&c->hw->bells, c->host_apic_id);
        delivered = ae_core_evaluate(c);
    }
    ae_rcu_leave();
    if (vector != NULL) {
        *vector = delivered;
    }
    return c->guest ? AVICEMU_CORE_DONE : AVICEMU_CORE_EXIT;
}

enum avicemu_core_result
avicemu_core_exit(struct avicemu_core *core, uint64_t code)
{
    AE_CHECK(core->core.guest, AVICEMU_CORE_MODE);
    ae_rcu_enter();
    ae_core_exit(&core->core, code, 0, 0);
    ae_rcu_leave();
    return AVICEMU_CORE_EXIT;
}

int
avicemu_core_in_guest(const struct avicemu_core *core)
{
    return core->core.guest ? 1 : 0;
}

int
avicemu_core_set_flags(struct avicemu_core *core, uint32_t flags)
{
    AE_CHECK(core->core.guest, -1);
    core->core.flags = flags & CORE_FLAGS;
    core->core.injecting = false;
    ae_rcu_enter();
    int vector = ae_core_evaluate(&core->core);

    ae_rcu_leave();
    return vector;
}

int
avicemu_core_look(struct avicemu_core *core)
{
    AE_CHECK(core->core.guest, -1);
    ae_rcu_enter();
    int vector = ae_core_look(&core->core);

    ae_rcu_leave();
    return vector;
}

void
avicemu_core_ring(struct avicemu_core *core, uint32_t host_apic_id)
{
    ae_bells_ring(&core->hw.bells, host_apic_id);
}

void
avicemu_core_map_apic(struct avicemu_core *core, int mapped)
{
    core->core.unmapped = mapped == 0;
}

/* ---- accesses ----------------------------------------------------------- */

static bool
access_ok(const struct avicemu_core *core, const struct avicemu_core_access *a)
{
    return core->core.guest && a != NULL && a->size >= sizeof(*a);
}

static bool
op_ok(const struct avicemu_core_op *op)
{
    return op != NULL && op->size >= sizeof(*op);
}

/* The engine's state; false: nothing is under way on this core. */
static bool
op_load(const struct avicemu_core *core, const struct avicemu_core_op *op,
        struct ae_core_op *engine)
{
    if (!core->core.guest || !op_ok(op)) {
        return false;
    }
    memcpy(engine, op->state, sizeof(*engine));
    return engine->ipi.hw == &core->hw;
}

static void
op_store(struct avicemu_core_op *op, const struct ae_core_op *engine)
{
    memcpy(op->state, engine, sizeof(*engine));
}

static enum avicemu_core_event
engine_step(struct ae_core_op *engine)
{
    ae_rcu_enter();
    enum avicemu_core_event event = ae_core_step(engine);

    ae_rcu_leave();
    return event;
}

enum avicemu_core_result
avicemu_core_access(struct avicemu_core *core, struct avicemu_core_access *a)
{
    struct ae_core_op op;

    AE_CHECK(access_ok(core, a), AVICEMU_CORE_MODE);
    ae_rcu_enter();
    enum avicemu_core_result result = ae_core_begin(&core->core, a, &op);

    if (result == AVICEMU_CORE_STEPS) {
        while (ae_core_step(&op) != AVICEMU_CORE_FINISHED) {
        }
        result = ae_core_finish(&core->core, a, &op);
    }
    ae_rcu_leave();
    return result;
}

enum avicemu_core_result
avicemu_core_begin(struct avicemu_core *core, struct avicemu_core_access *a,
                   struct avicemu_core_op *op)
{
    struct ae_core_op engine;

    AE_CHECK(access_ok(core, a) && op_ok(op), AVICEMU_CORE_MODE);
    memset(&engine, 0, sizeof(engine));
    ae_rcu_enter();
    enum avicemu_core_result result = ae_core_begin(&core->core, a, &engine);

    ae_rcu_leave();
    op->event = result == AVICEMU_CORE_STEPS ? AVICEMU_CORE_NOTHING
                                             : AVICEMU_CORE_FINISHED;
    op_store(op, &engine);
    return result;
}

enum avicemu_core_event
avicemu_core_step(struct avicemu_core *core, struct avicemu_core_op *op)
{
    struct ae_core_op engine;

    AE_CHECK(op_load(core, op, &engine), AVICEMU_CORE_FINISHED);
    op->event = engine_step(&engine);
    op->guest_id = engine.ipi.guest_id;
    op->host_id = engine.ipi.host_id;
    op->is_running = engine.ipi.is_running;
    op->posted = (enum avicemu_post)engine.ipi.posted;
    op_store(op, &engine);
    return op->event;
}

enum avicemu_core_result
avicemu_core_finish(struct avicemu_core *core, struct avicemu_core_access *a,
                    struct avicemu_core_op *op)
{
    struct ae_core_op engine;

    AE_CHECK(access_ok(core, a) && op_load(core, op, &engine),
             AVICEMU_CORE_MODE);
    /* An access cannot be left half done. */
    while (engine_step(&engine) != AVICEMU_CORE_FINISHED) {
    }
    ae_rcu_enter();
    enum avicemu_core_result result = ae_core_finish(&core->core, a, &engine);

    ae_rcu_leave();
    engine.ipi.hw = NULL; /* no longer under way */
    op->event = AVICEMU_CORE_FINISHED;
    op_store(op, &engine);
    return result;
}

/* ---- filter ------------------------------------------------------------- */

int
avicemu_hw_avic_filter(const struct avicemu_core_config *config, int x2avic,
                       uint32_t offset, int write,
                       enum avicemu_avic_access *ret)
{
    struct avicemu_core_config c = { .size = sizeof(c) };
    struct ae_lapic_model model;
    struct ae_avic_hw hw;

    AE_CHECK(ret != NULL && offset < AE_PAGE && offset % 16 == 0, -EINVAL);
    AE_CHECK(config == NULL || ae_config_copy(&c, sizeof(c), config), -EINVAL);
    AE_CHECK(silicon_make(&c, &hw, &model, NULL), -EINVAL);
    *ret = ae_avic_filter(&hw, x2avic != 0, offset >> 4, write != 0);
    return 0;
}
