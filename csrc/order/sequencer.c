/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "sequencer": a coordinator (Garg 12.3.1, "Centralized Algorithm").  Process 0 is the coordinator.
 *
 *   submit m, at process 0:      multicast m
 *   submit m, at another:        send REQUEST(m) to process 0
 *   process 0 receives REQUEST:  multicast m
 *   multicast m:                 send DATA(m) to all destinations of m; deliver it here if this process is one
 *   receive DATA(m):             deliver m
 *
 * Guarantee: causal total order.  The total order is the one in which process 0 multicasts: its channels keep the order, so
 * every process delivers in it, and numbers are not needed.  It is causal: what a process sends later reaches process 0 later,
 * for that channel keeps the order too; and what a process has delivered was multicast before anything it sends afterwards
 * can reach process 0.
 *
 * A message to oneself takes the same way, for it has a place in the total order as well.
 *
 * Packets: one to each destination that is not process 0, and a REQUEST where the sender is not process 0.
 *
 * With the option on_crash=go-on another process takes over when the coordinator dies: order/sequencer_successor.h.
 *
 * Not given: anything without FIFO channels to and from process 0, or balance: process 0 carries all messages.
 *
 * Proven without a bound: busq/lab/proof/models/sequencer.py.
 */
#include "order/rename.h"
#include "order/sequencer_successor.h"

enum { DATA = BUSQ_SUCCESSOR_DATA, REQUEST = BUSQ_SUCCESSOR_REQUEST };
enum { COORDINATOR = 0 };

static const busq_order_kind kinds[] = {{"data", true}, {"request", true}, {"flush", false}, {"go", false}};

/* Sends before it delivers: a driver keeps the payload no longer than it must. */
static void multicast(uint64_t message, bool is_for_me, busq_order_effects *effects)
{
  busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .kind = DATA});
  if (is_for_me)
    busq_do_deliver(effects, message);
}

static void submit(const busq_order_group *group, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  busq_do_sent(effects, message, NULL);
  if (group->self == COORDINATOR)
    multicast(message, event->is_for_me, effects);
  else
    busq_do_send(effects, COORDINATOR, (busq_order_packet){.message = message, .kind = REQUEST});
  busq_do_done(effects, message);
}

static int sequencer_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  if (((const busq_order_group *)state)->options & BUSQ_OPTION_GO_ON)
    return busq_successor_step(state, event, effects);
  if (event->kind == BUSQ_ON_SUBMIT)
    submit(state, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == REQUEST)
    multicast(event->packet.message, event->is_for_me, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    busq_do_deliver(effects, event->packet.message);
  return BUSQ_OK;
}

/* All processes but the coordinator are alike. */
static void sequencer_rename(const void *from, void *to, const uint32_t *names)
{
  busq_rename_begin(from, to, sizeof(busq_order_group), names);
}

const busq_order busq_order_sequencer = {
    .name = "sequencer",
    .promise = "causal total order, by a coordinator",
    .source = "Garg, section 12.3.1",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_FIFO_CHANNELS | BUSQ_ORDER_COORDINATED,
    .crashes = BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    /* All deliveries at a process other than the coordinator come over the one channel that keeps their order. */
    .quiet_when_all_is_sent = 1u << DATA,
    .options_not_quiet = BUSQ_OPTION_GO_ON,
    .idle_stays = 1u << DATA,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .head_size = busq_successor_head_size,
    .buffers = {{BUSQ_OUTBOX, .to_go_on = true, .own = true}},
    .step = sequencer_step,
    .rename = sequencer_rename,
    .n_roles = 1,
    .options_by_name = BUSQ_OPTION_GO_ON,
    .verify = busq_successor_verify,
    .gauge = busq_successor_gauge,
};
