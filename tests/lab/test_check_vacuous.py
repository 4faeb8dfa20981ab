# SPDX-License-Identifier: Apache-2.0
"""A check that could not fail within its bound reports that: no order, whatever it does, could break the property."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from conftest import run_command

from busq.check import run
from busq.lab.check.vacuous import Sends, vacuous
from busq.spec import History

ORDERING = ("fifo", "causal", "consistent", "total")
CHOICES = [
    Sends(2, 1, 1),
    Sends(2, 2, 1),
    Sends(2, 1, 1, to_self=True),
    Sends(2, 1, 2, to_self=True),
    Sends(3, 1, 1),
    Sends(3, 1, 2),
    Sends(3, 2, 1),
    Sends(3, 2, 2),
    Sends(4, 1, 1),
    Sends(4, 1, 2),
]
BROADCAST = [Sends(2, 2, 1, given=(2, 2, 1, 1)), Sends(3, 1, 2, given=(6, 5, 3)), Sends(4, 1, 3, given=(14, 13, 11, 7))]


def drawn(sends: Sends, chance: random.Random) -> History:
    """Any order that delivers what was sent, once: a message may be sent, and a copy delivered, at any moment."""
    history = History([f"p{number}" for number in range(sends.processes)])
    unsent = {process: list(range(sends.messages)) for process in range(sends.processes)}
    flying: list[tuple[int, int]] = []
    while any(unsent.values()) or flying:
        ready = [process for process, left in unsent.items() if left]
        at = chance.randrange(len(ready) + len(flying))
        if at >= len(ready):
            receiver, message = flying.pop(at - len(ready))
            history.deliver(receiver, message)
            continue
        process = ready[at]
        number = process * sends.messages + unsent[process].pop(0)
        to = destinations(sends, process, number, chance)
        history.send(process, number + 1, to)
        flying += [(receiver, number + 1) for receiver in to]
    return history


def destinations(sends: Sends, process: int, number: int, chance: random.Random) -> Sequence[int]:
    if sends.given:
        return [one for one in range(sends.processes) if sends.given[number] >> one & 1]
    possible = [one for one in range(sends.processes) if sends.to_self or one != process]
    return chance.sample(possible, chance.randint(1, min(sends.fan_out, len(possible))))


def broken_in_some(sends: Sends, seed: int, executions: int = 2000) -> set[str]:
    chance = random.Random(seed)
    found: set[str] = set()
    for _ in range(executions):
        found |= {name for name, verdict in drawn(sends, chance).judge(ORDERING).items() if not verdict.ok}
    return found


@pytest.mark.parametrize("sends", [*CHOICES, *BROADCAST], ids=repr)
def test_vacuous_is_exactly_what_no_execution_breaks(sends: Sends, seed: int) -> None:
    assert broken_in_some(sends, seed) == set(ORDERING).difference(vacuous(sends))


def test_given_destinations_that_break_something_are_never_called_vacuous(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        processes, messages = chance.choice([(2, 2), (3, 1), (3, 2), (4, 1)])
        others = [((1 << processes) - 1) & ~(1 << process) for process in range(processes) for _ in range(messages)]
        given = tuple(chance.choice([to for to in range(1, most + 1) if to & ~most == 0]) for most in others)
        sends = Sends(processes, messages, processes - 1, given=given)
        print(sends)
        assert not broken_in_some(sends, seed, 200) & set(vacuous(sends))


@pytest.mark.parametrize(
    ("order", "processes", "messages", "expected"),
    [
        ("fifo", 3, 1, {"fifo", "causal"}),  # whether receivers agree is no question where a message has one receiver
        ("fifo", 2, 2, set()),
        ("causal-vector", 2, 1, {"fifo", "causal"}),
        ("skeen", 3, 1, {"fifo", "consistent"}),
    ],
)
def test_a_check_names_what_could_not_break(order: str, processes: int, messages: int, expected: set[str]) -> None:
    found = run(order, processes, messages, memory=64 << 20, threads=1)
    assert found.holds
    assert found.complete
    assert {*found.vacuous} - {"genuine"} == expected
    assert set(found.as_json()["vacuous"]) == {*found.vacuous}
    promised = {name for name in found.promised if name in ORDERING}
    assert found.is_vacuous is (promised <= expected)


def told(*arguments: str) -> str:
    return run_command("check", *arguments, "--memory", "64MiB", "--threads", "1").stdout


def test_the_command_says_vacuous_instead_of_holds() -> None:
    text = told("fifo", "--processes", "3", "--messages", "1")
    assert "VACUOUS: within this bound no order could break fifo" in text
    assert "HOLDS" not in text
    rows = {line.split()[0]: line.split()[1:3] for line in text.splitlines() if line.strip()}
    assert rows["fifo"] == ["yes", "vacuous"]
    assert rows["lost"] == ["yes", "yes"]
    text = told("fifo", "--processes", "2", "--messages", "2")
    assert "HOLDS" in text
    assert "VACUOUS" not in text


def test_what_is_asked_for_and_could_not_break_is_vacuous_too() -> None:
    asked = ["skeen", "--processes", "3", "--messages", "1", "--property"]
    assert "VACUOUS: within this bound no order could break consistent" in told(*asked, "consistent")
    assert "HOLDS" in told(*asked, "total")
