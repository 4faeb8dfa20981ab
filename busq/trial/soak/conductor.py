# SPDX-License-Identifier: Apache-2.0
"""Kills processes that talk over a bus, at random, again and again, and compares their ledgers.

A soak runs in rounds on one bus.  In each, workers send and receive while the killer (`killer`) strikes;
then all drain their queues and leave in good order, memory and descriptors are counted, and the ledgers
(`ledger`), which lie outside the shared memory, are judged (`judge`).  The first round with a fault is the last.

The conductor, the process that calls `run`, takes no part: it holds the bus, but no peer while workers live.  Nothing
is left behind: bus, ledgers and processes are removed when `run` ends, however it ends; only the ledgers of a round
with a fault are kept, and named.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

import busq
from busq._port.directory import default_directory
from busq._util.patience import Patience
from busq._util.processes import end, how_ended, shared_words, start, uninterrupted
from busq.lab.observers import Verdict
from busq.trial.crew import ENDINGS
from busq.trial.soak.judge import Findings, judge, read_worker
from busq.trial.soak.ledger import PEOPLE, read
from busq.trial.soak.plan import (
    COMMAND,
    FAULTS,
    KILLS,
    STOPS,
    WORDS,
    Command,
    Mode,
    Plan,
    Word,
    ledger_path,
    queues_of,
    words_of,
)

__all__ = ["MODES", "Outcome", "SoakError", "run"]

MODES = (
    *(Mode.PLAIN, Mode.DURABLE, Mode.SHARED, Mode.RESUME, Mode.ACK),
    *(Mode.PLAIN, Mode.SHARED, Mode.SHARED),
)
MEMBER_MODES = (Mode.PLAIN, Mode.DURABLE, Mode.PLAIN, Mode.ACK, Mode.PLAIN, Mode.RESUME, Mode.PLAIN, Mode.ACK)
ABOUT = {"messages": MODES, "members": MEMBER_MODES}
SURVIVORS = {"messages": 1, "members": 2}
# For several lives, and for the replies to what each has asked, or its replicas.
SLOTS_PER_WORKER = {"messages": 8, "members": 16}
CAPACITY = {"messages": 256, "members": 2048}
NODES = 16
ARENA_BYTES = 32 << 20
ROUND_KILLS = 2000
ROUND_S = 30.0
PATIENCE_S = 10.0
# After so long without a delivery, of time in which workers could have had one, all has come; a death is noticed after
# 50 ms.
QUIET_S = {"messages": 0.1, "members": 0.5}
TICK_S = 0.02
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "max": 100.0}

_KILLER = "busq.trial.soak.killer:kill_and_restart"

Progress = Callable[[int, int], None]


class SoakError(Exception):
    """The soak itself failed: the process that kills is gone, or does not answer."""


@dataclass
class Outcome:
    """The outcome of a soak: what it was and what it found."""

    seed: int
    names: tuple[str, ...]
    modes: tuple[str, ...]
    kills_per_s: float
    stops_per_s: float
    about: str = "messages"
    seconds: float = 0.0
    rounds: int = 0
    kills: int = 0
    stops: int = 0
    found: Findings = field(default_factory=Findings)  # in the ledgers
    arena_baseline_bytes: int = 0
    arena_after_bytes: int = 0
    descriptors_baseline: int = 0
    descriptors_after: int = 0
    leftovers: tuple[str, ...] = ()
    ledgers: str | None = None  # where they were kept, if they were

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The findings by property; the first round that finds a fault is the last."""
        return self.found.verdicts

    @property
    def ok(self) -> bool:
        """Everything that is promised holds."""
        return self.rounds > 0 and all(verdict.ok for verdict in self.verdicts.values())

    @property
    def longest_block_ns(self) -> int:
        """The longest wait for a message that was there, or in a call."""
        found = self.found
        return max(found.waits.longest_ns, found.sends_ns_max, found.joins_ns_max, found.changes_ns_max)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as one object, units in the keys."""
        waits_ns = {name: self.found.waits.percentile(share) for name, share in PERCENTILES.items()}
        blocked_ms = {
            f"blocked_ms_{name}": None if time_ns is None else time_ns / 1e6 for name, time_ns in waits_ns.items()
        }
        return {
            "ok": self.ok,
            "about": self.about,
            **self.found.as_json(),
            **{name: getattr(self, name) for name in ("seed", "seconds", "rounds", "kills", "stops")},
            "workers": dict(zip(self.names, self.modes, strict=True)),
            "kill_rate_per_s": self.kills_per_s,
            "stop_rate_per_s": self.stops_per_s,
            "kills_per_s": self.kills / self.seconds if self.seconds else None,
            "longest_block_ms": self.longest_block_ns / 1e6,
            **blocked_ms,
            "longest_send_ms": self.found.sends_ns_max / 1e6,
            "longest_join_ms": self.found.joins_ns_max / 1e6,
            "longest_without_processor_ms": self.found.starved_ns_max / 1e6,
            **{name: getattr(self, name) for name in ("arena_baseline_bytes", "arena_after_bytes")},
            **{name: getattr(self, name) for name in ("descriptors_baseline", "descriptors_after")},
            "leftovers": list(self.leftovers),
            "ledgers": self.ledgers,
            "verdicts": {
                name: {"ok": verdict.ok, "count": verdict.count, "claimed": True, "text": verdict.text}
                for name, verdict in self.verdicts.items()
            },
        }

    def verdict(self, name: str, faults: Sequence[str], holds: str, count: int | None = None) -> None:
        """Add a verdict of the conductor: the faults in words, or what holds."""
        text = "; ".join(faults[:3]) if faults else holds
        self.verdicts[name] = Verdict(not faults, len(faults) if count is None else count, None, text)


def run(
    *,
    seconds: float | None = 60.0,
    kills: int | None = None,
    kills_per_s: float = 100.0,
    stops_per_s: float = 0.0,
    seed: int | None = None,
    workers: int = 8,
    about: str = "messages",
    modes: Sequence[str] | None = None,
    ledgers: str | os.PathLike[str] | None = None,
    patience_s: float = PATIENCE_S,
    progress: Progress | None = None,
) -> Outcome:
    """Soak a new bus, and judge.

    Parameters: `seconds` and `kills`, whichever is reached first ends it (None: no limit, but not for both);
    `kills_per_s` and `stops_per_s`, mean rates (0 for no stops); `seed` of all random choices, but not of the
    interleaving (None: a new one); `workers`, 3 to 16, of which one is never killed; `about`, what they do: send
    "messages" in all ways, or be "members" of groups, watch each other, own nodes, hand on handles and join replicas (3
    to 15 of them, of which two are never killed); `modes`, how they join and receive, over and over (None: all that
    there are); `ledgers`, a directory to keep them in (None: only where there was a fault); `patience_s`, how far calls
    may overrun their timeouts, and how long queues may stand still in the end, without time in which a process wants a
    processor and has none; `progress`, called now and then with the seconds that have passed and the kills.

    Errors: SoakError, ValueError, OSError, NoSpace.  Cost: about 1 s to begin and end; both processors.

    >>> outcome = run(kills=20, seed=1)
    >>> outcome.kills, outcome.verdicts["duplicated"].count
    (20, 0)
    """
    _check_arguments(seconds, kills, kills_per_s, stops_per_s, workers, about)
    if not patience_s > 0:
        raise ValueError(f"patience_s={patience_s}: expected more than 0")
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    over = ABOUT[about] if modes is None else modes
    chosen = tuple(Mode(over[index % len(over)]) for index in range(workers))
    outcome = Outcome(seed, PEOPLE[:workers], chosen, kills_per_s, stops_per_s, about, found=Findings(about))
    with _Stage(outcome, ledgers, patience_s) as stage:
        stage.soak(math.inf if seconds is None else seconds, math.inf if kills is None else kills, progress)
    if outcome.verdicts["hung"].ok:  # otherwise workers were ended by force, and could not tidy up
        _judge_remains(outcome)
    return outcome


def _judge_remains(outcome: Outcome) -> None:
    left = [f"{name} was left" for name in outcome.leftovers]
    outcome.verdict("files", left, "no file was left in the directory of the bus")
    before, after = outcome.descriptors_baseline, outcome.descriptors_after
    if outcome.verdicts["descriptors"].ok and after > before:
        outcome.verdict("descriptors", [f"the conductor had {before} descriptors before and {after} after"], "")


def _check_arguments(
    seconds: float | None, kills: int | None, kills_per_s: float, stops_per_s: float, workers: int, about: str
) -> None:
    if about not in ABOUT:
        raise ValueError(f"about={about!r}: expected one of {', '.join(map(repr, ABOUT))}")
    if seconds is None and kills is None:
        raise ValueError("seconds=None, kills=None: expected a limit for one of them")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"seconds={seconds}: expected more than 0")
    if kills is not None and kills < 1:
        raise ValueError(f"kills={kills}: expected 1 or more")
    if not 0 < kills_per_s <= 10_000 or not 0 <= stops_per_s <= 10_000:
        rates = f"kills_per_s={kills_per_s}, stops_per_s={stops_per_s}"
        raise ValueError(f"{rates}: expected up to 10,000, and more than 0 kills")
    most = len(PEOPLE) - (about == "members")
    if not 3 <= workers <= most:
        raise ValueError(f"workers={workers}: expected 3 to {most}")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class _Stage:
    """The things that exist while a soak runs: a directory of its own with the bus, ledgers, the killer."""

    def __init__(self, outcome: Outcome, ledgers: str | os.PathLike[str] | None, patience_s: float) -> None:
        self._outcome, self._patience_s = outcome, patience_s
        self._kept = os.fspath(ledgers) if ledgers is not None else None
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> _Stage:
        with contextlib.ExitStack() as cleanup:
            # A Ctrl-C waits until `cleanup` can clean up after it, and again until that has been done.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
            cleanup.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            self._before = before
            self._outcome.descriptors_baseline = _descriptors()
            self._ledgers = self._kept or tempfile.mkdtemp(prefix="busq-soak-")
            os.makedirs(self._ledgers, exist_ok=True)
            cleanup.callback(self._drop_ledgers)
            # A directory of its own, so that any file left in it was left by the soak.
            self._directory = tempfile.mkdtemp(prefix=".soak-", dir=default_directory())
            cleanup.callback(shutil.rmtree, self._directory, ignore_errors=True)
            cleanup.callback(self._count_leftovers)
            cleanup.enter_context(_environment("BUSQ_DIR", self._directory))
            self._bus = self._make_bus()
            cleanup.callback(_remove, self._bus)
            self._outcome.arena_baseline_bytes = self._bus.stats()["arena_used_bytes"]
            self._crew = _Crew(self._plan())
            cleanup.callback(self._crew.end)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        self._cleanup.close()

    def _make_bus(self) -> busq.Bus:
        about = self._outcome.about
        slots = SLOTS_PER_WORKER[about] * len(self._outcome.names)
        nodes = NODES if about == "members" else None
        return busq.Bus.create("soak", peers=slots, capacity=CAPACITY[about], arena=ARENA_BYTES, nodes=nodes)

    def _plan(self) -> Plan:
        outcome = self._outcome
        return Plan(
            bus="soak",
            names=outcome.names,
            modes=outcome.modes,
            survivors=SURVIVORS[outcome.about],
            seed=outcome.seed,
            kills_per_s=outcome.kills_per_s,
            stops_per_s=outcome.stops_per_s,
            directory=self._ledgers,
            bus_directory=self._directory,
            about=outcome.about,
            patience_s=self._patience_s,
        )

    # ---- rounds ----

    def soak(self, seconds: float, kills: float, progress: Progress | None) -> None:
        """Play rounds until time or kills are used up, or a round finds something wrong."""
        outcome = self._outcome
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
        begin_s = time.monotonic()
        while outcome.kills < kills and outcome.seconds < seconds and (outcome.ok or not outcome.rounds):
            left_s = seconds - (time.monotonic() - begin_s)
            self._play(int(min(ROUND_KILLS, kills - outcome.kills)), min(ROUND_S, left_s), begin_s, progress)
            outcome.seconds = time.monotonic() - begin_s
        outcome.arena_after_bytes = self._bus.stats()["arena_used_bytes"]

    def _play(self, kills: int, seconds: float, begin_s: float, progress: Progress | None) -> None:
        outcome, crew = self._outcome, self._crew
        crew.play(kills, seconds, lambda: _report(progress, begin_s, crew))
        faults = crew.drain(self._bus)
        faults += crew.leave()
        outcome.kills, outcome.stops = crew.words[KILLS], crew.words[STOPS]
        outcome.verdict("hung", faults, "every worker answered, and ended only by a kill or on command")
        if not faults:
            self._judge()
        else:
            outcome.rounds += 1

    def _judge(self) -> None:
        outcome = self._outcome
        paths = [ledger_path(self._plan(), index) for index in range(len(outcome.names))]
        each = zip(outcome.names, outcome.modes, paths, queues_of(outcome.modes), strict=True)
        workers = [
            read_worker(index, name, mode, read(path), queue) for index, (name, mode, path, queue) in enumerate(each)
        ]
        outcome.rounds += 1
        outcome.found.add(judge(workers, outcome.about))
        leaks = [
            f"{worker.name} had {before} descriptors before it joined and {after} after it left"
            for worker in workers
            for before, after in worker.descriptors
            if after > before
        ]
        outcome.verdict("descriptors", leaks, "every worker that left had as many descriptors as before it joined")
        if outcome.about == "members":
            self._remove_all()  # a close sends notices to peers that have received for the last time
        self._bus.collect()
        used, baseline = self._bus.stats()["arena_used_bytes"], outcome.arena_baseline_bytes
        leak = [f"{used} bytes are in use without a peer; before the soak it was {baseline}"] * (used > baseline)
        holds = "when all had left, no more memory was in use than before"
        outcome.verdict("memory", leak, holds, max(0, used - baseline))
        if outcome.about == "members":
            self._judge_tables()
        if outcome.ok:
            for path in paths:
                if self._kept is None:
                    os.unlink(path)
                else:
                    os.replace(path, f"{path}.{outcome.rounds}")

    def _remove_all(self) -> None:
        for facts in self._bus.stats()["peers"]:
            with contextlib.suppress(busq.UnknownPeer):
                self._bus.remove(facts["name"])

    def _judge_tables(self) -> None:
        """When all have left, groups have no members, and peers no messages and no memory."""
        groups = {name: view.members for name, view in self._bus.groups().items() if view.members}
        faults = [f"@{name} has the members {', '.join(members)}" for name, members in groups.items()]
        faults += [
            f"{facts['name']} is {facts['state']} and has {facts['depth']} messages, {facts['memory_bytes']} bytes"
            for facts in self._bus.stats()["peers"]  # also those that are gone, and not out of the way
            if facts["state"] not in ("closed", "dead") or facts["depth"] or facts["memory_bytes"]
        ]
        self._outcome.verdict("tables", faults, "when all had left, no group had members, and no peer had anything")

    def _drop_ledgers(self) -> None:
        if self._kept is not None or (self._outcome.rounds and not self._outcome.ok):
            self._outcome.ledgers = self._ledgers
        else:
            shutil.rmtree(self._ledgers, ignore_errors=True)

    def _count_leftovers(self) -> None:
        self._outcome.leftovers = tuple(sorted(os.listdir(self._directory)))
        self._outcome.descriptors_after = _descriptors()


def _report(progress: Progress | None, begin_s: float, crew: _Crew) -> None:
    if progress is not None:
        progress(int(time.monotonic() - begin_s), crew.words[KILLS])


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    former = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if former is None:
            del os.environ[name]
        else:
            os.environ[name] = former


def _remove(bus: busq.Bus) -> None:
    name = bus.name
    bus.close()
    with contextlib.suppress(FileNotFoundError):
        busq.Bus.unlink(name)


def _left(bus: busq.Bus, facts: dict[str, Any]) -> int:
    """Return how many messages are left to a peer; of a shared queue, also what its readers have, dead ones too.

    Replies that came too late are not counted: the next request drops them.
    """
    if "/" in facts["name"]:
        return 0
    if facts["consumers"] is None:
        return int(facts["depth"])
    counted = bus._raw().count(facts["incarnation"] << 16 | facts["slot"])
    return int(counted[1]) if counted is not None else 0


# ---- the killer and the workers ----


class _Crew:
    """The conductor's end of the connection with the killer, and the words that all share."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        ours, theirs = connection.Pipe()
        with theirs, shared_words((1 + len(plan.names)) * WORDS) as (fd, self.words), uninterrupted():
            fds = theirs.fileno(), fd
            self._popen = start(_KILLER, *map(str, fds), pass_fds=fds)
        self._link = ours
        self._order(plan)

    def _order(self, word: Any) -> None:
        try:
            self._link.send(word)
        except OSError:
            raise self._death() from None

    def _hear(self, timeout_s: float) -> Any:
        """Return the killer's answer within the time, or None."""
        try:
            return self._link.recv() if self._link.poll(timeout_s) else None
        except (EOFError, OSError):
            raise self._death() from None

    def _death(self) -> SoakError:
        try:
            code = self._popen.wait(1)
        except subprocess.TimeoutExpired:
            return SoakError(f"the killer (pid {self._popen.pid}) has closed its connection")
        return SoakError(f"the killer (pid {self._popen.pid}) {how_ended(code)}")

    def play(self, kills: int, seconds: float, report: Callable[[], None]) -> None:
        """Let workers live and die for that long."""
        self.words[COMMAND] = Command.RUN
        self._order((kills, time.monotonic() + seconds))
        self._answer(report)

    def _answer(self, report: Callable[[], None]) -> Any:
        """Wait for the killer, which itself notices what hangs, as long as it lives."""
        while (answer := self._hear(TICK_S)) is None:
            report()
        return answer

    def drain(self, bus: busq.Bus) -> list[str]:
        """Let the workers receive what is there; return what stays."""
        self.words[COMMAND] = Command.DRAIN
        own = [words_of(self.words, index) for index in range(len(self._plan.names))]
        quiet, patience = Patience(QUIET_S[self._plan.about]), Patience(self._plan.patience_s)
        while True:
            progress = [(words[Word.DELIVERED], words[Word.SEEN]) for words in own]
            pids = [words[Word.PID] for words in own if words[Word.PID]]
            is_quiet = quiet.is_over(progress, pids) and all(words[Word.SEEN] == Command.DRAIN for words in own)
            depths = {facts["name"]: _left(bus, facts) for facts in bus.stats()["peers"] if facts["alive"]}
            if self.words[FAULTS] or (is_quiet and not any(depths.values())):
                return []
            if patience.is_over(progress, pids):
                stuck = ", ".join(f"{name} ({depth})" for name, depth in depths.items() if depth)
                return [f"nothing moved for {self._plan.patience_s:g} s, and queues are not empty: {stuck}"]
            time.sleep(TICK_S)

    def leave(self) -> list[str]:
        """Let all workers leave; return the faults that the killer noted."""
        self.words[COMMAND] = Command.LEAVE
        faults: list[str] = self._answer(lambda: None)[1]
        return faults

    def end(self) -> None:
        """Let the killer go, and with it all workers."""
        with contextlib.suppress(OSError):
            self._link.send("end")
        end([self._popen], 5)
        self._link.close()  # not before: the killer would take the conductor for dead, and tidy up in its place
        memory: Any = self.words.obj
        self.words.release()
        memory.close()
