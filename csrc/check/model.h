/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_MODEL_H
#define BUSQ_CHECK_MODEL_H
/*
 * A group of processes, its network and what its application does, as one flat state.
 *
 * Guarantee: a state is a block of bytes, and what can happen from it depends on nothing else.  The moves are all that
 * can happen next:
 *   a process submits its next message, to every set of processes that the configuration allows;
 *   a packet arrives, any of those in flight, or, where channels keep the order, the oldest of each channel;
 *   the network loses a packet, or doubles one, while it may;
 *   an alarm goes off, at any moment after it was set, but not during its process's job;
 *   a job ends;
 *   a process dies, while one may, and others learn of it (check/crashes.h).
 * Equal states have equal fingerprints, and different ones different fingerprints, but for collisions of 64 bits
 * (check/fingerprint.h).
 *
 * Mechanism: the order's own step function on copies of its own states.  The network is a bag of packets.  What judges
 * an execution is part of the state too (check/faults.h).
 *
 * Does every execution end?  Submits, sends, deliveries and ends of messages are finitely many.  So an execution
 * without end would, from some moment on, be made of alarms that do none of this, or of packets alone of which each
 * makes its receiver send the next and nothing else.  If there is no such alarm, and no kind of packet can, over such
 * steps, lead to itself, there is none; the transitions that were seen show it (busq_model_play).  Where there is, as
 * the token of `token`, counts_turns settles it: then a state knows how many moves without any of these, but with a packet or
 * alarm, have led to it.  What goes in circles makes them without end, so it never meets a state again, and shows as an
 * execution of any length.
 *
 * The application.  Free: each process submits its messages whenever it likes.  Reply: its first message whenever it
 * likes; its next one may be submitted when it has delivered one more message, and goes to the sender of that.  Job:
 * free, but the first delivery at process 0 begins a job; until that ends, at any moment, process 0 neither submits nor
 * receives, and with its end it answers the process that has begun it, if it has a message left and, in a rendezvous,
 * the last one is done. Informed: free, but a process that submits knows by then, by ways outside of the order, of all
 * that was delivered anywhere; so all that, and what it is an effect of, is a cause of the message, and no process
 * should deliver it after it.
 *
 * Not given: time, processes that stop.
 */
#include "check/shape.h"

/* BUSQ_INVALID where there are more processes or messages than a model takes, or where it can't be.  Keeps
 * config.destinations and config.counts. */
int busq_model_init(busq_model *model, const busq_model_config *config);
/* A state takes state_bytes_max bytes, aligned to 8; busq_model_bytes returns how many of them are in use. */
void busq_model_start(const busq_model *model, void *state);
uint32_t busq_model_moves(const busq_model *model, const void *state, busq_model_move *moves);
/* BUSQ_OK, or BUSQ_NO_SPACE where the model's bound on packets was too small.  What an order refuses is a fault of
 * the state. `transition`, which may be NULL, gets what came of it. */
int busq_model_play(const busq_model *model, void *state, const busq_model_move *move, busq_check_transition *transition);
/* The nature of a move, asked before it is played. */
void busq_model_describe(const busq_model *model, const void *state, const busq_model_move *move, busq_check_step *step);
uint32_t busq_model_n_packets(const void *state);
busq_order_gauge busq_model_gauge(const busq_model *model, const void *state, uint32_t process);

/* Faults of the execution so far: a set of bits, 1 << busq_property or busq_check_property. */
uint32_t busq_model_faults(const void *state);

/* Whether the move, which has led to this state, is a submit that was not sent at once, and might as well have come
 * later. */
bool busq_model_is_waiting(const busq_model *model, const void *state, const busq_model_move *move);
/* Whether the move is the arrival of a packet that commutes with all that can happen before it. */
bool busq_model_is_quiet(const busq_model *model, const void *state, const busq_model_move *move);
/* The order's word on a move, where processes die: if that has no effect, it may come at any time (SILENT), or if it changes nothing
 * either (IDLE). */
typedef enum { BUSQ_MODEL_HEARD, BUSQ_MODEL_SILENT, BUSQ_MODEL_IDLE } busq_model_silence;
busq_model_silence busq_model_may_be_silent(const busq_model *model, const void *state, const busq_model_move *move);

#endif /* BUSQ_CHECK_MODEL_H */
