/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_TIMES_H
#define BUSQ_OBSERVE_TIMES_H
/*
 * Times of messages, gathered from recorded logs.
 *
 * Mechanism: a history's events and the rows they came from stand in the same order, so the number of a message is found
 * by counting events, without a look at its name.  Kept are four times per message; how long deliveries took goes into
 * histograms at once.
 */
#include "observe/rows.h"
#include "observe/spec.h"

/* Of each power of two so many ranges: a time is off by less than 1 %. */
#define BUSQ_TIMES_RANGE_BITS 6
#define BUSQ_TIMES_RANGES (64u << BUSQ_TIMES_RANGE_BITS)

typedef struct {
  uint64_t count;
  int64_t max_ns;
  uint32_t ranges[BUSQ_TIMES_RANGES];
} busq_times_histogram;

typedef struct {
  int64_t called_ns; /* of the send that counts; BUSQ_OBSERVE_NEVER: not known */
  int64_t committed_ns;
  int64_t returned_ns;
  int64_t delivered_ns;    /* the first delivery with a known time */
  uint32_t receiver;       /* whose it was */
  uint32_t last_receiver;  /* 1 + the process that delivered it last, among those looked at */
  uint32_t is_delivered;
  uint32_t misses_delivery; /* the time of some delivery is not known */
} busq_times_message;

/* One log that is being read. */
typedef struct {
  uint32_t noted; /* events */
  uint32_t measured;
  uint64_t row;
  int64_t latest_ns; /* of a delivery */
  uint64_t n_backwards;
  uint64_t first_backwards; /* a row */
} busq_times_log;

struct busq_times {
  const busq_history *history;
  uint32_t n_processes; /* the history may be gone when this is freed */
  busq_times_message *messages;        /* by number */
  busq_times_log *logs;                /* by process */
  busq_times_histogram **receivers[2]; /* by busq_duration and receiver */
  busq_times_histogram **fan_outs[2];  /* by busq_duration and number of destinations */
};

#endif /* BUSQ_OBSERVE_TIMES_H */
