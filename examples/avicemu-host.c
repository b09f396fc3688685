/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a scenario on the mock host and closes its books.
 *
 *     avicemu-host [--json FILE] [--seed N] [--duration S] [--quiet] FILE.ini
 *     avicemu-host --ratios 1:1,1:2 --designs spinlock_hash,library FILE.ini
 *
 * The second one runs it at several ratios of pCPUs to vCPUs, with several
 * designs of the look-up from GA tag to vCPU in turn, and prints a table.
 *
 * On a terminal it shows a bar with the time left, elsewhere a line every two
 * seconds; then the report. Ctrl-C ends the run early and closes the books
 * over what ran; a second Ctrl-C does not wait for what is under way.
 *
 * Exit status: 0 all books close; 1 they do not, or something was lost; 2 bad
 * scenario or usage.
 */

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <avicemu/mock/host.h>

#include "sweep.h"

#define EXIT_BOOKS 1
#define EXIT_USAGE 2
#define BAR        30

const char *argp_program_version = "avicemu-host 0.1.0";

struct arguments {
    const char *scenario;
    const char *json;
    const char *seed;
    const char *duration;
    const char *ratios;
    const char *designs;
    int quiet;
};

/* How the run's progress is told. */
struct teller {
    FILE *file;
    int terminal;
    uint64_t told_ns;
};

/* A signal handler has no argument. */
static struct avicemu_mock_host *interruptible;

static void
on_signal(int number)
{
    (void)number;
    if (interruptible != NULL) {
        avicemu_mock_host_interrupt(interruptible);
    }
    sweep_interrupt();
}

/* ---- progress ----------------------------------------------------------- */

static void
bar_draw(const struct teller *teller, uint64_t now_ns, uint64_t total_ns)
{
    unsigned full = (unsigned)(now_ns * BAR / total_ns);
    uint64_t left_ns = total_ns - now_ns;

    (void)fprintf(teller->file, "\r[");
    for (unsigned i = 0; i < BAR; i++) {
        (void)fputc(i < full ? '#' : '.', teller->file);
    }
    (void)fprintf(teller->file, "] %3u%%  %5.1f s left ",
                  (unsigned)(now_ns * 100 / total_ns), (double)left_ns / 1e9);
    (void)fflush(teller->file);
}

static void
on_progress(void *opaque, uint64_t now_ns, uint64_t total_ns)
{
    struct teller *teller = opaque;
    uint64_t every_ns = teller->terminal ? 100000000u : 2000000000u;

    if (now_ns < teller->told_ns + every_ns && now_ns < total_ns) {
        return;
    }
    if (teller->told_ns >= total_ns || total_ns < every_ns) {
        return; /* draining, and it has said so; or over at once */
    }
    teller->told_ns = now_ns;
    now_ns = now_ns > total_ns ? total_ns : now_ns;
    if (teller->terminal) {
        bar_draw(teller, now_ns, total_ns);
    } else {
        (void)fprintf(teller->file, "%.1f of %.1f s\n", (double)now_ns / 1e9,
                      (double)total_ns / 1e9);
        (void)fflush(teller->file);
    }
}

/* ---- arguments ---------------------------------------------------------- */

static error_t
on_option(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;

    switch (key) {
    case 'j':
        arguments->json = text;
        return 0;
    case 's':
        arguments->seed = text;
        return 0;
    case 'd':
        arguments->duration = text;
        return 0;
    case 'r':
        arguments->ratios = text;
        return 0;
    case 'D':
        arguments->designs = text;
        return 0;
    case 'q':
        arguments->quiet = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->scenario != NULL) {
            argp_error(state, "one scenario at a time");
        }
        arguments->scenario = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which scenario?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "json", 'j', "FILE", 0, "Also write the report to FILE as JSON", 0 },
    { "seed", 's', "N", 0, "Use seed N instead of the scenario's", 0 },
    { "duration", 'd', "S", 0, "Run for S seconds (0.001 to 3600)", 0 },
    { "ratios", 'r', "1:N,...", 0,
      "Run at these ratios of pCPUs to vCPUs, and print a table", 0 },
    { "designs", 'D', "NAME,...", 0,
      "With these designs of the GA-tag look-up in turn (library, "
      "spinlock_hash, rcu_hash, mutex_hash, rwlock_hash)",
      0 },
    { "quiet", 'q', NULL, 0, "Say nothing but what failed", 0 },
    { NULL, 0, NULL, 0, NULL, 0 },
};

/* Put what the command line says into the scenario. 0: it makes no sense. */
static int
arguments_apply(const struct arguments *arguments,
                struct avicemu_mock_scenario *scenario)
{
    char *end = NULL;
    double s;

