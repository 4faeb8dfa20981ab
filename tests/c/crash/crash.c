/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is killed, or stopped, before every change that it makes to shared memory, and the others go on.
 *
 * Shown, for every operation of a victim, every point in it and every operation that a survivor does next: a multicast
 * reaches all its living receivers or none; what a send has confirmed is not lost; nothing comes twice without a mark;
 * all orders are consistent and causal; no process is blocked for longer than 1 s after a kill, or 100 ms beside a
 * stopped one; a process that goes on finds its message delivered once, or its send fails; the victim's name can
 * be had again, messages flow, and no memory, no descriptor and no file is left behind.
 *
 * Mechanism.  Real processes (crash_stage.h, crash_actor.h) play one scene per point (crash_scene.h, crash_points.h)
 * and are judged by their ledgers (crash_judge.h).  A run in which no process meets any fate counts the points of each
 * operation.
 *
 *      crash --quick                 a share of all runs, spread evenly over the points; below a minute
 *      crash --all                   every point with every operation, and every pair of points with one; minutes
 *      crash --thorough              every pair of points with every operation; an hour
 *      crash --list                  the names of cases and operations
 *      crash --case NAME --survivor OP --fate kill|stop --point K    one run; printed where one has failed
 *      --points store|access         see crash_points.h; without it stores for kills and accesses for stops
 *      --stop-seconds N              a stopped process stays so for at least N seconds
 *      --jobs N                      so many at a time
 *      BUSQ_DIR in the environment   where the buses lie; without it in memory
 *
 * --case and --survivor may be given several times.  Where another process meets its fate before the victim (--prior)
 * all pairs of points are run; where others do after it (--second, --third), their points are drawn from --seed.
 *
 * Not shown: what a victim does that is killed while others act at the same time, but for one that sleeps in recv, or
 * waits for a file descriptor or for room in a queue.
 */
#include "crash/crash_cases.h"
#include "shm/memory/reserve.h"
#include <sched.h>

#define N_CASES (sizeof cases / sizeof cases[0])
#define N_OPS (sizeof ops / sizeof ops[0])
_Static_assert(N_OPS <= 64, "a bit for each");

#define POINT_NEVER UINT16_MAX
#define NESTED_POINTS_MAX 160u
#define QUICK_RUNS_PER_SCENE 60u
#define ATTEMPTS_MAX 50

/* ---- what is to be run, and what came of it ---- */

typedef struct {
  uint64_t points; /* of the victim, over all points of the one before it */
  uint64_t runs;
  uint64_t faults;
  uint64_t longest_ns;
  char longest_what[64];
} crash_cell; /* a case and a kind of fate */

#define FAULTS_SHOWN 64u
#define FAULT_BYTES 768u

typedef struct {
  uint64_t next; /* task to be taken */
  uint32_t n_faults;
  uint32_t must_end; /* after the scenes at hand */
  uint32_t lock;
  crash_cell cells[N_CASES][FATE_STOP + 1];
  char faults[FAULTS_SHOWN][FAULT_BYTES];
} crash_results;

typedef struct {
  uint8_t scene;
  uint8_t op;
  uint8_t fate;
  uint16_t point;
  uint16_t prior_point;
} crash_task;

typedef enum {
  DEPTH_QUICK,
  DEPTH_ALL,
  DEPTH_THOROUGH
} crash_depth;

typedef struct {
  crash_depth depth;
  bool some_scenes; /* those below; otherwise all */
  bool scenes[N_CASES];
  uint64_t ops;
  int fate;
  uint64_t point;
  uint64_t prior_point;
  uint64_t second_point;
  uint64_t third_point;
  uint64_t stop_ns;
  unsigned jobs;
  uint64_t seed;
  int kind; /* of points; -1: stores for kills, accesses for stops */
} crash_options;

