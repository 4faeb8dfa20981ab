/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CRASH_SCENE_H
#define BUSQ_TESTS_CRASH_SCENE_H
/*
 * One run: a bus, its company, a victim that meets its fate at one point, what a survivor does then, and what must
 * hold.
 *
 *      prepare     bob, carol and dan join; the victim follows its script up to the "!"; another may die before it
 *      fate        the victim goes on, and is killed or stopped before its k-th access to shared memory
 *      operation   a survivor does one thing first
 *      flow        bob writes to all that are left, and all hear it
 *      return      a stopped victim goes on, comes to the end of its script, and hears what the others hear
 *      succession  a process joins under the victim's name; messages flow from and to it
 *      end         every slot can be had, all leave, no memory and no descriptor is left behind
 *
 * Where the victim's name is that of a shared queue, next reads it beside the victim from the beginning: all that is
 * sent to it after the victim met its fate is for next.
 */
#include "crash/crash_actor.h"
#include "crash/crash_judge.h"
#include <dirent.h>
#include <setjmp.h>

typedef struct {
  const char *name;
  const char *victim;    /* from the "!" on, its accesses are counted */
  const char *receivers; /* of what the victim sends: the ones that "send" sends to afterwards; NULL: carol */
  const char *bob;       /* what they do before the cue */
  const char *carol;
  const char *meanwhile; /* what bob does while the victim acts */
  const char *prior;     /* a process that meets the same kind of fate before */
  const char *second;    /* and those that do after the victim */
  const char *third;
  const char *tidy;        /* what has to be removed by name at the end */
  crash_fate prior_fate;   /* FATE_NONE: the same as the victim's */
  bool prior_is_victim;    /* by name */
  bool prior_is_durable;
  bool is_durable;         /* what is sent to the victim while it is dead must not be lost */
  bool carol_is_full;      /* sending to it at once may fail */
  bool victim_may_be_free; /* its name may be had while it is stopped: it has not joined yet, or is about to leave */
  bool is_shared;          /* the victim's name is that of a shared queue */
  bool is_first;           /* and there is no other reader when it joins */
  bool takes_larger;       /* messages that the arena can't hold */
  bool reserves_late;      /* memory, where it is needed: rings are short */
  bool disk_is_full;       /* and stay so */
  bool dan_shares;         /* so is dan's, which reads it alone */
  bool bob_asks;           /* what bob has asked the victim: its reply, or the victim's death, must come */
} crash_case;

typedef struct {
  const char *name;
  crash_role role;
  const char *script; /* NULL: "send" to each of the receivers */
} crash_op;

typedef struct {
  const crash_case *scene;
  const crash_op *op;
  crash_fate fate;
  uint64_t point;
  uint64_t prior_point;
  uint64_t second_point;
  uint64_t third_point;
  points_kind kind;
  uint64_t stop_ns; /* how long a stopped victim stays so at least, while the others go on */
} crash_run;

#define PATIENCE_KILL_NS INT64_C(3000000000)
#define PATIENCE_STOP_NS INT64_C(400000000)
#define LIMIT_KILL_NS UINT64_C(1000000000)
#define LIMIT_STOP_NS UINT64_C(100000000)
#define HANG_NS INT64_C(60000000000)

enum {
  PROBE_FLOW = 901,
  PROBE_RETURN = 902,
  PROBE_NEXT = 903,
  PROBE_END = 904,
  PROBE_WHILE_STOPPED = 910
};

/* ---- the lane, which runs the scenes ---- */

static struct {
  const crash_run *run;
  busq_bus *bus;
  pid_t pids[ROLES];
  uint32_t base_descriptors[ROLES];
  uint64_t base_reserved;
  crash_outcome outcome;
  crash_verdict verdict;
  jmp_buf gives_up;
} lane;

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
  va_list arguments;
  if (!lane.verdict.fault[0]) {
    va_start(arguments, format);
    vsnprintf(lane.verdict.fault, sizeof lane.verdict.fault, format, arguments);
    va_end(arguments);
  }
  longjmp(lane.gives_up, 1);
}

static void actor_end(crash_role role)
{
  if (lane.pids[role] <= 0)
    return;
  kill(lane.pids[role], SIGKILL);
  while (waitpid(lane.pids[role], NULL, 0) < 0 && errno == EINTR)
    ;
  lane.pids[role] = 0;
}

