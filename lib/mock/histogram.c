/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buckets: values below 16 have one each; above, the highest bit chooses a row
 * and the four bits after it the place in it.
 */

#include "histogram.h"

static unsigned
bucket_of(uint64_t value)
{
    unsigned high;

    if (value < AE_HISTOGRAM_STEPS) {
        return (unsigned)value;
    }
    high = 63u - (unsigned)__builtin_clzll(value);
    return (high - 3u) * AE_HISTOGRAM_STEPS +
           (unsigned)(value >> (high - 4u) & (AE_HISTOGRAM_STEPS - 1));
}

/* The middle of a bucket. */
static double
value_of(unsigned bucket)
{
    unsigned row = bucket / AE_HISTOGRAM_STEPS;
    unsigned step = bucket % AE_HISTOGRAM_STEPS;
    double width;

    if (row == 0) {
        return bucket;
    }
    width = (double)((uint64_t)1 << (row - 1));
    return (AE_HISTOGRAM_STEPS + step + 0.5) * width;
}

void
am_histogram_add(struct am_histogram *h, uint64_t value)
{
    h->nr++;
    h->sum += value;
    h->buckets[bucket_of(value)]++;
}

void
am_histogram_merge(struct am_histogram *to, const struct am_histogram *from)
{
    to->nr += from->nr;
    to->sum += from->sum;
    for (unsigned i = 0; i < AE_HISTOGRAM_BUCKETS; i++) {
        to->buckets[i] += from->buckets[i];
    }
}

double
am_histogram_quantile(const struct am_histogram *h, double share)
{
    uint64_t before = 0;
    double want = share * (double)h->nr;

    for (unsigned i = 0; i < AE_HISTOGRAM_BUCKETS; i++) {
        before += h->buckets[i];
        if (before != 0 && (double)before >= want) {
            return value_of(i);
        }
    }
    return 0;
}

double
am_histogram_mean(const struct am_histogram *h)
{
    return h->nr == 0 ? 0 : (double)h->sum / (double)h->nr;
}
