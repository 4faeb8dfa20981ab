/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "busq.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024];
static _Thread_local int error_number;

/* A sender that polls a full queue needs no words: they are made of this, where it is the latest failure. */
static _Thread_local struct {
  bool is_latest;
  bool is_memory;
  bool is_short;
  char bus[256];
  char queue[256];
} full;

static void name_note(char *to, size_t room, const char *name, size_t bytes)
{
  if (bytes >= room)
    bytes = room - 1;
  memcpy(to, name, bytes);
  to[bytes] = '\0';
}

int busq_error_full(const char *bus, const char *queue, size_t queue_bytes, bool is_short)
{
  full.is_latest = true;
  full.is_memory = !queue;
  full.is_short = is_short;
  error_number = 0;
  name_note(full.bus, sizeof full.bus, bus, strlen(bus));
  if (queue)
    name_note(full.queue, sizeof full.queue, queue, queue_bytes);
  return BUSQ_FULL;
}

static void full_write(void)
{
  full.is_latest = false;
  if (full.is_memory)
    snprintf(error_text, sizeof error_text, "the memory for messages of bus \"%s\" stayed full until the timeout: it is given back when receivers let go of messages; create the bus with a larger arena", full.bus);
  else if (full.is_short)
    snprintf(error_text, sizeof error_text, "the queue of \"%s\" on bus \"%s\" stayed full until the timeout, with fewer messages than it may hold, for its file system has no memory for more: there is room when something is received from it, or when memory is free there", full.queue, full.bus);
  else
    snprintf(error_text, sizeof error_text, "the queue of \"%s\" on bus \"%s\" stayed full until the timeout: there is room when something is received from it", full.queue, full.bus);
}

int busq_error(int code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  error_number = 0;
  full.is_latest = false;
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
  full.is_latest = false;
  return error_from_errno(number);
}

int busq_error_shortage(void)
{
  return full.is_memory ? BUSQ_SHORT_OF_MEMORY : full.is_short ? BUSQ_SHORT_QUEUE : BUSQ_SHORT_OF_NOTHING;
}

const char *busq_error_text(void)
{
  if (full.is_latest)
    full_write();
  return error_text;
}

int busq_error_errno(void)
{
  return error_number;
}
