/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_POLL_DESCRIPTOR_H
#define BUSQ_SHM_WAKE_POLL_DESCRIPTOR_H
/*
 * The descriptor behind peer.fileno(): a FIFO that senders write to, and a timer for as long as something in the queue
 * can't be received, both behind one epoll descriptor.  wake.h has when it is written to, and how deep a sleep behind
 * it may be.
 *
 * Guarantee: no byte is lost by a sender that is killed: the flag stays up, and the next sender writes again.
 *
 * Not given: that a byte means a message.
 */
#include "shm/memory/peer.h"

/* ---- a sender's end ---- */

/* Writes a byte to the FIFO of a reader, then takes down its flag as it was seen. */
void busq_fifo_signal(busq_peer *peer, uint32_t slot, uint32_t seen);
/* Writes a byte, and keeps no descriptor. */
void busq_fifo_write_once(const busq_bus *bus, uint32_t slot);

/* ---- the reader's end, with the receive latch ---- */

/* Makes it when it is first asked for. */
int busq_fifo_open(busq_peer *peer);
void busq_fifo_close(busq_peer *peer);
/* Makes the descriptor readable after a while: where something blocks the queue, by then, and after a slice at most
 * (UINT64_MAX: nothing does); and by another time. */
void busq_fifo_look_again(busq_peer *peer, uint64_t blocked_ns, uint64_t in_ns);
/* Empties the FIFO and asks senders to signal; look at the queue once more afterwards. */
void busq_fifo_arm(busq_peer *peer);
/* Something has happened: the next sleep is none of the deep ones. */
void busq_fifo_sleep_lightly(busq_peer *peer);
/* Whether it may sleep deeply, and is not armed for that. */
bool busq_fifo_may_deepen(const busq_peer *peer);
void busq_fifo_make_readable(busq_peer *peer);
/* Empties the FIFO; true if there was anything in it. */
bool busq_fifo_drain(busq_peer *peer);
/* No thread sleeps behind it for now: unreadable, and senders do not signal. */
void busq_fifo_disarm(busq_peer *peer);

/* ---- for any process ---- */

/* Removes the FIFO of a slot, and makes the slot forget it. */
void busq_fifo_unlink(busq_bus *bus, uint32_t slot, uint32_t incarnation);

#endif /* BUSQ_SHM_WAKE_POLL_DESCRIPTOR_H */
