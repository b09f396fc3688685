/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPIs under one mutex per VM. See ipi.h. The mutex is the APIC map's.
 */

#include "rivals/ipi/mutex/ipi.h"

#include <stdlib.h>

#include "rivals/map/mutex/map.h"

#define PAGE              4096u
#define REG_TPR           0x080u
#define REG_PPR           0x0a0u
#define REG_SVR           0x0f0u
#define REG_ISR           0x100u
#define REG_TMR           0x180u
#define REG_IRR           0x200u
#define REG_ESR           0x280u
#define REG_ICR_LOW       0x300u
#define REG_ICR_HIGH      0x310u
#define SVR_ENABLE        0x100u
#define ESR_SENT          (1u << 5)
#define ESR_RECEIVED      (1u << 6)
#define ICR_RESERVED      0xfff33000u
#define ICR_MODE          0x700u
#define ICR_LOGICAL       (1u << 11)
#define ICR_LEVEL         (1u << 15)
#define BATCH             32u
#define FIRST_VECTOR      16u
#define SHORTHAND_OF(low) (((low) >> 18) & 3u)

enum shorthand {
    SHORTHAND_NONE,
    SHORTHAND_SELF,
    SHORTHAND_ALL,
    SHORTHAND_OTHERS,
};

enum where {
    OUTSIDE,
    IN_GUEST,
    BLOCKED,
};

struct vcpu {
    unsigned char *page;
    uint32_t id;
    enum where where;
    bool called;
    uint64_t sent, nr_new, nr_merged, nr_dropped;
};

struct ipi_mutex {
    struct map_mutex *map; /* its mutex protects the vCPUs, too */
    struct ipi_mutex_ops ops;
    bool x2apic;
    uint32_t nr;
    struct vcpu *vcpus;
};

/* Who is to be called once the mutex is free. */
struct calls {
    unsigned nr;
    struct {
        uint32_t id;
        enum where where;
    } at[BATCH];
};

static uint32_t *
reg(const struct vcpu *vcpu, uint32_t offset)
{
    return (uint32_t *)(void *)(vcpu->page + offset);
}

static uint32_t *
vector_word(const struct vcpu *vcpu, uint32_t map, uint8_t vector)
{
    return reg(vcpu, map + (vector >> 5) * 16u);
}

static int
highest(const struct vcpu *vcpu, uint32_t map)
{
    for (int i = 7; i >= 0; i--) {
        uint32_t word = *reg(vcpu, map + (uint32_t)i * 16);

        if (word != 0) {
            return i * 32 + 31 - __builtin_clz(word);
        }
    }
    return -1;
}

static void
ppr_update(const struct vcpu *vcpu)
{
    int isr = highest(vcpu, REG_ISR);
    uint32_t tpr = *reg(vcpu, REG_TPR);
    uint32_t isrv = isr < 0 ? 0 : (uint32_t)isr;

    *reg(vcpu, REG_PPR) = tpr >> 4 >= isrv >> 4 ? tpr : isrv & 0xf0u;
}

/* ---- life --------------------------------------------------------------- */

void
ipi_mutex_destroy(struct ipi_mutex *vm)
{
    if (vm == NULL) {
        return;
    }
    for (uint32_t i = 0; vm->vcpus != NULL && i < vm->nr; i++) {
        free(vm->vcpus[i].page);
    }
    free(vm->vcpus);
    map_mutex_destroy(vm->map);
    free(vm);
}

static bool
vcpu_open(struct ipi_mutex *vm, uint32_t id)
{
    struct vcpu *vcpu = &vm->vcpus[id];

    vcpu->id = id;
    vcpu->page = aligned_alloc(PAGE, PAGE);
    if (vcpu->page == NULL || !map_mutex_add(vm->map, id, vm->x2apic, vcpu)) {
        return false;
    }
    for (uint32_t offset = 0; offset < PAGE; offset += 4) {
        *reg(vcpu, offset) = 0;
    }
    *reg(vcpu, REG_SVR) = SVR_ENABLE | 0xffu;
    return true;
}

struct ipi_mutex *
ipi_mutex_create(uint32_t nr, bool x2apic, const struct ipi_mutex_ops *ops)
{
    struct ipi_mutex *vm = calloc(1, sizeof(*vm));

    if (vm == NULL) {
        return NULL;
    }
    vm->nr = nr;
    vm->x2apic = x2apic;
    vm->ops = *ops;
    vm->map = map_mutex_create(nr);
    vm->vcpus = calloc(nr, sizeof(vm->vcpus[0]));
    for (uint32_t id = 0; id < nr; id++) {
        if (vm->map == NULL || vm->vcpus == NULL || !vcpu_open(vm, id)) {
            ipi_mutex_destroy(vm);
            return NULL;
        }
    }
    return vm;
}

