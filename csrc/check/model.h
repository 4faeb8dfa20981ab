/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_MODEL_H
#define BUSQ_CHECK_MODEL_H
/*
 * A group of processes, its network and what its application does, as one flat state.
 *
 * Guarantee: a state is a block of bytes, and what can happen from it depends on nothing else.  The moves are all that can
 * happen next:
 *   a process submits its next message, to every set of processes that the configuration allows;
 *   a packet arrives, any of those in flight, or, where channels keep the order, the oldest of each channel;
 *   the network loses a packet, or doubles one, while it may;
 *   an alarm goes off, at any moment after it was set, but not during its process's job;
 *   a job ends.
 * Equal states have equal fingerprints, and different ones different fingerprints, but for collisions of 64 bits
 * (check/fingerprint.h).
 *
 * Mechanism: the order's own step function on copies of its own states.  The network is a bag of packets.  What judges an
 * execution is part of the state too (check/faults.h).
 *
 * Does every execution end?  Submits, sends, deliveries and ends of messages are finitely many.  So an execution without end
 * would, from some moment on, be made of alarms that do none of this, or of packets alone of which each makes its receiver
 * send the next and nothing else.  If there is no such alarm, and no kind of packet can, over such steps, lead to itself, there
 * is none; the transitions that were seen tell (busq_model_play).  Where there is, as the token of `token`, counts_moves settles
 * it: then a state knows how many moves have led to it, none can be reached from itself, and what goes in circles shows as an
 * execution of any length.
 *
 * What the application does.  Free: each process submits its messages whenever it likes.  Reply: its first message whenever
 * it likes; its next one may be submitted when it has delivered one more message, and goes to the sender of that.  Job: free,
 * but the first delivery at process 0 begins a job; until that ends, at any moment, process 0 neither submits nor receives,
 * and with its end it answers who has begun it, if it has a message left and, in a rendezvous, the last one is done.
 *
 * Not given: time, processes that stop or die.
 */
#include "order/order.h"

#define BUSQ_MODEL_PROCESSES_MAX 8u
#define BUSQ_MODEL_MESSAGES_MAX 32u /* of all processes */
#define BUSQ_MODEL_PACKETS_MAX 240u
#define BUSQ_MODEL_ACCIDENTS_MAX 100u /* packets that are lost, and doubled */
#define BUSQ_MODEL_ORDER_BYTES_MAX 16384u /* the state of one process, as its order keeps it */
/* Submits to every set, three moves of each packet, alarms, the end of the job. */
#define BUSQ_MODEL_MOVES_MAX \
  (BUSQ_MODEL_PROCESSES_MAX * 255u + 3u * BUSQ_MODEL_PACKETS_MAX + BUSQ_MODEL_PROCESSES_MAX + 1u)

typedef struct {
  const busq_order *order;
  uint32_t options;
  uint32_t n_processes;
  uint32_t n_messages;  /* of each process */
  uint32_t fan_out_max; /* destinations of a message; 1 for POINT_TO_POINT orders */
  uint32_t behaviour;   /* a busq_check_behaviour */
  bool is_fifo;         /* channels keep the order; besides, always where the order's traits ask for it */
  uint32_t doubled_max; /* packets that the network doubles, in one execution */
  uint32_t lost_max;    /* packets that it loses */
  bool with_self;       /* messages may go to their own sender too */
  bool counts_moves;    /* how many there were is part of the state */
  const uint32_t *destinations; /* of message k of process p, a set of bits at [p * n_messages + k]; NULL: every choice */
} busq_model_config;

typedef struct {
  uint32_t kind; /* a busq_check_step_kind */
  uint32_t process;
  uint32_t place;        /* receive, lose, double: of the packet */
  uint32_t destinations; /* submit, end of a job: a set of bits */
} busq_model_move;

typedef struct {
  busq_model_config config;
  uint32_t n_all; /* messages */
  uint32_t clock_words;
  bool is_fifo;
  bool logs_deliveries; /* the order promises something about them all */
  bool logs_sends;
  size_t order_bytes; /* one process's state, rounded up */
  size_t processes_at, messages_at, logs_at, log_bytes, clocks_at, orders_at, packets_at;
  size_t state_bytes_max;
} busq_model;

/* BUSQ_INVALID where there are more processes or messages than a model takes, or where it can't be.  Keeps config.destinations. */
int busq_model_init(busq_model *model, const busq_model_config *config);
/* A state takes state_bytes_max bytes, aligned to 8; busq_model_bytes says how many of them are in use. */
void busq_model_start(const busq_model *model, void *state);
uint32_t busq_model_moves(const busq_model *model, const void *state, busq_model_move *moves);
/* BUSQ_OK, or BUSQ_NO_SPACE where the model's bound on packets was too small.  What an order refuses is a fault of the state.
 * `transition`, which may be NULL, says what came of it. */
int busq_model_play(const busq_model *model, void *state, const busq_model_move *move, busq_check_transition *transition);
/* What a move is, asked before it is played. */
void busq_model_describe(const busq_model *model, const void *state, const busq_model_move *move, busq_check_step *step);
size_t busq_model_bytes(const busq_model *model, const void *state);
uint32_t busq_model_n_packets(const void *state);
void busq_model_gauge(const busq_model *model, const void *state, uint32_t process, busq_order_gauge *gauge);

/* Faults of the execution so far, and what is wrong with a state in which nothing can happen any more: sets of bits, 1 <<
 * busq_property or busq_check_property. */
uint32_t busq_model_faults(const void *state);
uint32_t busq_model_judge_end(const busq_model *model, const void *state);

/* Whether the move, which has led to this state, is a submit that was not sent at once, and might as well have come later. */
bool busq_model_is_waiting(const busq_model *model, const void *state, const busq_model_move *move);
/* Whether the move is the arrival of a packet that commutes with all that can happen before it. */
bool busq_model_is_quiet(const busq_model *model, const void *state, const busq_model_move *move);

/* Never 0. */
uint64_t busq_model_fingerprint(const busq_model *model, const void *state);
/* Whether processes can change their names, that is, whether busq_model_fingerprint_of_class may be asked. */
bool busq_model_is_symmetric(const busq_model *model);
/* The same for all states that differ by the names of processes only. */
uint64_t busq_model_fingerprint_of_class(const busq_model *model, const void *state);
/* Whether playing the move and giving the processes other names, drawn by the number `choice`, come to the same in either order.
 * `room` takes two states. */
bool busq_model_keeps_names(const busq_model *model, const void *state, const busq_model_move *move, uint64_t choice,
                            void *room);

/* Whether two moves that are possible in this state lead to the same one in either order, and neither prevents the other.
 * `room` takes two states. */
bool busq_model_commute(const busq_model *model, const void *state, const busq_model_move *one,
                        const busq_model_move *other, void *room);

#endif /* BUSQ_CHECK_MODEL_H */
