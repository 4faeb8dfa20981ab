/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_FINGERPRINT_H
#define BUSQ_CHECK_FINGERPRINT_H
/*
 * 64 bits that stand for a state.
 *
 * Guarantee: equal states have equal fingerprints, whatever the order in which packets were sent; so have, where it is
 * asked for the class, states that differ by the names of processes only.  Two others have the same one with a
 * probability of 2^-64.
 *
 * Mechanism.  A move changes the state of one process and a few packets, so the fingerprint is put together: sums over
 * the packets and over the order's own states, which are kept up to date move by move, and a hash over the rest, which
 * is short. Where channels keep the order, a packet is hashed with its rank in its channel.
 *
 * The class: names are given to the processes by what does not depend on names (how much each has done, what is in
 * flight from and to it), and the state is hashed as it would look under these names.  Where that leaves a choice, all
 * choices are tried, and the least fingerprint stands for the class: states that differ by names only have the same
 * choices.
 *
 * Not given: that different states of one class are always recognised.  An order may keep the same facts in different
 * bytes; then both are looked at, which costs time and nothing else.
 */
#include "check/state.h"

/* To be called after the order's own state of a process has changed. */
void busq_model_print_process(const busq_model *model, void *state, uint32_t process);
/* To be called when the last packet was added, and before the packet at this place is removed. */
void busq_model_print_added(const busq_model *model, void *state);
void busq_model_print_removed(const busq_model *model, void *state, uint32_t place);
/* To be called when any of them may have changed. */
void busq_model_print_again(const busq_model *model, void *state);

/* Never 0. */
uint64_t busq_model_fingerprint(const busq_model *model, const void *state);
/* Whether processes can change their names, that is, whether busq_model_fingerprint_of_class may be asked. */
bool busq_model_is_symmetric(const busq_model *model);
/* A fingerprint that is equal for all states that differ by the names of processes only. */
uint64_t busq_model_fingerprint_of_class(const busq_model *model, const void *state);

/* The first so many processes have roles of their own, and keep their names. */
uint32_t busq_model_n_roles(const busq_model *model);
uint8_t busq_model_rename_set(uint8_t set, const uint32_t *names);
/* The whole state under other names, a permutation, into `renamed`; and the fingerprint that it has there. */
void busq_model_rename(const busq_model *model, const void *state, char *renamed, const uint32_t *names);
uint64_t busq_model_fingerprint_as(const busq_model *model, const void *state, const uint32_t *names);

#endif /* BUSQ_CHECK_FINGERPRINT_H */
