# SPDX-License-Identifier: Apache-2.0
"""Protocols as the papers write them, word by word, without a thought for speed: what compiled orders are held to.

Every call returns what the process does, in order: ("deliver", message), or (kind of packet, message, receivers).
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, cast

Deed: TypeAlias = "tuple[str, int, int] | tuple[str, int]"


class Cykas:
    """Cykas paper, section 2.2: the data structures of 2.2.1, the operations of Algorithms 1 to 5.

    The set of an Eager Send holds its own receiver too, so that a YCT can't overtake the message that it belongs to.
    """

    def __init__(self, me: int, n: int) -> None:
        self.me = me
        self.n = n
        self.ob: deque[tuple[int, int]] = deque()
        self.unack = [0] * n
        self.mode = 0
        self.eager_sent: dict[int, deque[tuple[list[int], int]]] = {}

    def application_send(self, message: int, to: int) -> list[Deed]:
        """Algorithm 1: insert into the OB."""
        self.ob.append((message, to))
        return self.network_send()

    def network_send(self) -> list[Deed]:
        """Algorithm 2: as long as the message at the head of the OB can be sent."""
        deeds: list[Deed] = []
        while self.ob:
            message, to = self.ob[0]
            if self.mode > 0:
                break
            if self.unack[to] == 1:
                break
            if all(bit == 0 for bit in self.unack):
                deeds.append(("normal", message, to))
            else:
                waits_for = list(self.unack)
                waits_for[to] = 1
                self.eager_sent.setdefault(to, deque()).append((waits_for, message))
                deeds.append(("eager", message, to))
            self.unack[to] = 1
            self.ob.popleft()
        return deeds

    def receive_deliver(self, kind: str, message: int, sender: int) -> list[Deed]:
        """Algorithm 3: deliver at once, and acknowledge."""
        if kind == "eager":
            self.mode += 1
        return [("deliver", message), ("ack", message, sender)]

    def receive_ack(self, sender: int) -> list[Deed]:
        """Algorithm 4: clear the bits, send the YCTs that waited for nothing else, then what the OB holds."""
        deeds: list[Deed] = []
        self.unack[sender] = 0
        for to, sets in self.eager_sent.items():
            for waits_for, _ in sets:
                waits_for[sender] = 0
            while sets and not any(sets[0][0]):
                deeds.append(("yct", sets.popleft()[1], to))
        return deeds + self.network_send()

    def receive_yct(self, _message: int, _sender: int) -> list[Deed]:
        """Algorithm 5: one secret less."""
        self.mode -= 1
        return self.network_send()

    @property
    def is_at_rest(self) -> bool:
        return not (self.ob or any(self.unack) or self.mode or any(self.eager_sent.values()))


class CykasYctAcked(Cykas):
    """Section 2.1: "a process that receives any of the above message types sends ACK back to the sender"."""

    def receive_yct(self, message: int, sender: int) -> list[Deed]:
        self.mode -= 1
        return [("ack", message, sender), *self.network_send()]


class CykasYctUnack(CykasYctAcked):
    """A YCT is a message whose ACK its sender has not yet received, so its receiver is in UNACK."""

    waits = False

    def receive_ack(self, sender: int) -> list[Deed]:
        self.unack[sender] = 0
        for sets in self.eager_sent.values():
            for waits_for, _ in sets:
                waits_for[sender] = 0
        return self.tell() + self.network_send()

    def tell(self) -> list[Deed]:
        """Send YCTs in the order of their messages: what one waits for, those of later messages wait for too."""
        deeds: list[Deed] = []
        secrets = [(message, to, some) for to, sets in self.eager_sent.items() for some, message in sets]
        for message, to, waits_for in sorted(secrets):
            if any(waits_for) or (self.waits and self.unack[to]):
                break
            self.eager_sent[to].popleft()
            self.unack[to] = 1
            deeds.append(("yct", message, to))
        return deeds


class CykasYctWaits(CykasYctUnack):
    """... and it waits as long as its receiver is there for another reason."""

    waits = True


class CykasAckLate(Cykas):
    """The post's first question: an eager send is acknowledged when the "now you can tell" message has come."""

    def receive_deliver(self, kind: str, message: int, sender: int) -> list[Deed]:
        return super().receive_deliver(kind, message, sender)[: 1 if kind == "eager" else 2]

    def receive_yct(self, message: int, sender: int) -> list[Deed]:
        self.mode -= 1
        return [("ack", message, sender), *self.network_send()]


