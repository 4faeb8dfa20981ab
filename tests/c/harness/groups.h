/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_GROUPS_H
#define BUSQ_TESTS_GROUPS_H
/*
 * Groups, and peers that are watched, in transcripts:
 *
 *      enters(alice);                   the group "@g"
 *      listen(alice, &of_alice);        all that comes: data; "2:alice,bob" for a view; "+bob" and "-bob" for one that is watched
 *      times(&of_alice, "+bob")         how often
 *
 * In each of them, behind the view that a peer has died, nothing comes from the life that the view names: what comes
 * under its name is a successor's.
 */
#include "harness/company.h"
#include "shm/memory/layout.h"

__attribute__((unused)) static void enters(busq_peer *peer)
{
  int result;
  do
    result = busq_peer_enter(peer, "@g", 2, COMPANY_PATIENCE_NS);
  while (result == BUSQ_INTERRUPTED);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't enter: %d, %s", result, busq_error_text());
}

enum { TRANSCRIPT_SLOTS = 64 };

typedef struct {
  char text[16384];
  size_t used;
  uint32_t n_views;
  char members[512]; /* of the last view */
  uint32_t dead[TRANSCRIPT_SLOTS]; /* by slot: the life of the last member that has died */
  uint32_t last_what; /* of the last view in which a member is out: it has left (2), or died (3) */
} transcript;

static void note(transcript *heard_so_far, const char *text, size_t bytes)
{
  CHECK(heard_so_far->used + bytes + 2 < sizeof heard_so_far->text);
  memcpy(heard_so_far->text + heard_so_far->used, text, bytes);
  heard_so_far->used += bytes;
  heard_so_far->text[heard_so_far->used++] = ' ';
  heard_so_far->text[heard_so_far->used] = '\0';
}

static void note_watched(transcript *heard_so_far, const busq_message *message, char sign)
{
  busq_view_member watched;
  char text[BUSQ_LAYOUT_NAME_BYTES_MAX + 2];
  const char *entries = (const char *)message->data + sizeof(busq_view_event);
  memcpy(&watched, entries, sizeof watched);
  CHECK(watched.name_bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX);
  text[0] = sign;
  memcpy(text + 1, entries + sizeof watched, watched.name_bytes);
  note(heard_so_far, text, watched.name_bytes + 1u);
}

static void note_view(transcript *heard_so_far, const busq_message *message)
{
  busq_view_event event;
  char text[512];
  memcpy(&event, message->data, sizeof event);
  const char *entries = (const char *)message->data + sizeof event;
  const char *names = entries + event.n_entries * sizeof(busq_view_member);
  size_t used = (size_t)snprintf(text, sizeof text, "%" PRIu64 ":", event.number - event.shown_above);
  const size_t begin = used;
  for (uint32_t i = 0; i < event.n_members; i++) {
    busq_view_member member;
    memcpy(&member, entries + i * sizeof member, sizeof member);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", i ? "," : "", member.name_bytes, names);
    names += member.name_bytes;
  }
  heard_so_far->n_views++;
  if (event.what != 1)
    heard_so_far->last_what = event.what;
  if (event.what == 3 && event.slot < TRANSCRIPT_SLOTS)
    heard_so_far->dead[event.slot] = event.life;
  snprintf(heard_so_far->members, sizeof heard_so_far->members, "%s", text + begin);
  note(heard_so_far, text, used);
}

static void note_message(transcript *heard_so_far, const busq_message *message)
{
  if (message->sender < TRANSCRIPT_SLOTS)
    CHECK(message->sender_life > heard_so_far->dead[message->sender]);
  note(heard_so_far, message->data, message->size_bytes);
}

/* All that there is now. */
__attribute__((unused)) static void listen(busq_peer *peer, transcript *heard_so_far)
{
  busq_message message;
  while (take_now(peer, &message) == BUSQ_OK) {
    busq_envelope envelope;
    busq_message_envelope(&message, &envelope);
    if (envelope.kind == BUSQ_KIND_VIEW)
      note_view(heard_so_far, &message);
    else if (envelope.kind == BUSQ_KIND_JOINED || envelope.kind == BUSQ_KIND_LEFT)
      note_watched(heard_so_far, &message, envelope.kind == BUSQ_KIND_JOINED ? '+' : '-');
    else
      note_message(heard_so_far, &message);
    busq_peer_release(peer, &message);
  }
}

__attribute__((unused)) static unsigned times(const transcript *heard_so_far, const char *word)
{
  unsigned count = 0;
  char padded[64];
  snprintf(padded, sizeof padded, " %s ", word);
  for (const char *at = heard_so_far->text; (at = strstr(at, padded)) != NULL; at++)
    count++;
  return count;
}

__attribute__((unused)) static void agree_on(const transcript *one, const transcript *other)
{
  if (strcmp(one->text, other->text) != 0)
    check_fail(__FILE__, __LINE__, "one hears \"%s\", another \"%s\"", one->text, other->text);
}

__attribute__((unused)) static void pause_shortly(void)
{
  const struct timespec pause = {0, 1000000};
  nanosleep(&pause, NULL);
}

#endif /* BUSQ_TESTS_GROUPS_H */
