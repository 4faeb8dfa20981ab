# SPDX-License-Identifier: Apache-2.0
"""The processes of a replay, and the bus that they share: started, watched, and removed however the replay ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

import busq
from busq._util.patience import Patience, state_of
from busq._util.processes import end, how_ended, shared_words, start, uninterrupted
from busq.lab.workload import Schedule
from busq.trial.host import COUNTERS, NATIVE, Counter, Part

__all__ = ["ENDINGS", "PATIENCE_S", "Crew", "Progress", "ReplayError", "own_bus"]

PATIENCE_S = 10.0  # in which nothing moves, though the processes could move it
START_S = 30.0  # the least for one that starts, or hands over what it wrote down: it may wait for a disk
GRACE_S = 3.0
TICK_S = 0.1

_HOST = "busq.trial.host:host"  # the program of a process

# By these a person or a system ends a command; whether they raise something is up to the caller.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Progress = Callable[[int, int], None]


class ReplayError(Exception):
    """A process of the replay died, failed or hangs; the text says which, and what it hosted.

    `messages` and `deliveries` are how many there had been by then.
    """

    def __init__(self, text: str, messages: int = 0, deliveries: int = 0) -> None:
        super().__init__(text)
        self.messages = messages
        self.deliveries = deliveries


@contextlib.contextmanager
def own_bus(name: str, order: str, sizes: dict[str, Any]) -> Iterator[tuple[busq.Bus, Crew]]:
    """Make a bus for the processes of one replay, and remove both at the end, whatever happens."""
    with contextlib.ExitStack() as cleanup:
        # A Ctrl-C waits until `cleanup` can clean up after it, and again until that has been done.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        cleanup.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        bus = busq.Bus.create(name, order=order, **sizes)
        crew = Crew()
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield bus, crew
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
            if crew.end():
                _bury(bus, order)
            bus.close()
            with contextlib.suppress(FileNotFoundError):
                busq.Bus.unlink(name)


def _bury(bus: busq.Bus, order: str) -> None:
    """Put the queues of killed peers in order, so that the files by which they could be woken are removed too."""
    if order != NATIVE:  # no other peer can join any more
        with contextlib.suppress(busq.BusqError):
            bus.repair()
        return
    with contextlib.suppress(busq.BusqError), bus.join(f"undertaker-{os.getpid()}") as undertaker:
        for facts in bus.stats()["peers"]:
            if not facts["alive"]:
                with contextlib.suppress(busq.BusqError):
                    undertaker.send(facts["name"], b"", timeout=0)


@dataclass
class _Process:
    """A process of the replay and the conductor's end of the connection with it."""

    number: int
    part: Part
    popen: subprocess.Popen[bytes]
    link: connection.Connection[Any, Any]


