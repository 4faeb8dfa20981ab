# SPDX-License-Identifier: Apache-2.0
"""The ledgers of one round together: all messages, all streams, and the faults that the judges find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busq.trial.soak.judge.losses import Losses, Places
from busq.trial.soak.judge.reading import Fate, Item, Note, Send, Worker
from busq.trial.soak.judge.streams import streams_of
from busq.trial.soak.ledger import Kind, describe
from busq.trial.soak.plan import Mode

__all__ = ["Case"]

_Order = tuple[list[int], Places]


class Case:
    """All ledgers of a round."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self.faults: dict[str, list[str]] = {}
        self.sends = {send.message: send for worker in workers for send in worker.sends}
        self.streams_of = [streams_of(worker, self.sends, self.fault) for worker in workers]
        self.streams = [stream for streams in self.streams_of for stream in streams]
        self.fresh = {id(item) for stream in self.streams for item in stream.items}
        self._note_deliveries()
        self._settle_batches()
        self.losses = [Losses(streams, self.sends) for streams in self.streams_of]
        self._sent = [_order([send.message for send in worker.sends if not self.is_apart(send)]) for worker in workers]
        self._got = [_order([item.name for item in stream.messages]) for stream in self.streams]
        self.owners: dict[int, tuple[Worker, Note]] = {}  # of nodes, and since which record
        for worker in workers:
            self.owners.update((note.message, (worker, note)) for note in worker.of(Kind.MADE))
        for worker in workers:  # of one that was killed before it could write down what it had made
            for note in worker.of(Kind.INHERITED):
                if note.flags:
                    self.owners.setdefault(note.extra, (worker, note))

    def fault(self, name: str, text: str) -> None:
        """Note that a property does not hold."""
        self.faults.setdefault(name, []).append(text)

    def deliveries(self) -> Iterator[tuple[Worker, Item, Send | None]]:
        """Yield each message that was received, repetitions too."""
        for worker in self.workers:
            for item in worker.items:
                if item.kind == Kind.DELIVERED:
                    yield worker, item, self.sends.get(item.name)

    def _note_deliveries(self) -> None:
        for worker, item, send in self.deliveries():
            if send is not None:
                send.got.add(worker.queue)
                if send.fate == Fate.OPEN:
                    send.known_ns = min(send.known_ns, item.time_ns)

    def _settle_batches(self) -> None:
        """Of a batch that was interrupted, what stands before a message that arrived was sent."""
        for worker in self.workers:
            behind: Send | None = None
            for send in reversed(worker.sends):
                if not send.is_interrupted:
                    behind = None
                    continue
                if behind is not None and behind.life == send.life and behind.number > send.number:
                    send.fate = Fate.SENT
                    send.known_ns = min(send.known_ns, behind.known_ns)
                if send.has_happened:
                    behind = send

    def is_apart(self, send: Send) -> bool:
        """Return whether it was interrupted and has no order with what its worker sends in the next life.

        Others finish or undo it when they notice the death.  A worker that resumes has it settled before it sends.
        """
        return send.is_interrupted and self.workers[send.sender].mode in (Mode.PLAIN, Mode.SHARED)

    def owns(self, worker: Worker, node: int) -> bool:
        """Return whether a node is that worker's."""
        return node in self.owners and self.owners[node][0] is worker

    def miss(self, receiver: int, send: Send, why: str = "", life: int | None = None) -> None:
        """Note that a message never came to a worker (in one of its lives), unless a death excuses that."""
        orders = [self._sent[send.sender]]
        if self.workers[receiver].mode == Mode.RESUME:
            orders += [order for order in self._got if send.message in order[1]]
        if not self.losses[receiver].may_have_lost(send, why, orders, life):
            self.lose(self.workers[receiver], send, why)

    def lose(self, receiver: Worker, send: Send, why: str) -> None:
        """Note that a message never came to a worker, and nothing excuses that."""
        text = f"{receiver.name} never delivered {describe(send.message)}{why}"
        if send.fate == Fate.OPEN:
            others = ", ".join(self.workers[queue].name for queue in sorted(send.got))
            self.fault("torn", f"{text}, whose send was interrupted, but {others} did")
        else:
            self.fault("lost", text)


def _order(names: list[int]) -> _Order:
    return names, {name: at for at, name in enumerate(names)}
