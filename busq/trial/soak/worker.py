# SPDX-License-Identifier: Apache-2.0
"""The workers of a soak, which talk over a bus until they are killed.

A worker writes down what it did in its ledger (`ledger`).  The shared words here serve only to watch and aim.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import busq
from busq.trial.host import make_payload, read_payload
from busq.trial.soak.ledger import Kind, Ledger, Phase, Reason, Row, name_of, sender_of

_Value = TypeVar("_Value")

__all__ = ["ACKNOWLEDGING", "Command", "Mode", "Plan", "Word", "ledger_path", "queues_of"]


class Mode:
    """How a worker joins and receives."""

    PLAIN = "plain"  # at most once; a new life begins with an empty queue
    RESUME = "resume"  # at most once; a new life goes on with what is left
    ACK = "ack"  # at least once: receives with ack=True, resumes
    DURABLE = "durable"  # the same, and its queue goes on filling while it is dead
    SHARED = "shared"  # at least once, from one queue that all of this mode read


ACKNOWLEDGING = (Mode.ACK, Mode.DURABLE, Mode.SHARED)
TEAM = "team"  # the queue of all who share one


def queues_of(modes: Sequence[str]) -> tuple[int, ...]:
    """Return whose queue each worker reads, by index: its own, or that of the first who shares it.

    >>> queues_of(["plain", "shared", "ack", "shared"])
    (0, 1, 2, 1)
    """
    return tuple(modes.index(mode) if mode == Mode.SHARED else index for index, mode in enumerate(modes))


@dataclass(frozen=True)
class Plan:
    """The settings that all processes of a soak share."""

    bus: str
    names: tuple[str, ...]
    modes: tuple[str, ...]
    survivors: int  # the first so many are never killed nor stopped
    seed: int
    kills_per_s: float
    stops_per_s: float
    directory: str  # of the ledgers
    bus_directory: str  # nothing else is in it
    about: str = "messages"  # what its workers do: "messages", or "members"

    def address(self, index: int) -> str:
        """Return the name under which a worker sends and is sent to."""
        return TEAM if self.modes[index] == Mode.SHARED else self.names[index]


class Word:
    """Shared words of a worker.  `BEGAN_NS` and `TIMEOUT_NS` say until when it should have something new to say."""

    PHASE = 0
    BEGAN_NS = 1
    TIMEOUT_NS = 2
    LIMIT = 3  # how many messages the receive under way may take
    SUBJECT = 4  # the message that is being acknowledged
    DELIVERED = 6
    SEEN = 7  # the command that it obeys


class Command:
    """The orders of the conductor to the workers."""

    RUN = 1
    DRAIN = 2  # send no more, receive and acknowledge what is there
    LEAVE = 3


WORDS = 8  # of each worker; the killer's own come first:
COMMAND = 0
KILLS = 1
STOPS = 2
FAULTS = 3

STARVED_NS_MIN = 1_000_000

SEND_SHARE = 0.5
WAYS = (("batch", 0.3), ("send", 0.25), ("parts", 0.1), ("draft", 0.1), ("object", 0.1), ("ask", 0.15))
FAN_OUTS = ((1, 0.4), (2, 0.25), (3, 0.2), (4, 0.15))
SIZES_BYTES = ((40, 0.8), (700, 0.14), (6000, 0.05), (20_000, 0.01))
BATCH_MAX = 8
PENDING_MAX = 8  # deliveries that wait for their acknowledgement
SEND_TIMEOUTS_S = (0.0, 0.01, 0.05)
ASK_TIMEOUTS_S = (0.01, 0.05)
RECEIVE_TIMEOUTS_S = (0.0, 0.001, 0.005, 0.02)
RECEIVES_MAX = 16  # in a row, before the next send
DRAIN_TIMEOUT_S = 0.02
JOIN_TIMEOUT_S = 1.0


def ledger_path(plan: Plan, index: int) -> str:
    """Return where the ledger of a worker stands."""
    return os.path.join(plan.directory, f"{plan.names[index]}.ledger")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- a worker ----


class _Worker:
    """One life of one worker."""

    def __init__(self, plan: Plan, index: int, life: int, words: memoryview) -> None:
        self._plan = plan
        self._index = index
        self._life = life
        self._command = words
        self._words = words[(1 + index) * WORDS : (2 + index) * WORDS]
        self._mode = plan.modes[index]
        self._acks = self._mode in ACKNOWLEDGING
        self._dice = random.Random(f"{plan.seed}/{index}/{life}")
        self._count = 0
        self._pending: list[tuple[int, Any]] = []
        self._schedstat = -1
        self._starved_ns = 0
        self._ledger: Ledger

    def _mark(self, phase: int, timeout_s: float = 0, *, limit: int = 0, subject: int = 0) -> int:
        """Say what comes now, before it does; return the time."""
        words = self._words
        now_ns = time.monotonic_ns()
        words[Word.LIMIT] = limit
        words[Word.SUBJECT] = subject
        words[Word.TIMEOUT_NS] = int(timeout_s * 1e9)
        words[Word.BEGAN_NS] = now_ns
        words[Word.PHASE] = phase
        return now_ns

    def _note_starvation(self) -> None:
        """Write down for how long the system has given us no processor since we looked last, if it was long."""
        if self._schedstat < 0:
            return
        starved_ns = int(os.pread(self._schedstat, 64, 0).split()[1])
        if starved_ns - self._starved_ns > STARVED_NS_MIN:
            now_ns = time.monotonic_ns()
            self._ledger.write(Kind.STARVED, self._life, 0, now_ns, starved_ns - self._starved_ns)
            self._starved_ns = starved_ns

    def run(self) -> None:
        """Live: join, talk, and leave when told to."""
        born_ns = self._mark(Phase.STARTING, JOIN_TIMEOUT_S)
        with contextlib.suppress(OSError):  # not every kernel keeps it
            self._schedstat = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._ledger = Ledger(ledger_path(self._plan, self._index))
        self._ledger.write(Kind.BORN, self._life, 0, born_ns, os.getpid())
        descriptors = _descriptors()
        bus = busq.Bus.open(self._plan.bus)
        self._peer = self._join(bus)
        self._free_ns = time.monotonic_ns()
        self._note_starvation()
        self._ledger.write(Kind.JOINED, self._life, 0, self._free_ns, born_ns)
        self._poll = select.poll() if self._index % 3 == 2 else None
        if self._poll:
            self._poll.register(self._peer.fileno(), select.POLLIN)
        self._begin(bus)
        while self._obey():
            pass
        leaving_ns = self._mark(Phase.LEAVING)
        self._end()
        self._peer.close()
        bus.close()
        del self._peer, bus
        gc.collect()
        self._ledger.write(
            Kind.LEFT, self._life, leaving_ns, time.monotonic_ns(), descriptors, number=min(_descriptors(), 0xFFFF)
        )

    def _begin(self, bus: busq.Bus) -> None:
        """Do what comes before all else, once joined."""

    def _end(self) -> None:
        """Do what comes before leaving."""

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
                # All slots are kept by peers that are gone, until what they sent has been received.  Or the one that
                # puts in order what the last life left is stopped, or gets no processor: then we are to try again.
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.001)

    def _obey(self) -> bool:
        command = self._command[COMMAND]
        if command != self._words[Word.SEEN]:
            self._words[Word.SEEN] = command
        if command == Command.LEAVE:
            return False
        if command == Command.RUN:
            self._act()
            for _ in range(RECEIVES_MAX):
                if not self._receive(0):
                    break
            self._receive(self._dice.choice(RECEIVE_TIMEOUTS_S))
        else:
            self._rest()
            self._receive(DRAIN_TIMEOUT_S)
        if self._pending and (command == Command.DRAIN or self._dice.random() < 0.6 or self._is_pressed()):
            self._acknowledge()
        return True

    def _act(self) -> None:
        """Do something, or nothing, while kills go on."""
        if self._dice.random() < SEND_SHARE:
            self._send()

    def _rest(self) -> None:
        """Give back what would stay, when nothing new is to be done."""

    def _is_pressed(self) -> bool:
        return len(self._pending) >= PENDING_MAX

    # ---- sending ----

    def _send(self) -> None:
        dice = self._dice
        way = _draw(dice, WAYS)
        if way == "batch":
            batch = [self._make_up() for _ in range(dice.randint(2, BATCH_MAX))]
        else:
            batch = [self._make_up(1 if way == "ask" else None)]
        life, timeout_s = self._life, dice.choice(SEND_TIMEOUTS_S if way != "ask" else ASK_TIMEOUTS_S)
        now_ns = time.monotonic_ns()
        self._ledger.write_many(
            [
                (Kind.INTENT, 0, number, life, message, now_ns, sum(1 << index for index in to))
                for number, (message, to, _) in enumerate(batch)
            ]
        )
        letters = [([self._plan.address(index) for index in to], payload) for _, to, payload in batch]
        reason, is_replied = Reason.UNTRIED, False
        began_ns = self._mark(Phase.SENDING, timeout_s)
        try:
            if way == "batch":
                sent = self._peer.send_many(letters, timeout=timeout_s)
            else:
                is_replied = self._send_one(way, batch[0][0], *letters[0], timeout_s)
                sent = 1
        except (busq.Full, busq.PeerDead, busq.UnknownPeer) as error:
            reason = Reason.FULL if isinstance(error, busq.Full) else Reason.DEAD
            sent = getattr(error, "sent", 0)
        except busq.Empty:  # no reply came
            sent = 1
        ended_ns = self._mark(Phase.WORKING)
        self._note_starvation()
        results: list[Row] = []
        for number, (message, _, _) in enumerate(batch):
            if number < sent:
                kind, flags = Kind.SENT, int(is_replied)
            else:
                kind, flags = Kind.FAILED, reason if number == sent else Reason.UNTRIED
            results.append((kind, flags, number, life, message, ended_ns, began_ns))
        self._ledger.write_many(results)

    def _send_one(self, way: str, message: int, to: list[str], payload: bytes, timeout_s: float) -> bool:
        """Send in one of all the ways that there are; True if it was a request, and its reply came."""
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
            if reply.data != _answer(message):
                raise AssertionError(f"{reply!r} is not the one to message {message:#x}")
            return True
        else:
            self._peer.send(to, payload, timeout=timeout_s)
        return False

    def _make_up(self, fan_out: int | None = None) -> tuple[int, list[int], bytes]:
        """A message, its receivers and its payload."""
        dice = self._dice
        self._count += 1
        message = name_of(self._index, self._life, self._count)
        queues = sorted(set(queues_of(self._plan.modes)))
        if fan_out is None:
            fan_out = min(_draw(dice, FAN_OUTS), len(queues))
        return message, dice.sample(queues, fan_out), make_payload(message, _draw(dice, SIZES_BYTES), 0)

    # ---- receiving ----

    def _receive(self, timeout_s: float) -> int:
        """Take and record what is there, up to a few messages; return how many."""
        if self._is_pressed():
            return 0
        if self._poll and timeout_s:
            self._mark(Phase.WORKING, timeout_s)
            self._poll.poll(timeout_s * 1e3)
            timeout_s = 0
        limit = self._dice.randint(1, PENDING_MAX) if self._acks else self._dice.choice((1, 1, 4))
        options = {"ack": True} if self._acks else {}
        self._mark(Phase.RECEIVING, timeout_s, limit=limit)
        try:
            if limit == 1:
                messages = [self._peer.recv(timeout_s, **options)]
            else:
                messages = self._peer.recv_many(limit, timeout_s, **options)
        except busq.Empty:
            self._mark(Phase.WORKING)
            return 0
        now_ns = time.monotonic_ns()
        self._ledger.write_many([row for message in messages for row in self._delivered(message, now_ns)])
        self._free_ns = self._mark(Phase.WORKING)
        self._note_starvation()
        self._words[Word.DELIVERED] += len(messages)
        return len(messages)

    def _delivered(self, message: Any, now_ns: int) -> list[Row]:
        """The records of a delivery; whoever reads a damaged payload has something to tell."""
        name = self._name_in(message, _read(message))
        if self._acks:
            self._pending.append((name, message))
        with contextlib.suppress(ValueError, busq.Full, busq.PeerDead):  # most were not asked
            message.reply(_answer(name), timeout=0)
        return [(Kind.DELIVERED, int(message.redelivered), 0, self._life, name, now_ns, self._free_ns)]

    def _name_in(self, message: Any, parsed: tuple[int, int] | None) -> int:
        """Return the name of a message that its payload says, and its sender must have given it."""
        if parsed is None:
            raise AssertionError(f"{message!r} has a damaged payload")
        name = parsed[0]
        if sender_of(name) >= len(self._plan.names) or message.sender != self._plan.address(sender_of(name)):
            raise AssertionError(f"{message!r} was made by worker {sender_of(name)}")
        return name

    def _acknowledge(self) -> None:
        for name, message in self._pending:
            self._mark(Phase.ACKING, subject=name)
            message.ack()
            self._ledger.write(Kind.ACKED, self._life, name, time.monotonic_ns())
        self._mark(Phase.WORKING)
        self._pending.clear()


def _read(message: Any) -> tuple[int, int] | None:
    """The message and the time in what was received, object or not."""
    try:
        return read_payload(memoryview(message.object()))
    except ValueError:
        with message.view() as payload:
            return read_payload(payload)


def _answer(message: int) -> bytes:
    """The reply to a message: its name."""
    return message.to_bytes(8, "little")


def _draw(dice: random.Random, shares: Sequence[tuple[_Value, float]]) -> _Value:
    left = dice.random()
    for value, share in shares:
        left -= share
        if left < 0:
            return value
    return shares[-1][0]
