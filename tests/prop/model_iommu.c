/* SPDX-License-Identifier: BSD-2-Clause */

/* Registers, rings and commands. [IOMMU 2.4 commands], [IOMMU 2.7 GA log],
 * [IOMMU 3.4 MMIO registers] */

#include "model_iommu.h"

#include <string.h>

#define PAGE_BITS   0x000ffffffffff000ull
#define LENGTH_BITS 0x0f00000000000000ull

/* ---- memory ------------------------------------------------------------- */

void *
model_iommu_find(const struct model_iommu *m, uint64_t address, size_t bytes)
{
    for (unsigned i = 0; i < MODEL_REGIONS; i++) {
        const struct model_region *r = &m->regions[i];

        if (r->mapped && address >= r->base && address - r->base < r->bytes &&
            bytes <= r->bytes - (size_t)(address - r->base)) {
            return r->memory + (address - r->base);
        }
    }
    return NULL;
}

uint64_t
model_iommu_word(const struct model_iommu *m, uint64_t address)
{
    uint64_t word = 0;
    const void *at = model_iommu_find(m, address, 8);

    if (at != NULL) {
        memcpy(&word, at, 8);
    }
    return word;
}

static void
store(struct model_iommu *m, uint64_t address, uint64_t value)
{
    void *at = model_iommu_find(m, address, 8);

    if (at != NULL) {
        memcpy(at, &value, 8);
    }
}

/* ---- status ------------------------------------------------------------- */

static const struct {
    uint64_t bit, enable;
    uint32_t signal;
} sources[] = {
    { 1u << 1, 1u << 3, AVICEMU_SIGNAL_EVENT },
    { 1u << 2, 1u << 4, AVICEMU_SIGNAL_EVENT },
    { 1u << 10, 1u << 29, AVICEMU_SIGNAL_GA },
};

/* A signal per source that has its bit and its enable. */
static uint32_t
signals_of(uint64_t bits, uint64_t enables)
{
    uint32_t signals = 0;

    for (unsigned i = 0; i < 3; i++) {
        if ((bits & sources[i].bit) != 0 &&
            (enables & sources[i].enable) != 0) {
            signals |= sources[i].signal;
        }
    }
    return signals;
}

void
model_iommu_raise(struct model_iommu *m, uint64_t bit)
{
    if ((m->status & bit) == 0) {
        m->status |= bit;
        m->signals |= signals_of(bit, m->control);
    }
}

static uint64_t
status_of(const struct model_iommu *m)
{
    return m->status | (m->events.overflow ? 1u : 0) |
           (m->events.run ? 1u << 3 : 0) | (m->commands.run ? 1u << 4 : 0) |
           (m->ga.run ? 1u << 8 : 0) | (m->ga.overflow ? 1u << 9 : 0);
}

/* ---- rings -------------------------------------------------------------- */

/* Bytes - 1. Reserved lengths count as 8. */
static uint64_t
ring_mask(const struct model_ring *r)
{
    unsigned length = (unsigned)(r->base >> 56 & 15);

    return (16ull << (length < 8 ? 8 : length)) - 1;
}

static uint64_t
pointer(const struct model_ring *r, uint64_t value)
{
    return value & ring_mask(r) & ~(uint64_t)(r->entry_bytes - 1);
}

static void
ring_set_base(struct model_ring *r, uint64_t value)
{
    if (!r->run) {
        r->base = value & (PAGE_BITS | LENGTH_BITS);
        r->head = r->tail = 0;
    }
}

static void
ring_enable(struct model_ring *r, uint64_t was, uint64_t is, uint64_t bit)
{
    if ((is & ~was & bit) != 0 && !r->overflow) {
        r->run = true;
    } else if ((was & ~is & bit) != 0) {
        r->run = false;
    }
}

enum model_slot
model_iommu_log(struct model_iommu *m, struct model_ring *ring, uint64_t low,
                uint64_t high)
{
    uint64_t tail = pointer(ring, ring->tail);
    uint64_t next = (tail + ring->entry_bytes) & ring_mask(ring);
    uint64_t at = (ring->base & PAGE_BITS) + tail;

    if (!ring->run) {
        return MODEL_OFF;
    }
    if (next == pointer(ring, ring->head)) {
        ring->run = false;
        ring->overflow = true;
        return MODEL_OVERFLOW;
    }
    if (ring->entry_bytes == 16 && model_iommu_find(m, at, 16) != NULL) {
        store(m, at + 8, high);
    }
    if (model_iommu_find(m, at, ring->entry_bytes) != NULL) {
        store(m, at, low);
    }
    ring->tail = next;
    if (ring == &m->ga && m->tail_word != 0) {
        store(m, m->tail_word, next);
    }
    return MODEL_LOGGED;
}

