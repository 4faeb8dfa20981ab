/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_REPAIR_H
#define BUSQ_SHM_DEATH_REPAIR_H
/*
 * Putting a bus in order from outside, for `busq doctor` and `busq gc`; the calls are declared in busq.h.
 *
 * Guarantee: nothing that a live process does is disturbed beyond having to stage a message again; repairing twice, or
 * by two at a time, is the same as once.
 *
 * Mechanism: what any process does that meets the remains of a dead peer (grave.h), or is kept waiting by a message
 * that is not final (commit.h), done for all of them.  A message counts as stalled if two looks, some milliseconds
 * apart, find it in the same state.
 *
 * Not given: holes in the ring of a live reader: that skips them itself as soon as it waits.
 */
#include "shm/memory/peer.h"

#endif /* BUSQ_SHM_DEATH_REPAIR_H */
