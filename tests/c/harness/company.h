/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_COMPANY_H
#define BUSQ_TESTS_COMPANY_H
/*
 * A bus and its company, so that tests read as transcripts:
 *
 *      meet(4, 8, 4096);                                a bus for 4 peers, after the last one
 *      busq_peer *bob = join("bob");
 *      said(alice, "bob carol", "hello");               a multicast; must succeed
 *      hears(bob, "hello");                             all that bob can receive now, in order, separated by spaces
 *      part();                                          all leave, and the bus is removed; a TEST() ends with it by itself
 *
 * Buses lie in a directory of this process alone, which goes with it, after a failure too.  Child processes are ended
 * with the test that started them.
 */
#include "busq.h"
#include "harness/check.h"
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define COMPANY_PEERS_MAX 64
#define COMPANY_CHILDREN_MAX 64
#define COMPANY_PATIENCE_NS INT64_C(300000000000)

static char company_directory[64];
static pid_t company_pid;
static busq_bus *company_bus;
static busq_peer *company_peers[COMPANY_PEERS_MAX];
static pid_t company_children[COMPANY_CHILDREN_MAX];
static uint32_t company_groups; /* of the buses to come */

/* ---- the place ---- */

/* Async-signal-safe. */
static void company_clean_up(void)
{
  if (getpid() != company_pid)
    return;
  for (unsigned i = 0; i < COMPANY_CHILDREN_MAX; i++)
    if (company_children[i] > 0)
      kill(company_children[i], SIGKILL);
  char path[96];
  memcpy(path, company_directory, strlen(company_directory) + 1);
  strcat(path, "/bus");
  unlink(path);
  rmdir(company_directory);
}

static void company_find_place(void)
{
  const char *const places[] = {"/dev/shm", "/tmp"};
  for (unsigned i = 0; i < 2; i++) {
    snprintf(company_directory, sizeof company_directory, "%s/busq-test-XXXXXX", places[i]);
    if (mkdtemp(company_directory)) {
      company_pid = getpid();
      check_on_timeout = company_clean_up;
      atexit(company_clean_up);
      return;
    }
  }
  check_fail(__FILE__, __LINE__, "no place for a bus: %s", strerror(errno));
}

static uint32_t company_nodes;    /* of each peer, of the bus that is made next */
static const char *company_order; /* of that; NULL: bus1 */
static uint32_t company_is_late;  /* its memory is reserved where it is needed */

static void part(void);

__attribute__((unused)) static busq_bus *meet(uint32_t peers, uint32_t capacity, uint64_t arena_bytes)
{
  if (!company_pid)
    company_find_place();
  part();
  const busq_config config = {.peers = peers, .capacity = capacity, .arena_bytes = arena_bytes, .permissions = 0600,
                              .groups = company_groups, .nodes = company_nodes, .reserves_late = company_is_late,
                              .order = company_order};
  const int result = busq_bus_create(company_directory, "bus", &config, &company_bus);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't create a bus: %s", busq_error_text());
  check_after = part;
  return company_bus;
}

