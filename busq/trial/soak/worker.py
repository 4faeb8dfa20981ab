# SPDX-License-Identifier: Apache-2.0
"""The processes of a soak: workers that talk over a bus until they are killed, and the one that kills them.

The killer is a small process without threads that has imported what a worker needs and holds neither a bus nor a
peer.  Workers are forked from it, so that a new life costs about two milliseconds; each opens the bus for itself.
Being their parent, it alone reaps them: until it does, no other process can get a victim's pid.

Half of the kills strike at random times, half are aimed at a call of the bus: the killer waits until the victim says
that it is about to send, receive or acknowledge, and strikes some microseconds later.  Stops likewise.

A worker writes down what it did in its ledger (`busq.soak.ledger`).  The shared words here serve only to watch and aim.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import heapq
import os
import pickle
import random
import select
import shutil
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import busq
from busq._processes import die_with_parent, how_ended, open_words
from busq.trial.host import make_payload, read_payload
from busq.trial.soak.ledger import Kind, Ledger, Phase, Reason, Row, name_of, sender_of

_Value = TypeVar("_Value")

__all__ = ["ACKNOWLEDGING", "Command", "Mode", "Plan", "Word", "kill_and_restart", "ledger_path", "queues_of"]


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
    SENT = 5
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

CALL_NS_MAX = 5_000_000_000  # how far a call may overrun its timeout before it counts as hung
STARVED_NS_MIN = 1_000_000
HUNG_CHECK_S = 0.05
CATCH_UP_S = 0.1
STOP_S_MEAN = 0.03
AIM_NS_MAX = 1_500_000
AIMS = (Phase.SENDING, Phase.SENDING, Phase.RECEIVING, Phase.ACKING)

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
        while self._obey():
            pass
        self._mark(Phase.LEAVING)
        self._peer.close()
        bus.close()
        del self._peer, bus
        gc.collect()
        self._ledger.write(
            Kind.LEFT, self._life, 0, time.monotonic_ns(), descriptors, number=min(_descriptors(), 0xFFFF)
        )

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
            if self._dice.random() < SEND_SHARE:
                self._send()
            for _ in range(RECEIVES_MAX):
                if not self._receive(0):
                    break
            self._receive(self._dice.choice(RECEIVE_TIMEOUTS_S))
        else:
            self._receive(DRAIN_TIMEOUT_S)
        if self._pending and (command == Command.DRAIN or self._dice.random() < 0.6 or self._is_pressed()):
            self._acknowledge()
        return True

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
        self._words[Word.SENT] += sent
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
        self._ledger.write_many([self._delivered(message, now_ns) for message in messages])
        self._free_ns = self._mark(Phase.WORKING)
        self._note_starvation()
        self._words[Word.DELIVERED] += len(messages)
        return len(messages)

    def _delivered(self, message: Any, now_ns: int) -> Row:
        """The record of a delivery; whoever reads a damaged payload has something to tell."""
        parsed = _read(message)
        if parsed is None:
            raise AssertionError(f"{message!r} has a damaged payload")
        name = parsed[0]
        if sender_of(name) >= len(self._plan.names) or message.sender != self._plan.address(sender_of(name)):
            raise AssertionError(f"{message!r} was made by worker {sender_of(name)}")
        if self._acks:
            self._pending.append((name, message))
        with contextlib.suppress(ValueError, busq.Full, busq.PeerDead):  # most were not asked
            message.reply(_answer(name), timeout=0)
        return (Kind.DELIVERED, int(message.redelivered), 0, self._life, name, now_ns, self._free_ns)

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


# ---- the killer ----


class _Killer:
    """Forks, kills, stops and watches workers."""

    def __init__(self, plan: Plan, control: Connection[Any, Any], words: memoryview) -> None:
        self._plan = plan
        self._control = control
        self._words = words
        self._dice = random.Random(f"{plan.seed}/killer")
        self._pid = os.getpid()
        everybody = range(len(plan.names))
        self._victims = everybody[plan.survivors :]
        self._lives = [0 for _ in everybody]
        self._pids: list[int | None] = [None for _ in everybody]
        self._stopped: list[tuple[float, int, int]] = []  # when to continue whom, in which life
        self._continued_ns = [0 for _ in everybody]
        self._killed_ns = [0 for _ in everybody]  # when SIGKILL was sent to one that is not reaped yet
        self._ledgers: list[Ledger] = []
        self._stacks = open(os.path.join(plan.directory, "stacks"), "w+")  # noqa: SIM115 - inherited by all workers
        faulthandler.register(signal.SIGUSR1, self._stacks, all_threads=True)
        self.faults: list[str] = []
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        """Play rounds until the conductor says "end"; EOFError where it is gone without a word."""
        try:
            while (word := self._control.recv()) != "end":
                kills, end_s = word
                self._begin_round()
                self._kill_for(kills, end_s)
                self._control.send("ran")
                self._watch_until_all_left()
                self._control.send(("left", self.faults))
        finally:
            self._end_all()

    # ---- lives ----

    def _begin_round(self) -> None:
        for ledger in self._ledgers:
            ledger.close()
        self._ledgers = [Ledger(ledger_path(self._plan, index)) for index in range(len(self._plan.names))]
        for index in range(len(self._plan.names)):
            self._fork(index)

    def _fork(self, index: int) -> None:
        self._lives[index] += 1
        own = self._words[(1 + index) * WORDS : (2 + index) * WORDS]
        own[Word.SEEN] = 0
        own[Word.TIMEOUT_NS] = own[Word.LIMIT] = own[Word.SUBJECT] = 0
        own[Word.BEGAN_NS] = time.monotonic_ns()
        own[Word.PHASE] = Phase.STARTING
        pid = os.fork()
        if pid == 0:
            self._live(index)
        self._pids[index] = pid

    def _live(self, index: int) -> None:
        """The child: never returns."""
        code = 3
        try:
            die_with_parent(self._pid)  # nobody else would be left to continue it where it is stopped
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            with contextlib.suppress(OSError):
                self._control.close()
            _Worker(self._plan, index, self._lives[index], self._words).run()
            code = 0
        except BaseException:
            with open(os.path.join(self._plan.directory, f"{self._plan.names[index]}.error"), "a") as file:
                file.write(traceback.format_exc())
        finally:
            os._exit(code)

    def _kill(self, index: int) -> None:
        pid = self._pids[index]
        assert pid is not None
        self._killed_ns[index] = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)

    def _reap(self, *, is_restarting: bool) -> None:
        """Write down who has ended, and start those again who were killed."""
        for index, pid in enumerate(self._pids):
            if pid is None:
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            self._pids[index] = None
            code = os.waitstatus_to_exitcode(status)
            if self._killed_ns[index] and code == -signal.SIGKILL:
                self._bury(index)
                if is_restarting:
                    self._fork(index)
            elif code or self._words[COMMAND] != Command.LEAVE:
                self._bury(index)
                who = f"{self._plan.names[index]} (life {self._lives[index]})"
                self._fault(f"{who} {how_ended(code)}{self._error_of(index)}")

    def _bury(self, index: int) -> None:
        """Write down how the one ended who has just been reaped: its words stand still."""
        own = self._words[(1 + index) * WORDS : (2 + index) * WORDS]
        self._ledgers[index].write(
            Kind.DIED,
            self._lives[index],
            own[Word.SUBJECT],
            time.monotonic_ns(),
            self._killed_ns[index],
            flags=own[Word.PHASE],
            number=own[Word.LIMIT],
        )
        self._killed_ns[index] = 0

    # ---- killing ----

    def _kill_for(self, kills: int, end_s: float) -> None:
        """Kill so many, or until that time."""
        next_kill_s = self._after(self._plan.kills_per_s)
        next_stop_s = self._after(self._plan.stops_per_s)
        next_check_s = 0.0
        while kills and time.monotonic() < end_s and not self.faults and not self._control.poll():
            now_s = time.monotonic()
            if now_s >= next_kill_s and self._strike():
                kills -= 1
                # After a delay it makes up for some of what it has missed.
                next_kill_s = max(next_kill_s + self._dice.expovariate(self._plan.kills_per_s), now_s - CATCH_UP_S)
            if now_s >= next_stop_s:
                self._stop()
                next_stop_s = self._after(self._plan.stops_per_s)
            if now_s >= next_check_s:
                self._check_answers()
                next_check_s = now_s + HUNG_CHECK_S
            self._continue(now_s)
            due_s = min(next_kill_s, next_stop_s, next_check_s, self._stopped[0][0] if self._stopped else end_s)
            self._wait(max(due_s - time.monotonic(), 0.0005 if due_s == next_kill_s < now_s else 0.0))
            self._reap(is_restarting=True)
        self._continue(None)
        while any(self._killed_ns):
            self._wait(HUNG_CHECK_S)
            self._reap(is_restarting=True)

    def _wait(self, timeout_s: float) -> None:
        """Sleep, but not longer than until somebody has ended."""
        signal.sigtimedwait({signal.SIGCHLD}, max(0.0, timeout_s))

    def _after(self, rate_per_s: float) -> float:
        return time.monotonic() + self._dice.expovariate(rate_per_s) if rate_per_s else float("inf")

    def _strike(self) -> bool:
        """Kill one; False where all are dying already."""
        alive = [index for index in self._victims if self._pids[index] is not None and not self._killed_ns[index]]
        if not alive:
            return False
        index = self._dice.choice(alive)
        self._aim(index)
        self._kill(index)
        self._words[KILLS] += 1
        return True

    def _aim(self, index: int) -> None:
        """Every other time, wait until the victim enters a call, and a little longer."""
        if self._dice.random() < 0.5:
            return
        aim, delay_ns = self._dice.choice(AIMS), self._dice.randrange(20_000)
        own = self._words[(1 + index) * WORDS : (2 + index) * WORDS]
        end_ns = time.monotonic_ns() + AIM_NS_MAX
        while own[Word.PHASE] == aim and time.monotonic_ns() < end_ns:
            pass  # it is in the middle of one: wait for the next
        while own[Word.PHASE] != aim and time.monotonic_ns() < end_ns:
            pass
        end_ns = time.monotonic_ns() + delay_ns
        while time.monotonic_ns() < end_ns:
            pass

    def _stop(self) -> None:
        index = self._dice.choice(self._victims)
        pid = self._pids[index]
        if pid is None or self._killed_ns[index] or self._is_stopped(index):
            return
        self._aim(index)
        self._ledgers[index].write(Kind.STOPPED, self._lives[index], 0, time.monotonic_ns())
        os.kill(pid, signal.SIGSTOP)
        until_s = time.monotonic() + min(self._dice.expovariate(1 / STOP_S_MEAN), 10 * STOP_S_MEAN)
        heapq.heappush(self._stopped, (until_s, index, self._lives[index]))
        self._words[STOPS] += 1

    def _is_stopped(self, index: int) -> bool:
        return any((index, self._lives[index]) == (other, life) for _, other, life in self._stopped)

    def _continue(self, now_s: float | None) -> None:
        """Continue those whose time has come; None: all."""
        while self._stopped and (now_s is None or self._stopped[0][0] <= now_s):
            _, index, life = heapq.heappop(self._stopped)
            pid = self._pids[index]
            if pid is not None and self._lives[index] == life and not self._killed_ns[index]:
                self._continued_ns[index] = time.monotonic_ns()
                # First, so that it stands before whatever the worker writes when it goes on.
                self._ledgers[index].write(Kind.CONTINUED, life, 0, self._continued_ns[index])
                os.kill(pid, signal.SIGCONT)

    # ---- watching ----

    def _watch_until_all_left(self) -> None:
        while any(pid is not None for pid in self._pids) and not self._control.poll():
            self._check_answers()
            self._wait(HUNG_CHECK_S)
            self._reap(is_restarting=False)

    def _check_answers(self) -> None:
        now_ns = time.monotonic_ns()
        for index, pid in enumerate(self._pids):
            own = self._words[(1 + index) * WORDS : (2 + index) * WORDS]
            began_ns = max(own[Word.BEGAN_NS], self._continued_ns[index])
            is_late = now_ns - began_ns > own[Word.TIMEOUT_NS] + CALL_NS_MAX
            if pid is not None and is_late and not self._is_stopped(index) and not self._killed_ns[index]:
                self._report_hung(index, pid, (now_ns - began_ns) / 1e9)

    def _report_hung(self, index: int, pid: int, blocked_s: float) -> None:
        phase = self._words[(1 + index) * WORDS + Word.PHASE]
        phase_name = next(name for name, value in vars(Phase).items() if value == phase)
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.1)
        self._stacks.seek(0)
        stack = self._stacks.read().strip() or "no Python stack: it does not come back from the call"
        kernel = "; ".join(f"{what}: {_proc(pid, what)}" for what in ("wchan", "syscall", "stack"))
        self._fault(
            f"{self._plan.names[index]} (pid {pid}, life {self._lives[index]}) hangs for {blocked_s:.1f} s while "
            f"{phase_name}: {kernel}; {stack}"
        )
        self._kill(index)

    def _fault(self, text: str) -> None:
        self.faults.append(text)
        self._words[FAULTS] = len(self.faults)

    def _error_of(self, index: int) -> str:
        try:
            with open(os.path.join(self._plan.directory, f"{self._plan.names[index]}.error")) as file:
                return ": " + file.read().strip().splitlines()[-1]
        except (OSError, IndexError):
            return ""

    def _end_all(self) -> None:
        for index, pid in enumerate(self._pids):
            if pid is not None:
                self._kill(index)
                os.waitpid(pid, 0)
                self._pids[index] = None


def _proc(pid: int, what: str) -> str:
    try:
        with open(f"/proc/{pid}/{what}") as file:
            return " ".join(file.read().split()) or "-"
    except OSError as error:
        return error.strerror or "?"


def kill_and_restart(control_fd: str, words_fd: str) -> None:
    """Run as the killer of a soak, with the descriptors of a connection and of the shared words."""
    # A Ctrl-C is the conductor's business; for the end of a child we wait.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT, signal.SIGCHLD})
    control: Connection[Any, Any] = Connection(int(control_fd))
    words = open_words(words_fd)
    plan: Plan = control.recv()
    try:
        _Killer(plan, control, words).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # The process that started us has ended, and nobody else is left to remove the bus.
        shutil.rmtree(plan.bus_directory, ignore_errors=True)
