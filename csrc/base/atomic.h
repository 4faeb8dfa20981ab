/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_ATOMIC_H
#define BUSQ_BASE_ATOMIC_H
/*
 * Every access to shared memory that another process may race with goes through this file.
 *
 * Guarantee: each call is one indivisible access with the named order.  A busq_pair is 16 bytes that change together by
 * one compare-and-swap (x86-64 cmpxchg16b, AArch64 casp or an exclusive pair); its two halves may be read one after the
 * other, first half first, because a successful swap of the pair is what decides.
 *
 * Mechanism: the builtins of the compiler, and for the pair the instructions of the processor.  In a build with
 * BUSQ_STEPS each call announces what it is going to touch before it does (busq_access_hook), so that a
 * test can hand control to another actor between any two accesses; nothing has to be marked for it.  Of a busq_pair's
 * load both halves are announced.  BUSQ_STEP() marks places between plain writes besides; with BUSQ_TIMES, places that
 * are timed, and BUSQ_TIME() marks some more (bench/steps.h).  In a normal build both are nothing.
 *
 * Not given: a full fence unless the name has it.
 */
#include "base/types.h"

#if defined(BUSQ_STEPS) || defined(BUSQ_TIMES)
extern void (*busq_step_hook)(const char *where);
#define BUSQ_STEP(where)               \
  do {                                 \
    if (busq_step_hook)                \
      busq_step_hook(where);           \
  } while (0)
#else
#define BUSQ_STEP(where) ((void)0)
#endif
/* A place that is timed and nothing else: no step of a test. */
#ifdef BUSQ_TIMES
#define BUSQ_TIME(where) BUSQ_STEP(where)
#else
#define BUSQ_TIME(where) ((void)0)
#endif

typedef struct {
  _Alignas(16) uint64_t lo;
  uint64_t hi;
} busq_pair;

#ifdef BUSQ_STEPS
typedef enum {
  BUSQ_ACCESS_LOAD,
  BUSQ_ACCESS_STORE,
  BUSQ_ACCESS_EXCHANGE,
  BUSQ_ACCESS_ADD,
  BUSQ_ACCESS_OR,
  BUSQ_ACCESS_AND,
  BUSQ_ACCESS_SWAP /* if it is what was expected */
} busq_access;

/* How much work one bounded step is, of what several may share; tests make it small, so that a small scene takes
 * many. */
extern uint32_t busq_step_looks;
extern void (*busq_access_hook)(busq_access access, const volatile void *address, size_t bytes);

static inline void busq_access_announce(busq_access access, const volatile void *address, size_t bytes)
{
  if (busq_access_hook)
    busq_access_hook(access, address, bytes);
}
#define BUSQ_ACCESS(access, p) busq_access_announce((access), (p), sizeof *(p))
/* The value first, because finding it may take accesses of its own. */
#define BUSQ_ACCESS_WITH(access, operation, p, v, order)                                    \
  __extension__({                                                                           \
    const __typeof__(*(p)) busq_access_value = (__typeof__(*(p)))(v);                       \
    BUSQ_ACCESS(access, p);                                                                 \
    operation((p), busq_access_value, order);                                               \
  })
/* For variables of a process: a test that plays several processes in one keeps one of each for each of them. */
#define BUSQ_PROCESS_STATE __attribute__((section("busq_process")))
#else
#define busq_step_looks 4096u /* a fraction of a millisecond */
#define BUSQ_PROCESS_STATE
#define BUSQ_ACCESS(access, p) ((void)0)
#define BUSQ_ACCESS_WITH(access, operation, p, v, order) operation((p), (v), (order))
#endif

#ifdef BUSQ_STEPS
#define BUSQ_LOAD(p, order) (BUSQ_ACCESS(BUSQ_ACCESS_LOAD, p), __atomic_load_n((p), (order)))
#else
#define BUSQ_LOAD(p, order) __atomic_load_n((p), (order))
#endif

#define busq_load_relaxed(p) BUSQ_LOAD(p, __ATOMIC_RELAXED)
#define busq_load_acquire(p) BUSQ_LOAD(p, __ATOMIC_ACQUIRE)
#define busq_store_relaxed(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_STORE, __atomic_store_n, p, v, __ATOMIC_RELAXED)
#define busq_store_release(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_STORE, __atomic_store_n, p, v, __ATOMIC_RELEASE)
#define busq_exchange(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_EXCHANGE, __atomic_exchange_n, p, v, __ATOMIC_ACQ_REL)
#define busq_fetch_add(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_ADD, __atomic_fetch_add, p, v, __ATOMIC_ACQ_REL)
#define busq_fetch_or(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_OR, __atomic_fetch_or, p, v, __ATOMIC_ACQ_REL)
#define busq_fetch_and(p, v) BUSQ_ACCESS_WITH(BUSQ_ACCESS_AND, __atomic_fetch_and, p, v, __ATOMIC_ACQ_REL)
#define busq_fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)

