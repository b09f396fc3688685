/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_HOST_H
#define AE_HV_HOST_H

/*
 * A host's life. See host.c.
 */

#include "hv/object.h"

int
ae_host_create(const struct avicemu_host_config *config,
               struct avicemu_host **ret);
int
ae_host_destroy(struct avicemu_host *host);

#endif
