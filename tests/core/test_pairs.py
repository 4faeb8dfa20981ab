# SPDX-License-Identifier: Apache-2.0
"""Two threads may make any two public calls on one object, at the same time or one in the middle of the other.

`python tests/core/boundaries.py --pairs 1000000` does the same for as long as one likes.
"""

from __future__ import annotations

import pytest
from boundaries import Harness, all_kinds
from test_boundaries import disturb

COMPANY = "a peer in company"

pytestmark = pytest.mark.timeout(900)  # seconds on a quiet machine


def test_every_pair_of_methods_of_one_object_is_made() -> None:
    """Those of a peer in company, with groups and nodes, among each other."""
    ways = Harness(all_kinds("bus1,recording,fifo"), seed=0, seconds=1).ways()
    pairs = {
        (COMPANY if kind.name == COMPANY else owner, one, two)
        for (owner, one, two), calls in ways.items()
        for kind, _, _ in calls
    }
    methods = {(owner, method) for owner, method, _ in pairs}
    every = {(owner, one, two) for owner, one in methods for other, two in methods if owner == other}
    assert every - pairs == set()
    assert any(owner == COMPANY for owner, _, _ in pairs)


def test_two_calls_at_the_same_time_leave_the_bus_whole(seed: int) -> None:
    print(disturb(seed, "--pairs", "800", "--crossings", "0", "--of", "bus1,fifo,sync"))


def test_a_call_in_the_middle_of_another_leaves_the_bus_whole(seed: int) -> None:
    print(disturb(seed, "--pairs", "800", "--crossings", "1", "--of", "bus1,fifo,sync"))


@pytest.mark.parametrize("message", ["a message of 5000 bytes: ", "a message of 40 bytes, to be acknowledged: "])
def test_whatever_one_does_to_a_message_in_the_middle_of_something_else(message: str, seed: int) -> None:
    print(disturb(seed, "--every-crossing", "--of", "bus1", "--only", message))
