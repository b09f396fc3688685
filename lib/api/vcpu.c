/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions of vCPUs: life, loop, guest accesses, posts.
 */

#include "hv/vcpu.h"

#include "api/check.h"
#include "hv/exits.h"

/* ---- life --------------------------------------------------------------- */

int
avicemu_vcpu_create(struct avicemu_vm *vm, uint32_t apic_id, void *opaque,
                    struct avicemu_vcpu **ret_vcpu)
{
    AE_CHECK(vm != NULL && ret_vcpu != NULL, -EINVAL);
    AE_CHECK(apic_id != AE_X2APIC_BROADCAST, -EINVAL);
    return ae_vcpu_create(vm, apic_id, opaque, ret_vcpu);
}

int
avicemu_vcpu_destroy(struct avicemu_vcpu *vcpu)
{
    return vcpu == NULL ? 0 : ae_vcpu_destroy(vcpu);
}

uint32_t
avicemu_vcpu_apic_id(const struct avicemu_vcpu *vcpu)
{
    return vcpu->lapic.initial_id;
}

void *
avicemu_vcpu_opaque(const struct avicemu_vcpu *vcpu)
{
    return vcpu->opaque;
}

int
avicemu_vcpu_reset(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_reset(vcpu);

    ae_disown(vcpu);
    return r;
}

/* ---- the loop ----------------------------------------------------------- */

int
avicemu_vcpu_enter(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu,
                   struct avicemu_todo *ret)
{
    AE_CHECK(vcpu != NULL && cpu != NULL && ret != NULL, -EINVAL);
    AE_CHECK(cpu->size >= sizeof(*cpu) && ret->size >= sizeof(*ret), -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_enter(vcpu, cpu, ret);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_ack(struct avicemu_vcpu *vcpu, enum avicemu_do what,
                 uint8_t vector)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_ack(vcpu, what, vector);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_exit(struct avicemu_vcpu *vcpu, const struct avicemu_cpu *cpu)
{
    AE_CHECK(vcpu != NULL && cpu != NULL, -EINVAL);
    AE_CHECK(cpu->size >= sizeof(*cpu) && cpu->cr8 <= 15, -EINVAL);
    ae_own(vcpu);
    int r = ae_vcpu_exit(vcpu, cpu);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_set_halted(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    AE_CHECK(ae_vcpu_outside(vcpu), -EBUSY);
    vcpu->halted = true;
    return 0;
}

enum avicemu_sleep
avicemu_vcpu_block_begin(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, AVICEMU_SLEEP_NO);
    ae_own(vcpu);
    ae_vcpu_look(vcpu);
    enum avicemu_sleep sleep = ae_halt_begin(vcpu);

    ae_disown(vcpu);
    return sleep;
}

int
avicemu_vcpu_block_end(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    ae_own(vcpu);
    int r = ae_halt_end(vcpu);

    ae_disown(vcpu);
    return r;
}

int
avicemu_vcpu_halt(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    AE_CHECK(vcpu->vm->ops.block != NULL, -EOPNOTSUPP);
    AE_CHECK(ae_vcpu_outside(vcpu), -EBUSY);
    if (avicemu_vcpu_block_begin(vcpu) == AVICEMU_SLEEP_NO) {
        return 0;
    }
    ae_callback_enter();
    vcpu->vm->ops.block(vcpu->opaque, vcpu, vcpu->lapic.timer.deadline);
    ae_callback_leave();
    return avicemu_vcpu_block_end(vcpu);
}

int
avicemu_vcpu_runnable(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, 0);
    return ae_halt_runnable(vcpu);
}

int
avicemu_vcpu_expire(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, -EINVAL);
    ae_call(vcpu, ae_deliver_owner(vcpu, AE_EV_EXPIRED));
    return 0;
}

uint64_t
avicemu_vcpu_deadline(const struct avicemu_vcpu *vcpu)
{
    /* ORD none: a deadline that was once true. */
    return vcpu == NULL ? AE_NEVER : ae_load_relaxed_u64(&vcpu->deadline);
}

/* ---- guest accesses ----------------------------------------------------- */

enum avicemu_access
avicemu_mmio_read(struct avicemu_vcpu *vcpu, uint64_t gpa, unsigned len,
                  void *data)
{
    AE_CHECK(vcpu != NULL && data != NULL, AVICEMU_ACCESS_UNCLAIMED);
    ae_own(vcpu);
    enum avicemu_access access = ae_exits_mmio_read(vcpu, gpa, len, data);

    ae_disown(vcpu);
    return access;
}

enum avicemu_access
avicemu_mmio_write(struct avicemu_vcpu *vcpu, uint64_t gpa, unsigned len,
                   const void *data)
{
    AE_CHECK(vcpu != NULL && data != NULL, AVICEMU_ACCESS_UNCLAIMED);
    ae_own(vcpu);
    enum avicemu_access access = ae_exits_mmio_write(vcpu, gpa, len, data);

    ae_disown(vcpu);
    return access;
}

