/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_LOGS_H
#define BUSQ_CHECK_LOGS_H
/*
 * Judges what takes the logs of all processes: the order of their first deliveries, and of their sends if need be.
 *
 *   consistent, total, synchronous, c2, mysterious    as csrc/observe/spec.h defines them
 *   mailbox   the events fit into one run of all processes in which every receiver has one queue: a send places its message
 *             at the end of the queues of its receivers, and what is delivered is at the front
 *   1-n       into one in which every sender has one queue, and the front leaves it when all its receivers have it
 *   n-n       into one in which there is one queue for all, and all receivers of the front take it at one moment
 *
 *   node      of what has the handle of a node (order.h), the owner takes what was delivered before the node's end at some process,
 *             and passes over what was delivered behind it somewhere, and nothing where there is no end
 *   handle    likewise, where it comes to others the handle is alive, or dead; an end comes to each process that its handle has
 *             reached alive, the owner besides, and all others pass it over
 *
 * A message that was not delivered somewhere so far is in no queue for there: a delivery that never comes is lost, and
 * breaks none of these.  Where every message has one receiver, these are the classes of that name in the literature on
 * point-to-point communication (Chevrou, Hurault, Queinnec; Di Giusto, Ferre, Laversa, Lozes).
 *
 * Mechanism.  Consistent, total and synchronous are cycles of messages.  Mailbox and 1-n: the logs are taken again,
 * event by event, as far as the queues let them; queues only add what has to come before what, so it does not matter which
 * of the possible events is taken first.  N-n: messages have one order, in which they are both sent and delivered.  If
 * something delivers a before b, a is to be sent before b; if what follows from all that has no cycle, a run exists: let
 * the front be delivered where nothing has to come before it, else send something that has to.  What has to come before
 * the front is never a delivery, whose message would have been sent before it, and be in front of it.  Node and handle: what is
 * passed over has its place in the log all the same.  They take one order of a message and an end for granted, which consistent
 * has to show.
 */
#include "check/state.h"

/* The properties that take the order of sends, too. */
#define BUSQ_MODEL_OF_SENDS                                                                                          \
  (1u << BUSQ_PROPERTY_SYNCHRONOUS | 1u << BUSQ_PROPERTY_C2 | 1u << BUSQ_PROPERTY_MYSTERIOUS | 1u << BUSQ_CHECK_MAILBOX | \
   1u << BUSQ_CHECK_ONE_TO_N | 1u << BUSQ_CHECK_N_TO_N)

/* The properties that are judged by logs: of those claimed, and of those asked for.  Consistent and total go together, as do node
 * and handle. */
static inline uint32_t busq_model_watched(uint32_t claims, uint32_t asked, uint32_t options)
{
  const uint32_t agreement = 1u << BUSQ_PROPERTY_CONSISTENT | 1u << BUSQ_PROPERTY_TOTAL;
  return (asked & (BUSQ_MODEL_OF_SENDS | agreement)) |
         (options & BUSQ_OPTION_NODES ? 1u << BUSQ_CHECK_NODE | 1u << BUSQ_CHECK_HANDLE : 0) |
         (claims & BUSQ_CLAIMS_SYNCHRONOUS ? 1u << BUSQ_PROPERTY_SYNCHRONOUS : 0) |
         (claims & (BUSQ_CLAIMS_TOTAL | BUSQ_CLAIMS_CONSISTENT) ? agreement : 0);
}

/* The watched properties that are broken: a set of bits.  Nothing breaks but by a first delivery. */
uint32_t busq_model_judge_logs(const busq_model *model, const void *state);

#endif /* BUSQ_CHECK_LOGS_H */
