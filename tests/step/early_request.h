/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before hv/active.c to weaken it: the vCPUs are asked to look at the
 * inhibit word first, and the word is changed after that.
 */
#ifndef EARLY_REQUEST_H
#define EARLY_REQUEST_H

#include "hv/active.h"

static inline bool
early_request(struct avicemu_vm *vm, uint32_t mask, uint32_t value)
{
    ae_active_request(vm);
    (void)ae_tables_inhibit(vm->tables, mask, value);
    return false;
}

#define ae_tables_inhibit(tables, mask, value) early_request(vm, mask, value)

#endif