static void ask(crash_role role, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void ask(crash_role role, const char *format, ...)
{
  crash_box *box = &stage->boxes[role];
  va_list arguments;
  va_start(arguments, format);
  CHECK(vsnprintf(box->script, sizeof box->script, format, arguments) < (int)sizeof box->script);
  va_end(arguments);
  busq_store_release(&box->asked, box->asked + 1);
  stage_wake(&box->asked);
}

static int answer(crash_role role)
{
  crash_box *box = &stage->boxes[role];
  if (!stage_wait(&box->answered, box->asked, HANG_NS))
    give_up("%s hangs in \"%s\"", role_titles[role], box->script);
  return (int)box->result;
}

static void must(crash_role role)
{
  const int result = answer(role);
  if (result != BUSQ_OK)
    give_up("%s: \"%s\" came to result %d (%s)", role_titles[role], stage->boxes[role].script, result,
            stage->boxes[role].where);
}

static void actor_begin(crash_role role)
{
  crash_box *box = &stage->boxes[role];
  memset(box, 0, sizeof *box);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    actor_lives(role);
  lane.pids[role] = pid;
  ask(role, " ");
  must(role);
  lane.base_descriptors[role] = box->open_descriptors;
}

/* ---- prepare ---- */

static bool is_survivor(unsigned role)
{
  return role >= ROLE_BOB && role <= ROLE_NEXT;
}

static uint64_t reserved_bytes(void)
{
  struct stat file;
  CHECK_EQUAL(fstat(lane.bus->fd, &file), 0);
  return (uint64_t)file.st_blocks * 512;
}

static void scene_enter(void)
{
  const busq_config config = {
      .peers = STAGE_PEERS, .capacity = STAGE_CAPACITY, .arena_bytes = STAGE_ARENA_BYTES, .permissions = 0600,
      .takes_larger = lane.run->scene->takes_larger, .reserves_late = lane.run->scene->reserves_late};
  points_refused_bytes = &stage->refused_bytes;
  stage->refused_bytes = 0;
  if (busq_bus_create(stage->directory, "bus", &config, &lane.bus) != BUSQ_OK)
    give_up("can't create a bus: %s", busq_error_text());
  if (lane.run->scene->disk_is_full)
    stage->refused_bytes = (lane.bus->geometry.slot_count - BUSQ_RING_SHORT) * sizeof(busq_pair);
  lane.base_reserved = reserved_bytes();
  for (unsigned role = 0; role < ROLES; role++) {
    crash_box *box = &stage->boxes[role];
    if (is_survivor(role) && !lane.pids[role])
      actor_begin(role);
    box->n_events = 0;
    box->target = 0;
    box->has_joined = box->is_taking = box->is_reader = false;
    box->complaint[0] = box->where[0] = '\0';
    box->fate = lane.run->fate;
    box->has_victims_name = role == ROLE_NEXT;
    box->patience_ns = lane.run->fate == FATE_STOP ? PATIENCE_STOP_NS : PATIENCE_KILL_NS;
  }
  for (unsigned role = ROLE_BOB; role <= ROLE_DAN; role++) {
    ask(role, role == ROLE_DAN && lane.run->scene->dan_shares ? "open; share" : "open; join");
    must(role);
  }
  const bool shares = lane.run->scene->is_shared && !lane.run->scene->is_first;
  ask(ROLE_NEXT, !shares ? "open" : lane.run->scene->is_durable ? "open; queue" : "open; share");
}

/* Brings a mortal to its "!". */
static void mortal_prepare(crash_role role, const char *script, uint64_t point)
{
  crash_box *box = &stage->boxes[role];
  if (!script)
    return;
  actor_begin(role);
  box->patience_ns = PATIENCE_STOP_NS;
  box->point = point;
  box->fate = role == ROLE_PRIOR && lane.run->scene->prior_fate ? lane.run->scene->prior_fate : lane.run->fate;
  box->has_victims_name = role == ROLE_VICTIM || (role == ROLE_PRIOR && lane.run->scene->prior_is_victim);
  box->kind = box->fate == FATE_KILL ? POINTS_STORE : lane.run->kind;
  ask(role, "%s", script);
  if (!stage_wait(&box->ready, 1, HANG_NS))
    give_up("%s does not come to its cue: %s", role_titles[role], box->where);
}

typedef enum {
  IS_DEAD,
  IS_STOPPED,
  IS_DONE
} mortal_state;

static mortal_state mortal_await(crash_role role)
{
  crash_box *box = &stage->boxes[role];
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)HANG_NS;
  const struct timespec slice = {0, 50000000};
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (;;) {
    int status;
    const bool is_done = busq_load_acquire(&box->answered) == box->asked;
    if (waitpid(lane.pids[role], &status, WNOHANG | WUNTRACED) == lane.pids[role]) {
      if (WIFSTOPPED(status))
        return IS_STOPPED;
      lane.pids[role] = 0;
      if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        give_up("%s ended with status 0x%x in \"%s\"", role_titles[role], (unsigned)status, box->script);
      lane.outcome.dead = (uint16_t)(lane.outcome.dead | 1u << role);
      lane.outcome.gone = (uint16_t)(lane.outcome.gone | 1u << role);
      return IS_DEAD;
    }
    if (is_done)
      return IS_DONE;
    if (busq_time_now_ns() > end_ns)
      give_up("%s hangs in \"%s\"", role_titles[role], box->script);
    (void)sigtimedwait(&child, NULL, &slice);
  }
}

