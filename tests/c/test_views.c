/* SPDX-License-Identifier: Apache-2.0 */
/* The observer of views, on logs that are written by hand: what is right, and each fault alone. */
#include "harness/test.h"
#include "observe/views.h"

enum { A = 1, B = 2, C = 4, N = 3, EVENTS = 6, MESSAGES = 2, VIEWS = 5 };

typedef struct {
  busq_views_event events[N][EVENTS];
  uint32_t n_events[N];
  bool is_cut[N];
  busq_views_message messages[MESSAGES];
  uint32_t first_members; /* a set */
  bool is_over;
} scene;

static busq_views_event view(uint32_t number, uint32_t members)
{
  return (busq_views_event){.view = number, .members = members};
}

static busq_views_event death(uint32_t number, uint32_t members, uint32_t process)
{
  return (busq_views_event){.view = number, .members = members, .died = 1 + process};
}

static busq_views_event message(uint32_t number)
{
  return (busq_views_event){.message = number};
}

static void add(scene *self, uint32_t process, busq_views_event event)
{
  self->events[process][self->n_events[process]++] = event;
}

/* BUSQ_N_VIEWS_FAULTS: all is well. */
static uint32_t judge(const scene *self, busq_views_witness *witness)
{
  static const uint64_t sets[] = {0, 1, 2, 3, 4, 5, 6, 7};
  busq_views_log logs[N];
  busq_views_place places[MESSAGES] = {{0}};
  busq_views_view views[VIEWS] = {{0}};
  uint32_t gone[N] = {0};
  for (uint32_t process = 0; process < N; process++)
    logs[process] = (busq_views_log){self->events[process], self->n_events[process], self->is_cut[process]};
  const busq_views_history history = {.n_processes = N,
                                      .n_messages = MESSAGES,
                                      .n_views = VIEWS,
                                      .words = 1,
                                      .sets = sets,
                                      .logs = logs,
                                      .messages = self->messages,
                                      .first_members = 1 + self->first_members,
                                      .is_over = self->is_over,
                                      .places = places,
                                      .views = views,
                                      .gone = gone};
  memset(witness, 0, sizeof *witness);
  return busq_views_judge(&history, witness) ? BUSQ_N_VIEWS_FAULTS : witness->fault;
}

/* A and B are members; A's message 0 comes in view 1, C enters, B's message 1 comes in view 2. */
static scene sound(void)
{
  scene self = {.messages = {{.sender = 0, .view = 1}, {.sender = 1, .view = 2}}, .first_members = A | B, .is_over = true};
  for (uint32_t process = 0; process < N; process++) {
    if (process < 2)
      add(&self, process, message(0));
    add(&self, process, view(2, A | B | C));
    add(&self, process, message(1));
  }
  return self;
}

static void expect(const scene *self, uint32_t fault, uint32_t process)
{
  busq_views_witness witness;
  CHECK_EQUAL(judge(self, &witness), fault);
  if (fault < BUSQ_N_VIEWS_FAULTS)
    CHECK_EQUAL(witness.process, process);
}

TEST(test_members_that_agree)
{
  scene self = sound();
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
  self.n_events[2] = 1; /* C has not come to message 1 so far */
  self.is_over = false;
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
}

TEST(test_a_message_in_two_views)
{
  scene self = sound();
  self.messages[0].view = BUSQ_VIEWS_OPEN;
  self.events[2][1] = message(0);
  expect(&self, BUSQ_VIEWS_MISPLACED, 2);
}

TEST(test_another_view_than_the_sender_was_told)
{
  scene self = sound();
  self.messages[1].view = 1;
  expect(&self, BUSQ_VIEWS_MISPLACED, 0);
  self = sound();
  self.messages[1].view = BUSQ_VIEWS_REFUSED;
  expect(&self, BUSQ_VIEWS_MISPLACED, 0);
}

TEST(test_two_orders_in_one_view)
{
  scene self = {.messages = {{.sender = 0}, {.sender = 1}}, .first_members = A | B};
  add(&self, 0, message(0));
  add(&self, 0, message(1));
  add(&self, 1, message(1));
  add(&self, 1, message(0));
  expect(&self, BUSQ_VIEWS_MISPLACED, 1);
}

TEST(test_a_member_goes_without)
{
  scene self = sound();
  self.n_events[2] = 1;
  expect(&self, BUSQ_VIEWS_MISSED, 2);
  self.is_cut[2] = true; /* it died */
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
}

TEST(test_a_view_is_left_without_a_message_of_it)
{
  scene self = sound();
  self.is_over = false;
  self.messages[0].view = BUSQ_VIEWS_OPEN;
  memmove(&self.events[1][0], &self.events[1][1], 2 * sizeof self.events[1][0]);
  self.n_events[1] = 2;
  expect(&self, BUSQ_VIEWS_MISSED, 1);
}

TEST(test_nobody_delivers_what_a_send_returned_with)
{
  scene self = {.messages = {{.sender = 2, .view = 1}, {.sender = 2}}, .first_members = A | B, .is_over = true};
  expect(&self, BUSQ_VIEWS_MISSED, 0);
}

TEST(test_twice)
{
  scene self = sound();
  add(&self, 2, message(1));
  expect(&self, BUSQ_VIEWS_DOUBLED, 2);
}

TEST(test_before_the_first_view)
{
  scene self = sound();
  self.events[2][0] = message(1);
  self.events[2][1] = view(2, A | B | C);
  self.messages[1].view = BUSQ_VIEWS_OPEN;
  expect(&self, BUSQ_VIEWS_OUTSIDE, 2);
  self.messages[1].named = C; /* beside the group it may come at any place */
  self.is_over = false;
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
}

TEST(test_two_lists_of_members)
{
  scene self = sound();
  self.events[1][1] = view(2, B | C);
  expect(&self, BUSQ_VIEWS_UNEQUAL, 1);
}

TEST(test_a_view_that_changes_nothing)
{
  scene self = {.first_members = A};
  add(&self, 0, view(2, A));
  expect(&self, BUSQ_VIEWS_UNEQUAL, 0);
}

TEST(test_a_view_is_skipped)
{
  scene self = sound();
  self.messages[1].view = BUSQ_VIEWS_OPEN;
  self.events[0][1] = view(3, A | B | C);
  expect(&self, BUSQ_VIEWS_SKIPPED, 0);
}

TEST(test_one_who_is_out_is_not_told)
{
  scene self = {.first_members = A | B, .is_over = true};
  add(&self, 0, view(2, A));
  expect(&self, BUSQ_VIEWS_SKIPPED, 1);
}

TEST(test_a_message_after_the_death_of_its_sender)
{
  scene self = {.messages = {{.sender = 1}, {.sender = 1}}, .first_members = A | B, .is_cut = {false, true, false}};
  add(&self, 0, message(0));
  add(&self, 0, death(2, A, 1));
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
  add(&self, 0, message(1));
  expect(&self, BUSQ_VIEWS_GHOST, 0);
}

TEST(test_beside_the_group_alone)
{
  scene self = {.messages = {{.sender = 1, .named = C}, {.sender = 1}}, .first_members = A, .is_over = true};
  self.is_cut[1] = true; /* the sender was killed: what it learned is unknown */
  add(&self, 2, message(0));
  expect(&self, BUSQ_VIEWS_MISPLACED, 2);
  self.messages[0].sender = 0;
  self.is_cut[0] = true; /* no member is left of the view that had it */
  expect(&self, BUSQ_N_VIEWS_FAULTS, 0);
}
