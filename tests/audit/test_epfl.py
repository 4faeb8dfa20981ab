# SPDX-License-Identifier: Apache-2.0
"""The observers on logs of broadcast programs, as a course on distributed algorithms asks for them (EPFL CS-451).

One file per process: ``b 7`` means that it broadcast its 7th message, to all including itself, ``d 3 7`` that it
delivered the 7th message of process 3.  What is wrong with each run had been found out before, by other means.  Real
runs are read too where they are (see samples.py).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from samples import COURSE, course

from busq.spec import PROPERTIES, REMARKS, History, Verdict

PER_PROCESS = 1 << 32  # the name of a message: its sender times this, plus its number
CLEAN = dict.fromkeys(PROPERTIES + REMARKS, 0)

Logs = dict[int, str]


def read(folder: Path, family: str | None = None) -> Logs:
    """The logs of one run, by process; a directory may hold the files of two, that differ in how they are named."""
    logs: Logs = {}
    for path in sorted(folder.glob("*.output")):
        prefix, number = re.fullmatch(r"(\D*)(\d+)\.output", path.name).groups()  # type: ignore[union-attr]
        if family in (None, prefix):
            logs[int(number)] = path.read_text()
    return logs


def read_mixed(folder: Path) -> Logs:
    """What a reader gets that does not see that there are two runs: a log is all that carries the process's number."""
    first, second = read(folder, ""), read(folder, "proc")
    return {process: first.get(process, "") + second.get(process, "") for process in sorted(first | second)}


def without_empty(logs: Logs) -> Logs:
    return {process: log for process, log in logs.items() if log}


def to_history(logs: Logs) -> History:
    history = History([str(process) for process in logs])
    for process, log in logs.items():
        for line in log.splitlines():
            kind, *numbers = line.split()
            if kind == "b":
                history.send(str(process), process * PER_PROCESS + int(numbers[0]), history.processes)
            else:
                assert kind == "d"
                history.deliver(str(process), int(numbers[0]) * PER_PROCESS + int(numbers[1]))
    return history


def judge(logs: Logs) -> dict[str, Verdict]:
    return to_history(logs).judge(PROPERTIES + REMARKS)


def counts(logs: Logs) -> dict[str, int]:
    return {name: verdict.count for name, verdict in judge(logs).items()}


# ---- a second opinion, by other means ----


Message = tuple[int, int]  # sender, number


def deliveries(log: str) -> list[Message]:
    return [(int(line.split()[1]), int(line.split()[2])) for line in log.splitlines() if line[0] == "d"]


def sends(log: str) -> list[int]:
    return [int(line[2:]) for line in log.splitlines() if line[0] == "b"]


def count_on_cycles(logs: Logs) -> int:
    """How many messages lie on cycles of the union of all delivery orders."""
    following: dict[Message, set[Message]] = {}
    for log in logs.values():
        order = deliveries(log)
        for message in order:
            following.setdefault(message, set())
        for message, successor in pairwise(order):
            following[message].add(successor)
    return sum(len(component) for component in components(following) if len(component) > 1)


def components(following: dict[Message, set[Message]]) -> list[set[Message]]:
    """Strongly connected components by two searches: forwards for the order in which messages are left, then back."""
    left: list[Message] = []
    seen: set[Message] = set()
    for root in following:
        stack = [] if root in seen else [(root, iter(following[root]))]
        seen.add(root)
        while stack:
            message, successors = stack[-1]
            successor = next((s for s in successors if s not in seen), None)
            if successor is None:
                left.append(message)
                stack.pop()
            else:
                seen.add(successor)
                stack.append((successor, iter(following[successor])))
    preceding: dict[Message, list[Message]] = {message: [] for message in following}
    for message, its_successors in following.items():
        for successor in its_successors:
            preceding[successor].append(message)
    found: list[set[Message]] = []
    taken: set[Message] = set()
    for root in reversed(left):
        component: set[Message] = set()
        front = {root} - taken
        while front:
            component |= front
            taken |= front
            front = {m for n in front for m in preceding[n]} - taken
        found.append(component)
    return found


def count_on_crowns(logs: Logs) -> int:
    """How many messages lie on crowns: all events of a message are one point, and lead to the next event of the log."""
    delivered = {message for log in logs.values() for message in deliveries(log)}
    sent = {(process, int(line[2:])) for process, log in logs.items() for line in log.splitlines() if line[0] == "b"}
    following: dict[Message, set[Message]] = {message: set() for message in delivered & sent}
    for process, log in logs.items():
        events = [tuple(map(int, line.split()[1:])) for line in log.splitlines()]
        messages = [(process, event[0]) if len(event) == 1 else (event[0], event[1]) for event in events]
        for message, successor in pairwise(m for m in messages if m in following):
            following[message].add(successor)
    return sum(len(component) for component in components(following) if len(component) > 1)


