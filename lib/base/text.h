/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_TEXT_H
#define AE_BASE_TEXT_H

/*
 * Appending to a caller's buffer with snprintf's result: the length that the
 * whole text would have. For describe, dump and check_invariants.
 */

#include <avicemu/common.h>

#include "base/compiler.h"

struct ae_text {
    char *buf; /* may be NULL if len is 0 */
    size_t len;
    size_t used; /* may exceed len */
};

static inline struct ae_text
ae_text_begin(char *buf, size_t len)
{
    struct ae_text t = { .buf = buf, .len = buf != NULL ? len : 0, .used = 0 };

    if (t.len != 0) {
        buf[0] = '\0';
    }
    return t;
}

AVICEMU_PRINTF(2, 3)
void
ae_text_add(struct ae_text *t, const char *format, ...);

#endif
