/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The guest-side API: each function is an instruction, or a short sequence
 * that a guest has as a helper. Accesses that the library does not claim go to
 * the VM's devices; what nobody claims reads as ones and writes to nowhere.
 */

#include <string.h>

#include <avicemu/avic.h>

#include "cpu.h"
#include "device.h"
#include "random.h"

#define APIC_PAGE          0xfee00000u
#define REG_TPR            0x080u
#define REG_EOI            0x0b0u
#define REG_ICR            0x300u
#define REG_ICR_HIGH       0x310u
#define X2APIC_MSR(offset) (0x800u + ((offset) >> 4))

/* ---- who am I ----------------------------------------------------------- */

uint32_t
avicemu_mock_cpu_index(const struct avicemu_mock_cpu *cpu)
{
    return cpu->index;
}

struct avicemu_mock_vm *
avicemu_mock_cpu_vm(const struct avicemu_mock_cpu *cpu)
{
    return cpu->vm;
}

uint32_t
avicemu_mock_vm_nr_cpus(const struct avicemu_mock_vm *vm)
{
    return vm->nr_cpus;
}

/* ---- instructions ------------------------------------------------------- */

/* The device whose registers hold gpa; its offset. NULL: none. */
static struct am_device *
device_at(struct avicemu_mock_vm *vm, uint64_t gpa, uint64_t *ret_offset)
{
    uint64_t n = (gpa - AE_DEVICE_BAR(0)) / 0x10000u;

    if (gpa < AE_DEVICE_BAR(0) || n >= vm->nr_devices ||
        n >= AVICEMU_MOCK_MAX_DEVICES) {
        return NULL;
    }
    *ret_offset = gpa - AE_DEVICE_BAR(n);
    return vm->devices[n];
}

/* Something the guest's core cannot do by itself: come out, and be seen. With
 * AVIC, to come out or not is the library's to say. */
static void
access_begins(struct avicemu_mock_cpu *cpu, uint64_t where)
{
    if (!cpu->vm->avic) {
        am_cpu_leave(cpu);
    }
    am_host_trace(cpu->vm->host, cpu->vm->first_who + cpu->index,
                  AE_TRACE_ACCESS, where);
}

/* Inside, these change what is deliverable, and no doorbell tells. */
static bool
must_look(uint32_t offset)
{
    return offset == REG_TPR || offset == REG_EOI;
}

/* If it has exited: come out, and have it handled. */
static enum avicemu_access
access_ends(struct avicemu_mock_cpu *cpu, enum avicemu_access done,
            uint64_t *ret)
{
    if (done == AVICEMU_ACCESS_EXIT) {
        am_cpu_leave(cpu);
        return avicemu_vcpu_handle_exit(cpu->vcpu, ret);
    }
    if (done == AVICEMU_ACCESS_UNCLAIMED) {
        am_cpu_leave(cpu);
    }
    if (cpu->inside) {
        cpu->cr8 = avicemu_cr8_read(cpu->vcpu);
    }
    return done;
}

enum avicemu_access
avicemu_mock_mmio_read(struct avicemu_mock_cpu *cpu, uint64_t gpa, unsigned len,
                       void *data)
{
    enum avicemu_access done;
    struct am_device *device;
    uint32_t value = UINT32_MAX;
    uint64_t offset, wide = 0;

    access_begins(cpu, gpa);
    done = avicemu_mmio_read(cpu->vcpu, gpa, len, data);
    if (done == AVICEMU_ACCESS_EXIT) {
        done = access_ends(cpu, done, &wide);
        memset(data, 0, len);
        memcpy(data, &wide, len < sizeof(wide) ? len : sizeof(wide));
        return done;
    }
    if (access_ends(cpu, done, NULL) != AVICEMU_ACCESS_UNCLAIMED) {
        return done;
    }
    memset(data, 0xff, len);
    device = device_at(cpu->vm, gpa, &offset);
    if (device != NULL && len == sizeof(value)) {
        done = am_device_read(device, offset, &value);
        memcpy(data, &value, sizeof(value));
    }
    return done;
}

