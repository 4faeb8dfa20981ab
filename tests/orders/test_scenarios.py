# SPDX-License-Identifier: Apache-2.0
"""Scenarios: executions of the papers, written down with everything that they cause, and played again.

tests/orders/scenarios/<order>/<name>.txt is a transcript to be followed with the paper in hand.  Comments carry the
sentences of the source, commands begin with ">", and what a command caused stands below it, further in; busq.scenario
lists the commands.  A new scenario needs only comments and commands:

    BUSQ_REWRITE_SCENARIOS=1 pytest tests/orders/test_scenarios.py

writes what they cause.  If a scenario fails, run that, and look at the difference: keep it only if you understand what
caused it, and want it.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
from conftest import TESTS

from busq.orders import ORDERS
from busq.scenario import load, play

FOLDER = TESTS / "orders" / "scenarios"
SCENARIOS = sorted(FOLDER.glob("*/*.txt"))


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_scenario(path: Path) -> None:
    written = path.read_text(encoding="utf-8")
    played = load(path).text
    if os.environ.get("BUSQ_REWRITE_SCENARIOS"):
        path.write_text(played, encoding="utf-8")
        return
    difference = difflib.unified_diff(written.splitlines(), played.splitlines(), "written", "played", lineterm="")
    assert written == played, "the scenario goes differently now:\n" + "\n".join(difference)


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_a_scenario_stands_with_its_order_and_says_what_it_shows(path: Path) -> None:
    scenario = load(path)
    assert scenario.execution.order.partition(":")[0] == path.parent.name
    assert len(scenario.title) > 20


def test_there_are_scenarios_of_known_orders_only() -> None:
    assert {path.parent.name for path in SCENARIOS} <= set(ORDERS)
    assert len(SCENARIOS) > 20


# ---- the player itself ----


def test_what_a_scenario_says_that_commands_cause_is_written_anew() -> None:
    text = "# a word\norder none: p q\n> p sends m1 to q\n  whatever\n\n> q receives m1\n"
    assert play(text).text == (
        "# a word\norder none: p q\n> p sends m1 to q\n  p -> q: data m1\n\n> q receives m1\n  q delivers m1\n"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a line like"),
        ("order nine: p q", "line 1.*expected one of none"),
        ("> p sends m1 to q", "line 1.*once, and first"),
        ("order none: p q\norder none: p q", "line 2.*once, and first"),
        ("order none: p q\n> p dances", "line 2.*no such command"),
        ("order none: p q\n> p sends m1 to r", "line 2.*'r' is not one of p, q"),
        ("order none: p q\n> p sends m1 to q\n> p sends m1 to q", "line 3.*a message m1 already"),
        ("order none: p q\n> q receives data", "line 2.*no such packet"),
        ("order none: p q\n> q receives m1", "line 2.*'m1' is neither"),
        ("order none: p q\n> p's alarm goes off", "line 2.*set no alarm"),
        ("order none: p q\n> verdict beauty", "line 2.*unknown property 'beauty'"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        play(text)


def test_what_is_under_way_is_not_lost_but_not_delivered_yet() -> None:
    text = """\
order fifo: p q
> p sends m1 to q
> p sends m2 to q
> q receives m2
> verdict lost fifo
> everything arrives
> verdict lost
"""
    played = play(text)
    assert "> verdict lost fifo\n  lost: 2 copies are not delivered yet\n  in order: fifo\n" in played.text
    assert played.text.endswith("> verdict lost\n  in order: lost\n")
    assert played.execution.finished


def test_what_the_network_lost_for_good_is_lost() -> None:
    played = play("order none: p q\n> p sends m1 to q\n> the network loses data m1 to q\n> verdict lost\n")
    assert played.text.endswith("  lost is broken, 1 time: q never delivered m1, which p sent to it\n")


def test_who_waits_for_each_other_for_good_loses_what_they_wanted_to_send() -> None:
    """Nothing is under way and no alarm is set, so nothing can happen any more: no prefix."""
    played = play("order sync-naive: p q\n> p sends m1 to q\n> q sends m2 to p\n> everything arrives\n> verdict lost\n")
    assert "lost is broken, 2 times" in played.text
