/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an id to a vCPU: the look-up alone against an array indexed by the id,
 * and a whole MSI.
 */

#include "base/rcu.h"
#include "hv/apicmap.h"
#include "rig.h"
#include "tables.h"

static void *
make(uint64_t objects)
{
    return rig_make(objects, RIG_X2APIC);
}

static uint64_t
array(void *arg, uint64_t n)
{
    struct rig *rig = arg;
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        const struct avicemu_vcpu *vcpu = rig->vcpus[rig_next(rig) % rig->nr];

        bench_use((uintptr_t)vcpu);
        did += vcpu != NULL;
    }
    return did;
}

static uint64_t
find(struct rig *rig, uint64_t n, bool logical)
{
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)(rig_next(rig) % rig->nr);
        struct ae_message m = {
            .dest = logical ? (id >> 4) << 16 | 1u << (id & 15) : id,
            .logical = logical,
            .format = AE_FORMAT_X2APIC,
        };
        struct avicemu_vcpu *found[AE_MAP_MAX_FOUND];

        ae_rcu_enter();
        did += ae_apicmap_find(&rig->vms[0]->map, &m, found) == 1 &&
               found[0] == rig->vcpus[id];
        ae_rcu_leave();
    }
    return did;
}

static uint64_t
physical(void *arg, uint64_t n)
{
    return find(arg, n, false);
}

static uint64_t
logical(void *arg, uint64_t n)
{
    return find(arg, n, true);
}

static uint64_t
msi(void *arg, uint64_t n)
{
    struct rig *rig = arg;
    uint64_t did = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = rig_next(rig) % rig->nr;
        struct avicemu_posted posted;

        (void)avicemu_msi(rig->vms[0],
                          0xfee00000 | (id & 0xff) << 12 | id >> 8 << 40,
                          0x40 + (uint32_t)(i & 0x7f), &posted);
        did += posted.nr_new + posted.nr_merged == 1;
    }
    return did;
}

/* clang-format off */
#define MAP(name, n_, run_) \
    { .bench = name, .variant = "array", .objects = (n_), .setup = make, \
      .teardown = rig_drop, .run = array }, \
    { .bench = name, .variant = "library", .baseline = "array", \
      .objects = (n_), .setup = make, .teardown = rig_drop, .run = run_ }

static const struct bench_row rows[] = {
    MAP("map-physical", 1, physical), MAP("map-physical", 64, physical),
    MAP("map-physical", 1024, physical), MAP("map-physical", 4096, physical),
    MAP("map-logical", 1, logical), MAP("map-logical", 64, logical),
    MAP("map-logical", 1024, logical), MAP("map-logical", 4096, logical),
    MAP("msi", 1, msi), MAP("msi", 64, msi), MAP("msi", 1024, msi),
};
/* clang-format on */

const struct bench_table bench_map = { rows, sizeof(rows) / sizeof(rows[0]) };
