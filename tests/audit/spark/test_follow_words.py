# SPDX-License-Identifier: Apache-2.0
"""The last lines of `busq audit --follow` name the messages that stay open."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from busq.audit.spark.following.follow import Followed
from busq.cli.audit_follow import _code, summary


def test_what_was_sent_again_or_out_of_turn_is_left_open() -> None:
    counts = {"runs": 1, "files": 1, "events": 3, "messages": 2, "deliveries": 1, "pending": 0}
    more = {"unproven": 0, "unwatched": 0, "unseen": (), "claimed": {}, "seconds": 1.0}
    words = summary(Followed(**counts, **more, counts={"resent": 1}))
    assert "nothing wrong so far with the others\n1 message sent again, or out of turn: " in words
    assert "not held against it" not in words
    assert summary(Followed(**counts, **more, counts={})).endswith("nothing wrong so far")


@pytest.mark.parametrize(("kind", "code"), [("resent", 2), ("doubled", 1), ("truncated", 1), ("gap", 0)])
def test_what_is_left_out_is_neither_well_nor_judged(kind: str, code: int) -> None:
    """In numbers as in the exit code: nothing wrong with the others does not mean that all is well."""
    found = Followed(1, 1, 3, 2, 1, 0, 0, 0, (), {kind: 1}, {}, 1.0)
    told = found.as_json()
    assert (told["ok"], _code(found)) == (not code, code)
    assert told["verdicts"]["fifo"]["verdict"] == ("valid" if kind in ("gap", "truncated") else "unknown")
