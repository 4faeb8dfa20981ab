/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_ERROR_H
#define BUSQ_BASE_ERROR_H
/*
 * One gate for failures: a function that fails for a reason a person must read returns busq_error(code, "...").  The
 * text names what was found, what was expected and what to do; it is kept per thread until the next failure.  Outcomes
 * that are part of normal work set no text: an empty queue costs nothing, and of a full one it is noted which it is,
 * and that is put into words where they are asked for.
 */
#include "base/types.h"

int busq_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* BUSQ_FULL: a queue, which has that name, or where that is NULL the memory for messages, had no room.  Short: it held fewer
 * than it may, for there was no memory for more. */
int busq_error_full(const char *bus, const char *queue, size_t queue_bytes, bool is_short);
int busq_error_system(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* BUSQ_BASE_ERROR_H */
