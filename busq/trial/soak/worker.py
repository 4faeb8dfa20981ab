# SPDX-License-Identifier: Apache-2.0
"""The program of a soak's workers, which talk over a bus until they are killed.

About messages, they send in all ways that there are.  About members, they also enter and leave groups, watch each
other, own nodes and hand on their handles (`belongings`), and keep replicas (`replicas`).  A worker records what it did
in its ledger, outside the shared memory of the bus (`reporter`); `judge` compares the ledgers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import busq
from busq.trial.host import make_payload, read_payload
from busq.trial.soak.belongings import Belongings, node_of
from busq.trial.soak.ledger import (
    GROUP_BITS,
    GROUPS,
    Kind,
    Phase,
    Reason,
    Row,
    change_of,
    event_name,
    packed,
    sender_of,
    view_name,
)
from busq.trial.soak.plan import ACKNOWLEDGING, COMMAND, Command, Mode, Plan, Word, queues_of
from busq.trial.soak.replicas import Replicas
from busq.trial.soak.reporter import Reporter, draw

__all__ = ["Worker"]

ACTS = {  # every so often it does nothing
    "messages": (("send", 0.5), ("nothing", 0.5)),
    "members": (("send", 0.5), ("group", 0.12), ("watch", 0.04), ("node", 0.12), ("replica", 0.22)),
}
WAYS = (("batch", 0.3), ("send", 0.25), ("parts", 0.1), ("draft", 0.1), ("object", 0.1), ("ask", 0.15))
FAN_OUTS = ((1, 0.4), (2, 0.25), (3, 0.2), (4, 0.15))
AIMS = (
    *(("names", 0.25), ("group", 0.35), ("group and names", 0.1), ("node", 0.1), ("node and names", 0.08)),
    *(("node and group", 0.07), ("node, group and names", 0.05)),
)
SIZES_BYTES = {
    "messages": ((40, 0.8), (700, 0.14), (6000, 0.05), (20_000, 0.01)),
    "members": ((40, 0.8), (700, 0.15), (6000, 0.05)),
}
BATCH_MAX = 8
PENDING_MAX = 8  # deliveries that wait for their acknowledgement
SEND_TIMEOUTS_S = (0.0, 0.01, 0.05)
ASK_TIMEOUTS_S = (0.01, 0.05)
RECEIVE_TIMEOUTS_S = (0.0, 0.001, 0.005, 0.02)
RECEIVES_MAX = 16  # in a row, before the next send
DRAIN_TIMEOUT_S = 0.02
JOIN_TIMEOUT_S = 1.0


@dataclass
class _Outgoing:
    """A message that is to be sent."""

    message: int
    names: list[int]  # queues, by index
    groups: list[int]
    aimed: list[tuple[int, Any]]  # nodes and their handles
    carried: list[tuple[int, Any]]
    payload: bytes


class Worker:
    """One life of one worker."""

    def __init__(self, plan: Plan, index: int, life: int, words: memoryview) -> None:
        self._plan = plan
        self._index = index
        self._life = life
        self._command = words
        self._mode = plan.modes[index]
        self._is_member = plan.about == "members"
        self._acks = self._mode in ACKNOWLEDGING
        self._reporter = Reporter(plan, index, life, words)
        self._dice = self._reporter.dice
        self._pending: list[tuple[int, Any]] = []
        self._events = 0

    def run(self) -> None:
        """Live: join, talk, and leave on command."""
        reporter = self._reporter
        born_ns = reporter.mark(Phase.STARTING, JOIN_TIMEOUT_S)
        reporter.open()
        reporter.write(Kind.BORN, 0, born_ns, os.getpid())
        descriptors = _descriptors()
        bus = busq.Bus.open(self._plan.bus)
        self._peer = self._join(bus)
        self._free_ns = time.monotonic_ns()
        reporter.note_starvation()
        reporter.write(Kind.JOINED, 0, self._free_ns, born_ns)
        self._poll = select.poll() if self._index % 3 == 2 else None
        if self._poll:
            self._poll.register(self._peer.fileno(), select.POLLIN)
        self._belongings = Belongings(reporter, self._peer)
        self._replicas = Replicas(reporter, bus)
        if self._is_member:
            self._belongings.begin()
            self._replicas.begin()
        while self._obey():
            pass
        leaving_ns = reporter.mark(Phase.LEAVING)
        self._replicas.end()
        self._belongings.end()
        self._peer.close()
        bus.close()
        del self._peer, self._belongings, self._replicas, bus
        self._pending.clear()
        gc.collect()
        reporter.write(Kind.LEFT, leaving_ns, 0, descriptors, number=min(_descriptors(), 0xFFFF))

    def _join(self, bus: busq.Bus) -> busq.Peer:
        options: dict[str, Any] = {}
        if self._mode != Mode.PLAIN:
            is_shared = self._mode == Mode.SHARED
            options = {"resume": True, "durable": is_shared or self._mode == Mode.DURABLE, "shared": is_shared}
        end_s = time.monotonic() + JOIN_TIMEOUT_S
        while True:
            try:
                return bus.join(self._plan.address(self._index), **options)
            except (busq.NoSpace, busq.PeerExists):
                # All slots are kept by peers that are gone, until what they sent has been received.  Or the process
                # that settles what the last life left is stopped, or gets no processor: then a caller must try again.
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.001)

    def _obey(self) -> bool:
        command = self._command[COMMAND]
        if command != self._reporter.words[Word.SEEN]:
            self._reporter.words[Word.SEEN] = command
        if command == Command.LEAVE:
            return False
        if command == Command.RUN:
            self._act(draw(self._dice, ACTS[self._plan.about]))
            for _ in range(RECEIVES_MAX):
                if not self._receive(0):
                    break
            self._receive(self._dice.choice(RECEIVE_TIMEOUTS_S))
        else:
            self._belongings.release_all()
            self._receive(DRAIN_TIMEOUT_S)
        if self._pending and (command == Command.DRAIN or self._dice.random() < 0.6 or self._is_pressed()):
            self._acknowledge()
        return True

    def _act(self, act: str) -> None:
        if act == "send":
            self._send()
        elif act == "group":
            self._belongings.change_group()
        elif act == "watch":
            self._belongings.change_watch()
        elif act == "node":
            self._belongings.change_node()
        elif act == "replica":
            self._replicas.command()

    def _is_pressed(self) -> bool:
        return len(self._pending) >= PENDING_MAX

    # ---- sending ----

    def _send(self) -> None:
        dice, life = self._dice, self._life
        way = "send" if self._is_member else draw(dice, WAYS)
        batch = [self._make_up(way) for _ in range(dice.randint(2, BATCH_MAX) if way == "batch" else 1)]
        timeout_s = dice.choice(SEND_TIMEOUTS_S if way != "ask" else ASK_TIMEOUTS_S)
        now_ns = time.monotonic_ns()
        rows: list[Row] = []
        for number, each in enumerate(batch):
            rows += [(Kind.AIMED, 0, 0, life, each.message, now_ns, node) for node, _ in each.aimed]
            rows += [(Kind.CARRIES, 0, 0, life, each.message, now_ns, node) for node, _ in each.carried]
            bits = sum(1 << index for index in each.names) | sum(1 << GROUP_BITS + group for group in each.groups)
            rows.append((Kind.INTENT, 0, number, life, each.message, now_ns, bits))
        self._reporter.write_rows(rows)
        letters = [(self._addresses(each), each.payload) for each in batch]
        reason, is_replied = Reason.UNTRIED, False
        missed: Iterable[Any] = ()
        began_ns = self._reporter.mark(Phase.SENDING, timeout_s)
        try:
            if way == "batch":
                sent = self._peer.send_many(letters, timeout=timeout_s)
            else:
                is_replied = self._send_one(way, batch[0], letters[0][0], timeout_s)
                sent = 1
        except (busq.Full, busq.PeerDead, busq.UnknownPeer) as error:
            reason = Reason.FULL if isinstance(error, busq.Full) else Reason.DEAD
            missed = getattr(error, "missed", None) or ()
            sent = getattr(error, "sent", 0)
        except busq.Empty:  # no reply came
            sent = 1
        ended_ns = self._reporter.done()
        results: list[Row] = [
            (Kind.MISSED, 0, 0, life, batch[0].message, ended_ns, node_of(handle)) for handle in missed
        ]
        for number, each in enumerate(batch):
            if number < sent:
                kind, flags = Kind.SENT, int(is_replied)
            else:
                kind, flags = Kind.FAILED, reason if number == sent else Reason.UNTRIED
            results.append((kind, flags, number, life, each.message, ended_ns, began_ns))
        self._reporter.write_rows(results)

    def _send_one(self, way: str, each: _Outgoing, to: list[Any], timeout_s: float) -> bool:
        """Send in one of all the ways that there are; True if it was a request, and its reply came."""
        payload = each.payload
        if way == "parts":
            at = self._dice.randrange(len(payload))
            self._peer.send(to, [payload[:at], payload[at:]], timeout=timeout_s)
        elif way == "draft":
            with self._peer.reserve(len(payload), timeout=timeout_s) as draft, self._peer.reserve(1, timeout=timeout_s):
                draft.buffer[:] = payload
                draft.send(to, timeout=timeout_s)
        elif way == "object":
            self._peer.send_object(to, pickle.PickleBuffer(payload), timeout=timeout_s)
        elif way == "ask" and to[0] != self._peer.name:
            reply = self._peer.ask(to[0], payload, timeout=timeout_s)
            if reply.data != _answer(each.message):
                raise AssertionError(f"{reply!r} is not the one to message {each.message:#x}")
            return True
        else:
            self._peer.send(to, payload, handles=[handle for _, handle in each.carried], timeout=timeout_s)
        return False

    def _addresses(self, each: _Outgoing) -> list[Any]:
        names: list[Any] = [self._plan.address(index) for index in each.names]
        return names + [f"@{GROUPS[group]}" for group in each.groups] + [handle for _, handle in each.aimed]

    def _make_up(self, way: str) -> _Outgoing:
        """Draw a message: its receivers, the handles that it brings, and its payload."""
        message, dice = self._reporter.next_name(), self._dice
        if self._is_member:
            names, groups, aimed = self._aims()
            carried = self._belongings.draw_carried()
        else:
            queues = sorted(set(queues_of(self._plan.modes)))
            fan_out = 1 if way == "ask" else min(draw(dice, FAN_OUTS), len(queues))
            names, groups, aimed, carried = dice.sample(queues, fan_out), [], [], []
        size_bytes = draw(dice, SIZES_BYTES[self._plan.about])
        return _Outgoing(message, names, groups, aimed, carried, make_payload(message, size_bytes, 0))

    def _aims(self) -> tuple[list[int], list[int], list[tuple[int, Any]]]:
        """Draw the receivers: names, groups and nodes."""
        dice, everyone = self._dice, range(len(self._plan.names))
        aim = draw(dice, AIMS)
        names = dice.sample(everyone, dice.choice((1, 1, 2, 3))) if "names" in aim else []
        groups = [dice.randrange(len(GROUPS))] if "group" in aim else []
        aimed = self._belongings.draw_aimed() if "node" in aim else []
        if not names and not groups and not aimed:
            names = [dice.choice(everyone)]
        return names, groups, aimed

    # ---- receiving ----

    def _receive(self, timeout_s: float) -> int:
        """Take and record what is there, up to a few messages; return how many."""
        if self._is_pressed():
            return 0
        if self._poll and timeout_s:
            self._reporter.mark(Phase.WORKING, timeout_s)
            self._poll.poll(timeout_s * 1e3)
            timeout_s = 0
        limit = self._dice.randint(1, PENDING_MAX) if self._acks else self._dice.choice((1, 1, 4))
        options = {"ack": True} if self._acks else {}
        self._reporter.mark(Phase.RECEIVING, timeout_s, limit=limit)
        try:
            if limit == 1:
                messages = [self._peer.recv(timeout_s, **options)]
            else:
                messages = self._peer.recv_many(limit, timeout_s, **options)
        except busq.Empty:
            self._reporter.mark(Phase.WORKING)
            return 0
        now_ns = time.monotonic_ns()
        self._reporter.write_rows([row for message in messages for row in self._received(message, now_ns)])
        self._free_ns = self._reporter.done()
        self._reporter.words[Word.DELIVERED] += len(messages)
        return len(messages)

    def _received(self, message: Any, now_ns: int) -> list[Row]:
        """Return the records of a message or an event; AssertionError for a damaged payload."""
        rows = self._data(message, now_ns) if message.kind == "data" else [self._event(message, now_ns)]
        if self._acks:
            self._pending.append((rows[-1][4], message))
        return rows

    def _data(self, message: Any, now_ns: int) -> list[Row]:
        parsed, life = _read(message), self._life
        if parsed is None:
            raise AssertionError(f"{message!r} has a damaged payload")
        name = parsed[0]
        if sender_of(name) >= len(self._plan.names) or message.sender != self._plan.address(sender_of(name)):
            raise AssertionError(f"{message!r} was made by worker {sender_of(name)}")
        if not self._is_member:
            with contextlib.suppress(ValueError, busq.Full, busq.PeerDead):  # most are no requests
                message.reply(_answer(name), timeout=0)
        rows: list[Row] = []
        if message.node is not None:
            rows.append((Kind.AT_NODE, 0, 0, life, name, now_ns, node_of(message.node)))
        for handle in message.handles:
            rows.append((Kind.GOT, int(not handle.is_dead), 0, life, name, now_ns, node_of(handle)))
            self._belongings.keep(handle)
        return [*rows, (Kind.DELIVERED, int(message.redelivered), 0, life, name, now_ns, self._free_ns)]

    def _event(self, message: Any, now_ns: int) -> Row:
        mark, life, index_of = int(message.redelivered), self._life, self._plan.names.index
        if message.kind == "view":
            view = message.view
            change = change_of(*([index_of(name) for name in each] for each in (view.joined, view.left, view.died)))
            members = packed([index_of(name) for name in view.members])
            name = view_name(GROUPS.index(message.group), view.number)
            return (Kind.VIEW, mark, change, life, name, now_ns, members)
        self._events += 1
        name = event_name(life, self._events)
        if message.kind in ("joined", "left"):
            kind = Kind.PEER_JOINED if message.kind == "joined" else Kind.PEER_LEFT
            return (kind, mark, index_of(message.sender), life, name, now_ns, 0)
        node = node_of(message.node)
        if message.kind == "node_destroyed":
            self._belongings.forget(node)
        kind = Kind.NODE_DESTROYED if message.kind == "node_destroyed" else Kind.NODE_RELEASED
        return (kind, mark, 0, life, name, now_ns, node)

    def _acknowledge(self) -> None:
        for name, message in self._pending:
            self._reporter.mark(Phase.ACKING, subject=name)
            message.ack()
            self._reporter.write(Kind.ACKED, name)
        self._reporter.mark(Phase.WORKING)
        self._pending.clear()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _read(message: Any) -> tuple[int, int] | None:
    """Return the message and the time in what was received, object or not."""
    try:
        return read_payload(memoryview(message.object()))
    except ValueError:
        with message.view() as payload:
            return read_payload(payload)


def _answer(message: int) -> bytes:
    """Return the reply to a message: its name."""
    return message.to_bytes(8, "little")