static crash_options options = {.depth = DEPTH_ALL, .jobs = 2, .kind = -1};
static crash_results *results;
static crash_task *tasks;
static size_t n_tasks;
static void *shared_memory(size_t bytes)
{
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static points_kind kind_of_fate(unsigned fate)
{
  if (options.kind >= 0)
    return (points_kind)options.kind;
  return fate == FATE_KILL ? POINTS_STORE : POINTS_ACCESS;
}

/* Processes that die after the victim do so at points drawn for each task, the same in every run. */
static uint64_t drawn_point(const crash_task *task, unsigned which)
{
  const uint64_t name = (uint64_t)task->scene << 48 | (uint64_t)task->op << 40 | (uint64_t)task->fate << 36 |
                        (uint64_t)task->point << 20 | (uint64_t)task->prior_point << 4 | which;
  check_chance chance = {options.seed + name};
  return 1 + check_below(&chance, NESTED_POINTS_MAX);
}

static crash_run run_of_task(const crash_task *task)
{
  const crash_case *scene = &cases[task->scene];
  crash_run run = {.scene = scene,
                   .op = &ops[task->op],
                   .fate = (crash_fate)task->fate,
                   .kind = kind_of_fate(task->fate),
                   .point = task->point,
                   .prior_point = task->prior_point,
                   .stop_ns = options.stop_ns};
  if (scene->second)
    run.second_point = options.second_point ? options.second_point : drawn_point(task, 2);
  if (scene->third)
    run.third_point = options.third_point ? options.third_point : drawn_point(task, 3);
  return run;
}

static void results_lock(void)
{
  while (__atomic_exchange_n(&results->lock, 1, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void results_unlock(void)
{
  __atomic_store_n(&results->lock, 0, __ATOMIC_RELEASE);
}

/* The outcome, and the command that shows it again. */
static void fault_describe(const crash_run *run, char text[FAULT_BYTES])
{
  const bool is_stop = run->fate == FATE_STOP;
  snprintf(text, FAULT_BYTES,
           "%s %s at %" PRIu64 " (%s), then %s: %s\n"
           "  again: crash --case %s --fate %s --points %s --point %" PRIu64 " --survivor %s --prior %" PRIu64
           " --second %" PRIu64 " --third %" PRIu64,
           run->scene->name, is_stop ? "stopped" : "killed", run->point, stage->boxes[ROLE_VICTIM].where, run->op->name,
           lane.verdict.fault, run->scene->name, is_stop ? "stop" : "kill",
           run->kind == POINTS_STORE ? "store" : "access", run->point, run->op->name, run->prior_point,
           run->second_point, run->third_point);
}

static void results_add(const crash_task *task, const crash_run *run)
{
  crash_cell *cell = &results->cells[task->scene][task->fate];
  results_lock();
  cell->runs++;
  if (lane.verdict.longest_ns > cell->longest_ns) {
    cell->longest_ns = lane.verdict.longest_ns;
    memcpy(cell->longest_what, lane.verdict.longest_what, sizeof cell->longest_what);
  }
  if (lane.verdict.fault[0]) {
    cell->faults++;
    if (results->n_faults < FAULTS_SHOWN)
      fault_describe(run, results->faults[results->n_faults++]);
  }
  results_unlock();
}

/* ---- lanes: processes that run one scene after the other ---- */

static void lane_take_place(void)
{
  const char *const chosen = getenv("BUSQ_DIR");
  const char *const places[] = {chosen && *chosen ? chosen : "/dev/shm", "/tmp"};
  sigset_t child;
  stage = shared_memory(sizeof *stage);
  memset(&lane, 0, sizeof lane);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  for (unsigned i = 0; i < 2; i++) {
    const int length = snprintf(stage->directory, sizeof stage->directory, "%s/busq-crash-XXXXXX", places[i]);
    if (length < (int)sizeof stage->directory && mkdtemp(stage->directory))
      return;
  }
  check_fail(__FILE__, __LINE__, "no place for a bus: %s", strerror(errno));
}

static void lane_leave_place(void)
{
  scene_clean_up();
  rmdir(stage->directory);
  munmap(stage, sizeof *stage);
}

/* Blocked for too long may be the busy machine's fault: again, until it is not. What blocks by itself always does. */
static void scene_play_in_time(const crash_run *run)
{
  const uint64_t limit_ns = run->fate == FATE_STOP ? LIMIT_STOP_NS : LIMIT_KILL_NS;
  for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    (void)scene_play(run);
    if (lane.verdict.longest_ns <= limit_ns)
      break;
  }
}

static void task_run(const crash_task *task)
{
  const crash_run run = run_of_task(task);
  scene_play_in_time(&run);
  results_add(task, &run);
}

static void lane_run(unsigned number)
{
  /* Many scenes that last long take little time each, if they do not all begin at once. */
  const struct timespec pause = {number / 50, (long)(number % 50) * 20000000};
  if (options.stop_ns)
    nanosleep(&pause, NULL);
  lane_take_place();
  for (;;) {
    const uint64_t at = __atomic_fetch_add(&results->next, 1, __ATOMIC_RELAXED);
    if (at >= n_tasks || busq_load_relaxed(&results->must_end))
      break;
    task_run(&tasks[at]);
  }
  lane_leave_place();
}

/* After Ctrl-C, or SIGTERM, the lanes tidy up and end, and what they have found is printed. */
static void end_early(int number)
{
  (void)number;
  busq_store_relaxed(&results->must_end, 1);
}

static bool lanes_run(void)
{
  bool is_well = true;
  fflush(NULL);
  pid_t pids[256];
  for (unsigned i = 0; i < options.jobs; i++) {
    pids[i] = fork();
    CHECK(pids[i] >= 0);
    if (pids[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      signal(SIGINT, SIG_IGN);
      signal(SIGTERM, SIG_IGN);
      lane_run(i);
      _exit(0);
    }
  }
  signal(SIGINT, end_early);
  signal(SIGTERM, end_early);
  for (unsigned i = 0; i < options.jobs; i++) {
    int status;
    while (waitpid(pids[i], &status, 0) < 0)
      CHECK(errno == EINTR);
    is_well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return is_well;
}

/* ---- the grid ---- */

/* The victim comes through: how many points there are, for it and for the one before it. */
static uint64_t scene_count(unsigned scene, unsigned fate, uint64_t prior_point, uint64_t *prior_pointsp)
{
  const crash_run run = {.scene = &cases[scene],
                         .op = &ops[0],
                         .fate = (crash_fate)fate,
                         .kind = kind_of_fate(fate),
                         .point = POINT_NEVER,
                         .prior_point = prior_point};
  scene_play_in_time(&run);
  if (lane.verdict.fault[0])
    results_add(&(crash_task){(uint8_t)scene, 0, (uint8_t)fate, POINT_NEVER, (uint16_t)prior_point}, &run);
  *prior_pointsp = cases[scene].prior ? stage->boxes[ROLE_PRIOR].accesses : 0;
  return stage->boxes[ROLE_VICTIM].accesses;
}

static void task_add(unsigned scene, unsigned op, unsigned fate, uint64_t point, uint64_t prior_point)
{
  if ((n_tasks & (n_tasks - 1)) == 0) {
    tasks = realloc(tasks, (n_tasks ? n_tasks * 2 : 1) * sizeof *tasks);
    CHECK(tasks);
  }
  tasks[n_tasks++] =
      (crash_task){(uint8_t)scene, (uint8_t)op, (uint8_t)fate, (uint16_t)point, (uint16_t)prior_point};
}

static bool is_chosen(uint64_t choice, unsigned candidate)
{
  return !choice || choice >> candidate & 1;
}

/* Not every operation has a sense everywhere: looking for a peer that is not there; dropping what a successor expects;
 * joining a second time. */
static bool is_sensible(unsigned scene, unsigned op)
{
  if (!cases[scene].prior && strcmp(ops[op].name, "lookup-prior") == 0)
    return false;
  if (strcmp(ops[op].name, "share") == 0)
    return cases[scene].is_first;
  if (cases[scene].is_shared && ops[op].role == ROLE_NEXT && strcmp(ops[op].name, "gc") != 0 && strcmp(ops[op].name, "unlink") != 0)
    return false; /* it has joined */
  return !cases[scene].prior_is_victim || (strcmp(ops[op].name, "gc") != 0 && strcmp(ops[op].name, "stuff") != 0);
}

/* One more than there are points: it comes through.  Pairs of points are many: each gets one operation, and its
 * neighbours get the others. */
static void tasks_of_points(unsigned scene, unsigned fate, uint64_t prior_point, uint64_t points)
{
  const uint64_t first = options.point ? options.point : 1, last = options.point ? options.point : points + 1;
  const bool is_one = cases[scene].prior && options.depth != DEPTH_THOROUGH && !options.ops;
  unsigned chosen[N_OPS], n_chosen = 0;
  for (unsigned op = 0; op < N_OPS; op++)
    if (is_chosen(options.ops, op) && is_sensible(scene, op))
      chosen[n_chosen++] = op;
  for (uint64_t point = first; point <= last; point++)
    for (unsigned i = 0; i < n_chosen; i++)
      if (!is_one || (prior_point + point) % n_chosen == i)
        task_add(scene, chosen[i], fate, point, prior_point);
}

static void tasks_of_scene(unsigned scene, unsigned fate)
{
  const size_t first = n_tasks;
  uint64_t prior_points = 0, unused;
  uint64_t points = scene_count(scene, fate, 0, &prior_points);
  if (!prior_points)
    tasks_of_points(scene, fate, 0, points);
  for (uint64_t prior = 1; prior <= prior_points; prior++) {
    if (options.prior_point && options.prior_point != prior)
      continue;
    const uint64_t here = scene_count(scene, fate, prior, &unused);
    tasks_of_points(scene, fate, prior, here);
    points += here;
  }
  results->cells[scene][fate].points = points;
  if (options.depth != DEPTH_QUICK)
    return;
  /* An odd stride meets every operation in turn. */
  const size_t count = n_tasks - first, stride = (count / QUICK_RUNS_PER_SCENE) | 1;
  n_tasks = first;
  for (size_t at = options.seed % stride; at < count; at += stride)
    tasks[n_tasks++] = tasks[first + at];
}

static void tasks_lay_out(void)
{
  lane_take_place();
  for (unsigned scene = 0; scene < N_CASES; scene++)
    for (unsigned fate = FATE_KILL; fate <= FATE_STOP; fate++)
      if ((options.scenes[scene] || !options.some_scenes) && (!options.fate || (unsigned)options.fate == fate))
        tasks_of_scene(scene, fate);
  lane_leave_place();
}

static bool results_print(uint64_t began_ns)
{
  uint64_t runs = 0, faults = 0;
  printf("%-17s %-5s %7s %8s %13s  %-24s %s\n", "case", "fate", "points", "runs", "longest block", "who", "verdict");
  for (unsigned scene = 0; scene < N_CASES; scene++)
    for (unsigned fate = FATE_KILL; fate <= FATE_STOP; fate++) {
      const crash_cell *cell = &results->cells[scene][fate];
      if (!cell->runs)
        continue;
      runs += cell->runs;
      faults += cell->faults;
      printf("%-17s %-5s %7" PRIu64 " %8" PRIu64 " %10.3f ms  %-24s ", cases[scene].name,
             fate == FATE_KILL ? "kill" : "stop", cell->points, cell->runs, (double)cell->longest_ns / 1e6,
             cell->longest_what);
      printf(cell->faults ? "%" PRIu64 " FAULTS\n" : "ok\n", cell->faults);
    }
  for (uint32_t i = 0; i < results->n_faults; i++)
    printf("%s\n", results->faults[i]);
  printf("%" PRIu64 " runs, %" PRIu64 " faults, %.1f s\n", runs, faults, (double)(busq_time_now_ns() - began_ns) / 1e9);
  return faults == 0 && runs >= n_tasks;
}

/* ---- the command line ---- */

__attribute__((noreturn)) static void usage(const char *wrong)
{
  fprintf(stderr,
          "%s\n"
          "usage: crash [--quick | --all | --thorough | --list] [--case NAME]... [--survivor OP]...\n"
          "             [--fate kill|stop] [--point K] [--points store|access] [--prior K] [--second K] [--third K]\n"
          "             [--stop-seconds N] [--jobs N] [--seed N]\n",
          wrong);
  exit(2);
}

static unsigned find_case(const char *name)
{
  for (unsigned i = 0; i < N_CASES; i++)
    if (strcmp(cases[i].name, name) == 0)
      return i;
  usage("no such case");
}

static unsigned find_op(const char *name)
{
  for (unsigned i = 0; i < N_OPS; i++)
    if (strcmp(ops[i].name, name) == 0)
      return i;
  usage("no such operation");
}

static void list_names(void)
{
  for (unsigned i = 0; i < N_CASES; i++)
    printf("case %-16s %s\n", cases[i].name, cases[i].victim);
  for (unsigned i = 0; i < N_OPS; i++)
    printf("survivor %-12s %s: %s\n", ops[i].name, role_titles[ops[i].role],
           ops[i].script ? ops[i].script : "send to each");
}

static void option_take(const char *option, const char *value)
{
  const struct {
    const char *name;
    uint64_t *number;
  } numbers[] = {
      {"--point", &options.point},         {"--prior", &options.prior_point}, {"--second", &options.second_point},
      {"--third", &options.third_point}, {"--seed", &options.seed},
  };
  if (!value)
    usage("an option without its value");
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (strcmp(option, numbers[i].name) == 0) {
      *numbers[i].number = strtoull(value, NULL, 0);
      return;
    }
  if (strcmp(option, "--case") == 0)
    options.some_scenes = options.scenes[find_case(value)] = true;
  else if (strcmp(option, "--survivor") == 0)
    options.ops |= UINT64_C(1) << find_op(value);
  else if (strcmp(option, "--fate") == 0)
    options.fate = strcmp(value, "stop") == 0 ? FATE_STOP : FATE_KILL;
  else if (strcmp(option, "--stop-seconds") == 0)
    options.stop_ns = (uint64_t)(strtod(value, NULL) * 1e9);
  else if (strcmp(option, "--points") == 0)
    options.kind = strcmp(value, "store") == 0 ? POINTS_STORE : POINTS_ACCESS;
  else if (strcmp(option, "--jobs") == 0)
    options.jobs = (unsigned)strtoul(value, NULL, 0);
  else
    usage(option);
}

int main(int n_arguments, char **arguments)
{
  const uint64_t began_ns = busq_time_now_ns();
  busq_ring_short = 4;
  busq_slots_at_once = 3;
  busq_step_looks = 2; /* a burial takes many steps, and the process that takes the first may be gone before the last */
  for (int i = 1; i < n_arguments; i++) {
    if (strcmp(arguments[i], "--quick") == 0) {
      options.depth = DEPTH_QUICK;
    } else if (strcmp(arguments[i], "--all") == 0) {
      options.depth = DEPTH_ALL;
    } else if (strcmp(arguments[i], "--thorough") == 0) {
      options.depth = DEPTH_THOROUGH;
    } else if (strcmp(arguments[i], "--list") == 0) {
      list_names();
      return 0;
    } else {
      option_take(arguments[i], i + 1 < n_arguments ? arguments[i + 1] : NULL);
      i++;
    }
  }
  if (options.jobs < 1 || options.jobs > 256)
    usage("--jobs: expected 1 to 256");
  results = shared_memory(sizeof *results);
  tasks_lay_out();
  fprintf(stderr, "%zu runs\n", n_tasks);
  const bool is_well = lanes_run();
  return results_print(began_ns) && is_well ? 0 : 1;
}
