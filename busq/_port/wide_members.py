# SPDX-License-Identifier: Apache-2.0
"""Entering and leaving a group of several machines: requests to its bridge, as messages are.

The bridge re-sends to those that are members by the markers that it has read.  So what comes first to a peer that
enters is the view in which it is one, and what comes last to one that leaves the view in which it is none.
"""

from __future__ import annotations

import struct
from typing import Any

from busq._native import _core as core
from busq._port.wide import Bundle, ask
from busq._port.wide_protocol import ENTER, LEAVE

_TARGET = struct.Struct("<Q")


def request(port: Any, group: str) -> Bundle:
    """Return what is asked for: where messages to the group are to go."""
    return Bundle.of(group, _TARGET.pack(core.target(port)))


def target_in(data: bytes) -> int:
    """Return what stands in a request; ValueError for what is none."""
    if len(data) != _TARGET.size:
        raise ValueError(f"a request of {len(data)} bytes to enter or leave: expected {_TARGET.size}")
    return int(_TARGET.unpack(data)[0])


def check_state(group: str, state: Any, take: Any) -> None:
    """Raise ValueError where a state is to be given or taken."""
    if state is not None or take is not None:
        raise ValueError(
            f"'@{group}' is a group of several machines: its members give no state to those that enter; expected "
            f"neither `state` nor `take`, or a replica, whose members do: busq.replica.Replica.join(bus, '@{group}')"
        )


def enter(port: Any, group: str, state: Any, take: Any, timeout: float | None) -> None:
    """Do what `Peer.enter` does."""
    check_state(group, state, take)
    ask(port, request(port, group), timeout, ENTER)


def leave(port: Any, group: str, timeout: float | None) -> None:
    """Do what `Peer.leave` does."""
    ask(port, request(port, group), timeout, LEAVE)