static void cue(crash_role role)
{
  busq_store_release(&stage->boxes[role].go, 1);
  stage_wake(&stage->boxes[role].go);
}

static mortal_state mortal_plays(crash_role role, const char *script)
{
  if (!script)
    return IS_DONE;
  cue(role);
  return mortal_await(role);
}

/* Until a process sleeps in recv, or has asked to be woken by file descriptor. */
static void await_sleeper(crash_role role, uint32_t flags)
{
  const busq_slot *slot = &lane.bus->slots[stage->boxes[role].target & 0xffff];
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)HANG_NS;
  while (!(busq_load_acquire(&slot->wake_flags) & flags)) {
    const struct timespec pause = {0, 20000};
    if (busq_time_now_ns() > end_ns)
      give_up("%s does not go to sleep", role_titles[role]);
    nanosleep(&pause, NULL);
  }
}

/* Until a process sleeps in send, for want of room at the victim. */
static void await_room_waiter(void)
{
  const busq_slot *slot = &lane.bus->slots[stage->boxes[ROLE_VICTIM].target & 0xffff];
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)HANG_NS;
  while (!busq_load_acquire(&slot->room_waiters)) {
    const struct timespec pause = {0, 20000};
    if (busq_time_now_ns() > end_ns)
      give_up("nobody waits for room");
    nanosleep(&pause, NULL);
  }
}

/* An operation that has begun when the victim meets its fate: it waits for what comes. */
static bool op_is_asleep(const crash_op *op)
{
  return strcmp(op->name, "asleep") == 0 || strcmp(op->name, "polling") == 0;
}

static mortal_state scene_fate(void)
{
  const crash_run *run = lane.run;
  const crash_case *scene = run->scene;
  must(ROLE_NEXT);
  mortal_prepare(ROLE_VICTIM, scene->victim, run->point);
  mortal_prepare(ROLE_PRIOR, scene->prior, run->prior_point);
  mortal_prepare(ROLE_SECOND, scene->second, run->second_point);
  mortal_prepare(ROLE_THIRD, scene->third, run->third_point);
  if (scene->bob) {
    ask(ROLE_BOB, "%s", scene->bob);
    must(ROLE_BOB);
  }
  (void)mortal_plays(ROLE_PRIOR, scene->prior);
  if (scene->carol) {
    ask(ROLE_CAROL, "%s", scene->carol);
    must(ROLE_CAROL);
  }
  if (scene->meanwhile) {
    ask(ROLE_BOB, "%s", scene->meanwhile);
    await_room_waiter();
  }
  if (op_is_asleep(run->op)) {
    ask(run->op->role, "%s %d", run->op->script, PROBE_FLOW);
    await_sleeper(run->op->role, strcmp(run->op->name, "polling") == 0 ? ~BUSQ_WAKE_FUTEX : BUSQ_WAKE_FUTEX);
  }
  const mortal_state state = mortal_plays(ROLE_VICTIM, scene->victim);
  (void)mortal_plays(ROLE_SECOND, scene->second);
  (void)mortal_plays(ROLE_THIRD, scene->third);
  lane.outcome.fate_ns = busq_time_now_ns();
  return state;
}

/* ---- afterwards ---- */

static bool script_is(const crash_op *op, const char *verb)
{
  return op->script && strncmp(op->script, verb, strlen(verb)) == 0;
}

