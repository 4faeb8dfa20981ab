# SPDX-License-Identifier: Apache-2.0
"""The rules of a bridge, searched with two kills at any step: none fails, and each is needed."""

from __future__ import annotations

import pytest
from bridge_model import MUTANTS, search


def test_with_all_rules_nothing_is_lost_doubled_or_disordered() -> None:
    states, why, path = search()
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
    _, why, path = search(mutant)
    assert why == FAILS[mutant], path
