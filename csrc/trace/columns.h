/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TRACE_COLUMNS_H
#define BUSQ_TRACE_COLUMNS_H
/*
 * Rows of a trace as columns, in the layout of Arrow: values one after the other, a bit per row that shows whether
 * there is one.  They grow as rows are added; where memory runs out, a row is not added and add() returns that.
 */
#include "base/types.h"
#include "busq.h"

typedef struct {
  int64_t position;
  int64_t message;
  int64_t stamp;
  int64_t time_ns;
  int64_t commit_ns;
  int64_t end_ns;
  int64_t view;
  int64_t place;
  int64_t place_index;
  const int32_t *to; /* NULL: no destinations */
  const int32_t *members; /* NULL: none */
  uint32_t n_to;
  uint32_t n_members;
  int32_t group; /* -1: none */
  uint8_t kind;
  uint8_t label;
  bool has_message;
  bool has_stamp;
  bool has_time;
  bool has_commit;
  bool has_end;
} busq_trace_row;

busq_trace_columns *busq_trace_columns_new(void);
bool busq_trace_columns_add(busq_trace_columns *columns, const busq_trace_row *row);

#endif /* BUSQ_TRACE_COLUMNS_H */