void
ipi_mutex_set_ldr(struct ipi_mutex *vm, uint32_t id, uint8_t ldr)
{
    map_mutex_set_logical(vm->map, id, ldr, true);
}

/* ---- sending ------------------------------------------------------------ */

static void
calls_make(struct ipi_mutex *vm, struct calls *calls)
{
    for (unsigned i = 0; i < calls->nr; i++) {
        if (calls->at[i].where == IN_GUEST) {
            vm->ops.kick(vm->ops.opaque, calls->at[i].id);
        } else {
            vm->ops.wake(vm->ops.opaque, calls->at[i].id);
        }
    }
    calls->nr = 0;
}

/* The batch is full: call without the mutex. */
static void
calls_flush(struct ipi_mutex *vm, struct calls *calls)
{
    map_mutex_unlock(vm->map);
    calls_make(vm, calls);
    map_mutex_lock(vm->map);
}

/* Does a new vector get through at a blocked vCPU? */
static bool
wakes(const struct vcpu *vcpu, uint8_t vector)
{
    return vector >> 4 > *reg(vcpu, REG_PPR) >> 4;
}

static void
deliver_locked(struct ipi_mutex *vm, struct vcpu *sender, struct vcpu *target,
               uint32_t low, struct calls *calls)
{
    uint8_t vector = (uint8_t)low;
    uint32_t bit = 1u << (vector & 31);
    uint32_t *irr = vector_word(target, REG_IRR, vector);
    uint32_t *tmr = vector_word(target, REG_TMR, vector);

    if (vector < FIRST_VECTOR) {
        *reg(target, REG_ESR) |= ESR_RECEIVED;
        sender->nr_dropped++;
        return;
    }
    if ((*reg(target, REG_SVR) & SVR_ENABLE) == 0) {
        sender->nr_dropped++;
        return;
    }
    *tmr = (low & ICR_LEVEL) != 0 ? *tmr | bit : *tmr & ~bit;
    if ((*irr & bit) != 0) {
        sender->nr_merged++;
        return;
    }
    *irr |= bit;
    sender->nr_new++;
    if (target->called || target->where == OUTSIDE ||
        (target->where == BLOCKED && !wakes(target, vector))) {
        return;
    }
    target->called = true;
    calls->at[calls->nr].id = target->id;
    calls->at[calls->nr].where = target->where;
    if (++calls->nr == BATCH) {
        calls_flush(vm, calls);
    }
}

static bool
matches_logical(const struct ipi_mutex *vm, uint32_t dest)
{
    /* Only broadcasts come here: nobody shares a logical id. */
    return dest == (vm->x2apic ? UINT32_MAX : 0xffu);
}

static void
all_locked(struct ipi_mutex *vm, struct vcpu *sender, uint32_t low,
           struct calls *calls)
{
    bool others = SHORTHAND_OF(low) == SHORTHAND_OTHERS;

    for (uint32_t i = 0; i < map_mutex_nr(vm->map); i++) {
        struct vcpu *target = map_mutex_at(vm->map, i);

        if (!others || target != sender) {
            deliver_locked(vm, sender, target, low, calls);
        }
    }
}

static void
directed_locked(struct ipi_mutex *vm, struct vcpu *sender, uint32_t dest,
                uint32_t low, struct calls *calls)
{
    struct map_mutex_dest d = { .dest = dest,
                                .logical = (low & ICR_LOGICAL) != 0 };
    void *found[MAP_MUTEX_MAX_FOUND];
    int nr = map_mutex_find(vm->map, &d, found);

    if (nr < 0 && matches_logical(vm, dest)) {
        all_locked(vm, sender, low, calls);
    }
    if (nr <= 0) {
        sender->nr_dropped += nr == 0;
        return;
    }
    for (int i = 0; i < nr; i++) {
        deliver_locked(vm, sender, found[i], low, calls);
    }
}

