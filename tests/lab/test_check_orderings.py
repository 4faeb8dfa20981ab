# SPDX-License-Identifier: Apache-2.0
"""Properties that an order need not promise: which order keeps which, and what the shortest way to break it is."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import run_command

from busq.check import ORDERINGS, lattice, run
from busq.cli import check_tables
from busq.lab.check.queues import fits
from busq.stage import Stage

# Point to point, 3 x 2: steps of a shortest counterexample; what is not there holds.
STEPS = {
    "mfss": {"n-n": 9, "mysterious": 4, "synchronous": 4},
    "cykas": {"mailbox": 12, "1-n": 12, "n-n": 9, "mysterious": 4, "synchronous": 4},
    "cykas-telling": {"c2": 9, "causal": 9, "mailbox": 9, "1-n": 9, "n-n": 8, "mysterious": 4, "synchronous": 4},
    "fifo": {"c2": 6, "causal": 6, "mailbox": 6, "1-n": 6, "n-n": 6, "mysterious": 4, "synchronous": 4},
    "sync-naive": {},
}


@pytest.mark.long
@pytest.mark.parametrize("order", STEPS)
def test_what_is_broken_point_to_point_and_in_how_many_steps(order: str) -> None:
    cells = {cell.name: cell for cell in lattice([order])}
    assert {name: cell.steps for name, cell in cells.items() if not cell.holds} == STEPS[order]
    assert all(cell.complete for cell in cells.values() if cell.holds)
    assert not any(one.doubts for cell in cells.values() for one in cell.results)


KEPT = {
    "none": set(),
    "causal-matrix": {"fifo", "c2", "causal"},
    "sequencer": {"fifo", "c2", "causal", "mailbox", "1-n", "consistent", "total"},
}


@pytest.mark.parametrize("order", KEPT)
def test_the_observers_see_what_is_broken_in_multicasts(order: str) -> None:
    cells = {cell.name: cell for cell in lattice([order])}
    assert not any(one.doubts for cell in cells.values() for one in cell.results)
    assert {name for name, cell in cells.items() if cell.holds} == KEPT[order]


def executions(order: str, messages: int, fan_out: int, chance: random.Random, count: int) -> Iterator[Stage]:
    """Whole ones of 3 processes, at random."""
    for _ in range(count):
        stage = Stage(order, 3)
        senders = [process for process in range(3) for _ in range(messages)]
        chance.shuffle(senders)
        for sender in senders:
            others = [process for process in range(3) if process != sender]
            stage.submit(sender, "", chance.sample(others, chance.randint(1, fan_out)))
            stage.run(chance.getrandbits(63), limit=chance.randrange(3))
        stage.run(chance.getrandbits(63))
        yield stage


@pytest.mark.parametrize(("order", "messages", "fan_out"), [("mfss", 2, 1), ("sequencer", 1, 2)])
def test_what_holds_in_every_execution_holds_in_random_ones(order: str, messages: int, fan_out: int, seed: int) -> None:
    for stage in executions(order, messages, fan_out, random.Random(seed), 100):
        assert fits(stage.execution(), "mailbox")
        assert fits(stage.execution(), "1-n")


def test_the_classes_with_queues_lie_in_each_other_point_to_point(seed: int) -> None:
    """Synchronous, n-n, 1-n, mailbox, causal: each is part of the next."""
    met = set()
    for stage in executions("none", 2, 1, random.Random(seed), 300):
        verdicts = stage.judge(["synchronous", "causal"])
        inner = (fits(stage.execution(), name) for name in ("n-n", "1-n", "mailbox"))
        classes = (verdicts["synchronous"].ok, *inner, verdicts["causal"].ok)
        assert list(classes) == sorted(classes), stage.execution().events
        met.add(classes)
    assert len(met) >= 3


def test_a_textbook_calls_causal_c1_and_c3() -> None:
    for name in ("c1", "c3"):
        assert run("fifo", messages=2, properties=[name]).broken == ("causal",)


def test_what_is_asked_for_is_handed_on_and_read_again() -> None:
    example = run("mfss", messages=2, properties=["n-n"]).counterexample
    assert example is not None
    assert type(example).from_json(example.to_json()) == example
    assert example.confirmed() == {"n-n": True}
    assert example.sentences() == {"n-n": "no run of all events with one queue for all has these deliveries"}
    example = run("mfss", messages=2, properties=["mysterious"]).counterexample
    assert example is not None
    assert "mysterious is broken" in example.scenario()


def test_the_lattice_is_printed_as_a_table_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_tables, "make_lattice", functools.partial(lattice, ["none"]))
    told = run_command("check", "--lattice", "--markdown")
    assert told.exit_code == 0
    lines = [line.strip("|") for line in told.stdout.splitlines()]
    heads, _, row = ([cell.strip() for cell in line.split("|")] for line in lines)
    assert heads == ["order", *ORDERINGS]
    assert row == ["none", *["4"] * len(ORDERINGS)]
    points = json.loads(run_command("check", "--lattice", "--json").stdout)["points"]
    assert [one["property"] for one in points] == list(ORDERINGS)
    expected = {"order": "none", "property": "total", "claimed": False, "holds": False, "complete": False, "steps": 4}
    assert {name: points[-1][name] for name in expected} == expected
    assert run_command("check", "--lattice", "--all").exit_code == 2


def test_the_lattice_as_a_picture_says_what_each_cell_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    some = functools.partial(lattice, ["mfss", "none"], ["causal", "synchronous", "total"])
    monkeypatch.setattr(check_tables, "make_lattice", some)
    path = tmp_path / "lattice.svg"
    told = run_command("check", "--lattice", "--json", "--plot", path)
    assert (told.exit_code, told.stderr) == (0, f"wrote {path}\n")
    assert [one["vacuous"] for one in json.loads(told.stdout)["points"]] == [False, False, True, False, False, False]
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    legend = {
        "promised, and kept",
        "not implied: steps of a shortest counterexample",
        "vacuous: nothing within the bounds could break it",
    }
    assert set(drawn) == {"mfss", "none", "causal", "synchronous", "total", "holds", "vacuous", "4", *legend}
    assert (len(drawn), drawn.count("4")) == (14, 4)
    refused = run_command("check", "fifo", "--plot", path)
    assert (refused.exit_code, "--plot is for --lattice" in refused.stderr) == (2, True)


def test_a_cell_that_was_not_searched_to_its_end_is_open() -> None:
    (cell,) = lattice(["mfss"], ["mailbox"], depth=5)
    assert (cell.text, cell.holds, cell.complete) == ("?", True, False)