/* The result that the operation must have, where that depends on the victim. */
static void operation_judge(const crash_run *run, mortal_state state, int result)
{
  const crash_op *op = run->op;
  const bool is_dead = state == IS_DEAD, may_be_free = run->scene->victim_may_be_free;
  const bool outlives = run->scene->is_durable || (run->scene->is_shared && !run->scene->is_first);
  if (script_is(op, "lookup prior")) {
    const bool is_gone = result == BUSQ_PEER_DEAD || result == BUSQ_UNKNOWN_PEER;
    if (!is_gone && lane.outcome.dead >> ROLE_PRIOR & 1 && !run->scene->prior_is_durable)
      give_up("a dead prior is looked up with result %d", result);
    return;
  }
  if (script_is(op, "share") && result == BUSQ_PEER_EXISTS && state == IS_STOPPED)
    return; /* it is just making the queue */
  if (script_is(op, "join") || script_is(op, "resume")) {
    const bool is_kept = !is_dead || (run->scene->is_durable && script_is(op, "join"));
    if (result == BUSQ_OK && is_kept && !may_be_free)
      give_up("next has joined under the victim's name (%s)", is_dead ? "durable" : "alive");
    if (result == BUSQ_PEER_EXISTS && is_kept)
      return;
  } else if (script_is(op, "lookup") || script_is(op, "send victim")) {
    const bool is_gone = result == BUSQ_PEER_DEAD || result == BUSQ_UNKNOWN_PEER;
    const bool is_in = result == BUSQ_OK || result == BUSQ_FULL;
    if (!is_gone && !is_in)
      must(op->role);
    if (is_dead && !outlives && is_in)
      give_up("\"%s\" came to result %d, though the victim is dead", op->script, result);
    if ((!is_dead || outlives) && is_gone && !may_be_free)
      give_up("\"%s\" came to result %d, though the victim is %s", op->script, result, is_dead ? "durable" : "alive");
    return;
  }
  if (result != BUSQ_OK && !(result == BUSQ_FULL && run->scene->carol_is_full))
    must(op->role);
  if (script_is(op, "leave"))
    lane.outcome.gone = (uint16_t)(lane.outcome.gone | 1u << op->role);
}

static void scene_operation(mortal_state state)
{
  const crash_run *run = lane.run;
  const crash_op *op = run->op;
  char script[128] = "", name[16];
  if (run->scene->meanwhile)
    (void)answer(ROLE_BOB);
  if (op_is_asleep(op))
    return;
  const char *receivers = run->scene->receivers ? run->scene->receivers : "carol";
  for (const char *at = receivers; !op->script && word_next(&at, name, sizeof name);) {
    strcat(script, "send ");
    strcat(script, name);
    strcat(script, "; ");
  }
  ask(op->role, "%s", op->script ? op->script : script);
  operation_judge(run, state, answer(op->role));
}

/* next, of two readers of a queue, is the one of which it is known that it must hear. */
static bool hears_flow(unsigned role, bool with_victim)
{
  if (lane.run->scene->is_shared)
    with_victim = role == ROLE_NEXT;
  return role <= ROLE_NEXT && stage->boxes[role].has_joined && !(lane.outcome.gone >> role & 1) &&
         (with_victim || (role != ROLE_VICTIM && role != ROLE_NEXT));
}

/* Those that are on the bus, by name. */
static const char *company_names(bool with_victim)
{
  static char names[64];
  names[0] = '\0';
  for (unsigned role = 0; role < ROLES; role++) {
    if (!hears_flow(role, with_victim))
      continue;
    strcat(names, role_names[role]);
    strcat(names, " ");
  }
  return names;
}

static bool listens_already(unsigned role, unsigned probe)
{
  return probe == PROBE_FLOW && op_is_asleep(lane.run->op) && role == lane.run->op->role;
}

/* One sends to all, and all hear it; the others while it sends, for it may have to wait until they have made room. */
static void scene_flow(crash_role from, unsigned probe, bool with_victim)
{
  const char *names = company_names(with_victim);
  if (!names[0])
    return;
  ask(from, "probe %u %s", probe, names);
  for (unsigned role = 0; role < ROLES; role++)
    if (role != from && hears_flow(role, with_victim) && !listens_already(role, probe))
      ask(role, "hear %u", probe);
  must(from);
  if (hears_flow(from, with_victim))
    ask(from, "hear %u", probe);
  for (unsigned role = 0; role < ROLES; role++)
    if (hears_flow(role, with_victim))
      must(role);
}

static bool has_replied(crash_role role)
{
  const crash_box *box = &stage->boxes[role];
  for (uint32_t i = 0; i < box->n_events; i++)
    if (box->events[i].kind == EVENT_CALL && strcmp(box->events[i].verb, "reply") == 0 && box->events[i].result == BUSQ_OK)
      return true;
  return false;
}