static inline bool busq_cas32(uint32_t *word, uint32_t expected, uint32_t desired)
{
  BUSQ_ACCESS(BUSQ_ACCESS_SWAP, word);
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static inline bool busq_cas64(uint64_t *word, uint64_t expected, uint64_t desired)
{
  BUSQ_ACCESS(BUSQ_ACCESS_SWAP, word);
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* On x86-64 and through the exclusive pair a successful swap is a full barrier on its own; AArch64's casp is not, so
 * code that needs store-load order after a swap asks for it with busq_fence_after_swap(). */
#if defined(__x86_64__)

/* ThreadSanitizer must see the swap, and it only knows the builtin; elsewhere the instruction itself leaves no doubt
 * about what is executed and brings the old value along. */
#if defined(__SANITIZE_THREAD__)
#define BUSQ_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BUSQ_TSAN 1
#endif
#endif

#ifdef BUSQ_TSAN
#define busq_fence_after_swap() busq_fence_full()
static inline bool busq_pair_cas(busq_pair *pair, busq_pair *expected, busq_pair desired)
{
  BUSQ_ACCESS(BUSQ_ACCESS_SWAP, pair);
  unsigned __int128 old = ((unsigned __int128)expected->hi << 64) | expected->lo;
  unsigned __int128 new = ((unsigned __int128)desired.hi << 64) | desired.lo;
  unsigned __int128 seen = __sync_val_compare_and_swap((unsigned __int128 *)(void *)pair, old, new);
  if (seen == old)
    return true;
  expected->lo = (uint64_t)seen;
  expected->hi = (uint64_t)(seen >> 64);
  return false;
}
static inline busq_pair busq_pair_load(busq_pair *pair)
{
  busq_pair seen = {0, 0};
  (void)busq_pair_cas(pair, &seen, seen);
  return seen;
}
#else
#define busq_fence_after_swap() __asm__ volatile("" ::: "memory")
static inline bool busq_pair_cas(busq_pair *pair, busq_pair *expected, busq_pair desired)
{
  bool done;
  BUSQ_ACCESS(BUSQ_ACCESS_SWAP, pair);
  __asm__ volatile("lock cmpxchg16b %1"
                   : "=@ccz"(done), "+m"(*pair), "+a"(expected->lo), "+d"(expected->hi)
                   : "b"(desired.lo), "c"(desired.hi)
                   : "memory");
  return done;
}
#endif

#elif defined(__aarch64__)

#define busq_fence_after_swap() busq_fence_full()
/* The exclusive pair runs on every AArch64.  A store-exclusive that writes the old value back is what makes the 16-byte
 * load single-copy atomic where the comparison fails. */
static inline bool busq_pair_cas(busq_pair *pair, busq_pair *expected, busq_pair desired)
{
  uint64_t lo, hi;
  uint32_t failed, differs;
  BUSQ_ACCESS(BUSQ_ACCESS_SWAP, pair);
  __asm__ volatile(
      "1: ldaxp %[lo], %[hi], [%[p]]\n"
      "   cmp %[lo], %[elo]\n"
      "   ccmp %[hi], %[ehi], #0, eq\n"
      "   cset %w[differs], ne\n"
      "   b.ne 2f\n"
      "   stlxp %w[failed], %[dlo], %[dhi], [%[p]]\n"
      "   cbnz %w[failed], 1b\n"
      "   b 3f\n"
      "2: stlxp %w[failed], %[lo], %[hi], [%[p]]\n"
      "   cbnz %w[failed], 1b\n"
      "3:\n"
      : [lo] "=&r"(lo), [hi] "=&r"(hi), [failed] "=&r"(failed), [differs] "=&r"(differs)
      : [p] "r"(pair), [elo] "r"(expected->lo), [ehi] "r"(expected->hi), [dlo] "r"(desired.lo), [dhi] "r"(desired.hi)
      : "cc", "memory");
  expected->lo = lo;
  expected->hi = hi;
  return !differs;
}

#else
#error "busq needs a 16-byte compare-and-swap: x86-64 or AArch64"
#endif

#ifndef BUSQ_TSAN
/* The halves, first one first.  Torn values are possible and harmless: code that acts on them does so by a swap that
 * fails, or has seen in the first half that the second is final. */
static inline busq_pair busq_pair_load(busq_pair *pair)
{
  busq_pair seen;
  seen.lo = busq_load_acquire(&pair->lo);
  seen.hi = busq_load_acquire(&pair->hi);
  return seen;
}
#endif

static inline void busq_cpu_relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield" ::: "memory");
#endif
}

/* Asks for a line that is about to be written, so that reading it first does not cost a second transfer.  Spelled out
 * for x86-64, where compilers turn the builtin into a prefetch for reading unless the processor is named; one that does
 * not know the instruction passes it by. */
static inline void busq_prefetch_write(const void *address)
{
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

#endif /* BUSQ_BASE_ATOMIC_H */
