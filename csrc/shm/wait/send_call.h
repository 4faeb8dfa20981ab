/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_SEND_CALL_H
#define BUSQ_SHM_WAIT_SEND_CALL_H
/*
 * Sending calls: an attempt with the send latch held, and waiting for room where that found none.
 *
 * Guarantee: a call that returns BUSQ_OK has sent once; any other result has sent nothing.  A call without time tries
 * once.  While a call waits, no latch is held.
 *
 * Mechanism.  A job is tried until its result is not BUSQ_FULL.  Between two tries its thread spins and yields
 * (pacing.h), then sets the flag of the queue (or memory) that was full, tries once more, and sleeps: the flag was set
 * during that try, so room that came since then wakes it (wake.h).
 *
 * Public calls whose arguments need no check are defined in send_call.c itself: busq_peer_send and its kin.
 */
#include "shm/send/multicast.h"

/* A call that is tried; `attempt` has the send latch, and may run many times. */
typedef struct {
  int (*attempt)(busq_peer *peer, const void *arguments);
  const void *arguments;
  uint32_t n_targets; /* at most; how many queues may turn out to be full one after the other */
} busq_send_job;

int busq_send_do(busq_peer *peer, const busq_send_job *job, int64_t timeout_ns);
/* Tries once; where there is no room, asks for it behind the peer's descriptor, and returns BUSQ_FULL. */
int busq_send_asking(busq_peer *peer, const busq_send_job *job);
/* Waits until something that is no message, and is not recorded as one, is there: the attempt has no latch, and sets
 * *failed_targetp where its result is BUSQ_FULL. */
typedef int busq_room_attempt(busq_peer *peer, const void *arguments, uint64_t *failed_targetp);
int busq_send_wait(busq_peer *peer, busq_room_attempt *attempt, const void *arguments, int64_t timeout_ns);
/* Sums up the parts of a message; BUSQ_INVALID for a form that is not an application's. */
int busq_send_make_payload(busq_payload *payload, const busq_part *parts, uint32_t n_parts, uint32_t form);

#endif /* BUSQ_SHM_WAIT_SEND_CALL_H */