/* While the victim is stopped no reply need come; what it has sent comes. */
static void scene_answer(mortal_state state)
{
  if (!lane.run->scene->bob_asks || (state == IS_STOPPED && !has_replied(ROLE_VICTIM)))
    return;
  ask(ROLE_BOB, "answer");
  const int result = answer(ROLE_BOB);
  if (result != BUSQ_OK && !(state == IS_DEAD && result == BUSQ_PEER_DEAD))
    must(ROLE_BOB);
  if (result != BUSQ_OK && has_replied(ROLE_VICTIM))
    give_up("the victim's reply was sent, and bob's wait for it came to result %d", result);
}

static void mortal_returns(crash_role role)
{
  if (lane.pids[role] <= 0)
    return;
  kill(lane.pids[role], SIGCONT);
  if (mortal_await(role) != IS_DONE)
    give_up("%s does not come to its end", role_titles[role]);
}

/* The others go on for as long as it is to stay stopped. */
static void scene_stay(void)
{
  enum { ROUNDS = 30 };
  const uint64_t stop_ns = lane.run->stop_ns, end_ns = lane.outcome.fate_ns + stop_ns;
  const struct timespec pause = {(time_t)(stop_ns / ROUNDS / 1000000000u), (long)(stop_ns / ROUNDS % 1000000000u)};
  for (unsigned round = 0; round < ROUNDS && busq_time_now_ns() < end_ns; round++) {
    nanosleep(&pause, NULL);
    scene_flow(ROLE_BOB, PROBE_WHILE_STOPPED + round, false);
  }
}

static void scene_return(mortal_state state)
{
  if (state == IS_STOPPED)
    scene_stay();
  for (unsigned role = 0; role < ROLES; role++)
    if (!is_survivor(role))
      mortal_returns(role);
  if (state == IS_DEAD)
    return;
  if (!stage->boxes[ROLE_VICTIM].has_joined)
    lane.outcome.gone |= 1u << ROLE_VICTIM;
  scene_flow(ROLE_BOB, PROBE_RETURN, true);
  scene_answer(IS_DONE);
  if (lane.run->scene->is_shared) {
    ask(ROLE_VICTIM, "poll");
    (void)answer(ROLE_VICTIM); /* it may have left */
  }
  ask(ROLE_VICTIM, "part");
  must(ROLE_VICTIM);
}

static void scene_succession(void)
{
  for (unsigned role = ROLE_PRIOR; role < ROLES; role++)
    if (lane.pids[role] > 0) {
      ask(role, "part");
      must(role);
      lane.outcome.gone = (uint16_t)(lane.outcome.gone | 1u << role);
    }
  if (!stage->boxes[ROLE_NEXT].has_joined) {
    ask(ROLE_NEXT, lane.run->scene->is_durable ? "return" : lane.run->scene->is_shared ? "share" : "join");
    must(ROLE_NEXT);
  }
  /* A process that has taken over a full queue makes room in it before it writes to itself. */
  ask(ROLE_NEXT, "poll");
  must(ROLE_NEXT);
  scene_flow(ROLE_NEXT, PROBE_NEXT, true);
  scene_flow(ROLE_BOB, PROBE_END, true);
}

