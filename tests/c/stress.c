/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Millions of messages between processes at full speed, every one of them accounted for.
 *
 *      stress [--deliveries N] [--processes P] [--capacity C] [--arena BYTES] [--seed S] [--stale] [--threads]
 *
 * Every process is one peer with two threads: one sends, to a random set of peers (itself included), payloads of 8 to
 * 512 random bytes; the other receives.  Both write one log, under a mutex: a send before the call, a delivery after
 * it. So what comes first in the log may in truth have come later, never the other way round: an order that the log
 * claims and the bus does not keep can't be the log's fault.  At the end the observers judge all logs together.
 *
 * With --threads all live in one process: a thread per peer that sends and receives by turns, but for the last peer,
 * which two threads share; this is what a race detector can follow.
 *
 * With --stale (or BUSQ_STALE_PROPOSALS=1) every proposal of a timestamp is too low and is lost on purpose.
 *
 * Destinations, sizes and bytes follow from the seed and the message's number alone, so that the receiver can check
 * whether it got what was sent, and a run can be repeated (but for the speed of the threads).
 *
 * Ends with 0 if every verdict is good, 1 if one is not, or nothing moves for 30 s, 2 for wrong usage.
 */
#include "busq_lab.h"
#include "harness/company.h"
#include <getopt.h>
#include <pthread.h>

#define PROCESSES_MAX 16
#define SIZE_BYTES_MIN 8u
#define SIZE_BYTES_MAX 512u
#define BATCH_MAX 32u
#define STILL_SECONDS_MAX 300

typedef struct {
  uint64_t deliveries;
  uint64_t seed;
  uint64_t arena_bytes;
  uint32_t processes;
  uint32_t capacity;
  bool is_stale;
  bool has_threads;
} options;

/* What a process shares with the others, beside the bus. */
typedef struct {
  _Alignas(128) uint64_t events; /* in the log */
  uint64_t delivered;
  uint32_t has_joined;
  uint32_t has_received; /* all that it expects */
  uint64_t late;
  uint64_t ended_ns;
} account;

typedef struct {
  pthread_mutex_t mutex;
  account *account;
  uint64_t *messages;
  uint8_t *kinds;
  uint64_t room;
} diary;

typedef struct {
  uint32_t index;
  busq_peer *peer;
  uint64_t targets[PROCESSES_MAX];
  diary diary;
} person;

static options asked = {10000000, 0, 16u << 20, 4, 1024, false, false};
static uint64_t n_sends;                      /* of each process */
static uint64_t expected[PROCESSES_MAX];      /* deliveries at each */
static account *accounts;                     /* shared */
static uint32_t *may_begin, *may_end;         /* shared */
static uint64_t *messages_of[PROCESSES_MAX];  /* shared: the logs */
static uint8_t *kinds_of[PROCESSES_MAX];
static uint64_t room_of[PROCESSES_MAX];

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- what is sent: all of it follows from the seed ---- */

static uint64_t mixed(uint64_t x)
{
  check_chance chance = {x};
  return check_next(&chance);
}

static uint64_t name_of(uint32_t process, uint64_t number)
{
  return (uint64_t)process << 40 | number;
}

static uint32_t destinations_of(uint64_t name)
{
  return 1 + (uint32_t)(mixed(asked.seed ^ name) % ((UINT64_C(1) << asked.processes) - 1));
}

static uint32_t size_of(uint64_t name)
{
  return SIZE_BYTES_MIN + (uint32_t)(mixed(~asked.seed ^ name) % (SIZE_BYTES_MAX - SIZE_BYTES_MIN + 1));
}

/* The name first, then words that each depend on it and on their place. */
static void fill(uint64_t *words, uint64_t name)
{
  uint64_t word = mixed(name + asked.seed);
  words[0] = name;
  for (uint32_t i = 1; i < SIZE_BYTES_MAX / 8; i++)
    words[i] = word += UINT64_C(0x9e3779b97f4a7c15);
}

/* As many messages for each as bring the deliveries asked for. */
static void plan(void)
{
  uint64_t total = 0;
  for (; total < asked.deliveries; n_sends++) {
    for (uint32_t p = 0; p < asked.processes; p++) {
      const uint32_t to = destinations_of(name_of(p, n_sends));
      for (uint32_t r = 0; r < asked.processes; r++)
        expected[r] += to >> r & 1;
      total += (uint32_t)__builtin_popcount(to);
    }
  }
  asked.deliveries = total;
}

