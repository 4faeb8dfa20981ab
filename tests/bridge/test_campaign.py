# SPDX-License-Identifier: Apache-2.0
"""Bridges, servers, members and the network between them fail, one after another: `campaign.py`, in small."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import campaign
import pytest
from bridging import need_server
from conftest import fresh_python

import busq

KILLED = """
import os, campaign, busq
with campaign.own_buses():
    busq.Bus.create("wide-m1", capacity=1024)
    print(os.environ["BUSQ_DIR"], flush=True)
    os.kill(os.getpid(), 9)
"""


def test_one_that_was_killed_leaves_nothing_to_the_next() -> None:
    killed = fresh_python(KILLED)
    assert killed.returncode == -signal.SIGKILL
    left, before = Path(killed.stdout.strip()), os.environ["BUSQ_DIR"]
    assert left.exists()
    with campaign.own_buses():
        assert not left.exists()
        busq.Bus.create("wide-m1", capacity=1024).close()
    assert os.environ["BUSQ_DIR"] == before


@pytest.mark.long
@pytest.mark.parametrize("share", range(5))
def test_nothing_is_lost_doubled_or_disordered_whatever_fails(tmp_path: Path, seed: int, share: int) -> None:
    need_server()
    assert campaign.run(100, seed + share, tmp_path, print) == []
