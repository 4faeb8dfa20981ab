/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_NOTICE_H
#define BUSQ_SHM_DEATH_NOTICE_H
/*
 * Ending, on behalf of the dead, what they had a part in.
 *
 * Guarantee: what ends with a peer ends once, in the order of the bus, behind the last message that it had sent, within a slice of
 * some 50 ms of its death as long as anybody waits in recv, or receives, who cares for it.
 *
 * Mechanism.  A peer cares for the members of its groups, for those whom it watches, and, once it has a node or a handle, for whoever
 * holds or owns those.  While it waits, once in a slice, and when it receives, it asks the kernel about them.  For one that is gone
 *   1. the message in its hand is completed, if it is sealed; what is not sealed never will be (grave.c)
 *   2. a view without it is claimed in every group of ours that it was a member of
 *   3. those who watch it are told
 *   4. its nodes are ended, and its handles let go (node.h); the same where a holder that lives has let go, and at once
 * All of these are claims (claim.h): however many peers do this, and are killed or stopped on the way, each is decided once.  None of it
 * needs the grave of the dead (grave.h), which somebody may hold who is stopped.
 *
 * A peer that cares sleeps no longer than a slice behind its descriptor.  For one that does not, all this is one look at one word.
 *
 * Where a receiver has no room, the change is not made now; a later slice tries again.
 *
 * Not given: a view without the dead while all members are busy elsewhere, and receive nothing.  A send to the group makes it then.
 */
#include "shm/memory/peer.h"

/* With no latch held.  Looks at most once in a slice. */
void busq_notice_deaths(busq_peer *peer);

/* One who has just joined: those who watch its name are told, and it cares for whom its predecessor cared. */
void busq_notice_joined(busq_peer *peer);
/* One who is about to close leaves its groups; where there is no room for that, it is mourned. */
void busq_notice_leaving(busq_peer *peer);
/* With the send latch, of one whose life says that it is leaving: those who watch it are told.  Not before, or one of them would find that
 * it is there still, and tell the others that it has come. */
void busq_notice_left(busq_peer *peer);

#endif /* BUSQ_SHM_DEATH_NOTICE_H */
