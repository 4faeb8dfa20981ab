/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_COLLECT_H
#define BUSQ_SHM_COLLECT_H
/*
 * The recorder: takes events out of all rings of a bus and makes rows of them.
 *
 * Guarantee.  Rows of a process come in the order in which it wrote its events, over all its lives, and say only what it wrote;
 * what is missing is a gap of that size.  A message has one name everywhere: the index of its sender << 32 | its number among
 * the sends of that sender.  Whatever a ring holds, the recorder stays inside of it; where it contradicts itself, it ends with an
 * error, and what was taken before stays good.
 *
 * Mechanism.  A pass empties all rings, one after the other, into private queues.  A send is in its ring before anybody can
 * deliver the message; so when a delivery has been in a queue for a whole pass, the send it belongs to has been seen, or was not
 * recorded.  Then it becomes a row.  What a peer has reserved and not written is passed when the kernel says that the peer is
 * gone, or when a successor writes behind it.
 *
 * Who sent, and to whom, is told by slots; the names belonging to them come from joins in the rings, and from the bus for
 * peers that do nothing themselves.
 *
 * Not given: what peers dropped because the rings were full, or what a recorder that was killed had taken and not written.
 */
#include "busq.h"

#endif /* BUSQ_SHM_COLLECT_H */
