/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_BOOKS_H
#define AE_MOCK_BOOKS_H

/*
 * Closing the books of a run whose threads have all ended; see books.c.
 */

#include "host.h"

/* A report with everything but elapsed_ns; NULL: no memory. Faults that are
 * found become the host's failures, and so the report's. */
struct avicemu_mock_report *
am_books_close(struct avicemu_mock_host *host);

/* The IOMMUs' part of it (books_iommu.c). */
void
am_books_iommu(struct avicemu_mock_iommu_report *r,
               struct avicemu_mock_host *host);
/* CLOCK_MONOTONIC, whatever the scenario's clock is. */
uint64_t
am_wall_ns(void);

#endif