enum avicemu_access
avicemu_mock_mmio_write(struct avicemu_mock_cpu *cpu, uint64_t gpa,
                        unsigned len, const void *data)
{
    enum avicemu_access done;
    struct am_device *device;
    uint32_t value;
    uint64_t offset;

    access_begins(cpu, gpa);
    cpu->look |= must_look((uint32_t)(gpa - APIC_PAGE));
    done = avicemu_mmio_write(cpu->vcpu, gpa, len, data);
    done = access_ends(cpu, done, NULL);
    if (done != AVICEMU_ACCESS_UNCLAIMED) {
        return done;
    }
    device = device_at(cpu->vm, gpa, &offset);
    if (device != NULL && len == sizeof(value)) {
        memcpy(&value, data, sizeof(value));
        done = am_device_write(device, offset, value);
    }
    return done;
}

enum avicemu_access
avicemu_mock_msr_read(struct avicemu_mock_cpu *cpu, uint32_t msr, uint64_t *ret)
{
    access_begins(cpu, msr);
    return access_ends(cpu, avicemu_msr_read(cpu->vcpu, msr, ret), ret);
}

enum avicemu_access
avicemu_mock_msr_write(struct avicemu_mock_cpu *cpu, uint32_t msr,
                       uint64_t value)
{
    access_begins(cpu, msr);
    cpu->look |= must_look((msr - X2APIC_MSR(0)) << 4);
    return access_ends(cpu, avicemu_msr_write(cpu->vcpu, msr, value), NULL);
}

uint32_t
avicemu_mock_cr8_read(const struct avicemu_mock_cpu *cpu)
{
    return cpu->inside ? cpu->cr8 : avicemu_cr8_read(cpu->vcpu);
}

void
avicemu_mock_cr8_write(struct avicemu_mock_cpu *cpu, uint32_t value)
{
    if (cpu->vm->avic) {
        cpu->look = true;
        (void)access_ends(cpu, avicemu_cr8_write(cpu->vcpu, value & 15u), NULL);
        return;
    }
    cpu->cr8 = value & 15u;
    if (!cpu->inside) {
        (void)avicemu_cr8_write(cpu->vcpu, cpu->cr8);
    }
}

void
avicemu_mock_cli(struct avicemu_mock_cpu *cpu)
{
    cpu->if_flag = false;
    cpu->shadow = 0;
}

void
avicemu_mock_sti(struct avicemu_mock_cpu *cpu)
{
    if (!cpu->if_flag) {
        cpu->if_flag = true;
        cpu->shadow = 2; /* the rest of this step, and the next one */
        cpu->look = true;
    }
}

void
avicemu_mock_cpuid(const struct avicemu_mock_cpu *cpu, uint32_t leaf,
                   uint32_t ret[4])
{
    /* x2APIC is bit 21 of ECX, TSC deadline bit 24; the APIC bit 9 of EDX. */
    static const char vendors[AVICEMU_NR_PERSONALITY][13] = { "AuthenticAMD",
                                                              "GenuineIntel",
                                                              "AuthenticAMD" };
    const char *vendor = vendors[cpu->vm->config->personality];

    memset(ret, 0, 4 * sizeof(*ret));
    if (leaf == 0) {
        ret[0] = 1;
        memcpy(&ret[1], vendor, 4);
        memcpy(&ret[3], vendor + 4, 4);
        memcpy(&ret[2], vendor + 8, 4);
    } else if (leaf == 1) {
        ret[1] = (cpu->index << 24) | (cpu->vm->nr_cpus << 16);
        ret[2] = (1u << 21) | (1u << 24);
        ret[3] = 1u << 9;
    } else if (leaf == 0x80000001u) {
        ret[3] = 1u << 9;
    }
}

uint64_t
avicemu_mock_tsc(const struct avicemu_mock_cpu *cpu)
{
    return am_host_now(cpu->vm->host); /* the guest's TSC runs at 1 GHz */
}

/* ---- the IDT ------------------------------------------------------------ */

void
avicemu_mock_idt(struct avicemu_mock_cpu *cpu, uint8_t vector,
                 avicemu_mock_step_fn fn, void *state)
{
    cpu->idt[vector] = (struct am_gate){ fn, state };
}

