# SPDX-License-Identifier: Apache-2.0
"""Bridges, servers, members and the network between them fail, one after another: `campaign.py`, in small."""

from __future__ import annotations

from pathlib import Path

import campaign
import pytest
from bridging import need_server


@pytest.mark.long
@pytest.mark.parametrize("share", range(5))
def test_nothing_is_lost_doubled_or_disordered_whatever_fails(tmp_path: Path, seed: int, share: int) -> None:
    need_server()
    assert campaign.run(100, seed + share, tmp_path, print) == []