/* ---- the log ---- */

static void note_locked(diary *self, busq_event_kind kind, uint64_t message)
{
  const uint64_t at = self->account->events;
  if (at == self->room)
    check_fail(__FILE__, __LINE__, "more deliveries than messages were sent");
  self->messages[at] = message;
  self->kinds[at] = (uint8_t)kind;
  __atomic_store_n(&self->account->events, at + 1, __ATOMIC_RELEASE);
}

static void note_send(diary *self, uint64_t message)
{
  pthread_mutex_lock(&self->mutex);
  note_locked(self, BUSQ_EVENT_SEND, message);
  pthread_mutex_unlock(&self->mutex);
}

static void note_deliveries(diary *self, const uint64_t *messages, uint32_t count)
{
  pthread_mutex_lock(&self->mutex);
  for (uint32_t i = 0; i < count; i++)
    note_locked(self, BUSQ_EVENT_DELIVER, messages[i]);
  self->account->delivered += count;
  pthread_mutex_unlock(&self->mutex);
}

/* ---- sending and receiving ---- */

static int send_number(person *self, uint64_t number, int64_t timeout_ns)
{
  uint64_t words[SIZE_BYTES_MAX / 8], targets[PROCESSES_MAX];
  const uint64_t name = name_of(self->index, number);
  const uint32_t to = destinations_of(name);
  uint32_t count = 0;
  for (uint32_t i = 0; i < asked.processes; i++)
    if (to >> i & 1)
      targets[count++] = self->targets[i];
  fill(words, name);
  return busq_peer_send(self->peer, targets, count, words, size_of(name), timeout_ns);
}

static uint64_t check_message(const person *self, const busq_message *message)
{
  uint64_t words[SIZE_BYTES_MAX / 8], name;
  CHECK(message->size_bytes >= sizeof name);
  memcpy(&name, message->data, sizeof name);
  if (name >> 40 >= asked.processes || (name & ((UINT64_C(1) << 40) - 1)) >= n_sends)
    check_fail(__FILE__, __LINE__, "p%u: message %#" PRIx64 " was never sent", self->index, name);
  fill(words, name);
  CHECK_EQUAL(message->size_bytes, size_of(name));
  if (memcmp(message->data, words, message->size_bytes) != 0)
    check_fail(__FILE__, __LINE__, "p%u: the bytes of message %#" PRIx64 " are not those that were sent", self->index, name);
  return name;
}

/* Up to a batch; BUSQ_OK if there was something. */
static int receive_some(person *self, uint32_t limit, int64_t timeout_ns)
{
  busq_message messages[BATCH_MAX];
  uint64_t names[BATCH_MAX];
  uint32_t count;
  const int result = busq_peer_recv(self->peer, messages, limit, &count, timeout_ns);
  if (result != BUSQ_OK)
    return result;
  for (uint32_t i = 0; i < count; i++)
    names[i] = check_message(self, &messages[i]);
  note_deliveries(&self->diary, names, count);
  for (uint32_t i = 0; i < count; i++)
    busq_peer_release(self->peer, &messages[i]);
  return BUSQ_OK;
}

static void must_be(int result, int one, int other)
{
  if (result != one && result != other && result != BUSQ_INTERRUPTED)
    check_fail(__FILE__, __LINE__, "result %d: %s", result, busq_error_text());
}

static void *send_all(void *argument)
{
  person *self = argument;
  for (uint64_t number = 0; number < n_sends; number++) {
    int result;
    note_send(&self->diary, name_of(self->index, number));
    while ((result = send_number(self, number, -1)) != BUSQ_OK)
      must_be(result, BUSQ_OK, BUSQ_INTERRUPTED);
  }
  return NULL;
}

static void *receive_all(void *argument)
{
  person *self = argument;
  while (self->diary.account->delivered < expected[self->index]) {
    const uint32_t limit = self->diary.account->delivered % 3 ? 1 : BATCH_MAX;
    must_be(receive_some(self, limit, INT64_C(100000000)), BUSQ_OK, BUSQ_EMPTY);
  }
  return NULL;
}

