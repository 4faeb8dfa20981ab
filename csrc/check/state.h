/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_STATE_H
#define BUSQ_CHECK_STATE_H
/*
 * Where things stand in a state of the model:
 *
 *   head | prints | processes | messages | logs | clocks | side clocks | the order's own states | packets
 *
 * Guarantee: everything that is not in use is zero, and nothing stands twice but sums and prints, which
 * check/fingerprint.h keeps up to date so that it need not hash everything after every move.
 *
 * The packets in flight are in the order in which they were sent; `unused` of a packet holds where it goes.
 */
#include "check/shape.h"
#include <string.h>

typedef struct {
  uint32_t n_packets;
  uint32_t faults; /* a set of bits */
  uint32_t n_moves; /* counts_moves, counts_turns */
  uint8_t n_doubled;
  uint8_t n_lost;
  uint8_t job;        /* a busq_model_job */
  uint8_t job_sender; /* the process that has begun it */
  uint64_t packet_sum; /* over the packets in flight */
  uint64_t order_sum;  /* over the prints of the order's own states, which follow */
} busq_model_head;

typedef enum { BUSQ_MODEL_NO_JOB = 0, BUSQ_MODEL_JOB_RUNS = 1, BUSQ_MODEL_JOB_IS_OVER = 2 } busq_model_job;

enum { BUSQ_MODEL_ANSWERS_MAX = 8 };

/* In a log: this is the send of the message, and not its delivery. */
enum { BUSQ_MODEL_SEND = 0x80 };

typedef struct {
  uint8_t n_submitted;
  uint8_t n_sent;
  uint8_t n_delivered;
  uint8_t n_logged;
  uint8_t n_alarms;
  uint8_t is_dead;
  uint8_t unused[2];
  uint8_t knows[8];   /* by process: sends in the causal past */
  uint8_t late[8];    /* by process: the last of its sends that lies in the past of something delivered here */
  uint8_t senders[8]; /* reply: of the first deliveries, as many as there are answers left to give; else zero */
} busq_model_process;

typedef struct {
  uint8_t destinations; /* a set of bits */
  uint8_t delivered;    /* the same */
  uint8_t is_done;
  uint8_t stamp; /* which send of its process it is; 0: not sent so far */
  uint8_t kept;  /* where it has come and the driver has it: a set of bits */
  uint8_t part;   /* with nodes: in them, as order.h has it; */
  uint8_t passed; /* where it was passed over, */
  uint8_t dead;   /* and where its handle came dead: sets of bits */
  uint8_t clock[8]; /* of its send */
} busq_model_message;

static inline busq_model_head *busq_model_head_of(const void *state)
{
  return (busq_model_head *)state;
}

static inline uint64_t *busq_model_prints(const void *state)
{
  return (uint64_t *)((char *)state + sizeof(busq_model_head));
}

static inline busq_model_process *busq_model_process_of(const busq_model *model, const void *state, uint32_t process)
{
  return (busq_model_process *)((char *)state + model->processes_at) + process;
}

static inline busq_model_message *busq_model_message_at(const busq_model *model, const void *state, uint32_t index)
{
  return (busq_model_message *)((char *)state + model->messages_at) + index;
}

static inline uint32_t busq_model_index_of(const busq_model *model, uint64_t name)
{
  return busq_message_origin(name) * model->config.n_messages + busq_message_number(name) - 1;
}

/* How many of the first deliveries' senders are to be answered, or were. */
static inline uint32_t busq_model_n_senders(const busq_model *model, const busq_model_process *process)
{
  uint32_t n_answers = model->config.behaviour == BUSQ_CHECK_REPLY ? model->config.n_messages - 1 : 0;
  n_answers = n_answers < BUSQ_MODEL_ANSWERS_MAX ? n_answers : BUSQ_MODEL_ANSWERS_MAX;
  return process->n_delivered < n_answers ? process->n_delivered : n_answers;
}

static inline uint8_t *busq_model_log_of(const busq_model *model, const void *state, uint32_t process)
{
  return (uint8_t *)state + model->logs_at + process * model->log_bytes;
}

static inline uint32_t *busq_model_clock_of(const busq_model *model, const void *state, uint32_t index)
{
  return (uint32_t *)((char *)state + model->clocks_at) + (size_t)index * model->clock_words;
}

/* INFORMED, side channels counted.  Of a message, by process: sends in the past of its own; before it is sent, of
 * its submit. */
static inline uint8_t *busq_model_side_clock_of(const busq_model *model, const void *state, uint32_t index)
{
  return (uint8_t *)state + model->sides_at + (size_t)index * BUSQ_MODEL_PROCESSES_MAX;
}

/* The late sends of a process: the last of each process's sends that lies in the past of something delivered here. */
static inline uint8_t *busq_model_side_late_of(const busq_model *model, const void *state, uint32_t process)
{
  return busq_model_side_clock_of(model, state, model->n_all + process);
}

static inline char *busq_model_order_of(const busq_model *model, const void *state, uint32_t process)
{
  return (char *)state + model->orders_at + process * model->order_bytes;
}

static inline busq_order_packet *busq_model_packets_of(const busq_model *model, const void *state)
{
  return (busq_order_packet *)((char *)state + model->packets_at);
}

/* How many bytes of a state are in use. */
static inline size_t busq_model_bytes(const busq_model *model, const void *state)
{
  return model->packets_at + busq_model_head_of(state)->n_packets * sizeof(busq_order_packet);
}

static inline bool busq_model_is_dead(const busq_model *model, const void *state, uint32_t process)
{
  return busq_model_process_of(model, state, process)->is_dead;
}

/* A set of bits. */
static inline uint32_t busq_model_living(const busq_model *model, const void *state)
{
  uint32_t living = 0;
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    living |= (uint32_t)!busq_model_is_dead(model, state, process) << process;
  return living;
}

#endif /* BUSQ_CHECK_STATE_H */
