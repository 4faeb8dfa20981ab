# SPDX-License-Identifier: Apache-2.0
"""The observers on logs that nobody here wrote: broadcast programs of a course on distributed algorithms (EPFL CS-451).

One file per process: ``b 7`` means that it broadcast its 7th message, to everybody including itself, ``d 3 7`` that it
delivered the 7th message of process 3.  What is wrong with each run had been found out before, by other means.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from busq.spec import PROPERTIES, REMARKS, History, Verdict

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "epfl"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the EPFL logs are not in ../shared/data/epfl")

PER_PROCESS = 1 << 32  # the name of a message: its sender times this, plus its number
CLEAN = dict.fromkeys(PROPERTIES + REMARKS, 0)

Logs = dict[int, str]


def read(run: str, family: str = "") -> Logs:
    """The logs of one run, by process; a directory may hold the files of two, that differ in how they are named."""
    logs: Logs = {}
    for path in sorted((DATA / run).glob("*.output")):
        prefix, number = re.fullmatch(r"(\D*)(\d+)\.output", path.name).groups()  # type: ignore[union-attr]
        if prefix == family:
            logs[int(number)] = path.read_text()
    return logs


def read_mixed(run: str) -> Logs:
    """What somebody reads who does not see that there are two runs: a log is all that carries the process's number."""
    first, second = read(run), read(run, "proc")
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
    """Whoever broadcasts many messages at once crosses those of the others: nearly all of them are on crowns."""
    count = count_on_crowns(logs)
    assert count > 0
    return {"synchronous": count}


# ---- what is known about each run ----


def test_dm_20201124_is_causal_and_nobody_agrees() -> None:
    logs = read("dm-20201124", "proc")
    assert counts(logs) == {**CLEAN, "consistent": 45, "total": count_on_cycles(logs), **crowns(logs)}


def test_gi_20211114_is_causal_and_nobody_agrees() -> None:
    logs = read("gi-20211114", "proc")
    assert counts(logs) == {**CLEAN, "consistent": 36, "total": count_on_cycles(logs), **crowns(logs)}


def test_sd_20211212_is_causal_and_nobody_agrees() -> None:
    logs = read("sd-20211212")
    assert counts(logs) == {**CLEAN, "consistent": 3, "total": count_on_cycles(logs), **crowns(logs)}


def test_sd_20211211_was_cut_short() -> None:
    logs = read("sd-20211211")
    assert counts(logs) == {**CLEAN, "lost": 4143, "consistent": 3, "total": count_on_cycles(logs), **crowns(logs)}
    assert count_causal(logs) == 0


def test_dm_20201111_is_fifo_and_not_causal() -> None:
    logs = without_empty(read("dm-20201111", "proc"))
    assert len(logs) == 7
    assert count_causal(logs) == 3278
    assert counts(logs) == {**CLEAN, "causal": 3278, "consistent": 21, "total": count_on_cycles(logs), **crowns(logs)}


def test_dm_20201111_lost_everything_for_three_that_wrote_no_log() -> None:
    logs = read("dm-20201111", "proc")
    assert len(logs) == 10
    assert counts(logs) == {**counts(without_empty(logs)), "lost": 3 * 7000}


def test_dm_20201111_has_a_witness_that_stands_in_the_logs() -> None:
    """The chain of the witness, looked up in the files."""
    logs = without_empty(read("dm-20201111", "proc"))
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


def test_mg_20211121_holds_two_runs() -> None:
    first = without_empty(read("mg-20211121"))
    assert len(first) == 5
    assert counts(first) == {
        **CLEAN,
        "causal": count_causal(first),
        "consistent": 10,
        "total": count_on_cycles(first),
        **crowns(first),
    }
    second = read("mg-20211121", "proc")
    assert len(second) == 10
    assert counts(second) == {**CLEAN, "lost": 566, "consistent": 40, "total": 150, **crowns(second)}
    assert count_causal(second) == 0
    assert count_on_cycles(second) == 150


def test_mg_20211121_mixed_is_found_out() -> None:
    """Read as one run: messages with the same name in both are sent twice, and delivered twice by who took part."""
    first, second, mixed = read("mg-20211121"), read("mg-20211121", "proc"), read_mixed("mg-20211121")
    assert len(mixed) == 10
    verdicts = judge(mixed)
    assert verdicts["resent"].count == 5 * 20
    assert verdicts["duplicated"].count == sum(
        len(set(deliveries(first[process])) & set(deliveries(second[process]))) for process in mixed
    )
    found = {name for name, verdict in verdicts.items() if not verdict.ok}
    assert found == {"lost", "duplicated", "causal", "consistent", "total", "synchronous", "resent"}
