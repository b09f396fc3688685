/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_COMPILER_H
#define AE_BASE_COMPILER_H

/*
 * What differs between compilers, and the sizes that layout decisions use.
 */

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AE_CACHE_LINE 64u
#define AE_PAGE       4096u

#define AE_ALIGNED(n)  __attribute__((aligned(n)))
#define AE_UNUSED      __attribute__((unused))
#define AE_LIKELY(x)   __builtin_expect(!!(x), 1)
#define AE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AE_NOINLINE    __attribute__((noinline))

#define AE_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#if defined(__SANITIZE_THREAD__)
#define AE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AE_TSAN 1
#endif
#endif
#ifndef AE_TSAN
#define AE_TSAN 0
#endif

/* Any sanitizer that looks into inline code. gcc tells of address and thread
 * only; this tree uses the undefined-behaviour one together with address. */
#if AE_TSAN || defined(__SANITIZE_ADDRESS__)
#define AE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define AE_SANITIZED 1
#endif
#endif
#ifndef AE_SANITIZED
#define AE_SANITIZED 0
#endif

#endif
