/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_FAULTS_H
#define BUSQ_CHECK_FAULTS_H
/*
 * Judges an execution while it goes on.
 *
 * Guarantee: after every send and delivery, the faults of a state are the properties which csrc/observe would find
 * broken in the history so far (but for what is only lost at an end; what check/logs.h judges is looked at where the
 * order claims it, or it is asked for).  A fault belongs to the state from then on: a second way to the same deliveries may be without fault.
 *
 * Mechanism: as little of the history as decides is part of the state.  By message: its destinations, which processes
 * have delivered it, and the vector clock of its send.  By process: what it knows, and the largest clock of what it has
 * delivered, which shows at once whether something that is delivered now comes too late.  Where more
 * is judged, the order of all deliveries, and of all sends if need be (check/logs.h).  Where all are informed by side
 * channels, the same clocks once more, with what comes that way.  Besides, where the driver has each message, as
 * order.h wants drivers to keep them.
 *
 * Not given: that judgement of keeping, where the network loses or doubles packets.
 */
#include "check/state.h"

void busq_model_note_submitted(const busq_model *model, void *state, uint64_t message);
void busq_model_note_sent(const busq_model *model, void *state, uint64_t message, uint32_t part);
/* To be called before the delivery; `fate` is a busq_node_fate. */
void busq_model_note_fate(const busq_model *model, void *state, uint32_t process, uint64_t message, uint32_t fate);
void busq_model_note_delivery(const busq_model *model, void *state, uint32_t process, uint64_t message);
void busq_model_note_dropped(const busq_model *model, void *state, uint32_t process, uint64_t message);
void busq_model_note_done(const busq_model *model, void *state, uint64_t message);
/* A packet about a message is sent. */
void busq_model_note_packet(const busq_model *model, void *state, const busq_order_packet *packet, uint32_t to);
/* A packet with the message itself arrives, is_in, or the step that takes it is over. */
void busq_model_note_payload(const busq_model *model, void *state, uint32_t process, uint64_t message, bool is_in);

/* The faults of a state in which nothing can happen any more: a set of bits, as of busq_model_faults. */
uint32_t busq_model_judge_end(const busq_model *model, const void *state);

#endif /* BUSQ_CHECK_FAULTS_H */
