# SPDX-License-Identifier: Apache-2.0
"""The promises about replicas: alike at every position; and what a dict, a counter and a lock return holds."""

from __future__ import annotations

import itertools
from collections import Counter

from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.findings import Findings
from busq.trial.soak.judge.reading import NEVER_NS
from busq.trial.soak.ledger import REPLICAS, WHOLE, Kind, describe

__all__ = ["judge_replicas"]

_DICT, _COUNTER = REPLICAS.index("dict"), REPLICAS.index("counter")


def judge_replicas(case: Case, findings: Findings) -> None:
    """Judge all that is promised about replicas."""
    _judge_states(case)
    _judge_counter(case)
    _judge_dict(case)
    _judge_missing_keys(case)
    _judge_lock(case, findings)
    findings.counts["applied"] = sum(len(worker.of(Kind.APPLIED)) for worker in case.workers)
    findings.counts["replicas"] = sum(len(worker.of(Kind.JOINED_REPLICA)) for worker in case.workers)


def _judge_states(case: Case) -> None:
    """Replicas at the same position have the same state, and each goes through all positions."""
    states: dict[tuple[int, int], tuple[int, str]] = {}
    for worker in case.workers:
        last: dict[tuple[int, int], int] = {}  # by life and replica: the position
        for note in worker.of(Kind.APPLIED):
            name, position = REPLICAS[note.flags], note.message
            state, other = states.setdefault((note.flags, position), (note.extra, worker.name))
            if state != note.extra:
                text = f"{name} at {position}: {worker.name} (life {note.life}) has another state than {other}"
                case.fault("replicas", text)
            before = last.get((note.life, note.flags), position - 1)
            if position != before + 1:
                case.fault("replicas", f"{name}: {worker.name} (life {note.life}) went from {before} to {position}")
            last[note.life, note.flags] = position


def _judge_counter(case: Case) -> None:
    """The counter returns each value once, and in the end has counted all calls that returned."""
    results = Counter(note.message for worker in case.workers for note in worker.of(Kind.ADDED))
    for result, count in results.items():
        if count > 1:
            case.fault("replicas", f"the counter returned {result} to {count} calls")
    begun = sum(len(worker.of(Kind.ADDING)) for worker in case.workers)
    for worker in case.workers:
        for note in worker.of(Kind.READ):
            if note.flags == _COUNTER and not results.total() <= note.message <= begun:
                text = f"the counter is {note.message} at {worker.name}"
                case.fault("replicas", f"{text}, after {results.total()} calls that returned, of {begun}")


def _judge_dict(case: Case) -> None:
    """All readers read the same in the end: the last value put under a key, or one whose call was interrupted."""
    read: dict[int, tuple[int, str]] = {}
    for worker in case.workers:
        for note in worker.of(Kind.READ):
            if note.flags == _DICT and note.number != WHOLE:
                value, other = read.setdefault(note.number, (note.message, worker.name))
                if value != note.message:
                    key = case.workers[note.number].name
                    case.fault("replicas", f"the dict has one value of {key} at {worker.name}, and one at {other}")
    for index, (value, _) in read.items():
        writer = case.workers[index]
        puts = [note.message for note in writer.of(Kind.PUT)]
        interrupted = {note.message for note in writer.of(Kind.PUTTING)} - set(puts)
        if value not in interrupted | set(puts[-1:]):
            last = describe(puts[-1]) if puts else "nothing"
            case.fault("replicas", f"the dict has {describe(value)} of {writer.name}, which put {last} last")


def _judge_missing_keys(case: Case) -> None:
    """A value stays where by then a replica had the state, and its process was not killed later."""
    since_ns = min(
        (
            note.time_ns
            for worker in case.workers
            for note in worker.of(Kind.JOINED_REPLICA)
            if note.flags == _DICT and not worker.life(note.life).died_ns
        ),
        default=NEVER_NS,
    )
    writers = {worker.index for worker in case.workers if any(put.extra > since_ns for put in worker.of(Kind.PUT))}
    for reader in case.workers:
        keys = {note.number for note in reader.of(Kind.READ) if note.flags == _DICT}
        for index in writers - keys if WHOLE in keys else ():
            text = f"the dict has nothing of {case.workers[index].name} at {reader.name}"
            case.fault("replicas", f"{text}, and it had put something")


def _judge_lock(case: Case, findings: Findings) -> None:
    """No two hold the lock at the same time, and each holding has a number of its own."""
    held: dict[int, tuple[int, int, str]] = {}
    for worker in case.workers:
        until = {note.message: note.time_ns for note in worker.of(Kind.UNHOLDING)}
        for note in worker.of(Kind.HELD):
            if note.message in held:
                case.fault("lock", f"{worker.name} and {held[note.message][2]} had holding {note.message}")
            end_ns = until.get(note.message, worker.life(note.life).end_ns)
            held[note.message] = note.time_ns, end_ns, worker.name
    findings.counts["holdings"] = len(held)
    for (number, before), (later, after) in itertools.pairwise(sorted(held.items())):
        if after[0] < before[1]:
            text = f"{after[2]} got the lock (holding {later}) while {before[2]} had it (holding {number})"
            case.fault("lock", text)