class Crew:
    """The conductor's connections with the processes of a replay."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []
        self._counters = memoryview(b"")

    def start(self, parts: Sequence[Part]) -> None:
        """Start a process for each part."""
        with shared_words(len(parts) * COUNTERS) as (fd, self._counters):
            for number, part in enumerate(parts):
                self._start_one(number, part, fd)
        for process in self._processes:
            self._send(process, process.part)

    def _start_one(self, number: int, part: Part, counters_fd: int) -> None:
        ours, theirs = connection.Pipe()
        with theirs:
            fds = theirs.fileno(), counters_fd
            with uninterrupted():
                popen = start(_HOST, *map(str, fds), str(number), part.bus, pass_fds=fds)
                self._processes.append(_Process(number, part, popen, ours))

    def _send(self, process: _Process, word: Any) -> None:
        try:
            process.link.send(word)
        except OSError:
            raise self._death(process) from None

    def send_all(self, word: Any) -> None:
        """Send a word to all processes."""
        for process in self._processes:
            self._send(process, word)

    def _hear(self, processes: Sequence[_Process], timeout_s: float) -> Iterator[tuple[_Process, Any]]:
        """Yield the words that come from these processes within the time; ReplayError if one has departed or failed."""
        by_link = {process.link: process for process in processes}
        for link in connection.wait(list(by_link), timeout_s):
            process = by_link[link]  # type: ignore[index]
            try:
                word = process.link.recv()
            except (EOFError, OSError):
                raise self._death(process) from None
            if isinstance(word, RuntimeError):
                raise self._failure(process, str(word))
            yield process, word

    def gather(self, expected: Any, patience_s: float, standstill: str | None = None) -> list[Any]:
        """Wait until all processes have sent the word, or something of the class; return what each sent.

        One that lives is waited for as long as it does something, or would if it had a processor; one that does nothing
        for `patience_s`, or is stuck in a standstill, is a ReplayError.
        """
        words: dict[int, Any] = {}
        patience_s = GRACE_S if standstill else max(patience_s, START_S)
        patience = Patience(patience_s)
        while len(words) < len(self._processes):
            silent = [process for process in self._processes if process.number not in words]
            for process, word in self._hear(silent, TICK_S):
                if word == expected or (isinstance(expected, type) and isinstance(word, expected)):
                    words[process.number] = word
            if patience.is_over(len(words), [process.popen.pid for process in silent]):
                state = state_of(silent[0].popen.pid)
                silence = f"{state}, and has neither answered nor done anything for {patience_s:g} s"
                stuck = f"{'is stuck in a call' if state == 'lives' else state}; {standstill}"
                raise self._error(silent[0], stuck if standstill else silence)
        return [words[process.number] for process in self._processes]

    def watch(self, schedule: Schedule, patience_s: float, progress: Progress | None) -> str | None:
        """Wait until all processes have finished; return what stands still if nothing moves for too long.

        Nothing is late where the next message is not due; and time in which a process wants a processor, and has none,
        does not count.
        """
        finished: set[int] = set()
        patience = Patience(patience_s)
        while len(finished) < len(self._processes):
            finished.update(process.number for process, _ in self._hear(self._processes, TICK_S))
            counts = self.total(Counter.SENT), self.total(Counter.DELIVERED)
            if progress is not None:
                progress(*counts)
            is_awaited = counts[0] == len(schedule) or bool(self.total(Counter.WAITING))
            busy = [process.popen.pid for process in self._processes if process.number not in finished]
            if patience.is_over((counts, is_awaited), busy) and is_awaited:
                sent, received = (f"{count:,}" for count in counts)
                return (
                    f"nothing moved for {patience_s:g} s: {sent} of {len(schedule):,} messages were sent and "
                    f"{received} of {schedule.copies:,} copies received"
                )
        return None

    def total(self, counter: int) -> int:
        """Add one counter up over all processes."""
        return sum(self._counters[counter::COUNTERS])

    # ---- faults ----

    def _error(self, process: _Process, what: str) -> ReplayError:
        hosted = [process.part.schedule.participants[index] for index in process.part.hosted]
        names = ", ".join(hosted[:3]) + (f" and {len(hosted) - 3} more" if len(hosted) > 3 else "")
        name = f"process {process.number + 1} of {len(self._processes)} (pid {process.popen.pid}, hosts {names})"
        return ReplayError(f"{name} {what}", self.total(Counter.SENT), self.total(Counter.DELIVERED))

    def _death(self, process: _Process) -> ReplayError:
        """The error for a process that has closed its end, so is dead or about to be."""
        try:
            code = process.popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return self._error(process, "has closed its connection")
        row = self._counters[process.number * COUNTERS : (process.number + 1) * COUNTERS]
        did = f"{row[Counter.SENT]:,} messages and receiving {row[Counter.DELIVERED]:,}"
        return self._error(process, f"{how_ended(code)} after sending {did}")

    def _failure(self, process: _Process, text: str) -> ReplayError:
        """The error for a process that reports one: if another was killed, that is the cause."""
        end_s = time.monotonic() + 0.5
        while time.monotonic() < end_s:
            for other in self._processes:
                if (other.popen.poll() or 0) < 0:
                    return self._death(other)
            time.sleep(0.02)
        return self._error(process, f"failed: {text}")

    def end(self) -> bool:
        """Let the processes go, and kill the others.  True if one was killed, here or elsewhere."""
        for process in self._processes:
            process.link.close()
        end([process.popen for process in self._processes], GRACE_S)
        return any((process.popen.returncode or 0) < 0 for process in self._processes)
