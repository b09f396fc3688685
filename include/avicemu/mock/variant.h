/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_MOCK_VARIANT_H
#define AVICEMU_MOCK_VARIANT_H

/*
 * Variants: library and mock host with another design of one block, as one
 * private shared object. Several are loaded into one process, so that designs
 * are compared on the same work in one run. Each exports one symbol,
 *
 *     const struct avicemu_mock_variant avicemu_variant;
 *
 * and is opened with dlopen(path, RTLD_NOW | RTLD_LOCAL).
 */

#include <avicemu/mock/host.h>

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_mock_variant {
    size_t size;
    const char *block; /* of which design it has another one */
    const char *name;  /* of the design; "library" */
    /* The calls of <avicemu/mock/host.h>. */
    int (*create)(const struct avicemu_mock_scenario *scenario,
                  const struct avicemu_mock_options *options,
                  struct avicemu_mock_host **ret);
    int (*run)(struct avicemu_mock_host *host,
               struct avicemu_mock_report **ret);
    void (*interrupt)(struct avicemu_mock_host *host);
    void (*destroy)(struct avicemu_mock_host *host);
    /* The block's own face, for its benchmark: see bench/variant.h. */
    const void *loop;
};

#ifdef __cplusplus
}
#endif

#endif