    errno = 0;
    if (arguments->seed != NULL) {
        scenario->seed = strtoull(arguments->seed, &end, 10);
        if (errno != 0 || *end != '\0' || arguments->seed[0] < '0' ||
            arguments->seed[0] > '9') {
            (void)fprintf(stderr, "--seed %s: must be 0..2^64-1\n",
                          arguments->seed);
            return 0;
        }
    }
    if (arguments->duration != NULL) {
        s = strtod(arguments->duration, &end);
        if (end == arguments->duration || *end != '\0' ||
            !(s >= 0.001 && s <= 3600)) {
            (void)fprintf(stderr, "--duration %s: must be 0.001..3600\n",
                          arguments->duration);
            return 0;
        }
        scenario->duration_ns = (uint64_t)(s * 1e9);
    }
    return 1;
}

/* ---- the run ------------------------------------------------------------ */

static int
json_write(const struct avicemu_mock_report *report, const char *path)
{
    FILE *file = fopen(path, "w");
    int rc = file == NULL ? -errno : avicemu_mock_report_json(report, file);

    if (file != NULL && fclose(file) != 0 && rc == 0) {
        rc = -errno;
    }
    if (rc != 0) {
        (void)fprintf(stderr, "%s: cannot be written: %s\n", path,
                      strerror(-rc));
    }
    return rc;
}

/* Ctrl-C and a polite kill are the host's while it runs. */
static void
signals_take(struct avicemu_mock_host *host)
{
    struct sigaction action = { .sa_handler =
                                    host != NULL ? on_signal : SIG_IGN };

    interruptible = host != NULL ? host : interruptible;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static struct avicemu_mock_report *
run(const struct avicemu_mock_scenario *scenario, int quiet)
{
    struct teller teller = { stdout, isatty(STDOUT_FILENO), 0 };
    struct avicemu_mock_options host_options = {
        .size = sizeof(host_options),
        .progress = quiet ? NULL : on_progress,
        .opaque = &teller,
    };
    struct avicemu_mock_report *report = NULL;
    struct avicemu_mock_host *host = NULL;
    int rc = avicemu_mock_host_create(scenario, &host_options, &host);

    if (rc == 0) {
        signals_take(host);
        rc = avicemu_mock_host_run(host, &report);
        signals_take(NULL);
        avicemu_mock_host_destroy(host);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "The host does not run: %s\n", strerror(-rc));
    }
    if (!quiet && teller.terminal) {
        (void)printf("\r%*s\r", BAR + 30, ""); /* the bar has done its work */
    }
    return report;
}

/* Several runs, a table. The exit status. */
static int
sweep(const struct arguments *arguments,
      const struct avicemu_mock_scenario *scenario)
{
    const struct sweep s = { .ratios = arguments->ratios,
                             .designs = arguments->designs,
                             .json = arguments->json,
                             .quiet = arguments->quiet };
    struct sigaction action = { .sa_handler = on_signal };

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    return sweep_run(&s, scenario);
}

static int
scenario_read(const struct arguments *arguments,
              struct avicemu_mock_scenario *scenario)
{
    char error[512];
    int rc = avicemu_mock_scenario_load(arguments->scenario, scenario, error,
                                        sizeof(error));

    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", error);
        return rc;
    }
    return arguments_apply(arguments, scenario) ? 0 : -EINVAL;
}

static void
failures_print(const struct avicemu_mock_report *report)
{
    for (uint32_t i = 0; i < report->nr_failures && i < 16; i++) {
        (void)fprintf(stderr, "FAILED: %s\n", report->failures[i]);
    }
}

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        on_option,
        "FILE.ini",
        "Run a scenario on the mock host and close its books.\v"
        "FILE.ini may be - for standard input. Exit status: 0 all books "
        "close, 1 they do not, 2 bad scenario or usage.",
        NULL,
        NULL,
        NULL
    };
    static struct avicemu_mock_scenario scenario;
    struct arguments arguments = { .quiet = 0 };
    struct avicemu_mock_report *report;
    int status;

    argp_err_exit_status = EXIT_USAGE;
    (void)argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (scenario_read(&arguments, &scenario) != 0) {
        return EXIT_USAGE;
    }
    if (arguments.ratios != NULL || arguments.designs != NULL) {
        return sweep(&arguments, &scenario);
    }
    report = run(&scenario, arguments.quiet);
    if (report == NULL) {
        return EXIT_BOOKS;
    }
    status = report->closed ? EXIT_SUCCESS : EXIT_BOOKS;
    if (arguments.quiet) {
        failures_print(report);
    } else if (avicemu_mock_report_print(report, stdout) != 0) {
        status = EXIT_BOOKS;
    }
    if (arguments.json != NULL && json_write(report, arguments.json) != 0) {
        status = EXIT_BOOKS;
    }
    avicemu_mock_report_free(report);
    return status;
}
