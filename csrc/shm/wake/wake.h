/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_WAKE_H
#define BUSQ_SHM_WAKE_WAKE_H
/*
 * Waiting and waking.
 *
 * Guarantee: who waits is woken when what he waits for has happened; if the one who should wake him is killed before he
 * does, it costs at most one slice of sleep (BUSQ_SLICE_NS), because every sleep is sliced and looks again.
 *
 * Mechanism: event counts.  A waiter reads the sequence, raises its flag, looks once more, and sleeps while the
 * sequence is unchanged.  A waker publishes first and looks at the flag afterwards; a full fence on both sides makes sure
 * that at least one of them sees the other.  Nobody who waits, no system call.
 *
 *      who waits        for what                            flag             sequence      woken by
 *      receiver         a message that can be delivered     wake_flags       wake_seq      every sender, after its commit
 *      select(), poll   the same                            wake_flags       a FIFO        every sender, after its commit, and
 *                                                                                          before it, if the sleep is deep; a timer
 *      sender           room in a queue                     room_waiters     room_seq      that queue's reader
 *      sender           memory in its arena                 memory_waits     memory_seq    the readers of its messages, and
 *                                                                                          whoever gives memory back to all
 *      select(), poll   room or memory                      the same, asks   the FIFO      the same; a timer
 *
 * Who has waited behind a descriptor for BUSQ_NAPS slices, and whose queue is empty, sleeps deeply: without slices.  Then a sender
 * tells it twice.  The first time is when it has taken a position and has not committed: killed before, it has sent nothing; killed
 * after, the reader is awake, finds its queue not empty, and looks every slice until it is.  (To tell everybody twice would wake
 * everybody twice: a reader is awake before its sender has left the system call that woke it.)  A sender that can't open the
 * FIFO says so in the reader's slot (fifo_failed), and from then on the reader does not sleep deeply; for the first such
 * message, and for what nobody has thought of, it looks after as long as it has slept already, BUSQ_NET_NS at most.
 *
 * For the last two the waker does not pay for a fence per message; the race that this leaves (its store of the head, or of the
 * mark, still on its way when it looks at the flag) is bounded by the first, short sleep; for room, the reader also closes it when
 * it goes to sleep itself.
 *
 * A sender that waits for room behind its descriptor (busq_peer_send_asking) sets a bit for the queue in its own slot (asks), then one
 * for itself in that queue's flag, and tries once more.  Who takes the flag down clears the bit, and then writes a byte to the sender's
 * FIFO; whoever finds the bit cleared writes none.  A bit that is cleared has come: it keeps the descriptor readable, whoever drains
 * the byte, until the sender takes back what it asked for.  So of a waker that is killed there is left at most a bit without
 * its byte, and of one that was stopped a bit cleared too many, or a byte, in a slot that has another peer by now: a false
 * alarm.  A sender that is killed leaves a bit in a flag, which costs its next waker a look.  Against all of these, and because
 * the waker does not pay for a fence, who waits for room looks after 1 ms, 2 ms and so on, up to a slice.  Both sets of bits are
 * small, so several slots share one: then a sender is told of another queue's room, and asks again.
 *
 * A flag stands for everybody who waits.  A waker takes it down and wakes all of them; those who find nothing raise it again
 * before they sleep.  Nobody else takes it down but the last thread of a peer that waits for messages (receivers_asleep): a
 * thread that leaves must not make its sleeping siblings look as if they were awake.
 *
 * Before sleeping a waiter spins for about a microsecond, then yields the processor for some tens of them: waking a sleeper
 * costs about that much.  Where yielding shows that others want the processor, the spinning is left out; where the last waits
 * for messages were far longer than all that, the yielding, too.
 */
#include "shm/memory/peer.h"

#define BUSQ_SLICE_NS UINT64_C(50000000)
#define BUSQ_NAPS 20u
#define BUSQ_SPIN_NS_MAX 1000u
#define BUSQ_NET_NS UINT64_C(10000000000)

/* Between taking a position in a queue and the commit of what stands there: tells a reader that sleeps deeply behind its
 * descriptor, so that it is awake, and looks again by its timer, should we not live to tell it afterwards. */
void busq_wake_announce_slow(busq_peer *peer, uint32_t slot);
static inline void busq_wake_announce(busq_peer *peer, const busq_slot *reader, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&reader->wake_flags) & BUSQ_WAKE_DEEP))
    busq_wake_announce_slow(peer, slot);
}

/* After a commit: tells the reader of a queue, if it waits. */
void busq_wake_reader_slow(busq_peer *peer, uint32_t slot);
static inline void busq_wake_reader(busq_peer *peer, const busq_slot *reader, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&reader->wake_flags)))
    busq_wake_reader_slow(peer, slot);
}

/* The same for who is no peer: something came back into a queue. */
void busq_wake_readers_of(busq_bus *bus, uint32_t slot);

