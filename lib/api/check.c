/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configs of another size than ours.
 */

#include "api/check.h"

#include <string.h>

bool
ae_config_copy(void *ours, size_t our_size, const void *theirs)
{
    size_t size;

    memcpy(&size, theirs, sizeof(size));
    if (size < sizeof(size) || size > 65536) {
        return false;
    }
    for (size_t i = our_size; i < size; i++) {
        if (((const unsigned char *)theirs)[i] != 0) {
            return false;
        }
    }
    memset(ours, 0, our_size);
    memcpy(ours, theirs, size < our_size ? size : our_size);
    return true;
}
