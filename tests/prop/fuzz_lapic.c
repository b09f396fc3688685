/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The generator of the property test, fed by a fuzzer's bytes. Built with
 * -fsanitize=fuzzer it is the entry alone; with FUZZ_MAIN it is a program that
 * runs each file named on its command line, or without arguments a thousand
 * random inputs.
 */

#include <stdio.h>
#include <stdlib.h>

#include "prop.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct prop_run run;
    struct prop_random r = { .bytes = bytes, .left = len };
    struct prop_op prologue[PROP_PROLOGUE];
    struct prop_config config;
    size_t nr;
    bool good;

    prop_config_random(&r, &config);
    nr = prop_prologue(&config, prologue);
    good = prop_run_begin(&run, &config);
    for (size_t i = 0; good && i < nr; i++) {
        good = prop_run_step(&run, &prologue[i]);
    }
    while (good && r.left > 0) {
        struct prop_op op;

        prop_op_random(&r, &config, &op);
        good = prop_run_step(&run, &op);
    }
    if (good) {
        prop_compare(&run);
    }
    prop_run_end(&run);
    if (run.failed) {
        prop_config_print(&config);
        printf("step %llu: %s\n", (unsigned long long)run.steps, run.message);
        fflush(stdout);
        abort();
    }
    return 0;
}

#ifdef FUZZ_MAIN
static uint8_t input[1u << 16];

static int
run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    size_t len;

    if (file == NULL) {
        perror(name);
        return 1;
    }
    len = fread(input, 1, sizeof(input), file);
    fclose(file);
    return LLVMFuzzerTestOneInput(input, len);
}

int
main(int argc, char **argv)
{
    struct prop_random r = { .state = 1 };
    int rc = 0;

    for (int i = 1; i < argc && rc == 0; i++) {
        rc = run_file(argv[i]);
    }
    for (unsigned n = 0; argc == 1 && n < 1000; n++) {
        size_t len = 16 + prop_below(&r, 2000);

        for (size_t i = 0; i < len; i++) {
            input[i] = (uint8_t)prop_u64(&r);
        }
        (void)LLVMFuzzerTestOneInput(input, len);
    }
    return rc;
}
#endif
