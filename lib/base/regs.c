/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptor array made from the register table, and the checks that the
 * compiler makes of it: slots inside the page, no two rows on one slot.
 */

#include "base/regs.h"

#include <avicemu/lapic.h>

#define LAPIC_INTEL_KVM (LAPIC_INTEL | LAPIC_KVM)
#define INIT_RST        0
#define INIT_CALC       0
#define INIT_KEEP       1

#define REG_DESC(name_, off_, n_, xa, xv, x2a, x2v, need_, s_amd, s_intel,     \
                 s_kvm, g_amd, g_intel, g_kvm, opt_, opt_need_, reset_, init_, \
                 handler_)                                                     \
    { .name = #name_,                                                          \
      .offset = (off_),                                                        \
      .nr_slots = (n_),                                                        \
      .xapic = AE_REG_##xa,                                                    \
      .xapic_vendors = LAPIC_##xv,                                             \
      .x2apic = AE_REG_##x2a,                                                  \
      .x2apic_vendors = LAPIC_##x2v,                                           \
      .need = (need_),                                                         \
      .sticks = { (s_amd), (s_intel), (s_kvm) },                               \
      .reserved = { (g_amd), (g_intel), (g_kvm) },                             \
      .opt = (opt_),                                                           \
      .opt_need = (opt_need_),                                                 \
      .reset = (reset_),                                                       \
      .keep_on_init = INIT_##init_,                                            \
      .handler = AE_REG_##handler_ },

const struct ae_reg_desc ae_lapic_regs[] = { LAPIC_REGS(REG_DESC) };
const unsigned ae_nr_lapic_regs = AE_ARRAY_SIZE(ae_lapic_regs);

#define REG_ASSERT(name, off, n, ...)                                      \
    static_assert((off) % 16 == 0 && (off) + 16 * (n) <= LAPIC_PAGE_BYTES, \
                  #name " leaves the page");
LAPIC_REGS(REG_ASSERT)

const struct ae_reg_desc *
ae_reg_find(uint32_t offset)
{
#define REG_CASE(name, off, n, ...) case (off):
    /* Two rows that begin on one slot are a compile error here. */
    switch (offset) {
        LAPIC_REGS(REG_CASE)
    default:
        break;
    }
    for (unsigned i = 0; i < ae_nr_lapic_regs; i++) {
        const struct ae_reg_desc *d = &ae_lapic_regs[i];

        if (offset >= d->offset && offset < d->offset + 16u * d->nr_slots) {
            return d;
        }
    }
    return NULL;
}
