# SPDX-License-Identifier: Apache-2.0
"""The process of a soak that kills the workers, and starts them again.

The killer is a small process without threads that has imported what a worker needs and holds neither a bus nor a
peer.  Workers are forked from it, so that a new life costs about two milliseconds; each opens the bus for itself.
Being their parent, it alone reaps them: until it does, no other process can get a victim's pid.

Half of the kills strike at random times, half are aimed at a call of the bus: the killer waits until the victim
announces that it is about to send, receive or acknowledge, and strikes some microseconds later.  Stops likewise.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import heapq
import os
import random
import shutil
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from busq._util.patience import Patience
from busq._util.processes import die_with_parent, how_ended, open_words
from busq.trial.soak.ledger import Kind, Ledger, Phase
from busq.trial.soak.plan import COMMAND, FAULTS, KILLS, STOPS, Command, Plan, Word, ledger_path, words_of
from busq.trial.soak.worker import Worker

__all__ = ["kill_and_restart"]

HUNG_CHECK_S = 0.05
CATCH_UP_S = 0.1
STOP_S_MEAN = 0.03
AIM_NS_MAX = 1_500_000
AIMS = {
    "messages": (Phase.SENDING, Phase.SENDING, Phase.RECEIVING, Phase.ACKING),
    "members": (Phase.SENDING, Phase.RECEIVING, Phase.CHANGING, Phase.CHANGING, Phase.COMMANDING, Phase.ACKING),
}


class _Killer:
    """Forks, kills, stops and watches workers."""

    def __init__(self, plan: Plan, control: Connection[Any, Any], words: memoryview) -> None:
        self._plan = plan
        self._control = control
        self._words = words
        self._dice = random.Random(f"{plan.seed}/killer")
        self._pid = os.getpid()
        every = range(len(plan.names))
        self._victims = every[plan.survivors :]
        self._lives = [0 for _ in every]
        self._pids: list[int | None] = [None for _ in every]
        self._stopped: list[tuple[float, int, int]] = []  # when to continue which worker, in which life
        self._continued_ns = [0 for _ in every]
        self._patience = [Patience(plan.patience_s, excuses_work=False) for _ in every]
        self._killed_ns = [0 for _ in every]  # when SIGKILL was sent to one that is not reaped yet
        self._ledgers: list[Ledger] = []
        self._stacks = open(os.path.join(plan.directory, "stacks"), "w+")  # noqa: SIM115 - inherited by all workers
        faulthandler.register(signal.SIGUSR1, self._stacks, all_threads=True)
        self.faults: list[str] = []
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        """Play rounds until the conductor sends "end"; EOFError where it is gone without that."""
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
        for index in range(self._plan.survivors):
            self._fork(index)
        self._await_survivors()
        for index in self._victims:
            self._fork(index)

    def _await_survivors(self) -> None:
        """Wait until they have begun: what they keep alive, as the state of replicas, is there before any kill."""
        words = [words_of(self._words, index) for index in range(self._plan.survivors)]
        while any(own[Word.SEEN] != Command.RUN for own in words) and not self.faults and not self._control.poll():
            self._check_answers()
            self._wait(0.001)
            self._reap(is_restarting=False)

    def _fork(self, index: int) -> None:
        self._lives[index] += 1
        own = words_of(self._words, index)
        own[Word.SEEN] = 0
        own[Word.TIMEOUT_NS] = own[Word.LIMIT] = own[Word.SUBJECT] = 0
        own[Word.BEGAN_NS] = time.monotonic_ns()
        own[Word.PHASE] = Phase.STARTING
        pid = os.fork()
        if pid == 0:
            self._live(index)
        self._pids[index] = own[Word.PID] = pid

    def _live(self, index: int) -> None:
        """The child: never returns."""
        code = 3
        try:
            die_with_parent(self._pid)  # no other process would continue it where it is stopped
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            with contextlib.suppress(OSError):
                self._control.close()
            Worker(self._plan, index, self._lives[index], self._words).run()
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
        """Record which workers have ended, and start again those that were killed."""
        for index, pid in enumerate(self._pids):
            if pid is None:
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            self._pids[index] = None
            words_of(self._words, index)[Word.PID] = 0
            code = os.waitstatus_to_exitcode(status)
            if self._killed_ns[index] and code == -signal.SIGKILL:
                self._bury(index)
                if is_restarting:
                    self._fork(index)
            elif code or self._words[COMMAND] != Command.LEAVE:
                self._bury(index)
                name = f"{self._plan.names[index]} (life {self._lives[index]})"
                self._fault(f"{name} {how_ended(code)}{self._error_of(index)}")

    def _bury(self, index: int) -> None:
        """Record how the worker ended that has just been reaped: its words stand still."""
        own = words_of(self._words, index)
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
        """Sleep, but not longer than until a worker has ended."""
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
        aim, delay_ns = self._dice.choice(AIMS[self._plan.about]), self._dice.randrange(20_000)
        own, phase = words_of(self._words, index), int(Word.PHASE)
        end_ns = time.monotonic_ns() + AIM_NS_MAX
        while own[phase] == aim and time.monotonic_ns() < end_ns:
            pass  # it is in the middle of one: wait for the next
        while own[phase] != aim and time.monotonic_ns() < end_ns:
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
        """Continue the workers whose time has come; None: all."""
        while self._stopped and (now_s is None or self._stopped[0][0] <= now_s):
            _, index, life = heapq.heappop(self._stopped)
            pid = self._pids[index]
            if pid is not None and self._lives[index] == life and not self._killed_ns[index]:
                self._continued_ns[index] = time.monotonic_ns()
                # First, so that it stands before what the worker writes when it goes on.
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
            own = words_of(self._words, index)
            began_ns = max(own[Word.BEGAN_NS], self._continued_ns[index])
            is_late = now_ns - began_ns > own[Word.TIMEOUT_NS]
            if pid is None or not is_late or self._is_stopped(index) or self._killed_ns[index]:
                continue
            if self._patience[index].is_over((self._lives[index], began_ns), [pid]):
                self._report_hung(index, pid, (now_ns - began_ns) / 1e9)

    def _report_hung(self, index: int, pid: int, blocked_s: float) -> None:
        phase = Phase(words_of(self._words, index)[Word.PHASE])
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.1)
        self._stacks.seek(0)
        stack = self._stacks.read().strip() or "no Python stack: it does not come back from the call"
        kernel = "; ".join(f"{what}: {_proc(pid, what)}" for what in ("wchan", "syscall", "stack"))
        self._fault(
            f"{self._plan.names[index]} (pid {pid}, life {self._lives[index]}) hangs for {blocked_s:.1f} s while "
            f"{phase.name}: {kernel}; {stack}"
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
    # A Ctrl-C is the conductor's business; the end of a child is awaited.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT, signal.SIGCHLD})
    control: Connection[Any, Any] = Connection(int(control_fd))
    words = open_words(words_fd)
    plan: Plan = control.recv()
    try:
        _Killer(plan, control, words).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # The conductor has ended, and no other process is left to remove the bus.
        shutil.rmtree(plan.bus_directory, ignore_errors=True)
