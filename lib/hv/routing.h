/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_ROUTING_H
#define AE_HV_ROUTING_H

/*
 * A VM's routing table: from a GSI to an MSI. See routing.c.
 */

#include <avicemu/iommu.h>

#include "hv/object.h"

#define AE_MAX_GSI 4096u

/* One route; valid: there is one. */
struct ae_route {
    uint64_t address;
    uint32_t data;
    bool valid;
};

struct ae_routes {
    uint32_t nr; /* one past the highest GSI */
    struct ae_route at[];
};

/* A table of these. NULL: no memory. 0, -EEXIST (a GSI twice), -EINVAL (one out
 * of range), -ENOMEM. */
int
ae_routes_make(struct avicemu_vm *vm, const struct avicemu_msi_route *routes,
               uint32_t nr, struct ae_routes **ret);
/* Put it in place; the former one, which readers may have until they leave
 * their sections. Under the posting lock. */
struct ae_routes *
ae_routes_swap(struct avicemu_vm *vm, struct ae_routes *routes);
void
ae_routes_drop(struct avicemu_vm *vm, struct ae_routes *routes);
/* The VM's own one. Nobody reads it any more. */
void
ae_routes_free(struct avicemu_vm *vm);

/* The route of a GSI, in a table that may be NULL. */
struct ae_route
ae_route_in(const struct ae_routes *routes, uint32_t gsi);
/* In the VM's; in a section, or under the posting lock. */
struct ae_route
ae_route_get(const struct avicemu_vm *vm, uint32_t gsi);

#endif
