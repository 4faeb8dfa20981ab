/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_AUDIT_ROWS_H
#define BUSQ_TESTS_AUDIT_ROWS_H
/*
 * Two logs as columns, as they may be cut out of larger ones: offsets that are no multiple of 8, nulls, rows
 * that are no events, and destinations with holes between them.
 *
 *   0: (of before) | local, sends 1 to 0 and 1 at 10..12, a delivery without a message, sends 2 to 1 at 20..22
 *   1: gets 2 at 40, gets 1 at 30, gets 7 (never sent) at 50
 */
#include "busq_lab.h"
#include <stddef.h>
#include <string.h>

enum { AUDIT_SEND_1 = 1, AUDIT_SEND_2 = 2, AUDIT_PHANTOM = 7 };

/* The rows that do not belong to the log stand before the offset. */
static const int8_t audit_kinds_0[] = {0, 0, 0, 2, 1, 0, 1};
static const int64_t audit_messages_0[] = {99, 99, 99, 99, AUDIT_SEND_1, 99, AUDIT_SEND_2};
static const uint8_t audit_messages_valid_0[] = {0x57}; /* rows 3 and 5 have none */
static const int32_t audit_starts_0[] = {0, 1, 2, 3, 3, 5, 6, 7};
static const int32_t audit_items_0[] = {77, 0, 0, 0, 0, 1, 77, 1};
static const uint8_t audit_lists_valid_0[] = {0x5f};
static const int64_t audit_times_0[] = {0, 0, 0, 0, 10, 0, 20};
static const int64_t audit_commits_0[] = {0, 0, 0, 0, 11, 0, 21};
static const int64_t audit_ends_0[] = {0, 0, 0, 0, 12, 0, 22};
static const int32_t audit_clock_starts_0[] = {0, 0, 0, 0, 0, 2, 2, 4};
static const int64_t audit_clocks_0[] = {1, 0, 2, 0};
static const uint8_t audit_clocks_valid_0[] = {0x50};

static const int8_t audit_kinds_1[] = {0, 0, 0};
static const int64_t audit_messages_1[] = {AUDIT_SEND_2, AUDIT_SEND_1, AUDIT_PHANTOM};
static const int64_t audit_times_1[] = {40, 30, 50};
static const int32_t audit_clock_starts_1[] = {0, 2, 4, 6};
static const int64_t audit_clocks_1[] = {2, 1, 1, 2, 5, 3};

static inline busq_rows audit_rows(uint32_t process)
{
  if (process == 0)
    return (busq_rows){.n_rows = 4,
                       .kinds = {audit_kinds_0, NULL, 3},
                       .messages = {audit_messages_0, audit_messages_valid_0, 3},
                       .destinations = {audit_starts_0, audit_lists_valid_0, 3},
                       .destination_items = {audit_items_0, NULL, 1},
                       .times_ns = {audit_times_0, NULL, 3},
                       .commits_ns = {audit_commits_0, NULL, 3},
                       .ends_ns = {audit_ends_0, NULL, 3},
                       .clocks = {audit_clock_starts_0, audit_clocks_valid_0, 3},
                       .clock_items = {audit_clocks_0, NULL, 0}};
  return (busq_rows){.n_rows = 3,
                     .kinds = {audit_kinds_1, NULL, 0},
                     .messages = {audit_messages_1, NULL, 0},
                     .times_ns = {audit_times_1, NULL, 0},
                     .clocks = {audit_clock_starts_1, NULL, 0},
                     .clock_items = {audit_clocks_1, NULL, 0}};
}

#endif /* BUSQ_TESTS_AUDIT_ROWS_H */
