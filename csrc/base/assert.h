/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_ASSERT_H
#define BUSQ_BASE_ASSERT_H
/*
 * Invariants of the core, stated where they must hold.
 *
 * In builds of tests, sanitizers and fuzzers (BUSQ_ASSERTS) a condition that does not hold ends the process, with the
 * place and the condition.  In a release the condition is compiled and not evaluated: it costs nothing, and can't be
 * out of date.
 *
 * Shared memory may be damaged by others, which is an error and no reason to end.  So a condition speaks of what this
 * process's own steps guarantee whatever stands there: of private data, and of what was checked.  It accesses no shared
 * memory by atomic.h, where each access would be a step of its own for tests.
 */
#ifdef BUSQ_ASSERTS
_Noreturn void busq_assert_fail(const char *condition, const char *file, int line);
#define BUSQ_ASSERT(condition) ((condition) ? (void)0 : busq_assert_fail(#condition, __FILE__, __LINE__))
#else
#define BUSQ_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif /* BUSQ_BASE_ASSERT_H */
