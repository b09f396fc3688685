/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow side of the read-side sections.
 */

#include "base/rcu.h"

#if AE_TSAN
char ae_rcu_token;
#endif

void
ae_rcu_synchronize(void)
{
#ifdef AE_STEP_BUILD
    ae_step_rcu_synchronize();
#endif
    urcu_bp_synchronize_rcu();
    AE_RCU_ACQUIRE();
}

void
ae_rcu_attach(void)
{
    urcu_bp_register_thread();
}
