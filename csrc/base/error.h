/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_ERROR_H
#define BUSQ_BASE_ERROR_H
/*
 * One gate for failures: a function that fails for a reason a person must read returns busq_error(code, "...").  The
 * text names what was found, what was expected and what to do; it is kept per thread until the next failure.  Outcomes
 * that are part of normal work (empty, full) set no text and cost nothing.
 */
#include "base/types.h"

int busq_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int busq_error_system(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* BUSQ_BASE_ERROR_H */
