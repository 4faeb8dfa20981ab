/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wait/pacing.h"
#include "base/thread.h"
#include "base/time.h"
#include "shm/wake/futex.h"
#include "shm/wake/wake.h"
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#define FIRST_SLICE_NS UINT64_C(1000000)
#define YIELD_NS_DEFAULT 50000u
#define SWITCH_NS 3000u /* a yield that takes this long has let another process run */

void busq_pacing_init(busq_peer *peer)
{
  peer->pacing.spin_ns = sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0 : BUSQ_SPIN_NS_MAX;
  peer->pacing.yield_ns = YIELD_NS_DEFAULT;
}

void busq_peer_set_spin(busq_peer *peer, uint32_t spin_ns, uint32_t yield_ns)
{
  /* A spinning thread holds the receive latch, and looks at nothing else: time beyond the limit is spent yielding. */
  const uint32_t spins_ns = spin_ns < BUSQ_SPIN_NS_MAX ? spin_ns : BUSQ_SPIN_NS_MAX;
  const uint64_t yields_ns = (uint64_t)yield_ns + (spin_ns - spins_ns);
  peer->pacing.spin_ns = spins_ns;
  peer->pacing.yield_ns = yields_ns < BUSQ_SLICE_NS ? (uint32_t)yields_ns : (uint32_t)BUSQ_SLICE_NS;
  peer->pacing.spin_is_chosen = true;
}

/* ---- one wait ---- */

enum {
  STAGE_SPIN,
  STAGE_YIELD,
  STAGE_SLEEP
};

void busq_wait_begin(busq_wait *wait, int64_t timeout_ns)
{
  *wait = (busq_wait){.stage = STAGE_SPIN, .slice_ns = FIRST_SLICE_NS, .timeout_ns = timeout_ns};
}

void busq_wait_begin_spun(busq_wait *wait, int64_t timeout_ns)
{
  busq_wait_begin(wait, timeout_ns);
  wait->stage = STAGE_YIELD;
}

uint64_t busq_wait_spent_ns(busq_wait *wait)
{
  const uint64_t now_ns = busq_time_now_ns();
  if (!wait->began_ns)
    wait->began_ns = now_ns;
  return now_ns - wait->began_ns;
}

static uint64_t wait_left_ns(busq_wait *wait)
{
  if (wait->timeout_ns < 0)
    return UINT64_MAX;
  const uint64_t spent_ns = busq_wait_spent_ns(wait);
  return spent_ns < (uint64_t)wait->timeout_ns ? (uint64_t)wait->timeout_ns - spent_ns : 0;
}

bool busq_wait_is_over(busq_wait *wait)
{
  return !wait_left_ns(wait);
}

/* The clock is asked after the first turn only: asking costs as much as a pause. */
bool busq_wait_spin(busq_wait *wait, const busq_peer *peer, const busq_watch *watch)
{
  enum { PAUSES = 8 };
  if (wait->stage != STAGE_SPIN)
    return false;
  const bool is_crowded = __atomic_load_n(&peer->pacing.is_crowded, __ATOMIC_RELAXED);
  if (!peer->pacing.spin_ns || is_crowded || (wait->has_spun && busq_wait_spent_ns(wait) >= peer->pacing.spin_ns)) {
    wait->stage = STAGE_YIELD;
    return false;
  }
  wait->has_spun = true;
  int left = watch ? PAUSES : 1;
  do
    busq_cpu_relax();
  while (--left && __atomic_load_n(watch->word, __ATOMIC_RELAXED) >> BUSQ_RING_LAP_SHIFT != watch->lap);
  return true;
}

/* How long a wait spins and yields, which is about as long as waking a sleeper takes. */
static uint64_t awake_ns(const busq_peer *peer)
{
  return (uint64_t)peer->pacing.spin_ns + peer->pacing.yield_ns;
}

bool busq_wait_yield(busq_wait *wait, busq_peer *peer)
{
  if (wait->stage == STAGE_SLEEP)
    return false;
  const uint64_t spent_ns = busq_wait_spent_ns(wait);
  if (spent_ns >= awake_ns(peer) || busq_wait_is_over(wait)) {
    wait->stage = STAGE_SLEEP;
    return false;
  }
  sched_yield();
  wait->yielded_ns = busq_wait_spent_ns(wait) - spent_ns;
  const bool was_long = wait->yielded_ns > SWITCH_NS;
  if (was_long != __atomic_load_n(&peer->pacing.is_crowded, __ATOMIC_RELAXED))
    __atomic_store_n(&peer->pacing.is_crowded, was_long, __ATOMIC_RELAXED);
  return true;
}