/* In a child: its own mapping of the bus, and none of the parent's peers. */
__attribute__((unused)) static busq_bus *arrive(void)
{
  memset(company_peers, 0, sizeof company_peers);
  if (busq_bus_open(company_directory, "bus", &company_bus) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't open the bus: %s", busq_error_text());
  return company_bus;
}

static int try_join(const char *name, busq_peer **peerp)
{
  const int result = busq_peer_join(company_bus, name, strlen(name), peerp);
  for (unsigned i = 0; result == BUSQ_OK && i < COMPANY_PEERS_MAX; i++)
    if (!company_peers[i]) {
      company_peers[i] = *peerp;
      break;
    }
  return result;
}

__attribute__((unused)) static busq_peer *join(const char *name)
{
  busq_peer *peer = NULL;
  if (try_join(name, &peer) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "%s can't join: %s", name, busq_error_text());
  return peer;
}

__attribute__((unused)) static busq_peer *join_as(const char *name, uint32_t flags)
{
  busq_peer *peer = NULL;
  if (busq_peer_join_as(company_bus, name, strlen(name), flags, &peer) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "%s can't join: %s", name, busq_error_text());
  return peer;
}

__attribute__((unused)) static void leave(busq_peer *peer)
{
  for (unsigned i = 0; i < COMPANY_PEERS_MAX; i++)
    if (company_peers[i] == peer)
      company_peers[i] = NULL;
  CHECK_EQUAL(busq_peer_close(peer), BUSQ_OK);
  busq_peer_free(peer);
}

__attribute__((unused)) static void part(void)
{
  if (!company_bus)
    return;
  for (unsigned i = 0; i < COMPANY_PEERS_MAX; i++)
    if (company_peers[i])
      leave(company_peers[i]);
  busq_bus_free(company_bus);
  company_bus = NULL;
  CHECK_EQUAL(busq_bus_unlink(company_directory, "bus"), BUSQ_OK);
}

/* ---- talking ---- */

/* "bob carol" to targets; how many, or minus the result of a look-up that failed. */
static int look_up(busq_peer *peer, const char *to, uint64_t *targets)
{
  int count = 0;
  while (*(to += strspn(to, " "))) {
    const size_t bytes = strcspn(to, " ");
    const int result = busq_peer_lookup(peer, to, bytes, &targets[count++]);
    if (result != BUSQ_OK)
      return -result;
    to += bytes;
  }
  return count;
}

/* Tries once; returns the result. */
__attribute__((unused)) static int say(busq_peer *peer, const char *to, const char *text)
{
  uint64_t targets[COMPANY_PEERS_MAX];
  const int count = look_up(peer, to, targets);
  return count < 0 ? -count : busq_peer_send(peer, targets, (uint32_t)count, text, strlen(text), 0);
}

__attribute__((unused)) static void said(busq_peer *peer, const char *to, const char *text)
{
  const int result = say(peer, to, text);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't send %.40s to %s: result %d, %s", text, to, result, busq_error_text());
}

/* Sends, waiting for room and through interruptions. */
__attribute__((unused)) static int say_patiently(busq_peer *peer, const uint64_t *targets, uint32_t count,
                                                 const void *data, size_t size_bytes)
{
  int result;
  do
    result = busq_peer_send(peer, targets, count, data, size_bytes, COMPANY_PATIENCE_NS);
  while (result == BUSQ_INTERRUPTED);
  return result;
}

/* ---- listening ---- */

/* One message, pinned, if there is one now. */
__attribute__((unused)) static int take_now(busq_peer *peer, busq_message *message)
{
  uint32_t count;
  return busq_peer_recv(peer, message, 1, &count, 0);
}

__attribute__((unused)) static int take_patiently(busq_peer *peer, busq_message *message)
{
  uint32_t count;
  int result;
  do
    result = busq_peer_recv(peer, message, 1, &count, COMPANY_PATIENCE_NS);
  while (result == BUSQ_INTERRUPTED);
  return result;
}

/* All that can be received now, separated by spaces. */
__attribute__((unused)) static const char *heard(busq_peer *peer)
{
  static char text[4096];
  size_t used = 0;
  busq_message message;
  text[0] = '\0';
  while (take_now(peer, &message) == BUSQ_OK) {
    CHECK(used + message.size_bytes + 2 < sizeof text);
    if (used)
      text[used++] = ' ';
    if (message.size_bytes)
      memcpy(text + used, message.data, message.size_bytes);
    used += message.size_bytes;
    text[used] = '\0';
    busq_peer_release(peer, &message);
  }
  return text;
}

#define hears(peer, expected)                                                                                    \
  do {                                                                                                           \
    const char *const hears_found = heard(peer);                                                                 \
    if (strcmp(hears_found, (expected)) != 0)                                                                    \
      check_fail(__FILE__, __LINE__, #peer " hears \"%s\", expected \"%s\"", hears_found, (expected));           \
  } while (0)

/* ---- other processes ---- */

typedef void (*child_body)(void *argument);

/* Runs the body in a child, which ends without running anything of ours. */
__attribute__((unused)) static pid_t in_a_child(child_body body, void *argument)
{
  fflush(NULL);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(CHECK_SECONDS_MAX);
    body(argument);
    _exit(0);
  }
  for (unsigned i = 0; i < COMPANY_CHILDREN_MAX; i++)
    if (!company_children[i]) {
      company_children[i] = pid;
      break;
    }
  return pid;
}

/* Waits for the child's end; its status as waitpid() gives it. */
__attribute__((unused)) static int end_of(pid_t pid)
{
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    CHECK(errno == EINTR);
  for (unsigned i = 0; i < COMPANY_CHILDREN_MAX; i++)
    if (company_children[i] == pid)
      company_children[i] = 0;
  return status;
}

__attribute__((unused)) static void ends_well(pid_t pid)
{
  const int status = end_of(pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    check_fail(__FILE__, __LINE__, "a child ended with status 0x%x", (unsigned)status);
}

__attribute__((unused)) static void murder(pid_t pid)
{
  kill(pid, SIGKILL);
  const int status = end_of(pid);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Memory that parent and children share beside the bus; zeroed. */
__attribute__((unused)) static void *shared_memory(size_t bytes)
{
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

__attribute__((unused)) static void wait_for(const uint32_t *flag, uint32_t value)
{
  const struct timespec pause = {0, 200000};
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value)
    nanosleep(&pause, NULL);
}

__attribute__((unused)) static void tell(uint32_t *flag)
{
  (void)__atomic_fetch_add(flag, 1, __ATOMIC_ACQ_REL);
}

/* ---- the places and the memory of the bus ---- */

/* So many: no dead peer keeps its own. */
__attribute__((unused)) static void all_places_are_free(int n_places)
{
  busq_peer *others[COMPANY_PEERS_MAX];
  for (int i = 0; i < n_places; i++)
    others[i] = join((const char[]){'n', (char)('0' + i), '\0'});
  for (int i = 0; i < n_places; i++)
    leave(others[i]);
}

__attribute__((unused)) static uint64_t used_bytes(void)
{
  busq_bus_facts facts;
  CHECK_EQUAL(busq_bus_examine(company_bus, &facts), BUSQ_OK);
  return facts.arena_used_bytes;
}

#endif /* BUSQ_TESTS_COMPANY_H */
