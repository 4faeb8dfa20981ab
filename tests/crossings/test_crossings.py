# SPDX-License-Identifier: Apache-2.0
"""Every feature crossed with everything that may happen to it: each crossing comes to what `expected.py` has for it.

An eighth of the table, in which each feature meets every eighth event, and each event every eighth feature; the others
are among the long tests, which .ci/deep has.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crossings import expected, loads
from crossings.cell import run
from crossings.columns import EVENTS
from crossings.expected import FAULTS, SOMETIMES, Absent
from crossings.features import FEATURES
from crossings.ledger import Wrong

pytestmark = pytest.mark.slow

CELLS = [(feature, event) for feature in FEATURES for event in EVENTS]
PARTED = [
    pytest.param(feature, event, marks=[pytest.mark.long] if (row + column) % 8 else [])
    for row, feature in enumerate(FEATURES)
    for column, event in enumerate(EVENTS)
]


def test_what_stands_in_the_table_is_in_it() -> None:
    assert {*expected.BY_CELL, *FAULTS, *SOMETIMES} <= set(CELLS)
    assert set(expected.BY_EVENT) <= set(EVENTS)
    assert not [cell for cell in {**FAULTS, **SOMETIMES} if isinstance(expected.expected(*cell), Absent)]


@pytest.fixture(scope="module", autouse=True)
def surroundings() -> Iterator[None]:
    """The load that BUSQ_TEST_LOAD names."""
    with loads.load():
        yield


@pytest.mark.parametrize(("feature", "event"), PARTED)
def test_a_crossing_comes_to_what_is_expected(feature: str, event: str, seed: int) -> None:
    fault, sometimes = FAULTS.get((feature, event)), SOMETIMES.get((feature, event))
    try:
        print(run(feature, event, seed))
    except Wrong as error:
        if fault is None and sometimes is None:
            raise
        pytest.xfail(f"{fault or sometimes}: {' '.join(str(error).split())[:200]}")
    else:
        assert fault is None, f"the fault is mended: take its line out of FAULTS: {fault}"
