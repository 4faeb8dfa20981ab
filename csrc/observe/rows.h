/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_ROWS_H
#define BUSQ_OBSERVE_ROWS_H
/*
 * Logs as columns: rows of a recorded log, read where they stand (busq_lab.h describes them; the layout is that of
 * Arrow).
 *
 * A row is an event of a history if it is a send or a delivery and names its message; all others are passed over.
 */
#include "base/types.h"
#include "busq_lab.h"

/* The value of an unknown time. */
#define BUSQ_OBSERVE_NEVER INT64_MIN

static inline bool busq_column_has(const busq_column *column, size_t row)
{
  const size_t place = column->offset + row;
  return column->values && (!column->valid || column->valid[place >> 3] >> (place & 7) & 1);
}

static inline int64_t busq_column_number(const busq_column *column, size_t row)
{
  return ((const int64_t *)column->values)[column->offset + row];
}

static inline int64_t busq_column_time(const busq_column *column, size_t row)
{
  return busq_column_has(column, row) ? busq_column_number(column, row) : BUSQ_OBSERVE_NEVER;
}

static inline uint32_t busq_rows_kind(const busq_rows *rows, size_t row)
{
  return ((const uint8_t *)rows->kinds.values)[rows->kinds.offset + row];
}

static inline bool busq_rows_is_event(const busq_rows *rows, size_t row)
{
  return busq_rows_kind(rows, row) <= BUSQ_EVENT_SEND && busq_column_has(&rows->messages, row);
}

/* The items of a list: where they begin, and how many there are; none where the list is null. */
static inline uint32_t busq_column_list(const busq_column *column, size_t row, size_t *beginp)
{
  if (!busq_column_has(column, row))
    return 0;
  const int32_t *starts = (const int32_t *)column->values + column->offset + row;
  *beginp = (size_t)starts[0];
  return (uint32_t)(starts[1] - starts[0]);
}

/* BUSQ_INVALID where there is no such process, or its log, of which `n_read` events were read, has not as many more
 * as there are among the rows.  They have to be those that were appended. */
int busq_rows_check(const busq_rows *rows, const busq_history *history, uint32_t process, uint32_t n_read);

#endif /* BUSQ_OBSERVE_ROWS_H */
