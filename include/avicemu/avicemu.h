/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_AVICEMU_H
#define AVICEMU_AVICEMU_H

/* Everything a VMM needs. The hardware alone is under <avicemu/hw/>. */

#include <avicemu/avic.h>
#include <avicemu/common.h>
#include <avicemu/iommu.h>
#include <avicemu/lapic.h>
#include <avicemu/log.h>
#include <avicemu/state.h>
#include <avicemu/vcpu.h>
#include <avicemu/version.h>
#include <avicemu/vm.h>

#endif