/* What this thread sleeps for, or slept for last: a wait that was interrupted, or has come to its deadline, goes on with
 * the next call that sleeps on the same word soon afterwards. */
static _Thread_local struct {
  const uint32_t *word; /* NULL: none */
  uint64_t since_ns;
  uint64_t left_ns;
  bool was_interrupted;
} slept BUSQ_THREAD_STORAGE;

void busq_wait_begin_for(busq_wait *wait, const uint32_t *word, int64_t timeout_ns)
{
  busq_wait_begin(wait, timeout_ns);
  if (slept.was_interrupted && slept.word == word)
    wait->stage = STAGE_SLEEP;
}

static uint64_t slept_since_ns(const uint32_t *word)
{
  enum { SOON_NS = 200000000 };
  const uint64_t now_ns = busq_time_now_ns();
  if (slept.word != word || now_ns - slept.left_ns >= SOON_NS) {
    slept.word = word;
    slept.since_ns = now_ns;
  }
  return now_ns - slept.since_ns;
}

void busq_wait_end(int result)
{
  slept.was_interrupted = result == BUSQ_INTERRUPTED;
  if (result != BUSQ_INTERRUPTED && result != BUSQ_EMPTY)
    slept.word = NULL;
}

int busq_wait_sleep(busq_wait *wait, uint32_t *word, uint32_t value, uint64_t limit_ns)
{
  const uint64_t left_ns = wait_left_ns(wait);
  if (!left_ns)
    return BUSQ_EMPTY;
  const uint64_t grown_ns = busq_slice_after_ns(slept_since_ns(word));
  uint64_t slice_ns = grown_ns > BUSQ_SLICE_NS ? grown_ns : wait->slice_ns;
  if (slice_ns > limit_ns)
    slice_ns = limit_ns;
  if (slice_ns > left_ns)
    slice_ns = left_ns;
  const int number = busq_futex_wait(word, value, slice_ns);
  slept.left_ns = busq_time_now_ns();
  if (number == EINTR)
    return BUSQ_INTERRUPTED;
  if (number != ETIMEDOUT)
    slept.word = NULL; /* something has happened */
  if (number != ETIMEDOUT || slice_ns == limit_ns)
    return BUSQ_OK;
  /* Twice as long next time, up to a slice: the cost of a killed waker is in proportion to what was waited already. */
  if (grown_ns > BUSQ_SLICE_NS || wait->slice_ns >= BUSQ_SLICE_NS)
    return busq_wait_is_over(wait) ? BUSQ_EMPTY : BUSQ_INTERRUPTED;
  wait->slice_ns *= 2;
  if (wait->slice_ns > BUSQ_SLICE_NS)
    wait->slice_ns = BUSQ_SLICE_NS;
  return BUSQ_OK;
}

/* ---- letting some work gather ---- */

/* Keeps away from shared memory for a while. */
static void stay_away(uint64_t duration_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + duration_ns;
  while (busq_time_now_ns() < end_ns)
    busq_cpu_relax();
}

void busq_pacing_let_room_gather(const busq_peer *peer)
{
  enum { LONG_QUEUE = 64, GATHER_NS = 1000 };
  if (peer->bus->geometry.capacity >= LONG_QUEUE && peer->pacing.spin_ns)
    stay_away(GATHER_NS);
}

/* A reader that has caught up with a busy sender meets it at every message: each waits for the other's cache lines, and
 * both crawl.  So a reader that sends nothing, and never waits for long, gives the sender time to get ahead by a few
 * messages; a peer that also sends may be part of a conversation, where nothing is gained by waiting. */