void
model_iommu_event(struct model_iommu *m, uint64_t low, uint64_t high)
{
    if (model_iommu_log(m, &m->events, low, high) != MODEL_OFF) {
        model_iommu_raise(m, 1u << 1);
    }
}

/* ---- commands ----------------------------------------------------------- */

/* Not one of the commands, or a reserved bit. */
static bool
is_illegal(const struct model_iommu *m, uint64_t low, uint64_t high)
{
    uint64_t rest = low & ~(15ull << 60);

    switch (low >> 60) {
    case 1:
        return (rest & ~0x000fffffffffffffull) != 0;
    case 2:
    case 5:
        return (rest & ~0xffffull) != 0 || high != 0;
    case 3:
    case 4:
    case 6:
    case 7:
        return false;
    case 8:
        return rest != 0 || high != 0 || (m->features & AVICEMU_IOMMU_IA) == 0;
    default:
        return true;
    }
}

static void
command_stop(struct model_iommu *m, uint64_t low, uint64_t at)
{
    m->commands.run = false;
    model_iommu_event(m, low, at);
}

static void
commands_run(struct model_iommu *m)
{
    struct model_ring *r = &m->commands;

    while (r->run && pointer(r, r->head) != pointer(r, r->tail)) {
        uint64_t at = (r->base & PAGE_BITS) + pointer(r, r->head);
        uint64_t low = model_iommu_word(m, at);
        uint64_t high = model_iommu_word(m, at + 8);

        if (model_iommu_find(m, at, 16) == NULL) {
            command_stop(m, 0x6200000000000000, at);
            return;
        }
        if (is_illegal(m, low, high)) {
            command_stop(m, 0x5000000000000000, at);
            return;
        }
        r->head = (pointer(r, r->head) + 16) & ring_mask(r);
        if (low >> 60 == 1 && (low & 1) != 0) {
            store(m, low & 0x000ffffffffffff8, high);
        }
        if (low >> 60 == 1 && (low & 2) != 0) {
            model_iommu_raise(m, 1u << 2);
        }
    }
}

/* ---- registers ---------------------------------------------------------- */

/* Those that only keep what is written, under a mask; with their feature. */
static const struct {
    uint32_t offset, feature;
    uint64_t writable, reset;
} plain[MODEL_NR_PLAIN] = {
    { 0x0000, 0, 0x000ffffffffff1ff, 0 },
    { 0x0020, 0, 0x000ffffffffff003, 0 },
    { 0x0028, 0, 0x000ffffffffff000, 0 },
    { 0x0038, 0, 0x0f0ffffffffff000, 8ull << 56 },
    { 0x0150, AVICEMU_IOMMU_MSI_MMIO, 0, 1ull << 32 },
    { 0x0158, AVICEMU_IOMMU_MSI_MMIO, 0xfffffffc00710000, 0x820005 },
    { 0x0160, AVICEMU_IOMMU_MSI_MMIO, 0x0000ffffffffffff, 0 },
    { 0x0170, AVICEMU_IOMMU_XT, 0xff0001ffffffff04, 0 },
    { 0x0178, AVICEMU_IOMMU_XT, 0xff0001ffffffff04, 0 },
    { 0x0180, AVICEMU_IOMMU_XT, 0xff0001ffffffff04, 0 },
};

static uint64_t
control_bits(uint32_t features)
{
    return 0x0800000000001ffdull |
           ((features & AVICEMU_IOMMU_GA) != 0 ? 1ull << 17 : 0) |
           ((features & AVICEMU_IOMMU_GAM) != 0 ? 0x3e000000ull : 0) |
           ((features & AVICEMU_IOMMU_2K) != 0 ? 3ull << 43 : 0) |
           ((features & AVICEMU_IOMMU_XT) != 0 ? 3ull << 50 : 0) |
           ((features & AVICEMU_IOMMU_GAPPI) != 0 ? 1ull << 55 : 0);
}

static uint64_t
efr(uint32_t features)
{
    return ((features & AVICEMU_IOMMU_XT) != 0 ? 1u << 2 : 0) |
           ((features & AVICEMU_IOMMU_GAPPI) != 0 ? 1u << 5 : 0) |
           ((features & AVICEMU_IOMMU_IA) != 0 ? 1u << 6 : 0) |
           ((features & AVICEMU_IOMMU_GA) != 0 ? 1u << 7 : 0) |
           ((features & AVICEMU_IOMMU_GAM) != 0 ? 1u << 21 : 0) |
           ((features & AVICEMU_IOMMU_MSI_MMIO) != 0 ? 1ull << 46 : 0);
}

