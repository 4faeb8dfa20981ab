/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_DEATHS_H
#define BUSQ_SIM_DEATHS_H
/*
 * Processes of a simulation that die, as order/order.h has it.
 *
 * Guarantee: a process dies at a given time, or behind any number of the effects that it has from then on, also between
 * two receivers of one packet.  What it has given to its uplink goes its way, what comes to it is gone.  Under on_crash=go-on
 * each process that lives learns of each death once, when a time of its own after it is over, or later, with the last packet of
 * the dead.
 *
 * Mechanism: a simulation with crashes gives packets to uplinks one by one, and counts them from there to their
 * receivers.  The times of notices are drawn from a stream of their own.
 *
 * Not given: news of deaths in groups of more than BUSQ_ORDER_MORTALS_MAX.
 */
#include "sim/simulation.h"

/* Checks and schedules all crashes of the configuration. */
int busq_sim_plan_deaths(busq_sim *sim);
/* The time of the crash at this place of the configuration has come. */
int busq_sim_meet_death(busq_sim *sim, uint32_t place);
int busq_sim_die(busq_sim *sim, uint32_t number);
/* Gives the packet to the uplink of its sender, once for each receiver that the sender lives to send it to. */
int busq_sim_send_one_by_one(busq_sim *sim, const busq_order_packet *packet, uint32_t to, uint32_t bytes);
/* Whether the process is to learn of this death, now. */
bool busq_sim_take_notice(busq_sim *sim, uint32_t number, uint32_t dead);

#endif /* BUSQ_SIM_DEATHS_H */
