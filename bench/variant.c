/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading designs; see variant.h. Where they lie is told by the build.
 */

#include "variant.h"

#include <dlfcn.h>
#include <stdio.h>

#include "variant_names.h"

const struct avicemu_mock_variant *
variant_load(const char *block, const char *name)
{
    char path[512];
    void *object;
    const struct avicemu_mock_variant *v;

    (void)snprintf(path, sizeof(path), "%s/%s-%s.so", VARIANTS, block, name);
    /* The same object each time: the loader counts. */
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        (void)fprintf(stderr, "design %s of %s: %s\n", name, block, dlerror());
        return NULL;
    }
    v = dlsym(object, "avicemu_variant");
    if (v == NULL || v->size != sizeof(*v)) {
        (void)fprintf(stderr, "%s: no avicemu_variant of this version\n", path);
        (void)dlclose(object);
        return NULL;
    }
    return v;
}

/* Checks that were made. */
#define MAX_CHECKED 16u

static struct {
    const struct avicemu_mock_variant *design;
    const char *fault;
} checked[MAX_CHECKED];

const char *
variant_fault(const struct avicemu_mock_variant *v)
{
    unsigned i = 0;

    while (i < MAX_CHECKED - 1 && checked[i].design != NULL &&
           checked[i].design != v) {
        i++;
    }
    if (checked[i].design != v) {
        checked[i].design = v;
        checked[i].fault = ((const struct variant_vmtable *)v->loop)->check();
    }
    return checked[i].fault;
}

const char *const variant_vmtable_names[] = { VARIANT_VMTABLE_NAMES NULL };
