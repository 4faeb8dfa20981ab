/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_WIRE_H
#define BUSQ_LIVE_WIRE_H
/*
 * How packets look on their way between mailboxes.
 *
 *      packet (24 bytes)                                          what every packet is
 *      packet | multicast (8) | destinations | clock | payload    where its kind has a payload
 *
 * Destinations are process numbers of two bytes, filled up to a multiple of eight; the clock has room for as many words
 * as the order's shape asks for (busq_clock_words): a list has room for the longest.  The sender of a packet is known from the mailbox; it
 * is not in the packet.
 *
 * A group may have more than one build of busq only where the layout of the segment allows that, so nothing here
 * carries a version.
 */
#include "order/order.h"

typedef struct {
  uint64_t message;
  uint64_t stamp;
  uint32_t note;
  uint16_t kind; /* a place in busq_order.kinds, or one of the driver's own */
  uint16_t n_destinations;
} busq_wire_packet;

typedef struct {
  busq_wire_packet packet;
  uint64_t multicast; /* which send of its origin's application it belongs to */
} busq_wire_header;

_Static_assert(sizeof(busq_wire_packet) == 24, "a packet without payload fits into one line with its record");
_Static_assert(sizeof(busq_wire_header) == 32, "what follows is aligned to eight bytes");

/* The driver's own kinds, which no order sees. */
enum {
  BUSQ_WIRE_WANT = 0xfffd,   /* report at once what was taken: the sender waits for it */
  BUSQ_WIRE_SETTLED = 0xfffc, /* the order holds `note` messages of yours less, with `stamp` bytes */
  BUSQ_WIRE_CREDIT = 0xfffe, /* the application has taken messages of yours: `note` of them, with `stamp` bytes */
  BUSQ_WIRE_WAKE = 0xffff    /* to oneself: there is something to do earlier than you think; to others: a member is dead */
};

static inline size_t busq_wire_destinations_bytes(uint32_t n_destinations)
{
  return BUSQ_ALIGN_UP(n_destinations * sizeof(uint16_t), 8);
}

static inline size_t busq_wire_clock_bytes(const busq_order *order, uint32_t n_processes)
{
  return BUSQ_ALIGN_UP(busq_clock_words(order->clock, n_processes) * sizeof(uint32_t), 8);
}

#endif /* BUSQ_LIVE_WIRE_H */
