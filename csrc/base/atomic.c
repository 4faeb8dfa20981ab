/* SPDX-License-Identifier: Apache-2.0 */
#include "base/atomic.h"

#ifdef BUSQ_STEPS
uint32_t busq_step_looks = 4096;
void (*busq_access_hook)(busq_access access, const volatile void *address, size_t bytes);
#endif
