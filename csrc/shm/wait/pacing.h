/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_PACING_H
#define BUSQ_SHM_WAIT_PACING_H
/*
 * The pace of a wait: spinning, yielding, sleeping.
 *
 * Guarantee: a wait ends at its deadline, and a sleep after at most one slice (slice.h), whatever became of the process
 * that should have ended it.
 *
 * Mechanism.  Before sleeping a waiter spins for about a microsecond, then yields the processor for some tens of them:
 * waking a sleeper costs about that much.  Where yielding shows that others want the processor, the spinning is left
 * out; where they keep it for far longer than all that, or the last waits for messages were far longer, the yielding,
 * too.  Sleeps begin at a millisecond and double, up to BUSQ_SLICE_NS, and grow with the wait from there on.  Python's
 * calls return after each of the longer ones and come again: what a thread waited for last is kept with the thread, so
 * that its wait goes on.
 *
 * Heuristics about speed live here and nowhere else.  Each of them may be wrong at any time: that costs time, never a
 * message.
 *
 * Not given: fairness between the threads that wait.
 */
#include "shm/memory/peer.h"

/* How long a peer spins, and the most it does: what an application asks for beyond (`spin_us`) is spent in yielding. */
#define BUSQ_SPIN_NS_MAX 1000u

/* The values that a peer starts with. */
void busq_pacing_init(busq_peer *peer);

/* ---- one wait ---- */

typedef struct {
  uint64_t began_ns;  /* 0: the clock was not asked so far */
  int64_t timeout_ns; /* below 0: none */
  uint64_t slice_ns;  /* of the next sleep */
  uint64_t yielded_ns; /* how long the last yield took */
  uint32_t stage;
  bool has_spun;
  bool is_published; /* the slot shows what this peer waits for (published.h) */
} busq_wait;

/* Where the next message will stand, and the lap it will have: a spinning reader looks at this word alone for some
 * pauses before it looks at everything again.  Reading more of what senders write would take those lines from their
 * caches. */
typedef struct {
  const uint64_t *word;
  uint64_t lap;
} busq_watch;

void busq_wait_begin(busq_wait *wait, int64_t timeout_ns);
/* Begins behind the spinning, which the caller has done. */
void busq_wait_begin_spun(busq_wait *wait, int64_t timeout_ns);
/* Begins asleep where the thread's last wait for the word was interrupted: this one goes on with it. */
void busq_wait_begin_for(busq_wait *wait, const uint32_t *word, int64_t timeout_ns);
/* One turn of spinning; false when it is time to yield.  Without a watch, a turn is one pause. */
bool busq_wait_spin(busq_wait *wait, const busq_peer *peer, const busq_watch *watch);
/* One turn of yielding; false when it is time to sleep. */
bool busq_wait_yield(busq_wait *wait, busq_peer *peer);
/* Sleeps on a word while it has the value, for limit_ns at most.  BUSQ_OK: look again; BUSQ_EMPTY: the deadline has
 * passed; BUSQ_INTERRUPTED. */
int busq_wait_sleep(busq_wait *wait, uint32_t *word, uint32_t value, uint64_t limit_ns);
/* With the result of a wait that may have slept.  Unless it goes on, the thread's next one begins anew. */
void busq_wait_end(int result);
/* Time since the clock was first asked, by this or another of these calls. */
uint64_t busq_wait_spent_ns(busq_wait *wait);
bool busq_wait_is_over(busq_wait *wait);

/* ---- heuristics ---- */

/* A sender that has run against the end of a long queue lets some room gather before it looks again. */
void busq_pacing_let_room_gather(const busq_peer *peer);
/* A reader that keeps catching up lets some messages gather. */
void busq_pacing_let_messages_gather(busq_peer *peer);
/* A wait has yielded, and when it came back there were so many messages, or there was room for so many. */
void busq_pacing_learn_from_yield(const busq_peer *peer, busq_dear_yields *dear, uint64_t took_ns, uint64_t n_came);
/* Asked once in each wait: does this one leave the yields out, since the last were dear? */
bool busq_pacing_leaves_yields_out(const busq_peer *peer, busq_dear_yields *dear);
/* The last yield has let another process run. */
static inline bool busq_pacing_is_crowded(const busq_peer *peer)
{
  return __atomic_load_n(&peer->pacing.is_crowded, __ATOMIC_RELAXED);
}
/* The next wait sleeps at once, since spinning and yielding would be in vain. */
bool busq_pacing_sleeps_at_once(const busq_peer *peer);
/* A wait for a message ended before it slept. */
void busq_pacing_wait_was_short(busq_peer *peer);
/* A wait for a message has slept, and ended with this result. */
void busq_pacing_wait_has_slept(busq_peer *peer, busq_wait *wait, int result);

#endif /* BUSQ_SHM_WAIT_PACING_H */
