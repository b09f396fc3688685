/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AE_BASE_STEP_H
#define AE_BASE_STEP_H

/*
 * Named stops. AE_STEP(label) stands at every memory-ordering label: nothing
 * in the product, a place to park a thread in the variant libavicemu-step
 * (<avicemu/step.h>). Locks and read-side sections are stops there, too.
 */

#ifdef AE_STEP_BUILD
void
ae_step_stop(const char *label);
/* A wait that another party must end: returns after one scheduling decision. */
void
ae_step_wait(const char *label);
#define AE_STEP(label) ae_step_stop(#label)
#else
#define AE_STEP(label) ((void)0)
#endif

#endif
