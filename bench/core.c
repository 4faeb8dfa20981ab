/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast is busq from C to C?  The public interface of busq.h and nothing else, between processes, in order.
 *
 *   core one_to_one   one process sends, one receives, up to --limit messages per call
 *   core all_to_all   four processes each send a window to all four, then receive the windows of all, and so on
 *   core alone        one process sends to itself and receives, --limit messages at a time
 *   core depth        what an operation costs while --waiting messages stand in each of two queues, inside one process
 *
 * A message carries its number and is looked at where it lies; every process counts, and all_to_all compares the
 * orders.  Prints one JSON object on one line.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "busq.h"
#include "machine.h"
#include "steps.h"

#define BUS_NAME "bench"
#define LIMIT_MAX 256u
#define SIZE_BYTES_MAX (1u << 20)
#define N_ALL 4u
#define WINDOWS_AHEAD 4u
#define SENDS_PER_LOOK 256u
#define ROUNDS_PER_LOOK 256u
#define LOOKS_MAX (1u << 20)
#define OPERATIONS_PER_ROUND 3 /* one multicast to two queues, one receive from each */
#define RECORD_BYTES_MAX 384u  /* a 64-byte message with its head and destinations, rounded up */

enum { KIND_DATA = 1, KIND_END = 2 };

/* What every message begins with. */
typedef struct {
  uint64_t sequence;
  uint32_t kind;
  uint32_t sender;
} head;

typedef struct {
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t received;
  uint64_t wrong;
  uint64_t order; /* checksum over the senders, in the order of arrival */
  uint64_t windows;
} tally;

/* What the processes of the benchmark share beside the bus. */
typedef struct {
  _Alignas(LINE_PAIR_BYTES) _Atomic uint32_t ready;
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t windows_end;
  _Alignas(LINE_PAIR_BYTES) tally tallies[N_ALL];
} shared_area;

typedef struct {
  const char *test;
  double seconds;
  uint32_t size_bytes;
  uint32_t limit;
  uint32_t window;
  uint64_t waiting;
  bool stale;
  bool across; /* process n on core n, counted in a circle */
} options;

static char directory[64];
static pid_t children[N_ALL];
static pid_t main_pid;

/* The name is not needed once all have joined; gone, it can't be left behind by a kill. */
static void drop_name(void)
{
  busq_bus_unlink(directory, BUS_NAME);
  rmdir(directory);
}

/* Runs at every exit of the first process: the others end, and the bus goes. */
static void clean_up(void)
{
  if (getpid() != main_pid)
    return;
  for (unsigned i = 0; i < N_ALL; ++i) {
    if (children[i] > 0)
      kill(children[i], SIGKILL);
  }
  drop_name();
}

