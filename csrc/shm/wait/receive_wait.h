/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_RECEIVE_WAIT_H
#define BUSQ_SHM_WAIT_RECEIVE_WAIT_H
/*
 * Receiving calls, and waiting for a message; the calls are declared in busq.h (busq_peer_receive_begin and its kin,
 * busq_peer_recv, busq_peer_wait).
 *
 * Guarantee: a wait ends when a message can be received, when the bus is shut down and nothing is left, when a signal
 * handler has run, or at its deadline.  While a call sleeps, no latch is held; while it spins, the receive latch is.
 *
 * Mechanism: event counts (wake.h), in the stages of pacing.h.  Before it sleeps, a waiter does what others may wait
 * for: it makes room, gives memory back, and notices deaths that are its business (notice.h).
 *
 * Not given: turns among several threads of one peer.
 */
#include "shm/memory/peer.h"

#endif /* BUSQ_SHM_WAIT_RECEIVE_WAIT_H */
