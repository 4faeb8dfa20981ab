/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_NOTICE_H
#define BUSQ_SHM_DEATH_NOTICE_H
/*
 * Noticing deaths, and ending on behalf of the dead what they had a part in.
 *
 * Guarantee: what ends with a peer ends once, in the order of the bus, behind the last message that it had sent; as long
 * as any peer that cares for it receives, within some 50 ms of its death, and where all of them wait, within a quarter
 * of what they have waited, a second at most (slice.h).
 *
 * Mechanism.  A peer cares for the members of its groups, for those that it watches, and, once it has a node or a
 *   handle, for the peers that hold or own those.  While it waits, once in a slice, and when it receives, it asks the
 *   kernel about them.  For one that is gone
 *   1. the message in its hand is completed, if it is sealed; what is not sealed never will be (grave.c)
 *   2. a view without it is claimed in every group of ours that it was a member of
 *   3. peers that watch it get a notice
 *   4. its nodes are ended, and its handles let go (node.h); the same where a holder that lives has let go, and at once
 * All of these are claims (claim.h): however many peers do this, and are killed or stopped on the way, each is decided
 * once.  None of it needs the grave of the dead (grave.h), which a stopped process may hold.
 *
 * A peer that cares sleeps no longer than a slice behind its descriptor.  The kernel would report a death to a process
 * that holds a pidfd of each peer; of 30 members each would hold 29, and a futex can't be waited for beside them.  For a
 * peer that does not care, all this is one look at one word.
 *
 * Where a receiver has no room, the change is not made now; a later slice tries again.
 *
 * Not given: a view without the dead while all members are busy elsewhere, and receive nothing.  A send to the group
 * makes it then.
 */
#include "shm/memory/peer.h"

/* With no latch held.  Looks at most once in a slice. */
void busq_notice_deaths(busq_peer *peer);

/* A peer has just joined: peers that watch its name get a notice, and it cares for those that its predecessor cared
 * for. */
void busq_notice_joined(busq_peer *peer);
/* A peer that is about to close leaves its groups; where there is no room for that, the others notice that it is
 * gone, and find a mark that it has closed. */
void busq_notice_leaving(busq_peer *peer);
/* With the send latch, of a peer whose life is LEAVING: peers that watch it get a notice.  Not before, or one of them
 * would find that it is there still, and announce to the others that it has come. */
void busq_notice_left(busq_peer *peer);

#endif /* BUSQ_SHM_DEATH_NOTICE_H */