def count_causal(logs: Logs) -> int:
    """Late deliveries, by vector clocks that are handed from log to log until all logs are read."""
    clock = {process: dict.fromkeys(logs, 0) for process in logs}
    known = {process: dict.fromkeys(logs, 0) for process in logs}  # by what was delivered, not by having sent it
    carried: dict[Message, dict[int, int]] = {}
    waiting = {process: log.splitlines() for process, log in logs.items()}
    late = 0
    while any(waiting.values()):
        for process, lines in waiting.items():
            done = 0
            for line in lines:
                numbers = [int(word) for word in line.split()[1:]]
                if line[0] == "b":
                    clock[process][process] = numbers[0]
                    carried[process, numbers[0]] = dict(clock[process])
                elif (numbers[0], numbers[1]) not in carried:
                    break
                else:
                    late += known[process][numbers[0]] >= numbers[1]
                    for other, number in carried[numbers[0], numbers[1]].items():
                        known[process][other] = max(known[process][other], number)
                        clock[process][other] = max(clock[process][other], number)
                done += 1
            waiting[process] = lines[done:]
    return late


def crowns(logs: Logs) -> dict[str, int]:
    """A process that broadcasts many messages at once crosses those of the others: nearly all of them are on crowns."""
    count = count_on_crowns(logs)
    assert count > 0
    return {"synchronous": count}


# ---- what is known about each run ----

ALONE = [name for name in COURSE if "/" not in name]
NOT_CAUSAL = [name for name in ALONE if "causal" in COURSE[name].faults]
TWO = sorted({name.partition("/")[0] for name in COURSE} - set(ALONE))


@pytest.mark.parametrize("name", ALONE)
def test_what_is_wrong_with_a_run_is_found_and_nothing_else(samples: Path, name: str) -> None:
    logs = read(course(samples, name))
    assert len(logs) == COURSE[name].processes
    assert counts(logs) == {**CLEAN, **COURSE[name].faults, "total": count_on_cycles(logs), **crowns(logs)}
    assert count_causal(without_empty(logs)) == COURSE[name].faults.get("causal", 0)


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_processes_without_a_log_have_lost_everything_and_change_nothing_else(samples: Path, name: str) -> None:
    logs = read(course(samples, name))
    empty = len(logs) - len(without_empty(logs))
    assert empty > 0
    assert counts(logs) == {**counts(without_empty(logs)), "lost": empty * COURSE[name].broadcasts}


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_a_witness_stands_in_the_logs(samples: Path, name: str) -> None:
    """The chain of the witness, looked up in the files."""
    logs = without_empty(read(course(samples, name)))
    witness = judge(logs)["causal"].witness
    assert witness is not None
    late, other = (divmod(message, PER_PROCESS) for message in witness.messages)
    receiver, sender, other_sender = map(int, witness.processes)
    assert (sender, other_sender) == (late[0], other[0])
    lines = logs[receiver].splitlines()
    assert lines.index(f"d {other[0]} {other[1]}") < lines.index(f"d {late[0]} {late[1]}")
    message = late
    for carried, process in witness.steps:
        step = divmod(carried, PER_PROCESS)
        assert step[0] == message[0]
        assert step[1] >= message[1]
        lines = logs[int(process)].splitlines()
        following = [int(line[2:]) for line in lines[lines.index(f"d {step[0]} {step[1]}") :] if line[0] == "b"]
        message = (int(process), following[0])
    assert message[0] == other[0]
    assert message[1] <= other[1]


@pytest.mark.parametrize("name", TWO)
def test_a_folder_of_two_runs_is_judged_run_by_run(samples: Path, name: str) -> None:
    for family, source in (("", f"{name}/N.output"), ("proc", f"{name}/procN.output")):
        logs = without_empty(read(course(samples, name), family))
        faults = dict(COURSE[source].faults)
        if "empty-log" in COURSE[source].findings:
            faults.pop("lost", None)  # by those that wrote no log
        assert counts(logs) == {**CLEAN, **faults, "total": count_on_cycles(logs), **crowns(logs)}
        assert count_causal(logs) == faults.get("causal", 0)


@pytest.mark.parametrize("name", TWO)
def test_two_runs_read_as_one_are_found_out(samples: Path, name: str) -> None:
    """Messages with the same name in both are sent twice, and delivered twice by the processes that took part."""
    folder = course(samples, name)
    first, second, mixed = read(folder, ""), read(folder, "proc"), read_mixed(folder)
    assert set(mixed) == set(first) == set(second)
    verdicts = judge(mixed)
    assert verdicts["resent"].count == sum(len(set(sends(first[p])) & set(sends(second[p]))) for p in mixed)
    assert verdicts["duplicated"].count == sum(
        len(set(deliveries(first[process])) & set(deliveries(second[process]))) for process in mixed
    )
    found = {verdict for verdict in verdicts if not verdicts[verdict].ok}
    assert {"duplicated", "causal", "consistent", "total", "synchronous", "resent"} <= found
    assert found <= {"lost", "duplicated", "causal", "consistent", "total", "synchronous", "resent"}
