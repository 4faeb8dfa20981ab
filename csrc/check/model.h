/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_MODEL_H
#define BUSQ_CHECK_MODEL_H
/*
 * A group of processes, its network and what its application does, as one flat state.
 *
 * Guarantee: a state is a block of bytes, and what can happen from it depends on nothing else.  The moves are all that can happen
 * next: a process submits its next message, to every set of others that the configuration allows; a packet arrives, any of
 * those in flight, or, where the order needs channels that keep the order, the oldest of each channel.  Equal states have equal
 * fingerprints, and different ones different fingerprints, but for collisions of 64 bits.
 *
 * Mechanism: the order's own step function on copies of its own states.  The network is a bag of packets; a fingerprint adds up over
 * the packets, so bags need no sorting.  Every move uses up a submit or a packet, and the orders send finitely many packets per
 * message, so executions end; at an end everything must have been delivered.
 *
 * The history that properties need is part of the state, as little of it as decides.  By message: its destinations, who has
 * delivered it, and the vector clock of its send.  By process: what it knows, and the largest clock of what it has delivered,
 * which says at once whether something that is delivered now comes too late.  Where the order claims total order, the logs too.
 * A fault belongs to the state from then on: a second way to the same delivered messages may be without fault.
 *
 * Not given: ticks, losses, duplicates, messages to oneself.
 */
#include "order/order.h"

#define BUSQ_MODEL_PROCESSES_MAX 6u
#define BUSQ_MODEL_MESSAGES_MAX 32u /* of all processes */
#define BUSQ_MODEL_PACKETS_MAX 96u
#define BUSQ_MODEL_MOVES_MAX 192u

typedef struct {
  const busq_order *order;
  uint32_t options;
  uint32_t n_processes;
  uint32_t n_messages;  /* of each process */
  uint32_t fan_out_max; /* destinations of a message; 1 for POINT_TO_POINT orders */
} busq_model_config;

typedef struct {
  uint8_t n_submitted;
  uint8_t n_sent;
  uint8_t n_delivered; /* in the log */
  uint8_t unused[5];
  uint8_t knows[8]; /* by process: sends in the causal past */
  uint8_t late[8];  /* by process: the last of its sends that lies in the past of something delivered here */
} busq_model_process;

typedef struct {
  uint8_t destinations; /* a set of bits */
  uint8_t delivered;    /* the same */
  uint8_t is_done;
  uint8_t stamp; /* which send of its process it is; 0: not sent so far */
  uint32_t unused;
  uint8_t clock[8];
} busq_model_message;

typedef struct {
  uint32_t n_packets;
  uint32_t faults; /* a set of bits, 1 << property */
} busq_model_head;

typedef struct {
  uint32_t is_receive;
  uint32_t process;
  uint32_t place;        /* receive: of the packet */
  uint32_t destinations; /* submit */
} busq_model_move;

typedef struct {
  busq_model_config config;
  uint32_t n_all; /* messages */
  uint32_t clock_words;
  size_t order_bytes; /* one process's state, rounded up */
  size_t processes_at, messages_at, logs_at, log_bytes, clocks_at, orders_at, packets_at;
  size_t state_bytes_max;
} busq_model;

/* BUSQ_INVALID where there are more processes or messages than a model takes. */
int busq_model_init(busq_model *model, const busq_model_config *config);
void busq_model_start(const busq_model *model, void *state);
uint32_t busq_model_moves(const busq_model *model, const void *state, busq_model_move *moves);
/* BUSQ_OK, or what the order has answered; BUSQ_NO_SPACE where the model's bound on packets was too small. */
int busq_model_play(const busq_model *model, void *state, const busq_model_move *move);
uint64_t busq_model_fingerprint(const busq_model *model, const void *state);
/* Whether the move is a submit that was not sent at once, and might as well have come later. */
bool busq_model_is_waiting(const busq_model *model, const void *state, const busq_model_move *move);
/* Whether the move is the arrival of a packet that commutes with all that can happen before it. */
bool busq_model_is_quiet(const busq_model *model, const void *state, const busq_model_move *move);
/* What is wrong with a state in which nothing can happen any more; a set of bits. */
uint32_t busq_model_judge_end(const busq_model *model, const void *state);

static inline busq_model_head *busq_model_head_of(const void *state)
{
  return (busq_model_head *)state;
}

static inline size_t busq_model_bytes(const busq_model *model, const void *state)
{
  return model->packets_at + busq_model_head_of(state)->n_packets * sizeof(busq_order_packet);
}

#endif /* BUSQ_CHECK_MODEL_H */
