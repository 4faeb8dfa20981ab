# SPDX-License-Identifier: Apache-2.0
"""Two or three features on one bus, and whatever happens to them, at random.

`PYTHONPATH=tests python -m crossings walks 1000000` runs as many walks as one likes, `... walk SEED` one of them again.
"""

from __future__ import annotations

import os

import pytest
from crossings import loads
from crossings.features import FEATURES
from crossings.run_walks import run_walks

WALKS = int(os.environ.get("BUSQ_TEST_WALKS", "200"))


@pytest.mark.timeout(max(900, WALKS))
def test_a_walk_over_several_features_loses_nothing(seed: int) -> None:
    with loads.load():
        wrong = run_walks(WALKS, seed)
    assert not wrong, f"{len(wrong)} of {WALKS} walks\n" + "\n\n".join(wrong[:10])


def test_features_that_are_kept_apart_are_features() -> None:
    from crossings.expected import APART

    assert {name for pair in APART for name in pair} <= set(FEATURES)
