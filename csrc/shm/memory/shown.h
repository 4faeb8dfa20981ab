/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_SHOWN_H
#define BUSQ_SHM_MEMORY_SHOWN_H
/*
 * What an application looks at in place.
 *
 * Guarantee: what is shown of a message stays what it was for as long as anything looks at it; and a write to it ends
 * in a fault of the process that writes, and never changes what another process sees.
 *
 * Mechanism: messages are shown through a second mapping of the file, which can't be written to (a window, mapping.h).
 * Pins that are shown stand in a list.  Where other processes may use the memory of a message again while it is still
 * shown here, private copies of its pages take their place in the window:
 *
 *      in a forked child    its parent releases the message whenever it likes; so it is copied before the fork
 *      where a peer closes  what it has not acknowledged comes to a successor, which releases it; and what it has does not
 *                           keep its place from the successor
 *
 * Those pages do not show any more what becomes of the file; so the views to come get another window, also in the child.  The memory of a
 * draft has to be written to: it is shown in the mapping that all code uses, and in a forked child the bus gets another
 * one of those.  Without a pin that is shown, neither a fork nor a close costs anything.
 *
 * Not given: a copy where memory runs out.  The child, or the process that has closed its peer, then sees what others
 * make of the memory.
 */
#include "shm/memory/peer.h"

/* Lets a pin show its message through a window. */
int busq_shown_open(busq_pin *pin, busq_bus *bus);
void busq_shown_close(busq_pin *pin);
/* It is looked at; and no longer, which may come twice. */
void busq_shown_add(busq_pin *pin);
void busq_shown_remove(busq_pin *pin);
/* For a peer that is closed, and has not let go of its messages: what was to be acknowledged, and is shown, becomes
 * private; where it was, it is released.  With the receive latch. */
void busq_shown_keep(busq_peer *peer, void (*release)(busq_peer *peer, const busq_message *message));

#endif /* BUSQ_SHM_MEMORY_SHOWN_H */
