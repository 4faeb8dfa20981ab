/* SPDX-License-Identifier: Apache-2.0 */
#include "check/tally.h"
#include "base/hash.h"

enum { PROBES = 8 };

/* ---- kinds of transitions as words: is there | refused | dropped | done | delivered | sent | what | event | sends ---- */

static uint64_t few(uint32_t count)
{
  return count < 2 ? count : 2;
}

static uint64_t kind_of(const busq_check_transition *transition)
{
  uint64_t kind = 2 | (transition->is_refused != 0);
  kind = kind << 2 | few(transition->n_dropped);
  kind = kind << 2 | few(transition->n_done);
  kind = kind << 2 | few(transition->n_delivered);
  kind = kind << 2 | few(transition->n_sent);
  kind = kind << 8 | (transition->what & 0xff);
  kind = kind << 4 | (transition->event & 0xf);
  return kind << 32 | transition->sends;
}

static busq_check_transition transition_of(uint64_t kind, uint64_t count)
{
  return (busq_check_transition){.count = count,
                                 .sends = (uint32_t)kind,
                                 .event = kind >> 32 & 0xf,
                                 .what = kind >> 36 & 0xff,
                                 .n_sent = kind >> 44 & 3,
                                 .n_delivered = kind >> 46 & 3,
                                 .n_done = kind >> 48 & 3,
                                 .n_dropped = kind >> 50 & 3,
                                 .is_refused = kind >> 52 & 1};
}

/* ---- counting ---- */

bool busq_tally_note(busq_tally *tally, const busq_check_transition *transition)
{
  const uint64_t kind = kind_of(transition);
  const uint64_t home = kind * UINT64_C(0x9e3779b97f4a7c15) >> 56;
  for (uint64_t probe = 0; probe < PROBES; probe++) {
    busq_transition_count *slot = &tally->slots[(home + probe) % BUSQ_TALLY_SLOTS];
    if (!slot->kind)
      slot->kind = kind;
    if (slot->kind != kind)
      continue;
    slot->count++;
    return true;
  }
  return false;
}

static void add(busq_transitions *transitions, uint64_t kind, uint64_t count)
{
  uint64_t at = busq_hash_mix(kind) % BUSQ_TRANSITIONS_SLOTS;
  while (transitions->slots[at].kind && transitions->slots[at].kind != kind)
    at = (at + 1) % BUSQ_TRANSITIONS_SLOTS;
  busq_transition_count *slot = &transitions->slots[at];
  if (!slot->kind && transitions->count == BUSQ_TRANSITIONS_MAX)
    return;
  transitions->count += !slot->kind;
  slot->kind = kind;
  slot->count += count;
}

static void tell_transitions(busq_tally *tally, busq_transitions *transitions)
{
  for (uint32_t place = 0; place < BUSQ_TALLY_SLOTS; place++)
    if (tally->slots[place].count)
      add(transitions, tally->slots[place].kind, tally->slots[place].count);
  memset(tally->slots, 0, sizeof tally->slots);
}

void busq_tally_tell(busq_tally *tally, busq_check_facts *facts, busq_transitions *transitions)
{
  const busq_check_facts *own = &tally->facts;
  facts->unique += own->unique;
  facts->total += own->total;
  facts->ends += own->ends;
  facts->left_out += own->left_out;
  facts->contradicted += own->contradicted;
  facts->faults |= own->faults;
  busq_tally_raise(&facts->depth_max, own->depth_max);
  busq_tally_raise(&facts->waiting_max, own->waiting_max);
  busq_tally_raise(&facts->held_max, own->held_max);
  busq_tally_raise(&facts->packets_max, own->packets_max);
  tally->facts = (busq_check_facts){0};
  tell_transitions(tally, transitions);
  facts->n_transitions = transitions->count;
}

static int by_count(const void *a, const void *b)
{
  const busq_check_transition *first = a, *second = b;
  if (first->count != second->count)
    return first->count > second->count ? -1 : 1;
  const uint64_t kinds[] = {kind_of(first), kind_of(second)};
  return kinds[0] < kinds[1] ? -1 : kinds[0] > kinds[1];
}

uint32_t busq_transitions_list(const busq_transitions *transitions, busq_check_transition *list)
{
  uint32_t count = 0;
  for (uint32_t place = 0; place < BUSQ_TRANSITIONS_SLOTS; place++)
    if (transitions->slots[place].kind)
      list[count++] = transition_of(transitions->slots[place].kind, transitions->slots[place].count);
  qsort(list, count, sizeof *list, by_count);
  return count;
}

bool busq_transitions_have_circle(const busq_transitions *transitions)
{
  uint32_t leads_to[32] = {0}; /* by kind of packet: kinds */
  for (uint32_t place = 0; place < BUSQ_TRANSITIONS_SLOTS; place++) {
    const busq_check_transition seen = transition_of(transitions->slots[place].kind, 0);
    if (!transitions->slots[place].kind || seen.n_sent || seen.n_delivered || seen.n_done)
      continue;
    if (seen.event == BUSQ_CHECK_TICK)
      return true; /* perhaps the alarm was set again */
    if (seen.event == BUSQ_CHECK_RECEIVE && seen.what < 32)
      leads_to[seen.what] |= seen.sends;
  }
  for (uint32_t middle = 0; middle < 32; middle++)
    for (uint32_t first = 0; first < 32; first++)
      if (leads_to[first] & 1u << middle)
        leads_to[first] |= leads_to[middle];
  for (uint32_t kind = 0; kind < 32; kind++)
    if (leads_to[kind] & 1u << kind)
      return true;
  return false;
}
