/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pairs of receivers disagree.
 *
 * Two receivers agree exactly when the common messages, taken in the order of the one, stand at rising places of the
 * other; and if they do not, two that are neighbours among the common ones already fall.
 */
#include "observe/sequences.h"
#include <stdlib.h>

typedef struct {
  busq_observe_case *c;
  const busq_observe_orders *orders;
  uint32_t *places; /* by message: 1 + its place in the sequence of the first receiver; 0: not there */
  uint32_t closest; /* the witness's two distances together; 0: there is none yet */
} comparison;

static void comparison_note(comparison *k, uint32_t p, uint32_t q, uint32_t earlier, uint32_t later)
{
  const busq_observe_orders *orders = k->orders;
  busq_observe_verdict(k->c, BUSQ_PROPERTY_CONSISTENT)->witness =
      (busq_witness){.n_messages = 2,
                     .messages = {busq_observe_name(k->c, orders->numbers[earlier]),
                                  busq_observe_name(k->c, orders->numbers[later])},
                     .n_processes = 2,
                     .processes = {p, q}};
}

/* Walks along q; true if some neighbours stand the other way around at p, whose places are entered. */
static bool comparison_scan(comparison *k, uint32_t p, uint32_t q)
{
  const busq_observe_orders *orders = k->orders;
  bool do_disagree = false;
  uint32_t before = 0; /* the last common message: its place at p, at q */
  uint32_t before_q = 0;
  for (uint32_t place = orders->starts[q]; orders->sequence[place] != BUSQ_OBSERVE_END; place++) {
    const uint32_t message = orders->sequence[place];
    const uint32_t place_p = k->places[message];
    if (!place_p)
      continue;
    if (place_p < before) {
      const uint32_t distance = before - place_p + (place - before_q);
      do_disagree = true;
      if (!k->closest || distance < k->closest) {
        k->closest = distance;
        comparison_note(k, p, q, message, orders->sequence[before_q]);
      }
    }
    before = place_p;
    before_q = place;
  }
  return do_disagree;
}

int busq_observe_compare_receivers(busq_observe_case *c, const busq_observe_orders *orders)
{
  comparison k = {.c = c, .orders = orders};
  k.places = calloc(orders->n_messages + (size_t)1, sizeof *k.places);
  if (!k.places)
    return busq_observe_out_of_memory();
  for (uint32_t p = 0; p < orders->n_receivers; p++) {
    if (orders->sequence[orders->starts[p]] == BUSQ_OBSERVE_END)
      continue;
    for (uint32_t place = orders->starts[p]; orders->sequence[place] != BUSQ_OBSERVE_END; place++)
      k.places[orders->sequence[place]] = place + 1;
    for (uint32_t q = p + 1; q < orders->n_receivers; q++)
      busq_observe_verdict(c, BUSQ_PROPERTY_CONSISTENT)->count += comparison_scan(&k, p, q);
    for (uint32_t place = orders->starts[p]; orders->sequence[place] != BUSQ_OBSERVE_END; place++)
      k.places[orders->sequence[place]] = 0;
  }
  free(k.places);
  return BUSQ_OK;
}
