/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_PROGRESS_H
#define BUSQ_LIVE_PROGRESS_H
/*
 * The threads that wait for packets.
 *
 * Guarantee: what comes is dealt with at once while a thread of the application waits, and at most GRACE_NS after the
 * last one went back to its own work otherwise; a thread that waits comes back every SLICE_NS, so that signals are
 * noticed.
 *
 * Mechanism.  A thread of the application that must wait (for a message, for room, for the end of a rendezvous) drives:
 * it takes packets from the mailbox and the steps for them itself, so a message that it waits for costs one wake-up,
 * not two.  Only one drives; others wait on conditions.  Meanwhile the progress thread is parked.  When the driver
 * leaves, the progress thread waits for GRACE_NS whether it comes back, and then takes its place in the mailbox.
 *
 * Everything here wants the mutex, and may let go of it and take it again.
 */
#include "live/member.h"

int busq_progress_start(busq_live *live);
/* From a thread of the application, without the mutex. */
void busq_progress_stop(busq_live *live);
/* Waits, driving if no other thread does.  BUSQ_OK: look again; BUSQ_INTERRUPTED: a signal, or the end of a slice. */
int busq_progress_wait(busq_live *live, pthread_cond_t *condition, int64_t left_ns);
void busq_progress_wait_on(busq_live *live, pthread_cond_t *condition, uint64_t duration_ns);

#endif /* BUSQ_LIVE_PROGRESS_H */