/* The senders that wait for room in a queue: there is some, or its reader has gone. */
void busq_wake_for_room_slow(const busq_bus *bus, uint32_t slot);
static inline void busq_wake_for_room(const busq_bus *bus, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&bus->slots[slot].room_waiters)))
    busq_wake_for_room_slow(bus, slot);
}

/* A sender that waits for memory: one of its messages was released. */
void busq_wake_owner_slow(const busq_bus *bus, uint32_t slot);
static inline void busq_wake_owner(const busq_bus *bus, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&bus->slots[slot].memory_waits)))
    busq_wake_owner_slow(bus, slot);
}

/* Those who sleep deeply: they look at their queues and at what is asked of them. */
void busq_wake_deep_sleepers(busq_bus *bus);

/* Everybody who waits for memory: some was given back to all. */
void busq_wake_for_memory(busq_bus *bus);

/* Wakes the threads of this process that wait on their own peer: it was closed, or their flag was taken down. */
void busq_wake_self(busq_peer *peer);

/* Wakes everybody on the bus, for shutdown. */
void busq_wake_all(busq_bus *bus);

/* One wait, in stages: spinning, yielding, sleeping. */
typedef struct {
  uint64_t began_ns;  /* 0: nobody has asked the clock so far */
  int64_t timeout_ns; /* below 0: none */
  uint64_t slice_ns;  /* of the next sleep */
  uint32_t stage;
  bool has_spun;
  bool is_told; /* to whoever asks what this peer waits for */
} busq_wait;

/* Where the next message will stand, and what will stand there then: a reader that spins looks at this alone for some
 * pauses, before it looks at everything again.  Whoever reads more of what the senders write takes it from their caches. */
typedef struct {
  const uint64_t *word;
  uint64_t lap;
} busq_watch;

void busq_wait_begin(busq_wait *wait, int64_t timeout_ns);
/* As if it had spun already. */
void busq_wait_begin_spun(busq_wait *wait, int64_t timeout_ns);
/* One turn of spinning; false when it is time to yield.  Without a watch, a turn is one pause. */
bool busq_wait_spin(busq_wait *wait, const busq_peer *peer, const busq_watch *watch);
/* One turn of yielding; false when it is time to sleep. */
bool busq_wait_yield(busq_wait *wait, busq_peer *peer);
/* Sleeps on a word while it has the value, for limit_ns at most.  BUSQ_OK: look again; BUSQ_EMPTY: the deadline has passed;
 * BUSQ_INTERRUPTED. */
int busq_wait_sleep(busq_wait *wait, uint32_t *word, uint32_t value, uint64_t limit_ns);
/* Since the clock was first asked, here or by any of the others. */
uint64_t busq_wait_spent_ns(busq_wait *wait);
bool busq_wait_is_over(busq_wait *wait);

/* The descriptor behind peer.fileno(), made when first asked for: a FIFO that senders write to, and a timer for as long as something
 * in the queue can't be received, both behind one epoll descriptor. */
int busq_fifo_open(busq_peer *peer);
void busq_fifo_close(busq_peer *peer);
/* Makes the descriptor readable after a while: where something is in the queue, a slice at most; UINT64_MAX where nothing is. */
void busq_fifo_look_again(busq_peer *peer, uint64_t in_ns);
/* Both with the receive latch held: empties the FIFO and asks senders to signal (look at the queue once more afterwards); or
 * makes it readable oneself. */
void busq_fifo_arm(busq_peer *peer);
/* Something has come to pass: the next sleep is none of the deep ones. */
void busq_fifo_stir(busq_peer *peer);
/* Whether it may sleep deeply, and is not armed for that. */
bool busq_fifo_may_deepen(const busq_peer *peer);
void busq_fifo_raise(busq_peer *peer);
/* Empties the FIFO; true if there was anything in it. */
bool busq_fifo_drain(busq_peer *peer);
/* With the receive latch held: nobody sleeps behind it for now; unreadable, and no sender's business. */
void busq_fifo_hush(busq_peer *peer);

/* Waiting for room behind the descriptor, all with the receive latch held.  Asks for room in the queue of a slot (BUSQ_RING_NOBODY: for
 * memory); the caller tries once more afterwards, before anybody sleeps. */
void busq_room_ask(busq_peer *peer, uint32_t slot);
/* As if it had come. */
void busq_room_come(busq_peer *peer, uint32_t slot);
/* Something of what was asked for has come, or was lost to another: it is worth trying again. */
bool busq_room_has_come(const busq_peer *peer);
/* Takes back what was asked for: who still needs it asks again. */
void busq_room_forget(busq_peer *peer);

/* Also makes the slot forget it. */
void busq_fifo_unlink(busq_bus *bus, uint32_t slot, uint32_t incarnation);

#endif /* BUSQ_SHM_WAKE_WAKE_H */
