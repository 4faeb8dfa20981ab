/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_SHAPE_H
#define BUSQ_CHECK_SHAPE_H
/* The shape of a model: what it is asked to be, what a move is, and where the parts of its states stand (state.h
 * describes what they hold). */
#include "busq_lab.h"
#include "order/order.h"

#define BUSQ_MODEL_PROCESSES_MAX 8u
#define BUSQ_MODEL_MESSAGES_MAX 32u /* of all processes */
#define BUSQ_MODEL_PACKETS_MAX 240u
#define BUSQ_MODEL_MORTALS_MAX 4u /* processes, where some die */
#define BUSQ_MODEL_ACCIDENTS_MAX 100u /* packets that are lost, and doubled */
#define BUSQ_MODEL_ORDER_BYTES_MAX 16384u /* the state of one process, as its order keeps it */
/* Submits to every set, three moves of each packet, alarms, the end of the job; where processes die, no more than that. */
#define BUSQ_MODEL_MOVES_MAX \
  (BUSQ_MODEL_PROCESSES_MAX * 255u + 3u * BUSQ_MODEL_PACKETS_MAX + BUSQ_MODEL_PROCESSES_MAX + 1u)

typedef struct {
  const busq_order *order;
  uint32_t options;
  uint32_t n_processes;
  uint32_t n_messages;  /* of each process, or of the one with most */
  uint32_t fan_out_max; /* destinations of a message; 1 for POINT_TO_POINT orders */
  uint32_t behaviour;   /* a busq_check_behaviour */
  uint32_t channels;    /* a busq_channels */
  uint32_t doubled_max; /* packets that the network doubles, in one execution */
  uint32_t lost_max;    /* packets that it loses */
  uint32_t crashes_max; /* processes that die */
  bool with_self;       /* messages may go to their own sender too */
  bool counts_moves;    /* how many there were is part of the state */
  bool counts_turns;    /* or of those alone of which an execution without end has no end */
  bool forgets;         /* history that can't matter any more (check/forget.h) */
  uint32_t asked;       /* properties that are judged, whether the order claims them or not: a set of bits */
  const uint32_t *destinations; /* of message k of process p, a set of bits at [p * n_messages + k]; NULL: every choice */
  const uint32_t *counts; /* how many messages each process has, at most n_messages; NULL: all that many */
} busq_model_config;

typedef struct {
  uint32_t kind; /* a busq_check_step_kind */
  uint32_t process;
  uint32_t place;        /* receive, lose, double: of the packet; learn: the dead process */
  uint32_t destinations; /* submit, end of a job: a set of bits */
  uint32_t cut;          /* 8 bits, 0 or busq_model_cut: the process dies in this step */
} busq_model_move;

enum { BUSQ_MODEL_UNITS_MAX = 63 };

/* Death behind so many units (check/crashes.h), where a multicast begins with this process. */
static inline uint32_t busq_model_cut(uint32_t n_units, uint32_t first)
{
  return first << 6 | n_units;
}

static inline uint32_t busq_model_units_of(uint32_t cut)
{
  return cut & BUSQ_MODEL_UNITS_MAX;
}

static inline uint32_t busq_model_first_of(uint32_t cut)
{
  return cut >> 6;
}

/* As a kind of move: a state has more of them than a search has room for. */
enum { BUSQ_MODEL_NO_ROOM = 15 };

typedef struct {
  busq_model_config config;
  uint32_t n_all; /* messages */
  uint32_t clock_words;
  bool is_fifo;
  uint32_t watched;     /* properties that need logs: claimed or asked for, a set of bits */
  bool logs_deliveries;
  bool logs_sends;
  size_t order_bytes; /* one process's state, rounded up */
  size_t processes_at, messages_at, logs_at, log_bytes, clocks_at, sides_at, orders_at, packets_at;
  size_t state_bytes_max;
} busq_model;

/* Whether it is about a packet in flight. */
static inline bool busq_model_move_is_of_packet(const busq_model_move *move)
{
  return move->kind == BUSQ_CHECK_RECEIVE || move->kind == BUSQ_CHECK_LOSE || move->kind == BUSQ_CHECK_DOUBLE;
}

static inline uint32_t busq_model_n_messages(const busq_model *model, uint32_t process)
{
  return model->config.counts ? model->config.counts[process] : model->config.n_messages;
}

static inline busq_order_group busq_model_group_of(const busq_model *model, uint32_t self)
{
  return (busq_order_group){.n_processes = model->config.n_processes,
                            .self = self,
                            .waiting_max = model->config.n_messages,
                            .held_max = model->n_all - model->config.n_messages + model->config.doubled_max,
                            .options = model->config.options};
}

#endif /* BUSQ_CHECK_SHAPE_H */
