/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before a source of the library to weaken it: its waits give up.
 */
#ifndef NO_PIN_H
#define NO_PIN_H

#include "base/lock.h"

#define ae_relax() break

#endif