void
avicemu_mock_idt_nmi(struct avicemu_mock_cpu *cpu, avicemu_mock_step_fn fn,
                     void *state)
{
    cpu->nmi = (struct am_gate){ fn, state };
}

uint32_t
avicemu_mock_vector(const struct avicemu_mock_cpu *cpu)
{
    return cpu->frames[cpu->nr_frames - 1].vector;
}

uint32_t
avicemu_mock_nesting(const struct avicemu_mock_cpu *cpu)
{
    return cpu->nr_frames - 1;
}

/* ---- the APIC ----------------------------------------------------------- */

uint32_t
avicemu_mock_apic_read(struct avicemu_mock_cpu *cpu, uint32_t offset)
{
    uint64_t wide = 0;
    uint32_t value = 0;

    if (cpu->vm->config->mode == AVICEMU_APIC_X2APIC) {
        (void)avicemu_mock_msr_read(cpu, X2APIC_MSR(offset), &wide);
        return (uint32_t)wide;
    }
    (void)avicemu_mock_mmio_read(cpu, APIC_PAGE + offset, sizeof(value),
                                 &value);
    return value;
}

void
avicemu_mock_apic_write(struct avicemu_mock_cpu *cpu, uint32_t offset,
                        uint32_t value)
{
    enum avicemu_access done;

    if (cpu->vm->config->mode == AVICEMU_APIC_X2APIC) {
        done = avicemu_mock_msr_write(cpu, X2APIC_MSR(offset), value);
    } else {
        done = avicemu_mock_mmio_write(cpu, APIC_PAGE + offset, sizeof(value),
                                       &value);
    }
    if (done != AVICEMU_ACCESS_DONE) {
        am_host_fail(cpu->vm->host,
                     "%s vCPU %u: APIC register %03xh := %xh was refused",
                     cpu->vm->config->name, cpu->index, offset, value);
    }
}

void
avicemu_mock_icr(struct avicemu_mock_cpu *cpu, uint32_t destination,
                 uint32_t low, uint32_t targets)
{
    uint32_t mode = (low >> 8) & 7u;

    if (mode == AVICEMU_DELIVERY_FIXED) {
        cpu->expected[low & 0xffu] += targets;
    }
    cpu->icr_writes++;
    if (cpu->vm->config->mode == AVICEMU_APIC_X2APIC) {
        (void)avicemu_mock_msr_write(cpu, X2APIC_MSR(REG_ICR),
                                     ((uint64_t)destination << 32) | low);
    } else {
        avicemu_mock_apic_write(cpu, REG_ICR_HIGH, destination << 24);
        avicemu_mock_apic_write(cpu, REG_ICR, low);
    }
}

void
avicemu_mock_eoi(struct avicemu_mock_cpu *cpu)
{
    avicemu_mock_apic_write(cpu, REG_EOI, 0);
}

/* ---- the run ------------------------------------------------------------ */

uint64_t
avicemu_mock_random(struct avicemu_mock_cpu *cpu)
{
    return am_random_next(&cpu->random);
}

/* Statistics and a limit that may be passed by a few: order is of no matter. */
void
avicemu_mock_did(struct avicemu_mock_cpu *cpu, uint32_t operations)
{
    struct avicemu_mock_vm *vm = cpu->vm;
    uint64_t all =
        operations + atomic_fetch_add_explicit(&vm->operations, operations,
                                               memory_order_relaxed);

    (void)atomic_fetch_add_explicit(&cpu->progress, operations,
                                    memory_order_relaxed);
    if (vm->config->operations != 0 && all >= vm->config->operations) {
        atomic_store(&vm->phase, AE_PHASE_DRAIN);
    }
}

void
avicemu_mock_expect(struct avicemu_mock_cpu *cpu, int32_t change)
{
    (void)atomic_fetch_add(&cpu->outstanding, change);
}

int
avicemu_mock_draining(const struct avicemu_mock_cpu *cpu)
{
    return atomic_load(&cpu->vm->phase) != AE_PHASE_RUN;
}
