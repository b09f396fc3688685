/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_LOG_H
#define AE_BASE_LOG_H

/*
 * Messages to the host's hook. The level is tested before anything is
 * formatted; nothing on a delivery path logs. The meson option "log" removes
 * the sites.
 */

#include <stdint.h>

#include <avicemu/log.h>

struct ae_log {
    avicemu_log_fn fn;
    void *opaque;
    enum avicemu_log_level level;
};

AVICEMU_PRINTF(3, 4)
void
ae_log_write(const struct ae_log *log, enum avicemu_log_level level,
             const char *format, ...);

/* A setting that cannot be: "host config: what; it is value". -EINVAL. */
int
ae_log_setting(const struct ae_log *log, const char *object, const char *what,
               uint64_t value);

#ifdef AE_NO_LOG
/* The arguments stay checked and used; the call goes away. */
#define AE_LOG(log, lvl, ...)                        \
    do {                                             \
        if (0) {                                     \
            ae_log_write((log), (lvl), __VA_ARGS__); \
        }                                            \
    } while (0)
#else
#define AE_LOG(log, lvl, ...)                             \
    do {                                                  \
        if ((lvl) <= (log)->level && (log)->fn != NULL) { \
            ae_log_write((log), (lvl), __VA_ARGS__);      \
        }                                                 \
    } while (0)
#endif

#endif
