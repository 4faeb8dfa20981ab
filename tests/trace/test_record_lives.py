# SPDX-License-Identifier: Apache-2.0
"""Recording peers that come back in the slots of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import busq

pytest.importorskip("pyarrow")


def talk(bus: busq.Bus, *names: str) -> None:
    """Join under these names, one slot after the other, and have the first send to all."""
    peers = [bus.join(name) for name in names]
    for _ in range(5):
        peers[0].send(names, b"hello")
        for peer in peers:
            peer.recv(timeout=0)
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("segment_s", [0.02, 60.0])
def test_peers_that_exchange_their_slots_are_recorded_in_order(
    make_bus: Callable[..., busq.Bus], tmp_path: Path, segment_s: float
) -> None:
    bus = make_bus(peers=3)
    with busq.trace.Recorder(bus, tmp_path, segment_s=segment_s) as recorder:
        for number in range(60):
            talk(bus, *(("ann", "bob", "cleo"), ("bob", "cleo", "ann"), ("cleo", "bob", "ann"))[number % 3])
    assert recorder.recording.rows >= 60 * 5 * 4
    for run in busq.audit.audit(tmp_path).runs:
        assert {name: check.text for name, check in run.checks.items() if check.claimed and not check.ok} == {}
