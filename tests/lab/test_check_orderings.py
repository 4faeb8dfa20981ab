# SPDX-License-Identifier: Apache-2.0
"""Properties that an order need not promise: which order keeps which, and what the shortest way to break it is."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

from busq.check import ORDERINGS, lattice, run
from busq.cli import check_tables
from busq.lab.check.queues import fits
from busq.orders import ORDERS
from busq.stage import Stage

PAGE = Path(__file__).parents[2] / "docs" / "results" / "every-execution.md"


def rows_of_the_page() -> dict[str, list[str]]:
    """The table of the page: for each order, what stands under each property."""
    if not PAGE.exists():
        return {}
    section = PAGE.read_text(encoding="utf-8").partition("## Which order keeps what")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    assert rows[0] == ["order", *ORDERINGS]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


ROWS = rows_of_the_page()
QUICK = {"none", "fifo", "causal-vector", "causal-matrix", "ses", "ks", "sequencer"}  # less than half a second each


@pytest.mark.skipif(not PAGE.exists(), reason="needs the documentation, which is not part of an installation")
def test_the_page_has_a_row_for_each_order() -> None:
    assert set(ROWS) == set(ORDERS)


def in_time(name: str) -> Any:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.long)


@pytest.mark.parametrize("order", [in_time(name) for name in ROWS])
def test_a_row_of_the_page_is_what_the_search_finds(order: str) -> None:
    cells = list(lattice([order]))
    assert [cell.text for cell in cells] == ROWS[order]
    assert not any(one.doubts for cell in cells for one in cell.results)


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
