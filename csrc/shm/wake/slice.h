/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_SLICE_H
#define BUSQ_SHM_WAKE_SLICE_H
/* How long a sleep lasts before it looks again. */
#include "base/types.h"

#define BUSQ_SLICE_NS UINT64_C(50000000)
/* Slices that a peer waits behind its descriptor before it sleeps deeply, and the longest of those sleeps (wake.h). */
#define BUSQ_NAPS 20u
#define BUSQ_NET_NS UINT64_C(10000000000)

#endif /* BUSQ_SHM_WAKE_SLICE_H */
