/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_COMMON_H
#define AVICEMU_COMMON_H

/*
 * What every header shares: export and printf attributes, the opaque objects,
 * the closed list of error codes, and the outcome of a guest access.
 *
 * Errors. A function that returns int returns 0 or one of these, negated; its
 * comment names exactly which:
 *
 *   EINVAL      an argument is outside the range that its comment states
 *   ENOMEM      the allocator returned NULL
 *   ENOENT      no such vCPU, vector, region or entry
 *   EEXIST      the id or the address range is taken
 *   EBUSY       wrong phase: the object is in use, or has children
 *   EAGAIN      nothing now; ask again after the next event
 *   EOPNOTSUPP  the feature is switched off in the configuration
 *   EPROTO      bytes that are no snapshot of a version this library reads
 *
 * A function that fails has changed nothing, and has not written its ret_
 * arguments. What a *guest* does wrong is never an error of this kind: it is
 * an enum avicemu_access, an ESR bit, or a counted drop.
 */

#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__) || defined(AVICEMU_VARIANT)
#define AVICEMU_API /* a variant exports a table: <avicemu/mock/variant.h> */
#else
#define AVICEMU_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define AVICEMU_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define AVICEMU_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct avicemu_host;  /* VM ids, the memory map, physical CPUs */
struct avicemu_vm;    /* one guest: its vCPUs and the APIC map */
struct avicemu_vcpu;  /* one virtual CPU with its local APIC */
struct avicemu_iommu; /* posts interrupts of devices; of a host with AVIC */

/** What became of a guest's memory-mapped or MSR access. */
enum avicemu_access {
    AVICEMU_ACCESS_DONE,      /* carried out, or dropped as the manual says */
    AVICEMU_ACCESS_GP,        /* inject #GP(0); nothing changed */
    AVICEMU_ACCESS_UNCLAIMED, /* not ours: ask your other devices */
    AVICEMU_ACCESS_EXIT, /* in the guest, with AVIC: see <avicemu/avic.h> */
};

#ifdef __cplusplus
}
#endif

#endif
