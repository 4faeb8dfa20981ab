/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "busq.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024];
static _Thread_local int error_number;

int busq_error(int code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  error_number = 0;
  return code;
}

/* Errno decides which of our errors it is; whatever has no name of its own is BUSQ_SYSTEM. */
static int error_from_errno(int number)
{
  switch (number) {
  case ENOENT:
    return BUSQ_NOT_FOUND;
  case EACCES:
  case EPERM:
  case EROFS:
    return BUSQ_DENIED;
  case ENOSPC:
  case EDQUOT:
  case ENOMEM:
    return BUSQ_NO_SPACE;
  case EEXIST:
    return BUSQ_EXISTS;
  default:
    return BUSQ_SYSTEM;
  }
}

/* The C library of GNU returns the text, which need not be in the buffer; others return whether they have put it
 * there. */
static const char *reason_of(int number, char *buffer, size_t bytes)
{
  buffer[0] = '\0';
  const __typeof__(strerror_r(number, buffer, bytes)) result = strerror_r(number, buffer, bytes);
  return _Generic(result, char *: result, default: buffer);
}

int busq_error_system(const char *format, ...)
{
  int number = errno;
  char reason[128];
  va_list arguments;
  va_start(arguments, format);
  int used = vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  if (used < 0)
    used = 0;
  if ((size_t)used < sizeof error_text)
    snprintf(error_text + used, sizeof error_text - (size_t)used, ": %s", reason_of(number, reason, sizeof reason));
  error_number = number;
  return error_from_errno(number);
}

const char *busq_error_text(void)
{
  return error_text;
}

int busq_error_errno(void)
{
  return error_number;
}
