/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VM_H
#define AE_HV_VM_H

/*
 * A VM's life, and what must always hold in it. See vm.c.
 */

#include "hv/vcpu.h"

int
ae_vm_create(struct avicemu_host *host, const struct avicemu_vm_config *config,
             struct avicemu_vm **ret);
int
ae_vm_destroy(struct avicemu_vm *vm);

/* What an MSI asks for. false: nothing, and *posted says why. */
bool
ae_vm_msi_decode(const struct avicemu_vm *vm, uint64_t address, uint32_t data,
                 struct ae_message *m, struct avicemu_posted *posted);
/* An MSI to the VM; adds to *posted. Any thread. */
void
ae_vm_msi(struct avicemu_vm *vm, uint64_t address, uint32_t data,
          struct avicemu_posted *posted);

/* Number of violations; the first one is told in buf. */
uint32_t
ae_vm_check(struct avicemu_vm *vm, char *buf, size_t len);

#endif
