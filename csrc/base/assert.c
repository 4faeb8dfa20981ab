/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#ifdef BUSQ_ASSERTS
#include <stdio.h>
#include <stdlib.h>

void busq_assert_fail(const char *condition, const char *file, int line)
{
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  abort();
}
#endif