void busq_pacing_let_messages_gather(busq_peer *peer)
{
  enum { SHORT_WAITS = 16, GATHER_NS = 1000 };
  const uint64_t sent = busq_load_relaxed(&peer->self->sent);
  const uint32_t waits = busq_load_relaxed(&peer->pacing.short_waits);
  if (sent != busq_load_relaxed(&peer->pacing.short_waits_since) || !peer->pacing.spin_ns) {
    busq_store_relaxed(&peer->pacing.short_waits_since, sent);
    busq_store_relaxed(&peer->pacing.short_waits, 0);
  } else if (waits < SHORT_WAITS) {
    busq_store_relaxed(&peer->pacing.short_waits, waits + 1);
  } else {
    stay_away(GATHER_NS);
  }
}

/* ---- what a yield has cost ---- */

/*
 * Another peer that runs meanwhile is at it for some tens of microseconds.  A process that does nothing but compute keeps
 * the core for milliseconds, since the one that yields goes to the end of the line; one that sleeps comes before it when
 * it is woken, at the price of a switch for each message.  So a yield was dear if it took many times as long as a wait
 * stays awake, and as those switches for what came meanwhile: where what was waited for was worked on all the time, all
 * that is lost is a share.  Then the next waits sleep at once: so many that staying awake in all of them would have cost
 * as much, and twice as many as the last time if that is not long ago.
 */
void busq_pacing_learn_from_yield(const busq_peer *peer, busq_dear_yields *dear, uint64_t took_ns, uint64_t n_came)
{
  enum { DEAR_TIMES = 8, SLEEPS_MAX = 1024 };
  const uint64_t sleeps = busq_load_relaxed(&dear->sleeps);
  const uint64_t least_ns = n_came * SWITCH_NS < awake_ns(peer) ? awake_ns(peer) : n_came * SWITCH_NS;
  if (took_ns < DEAR_TIMES * least_ns || peer->pacing.spin_is_chosen) {
    if (BUSQ_UNLIKELY(sleeps))
      busq_store_relaxed(&dear->sleeps, (uint32_t)sleeps / 2);
    return;
  }
  uint64_t next = took_ns / (awake_ns(peer) + 1);
  if (next < 2 * sleeps)
    next = 2 * sleeps;
  if (next > SLEEPS_MAX)
    next = SLEEPS_MAX;
  busq_store_relaxed(&dear->sleeps, (uint32_t)next);
  busq_store_relaxed(&dear->sleeps_left, (uint32_t)next);
}

bool busq_pacing_leaves_yields_out(const busq_peer *peer, busq_dear_yields *dear)
{
  const uint32_t left = busq_load_relaxed(&dear->sleeps_left);
  if (BUSQ_LIKELY(!left) || peer->pacing.spin_is_chosen)
    return false;
  busq_store_relaxed(&dear->sleeps_left, left - 1);
  return true;
}

/* ---- whether spinning and yielding are worth it ---- */

/*
 * They are where they are mostly long enough.  A peer whose last waits all took many times as long sleeps at once: its
 * next message comes no later for that, and its cores are spared.  The first wait that was not long at all, and was
 * spent asleep, makes it spin again; so the second message of a conversation is slow, and not the third.
 */
enum { IN_VAIN_MAX = 4, IN_VAIN_TIMES = 8 };

bool busq_pacing_sleeps_at_once(const busq_peer *peer)
{
  if (__atomic_load_n(&peer->pacing.is_to_go_on, __ATOMIC_RELAXED))
    return true;
  return busq_load_relaxed(&peer->pacing.waits_in_vain) >= IN_VAIN_MAX && !peer->pacing.spin_is_chosen;
}

void busq_pacing_wait_was_short(busq_peer *peer)
{
  if (busq_load_relaxed(&peer->pacing.waits_in_vain))
    busq_store_relaxed(&peer->pacing.waits_in_vain, 0);
}

void busq_pacing_wait_has_slept(busq_peer *peer, busq_wait *wait, int result)
{
  const uint32_t in_vain = busq_load_relaxed(&peer->pacing.waits_in_vain);
  const bool was_long = busq_wait_spent_ns(wait) >= IN_VAIN_TIMES * awake_ns(peer);
  busq_wait_end(result);
  __atomic_store_n(&peer->pacing.is_to_go_on, result == BUSQ_INTERRUPTED, __ATOMIC_RELAXED);
  if (!was_long && result != BUSQ_INTERRUPTED)
    busq_pacing_wait_was_short(peer);
  else if (was_long && in_vain < IN_VAIN_MAX)
    busq_store_relaxed(&peer->pacing.waits_in_vain, in_vain + 1);
}
