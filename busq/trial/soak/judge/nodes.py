# SPDX-License-Identifier: Apache-2.0
"""The promises about nodes: their ends, the notices of these, and what comes to a node or brings its handle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.findings import Findings
from busq.trial.soak.judge.reading import NEVER_NS, Fate, Item, Note, Send, Worker
from busq.trial.soak.judge.streams import Stream
from busq.trial.soak.ledger import Kind, describe
from busq.trial.soak.plan import Mode

__all__ = ["judge_nodes"]

_Calls = Mapping[tuple[int, int], list[Note]]  # by kind and node


class _Holder:
    """The nodes that appear in one stream: its worker's own, and those whose handles came to it."""

    def __init__(self, case: Case, calls: _Calls, stream: Stream) -> None:
        self._case, self._calls, self._stream = case, calls, stream
        self._ended: set[int] = set()
        self._alive: dict[int, tuple[int, int]] = {}  # by node: when it came alive last, and to which life

    def _fault(self, text: str) -> None:
        self._case.fault("nodes", f"{self._stream.name} {text}")

    def judge(self) -> None:
        """Go through the stream, and check in the end that every notice came."""
        for at, item in enumerate(self._stream.items):
            if item.kind == Kind.NODE_DESTROYED:
                if item.extra in self._ended:
                    self._fault(f"got two notices of the end of node {item.extra:#x}")
                self._ended.add(item.extra)
                if not self._can_be_over(item.extra, at, item.time_ns):
                    self._fault(f"got a notice of the end of node {item.extra:#x}, which had not ended")
            elif item.kind == Kind.NODE_RELEASED and item.extra in self._ended:
                self._fault(f"got a notice that node {item.extra:#x} has no holder after the node's end")
            for node in item.at:
                if node in self._ended:
                    self._fault(f"got {item} at node {node:#x} after its end")
            for node, is_alive in item.got:
                if is_alive and node in self._ended:
                    self._fault(f"got a handle of node {node:#x} alive, with {item}, after its end")
                if is_alive:
                    self._alive[node] = item.time_ns, item.life
        if self._stream.is_whole:
            self._judge_notices()

    def _can_be_over(self, node: int, at: int, now_ns: int) -> bool:
        """Return whether its owner had begun to destroy it, had left, or was killed, by then."""
        if node not in self._case.owners:  # made by a life that was killed before it could write that down
            return self._stream.deaths_before(at) > 0
        owner, made = self._case.owners[node]
        if any(note.time_ns < now_ns for note in self._calls.get((Kind.DESTROYING, node), ())):
            return True
        since = made.life - (made.kind == Kind.INHERITED)
        until = made.life if owner.mode == Mode.PLAIN else NEVER_NS
        return any(since <= life.number <= until and life.end_ns < now_ns for life in owner.lives)

    def _judge_notices(self) -> None:
        """The owner, and every holder of a handle, gets a notice when the node ends."""
        worker, last = self._stream.worker, self._stream.lives[-1].number
        own = {note.extra for note in worker.of(Kind.INHERITED) if note.life == last}
        own |= {note.message for note in worker.of(Kind.MADE) if note.life == last}
        released = {note.message: note.time_ns for note in worker.of(Kind.RELEASING) if note.life == last}
        held = {node: got_ns for node, (got_ns, life) in self._alive.items() if life == last}
        for node in held.keys() | own:
            if node not in self._case.owners or node in self._ended:
                continue
            owner, made = self._case.owners[node]
            destroyed = self._calls.get((Kind.DESTROYED, node), ())
            life = owner.life(made.life)
            has_ended = bool(destroyed) or (owner.mode == Mode.PLAIN and life.died_ns > 0)
            is_held = node not in released or released[node] < held.get(node, 0)  # it let go, and it came again
            if has_ended and is_held and not self._stream.could_lose_anything:
                self._fault(f"never got a notice of the end of node {node:#x} of {owner.name}")