class CykasSecretEager(Cykas):
    """The post's second question: eager sends as a result of eager sends.

    The YCT of each waits until its sender is out of secret mode.
    """

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.sent_in_secret: set[int] = set()

    def network_send(self) -> list[Deed]:
        deeds: list[Deed] = []
        while self.ob and not self.unack[self.ob[0][1]]:
            message, to = self.ob.popleft()
            if self.mode or any(self.unack) or any(self.eager_sent.values()):
                waits_for = list(self.unack)
                waits_for[to] = 1
                self.eager_sent.setdefault(to, deque()).append((waits_for, message))
                deeds.append(("eager", message, to))
            else:
                deeds.append(("normal", message, to))
            if self.mode:
                self.sent_in_secret.add(message)
            self.unack[to] = 1
        return deeds

    def receive_ack(self, sender: int) -> list[Deed]:
        self.unack[sender] = 0
        for sets in self.eager_sent.values():
            for waits_for, _ in sets:
                waits_for[sender] = 0
        return self.tell() + self.network_send()

    def receive_yct(self, _message: int, _sender: int) -> list[Deed]:
        self.mode -= 1
        return self.tell() + self.network_send()

    def tell(self) -> list[Deed]:
        """Send YCTs in the order of their messages."""
        deeds: list[Deed] = []
        secrets = [(message, to, some) for to, sets in self.eager_sent.items() for some, message in sets]
        for message, to, waits_for in sorted(secrets):
            if any(waits_for) or (self.mode and message in self.sent_in_secret):
                break
            self.eager_sent[to].popleft()
            self.sent_in_secret.discard(message)
            deeds.append(("yct", message, to))
        return deeds


class Mfss:
    """Cykas paper, section 2.1, after Mattern and Fünfrocken: one message unacknowledged at a time."""

    def __init__(self, me: int, n: int) -> None:
        self.output_buffer: deque[tuple[int, int]] = deque()
        self.is_waiting = False

    def application_send(self, message: int, to: int) -> list[Deed]:
        self.output_buffer.append((message, to))
        return self.dequeue()

    def dequeue(self) -> list[Deed]:
        if self.is_waiting or not self.output_buffer:
            return []
        self.is_waiting = True
        message, to = self.output_buffer.popleft()
        return [("data", message, to)]

    def receive_deliver(self, _: str, message: int, sender: int) -> list[Deed]:
        return [("deliver", message), ("ack", message, sender)]

    def receive_ack(self, _: int) -> list[Deed]:
        self.is_waiting = False
        return self.dequeue()

    @property
    def is_at_rest(self) -> bool:
        return not (self.is_waiting or self.output_buffer)


class MatrixCausal:
    """Garg, figure 12.2 (Raynal, Schiper, Toueg), with the multicast of figure 12.4."""

    def __init__(self, me: int, n: int) -> None:
        self.me = me
        self.n = n
        self.m = [[0] * n for _ in range(n)]
        self.pending: list[tuple[int, list[list[int]], int]] = []

    def send(self, to: list[int]) -> list[list[int]]:
        """The matrix to piggyback."""
        for j in to:
            self.m[self.me][j] = self.m[self.me][j] + 1
        return [list(row) for row in self.m]

    def is_enabled(self, w: list[list[int]], j: int) -> bool:
        i = self.me
        return w[j][i] == self.m[j][i] + 1 and all(self.m[k][i] >= w[k][i] for k in range(self.n) if k != j)

    def receive(self, message: int, w: list[list[int]], j: int) -> list[int]:
        """What is delivered now."""
        self.pending.append((message, w, j))
        delivered = []
        while ready := [entry for entry in self.pending if self.is_enabled(entry[1], entry[2])]:
            message, w, j = ready[0]
            self.pending.remove(ready[0])
            self.m = [
                [max(a, b) for a, b in zip(mine, theirs, strict=True)] for mine, theirs in zip(self.m, w, strict=True)
            ]
            delivered.append(message)
        return delivered


