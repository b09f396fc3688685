/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_MOCK_HISTOGRAM_H
#define AE_MOCK_HISTOGRAM_H

/*
 * How long something took: counts by value, 16 steps to a power of two, so a
 * quantile is right to 6 %. One writer; read when he is done.
 */

#include <stdint.h>

#define AE_HISTOGRAM_STEPS   16u
#define AE_HISTOGRAM_BUCKETS (64u * AE_HISTOGRAM_STEPS)

struct am_histogram {
    uint64_t nr, sum;
    uint64_t buckets[AE_HISTOGRAM_BUCKETS];
};

void
am_histogram_add(struct am_histogram *h, uint64_t value);
void
am_histogram_merge(struct am_histogram *to, const struct am_histogram *from);
/* The value that a share of all, 0..1, does not exceed. 0 if there is none. */
double
am_histogram_quantile(const struct am_histogram *h, double share);
double
am_histogram_mean(const struct am_histogram *h);

#endif
