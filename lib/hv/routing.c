/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routing tables: an array by GSI, replaced as a whole. Readers take a copy of
 * one route inside a section; who replaces the table frees the old one behind
 * it. [KVM MSI routing]
 *
 * Edge
 *   vcpu  A ae_routes_swap()  table -> pointer   release
 *         B ae_route_get()    pointer -> table   acquire
 *
 * Look-ups: any thread, wait-free. The rest: under the posting lock, or alone.
 */

#include "hv/routing.h"

#include <errno.h>

static size_t
routes_bytes(uint32_t nr)
{
    return sizeof(struct ae_routes) + nr * sizeof(struct ae_route);
}

void
ae_routes_drop(struct avicemu_vm *vm, struct ae_routes *routes)
{
    if (routes != NULL) {
        ae_free(&vm->host->allocator, routes, routes_bytes(routes->nr));
    }
}

/* One past the highest GSI; 0: one is out of range. */
static uint32_t
highest(const struct avicemu_msi_route *routes, uint32_t nr)
{
    uint32_t highest = 1;

    for (uint32_t i = 0; i < nr; i++) {
        if (routes[i].gsi >= AE_MAX_GSI) {
            return 0;
        }
        highest = routes[i].gsi >= highest ? routes[i].gsi + 1 : highest;
    }
    return highest;
}

int
ae_routes_make(struct avicemu_vm *vm, const struct avicemu_msi_route *routes,
               uint32_t nr, struct ae_routes **ret)
{
    uint32_t size = highest(routes, nr);

    if (size == 0) {
        return -EINVAL;
    }
    struct ae_routes *made =
        ae_alloc(&vm->host->allocator, AE_CACHE_LINE, routes_bytes(size));

    if (made == NULL) {
        return -ENOMEM;
    }
    made->nr = size;
    for (uint32_t i = 0; i < nr; i++) {
        struct ae_route *at = &made->at[routes[i].gsi];

        if (at->valid) {
            ae_routes_drop(vm, made);
            return -EEXIST;
        }
        *at = (struct ae_route){ routes[i].address, routes[i].data, true };
    }
    *ret = made;
    return 0;
}

/* ORD vcpu.B: the pointer, then the table. Partner: vcpu.A in
 * ae_routes_swap(). If weaker: half a table. Test: race_posting. */
static struct ae_routes *
routes_of(const struct avicemu_vm *vm)
{
    return ae_load_acquire_ptr(&vm->routes);
}

struct ae_routes *
ae_routes_swap(struct avicemu_vm *vm, struct ae_routes *routes)
{
    struct ae_routes *was = routes_of(vm);

    /* ORD vcpu.A: the table, then its pointer. Partner: vcpu.B in
     * routes_of(). If weaker: see there. Test: race_posting. */
    ae_store_release_ptr(&vm->routes, routes);
    return was;
}

void
ae_routes_free(struct avicemu_vm *vm)
{
    ae_routes_drop(vm, routes_of(vm));
}

struct ae_route
ae_route_in(const struct ae_routes *routes, uint32_t gsi)
{
    return routes != NULL && gsi < routes->nr
               ? routes->at[gsi]
               : (struct ae_route){ .valid = false };
}

struct ae_route
ae_route_get(const struct avicemu_vm *vm, uint32_t gsi)
{
    return ae_route_in(routes_of(vm), gsi);
}
