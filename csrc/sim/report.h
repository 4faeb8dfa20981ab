/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_REPORT_H
#define BUSQ_SIM_REPORT_H
/* What a simulation tells: records of events, and histories for the observers; each function does nothing where that was not
 * asked for. */
#include "sim/simulation.h"

int busq_sim_record(busq_sim *sim, uint64_t time_ns, uint32_t process, uint32_t kind, uint64_t message);
int busq_sim_record_packet(busq_sim *sim, uint32_t process, uint32_t kind, const busq_order_packet *packet, uint32_t number,
                           uint32_t peer);
int busq_sim_record_sending(busq_sim *sim, const busq_order_packet *packet, uint32_t to, uint32_t first_number);
int busq_sim_tell_sent(busq_sim *sim, uint64_t message);
int busq_sim_tell_delivered(busq_sim *sim, uint32_t process, uint64_t message);

#endif /* BUSQ_SIM_REPORT_H */