static void fail(const char *what)
{
  fprintf(stderr, "core: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void check(int result, const char *what)
{
  if (result == BUSQ_OK)
    return;
  fprintf(stderr, "core: %s: %s\n", what, busq_error_text());
  exit(1);
}

/* ---- the bus ---- */

/* The queues hold what those of the other benchmarks hold. */
static uint32_t capacity_for(uint32_t size_bytes)
{
  const uint32_t queue_bytes = size_bytes <= 4096 ? 1u << 20 : 4u << 20;
  const uint32_t capacity = queue_bytes / (size_bytes + 64);

  return capacity < 8 ? 8 : capacity > 8192 ? 8192 : capacity;
}

static busq_bus *create_bus(uint32_t capacity, uint64_t arena_bytes)
{
  const busq_config config = { .peers = 8, .capacity = capacity, .arena_bytes = arena_bytes, .permissions = 0600 };
  busq_bus *bus = NULL;

  snprintf(directory, sizeof(directory), "%s/busq-bench-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  if (!mkdtemp(directory))
    fail("mkdtemp");
  main_pid = getpid();
  atexit(clean_up);
  check(busq_bus_create(directory, BUS_NAME, &config, &bus), "create");
  return bus;
}

static busq_bus *open_bus(void)
{
  busq_bus *bus = NULL;

  check(busq_bus_open(directory, BUS_NAME, &bus), "open");
  return bus;
}

static busq_peer *join(busq_bus *bus, unsigned me)
{
  const char name[2] = { (char)('a' + me), 0 };
  busq_peer *peer = NULL;

  check(busq_peer_join(bus, name, 1, &peer), "join");
  return peer;
}

static uint64_t lookup(busq_peer *peer, unsigned whom)
{
  const char name[2] = { (char)('a' + whom), 0 };
  uint64_t target = 0;

  check(busq_peer_lookup(peer, name, 1, &target), "lookup");
  return target;
}

static void send_all(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes)
{
  int r;

  steps_mark("send");
  do {
    r = busq_peer_send(peer, targets, n_targets, data, size_bytes, -1);
  } while (r == BUSQ_INTERRUPTED);
  steps_mark("sent");
  check(r, "send");
}

static head head_of(const busq_message *message)
{
  head h = { 0 };

  if (message->size_bytes >= sizeof(h))
    memcpy(&h, message->data, sizeof(h));
  return h;
}

typedef struct {
  head h;
  uint64_t size_bytes;
} taken;

/* Up to `limit` messages, read in place: what a C program does that wants no copy of its own. */
static uint32_t recv_some(busq_peer *peer, taken *messages, uint32_t limit)
{
  for (;;) {
    busq_message found;
    uint32_t count = 0;
    int r = BUSQ_OK;

    steps_mark("receive");
    check(busq_peer_receive_begin(peer), "receive");
    while (count < limit && (r = busq_peer_receive_peek(peer, &found)) == BUSQ_OK) {
      messages[count++] = (taken){ .h = head_of(&found), .size_bytes = found.size_bytes };
      busq_peer_receive_take(peer, 0);
    }
    busq_peer_receive_end(peer);
    steps_mark(count > 0 ? "received" : "nothing");
    if (count > 0)
      return count;
    check(r == BUSQ_EMPTY ? BUSQ_OK : r, "receive");
    do {
      r = busq_peer_wait(peer, -1);
    } while (r == BUSQ_INTERRUPTED);
    check(r, "wait");
    steps_mark("waited");
  }
}

static void place(const options *o, unsigned me)
{
  if (o->across && machine_pin(me) < 0)
    fail("no core of its own");
}

/* All processes have joined, and are awake. */
static void meet(shared_area *area, uint32_t count)
{
  atomic_fetch_add(&area->ready, 1);
  while (atomic_load(&area->ready) < count)
    sched_yield();
}

static pid_t fork_child(unsigned n)
{
  pid_t child = fork();

  if (child < 0)
    fail("fork");
  if (child == 0)
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child is left spinning */
  else
    children[n] = child;
  return child;
}

static bool has_child_ended(void)
{
  siginfo_t info = { 0 };

  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

static void await_children(unsigned count)
{
  int status;

  for (unsigned i = 0; i < count; ++i) {
    if (waitpid(children[i], &status, 0) < 0)
      fail("waitpid");
    children[i] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
      fprintf(stderr, "core: a process ended with status %d\n", status);
      exit(1);
    }
  }
}

/* ---- one to one ---- */

static void stream_receive(shared_area *area, const options *o)
{
  taken messages[LIMIT_MAX];
  busq_bus *bus = open_bus();
  busq_peer *peer = join(bus, 1);
  tally t = { 0 };
  bool ended = false;

  meet(area, 2);
  steps_begin();
  while (!ended) {
    const uint32_t count = recv_some(peer, messages, o->limit);

    for (uint32_t i = 0; i < count; ++i) {
      const head h = messages[i].h;

      t.wrong += h.sequence != t.received || messages[i].size_bytes != o->size_bytes;
      ended = h.kind == KIND_END;
      t.received += !ended;
    }
  }
  t.end_ns = machine_now_ns();
  steps_print("receiver");
  area->tallies[1] = t;
  busq_peer_free(peer);
  busq_bus_free(bus);
}

static uint64_t stream_send(busq_peer *peer, const options *o, unsigned char *data)
{
  const uint64_t target = lookup(peer, 1), deadline_ns = machine_now_ns() + (uint64_t)(o->seconds * 1e9);
  const uint32_t sends_per_look = o->size_bytes <= 4096 ? SENDS_PER_LOOK : 4;
  head h = { .kind = KIND_DATA };

  do {
    for (unsigned i = 0; i < sends_per_look; ++i) {
      memcpy(data, &h, sizeof(h));
      send_all(peer, &target, 1, data, o->size_bytes);
      ++h.sequence;
    }
  } while (machine_now_ns() < deadline_ns);
  h.kind = KIND_END;
  memcpy(data, &h, sizeof(h));
  send_all(peer, &target, 1, data, o->size_bytes);
  return h.sequence;
}

static int one_to_one(shared_area *area, const options *o, unsigned char *data)
{
  const uint32_t capacity = capacity_for(o->size_bytes);
  const uint64_t arena_bytes = (uint64_t)capacity * (o->size_bytes + 64) * 2;
  busq_bus *bus = create_bus(capacity, arena_bytes > 16u << 20 ? arena_bytes : 16u << 20);
  uint64_t start_ns, sent, wrong;
  busq_peer *peer;
  double seconds;
  const tally *t = &area->tallies[1];

  if (fork_child(0) == 0) {
    place(o, 1);
    stream_receive(area, o);
    exit(0);
  }
  place(o, 0);
  peer = join(bus, 0);
  meet(area, 2);
  drop_name();
  steps_begin();
  start_ns = machine_now_ns();
  sent = stream_send(peer, o, data);
  steps_print("sender");
  await_children(1);
  seconds = (double)(t->end_ns - start_ns) / 1e9;
  wrong = t->wrong + (t->received != sent);
  printf("{\"test\": \"one_to_one\", \"size_bytes\": %u, \"limit\": %u, \"messages\": %" PRIu64 ", \"lost\": %" PRId64
         ", \"wrong\": %" PRIu64 ", \"seconds\": %.6f, \"rate_per_s\": %.1f, \"deliveries_per_s\": %.1f}\n",
         o->size_bytes, o->limit, sent, (int64_t)(sent - t->received), wrong, seconds, (double)sent / seconds,
         (double)t->received / seconds);
  busq_peer_free(peer);
  busq_bus_free(bus);
  return wrong ? 1 : 0;
}

/* ---- alone ---- */

/* `--limit` messages to oneself, then as many received. */
static int alone(const options *o, unsigned char *data)
{
  const uint32_t capacity = capacity_for(o->size_bytes);
  busq_bus *bus = create_bus(capacity < LIMIT_MAX ? LIMIT_MAX : capacity, 16u << 20);
  busq_peer *peer = join(bus, 0);
  const uint64_t target = lookup(peer, 0);
  taken messages[LIMIT_MAX];
  uint64_t received = 0, wrong = 0, start_ns, end_ns;
  head h = { .kind = KIND_DATA };

  steps_begin();
  start_ns = end_ns = machine_now_ns();
  while ((double)(end_ns - start_ns) < o->seconds * 1e9) {
    for (unsigned look = 0; look < ROUNDS_PER_LOOK; look += o->limit) {
      for (uint32_t i = 0; i < o->limit; ++i) {
        memcpy(data, &h, sizeof(h));
        send_all(peer, &target, 1, data, o->size_bytes);
        ++h.sequence;
      }
      for (uint32_t left = o->limit; left > 0;) {
        const uint32_t count = recv_some(peer, messages, left);

        for (uint32_t i = 0; i < count; ++i)
          wrong += messages[i].h.sequence != received++;
        left -= count;
      }
    }
    end_ns = machine_now_ns();
  }
  steps_print("alone");
  printf("{\"test\": \"alone\", \"size_bytes\": %u, \"limit\": %u, \"messages\": %" PRIu64 ", \"wrong\": %" PRIu64
         ", \"ns_per_op\": %.2f}\n",
         o->size_bytes, o->limit, received, wrong, (double)(end_ns - start_ns) / (double)received);
  busq_peer_free(peer);
  busq_bus_free(bus);
  return wrong ? 1 : 0;
}

/* ---- all to all ---- */

static void window_receive(busq_peer *peer, const options *o, tally *t, uint64_t *expected)
{
  taken messages[LIMIT_MAX];
  uint32_t left = N_ALL * o->window;

  while (left > 0) {
    const uint32_t count = recv_some(peer, messages, left < o->limit ? left : o->limit);

    for (uint32_t i = 0; i < count; ++i) {
      const head h = messages[i].h;

      t->wrong += h.sender >= N_ALL || h.sequence != expected[h.sender % N_ALL]++;
      t->order = (t->order ^ h.sender) * UINT64_C(0x100000001b3);
    }
    t->received += count;
    left -= count;
  }
}

static void run_windows(shared_area *area, const options *o, unsigned me, unsigned char *data)
{
  busq_bus *bus = open_bus();
  busq_peer *peer = join(bus, me);
  uint64_t targets[N_ALL], expected[N_ALL] = { 0 }, deadline_ns;
  tally t = { 0 };
  head h = { .kind = KIND_DATA, .sender = me };
  bool is_announced = false;

  meet(area, N_ALL);
  for (unsigned i = 0; i < N_ALL; ++i)
    targets[i] = lookup(peer, i);
  t.start_ns = machine_now_ns();
  deadline_ns = t.start_ns + (uint64_t)(o->seconds * 1e9);
  while (t.windows < atomic_load(&area->windows_end)) {
    for (uint32_t i = 0; i < o->window; ++i) {
      memcpy(data, &h, sizeof(h));
      send_all(peer, targets, N_ALL, data, o->size_bytes);
      ++h.sequence;
    }
    window_receive(peer, o, &t, expected);
    t.windows += 1;
    /* No process can be two windows ahead of another, so none has passed this end. */
    if (me == 0 && !is_announced && machine_now_ns() >= deadline_ns) {
      atomic_store(&area->windows_end, t.windows + WINDOWS_AHEAD);
      is_announced = true;
    }
  }
  t.end_ns = machine_now_ns();
  area->tallies[me] = t;
  atomic_fetch_add(&area->ready, 1);
  while (atomic_load(&area->ready) < 2 * N_ALL) /* no process leaves while others still send to it */
    sched_yield();
  busq_peer_free(peer);
  busq_bus_free(bus);
}

static int print_all(const shared_area *area, const options *o)
{
  uint64_t start_ns = UINT64_MAX, end_ns = 0, received = 0, wrong = 0;
  bool same_order = true;
  double seconds;

  for (unsigned i = 0; i < N_ALL; ++i) {
    const tally *t = &area->tallies[i];

    start_ns = t->start_ns < start_ns ? t->start_ns : start_ns;
    end_ns = t->end_ns > end_ns ? t->end_ns : end_ns;
    received += t->received;
    wrong += t->wrong;
    same_order = same_order && t->order == area->tallies[0].order && t->windows == area->tallies[0].windows;
  }
  seconds = (double)(end_ns - start_ns) / 1e9;
  printf("{\"test\": \"all_to_all\", \"size_bytes\": %u, \"window\": %u, \"limit\": %u, \"wrong\": %" PRIu64
         ", \"same_order\": %s, \"seconds\": %.6f, \"rate_per_s\": %.1f, \"deliveries_per_s\": %.1f}\n",
         o->size_bytes, o->window, o->limit, wrong, same_order ? "true" : "false", seconds,
         (double)received / N_ALL / seconds, (double)received / seconds);
  return wrong || !same_order ? 1 : 0;
}

static int all_to_all(shared_area *area, const options *o, unsigned char *data)
{
  const uint32_t fitting = capacity_for(o->size_bytes), needed = 2 * N_ALL * o->window;
  const uint32_t capacity = fitting > needed ? fitting : needed;
  const uint64_t arena_bytes = (uint64_t)capacity * (o->size_bytes + 64) * N_ALL * 2;
  busq_bus *bus = create_bus(capacity, arena_bytes > 16u << 20 ? arena_bytes : 16u << 20);

  atomic_store(&area->windows_end, UINT64_MAX);
  for (unsigned me = 0; me < N_ALL; ++me) {
    if (fork_child(me) == 0) {
      place(o, me);
      run_windows(area, o, me, data);
      exit(0);
    }
  }
  while (atomic_load(&area->ready) < N_ALL && !has_child_ended())
    sched_yield();
  drop_name();
  await_children(N_ALL);
  busq_bus_free(bus);
  return print_all(area, o);
}

/* ---- depth ---- */

static void depth_send(busq_peer *peer, const uint64_t *targets, uint64_t sequence, unsigned char *data)
{
  const head h = { .sequence = sequence, .kind = KIND_DATA };

  memcpy(data, &h, sizeof(h));
  check(busq_peer_send(peer, targets, 2, data, 64, 0), "send");
}

/* Takes one message; 0 if it is the one that is due. */
static uint64_t depth_recv(busq_peer *peer, uint64_t due)
{
  busq_message message;
  uint32_t count = 0;
  uint64_t sequence;

  check(busq_peer_recv(peer, &message, 1, &count, 0), "recv");
  sequence = head_of(&message).sequence;
  busq_peer_release(peer, &message);
  return sequence != due;
}

static int compare_doubles(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static int measure_depth(busq_peer *peers[2], const options *o, unsigned char *data, double *looks_ns)
{
  const uint64_t targets[2] = { lookup(peers[0], 0), lookup(peers[0], 1) };
  uint64_t sent = 0, n_taken = 0, wrong = 0, deadline_ns, before_ns;
  uint32_t n_looks = 0;

  while (sent < o->waiting)
    depth_send(peers[0], targets, sent++, data);
  deadline_ns = machine_now_ns() + (uint64_t)(o->seconds * 1e9);
  do {
    before_ns = machine_now_ns();
    for (unsigned i = 0; i < ROUNDS_PER_LOOK; ++i) {
      depth_send(peers[0], targets, sent++, data);
      wrong += depth_recv(peers[0], n_taken) + depth_recv(peers[1], n_taken);
      ++n_taken;
    }
    looks_ns[n_looks++] = (double)(machine_now_ns() - before_ns) / (ROUNDS_PER_LOOK * OPERATIONS_PER_ROUND);
  } while (machine_now_ns() < deadline_ns && n_looks < LOOKS_MAX);
  for (; n_taken < sent; ++n_taken)
    wrong += depth_recv(peers[0], n_taken) + depth_recv(peers[1], n_taken);

  qsort(looks_ns, n_looks, sizeof(*looks_ns), compare_doubles);
  printf("{\"test\": \"depth\", \"waiting\": %" PRIu64 ", \"stale\": %s, \"rounds\": %" PRIu64 ", \"wrong\": %" PRIu64
         ", \"ns_per_op\": %.2f}\n",
         o->waiting, o->stale ? "true" : "false", sent - o->waiting, wrong, looks_ns[n_looks / 2]);
  return wrong ? 1 : 0;
}

static int depth(const options *o, unsigned char *data)
{
  const uint64_t capacity = o->waiting + ROUNDS_PER_LOOK, arena_bytes = capacity * RECORD_BYTES_MAX;
  double *looks_ns = malloc(LOOKS_MAX * sizeof(*looks_ns));
  busq_peer *peers[2];
  busq_bus *bus;
  int r;

  if (!looks_ns || setenv("BUSQ_STALE_PROPOSALS", o->stale ? "1" : "0", 1) < 0)
    fail("prepare");
  bus = create_bus((uint32_t)capacity, arena_bytes > 16u << 20 ? arena_bytes : 16u << 20);
  peers[0] = join(bus, 0);
  peers[1] = join(bus, 1);
  r = measure_depth(peers, o, data, looks_ns);
  busq_peer_free(peers[1]);
  busq_peer_free(peers[0]);
  busq_bus_free(bus);
  free(looks_ns);
  return r;
}

/* ---- the command ---- */

static int usage(void)
{
  fprintf(stderr, "usage: core one_to_one|all_to_all|alone|depth [--seconds S] [--size BYTES] [--limit N] [--window N]"
                  " [--waiting N] [--stale] [--across]\n");
  return 2;
}

/* False for an option that is unknown or has no value. */
static bool parse_option(options *o, int argc, char **argv, int *ip)
{
  const char *name = argv[*ip], *value;

  if (!strcmp(name, "--stale"))
    return o->stale = true;
  if (!strcmp(name, "--across"))
    return o->across = true;
  if (++*ip >= argc)
    return false;
  value = argv[*ip];
  if (!strcmp(name, "--seconds"))
    o->seconds = strtod(value, NULL);
  else if (!strcmp(name, "--size"))
    o->size_bytes = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--limit"))
    o->limit = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--window"))
    o->window = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--waiting"))
    o->waiting = strtoull(value, NULL, 10);
  else
    return false;
  return true;
}

static bool are_sane(const options *o)
{
  return o->seconds > 0 && o->seconds <= 3600 && o->size_bytes >= 64 && o->size_bytes <= SIZE_BYTES_MAX &&
         o->limit >= 1 && o->limit <= LIMIT_MAX && o->window >= 1 && o->window <= 1024 && o->waiting >= 1 &&
         o->waiting <= 16000000;
}

int main(int argc, char **argv)
{
  static unsigned char data[SIZE_BYTES_MAX];
  options o = { .seconds = 0.5, .size_bytes = 64, .limit = 1, .window = 16, .waiting = 1000 };
  shared_area *area;

  if (argc < 2)
    return usage();
  o.test = argv[1];
  for (int i = 2; i < argc; ++i) {
    if (!parse_option(&o, argc, argv, &i))
      return usage();
  }
  if (!are_sane(&o))
    return usage();

  area = mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED)
    fail("mmap");
  memset(area, 0, sizeof(*area));
  memset(data, 1, o.size_bytes); /* pages are faulted in before the clock starts */
  if (!strcmp(o.test, "one_to_one"))
    return one_to_one(area, &o, data);
  if (!strcmp(o.test, "all_to_all"))
    return all_to_all(area, &o, data);
  if (!strcmp(o.test, "alone"))
    return alone(&o, data);
  if (!strcmp(o.test, "depth"))
    return depth(&o, data);
  return usage();
}
