/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_API_HW_MEMORY_H
#define AE_API_HW_MEMORY_H

/*
 * What stands behind the hardware face's memory.
 */

#include <avicemu/hw/memory.h>

#include "base/mem.h"

struct avicemu_hw_memory {
    struct ae_mem mem;
};

#endif
