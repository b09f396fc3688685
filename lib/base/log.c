/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formatting of log messages, on the stack.
 */

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void
ae_log_write(const struct ae_log *log, enum avicemu_log_level level,
             const char *format, ...)
{
    char text[256];
    int saved = errno;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log->fn(log->opaque, level, text);
    errno = saved;
}

int
ae_log_setting(const struct ae_log *log, const char *object, const char *what,
               uint64_t value)
{
    AE_LOG(log, AVICEMU_LOG_ERROR, "%s config: %s; it is %llu", object, what,
           (unsigned long long)value);
    return -EINVAL;
}
