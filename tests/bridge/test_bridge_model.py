# SPDX-License-Identifier: Apache-2.0
"""The rules of a bridge, and of views, searched with kills at any step: none fails, and each is needed."""

from __future__ import annotations

from collections.abc import Collection

import bridge_model
import pytest
import views_model
from bridge_model import MUTANTS, search
from views_model import DEATH, LEAVE, OUT


def search_bridge(mutant: str = "") -> tuple[int, str, list[str]]:
    return search(bridge_model.Model(mutant), bridge_model.State(), bridge_model.faults, bridge_model.is_all_there)


def search_views(mutant: str, kills: int, happens: Collection[str]) -> tuple[int, str, list[str]]:
    return search(views_model.Model(mutant, kills, happens), views_model.State(), views_model.faults)


def test_with_all_rules_nothing_is_lost_doubled_or_disordered() -> None:
    states, why, path = search_bridge()
    assert (why, path) == ("", [])
    assert states > 60_000


FAILS = {
    "cursor outside of the multicast": "doubled",
    "reply at publish": "replied to before it is here",
    "inbox after re-send": "doubled",
    "no fence": "doubled",
    "no epoch": "doubled",
    "two streams": "disordered",
    "sync by stream info": "let go on before what it knew of is here",
    "answer at the first message": "replied to before it is here",
    "cursor before request": "doubled",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_a_rule_an_execution_fails(mutant: str) -> None:
    _, why, path = search_bridge(mutant)
    assert why == FAILS[mutant], path


@pytest.mark.parametrize(
    ("kills", "happens", "n_states"),
    [
        (2, (), 13_935),
        (1, (OUT,), 39_833),
        (0, (DEATH,), 8_402),
        (1, (LEAVE,), 7_553),
        pytest.param(2, (OUT,), 351_782, marks=pytest.mark.long),
        pytest.param(2, (LEAVE, OUT), 1_464_041, marks=pytest.mark.long),
        pytest.param(1, (DEATH,), 171_513, marks=pytest.mark.long),
        pytest.param(0, (DEATH, OUT), 182_463, marks=pytest.mark.long),
    ],
)
def test_with_all_rules_each_life_sees_the_views_of_the_stream(
    kills: int, happens: Collection[str], n_states: int
) -> None:
    states, why, path = search_views("", kills, happens)
    assert (why, path) == ("", [])
    assert states == n_states


VIEWS_FAIL = {
    "out without a fence": (0, (OUT,), "put out, and has spoken"),
    "out that fences nothing": (0, (OUT,), "out, and not begun anew"),
    "own batch confused with the marker": (0, (OUT,), "out, and not begun anew"),
    "view before the multicast": (1, (), "lost"),
    "view behind the multicast": (1, (), "lost"),
    "members not kept": (1, (), "lost"),
    "enter without its number": (1, (), "doubled"),
    "death first": (0, (DEATH,), "sent behind its death"),
    "death without its life": (0, (DEATH,), "seen otherwise"),
    "members stay": (0, (OUT,), "lost"),
    "view for those in it": (0, (LEAVE,), "lost"),
}


@pytest.mark.parametrize("mutant", views_model.MUTANTS)
def test_without_a_rule_of_views_an_execution_fails(mutant: str) -> None:
    kills, happens, expected = VIEWS_FAIL[mutant]
    _, why, path = search_views(mutant, kills, happens)
    assert why == expected, path