class _Nodes:
    """All nodes of a round."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._calls: dict[tuple[int, int], list[Note]] = {}
        for worker in case.workers:
            for kind in (Kind.DESTROYING, Kind.DESTROYED, Kind.RELEASING):
                for note in worker.of(kind):
                    self._calls.setdefault((kind, note.message), []).append(note)
        self._notices: dict[tuple[int, int], list[Item]] = {}  # in the last stream of a worker, by its index and node
        for worker in case.workers:
            for item in case.streams_of[worker.index][-1].items if case.streams_of[worker.index] else ():
                if item.kind in (Kind.NODE_DESTROYED, Kind.NODE_RELEASED):
                    self._notices.setdefault((worker.index, item.extra), []).append(item)

    def judge_sends(self) -> None:
        """A message to a node came to its owner, or missed the node."""
        for send in self._case.sends.values():
            for node in send.aimed if send.fate == Fate.SENT else ():
                if node not in send.missed and node in self._case.owners:
                    self._judge_send(send, node)

    def _judge_send(self, send: Send, node: int) -> None:
        owner, made = self._case.owners[node]
        destroyed = self._calls.get((Kind.DESTROYED, node), ())
        if any(note.time_ns < send.intent_ns for note in destroyed):
            text = f"{describe(send.message)} was sent to node {node:#x} after {owner.name} had destroyed it"
            self._case.fault("nodes", f"{text}, and did not miss it")
        if owner.index not in send.got:
            life = made.life if owner.mode == Mode.PLAIN else None
            self._case.miss(owner.index, send, f", sent to its node {node:#x}", life)

    def judge_ends(self) -> None:
        """Every end of a node has its notices, and an owner gets a notice when its node has no holder any more."""
        carried = Counter(node for send in self._case.sends.values() for node in send.carries)
        given: set[int] = set()
        for worker in self._case.workers:  # to one that resumes more than once, as its death may have let go of it
            carried.update(node for item in worker.items for node, is_alive in item.got if is_alive)
        for stream in self._case.streams:
            alive = {node for item in stream.items for node, is_alive in item.got if is_alive}
            given |= {node for node in alive if not self._case.owns(stream.worker, node)}
            _Holder(self._case, self._calls, stream).judge()
        for node, (owner, made) in self._case.owners.items():
            if owner.mode != Mode.PLAIN or made.life == owner.lives[-1].number:
                self._judge_release(node, owner, carried[node], node in given)

    def _judge_release(self, node: int, owner: Worker, carried: int, is_given: bool) -> None:
        items = self._notices.get((owner.index, node), [])
        freed = [item for item in items if item.kind == Kind.NODE_RELEASED]
        if len(freed) > carried:
            text = f"{owner.name} got {len(freed)} notices that its node {node:#x} has no holder"
            self._case.fault("nodes", f"{text}, and a handle of it was sent, or came, {carried} times")
        last = owner.lives[-1]
        notes = [*owner.of(Kind.MADE), *owner.of(Kind.INHERITED)]
        is_kept = any(node == (note.message or note.extra) for note in notes if note.life == last.number)
        has_ended = any(item.kind == Kind.NODE_DESTROYED for item in items)
        if has_ended or not is_kept or not is_given or not last.left_ns:
            return
        released_ns = [note.time_ns for note in self._calls.get((Kind.RELEASING, node), ())]
        is_noticed = bool(freed) and freed[-1].time_ns > max(released_ns, default=0)
        if not is_noticed and not self._case.streams_of[owner.index][-1].could_lose_anything:
            self._case.fault("nodes", f"{owner.name} never got a notice that its node {node:#x} has no holder any more")


def judge_nodes(case: Case, findings: Findings) -> None:
    """Judge all that is promised about nodes."""
    nodes = _Nodes(case)
    nodes.judge_sends()
    nodes.judge_ends()
    items = [item for stream in case.streams for item in stream.items]
    findings.counts["made"] = sum(len(worker.of(Kind.MADE)) for worker in case.workers)
    findings.counts["ended"] = len({item.extra for item in items if item.kind == Kind.NODE_DESTROYED})
    findings.counts["freed"] = sum(item.kind == Kind.NODE_RELEASED for item in items)
    findings.counts["notices"] = sum(item.kind == Kind.PEER_LEFT for item in items)
