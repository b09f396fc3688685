/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_HV_VMTAG_H
#define AE_HV_VMTAG_H

/*
 * GA tags and VM ids. See vmtag.c.
 */

#include <avicemu/vm.h>

#include "base/compiler.h"
#include "base/lock.h"

/* VM id in the high bits of a tag, vCPU index in the low ones: how many each.
 * As KVM had it until 6.2, has it since 6.3, and with 4096 vCPUs. */
enum ae_tag_layout {
    AE_TAG_24_8,
    AE_TAG_23_9,
    AE_TAG_20_12,
};

/* The tag of a vCPU. 0, -EINVAL (does not fit, or VM id 0; *ret untouched). */
int
ae_tag_pack(enum ae_tag_layout layout, uint32_t vm_id, uint32_t vcpu_idx,
            uint32_t *ret);
/* How many vCPUs of a VM have one. */
uint32_t
ae_tag_max_vcpus(enum ae_tag_layout layout);
void
ae_tag_unpack(enum ae_tag_layout layout, uint32_t tag, uint32_t *ret_vm_id,
              uint32_t *ret_vcpu_idx);

/* VM ids that are in use, one bit each; chunks without memory: none. */
struct ae_vmids {
    /* Constant. */
    const struct avicemu_allocator *allocator;
    enum ae_tag_layout layout;
    /* Serialises all calls; under it: the rest. */
    struct ae_lock lock;
    uint64_t **chunks;
    uint32_t last; /* given out last */
    uint32_t nr;   /* in use; 0 is none */
};

/* allocator: must outlive it. 0, -ENOMEM. */
int
ae_vmids_init(struct ae_vmids *ids, const struct avicemu_allocator *allocator,
              enum ae_tag_layout layout);
/* A zeroed one is fine. */
void
ae_vmids_fini(struct ae_vmids *ids);

/* A VM id that no other VM has, from 1 on, wrapping. 0, -EBUSY (all are in
 * use), -ENOMEM. */
int
ae_vmid_get(struct ae_vmids *ids, uint32_t *ret);
/* Of a VM whose tags have all been removed. */
void
ae_vmid_put(struct ae_vmids *ids, uint32_t id);

#endif