static bool
send(struct ipi_mutex *vm, struct vcpu *sender, uint32_t dest, uint32_t low)
{
    struct calls calls = { .nr = 0 };

    if ((low & ICR_MODE) != 0) {
        return false;
    }
    map_mutex_lock(vm->map);
    sender->sent++;
    if ((uint8_t)low < FIRST_VECTOR) {
        *reg(sender, REG_ESR) |= ESR_SENT;
    }
    switch ((enum shorthand)SHORTHAND_OF(low)) {
    case SHORTHAND_SELF:
        deliver_locked(vm, sender, sender, low, &calls);
        break;
    case SHORTHAND_ALL:
    case SHORTHAND_OTHERS:
        all_locked(vm, sender, low, &calls);
        break;
    case SHORTHAND_NONE:
    default:
        directed_locked(vm, sender, dest, low, &calls);
        break;
    }
    map_mutex_unlock(vm->map);
    calls_make(vm, &calls);
    return true;
}

bool
ipi_mutex_icr(struct ipi_mutex *vm, uint32_t id, uint64_t icr)
{
    struct vcpu *sender = &vm->vcpus[id];
    uint32_t low = (uint32_t)icr;
    uint32_t high = (uint32_t)(icr >> 32);

    if (!vm->x2apic || (low & ICR_RESERVED) != 0) {
        return false;
    }
    *reg(sender, REG_ICR_LOW) = low;
    *reg(sender, REG_ICR_HIGH) = high;
    return send(vm, sender, high, low);
}

bool
ipi_mutex_icr_high(struct ipi_mutex *vm, uint32_t id, uint32_t high)
{
    *reg(&vm->vcpus[id], REG_ICR_HIGH) = high & 0xff000000u;
    return !vm->x2apic;
}

bool
ipi_mutex_icr_low(struct ipi_mutex *vm, uint32_t id, uint32_t low)
{
    struct vcpu *sender = &vm->vcpus[id];

    *reg(sender, REG_ICR_LOW) = low & ~ICR_RESERVED;
    return !vm->x2apic &&
           send(vm, sender, *reg(sender, REG_ICR_HIGH) >> 24, low);
}

/* ---- receiving ---------------------------------------------------------- */

static int
pending_locked(const struct vcpu *vcpu)
{
    int irr = highest(vcpu, REG_IRR);

    return irr >= 0 && (uint32_t)irr >> 4 > *reg(vcpu, REG_PPR) >> 4 ? irr : -1;
}

int
ipi_mutex_enter(struct ipi_mutex *vm, uint32_t id)
{
    struct vcpu *vcpu = &vm->vcpus[id];

    map_mutex_lock(vm->map);
    vcpu->where = IN_GUEST;
    vcpu->called = false;
    int vector = pending_locked(vcpu);

    map_mutex_unlock(vm->map);
    return vector;
}

void
ipi_mutex_ack(struct ipi_mutex *vm, uint32_t id, uint8_t vector)
{
    const struct vcpu *vcpu = &vm->vcpus[id];
    uint32_t bit = 1u << (vector & 31);

    map_mutex_lock(vm->map);
    *vector_word(vcpu, REG_IRR, vector) &= ~bit;
    *vector_word(vcpu, REG_ISR, vector) |= bit;
    ppr_update(vcpu);
    map_mutex_unlock(vm->map);
}

void
ipi_mutex_exit(struct ipi_mutex *vm, uint32_t id)
{
    map_mutex_lock(vm->map);
    vm->vcpus[id].where = OUTSIDE;
    map_mutex_unlock(vm->map);
}

void
ipi_mutex_eoi(struct ipi_mutex *vm, uint32_t id)
{
    const struct vcpu *vcpu = &vm->vcpus[id];

    map_mutex_lock(vm->map);
    int isr = highest(vcpu, REG_ISR);

    if (isr >= 0) {
        *vector_word(vcpu, REG_ISR, (uint8_t)isr) &= ~(1u << (isr & 31));
        ppr_update(vcpu);
    }
    map_mutex_unlock(vm->map);
}

bool
ipi_mutex_block(struct ipi_mutex *vm, uint32_t id)
{
    struct vcpu *vcpu = &vm->vcpus[id];

    map_mutex_lock(vm->map);
    bool idle = pending_locked(vcpu) < 0;

    if (idle) {
        vcpu->where = BLOCKED;
        vcpu->called = false;
    }
    map_mutex_unlock(vm->map);
    return idle;
}

void
ipi_mutex_unblock(struct ipi_mutex *vm, uint32_t id)
{
    ipi_mutex_exit(vm, id);
}
