# SPDX-License-Identifier: Apache-2.0
"""The last lines of `busq audit --follow` name the messages that stay open."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from busq.audit.spark.following.follow import Followed
from busq.cli.audit_follow import summary


def test_what_was_sent_again_or_out_of_turn_is_left_open() -> None:
    counts = {"runs": 1, "files": 1, "events": 3, "messages": 2, "deliveries": 1, "pending": 0}
    more = {"unproven": 0, "unwatched": 0, "unseen": (), "claimed": {}, "seconds": 1.0}
    words = summary(Followed(**counts, **more, counts={"resent": 1}))
    assert "nothing wrong so far with the others\n1 message sent again, or out of turn: " in words
    assert "not held against it" not in words
    assert summary(Followed(**counts, **more, counts={})).endswith("nothing wrong so far")
