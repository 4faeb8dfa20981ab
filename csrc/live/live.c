/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "live/engine.h"
#include "live/live_group.h"
#include "live/link.h"
#include "live/member.h"
#include "live/progress.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LINGER_NS UINT64_C(1000000000)
#define PATIENCE_NS UINT64_C(20000000) /* fifo:on_gap=skip */
/* Where packets are held back on purpose all come, but on a busy machine a sender may stand still behind a gap for long. */
#define PATIENCE_OF_SHUFFLED_NS UINT64_C(60000000000)
#define SLICE_NS 50000000
#define MOMENT_NS 1000000
#define HELD_MAX (UINT32_C(1) << 24)

/* Takes the mutex.  After a fork the progress thread stays with the parent, and so does the mailbox. */
static int enter(busq_live *live)
{
  if (BUSQ_UNLIKELY(live->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  pthread_mutex_lock(&live->mutex);
  if (BUSQ_LIKELY(!live->is_closed))
    return BUSQ_OK;
  pthread_mutex_unlock(&live->mutex);
  return BUSQ_CLOSED;
}

/* ---- what the order may ask ---- */

static const uint32_t *world_vector(const busq_order_world *world, uint64_t message)
{
  const busq_live *live = (const busq_live *)(const void *)world;
  busq_live_entry *entry = busq_table_find(&live->messages, message);
  return entry ? busq_entry_clock(entry) : live->no_clock;
}

static const uint32_t *world_row(const busq_order_world *world, uint64_t message, uint32_t row)
{
  const busq_live *live = (const busq_live *)(const void *)world;
  return world_vector(world, message) + live->n + (size_t)row * live->n;
}

/* ---- joining ---- */

static void live_free(busq_live *live)
{
  busq_engine_deinit(live);
  busq_link_deinit(live);
  if (live->event_fd >= 0)
    close(live->event_fd);
  busq_peer_free(live->port);
  free(live->members);
  free(live->others);
  free(live->no_clock);
  pthread_cond_destroy(&live->came);
  pthread_cond_destroy(&live->moved);
  pthread_cond_destroy(&live->parked);
  pthread_mutex_destroy(&live->mutex);
  free(live);
}

static int live_new(busq_bus *bus, const busq_bus_facts *facts, busq_live **livep)
{
  uint32_t options;
  const busq_order *order = busq_order_parse(facts->order, &options);
  if (!order)
    return BUSQ_INVALID;
  busq_live *live = calloc(1, sizeof *live);
  if (!live)
    return busq_error(BUSQ_NO_SPACE, "no memory for a member of the group");
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&live->came, &monotonic);
  pthread_cond_init(&live->moved, &monotonic);
  pthread_cond_init(&live->parked, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&live->mutex, NULL);
  live->world = (busq_order_world){.vector = world_vector, .row = world_row};
  live->bus = bus;
  live->order = order;
  live->options = options;
  live->keeps_order = busq_channels_keep_order(order, options, BUSQ_CHANNELS_AS_NEEDED);
  live->goes_on = options & BUSQ_OPTION_GO_ON;
  live->n = facts->peers;
  live->capacity = facts->capacity;
  live->credit_bytes = facts->arena_bytes / 2;
  live->clock_bytes = busq_wire_clock_bytes(order, live->n);
  live->waiting_max = live->capacity > live->n ? live->capacity : live->n;
  live->event_fd = -1;
  live->fork_generation = busq_fork_generation;
  live->next_number = live->next_multicast = 1;
  live->payload_bytes_max = facts->arena_bytes;
  live->members = calloc(live->n, sizeof *live->members);
  live->links = calloc(live->n, sizeof *live->links);
  live->others = calloc(live->n, sizeof *live->others);
  live->no_clock = calloc(1, live->clock_bytes + 1);
  if (!busq_table_init(&live->messages) || !live->members || !live->links || !live->others || !live->no_clock) {
    live_free(live);
    return busq_error(BUSQ_NO_SPACE, "no memory for a member of a group of %u", facts->peers);
  }
  *livep = live;
  return BUSQ_OK;
}

static int live_init_state(busq_live *live)
{
  const uint64_t held_max = (uint64_t)live->n * live->capacity;
  const busq_order_group group = {
      .n_processes = live->n,
      .self = live->self,
      .waiting_max = live->waiting_max,
      .held_max = held_max < HELD_MAX ? (uint32_t)held_max : HELD_MAX,
      .options = live->options,
      .patience_ns = live->shuffle_ns ? PATIENCE_OF_SHUFFLED_NS : PATIENCE_NS,
  };
  live->state = calloc(1, busq_order_state_size(live->order, &group));
  if (!live->state)
    return busq_error(BUSQ_NO_SPACE, "no memory for the state of order %s with %u members", live->order->name, live->n);
  busq_order_init(live->order, live->state, &group);
  return BUSQ_OK;
}

/* Our own number is the slot that we were given. */
static int live_find_self(busq_live *live, const char *name, size_t name_bytes)
{
  uint64_t target;
  int result = busq_peer_lookup(live->port, name, name_bytes, &target);
  if (!result)
    result = busq_group_lookup(live, name, name_bytes, &live->self);
  return result;
}

/* Packets that are held back die with their process, and later ones have arrived. */
static int shuffles_the_dead(const busq_live *live)
{
  return busq_error(BUSQ_INVALID, "order %s with on_crash=go-on: no packet may be held back", live->order->name);
}

int busq_live_join(busq_bus *bus, const char *name, size_t name_bytes, const busq_live_options *options,
                   busq_live **livep)
{
  busq_bus_facts facts;
  busq_live *live = NULL;
  int result = busq_bus_examine(bus, &facts);
  if (!result)
    result = live_new(bus, &facts, &live);
  if (result)
    return result;
  const bool shuffles = options && options->shuffle_ns && live->goes_on;
  result = shuffles ? shuffles_the_dead(live) : busq_peer_join(bus, name, name_bytes, &live->port);
  if (!result) {
    live->port->tracer.is_silent = true;
    result = live_find_self(live, name, name_bytes);
  }
  if (!result) {
    live->shuffle_ns = options ? options->shuffle_ns : 0;
    live->shuffle_state = options ? busq_hash_mix(options->shuffle_seed) + live->self : 0;
    result = live_init_state(live);
  }
  if (!result && busq_progress_start(live))
    result = busq_error(BUSQ_NO_SPACE, "can't start a progress thread");
  if (result)
    live_free(live);
  else
    *livep = live;
  return result;
}

/* ---- leaving ---- */

/* Our own packets go their way, for a bounded time. */
static void linger(busq_live *live)
{
  const uint64_t end_ns = busq_time_now_ns() + LINGER_NS;
  live->is_lingering = true;
  while (!busq_engine_is_quiet(live) && busq_time_now_ns() < end_ns && !busq_group_check_wait(live, false)) {
    busq_group_look(live);
    (void)busq_progress_wait(live, &live->moved, 1000000);
  }
}

int busq_live_close(busq_live *live)
{
  const int result = enter(live);
  if (result)
    return result == BUSQ_CLOSED ? BUSQ_OK : result;
  live->is_closed = true;
  busq_engine_settle_event(live);
  busq_link_announce(live, &live->came);
  busq_link_announce(live, &live->moved);
  linger(live);
  pthread_mutex_unlock(&live->mutex);
  busq_progress_stop(live);
  return busq_peer_close(live->port);
}

void busq_live_free(busq_live *live)
{
  if (!live)
    return;
  if (live->fork_generation != busq_fork_generation) {
    /* The lock may be held for ever here, by a thread that only the parent has. */
    if (live->event_fd >= 0)
      close(live->event_fd);
    busq_peer_free(live->port);
    return;
  }
  (void)busq_live_close(live);
  live_free(live);
}

/* ---- sending ---- */

int busq_live_lookup(busq_live *live, const char *name, size_t name_bytes, uint32_t *processp)
{
  int result = enter(live);
  if (result)
    return result;
  result = busq_group_lookup(live, name, name_bytes, processp);
  pthread_mutex_unlock(&live->mutex);
  return result;
}

static int failed(const busq_live *live)
{
  switch (live->failure) {
  case BUSQ_OK:
    return BUSQ_OK;
  case BUSQ_SHUTDOWN:
    return busq_error(BUSQ_SHUTDOWN, "the bus was shut down");
  case BUSQ_NO_SPACE:
    return busq_error(BUSQ_NO_SPACE, "no memory for a packet; order %s can't go on", live->order->name);
  default:
    return busq_error(live->failure, "the bus is damaged, or order %s was given what can't be; it can't go on",
                      live->order->name);
  }
}

static int check_destinations(busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  if (n_destinations == 0 || n_destinations > live->n)
    return busq_error(BUSQ_INVALID, "%u receivers: expected 1 to %u, each of them once", n_destinations, live->n);
  for (uint32_t i = 0; i < n_destinations; i++) {
    const uint32_t to = destinations[i];
    if (to >= live->n || !busq_group_find(live, to))
      return busq_error(BUSQ_INVALID, "receiver %u is member %u of a group of %u", i, to, live->n);
    const busq_member *member = &live->members[to];
    for (uint32_t before = 0; before < i; before++)
      if (destinations[before] == to)
        return busq_error(BUSQ_INVALID, "receiver \"%.*s\" is given twice; each receiver gets a message once",
                          (int)member->name_bytes, member->name);
    busq_group_glance(live, to);
    if (member->state == BUSQ_MEMBER_GONE)
      return busq_error(BUSQ_PEER_DEAD, "\"%.*s\" has left the bus or died; nobody got the message", (int)member->name_bytes,
                        member->name);
  }
  return BUSQ_OK;
}

static int check_size(const busq_live *live, uint32_t n_destinations, size_t size_bytes)
{
  const uint64_t header = sizeof(busq_wire_header) + busq_wire_destinations_bytes(n_destinations) + live->clock_bytes;
  if (size_bytes <= live->payload_bytes_max && header + size_bytes <= live->payload_bytes_max)
    return BUSQ_OK;
  return busq_error(BUSQ_TOO_LARGE,
                    "a message of %zu bytes, with %llu more for order %s: the bus takes at most %llu; create it with a "
                    "larger arena",
                    size_bytes, (unsigned long long)header, live->order->name,
                    (unsigned long long)live->payload_bytes_max);
}

/* The rest of a timeout that began then; -1 for ever. */
static int64_t left_of(int64_t timeout_ns, uint64_t began_ns)
{
  if (timeout_ns <= 0)
    return timeout_ns;
  const int64_t waited_ns = (int64_t)(busq_time_now_ns() - began_ns);
  return waited_ns < timeout_ns ? timeout_ns - waited_ns : 0;
}

/* Waits a little, for a sender.  BUSQ_OK: look again. */
static int wait_to_send(busq_live *live, int64_t limit_ns, int64_t timeout_ns, uint64_t began_ns)
{
  const int64_t left_ns = left_of(timeout_ns, began_ns);
  busq_group_look(live);
  int result = busq_group_check_wait(live, false);
  if (!result && left_ns == 0)
    result = BUSQ_FULL;
  if (!result)
    result = busq_progress_wait(live, &live->moved, left_ns >= 0 && left_ns < limit_ns ? left_ns : limit_ns);
  return live->is_closed ? BUSQ_CLOSED : result;
}

/* The reason that keeps a message from being sent at all. */
static int check_send(busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  int result = failed(live);
  if (!result)
    result = check_destinations(live, destinations, n_destinations);
  return result ? result : busq_group_check_send(live);
}

/* There was no room in time: a member takes nothing, or the order itself is busy. */
static int full(const busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  const uint32_t who = busq_link_full(live, destinations, n_destinations);
  if (who != live->n)
    return busq_error_full(live->bus->name, live->members[who].name, live->members[who].name_bytes, false);
  return busq_error(BUSQ_FULL, "order %s on bus \"%s\" was busy until the timeout with what was sent here before: there is room when its packets are taken", live->order->name,
                    live->bus->name);
}

/* Waits for room, and after a moment in vain asks for it. */
static int wait_for_room(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, int64_t timeout_ns)
{
  const uint64_t began_ns = busq_time_now_ns();
  int result = BUSQ_OK;
  (void)busq_engine_turn(live);
  while (result == BUSQ_OK && !busq_engine_has_room(live, destinations, n_destinations)) {
    const bool is_patient = timeout_ns && busq_time_now_ns() - began_ns < MOMENT_NS;
    if (!is_patient)
      busq_link_ask(live, destinations, n_destinations);
    result = wait_to_send(live, is_patient ? MOMENT_NS : SLICE_NS, timeout_ns, began_ns);
    if (!result)
      result = check_send(live, destinations, n_destinations);
  }
  return result == BUSQ_FULL ? full(live, destinations, n_destinations) : result;
}

static int send_locked(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data,
                       size_t size_bytes, int64_t timeout_ns, busq_live_ticket *ticket)
{
  const uint64_t begun = busq_bus_recording_now(live->bus);
  uint64_t blocked = 0;
  int result = check_send(live, destinations, n_destinations);
  if (!result && !busq_engine_has_room(live, destinations, n_destinations)) {
    blocked = begun;
    result = wait_for_room(live, destinations, n_destinations, timeout_ns);
  }
  live->begun = begun;
  live->blocked = blocked;
  return result ? result : busq_engine_submit(live, destinations, n_destinations, data, size_bytes, ticket);
}

int busq_live_send(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data,
                   size_t size_bytes, int64_t timeout_ns, busq_live_ticket *ticket)
{
  int result = check_size(live, n_destinations, size_bytes);
  if (!result)
    result = enter(live);
  if (result)
    return result;
  if (busq_bus_is_shut_down(live->bus) && !live->failure)
    live->failure = BUSQ_SHUTDOWN;
  result = send_locked(live, destinations, n_destinations, data, size_bytes, timeout_ns, ticket);
  if (!result && live->failure == BUSQ_SHUTDOWN)
    result = failed(live);
  pthread_mutex_unlock(&live->mutex);
  return result;
}

int busq_live_finish(busq_live *live, const busq_live_ticket *ticket, int64_t timeout_ns)
{
  if (!(live->order->traits & BUSQ_ORDER_RENDEZVOUS))
    return BUSQ_OK;
  int result = enter(live);
  if (result)
    return result;
  const uint64_t began_ns = timeout_ns > 0 ? busq_time_now_ns() : 0;
  while (result == BUSQ_OK && busq_engine_is_open(live, ticket->first, ticket->last)) {
    result = failed(live);
    if (!result)
      result = wait_to_send(live, SLICE_NS, timeout_ns, began_ns);
  }
  pthread_mutex_unlock(&live->mutex);
  return result;
}

int busq_live_assemble(busq_live *live, int64_t timeout_ns)
{
  enum { LOOK_AGAIN_NS = 5000000 };
  int result = enter(live);
  if (result)
    return result;
  const uint64_t began_ns = busq_time_now_ns();
  while (!live->is_assembled) {
    result = live->is_closed ? BUSQ_CLOSED : failed(live);
    if (!result)
      result = busq_group_assemble(live);
    live->is_assembled = result == BUSQ_OK;
    if (result != BUSQ_UNKNOWN_PEER || left_of(timeout_ns, began_ns) == 0)
      break;
    if (busq_time_now_ns() - began_ns >= SLICE_NS) {
      result = BUSQ_INTERRUPTED;
      break;
    }
    busq_progress_wait_on(live, &live->moved, LOOK_AGAIN_NS);
  }
  pthread_mutex_unlock(&live->mutex);
  return result;
}

/* ---- receiving ---- */

static void fill_message(const busq_live_entry *entry, busq_live_message *message)
{
  *message = (busq_live_message){
      .data = busq_entry_payload(entry),
      .size_bytes = entry->payload_bytes,
      .name = entry->name,
      .multicast = ((const busq_wire_header *)(const void *)entry->wire)->multicast,
      .sender = busq_message_origin(entry->name),
      .entry = (void *)(uintptr_t)entry,
  };
}

static int take(busq_live *live, busq_live_message *messages, uint32_t limit, uint32_t *countp)
{
  busq_live_entry *entry;
  while (*countp < limit && (entry = busq_engine_take(live)) != NULL)
    fill_message(entry, &messages[(*countp)++]);
  if (BUSQ_UNLIKELY(live->port->tracer.n_taken))
    busq_tracer_flush(live->port);
  busq_engine_settle_event(live);
  return *countp ? BUSQ_OK : BUSQ_EMPTY;
}

/* A wait that goes on with the next call is one wait; short ones are not worth an event. */
static void record_wait(busq_live *live)
{
  enum { SHORT = 50000 };
  const uint64_t since = live->waits_since, now = busq_bus_recording_now(live->bus);
  live->waits_since = 0;
  if (since && now && now - since > SHORT)
    busq_tracer_app_waited(live->port, since);
}

static int recv_locked(busq_live *live, busq_live_message *messages, uint32_t limit, uint32_t *countp,
                       int64_t timeout_ns)
{
  const uint64_t began_ns = timeout_ns > 0 ? busq_time_now_ns() : 0;
  for (;;) {
    (void)busq_engine_turn(live);
    if (live->is_closed)
      return BUSQ_CLOSED;
    if (BUSQ_UNLIKELY(live->waits_since) && busq_engine_has_message(live))
      record_wait(live);
    int result = take(live, messages, limit, countp);
    if (result == BUSQ_OK)
      return result;
    if (live->is_drained || (live->failure && live->failure != BUSQ_SHUTDOWN))
      return failed(live);
    busq_group_look(live);
    result = busq_group_check_wait(live, true);
    if (result) {
      live->n_told = live->n_gone;
      return result;
    }
    const int64_t left_ns = left_of(timeout_ns, began_ns);
    if (left_ns == 0) {
      record_wait(live);
      return BUSQ_EMPTY;
    }
    if (!live->waits_since)
      live->waits_since = busq_bus_recording_now(live->bus);
    result = busq_progress_wait(live, &live->came, left_ns);
    if (result && !busq_engine_has_message(live))
      return live->is_closed ? BUSQ_CLOSED : result;
  }
}

int busq_live_recv(busq_live *live, busq_live_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns)
{
  *countp = 0;
  int result = enter(live);
  if (result)
    return result;
  result = take(live, messages, limit, countp);
  if (result)
    result = recv_locked(live, messages, limit, countp, timeout_ns);
  pthread_mutex_unlock(&live->mutex);
  return result;
}

int busq_live_take(busq_live *live, busq_live_message *message)
{
  uint32_t count = 0;
  int result = enter(live);
  if (result)
    return result;
  result = take(live, message, 1, &count);
  pthread_mutex_unlock(&live->mutex);
  return result;
}

static busq_live_entry *message_entry(busq_live_message *message)
{
  return __atomic_exchange_n(&message->entry, NULL, __ATOMIC_ACQ_REL);
}

void busq_live_release(busq_live_message *message)
{
  busq_live_entry *entry = message_entry(message);
  if (entry)
    busq_entry_release(entry);
}

void busq_live_give_back(busq_live *live, busq_live_message *message)
{
  busq_live_entry *entry = message_entry(message);
  if (!entry)
    return;
  if (enter(live) == BUSQ_OK) {
    busq_engine_give_back(live, entry);
    pthread_mutex_unlock(&live->mutex);
  } else {
    busq_entry_release(entry);
  }
}

void busq_live_end(busq_live_message *message, const void *data)
{
  (void)data;
  if (message->is_kept)
    busq_live_release(message);
}

int busq_live_fileno(busq_live *live, int *fdp)
{
  int result = enter(live);
  if (result)
    return result;
  if (live->event_fd < 0) {
    live->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (live->event_fd < 0)
      result = busq_error_system("can't make the descriptor behind fileno()");
    (void)busq_engine_turn(live);
  }
  *fdp = live->event_fd;
  pthread_mutex_unlock(&live->mutex);
  return result;
}

void busq_live_set_spin(busq_live *live, uint32_t spin_ns, uint32_t yield_ns)
{
  busq_peer_set_spin(live->port, spin_ns, yield_ns);
}

/* ---- for the curious ---- */

/* These three also work on a handle that was closed: there may be messages in the application's hands. */

int busq_live_member_name(busq_live *live, uint32_t process, char *name, size_t *name_bytesp)
{
  int result = BUSQ_OK;
  if (live->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  pthread_mutex_lock(&live->mutex);
  if (process >= live->n || !busq_group_find(live, process)) {
    result = busq_error(BUSQ_UNKNOWN_PEER, "the group has no member %u", process);
  } else {
    *name_bytesp = live->members[process].name_bytes;
    memcpy(name, live->members[process].name, *name_bytesp);
  }
  pthread_mutex_unlock(&live->mutex);
  return result;
}

int busq_live_examine(busq_live *live, busq_live_facts *facts)
{
  if (live->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  pthread_mutex_lock(&live->mutex);
  *facts = live->facts;
  facts->self = live->self;
  facts->n_processes = live->n;
  facts->secret_ns += live->secret_since_ns ? busq_time_now_ns() - live->secret_since_ns : 0;
  pthread_mutex_unlock(&live->mutex);
  return BUSQ_OK;
}

int busq_live_journal(busq_live *live, uint64_t from, busq_live_event *events, uint64_t limit, uint64_t *countp)
{
  if (live->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  pthread_mutex_lock(&live->mutex);
  const uint64_t there = from < live->n_journal ? live->n_journal - from : 0;
  const uint64_t copied = there < limit ? there : limit;
  if (copied)
    memcpy(events, live->journal + from, copied * sizeof *events);
  *countp = there;
  pthread_mutex_unlock(&live->mutex);
  return BUSQ_OK;
}

int busq_live_journal_start(busq_live *live)
{
  int result = enter(live);
  if (result)
    return result;
  live->has_journal = true;
  pthread_mutex_unlock(&live->mutex);
  return BUSQ_OK;
}

int busq_live_delay(busq_live *live, uint32_t process, uint64_t delay_ns)
{
  int result = enter(live);
  if (result)
    return result;
  if (process < live->n && !live->goes_on)
    live->links[process].delay_ns = delay_ns;
  else
    result = live->goes_on ? shuffles_the_dead(live) : busq_error(BUSQ_INVALID, "member %u of a group of %u", process, live->n);
  pthread_mutex_unlock(&live->mutex);
  return result;
}