static void directory_must_be_empty(void)
{
  DIR *directory = opendir(stage->directory);
  CHECK(directory);
  for (const struct dirent *entry; (entry = readdir(directory));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      verdict_fault(&lane.verdict, "\"%s\" is left behind", entry->d_name);
  closedir(directory);
}

static bool some_dead_is_not_buried(void)
{
  bool some = false;
  for (uint32_t slot = 0; slot < lane.bus->geometry.peers; slot++) {
    const uint32_t state = (uint32_t)busq_load_acquire(&lane.bus->slots[slot].life) & BUSQ_LIFE_MASK;
    some |= (state == BUSQ_LIFE_LIVE || state == BUSQ_LIFE_JOINING || state == BUSQ_LIFE_LEAVING) && !busq_life_is_held(lane.bus, slot);
  }
  return some;
}

/* As long as the senders are there: what they have left of it is freed as they leave. */
static void no_large_message_may_be_left(void)
{
  if (some_dead_is_not_buried())
    return;
  for (uint64_t extent = lane.bus->geometry.peers; extent < lane.bus->geometry.extents; extent = busq_extent_next(lane.bus, extent)) {
    const uint32_t kind = busq_extent_kind(busq_load_acquire(&lane.bus->table[extent].word));
    busq_record *record = kind == BUSQ_EXTENT_LARGE ? busq_extent_record(lane.bus, extent) : NULL;
    if (record && busq_record_is_done(lane.bus, record))
      verdict_fault(&lane.verdict, "a large message keeps its memory that all have let go of");
  }
}

static void memory_behind_the_arena_must_be_back(void)
{
  const busq_geometry *geometry = &lane.bus->geometry;
  for (uint64_t extent = geometry->huge_from; extent < geometry->extents; extent++)
    if (!busq_extent_is_free(lane.bus, extent, false))
      verdict_fault(&lane.verdict, "extent %" PRIu64 " behind the arena is lost", extent);
  if (lane.run->scene->takes_larger && reserved_bytes() > lane.base_reserved + 3 * busq_geometry_head_bytes(geometry))
    verdict_fault(&lane.verdict, "%" PRIu64 " bytes are reserved, %" PRIu64 " before", reserved_bytes(), lane.base_reserved);
}

static void scene_end(void)
{
  busq_bus_facts facts;
  no_large_message_may_be_left();
  for (unsigned role = ROLE_BOB; role <= ROLE_NEXT; role++)
    if (stage->boxes[role].has_joined)
      ask(role, "settle; leave");
  for (unsigned role = ROLE_BOB; role <= ROLE_NEXT; role++)
    must(role);
  if (lane.run->scene->tidy) {
    ask(ROLE_NEXT, "%s", lane.run->scene->tidy);
    (void)answer(ROLE_NEXT); /* there may be nothing to remove */
  }
  ask(ROLE_NEXT, "crowd");
  must(ROLE_NEXT);
  (void)busq_bus_examine(lane.bus, &facts);
  if (facts.arena_used_bytes)
    verdict_fault(&lane.verdict, "%" PRIu64 " bytes of the arena are lost", facts.arena_used_bytes);
  memory_behind_the_arena_must_be_back();
  busq_bus_free(lane.bus);
  lane.bus = NULL;
  for (unsigned role = ROLE_BOB; role <= ROLE_NEXT; role++) {
    ask(role, "part%s", role == ROLE_NEXT && strcmp(lane.run->op->name, "unlink") != 0 ? "; unlink" : "");
    must(role);
    if (stage->boxes[role].open_descriptors != lane.base_descriptors[role])
      verdict_fault(&lane.verdict, "%s has %u descriptors, %u before", role_titles[role],
                    stage->boxes[role].open_descriptors, lane.base_descriptors[role]);
  }
  directory_must_be_empty();
}

static void scene_clean_up(void)
{
  DIR *directory = opendir(stage->directory);
  for (unsigned role = 0; role < ROLES; role++)
    actor_end(role);
  busq_bus_free(lane.bus);
  lane.bus = NULL;
  CHECK(directory);
  for (const struct dirent *entry; (entry = readdir(directory));)
    if (entry->d_name[0] != '.' || entry->d_name[1] == 'b')
      (void)unlinkat(dirfd(directory), entry->d_name, 0);
  closedir(directory);
}

/* True where the victim met its fate; false where it came through before the point. */
static bool scene_play(const crash_run *run)
{
  volatile bool has_met_fate = true;
  lane.run = run;
  lane.outcome = (crash_outcome){.is_shared = run->scene->is_shared};
  lane.verdict = (crash_verdict){0};
  if (setjmp(lane.gives_up)) {
    judge(&lane.outcome, &lane.verdict);
    scene_clean_up();
    return has_met_fate;
  }
  scene_enter();
  const mortal_state state = scene_fate();
  has_met_fate = state != IS_DONE;
  scene_operation(state);
  scene_answer(state);
  scene_flow(ROLE_BOB, PROBE_FLOW, false);
  scene_return(state);
  scene_succession();
  scene_end();
  judge(&lane.outcome, &lane.verdict);
  for (unsigned role = 0; role < ROLES; role++)
    if (!is_survivor(role))
      actor_end(role);
  if (!lane.verdict.fault[0] && lane.verdict.longest_ns > (run->fate == FATE_STOP ? LIMIT_STOP_NS : LIMIT_KILL_NS))
    snprintf(lane.verdict.fault, sizeof lane.verdict.fault, "%s was blocked for %" PRIu64 " ms",
             lane.verdict.longest_what, lane.verdict.longest_ns / 1000000);
  return has_met_fate;
}

#endif /* BUSQ_TESTS_CRASH_SCENE_H */