/* One thread does both, and never waits to send without receiving. */
static void send_and_receive_by_turns(person *self)
{
  for (uint64_t number = 0; number < n_sends;) {
    int result;
    note_send(&self->diary, name_of(self->index, number));
    while ((result = send_number(self, number, 0)) != BUSQ_OK) {
      must_be(result, BUSQ_FULL, BUSQ_FULL);
      if (receive_some(self, BATCH_MAX, 0) != BUSQ_OK)
        sched_yield();
    }
    if (++number % 4 == 0)
      must_be(receive_some(self, 1 + (uint32_t)(number % BATCH_MAX), 0), BUSQ_OK, BUSQ_EMPTY);
  }
  (void)receive_all(self);
}

/* ---- a process, or what stands for one ---- */

static void person_join(person *self, uint32_t index)
{
  const char name[] = {'p', (char)('a' + index), '\0'};
  self->index = index;
  self->diary.account = &accounts[index];
  self->diary.messages = messages_of[index];
  self->diary.kinds = kinds_of[index];
  self->diary.room = room_of[index];
  pthread_mutex_init(&self->diary.mutex, NULL);
  self->peer = join(name);
  tell(&accounts[index].has_joined);
}

static void person_look_around(person *self)
{
  for (uint32_t i = 0; i < asked.processes; i++) {
    const char name[] = {'p', (char)('a' + i), '\0'};
    CHECK_EQUAL(look_up(self->peer, name, &self->targets[i]), 1);
  }
}

/* Nothing may come when all have received all. */
static void person_end(person *self)
{
  busq_peer_facts facts;
  self->diary.account->ended_ns = now_ns();
  tell(&self->diary.account->has_received);
  wait_for(may_end, 1);
  while (receive_some(self, BATCH_MAX, 0) == BUSQ_OK)
    ;
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, (uint32_t)self->targets[self->index] & 0xffff, &facts), BUSQ_OK);
  self->diary.account->late = facts.late;
  pthread_mutex_destroy(&self->diary.mutex);
}

static void person_live(person *self, bool is_alone)
{
  pthread_t sender;
  wait_for(may_begin, 1);
  person_look_around(self);
  if (is_alone) {
    send_and_receive_by_turns(self);
  } else {
    CHECK(pthread_create(&sender, NULL, send_all, self) == 0);
    (void)receive_all(self);
    CHECK(pthread_join(sender, NULL) == 0);
  }
  person_end(self);
}

static void process_body(void *argument)
{
  static person self;
  alarm(0); /* the program that watches us knows better */
  arrive();
  person_join(&self, *(const uint32_t *)argument);
  person_live(&self, false);
  leave(self.peer);
  busq_bus_free(company_bus);
}

static person people[PROCESSES_MAX];

static void *thread_body(void *argument)
{
  person *self = argument;
  person_live(self, self->index + 1 < asked.processes);
  return NULL;
}

/* ---- watching ---- */

static void describe_standstill(void)
{
  fprintf(stderr, "nothing has moved for %d s\n", STILL_SECONDS_MAX);
  for (uint32_t i = 0; i < asked.processes; i++) {
    busq_peer_facts facts;
    if (busq_bus_examine_peer(company_bus, i, &facts) == BUSQ_OK)
      fprintf(stderr, "  %s: sent %" PRIu64 ", received %" PRIu64 ", depth %" PRIu64 ", clock %" PRIu64 "; delivered %" PRIu64
                      " of %" PRIu64 "\n",
              facts.name, facts.sent, facts.received, facts.depth, facts.clock, accounts[i].delivered, expected[i]);
  }
}

static bool all_have(size_t offset)
{
  for (uint32_t i = 0; i < asked.processes; i++)
    if (!__atomic_load_n((uint32_t *)(void *)((char *)&accounts[i] + offset), __ATOMIC_ACQUIRE))
      return false;
  return true;
}

static uint64_t all_events(void)
{
  uint64_t events = 0;
  for (uint32_t i = 0; i < asked.processes; i++)
    events += __atomic_load_n(&accounts[i].events, __ATOMIC_ACQUIRE);
  return events;
}

