/* SPDX-License-Identifier: Apache-2.0 */
#include "live/progress.h"
#include "base/time.h"
#include "live/engine.h"
#include "live/live_group.h"
#include "live/link.h"
#include <signal.h>
#include <time.h>

#define GRACE_NS UINT64_C(200000)
#define SLICE_NS UINT64_C(50000000)
/* Longer than a peer spins and yields: it has slept. */
#define SLEPT_NS UINT64_C(60000)

void busq_progress_wait_on(busq_live *live, pthread_cond_t *condition, uint64_t duration_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + duration_ns;
  const struct timespec end = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
  (void)pthread_cond_timedwait(condition, &live->mutex, &end);
}

/* In the mailbox, without the mutex. */
static int sleep_in_mailbox(busq_live *live, uint64_t limit_ns, uint64_t *sleptp)
{
  const uint64_t idle_ns = busq_link_idle_ns(live);
  const uint64_t began_ns = busq_time_now_ns();
  limit_ns = idle_ns < limit_ns ? idle_ns : limit_ns;
  if (!live->n_asleep++ || began_ns + limit_ns < live->sleeps_until_ns)
    live->sleeps_until_ns = began_ns + limit_ns;
  pthread_mutex_unlock(&live->mutex);
  const int result = busq_peer_wait(live->port, (int64_t)limit_ns);
  const uint64_t waited_ns = busq_time_now_ns() - began_ns;
  pthread_mutex_lock(&live->mutex);
  live->n_asleep--;
  live->sleeps_until_ns = UINT64_MAX; /* when the other one comes back is not known any more */
  *sleptp += result == BUSQ_OK && waited_ns > SLEPT_NS;
  return result;
}

/* A leaving thread hands over: at once where others wait, otherwise it may be back soon. */
static void stop_driving(busq_live *live)
{
  live->n_drivers = 0;
  live->left_ns = live->n_waiting ? 0 : busq_time_now_ns();
  if (live->is_parked && (live->is_parked_for_good || live->n_waiting))
    pthread_cond_signal(&live->parked);
}

int busq_progress_wait(busq_live *live, pthread_cond_t *condition, int64_t left_ns)
{
  const uint64_t limit_ns = left_ns >= 0 && (uint64_t)left_ns < SLICE_NS ? (uint64_t)left_ns : SLICE_NS;
  const uint64_t began_ns = busq_time_now_ns();
  int result = BUSQ_OK;
  if (live->n_drivers || live->is_drained) {
    live->n_waiting++;
    busq_progress_wait_on(live, condition, limit_ns);
    live->n_waiting--;
  } else {
    live->n_drivers = 1;
    live->driver_waits_on = condition;
    result = sleep_in_mailbox(live, limit_ns, &live->facts.recv_wakeups);
    live->driver_waits_on = NULL;
    (void)busq_engine_turn(live);
    stop_driving(live);
  }
  return result == BUSQ_INTERRUPTED || busq_time_now_ns() - began_ns >= SLICE_NS ? BUSQ_INTERRUPTED : BUSQ_OK;
}

/* ---- the thread ---- */

static void park(busq_live *live, uint64_t duration_ns, bool is_for_good)
{
  live->is_parked = true;
  live->is_parked_for_good = is_for_good;
  busq_progress_wait_on(live, &live->parked, duration_ns);
  live->is_parked = live->is_parked_for_good = false;
}

static void *progress_main(void *argument)
{
  busq_live *live = argument;
  pthread_mutex_lock(&live->mutex);
  while (!live->must_stop) {
    const uint64_t gone_ns = live->left_ns ? busq_time_now_ns() - live->left_ns : GRACE_NS;
    if (live->n_drivers || live->is_drained) {
      park(live, live->is_drained ? SLICE_NS : 20 * SLICE_NS, true);
    } else if (gone_ns < GRACE_NS) {
      park(live, GRACE_NS - gone_ns, false);
    } else if (busq_engine_turn(live)) {
      pthread_mutex_unlock(&live->mutex);
      pthread_mutex_lock(&live->mutex);
    } else {
      if (live->event_fd >= 0 || live->goes_on)
        busq_group_look(live);
      if (!live->n_drivers)
        (void)sleep_in_mailbox(live, 20 * SLICE_NS, &live->facts.thread_wakeups);
    }
  }
  pthread_mutex_unlock(&live->mutex);
  return NULL;
}

/* Signals are for the application's threads. */
int busq_progress_start(busq_live *live)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const int number = pthread_create(&live->thread, NULL, progress_main, live);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return number;
}

void busq_progress_stop(busq_live *live)
{
  pthread_mutex_lock(&live->mutex);
  live->must_stop = true;
  pthread_cond_broadcast(&live->parked);
  busq_link_nudge(live, 0);
  pthread_mutex_unlock(&live->mutex);
  pthread_join(live->thread, NULL);
}
