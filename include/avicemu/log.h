/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_LOG_H
#define AVICEMU_LOG_H

#include <avicemu/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Severity of a message, most severe first. */
enum avicemu_log_level {
    AVICEMU_LOG_NONE,  /* as a limit: nothing is said */
    AVICEMU_LOG_ERROR, /* a set-up call failed: which field, value, range */
    AVICEMU_LOG_WARN,  /* a guest does something strange; once per VM, site */
    AVICEMU_LOG_INFO,
    AVICEMU_LOG_DEBUG, /* host misuse that was refused with an errno */
};

/**
 * Receives one message.
 *
 * @param opaque  the opaque of the host or VM that logs
 * @param level   its severity; never above the limit in the configuration
 * @param text    the message, without newline; valid during the call only
 *
 * Threads: any. Called with no lock held. It must not call back into the
 * library. errno is preserved around the call by nobody: leave it alone.
 */
typedef void (*avicemu_log_fn)(void *opaque, enum avicemu_log_level level,
                               const char *text);

#ifdef __cplusplus
}
#endif

#endif