static bool a_child_has_failed(void)
{
  int status;
  if (asked.has_threads || waitpid(-1, &status, WNOHANG) <= 0)
    return false;
  fprintf(stderr, "a process has ended with status 0x%x\n", (unsigned)status);
  return true;
}

/* Until all have; false where nothing moves any more. */
static bool watch(size_t offset)
{
  uint64_t events = 0, moved_ns = now_ns();
  while (!all_have(offset)) {
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    if (a_child_has_failed())
      return false;
    if (all_events() != events) {
      events = all_events();
      moved_ns = now_ns();
    } else if (now_ns() - moved_ns > STILL_SECONDS_MAX * UINT64_C(1000000000)) {
      describe_standstill();
      return false;
    }
  }
  return true;
}

/* ---- the run ---- */

static void prepare(void)
{
  plan();
  accounts = shared_memory(sizeof(account) * PROCESSES_MAX + 2 * 128);
  may_begin = (uint32_t *)(void *)(accounts + PROCESSES_MAX);
  may_end = may_begin + 32;
  for (uint32_t i = 0; i < asked.processes; i++) {
    room_of[i] = n_sends + expected[i] + 1000;
    messages_of[i] = shared_memory(room_of[i] * sizeof(uint64_t));
    kinds_of[i] = shared_memory(room_of[i]);
  }
  printf("seed %" PRIu64 ": %u %s, %" PRIu64 " messages, %" PRIu64 " deliveries, capacity %u, arena %" PRIu64 " KiB%s\n",
         asked.seed, asked.processes, asked.has_threads ? "peers in one process" : "processes",
         n_sends * asked.processes, asked.deliveries, asked.capacity, asked.arena_bytes >> 10,
         asked.is_stale ? ", every proposal lost" : "");
  fflush(stdout);
}

static bool run_processes(uint64_t *began_ns)
{
  static uint32_t indexes[PROCESSES_MAX];
  pid_t children[PROCESSES_MAX];
  for (uint32_t i = 0; i < asked.processes; i++) {
    indexes[i] = i;
    children[i] = in_a_child(process_body, &indexes[i]);
  }
  if (!watch(offsetof(account, has_joined)))
    return false;
  *began_ns = now_ns();
  tell(may_begin);
  if (!watch(offsetof(account, has_received)))
    return false;
  tell(may_end);
  for (uint32_t i = 0; i < asked.processes; i++)
    ends_well(children[i]);
  return true;
}

