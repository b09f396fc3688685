/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log levels: what reaches the hook, and in which shape.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/log.h"

#ifdef AE_NO_LOG
#define SITES 0
#else
#define SITES 1
#endif

struct row {
    const char *name;
    enum avicemu_log_level limit, level;
    int said;
};

static const struct row rows[] = {
    { "no limit set: an error is not said", AVICEMU_LOG_NONE, AVICEMU_LOG_ERROR,
      0 },
    { "limit error: an error is said", AVICEMU_LOG_ERROR, AVICEMU_LOG_ERROR,
      1 },
    { "limit error: a warning is not said", AVICEMU_LOG_ERROR, AVICEMU_LOG_WARN,
      0 },
    { "limit info: a warning is said", AVICEMU_LOG_INFO, AVICEMU_LOG_WARN, 1 },
    { "limit info: debug is not said", AVICEMU_LOG_INFO, AVICEMU_LOG_DEBUG, 0 },
    { "limit debug: debug is said", AVICEMU_LOG_DEBUG, AVICEMU_LOG_DEBUG, 1 },
};

struct heard {
    unsigned times;
    enum avicemu_log_level level;
    char text[512];
};

static void
hear(void *opaque, enum avicemu_log_level level, const char *text)
{
    struct heard *h = opaque;

    h->times++;
    h->level = level;
    (void)snprintf(h->text, sizeof(h->text), "%s", text);
    errno = ERANGE;
}

static int
counted(int *calls)
{
    return ++*calls;
}

static void
test_level(void **state)
{
    const struct row *row = *state;
    struct heard h = { .times = 0 };
    const struct ae_log log = {
        .fn = hear,
        .opaque = &h,
        .level = row->limit,
    };
    int formatted = 0;
    unsigned said = row->said && SITES ? 1 : 0;

    AE_LOG(&log, row->level, "%s %d", "n =", counted(&formatted));
    assert_int_equal(h.times, said);
    assert_int_equal(formatted, said);
    if (said != 0) {
        assert_int_equal(h.level, row->level);
        assert_string_equal(h.text, "n = 1");
    }
}

static void
test_no_hook(void **state)
{
    const struct ae_log log = { .level = AVICEMU_LOG_DEBUG };
    int formatted = 0;

    (void)state;
    AE_LOG(&log, AVICEMU_LOG_ERROR, "%d", counted(&formatted));
    assert_int_equal(formatted, 0);
}

static void
test_long(void **state)
{
    struct heard h = { .times = 0 };
    const struct ae_log log = {
        .fn = hear,
        .opaque = &h,
        .level = AVICEMU_LOG_DEBUG,
    };

    (void)state;
    ae_log_write(&log, AVICEMU_LOG_WARN, "%400d", 7);
    assert_int_equal(h.times, 1);
    assert_int_equal(strlen(h.text), 255);
}

static void
test_errno(void **state)
{
    struct heard h = { .times = 0 };
    const struct ae_log log = {
        .fn = hear,
        .opaque = &h,
        .level = AVICEMU_LOG_DEBUG,
    };

    (void)state;
    errno = EDOM;
    ae_log_write(&log, AVICEMU_LOG_INFO, "x");
    assert_int_equal(errno, EDOM);
}

int
main(void)
{
    struct CMUnitTest tests[AE_ARRAY_SIZE(rows) + 3] = {
        { "without a hook nothing is formatted", test_no_hook, NULL, NULL,
          NULL },
        { "a long message is cut, not dropped", test_long, NULL, NULL, NULL },
        { "errno survives a hook that changes it", test_errno, NULL, NULL,
          NULL },
    };

    for (size_t i = 0; i < AE_ARRAY_SIZE(rows); i++) {
        tests[3 + i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = test_level,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