enum avicemu_access
avicemu_msr_read(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t *ret)
{
    AE_CHECK(vcpu != NULL && ret != NULL, AVICEMU_ACCESS_UNCLAIMED);
    ae_own(vcpu);
    enum avicemu_access access = ae_exits_msr_read(vcpu, msr, ret);

    ae_disown(vcpu);
    return access;
}

enum avicemu_access
avicemu_msr_write(struct avicemu_vcpu *vcpu, uint32_t msr, uint64_t value)
{
    AE_CHECK(vcpu != NULL, AVICEMU_ACCESS_UNCLAIMED);
    ae_own(vcpu);
    enum avicemu_access access = ae_exits_msr_write(vcpu, msr, value);

    ae_disown(vcpu);
    return access;
}

enum avicemu_access
avicemu_cr8_write(struct avicemu_vcpu *vcpu, uint64_t value)
{
    AE_CHECK(vcpu != NULL, AVICEMU_ACCESS_UNCLAIMED);
    if (value > 15) {
        vcpu->stats.gp++;
        return AVICEMU_ACCESS_GP;
    }
    return ae_exits_cr8_write(vcpu, value);
}

uint32_t
avicemu_cr8_read(struct avicemu_vcpu *vcpu)
{
    AE_CHECK(vcpu != NULL, 0);
    return ae_vector_class(ae_vapic_read(vcpu->lapic.page, LAPIC_TPR));
}

/* ---- posts -------------------------------------------------------------- */

enum avicemu_post
avicemu_post(struct avicemu_vcpu *vcpu, uint8_t vector,
             enum avicemu_trigger trigger)
{
    enum avicemu_drop why;
    enum ae_call call;

    AE_CHECK(vcpu != NULL, AVICEMU_POST_DROPPED);
    enum avicemu_post result =
        ae_deliver_vector(vcpu, vector, trigger, &why, &call);

    ae_call(vcpu, call);
    return result;
}

enum avicemu_post
avicemu_post_mode(struct avicemu_vcpu *vcpu, enum avicemu_delivery mode,
                  uint8_t vector)
{
    enum avicemu_drop why;
    enum ae_call call;

    AE_CHECK(vcpu != NULL, AVICEMU_POST_DROPPED);
    if (mode == AVICEMU_DELIVERY_FIXED || mode == AVICEMU_DELIVERY_LOWEST) {
        return avicemu_post(vcpu, vector, AVICEMU_TRIGGER_EDGE);
    }
    enum avicemu_post result = ae_deliver_mode(vcpu, mode, vector, &why, &call);

    ae_call(vcpu, call);
    return result;
}

enum avicemu_post
avicemu_vcpu_lint(struct avicemu_vcpu *vcpu, unsigned pin, int level)
{
    uint32_t events = 0;

    AE_CHECK(vcpu != NULL && pin <= 1, AVICEMU_POST_DROPPED);
    enum avicemu_post result =
        ae_lapic_lint(&vcpu->lapic, pin, level != 0, &events);

    if (events != 0) {
        return ae_deliver_lvt_events(vcpu, events, AE_SOURCE_LINT);
    }
    if (result == AVICEMU_POST_NEW) {
        ae_deliver_local_call(vcpu);
    }
    return result;
}

enum avicemu_post
avicemu_vcpu_local(struct avicemu_vcpu *vcpu, enum avicemu_lvt source)
{
    static const uint16_t offsets[AVICEMU_NR_LVT] = {
        [AVICEMU_LVT_CMCI] = LAPIC_LVT_CMCI,
        [AVICEMU_LVT_THERMAL] = LAPIC_LVT_THERMAL,
        [AVICEMU_LVT_PERF] = LAPIC_LVT_PERF,
        [AVICEMU_LVT_EXT0] = LAPIC_LVT_EXT,
        [AVICEMU_LVT_EXT1] = LAPIC_LVT_EXT + 0x10,
        [AVICEMU_LVT_EXT2] = LAPIC_LVT_EXT + 0x20,
        [AVICEMU_LVT_EXT3] = LAPIC_LVT_EXT + 0x30,
    };
    uint32_t events = 0;

    AE_CHECK(vcpu != NULL && (unsigned)source < AVICEMU_NR_LVT,
             AVICEMU_POST_DROPPED);
    enum avicemu_post result =
        ae_lapic_local(&vcpu->lapic, offsets[source], &events);

    if (events != 0) {
        return ae_deliver_lvt_events(vcpu, events, AE_SOURCE_LOCAL);
    }
    if (result == AVICEMU_POST_NEW) {
        ae_deliver_local_call(vcpu);
    }
    return result;
}
