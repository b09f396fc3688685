/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef POST_RIG_H
#define POST_RIG_H

/*
 * A rig with an IOMMU and one device, and the moves of its scripts.
 */

#include "rig.h"

#define DEVICE 8u
#define IRQS   8u

/* An IOMMU of the rig's host, with the device; features 0: the default. */
static struct avicemu_iommu *
post_open(struct rig *rig, uint32_t features)
{
    struct avicemu_iommu_config config = { .size = sizeof(config),
                                           .features = features,
                                           .max_devices = 2,
                                           .irqs_per_device = IRQS };
    struct avicemu_iommu *iommu = NULL;

    assert_int_equal(avicemu_iommu_create(rig->host, &config, &iommu), 0);
    assert_int_equal(avicemu_iommu_add_device(iommu, DEVICE, IRQS), 0);
    return iommu;
}

static void
post_close(struct avicemu_iommu *iommu)
{
    assert_int_equal(avicemu_iommu_remove_device(iommu, DEVICE), 0);
    assert_int_equal(avicemu_iommu_destroy(iommu), 0);
}

/* The device raises interrupt i. */
static struct avicemu_iommu_posted
post_raise(struct avicemu_iommu *iommu, uint32_t i)
{
    struct avicemu_iommu_posted posted;
    uint64_t address = 0;
    uint32_t data = 0;

    assert_int_equal(avicemu_iommu_message(iommu, DEVICE, i, &address, &data),
                     0);
    assert_int_equal(avicemu_iommu_msi(iommu, DEVICE, address, data, &posted),
                     0);
    return posted;
}

#endif