class CausalLinker:
    """Garg, listing 12.4, line by line.  Channels keep the order: a matrix and the message that it belongs to follow.

    Line 25 asks `W[srcId][myId] > M[srcId][myId] + 1` where figure 12.2 has "=": what was delivered may come again.
    """

    def __init__(self, my_id: int, n: int) -> None:
        self.my_id = my_id
        self.n = n
        self.m = [[0] * n for _ in range(n)]
        self.delivery_q: deque[tuple[list[list[int]], int, int]] = deque()  # matrix, message, source
        self.pending_q: list[tuple[list[list[int]], int, int]] = []
        self.channels: list[deque[object]] = [deque() for _ in range(n)]  # super.receiveMsg, by source

    def multicast(self, dest_ids: list[int], msg: int) -> list[object]:
        """Lines 15 to 23: what goes to each of them, in this order."""
        for i in dest_ids:
            self.m[self.my_id][i] += 1
        return [[list(row) for row in self.m], msg]

    def okay_to_recv(self, w: list[list[int]], src_id: int) -> bool:
        if w[src_id][self.my_id] > self.m[src_id][self.my_id] + 1:
            return False
        for k in range(self.n):  # noqa: SIM110 - as it is written
            if k != src_id and w[k][self.my_id] > self.m[k][self.my_id]:
                return False
        return True

    def check_pending_q(self) -> None:
        for cm in list(self.pending_q):
            if self.okay_to_recv(cm[0], cm[2]):
                self.pending_q.remove(cm)
                self.delivery_q.append(cm)

    def receive_msg(self, from_id: int) -> int | None:
        """Lines 40 to 53; None where the listing would block."""
        self.check_pending_q()
        while not self.delivery_q:
            if not self.channels[from_id]:
                return None
            w = cast("list[list[int]]", self.channels[from_id].popleft())
            m1 = cast("int", self.channels[from_id].popleft())
            self.pending_q.append((w, m1, from_id))
            self.check_pending_q()
        w, message, _ = self.delivery_q.popleft()
        self.m = [
            [max(a, b) for a, b in zip(mine, theirs, strict=True)] for mine, theirs in zip(self.m, w, strict=True)
        ]
        return message

    def receive(self, sent: list[object], from_id: int) -> list[int]:
        """What a thread that listens to a channel delivers once these have arrived there, until it blocks."""
        self.channels[from_id].extend(sent)
        delivered = []
        while (message := self.receive_msg(from_id)) is not None:
            delivered.append(message)
        return delivered


class VectorCausal:
    """Lecture notes, implementing causal broadcast: vector clocks in which receives are no events."""

    def __init__(self, me: int, n: int) -> None:
        self.me = me
        self.vc = [0] * n
        self.delivery_queue: list[tuple[int, list[int], int]] = []

    def send(self) -> list[int]:
        """The clock that goes with the message."""
        self.vc[self.me] += 1
        return list(self.vc)

    def is_deliverable(self, clock: list[int], k: int) -> bool:
        return clock[k] == self.vc[k] + 1 and all(clock[j] <= self.vc[j] for j in range(len(self.vc)) if j != k)

    def receive(self, message: int, clock: list[int], k: int) -> list[int]:
        """What is delivered now."""
        self.delivery_queue.append((message, clock, k))
        delivered = []
        while ready := [entry for entry in self.delivery_queue if self.is_deliverable(entry[1], entry[2])]:
            message, clock, k = ready[0]
            self.delivery_queue.remove(ready[0])
            self.vc = [max(a, b) for a, b in zip(self.vc, clock, strict=True)]
            delivered.append(message)
        return delivered