void
model_iommu_reset(struct model_iommu *m, uint32_t features)
{
    m->features = features;
    m->control = m->status = m->tail_word = 0;
    m->commands = m->events =
        (struct model_ring){ .entry_bytes = 16, .base = 8ull << 56 };
    m->ga = (struct model_ring){ .entry_bytes = 8, .base = 8ull << 56 };
    for (unsigned i = 0; i < MODEL_NR_PLAIN; i++) {
        m->plain[i] =
            plain[i].feature == 0 || (features & plain[i].feature) != 0
                ? plain[i].reset
                : 0;
    }
}

uint64_t
model_iommu_read(const struct model_iommu *m, uint32_t offset)
{
    for (unsigned i = 0; i < MODEL_NR_PLAIN; i++) {
        if (plain[i].offset == offset) {
            return m->plain[i];
        }
    }
    switch (offset) {
    case 0x0008:
        return m->commands.base;
    case 0x0010:
        return m->events.base;
    case 0x0018:
        return m->control;
    case 0x0030:
        return efr(m->features);
    case 0x01a0:
        return ((m->features & AVICEMU_IOMMU_GAPPI_DIS) != 0 ? 1u << 4 : 0) |
               ((m->features & AVICEMU_IOMMU_2K) != 0 ? 1u << 8 : 0);
    case 0x2000:
        return pointer(&m->commands, m->commands.head);
    case 0x2008:
        return pointer(&m->commands, m->commands.tail);
    case 0x2010:
        return pointer(&m->events, m->events.head);
    case 0x2018:
        return pointer(&m->events, m->events.tail);
    case 0x2020:
        return status_of(m);
    default:
        break;
    }
    if ((m->features & AVICEMU_IOMMU_GAM) == 0) {
        return 0;
    }
    return offset == 0x00e0   ? m->ga.base
           : offset == 0x00e8 ? m->tail_word
           : offset == 0x2040 ? pointer(&m->ga, m->ga.head)
           : offset == 0x2048 ? pointer(&m->ga, m->ga.tail)
                              : 0;
}

static void
control_write(struct model_iommu *m, uint64_t value)
{
    uint64_t was = m->control;
    uint64_t is = value & control_bits(m->features);

    m->control = is;
    ring_enable(&m->events, was, is, 1u << 2);
    ring_enable(&m->ga, was, is, 1u << 28);
    ring_enable(&m->commands, was, is, 1u << 12);
    commands_run(m);
    m->signals |= signals_of(m->status, is & ~was);
}

static void
status_write(struct model_iommu *m, uint64_t value)
{
    m->status &= ~value;
    m->events.overflow = m->events.overflow && (value & 1) == 0;
    m->ga.overflow = m->ga.overflow && (value & 1u << 9) == 0;
}

static void
ga_write(struct model_iommu *m, uint32_t offset, uint64_t value)
{
    if ((m->features & AVICEMU_IOMMU_GAM) == 0) {
        return;
    }
    if (offset == 0x00e0) {
        ring_set_base(&m->ga, value);
    } else if (offset == 0x00e8 && !m->ga.run) {
        m->tail_word = value & 0x000ffffffffffff8;
    } else if (offset == 0x2040) {
        m->ga.head = value;
    } else if (offset == 0x2048 && !m->ga.run) {
        m->ga.tail = pointer(&m->ga, value);
    }
}

static void
write_whole(struct model_iommu *m, uint32_t offset, uint64_t value)
{
    for (unsigned i = 0; i < MODEL_NR_PLAIN; i++) {
        if (plain[i].offset == offset &&
            (plain[i].feature == 0 || (m->features & plain[i].feature) != 0)) {
            m->plain[i] = (m->plain[i] & ~plain[i].writable) |
                          (value & plain[i].writable);
        }
    }
    switch (offset) {
    case 0x0008:
        ring_set_base(&m->commands, value);
        break;
    case 0x0010:
        ring_set_base(&m->events, value);
        break;
    case 0x0018:
        control_write(m, value);
        break;
    case 0x2000:
        m->commands.head = m->commands.run ? m->commands.head : value;
        break;
    case 0x2008:
        m->commands.tail = value;
        commands_run(m);
        break;
    case 0x2010:
        m->events.head = value;
        break;
    case 0x2018:
        m->events.tail =
            m->events.run ? m->events.tail : pointer(&m->events, value);
        break;
    case 0x2020:
        status_write(m, value);
        break;
    default:
        ga_write(m, offset, value);
        break;
    }
}

uint32_t
model_iommu_write(struct model_iommu *m, uint32_t offset, unsigned bytes,
                  uint64_t value)
{
    uint32_t whole = offset & ~7u;
    unsigned shift = (offset & 4) * 8;

    if (bytes == 4) {
        uint64_t rest = whole == 0x2020 ? 0 : model_iommu_read(m, whole);

        value = (rest & ~((uint64_t)UINT32_MAX << shift)) | (value & UINT32_MAX)
                                                                << shift;
    }
    m->signals = 0;
    write_whole(m, whole, value);
    return m->signals;
}
