# SPDX-License-Identifier: Apache-2.0
"""`Peer.enter` of a group of one bus: with a state, what comes from the queue goes through a filter from here on."""

from __future__ import annotations

from typing import Any

from busq._native import _core as core
from busq._port.deadline import Deadline
from busq._port.group_members import checked_name, is_in

__all__ = ["enter_here"]


def enter_here(port: Any, group: str, state: Any = None, take: Any = None, timeout: float | None = None) -> None:
    """Do what `Peer.enter` does, with a group of this bus alone; ValueError for any other."""
    name = checked_name(group)
    if state is None and take is None:
        return core.change(port, "enter", name, timeout)
    from busq._state.group_state import prepare_to_enter  # here, since most members have no state

    deadline = Deadline(timeout)
    is_member = is_in(port, name)
    undo = prepare_to_enter(port, group, state, take, is_member)
    if undo is None:
        return None
    has_left = not is_member
    try:
        if is_member:
            core.change(port, "leave", name, deadline.left_s())
            has_left = True
        return core.change(port, "enter", name, deadline.left_s())
    except BaseException:
        if not (has_left and is_in(port, name)):  # a handler of a signal may strike when it is done
            undo()
        raise
