# SPDX-License-Identifier: Apache-2.0
"""Messages to one process among causal broadcasts, by waiting at the sender: a rule of Birman, Schiper and Stephenson.

The Cykas paper quotes it (section 6): a technique "in which the sender is inhibited from starting new multicasts until
reception of the point-to-point message is acknowledged".  Broadcasts have vector clocks (lecture notes).  A message to
one process carries the clock too, adds nothing to it, and is acknowledged when it is received; its receiver may have to
hold it back for broadcasts in its past.  For the checker of naive.py.
"""

from __future__ import annotations

from collections import deque

from naive import ORDERS, Event, Message, Order, Protocol, delivering, packet_of, sending

BASE = 16  # a clock travels as one number


class Inhibited(Protocol):
    """To the letter: multicasts wait, and messages to one process do not."""

    is_everything_inhibited = False

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.others = frozenset(range(n)) - {me}
        self.clock = [0] * n
        self.waiting: deque[tuple[Message, frozenset[int]]] = deque()
        self.unacknowledged = 0
        self.held: list[tuple[str, Message, int, tuple[int, ...]]] = []

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        self.waiting.append((message, destinations))
        return self.pump()

    def pump(self) -> list[Event]:
        deeds: list[Event] = []
        while self.waiting:
            message, destinations = self.waiting[0]
            is_multicast = destinations == self.others
            if self.unacknowledged and (is_multicast or self.is_everything_inhibited):
                break
            self.waiting.popleft()
            self.clock[self.me] += is_multicast
            self.unacknowledged += not is_multicast
            stamp = sum(count * BASE**process for process, count in enumerate(self.clock))
            kind = "data" if is_multicast else "direct"
            deeds += [sending(message), *(self.to(kind, message, target, stamp) for target in sorted(destinations))]
        return deeds

    def receive(self, event: Event) -> list[Event]:
        packet = packet_of(event)
        if packet.kind == "ack":
            self.unacknowledged -= 1
            return self.pump()
        clock = tuple(packet.stamp // BASE**process % BASE for process in range(len(self.clock)))
        self.held.append((packet.kind, packet.message, packet.source, clock))
        answer = [self.to("ack", packet.message, packet.source)] if packet.kind == "direct" else []
        return [*answer, *self.deliver()]

    def deliver(self) -> list[Event]:
        deeds = []
        while due := [one for one in self.held if self.is_due(*one)]:
            kind, message, source, _ = due[0]
            self.held.remove(due[0])
            self.clock[source] += kind == "data"
            deeds.append(delivering(message))
        return deeds

    def is_due(self, kind: str, _message: Message, source: int, clock: tuple[int, ...]) -> bool:
        awaited = list(self.clock)
        awaited[source] += kind == "data"
        return clock[source] == awaited[source] and all(
            clock[process] <= count for process, count in enumerate(awaited) if process != source
        )

    def variables(self) -> object:
        return tuple(self.clock), tuple(self.waiting), self.unacknowledged, tuple(self.held)


class AllInhibited(Inhibited):
    """Messages to one process wait, too."""

    is_everything_inhibited = True


ORDERS["inhibited"] = Order(Inhibited, is_point_to_point=False)
ORDERS["all inhibited"] = Order(AllInhibited, is_point_to_point=False)