static bool run_threads(uint64_t *began_ns)
{
  pthread_t threads[PROCESSES_MAX];
  for (uint32_t i = 0; i < asked.processes; i++) {
    person_join(&people[i], i);
    CHECK(pthread_create(&threads[i], NULL, thread_body, &people[i]) == 0);
  }
  *began_ns = now_ns();
  tell(may_begin);
  if (!watch(offsetof(account, has_received)))
    return false;
  tell(may_end);
  for (uint32_t i = 0; i < asked.processes; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  return true;
}

/* ---- the verdict ---- */

static void history_add(busq_history *history, uint32_t process)
{
  const uint64_t n_events = accounts[process].events;
  uint32_t *counts = malloc(n_sends * sizeof *counts);
  uint32_t *destinations = malloc(n_sends * asked.processes * sizeof *destinations);
  CHECK(counts && destinations);
  uint64_t n_destinations = 0;
  for (uint64_t number = 0; number < n_sends; number++) {
    const uint32_t to = destinations_of(name_of(process, number));
    counts[number] = (uint32_t)__builtin_popcount(to);
    for (uint32_t r = 0; r < asked.processes; r++)
      if (to >> r & 1)
        destinations[n_destinations++] = r;
  }
  CHECK_EQUAL(busq_history_append(history, process, n_events, kinds_of[process], messages_of[process], counts, destinations,
                                  n_destinations),
              BUSQ_OK);
  free(counts);
  free(destinations);
}

static bool judge(void)
{
  busq_history *history;
  busq_judgement judgement;
  bool is_good = true;
  CHECK_EQUAL(busq_history_new(asked.processes, &history), BUSQ_OK);
  for (uint32_t i = 0; i < asked.processes; i++)
    history_add(history, i);
  CHECK_EQUAL(busq_history_judge(history, BUSQ_BUS1_PROPERTIES, &judgement), BUSQ_OK);
  busq_history_free(history);
  printf("judged %" PRIu64 " messages, %" PRIu64 " deliveries:", judgement.n_messages, judgement.n_deliveries);
  for (uint32_t i = 0; i < BUSQ_N_PROPERTIES; i++) {
    if (judgement.verdicts[i].was_judged)
      printf(" %s %" PRIu64, busq_property_name((busq_property)i), judgement.verdicts[i].count);
    is_good &= judgement.verdicts[i].count == 0;
  }
  printf("\n");
  for (uint32_t i = 0; i < BUSQ_N_PROPERTIES; i++) {
    const busq_witness *witness = &judgement.verdicts[i].witness;
    if (!judgement.verdicts[i].count)
      continue;
    printf("  %s:", busq_property_name((busq_property)i));
    for (uint32_t m = 0; m < witness->n_messages; m++)
      printf(" message %#" PRIx64, witness->messages[m]);
    for (uint32_t p = 0; p < witness->n_processes; p++)
      printf(" p%u", witness->processes[p]);
    for (uint32_t s = 0; s < witness->n_steps && s < BUSQ_WITNESS_STEPS; s++)
      printf("%s p%u %#" PRIx64, s ? "," : " by way of", witness->steps[s].process, witness->steps[s].message);
    printf("\n");
  }
  return is_good && judgement.n_deliveries == asked.deliveries;
}

static void report_speed(uint64_t began_ns)
{
  uint64_t ended_ns = 0, late = 0;
  for (uint32_t i = 0; i < asked.processes; i++) {
    late += accounts[i].late;
    if (accounts[i].ended_ns > ended_ns)
      ended_ns = accounts[i].ended_ns;
  }
  const double seconds = (double)(ended_ns - began_ns) / 1e9;
  printf("%.2f s, %.2f million deliveries per second, %" PRIu64 " proposals lost\n", seconds,
         (double)asked.deliveries / seconds / 1e6, late);
  fflush(stdout);
}

static bool options_read(int n_arguments, char **arguments)
{
  static const struct option known[] = {{"deliveries", 1, NULL, 'd'}, {"processes", 1, NULL, 'p'}, {"capacity", 1, NULL, 'c'},
                                        {"arena", 1, NULL, 'a'},      {"seed", 1, NULL, 's'},      {"stale", 0, NULL, 'l'},
                                        {"threads", 0, NULL, 't'},    {NULL, 0, NULL, 0}};
  asked.seed = now_ns();
  for (int option; (option = getopt_long(n_arguments, arguments, "", known, NULL)) >= 0;) {
    const uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 1;
    switch (option) {
    case 'd': asked.deliveries = number; break;
    case 'p': asked.processes = (uint32_t)number; break;
    case 'c': asked.capacity = (uint32_t)number; break;
    case 'a': asked.arena_bytes = number; break;
    case 's': asked.seed = number; break;
    case 'l': setenv("BUSQ_STALE_PROPOSALS", "1", 1); break;
    case 't': asked.has_threads = true; break;
    default: return false;
    }
  }
  const char *stale = getenv("BUSQ_STALE_PROPOSALS");
  asked.is_stale = stale && *stale && *stale != '0';
  return optind == n_arguments && asked.processes >= 1 && asked.processes <= PROCESSES_MAX && asked.deliveries >= 1 &&
         asked.deliveries < UINT64_C(1) << 31 && asked.capacity >= 1;
}

int main(int n_arguments, char **arguments)
{
  uint64_t began_ns = 0;
  check_test = "stress";
  if (!options_read(n_arguments, arguments)) {
    fprintf(stderr, "usage: stress [--deliveries N] [--processes 1..%d] [--capacity C] [--arena BYTES] [--seed S] [--stale] [--threads]\n",
            PROCESSES_MAX);
    return 2;
  }
  prepare();
  meet(asked.processes, asked.capacity, asked.arena_bytes);
  const bool came_through = asked.has_threads ? run_threads(&began_ns) : run_processes(&began_ns);
  if (!came_through)
    exit(1);
  report_speed(began_ns);
  const bool is_good = judge();
  part();
  return is_good ? 0 : 1;
}
