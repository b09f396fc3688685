/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounded text.
 */

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void
ae_text_add(struct ae_text *t, const char *format, ...)
{
    size_t room = t->used < t->len ? t->len - t->used : 0;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(room != 0 ? t->buf + t->used : NULL, room, format, args);
    va_end(args);
    if (n > 0) {
        t->used += (size_t)n;
    }
}
