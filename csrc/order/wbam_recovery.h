/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_WBAM_RECOVERY_H
#define BUSQ_ORDER_WBAM_RECOVERY_H
/*
 * The change of a leader of order "wbam" (wbam.c):
 *
 *   suspect p:                send MULTICAST(m) to its successor, the lowest of its group that is not suspected: as the sender of m, and
 *                             as a leader at which m is PROPOSED or ACCEPTED; as the leader also where the sender died (retry)
 *   ... the successor:        RECOVERING; send NEWLEADER to its group
 *   receive NEWLEADER from one later than those before:   RECOVERING; send what is ACCEPTED and COMMITTED, with its timestamps, then
 *                             NEWLEADER_ACK(last leader, clock)
 *   NEWLEADER_ACK of a quorum:   COMMITTED is what any of these has as that; ACCEPTED what those have whose last leader is the latest; clock =
 *                             the largest.  Send all that, and NEWSTATE, to the group, which takes it over and sends NEWSTATE_ACK
 *   NEWSTATE_ACK of a quorum: it is the leader; it sends DELIVER of what is COMMITTED, and retries what is ACCEPTED
 *   deliver:                  before it, a process that is no leader sends m to the others of its group (see below)
 *
 * Where this is the paper's algorithm in other words.  A ballot is the process that owns it: none that lives is suspected, so processes
 * lead in the order of their numbers, each at most once.  Nothing is lost on a channel, so a message is asked for again, and proposed to
 * all again, for a new leader alone.  What the paper keeps for ever is kept until all have delivered.
 * A process may die in the middle of what it reports, one message by one: a recovery counts it with its NEWLEADER_ACK, and takes over at
 * NEWSTATE.  Of one that died before, some may be known; that is taken for ACCEPTED only where the leader
 * it followed is the latest of a quorum; it can't be later, for then three of five are dead: two leaders, and itself.
 *
 * A driver gives a payload up when it is delivered.  So a process that has delivered m hands on nothing but its timestamps; the others
 * of its group have the payload from its leader, before, or if that died, from this process; others from their own leaders.
 *
 * Not given: groups of more than five processes, for the reason above.
 */
#include "order/wbam_state.h"

bool busq_wbam_report(wbam_state *self);
void busq_wbam_receive_newleader(wbam_state *self, uint32_t from);
void busq_wbam_receive_newleader_ack(wbam_state *self, const busq_order_packet *packet);
void busq_wbam_receive_newstate(wbam_state *self, const busq_order_packet *packet);
void busq_wbam_receive_newstate_ack(wbam_state *self, uint32_t from);
void busq_wbam_receive_report(wbam_state *self, wbam_entry *entry, const busq_order_packet *packet);
void busq_wbam_suspect(wbam_state *self, uint32_t dead);

#endif /* BUSQ_ORDER_WBAM_RECOVERY_H */
