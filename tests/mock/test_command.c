/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * avicemu-host as people run it: exit status, what it says and where, and
 * Ctrl-C in the middle.
 *
 * Arguments: the command, and the folder of the example scenarios.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *command, *scenarios;

#define MAX_OUTPUT    16384
#define MAX_ARGUMENTS 8

struct child {
    pid_t pid;
    int out; /* its standard output and error */
    char text[MAX_OUTPUT];
    size_t len;
};

static void
child_start(struct child *child, const char *const *arguments)
{
    char *argv[MAX_ARGUMENTS + 2] = { NULL };
    int pipe_ends[2];

    argv[0] = (char *)(uintptr_t)command;
    for (unsigned i = 0; i < MAX_ARGUMENTS && arguments[i] != NULL; i++) {
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    }
    assert_int_equal(pipe(pipe_ends), 0);
    *child = (struct child){ .pid = fork(), .out = pipe_ends[0] };
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        (void)dup2(pipe_ends[1], STDOUT_FILENO);
        (void)dup2(pipe_ends[1], STDERR_FILENO);
        (void)close(pipe_ends[0]);
        (void)close(pipe_ends[1]);
        (void)execv(command, argv);
        _exit(126);
    }
    (void)close(pipe_ends[1]);
}

/* More of its output; 0: it has ended. */
static size_t
child_read(struct child *child)
{
    ssize_t n =
        read(child->out, child->text + child->len, MAX_OUTPUT - 1 - child->len);

    assert_true(n >= 0);
    child->len += (size_t)n;
    child->text[child->len] = '\0';
    return (size_t)n;
}

static int
child_end(struct child *child)
{
    int status = 0;

    while (child_read(child) != 0) {
    }
    (void)close(child->out);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int
run(struct child *child, const char *a, const char *b, const char *c,
    const char *d)
{
    const char *const arguments[MAX_ARGUMENTS + 1] = { a, b, c, d };

    child_start(child, arguments);
    return child_end(child);
}

static const char *
scenario(const char *name)
{
    static char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%s", scenarios, name);
    return path;
}

static void
closed_books_are_status_0(void **state)
{
    struct child child;
    int status =
        run(&child, "--duration", "0.2", scenario("overcommit-1x4.ini"), NULL);

    (void)state;
    assert_non_null(strstr(child.text, "Books closed after "));
    assert_null(strchr(child.text, '\r')); /* no bar into a pipe */
    assert_int_equal(status, 0);
}

static void
quiet_says_nothing(void **state)
{
    struct child child;

    (void)state;
    assert_int_equal(
        run(&child, "--quiet", scenario("repeatable.ini"), NULL, NULL), 0);
    assert_string_equal(child.text, "");
}

static void
same_seed_same_output(void **state)
{
    static struct child first, second, third;
    const char *path = scenario("repeatable.ini");

    (void)state;
    assert_int_equal(run(&first, path, NULL, NULL, NULL), 0);
    assert_int_equal(run(&second, path, NULL, NULL, NULL), 0);
    assert_int_equal(run(&third, "--seed", "8", path, NULL), 0);
    assert_non_null(strstr(first.text, "hash "));
    assert_string_equal(first.text, second.text);
    assert_string_not_equal(first.text, third.text);
}

static void
avic_scenarios_close_their_books(void **state)
{
    static struct child child;

    (void)state;
    assert_int_equal(
        run(&child, "--duration", "0.2", scenario("ipi-storm.ini"), NULL), 0);
    assert_non_null(strstr(child.text, "AVIC"));
    assert_non_null(strstr(child.text, "Books closed after "));
    assert_int_equal(
        run(&child, "--duration", "0.01", scenario("avic-toggle.ini"), NULL),
        0);
    assert_non_null(strstr(child.text, "Books closed after "));
}

static void
json_goes_to_the_file(void **state)
{
    char path[] = "mock-command-XXXXXX", start[3] = "";
    struct child child;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(
        run(&child, "--json", path, scenario("repeatable.ini"), NULL), 0);
    assert_int_equal(read(fd, start, 2), 2);
    assert_string_equal(start, "{\n");
    (void)close(fd);
    (void)unlink(path);
    assert_int_equal(run(&child, "--json", "no/such/folder.json",
                         scenario("repeatable.ini"), NULL),
                     1);
    assert_non_null(strstr(child.text, "no/such/folder.json: cannot be "
                                       "written: No such file"));
}

static void
mistakes_are_status_2(void **state)
{
    struct child child;
    const char *path = scenario("repeatable.ini");

    (void)state;
    assert_int_equal(run(&child, NULL, NULL, NULL, NULL), 2);
    assert_non_null(strstr(child.text, "which scenario?"));
    assert_int_equal(run(&child, "--faster", path, NULL, NULL), 2);
    assert_int_equal(run(&child, path, path, NULL, NULL), 2);
    assert_int_equal(run(&child, "no/such.ini", NULL, NULL, NULL), 2);
    assert_string_equal(
        child.text, "no/such.ini: cannot be read: No such file or directory\n");
    assert_int_equal(run(&child, "--seed", "x", path, NULL), 2);
    assert_string_equal(child.text, "--seed x: must be 0..2^64-1\n");
    assert_int_equal(run(&child, "--duration", "0", path, NULL), 2);
    assert_string_equal(child.text, "--duration 0: must be 0.001..3600\n");
}

/* Once it has said where it is, it is in the middle of the run. */
static void
ctrl_c_closes_the_books(void **state)
{
    const char *const arguments[MAX_ARGUMENTS + 1] = {
        "--duration", "3600", scenario("overcommit-1x4.ini")
    };
    static struct child child;

    (void)state;
    child_start(&child, arguments);
    while (strchr(child.text, '\n') == NULL && child_read(&child) != 0) {
    }
    assert_int_equal(kill(child.pid, SIGINT), 0);
    assert_int_equal(child_end(&child), 0);
    assert_non_null(strstr(child.text, "Interrupted: the books are closed over "
                                       "what ran.\nBooks closed after "));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        { "closed books are status 0", closed_books_are_status_0, NULL, NULL,
          NULL },
        { "--quiet says nothing", quiet_says_nothing, NULL, NULL, NULL },
        { "same seed, same output", same_seed_same_output, NULL, NULL, NULL },
        { "scenarios with AVIC close their books",
          avic_scenarios_close_their_books, NULL, NULL, NULL },
        { "--json goes to the file", json_goes_to_the_file, NULL, NULL, NULL },
        { "mistakes are status 2", mistakes_are_status_2, NULL, NULL, NULL },
        { "Ctrl-C closes the books over what ran", ctrl_c_closes_the_books,
          NULL, NULL, NULL },
    };

    if (argc != 3) {
        (void)fprintf(stderr, "usage: %s COMMAND SCENARIOS\n", argv[0]);
        return 2;
    }
    command = argv[1];
    scenarios = argv[2];
    return cmocka_run_group_tests_name("avicemu-host", tests, NULL, NULL);
}
